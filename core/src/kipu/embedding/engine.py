"""Keeps the vectors of an index up to date: when to embed what is pending, and how much of it.

A failing embedder never breaks anything: what could not be embedded stays pending and is found by keywords, and the
next run tries again. After a failure, the embedder is paused, so that no search waits for a provider that is down.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import time
from typing import TYPE_CHECKING, Any

from ..errors import EmbedderError, IndexUnavailableError, MemoryClosedError, PluginError
from ..index.damage import drop_damaged
from ..index.database import BUSY_SECONDS
from ..index.queries import read_snapshot
from ..index.vectors import mark_all_pending, reset_space
from .backlog import Backlog, EmbeddingReport, Stopwatch, start_stopwatch
from .client import BACKOFF_SECONDS, PROBE, EmbedderClient, Pauses
from .identity import Embedders
from .lock import exclusive
from .query import QueryEmbedder, VectorState
from .storage import VectorStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..context import Context
    from .identity import ConfiguredEmbedder

BACKGROUND = "kipu-embedding"
"""The name of the task that embeds in the background of a search."""

# A search prefers to answer without some vectors over waiting long for another process that writes.
_SEARCH_WAITS_SECONDS = 2.0
# After a failed write, searches skip embedding for this long.
_UNWRITABLE_SECONDS = 60.0

_logger = logging.getLogger("kipu")


def ignore_progress(done: int, total: int) -> None:
    """Ignore the progress of a run."""


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, and wait until they have ended."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


class Embeddings:
    """The vectors of one memory.

    :param background: whether to go on embedding in the background of a search.
    :param search_seconds: how long a search embeds before it answers. The other chunks follow in the background, or
        with the next search.
    :param start_stopwatch: measures that; see `kipu.embedding.backlog.start_stopwatch`.
    :param backoff: how long to wait before each further attempt, in seconds. A search makes one attempt.
    :param lock_seconds: how long indexing waits for another process that embeds. A search leaves the texts to it.
    """

    def __init__(
        self,
        context: Context,
        *,
        background: bool = True,
        search_seconds: float = 1.0,
        start_stopwatch: Callable[[], Stopwatch] = start_stopwatch,
        backoff: Sequence[float] = BACKOFF_SECONDS,
        lock_seconds: float = 600.0,
    ) -> None:
        self.embedders = Embedders(context)
        self.search_seconds = search_seconds
        self.start_stopwatch = start_stopwatch
        self.backoff = backoff
        self.lock_seconds = lock_seconds
        self._context = context
        self._in_background = background
        self._pauses = Pauses()
        self.queries = QueryEmbedder(context, self.embedders, self._pauses)
        self._skipped_until = 0.0  # by searches: what they had embedded could not be stored
        self._skipped_because = ""
        self._background: asyncio.Task[None] | None = None
        self._runs: set[asyncio.Task[EmbeddingReport]] = set()
        self._closed = False

    async def close(self) -> None:
        """End all runs. `Components` closes the embedders."""
        self._closed = True
        await self.stop()
        await _cancel(*self._runs)

    async def stop(self) -> None:
        """End what runs in the background. What it has stored so far is kept."""
        if self._background is not None:
            await _cancel(self._background)

    @property
    def is_in_background(self) -> bool:
        """Whether something is being embedded in the background."""
        return self._background is not None and not self._background.done()

    async def identity(self) -> str | None:
        """Return the identity of the configured embedder, None if there is none or if it cannot be used."""
        try:
            embedder = await self.embedders.configured()
        except PluginError:
            return None
        return embedder.identity if embedder else None

    async def problem(self, *, ask: bool = False) -> str | None:
        """Return why the embedder cannot be used, None if nothing is known.

        :param ask: whether to ask it for one vector.
        """
        try:
            embedder = await self.embedders.configured()
            if embedder is None or not ask:
                return None
            async with self._context.database.snapshot() as snapshot:
                known = snapshot.spaces.get(embedder.identity)
            client = EmbedderClient(embedder.name, embedder.embedder, known.space.dimension if known else 0)
            (vector,) = await client.vectors([PROBE], "query")
        except PluginError as error:
            return str(error)
        return f'"{embedder.name}" answers, but {vector}.' if isinstance(vector, str) else None

    # --- embedding what is pending ---------------------------------------------------------------------------------

    async def embed_all(
        self,
        embedder: ConfiguredEmbedder | None = None,
        *,
        retry_refused: bool = True,
        on_progress: Callable[[int, int], None] = ignore_progress,
    ) -> EmbeddingReport:
        """Embed everything that is pending.

        :param embedder: by default the configured one.
        :param retry_refused: whether to retry the texts that were refused, and an embedder that is paused.
        :raises IndexUnavailableError: the index cannot be written.
        :raises MemoryClosedError: the memory was closed meanwhile.
        """
        try:
            embedder = embedder or await self.embedders.configured()
        except PluginError as error:
            self._context.notices.add(f"Nothing was embedded, and searches use keywords only. {error}")
            return EmbeddingReport(pending=(await VectorState.read(self._context)).pending(None))
        if embedder is None:
            return EmbeddingReport()
        if self._context.scope.label is None:
            report = await self._run(embedder, retry_refused=retry_refused, on_progress=on_progress)
        else:  # what is embedded of others is not counted
            before = (await VectorState.read(self._context)).pending(embedder)
            report = await self._run(embedder, retry_refused=retry_refused)
            report.pending = (await VectorState.read(self._context)).pending(embedder)
            report.embedded = max(0, before - report.pending)
        if report.failure is not None:
            reason = self._pauses.reason(embedder)
            self._context.notices.add(f"{reason} Nothing is lost: the next indexing tries again.")
        return report

    async def embed_before_search(
        self, *, embed: bool, on_progress: Callable[[int, int], None] = ignore_progress
    ) -> tuple[int, VectorState | None]:
        """Embed a part of what is pending, and leave the rest to the background.

        If the embedder fails, `queries` says why.

        :param embed: False to count what is pending, and no more.
        :return: how many chunks are pending, and the state of the index for `queries`, None without an embedder.
        """
        try:
            embedder = await self.embedders.configured()
        except PluginError:
            return (await VectorState.read(self._context)).pending(None), None
        if embedder is None:
            return 0, None
        state = await VectorState.read(self._context)
        pending = state.pending(embedder)
        if not pending or not embed or self._pauses.reason(embedder):
            return pending, state
        if time.monotonic() >= self._skipped_until:
            try:
                await self._embed_for_search(embedder, on_progress)
                state = await VectorState.read(self._context)
                return state.pending(embedder), state
            except IndexUnavailableError as error:
                # What cannot be stored would be paid for again by every search.
                self._skipped_until = time.monotonic() + _UNWRITABLE_SECONDS
                self._skipped_because = f"What is new could not be embedded. {error}"
        self._context.notices.add(self._skipped_because)
        return pending, state

    async def _embed_for_search(self, embedder: ConfiguredEmbedder, on_progress: Callable[[int, int], None]) -> None:
        report = await self._run(embedder, for_search=True, on_progress=on_progress)
        if self._in_background and report.out_of_time and not self.is_in_background:
            # In a context of its own: its notices wait for the next call, not for the one that is returning.
            self._background = asyncio.create_task(
                self._embed_in_background(embedder), name=BACKGROUND, context=contextvars.Context()
            )

    async def _embed_in_background(self, embedder: ConfiguredEmbedder) -> None:
        try:
            await self._run(embedder)
        except (IndexUnavailableError, MemoryClosedError):
            pass  # the next search goes on
        except Exception as error:  # noqa: BLE001 (no one awaits this task, and what is pending stays so)
            failure = EmbedderError(f"Embedding in the background failed: {type(error).__name__}: {error}.")
            _logger.warning(self._pauses.add(embedder, failure))

    async def _run(
        self,
        embedder: ConfiguredEmbedder,
        *,
        retry_refused: bool = False,
        for_search: bool = False,
        on_progress: Callable[[int, int], None] = ignore_progress,
    ) -> EmbeddingReport:
        """Work off the backlog of an embedder, unless another process does.

        :param for_search: whether to embed few texts, and to wait for nothing.
        """
        if not retry_refused and (reason := self._pauses.reason(embedder)):
            return EmbeddingReport(
                pending=(await VectorState.read(self._context)).pending(embedder), failure=EmbedderError(reason)
            )
        client = EmbedderClient(embedder.name, embedder.embedder, backoff=() if for_search else self.backoff)
        is_configured = embedder.identity == await self.identity()
        busy_seconds = _SEARCH_WAITS_SECONDS if for_search else BUSY_SECONDS
        sources = self._context.scope.sources if for_search else ()
        storage = VectorStorage(self._context, embedder, is_configured, busy_seconds, sources)
        seconds = self.search_seconds if for_search else math.inf
        backlog = Backlog(storage, client, retry_refused, on_progress, seconds, self.start_stopwatch())
        async with exclusive(self._context.database.path, self.lock_seconds if retry_refused else 0.0) as has_lock:
            if has_lock:
                report = await self._in_task(backlog)
        if not has_lock:
            report = EmbeddingReport(pending=(await VectorState.read(self._context)).pending(embedder))
            if retry_refused and report.pending:
                self._context.notices.add("Another process is embedding: what is pending is left to it.")
        if report.failure is not None:
            self._pauses.add(embedder, report.failure)
        elif report.embedded:
            self._pauses.end(embedder)
        return report

    async def _in_task(self, backlog: Backlog) -> EmbeddingReport:
        """Work off a backlog in a task that `close` can end."""
        self._check_open()
        run = asyncio.create_task(backlog.work_off())
        self._runs.add(run)
        try:
            return await run
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not task.cancelling():  # `close` cancelled the run, and no one the caller
                self._check_open()
            raise
        finally:
            self._runs.discard(run)

    def _check_open(self) -> None:
        if self._closed:
            raise MemoryClosedError("The memory was closed while it was embedding. What was embedded so far is kept.")

    # --- embedding again -------------------------------------------------------------------------------------------

    async def drop_damaged(self) -> None:
        """Have the next run embed again what has a damaged vector, or none."""
        async with self._context.database.transaction() as connection:
            await drop_damaged(connection)

    async def mark_all_pending(self, embedder: ConfiguredEmbedder) -> None:
        """Have the next run embed everything again, with the dimension that the embedder has now."""
        try:
            (vector,) = await EmbedderClient(embedder.name, embedder.embedder).vectors([PROBE], "document")
        except EmbedderError:
            vector = ""  # the run says what is wrong with it, and the stored vectors go on answering
        async with self._context.database.transaction() as connection:
            known = (await read_snapshot(connection)).spaces.get(embedder.identity)
            if known is None:
                return
            if isinstance(vector, str) or len(vector) == known.space.dimension:
                await mark_all_pending(connection, known.space)
            else:
                await reset_space(connection, known.space, len(vector))
