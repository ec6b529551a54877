"""What is indexed: a memory file as a `Document`, cut into `Chunk` objects, kept in the index as `StoredChunk` objects.

All of it is public in `kipu.types`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date

import attrs

__all__ = ["Chunk", "Document", "StoredChunk"]


@attrs.frozen
class Document:
    """A memory file as a chunker sees it.

    ``text`` is decoded, without a byte order mark, and has ``\\n`` at its line ends; line numbers count from 1.
    ``path`` is relative to the workspace and has ``/`` on every platform.
    """

    path: str
    text: str


@attrs.frozen
class Chunk:
    """A piece of a document that is found, scored and shown as one.

    ``text`` is shown. ``context`` is indexed together with it and never shown: a little of what stands before and
    after. ``heading`` is the path of headings above the text, joined by ``" > "``, and ``heading_level`` the level of
    the innermost one (0 where there is none). ``start_line`` and ``end_line`` count from 1 and are both included.
    ``metadata`` is what the text says of itself in a line that `kipu.markdown.read_metadata` understands: a chunk with
    some is a whole entry, or a part of one, and of no other.
    """

    text: str
    start_line: int
    end_line: int
    heading: str = ""
    heading_level: int = 0
    context: str = ""
    metadata: Mapping[str, str] = attrs.field(factory=dict, hash=False)

    @property
    def hash(self) -> str:
        """SHA-256 of everything that is indexed; lines are not part of it, so a chunk may move without changing."""
        parts = [self.text, self.heading, str(self.heading_level), self.context]
        parts += [f"{key}: {value}" for key, value in self.metadata.items()]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


@attrs.frozen
class StoredChunk:
    """A chunk in the index, with what is known of its file.

    ``id`` is its row in the index and means nothing outside of it; ``chunk`` is the name that callers use, stable
    while its text and its file stay. ``date`` is that of a dated file and None for an evergreen one. ``annotation`` is
    a JSON object of the annotator, where a strategy with ``needs_annotations`` adds the chunk; "" if there is none yet,
    and everywhere else.
    """

    id: int
    chunk: str
    path: str
    source: str
    date: date | None
    start_line: int
    end_line: int
    heading: str
    heading_level: int
    text: str
    context: str
    metadata: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    annotation: str = ""
