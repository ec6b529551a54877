"""The reference for the vectors of all-MiniLM-L6-v2: BERT in plain numpy, in float32, without ONNX.

The recorded vectors come from this. benchmarks/embedding.py compares it with sentence-transformers.
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
    """Multiply by a matrix and add its bias."""
    return values @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def normalize(weights: dict[str, Any], name: str, values: Any) -> Any:
    """Bring each row to mean 0 and variance 1, then scale and shift it with the weights."""
    centered = values - values.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centered**2).mean(axis=-1, keepdims=True) + EPSILON)
    return centered / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def attend(weights: dict[str, Any], name: str, values: Any) -> Any:
    """Apply self-attention."""

    def heads(part: str) -> Any:
        return dense(weights, f"{name}.{part}", values).reshape(len(values), HEADS, -1).transpose(1, 0, 2)

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return (shares @ value).transpose(1, 0, 2).reshape(values.shape)


def embed(weights: dict[str, Any], ids: Sequence[int]) -> Any:
    """Embed a text, given the ids of its word pieces with ``[CLS]`` and ``[SEP]``. The vector has length 1."""
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
