"""Find what several notes say together: names, relations between them, and paths along them.

What a chunk says becomes rows (`extraction`, `tables`). A search follows the names that the first results share with
other chunks (`paths`), and shows these where they lead to what was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from kipu import hookimpl
from kipu.options import Rule, option, text, texts
from kipu.types import StrategyBase

from . import tables
from .chains import MOST, insert, path_hits
from .facts import FUNCTIONAL
from .lookup import Lookup
from .paths import find_paths

if TYPE_CHECKING:
    import aiosqlite

    from kipu.types import Arms, Hit, Index, Query, Register, StoredChunk, Strategy

    from .reading import Graph

__all__ = ["Graph", "GraphStrategy", "kipu_register_strategies"]


_other = Rule("the name of another strategy", lambda value: text.holds(value) and value not in {"", "graph"})


@attrs.frozen
class GraphStrategy(StrategyBase):
    """Follows names from the notes that match to others that share them, and shows where these lead to an answer.

    As ``[search] relation``, which it is by default, it completes the hits of the configured strategy: up to three ends
    of paths stand at the fourth, the sixth and the eighth place. Used as a strategy, it returns paths alone; they begin
    at the hits of ``strategy``. `kipu_strategy_graph.paths` explains how paths are found and scored. A question that
    names nothing has none.
    """

    needs_annotations: ClassVar[bool] = True

    strategy: str = option("hybrid", _other, "The strategy whose hits are followed in a search for paths alone.")

    functional: Sequence[str] = option(
        FUNCTIONAL,
        texts,
        "Predicates of which a subject has one value at a time: a newer one supersedes it. Of one with `^` in front, a "
        "value has one subject. Those that `|` separates are one predicate.",
    )

    nlp: str = option(
        "",
        text,
        "An installed spaCy pipeline, such as `en_core_web_sm`, that reads sentences beside the rules: see below.",
    )

    strategies: Sequence[str] = attrs.field(init=False, repr=False, eq=False)
    """The name of the strategy whose hits are followed."""

    @strategies.default
    def _names(self) -> Sequence[str]:
        return (self.strategy,)

    def __attrs_post_init__(self) -> None:
        """Check that the pipeline is installed."""
        self.schema_version  # noqa: B018 - it raises where it is not

    @property
    def schema_version(self) -> int | str:
        """The version of the tables and of what is read out of a chunk."""
        if not self.nlp:
            return 6
        from .extraction.nlp import identity

        return f"6 {identity(self.nlp)}"

    async def create(self, connection: aiosqlite.Connection) -> None:
        """Create empty tables."""
        await tables.create(connection)

    async def add(self, connection: aiosqlite.Connection, chunks: Sequence[StoredChunk]) -> None:
        """Add what chunks say; what was added under the same ids is replaced."""
        await tables.add(connection, chunks, self.nlp)

    async def remove(self, connection: aiosqlite.Connection, chunk_ids: Sequence[int]) -> None:
        """Remove what chunks say."""
        await tables.remove(connection, chunk_ids)

    async def scrub(self, connection: aiosqlite.Connection) -> None:
        """Leave nothing of what was removed."""
        await tables.scrub(connection)

    async def describe(self, index: Index) -> str:
        """Return how many statements each rule has read out of the notes."""
        from .rows import Reader

        rules = await Reader(index, None).count_rules()
        listed = ", ".join(f"{rule} {count:,}" for rule, count in rules)
        return f"graph: {sum(count for _, count in rules):,} statements{f', by rule: {listed}' if listed else ''}"

    async def complete(self, query: Query, index: Index, hits: list[Hit]) -> list[Hit]:
        """Return the hits of another strategy with the ends of paths between them."""
        lookup = Lookup(index, query)
        return insert(hits, await path_hits(lookup, await find_paths(lookup, hits), MOST))

    async def search(self, query: Query, index: Arms) -> list[Hit]:
        """Return the ends of paths, best first: one for each file."""
        hits = await index.search(self.strategy, query)
        lookup = Lookup(index, query)
        return await path_hits(lookup, await find_paths(lookup, hits or []), query.limit)


@hookimpl
def kipu_register_strategies(register: Register[Strategy]) -> None:
    """Register the strategy ``graph``."""
    register("graph", GraphStrategy)


def __getattr__(name: str) -> Any:
    """Import `Graph` when it is used: a search does without."""
    if name != "Graph":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .reading import Graph

    return Graph
