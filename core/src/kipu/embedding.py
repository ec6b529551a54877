"""Keeps the vectors of an index up to date: which embedder is used, what it has not embedded yet, and when to ask it.

A failing embedder never breaks anything: what could not be embedded stays pending and is found by words, and the next
run tries again. After a failure nothing is asked for a while, so that no search waits for a provider that is down.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from typing import TYPE_CHECKING, Any

import attrs

from .asking import BACKOFF_SECONDS, Asking, embedding_text, unknown_share
from .database import BUSY_SECONDS
from .errors import EmbedderError, IndexUnavailableError, PluginError
from .tables import backfill, needs_vectors, outdated, retire, tables_of
from .types import QueryEmbedding
from .vectors import (
    AWAITED,
    count_lacking,
    count_pending,
    evict,
    expect_all,
    known_spaces,
    make_space,
    pending_texts,
    refuse,
    store,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from .components import ChosenEmbedder, Components
    from .database import Database
    from .types import Vectors, VectorSpace
    from .vectors import KnownSpace, PendingText, State

__all__ = ["BACKGROUND", "EmbeddingReport", "Embeddings"]

BACKGROUND = "kipu-embedding"
"""The name of the task that goes on embedding behind a search."""

_PAUSE_SECONDS = 60.0
_TEXTS_PER_CALL = 64
_TEXTS_READ = 1024
_NAMED_REFUSALS = 5
_FAILED_IN_A_ROW = 3
_NEXT_TIME = "Nothing is lost: the next indexing tries again."
_BY_WORDS = "This search went by words."

_logger = logging.getLogger("kipu")


@attrs.define
class EmbeddingReport:
    """What a run did: how many texts it embedded, how many chunks are still pending, and sentences for people."""

    embedded: int = 0
    pending: int = 0
    failed: bool = False
    notes: list[str] = attrs.field(factory=list)


@attrs.define
class _Run:
    """How a run goes about it, and how far it has come. ``places`` are texts that got no vector, by file and line.

    ``failed`` are those that failed alone since something was embedded last.
    """

    total: int
    again: bool
    backoff: Sequence[float]
    wait: float
    on_progress: Callable[[int, int], None]
    done: int = 0
    failed: list[PendingText] = attrs.field(factory=list)
    places: list[str] = attrs.field(factory=list)

    @property
    def left(self) -> int:
        """How many texts may still be embedded."""
        return self.total - self.done

    def progress(self, texts: int) -> None:
        """Count texts as done."""
        self.done += texts
        self.on_progress(min(self.done, self.total), self.total)

    def note(self, name: str, texts: Sequence[PendingText]) -> None:
        """Remember texts whose calls failed."""
        self.places += [
            f'{text.path}:{text.start_line} was not embedded by "{name}": its call failed.' for text in texts
        ]

    def refusals(self) -> list[str]:
        """Sentences about the texts that got no vector: the first ones, and how many more there are."""
        rest = len(self.places) - _NAMED_REFUSALS
        more = [f"... and {rest} more; they are found by words, and tried again by: kipu index"] if rest > 0 else []
        return self.places[:_NAMED_REFUSALS] + more


class Embeddings:
    """The vectors of one memory.

    :param strategies: what keeps tables of vectors, by the name of its class.
    """

    def __init__(
        self,
        database: Database,
        components: Components,
        strategies: Callable[[], Mapping[str, Any]],
        cache_bytes: int,
    ) -> None:
        self._database = database
        self._components = components
        self._strategies = strategies
        self._cache_bytes = cache_bytes
        self._running = asyncio.Lock()
        self._pauses: dict[str, tuple[float, str]] = {}  # by identity: until when, and why
        self._background: asyncio.Task[None] | None = None
        self.times_closed = 0

    async def close(self) -> None:
        """End what runs in the background, and let go of the embedder."""
        self.times_closed += 1
        await self.stop()
        await self._components.close_embedders()

    async def stop(self) -> None:
        """End what runs in the background. What it has stored so far is kept."""
        task, self._background = self._background, None
        if task is None:
            return
        if task.get_loop() is not asyncio.get_running_loop():  # which ended before it did, and so will it never
            self._running = asyncio.Lock()
            return
        task.cancel()
        await asyncio.wait([task])

    async def identity(self) -> str | None:
        """The identity of the embedder that is used; None where there is none, or it cannot be used."""
        try:
            chosen = await self._components.embedder()
        except PluginError:
            return None
        return chosen.identity if chosen else None

    async def problem(self, *, ask: bool = False) -> str | None:
        """Why the embedder cannot be used, as far as can be told without asking it, or by asking for one vector."""
        try:
            chosen = await self._components.embedder()
            if chosen is None or not ask:
                return None
            (vector,) = await Asking(chosen.name, chosen.embedder).vectors(["memory"], "query")
        except PluginError as error:
            return str(error)
        return f'"{chosen.name}" answers, but {vector}.' if isinstance(vector, str) else None

    # --- embedding what is pending ---------------------------------------------------------------------------------

    async def run(
        self,
        chosen: ChosenEmbedder | None,
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
        :param again: whether to try again the texts whose vectors were refused, and an embedder that failed just now.
        :param backoff: how long to wait before each further attempt, in seconds.
        """
        report = EmbeddingReport()
        if chosen is None:
            return report
        if not again and (reason := self.paused(chosen)):
            report.failed = True
            report.notes.append(f"{reason} {_NEXT_TIME}")
        else:
            backoff = BACKOFF_SECONDS if backoff is None else backoff
            async with self._running:
                try:
                    await self._embed(chosen, report, limit, again, backoff, wait, on_progress)
                except EmbedderError as error:
                    report.failed = True
                    report.notes.append(f"{self._pause(chosen, error)} {_NEXT_TIME}")
        report.pending = await self._finish(chosen, wait, tidy=again or report.embedded > 0)
        return report

    @property
    def running(self) -> bool:
        """Whether something is being embedded at the moment."""
        return self._running.locked()

    def paused(self, chosen: ChosenEmbedder) -> str:
        """Why an embedder is not asked for now: it failed a short while ago. Empty where it is."""
        until, reason = self._pauses.get(chosen.identity, (0.0, ""))
        return reason if time.monotonic() < until else ""

    def _pause(self, chosen: ChosenEmbedder, error: EmbedderError) -> str:
        self._pauses[chosen.identity] = (time.monotonic() + _PAUSE_SECONDS, str(error))
        return str(error)

    async def _embed(
        self,
        chosen: ChosenEmbedder,
        report: EmbeddingReport,
        limit: int | None,
        again: bool,
        backoff: Sequence[float],
        wait: float,
        on_progress: Callable[[int, int], None],
    ) -> None:
        """Embed what was never tried, then what failed before, and with ``again`` what was refused too."""
        async with self._database.reader() as connection:
            total = await count_pending(connection, await self._space(connection, chosen.identity))
        run = _Run(min(limit or sys.maxsize, total), again, backoff, wait, on_progress)
        states: tuple[State, ...] = ("new", "suspect", "refused") if again else ("new", "suspect")
        try:
            for state in states:
                before = sys.maxsize
                while texts := await self._pending(chosen, state, before, run.left):
                    before = texts[-1].chunk_id
                    for call in _calls(texts, getattr(chosen.embedder, "batch_size", _TEXTS_PER_CALL)):
                        await self._call(chosen, call, state, run, report)
                    run.progress(len(texts))
            if report.embedded:
                await self._refuse_failed(chosen, run)
        finally:
            run.note(chosen.name, run.failed)
            report.notes += run.refusals()

    async def _pending(self, chosen: ChosenEmbedder, state: State, before: int, left: int) -> list[PendingText]:
        if left < 1:
            return []
        async with self._database.reader() as connection:
            space = await self._space(connection, chosen.identity)
            return await pending_texts(connection, space, state, before=before, limit=min(_TEXTS_READ, left))

    async def _call(
        self, chosen: ChosenEmbedder, texts: Sequence[PendingText], state: State, run: _Run, report: EmbeddingReport
    ) -> None:
        """Ask once for the vectors of some texts, and store them.

        If that fails, one of the texts may be at fault. They are remembered, and come after all others the next time;
        if they fail again, they are asked for one by one, until it is plain that it is not they.
        """
        async with self._database.reader() as connection:
            space = await self._space(connection, chosen.identity)
        asking = Asking(chosen.name, chosen.embedder, space.dimension if space else None, run.backoff)
        said = [embedding_text(text.heading, text.context, text.text) for text in texts]
        try:
            vectors = await asking.vectors(said, "document")
        except EmbedderError:
            if state == "new" or not run.again:
                await self._suspect(chosen, texts, run.wait)
                raise
            if len(texts) > 1:
                for text in texts:
                    await self._call(chosen, [text], state, run, report)
                return
            run.failed.append(texts[0])
            if len(run.failed) >= _FAILED_IN_A_ROW:
                raise
            return
        await self._store(chosen, texts, vectors, run)
        await self._refuse_failed(chosen, run)
        report.embedded += sum(not isinstance(vector, str) for vector in vectors)
        self._pauses.pop(chosen.identity, None)

    async def _refuse_failed(self, chosen: ChosenEmbedder, run: _Run) -> None:
        """Once others were embedded, the texts that failed alone are at fault: a search does not try them again."""
        if run.failed:
            async with self._database.transaction(run.wait) as connection:
                space = await self._space(connection, chosen.identity)
                await refuse(connection, space, {text.hash: "its call failed" for text in run.failed})
            run.note(chosen.name, run.failed)
            run.failed.clear()

    async def _suspect(self, chosen: ChosenEmbedder, texts: Sequence[PendingText], wait: float) -> None:
        async with self._database.transaction(wait) as connection:
            space = await self._space(connection, chosen.identity)
            await refuse(connection, space, dict.fromkeys((text.hash for text in texts), ""))

    async def _store(
        self,
        chosen: ChosenEmbedder,
        texts: Sequence[PendingText],
        vectors: Sequence[Vectors | str],
        run: _Run,
    ) -> None:
        good = {text.hash: vector for text, vector in zip(texts, vectors, strict=True) if not isinstance(vector, str)}
        bad = {text.hash: vector for text, vector in zip(texts, vectors, strict=True) if isinstance(vector, str)}
        run.places += [
            f'{text.path}:{text.start_line} was not embedded by "{chosen.name}": {bad[text.hash]}.'
            for text in texts
            if text.hash in bad
        ]
        async with self._database.transaction(run.wait) as connection:
            if not good:
                await refuse(connection, await self._space(connection, chosen.identity), bad)
                return
            dimension = len(next(iter(good.values())))
            space = await make_space(connection, chosen.identity, dimension, chosen.recipe)
            tables = await tables_of(connection, self._strategies(), chosen.identity)
            for each in await outdated(connection, tables):
                await backfill(connection, each)
            as_bytes = {hash: vector.astype("<f4").tobytes() for hash, vector in good.items()}
            got = await store(connection, space, as_bytes)
            for each in tables:
                if each.space == space:
                    await each.remove(connection, [id for id, _ in got])  # where they are embedded anew
                await each.add_vectors(connection, space, got)
            await refuse(connection, space, bad)

    async def _finish(self, chosen: ChosenEmbedder, wait: float, *, tidy: bool) -> int:
        """Count what is pending; once nothing waits, other spaces need no tables, and old vectors may go."""
        async with self._database.reader() as connection:
            space = await self._space(connection, chosen.identity)
            pending = await count_pending(connection, space)
            waiting = space is None or await count_pending(connection, space, AWAITED)
        if tidy and space is not None and not waiting and chosen.identity == await self.identity():
            async with self._database.transaction(wait) as connection:
                await retire(connection, await tables_of(connection, self._strategies(), chosen.identity), space)
                await evict(connection, space, self._cache_bytes)
        return pending

    @staticmethod
    async def _space(connection: Any, identity: str) -> VectorSpace | None:
        known = (await known_spaces(connection)).get(identity)
        return known.space if known else None

    async def expect_all(self, chosen: ChosenEmbedder) -> None:
        """Have everything embedded anew by the next run."""
        async with self._database.transaction() as connection:
            space = await self._space(connection, chosen.identity)
            if space is not None:
                await expect_all(connection, space)

    # --- in the background -----------------------------------------------------------------------------------------

    def go_on_in_background(self, chosen: ChosenEmbedder) -> None:
        """Embed what is still pending while other things are done, as long as this event loop runs."""
        if self._background is None or self._background.done():
            self._background = asyncio.create_task(self._go_on(chosen), name=BACKGROUND)

    async def _go_on(self, chosen: ChosenEmbedder) -> None:
        try:
            await self.run(chosen)
        except IndexUnavailableError:
            pass  # another process is writing: the next search goes on
        except Exception as error:  # noqa: BLE001 (nobody awaits this task, and what is pending stays so)
            failure = EmbedderError(f"Embedding in the background failed: {type(error).__name__}: {error}.")
            _logger.warning(self._pause(chosen, failure))

    # --- embedding a query -----------------------------------------------------------------------------------------

    async def query(self, text: str, notes: list[str]) -> tuple[QueryEmbedding | None, bool]:
        """What a query means, in the space in which the most chunks have vectors. None where it cannot be told.

        With it comes whether the embedder that is used could not do its part.

        :param notes: takes a sentence for people that says why it could not, or that an earlier embedder answers.
        """
        try:
            chosen = await self._components.embedder()
        except PluginError as error:
            notes.append(f"{_BY_WORDS} {error}")
            return None, True
        if chosen is None or not any(map(str.isalnum, text)):  # what says nothing means nothing
            return None, False
        async with self._database.reader() as connection:
            known = await known_spaces(connection)
            chunks = await count_pending(connection, None)
            # What was refused will not come: nobody waits for it.
            lacking = {each.space: await count_lacking(connection, each.space, AWAITED) for each in known.values()}
            tables = await tables_of(connection, self._strategies(), None)
        if not chunks:
            return None, False
        # Of the spaces that are not used any more, those that still have their tables.
        ready = (
            {each.space for each in tables} if any(map(needs_vectors, self._strategies().values())) else set(lacking)
        )
        candidates = {id: each for id, each in known.items() if id == chosen.identity or each.space in ready}
        asked = await self._best(chosen, candidates, lacking, chunks, notes)
        if asked is None:
            notes.append(f"{_BY_WORDS} {self.paused(chosen) or 'Nothing is embedded yet: kipu index'}")
            return None, True
        embedder, space = asked
        if reason := self.paused(embedder):
            notes.append(f"{_BY_WORDS} {reason}")
            return None, True
        try:
            (vector,) = await Asking(embedder.name, embedder.embedder, space.dimension).vectors([text], "query")
        except EmbedderError as error:
            notes.append(f"{_BY_WORDS} {self._pause(embedder, error)}")
            return None, True
        if isinstance(vector, str):
            notes.append(f'{_BY_WORDS} "{embedder.name}" could not embed the query: {vector}.')
            return None, True
        languages = getattr(embedder.embedder, "languages", None)
        share = await unknown_share(embedder.name, embedder.embedder, text, notes)
        return QueryEmbedding(space, vector, languages, share), bool(self.paused(chosen))

    async def _best(
        self,
        chosen: ChosenEmbedder,
        known: Mapping[str, KnownSpace],
        lacking: Mapping[VectorSpace, int],
        chunks: int,
        notes: list[str],
    ) -> tuple[ChosenEmbedder, VectorSpace] | None:
        """The embedder that is used and its space; or an earlier one as long as that has more of the chunks."""
        wanted = known.get(chosen.identity)
        own = lacking[wanted.space] if wanted else chunks
        others = [each for each in known.values() if each is not wanted and lacking[each.space] < own]
        for other in sorted(others, key=lambda each: lacking[each.space]):
            earlier = await self._components.earlier_embedder(other.recipe, other.space.identity, chosen)
            if earlier is not None:
                answers = f'"{earlier.name}"' if earlier.name != chosen.name else "the one before, of the same name,"
                notes.append(
                    f'The embedder changed: "{chosen.name}" has still to embed {own:,} of {chunks:,} chunks, and '
                    f"{answers} answers until it has. {self.paused(chosen) or 'To embed them now: kipu index'}"
                )
                return earlier, other.space
        return (chosen, wanted.space) if wanted and own < chunks else None


def _calls(texts: Sequence[PendingText], size: int) -> Iterator[list[PendingText]]:
    """Texts of about the same length together, each of them once."""
    different = list({text.hash: text for text in texts}.values())
    different.sort(key=lambda text: len(text.text) + len(text.context), reverse=True)
    for start in range(0, len(different), size):
        yield different[start : start + size]
