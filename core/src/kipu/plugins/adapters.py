"""What each kind of component is asked, and what its answers must be: typed adapters over `calls.Adapter`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import AnnotatorError, EmbedderError, KipuError, PluginError, PluginFailedError
from ..options import Rule, optional, text, texts, whole_number
from ..types.bases import (
    UNKNOWN_DESTINATION,
    AnnotatorBase,
    ChunkerBase,
    EmbedderBase,
    FlusherBase,
    PostProcessorBase,
    StrategyBase,
    WriteFilterBase,
)
from . import checks
from .calls import Adapter

if TYPE_CHECKING:
    import aiosqlite

    from ..types import Arms, Chunk, Distillation, Document, Filtered, Hit, Index, Message, Query, Role, Vectors

_DEFAULT_WINDOW = 32_000  # tokens
_text = Rule("a text", lambda value: isinstance(value, str) and value.encode() != b"")
_names = Rule("a list of names", lambda value: texts.holds([*value] if isinstance(value, Mapping) else value))


class ChunkerAdapter(Adapter):
    """A `kipu.types.Chunker`."""

    base = ChunkerBase

    @cached_property
    def identity(self) -> str:
        """A hash of its class, its version and its options: what tells its chunks from those of another chunker."""
        cls: Any = type(self.component)
        fields = attrs.fields(cls) if attrs.has(cls) else ()
        options = {field.name: getattr(self.component, field.name) for field in fields if field.init}
        text = f"{cls.__module__}.{cls.__qualname__} {self.optional('schema_version')} {options}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    async def chunk(self, documents: Sequence[Document]) -> list[list[Chunk] | PluginError]:
        """Return the chunks of each document, or what went wrong with it."""
        return await self.call_each("chunk", documents, doing=lambda file: f"on {file.path}", check=checks.chunks)


class _ModelAdapter(Adapter):
    """A component whose answers are kept by what it says of its model."""

    async def identity(self) -> str:
        """Return what its answers are kept by, after all that it says of itself was checked."""
        _ = self.languages, self.batch_size, self.destination
        return await self.read("identity", lambda identity: str.__str__(self.checked("identity", identity, _text)))

    @property
    def languages(self) -> Sequence[str] | None:
        """The languages that it knows, as ISO 639-1 codes; None if unknown."""
        languages: Sequence[str] | None = self.optional("languages", optional(texts))
        return languages

    @property
    def batch_size(self) -> int:
        """How many texts one call takes."""
        size: int = self.optional("batch_size", whole_number(1))
        return size

    @property
    def destination(self) -> str | None:
        """Where it sends texts; None if they stay on this machine."""
        destination: str | None = self.optional("destination", optional(text))
        return destination


class EmbedderAdapter(_ModelAdapter):
    """A `kipu.types.Embedder`. Whatever it does wrong is an `EmbedderError`."""

    base = EmbedderBase
    error = EmbedderError
    passes = (EmbedderError,)

    @property
    def says_destination(self) -> bool:
        """Whether it says where it sends texts."""
        return self.destination != UNKNOWN_DESTINATION

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Return a matrix with a row for each text, float32. Rows are not checked: one may be NaN or zero."""
        check = partial(checks.matrix, count=len(texts))
        rows: Vectors = await self.call("embed", list(texts), role=role, doing="to embed", check=check)
        return rows

    async def unknown_share(self, text: str) -> float | None:
        """Return the share of a text, from 0 to 1, that its tokenizer does not know; None if unknown."""
        if not self.has("unknown_share"):
            return None
        return await self.call("unknown_share", text, doing="to tell what it knows of the query", check=checks.share)


class AnnotatorAdapter(_ModelAdapter):
    """A `kipu.types.Annotator`. Whatever it does wrong is an `AnnotatorError`."""

    base = AnnotatorBase
    error = AnnotatorError
    passes = (AnnotatorError,)

    async def annotate(self, texts: Sequence[str]) -> list[str]:
        """Return a text for each text. They are not checked: one may be no JSON."""
        check = partial(checks.annotated, count=len(texts))
        return await self.call("annotate", list(texts), doing="to annotate", check=check)


class StrategyAdapter(Adapter):
    """A `kipu.types.Strategy`, with or without an index of its own."""

    base = StrategyBase

    @cached_property
    def needs_vectors(self) -> bool:
        """Whether it searches with the embedding of the query."""
        return bool(self.optional("needs_vectors"))

    @cached_property
    def needs_annotations(self) -> bool:
        """Whether its tables are made of chunks with their annotations."""
        return bool(self.optional("needs_annotations"))

    @cached_property
    def strategies(self) -> tuple[str, ...]:
        """The names of the strategies that it searches with."""
        return tuple(self.optional("strategies", _names))

    @property
    def class_name(self) -> str:
        """The full name of its class: strategies of one class share their tables."""
        return f"{type(self.component).__module__}.{type(self.component).__qualname__}"

    @property
    def schema_version(self) -> str:
        """The version of its tables."""
        return str(self.optional("schema_version"))

    async def search(self, query: Query, index: Arms) -> list[Hit]:
        """Return its hits, best first, each chunk once, at most ``query.limit``."""
        check = partial(checks.ordered_hits, limit=query.limit)
        return await self.call("search", query, index, doing="in this search", check=check)

    async def describe(self, index: Index) -> str:
        """Return a sentence about what it keeps in the index."""
        text: str = await self.call("describe", index, doing="to describe its index", check=checks.text)
        return text

    async def score(self, query: Query, index: Arms, ids: Sequence[int]) -> dict[int, float]:
        """Return its scores of chunks that it did not return, by id."""
        check = partial(checks.scores, asked=set(ids))
        return await self.call("score", query, index, ids, doing="to score chunks", check=check)

    async def score_files(self, query: Query, index: Arms, paths: Sequence[str]) -> dict[str, float]:
        """Return its scores of whole files, by path."""
        check = partial(checks.scores, asked=set(paths))
        return await self.call("score_files", query, index, paths, doing="to score files", check=check)

    async def complete(self, query: Query, index: Index, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits of another strategy with its own between them, best first, each chunk once."""
        check = partial(checks.ordered_hits, limit=query.limit)
        return await self.call("complete", query, index, list(hits), doing="in this search", check=check)

    async def change_tables(self, method: str, connection: aiosqlite.Connection, *arguments: Any) -> None:
        """Call ``create``, ``add``, ``remove``, ``drop`` or ``scrub`` within a transaction."""
        await self.call(method, connection, *arguments, doing="while indexing", check=lambda answer: None)


class PostProcessorAdapter(Adapter):
    """A `kipu.types.PostProcessor`."""

    base = PostProcessorBase

    @cached_property
    def needs_vectors(self) -> bool:
        """Whether it wants the vectors of hits."""
        return bool(self.optional("needs_vectors"))

    @property
    def order(self) -> int:
        """Where it runs if a search switches it on."""
        order: int = self.optional("order", whole_number())
        return order

    async def process(self, query: Query, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits to go on with, best first, each chunk once."""
        return await self.call("process", query, list(hits), doing="in this search", check=checks.hits)


class FlusherAdapter(Adapter):
    """A `kipu.types.Flusher`."""

    base = FlusherBase

    async def window(self) -> int:
        """Return how many tokens of messages and instructions one call takes."""
        rule = optional(whole_number(1))
        return await self.read("window", lambda window: self.checked("window", window, rule)) or _DEFAULT_WINDOW

    async def distill(self, messages: Sequence[Message], *, instructions: str, model: str | None) -> Distillation:
        """Call the model once, and return its answer."""
        return await self.call(
            "distill", messages, instructions=instructions, model=model, doing="to distill", check=checks.distillation
        )


class WriteFilterAdapter(Adapter):
    """A `kipu.types.WriteFilter`. Errors do not show what it raised: that may quote the text."""

    base = WriteFilterBase

    async def filter(self, text: str, path: str) -> Filtered:
        """Return the text as it may be written.

        :raises PluginFailedError: it failed, so nothing may be written.
        """
        try:
            return await self.call("filter", text, path, doing="on the text", check=checks.filtered)
        except KipuError as error:
            cause = error.__cause__ or error
            raise PluginFailedError(
                f"The {self.label} failed: {type(cause).__name__[:100]}. Nothing was written. To write without it: "
                "[writing] filters = [] in kipu.toml."
            ) from error


ADAPTERS: dict[str, type[Adapter]] = {
    "annotator": AnnotatorAdapter,
    "chunker": ChunkerAdapter,
    "embedder": EmbedderAdapter,
    "filter": WriteFilterAdapter,
    "flusher": FlusherAdapter,
    "postprocessor": PostProcessorAdapter,
    "strategy": StrategyAdapter,
}
"""The adapter of each kind of component."""
