"""Stores what one embedder embeds, reads what is pending for it, and drops what is not needed any more."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import attrs

from ..errors import IndexUnavailableError
from ..index.coverage import count_pending
from ..index.queries import read_snapshot
from ..index.strategy_tables import change, rebuild, retire, stale_tables, tables_of
from ..index.vectors import BYTES_PER_NUMBER, evict, evictable, make_space, pending_texts, refuse, store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ..context import Context
    from ..index.database import Connection
    from ..index.queries import Snapshot
    from ..index.strategy_tables import Select, StrategyTables
    from ..index.vectors import PendingText
    from ..types import Vectors, VectorSpace
    from .identity import ConfiguredEmbedder

# How large vectors are expected to be before the first one.
_USUAL_DIMENSION = 1024


@attrs.define
class VectorStorage:
    """The vectors of one embedder in the index.

    ``pending`` is how many chunks had none when that was counted last, and ``space`` the space, from `open` on.

    :param is_configured: whether nothing but the vectors of this embedder is needed, once nothing is pending.
    :param busy_seconds: how long to wait for another process that writes to the index.
    :param sources: embed only chunks of these sources; all if there are none.
    """

    context: Context
    embedder: ConfiguredEmbedder
    is_configured: bool
    busy_seconds: float
    sources: Sequence[str] = ()
    pending: int = attrs.field(default=0, init=False)
    space: VectorSpace = attrs.field(init=False)

    async def open(self, limit: int) -> list[PendingText]:
        """Count what is pending, and return the first texts of it. Make the space if there is none yet."""
        texts, is_tidy = [], True
        async with self.context.database.snapshot() as snapshot:
            known = snapshot.spaces.get(self.embedder.identity)
            is_current = known is not None and known.recipe == self.embedder.recipe
            if known is not None:
                self.space = known.space
                texts = await self._first_texts(snapshot.connection, limit)
                is_tidy = bool(self.pending or self.sources) or await self._is_tidy(snapshot)
        if not is_tidy:
            await self._change(self._tidy)
        if not is_current:
            async with self.context.database.transaction(self.busy_seconds) as connection:
                self.space = await self._make_space(await read_snapshot(connection))
                texts = await self._first_texts(connection, limit)
        return texts

    async def _first_texts(self, connection: Connection, limit: int) -> list[PendingText]:
        self.pending, _ = await count_pending(connection, self.space, self.sources)
        return await pending_texts(connection, self.space, limit, sources=self.sources) if self.pending else []

    async def read(self, limit: int, *, before: int = sys.maxsize, refused: bool = False) -> list[PendingText]:
        """Return more pending texts. See `pending_texts`."""
        async with self.context.database.reader() as connection:
            return await pending_texts(
                connection, self.space, limit, before=before, refused=refused, sources=self.sources
            )

    def check_room(self, chunks: int) -> None:
        """Check that vectors can be written, and that the disk has room for them, before paying for them."""
        path = self.context.database.path
        if not os.access(path, os.W_OK):
            raise IndexUnavailableError(f"The index {path} cannot be written. Make the file and its folder writable.")
        size = (self.space.dimension or _USUAL_DIMENSION) * BYTES_PER_NUMBER
        needed = 2 * chunks * size  # strategies may store as much again
        if (free := shutil.disk_usage(path.parent).free) < needed:
            raise IndexUnavailableError(
                f"The disk is too full for the vectors of {chunks:,} chunks: {free / 1e6:.1f} MB are left in "
                f"{path.parent}, and {needed / 1e6:.1f} MB are needed. Free some space and try again."
            )

    async def store(self, vectors: Mapping[str, Vectors]) -> None:
        """Store vectors by the hash of their text, and add them to the tables of strategies.

        :raises EmbedderError: they have not the dimension of the space.
        """
        dimension = len(next(iter(vectors.values())))
        as_bytes = {hash: vector.astype("<f4").tobytes() for hash, vector in vectors.items()}

        async def work(snapshot: Snapshot, select: Select) -> None:
            connection = snapshot.connection
            known = snapshot.spaces.get(self.embedder.identity)
            self.space = space = await self._make_space(snapshot, dimension)
            if known is None or known.space != space:
                snapshot = await read_snapshot(connection)
            tables = select(snapshot)
            for each in stale_tables(snapshot, tables):
                await rebuild(connection, each)
            stored = await store(connection, space, as_bytes)
            for each in tables:
                if each.space == space:
                    await each.remove(connection, stored.replaced)
                    await each.add_vectors(connection, space, stored.vectors)
            pending, refused = await count_pending(connection, space)
            self.pending = (await count_pending(connection, space, self.sources))[0] if self.sources else pending
            if pending == refused:
                await self._tidy(snapshot, select)

        await self._change(work)

    async def refuse(self, problems: Mapping[str, str]) -> None:
        """Record why texts were refused, by their hashes."""
        async with self.context.database.transaction(self.busy_seconds) as connection:
            await refuse(connection, await self._make_space(await read_snapshot(connection)), problems)

    async def _make_space(self, snapshot: Snapshot, dimension: int = 0) -> VectorSpace:
        known = snapshot.spaces.get(self.embedder.identity)
        return await make_space(snapshot.connection, known, self.embedder.identity, self.embedder.recipe, dimension)

    async def _change(self, work: Callable[[Snapshot, Select], Awaitable[None]]) -> None:
        await change(self.context.database, self._tables, work, self.context.notices, self.busy_seconds)

    def _tables(self, snapshot: Snapshot) -> list[StrategyTables]:
        return tables_of(snapshot, self.context.components.indexed, self.embedder.identity)

    # --- what is not needed any more -------------------------------------------------------------------------------

    async def _is_tidy(self, snapshot: Snapshot) -> bool:
        has_others = any(each.space not in (None, self.space) for each in self._tables(snapshot))
        return not self.is_configured or not (has_others or await self._evictable(snapshot))

    async def _tidy(self, snapshot: Snapshot, select: Select) -> None:
        """Drop the tables of other spaces, and cached vectors beyond the limit."""
        if self.is_configured:
            await retire(snapshot.connection, select(snapshot), self.space)
            await evict(snapshot.connection, await self._evictable(snapshot))

    async def _evictable(self, snapshot: Snapshot) -> list[int]:
        return await evictable(snapshot.connection, self.space, self.context.config.index.cache_bytes)
