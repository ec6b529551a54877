"""`Memory`: what a program uses. Each method checks its arguments and calls the module that does the work."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .arguments import check_arguments
from .components import Components
from .config import MemoryConfig, load_config
from .context import Context
from .errors import ConfigurationError
from .index.database import Database
from .index.file import INDEX_FILE
from .indexing.indexer import ignore_progress
from .indexing.synchronizer import Synchronizer
from .notices import Notices, with_notices
from .plugins.manager import Plugins
from .plugins.records import disabled_by_environment
from .search.query import make_query, texts_of
from .search.service import SearchService
from .workspace.paths import HIDDEN_FOLDER, Workspace
from .workspace.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager, AsyncExitStack
    from datetime import date, timedelta
    from types import TracebackType
    from typing import Self

    from .keeping.writer import Writer
    from .search.reader import IndexReader
    from .types import (
        Change,
        Compacted,
        FileInfo,
        Flushed,
        Index,
        IndexReport,
        Listing,
        Note,
        PostProcessor,
        Recall,
        Receipt,
        SearchResult,
        SearchResults,
        Status,
        StoredEntry,
        Strategy,
    )
    from .watch import Event, FileSummary

Method = TypeVar("Method", bound="Callable[..., Coroutine[Any, Any, Any]]")


def _public(method: Method) -> Method:
    """Have a method refuse a closed memory, finish interrupted writes first, and return the notices that came up."""

    @functools.wraps(method)
    async def public(self: Memory, *arguments: Any, **options: Any) -> Any:
        context = self._context
        context.database.check_open()
        check_arguments(dict(zip(method.__code__.co_varnames[1:], arguments, strict=False)) | options)
        with context.notices.collect() as notices:
            await self._finish_interrupted()
            answer = with_notices(await method(self, *arguments, **options), notices)
        if not hasattr(getattr(answer, "results", answer), "notices"):
            context.notices.add(*notices)  # they wait for the next call, such as `status`
        return answer

    return cast("Method", public)


class Memory:
    """A workspace's memory: its files, its index, and the plugins that search it.

    Use it as ``async with Memory("project") as memory``, or close it with `close`.

    :param workspace: a directory, whose ``kipu.toml`` is read if it has one; or a `MemoryConfig`.
    :param scope: the id of a user, an agent or a team, any text that is not blank: the memory then writes to one source
        of that id alone, and sees no other.
    :param background: whether what a search leaves to be embedded is embedded in the background.
    :raises WorkspaceNotFoundError: the directory does not exist; it is never created by opening it.
    :raises ConfigurationError: an option does not exist, or has an invalid value.
    :raises PluginNotFoundError: the configuration names a component that no installed plugin provides.
    """

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
        Workspace(root)  # first: a wrong path deserves its own message
        config = workspace if isinstance(workspace, MemoryConfig) else load_config(root)
        if config.files.worktrees == "shared":
            from .workspace.worktrees import main_worktree

            root = main_worktree(root)
        files = Workspace(root, config.files.paths, config.files.exclude, config.files.max_bytes)
        blocked = dict.fromkeys(disabled_by_environment(), "KIPU_DISABLE_PLUGINS")
        blocked |= dict.fromkeys(config.plugins.disable, "plugins.disable in the configuration")
        plugins = Plugins(blocked) if plugins is None else plugins
        notices = Notices()
        self._context = Context(
            config,
            files,
            Database(files.root / HIDDEN_FOLDER / INDEX_FILE, notices),
            plugins,
            Components(plugins, config),
            Scope.of(scope),
            notices,
        )
        self._synchronizer = Synchronizer(self._context, background=background)
        self._search = SearchService(self._context, self._synchronizer)
        self._has_finished_interrupted = False
        self._watching: tuple[asyncio.Event, asyncio.Task[bool]] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the index and all components, and stop watching. Every later call raises `MemoryClosedError`.

        What is being embedded ends, and what was embedded so far is kept.
        """
        await self.stop_watching()
        await self._synchronizer.close()
        await self._context.database.close()
        await self._context.components.close()

    @property
    def config(self) -> MemoryConfig:
        """The configuration in use."""
        return self._context.config

    @property
    def plugins(self) -> Plugins:
        """The plugins in use."""
        return self._context.plugins

    @property
    def workspace(self) -> Path:
        """The absolute path of the workspace."""
        return self._context.workspace.root

    # --- writing the index -----------------------------------------------------------------------------------------

    @_public
    async def index(
        self,
        force: bool = False,
        *,
        prune: bool = False,
        on_progress: Callable[[int, int], None] = ignore_progress,
        on_embedding: Callable[[int, int], None] = ignore_progress,
        on_annotating: Callable[[int, int], None] = ignore_progress,
    ) -> IndexReport:
        """Bring the index up to date with the memory files, and embed everything that has no vector yet.

        If a strategy needs annotations, the configured annotator then annotates what has none yet.

        :param force: read every file and rebuild everything, changed or not; vectors of unchanged texts are kept.
        :param prune: remove files whose folder is missing; without it, they are kept until it comes back.
        :param on_progress: called with the number of files done and of those that must be read.
        :param on_embedding: called with the number of chunks done and of those that must be embedded.
        :param on_annotating: called with the number of texts done and of those that must be annotated.
        :raises IndexBusyError: another process is writing to the index. What was written before stays.
        """
        report = await self._synchronizer.index(
            force=force, prune=prune, on_progress=on_progress, on_embedding=on_embedding
        )
        return self._visible(await self._annotate(report, on_annotating))

    @_public
    async def add(self, path: str | os.PathLike[str], force: bool = False) -> IndexReport:
        """Index one file now, and keep it in the memory wherever it is in the workspace.

        :param path: absolute, or relative to the workspace.
        :param force: chunk it again even if it did not change.
        :raises MemoryFileError: it is missing, a folder, not Markdown, or not text.
        :raises OutsideWorkspaceError: it leads out of the workspace.
        :raises OutsideScopeError: it belongs to another scope.
        """
        self._context.locate(path)
        return self._visible(await self._synchronizer.add(os.fspath(path), force=force))

    @_public
    async def reindex(
        self,
        embedder: str | None = None,
        *,
        force: bool = False,
        on_progress: Callable[[int, int], None] = ignore_progress,
    ) -> IndexReport:
        """Embed everything with another embedder, so that its vectors exist when the configuration names it.

        The vectors of the current embedder stay, and go on answering.

        :param embedder: its name; by default the configured one.
        :param force: embed also what has a vector already, as when a provider changed the model behind a name.
        :param on_progress: called with the number of chunks done and of those that must be embedded.
        :raises PluginNotFoundError: no installed plugin provides it.
        :raises ConfigurationError: none is named, none is configured, and the offline one is not installed; or it has
            a required option, which only ``kipu.toml`` can give.
        """
        embedders = self._synchronizer.embeddings.embedders
        chosen = await (embedders.configured() if embedder is None else embedders.named(embedder))
        if chosen is None:
            raise ConfigurationError("There is no embedder to use. Install the offline one with: pip install kipu")
        return self._visible(await self._synchronizer.reindex(chosen, force=force, on_progress=on_progress))

    def _visible(self, report: IndexReport) -> IndexReport:
        """Return a report that names only files of the scope."""
        scope = self._context.scope
        report.pending = scope.seen(report.pending)
        report.skipped = [file for file in report.skipped if scope.sees(file.path)]
        return report

    # --- reading ---------------------------------------------------------------------------------------------------

    @_public
    async def search(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        strategy: str | None = None,
        relation: bool = True,
        source: str | Sequence[str] | None = None,
        tag: str | Sequence[str] | None = None,
        path: str | os.PathLike[str] | None = None,
        where: Mapping[str, Any] | None = None,
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
        """Find what the memory says about ``query``, of which the first 10,000 characters are searched, best first.

        What changed on disk is indexed first. What is not embedded yet is embedded for about a second first, and the
        rest in the background.

        :param max_results: how many results at most; by default as configured (6).
        :param min_score: leave out results with a lower score in [0, 1].
        :param strategy: the strategy to use instead of the configured one.
        :param relation: False leaves out what the strategy of ``[search] relation`` adds to what the configured one
            finds: passages that answer together with another one, each with its ``chain``.
        :param source: search only files with this source label, or with one of several; ``archive`` is what was
            archived, which is searched only if it is asked for, and ``external`` all that is outside ``memory/``.
        :param tag: search only entries with this tag, or with all of several: their own, that of their file, or
            ``#tag`` in the text. ``a`` is also the tag of what has ``a/b``.
        :param path: search only files whose path matches this pattern, in the syntax of ``.gitignore``, relative to the
            workspace or to ``memory/``: ``projects/**``.
        :param where: search only entries with these properties, in their metadata or the front matter of their file:
            ``{"status": "done"}``.
        :param since: search only files of that day (``2026-11-29``) or later: by their name, or the ``date`` in front
            matter.
        :param until: search only files of that day or earlier.
        :param as_of: search what was valid on that day: dated files of later days are left out, and entries are not
            superseded by later ones.
        :param sync: False answers from the index as it is; changed files are then named in ``results.pending``.
        :param explain: give each result an ``explanation``: its rank and score by strategy, and each stage's change.
        :param explain_path: say in ``results.absence`` why that file, relative to the workspace, is not among them.
        :param on_progress: called with the number of files done and of those that must be read first.
        :param on_embedding: called with the number of chunks embedded and of those that had no vector.
        :param options: per-call options of installed plugins; each switches its component on for this search.
        :raises QueryError: an argument has an invalid value.
        :raises OutsideScopeError: the source belongs to another scope.
        :raises PluginNotFoundError: no installed plugin has that strategy or option.
        :raises PluginFailedError: a plugin failed.
        """
        asked = make_query(
            query,
            max_results=self.config.search.max_results if max_results is None else max_results,
            sources=self._sources(source),
            since=since,
            until=until,
            as_of=as_of,
            tag=tag,
            path=path,
            where=where,
            today=self.config.today(),
        )
        if min_score is not None:
            options["min_score"] = min_score
        return await self._search.search(
            asked,
            strategy=strategy,
            relation=relation,
            options=options,
            sync=self.config.search.sync if sync is None else sync,
            explain=explain,
            explain_path=explain_path,
            on_progress=on_progress,
            on_embedding=on_embedding,
        )

    async def recall(self, query: str, *, max_tokens: int = 1500, **options: Any) -> Recall:
        """Return what the memory says about ``query``, as one text for the prompt of a model.

        The budget is filled with the results of a search, best first, and with their surroundings. The text is quoted
        as data, each part with its path and lines: a memory cannot pass for an instruction, nor end the quotation.
        If even the best result scores 0.265 or less, by words alone 0.15, nothing is recalled, unless ``min_score`` is
        given.

        :param max_tokens: how many tokens the text may have, in the vocabulary o200k: see `kipu.types.Recall`.
        :param options: the options of `search`, except ``max_results`` and those that explain.
        :raises QueryError: the budget is no whole number of at least 1.

        It also raises what `search` raises.
        """
        from .search.recall import recall

        return await recall(self._search, self.search, query, max_tokens, options)

    @_public
    async def files(self, source: str | Sequence[str] | None = None, **filters: Any) -> Listing[FileInfo]:
        """Return the files that the index knows, by path, after it was brought up to date.

        :param source: only those with this source label, or with one of several.
        :param filters: ``tag``, ``path``, ``where``, ``since`` and ``until``, as in `search`: only files with something
            that passes them.
        """
        sources = () if source is None else self._sources(source)
        return await self._search.files(make_query("", max_results=1, sources=sources, **filters))

    def _sources(self, source: str | Sequence[str] | None) -> tuple[str, ...]:
        """Return the sources to look in: those that are asked for, else that of the scope, else all."""
        scope = self._context.scope
        asked: list[str | None] = [*texts_of("source", source, "the label of a source")]
        return tuple(label for label in map(scope.source, asked or [None]) if label is not None)

    @_public
    async def entries(self, source: str | Sequence[str] | None = None, **filters: Any) -> Listing[StoredEntry]:
        """Return the entries of all files, by path and line, after the index was brought up to date.

        :param source: only those of files with this source label, or with one of several; by default, archived ones
            are left out.
        :param filters: ``tag``, ``path``, ``where``, ``since`` and ``until``, as in `search`.
        :raises QueryError: an argument has an invalid value.
        """
        from .search.entries import list_entries

        sources, today = self._sources(source), self.config.today()
        return await list_entries(self._search, make_query("", max_results=1, sources=sources, today=today, **filters))

    def open_index(self, strategy: str) -> AbstractAsyncContextManager[Index]:
        """Open the index for reading outside of a search, as ``async with memory.open_index("graph") as index``.

        What changed on disk is indexed first, as before a search; what comes up is in the notices of the next call.
        The strategy is kept indexed from then on. Stay within the scope of the memory with
        ``index.where(Query(""))``, and close the index soon: it shows one state, and holds one of few connections.

        :param strategy: the strategy whose tables are to be read, of an installed plugin.
        :raises PluginNotFoundError: no installed plugin provides it.
        :raises IndexUnavailableError: the index cannot be read, or has no tables of the strategy yet.
        """
        return self._search.reading(functools.partial(self._open_index, strategy))

    @_public
    async def _open_index(self, strategy: str) -> tuple[AsyncExitStack, IndexReader]:
        return await self._search.open_index(strategy)

    async def status(self) -> Status:
        """Return the state of the workspace and of its index. Nothing is changed, but a damaged index is set aside.

        :raises IndexUnavailableError: the index cannot be read.
        """
        from .search.status import read_status

        self._context.database.check_open()
        with self._context.notices.collect() as notices:
            status = await read_status(self._search)
        return with_notices(status, notices)  # type: ignore[no-any-return]

    async def check_embedder(self) -> str | None:
        """Have the embedder embed one word, and return a sentence about what is wrong, or None.

        Nothing of the memory is sent.
        """
        self._context.database.check_open()
        return await self._synchronizer.embeddings.problem(ask=True)

    async def check(self) -> list[str]:
        """Return what is wrong with the configured components, a sentence each."""
        self._context.database.check_open()
        return await self._context.components.check()

    # --- components of the program ---------------------------------------------------------------------------------

    def register_strategy(self, name: str, strategy: Strategy) -> None:
        """Make a strategy available to this memory as ``search(..., strategy=name)``.

        :raises ConfigurationError: it has no method ``search``, or the name is taken.
        """
        self._context.database.check_open()
        self._context.components.register_strategy(name, strategy)

    def register_postprocessor(self, name: str, postprocessor: PostProcessor) -> None:
        """Put a post-processor at the end of this memory's pipeline.

        :raises ConfigurationError: it has no method ``process``.
        """
        self._context.database.check_open()
        self._context.components.register_postprocessor(name, postprocessor)

    # --- watching --------------------------------------------------------------------------------------------------

    async def start_watching(
        self,
        on_event: Callable[[Event, str, FileSummary], object] | None = None,
        *,
        on_problem: Callable[[str], object] | None = None,
    ) -> bool:
        """Index what changes on disk as it changes, in the background, until `stop_watching` or `close`.

        Searches look at the files by themselves. Watch a workspace to be notified of changes, or so that the first
        search after many changes need not wait for them.

        :param on_event: called for each file with ``added``, ``changed``, ``renamed`` or ``removed``, its path, and
            what the index has of it; may be a coroutine function.
        :param on_problem: called once with a sentence when something goes wrong; by default it is logged as a warning.
        :return: False if the workspace is already being watched, by this or another process.
        :raises IndexUnavailableError: the folder of the index cannot be written.
        """
        self._context.database.check_open()
        from .watch import Watcher

        if self._watching is not None:
            return True
        watcher = Watcher(self._context, self._index_while_watching, on_event, on_problem)
        if not watcher.claim():
            return False
        stop = asyncio.Event()
        self._watching = (stop, asyncio.create_task(watcher.run(stop), name="kipu-watching"))
        return True

    @_public
    async def _index_while_watching(self) -> IndexReport:
        """Index what changed, without texts that were refused before."""
        report = await self._synchronizer.index(retry_refused=False)
        return self._visible(await self._annotate(report))

    async def stop_watching(self) -> None:
        """Stop watching."""
        if self._watching is not None:
            (stop, task), self._watching = self._watching, None
            stop.set()
            await task

    # --- keeping ---------------------------------------------------------------------------------------------------

    @_public
    async def remember(
        self,
        text: str,
        *,
        source: str | None = None,
        file: str | os.PathLike[str] | None = None,
        heading: str | None = None,
        tags: str | Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        supersedes: str | None = None,
    ) -> Note:
        """Write a text to a memory file, so that every search from now on finds it.

        It becomes an entry at the end of ``memory/YYYY-MM-DD.md``, or of ``memory/SOURCE/YYYY-MM-DD.md``; of a list,
        each item does. A text that the source has already, apart from white space and Unicode composition, is not
        written again; the note names that place, and places with similar texts.

        :param source: the label of a source: a folder below ``memory/``, which is created if need be.
        :param file: write to this file instead: relative to the workspace if it is below ``memory/`` there, else
            relative to the folder of the source.
        :param heading: write at the end of the section with this heading, which is created if need be; or of that with
            this path of headings, as a search shows it: ``Plan > Open items``.
        :param tags: a tag, or several, for the last line of the entry.
        :param metadata: further properties for that line, such as ``origin``, ``session`` or ``valid_until`` (a date).
        :param supersedes: the entry that this supersedes: its id, its chunk, or its path and lines, such as
            ``memory/team/2026-11-29.md:3-4``. Searches rank that below this, and label it as outdated.
        :raises QueryError: an argument has an invalid value.
        :raises MemoryFileError: the file is not Markdown, or cannot be written.
        :raises OutsideWorkspaceError: the file leads out of the workspace.
        :raises OutsideScopeError: the source or the file belongs to another scope.
        :raises ChunkNotFoundError: the entry to supersede does not exist.
        :raises WritingBusyError: another process has been writing for too long.
        :raises PluginFailedError: a write filter failed; nothing was written.
        """
        from .keeping.remember import remember

        place: dict[str, Any] = {"source": source, "file": file, "heading": heading}
        return await remember(self._writer, text, **place, tags=tags, metadata=metadata, supersedes=supersedes)

    @_public
    async def read(
        self,
        path: str | os.PathLike[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        *,
        id: str | None = None,
        chunk: str | None = None,
        all: bool = True,
    ) -> str:
        """Return what a memory file says, or some lines of it, or an entry.

        :param path: relative to the workspace, or as ``file`` of `remember`, or absolute.
        :param start: the first line, from 1; by default all lines are returned.
        :param end: the last line, included; by default ``start``.
        :param id: an entry, instead of a path.
        :param chunk: a chunk, as a search names it, instead of a path.
        :param all: False to refuse what names several entries, as `edit` does.
        :raises ChunkNotFoundError: there is no such entry or chunk.
        :raises MemoryFileError: it is no memory file, or does not exist.
        :raises OutsideWorkspaceError: it leads out of the workspace.
        :raises OutsideScopeError: it belongs to another scope.
        :raises QueryError: the file has no such lines.
        """
        from .keeping.change import read
        from .keeping.named import Named

        return await read(self._writer, Named(id, chunk, path, start, end, all=all))

    @_public
    async def edit(
        self,
        text: str,
        *,
        id: str | None = None,
        chunk: str | None = None,
        path: str | os.PathLike[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        expected: str | None = None,
        all: bool = False,
    ) -> Note:
        """Replace an entry, a chunk, or lines of a file. Nothing else in the file changes.

        An item stays an item, and an entry keeps its metadata line, unless the text brings a mark or a line of its
        own. The headings at the beginning of a chunk stay, down to one that the text brings. An entry keeps its id: it
        is written into that line if need be.

        :param text: the new text, with its Markdown marks.
        :param id: the entry: its id, or at least 8 characters of a derived one.
        :param chunk: the chunk, as a search names it.
        :param path: the file, instead of these; ``start`` and ``end`` are its lines, as in `read`.
        :param all: whether what is named may be several entries: all are replaced.
        :param expected: the current text of these lines as far as you know: others may have written above them.
        :return: the note; ``replaced`` is the old text.
        :raises FileChangedError: the file has changed. Nothing was written.
        :raises ChunkNotFoundError: the entry or the chunk does not exist.
        :raises QueryError: several entries are named, which the message lists, without ``all``.

        It also raises what `remember` and `read` raise.
        """
        from .keeping.change import edit
        from .keeping.named import Named

        return await edit(self._writer, text, Named(id, chunk, path, start, end, expected, all))

    @_public
    async def move(
        self,
        to: str | os.PathLike[str],
        *,
        id: str | None = None,
        chunk: str | None = None,
        path: str | os.PathLike[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        expected: str | None = None,
        all: bool = False,
    ) -> Note:
        """Move an entry, a chunk, or lines of a file, to the end of another file; or a whole file to another place.

        :param to: the path of the file to move to, as ``file`` of `remember`.
        :param path: the file; without ``start`` and ``end``, the whole file is moved, and nothing in it changes.

        The other parameters are those of `edit`, and so is what it raises.
        """
        from .keeping.change import move
        from .keeping.named import Named

        return await move(self._writer, to, Named(id, chunk, path, start, end, expected, all))

    @_public
    async def forget(
        self,
        *,
        id: str | None = None,
        chunk: str | None = None,
        path: str | os.PathLike[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        expected: str | None = None,
        all: bool = False,
    ) -> Receipt:
        """Remove a text from its file, from every index and from the cache of vectors, for good.

        It cannot be undone. To forget what a query finds, see `forget_found`. The parameters are those of `edit`.

        :return: where the text was, and whether any of these places still holds it.

        It raises what `edit` raises.
        """
        from .keeping.forget import forget
        from .keeping.named import Named

        try:
            return await forget(self._writer, Named(id, chunk, path, start, end, expected, all))
        finally:
            self._has_finished_interrupted = False  # the next call finishes what could not be done

    async def forget_found(
        self,
        query: str,
        confirm: Callable[[SearchResult], bool | Awaitable[bool]],
        *,
        all: bool = False,
        **options: Any,
    ) -> list[Receipt]:
        """Forget the results of a query that the caller confirms.

        :param query: what to search for, as in `search`.
        :param confirm: called with each result, best first; if it returns true, the result is forgotten at once. It
            may be a coroutine function; any other function blocks the event loop while it asks.
        :param all: whether a result may be several entries, as in `edit`.
        :param options: further arguments of `search`, such as ``max_results`` and ``source``.
        :return: a receipt for each text that was forgotten.

        It raises what `search` and `edit` raise.
        """
        receipts = []
        for result in await self.search(query, **options):
            decision = confirm(result)
            if await decision if inspect.isawaitable(decision) else decision:
                receipts.append(await self.forget(chunk=result.chunk, all=all))
        return receipts

    @_public
    async def undo(self, change: str | None = None, *, dry_run: bool = False) -> Change:
        """Take back a change that Kipu made: of `remember`, `edit`, `move`, `flush` or `compact`, in all its files.

        That is a change too, and can be taken back by its name. What `forget` removed does not come back, and a change
        of a file outside the workspace cannot be undone: after either, an earlier one must be named.

        :param change: its name, as `Note.change` has it; by default the last one that was not taken back.
        :param dry_run: whether to change nothing, and to return what would be changed.
        :return: the change that was taken back; ``diff`` is what that did to the files.
        :raises QueryError: there is no such change, among the last 100 of the workspace and those that the scope sees.
        :raises FileChangedError: one of its files has changed since. Nothing was changed.
        :raises MemoryFileError: a file cannot be written.
        """
        from .keeping.undo import undo

        return await undo(self._writer, change, dry_run=dry_run)

    @_public
    async def changes(self) -> Listing[Change]:
        """Return the changes that `undo` can take back unless their files have changed since, the newest first."""
        from .keeping.undo import list_changes

        return await list_changes(self._writer)

    @_public
    async def flush(
        self,
        conversation: Any,
        *,
        model: str | None = None,
        instructions: str | None = None,
        source: str | None = None,
        file: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
    ) -> Flushed | None:
        """Have a model distil what is worth keeping from a conversation, and remember it in today's file.

        The model is the configured flusher's. Its instructions contain the day and related memories; its answer is
        only ever text for that one file.

        :param conversation: messages in the shape of OpenAI or of Anthropic: dictionaries with ``role`` and
            ``content``; or the records of a transcript of Claude Code or Codex. Images are left out, tool calls and
            their results are shortened, and text that `recall` added is removed.
        :param model: the name of another model to call.
        :param instructions: further instructions, such as what matters here.
        :param source: the label of a source, as in `remember`.
        :param file: another dated file to write to.
        :param dry_run: whether to write nothing, and to return what would be written: `apply_flush` writes it.
        :return: what was remembered; None if nothing was worth it, or it is remembered already.
        :raises ConfigurationError: no flusher is configured.
        :raises QueryError: the conversation has another shape, or an argument an invalid value.
        :raises EvergreenFileError: the file has no date in its name.
        :raises BudgetExceededError: it would take more calls or tokens than a day may cost here.
        :raises FlusherError: the model could not be called, or its answer cannot be used.
        :raises NotWrittenError: the distilled text could not be written; the exception carries it.
        """
        from .distill.flush import flush
        from .search.recall import recall

        return await flush(
            self._writer,
            functools.partial(recall, self._search, self.search),
            conversation,
            model=model,
            instructions=instructions,
            source=source,
            file=file,
            dry_run=dry_run,
        )

    @_public
    async def apply_flush(
        self, reviewed: Flushed | str, *, source: str | None = None, file: str | os.PathLike[str] | None = None
    ) -> Flushed | None:
        """Remember the list of a dry run of `flush`, after you have read and perhaps edited it. No model is asked.

        :param reviewed: what the dry run returned, or its text: each item of the list is remembered.
        :param source: the label of a source, as in `remember`.
        :param file: the dated file to write to; by default the one that the dry run named, or today's.
        :return: what was remembered; None if there is no item, or all are remembered already.

        It raises what `flush` raises for a file.
        """
        from .distill.flush import apply_flush

        return await apply_flush(self._writer, reviewed, source=source, file=file)

    @_public
    async def compact(
        self,
        source: str | None = None,
        older_than: int | timedelta | date | str | None = None,
        *,
        max_tokens: int | None = None,
        model: str | None = None,
        instructions: str | None = None,
        dry_run: bool = False,
    ) -> Compacted | None:
        """Have a model distil old dated files into a summary, and move them to the archive.

        The summary links to the originals, which are moved to ``memory/archive/``: searches leave it out unless they
        ask for ``source="archive"``. Summaries are not summarised again. All of it happens, or nothing; `undo` takes it
        back.

        :param source: the label of the source to compact; by default files directly in ``memory/``.
        :param older_than: only files from before that day, or older than so many days; by default 30 days.
        :param max_tokens: how many tokens of old files to take at most, the oldest first; by default 20,000.
        :param dry_run: whether to write and move nothing, and to return what would be.
        :return: what was done; None if there is nothing to compact.

        The other parameters are those of `flush`, and so is what it raises.
        """
        from .distill.compact import compact

        return await compact(
            self._writer,
            source,
            older_than=older_than,
            max_tokens=max_tokens,
            model=model,
            instructions=instructions,
            dry_run=dry_run,
        )

    # --- services, imported when first used ------------------------------------------------------------------------

    async def _annotate(
        self, report: IndexReport, on_progress: Callable[[int, int], None] = ignore_progress
    ) -> IndexReport:
        if self.config.index.annotator is not None and self._synchronizer.database.exists:
            from .distill.annotate import annotate

            await annotate(self._writer, report, on_progress)
        return report

    @functools.cached_property
    def _writer(self) -> Writer:
        from .keeping.writer import Writer

        return Writer(self._context, self._synchronizer)

    async def _finish_interrupted(self) -> None:
        """Finish what a killed process began in the memory files, once."""
        if self._has_finished_interrupted:
            return
        hidden = self.workspace / HIDDEN_FOLDER
        if "forgetting" in _entries(hidden) or _entries(hidden / "writing"):
            from .keeping.forget import finish_forgetting

            await self._writer.recover()
            await finish_forgetting(self._writer)
        self._has_finished_interrupted = True


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
