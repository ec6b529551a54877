"""`Memory`: what a program uses. Each method checks its arguments and hands the work to the module that does it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from .components import Components, name_of
from .config import MemoryConfig, load_config
from .database import INDEX_FILE, Database
from .driver import sqlite_errors
from .errors import ConfigurationError, IndexUnavailableError, PluginFailedError, QueryError
from .explaining import explain as explain_hits
from .explaining import why_absent
from .files import HIDDEN_FOLDER, Workspace
from .index import count_chunks, file_infos, sources
from .indexing import missing_folders
from .plugins import Plugins, disabled_by_environment
from .searching import make_query, result_of, search, source_note
from .syncing import Syncing, ignore_progress
from .tables import needs_vectors
from .types import FileInfo, IndexReport, SearchResults, SkippedFile, Status
from .vectors import count_pending, count_vectors, known_spaces

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date
    from types import TracebackType

    from .components import Pipeline
    from .searching import Found
    from .types import PostProcessor, Query, Strategy

__all__ = ["Memory"]


class Memory:
    """A workspace's memory: its files, its index, and the plugins that search it.

    Use it as ``async with Memory("project") as memory``, or close it with `close`.

    :param workspace: a directory, whose ``kipu.toml`` is read where it has one; or a `MemoryConfig`.
    :param background: whether what a search leaves to be embedded is embedded behind it, while the program goes on.
    :raises WorkspaceNotFoundError: the directory does not exist; it is never made by opening it.
    :raises ConfigurationError: an option does not exist, or has a value that cannot be.
    :raises PluginNotFoundError: the configuration names a component that no installed plugin provides.
    """

    def __init__(
        self,
        workspace: str | os.PathLike[str] | MemoryConfig = ".",
        *,
        plugins: Plugins | None = None,
        background: bool = True,
    ) -> None:
        if not isinstance(workspace, (str, os.PathLike, MemoryConfig)):
            raise ConfigurationError(f"The workspace must be a path or a MemoryConfig, not {workspace!r}.")
        root = workspace.workspace if isinstance(workspace, MemoryConfig) else Path(workspace)
        Workspace(root)  # first: a wrong path is worth its own message
        self.config = workspace if isinstance(workspace, MemoryConfig) else load_config(root)
        self._workspace = Workspace(
            root, self.config.files.paths, self.config.files.exclude, self.config.files.max_bytes
        )
        blocked = dict.fromkeys(disabled_by_environment(), "KIPU_DISABLE_PLUGINS")
        blocked |= dict.fromkeys(self.config.plugins.disable, "plugins.disable in the configuration")
        self.plugins = Plugins(blocked) if plugins is None else plugins
        self._database = Database(self._workspace.root / HIDDEN_FOLDER / INDEX_FILE)
        self._components = Components(self.plugins, self.config)
        self._syncing = Syncing(
            self.config, self._database, self._workspace, self.plugins, self._components, background=background
        )

    async def __aenter__(self) -> Memory:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the index, and let go of the embedder. A closed memory opens them again when it is used again."""
        await self._syncing.embeddings.close()
        await self._database.close()

    @property
    def workspace(self) -> Path:
        """The absolute path of the workspace."""
        return self._workspace.root

    # --- writing the index -----------------------------------------------------------------------------------------

    async def index(
        self,
        force: bool = False,
        *,
        prune: bool = False,
        on_progress: Callable[[int, int], None] = ignore_progress,
        on_embedding: Callable[[int, int], None] = ignore_progress,
    ) -> IndexReport:
        """Bring the index up to date with the memory files, and embed all that has no vector yet.

        :param force: read every file and build everything anew, changed or not; vectors of texts that are as they were
            are kept.
        :param prune: forget files whose folder is missing; without it, they are kept until it comes back.
        :param on_progress: called with the number of files done and of those that are to be read.
        :param on_embedding: called with the number of chunks done and of those that are to be embedded.
        :raises IndexBusyError: another process is writing to the index. What was written before stays.
        :raises PluginFailedError: the chunker or a strategy raised.
        """
        return await self._syncing.mended(
            lambda: self._syncing.index(force=force, prune=prune, on_progress=on_progress, on_embedding=on_embedding)
        )

    async def add(self, path: str | os.PathLike[str], force: bool = False) -> IndexReport:
        """Index one file now, and keep it in the memory wherever it is in the workspace.

        :param path: absolute, or relative to the workspace.
        :param force: chunk it anew even if it did not change.
        :raises MemoryFileError: it is missing, a folder, not Markdown, or not text.
        :raises OutsideWorkspaceError: it leads out of the workspace.
        """
        return await self._syncing.mended(lambda: self._syncing.add(os.fspath(path), force=force))

    async def reindex(
        self,
        embedder: str | None = None,
        *,
        force: bool = False,
        on_progress: Callable[[int, int], None] = ignore_progress,
    ) -> IndexReport:
        """Embed everything with another embedder, so that its vectors are there when the configuration names it.

        The vectors of the embedder that is used stay, and go on answering.

        :param embedder: the name of one; by default the one that is used.
        :param force: embed also what has a vector already, as when a provider changed the model behind a name.
        :param on_progress: called with the number of chunks done and of those that are to be embedded.
        :raises PluginNotFoundError: no installed plugin provides it.
        :raises ConfigurationError: none is named, none is configured, and the offline one is not installed; or it lacks
            an option that it must have, which only ``kipu.toml`` can give.
        """
        if embedder is not None and not isinstance(embedder, str):
            raise QueryError(f"embedder must be the name of an embedder, not {embedder!r}.")
        same = embedder is not None and embedder == name_of(self._components.embedder_choice)
        chosen = await self._components.embedder(None if same else embedder)
        if chosen is None:
            raise ConfigurationError("There is no embedder to use. The offline one comes with: pip install kipu")

        return await self._syncing.mended(lambda: self._syncing.reindex(chosen, force=force, on_progress=on_progress))

    # --- reading ---------------------------------------------------------------------------------------------------

    async def search(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        strategy: str | None = None,
        source: str | None = None,
        since: date | str | None = None,
        until: date | str | None = None,
        sync: bool | None = None,
        explain: bool = False,
        explain_path: str | None = None,
        on_progress: Callable[[int, int], None] = ignore_progress,
        on_embedding: Callable[[int, int], None] = ignore_progress,
        **options: Any,
    ) -> SearchResults:
        """Find what the memory says about ``query``, best first.

        The files on disk are looked at first, and what changed is indexed. Of what is not embedded yet, a part is
        embedded first, and the rest behind the search, in the background.

        :param max_results: how many results at most; by default as configured (6).
        :param min_score: leave out results with a lower score in [0, 1].
        :param strategy: the strategy to use instead of the configured one.
        :param source: search only files with this source label.
        :param since: search only dated files of that day (``2026-11-29``) or later.
        :param until: search only dated files of that day or earlier.
        :param sync: False answers from the index as it is; changed files are then named in ``results.pending``.
        :param explain: give each result an ``explanation``: its rank and score in each arm, and each stage's change.
        :param explain_path: say in ``results.absence`` why that file, relative to the workspace, is not among them.
        :param on_progress: called with the number of files done and of those that are to be read first.
        :param on_embedding: called with the number of chunks done and of those that are embedded first.
        :param options: per-call options of installed plugins; each switches its component on for this search.
        :raises QueryError: an argument has a value that cannot be.
        :raises PluginNotFoundError: no installed plugin has that strategy or option.
        :raises PluginFailedError: a plugin raised.
        """
        asked = make_query(
            query,
            max_results=self.config.search.max_results if max_results is None else max_results,
            source=source,
            since=since,
            until=until,
            today=self.config.today(),
        )
        if min_score is not None:
            options["min_score"] = min_score
        pipeline = self._components.pipeline(strategy, options)

        async def work() -> tuple[Query, SearchResults]:
            results = SearchResults()
            await self._syncing.before_search(results, pipeline, sync, on_progress, on_embedding)
            meant, used = await self._meant(asked, pipeline, results)
            found = await self._found(meant, used)
            explanations = explain_hits(found) if explain else {}
            results.extend(result_of(hit, meant, explanations.get(hit.chunk.id)) for hit in found.hits)
            if explain_path is not None:
                path = str(explain_path).replace("\\", "/").removeprefix("./")
                results.absence = await why_absent(self._database, meant, used, found, path)
            return meant, results

        meant, results = await self._syncing.mended(work)
        if source is not None and (note := await source_note(self._database, source)):
            results.notes.append(note)
        if not results and not self._workspace.has_memory:
            results.notes.append(self._no_memory())
        self.plugins.notify("kipu_searched", query=meant, results=results)
        return results

    async def files(self, source: str | None = None) -> list[FileInfo]:
        """The files that the index knows, by path, after it was brought up to date.

        :param source: only those with this source label.
        """

        async def work() -> list[FileInfo]:
            await self._syncing.before_search(SearchResults(), None, None)
            async with self._database.reader() as connection:
                found = await file_infos(connection)
            return [file for file in found if source is None or file.source == source]

        return await self._syncing.mended(work)

    async def status(self) -> Status:
        """The state of the workspace and of its index. Nothing is changed by asking.

        :raises IndexUnavailableError: the index cannot be read.
        """
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
        problems = [SkippedFile(file.path, file.problem) for file in found if file.problem is not None]
        embedder = (
            self._components.embedder_choice
            if any(map(needs_vectors, self._components.used_strategies.values()))
            else None
        )
        notes = indexer.absent_paths(pending) + ([] if self._workspace.has_memory else [self._no_memory()])
        if embedder is not None and (problem := await self._syncing.embeddings.problem()):
            notes.append(f"Searches go by words. {problem}")
        path = self._database.path
        return Status(
            workspace=str(self.workspace),
            files=len(found),
            chunks=chunks,
            sources=labels,
            pending=pending.paths,
            skipped=pending.scan.skipped + problems,
            missing=missing_folders(pending),
            notes=notes,
            strategy=name_of(self._components.strategy_choice),
            chunker=name_of(self.config.index.chunker),
            postprocessors=[name_of(choice) for choice in self._components.postprocessor_choices],
            index_path=str(path),
            index_bytes=path.stat().st_size if path.exists() else 0,
            sqlite=self._database.driver.sqlite_version,
            embedder=None if embedder is None else name_of(embedder),
            pending_vectors=0 if embedder is None else pending_vectors,
            vectors=vectors,
        )

    async def check_embedder(self) -> str | None:
        """Ask the embedder for one vector. What is wrong with it, in a sentence; None where it works, or there is none.

        A provider is sent one word, and nothing of the memory.
        """
        return await self._syncing.embeddings.problem(ask=True)

    def check(self) -> list[str]:
        """What is wrong with the configured components, a sentence each; nothing where all of them can be used."""
        return self._components.check()

    # --- components of one's own -----------------------------------------------------------------------------------

    def register_strategy(self, name: str, strategy: Strategy) -> None:
        """Make a strategy available to this memory as ``search(..., strategy=name)``.

        :raises ConfigurationError: it has no method ``search``, or the name is taken.
        """
        self._components.register_strategy(name, strategy)

    def register_postprocessor(self, name: str, postprocessor: PostProcessor) -> None:
        """Put a post-processor at the end of this memory's pipeline.

        :raises ConfigurationError: it has no method ``process``.
        """
        self._components.register_postprocessor(name, postprocessor)

    # --- within ----------------------------------------------------------------------------------------------------

    async def _meant(self, query: Query, pipeline: Pipeline, results: SearchResults) -> tuple[Query, Pipeline]:
        """The query with its embedding, where one is needed, and the pipeline: by words where there is none."""
        if not pipeline.needs_vectors:
            return query, pipeline
        notes: list[str] = []
        embedding, results.degraded = await self._syncing.embeddings.query(query.text, notes)
        if embedding is None and needs_vectors(pipeline.strategy):
            if not notes and self._components.embedder_choice is None:
                results.degraded = True
                notes.append(
                    f'The strategy "{pipeline.name}" needs an embedder, and none is installed, so this search went by '
                    "words. The offline one comes with: pip install kipu"
                )
            pipeline = self._components.by_words(pipeline)
        if results.pending_vectors and embedding is not None and not notes:
            chunks = "1 chunk is" if results.pending_vectors == 1 else f"{results.pending_vectors:,} chunks are"
            notes.append(f"{chunks} not embedded yet, and found by words only. To embed all: kipu index")
        results.notes += [note for note in notes if note not in results.notes]
        return attrs.evolve(query, embedding=embedding), pipeline

    async def _found(self, query: Query, pipeline: Pipeline) -> Found:
        try:
            return await search(self._database, query, pipeline)
        except PluginFailedError as error:
            if not await self._syncing.made_anew(await self._syncing.indexer(), error):
                raise
            return await search(self._database, query, pipeline)

    def _no_memory(self) -> str:
        return f"There is no memory here yet: {self.workspace} has no folder memory/. Make one with: kipu init"
