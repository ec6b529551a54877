"""What a strategy sees of the index during one search: `kipu.types.Index`, and `kipu.types.Arms` for those it asks."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Self

import attrs

from ..errors import UnavailableError
from ..index.file import make_plugin_folder
from ..index.filters import filters
from ..index.queries import admit
from ..index.strategy_tables import indexed_strategies, stale_tables, tables_of
from ..index.vectors import read_vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    import aiosqlite

    from ..context import Context
    from ..index.queries import Snapshot
    from ..plugins.adapters import StrategyAdapter
    from ..types import Hit, Query, StoredChunk, Vectors, VectorSpace


def has_current_tables(snapshot: Snapshot, strategy: StrategyAdapter, query: Query) -> bool:
    """Return whether the strategy's tables are current. Strategies without tables always are."""
    space = query.embedding.space if query.embedding else None
    tables = tables_of(snapshot, indexed_strategies({strategy.name: strategy}), space.identity if space else None)
    return not stale_tables(snapshot, [each for each in tables if space is None or each.space in (None, space)])


class IndexReader:
    """The index for one strategy, and the strategies that it searches with, each on a connection of its own.

    :param unavailable: called with a sentence for each strategy that cannot answer now, empty if its tables are stale.
    """

    def __init__(
        self,
        context: Context,
        snapshot: Snapshot,
        strategy: StrategyAdapter,
        strategies: Mapping[str, StrategyAdapter],
        unavailable: Callable[[str], None],
    ) -> None:
        self._context = context
        self._snapshot = snapshot
        self._strategy = strategy
        self._strategies = strategies
        self._unavailable = unavailable
        self._readers: dict[str, IndexReader] = {}
        self._opening = asyncio.Lock()
        self._connections = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        for reader in self._readers.values():
            await reader.__aexit__(*error)
        await self._connections.aclose()

    # --- kipu.types.Index ------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """A name of this index, another one after each rebuild from nothing."""
        return self._snapshot.index_id

    @property
    def folder(self) -> Path:
        """The strategy's own folder in ``.kipu/``."""
        return make_plugin_folder(self._context.database.path.parent, self._strategy.name)

    @property
    def connection(self) -> aiosqlite.Connection:
        """The read-only connection of this search."""
        return self._snapshot.connection

    def where(self, query: Query) -> tuple[str, list[Any]]:
        """Return the query's filters as an SQL condition on ``kipu_files`` and ``kipu_chunks``, and its parameters."""
        scope = self._context.scope
        if scope.label is not None:
            sources = filter(None, map(scope.source, query.sources or [scope.label]))
            query = attrs.evolve(query, sources=tuple(sources))
        return filters(query, archived=self._snapshot.has_archive, prefix="kipu_")

    async def chunks(self, ids: Iterable[int]) -> dict[int, StoredChunk]:
        """Load chunks by the ids of their rows, in the order given."""
        return await self._snapshot.chunks(ids)

    async def vectors(self, space: VectorSpace, ids: Sequence[int]) -> tuple[list[int], Vectors]:
        """Load the vectors of chunks: the ids that have one, and a matrix with a row for each."""
        return await read_vectors(self.connection, space, ids)

    # --- kipu.types.Arms -------------------------------------------------------------------------------------------

    def needs_vectors(self, strategy: str) -> bool:
        """Return whether a strategy searches by vectors."""
        return self._strategies[strategy].needs_vectors

    async def search(self, strategy: str, query: Query) -> list[Hit] | None:
        """Search with another strategy; return None if it cannot answer now."""
        chosen = self._strategies[strategy]
        if not self._can_answer(chosen, query):
            return None
        try:
            return await admit(self._snapshot, query, await chosen.search(query, await self._reader(chosen)))
        except UnavailableError as error:
            self._unavailable(f"The {chosen.label} was left out: {error}")
            return None

    async def score(self, strategy: str, query: Query, ids: Sequence[int]) -> dict[int, float]:
        """Have another strategy score chunks that it did not return; those it cannot judge are left out."""
        chosen = self._strategies[strategy]
        if not ids or not chosen.has("score") or not self._can_answer(chosen, query):
            return {}
        try:
            return await chosen.score(query, await self._reader(chosen), ids)
        except UnavailableError as error:
            self._unavailable(f"The {chosen.label} was left out: {error}")
            return {}

    async def score_files(self, strategy: str, query: Query, paths: Sequence[str]) -> dict[str, float]:
        """Have another strategy score whole files; those it cannot judge are left out."""
        chosen = self._strategies[strategy]
        if not paths or not chosen.has("score_files") or not self._can_answer(chosen, query):
            return {}
        try:
            return await chosen.score_files(query, await self._reader(chosen), paths)
        except UnavailableError as error:
            self._unavailable(f"The {chosen.label} was left out: {error}")
            return {}

    def _can_answer(self, strategy: StrategyAdapter, query: Query) -> bool:
        if strategy.needs_vectors and query.embedding is None:
            return False
        is_current = has_current_tables(self._snapshot, strategy, query)
        if not is_current:
            self._unavailable("")
        return is_current

    async def _reader(self, strategy: StrategyAdapter) -> IndexReader:
        """Return the reader of another strategy: one connection for all that it is asked in this search."""
        async with self._opening:
            if strategy.name not in self._readers:
                reader = self._context.database.reader(further=True)
                connection = await self._connections.enter_async_context(reader)
                snapshot = self._snapshot.on(connection)
                self._readers[strategy.name] = IndexReader(
                    self._context, snapshot, strategy, self._strategies, self._unavailable
                )
        return self._readers[strategy.name]
