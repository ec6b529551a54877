"""Answers questions from one memory: what it finds, which files it has, and how it is."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

import attrs

from ..components import name_of
from ..errors import IndexUnavailableError, PluginFailedError
from ..index.queries import count_chunks, count_unembedded, file_infos, sources
from ..index.strategy_tables import needs_vectors
from ..index.vectors import count_pending, count_vectors, known_spaces
from ..indexing.indexer import missing_folders
from ..sqlite import sqlite_errors
from ..types import FileInfo, SearchResults, SkippedFile, Status
from .explain import explain as explain_hits
from .explain import why_absent
from .query import result_of, search, source_note

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..components import Components, Pipeline
    from ..config import MemoryConfig
    from ..index.database import Database
    from ..indexing.synchronizer import Syncing
    from ..plugins.manager import Plugins
    from ..types import IndexReport, Query
    from ..workspace.scan import Workspace
    from ..workspace.scope import Scope
    from .query import Found

__all__ = ["Reading"]


class Reading:
    """What reads one memory, as far as its scope goes."""

    def __init__(
        self,
        config: MemoryConfig,
        database: Database,
        workspace: Workspace,
        plugins: Plugins,
        components: Components,
        syncing: Syncing,
        scope: Scope,
    ) -> None:
        self._config = config
        self._database = database
        self._workspace = workspace
        self._plugins = plugins
        self._components = components
        self._syncing = syncing
        self._scope = scope

    async def search(
        self,
        asked: Query,
        pipeline: Pipeline,
        *,
        sync: bool | None,
        explain: bool,
        explain_path: str | None,
        on_progress: Callable[[int, int], None],
        on_embedding: Callable[[int, int], None],
    ) -> SearchResults:
        """Find what the memory says. See `kipu.Memory.search`."""
        absent = None if explain_path is None else posixpath.normpath(str(explain_path).replace("\\", "/"))
        if absent is not None:
            self._scope.check(absent, explain_path)

        async def work() -> tuple[Query, SearchResults]:
            results = SearchResults()
            await self._syncing.before_search(results, pipeline, sync, on_progress, on_embedding)
            meant, used = await self._meant(asked, pipeline, results)
            found = await self._found(meant, used)
            explanations = explain_hits(found) if explain else {}
            results.extend(result_of(hit, meant, explanations.get(hit.chunk.id)) for hit in found.hits)
            if absent is not None:
                results.absence = await why_absent(self._database, meant, used, found, absent, self._scope)
            return meant, results

        meant, results = await self._syncing.mended(work)
        if asked.source is not None and self._scope.label is None:
            note = await source_note(self._database, asked.source)
            results.notices += [note] if note else []
        if not results and not self._workspace.has_memory:
            results.notices.append(self._no_memory())
        self._plugins.notify("kipu_searched", query=meant, results=results)
        return results

    async def files(self, source: str | None) -> list[FileInfo]:
        """The files that the index knows. See `kipu.Memory.files`."""

        async def work() -> list[FileInfo]:
            await self._syncing.before_search(SearchResults(), None, None)
            async with self._database.reader() as connection:
                found = await file_infos(connection)
            return [file for file in found if source in (None, file.source) and self._scope.sees(file.path)]

        return await self._syncing.mended(work)

    def visible(self, report: IndexReport) -> IndexReport:
        """A report that names only files of the scope."""
        report.pending = self._scope.seen(report.pending)
        report.skipped = [file for file in report.skipped if self._scope.sees(file.path)]
        return report

    async def status(self) -> Status:
        """The state of the workspace and of its index. See `kipu.Memory.status`."""
        try:
            indexer = await self._syncing.indexer(lenient=True)
            pending = await indexer.look()
            async with self._database.reader() as connection:
                found = await file_infos(connection)
                labels = await sources(connection)
                chunks = await count_chunks(connection)
                vectors = await count_vectors(connection)
                space = (await known_spaces(connection)).get(indexer.identity or "")
                pending_vectors = await count_pending(connection, space.space if space else None)
        except sqlite_errors() as error:
            raise IndexUnavailableError(
                f"The index {self._database.path} is damaged: {error}. The next search, or kipu index, makes it anew."
            ) from error
        if self._scope.label is not None:
            found = [file for file in found if self._scope.sees(file.path)]
            labels = {label: files for label, files in labels.items() if self._scope.sees_source(label)}
            chunks = sum(file.chunks for file in found)
            async with self._database.reader() as connection:
                for identity, known in (await known_spaces(connection)).items():
                    lacking = await count_unembedded(connection, known.space.id, self._scope.sources)
                    vectors[identity] = chunks - lacking
            pending_vectors = chunks - vectors.get(indexer.identity or "", 0)
        problems = [SkippedFile(file.path, file.problem) for file in found if file.problem is not None]
        embedder = (
            self._components.embedder_choice
            if any(map(needs_vectors, self._components.used_strategies.values()))
            else None
        )
        notices = indexer.absent_paths(pending) + ([] if self._workspace.has_memory else [self._no_memory()])
        if embedder is not None and (problem := await self._syncing.embeddings.problem()):
            notices.append(f"Searches go by words. {problem}")
        path = self._database.path
        return Status(
            workspace=str(self._workspace.root),
            files=len(found),
            chunks=chunks,
            sources=labels,
            pending=self._scope.seen(pending.paths),
            skipped=[file for file in pending.scan.skipped if self._scope.sees(file.path)] + problems,
            missing=[folder for folder in missing_folders(pending) if self._scope.sees_folder(folder)],
            notices=notices,
            strategy=name_of(self._components.strategy_choice),
            chunker=name_of(self._config.index.chunker),
            postprocessors=[name_of(choice) for choice in self._components.postprocessor_choices],
            index_path=str(path),
            index_bytes=path.stat().st_size if path.exists() else 0,
            sqlite=self._database.driver.sqlite_version,
            embedder=None if embedder is None else name_of(embedder),
            pending_vectors=0 if embedder is None else pending_vectors,
            vectors=vectors,
        )

    # --- within ----------------------------------------------------------------------------------------------------

    async def _meant(self, query: Query, pipeline: Pipeline, results: SearchResults) -> tuple[Query, Pipeline]:
        """The query with its embedding, where one is needed, and the pipeline: by words where there is none."""
        if not pipeline.needs_vectors:
            return query, pipeline
        notices: list[str] = []
        embedding, results.degraded = await self._syncing.embeddings.query(query.text, notices)
        if embedding is None and needs_vectors(pipeline.strategy):
            if not notices and self._components.embedder_choice is None:
                results.degraded = True
                notices.append(
                    f'The strategy "{pipeline.name}" needs an embedder, and none is installed, so this search went by '
                    "words. The offline one comes with: pip install kipu"
                )
            pipeline = self._components.by_words(pipeline)
        if self._scope.label is not None and embedding is not None:
            async with self._database.reader() as connection:
                space_id = embedding.space.id
                results.pending_vectors = await count_unembedded(connection, space_id, self._scope.sources)
        if results.pending_vectors and embedding is not None and not notices:
            chunks = "1 chunk is" if results.pending_vectors == 1 else f"{results.pending_vectors:,} chunks are"
            notices.append(f"{chunks} not embedded yet, and found by words only. To embed all: kipu index")
        results.notices += [note for note in notices if note not in results.notices]
        return attrs.evolve(query, embedding=embedding), pipeline

    async def _found(self, query: Query, pipeline: Pipeline) -> Found:
        try:
            return await search(self._database, query, pipeline)
        except PluginFailedError as error:
            if not await self._syncing.made_anew(await self._syncing.indexer(), error):
                raise
            return await search(self._database, query, pipeline)

    def _no_memory(self) -> str:
        return f"There is no memory here yet: {self._workspace.root} has no folder memory/. Make one with: kipu init"
