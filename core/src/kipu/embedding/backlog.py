"""One run over the texts that are pending: a call at a time, each stored before the next, and an end to it in time.

A call may fail for two reasons, and the error does not tell which: the embedder cannot work, and then no other text
would fare better; or it does not take one of the texts, and then all the others would. So the texts of a call that
failed become *suspects*, which come after all others. They are asked for only as long as the embedder is known to work:
it has embedded something since the last failure, or else it embeds a word. Halved again and again they are told apart,
and what fails alone while the embedder works is *refused*: named by file and line, and not tried again by a search.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import EmbedderError
from ..index.queries import read_snapshot
from ..index.strategy_tables import change, rebuild, stale_tables, tables_of
from ..index.vectors import (
    BYTES_PER_NUMBER,
    count_pending,
    keep_room,
    make_space,
    pending_texts,
    refuse,
    space_of,
    still_pending,
    store,
)
from .client import Asking, embedding_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from filelock import BaseFileLock

    from ..index.database import Database
    from ..index.queries import Snapshot
    from ..index.strategy_tables import Select, StrategyTables
    from ..index.vectors import PendingText, State
    from ..notices import Notices
    from ..types import Vectors
    from .identity import ConfiguredEmbedder

__all__ = ["EmbeddingReport", "Run"]

PROBE = "memory"
"""What an embedder is asked for to see whether it works: nothing of anybody's memory."""

TEXTS_PER_CALL = 64
_TEXTS_READ = 1024
_NAMED_REFUSALS = 5
# How many texts may fail alone before it is looked whether the embedder works.
_FAILED_IN_A_ROW = 3
# How many calls may fail in a search; when indexing, since something was embedded last.
_MOST_FAILURES = 16
_LOCK_FILE = "embedding.lock"
_LOCK_POLL_SECONDS = 0.05
# How many numbers a vector is thought to have before the first one came.
_USUAL_DIMENSION = 1024


@attrs.define
class EmbeddingReport:
    """What a run did: how many texts it embedded, how many chunks are still pending, and sentences for people."""

    embedded: int = 0
    pending: int = 0
    failed: bool = False
    notices: list[str] = attrs.field(factory=list)


class _StoppedError(Exception):
    """A run has done what it may. ``str(error)`` says why, for people, or nothing."""


@attrs.define
class Run:
    """How a run goes about it, and how far it has come.

    :param again: whether somebody asked for it: then what was refused is tried too, and others are waited for.
    :param backoff: how long to wait before each further attempt, in seconds.
    :param wait: how long to wait for another process that writes, in seconds.
    :param works: whether the embedder has answered since a call failed last.
    :param sees: whether the caller may be told of a file.
    :param lock_seconds: how long to wait for another process that embeds, if ``again``.
    """

    database: Database
    chosen: ConfiguredEmbedder
    strategies: Mapping[str, Any]
    report: EmbeddingReport
    again: bool
    backoff: Sequence[float]
    wait: float
    works: bool
    on_progress: Callable[[int, int], None]
    sees: Callable[[str], bool]
    notices: Notices
    lock_seconds: float
    _total: int = 0
    _done: int = 0
    _put_off: int = 0  # chunks that are tried again at the end of this run
    _copies: Counter[str] = attrs.field(factory=Counter)  # of the texts that were read: how many chunks each has
    _failures: int = 0
    _failed: list[tuple[PendingText, str]] = attrs.field(factory=list)  # alone, since something was embedded
    _places: list[str] = attrs.field(factory=list)

    async def go(self, limit: int | None) -> None:
        """Embed what was never tried, then the suspects, and with ``again`` what was refused too, newest first.

        :param limit: how many texts at most.
        :raises EmbedderError: the embedder does not work.
        :raises IndexUnavailableError: the index cannot be written.
        """
        async with exclusive(self.database.path, self.lock_seconds if self.again else 0.0) as has_lock:
            if has_lock:
                await self._go(limit)
            elif self.again:
                self.report.notices.append("Another process is embedding: what is pending is left to it.")

    async def _go(self, limit: int | None) -> None:
        async with self.database.reader() as connection:
            space = await space_of(connection, self.chosen.identity)
            self._total = min(limit or sys.maxsize, await count_pending(connection, space))
        stopped = ""
        states: tuple[State, ...] = ("new", "suspect", "refused") if self.again else ("new", "suspect")
        try:
            try:
                for state in states:
                    await self._all(state)
            except _StoppedError as error:
                stopped = str(error)
            await self._settle()
        finally:
            self.report.notices += [*self._refusals(), *([stopped] if stopped else [])]

    async def _all(self, state: State) -> None:
        before = sys.maxsize
        while self._done < self._total:
            async with self.database.reader() as connection:
                space = await space_of(connection, self.chosen.identity)
                limit = min(_TEXTS_READ, self._total - self._done)
                texts = await pending_texts(connection, space, state, before=before, limit=limit)
            if not texts:
                return
            before = texts[-1].chunk_id
            self._copies = Counter(text.hash for text in texts)
            calls = list(_calls(texts, self.chosen.embedder.batch_size))
            await self._see_to_room(len(calls[0]) * (space.dimension or _USUAL_DIMENSION) * BYTES_PER_NUMBER)
            if state != "new" and not self.works:
                await self._look_whether_it_works()
            for call in calls:
                await self._call(call, state)
            self._done += len(texts) - self._put_off
            self._put_off = 0
            self.on_progress(min(self._done, self._total), self._total)

    async def _see_to_room(self, size: int) -> None:
        """Raise unless as many bytes can be stored, and as many again by strategies: else nothing is paid for."""
        for each in (2 * size, 0):
            async with self.database.transaction(self.wait) as connection:
                await keep_room(connection, each)

    # --- one call --------------------------------------------------------------------------------------------------

    async def _call(self, texts: Sequence[PendingText], state: State) -> None:
        """Ask once for the vectors of some texts, and store them; or go on with what is at fault if that fails."""
        texts, failure = await self._asked(texts, state)
        if failure is None:
            return
        worked, self.works = self.works, False
        self._failures += 1
        if isinstance(failure, str):
            self._failed.append((texts[0], failure))
        elif state == "new":
            await self._refuse(dict.fromkeys(texts, ""))
            self._put_off += sum(self._copies[text.hash] for text in texts)
            if not worked:
                raise failure
        elif len(texts) == 1:
            self._failed.append((texts[0], f"its call failed. {failure}"))
        if len(self._failed) >= _FAILED_IN_A_ROW:
            await self._settle()
        if self._failures >= _MOST_FAILURES:
            raise _StoppedError(
                f"Embedding was stopped after {self._failures} calls that failed, the last one with: {failure}"
            )
        if state != "new" and len(texts) > 1:
            if not self.works:
                await self._look_whether_it_works()
            middle = len(texts) // 2
            await self._call(texts[:middle], state)
            await self._call(texts[middle:], state)

    async def _asked(
        self, texts: Sequence[PendingText], state: State
    ) -> tuple[Sequence[PendingText], EmbedderError | str | None]:
        """Ask, and store what comes. Return what was asked for and what went wrong."""
        async with self.database.reader() as connection:
            space = await space_of(connection, self.chosen.identity)
            texts = await still_pending(connection, space, state, texts)
        if not texts:
            return texts, None
        said = [embedding_text(text.heading, text.context, text.text) for text in texts]
        try:
            vectors = await self._asking(space.dimension).vectors(said, "document")
        except EmbedderError as error:
            return texts, error
        if all(isinstance(vector, str) for vector in vectors):
            said_of_it = str(vectors[0])
            return texts, said_of_it if len(texts) == 1 else self._unusable(said_of_it)
        await self._store(texts, vectors)
        return texts, None

    def _unusable(self, vector: str) -> EmbedderError:
        return EmbedderError(f'The embedder "{self.chosen.name}" gives no vector that can be used: {vector}.')

    def _asking(self, dimension: int) -> Asking:
        return Asking(self.chosen.name, self.chosen.embedder, dimension or None, self.backoff)

    async def _store(self, texts: Sequence[PendingText], vectors: Sequence[Vectors | str]) -> None:
        good = {text.hash: vector for text, vector in zip(texts, vectors, strict=True) if not isinstance(vector, str)}
        bad = {text: vector for text, vector in zip(texts, vectors, strict=True) if isinstance(vector, str)}
        await self._stored(good)
        self.report.embedded += len(good)
        self.works = True
        self._failures = 0 if self.again else self._failures
        await self._refuse(bad)
        await self._settle()

    async def _stored(self, vectors: Mapping[str, Vectors]) -> None:
        as_bytes = {hash: vector.astype("<f4").tobytes() for hash, vector in vectors.items()}
        dimension = len(next(iter(vectors.values())))

        async def work(snapshot: Snapshot, select: Select) -> None:
            connection = snapshot.connection
            space = await make_space(connection, self.chosen.identity, dimension, self.chosen.recipe)
            snapshot = await read_snapshot(connection)
            tables = select(snapshot)
            for each in stale_tables(snapshot, tables):
                await rebuild(connection, each)
            got = await store(connection, space, as_bytes)
            for each in tables:
                if each.space == space:
                    await each.remove(connection, [id for id, _ in got])  # if they are embedded again
                    await each.add_vectors(connection, space, got)

        await change(self.database, self._tables, work, self.notices, self.wait)

    def _tables(self, snapshot: Snapshot) -> list[StrategyTables]:
        return tables_of(snapshot, self.strategies, self.chosen.identity)

    # --- what is at fault --------------------------------------------------------------------------------------------

    async def _look_whether_it_works(self) -> None:
        """Raise unless the embedder embeds a word, as it did all else."""
        async with self.database.reader() as connection:
            space = await space_of(connection, self.chosen.identity)
        (vector,) = await self._asking(space.dimension).vectors([PROBE], "document")
        if isinstance(vector, str):
            raise self._unusable(vector)
        self.works = True

    async def _settle(self) -> None:
        """Refuse the texts that failed alone, if the embedder works: then it is they that are at fault."""
        if self._failed:
            if not self.works:
                await self._look_whether_it_works()
            failed, self._failed = self._failed, []
            await self._refuse(dict(failed))

    async def _refuse(self, problems: Mapping[PendingText, str]) -> None:
        """Write down what is wrong with texts; nothing where they are only suspects."""
        if problems:
            async with self.database.transaction(self.wait) as connection:
                space = await space_of(connection, self.chosen.identity)
                await refuse(connection, space, {text.hash: problem for text, problem in problems.items()})
        self._places += [
            f'{text.path}:{text.start_line} was not embedded by "{self.chosen.name}": {problem.removesuffix(".")}.'
            for text, problem in problems.items()
            if problem and self.sees(text.path)
        ]

    def _refusals(self) -> list[str]:
        """Sentences about the texts that got no vector: the first ones, and how many more there are."""
        rest = len(self._places) - _NAMED_REFUSALS
        more = [f"... and {rest} more; they are found by words, and tried again by: kipu index"] if rest > 0 else []
        return self._places[:_NAMED_REFUSALS] + more


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


def _calls(texts: Sequence[PendingText], size: int) -> Iterator[list[PendingText]]:
    """Texts of about the same length together, each of them once."""
    different = list({text.hash: text for text in texts}.values())
    different.sort(key=lambda text: len(text.text) + len(text.context), reverse=True)
    for start in range(0, len(different), size):
        yield different[start : start + size]
