"""The lock of a workspace: one task of one process at a time changes its memory files."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from ..errors import MemoryFileError, WritingBusyError
from ..index.file import make_hidden_folder
from ..index.lock import acquire
from ..loops import PerLoop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class WorkspaceLock:
    """Exclude the other tasks of this memory, other memories and other processes.

    :param hidden: the folder ``.kipu`` of the workspace.
    """

    def __init__(self, hidden: Path) -> None:
        self.wait = 60.0
        self._hidden = hidden
        self._tasks = PerLoop(asyncio.Lock)  # tasks of one memory take turns in order instead of polling the file

    @contextlib.asynccontextmanager
    async def acquire(self, wait: float | None = None) -> AsyncIterator[None]:
        """Hold the lock until the end of the block.

        :param wait: how many seconds to wait for another process; by default ``self.wait``.
        :raises WritingBusyError: another process holds it for longer.
        :raises MemoryFileError: the folder ``.kipu`` cannot be written.
        """
        from filelock import FileLock

        wait = self.wait if wait is None else wait
        async with self._tasks():
            try:
                make_hidden_folder(self._hidden)
                lock = FileLock(self._hidden / "writing.lock", thread_local=False)
                is_taken = await acquire(lock, wait)
            except OSError as error:
                raise MemoryFileError(
                    f"{error.filename or self._hidden} cannot be written: {error.strerror or error}. Kipu keeps its "
                    f"lock in {self._hidden} while it changes memory files."
                ) from error
            if not is_taken:
                raise WritingBusyError(
                    f"Another process has been writing to the memory in {self._hidden.parent} for {wait:.0f} seconds. "
                    "Try again when it is done."
                )
            try:
                yield
            finally:
                lock.release()
