"""Retry an operation once after an unusable index was set aside."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..errors import IndexUnavailableError, PluginFailedError
from ..sqlite import is_missing_table, sqlite_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .database import Database

Method = TypeVar("Method", bound="Callable[..., Coroutine[Any, Any, Any]]")


class IndexReplacedError(IndexUnavailableError):
    """The index is another one than a moment ago: it was set aside, perhaps by another process."""


def recovering(method: Method) -> Method:
    """Run a method once more if the index turns out to be damaged or replaced, or lacks the tables of a strategy.

    The second run rebuilds them. The first argument has the index in its attribute ``database``.
    """

    @functools.wraps(method)
    async def recovered(self: Any, *arguments: Any, **options: Any) -> Any:
        database: Database = self.database
        try:
            return await method(self, *arguments, **options)
        except IndexReplacedError:
            pass
        except sqlite_errors() as error:
            await database.recover(error)
        except PluginFailedError as error:
            if not is_missing_table(error.__cause__):
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
