"""Works off the texts that are pending in a vector space: newest first, a batch at a time, each stored before the next.

A batch fails because the embedder is down, or because it rejects one of the texts. To tell, the backlog probes it with
one word: if that fails too, the run ends, and everything stays pending. Otherwise the batch is bisected, and a text
that fails alone is refused: it is named by file and line, and only retried by indexing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

import attrs

from ..errors import EmbedderError, IndexUnavailableError
from ..index.queries import read_snapshot
from ..index.strategy_tables import change, rebuild, stale_tables, tables_of
from ..index.vectors import BYTES_PER_NUMBER, count_pending, make_space, pending_texts, refuse, store
from .client import embedding_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from filelock import BaseFileLock

    from ..context import Context
    from ..index.database import Connection
    from ..index.queries import Snapshot
    from ..index.strategy_tables import Select, StrategyTables
    from ..index.vectors import PendingText
    from ..types import Vectors, VectorSpace
    from .client import EmbedderClient
    from .identity import ConfiguredEmbedder

__all__ = ["Backlog", "EmbeddingReport", "exclusive"]

_TEXTS_READ = 1024
_NAMED_REFUSALS = 5
# How many calls may fail in a run; if refused texts are retried, in a row.
_MAX_FAILURES = 16
# A search does not probe an embedder after a call that took longer: the probe might take as long.
_SLOW_SECONDS = 2.0
# How large vectors are expected to be before the first one.
_USUAL_DIMENSION = 1024
_LOCK_FILE = "embedding.lock"
_LOCK_POLL_SECONDS = 0.05


@attrs.define
class EmbeddingReport:
    """How many texts a run embedded, how many chunks are still pending, and why the embedder was not asked for them."""

    embedded: int = 0
    pending: int = 0
    failure: EmbedderError | None = None


class _TooManyFailuresError(Exception):
    """A run ends although the embedder responds."""


@attrs.define
class Backlog:
    """What one embedder has not embedded yet.

    :param retry_refused: whether refused texts are retried, and other processes are waited for.
    :param busy_seconds: how long to wait for another process that writes to the index.
    :param lock_seconds: how long to wait for another process that embeds, if ``retry_refused``.
    :param on_progress: called with the number of chunks done and of all chunks of this run.
    """

    context: Context
    embedder: ConfiguredEmbedder
    client: EmbedderClient
    retry_refused: bool
    busy_seconds: float
    lock_seconds: float
    on_progress: Callable[[int, int], None]
    _report: EmbeddingReport = attrs.field(factory=EmbeddingReport, init=False)
    _refused: dict[PendingText, str] = attrs.field(factory=dict, init=False)
    _refusals: list[str] = attrs.field(factory=list, init=False)
    _failures: int = attrs.field(default=0, init=False)

    async def work_off(self, limit: int = sys.maxsize) -> EmbeddingReport:
        """Embed and store what is pending, at most ``limit`` chunks.

        :raises IndexUnavailableError: the index cannot be written.
        """
        space, pending = await self._look()
        if space is None or not pending:
            return self._report
        index = self.context.database.path
        async with exclusive(index, self.lock_seconds if self.retry_refused else 0.0) as has_lock:
            if has_lock:
                await self._work_off(space, min(pending, limit))
            elif self.retry_refused:
                self.context.notices.add("Another process is embedding: what is pending is left to it.")
        return self._report

    async def _look(self) -> tuple[VectorSpace | None, int]:
        """Return the space, which is made if something is pending, and how many chunks are."""
        async with self.context.database.snapshot() as snapshot:
            known = snapshot.spaces.get(self.embedder.identity)
            space = known.space if known else None
            pending = await count_pending(snapshot.connection, space, refused=self.retry_refused)
        if pending and (known is None or known.recipe != self.embedder.recipe):
            async with self.context.database.transaction(self.busy_seconds) as connection:
                space = await self._make_space(connection)
        return space, pending

    async def _make_space(self, connection: Connection) -> VectorSpace:
        known = (await read_snapshot(connection)).spaces.get(self.embedder.identity)
        return await make_space(connection, known, self.embedder.identity, self.embedder.recipe)

    async def _work_off(self, space: VectorSpace, total: int) -> None:
        self.client.dimension = space.dimension
        self._check_storage(total, space.dimension or _USUAL_DIMENSION)
        try:
            await self._embed_all(space, total)
        except EmbedderError as error:
            self._report.failure = error
        except _TooManyFailuresError as error:
            self.context.notices.add(str(error))
        await self._write_refusals()
        more = len(self._refusals) - _NAMED_REFUSALS
        self.context.notices.add(*self._refusals[:_NAMED_REFUSALS])
        if more > 0:
            self.context.notices.add(f"... and {more} more; they are found by words, and retried by: kipu index")

    def _check_storage(self, chunks: int, dimension: int) -> None:
        """Check that vectors can be written, and that the disk has room for them, before paying for them."""
        path = self.context.database.path
        if not os.access(path, os.W_OK):
            raise IndexUnavailableError(f"The index {path} cannot be written. Make the file and its folder writable.")
        needed = 2 * chunks * dimension * BYTES_PER_NUMBER  # strategies may store as much again
        if (free := shutil.disk_usage(path.parent).free) < needed:
            raise IndexUnavailableError(
                f"The disk is too full for the vectors of {chunks:,} chunks: {free / 1e6:.1f} MB are left in "
                f"{path.parent}, and {needed / 1e6:.1f} MB are needed. Free some space and try again."
            )

    async def _embed_all(self, space: VectorSpace, total: int) -> None:
        done, before, refused = 0, sys.maxsize, False
        while done < total:
            limit = min(_TEXTS_READ, total - done)
            async with self.context.database.reader() as connection:
                texts = await pending_texts(connection, space, refused=refused, before=before, limit=limit)
            if texts:
                for batch in _batches(texts, self.embedder.embedder.batch_size):
                    await self._embed(batch)
                await self._write_refusals()
                done, before = done + len(texts), texts[-1].chunk_id
                self.on_progress(done, total)
            elif self.retry_refused and not refused:
                refused, before = True, sys.maxsize
            else:
                return

    # --- one batch -------------------------------------------------------------------------------------------------

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
        bad = {text: vector for text, vector in zip(texts, vectors, strict=True) if isinstance(vector, str)}
        if len(bad) == len(texts):
            await self._check_embedder(self.client.unusable(bad[texts[0]]), time.monotonic() - start)
        else:
            good = zip(texts, vectors, strict=True)
            await self._store({text.hash: vector for text, vector in good if not isinstance(vector, str)})
            self._report.embedded += len(texts) - len(bad)
            self._failures = 0 if self.retry_refused else self._failures
        self._refused |= bad

    async def _check_embedder(self, error: EmbedderError, seconds: float) -> None:
        """Raise the error of a call unless the embedder responds, so that one of the texts is at fault.

        :param seconds: how long the call took.
        """
        self._failures += 1
        is_search = not self.client.backoff
        if (is_search and seconds > _SLOW_SECONDS) or not await self.client.responds():
            raise error
        if self._failures >= _MAX_FAILURES:
            raise _TooManyFailuresError(
                f"Embedding was stopped after {self._failures} calls that failed, the last one with: {error}"
            )

    async def _store(self, vectors: Mapping[str, Vectors]) -> None:
        """Store vectors by the hash of their text, and add them to the tables of strategies."""
        dimension = len(next(iter(vectors.values())))
        as_bytes = {hash: vector.astype("<f4").tobytes() for hash, vector in vectors.items()}

        async def work(snapshot: Snapshot, select: Select) -> None:
            connection = snapshot.connection
            known = snapshot.spaces.get(self.embedder.identity)
            space = await make_space(connection, known, self.embedder.identity, self.embedder.recipe, dimension)
            if known is None or known.space != space:
                snapshot = await read_snapshot(connection)
            tables = select(snapshot)
            for each in stale_tables(snapshot, tables):
                await rebuild(connection, each)
            stored = await store(connection, space, as_bytes)
            for each in tables:
                if each.space == space:
                    await each.remove(connection, stored.replaced)
                    await each.add_vectors(connection, space, stored.vectors)

        await change(self.context.database, self._tables, work, self.context.notices, self.busy_seconds)
        self.client.dimension = dimension

    def _tables(self, snapshot: Snapshot) -> list[StrategyTables]:
        return tables_of(snapshot, self.context.components.indexed, self.embedder.identity)

    async def _write_refusals(self) -> None:
        """Record which texts were refused, and why."""
        refused, self._refused = self._refused, {}
        if not refused:
            return
        async with self.context.database.transaction(self.busy_seconds) as connection:
            space = await self._make_space(connection)
            await refuse(connection, space, {text.hash: problem for text, problem in refused.items()})
        self._refusals += [
            f'{text.path}:{text.start_line} was not embedded by "{self.embedder.name}": {problem.removesuffix(".")}.'
            for text, problem in refused.items()
            if self.context.scope.sees(text.path)
        ]


def _batches(texts: Sequence[PendingText], size: int) -> Iterator[list[PendingText]]:
    """Group texts of similar length, each text once."""
    unique = list({text.hash: text for text in texts}.values())
    unique.sort(key=lambda text: len(text.text) + len(text.context), reverse=True)
    for start in range(0, len(unique), size):
        yield unique[start : start + size]


# --- one process at a time -----------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def exclusive(index: Path, seconds: float) -> AsyncIterator[bool]:
    """Hold the lock on embedding for an index, so that no two processes embed the same texts.

    Yield False if another process, or another memory of this one, holds it for longer than ``seconds``. Where files
    cannot be locked, as on some network folders, go on without: at worst some texts are embedded twice.
    """
    from filelock import FileLock

    lock = FileLock(index.with_name(_LOCK_FILE), thread_local=False)
    end = time.monotonic() + seconds
    try:
        while not (is_free := _try_to_lock(lock)) and time.monotonic() < end:  # noqa: ASYNC110 (of processes)
            await asyncio.sleep(_LOCK_POLL_SECONDS)
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
