"""The model all-MiniLM-L6-v2 as an ONNX folder: 384 dimensions, English, 256 word pieces. Data only."""

from pathlib import Path

__all__ = ["path"]


def path() -> Path:
    """Return the folder with ``model.onnx`` and ``tokenizer.json``; its ``SHA256SUMS`` has the hashes of all files."""
    return Path(__file__).parent
