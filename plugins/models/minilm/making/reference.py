"""What the vectors of all-MiniLM-L6-v2 are: BERT written out in numpy, float32, slowly, without anything of ONNX.

The recorded vectors were made by this. It was compared with sentence-transformers, see benchmarks/embedding.py.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

LAYERS, HEADS, EPSILON = 6, 12, 1e-12

error_function = np.vectorize(math.erf, otypes=[np.float32])


def dense(weights: dict[str, Any], name: str, values: Any) -> Any:
    """A product with a matrix, plus its bias."""
    return values @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def normalize(weights: dict[str, Any], name: str, values: Any) -> Any:
    """Each row to mean 0 and variance 1, then scaled and moved as the model says."""
    centered = values - values.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centered**2).mean(axis=-1, keepdims=True) + EPSILON)
    return centered / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def attend(weights: dict[str, Any], name: str, values: Any) -> Any:
    """What each word piece takes from all of them."""

    def heads(part: str) -> Any:
        return dense(weights, f"{name}.{part}", values).reshape(len(values), HEADS, -1).transpose(1, 0, 2)

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return (shares @ value).transpose(1, 0, 2).reshape(values.shape)


def embed(weights: dict[str, Any], ids: Sequence[int]) -> Any:
    """The vector of a text, of length 1, from the ids of its word pieces, ``[CLS]`` and ``[SEP]`` among them."""
    words = weights["embeddings.word_embeddings.weight"][list(ids)]
    places = weights["embeddings.position_embeddings.weight"][: len(ids)]
    values = words + places + weights["embeddings.token_type_embeddings.weight"][0]
    values = normalize(weights, "embeddings.LayerNorm", values)
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        attended = dense(weights, f"{name}.attention.output.dense", attend(weights, f"{name}.attention.self", values))
        values = normalize(weights, f"{name}.attention.output.LayerNorm", values + attended)
        wide = dense(weights, f"{name}.intermediate.dense", values)
        wide = wide * (1 + error_function(wide / math.sqrt(2))) / 2
        values = normalize(weights, f"{name}.output.LayerNorm", values + dense(weights, f"{name}.output.dense", wide))
    mean = values.mean(axis=0)
    return mean / np.linalg.norm(mean)
