"""Has a chunker cut a file, and checks what it returns."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import KipuError, PluginFailedError
from ..types import Chunk, Document
from .manager import options_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..types import Chunker

__all__ = ["chunker_identity", "chunks_of"]


def chunks_of(chunker: Chunker, path: str, text: str) -> Sequence[Chunk]:
    """The chunks of a file.

    :raises PluginFailedError: the chunker raised, or returned what are no chunks of that text.
    """
    try:
        return _checked(chunker.chunk(Document(path, text)), text.count("\n") + 1)
    except KipuError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginFailedError(
            f"The chunker {type(chunker).__name__} failed on {path}: {type(error).__name__}: {error}."
        ) from error


def chunker_identity(chunker: Chunker) -> str:
    """What tells the chunks of one chunker from those of another: its class, its version and its options."""
    kind: Any = type(chunker)
    version = getattr(chunker, "schema_version", 1)
    options = {field.name: getattr(chunker, field.name) for field in options_of(kind)} if attrs.has(kind) else {}
    said = f"{kind.__module__}.{kind.__qualname__} {version} {options}"
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def _checked(returned: Iterable[Any], lines: int) -> list[Chunk]:
    """The chunks that a chunker returned, or an error that says what is wrong with them."""
    chunks = list(returned)
    for chunk in chunks:
        if not isinstance(chunk, Chunk):
            raise TypeError(f"what it returned has {chunk!r} in it, which is no Chunk")
        texts, numbers = (
            (chunk.text, chunk.heading, chunk.context),
            (chunk.start_line, chunk.end_line, chunk.heading_level),
        )
        if not all(isinstance(text, str) for text in texts) or not all(type(number) is int for number in numbers):
            raise TypeError(
                f"the text, heading and context of a chunk are texts, and its lines and level numbers: {chunk}"
            )
        if any(not isinstance(text, str) for pair in dict(chunk.metadata).items() for text in pair):
            raise TypeError(f"the metadata of a chunk are texts by the name of a text, unlike {chunk.metadata!r}")
        if not 1 <= chunk.start_line <= chunk.end_line <= lines or not 0 <= chunk.heading_level < 1000:
            raise ValueError(f"a chunk has lines {chunk.start_line} to {chunk.end_line}, and the file has 1 to {lines}")
        "".join(texts).encode("utf-8")
    return chunks
