"""The locks on embedding and annotating: no two processes send the same texts."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ..index.lock import acquire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@contextlib.asynccontextmanager
async def exclusive(index: Path, seconds: float, work: str = "embedding") -> AsyncIterator[bool]:
    """Hold the lock on embedding for an index, or on other ``work``.

    Yield False if another process, or another memory of this one, holds it for longer than ``seconds``. Where files
    cannot be locked, as on some network folders, go on without: at worst some texts are embedded twice.
    """
    from filelock import FileLock

    lock = FileLock(index.with_name(f"{work}.lock"), thread_local=False)
    is_free = True
    try:
        with contextlib.suppress(OSError, NotImplementedError):
            is_free = await acquire(lock, seconds)
        yield is_free
    finally:
        lock.release()
