"""The connections of a memory to its index: one that writes, and a few that read side by side."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import weakref
from typing import TYPE_CHECKING, Any

import aiosqlite

from ..errors import IndexBusyError, IndexUnavailableError, MemoryClosedError, OtherEventLoopError
from ..loops import PerLoop
from ..sqlite import IndexDamageError, choose_driver, is_damage, shielded, uri_path
from . import schema
from .file import IndexFile
from .filters import register_functions
from .queries import Snapshot, read_snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from ..notices import Notices

# How long to wait for another process that writes. Batches are short, so this is far more than one needs.
BUSY_SECONDS = 10.0
# How many rows aiosqlite fetches at a time from its thread.
_ROWS_AT_A_TIME = 1024
_READERS = 4

# SQLite's records of its locks are inherited by a forked process, and are wrong there: it would mix up what the two
# processes write. https://www.sqlite.org/howtocorrupt.html, 2.6
_used: weakref.WeakSet[Database] = weakref.WeakSet()
_inherited: set[Path] = set()


def _note_inherited() -> None:
    _inherited.update(database.path for database in _used)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_inherited)


class Connection(aiosqlite.Connection):
    """A connection, which raises `IndexDamageError` for whatever SQLite says of a damaged file.

    ``file`` tells on which file it was opened: the one at that path may have been replaced since. While ``is_guarded``
    is true, as for the code of strategies, statements of the connection that writes can neither end the transaction
    nor change tables of the kernel.
    """

    file: tuple[int, int] | None = None
    is_guarded = False

    async def _execute(self, fn: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return await super()._execute(fn, *arguments, **options)  # type: ignore[no-untyped-call]
        except Exception as error:
            if is_damage(error):
                raise IndexDamageError(error, self.file) from error
            raise

    def authorize(self, action: int, *arguments: Any) -> int:
        """Return whether a statement may be prepared: https://www.sqlite.org/c3ref/set_authorizer.html"""
        place = _GUARDED.get(action) if self.is_guarded else None
        denied = place is not None and (place < 0 or arguments[place] in _KERNEL_TABLES)
        return sqlite3.SQLITE_DENY if denied else sqlite3.SQLITE_OK


# Actions by their codes, https://www.sqlite.org/c3ref/c_alter_table.html, with the position of the argument that names
# the table; below 0 they are always denied. BEGIN and COMMIT, which `executescript` issues silently, and SAVEPOINT;
# delete, insert, update, drop a table, drop an index, create a trigger, alter a table.
_GUARDED = {22: -1, 32: -1, 9: 0, 18: 0, 23: 0, 11: 0, 10: 1, 7: 1, 26: 1}
_KERNEL_TABLES = schema.kernel_tables()


class Database:
    """The connections of one memory to its index.

    :param path: the SQLite file. It and its folder are created by the first write.
    :param notices: takes a sentence when the index was set aside.
    """

    def __init__(self, path: Path, notices: Notices) -> None:
        self.path: Path = path
        self.driver = choose_driver()
        self.file = IndexFile(path, self.driver, notices)
        self._writer: Connection | None = None
        self._writer_wait = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writing = PerLoop(asyncio.Lock)
        self._idle: list[Connection] = []
        self._reading = PerLoop(lambda: asyncio.Semaphore(_READERS))
        self._closed = False

    @property
    def exists(self) -> bool:
        """Whether there is an index on disk."""
        return os.path.exists(self.path)

    def check_open(self) -> None:
        """Raise MemoryClosedError after `close`, and OtherEventLoopError while another event loop uses the memory."""
        if self._closed:
            raise MemoryClosedError("This memory is closed. Open another one: Memory(workspace)")
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # a component is registered by a thread without one
        if self._loop is not loop and self._loop is not None and self._loop.is_running():
            raise OtherEventLoopError(
                "This memory is in use in another event loop, which is still running. Open a Memory for each event "
                "loop, or use kipu.sync.Memory, which serves all threads."
            )
        self._loop = loop

    # --- transactions ----------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def transaction(self, wait: float = BUSY_SECONDS) -> AsyncIterator[Connection]:
        """Yield a connection inside a write transaction: committed at the end, rolled back on error or cancellation.

        :param wait: how many seconds to wait for another process that is writing.
        :raises IndexBusyError: it is still writing after that.
        :raises IndexUnavailableError: the index cannot be written.
        """
        async with self._writing():
            with self._explained():
                writer = await self._open_writer(wait)
                try:
                    await shielded(writer.execute("BEGIN IMMEDIATE"))
                    yield writer
                    await shielded(writer.commit())
                except BaseException:
                    await shielded(writer.rollback())
                    raise

    @contextlib.asynccontextmanager
    async def reader(self, *, further: bool = False) -> AsyncIterator[Connection]:
        """Yield a read-only connection. If there is no index yet, it reads an empty one.

        :param further: whether the caller has a reader already and needs another one. It does not wait for it: else
            two callers could wait for each other.
        :raises IndexUnavailableError: the index cannot be read.
        """
        async with contextlib.nullcontext() if further else self._reading():
            with self._explained():
                connection = await self._checkout()
                try:
                    # All statements of a search see the same state, whatever other processes write.
                    await shielded(connection.execute("BEGIN"))
                    yield connection
                finally:
                    try:
                        await shielded(connection.rollback())
                    finally:
                        await self._check_in(connection)

    @contextlib.asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Snapshot]:
        """Yield a reader with the facts about the index that every operation needs.

        :raises IndexUnavailableError: the index cannot be read.
        """
        async with self.reader() as connection:
            yield await read_snapshot(connection)

    async def vacuum(self) -> bool:
        """Rewrite the index without the pages that are not used, and what was left on them.

        :return: whether that reached the file: what other processes are reading stays there until they are done.
        :raises IndexBusyError: another process is using it.
        """
        async with self._writing():
            with self._explained():
                await self._open_writer(BUSY_SECONDS)  # which creates the index if there is none
                connection = await self._connect(f"file:{uri_path(self.path)}?mode=rw", "VACUUM")
                try:
                    (row,) = await connection.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")
                finally:
                    await shielded(connection.close())
        return not row[0]

    async def check_pages(self) -> None:
        """Read all pages of the index, if there is one: an operation meets damage only on those that it needs.

        :raises IndexDamageError: one of them is damaged.
        """
        seen = self.file.identity()
        if seen is not None and (damage := await asyncio.to_thread(self.file.damage)):
            raise IndexDamageError(damage, seen)

    async def scratch(self) -> Connection:
        """Return a connection to an empty index in memory. Close it."""
        return await self._connect(":memory:", schema.TABLES)

    async def close(self) -> None:
        """Close all connections: at once, or, if they are in use, when they are returned."""
        self._closed = True
        await self._close_connections()

    async def recover(self, error: Exception) -> None:
        """Set the index aside if it is damaged, so that it is rebuilt, and reopen all connections.

        :param error: what was raised when it was used.
        """
        await self._close_connections()
        seen, reason = self.file.identity(), None
        if isinstance(error, IndexDamageError):
            seen, reason = error.file or seen, f"it is damaged: {error}"
        elif seen is not None:
            reason = await asyncio.to_thread(self.file.damage)
        if reason:
            await asyncio.to_thread(self.file.set_aside, BUSY_SECONDS, reason, seen)

    # --- connections -----------------------------------------------------------------------------------------------

    def _check_usable(self) -> None:
        """Raise unless the index may be opened here: not after `close`, in a fork, or through a symlink."""
        self.check_open()
        if self.path in _inherited:
            raise IndexUnavailableError(
                f"The index {self.path} was open when this process was forked, and cannot be used in it. Close the "
                'memory before os.fork(), or start processes with the method "spawn".'
            )
        _used.add(self)
        self.file.check_regular()

    async def _open_writer(self, wait: float) -> Connection:
        self._check_usable()
        if self._writer is not None and self._writer.file != self.file.identity():
            replaced, self._writer = self._writer, None
            await shielded(replaced.close())
        if self._writer is None:
            await asyncio.to_thread(self.file.prepare, wait)
            script = f"PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = {int(wait * 1000)}"
            connection = await self._connect(f"file:{uri_path(self.path)}?mode=rw", script, wait)
            await connection.set_authorizer(connection.authorize)
            self._writer = connection
            self._writer_wait = wait
        elif self._writer_wait != wait:
            await self._writer.execute(f"PRAGMA busy_timeout = {int(wait * 1000)}")
            self._writer_wait = wait
        return self._writer

    async def _checkout(self) -> Connection:
        self._check_usable()
        while self._idle:
            connection = self._idle.pop()
            if connection.file == self.file.identity():
                return connection
            await shielded(connection.close())
        file = self.file.identity()
        if file is not None:
            try:
                return await self._connect(self.file.uri(), "PRAGMA query_only = 1", check=True)
            except schema.OtherSchemaError:
                pass  # as if there was no index, until the next write rebuilds it
            except self.driver.OperationalError:
                if self.file.identity() == file:
                    raise
                return await self._checkout()  # another task or process moved it away
        return await self._connect(":memory:", schema.TABLES)

    async def _check_in(self, connection: Connection) -> None:
        if connection.file is None or self._closed or len(self._idle) >= _READERS:
            await shielded(connection.close())
        else:
            self._idle.append(connection)

    async def _close_connections(self) -> None:
        async with self._writing():
            opened = [*self._idle, *([self._writer] if self._writer else [])]
            self._idle, self._writer = [], None
            for each in opened:
                await shielded(each.close())

    async def _connect(self, uri: str, script: str, wait: float = BUSY_SECONDS, *, check: bool = False) -> Connection:
        """Open a connection and run a script on it; with ``check``, only if the tables are of this version."""

        def connector() -> Any:
            connection = self.driver.connect(uri, timeout=wait, isolation_level=None, uri=True, check_same_thread=False)
            try:
                if check:
                    schema.check_current(connection)
                connection.executescript(script)
                register_functions(connection)
            except BaseException:
                connection.close()
                raise
            return connection

        connection = Connection(connector, iter_chunk_size=_ROWS_AT_A_TIME)
        connection.file = None if uri == ":memory:" else self.file.identity()
        # Otherwise the thread would keep a program from ending that forgot to close a memory.
        connection._thread.daemon = True  # noqa: SLF001 (there is no public way)
        try:
            await shielded(connection.__aenter__())
        except asyncio.CancelledError:
            with contextlib.suppress(ValueError):  # it could not be opened
                await shielded(connection.close())
            raise
        except BaseException as error:
            await asyncio.to_thread(connection._thread.join)  # noqa: SLF001 (else it outlives the event loop)
            if is_damage(error):
                raise IndexDamageError(error, connection.file) from error
            raise
        return connection

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of SQLite and of the file system into errors that say what to do."""
        try:
            yield
        except (sqlite3.OperationalError, self.driver.OperationalError) as error:
            if "readonly" in str(error) and os.access(self.path, os.W_OK):  # so says its header
                raise IndexDamageError(error, self.file.identity()) from error
            if "locked" in str(error) or "busy" in str(error):
                raise IndexBusyError(
                    f"Another process is writing to the index {self.path}. Try again when it is done."
                ) from error
            raise IndexUnavailableError(f"The index {self.path} cannot be used: {error}.") from error
        except OSError as error:
            raise IndexUnavailableError(
                f"The index {self.path} cannot be written: {error.strerror or error}. Kipu keeps it in the workspace, "
                f"in the folder {self.path.parent.name}/, which it must be able to write."
            ) from error
