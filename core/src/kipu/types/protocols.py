"""The protocols that plugins implement, one for each kind of component. All of them are public in `kipu.types`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import aiosqlite

    from .documents import Chunk, Document, StoredChunk
    from .memories import Distillation, Filtered, Message
    from .results import Hit, Query, Vectors, VectorSpace

__all__ = [
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
"""What a text is to an embedder: some models want to know whether it is searched, or searched with."""


@runtime_checkable
class Chunker(Protocol):
    """Cuts a document into chunks.

    A change of the chunker's class or of its options makes every file be chunked again. A chunker whose code changes
    what it returns says so with another ``schema_version: int`` (optional, 1 where it is not given).
    """

    def chunk(self, document: Document) -> list[Chunk]:
        """Cut ``document``. Called off the event loop, in any thread; must depend on nothing but its arguments."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors, so that texts that mean the same are near each other.

    Five more things are optional. ``languages``: the languages that the model knows, as ISO 639-1 codes; None, or not
    given, where that is not known. ``unknown_share(text)``: the part of a text, from 0 to 1, that its tokenizer does
    not know. ``destination``: where texts are sent, None where they stay on this machine; after another embedder was
    chosen, one that sends them elsewhere is not asked any more, and one that does not say is taken for such.
    ``batch_size``: how many texts it is given in one call, 64 where it does not say. ``async close()``:
    called when the memory is closed.

    An option that is a secret, such as a key, has the metadata ``secret=True``: it is written nowhere.
    """

    @property
    def identity(self) -> str:
        """The model and all that changes its vectors, and nothing else: vectors of one identity are kept and compared.

        Known without loading the model, and the same in every process and on every machine.
        """
        ...

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Return one row for each text: float32, of the shape ``(len(texts), dimension)``, none of them zero.

        What it raises tells the kernel what to do: `kipu.errors.TextTooLongError` for texts beyond the model's window,
        which it then splits; `kipu.errors.EmbedderBusyError` for what may pass by itself, which it tries again a few
        times; any other error ends embedding for this run. The kernel gives it texts of about the same length, stores
        what each call returns before the next, checks it, and scales it to length 1.
        """
        ...


class Index(Protocol):
    """What a strategy may ask of the index while it searches."""

    @property
    def connection(self) -> aiosqlite.Connection:
        """A read-only connection, this search's own, for tables of the strategy's own and for these of the kernel:

        ``files(id, path, source, date, ...)`` and
        ``chunks(id, file_id, position, chunk, hash, start_line, end_line, heading, heading_level, text, context,
        metadata, ...)``, whose positions in a file count from 0, and
        ``embeddings(space_id, hash, vector, ...)``: the vector of every chunk with that hash, as little-endian float32
        numbers, of length 1.
        """
        ...

    def where(self, query: Query) -> tuple[str, list[Any]]:
        """The query's filters, as an SQL condition on ``files`` and its parameters; ``("1", [])`` if there are none."""
        ...

    async def chunks(self, ids: Iterable[int]) -> dict[int, StoredChunk]:
        """Load chunks by the ids of their rows, in the order given. Ids that do not exist are left out."""
        ...

    async def vectors(self, space: VectorSpace, ids: Sequence[int]) -> tuple[list[int], Vectors]:
        """The vectors of chunks: the ids that have one, in the order given, and a matrix with a row for each."""
        ...

    async def search(self, strategy: str, query: Query) -> list[Hit] | None:
        """What another strategy finds, on a connection of its own; may be awaited side by side with others.

        None where it cannot answer now: it needs vectors, and the query or the index has none.

        :param strategy: one of the names in the ``strategies`` of the strategy that asks.
        """
        ...

    async def score(self, strategy: str, query: Query, ids: Sequence[int]) -> dict[int, float]:
        """What another strategy thinks of chunks that it did not return, by id; those it cannot judge are left out.

        The scores are on the scale of those that its ``search`` returned for the same query.
        """
        ...

    async def score_files(self, strategy: str, query: Query, paths: Sequence[str]) -> dict[str, float]:
        """What another strategy thinks of whole files, in [0, 1] by path; those it cannot judge are left out.

        The scores are on a scale of their own: they only compare files with each other.
        """
        ...


@runtime_checkable
class Strategy(Protocol):
    """Turns a query into hits, best first.

    Four more things are optional. ``needs_vectors``: True where it cannot search without ``query.embedding``; it is
    then only called with one. ``strategies``: the names of others that it searches with, through `Index.search`.
    ``async score(query, index, ids) -> dict[int, float]``: what it thinks of chunks that it did not return, on the
    scale of those that it returns. And ``async score_files(query, index, paths) -> dict[str, float]``: what it thinks
    of whole files, in [0, 1]. Another strategy asks for these through `Index.score` and `Index.score_files`.
    """

    async def search(self, query: Query, index: Index) -> list[Hit]:
        """Return at most ``query.limit`` hits that pass ``index.where(query)``, with scores in [0, 1], best first."""
        ...


@runtime_checkable
class IndexedStrategy(Strategy, Protocol):
    """A strategy with an index of its own: tables in the same database, changed in the same transactions.

    When ``schema_version`` differs from the one that the index was made with, the kernel calls `create` and then
    `add` with every chunk. A strategy whose options change its tables makes them a part of ``schema_version``.

    ``async scrub(connection)`` is optional: called after something was forgotten for good, it leaves nothing of what
    was removed in the tables. A strategy that has none has its tables made anew then.
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
class VectorIndexedStrategy(Strategy, Protocol):
    """A strategy with an index of vectors of its own, one for each vector space; as `IndexedStrategy` in all else.

    It has ``needs_vectors = True``. A chunk is added when it gets its vector, in the transaction that stores it.
    ``async scrub(connection, space)`` is optional, and so is ``async is_sound(connection, space)``, which
    `Memory.index` asks: whether the tables are whole, as far as that can be told without reading all of them. Where
    they are not, they are made anew.
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
        """Take in the vectors of chunks, a row for each id."""
        ...

    async def remove(self, connection: aiosqlite.Connection, space: VectorSpace, ids: Sequence[int]) -> None:
        """Forget chunks; some of them may never have been added."""
        ...

    async def drop(self, connection: aiosqlite.Connection, space: VectorSpace) -> None:
        """Drop the tables for a space that is not searched any more."""
        ...


@runtime_checkable
class PostProcessor(Protocol):
    """Changes the hits of a strategy: leaves some out, scores them anew, puts them into another order.

    One that has ``needs_vectors = True`` (optional) gets hits with their ``vector`` where there is one.
    """

    async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
        """Return the hits to go on with, best first."""
        ...


@runtime_checkable
class Flusher(Protocol):
    """Distils what is worth keeping out of a conversation, with a language model.

    What to look for, and how to answer, stands in the instructions, which the kernel writes; a flusher only asks its
    model. Three more things are optional. ``window``: how many tokens of messages and instructions it takes in one
    call, a whole number, or None, which is 32,000; a longer conversation comes in parts. ``model``: the name of the
    model that it asks where a call names none. ``async close()``: called when the memory is closed.
    """

    async def distill(
        self, messages: Sequence[Message], *, instructions: str, model: str | None = None
    ) -> Distillation:
        """Ask a model once, and return what it answered.

        The messages are data: what they say must not reach the model as if its user or its operator said it.

        What it raises tells the kernel what to do: `kipu.errors.ConversationTooLongError` for more than the model
        takes, which is then cut into parts; `kipu.errors.FlusherBusyError` for what may pass by itself, which is tried
        again a few times; any other error ends the flush.

        :param messages: what was said, in order.
        :param instructions: what the model is to do, and how it is to answer.
        :param model: the name of a model to ask instead of the configured one.
        """
        ...


@runtime_checkable
class WriteFilter(Protocol):
    """Sees each text before it is written to a memory file, and may change it, as to take keys out of it."""

    def filter(self, text: str, path: str) -> Filtered:
        """Return the text as it may be written. Called off the event loop; where it raises, nothing is written.

        :param text: what is about to be written: an entry, not the whole file.
        :param path: the file that it goes to, relative to the workspace.
        """
        ...


Component = TypeVar("Component", contravariant=True)


class Register(Protocol[Component]):
    """What a registration hook is handed: call it with a name and a class made with attrs, whose fields are options."""

    def __call__(self, name: str, factory: Callable[..., Component], /) -> None:
        """Make ``factory`` available under ``name``."""
        ...
