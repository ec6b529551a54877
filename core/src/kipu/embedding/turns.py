"""Has processes take turns, by locks on files: the system lets go of them when their holder ends, however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from filelock import BaseFileLock

__all__ = ["Turns"]

_LOOK_AGAIN_SECONDS = 0.05


class Turns:
    """The turns of one task at a time, among other processes and other objects of this one.

    Whoever waits for a turn holds a second lock meanwhile, which everybody needs first. So who has just had a turn and
    wants another comes behind: nobody is kept waiting by one that takes all turns.

    :param path: the file that has the lock. It and the other one are made when they are first held, and are empty.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._first_path = path.with_name(f"{path.stem}.next{path.suffix}")
        self._held: list[BaseFileLock] = []

    @contextlib.asynccontextmanager
    async def next(self, wait: float, progress: Callable[[], Awaitable[object]]) -> AsyncIterator[bool]:
        """Wait for one's turn. With it comes whether it is: False if another had it all the while, to no effect.

        Where there can be no lock, as on some network folders, it is always one's turn.

        :param wait: for how many seconds, counted anew whenever something has come of the others' turns.
        :param progress: what tells that: something that is equal as long as nothing has.
        """
        from filelock import FileLock

        first, turn = FileLock(self._first_path, thread_local=False), FileLock(self._path, thread_local=False)
        try:
            own = await self._take(first, wait, progress) and await self._take(turn, wait, progress)
            first.release()
            yield own
        finally:
            first.release()
            turn.release()
            self._held = [lock for lock in self._held if lock not in (first, turn)]

    async def _take(self, lock: BaseFileLock, wait: float, progress: Callable[[], Awaitable[object]]) -> bool:
        """Whether a lock could be had in time."""
        before, end = None, time.monotonic() + wait
        while not self._taken(lock):
            if not wait:
                return False
            if before is None or time.monotonic() >= end:
                now = await progress()
                if now == before:
                    return False
                before, end = now, time.monotonic() + wait
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        return True

    def _taken(self, lock: BaseFileLock) -> bool:
        """Take a lock, if nobody has it, and if there can be one."""
        from filelock import Timeout

        try:
            _refuse_link(lock.lock_file)
            lock.acquire(timeout=0)
            self._held.append(lock)
        except Timeout:
            return False
        except (OSError, NotImplementedError):  # no lock can be made here, so nobody has it: it is our turn
            return True
        return True

    def give_up(self) -> None:
        """Let go of the locks, if a task has them that will never go on."""
        held, self._held = self._held, []
        for lock in held:
            lock.release(force=True)


def _refuse_link(path: str) -> None:
    """Raise where a lock would be made elsewhere: a link, from a clone perhaps, may lead to anybody's file."""
    if os.path.islink(path):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
