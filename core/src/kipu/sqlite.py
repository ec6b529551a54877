"""Which SQLite is used, and what its errors mean."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path
    from types import ModuleType

__all__ = [
    "choose_driver",
    "is_damage",
    "is_trouble_with_the_file",
    "is_unreadable",
    "is_want_of_a_table",
    "sqlite_errors",
    "uninterrupted",
    "uri_path",
]

Answer = TypeVar("Answer")


def choose_driver() -> ModuleType:
    """The standard library's ``sqlite3`` where it can load extensions, else ``pysqlite3`` where it is installed.

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
    """What the driver raises: its classes are not those of the standard library."""
    return tuple({sqlite3.Error, choose_driver().Error})


def is_damage(error: BaseException) -> bool:
    """Whether SQLite says that the file is no sound database."""
    return is_unreadable(error) or any(sign in str(error) for sign in ("not a database", "malformed", "corrupt"))


def is_unreadable(error: BaseException) -> bool:
    """Whether a text in the index is none: damage that no check of the pages finds."""
    return "Could not decode to UTF-8" in str(error)


def is_want_of_a_table(error: BaseException | None) -> bool:
    """Whether SQLite misses a table or a column."""
    return isinstance(error, sqlite_errors()) and any(
        sign in str(error) for sign in ("no such table", "no such column")
    )


def is_trouble_with_the_file(error: BaseException) -> bool:
    """Whether SQLite complains of the database as such, and not of a statement that it was given."""
    return isinstance(error, sqlite_errors()) and (
        is_damage(error) or any(sign in str(error) for sign in _TROUBLE_WITH_THE_FILE)
    )


_TROUBLE_WITH_THE_FILE = (
    "locked",
    "busy",
    "disk",
    "full",
    "readonly",
    "unable to open",
    "interrupted",
    "out of memory",
)


async def uninterrupted(work: Awaitable[Answer]) -> Answer:
    """Wait for what is being done to the end, also when the task is cancelled meanwhile; then be cancelled.

    :raises asyncio.CancelledError: we were cancelled; its cause is what the work raised, if it did.
    """
    task = asyncio.ensure_future(work)
    cancelled = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        # Asked for, so that nobody is told of an error that was never retrieved, long after it.
        raise cancelled from (None if task.cancelled() else task.exception())
    return await task


def uri_path(path: Path) -> str:
    """A path as a part of an SQLite URI: https://www.sqlite.org/uri.html, 3.1. Any bytes can stand in it."""
    text = path.as_posix()
    data = os.fsencode(text if text.startswith("/") else f"/{text}")
    return "".join(chr(byte) if byte < 0x80 and chr(byte) not in "%?#" else f"%{byte:02X}" for byte in data)
