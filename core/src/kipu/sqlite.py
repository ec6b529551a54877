"""Which SQLite is used, and what its errors mean."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Sequence
    from pathlib import Path
    from types import ModuleType

Answer = TypeVar("Answer")

# https://www.sqlite.org/rescode.html: SQLITE_CORRUPT and SQLITE_NOTADB, and how they read where an error has no code.
_DAMAGE_CODES = (11, 26)
_DAMAGE_SIGNS = ("not a database", "malformed", "corrupt", "decode to UTF-8", "file format", "text encoding")


class IndexDamageError(Exception):
    """The index is damaged. It is set aside and rebuilt before any caller sees this.

    :param reason: what is wrong with it, or what was raised.
    :param file: which file it is, as `IndexFile.identity` tells: the one at its path may be another by now. None if it
        cannot be.
    """

    def __init__(self, reason: object, file: tuple[int, int] | None = None) -> None:
        is_name = isinstance(reason, UnicodeDecodeError)
        super().__init__("a name in its schema is not UTF-8" if is_name else str(reason))
        self.file = file


def choose_driver() -> ModuleType:
    """Return the standard library's ``sqlite3`` if it can load extensions, else ``pysqlite3`` if it is installed.

    Many builds of Python (those of pyenv and of macOS among them) cannot load extensions; ``pysqlite3`` is a drop-in
    that can. Without either, everything works that needs no extension.
    """
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return sqlite3
    try:
        import pysqlite3
    except ImportError:
        return sqlite3
    driver: ModuleType = pysqlite3
    return driver


def sqlite_errors() -> tuple[type[Exception], ...]:
    """Return what a use of the index raises. The classes of the driver are not those of the standard library."""
    return tuple({sqlite3.Error, choose_driver().Error, IndexDamageError})


def is_damage(error: BaseException) -> bool:
    """Return whether SQLite says that the file is damaged, in whatever words: strategies' tables have their own.

    Where a name in the schema is damaged, the driver fails to decode the message itself.
    """
    if isinstance(error, (IndexDamageError, UnicodeDecodeError)):
        return True
    code = getattr(error, "sqlite_errorcode", None) or 0
    return isinstance(error, sqlite_errors()) and (
        code & 0xFF in _DAMAGE_CODES or any(sign in str(error) for sign in _DAMAGE_SIGNS)
    )


def is_missing_table(error: BaseException | None) -> bool:
    """Return whether SQLite misses a table or a column."""
    return isinstance(error, sqlite_errors()) and any(
        sign in str(error) for sign in ("no such table", "no such column")
    )


def is_database_failure(error: BaseException) -> bool:
    """Return whether the index itself cannot be used, whatever statement met that.

    A strategy that says the same of a database of its own has failed, and the index has not.
    """
    if not isinstance(error, sqlite_errors()) or is_damage(error):
        return isinstance(error, IndexDamageError)
    return any(sign in str(error) for sign in _DATABASE_FAILURES)


_DATABASE_FAILURES = (
    "locked",
    "busy",
    "disk",
    "full",
    "readonly",
    "unable to open",
    "interrupted",
    "out of memory",
)


async def shielded(work: Awaitable[Answer]) -> Answer:
    """Await ``work`` to completion even if this task is cancelled, then re-raise the cancellation.

    :raises asyncio.CancelledError: this task was cancelled; the cause is what the work raised, if it did.
    """
    task = asyncio.ensure_future(work)
    cancelled = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        # The exception is retrieved, or asyncio would log long afterwards that it never was.
        raise cancelled from (None if task.cancelled() else task.exception())
    return await task


def uri_path(path: Path) -> str:
    """Return a path as a part of an SQLite URI: https://www.sqlite.org/uri.html, 3.1. Any bytes can stand in it."""
    text = path.as_posix()
    data = os.fsencode(text if text.startswith("/") else f"/{text}")
    return "".join(chr(byte) if byte < 0x80 and chr(byte) not in "%?#" else f"%{byte:02X}" for byte in data)


def in_batches(values: Sequence[Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Split values into batches that one SQL statement takes, each with its placeholders.

    SQLite's limit on parameters was 999 until version 3.32, and some builds still have it.
    """
    for start in range(0, len(values), 900):
        batch = values[start : start + 900]
        yield ", ".join("?" * len(batch)), batch
