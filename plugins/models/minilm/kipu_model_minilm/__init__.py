"""The model all-MiniLM-L6-v2 as an ONNX folder: 384 dimensions, English, 256 word pieces. Data only."""

from pathlib import Path

__all__ = ["path"]


def path() -> Path:
    """The folder with ``model.onnx`` and ``tokenizer.json``; ``SHA256SUMS`` in it has the hashes of all files."""
    return Path(__file__).parent
