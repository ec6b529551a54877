"""Base classes with the optional members of components, one for each kind. All of them are public in `kipu.types`."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 (cattrs reads the types of options of subclasses)
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from .protocols import Index
    from .results import Query

__all__ = [
    "AnnotatorBase",
    "ChunkerBase",
    "EmbedderBase",
    "FlusherBase",
    "PostProcessorBase",
    "StrategyBase",
    "WriteFilterBase",
]

UNKNOWN_DESTINATION = "unknown"


class ComponentBase:
    """What every component may have."""

    timeout: float | None = None
    """How many seconds one call may take; None leaves it to ``[plugins] time_limit``. May be an option."""

    async def close(self) -> None:
        """Release what the component holds. Called once, when the memory is closed."""

    async def check(self) -> str | None:
        """Return a sentence about what is wrong with the component and what to do, or None."""
        return None


class ChunkerBase(ComponentBase):
    """The optional members of a `Chunker`, with their defaults."""

    schema_version: ClassVar[int] = 1


class EmbedderBase(ComponentBase):
    """The optional members of an `Embedder`, with their defaults."""

    languages: Sequence[str] | None = None
    """The languages that the model knows, as ISO 639-1 codes; None if unknown."""

    batch_size: int = 64
    """How many texts one call takes."""

    destination: str | None = UNKNOWN_DESTINATION
    """Where texts are sent; None if they stay on this machine.

    After another embedder was configured, one that sends texts elsewhere, or does not say, is not used any more.
    """

    def unknown_share(self, text: str) -> float | None:
        """Return the share of a text, from 0 to 1, that the tokenizer does not know; None if unknown."""
        return None


class AnnotatorBase(ComponentBase):
    """The optional members of an `Annotator`, with their defaults."""

    batch_size: int = 8
    """How many texts one call takes."""

    destination: str | None = UNKNOWN_DESTINATION
    """Where texts are sent; None if they stay on this machine.

    What is sent elsewhere passes the write filters first, and counts in the daily budget: a call for each text.
    """

    instructions: str = ""
    """What is sent with each text, as it counts in the budget."""


class StrategyBase(ComponentBase):
    """The optional members of a `Strategy`, with their defaults.

    Two more are methods. ``async score(query, index, ids) -> dict[int, float]`` scores chunks that `search` did not
    return, on the scale of those that it returns; ``async score_files(query, index, paths) -> dict[str, float]`` scores
    whole files, in [0, 1]. Other strategies ask for these through `Arms`. A third, ``async complete(query, index,
    hits) -> list[Hit]``, completes the hits of the configured strategy, behind which it runs if ``[search] relation``
    names it: it puts further hits between them, and gives these a ``chain``. What is outdated ranks lower by then, and
    each text is there once. The last, ``async describe(index) ->
    str``, says in a sentence what it keeps in the index, for ``kipu doctor``.
    """

    needs_vectors: ClassVar[bool] = False
    """Whether it searches with ``query.embedding``; it is only called with one then."""

    strategies: Sequence[str] = ()
    """The names of the strategies that it searches with."""

    needs_annotations: ClassVar[bool] = False
    """Whether ``add`` wants chunks with their ``annotation``: a chunk is removed and added again when it arrives."""

    async def score(self, query: Query, index: Index, ids: Sequence[int]) -> dict[int, float]:
        """Return the scores of those of the chunks that it can judge."""
        return {}

    async def score_files(self, query: Query, index: Index, paths: Sequence[str]) -> dict[str, float]:
        """Return the scores of those of the files that it can judge."""
        return {}


class PostProcessorBase(ComponentBase):
    """The optional members of a `PostProcessor`, with their defaults."""

    needs_vectors: ClassVar[bool] = False
    """Whether it wants each hit with its ``vector``, if there is one."""

    order: ClassVar[int] = 100
    """Where it runs if a search switches it on by a per-call option: before the stages with a higher number."""


class FlusherBase(ComponentBase):
    """The optional members of a `Flusher`, with their defaults."""

    window: int | None = None
    """How many tokens of messages and instructions one call takes; None stands for 32,000."""

    model: str | None = None
    """The name of the model that it calls by default."""


class WriteFilterBase(ComponentBase):
    """The optional members of a `WriteFilter`."""
