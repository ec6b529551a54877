"""Retry an operation once after an unusable index was set aside."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..errors import IndexUnavailableError, PluginFailedError
from ..sqlite import IndexDamageError, is_missing_table, sqlite_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .database import Database

Method = TypeVar("Method", bound="Callable[..., Coroutine[Any, Any, Any]]")


class IndexReplacedError(IndexUnavailableError):
    """The index is another one than a moment ago: it was set aside, perhaps by another process."""


def recovering(method: Method) -> Method:
    """Run a method once more if the index turns out to be damaged or replaced, or lacks the tables of a strategy.

    The second run rebuilds them; if SQLite complains in it too, the third one begins with a new index. The first
    argument has the index in its attribute ``database``.
    """

    @functools.wraps(method)
    async def recovered(self: Any, *arguments: Any, **options: Any) -> Any:
        database: Database = self.database
        for is_second in (False, True):
            try:
                return await method(self, *arguments, **options)
            except IndexReplacedError:
                if is_second:
                    raise
            except sqlite_errors() as error:
                await database.recover(IndexDamageError(error, getattr(error, "file", None)) if is_second else error)
            except PluginFailedError as error:
                if is_second or not is_missing_table(error.__cause__):
                    raise
                async with database.transaction() as connection:
                    await connection.execute("DELETE FROM strategies")
        try:
            return await method(self, *arguments, **options)
        except sqlite_errors() as error:
            raise IndexUnavailableError(
                f"The index {database.path} cannot be used: {error}. It is derived from the memory files: delete it, "
                "and it is rebuilt. If this happens again, the disk may be failing."
            ) from error

    return cast("Method", recovered)
