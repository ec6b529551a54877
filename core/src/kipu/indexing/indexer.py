"""Bring the index up to date with the memory files: compare, read, chunk, and write a batch at a time.

Every step can be interrupted at any moment. What was not written is found by the next run, because a file's row is
written together with its chunks and never before them.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import attrs

from ..errors import MemoryFileError, PluginError
from ..index.batch import Batch, PreparedFile, apply
from ..index.database import BUSY_SECONDS
from ..index.queries import KnownFile, count_chunks, known_files
from ..index.strategy_tables import Select, StrategyTables, change, rebuild, stale_tables, tables_of
from ..markdown import entries, page_properties
from ..types import Document, IndexReport, SkippedFile
from .compare import compare, missing_folders
from .contents import read_contents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..context import Context
    from ..index.queries import Snapshot
    from ..markdown import Entry
    from ..plugins.adapters import ChunkerAdapter, StrategyAdapter
    from ..workspace.paths import FoundFile
    from .compare import Pending

# A batch is what one transaction writes and what a run holds in memory: enough to be fast, too little to be noticed.
_FILES_IN_BATCH = 100
_BYTES_IN_BATCH = 1_000_000
# How often to look again at files that another process wrote while this one prepared them.
_ATTEMPTS = 5


def ignore_progress(done: int, total: int) -> None:
    """Ignore the number of files or chunks done, and of all."""


@attrs.define
class Indexer:
    """Brings one index up to date with one workspace.

    ``strategies`` are those with an index of their own, by the name of their class, and ``identity`` is that of the
    configured embedder. All files are indexed; a report counts and names those that the scope sees.
    """

    context: Context
    chunker: ChunkerAdapter
    strategies: Mapping[str, StrategyAdapter]
    identity: str | None = None

    def tables(self, snapshot: Snapshot) -> list[StrategyTables]:
        """Return the tables that the strategies have or should have."""
        return tables_of(snapshot, self.strategies, self.identity)

    # --- looking ---------------------------------------------------------------------------------------------------

    async def look(self, *, force: bool = False, prune: bool = False) -> Pending:
        """Compare the files on disk with the index: by time stamp and size, then by SHA-256."""
        async with self.context.database.snapshot() as snapshot:
            known = await known_files(snapshot.connection)
            tables = self.tables(snapshot)
            stale = tables if force else stale_tables(snapshot, tables)
        context, identity = self.context, None if force else self.chunker.identity
        pending = await asyncio.to_thread(compare, context.workspace, known, identity, prune, context.scope.sees)
        pending.tables, pending.index_id = bool(stale), snapshot.index_id
        return pending

    # --- indexing --------------------------------------------------------------------------------------------------

    async def index(
        self,
        *,
        force: bool = False,
        prune: bool = False,
        pending: Pending | None = None,
        wait: float = BUSY_SECONDS,
        on_progress: Callable[[int, int], None] = ignore_progress,
    ) -> IndexReport:
        """Index every change.

        :param force: read and chunk every file and rebuild every strategy's tables, changed or not.
        :param prune: remove files whose folder is missing.
        :param pending: what `look` returned, if it was called already.
        :param wait: how many seconds to wait for another process that is writing.
        :param on_progress: called with the number of files done and of all files that must be read.
        :raises IndexBusyError: another process was writing for longer than that. What was written before stays.
        """
        start = time.perf_counter()
        if pending is None:
            pending = await self.look(force=force, prune=prune)
        report = IndexReport(unchanged=pending.unchanged)
        for _ in range(_ATTEMPTS):
            overtaken = await self._index_pending(pending, report, force=force, wait=wait, on_progress=on_progress)
            if not overtaken:
                break
            pending, force = await self.look(prune=prune), False
        report.pending += sorted(overtaken)
        await self._finish(report, pending)
        report.seconds = time.perf_counter() - start
        return report

    async def _index_pending(
        self,
        pending: Pending,
        report: IndexReport,
        *,
        force: bool,
        wait: float,
        on_progress: Callable[[int, int], None],
    ) -> set[str]:
        """Index what is pending, and return the files that another process wrote meanwhile."""
        report.skipped, report.pending = list(pending.scan.skipped), []
        if pending.tables:
            await self.rebuild_tables(everything=force, wait=wait)
        vanished, overtaken, done = _ByHash(pending.vanished), set(), 0
        seen = self.context.scope.seen
        total = len(seen(file.path for file in pending.changed))
        if total:
            on_progress(done, total)
        for files in _batches(pending.changed):
            batch, skipped = await self._prepare(files, pending.known, vanished, force)
            report.skipped += skipped
            report.pending += [file.path for file in skipped]
            overtaken |= await self._write(batch, report, wait)
            if in_batch := len(seen(file.path for file in files)):
                done += in_batch
                on_progress(done, total)
        known = pending.known
        touched = [
            PreparedFile.of(found, known[found.path].hash, known[found.path].chunker, known[found.path])
            for found in pending.touched
        ]
        overtaken |= await self._write(Batch(touched), None, wait)
        overtaken |= await self._write(Batch(removed=vanished.rest()), report, wait)
        return overtaken

    async def rebuild_tables(self, *, everything: bool = False, wait: float = BUSY_SECONDS) -> None:
        """Rebuild the stale tables of strategies, or all of them."""

        async def work(snapshot: Snapshot, select: Select) -> None:
            tables = select(snapshot)
            for each in tables if everything else stale_tables(snapshot, tables):
                await rebuild(snapshot.connection, each)

        await change(self.context.database, self.tables, work, self.context.notices, wait)

    async def refresh(self, paths: Sequence[str], *, force: bool = False, added: str | None = None) -> IndexReport:
        """Index single files that were just written or removed; no others are looked at.

        :param added: what a caller named the only file, if it is added to the memory and must be readable.
        """
        start, report = time.perf_counter(), IndexReport()
        for _ in range(_ATTEMPTS):
            async with self.context.database.reader() as connection:
                known = await known_files(connection, paths)
            found = {path: self.context.workspace.look(path) for path in paths}
            existing = [file for file in found.values() if file]
            batch, report.skipped = await self._prepare(existing, known, _ByHash([]), force)
            if added is not None:
                _mark_added(batch, report.skipped, added)
            report.pending = [file.path for file in report.skipped]
            batch.removed = [known[path] for path, file in found.items() if file is None and path in known]
            if not await self._write(batch, report, BUSY_SECONDS):
                break
        report.seconds = time.perf_counter() - start
        return report

    async def add(self, path: str, *, force: bool = False) -> IndexReport:
        """Index one file by name, wherever it is in the workspace, and keep it up to date from now on.

        :raises MemoryFileError: it is missing, a folder, not Markdown, excluded, or cannot be read.
        :raises OutsideWorkspaceError: it leads out of the workspace.
        """
        found = self.context.workspace.find_memory_file(path)
        report = await self.refresh([found.path], force=force, added=path)
        async with self.context.database.reader() as connection:
            report.chunks = await count_chunks(connection, self.context.scope.sources)
        return report

    async def _write(self, batch: Batch, report: IndexReport | None, wait: float) -> set[str]:
        """Write a batch, count it, and return the files that another process wrote since it was prepared."""
        if not batch.files and not batch.removed:
            return set()

        async def work(snapshot: Snapshot, select: Select) -> set[str]:
            tables = select(snapshot)
            for each in stale_tables(snapshot, tables):
                await rebuild(snapshot.connection, each)
            return await apply(snapshot, batch, tables)

        overtaken = await change(self.context.database, self.tables, work, self.context.notices, wait)
        if report is not None:
            _count(report, batch, lambda path: path not in overtaken and self.context.scope.sees(path))
        return overtaken

    async def _finish(self, report: IndexReport, pending: Pending) -> None:
        async with self.context.database.reader() as connection:
            report.chunks = await count_chunks(connection, self.context.scope.sources)
            known = await known_files(connection)
        problems = {file.path: file.problem for file in known.values() if file.problem}
        report.skipped += [SkippedFile(path, problem) for path, problem in sorted(problems.items())]
        report.missing = [folder for folder in missing_folders(pending) if self.context.scope.sees_folder(folder)]

    # --- reading and chunking --------------------------------------------------------------------------------------

    async def _prepare(
        self, files: Sequence[FoundFile], known: Mapping[str, KnownFile], vanished: _ByHash, force: bool
    ) -> tuple[Batch, list[SkippedFile]]:
        """Read and chunk files: return them as the index should have them, and those that must be tried again."""
        contents, skipped = await asyncio.to_thread(read_contents, self.context.workspace, files)
        batch, identity = Batch(fresh=force), self.chunker.identity
        changed: list[tuple[PreparedFile, Document]] = []
        for content in contents:
            found, before = content.found, known.get(content.found.path)
            same = before is not None and (before.hash, before.chunker) == (content.hash, identity)
            if before is not None and same and before.source == found.source and not force:
                batch.files.append(PreparedFile.of(found, content.hash, identity, before))
                continue
            file = PreparedFile.of(found, content.hash, identity, before or vanished.take(content.hash))
            if content.problem is not None:
                batch.files.append(attrs.evolve(file, chunks=(), problem=content.problem))
            else:
                changed.append((file, Document(found.path, content.text)))
        documents = [document for _, document in changed]
        outcomes = await self.chunker.chunk(documents)
        read = await asyncio.to_thread(_read_markdown, documents)
        for (file, document), outcome, (properties, units) in zip(changed, outcomes, read, strict=True):
            if isinstance(outcome, PluginError):
                skipped.append(SkippedFile(document.path, f"was not chunked: {str(outcome).removesuffix('.')}"))
            else:
                indexed = attrs.evolve(file, chunks=outcome, problem=None)
                batch.files.append(attrs.evolve(indexed, properties=properties, entries=units))
        return batch, skipped


def _read_markdown(documents: Sequence[Document]) -> list[tuple[dict[str, list[str]], list[Entry]]]:
    """Return the properties and the entries of each document."""
    files = [document.text.split("\n") for document in documents]
    return [(page_properties(lines), entries(lines)) for lines in files]


def _mark_added(batch: Batch, skipped: Sequence[SkippedFile], name: str) -> None:
    """Mark the file of a batch as added by name; raise MemoryFileError if it could not be read."""
    reasons = [file.reason for file in skipped] + [file.problem for file in batch.files if file.problem]
    if reasons or not batch.files:
        raise MemoryFileError(f"{name} {reasons[0] if reasons else 'does not exist any more'}.")
    batch.files = [attrs.evolve(file, added=True) for file in batch.files]


def _count(report: IndexReport, batch: Batch, counts: Callable[[str], bool]) -> None:
    """Add to a report what a batch changed, as far as paths count: a file may have had one that does not."""
    for file in batch.files:
        was = file.before is not None and counts(file.before.path)
        if not counts(file.path):
            report.removed += was and file.renamed
        elif file.chunks is None:
            report.unchanged += 1
        elif not was:
            report.added += 1
        elif file.renamed:
            report.renamed += 1
        else:
            report.changed += 1
    report.removed += sum(counts(file.path) for file in batch.removed)


class _ByHash:
    """Files that vanished, to be found under another name by their content."""

    def __init__(self, files: Sequence[KnownFile]) -> None:
        self._files = {file.path: file for file in files}
        self._paths: dict[str, list[str]] = {}
        for file in files:
            self._paths.setdefault(file.hash, []).append(file.path)

    def take(self, hash: str) -> KnownFile | None:
        """Remove and return a file with that content."""
        paths = self._paths.get(hash)
        return self._files.pop(paths.pop()) if paths else None

    def rest(self) -> list[KnownFile]:
        """Return the files that were not taken."""
        return list(self._files.values())


def _batches(files: Sequence[FoundFile]) -> Iterator[list[FoundFile]]:
    batch: list[FoundFile] = []
    size = 0
    for file in files:
        batch.append(file)
        size += file.size
        if len(batch) >= _FILES_IN_BATCH or size >= _BYTES_IN_BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
