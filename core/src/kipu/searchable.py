"""A memory as far as it is indexed and searched: what `kipu.Memory` begins with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .components import Components
from .config import MemoryConfig, load_config
from .context import Context
from .errors import ConfigurationError, QueryError
from .index.database import INDEX_FILE, Database
from .indexing.synchronizer import Syncing, ignore_progress
from .plugins.manager import Plugins, disabled_by_environment
from .search.query import make_query
from .search.service import Reading
from .workspace.scan import HIDDEN_FOLDER, Workspace
from .workspace.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date
    from types import TracebackType
    from typing import Self

    from .types import (
        FileInfo,
        IndexReport,
        PostProcessor,
        SearchResults,
        Status,
        Strategy,
    )

__all__ = ["SearchableMemory"]


class SearchableMemory:
    """A workspace's memory: its files, its index, and the plugins that search it. See `kipu.Memory`."""

    def __init__(
        self,
        workspace: str | os.PathLike[str] | MemoryConfig = ".",
        *,
        scope: str | None = None,
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
        self._scope = Scope.of(scope)
        self._context = Context(
            self.config, self._workspace, self._database, self.plugins, self._components, self._scope
        )
        self._syncing = Syncing(self._context, background=background)
        self._reading = Reading(
            self.config,
            self._database,
            self._workspace,
            self.plugins,
            self._components,
            self._syncing,
            self._scope,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the index, and let go of the embedder. A closed memory opens them again when it is used again.

        What is being embedded ends; an `index` that is going on raises `IndexUnavailableError`.
        """
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
        await self._begin()
        report = await self._syncing.mended(
            lambda: self._syncing.index(force=force, prune=prune, on_progress=on_progress, on_embedding=on_embedding)
        )
        return self._reading.visible(report)

    async def add(self, path: str | os.PathLike[str], force: bool = False) -> IndexReport:
        """Index one file now, and keep it in the memory wherever it is in the workspace.

        :param path: absolute, or relative to the workspace.
        :param force: chunk it anew even if it did not change.
        :raises MemoryFileError: it is missing, a folder, not Markdown, or not text.
        :raises OutsideWorkspaceError: it leads out of the workspace.
        :raises OutsideScopeError: it belongs to another scope.
        """
        self._scope.check(self._workspace.name_of(self._workspace.locate(path)), path)
        await self._begin()
        report = await self._syncing.mended(lambda: self._syncing.add(os.fspath(path), force=force))
        return self._reading.visible(report)

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
        embedders = self._syncing.embeddings.embedders
        chosen = await (embedders.configured() if embedder is None else embedders.named(embedder))
        if chosen is None:
            raise ConfigurationError("There is no embedder to use. The offline one comes with: pip install kipu")
        await self._begin()
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
        as_of: date | str | None = None,
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
        :param source: search only files with this source label; ``archive`` is what was archived, which is
            searched only where it is asked for.
        :param since: search only dated files of that day (``2026-11-29``) or later.
        :param until: search only dated files of that day or earlier.
        :param as_of: ask what was believed on that day: dated files of later days are left out, and what took the
            place of something later did not yet.
        :param sync: False answers from the index as it is; changed files are then named in ``results.pending``.
        :param explain: give each result an ``explanation``: its rank and score in each arm, and each stage's change.
        :param explain_path: say in ``results.absence`` why that file, relative to the workspace, is not among them.
        :param on_progress: called with the number of files done and of those that are to be read first.
        :param on_embedding: called with the number of chunks done and of those that are embedded first.
        :param options: per-call options of installed plugins; each switches its component on for this search.
        :raises QueryError: an argument has a value that cannot be.
        :raises OutsideScopeError: the source belongs to another scope.
        :raises PluginNotFoundError: no installed plugin has that strategy or option.
        :raises PluginFailedError: a plugin raised.
        """
        asked = make_query(
            query,
            max_results=self.config.search.max_results if max_results is None else max_results,
            source=self._scope.source(source),
            since=since,
            until=until,
            as_of=as_of,
            today=self.config.today(),
        )
        if min_score is not None:
            options["min_score"] = min_score
        pipeline = self._components.pipeline(strategy, options)
        await self._begin()
        return await self._reading.search(
            asked,
            pipeline,
            sync=sync,
            explain=explain,
            explain_path=explain_path,
            on_progress=on_progress,
            on_embedding=on_embedding,
        )

    async def files(self, source: str | None = None) -> list[FileInfo]:
        """The files that the index knows, by path, after it was brought up to date.

        :param source: only those with this source label.
        """
        await self._begin()
        return await self._reading.files(source if source is None else self._scope.source(source))

    async def status(self) -> Status:
        """The state of the workspace and of its index. Nothing is changed by asking.

        :raises IndexUnavailableError: the index cannot be read.
        """
        return await self._reading.status()

    async def check_embedder(self) -> str | None:
        """Ask the embedder for one vector. What is wrong with it, in a sentence; None where it works, or there is none.

        A provider is sent one word, and nothing of the memory.
        """
        return await self._syncing.embeddings.problem(ask=True)

    def check(self) -> list[str]:
        """What is wrong with the configured components, a sentence each; nothing where all of them can be used."""
        return self._components.check()

    async def _begin(self) -> None:
        """What is to be done before anything else, the first time."""

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
