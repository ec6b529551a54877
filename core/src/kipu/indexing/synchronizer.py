"""Keep an index in step with its workspace: index what changed on disk, and embed what has no vector.

`index` does all of it; a search does as much as it can without a long wait.
"""

from __future__ import annotations

import asyncio
import functools
import shutil
import time
from typing import TYPE_CHECKING

import attrs

from ..errors import IndexUnavailableError, KipuError
from ..index.annotations import evict_annotations
from ..index.database import BUSY_SECONDS
from ..index.file import PLUGIN_FOLDERS
from ..index.recovery import recovering
from ..index.strategy_tables import change, drop_others, rebuild, tables_of
from ..index.vectors import forget_vectors
from ..loops import PerLoop
from ..types import IndexReport
from .compare import absent_paths, missing_folders
from .indexer import Indexer, ignore_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..context import Context
    from ..embedding.engine import Embeddings
    from ..embedding.identity import ConfiguredEmbedder
    from ..index.database import Database
    from ..index.queries import Snapshot
    from ..index.strategy_tables import Select, StrategyTables
    from ..types import SkippedFile
    from .compare import Pending

OLD_PAGES = "index: old pages"  # that another process still reads

# A search prefers to answer from a slightly older index, and to say so, over waiting long for another process.
_SEARCH_WAITS_SECONDS = 2.0


@attrs.frozen
class Update:
    """How far the index is up to date for a search. ``pending`` are the files that it does not have as they are now.

    ``index_id`` names the index that was compared with the files, empty if there was none.
    """

    stale: bool = False
    pending: Sequence[str] = ()
    index_id: str = ""


class Synchronizer:
    """Keeps the index of one memory in step with its files."""

    def __init__(self, context: Context, *, background: bool) -> None:
        self._context = context
        self._background = background
        self._lock = PerLoop(asyncio.Lock)
        self._indexer: tuple[int, Indexer] | None = None

    @property
    def database(self) -> Database:
        """The database of the index."""
        return self._context.database

    @functools.cached_property
    def embeddings(self) -> Embeddings:
        """The vectors of this memory, imported when something needs vectors."""
        from ..embedding.engine import Embeddings

        return Embeddings(self._context, background=self._background)

    async def close(self) -> None:
        """End what is being embedded."""
        if "embeddings" in self.__dict__:
            await self.embeddings.close()

    @property
    def _is_empty(self) -> bool:
        return not self._context.workspace.has_memory and not self.database.exists

    async def indexer(self, *, lenient: bool = False) -> Indexer:
        """Return the indexer for the configured strategy and for every other that was used here.

        :param lenient: whether a strategy that cannot be built is ignored.
        """
        components = self._context.components
        if self._indexer is not None and self._indexer[0] == components.generation:
            return self._indexer[1]
        is_usable = self._is_strategy_usable(lenient=lenient or bool(components.indexed))
        identity = await self._identity()
        indexer = Indexer(self._context, components.chunker(), components.indexed, identity)
        if is_usable and (identity is not None or not components.needs_vectors):
            self._indexer = components.generation, indexer
        return indexer

    def _is_strategy_usable(self, *, lenient: bool) -> bool:
        """Build the configured strategy, and return whether it can be built."""
        try:
            self._context.components.strategies(None)
        except KipuError:
            if not lenient:
                raise
            return False
        return True

    async def _identity(self) -> str | None:
        """Return the identity of the embedder, None if there is none or it is not needed."""
        return await self.embeddings.identity() if self._context.components.needs_vectors else None

    async def _tables(self) -> Callable[[Snapshot], Sequence[StrategyTables]]:
        """Return the function that finds the tables of all strategies that are used here."""
        self._is_strategy_usable(lenient=True)
        strategies, identity = self._context.components.indexed, await self._identity()
        return lambda snapshot: tables_of(snapshot, strategies, identity)

    # --- indexing everything ---------------------------------------------------------------------------------------

    @recovering
    async def index(
        self,
        *,
        force: bool = False,
        prune: bool = False,
        retry_refused: bool = True,
        on_progress: Callable[[int, int], None] = ignore_progress,
        on_embedding: Callable[[int, int], None] = ignore_progress,
    ) -> IndexReport:
        """Index everything, and embed everything that is pending.

        :param retry_refused: whether texts are embedded that were refused before.
        """
        if self._is_empty:
            return IndexReport()
        if force:
            await self.database.check_pages()
        report = await self._index_all(force=force, prune=prune, on_progress=on_progress)
        if force:
            await self._clear_plugin_folders()
            if self._context.components.needs_vectors:
                await self.embeddings.drop_damaged()
        await self._embed(report, retry_refused=retry_refused, on_progress=on_embedding)
        return report

    @recovering
    async def add(self, path: str, *, force: bool) -> IndexReport:
        """Index one file, and embed everything that is pending."""
        await self._stop_embedding()
        async with self._lock():
            report = await (await self.indexer()).add(path, force=force)
        await self._embed(report)
        await self._notify(report)
        return report

    @recovering
    async def reindex(
        self, embedder: ConfiguredEmbedder, *, force: bool, on_progress: Callable[[int, int], None]
    ) -> IndexReport:
        """Index everything, and embed everything that is pending for an embedder, configured or not."""
        if self._is_empty:
            return IndexReport()
        report = await self._index_all()
        if force:
            await self.embeddings.mark_all_pending(embedder)
        await self._embed(report, embedder, on_progress=on_progress)
        return report

    async def _index_all(
        self,
        *,
        force: bool = False,
        prune: bool = False,
        on_progress: Callable[[int, int], None] = ignore_progress,
    ) -> IndexReport:
        await self._stop_embedding()
        async with self._lock():
            indexer = await self.indexer()
            pending = await indexer.look(force=force, prune=prune)
            report = await indexer.index(force=force, prune=prune, pending=pending, on_progress=on_progress)
        self._context.notices.add(*absent_paths(self._context.workspace, pending, self._context.scope))
        await self._notify(report)
        return report

    async def _notify(self, report: IndexReport) -> None:
        if report.added or report.changed or report.renamed or report.removed:
            limit = self._context.config.plugins.time_limit
            await self._context.plugins.notify("kipu_indexed", limit, report=report)

    async def _stop_embedding(self) -> None:
        if self._context.components.needs_vectors:
            await self.embeddings.stop()

    async def _embed(
        self,
        report: IndexReport,
        embedder: ConfiguredEmbedder | None = None,
        *,
        retry_refused: bool = True,
        on_progress: Callable[[int, int], None] = ignore_progress,
    ) -> None:
        """Embed everything that is pending, and count it in the report."""
        self.database.check_open()
        if embedder is None and not self._context.components.needs_vectors:
            return
        start = time.perf_counter()
        done = await self.embeddings.embed_all(embedder, retry_refused=retry_refused, on_progress=on_progress)
        report.seconds += time.perf_counter() - start
        report.embedded, report.pending_vectors = done.embedded, done.pending

    # --- before a search -------------------------------------------------------------------------------------------

    async def before_search(
        self, *, sync: bool, lenient: bool = False, on_progress: Callable[[int, int], None] = ignore_progress
    ) -> Update:
        """Index what changed on disk, if that takes no long wait, and return what could not be indexed.

        :param sync: False to compare only.
        :param lenient: whether to go on with the index as it is if a configured component cannot be used.
        """
        if self._is_empty:
            return Update()
        notices, scope = self._context.notices, self._context.scope
        async with self._lock():
            try:
                indexer = await self.indexer(lenient=lenient)
            except KipuError as error:
                if not lenient:
                    raise
                notices.add(f"What changed on disk was not indexed. {error}")
                return Update(stale=True)
            pending = await indexer.look()
            missing = [folder for folder in missing_folders(pending) if scope.sees_folder(folder)]
            notices.add(
                *(
                    f"{folder} is missing; what was indexed of it is kept. If it is gone for good: kipu index --prune"
                    for folder in missing
                )
            )
            unreadable = [file for name, file in pending.scan.unreadable.items() if scope.sees_folder(name)]
            notices.add(*_reasons(unreadable))
            missing += [file.path for file in unreadable]
            if not pending:
                return Update(bool(missing), index_id=pending.index_id)
            unread = await self._index_before_search(indexer, pending, on_progress) if sync else None
        if unread is not None:
            return Update(bool(missing or unread), unread, pending.index_id)
        if pending.tables:
            notices.add("The strategy has no index yet, and finds nothing without it: kipu index")
        paths = scope.seen(pending.paths)
        return Update(bool(missing or paths or pending.tables), paths, pending.index_id)

    async def _index_before_search(
        self, indexer: Indexer, pending: Pending, on_progress: Callable[[int, int], None]
    ) -> list[str] | None:
        """Index what is pending, and return the files that could not be read; None if the index is busy."""
        scope = self._context.scope
        try:
            report = await indexer.index(pending=pending, wait=_SEARCH_WAITS_SECONDS, on_progress=on_progress)
        except IndexUnavailableError as error:
            if not self.database.exists:
                raise
            if scope.seen(pending.paths) or pending.tables:
                self._context.notices.add(f"The results may be out of date. {error}")
            return None
        await self._notify(report)
        unread = scope.seen(report.pending)
        self._context.notices.add(*_reasons([file for file in report.skipped if file.path in unread]))
        return unread

    # --- after a write ---------------------------------------------------------------------------------------------

    @recovering
    async def refresh(self, paths: Sequence[str] | None = None) -> IndexReport | None:
        """Index what changed on disk: in the files of these paths, or everywhere.

        Embedding is left to the next search, which embeds before it answers. If a component that this needs cannot be
        used, nothing is indexed, and a notice says so: what was written is safe in its file.

        :return: None if nothing could be indexed.
        """
        async with self._lock():
            try:
                indexer = await self.indexer(lenient=True)
            except KipuError as error:
                self._context.notices.add(f"What changed on disk was not indexed. {error}")
                return None
            if paths is not None:
                report = await indexer.refresh(paths)
            elif pending := await indexer.look():
                report = await indexer.index(pending=pending)
            else:
                return IndexReport()
        await self._notify(report)
        if paths is not None:
            self._context.notices.add(*(f"{file.path} {file.reason}." for file in report.skipped))
        return report

    async def scrub(self, *, rebuild_tables: bool = False) -> list[str]:
        """Remove from the index what is left of texts that no file has, also on pages that were not reused.

        The caller recovers a damaged index, because the next one must be filled before it is read.

        :param rebuild_tables: whether to rebuild the tables of all strategies instead of having each scrub its own.
        :return: the places that could not be cleaned now.
        """
        await self._stop_embedding()
        async with self._lock():

            async def work(snapshot: Snapshot, select: Select) -> None:
                tables = select(snapshot)
                await forget_vectors(snapshot.connection)
                await evict_annotations(snapshot.connection, 0)
                await drop_others(snapshot, self.database, [] if rebuild_tables else tables)
                for each in tables:
                    await (rebuild(snapshot.connection, each) if rebuild_tables else each.scrub(snapshot.connection))

            await change(self.database, await self._tables(), work, self._context.notices, BUSY_SECONDS)
            left = [] if await self.database.vacuum() else [OLD_PAGES]
        left += await self._clear_plugin_folders()
        return left + await asyncio.to_thread(self.database.file.remove_damaged)

    async def _clear_plugin_folders(self) -> list[str]:
        """Delete the files that strategies keep of their own, derived from the index. Return what could not be."""
        folder = self.database.path.parent / PLUGIN_FOLDERS
        if await asyncio.to_thread(folder.is_dir):  # a pipe would be waited for
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        if not await asyncio.to_thread(folder.exists):
            return []
        self._context.notices.add(f"{folder} cannot be deleted, and may have old texts. Delete it yourself.")
        return [f"{folder.parent.name}/{folder.name}"]


def _reasons(skipped: Sequence[SkippedFile]) -> list[str]:
    """Return a sentence that says why files are not indexed as they are; none if there are no such files."""
    more = f" Not indexed either: {len(skipped) - 1:,} more." if len(skipped) > 1 else ""
    return [f"{file.path} {file.reason}.{more}" for file in skipped[:1]]
