"""The lock on embedding: no two processes embed the same texts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from filelock import BaseFileLock

__all__ = ["exclusive"]

_LOCK_FILE = "embedding.lock"
_POLL_SECONDS = 0.05


@contextlib.asynccontextmanager
async def exclusive(index: Path, seconds: float) -> AsyncIterator[bool]:
    """Hold the lock on embedding for an index.

    Yield False if another process, or another memory of this one, holds it for longer than ``seconds``. Where files
    cannot be locked, as on some network folders, go on without: at worst some texts are embedded twice.
    """
    from filelock import FileLock

    lock = FileLock(index.with_name(_LOCK_FILE), thread_local=False)
    end = time.monotonic() + seconds
    try:
        while not (is_free := _try_to_lock(lock)) and time.monotonic() < end:  # noqa: ASYNC110 (of processes)
            await asyncio.sleep(_POLL_SECONDS)
        yield is_free
    finally:
        lock.release()


def _try_to_lock(lock: BaseFileLock) -> bool:
    """Take a lock unless it is taken. Return whether it is not."""
    from filelock import Timeout

    try:
        if not os.path.islink(lock.lock_file):  # it could lead to any file
            lock.acquire(timeout=0)
    except Timeout:
        return False
    except (OSError, NotImplementedError):
        pass
    return True
