"""Keeps the vectors of an index up to date: which embedder is used, what it has not embedded yet, and when to ask it.

A failing embedder never breaks anything: what could not be embedded stays pending and is found by words, and the next
run tries again. After a failure nothing is asked for a while, so that no search waits for a provider that is down.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from ..errors import EmbedderError, IndexUnavailableError, PluginError
from ..index.damage import drop_damaged
from ..index.database import BUSY_SECONDS
from ..index.queries import count_chunks, read_snapshot
from ..index.strategy_tables import change, retire, tables_of
from ..index.vectors import (
    AWAITED,
    count_lacking,
    count_pending,
    evict,
    expect_all,
    known_spaces,
    space_of,
    start_anew,
)
from ..types import QueryEmbedding
from .backlog import PROBE, EmbeddingReport, Run
from .client import BACKOFF_SECONDS, Asking, unknown_share
from .identity import Embedders

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..context import Context
    from ..index.queries import Snapshot
    from ..index.strategy_tables import Select, StrategyTables
    from ..index.vectors import KnownSpace
    from ..plugins.adapters import StrategyAdapter
    from ..types import VectorSpace
    from .identity import ConfiguredEmbedder

__all__ = ["BACKGROUND", "EmbeddingReport", "Embeddings"]

BACKGROUND = "kipu-embedding"
"""The name of the task that goes on embedding behind a search."""

_PAUSE_SECONDS = 60.0
# A search prefers to answer without some vectors over waiting long for another process that writes.
_SEARCH_WAITS_SECONDS = 2.0
# After a failed write, searches skip embedding for this long.
_UNWRITABLE_SECONDS = 60.0
_NEXT_TIME = "Nothing is lost: the next indexing tries again."
_BY_WORDS = "This search went by words."

_logger = logging.getLogger("kipu")


class Embeddings:
    """The vectors of one memory.

    :param background: whether to go on embedding in the background of a search.
    :param search_embeds: how many texts a search embeds before it answers. The others follow in the background, or with
        the next search.
    :param lock_seconds: how long indexing waits for another process that embeds. A search leaves the texts to it.
    """

    def __init__(
        self, context: Context, *, background: bool = True, search_embeds: int = 256, lock_seconds: float = 600.0
    ) -> None:
        self.embedders = Embedders(context)
        self.search_embeds = search_embeds
        self.lock_seconds = lock_seconds
        self._in_background = background
        self._sees = context.scope.sees
        self._database = context.database
        self._components = context.components
        self._notices = context.notices
        self._cache_bytes = context.config.index.cache_bytes
        self._skipped_until = 0.0  # searches do not embed before: what they embedded could not be stored
        self._skipped_because = ""
        self._pauses: dict[str, tuple[float, str]] = {}  # by identity: until when, and why
        self._answered: dict[str, float] = {}  # by identity: when it did last
        self._background: asyncio.Task[None] | None = None
        self._runs: set[asyncio.Task[EmbeddingReport]] = set()
        self.times_closed = 0

    async def close(self) -> None:
        """End what is being embedded, in the background or not."""
        self.times_closed += 1
        await self.stop()
        loop = asyncio.get_running_loop()
        runs = [run for run in self._runs if run.get_loop() is loop]
        for run in runs:
            run.cancel()
        if runs:
            await asyncio.wait(runs)

    def go_on_unless_closed(self, times_closed: int) -> None:
        """Raise if the memory was closed since: then nothing more is asked for.

        :param times_closed: how often it had been closed before.
        :raises IndexUnavailableError: it was.
        """
        if self.times_closed != times_closed:
            raise IndexUnavailableError(
                "The memory was closed while it was indexing. What was indexed and embedded so far is kept; the next "
                "indexing goes on from there."
            )

    async def stop(self) -> None:
        """End what runs in the background. What it has stored so far is kept."""
        task, self._background = self._background, None
        if task is None:
            return
        if task.get_loop() is not asyncio.get_running_loop():  # which ended before it did, and so will it never
            return
        task.cancel()
        await asyncio.wait([task])

    async def identity(self) -> str | None:
        """The identity of the embedder that is used; None where there is none, or it cannot be used."""
        try:
            chosen = await self.embedders.configured()
        except PluginError:
            return None
        return chosen.identity if chosen else None

    async def problem(self, *, ask: bool = False) -> str | None:
        """Why the embedder cannot be used, as far as can be told without asking it, or by asking for one vector."""
        try:
            chosen = await self.embedders.configured()
            if chosen is None or not ask:
                return None
            async with self._database.reader() as connection:
                space = await space_of(connection, chosen.identity)
            (vector,) = await Asking(chosen.name, chosen.embedder, space.dimension or None).vectors([PROBE], "query")
        except PluginError as error:
            return str(error)
        return f'"{chosen.name}" answers, but {vector}.' if isinstance(vector, str) else None

    def _strategies(self) -> Mapping[str, StrategyAdapter]:
        return self._components.indexed

    async def _count_chunks(self) -> int:
        async with self._database.reader() as connection:
            return await count_chunks(connection)

    # --- embedding what is pending ---------------------------------------------------------------------------------

    async def embed_all(
        self,
        chosen: ConfiguredEmbedder | None = None,
        *,
        again: bool = True,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> EmbeddingReport:
        """Embed everything that is pending.

        :param chosen: the embedder, by default the configured one.
        :param again: whether to try again the texts that were refused, and an embedder that failed just now.
        :raises IndexUnavailableError: the index cannot be written, or the memory was closed meanwhile.
        """
        try:
            chosen = chosen or await self.embedders.configured()
        except PluginError as error:
            notice = f"Nothing was embedded, and searches go by words. {error}"
            return EmbeddingReport(pending=await self._count_chunks(), failed=True, notices=[notice])
        return await self.run(chosen, again=again, on_progress=on_progress)

    async def embed_before_search(
        self, *, embed: bool, on_progress: Callable[[int, int], None] = lambda done, total: None
    ) -> EmbeddingReport:
        """Embed a part of what is pending, and leave the rest to the background.

        :param embed: False to count what is pending, and no more.
        """
        try:
            chosen = await self.embedders.configured()
        except PluginError:  # embedding the query says why
            return EmbeddingReport(pending=await self._count_chunks(), failed=True)
        if chosen is None:
            return EmbeddingReport()
        times_closed = self.times_closed
        async with self._database.reader() as connection:
            known = (await known_spaces(connection)).get(chosen.identity)
            report = EmbeddingReport(pending=await count_pending(connection, known.space if known else None))
        if not report.pending or not embed:
            return report
        if time.monotonic() < self._skipped_until:
            report.notices.append(self._skipped_because)
            return report
        if self.paused(chosen):
            return report
        try:
            done = await self.run(
                chosen, limit=self.search_embeds, backoff=(), wait=_SEARCH_WAITS_SECONDS, on_progress=on_progress
            )
        except IndexUnavailableError as error:
            # What cannot be stored would be paid for again by every search.
            if self.times_closed == times_closed:
                self._skipped_until = time.monotonic() + _UNWRITABLE_SECONDS
            self._skipped_because = f"What is new could not be embedded. {error}"
            report.notices.append(self._skipped_because)
            return report
        if done.failed:
            done.notices.clear()  # embedding the query says why
        closed = self.times_closed != times_closed
        if self._in_background and not closed and done.embedded >= self.search_embeds and done.pending:
            self.go_on_in_background(chosen)
        return done

    async def run(
        self,
        chosen: ConfiguredEmbedder | None,
        *,
        limit: int | None = None,
        again: bool = False,
        backoff: Sequence[float] | None = None,
        wait: float = BUSY_SECONDS,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> EmbeddingReport:
        """Embed what is pending, newest first, and store it a call at a time.

        :param chosen: the embedder, or None, with which there is nothing to do.
        :param limit: how many texts at most.
        :param again: whether to try again the texts that were refused, and an embedder that failed just now.
        :param backoff: how long to wait before each further attempt, in seconds.
        :raises IndexUnavailableError: the index cannot be written, or the memory was closed meanwhile.
        """
        if chosen is None:
            return EmbeddingReport()
        times_closed = self.times_closed
        backoff = BACKOFF_SECONDS if backoff is None else backoff
        run = asyncio.create_task(self._run(chosen, limit, again, backoff, wait, on_progress))
        self._runs.add(run)
        try:
            return await run
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                self.go_on_unless_closed(times_closed)  # it was `close` that ended it, and nobody ended the caller
            raise
        finally:
            self._runs.discard(run)

    async def _run(
        self,
        chosen: ConfiguredEmbedder,
        limit: int | None,
        again: bool,
        backoff: Sequence[float],
        wait: float,
        on_progress: Callable[[int, int], None],
    ) -> EmbeddingReport:
        report = EmbeddingReport()
        if not again and (reason := self.paused(chosen)):
            report.failed = True
            report.notices.append(f"{reason} {_NEXT_TIME}")
        else:
            works = self._answered_lately(chosen)
            run = Run(
                self._database,
                chosen,
                self._strategies(),
                report,
                again,
                backoff,
                wait,
                works,
                on_progress,
                self._sees,
                self._notices,
                self.lock_seconds,
            )
            try:
                await run.go(limit)
            except EmbedderError as error:
                report.failed = True
                report.notices.append(f"{self._pause(chosen, error)} {_NEXT_TIME}")
            else:
                if report.embedded:
                    self._pauses.pop(chosen.identity, None)
                    self._answered[chosen.identity] = time.monotonic()
        report.pending = await self._finish(chosen, wait, tidy=again or report.embedded > 0)
        return report

    def _answered_lately(self, chosen: ConfiguredEmbedder) -> bool:
        return time.monotonic() - self._answered.get(chosen.identity, float("-inf")) < _PAUSE_SECONDS

    def paused(self, chosen: ConfiguredEmbedder) -> str:
        """Why an embedder is not asked for now: it failed a short while ago. Empty where it is."""
        until, reason = self._pauses.get(chosen.identity, (0.0, ""))
        return reason if time.monotonic() < until else ""

    def _pause(self, chosen: ConfiguredEmbedder, error: EmbedderError) -> str:
        self._answered.pop(chosen.identity, None)
        reason = str(error) if str(error).endswith((".", "!", "?")) else f"{error}."
        self._pauses[chosen.identity] = (time.monotonic() + _PAUSE_SECONDS, reason)
        return reason

    async def _finish(self, chosen: ConfiguredEmbedder, wait: float, *, tidy: bool) -> int:
        """Count what is pending; once nothing waits, other spaces need no tables, and old vectors may go."""
        async with self._database.reader() as connection:
            space = await space_of(connection, chosen.identity)
            pending = await count_pending(connection, space)
            waiting = await count_pending(connection, space, AWAITED)
        if tidy and space.id > 0 and not waiting and chosen.identity == await self.identity():

            async def work(snapshot: Snapshot, select: Select) -> None:
                await retire(snapshot.connection, select(snapshot), space)
                await evict(snapshot.connection, space, self._cache_bytes)

            def tables(snapshot: Snapshot) -> list[StrategyTables]:
                return tables_of(snapshot, self._strategies(), chosen.identity)

            await change(self._database, tables, work, self._notices, wait)
        return pending

    async def drop_damaged(self) -> None:
        """Have the next run embed again what has a damaged vector, or none."""
        async with self._database.transaction() as connection:
            await drop_damaged(connection)

    async def expect_all(self, chosen: ConfiguredEmbedder) -> None:
        """Have everything embedded anew by the next run. The embedder is asked for the dimension that it has now."""
        try:
            (vector,) = await Asking(chosen.name, chosen.embedder).vectors([PROBE], "document")
        except EmbedderError:
            vector = ""  # the run says what is wrong with it, and the vectors that there are go on answering
        async with self._database.transaction() as connection:
            space = await space_of(connection, chosen.identity)
            if space.id < 0:
                return
            if isinstance(vector, str) or len(vector) == space.dimension:
                await expect_all(connection, space)
            else:
                await start_anew(connection, space, len(vector))

    # --- in the background -----------------------------------------------------------------------------------------

    def go_on_in_background(self, chosen: ConfiguredEmbedder) -> None:
        """Embed what is still pending while other things are done, as long as this event loop runs."""
        task = self._background
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            self._background = asyncio.create_task(self._go_on(chosen), name=BACKGROUND)

    async def _go_on(self, chosen: ConfiguredEmbedder) -> None:
        try:
            await self.run(chosen)
        except IndexUnavailableError:
            pass  # another process is writing: the next search goes on
        except Exception as error:  # noqa: BLE001 (nobody awaits this task, and what is pending stays so)
            failure = EmbedderError(f"Embedding in the background failed: {type(error).__name__}: {error}.")
            _logger.warning(self._pause(chosen, failure))

    # --- embedding a query -----------------------------------------------------------------------------------------

    async def query(self, text: str, notices: list[str]) -> tuple[QueryEmbedding | None, bool]:
        """What a query means, in the space in which the most chunks have vectors. None where it cannot be told.

        With it comes whether the embedder that is used could not do its part.

        :param notes: takes a sentence for people that says why it could not, or that an earlier embedder answers.
        """
        try:
            chosen = await self.embedders.configured()
        except PluginError as error:
            notices.append(f"{_BY_WORDS} {error}")
            return None, True
        if chosen is None or not any(map(str.isalnum, text)):  # what says nothing means nothing
            return None, False
        async with self._database.reader() as connection:
            known = await known_spaces(connection)
            chunks = await count_pending(connection, None)
            lacking = {each.space: await count_lacking(connection, each.space) for each in known.values()}
            # What was refused will not come: nobody waits for it.
            awaited = await count_lacking(connection, await space_of(connection, chosen.identity), AWAITED)
            tables = tables_of(await read_snapshot(connection), self._strategies(), None)
        if not chunks:
            return None, False
        # Of the spaces that are not used any more, those that still have their tables.
        ready = (
            {each.space for each in tables}
            if any(strategy.needs_vectors for strategy in self._strategies().values())
            else set(lacking)
        )
        candidates = {
            id: each
            for id, each in known.items()
            if each.space.dimension > 0 and (id == chosen.identity or each.space in ready)
        }
        asked = await self._best(chosen, candidates, lacking, awaited, chunks, notices)
        if asked is None:
            notices.append(f"{_BY_WORDS} {self.paused(chosen) or 'Nothing is embedded yet: kipu index'}")
            return None, True
        embedder, space = asked
        if reason := self.paused(embedder):
            notices.append(f"{_BY_WORDS} {reason}")
            return None, True
        try:
            vector, said = await Asking(embedder.name, embedder.embedder, space.dimension).query(text)
        except EmbedderError as error:
            notices.append(f"{_BY_WORDS} {self._pause(embedder, error)}")
            return None, True
        if isinstance(vector, str):
            notices.append(f'{_BY_WORDS} "{embedder.name}" could not embed the query: {vector}.')
            return None, True
        self._answered[embedder.identity] = time.monotonic()
        if len(said) < len(text):
            notices.append(f"The query is long: by meaning, its first {len(said):,} characters were searched for.")
        languages = embedder.embedder.languages
        share = await unknown_share(embedder.embedder, said, notices)
        return QueryEmbedding(space, vector, languages, share), bool(self.paused(chosen))

    async def _best(
        self,
        chosen: ConfiguredEmbedder,
        known: Mapping[str, KnownSpace],
        lacking: Mapping[VectorSpace, int],
        awaited: int,
        chunks: int,
        notices: list[str],
    ) -> tuple[ConfiguredEmbedder, VectorSpace] | None:
        """The embedder that is used and its space; or, as long as more is to come, an earlier one that has more.

        :param lacking: how many chunks have no vector in a space; ``awaited`` are those that are still to get one.
        """
        wanted = known.get(chosen.identity)
        own = lacking[wanted.space] if wanted else chunks
        if wanted is None or awaited:
            others = [each for each in known.values() if each is not wanted and lacking[each.space] < own]
            for other in sorted(others, key=lambda each: lacking[each.space]):
                earlier = await self.embedders.earlier(other.recipe, other.space.identity, chosen)
                if earlier is not None:
                    name = f'"{earlier.name}"' if earlier.name != chosen.name else "the one before, of the same name,"
                    notices.append(
                        f'The embedder changed: "{chosen.name}" has still to embed {own:,} of {chunks:,} chunks, and '
                        f"{name} answers until it has. {self.paused(chosen) or 'To embed them now: kipu index'}"
                    )
                    return earlier, other.space
        return (chosen, wanted.space) if wanted and own < chunks else None
