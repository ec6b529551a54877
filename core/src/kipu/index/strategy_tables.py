"""The tables that strategies keep in the index: which there are, how they are rebuilt, and what happens on failure.

A strategy has one set of tables, or one for each vector space if it indexes vectors. The kernel's table ``strategies``
records by which version of a strategy each was made; a set that is not current is rebuilt from what the kernel has.
A strategy that fails while its tables change misses the change: the transaction is rolled back and runs again without
it, and its record is deleted, so that its tables are rebuilt later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ..errors import ConfigurationError, PluginError
from ..sqlite import shielded
from .annotations import with_annotations
from .queries import count_chunks, read_snapshot, select_chunks
from .vectors import decode_vectors, has_right_length

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from ..notices import Notices
    from ..plugins.adapters import StrategyAdapter
    from ..types import StoredChunk, VectorSpace
    from .database import Connection, Database
    from .queries import Snapshot

Answer = TypeVar("Answer")

_ROWS_AT_A_TIME = 1000
_OF_CHUNKS = ("schema_version", "create", "add", "remove")
_OF_VECTORS = (*_OF_CHUNKS, "drop")


def indexed_strategies(strategies: Mapping[str, StrategyAdapter]) -> dict[str, StrategyAdapter]:
    """Return those of the strategies that have an index of their own, by the name of their class.

    Strategies of one class share their tables.

    :raises ConfigurationError: one has only a part of the methods, or two of one class need other tables.
    """
    found: dict[str, StrategyAdapter] = {}
    for name, strategy in strategies.items():
        needed = _OF_VECTORS if strategy.needs_vectors else _OF_CHUNKS
        have = [part for part in needed if hasattr(strategy.component, part)]
        if have and len(have) < len(needed):
            missing = ", ".join(part for part in needed if part not in have)
            protocol = "VectorIndexedStrategy" if strategy.needs_vectors else "IndexedStrategy"
            raise ConfigurationError(
                f'The strategy "{name}" has {", ".join(have)} but lacks {missing}: '
                f"a strategy with an index of its own has all of them (kipu.types.{protocol})."
            )
        if have:
            other = found.setdefault(strategy.class_name, strategy)
            if other.schema_version != strategy.schema_version:
                raise ConfigurationError(
                    f'The strategy "{name}" needs tables of version {strategy.schema_version}, and another strategy of '
                    f"the class {strategy.class_name} needs version {other.schema_version}: they share them. Use one "
                    "of the two."
                )
    return found


@attrs.frozen
class StrategyTables:
    """What one strategy keeps in the index: of all chunks, or of the vectors in one space."""

    name: str
    strategy: StrategyAdapter
    space: VectorSpace | None = None

    @property
    def key(self) -> tuple[str, int]:
        """What the index knows them by."""
        return self.name, self.space.id if self.space else 0

    @property
    def version(self) -> str:
        """The version of the strategy that the index records for them."""
        return self.strategy.schema_version

    async def create(self, connection: Connection) -> None:
        """Create them, empty."""
        await self._change("create", connection)

    async def add_chunks(self, connection: Connection, chunks: Sequence[StoredChunk]) -> None:
        """Add chunks, if they are made of chunks."""
        if self.space is None and chunks:
            if self.strategy.needs_annotations:
                chunks = await with_annotations(connection, chunks)
            await self._change("add", connection, chunks)

    async def add_vectors(
        self, connection: Connection, space: VectorSpace, vectors: Sequence[tuple[int, bytes]]
    ) -> None:
        """Add the vectors of chunks, if they are made of the vectors of that space."""
        if self.space == space and vectors:
            ids, rows = decode_vectors(vectors, space.dimension)
            if ids:
                await self._change("add", connection, ids, rows)

    async def remove(self, connection: Connection, ids: Sequence[int]) -> None:
        """Remove chunks."""
        if ids:
            await self._change("remove", connection, ids)

    async def scrub(self, connection: Connection) -> None:
        """Leave nothing in them of what was removed; without a method for it, they are rebuilt."""
        if self.strategy.has("scrub"):
            await self._change("scrub", connection)
        else:
            await rebuild(connection, self)

    async def drop(self, connection: Connection) -> None:
        """Drop them. Only tables of vectors are ever dropped."""
        await self._change("drop", connection)

    async def _change(self, method: str, connection: Connection, *arguments: Any) -> None:
        space = (self.space,) if self.space else ()
        connection.is_guarded = True
        try:
            await self.strategy.change_tables(method, connection, *space, *arguments)
        except PluginError as error:
            raise TablesError(self, error) from error
        finally:
            connection.is_guarded = False


def tables_of(
    snapshot: Snapshot, strategies: Mapping[str, StrategyAdapter], identity: str | None
) -> list[StrategyTables]:
    """Return the tables that strategies have or should have.

    Of vectors, these are the tables for the space of the configured embedder, by its identity, and existing ones for
    other spaces: those answer until the former are complete.
    """
    tables = []
    for name, strategy in strategies.items():
        if not strategy.needs_vectors:
            tables.append(StrategyTables(name, strategy))
            continue
        tables += [
            StrategyTables(name, strategy, known.space)
            for known in snapshot.spaces.values()
            if known.space.dimension > 0
            and (known.space.identity == identity or (name, known.space.id) in snapshot.versions)
        ]
    return tables


def stale_tables(snapshot: Snapshot, tables: Sequence[StrategyTables]) -> list[StrategyTables]:
    """Return the tables that were never made, or were made by another version of their strategy."""
    return [each for each in tables if snapshot.versions.get(each.key) != each.version]


async def change(
    database: Database,
    tables: Callable[[Snapshot], Sequence[StrategyTables]],
    work: Callable[[Snapshot, Select], Awaitable[Answer]],
    notices: Notices,
    wait: float,
) -> Answer:
    """Run ``work`` in a write transaction that changes strategies' tables; run it again without those that fail.

    :param tables: returns the tables that should change.
    :param work: called with a snapshot, and with a function that returns those of the tables that have not failed.
    :param wait: how many seconds to wait for another process that is writing.
    """
    failed: set[tuple[str, int]] = set()

    def select(snapshot: Snapshot) -> list[StrategyTables]:
        return [each for each in tables(snapshot) if each.key not in failed]

    while True:
        try:
            async with database.transaction(wait) as connection:
                if failed:
                    await connection.executemany(
                        "DELETE FROM strategies WHERE name = ? AND space_id = ?", sorted(failed)
                    )
                return await work(await read_snapshot(connection), select)
        except TablesError as error:
            failed.add(error.tables.key)
            notices.add(f"{error} It finds nothing until its tables are rebuilt, which the next search tries.")


Select = Callable[["Snapshot"], "list[StrategyTables]"]
"""Returns the tables that take part in a change."""


class TablesError(Exception):
    """A strategy failed to change its tables, so the transaction is rolled back."""

    def __init__(self, tables: StrategyTables, error: PluginError) -> None:
        super().__init__(str(error))
        self.tables = tables


async def rebuild(
    connection: Connection,
    tables: StrategyTables,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Create tables and fill them from the chunks or vectors of the index, without reading files.

    :param on_progress: called with the number of chunks done and of all chunks.
    """
    await tables.create(connection)
    total, done, last = await count_chunks(connection), 0, 0
    while ids := await _add_next(connection, tables, last):
        done, last = done + len(ids), ids[-1]
        on_progress(done, total)
    await connection.execute(
        "INSERT OR REPLACE INTO strategies (name, space_id, schema_version) VALUES (?, ?, ?)",
        (*tables.key, tables.version),
    )


async def _add_next(connection: Connection, tables: StrategyTables, last: int) -> list[int]:
    """Add the next chunks after an id, or their vectors, and return the ids of these chunks."""
    space = tables.space
    if space is None:
        clauses = "WHERE chunks.id > ? ORDER BY chunks.id LIMIT ?"
        chunks = await select_chunks(connection, clauses, (last, _ROWS_AT_A_TIME))
        await tables.add_chunks(connection, chunks)
        return [chunk.id for chunk in chunks]
    statement = (
        "SELECT chunks.id, vector FROM chunks CROSS JOIN embeddings ON embeddings.hash = chunks.hash "
        f"WHERE chunks.id > ? AND space_id = ? AND {has_right_length(space)} ORDER BY chunks.id LIMIT ?"
    )
    rows = await connection.execute_fetchall(statement, (last, space.id, _ROWS_AT_A_TIME))
    await tables.add_vectors(connection, space, [(row[0], row[1]) for row in rows])
    return [row[0] for row in rows]


async def drop_others(snapshot: Snapshot, database: Database, tables: Sequence[StrategyTables]) -> None:
    """Drop the tables of all strategies but these, whatever they are called: virtual ones first, which drop their own.

    They may have texts and vectors that were removed while their strategy was not in use. Which ones those of
    ``tables`` are is found by creating them in an empty index.
    """
    connection, scratch = snapshot.connection, await database.scratch()
    try:
        for each in tables:
            await each.create(scratch)
        kept = {row[0] for row in await scratch.execute_fetchall("SELECT name FROM sqlite_master")}
    finally:
        await shielded(scratch.close())
    found = await connection.execute_fetchall("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    for name, _ in sorted(found, key=lambda table: not str(table[1]).upper().startswith("CREATE VIRTUAL")):
        if name not in kept and not name.startswith("sqlite_"):
            exists = await connection.execute_fetchall("SELECT 1 FROM sqlite_master WHERE name = ?", (name,))
            if list(exists):
                await connection.execute(f'DROP TABLE "{name}"')
    missed = set(snapshot.versions) - {each.key for each in tables}
    await connection.executemany("DELETE FROM strategies WHERE name = ? AND space_id = ?", sorted(missed))


async def retire(connection: Connection, tables: Sequence[StrategyTables], space: VectorSpace) -> None:
    """Drop the tables of vectors in other spaces than this. The vectors stay, so the tables can be rebuilt."""
    for each in tables:
        if each.space is not None and each.space != space:
            await each.drop(connection)
            await connection.execute("DELETE FROM strategies WHERE name = ? AND space_id = ?", each.key)
