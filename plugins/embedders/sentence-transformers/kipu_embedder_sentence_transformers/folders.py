"""The identity of a model in a folder."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from kipu.errors import EmbedderError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["content_of"]

# Configuration, vocabularies and weights. Other files change no vector.
_SUFFIXES = frozenset({".bin", ".json", ".model", ".safetensors", ".txt"})
_OTHER_FORMATS = frozenset({"onnx", "openvino"})

_SMALL = 1 << 20
_SAMPLES = 64
_SAMPLE = 1 << 14


def content_of(folder: Path) -> str:
    """Return a hash of the files of a model that does not depend on the path of the folder.

    Of a file above 1 MB, its size and 64 samples of 16 KB, spread evenly, are hashed: that takes milliseconds, and
    training changes weights everywhere.

    :raises EmbedderError: the folder has no model.
    """
    digest = hashlib.sha256()
    names = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.suffix in _SUFFIXES and not _is_beside_the_point(path.relative_to(folder)) and path.is_file()
    )
    if not any(name in {"config.json", "modules.json"} for name in names):
        raise EmbedderError(f"The folder {folder} has no model in it: neither config.json nor modules.json is there.")
    for name in names:
        size = (folder / name).stat().st_size
        digest.update(f"{name}\0{size}\0".encode("utf-8", "surrogateescape"))
        with (folder / name).open("rb") as file:
            if size <= _SMALL:
                digest.update(file.read())
                continue
            for sample in range(_SAMPLES):
                file.seek((size - _SAMPLE) * sample // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE))
    return digest.hexdigest()[:32]


def _is_beside_the_point(path: Path) -> bool:
    return any(part.startswith(".") or part in _OTHER_FORMATS for part in path.parts)
