"""`kipu.sync.Memory`: the same memory for code that is not async.

It runs `kipu.Memory` on an event loop in a thread of its own, so it works wherever code runs, inside of other event
loops and in notebooks too, and may be shared by threads.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from . import memory
from .embedding import BACKGROUND

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future
    from datetime import date
    from pathlib import Path
    from types import TracebackType

    from .config import MemoryConfig
    from .plugins import Plugins
    from .types import FileInfo, IndexReport, PostProcessor, SearchResults, Status, Strategy

__all__ = ["Memory"]

Answer = TypeVar("Answer")


class Memory:
    """A workspace's memory, with methods that wait for their answer. See `kipu.Memory` for what each does.

    Use it as ``with Memory("project") as memory``, or close it with `close`.
    """

    def __init__(
        self,
        workspace: str | os.PathLike[str] | MemoryConfig = ".",
        *,
        plugins: Plugins | None = None,
        background: bool = True,
    ) -> None:
        self._memory = memory.Memory(workspace, plugins=plugins, background=background)
        self._loop = asyncio.new_event_loop()
        self._closing = threading.Lock()
        self._closed = False
        self._process = os.getpid()
        # A daemon: a program in which somebody forgot to close a memory can still end.
        self._thread = threading.Thread(target=self._loop.run_forever, name="kipu", daemon=True)
        self._thread.start()

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _wait(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        try:
            future = self._start(work)
        except BaseException:
            work.close()
            raise
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _start(self, work: Coroutine[Any, Any, Answer]) -> Future[Answer]:
        self._refuse_to_wait_for_itself()
        if os.getpid() != self._process:  # threads do not survive a fork, so nobody would ever answer
            raise RuntimeError("This memory was opened before this process was forked. Open another: Memory(workspace)")
        with self._closing:
            if self._closed:
                raise RuntimeError("This memory is closed. Open another: Memory(workspace)")
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _refuse_to_wait_for_itself(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError("A plugin or a callback cannot wait for the memory that is waiting for it.")

    def close(self) -> None:
        """Close the index and end the thread, once the calls of other threads are done. Again, it does nothing."""
        self._refuse_to_wait_for_itself()
        with self._closing:
            if self._closed:
                return
            self._closed = True
        asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(self) -> None:
        calls = [task for task in asyncio.all_tasks() if task.get_name() != BACKGROUND]
        await asyncio.gather(*(task for task in calls if task is not asyncio.current_task()), return_exceptions=True)
        await self._memory.close()
        await self._loop.shutdown_default_executor()

    @property
    def config(self) -> MemoryConfig:
        """The configuration in use."""
        return self._memory.config

    @property
    def plugins(self) -> Plugins:
        """The plugins in use."""
        return self._memory.plugins

    @property
    def workspace(self) -> Path:
        """The absolute path of the workspace."""
        return self._memory.workspace

    def index(
        self,
        force: bool = False,
        *,
        prune: bool = False,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        on_embedding: Callable[[int, int], None] = lambda done, total: None,
    ) -> IndexReport:
        """Bring the index up to date: `kipu.Memory.index`."""
        return self._wait(self._memory.index(force, prune=prune, on_progress=on_progress, on_embedding=on_embedding))

    def reindex(
        self,
        embedder: str | None = None,
        *,
        force: bool = False,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> IndexReport:
        """Embed everything with another embedder: `kipu.Memory.reindex`."""
        return self._wait(self._memory.reindex(embedder, force=force, on_progress=on_progress))

    def add(self, path: str | os.PathLike[str], force: bool = False) -> IndexReport:
        """Index one file now: `kipu.Memory.add`."""
        return self._wait(self._memory.add(path, force))

    def search(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        strategy: str | None = None,
        source: str | None = None,
        since: date | str | None = None,
        until: date | str | None = None,
        sync: bool | None = None,
        explain: bool = False,
        explain_path: str | None = None,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        on_embedding: Callable[[int, int], None] = lambda done, total: None,
        **options: Any,
    ) -> SearchResults:
        """Find what the memory says: `kipu.Memory.search`."""
        return self._wait(
            self._memory.search(
                query,
                max_results=max_results,
                min_score=min_score,
                strategy=strategy,
                source=source,
                since=since,
                until=until,
                sync=sync,
                explain=explain,
                explain_path=explain_path,
                on_progress=on_progress,
                on_embedding=on_embedding,
                **options,
            )
        )

    def files(self, source: str | None = None) -> list[FileInfo]:
        """List the files that the index knows: `kipu.Memory.files`."""
        return self._wait(self._memory.files(source))

    def status(self) -> Status:
        """Tell the state of workspace and index: `kipu.Memory.status`."""
        return self._wait(self._memory.status())

    def check_embedder(self) -> str | None:
        """Ask the embedder for one vector: `kipu.Memory.check_embedder`."""
        return self._wait(self._memory.check_embedder())

    def check(self) -> list[str]:
        """Tell what is wrong with the configured components: `kipu.Memory.check`."""
        return self._memory.check()

    def register_strategy(self, name: str, strategy: Strategy) -> None:
        """Make a strategy available: `kipu.Memory.register_strategy`."""
        self._memory.register_strategy(name, strategy)

    def register_postprocessor(self, name: str, postprocessor: PostProcessor) -> None:
        """Put a post-processor at the end of the pipeline: `kipu.Memory.register_postprocessor`."""
        self._memory.register_postprocessor(name, postprocessor)


for _name in (
    "index",
    "add",
    "reindex",
    "search",
    "files",
    "status",
    "check",
    "register_strategy",
    "register_postprocessor",
):
    # What each does is said once; whoever asks for help here shall read it too.
    getattr(Memory, _name).__doc__ = getattr(memory.Memory, _name).__doc__
