"""Retry an operation once after an unusable index was set aside."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from ..errors import IndexUnavailableError, PluginFailedError
from ..sqlite import is_missing_table, sqlite_errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    from .database import Database

__all__ = ["recovering"]

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class _HasDatabase(Protocol):
    """What has the database that is recovered."""

    @property
    def database(self) -> Database:
        """The database."""
        ...


Owner = TypeVar("Owner", bound=_HasDatabase)


def recovering(
    method: Callable[Concatenate[Owner, Arguments], Awaitable[Answer]],
) -> Callable[Concatenate[Owner, Arguments], Coroutine[Any, Any, Answer]]:
    """Make a method run once more if the index turns out to be damaged, or lacks the tables of a strategy.

    A damaged index is set aside and rebuilt by the second run; so are the tables of strategies.
    """

    @functools.wraps(method)
    async def recovered(self: Owner, *arguments: Arguments.args, **options: Arguments.kwargs) -> Answer:
        try:
            return await method(self, *arguments, **options)
        except sqlite_errors() as error:
            await self.database.recover(error)
        except PluginFailedError as error:
            if not is_missing_table(error.__cause__):
                raise
            async with self.database.transaction() as connection:
                await connection.execute("DELETE FROM strategies")
        try:
            return await method(self, *arguments, **options)
        except sqlite_errors() as error:
            raise IndexUnavailableError(
                f"The index {self.database.path} cannot be used: {error}. It is derived from the memory files: delete "
                "it, and it is rebuilt."
            ) from error

    return recovered  # type: ignore[return-value]  # `wraps` loses that it is a coroutine function
