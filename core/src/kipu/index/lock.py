"""Take lock files, which exclude other processes and other memories of this one."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import BaseFileLock

_POLL_SECONDS = 0.01


async def acquire(lock: BaseFileLock, wait: float) -> bool:
    """Take a lock, which must not be bound to a thread: the tasks of an event loop may run in several.

    :param wait: how many seconds to wait for it.
    :return: whether it was taken.
    :raises OSError: the file cannot be locked, or is a symbolic link.
    """
    end = time.monotonic() + wait
    while not (is_taken := _try(lock)) and time.monotonic() < end:  # noqa: ASYNC110 (of processes)
        await asyncio.sleep(_POLL_SECONDS)
    return is_taken


def _try(lock: BaseFileLock) -> bool:
    from filelock import Timeout

    if os.path.islink(lock.lock_file):  # from a clone, perhaps, and leading to any file
        raise OSError(errno.ELOOP, "it is a symbolic link", lock.lock_file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    return True
