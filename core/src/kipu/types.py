"""The data that flows through Kipu, and the protocols that plugins implement.

A memory file becomes a `Document`, a chunker turns it into `Chunk` objects, the index keeps them as `StoredChunk`
objects; a `Query` makes a strategy return `Hit` objects, post-processors change them, and the caller gets
`SearchResults`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import date

    import aiosqlite

__all__ = [
    "Chunk",
    "Chunker",
    "Document",
    "FileInfo",
    "Hit",
    "Index",
    "IndexReport",
    "IndexedStrategy",
    "PostProcessor",
    "Query",
    "Register",
    "SearchResult",
    "SearchResults",
    "SkippedFile",
    "Status",
    "StoredChunk",
    "Strategy",
]


# --- From a file to its chunks -------------------------------------------------------------------------------------


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
    """

    text: str
    start_line: int
    end_line: int
    heading: str = ""
    heading_level: int = 0
    context: str = ""

    @property
    def hash(self) -> str:
        """SHA-256 of everything that is indexed; lines are not part of it, so a chunk may move without changing."""
        parts = (self.text, self.heading, str(self.heading_level), self.context)
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


@attrs.frozen
class StoredChunk:
    """A chunk in the index, with what is known of its file.

    ``id`` is its row in the index and means nothing outside of it; ``chunk`` is the name that callers use, stable
    while its text and its file stay. ``date`` is that of a dated file and None for an evergreen one.
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


# --- From a query to its results -----------------------------------------------------------------------------------


@attrs.frozen
class Query:
    """A search as the plugins see it.

    A strategy returns at most ``limit`` hits, more than the ``max_results`` that the caller will get, so that
    post-processors have something to choose from. ``source``, ``since`` and ``until`` are filters, which
    `Index.where` turns into SQL; both dates are included, and a date range leaves evergreen files out.
    """

    text: str
    max_results: int = 6
    limit: int = 60
    source: str | None = None
    since: date | None = None
    until: date | None = None


@attrs.frozen
class Hit:
    """A chunk on its way to becoming a result: with its score in [0, 1], and the scores of the arms behind it."""

    chunk: StoredChunk
    score: float
    scores: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen
class SearchResult:
    """One answer: which lines of which file, how well they fit, and what they say.

    ``snippet`` is the part of ``text`` where the query matched; ``scores`` are the scores by arm; ``chunk`` names the
    chunk and stays the same while its text and its file stay.
    """

    path: str
    start_line: int
    end_line: int
    score: float
    scores: Mapping[str, float]
    snippet: str
    text: str
    source: str
    heading: str
    heading_level: int
    chunk: str


class SearchResults(list[SearchResult]):
    """The results of a search, best first, and what the caller should know about them.

    ``stale`` is true when files changed that the search could not take into account, and ``pending`` names them.
    ``degraded`` is true when the search had to go on with less than what was configured. ``notes`` says why, in
    sentences for people. All are empty or false when all is well.
    """

    def __init__(
        self,
        results: Iterable[SearchResult] = (),
        *,
        pending: Sequence[str] = (),
        degraded: bool = False,
        notes: Sequence[str] = (),
        stale: bool | None = None,
    ) -> None:
        super().__init__(results)
        self.pending = list(pending)
        self.degraded = degraded
        self.notes = list(notes)
        self.stale = bool(self.pending) if stale is None else stale


# --- What the caller learns of the index ---------------------------------------------------------------------------


@attrs.frozen
class SkippedFile:
    """A file that is not in the index as it stands on disk, and why."""

    path: str
    reason: str


@attrs.define
class IndexReport:
    """What one run of indexing did. The counts are files but for ``chunks``, which is how many the index now holds.

    ``skipped`` names files that are not in the index as they are on disk, each with its reason; those of them that
    may yet be read are ``pending``, and what the index has of them is kept. ``missing`` names folders that are
    configured or were indexed before and are not there now: what the index holds of them is kept until they come back
    or until ``index(prune=True)``. ``notes`` are sentences for people.
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
    notes: list[str] = attrs.field(factory=list)
    seconds: float = 0.0


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
class Status:
    """The state of a workspace and of its index.

    ``sources`` are the labels with the number of their files; ``pending``, ``skipped``, ``missing`` and ``notes`` mean
    the same as in an `IndexReport`. ``index_bytes`` is the size of the index on disk.
    """

    workspace: str
    files: int
    chunks: int
    sources: Mapping[str, int]
    pending: list[str]
    skipped: list[SkippedFile]
    missing: list[str]
    notes: list[str]
    strategy: str
    chunker: str
    postprocessors: list[str]
    index_path: str
    index_bytes: int
    sqlite: str


# --- What plugins implement ----------------------------------------------------------------------------------------


@runtime_checkable
class Chunker(Protocol):
    """Cuts a document into chunks.

    A change of the chunker's class or of its options makes every file be chunked again. A chunker whose code changes
    what it returns says so with another ``schema_version: int`` (optional, 1 where it is not given).
    """

    def chunk(self, document: Document) -> list[Chunk]:
        """Cut ``document``. Called off the event loop, in any thread; must depend on nothing but its arguments."""
        ...


class Index(Protocol):
    """What a strategy may ask of the index while it searches."""

    @property
    def connection(self) -> aiosqlite.Connection:
        """A read-only connection, this search's own, for tables of the strategy's own and for these of the kernel:

        ``files(id, path, source, date, ...)`` and
        ``chunks(id, file_id, chunk, start_line, end_line, heading, heading_level, text, context, ...)``.
        """
        ...

    def where(self, query: Query) -> tuple[str, list[Any]]:
        """The query's filters, as an SQL condition on ``files`` and its parameters; ``("1", [])`` if there are none."""
        ...

    async def chunks(self, ids: Iterable[int]) -> dict[int, StoredChunk]:
        """Load chunks by the ids of their rows, in the order given. Ids that do not exist are left out."""
        ...


@runtime_checkable
class Strategy(Protocol):
    """Turns a query into hits, best first."""

    async def search(self, query: Query, index: Index) -> list[Hit]:
        """Return at most ``query.limit`` hits that pass ``index.where(query)``, with scores in [0, 1], best first."""
        ...


@runtime_checkable
class IndexedStrategy(Strategy, Protocol):
    """A strategy with an index of its own: tables in the same database, changed in the same transactions.

    When ``schema_version`` differs from the one that the index was made with, the kernel calls `create` and then
    `add` with every chunk. A strategy whose options change its tables makes them a part of ``schema_version``.
    """

    @property
    def schema_version(self) -> int | str:
        """The version of the strategy's tables."""
        ...

    async def create(self, connection: aiosqlite.Connection) -> None:
        """Make empty tables; drop those of an earlier version first.

        Like `add` and `remove`, it is called within a transaction and cannot end it: ``executescript``, which commits
        before anything else, is refused.
        """
        ...

    async def add(self, connection: aiosqlite.Connection, chunks: Sequence[StoredChunk]) -> None:
        """Take in chunks that are new, or whose file has another path, source or date."""
        ...

    async def remove(self, connection: aiosqlite.Connection, chunk_ids: Sequence[int]) -> None:
        """Forget chunks. They are still in the table ``chunks`` while this runs."""
        ...


@runtime_checkable
class PostProcessor(Protocol):
    """Changes the hits of a strategy: leaves some out, scores them anew, puts them into another order."""

    async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
        """Return the hits to go on with, best first."""
        ...


Component = TypeVar("Component", contravariant=True)


class Register(Protocol[Component]):
    """What a registration hook is handed: call it with a name and a class made with attrs, whose fields are options."""

    def __call__(self, name: str, factory: Callable[..., Component], /) -> None:
        """Make ``factory`` available under ``name``."""
        ...
