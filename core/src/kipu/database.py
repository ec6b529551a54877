"""Opens the SQLite file of the index: with which settings, and what to do when it cannot be used.

The index is derived from the memory files. One that is damaged, or that another version of Kipu made, is set aside
or made anew; nothing in it is worth a failed search.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from typing import TYPE_CHECKING, Any

import aiosqlite
import attrs

from .driver import choose_driver, is_damage, is_unreadable, uri_path
from .errors import IndexBusyError, IndexUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterator
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

_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL UNIQUE,
    source TEXT NOT NULL,
    date TEXT,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    hash TEXT NOT NULL,
    chunker TEXT NOT NULL,
    added INTEGER NOT NULL DEFAULT 0,
    problem TEXT
);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    file_id INTEGER NOT NULL REFERENCES files(id),
    position INTEGER NOT NULL,
    chunk TEXT NOT NULL,
    hash TEXT NOT NULL,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    heading TEXT NOT NULL,
    heading_level INTEGER NOT NULL,
    text TEXT NOT NULL,
    context TEXT NOT NULL
);
CREATE INDEX chunks_by_file ON chunks(file_id, position);
CREATE INDEX chunks_by_name ON chunks(chunk);
CREATE TABLE strategies (
    name TEXT PRIMARY KEY,
    schema_version TEXT NOT NULL
);
"""


@attrs.frozen
class _Open:
    """An open connection, and which file it was opened on: the one at that path may be another by now.

    ``times_closed`` is how often the database had been closed when it was opened.
    """

    connection: aiosqlite.Connection
    file: tuple[int, int] | None
    times_closed: int


class Database:
    """The connections of one memory to its index: one that writes, and a few that read side by side.

    :param path: the SQLite file. It and its folder are made when something is first written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.driver = choose_driver()
        self.notes: list[str] = []
        self._writer: _Open | None = None
        self._writing = asyncio.Lock()
        self._idle: list[_Open] = []
        self._reading = asyncio.Semaphore(_READERS)
        self._times_closed = 0

    @property
    def exists(self) -> bool:
        """Whether there is an index on disk."""
        return self.path.exists()

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
                    await _uninterrupted(writer.execute("BEGIN IMMEDIATE"))
                    yield writer
                    await _uninterrupted(writer.commit())
                except BaseException:
                    await _uninterrupted(writer.rollback())
                    raise

    @contextlib.asynccontextmanager
    async def reader(self) -> AsyncIterator[aiosqlite.Connection]:
        """A read-only connection of one's own. Where there is no index yet, it reads an empty one.

        :raises IndexUnavailableError: the index cannot be read.
        """
        async with self._reading:
            with self._explained():
                opened = await self._take_reader()
                try:
                    # All statements of a search see the index as it is now, whatever other processes write meanwhile.
                    await _uninterrupted(opened.connection.execute("BEGIN"))
                    yield opened.connection
                finally:
                    try:
                        await _uninterrupted(opened.connection.rollback())
                    finally:
                        await self._give_back(opened)

    async def close(self) -> None:
        """Close all connections: at once, or those that are in use when they are done."""
        self._times_closed += 1
        async with self._writing:
            opened = [*self._idle, *([self._writer] if self._writer else [])]
            self._idle, self._writer = [], None
            for each in opened:
                await _uninterrupted(each.connection.close())

    # --- opening ---------------------------------------------------------------------------------------------------

    def _file(self) -> tuple[int, int] | None:
        """What tells one file at the path of the index from the next; None where there is none."""
        try:
            status = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_dev, status.st_ino

    async def _open_writer(self, wait: float) -> aiosqlite.Connection:
        if self._writer is not None and self._writer.file != self._file():
            outdated, self._writer = self._writer, None
            await _uninterrupted(outdated.connection.close())
        if self._writer is None:
            await asyncio.to_thread(self._prepare, wait)
            file, times_closed = self._file(), self._times_closed
            uri = f"file:{uri_path(self.path)}?mode=rw"
            connection = await self._connect(uri, "PRAGMA synchronous = NORMAL", wait)
            self._writer = _Open(connection, file, times_closed)
        await self._writer.connection.execute(f"PRAGMA busy_timeout = {int(wait * 1000)}")
        return self._writer.connection

    async def _take_reader(self) -> _Open:
        while self._idle:
            opened = self._idle.pop()
            if opened.file == self._file():
                return opened
            await _uninterrupted(opened.connection.close())
        file, times_closed = self._file(), self._times_closed
        if file is not None:
            try:
                connection = await self._connect(self._uri(), "PRAGMA query_only = 1", check=True)
                return _Open(connection, file, times_closed)
            except _OtherVersionError:
                pass
            except self.driver.OperationalError:
                if self._file() == file:
                    raise
                return await self._take_reader()  # another task or process moved it away just now
        return _Open(await self._connect(":memory:", _SCHEMA), None, times_closed)

    async def _give_back(self, opened: _Open) -> None:
        if opened.file is None or opened.times_closed != self._times_closed:
            await _uninterrupted(opened.connection.close())
        else:
            self._idle.append(opened)

    async def _connect(
        self, uri: str, script: str, wait: float = BUSY_SECONDS, *, check: bool = False
    ) -> aiosqlite.Connection:
        """Open a connection and run a script on it; with ``check``, only if the tables are of this version."""

        def connector() -> Any:
            connection = self.driver.connect(uri, timeout=wait, isolation_level=None, uri=True, check_same_thread=False)
            try:
                if check:
                    _check_version(connection)
                connection.executescript(script)
            except BaseException:
                connection.close()
                raise
            return connection

        connection = aiosqlite.Connection(connector, iter_chunk_size=_ROWS_AT_A_TIME)
        # The thread would keep a program from ending in which somebody forgot to close a memory.
        connection._thread.daemon = True  # noqa: SLF001 (there is no public way)
        try:
            await _uninterrupted(connection.__aenter__())
        except asyncio.CancelledError:
            with contextlib.suppress(ValueError):  # it could not be opened
                await _uninterrupted(connection.close())
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
        except self.driver.DatabaseError as error:
            if not is_damage(error):
                raise
            self._set_aside(wait, str(error), seen)
            self._make_tables(wait)

    def _make_tables(self, wait: float) -> None:
        connection = self.driver.connect(self.path, timeout=wait, isolation_level=None)
        try:
            if connection.execute("PRAGMA user_version").fetchone()[0] == _SCHEMA_VERSION:
                return
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version != _SCHEMA_VERSION:
                if version:
                    self.notes.append("The index was made by another version of Kipu and was made anew.")
                _drop_all(connection)
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
            connection.execute("COMMIT")
        finally:
            connection.close()

    def _set_aside(self, wait: float, reason: str, seen: tuple[int, int] | None) -> None:
        """Move a damaged index out of the way, unless another process did it already and made a new one."""
        from filelock import FileLock, Timeout

        try:
            with FileLock(self.path.with_suffix(".lock"), timeout=wait):
                if self._file() != seen:
                    return
                aside = self.path.with_suffix(".damaged.sqlite")
                for ending in ("-wal", "-shm", ""):
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(f"{self.path}{ending}", f"{aside}{ending}")
        except Timeout:
            raise IndexBusyError(f"Another process is mending the index {self.path}. Try again in a moment.") from None
        except OSError as error:
            raise IndexUnavailableError(
                f"The index {self.path} is damaged ({reason}) and cannot be moved away: {error.strerror or error}. "
                "Close the programs that use it, then try again."
            ) from None
        self.notes.append(f"The index was damaged ({reason}). It was set aside as {aside.name} and made anew.")

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
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        whole = folder / f".gitignore.{os.getpid()}"  # so that nobody ever meets a half of it
        whole.write_text("# Kipu's index: made from the memory files, and made anew when it is gone.\n*\n", "utf-8")
        os.replace(whole, ignore)


class _OtherVersionError(Exception):
    """The index was made by another version of Kipu: to this one, it is as if there was none."""


def _check_version(connection: Any) -> None:
    if connection.execute("PRAGMA user_version").fetchone()[0] != _SCHEMA_VERSION:
        raise _OtherVersionError


async def _uninterrupted(work: Awaitable[Any]) -> None:
    """Wait for what SQLite is doing even when the task is cancelled meanwhile; then be cancelled."""
    task = asyncio.ensure_future(work)
    cancelled = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    await task


def _drop_all(connection: Any) -> None:
    """Drop every table, virtual ones first: they drop those that belong to them."""
    tables = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    for name, _ in sorted(tables, key=lambda table: not (table[1] or "").upper().startswith("CREATE VIRTUAL")):
        if (
            not name.startswith("sqlite_")
            and connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        ):
            connection.execute(f'DROP TABLE "{name}"')
