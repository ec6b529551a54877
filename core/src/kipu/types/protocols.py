"""The protocols that plugins implement, one for each kind of component. All of them are public in `kipu.types`.

A component is any object with the members of its protocol. Members that are optional have a default on the base class
of its kind (`bases`): inherit from it, or write them yourself. A method may also be a plain ``def``: it runs in a
thread then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    import aiosqlite

    from .documents import Chunk, Document, StoredChunk
    from .memories import Distillation, Filtered, Message
    from .results import Hit, Query, Vectors, VectorSpace

__all__ = [
    "Annotator",
    "Arms",
    "Chunker",
    "Embedder",
    "Flusher",
    "Index",
    "IndexedStrategy",
    "PostProcessor",
    "Register",
    "Role",
    "Strategy",
    "VectorIndexedStrategy",
    "WriteFilter",
]

Role = Literal["document", "query"]
"""What a text is to an embedder: some models embed what is searched otherwise than what is searched with."""


# --- Chunkers ------------------------------------------------------------------------------------------------------


@runtime_checkable
class Chunker(Protocol):
    """Cuts a document into chunks.

    When the class or the options of the configured chunker change, every file is chunked again. Raise
    ``schema_version`` when the code returns other chunks for the same options.
    """

    def chunk(self, document: Document) -> list[Chunk]:
        """Cut ``document``. Called in any thread; the answer must depend on nothing but the argument and options."""
        ...


# --- Embedders -----------------------------------------------------------------------------------------------------


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors, so that texts of similar meaning are near each other.

    An option that is a secret, such as a key, has the metadata ``secret=True`` (`kipu.options.option`): it is written
    nowhere.
    """

    @property
    def identity(self) -> str:
        """The model, and all that changes its vectors: vectors of one identity are kept and compared.

        Known without loading the model, and the same in every process and on every machine.
        """
        ...

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Return one row for each text: float32, of the shape ``(len(texts), dimension)``, none of them zero.

        The kernel passes texts of about the same length, checks the answer, scales it to length 1 and stores it before
        the next call.

        :raises kipu.errors.TextTooLongError: texts are beyond the model's window; the kernel splits them.
        :raises kipu.errors.EmbedderBusyError: a failure that may pass by itself; the kernel retries a few times.
        :raises kipu.errors.EmbedderError: any other failure; embedding ends for this run.
        """
        ...


# --- Annotators ----------------------------------------------------------------------------------------------------


@runtime_checkable
class Annotator(Protocol):
    """Says what is in texts, for strategies with ``needs_annotations``. `Memory.index` calls it, never a search."""

    @property
    def identity(self) -> str:
        """The model, and all that changes its annotations, such as its instructions; as that of an embedder."""
        ...

    async def annotate(self, texts: Sequence[str]) -> list[str]:
        """Return a JSON object for each text, the heading and text of a chunk, of at most 65,536 characters.

        What is none is dropped with a notice, until the text or ``identity`` changes. No text may instruct a model.

        :raises kipu.errors.AnnotatorBusyError: a failure that may pass by itself; the kernel retries a few times.
        :raises kipu.errors.AnnotatorError: any other failure; the texts are tried one by one, unless it persists.
        """
        ...


# --- Strategies ----------------------------------------------------------------------------------------------------


class Index(Protocol):
    """What a strategy may ask of the index while it searches."""

    @property
    def id(self) -> str:
        """A name of this index, another one after each rebuild from nothing: for stores outside of it."""
        ...

    @property
    def folder(self) -> Path:
        """A folder of the strategy's own in ``.kipu/``, made when it is first asked for.

        It is derived data: `Memory.forget` and ``index(force=True)`` delete it.
        """
        ...

    @property
    def connection(self) -> aiosqlite.Connection:
        """A read-only connection for this search: for the strategy's own tables, and for these views of the kernel.

        - ``kipu_files(id, path, source, date, size)``: the memory files. Paths are relative to the workspace, dates
          are ISO 8601 or NULL.
        - ``kipu_chunks(id, file_id, position, chunk, hash, start_line, end_line, heading, heading_level, text, context,
          metadata)``: their chunks. Positions in a file count from 0, metadata is JSON or empty.
        - ``kipu_entries(file_id, start_line, end_line, id, metadata)``: items of lists, and paragraphs with metadata,
          whatever the chunks are. The id is that of the metadata, or a derived one in full.
        - ``kipu_properties(file_id, key, value)``: the front matter of files, without case, as filters compare it.
        - ``kipu_vectors(space_id, chunk_id, file_id, vector)``: a row for each chunk that has a vector in a space, as
          little-endian float32 numbers, of length 1.

        The kernel's tables are not part of the contract, and change.
        """
        ...

    def where(self, query: Query) -> tuple[str, list[Any]]:
        """Return the query's filters as an SQL condition on ``kipu_files`` and ``kipu_chunks``, and its parameters.

        Join both in the statement: tags and properties may be those of a file or of an entry. Without filters they are
        ``("1", [])``. For a query with nothing but ``sources``, it is a condition on ``kipu_files.source`` alone. The
        condition stays within the scope of the memory, and leaves out what was archived unless it is asked for.
        """
        ...

    async def chunks(self, ids: Iterable[int]) -> dict[int, StoredChunk]:
        """Load chunks by the ids of their rows, in the order given. Ids that do not exist are left out."""
        ...

    async def vectors(self, space: VectorSpace, ids: Sequence[int]) -> tuple[list[int], Vectors]:
        """Load the vectors of chunks: the ids that have one, in the order given, and a matrix with a row for each."""
        ...


class Arms(Index, Protocol):
    """What a strategy that has ``strategies`` may ask: the index, and the strategies that it searches with."""

    def needs_vectors(self, strategy: str) -> bool:
        """Return whether a strategy searches by vectors, and so knows no more than the embedder does."""
        ...

    async def search(self, strategy: str, query: Query) -> list[Hit] | None:
        """Search with another strategy, on a connection of its own; may be awaited side by side with others.

        Return None if it cannot answer now: it is unavailable, or needs vectors that the query or the index lacks.

        :param strategy: one of the names in the ``strategies`` of the strategy that asks.
        """
        ...

    async def score(self, strategy: str, query: Query, ids: Sequence[int]) -> dict[int, float]:
        """Have another strategy score chunks that it did not return, by id; those it cannot judge are left out.

        The scores are on the scale of those that its ``search`` returned for the same query.
        """
        ...

    async def score_files(self, strategy: str, query: Query, paths: Sequence[str]) -> dict[str, float]:
        """Have another strategy score whole files, in [0, 1] by path; those it cannot judge are left out.

        The scores are on a scale of their own: they only compare files with each other.
        """
        ...


@runtime_checkable
class Strategy(Protocol):
    """Turns a query into hits, best first."""

    async def search(self, query: Query, index: Arms) -> list[Hit]:
        """Return at most ``query.limit`` hits that pass ``index.where(query)``, with scores in [0, 1], best first.

        A strategy without ``strategies`` uses ``index`` as an `Index`.

        :raises kipu.errors.UnavailableError: it cannot answer now. The search goes on without it, and says so.
        """
        ...


@runtime_checkable
class IndexedStrategy(Strategy, Protocol):
    """A strategy with an index of its own: tables in the same database, changed in the same transactions.

    When ``schema_version`` differs from the one that the index was made with, the kernel calls `create` and then
    `add` with every chunk. A strategy whose options change its tables makes them a part of ``schema_version``.

    Where one of these methods fails, the strategy misses the change and nothing else does: its tables are rebuilt when
    it is used next. ``async scrub(connection)`` is optional: called after something was forgotten for good, it leaves
    nothing of what was removed in the tables. Without it, the tables are rebuilt then.
    """

    @property
    def schema_version(self) -> int | str:
        """The version of the strategy's tables."""
        ...

    async def create(self, connection: aiosqlite.Connection) -> None:
        """Make empty tables; drop those of an earlier version first.

        Called within a transaction, as `add` and `remove`: they cannot end it (``executescript``, which commits, is
        refused), nor write to tables of the kernel.
        """
        ...

    async def add(self, connection: aiosqlite.Connection, chunks: Sequence[StoredChunk]) -> None:
        """Add chunks that are new, or whose file has another path, source or date, or whose annotation arrived."""
        ...

    async def remove(self, connection: aiosqlite.Connection, chunk_ids: Sequence[int]) -> None:
        """Remove chunks. They are still in ``kipu_chunks`` while this runs."""
        ...


@runtime_checkable
class VectorIndexedStrategy(Strategy, Protocol):
    """A strategy with an index of vectors of its own, one for each vector space; as `IndexedStrategy` in all else.

    It has ``needs_vectors = True``. A chunk is added when it gets its vector, in the transaction that stores it.
    ``async scrub(connection, space)`` is optional.
    """

    needs_vectors: bool

    @property
    def schema_version(self) -> int | str:
        """The version of the strategy's tables."""
        ...

    async def create(self, connection: aiosqlite.Connection, space: VectorSpace) -> None:
        """Make empty tables for a space; drop those of an earlier version first."""
        ...

    async def add(
        self, connection: aiosqlite.Connection, space: VectorSpace, ids: Sequence[int], vectors: Vectors
    ) -> None:
        """Add the vectors of chunks, a row for each id."""
        ...

    async def remove(self, connection: aiosqlite.Connection, space: VectorSpace, ids: Sequence[int]) -> None:
        """Remove chunks; some of them may never have been added."""
        ...

    async def drop(self, connection: aiosqlite.Connection, space: VectorSpace) -> None:
        """Drop the tables for a space that is not searched any more."""
        ...


# --- Post-processors -----------------------------------------------------------------------------------------------


@runtime_checkable
class PostProcessor(Protocol):
    """Changes the hits of a strategy: leaves some out, changes scores or the order."""

    async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
        """Return the hits to go on with, best first. Those that the query's filters exclude are dropped.

        :raises kipu.errors.UnavailableError: it cannot answer now. The search goes on with the hits as they were.
        """
        ...


# --- Flushers ------------------------------------------------------------------------------------------------------


@runtime_checkable
class Flusher(Protocol):
    """Distils what is worth keeping from a conversation, with a language model.

    What to look for, and how to answer, is in the instructions, which the kernel writes; a flusher only calls its
    model.
    """

    async def distill(
        self, messages: Sequence[Message], *, instructions: str, model: str | None = None
    ) -> Distillation:
        """Call a model once, and return its answer.

        The messages are data: their content must not reach the model as if its user or its operator had written it.

        :param messages: the conversation, in order.
        :param instructions: what the model is to do, and how it is to answer.
        :param model: the name of a model to call instead of the configured one.
        :raises kipu.errors.ConversationTooLongError: more than the model takes; the kernel splits it.
        :raises kipu.errors.FlusherBusyError: a failure that may pass by itself; the kernel retries a few times.
        :raises kipu.errors.FlusherError: any other failure; the flush ends.
        """
        ...


# --- Write filters -------------------------------------------------------------------------------------------------


@runtime_checkable
class WriteFilter(Protocol):
    """Sees each text before it is written to a memory file or sent to a flusher, and may change it: to redact keys."""

    def filter(self, text: str, path: str) -> Filtered:
        """Return the text as it may be written. If it raises, nothing is written.

        :param text: what is about to be written, an entry and not the whole file; or a message that a flusher reads.
        :param path: the file that it goes to, relative to the workspace.
        """
        ...


# --- Registration --------------------------------------------------------------------------------------------------

Component = TypeVar("Component", contravariant=True)


class Register(Protocol[Component]):
    """What a registration hook is passed: call it with a name and a class made with attrs, whose fields are options."""

    def __call__(self, name: str, factory: Callable[..., Component], /) -> None:
        """Make ``factory`` available under ``name``."""
        ...
