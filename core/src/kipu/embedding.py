"""Keeps the vectors of an index up to date: which embedder is used, what it has not embedded yet, and when to ask it.

A failing embedder never breaks anything: what could not be embedded stays pending and is found by words, and the next
run tries again. After a failure nothing is asked for a while, so that no search waits for a provider that is down.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
import time
from typing import TYPE_CHECKING, Any

import attrs

from .asking import BACKOFF_SECONDS, Asking, embedding_text
from .database import BUSY_SECONDS
from .errors import EmbedderError, IndexUnavailableError, PluginError
from .tables import backfill, outdated, retire, tables_of
from .types import QueryEmbedding
from .vectors import count_pending, evict, expect_all, known_spaces, make_space, pending_texts, refuse, store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from .components import ChosenEmbedder, Components
    from .database import Database
    from .types import Vectors, VectorSpace
    from .vectors import KnownSpace, PendingText

__all__ = ["BACKGROUND", "EmbeddingReport", "Embeddings"]

BACKGROUND = "kipu-embedding"
"""The name of the task that goes on embedding behind a search."""

_PAUSE_SECONDS = 60.0
_TEXTS_PER_CALL = 64
_TEXTS_READ = 1024
_NAMED_REFUSALS = 5
_NEXT_TIME = "What is not embedded is found by words; the next indexing tries again."

_logger = logging.getLogger("kipu")


@attrs.define
class EmbeddingReport:
    """What a run did: how many texts it embedded, how many chunks are still pending, and sentences for people."""

    embedded: int = 0
    pending: int = 0
    failed: bool = False
    notes: list[str] = attrs.field(factory=list)


@attrs.define
class _Refusals:
    """The texts whose vectors could not be used, by file and line."""

    places: list[str] = attrs.field(factory=list)

    def notes(self) -> list[str]:
        shown = self.places[:_NAMED_REFUSALS]
        rest = len(self.places) - len(shown)
        return shown + (
            [f"... and {rest} more; they are found by words, and tried again by: kipu index"] if rest else []
        )


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

    async def close(self) -> None:
        """End what runs in the background, and let go of the embedder."""
        await self.stop()
        await self._components.close_embedders()

    async def stop(self) -> None:
        """End what runs in the background. What it has stored so far is kept."""
        if self._background is not None:
            self._background.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._background
            self._background = None

    async def identity(self) -> str | None:
        """The identity of the embedder that is used; None where there is none, or it cannot be used."""
        try:
            chosen = await self._components.embedder()
        except PluginError:
            return None
        return chosen.identity if chosen else None

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
        report.pending = await self._finish(chosen, report, wait)
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
        before, refusals, done = sys.maxsize, _Refusals(), 0
        async with self._database.reader() as connection:
            space = await self._space(connection, chosen.identity)
            total = min(limit or sys.maxsize, await count_pending(connection, space))
        while limit is None or done < limit:
            async with self._database.reader() as connection:
                space = await self._space(connection, chosen.identity)
                texts = await pending_texts(
                    connection, space, before=before, limit=min(_TEXTS_READ, (limit or sys.maxsize) - done), again=again
                )
            if not texts:
                break
            before = texts[-1].chunk_id
            for call in _calls(texts, getattr(chosen.embedder, "batch_size", _TEXTS_PER_CALL)):
                asking = Asking(chosen.name, chosen.embedder, space.dimension if space else None, backoff)
                said = [embedding_text(text.heading, text.context, text.text) for text in call]
                vectors = await asking.vectors(said, "document")
                space = await self._store(chosen, call, vectors, refusals, wait)
                report.embedded += sum(not isinstance(vector, str) for vector in vectors)
                self._pauses.pop(chosen.identity, None)
            done += len(texts)
            on_progress(min(done, total), total)
        report.notes += refusals.notes()

    async def _store(
        self,
        chosen: ChosenEmbedder,
        texts: Sequence[PendingText],
        vectors: Sequence[Vectors | str],
        refusals: _Refusals,
        wait: float,
    ) -> VectorSpace | None:
        good = {text.hash: vector for text, vector in zip(texts, vectors, strict=True) if not isinstance(vector, str)}
        bad = {text.hash: vector for text, vector in zip(texts, vectors, strict=True) if isinstance(vector, str)}
        refusals.places += [
            f'{text.path}:{text.start_line} was not embedded by "{chosen.name}": {bad[text.hash]}.'
            for text in texts
            if text.hash in bad
        ]
        async with self._database.transaction(wait) as connection:
            space = await self._space(connection, chosen.identity)
            if space is None:
                if not good:
                    return None
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
        return space

    async def _finish(self, chosen: ChosenEmbedder, report: EmbeddingReport, wait: float) -> int:
        """Count what is pending; once nothing is, other spaces need no tables, and old vectors may go."""
        async with self._database.reader() as connection:
            space = await self._space(connection, chosen.identity)
            pending = await count_pending(connection, space)
        if space is not None and not pending and report.embedded and chosen.identity == await self.identity():
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

    async def query(self, text: str, notes: list[str]) -> QueryEmbedding | None:
        """What a query means, in the space in which the most chunks have vectors. None where it cannot be told.

        :param notes: takes a sentence for people that says why it cannot, or that an earlier embedder answers.
        """
        try:
            chosen = await self._components.embedder()
        except PluginError as error:
            notes.append(f"{error} This search went by words.")
            return None
        if chosen is None:
            return None
        async with self._database.reader() as connection:
            known = await known_spaces(connection)
            chunks = await count_pending(connection, None)
            pending = {each.space: await count_pending(connection, each.space) for each in known.values()}
        if not chunks:
            return None
        wanted = known.get(chosen.identity)
        asked = await self._best(chosen, wanted, known, pending, chunks, notes)
        if asked is None:
            reason = self.paused(chosen)
            notes.append(f"{reason or 'Nothing is embedded yet.'} This search went by words. To embed it: kipu index")
            return None
        embedder, space = asked
        if reason := self.paused(embedder):
            notes.append(f"{reason} This search went by words.")
            return None
        try:
            (vector,) = await Asking(embedder.name, embedder.embedder, space.dimension).vectors([text], "query")
        except EmbedderError as error:
            self._pause(embedder, error)
            notes.append(f"{error} This search went by words.")
            return None
        if isinstance(vector, str):
            notes.append(f'"{embedder.name}" could not embed the query: {vector}. This search went by words.')
            return None
        return QueryEmbedding(
            space, vector, getattr(embedder.embedder, "languages", None), _unknown_share(embedder.embedder, text)
        )

    async def _best(
        self,
        chosen: ChosenEmbedder,
        wanted: KnownSpace | None,
        known: Mapping[str, KnownSpace],
        pending: Mapping[VectorSpace, int],
        chunks: int,
        notes: list[str],
    ) -> tuple[ChosenEmbedder, VectorSpace] | None:
        """The embedder that is used and its space; or an earlier one as long as that has more of the chunks."""
        lacking = pending[wanted.space] if wanted else chunks
        others = [each for each in known.values() if each is not wanted and pending[each.space] < lacking]
        for other in sorted(others, key=lambda each: pending[each.space]):
            earlier = await self._components.embedder_of(json.loads(other.recipe), other.space.identity)
            if earlier is not None:
                notes.append(
                    f'The embedder changed: "{chosen.name}" has still to embed {lacking:,} of {chunks:,} chunks, and '
                    f'"{earlier.name}" answers until it has. To embed them now: kipu index'
                )
                return earlier, other.space
        return (chosen, wanted.space) if wanted and lacking < chunks else None


def _calls(texts: Sequence[PendingText], size: int) -> Iterator[list[PendingText]]:
    """Texts of about the same length together, each of them once."""
    different = list({text.hash: text for text in texts}.values())
    different.sort(key=lambda text: len(text.text) + len(text.context), reverse=True)
    for start in range(0, len(different), size):
        yield different[start : start + size]


def _unknown_share(embedder: Any, text: str) -> float | None:
    tell = getattr(embedder, "unknown_share", None)
    return float(tell(text)) if callable(tell) else None
