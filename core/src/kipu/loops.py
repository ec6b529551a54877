"""What a memory needs to be used in one event loop after the other, as by two calls of `asyncio.run`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Lock = TypeVar("Lock")


class PerLoop(Generic[Lock]):
    """A lock for the running event loop: asyncio binds each to the loop in which a task first waited for it.

    :param make: makes one.
    """

    def __init__(self, make: Callable[[], Lock]) -> None:
        self._make = make
        self._loop: asyncio.AbstractEventLoop | None = None

    def __call__(self) -> Lock:
        """Return the lock of the running event loop. Before this, no task held the lock of another one."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._lock = loop, self._make()
        return self._lock
