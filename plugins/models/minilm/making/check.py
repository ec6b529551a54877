"""Refuse a model whose vectors differ from the original's: check.py SOURCES OUTPUT [--record].

``reference.json`` has texts of many kinds with the ids of their word pieces and the original's vectors; ``--record``
recomputes the vectors.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import reference
from convert import read_safetensors

LOWEST_COSINE = 0.99
REFERENCE = Path(__file__).with_name("reference.json")


def record(rows: list[dict[str, Any]], weights: dict[str, Any]) -> None:
    """Record the original's vectors in half precision."""
    for row in rows:
        vector = reference.embed(weights, row["ids"]).astype("<f2")
        row["vector"] = base64.b64encode(vector.tobytes()).decode("ascii")
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    REFERENCE.write_text(f"[\n{lines}\n]\n", "utf-8")


def embed(model: Path, ids: list[list[int]]) -> Any:
    """Embed the texts with the new model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    vectors = []
    for row in ids:
        inputs = np.array([row], np.int64)
        (vector,) = session.run(None, {"input_ids": inputs, "attention_mask": np.ones_like(inputs)})
        vectors.append(vector[0])
    return np.array(vectors)


def main() -> None:
    """Compare the vectors, and exit with an error if a cosine is too low."""
    sources, output = map(Path, sys.argv[1:3])
    rows = json.loads(REFERENCE.read_text("utf-8"))
    if "--record" in sys.argv:
        record(rows, read_safetensors(sources / "model.safetensors"))
    expected = np.array([np.frombuffer(base64.b64decode(row["vector"]), "<f2") for row in rows], np.float32)
    cosines = (embed(output / "model.onnx", [row["ids"] for row in rows]) * expected).sum(axis=1)
    for row, cosine in zip(rows, cosines, strict=True):
        if not cosine >= LOWEST_COSINE:
            raise SystemExit(
                f"The vector of {row['text'][:40]!r} differs from the original's: their cosine is {cosine:.4f}."
            )
    print(f"The vectors match the original's: {min(cosines):.4f} is the lowest cosine of {len(rows)} texts.")


if __name__ == "__main__":
    main()
