"""`Memory`: what a program uses. Each method checks its arguments and hands the work to the module that does it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .changes import backfill
from .config import STANDARD_POSTPROCESSORS, MemoryConfig, build_component, load_config, with_options
from .database import INDEX_FILE, Database
from .driver import is_want_of_a_table, sqlite_errors
from .errors import ConfigurationError, IndexUnavailableError, KipuError, PluginFailedError, QueryError
from .files import HIDDEN_FOLDER, Workspace
from .index import count_chunks, file_infos, indexed_strategies, sources
from .indexing import Indexer, missing_folders
from .plugins import Plugins, check_component, disabled_by_environment
from .searching import make_query, search, source_note
from .types import FileInfo, IndexReport, SearchResults, SkippedFile, Status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import date
    from types import TracebackType

    from .indexing import Pending
    from .types import Chunker, IndexedStrategy, PostProcessor, Strategy

__all__ = ["Memory"]

Answer = TypeVar("Answer")

# A search would rather answer from a slightly older index, and say so, than wait long for another process.
_SEARCH_WAITS_SECONDS = 2.0


class Memory:
    """A workspace's memory: its files, its index, and the plugins that search it.

    Use it as ``async with Memory("project") as memory``, or close it with `close`.

    :param workspace: a directory, whose ``kipu.toml`` is read where it has one; or a `MemoryConfig`.
    :raises WorkspaceNotFoundError: the directory does not exist; it is never made by opening it.
    :raises ConfigurationError: an option does not exist, or has a value that cannot be.
    :raises PluginNotFoundError: the configuration names a component that no installed plugin provides.
    """

    def __init__(
        self, workspace: str | os.PathLike[str] | MemoryConfig = ".", *, plugins: Plugins | None = None
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
        self._own: dict[str, Strategy] = {}
        self._registered: list[PostProcessor] = []
        self._used: dict[str, Strategy] = {}
        self._default: str | None = None
        self._chunker: Chunker | None = None
        self._postprocessors: list[PostProcessor] | None = None
        self._syncing = asyncio.Lock()

    async def __aenter__(self) -> Memory:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the index. A closed memory opens it again when it is used again."""
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
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> IndexReport:
        """Bring the index up to date with the memory files.

        :param force: read every file and build everything anew, changed or not.
        :param prune: forget files whose folder is missing; without it, they are kept until it comes back.
        :param on_progress: called with the number of files done and of those that are to be read.
        :raises IndexBusyError: another process is writing to the index. What was written before stays.
        :raises PluginFailedError: the chunker or a strategy raised.
        """

        async def work() -> IndexReport:
            if not self._workspace.has_memory and not self._database.exists:
                return IndexReport()
            async with self._syncing:
                indexer = self._indexer()
                pending = await indexer.look(force=force, prune=prune)
                report = await self._take_in(indexer, pending, force=force, prune=prune, on_progress=on_progress)
                report.notes += indexer.absent_paths(pending)
                return report

        return await self._mended(work)

    async def add(self, path: str | os.PathLike[str], force: bool = False) -> IndexReport:
        """Index one file now, and keep it in the memory wherever it is in the workspace.

        :param path: absolute, or relative to the workspace.
        :param force: chunk it anew even if it did not change.
        :raises MemoryFileError: it is missing, a folder, not Markdown, or not text.
        :raises OutsideWorkspaceError: it leads out of the workspace.
        """

        async def work() -> IndexReport:
            async with self._syncing:
                report = await self._indexer().add(os.fspath(path), force=force)
            self.plugins.notify("kipu_indexed", report=report)
            return report

        return await self._mended(work)

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
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        **options: Any,
    ) -> SearchResults:
        """Find what the memory says about ``query``, best first.

        The files on disk are looked at first, and what changed is indexed.

        :param max_results: how many results at most; by default as configured (6).
        :param min_score: leave out results with a lower score in [0, 1].
        :param strategy: the strategy to use instead of the configured one.
        :param source: search only files with this source label.
        :param since: search only dated files of that day (``2026-11-29``) or later.
        :param until: search only dated files of that day or earlier.
        :param sync: False answers from the index as it is; changed files are then named in ``results.pending``.
        :param on_progress: called with the number of files done and of those that are to be read first.
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
        )
        if min_score is not None:
            options["min_score"] = min_score
        name, chosen, postprocessors = self._pipeline(strategy, options)

        async def work() -> SearchResults:
            results = SearchResults()
            await self._sync(results, {name: chosen}, sync, on_progress)
            try:
                results.extend(await search(self._database, asked, name, chosen, postprocessors))
            except PluginFailedError as error:
                if not await self._made_anew(indexed_strategies({name: chosen}), error):
                    raise
                results.extend(await search(self._database, asked, name, chosen, postprocessors))
            return results

        results = await self._mended(work)
        if source is not None and (note := await source_note(self._database, source)):
            results.notes.append(note)
        if not results and not self._workspace.has_memory:
            results.notes.append(self._no_memory())
        self.plugins.notify("kipu_searched", query=asked, results=results)
        return results

    async def files(self, source: str | None = None) -> list[FileInfo]:
        """The files that the index knows, by path, after it was brought up to date.

        :param source: only those with this source label.
        """

        async def work() -> list[FileInfo]:
            await self._sync(SearchResults(), {}, None, lambda done, total: None)
            async with self._database.reader() as connection:
                found = await file_infos(connection)
            return [file for file in found if source is None or file.source == source]

        return await self._mended(work)

    async def status(self) -> Status:
        """The state of the workspace and of its index. Nothing is changed by asking.

        :raises IndexUnavailableError: the index cannot be read.
        """
        try:
            indexer = self._indexer(lenient=True)
            pending = await indexer.look()
            async with self._database.reader() as connection:
                found = await file_infos(connection)
                labels = await sources(connection)
                chunks = await count_chunks(connection)
        except sqlite_errors() as error:
            raise IndexUnavailableError(
                f"The index {self._database.path} is damaged: {error}. The next search, or kipu index, makes it anew."
            ) from error
        problems = [SkippedFile(file.path, file.problem) for file in found if file.problem is not None]
        path = self._database.path
        return Status(
            workspace=str(self.workspace),
            files=len(found),
            chunks=chunks,
            sources=labels,
            pending=pending.paths,
            skipped=pending.scan.skipped + problems,
            missing=missing_folders(pending),
            notes=indexer.absent_paths(pending) + ([] if self._workspace.has_memory else [self._no_memory()]),
            strategy=name_of(self.config.search.strategy),
            chunker=name_of(self.config.index.chunker),
            postprocessors=[name_of(choice) for choice in self._chosen_postprocessors()],
            index_path=str(path),
            index_bytes=path.stat().st_size if path.exists() else 0,
            sqlite=self._database.driver.sqlite_version,
        )

    def check(self) -> list[str]:
        """What is wrong with the configured components, a sentence each; nothing where all of them can be used."""
        choices = [("chunker", self.config.index.chunker, "index.chunker")]
        choices.append(("strategy", self.config.search.strategy, "search.strategy"))
        choices += [
            ("postprocessor", choice, f"search.postprocessors[{position}]")
            for position, choice in enumerate(self._chosen_postprocessors())
        ]
        wrong = []
        for kind, choice, where in choices:
            try:
                build_component(self.plugins, kind, choice, where)
            except KipuError as error:
                wrong.append(str(error))
        return wrong

    # --- components of one's own -----------------------------------------------------------------------------------

    def register_strategy(self, name: str, strategy: Strategy) -> None:
        """Make a strategy available to this memory as ``search(..., strategy=name)``.

        :raises ConfigurationError: it has no method ``search``, or the name is taken.
        """
        check_component("strategy", name, strategy)
        if name in self._own or name in self.plugins.names("strategy"):
            raise ConfigurationError(f'There is a strategy "{name}" already; register yours under another name.')
        indexed_strategies(self._used | {name: strategy})
        self._own[name] = strategy

    def register_postprocessor(self, name: str, postprocessor: PostProcessor) -> None:
        """Put a post-processor at the end of this memory's pipeline.

        :raises ConfigurationError: it has no method ``process``.
        """
        check_component("postprocessor", name, postprocessor)
        self._registered.append(postprocessor)

    # --- within ----------------------------------------------------------------------------------------------------

    def _strategy(self, name: str | None) -> tuple[str, Strategy]:
        """The strategy of that name, or the configured one, and what it is called."""
        if name is not None and not isinstance(name, str):
            raise QueryError(f"strategy must be the name of a strategy, not {name!r}.")
        if name is None:
            choice = self.config.search.strategy
            name, where = name_of(choice), "search.strategy"
        else:
            choice, where = name, "strategy"
        if name not in self._used:
            component: Strategy = self._own.get(name) or build_component(self.plugins, "strategy", choice, where)
            indexed_strategies(self._used | {name: component})
            self._used[name] = component
        return name, self._used[name]

    def _pipeline(
        self, strategy: str | None, options: Mapping[str, Any]
    ) -> tuple[str, Strategy, Sequence[PostProcessor]]:
        """What a search runs through: the configured components, changed by the options given with it."""
        name, chosen = self._strategy(strategy)
        if self._postprocessors is None:
            self._postprocessors = [
                build_component(self.plugins, "postprocessor", choice, f"search.postprocessors[{position}]")
                for position, choice in enumerate(self._chosen_postprocessors())
            ]
        stages = list(self._postprocessors)
        asked: dict[tuple[str, str], list[Any]] = {}
        for option, value in options.items():
            found = self.plugins.find_per_call_option(option)
            asked.setdefault((found.registration.kind, found.registration.name), []).append((found, value))
        for (kind, component), values in asked.items():
            registration = values[0][0].registration
            if kind == "strategy":
                if type(chosen) is not registration.factory:
                    raise ConfigurationError(
                        f'The option "{values[0][0].name}" is for the strategy "{component}", but this search uses '
                        f'"{name}". Ask for it too: strategy="{component}".'
                    )
                chosen = with_options(chosen, registration, values)
            elif kind == "postprocessor":
                at = [place for place, stage in enumerate(stages) if type(stage) is registration.factory]
                if at:
                    stages[at[-1]] = with_options(stages[at[-1]], registration, values)
                else:
                    stages.append(with_options(None, registration, values))
        return name, chosen, [*stages, *self._registered]

    def _chosen_postprocessors(self) -> Sequence[Any]:
        """The configured post-processors, or else the standard ones that are there to be used."""
        if self.config.search.postprocessors is not None:
            return self.config.search.postprocessors
        return [name for name in STANDARD_POSTPROCESSORS if name in self.plugins.names("postprocessor")]

    def _indexer(self, used: Mapping[str, Strategy] | None = None, *, lenient: bool = False) -> Indexer:
        """What brings the index up to date, for the configured strategy and for every other that was used here."""
        if self._chunker is None:
            self._chunker = build_component(self.plugins, "chunker", self.config.index.chunker, "index.chunker")
        try:
            self._strategy(None)
        except KipuError:
            if not lenient and not used:
                raise
        return Indexer(
            self._database, self._workspace, self._chunker, indexed_strategies(self._used | dict(used or {}))
        )

    async def _take_in(self, indexer: Indexer, pending: Pending, force: bool = False, **arguments: Any) -> IndexReport:
        try:
            report = await indexer.index(force=force, pending=pending, **arguments)
        except PluginFailedError as error:
            if not await self._made_anew(indexer.strategies, error):
                raise
            report = await indexer.index(force=force, **arguments)
        if report.added or report.changed or report.renamed or report.removed:
            self.plugins.notify("kipu_indexed", report=report)
        return report

    async def _sync(
        self,
        results: SearchResults,
        used: Mapping[str, Strategy],
        sync: bool | None,
        on_progress: Callable[[int, int], None],
    ) -> None:
        """Take in what changed on disk, and tell ``results`` what could not be taken in."""
        if not self._workspace.has_memory and not self._database.exists:
            return
        async with self._syncing:
            indexer = self._indexer(used)
            pending = await indexer.look()
            results.notes += [
                f"{folder} is missing; what was indexed of it is kept. If it is gone for good: kipu index --prune"
                for folder in missing_folders(pending)
            ]
            results.stale = bool(results.notes)
            if not pending:
                return
            if self.config.search.sync if sync is None else sync:
                try:
                    report = await self._take_in(indexer, pending, wait=_SEARCH_WAITS_SECONDS, on_progress=on_progress)
                except IndexUnavailableError as error:
                    if not self._database.exists:
                        raise
                    if pending.matters:
                        results.notes.append(f"The results may be out of date. {error}")
                else:
                    results.notes += report.notes
                    results.pending = report.pending
                    results.stale |= bool(report.pending)
                    return
            results.pending = pending.paths
            results.stale |= pending.matters
            if pending.strategies:
                results.notes.append("The strategy has no index yet, and finds nothing without it: kipu index")

    async def _made_anew(self, strategies: Mapping[str, IndexedStrategy], error: PluginFailedError) -> bool:
        """Make the tables of strategies anew if it was for want of them that one failed."""
        if not strategies or not is_want_of_a_table(error.__cause__):
            return False
        async with self._database.transaction() as connection:
            for name, strategy in strategies.items():
                await backfill(connection, name, strategy)
        return True

    async def _mended(self, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Do ``work``; where the index turns out to be damaged, set it aside and do it once more."""
        try:
            return await work()
        except sqlite_errors() as error:
            await self._database.mend(error)
        try:
            return await work()
        except sqlite_errors() as error:
            raise IndexUnavailableError(
                f"The index {self._database.path} cannot be used: {error}. It is derived from the memory files: "
                "delete it, and it is made anew."
            ) from error

    def _no_memory(self) -> str:
        return f"There is no memory here yet: {self.workspace} has no folder memory/. Make one with: kipu init"


def name_of(choice: Any) -> str:
    """What a component is called in messages and in the index."""
    if isinstance(choice, str):
        return choice
    if isinstance(choice, dict):
        return str(choice["use"])
    return f"{type(choice).__module__}.{type(choice).__qualname__}"
