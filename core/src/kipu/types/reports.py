"""What indexing, `status` and lists report. All of it is public in `kipu.types`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import TypeVar

import attrs

__all__ = ["FileInfo", "IndexReport", "Listing", "SkippedFile", "Status", "StoredEntry"]

Item = TypeVar("Item")


class Listing(list[Item]):
    """A list of files, entries or changes. ``notices`` are sentences for people, such as on a tag that is not there."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        super().__init__(items)
        self.notices: list[str] = []


@attrs.frozen
class SkippedFile:
    """A file that is not in the index as it stands on disk, and why.

    ``outside`` is true of a link that leads out of the workspace or into a hidden folder: it is no part of the memory.
    """

    path: str
    reason: str
    outside: bool = False


@attrs.define
class IndexReport:
    """What one run of indexing did. The counts are files but for ``chunks``, which is how many the index now holds.

    ``skipped`` names files that are not in the index as they are on disk, each with its reason; those of them that
    may yet be read are ``pending``, and what the index has of them is kept. ``missing`` names folders that are
    configured or were indexed before and are not there now: what the index holds of them is kept until they come back
    or until ``index(prune=True)``. ``embedded`` is how many texts were embedded, and ``pending_vectors`` how many
    chunks are found by keywords only until they are; ``annotated`` and ``pending_annotations`` count the chunks that
    were and that are to be annotated. ``notices`` are sentences for people.
    """

    added: int = 0
    changed: int = 0
    renamed: int = 0
    removed: int = 0
    unchanged: int = 0
    chunks: int = 0
    skipped: list[SkippedFile] = attrs.field(factory=list)
    pending: list[str] = attrs.field(factory=list)
    missing: list[str] = attrs.field(factory=list)
    notices: list[str] = attrs.field(factory=list)
    seconds: float = 0.0
    embedded: int = 0
    pending_vectors: int = 0
    annotated: int = 0
    pending_annotations: int = 0


@attrs.frozen
class FileInfo:
    """A file that the index knows. ``date`` is None for an evergreen file; ``size`` is in bytes."""

    path: str
    source: str
    date: date | None
    size: int
    chunks: int
    problem: str | None = None

    @property
    def evergreen(self) -> bool:
        """Whether the file is one that does not age: its name does not start with a date."""
        return self.date is None


@attrs.frozen
class StoredEntry:
    """An entry of a memory file: an item of a list, or a paragraph with metadata.

    ``id`` is what `Memory.read`, `Memory.edit`, `Memory.move` and `Memory.forget` take. ``text`` is without the mark of
    the item and the line of metadata, which are within ``start_line`` and ``end_line``. ``outdated`` is as in a
    `SearchResult`.
    """

    id: str
    path: str
    start_line: int
    end_line: int
    text: str
    source: str
    date: date | None
    heading: str = ""
    metadata: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    outdated: str = ""


@attrs.frozen
class Status:
    """The state of a workspace and of its index.

    ``sources`` are the labels with the number of their files; ``pending``, ``skipped``, ``missing`` and ``notices``
    mean the same as in an `IndexReport`. ``index_bytes`` is the size of the index on disk, None in a scope.
    ``embedder`` is the name of the embedder in use, None where searches use keywords only. ``vectors`` counts the
    chunks that have a vector, by the identity of the embedder: several may have vectors side by side.
    ``pending_vectors`` counts the chunks without a vector of the embedder in use. ``filters`` are the write filters.
    ``conflicts`` are the conflict copies of tools for synchronisation, each with its original. ``annotator`` is the
    name of the annotator in use, if any, and ``pending_annotations`` counts the chunks that it has not annotated.
    ``described`` is what strategies say of what they keep in the index.
    """

    workspace: str
    files: int
    chunks: int
    sources: Mapping[str, int]
    pending: list[str]
    skipped: list[SkippedFile]
    missing: list[str]
    notices: list[str]
    strategy: str
    chunker: str
    postprocessors: list[str]
    filters: list[str]
    index_path: str
    index_bytes: int | None
    sqlite: str
    embedder: str | None = None
    pending_vectors: int = 0
    vectors: Mapping[str, int] = attrs.field(factory=dict)
    conflicts: Mapping[str, str] = attrs.field(factory=dict)
    annotator: str | None = None
    pending_annotations: int = 0
    described: list[str] = attrs.field(factory=list)
