"""Has processes take turns, by a lock on a file: the system lets go of it when its holder ends, however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from filelock import BaseFileLock

__all__ = ["Turns"]

_LOOK_AGAIN_SECONDS = 0.05


class Turns:
    """The turns of one task at a time, among other processes and other objects of this one.

    :param path: the file that has the lock. It is made when it is first held, and has nothing in it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: BaseFileLock | None = None

    @contextlib.asynccontextmanager
    async def next(self, wait: float) -> AsyncIterator[bool]:
        """Wait for one's turn. With it comes whether it is: False if another had it all the while.

        Where there can be no lock, as on some network folders, it is always one's turn.

        :param wait: for how many seconds.
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self._path, thread_local=False)
        end = time.monotonic() + wait
        while self._held is not lock:
            try:
                _refuse_link(self._path)
                lock.acquire(timeout=0)
                self._held = lock
            except Timeout:
                if time.monotonic() >= end:
                    yield False
                    return
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            except (OSError, NotImplementedError):
                break
        try:
            yield True
        finally:
            lock.release()

    def give_up(self) -> None:
        """Let go of the lock, if a task has it that will never go on."""
        held, self._held = self._held, None
        if held is not None:
            held.release(force=True)


def _refuse_link(path: Path) -> None:
    """Raise where a lock would be made elsewhere: a link, from a clone perhaps, may lead to anybody's file."""
    if os.path.islink(path):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
