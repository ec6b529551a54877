"""Opens the SQLite file of the index: with which settings, and what to do when it cannot be used.

The index is derived from the memory files. One that is damaged, or that another version of Kipu made, is set aside
or made anew; nothing in it is worth a failed search. What is not Kipu's is moved aside whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import aiosqlite
import attrs

from ..errors import IndexBusyError, IndexUnavailableError
from ..sqlite import choose_driver, is_damage, is_unreadable, uninterrupted, uri_path
from . import schema

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

__all__ = [
    "BUSY_SECONDS",
    "INDEX_FILE",
    "Database",
    "make_hidden_folder",
]

INDEX_FILE = "index.sqlite"

# How long to wait for another process that writes. Batches are short, so this is far more than one needs.
BUSY_SECONDS = 10.0
# How many rows aiosqlite fetches at a time from its thread.
_ROWS_AT_A_TIME = 1024
_READERS = 4


@attrs.frozen
class _Open:
    """An open connection, and which file it was opened on: the one at that path may be another by now.

    ``times_closed`` is how often the database had been closed when it was opened.
    """

    connection: aiosqlite.Connection
    file: tuple[int, int] | None
    times_closed: int


# Which files are open, in which process and how often: what is inherited by a fork must not be used.
_OPEN: dict[tuple[int, int], tuple[int, int]] = {}


def _count(file: tuple[int, int] | None, step: int) -> None:
    if file is not None:
        process, times = _OPEN.get(file, (os.getpid(), 0))
        _OPEN[file] = (process, times + step)
        if times + step <= 0:
            del _OPEN[file]


class Database:
    """The connections of one memory to its index: one that writes, and a few that read side by side.

    :param path: the SQLite file. It and its folder are made when something is first written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.driver = choose_driver()
        self.notices: list[str] = []
        self._writer: _Open | None = None
        self._writing = asyncio.Lock()
        self._idle: list[_Open] = []
        self._reading = asyncio.Semaphore(_READERS)
        self._times_closed = 0
        self._process = os.getpid()

    @property
    def exists(self) -> bool:
        """Whether there is an index on disk."""
        return os.path.exists(self.path)

    @contextlib.asynccontextmanager
    async def transaction(self, wait: float = BUSY_SECONDS) -> AsyncIterator[aiosqlite.Connection]:
        """A connection inside of a transaction: committed at the end, rolled back on any error or cancellation.

        :param wait: how many seconds to wait for another process that is writing.
        :raises IndexBusyError: it is still writing after that.
        :raises IndexUnavailableError: the index cannot be written.
        """
        async with self._writing:
            with self._explained():
                writer = await self._open_writer(wait)
                try:
                    await uninterrupted(writer.execute("BEGIN IMMEDIATE"))
                    yield writer
                    await uninterrupted(writer.commit())
                except BaseException:
                    await uninterrupted(writer.rollback())
                    raise

    @contextlib.asynccontextmanager
    async def reader(self, *, further: bool = False) -> AsyncIterator[aiosqlite.Connection]:
        """A read-only connection of one's own. Where there is no index yet, it reads an empty one.

        :param further: who has one already takes another one, and does not wait for it: else two could wait for each
            other.
        :raises IndexUnavailableError: the index cannot be read.
        """
        async with contextlib.nullcontext() if further else self._reading:
            with self._explained():
                opened = await self._take_reader()
                try:
                    # All statements of a search see the index as it is now, whatever other processes write meanwhile.
                    await uninterrupted(opened.connection.execute("BEGIN"))
                    yield opened.connection
                finally:
                    try:
                        await uninterrupted(opened.connection.rollback())
                    finally:
                        await self._give_back(opened)

    async def squeeze(self) -> None:
        """Write the index anew, without the pages that nothing needs any more and what was left on them.

        :raises IndexBusyError: another process is using it.
        """
        async with self._writing:
            with self._explained():
                await self._open_writer(BUSY_SECONDS)  # it sees to it that there is an index
                # What other processes read at the moment stays in the log until the next writer needs its place.
                script = "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)"
                connection = await self._connect(f"file:{uri_path(self.path)}?mode=rw", script)
                await uninterrupted(connection.close())

    @property
    def has_log(self) -> bool:
        """Whether something is in the log beside the index that is not in the index itself yet."""
        try:
            return os.path.getsize(f"{self.path}-wal") > 0
        except OSError:
            return False

    async def close(self) -> None:
        """Close all connections: at once, or those that are in use when they are done."""
        self._times_closed += 1
        async with self._writing:
            opened = [*self._idle, *([self._writer] if self._writer else [])]
            self._idle, self._writer = [], None
            for each in opened:
                await self._close(each)

    # --- opening ---------------------------------------------------------------------------------------------------

    def _file(self) -> tuple[int, int] | None:
        """What tells one file at the path of the index from the next; None where there is none."""
        try:
            status = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_dev, status.st_ino

    def _refuse_inherited(self) -> None:
        """Raise in a process that was forked while the index was open.

        SQLite's records of its locks are inherited then, and are wrong: what the two processes write would be mixed up.
        https://www.sqlite.org/howtocorrupt.html, 2.6
        """
        file = self._file()
        if self._process != os.getpid() or (file is not None and _OPEN.get(file, (os.getpid(),))[0] != os.getpid()):
            raise IndexUnavailableError(
                f"The index {self.path} was open when this process was forked, and cannot be used in it. Close the "
                'memory before os.fork(), or start processes with the method "spawn".'
            )

    def _refuse_links(self) -> None:
        """Raise unless the index is where it seems to be: a link, from a clone perhaps, may lead to anybody's file."""
        for path in (self.path.parent, self.path):
            if os.path.islink(path):
                raise IndexUnavailableError(
                    f"{path} is a symbolic link. Kipu keeps its index in the workspace itself: remove the link."
                )

    async def _open_writer(self, wait: float) -> aiosqlite.Connection:
        self._refuse_inherited()
        self._refuse_links()
        if self._writer is not None and self._writer.file != self._file():
            outdated, self._writer = self._writer, None
            await self._close(outdated)
        if self._writer is None:
            await asyncio.to_thread(self._prepare, wait)
            file, times_closed = self._file(), self._times_closed
            uri = f"file:{uri_path(self.path)}?mode=rw"
            connection = await self._connect(uri, "PRAGMA synchronous = NORMAL", wait)
            self._writer = _Open(connection, file, times_closed)
            _count(file, 1)
        await self._writer.connection.execute(f"PRAGMA busy_timeout = {int(wait * 1000)}")
        return self._writer.connection

    async def _take_reader(self) -> _Open:
        self._refuse_inherited()
        self._refuse_links()
        while self._idle:
            opened = self._idle.pop()
            if opened.file == self._file():
                return opened
            await self._close(opened)
        file, times_closed = self._file(), self._times_closed
        if file is not None:
            try:
                connection = await self._connect(self._uri(), "PRAGMA query_only = 1", check=True)
                _count(file, 1)
                return _Open(connection, file, times_closed)
            except schema.OtherSchemaError:
                pass  # to this version it is as if there was no index, until it makes its own
            except self.driver.OperationalError:
                if self._file() == file:
                    raise
                return await self._take_reader()  # another task or process moved it away just now
        return _Open(await self._connect(":memory:", schema.TABLES), None, times_closed)

    async def _give_back(self, opened: _Open) -> None:
        if opened.file is None or opened.times_closed != self._times_closed or len(self._idle) >= _READERS:
            await self._close(opened)
        else:
            self._idle.append(opened)

    async def _close(self, opened: _Open) -> None:
        _count(opened.file, -1)
        await uninterrupted(opened.connection.close())

    async def _connect(
        self, uri: str, script: str, wait: float = BUSY_SECONDS, *, check: bool = False
    ) -> aiosqlite.Connection:
        """Open a connection and run a script on it; with ``check``, only if the tables are of this version."""

        def connector() -> Any:
            connection = self.driver.connect(uri, timeout=wait, isolation_level=None, uri=True, check_same_thread=False)
            try:
                if check:
                    schema.check_current(connection)
                connection.executescript(script)
            except BaseException:
                connection.close()
                raise
            return connection

        connection = aiosqlite.Connection(connector, iter_chunk_size=_ROWS_AT_A_TIME)
        # The thread would keep a program from ending in which somebody forgot to close a memory.
        connection._thread.daemon = True  # noqa: SLF001 (there is no public way)
        try:
            await uninterrupted(connection.__aenter__())
        except asyncio.CancelledError:
            with contextlib.suppress(ValueError):  # it could not be opened
                await uninterrupted(connection.close())
            raise
        except BaseException:
            await asyncio.to_thread(connection._thread.join)  # noqa: SLF001 (else it outlives the event loop)
            raise
        return connection

    def _prepare(self, wait: float) -> None:
        """Make the folder, the file and the tables where they are not there; set a damaged file aside."""
        make_hidden_folder(self.path.parent)
        seen = self._file()
        try:
            self._make_tables(wait)
        except (self.driver.DatabaseError, schema.ForeignDatabaseError) as error:
            if not is_damage(error) and not isinstance(error, schema.ForeignDatabaseError):
                raise
            self._set_aside(wait, str(error), seen, foreign=isinstance(error, schema.ForeignDatabaseError))
            self._make_tables(wait)

    def _make_tables(self, wait: float) -> None:
        """Make the tables where they are not there, and wait for another process that is making them.

        SQLite's own waiting leaves out the moment in which a file becomes a WAL database: then it fails at once.
        """
        end = time.monotonic() + wait
        while True:
            try:
                return self._make_tables_now(wait)
            except self.driver.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
            time.sleep(0.01)

    def _make_tables_now(self, wait: float) -> None:
        connection = self.driver.connect(self.path, timeout=wait, isolation_level=None)
        try:
            if schema.is_current(connection):
                return
            # In one transaction each: another process may be making the very tables that are looked at.
            connection.execute("BEGIN")
            schema.check_ownership(connection)
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            schema.check_ownership(connection)
            if not schema.is_current(connection):
                if not schema.is_empty(connection):
                    self.notices.append(
                        "The index was made by another version of Kipu, or lacked a table. It was made anew."
                    )
                schema.make(connection)
            connection.execute("COMMIT")
        finally:
            connection.close()

    def _free_name(self, kind: str) -> Path:
        """A name beside the index that nothing has: what is not Kipu's is kept however often it happens."""
        numbers = itertools.count(1)
        return next(
            path for number in numbers if not os.path.lexists(path := self.path.with_suffix(f".{kind}-{number}.sqlite"))
        )

    def _set_aside(self, wait: float, reason: str, seen: tuple[int, int] | None, *, foreign: bool = False) -> None:
        """Move a damaged index out of the way, unless another process did it already and made a new one."""
        from filelock import FileLock, Timeout

        try:
            with FileLock(self.path.with_suffix(".lock"), timeout=wait):
                if self._file() != seen:
                    return
                aside = self._free_name("foreign") if foreign else self.path.with_suffix(".damaged.sqlite")
                for ending in ("-wal", "-shm", ""):
                    with contextlib.suppress(FileNotFoundError):
                        os.remove(f"{aside}{ending}")
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(f"{self.path}{ending}", f"{aside}{ending}")
        except Timeout:
            raise IndexBusyError(f"Another process is mending the index {self.path}. Try again in a moment.") from None
        except OSError as error:
            raise IndexUnavailableError(
                f"The index {self.path} is damaged ({reason}) and cannot be moved away: {error.strerror or error}. "
                "Close the programs that use it, then try again."
            ) from None
        self.notices.append(f"The index could not be used ({reason}). It was set aside as {aside.name} and made anew.")

    def damage(self) -> str | None:
        """What is wrong with the file of the index, by a check of all its pages; None where nothing is."""
        try:
            connection = self.driver.connect(self._uri(), uri=True)
        except self.driver.OperationalError as error:
            return str(error)
        try:
            found: str = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            return None if found == "ok" else found
        except self.driver.DatabaseError as error:
            return str(error) if is_damage(error) else None
        finally:
            connection.close()

    def _uri(self) -> str:
        """Where the index is and how it can be opened: for reading alone where its folder cannot be written.

        Even a reader of a WAL database writes a small file beside it. Where that cannot be, nobody else writes.
        """
        writable = os.access(self.path.parent, os.W_OK) and os.access(self.path, os.W_OK)
        return f"file:{uri_path(self.path)}?{'mode=rw' if writable else 'mode=ro&immutable=1'}"

    async def mend(self, error: Exception) -> None:
        """Set the index aside if it is damaged, so that it is made anew, and open all connections again.

        :param error: what SQLite said when it was used.
        """
        await self.close()
        seen = self._file()
        if seen is None:
            return
        reason = str(error) if is_unreadable(error) else await asyncio.to_thread(self.damage)
        if reason:
            await asyncio.to_thread(self._set_aside, BUSY_SECONDS, reason, seen)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite and the file system say into errors that say what to do."""
        try:
            yield
        except (sqlite3.OperationalError, self.driver.OperationalError) as error:
            if is_damage(error):
                raise
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


def make_hidden_folder(folder: Path) -> None:
    """Make ``.kipu/`` and let git ignore what is in it."""
    if folder.is_symlink():
        raise FileExistsError(errno.EEXIST, "it is a symbolic link", str(folder))
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        from tempfile import mkstemp

        descriptor, whole = mkstemp(prefix=".gitignore.", dir=folder)  # so that nobody ever meets a half of it
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write("# Kipu's index: made from the memory files, and made anew when it is gone.\n*\n")
        os.replace(whole, ignore)
