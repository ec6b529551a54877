"""`kipu.sync.Memory`: the same memory for code that is not async.

It runs `kipu.Memory` on an event loop in a thread of its own. So it works inside another event loop and in notebooks,
and threads may share it. Its methods are made from those of `kipu.Memory`; their types stand in ``sync.pyi``.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import threading
from typing import TYPE_CHECKING, Any

from . import memory
from .errors import MemoryClosedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator
    from concurrent.futures import Future

__all__ = ["Memory"]


class Memory:
    """A workspace's memory, with methods that wait for their answer. See `kipu.Memory` for what each does.

    Use it as ``with Memory("project") as memory``, or close it with `close`.
    """

    @functools.wraps(memory.Memory.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        self._memory = memory.Memory(*args, **options)
        self._calls: set[Future[Any]] = set()
        self._closing = threading.Lock()
        self._closed = False
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        # A daemon: a program that forgets to close its memory can still end.
        self._thread = threading.Thread(target=self._loop.run_forever, name="kipu", daemon=True)
        self._thread.start()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def config(self) -> Any:
        """The configuration in use."""
        return self._memory.config

    @property
    def plugins(self) -> Any:
        """The plugins in use."""
        return self._memory.plugins

    @property
    def workspace(self) -> Any:
        """The absolute path of the workspace."""
        return self._memory.workspace

    def close(self) -> None:
        """Wait for the calls of other threads, close the index and end the thread. A second call does nothing."""
        self._check_thread()
        if os.getpid() != self._process:  # the thread stayed in the process that was forked
            self._closed = True
            return
        with self._closing:
            if self._closed:
                return
            self._closed = True
        asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _finish(self) -> None:
        # Only these: a library may have tasks of its own in this loop that never end.
        await asyncio.gather(*map(asyncio.wrap_future, list(self._calls)), return_exceptions=True)
        await self._memory.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_default_executor()

    def _answer(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        answer = function(*args, **options)
        if isinstance(answer, contextlib.AbstractAsyncContextManager) and not inspect.isawaitable(answer):
            return self._entered(answer)
        if inspect.isawaitable(answer) and not inspect.iscoroutine(answer):
            answer = _awaited(answer)
        return self._wait(answer) if inspect.iscoroutine(answer) else answer

    @contextlib.contextmanager
    def _entered(self, opened: contextlib.AbstractAsyncContextManager[Any]) -> Iterator[_OpenIndex]:
        index = self._wait(opened.__aenter__())
        try:
            yield _OpenIndex(index, self._answer)
        except BaseException as error:
            if not self._wait(opened.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self._wait(opened.__aexit__(None, None, None))

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            future = self._start(work)
        except BaseException:
            work.close()
            raise
        try:
            answer, left = future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise
        if left is not None:
            raise left
        return answer

    def _start(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        self._check_thread()
        if os.getpid() != self._process:  # threads do not survive a fork, so there would never be an answer
            raise RuntimeError("This memory was opened before a fork. Open another one: Memory(workspace)")
        with self._closing:
            if self._closed:
                raise MemoryClosedError("This memory is closed. Open another one: Memory(workspace)")
            future = asyncio.run_coroutine_threadsafe(_contained(work), self._loop)
            self._calls.add(future)
            future.add_done_callback(self._calls.discard)
            return future

    def _check_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "Do not call kipu.sync.Memory from a plugin or callback that it is waiting for: this would deadlock."
            )


async def _contained(work: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
    """Return an answer, or what a callback raised to leave the program: it would end the thread of the event loop."""
    try:
        return await work, None
    except (SystemExit, KeyboardInterrupt) as error:
        return None, error


class _OpenIndex:
    """The index of `Memory.open_index`, or its connection, with methods that wait for their answer."""

    def __init__(self, opened: Any, answer: Callable[..., Any]) -> None:
        self._opened = opened
        self._answer = answer

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._opened, name)
        if not callable(member):
            return _OpenIndex(member, self._answer) if name == "connection" else member
        return functools.partial(self._answer, member)


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer


def _blocking(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Memory, *args: Any, **options: Any) -> Any:
        return self._answer(functools.partial(method, self._memory), *args, **options)

    return call


for _name, _method in inspect.getmembers(memory.Memory, inspect.isfunction):
    if not _name.startswith("_") and not hasattr(Memory, _name):
        setattr(Memory, _name, _blocking(_method))
