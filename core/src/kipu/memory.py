"""`Memory`: what a program uses. Each method checks its arguments and hands the work to the module that does it."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from .indexing.synchronizer import ignore_progress
from .keeping.forget import Forgetting
from .keeping.remember import Keeping
from .keeping.targets import Locating
from .keeping.transaction import Writer
from .searchable import SearchableMemory
from .workspace.scan import HIDDEN_FOLDER

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import date, timedelta

    from .config import MemoryConfig
    from .distill.compact import Compacting
    from .distill.flush import Flushing
    from .plugins.manager import Plugins
    from .types import Compacted, Flushed, IndexReport, Note, Recall, Receipt, SearchResult, StoredChunk
    from .watch import Event, FileSummary

__all__ = ["Memory"]

Answer = TypeVar("Answer")


class Memory(SearchableMemory):
    """A workspace's memory: its files, its index, and the plugins that search it.

    Use it as ``async with Memory("project") as memory``, or close it with `close`.

    :param workspace: a directory, whose ``kipu.toml`` is read where it has one; or a `MemoryConfig`.
    :param scope: the id of a user, an agent or a team, any text: the memory then writes to one source, which is that
        id's alone, and sees no other.
    :param background: whether what a search leaves to be embedded is embedded behind it, while the program goes on.
    :raises WorkspaceNotFoundError: the directory does not exist; it is never made by opening it.
    :raises ConfigurationError: an option does not exist, or has a value that cannot be.
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
        super().__init__(workspace, scope=scope, plugins=plugins, background=background)
        self._writer = Writer(self._context)
        self._where = where = Locating(self.config, self._database, self._workspace, self._scope)
        self._keeping = Keeping(self._context, self._syncing, self._writer, where)
        self._finished = False
        self._watching: tuple[asyncio.Event, asyncio.Task[bool]] | None = None
        self._forgetting = Forgetting(self._workspace.root, self._database, self._syncing, where, self._keeping)

    async def close(self) -> None:
        """Close the index, let go of the embedder, and stop watching. A closed memory can be used again.

        What is being embedded ends; an `index` that is going on raises `IndexUnavailableError`.
        """
        await self.stop_watching()
        await super().close()

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
        :param on_problem: called with a sentence when something goes wrong, once; by default it is logged as a warning.
        :return: False if the workspace is already being watched, by this or another process.
        :raises IndexUnavailableError: the folder of the index cannot be written.
        """
        from .watch import Watcher

        if self._watching is not None:
            return True

        def seen(event: Event, path: str, summary: FileSummary) -> object:
            return on_event(event, path, summary) if on_event is not None and self._scope.sees(path) else None

        async def update() -> IndexReport:
            await self._begin()
            report = await self._syncing.mended(
                lambda: self._syncing.index(
                    force=False, prune=False, on_progress=ignore_progress, on_embedding=ignore_progress, again=False
                )
            )
            return self._reading.visible(report)

        watcher = Watcher(self._context, update, seen, on_problem)
        if not watcher.claim():
            return False
        stop = asyncio.Event()
        self._watching = (stop, asyncio.create_task(watcher.run(stop), name="kipu-watching"))
        return True

    async def stop_watching(self) -> None:
        """Stop watching."""
        if self._watching is not None:
            (stop, task), self._watching = self._watching, None
            stop.set()
            await task

    # --- what it knows ---------------------------------------------------------------------------------------------

    async def recall(self, query: str, *, max_tokens: int = 1500, **options: Any) -> Recall:
        """What the memory knows about ``query``, as one text for the prompt of a model.

        The budget is filled with what a search finds, best first, and with what stands around it. The text is quoted
        as data, each part with its path and lines: a memory cannot pass for an instruction, nor end the quotation.

        :param max_tokens: how many tokens the text may have, by an estimate (four ASCII characters make one).
        :param options: what `search` takes, but for ``max_results`` and the ways to explain.
        :raises QueryError: the budget is no whole number of at least 1.

        What else it raises, `search` does too.
        """
        from .search.recall import compose, results_for  # only now: a search needs none of it

        results = await self.search(query, max_results=results_for(max_tokens), **options)
        return await compose(self._database, results, max_tokens)

    # --- keeping ---------------------------------------------------------------------------------------------------

    async def remember(
        self,
        text: str,
        *,
        source: str | None = None,
        file: str | os.PathLike[str] | None = None,
        heading: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        supersedes: str | None = None,
    ) -> Note:
        """Write a text to a memory file, so that every search from now on finds it.

        It becomes an entry at the end of ``memory/YYYY-MM-DD.md``, or of ``memory/SOURCE/YYYY-MM-DD.md``. What the
        source says already, but for white space and how letters are composed, is not written again; what is merely
        similar is, and is named in the note.

        :param source: the label of a source: a folder below ``memory/``, which is made if need be.
        :param file: write to this file instead, as to an evergreen one: relative to the workspace if it is below
            ``memory/`` there, else relative to the folder of the source.
        :param heading: write at the end of the section with this heading, which is made if need be.
        :param metadata: what is known of the text, such as ``origin``, ``session``, ``tags`` (a list), or
            ``valid_until`` (a date): it stands in the last line of the entry.
        :param supersedes: what this takes the place of: a chunk, as a search names it, or a path with lines such as
            ``memory/team/2026-11-29.md:3-4``. Searches then rank that below this, and say that it is outdated.
        :raises QueryError: an argument has a value that cannot be.
        :raises MemoryFileError: the file is no Markdown, or cannot be written.
        :raises OutsideWorkspaceError: the file leads out of the workspace.
        :raises OutsideScopeError: the source or the file belongs to another scope.
        :raises ChunkNotFoundError: there is no chunk that could be superseded.
        :raises WritingBusyError: another process has been writing for too long.
        :raises PluginFailedError: a write filter failed; nothing was written.
        """
        return await self._kept(
            lambda: self._keeping.remember(
                text, source=source, file=file, heading=heading, metadata=metadata, supersedes=supersedes
            )
        )

    async def read(self, path: str | os.PathLike[str], start: int | None = None, end: int | None = None) -> str:
        """What a memory file says, or some lines of it.

        :param path: relative to the workspace, or absolute.
        :param start: the first line, from 1; by default all lines are meant.
        :param end: the last line, included; by default ``start``.
        :raises MemoryFileError: it is no memory file, or does not exist.
        :raises OutsideWorkspaceError: it leads out of the workspace.
        :raises OutsideScopeError: it belongs to another scope.
        :raises QueryError: the file has no such lines.
        """
        await self._begin()
        return await self._keeping.read(path, start, end)

    async def find_chunk(self, chunk: str) -> StoredChunk:
        """The chunk of that name, as the index has it: where it stands, and what it says.

        :param chunk: its name, as a search gives it.
        :raises ChunkNotFoundError: there is none, or it belongs to another scope.
        """
        await self._begin()
        return await self._where.chunk_of(chunk)

    async def edit(
        self,
        text: str,
        *,
        chunk: str | None = None,
        path: str | os.PathLike[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        expected: str | None = None,
    ) -> Note:
        """Put a text in the place of a chunk, or of lines of a file; nothing else in the file is touched.

        An item stays an item, and what is known of an entry, its line of metadata, stays below it, unless the text
        brings a mark or a line of its own. Of a chunk, the headings stay that it begins with, down to one that the text
        brings. What goes is told.

        :param text: what stands there then, with the marks of Markdown that it has.
        :param chunk: the chunk, as a search names it.
        :param path: the file, instead of a chunk; ``start`` and ``end`` are its lines, as in `read`.
        :param expected: what these lines say as far as you know, as `read` returns it: others may have written above
            them since. Of a chunk, the index knows that.
        :raises FileChangedError: the file does not say any more what it said. Nothing was changed.
        :raises ChunkNotFoundError: there is no such chunk.

        What else it raises, `remember` and `read` do too.
        """
        return await self._kept(
            lambda: self._keeping.edit(text, chunk=chunk, path=path, start=start, end=end, expected=expected)
        )

    async def move(
        self,
        to: str | os.PathLike[str],
        *,
        chunk: str | None = None,
        path: str | os.PathLike[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        expected: str | None = None,
    ) -> Note:
        """Move a chunk, or lines of a file, to the end of another file; or a whole file to another place.

        :param to: the path of the file to move to, as ``file`` of `remember`.
        :param chunk: the chunk, as a search names it.
        :param path: the file, instead of a chunk; without ``start`` and ``end``, the whole file is moved.
        :param expected: what stands there as far as you know, as in `edit`.

        What it raises, `edit` does too.
        """
        return await self._kept(
            lambda: self._keeping.move(to, chunk=chunk, path=path, start=start, end=end, expected=expected)
        )

    async def forget(
        self,
        *,
        chunk: str | None = None,
        path: str | os.PathLike[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        expected: str | None = None,
    ) -> Receipt:
        """Take a text out of its file, of every index and of the cache of vectors, for good.

        To forget what a query finds, see `forget_found`.

        :param chunk: the chunk, as a search names it.
        :param path: the file, instead of a chunk; ``start`` and ``end`` are its lines, as in `read`.
        :param expected: what stands there as far as you know, as in `edit`.
        :return: where it stood, and that none of these places holds it any more.

        What it raises, `edit` does too.
        """
        receipt = await self._kept(
            lambda: self._forgetting.forget(chunk=chunk, path=path, start=start, end=end, expected=expected)
        )
        self._finished = receipt.complete  # where another process held it, it is looked at again
        return receipt

    async def forget_found(
        self, query: str, confirm: Callable[[SearchResult], bool | Awaitable[bool]], **options: Any
    ) -> list[Receipt]:
        """Forget what a query finds, as far as somebody says so.

        :param query: what to search for, as in `search`.
        :param confirm: called with each result, best first; what it returns true for is forgotten at once, as `forget`
            does it. It may be a coroutine function; another function holds up the event loop while it asks.
        :param options: what else `search` takes, such as ``max_results`` and ``source``.
        :return: a receipt for each text that was forgotten.

        What it raises, `search` and `edit` do too.
        """
        receipts = []
        for result in await self.search(query, **options):
            decision = confirm(result)
            if await decision if inspect.isawaitable(decision) else decision:
                receipts.append(await self.forget(chunk=result.chunk))
        return receipts

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
        """Have a model distil what is worth keeping out of a conversation, and remember it in today's file.

        The model is the configured flusher's. It is told the day and what is remembered already about what was spoken
        of; what it answers is never a path or a command, only text for that one file.

        :param conversation: messages in the shape of OpenAI or of Anthropic: dictionaries with ``role`` and
            ``content``. Images are left out, calls of tools and their results are named in a few words, and what
            `recall` had put into it is not looked at again.
        :param model: the name of another model to ask.
        :param instructions: what else the model should know, such as what matters here.
        :param source: the label of a source, as in `remember`.
        :param file: another dated file to write to.
        :param dry_run: whether to write nothing, and to return what would be written.
        :return: what was remembered; None where nothing was worth it, or it is remembered already.
        :raises ConfigurationError: no flusher is configured.
        :raises QueryError: the conversation has another shape, or an argument a value that cannot be.
        :raises EvergreenFileError: the file is not a dated one.
        :raises BudgetExceededError: it would take more calls or tokens than a day may cost here.
        :raises FlusherError: the model could not be asked, or gave no answer that can be used.
        :raises NotWrittenError: what was distilled could not be written; the exception has the text.
        """
        return await self._kept(
            lambda: self._flushing().flush(
                conversation, model=model, instructions=instructions, source=source, file=file, dry_run=dry_run
            )
        )

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

        The summary links to what it came from. The originals are moved to ``memory/archive/``, which searches leave out
        unless they ask for ``source="archive"``. Summaries are not summarised again. All of it happens, or nothing;
        `undo_compact` takes it back.

        :param source: the label of the source to compact; by default files directly in ``memory/``.
        :param older_than: only files from before that day, or older than so many days; by default 30 days.
        :param max_tokens: how many tokens of old files to take at most, the oldest first; by default 20,000.
        :param dry_run: whether to write and move nothing, and to return what would be.
        :return: what became of it; None where there is nothing to compact.

        What else it takes and raises, `flush` does too.
        """
        return await self._kept(
            lambda: self._compacting().compact(
                source,
                older_than=older_than,
                max_tokens=max_tokens,
                model=model,
                instructions=instructions,
                dry_run=dry_run,
            )
        )

    async def undo_compact(self, path: str | os.PathLike[str]) -> Compacted:
        """Put the originals of a summary back where they were, and the summary into the archive.

        :param path: the summary.
        :raises QueryError: it is none.
        :raises MemoryFileError: an original is not in the archive any more, or its place is taken. Nothing was changed.
        """
        return await self._kept(lambda: self._compacting().undo(path))

    def _flushing(self) -> Flushing:
        from .distill.flush import Flushing
        from .distill.model import Budget

        budget = Budget(self._workspace.root / HIDDEN_FOLDER, self.config)
        return Flushing(self.config, self._components, self._where, self._keeping, budget, self.recall)

    def _compacting(self) -> Compacting:
        from .distill.compact import Compacting
        from .distill.model import Budget

        budget = Budget(self._workspace.root / HIDDEN_FOLDER, self.config)
        return Compacting(
            self.config,
            self._database,
            self._workspace,
            self._components,
            self._syncing,
            self._where,
            self._keeping,
            budget,
        )

    async def _kept(self, work: Callable[[], Awaitable[Answer]]) -> Answer:
        with self._context.notices.collect() as notices:
            await self._begin()
            answer = await work()
        if not notices or not hasattr(answer, "notices"):
            return answer
        return attrs.evolve(answer, notices=list(dict.fromkeys([*notices, *answer.notices])))  # type: ignore[misc]

    async def _begin(self) -> None:
        """Finish what a killed process left half done in the memory files."""
        if not self._finished:
            with self._context.notices.collect() as notices:
                await self._writer.recover()
            self._database.notices += notices
            await self._forgetting.finish()
            self._finished = True
