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

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping
    from concurrent.futures import Future
    from datetime import date, timedelta
    from pathlib import Path
    from types import TracebackType

    from .config import MemoryConfig
    from .plugins.manager import Plugins
    from .types import (
        Compacted,
        FileInfo,
        Flushed,
        IndexReport,
        Note,
        PostProcessor,
        Recall,
        Receipt,
        SearchResult,
        SearchResults,
        Status,
        StoredChunk,
        Strategy,
    )
    from .watch import Event, FileSummary

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
        scope: str | None = None,
        plugins: Plugins | None = None,
        background: bool = True,
    ) -> None:
        self._memory = memory.Memory(workspace, scope=scope, plugins=plugins, background=background)
        self._calls: set[Future[Any]] = set()
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
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._calls.add(future)
            future.add_done_callback(self._calls.discard)
            return future

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
        # Only those: a library may have tasks of its own in this loop that never end.
        await asyncio.gather(*map(asyncio.wrap_future, list(self._calls)), return_exceptions=True)
        await self._memory.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
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
        as_of: date | str | None = None,
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
                as_of=as_of,
                sync=sync,
                explain=explain,
                explain_path=explain_path,
                on_progress=on_progress,
                on_embedding=on_embedding,
                **options,
            )
        )

    def start_watching(
        self,
        on_event: Callable[[Event, str, FileSummary], object] | None = None,
        *,
        on_problem: Callable[[str], object] | None = None,
    ) -> bool:
        """Take in what changes on disk as it changes: `kipu.Memory.start_watching`."""
        return self._wait(self._memory.start_watching(on_event, on_problem=on_problem))

    def stop_watching(self) -> None:
        """Stop watching: `kipu.Memory.stop_watching`."""
        self._wait(self._memory.stop_watching())

    def recall(self, query: str, *, max_tokens: int = 1500, **options: Any) -> Recall:
        """What the memory knows, for a prompt: `kipu.Memory.recall`."""
        return self._wait(self._memory.recall(query, max_tokens=max_tokens, **options))

    def remember(
        self,
        text: str,
        *,
        source: str | None = None,
        file: str | os.PathLike[str] | None = None,
        heading: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        supersedes: str | None = None,
    ) -> Note:
        """Write a text to a memory file: `kipu.Memory.remember`."""
        return self._wait(
            self._memory.remember(
                text, source=source, file=file, heading=heading, metadata=metadata, supersedes=supersedes
            )
        )

    def read(self, path: str | os.PathLike[str], start: int | None = None, end: int | None = None) -> str:
        """What a memory file says: `kipu.Memory.read`."""
        return self._wait(self._memory.read(path, start, end))

    def find_chunk(self, chunk: str) -> StoredChunk:
        """The chunk of that name: `kipu.Memory.find_chunk`."""
        return self._wait(self._memory.find_chunk(chunk))

    def edit(
        self,
        text: str,
        *,
        chunk: str | None = None,
        path: str | os.PathLike[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        expected: str | None = None,
    ) -> Note:
        """Put a text in the place of another one: `kipu.Memory.edit`."""
        return self._wait(self._memory.edit(text, chunk=chunk, path=path, start=start, end=end, expected=expected))

    def move(
        self,
        to: str | os.PathLike[str],
        *,
        chunk: str | None = None,
        path: str | os.PathLike[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        expected: str | None = None,
    ) -> Note:
        """Move a file, or lines of one: `kipu.Memory.move`."""
        return self._wait(self._memory.move(to, chunk=chunk, path=path, start=start, end=end, expected=expected))

    def forget(
        self,
        *,
        chunk: str | None = None,
        path: str | os.PathLike[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        expected: str | None = None,
    ) -> Receipt:
        """Take a text out for good: `kipu.Memory.forget`."""
        return self._wait(self._memory.forget(chunk=chunk, path=path, start=start, end=end, expected=expected))

    def forget_found(
        self, query: str, confirm: Callable[[SearchResult], bool | Awaitable[bool]], **options: Any
    ) -> list[Receipt]:
        """Forget what a query finds: `kipu.Memory.forget_found`."""
        return self._wait(self._memory.forget_found(query, confirm, **options))

    def flush(
        self,
        conversation: Any,
        *,
        model: str | None = None,
        instructions: str | None = None,
        source: str | None = None,
        file: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
    ) -> Flushed | None:
        """Remember what is worth it in a conversation: `kipu.Memory.flush`."""
        return self._wait(
            self._memory.flush(
                conversation, model=model, instructions=instructions, source=source, file=file, dry_run=dry_run
            )
        )

    def compact(
        self,
        source: str | None = None,
        older_than: int | timedelta | date | str | None = None,
        *,
        max_tokens: int | None = None,
        model: str | None = None,
        instructions: str | None = None,
        dry_run: bool = False,
    ) -> Compacted | None:
        """Distil old dated files into a summary: `kipu.Memory.compact`."""
        return self._wait(
            self._memory.compact(
                source,
                older_than,
                max_tokens=max_tokens,
                model=model,
                instructions=instructions,
                dry_run=dry_run,
            )
        )

    def undo_compact(self, path: str | os.PathLike[str]) -> Compacted:
        """Put the originals of a summary back: `kipu.Memory.undo_compact`."""
        return self._wait(self._memory.undo_compact(path))

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
    "start_watching",
    "stop_watching",
    "recall",
    "remember",
    "read",
    "find_chunk",
    "edit",
    "move",
    "forget",
    "forget_found",
    "flush",
    "compact",
    "undo_compact",
    "files",
    "status",
    "check",
    "register_strategy",
    "register_postprocessor",
):
    # What each does is said once; whoever asks for help here shall read it too.
    getattr(Memory, _name).__doc__ = getattr(memory.Memory, _name).__doc__
