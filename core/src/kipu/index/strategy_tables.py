"""The tables that strategies keep in the index: which there are, how they are made, and who is blamed when they fail.

A strategy has one set of tables, or one for each vector space if it indexes vectors. The table ``strategies`` says by
which version of a strategy each was made; a set that is not up to date is made anew from what the kernel has.
"""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import ConfigurationError, KipuError, PluginFailedError
from ..sqlite import is_trouble_with_the_file, sqlite_errors, uninterrupted
from .queries import CHUNK_COLUMNS, CHUNKS_AND_FILES, count_chunks, stored_chunk
from .schema import kernel_tables
from .vectors import known_spaces, sound, usable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    import aiosqlite

    from ..types import StoredChunk, VectorSpace

__all__ = [
    "Tables",
    "backfill",
    "drop_all",
    "indexed_strategies",
    "is_fault_of_tables",
    "needs_vectors",
    "outdated",
    "retire",
    "tables_of",
]

_BACKFILLED_AT_A_TIME = 1000
_OF_CHUNKS = ("schema_version", "create", "add", "remove")
_OF_VECTORS = (*_OF_CHUNKS, "drop")


def needs_vectors(component: Any) -> bool:
    """Whether a strategy or a post-processor says that it works with vectors."""
    return bool(getattr(component, "needs_vectors", False))


def indexed_strategies(strategies: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the strategies that keep an index of their own, by the name of their class.

    Strategies of one class share their tables, so what is kept up to date is an index for each class.

    :raises ConfigurationError: one of them has only a part of what it takes, or two of one class want other tables.
    """
    found: dict[str, Any] = {}
    for name, strategy in strategies.items():
        needed = _OF_VECTORS if needs_vectors(strategy) else _OF_CHUNKS
        have = [part for part in needed if hasattr(strategy, part)]
        if have and len(have) < len(needed):
            lacking = ", ".join(part for part in needed if part not in have)
            protocol = "VectorIndexedStrategy" if needs_vectors(strategy) else "IndexedStrategy"
            raise ConfigurationError(
                f'The strategy "{name}" has {", ".join(have)} but lacks {lacking}: '
                f"a strategy with an index of its own has all of them (kipu.types.{protocol})."
            )
        if have:
            kind = f"{type(strategy).__module__}.{type(strategy).__qualname__}"
            other = found.setdefault(kind, strategy)
            if str(other.schema_version) != str(strategy.schema_version):
                raise ConfigurationError(
                    f'The strategy "{name}" wants tables of version {strategy.schema_version}, and another strategy '
                    f"of the class {kind} wants version {other.schema_version}: they share them. Use one of the two."
                )
    return found


@attrs.frozen
class Tables:
    """What one strategy keeps in the index, of all chunks or of the vectors in one space."""

    name: str
    strategy: Any
    space: VectorSpace | None = None

    @property
    def key(self) -> tuple[str, int]:
        """What the index knows them by."""
        return self.name, self.space.id if self.space else 0

    @property
    def version(self) -> str:
        """What the index records of the version that made them."""
        return str(self.strategy.schema_version)

    async def create(self, connection: aiosqlite.Connection) -> None:
        """Make them, empty."""
        async with self._blamed(connection):
            await self.strategy.create(connection, *self._space)

    async def add_chunks(self, connection: aiosqlite.Connection, chunks: Sequence[StoredChunk]) -> None:
        """Take in chunks, if it is chunks that they are made of."""
        if self.space is None and chunks:
            async with self._blamed(connection):
                await self.strategy.add(connection, chunks)

    async def add_vectors(
        self, connection: aiosqlite.Connection, space: VectorSpace, vectors: Sequence[tuple[int, bytes]]
    ) -> None:
        """Take in the vectors of chunks in a space, if it is theirs."""
        if self.space == space and vectors:
            async with self._blamed(connection):
                ids, rows = usable(vectors, space.dimension)
                if ids:
                    await self.strategy.add(connection, space, ids, rows)

    async def remove(self, connection: aiosqlite.Connection, ids: Sequence[int]) -> None:
        """Forget chunks."""
        if ids:
            async with self._blamed(connection):
                await self.strategy.remove(connection, *self._space, ids)

    async def scrub(self, connection: aiosqlite.Connection) -> None:
        """Leave nothing in them of what was removed; a strategy that cannot do that has them made anew."""
        if not hasattr(self.strategy, "scrub"):
            await backfill(connection, self)
            return
        async with self._blamed(connection):
            await self.strategy.scrub(connection, *self._space)

    async def drop(self, connection: aiosqlite.Connection) -> None:
        """Drop those for a space."""
        async with self._blamed(connection):
            await self.strategy.drop(connection, *self._space)

    @property
    def _space(self) -> tuple[VectorSpace, ...]:
        return (self.space,) if self.space else ()

    @contextlib.asynccontextmanager
    async def _blamed(self, connection: aiosqlite.Connection) -> AsyncIterator[None]:
        """Keep the strategy from ending the transaction, and say which it was that failed.

        What SQLite says of the whole database is not its fault.
        """
        try:
            await connection.set_authorizer(_within_the_transaction)
            yield
        except (Exception, SystemExit) as error:
            if isinstance(error, KipuError) or is_trouble_with_the_file(error):
                raise
            raise PluginFailedError(
                f"The strategy {self.name} failed while indexing: {type(error).__name__}: {error}. What this batch "
                "would have changed is as it was. To make its tables anew: kipu index --force. To go on without it, "
                "name another one: search.strategy in kipu.toml, or search(strategy=...)."
            ) from error
        finally:
            await uninterrupted(connection.set_authorizer(None))


def is_fault_of_tables(error: PluginFailedError) -> bool:
    """Whether a strategy failed for what SQLite said of its tables, which may pass if they are made anew."""
    return isinstance(error.__cause__, sqlite_errors()) and not is_trouble_with_the_file(error.__cause__)


def _within_the_transaction(action: int, *_: object) -> int:
    """Deny what would commit or roll back: ``executescript`` does, before anything else, and nobody notices."""
    return sqlite3.SQLITE_DENY if action in (_TRANSACTION, _SAVEPOINT) else sqlite3.SQLITE_OK


# https://www.sqlite.org/c3ref/c_alter_table.html
_TRANSACTION, _SAVEPOINT = 22, 32


async def tables_of(
    connection: aiosqlite.Connection, strategies: Mapping[str, Any], identity: str | None
) -> list[Tables]:
    """The tables that strategies have or are to have.

    Of vectors, those for the space of the embedder that is used, by its identity, and those that there are for others:
    they answer until the former are complete.
    """
    recorded = {(row[0], row[1]) for row in await connection.execute_fetchall("SELECT name, space_id FROM strategies")}
    spaces = [known.space for known in (await known_spaces(connection)).values()]
    tables = []
    for name, strategy in strategies.items():
        if needs_vectors(strategy):
            used = [
                space
                for space in spaces
                if space.dimension > 0 and (space.identity == identity or (name, space.id) in recorded)
            ]
            tables += [Tables(name, strategy, space) for space in used]
        else:
            tables.append(Tables(name, strategy))
    return tables


async def outdated(connection: aiosqlite.Connection, tables: Sequence[Tables]) -> list[Tables]:
    """Those that were never made, or were made by another version of their strategy."""
    rows = await connection.execute_fetchall("SELECT name, space_id, schema_version FROM strategies")
    have = {(row[0], row[1]): row[2] for row in rows}
    return [each for each in tables if have.get(each.key) != each.version]


async def backfill(
    connection: aiosqlite.Connection,
    tables: Tables,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Make tables and fill them from the chunks or the vectors that the index has; no file is read for it.

    Damaged vectors are left out.

    :param on_progress: called with the number of chunks done and of all chunks.
    """
    await tables.create(connection)
    total, done, last = await count_chunks(connection), 0, 0
    while True:
        if tables.space is None:
            statement = f"SELECT {CHUNK_COLUMNS} FROM {CHUNKS_AND_FILES} WHERE chunks.id > ? ORDER BY chunks.id LIMIT ?"
            parameters: tuple[int, ...] = (last, _BACKFILLED_AT_A_TIME)
        else:
            statement = (
                "SELECT chunks.id, vector FROM chunks CROSS JOIN embeddings ON embeddings.hash = chunks.hash "
                f"WHERE chunks.id > ? AND space_id = ? AND {sound(tables.space)} ORDER BY chunks.id LIMIT ?"
            )
            parameters = (last, tables.space.id, _BACKFILLED_AT_A_TIME)
        rows = list(await connection.execute_fetchall(statement, parameters))
        if not rows:
            break
        if tables.space is None:
            await tables.add_chunks(connection, [stored_chunk(row) for row in rows])
        else:
            await tables.add_vectors(connection, tables.space, [(row[0], row[1]) for row in rows])
        done, last = done + len(rows), rows[-1][0]
        on_progress(done, total)
    await connection.execute(
        "INSERT OR REPLACE INTO strategies (name, space_id, schema_version) VALUES (?, ?, ?)",
        (*tables.key, tables.version),
    )


async def drop_all(connection: aiosqlite.Connection) -> None:
    """Drop the tables of all strategies, whatever they are called."""
    rows = await connection.execute_fetchall("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    own = kernel_tables()
    for name, _ in sorted(rows, key=lambda row: not str(row[1]).upper().startswith("CREATE VIRTUAL")):
        if name not in own and not name.startswith("sqlite_"):
            left = await connection.execute_fetchall("SELECT 1 FROM sqlite_master WHERE name = ?", (name,))
            if list(left):  # a virtual table takes those along that it keeps its data in
                await connection.execute(f'DROP TABLE "{name}"')
    await connection.execute("DELETE FROM strategies")


async def retire(connection: aiosqlite.Connection, tables: Sequence[Tables], space: VectorSpace) -> None:
    """Drop the tables of vectors in other spaces than this. The vectors stay, and so they can be made again."""
    for each in tables:
        if each.space is not None and each.space != space:
            await each.drop(connection)
            await connection.execute("DELETE FROM strategies WHERE name = ? AND space_id = ?", each.key)
