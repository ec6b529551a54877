"""Works off the texts that are pending in a vector space: newest first, a batch at a time, each stored before the next.

A batch fails because the embedder is down, or because it rejects one of the texts. To tell, the backlog probes it with
one word, unless it did not answer in time: if that fails too, the run ends, and everything stays pending. Otherwise the
batch is bisected, and a text that fails alone is refused: it is named by file and line, and only retried by indexing.
"""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, TypeAlias

import attrs

from ..errors import EmbedderError
from .client import embedding_text, is_away

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..index.vectors import PendingText
    from .client import EmbedderClient
    from .storage import VectorStorage

_NAMED_REFUSALS = 5
# How many calls may fail in a run; if refused texts are retried, in a row.
_MAX_FAILURES = 16
# A search does not probe an embedder after a call that took longer: the probe might take as long.
_SLOW_SECONDS = 2.0
# A run with a limit begins with so few texts that a slow machine keeps it, and then measures what fits.
_FIRST_BATCH = 8

Stopwatch: TypeAlias = "Callable[[], float]"


def start_stopwatch() -> Stopwatch:
    """Return a function that returns the seconds since this call: by the clock or of CPU time, whichever are more."""
    wall, cpu = time.monotonic(), time.process_time()
    return lambda: max(time.monotonic() - wall, time.process_time() - cpu)


@attrs.define
class EmbeddingReport:
    """How many texts a run embedded, how many chunks are still pending, and why the embedder was not asked for them.

    ``out_of_time`` is true if the run ended because its time was over.
    """

    embedded: int = 0
    pending: int = 0
    failure: EmbedderError | None = None
    out_of_time: bool = False


class _TooManyFailuresError(Exception):
    """A run ends although the embedder responds."""


@attrs.define
class Backlog:
    """What one embedder has not embedded yet.

    :param retry_refused: whether refused texts are retried too.
    :param on_progress: called with the number of chunks done and of all that are pending.
    :param seconds: after how long a run ends, though not before its first batch.
    """

    storage: VectorStorage
    client: EmbedderClient
    retry_refused: bool
    on_progress: Callable[[int, int], None]
    seconds: float = math.inf
    stopwatch: Stopwatch = attrs.field(factory=start_stopwatch)
    _report: EmbeddingReport = attrs.field(factory=EmbeddingReport, init=False)
    _refused: dict[PendingText, str] = attrs.field(factory=dict, init=False)
    _refusals: list[str] = attrs.field(factory=list, init=False)
    _failures: int = attrs.field(default=0, init=False)

    async def work_off(self) -> EmbeddingReport:
        """Embed and store what is pending.

        :raises IndexUnavailableError: the index cannot be written.
        """
        notices = self.storage.context.notices
        texts = await self.storage.open(sys.maxsize)
        if texts or (self.retry_refused and self.storage.pending):
            total = self.storage.pending
            self.storage.check_room(total)
            self.client.dimension = self.storage.space.dimension
            try:
                await self._embed_all(texts, total)
            except EmbedderError as error:
                self._report.failure = error
            except _TooManyFailuresError as error:
                if self.storage.sources == self.storage.context.scope.sources:  # else texts of others are at fault
                    notices.add(str(error))
            await self._write_refusals()
        notices.add(*self._refusals[:_NAMED_REFUSALS])
        if (more := len(self._refusals) - _NAMED_REFUSALS) > 0:
            notices.add(f"... and {more} more; they are found by keywords, and retried by: kipu index")
        self._report.pending = self.storage.pending
        return self._report

    async def _embed_all(self, texts: list[PendingText], total: int) -> None:
        """Embed texts and then all other pending ones, page by page, refused ones last."""
        done, before, refused = 0, sys.maxsize, False
        self.on_progress(0, total)
        while texts or (self.retry_refused and not refused):
            if texts:
                await self._embed_page(texts, done, total)
                await self._write_refusals()
                done, before = done + len(texts), texts[-1].chunk_id
            else:
                before, refused = sys.maxsize, True
            if done >= total or self._report.out_of_time:
                return
            texts = await self.storage.read(total - done, before=before, refused=refused)

    async def _embed_page(self, texts: Sequence[PendingText], done: int, total: int) -> None:
        """Embed texts, each once, in batches, until the time is over."""
        unique = list({text.hash: text for text in texts}.values())
        most = size = self.client.embedder.batch_size
        if self.seconds < math.inf:
            size = min(most, _FIRST_BATCH)
        else:  # texts of similar length together; a run with a limit takes the newest first
            unique.sort(key=lambda text: len(text.text) + len(text.context), reverse=True)
        start = 0
        while start < len(unique) and not self._report.out_of_time:
            began = self.stopwatch()
            batch = unique[start : start + size]
            await self._embed(batch)
            start += len(batch)
            self.on_progress(done + len(texts) * start // len(unique), total)
            left, took = self.seconds - self.stopwatch(), self.stopwatch() - began
            if left < math.inf and took > 0:
                size = max(1, min(most, 2 * size, int(left / took * len(batch))))
            self._report.out_of_time = left <= 0 and (start < len(unique) or done + len(texts) < total)

    async def _embed(self, texts: Sequence[PendingText]) -> None:
        """Embed and store texts. If that fails for one of them, bisect until it is found."""
        start = time.monotonic()
        try:
            vectors = await self.client.vectors(
                [embedding_text(text.heading, text.context, text.text) for text in texts], "document"
            )
        except EmbedderError as error:
            await self._check_embedder(error, time.monotonic() - start)
            if len(texts) == 1:
                self._refused[texts[0]] = str(error)
                return
            middle = len(texts) // 2
            await self._embed(texts[:middle])
            await self._embed(texts[middle:])
            return
        pairs = list(zip(texts, vectors, strict=True))
        good = {text.hash: vector for text, vector in pairs if not isinstance(vector, str)}
        bad = {text: vector for text, vector in pairs if isinstance(vector, str)}
        if good:
            await self.storage.store(good)
            self.client.dimension = self.storage.space.dimension
            self._report.embedded += len(good)
            self._failures = 0 if self.retry_refused else self._failures
        else:
            await self._check_embedder(self.client.unusable(bad[texts[0]]), time.monotonic() - start)
        self._refused |= bad

    async def _check_embedder(self, error: EmbedderError, seconds: float) -> None:
        """Raise the error of a call unless the embedder responds, so that one of the texts is at fault.

        :param seconds: how long the call took.
        """
        self._failures += 1
        is_search = not self.client.backoff
        if is_away(error) or (is_search and seconds > _SLOW_SECONDS) or not await self.client.responds():
            raise error
        if self._failures >= _MAX_FAILURES:
            raise _TooManyFailuresError(
                f"Embedding was stopped after {self._failures} calls that failed, the last one with: {error}"
            )

    async def _write_refusals(self) -> None:
        """Record which texts were refused, and why."""
        refused, self._refused = self._refused, {}
        if not refused:
            return
        await self.storage.refuse({text.hash: problem for text, problem in refused.items()})
        self._refusals += [
            f'{text.path}:{text.start_line} was not embedded by "{self.client.name}": {problem.removesuffix(".")}.'
            for text, problem in refused.items()
            if self.storage.context.scope.sees(text.path)
        ]
