"""Keeps an index in step with its workspace: what is on disk is taken in, and what has no vector is embedded.

Indexing does it all, and a search as much as it can without making anybody wait.
"""

from __future__ import annotations

import asyncio
import functools
import time
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import IndexUnavailableError, KipuError, PluginFailedError
from ..index.strategy_tables import backfill, drop_all, indexed_strategies, is_fault_of_tables, needs_vectors, tables_of
from ..index.vectors import forget_vectors
from ..sqlite import is_want_of_a_table, sqlite_errors
from ..types import IndexReport
from .indexer import Indexer, missing_folders

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ..components import Pipeline
    from ..context import Context
    from ..embedding.engine import Embeddings
    from ..embedding.identity import ConfiguredEmbedder
    from ..types import SearchResults
    from .indexer import Pending

__all__ = ["Syncing", "ignore_progress"]

Answer = TypeVar("Answer")

# A search would rather answer from a slightly older index, and say so, than wait long for another process.
_SEARCH_WAITS_SECONDS = 2.0


def ignore_progress(done: int, total: int) -> None:
    """What is called with the numbers of what is done and of all that is to be done, where nobody looks."""


class Syncing:
    """What keeps the index of one memory in step with its files."""

    def __init__(
        self,
        context: Context,
        *,
        background: bool,
    ) -> None:
        self._context = context
        self._config = context.config
        self._database = context.database
        self._workspace = context.workspace
        self._plugins = context.plugins
        self._components = context.components
        self._scope = context.scope
        self._background = background
        self._lock = asyncio.Lock()

    @functools.cached_property
    def embeddings(self) -> Embeddings:
        """The vectors of this memory. Only what needs vectors imports what makes them."""
        from ..embedding.engine import Embeddings

        return Embeddings(self._context, background=self._background)

    @property
    def _nothing_there(self) -> bool:
        return not self._workspace.has_memory and not self._database.exists

    async def index(
        self,
        *,
        force: bool,
        prune: bool,
        on_progress: Callable[[int, int], None],
        on_embedding: Callable[[int, int], None],
        again: bool = True,
    ) -> IndexReport:
        """Take in everything, and embed all that is pending; with ``again``, also what was refused before."""
        if self._nothing_there:
            return IndexReport()
        times_closed = self.embeddings.times_closed
        report = await self._all_taken_in(force=force, prune=prune, on_progress=on_progress)
        self.embeddings.go_on_unless_closed(times_closed)
        if force:
            await self.embeddings.drop_damaged()
        await self._embed(report, on_progress=on_embedding, again=again)
        return report

    async def add(self, path: str, *, force: bool) -> IndexReport:
        """Take in one file, and embed all that is pending."""
        times_closed = self.embeddings.times_closed
        await self.embeddings.stop()
        async with self._lock:
            report = await (await self.indexer()).add(path, force=force)
        self.embeddings.go_on_unless_closed(times_closed)
        await self._embed(report)
        self._plugins.notify("kipu_indexed", report=report)
        return report

    async def reindex(
        self, chosen: ConfiguredEmbedder, *, force: bool, on_progress: Callable[[int, int], None]
    ) -> IndexReport:
        """Take in everything, and embed all that is pending for an embedder that need not be the one that is used."""
        if self._nothing_there:
            return IndexReport()
        times_closed = self.embeddings.times_closed
        report = await self._all_taken_in()
        self.embeddings.go_on_unless_closed(times_closed)
        if force:
            await self.embeddings.expect_all(chosen)
        await self._embed(report, chosen, on_progress=on_progress)
        return report

    async def _all_taken_in(
        self,
        *,
        force: bool = False,
        prune: bool = False,
        on_progress: Callable[[int, int], None] = ignore_progress,
    ) -> IndexReport:
        """Take in what changed on disk; what is embedded in the background makes way."""
        await self.embeddings.stop()
        async with self._lock:
            indexer = await self.indexer()
            pending = await indexer.look(force=force, prune=prune)
            report = await self._take_in(indexer, pending, force=force, prune=prune, on_progress=on_progress)
            report.notices += indexer.absent_paths(pending)
        return report

    @property
    def _used(self) -> Mapping[str, Any]:
        return self._components.used_strategies

    async def indexer(self, *, lenient: bool = False) -> Indexer:
        """What brings the index up to date, for the configured strategy and for every other that was used here."""
        chunker = self._components.chunker()
        try:
            self._components.strategies(None)
        except KipuError:
            if not lenient and not self._used:
                raise
        identity = await self.embeddings.identity() if any(map(needs_vectors, self._used.values())) else None
        strategies = indexed_strategies(self._used)
        return Indexer(self._database, self._workspace, chunker, strategies, identity, self._scope)

    async def _take_in(self, indexer: Indexer, pending: Pending, force: bool = False, **arguments: Any) -> IndexReport:
        try:
            report = await indexer.index(force=force, pending=pending, **arguments)
        except PluginFailedError as error:
            if not await self.made_anew(indexer, error, at_any_fault=True):
                raise
            report = await indexer.index(force=force, **arguments)
        if report.added or report.changed or report.renamed or report.removed:
            self._plugins.notify("kipu_indexed", report=report)
        return report

    async def made_anew(self, indexer: Indexer, error: PluginFailedError, *, at_any_fault: bool = False) -> bool:
        """Make the tables of strategies anew if it was for want of them that one failed.

        :param at_any_fault: also for anything else that SQLite said of them: in a search that may be the query's fault.
        """
        fault = is_fault_of_tables(error) if at_any_fault else is_want_of_a_table(error.__cause__)
        if not indexer.strategies or not fault:
            return False
        async with self._database.transaction() as connection:
            for tables in await tables_of(connection, indexer.strategies, indexer.identity):
                await backfill(connection, tables)
        return True

    async def before_search(
        self,
        results: SearchResults,
        pipeline: Pipeline | None,
        sync: bool | None,
        on_progress: Callable[[int, int], None] = ignore_progress,
        on_embedding: Callable[[int, int], None] = ignore_progress,
    ) -> None:
        """Take in what changed on disk, and tell ``results`` what could not be taken in."""
        if self._nothing_there:
            return
        wanted = self._config.search.sync if sync is None else sync
        async with self._lock:
            indexer = await self.indexer()
            pending = await indexer.look()
            results.notices += [
                f"{folder} is missing; what was indexed of it is kept. If it is gone for good: kipu index --prune"
                for folder in missing_folders(pending)
                if self._scope.sees_folder(folder)
            ]
            results.stale = bool(results.notices)
            if pending and not (wanted and await self._taken_in(results, indexer, pending, on_progress)):
                results.pending = self._scope.seen(pending.paths)
                results.stale |= bool(results.pending) or pending.tables
                if pending.tables:
                    results.notices.append("The strategy has no index yet, and finds nothing without it: kipu index")
        if pipeline is not None and pipeline.needs_vectors:
            done = await self.embeddings.embed_before_search(embed=wanted, on_progress=on_embedding)
            results.pending_vectors = done.pending
            results.notices += done.notices

    async def _taken_in(
        self,
        results: SearchResults,
        indexer: Indexer,
        pending: Pending,
        on_progress: Callable[[int, int], None],
    ) -> bool:
        """Whether what is pending could be taken in before a search."""
        try:
            report = await self._take_in(indexer, pending, wait=_SEARCH_WAITS_SECONDS, on_progress=on_progress)
        except IndexUnavailableError as error:
            if not self._database.exists:
                raise
            if self._scope.seen(pending.paths) or pending.tables:
                results.notices.append(f"The results may be out of date. {error}")
            return False
        results.notices += report.notices
        results.pending = self._scope.seen(report.pending)
        results.stale |= bool(results.pending)
        return True

    # --- what was written here -------------------------------------------------------------------------------------

    async def take_in(self, paths: Sequence[str] | None = None) -> None:
        """Take in what changed on disk: in the files of these paths, or everywhere.

        What has to be embedded is left to the next search, which embeds it before it answers.
        """

        async def work() -> IndexReport:
            async with self._lock:
                indexer = await self.indexer()
                if paths is not None:
                    return await indexer.refresh(paths)
                pending = await indexer.look()
                return await self._take_in(indexer, pending) if pending else IndexReport()

        report = await self.mended(work)
        self._database.notices += report.notices  # nobody reads this report: whoever is told something next is told it
        if paths is not None and (report.added or report.changed or report.renamed or report.removed):
            self._plugins.notify("kipu_indexed", report=report)

    async def scrub(self, hashes: Sequence[str]) -> None:
        """Leave nothing in the index of texts that are in no file any more: no vector, no page that was not reused.

        :param hashes: of the chunks that are gone.
        """
        await self.embeddings.stop()

        async def work() -> None:
            async with self._lock:
                indexer = await self.indexer()
                async with self._database.transaction() as connection:
                    await forget_vectors(connection, hashes)
                    for each in await tables_of(connection, indexer.strategies, indexer.identity):
                        await each.scrub(connection)
                await self._database.squeeze()

        await self.mended(work)

    async def make_tables_anew(self) -> None:
        """Drop what every strategy has in the index, known here or not, and make anew what is used here."""
        async with self._lock:
            indexer = await self.indexer()
            async with self._database.transaction() as connection:
                await drop_all(connection)
                for each in await tables_of(connection, indexer.strategies, indexer.identity):
                    await backfill(connection, each)
            await self._database.squeeze()

    # --- vectors ---------------------------------------------------------------------------------------------------

    async def _embed(
        self,
        report: IndexReport,
        chosen: ConfiguredEmbedder | None = None,
        *,
        on_progress: Callable[[int, int], None] = ignore_progress,
        again: bool = True,
    ) -> None:
        """Embed all that is pending, and tell ``report`` what came of it."""
        if chosen is None and not any(map(needs_vectors, self._used.values())):
            return
        start = time.perf_counter()
        done = await self.embeddings.embed_all(chosen, again=again, on_progress=on_progress)
        report.seconds += time.perf_counter() - start
        report.embedded, report.pending_vectors = done.embedded, done.pending
        report.notices += done.notices

    # --- a damaged index ---------------------------------------------------------------------------------------------

    async def mended(self, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Do ``work``; where the index turns out to be damaged, set it aside and do it once more.

        Another process, or another memory of this one, may be doing just that: then a table is missing that there was.
        """
        try:
            return await work()
        except sqlite_errors() as error:
            await self._database.mend(error)
        except PluginFailedError as error:
            if not is_want_of_a_table(error.__cause__):
                raise
        try:
            return await work()
        except sqlite_errors() as error:
            raise IndexUnavailableError(
                f"The index {self._database.path} cannot be used: {error}. It is derived from the memory files: "
                "delete it, and it is made anew."
            ) from error
