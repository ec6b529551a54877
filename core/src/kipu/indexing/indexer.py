"""Brings the index up to date with the memory files: look, compare, read, chunk, and write a batch at a time.

Every step can be interrupted at any moment. What was not written yet is found again by the next run, because a
file's row is written together with its chunks and never before them.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import MemoryFileError
from ..index.batch import Batch, PreparedFile, apply
from ..index.database import BUSY_SECONDS
from ..index.queries import KnownFile, count_chunks, known_files
from ..index.strategy_tables import backfill, outdated, tables_of
from ..plugins.calls import chunker_identity, chunks_of
from ..types import IndexReport, SkippedFile
from ..workspace.scan import Scan, folders_above, is_memory_file_name
from ..workspace.scope import Scope
from ..workspace.text import NotTextError, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..index.database import Database
    from ..types import Chunker
    from ..workspace.scan import FoundFile, Workspace

__all__ = ["Indexer", "Pending"]

# A batch is what one transaction writes and what a run holds in memory: enough to be fast, too little to be felt.
_FILES_IN_BATCH = 100
_BYTES_IN_BATCH = 1_000_000
# How often to look again at files that another process wrote while this one prepared them.
_ATTEMPTS = 5
# Clocks of file systems tick as slowly as every two seconds (FAT). A file that changed less than this before it was
# read may change again without its time stamp showing it, so its stamp is not trusted until later.
_TICK_NS = 2_000_000_000


@attrs.define
class Pending:
    """How the files on disk differ from the index.

    ``touched`` are files that say what they said, but whose time stamp the index does not have. ``tables`` is true when
    a strategy's tables are to be made.
    """

    scan: Scan
    known: dict[str, KnownFile]
    changed: list[FoundFile] = attrs.field(factory=list)
    touched: list[FoundFile] = attrs.field(factory=list)
    vanished: list[KnownFile] = attrs.field(factory=list)
    kept: list[KnownFile] = attrs.field(factory=list)
    unchanged: int = 0
    tables: bool = False

    @property
    def paths(self) -> list[str]:
        """The files that the index does not have as they are on disk, sorted."""
        return sorted({file.path for file in self.changed} | {file.path for file in self.vanished})

    @property
    def matters(self) -> bool:
        """Whether a search would find something else if it was taken in."""
        return bool(self.changed or self.vanished or self.tables)

    def __bool__(self) -> bool:
        return self.matters or bool(self.touched)


@attrs.define
class Indexer:
    """Brings one index up to date with one workspace.

    ``strategies`` are those with an index of their own, and ``identity`` is that of the embedder that is used. All
    files are taken in; a report counts and names those that ``scope`` sees.
    """

    database: Database
    workspace: Workspace
    chunker: Chunker
    strategies: Mapping[str, Any]
    identity: str | None = None
    scope: Scope = attrs.field(factory=Scope)

    # --- looking ---------------------------------------------------------------------------------------------------

    async def look(self, *, force: bool = False, prune: bool = False) -> Pending:
        """Compare what is on disk with what the index has: by time stamp and size, then by SHA-256."""
        async with self.database.reader() as connection:
            known = await known_files(connection)
            tables = await tables_of(connection, self.strategies, self.identity)
            stale = await outdated(connection, tables)
        pending = await asyncio.to_thread(self._compare, known, force, prune)
        pending.tables = bool(tables if force else stale)
        return pending

    def _compare(self, known: dict[str, KnownFile], force: bool, prune: bool) -> Pending:
        scan = self.workspace.scan()
        self._look_at_added(scan, known)
        pending = Pending(scan, known)
        identity = chunker_identity(self.chunker)
        now = time.time_ns()
        for path, found in scan.files.items():
            file = known.get(path)
            if file is not None and not force and file.chunker == identity:
                if _stamp(file) == _stamp(found):
                    pending.unchanged += self.scope.sees(path)
                    continue
                if file.size == found.size and _digest(found.real) == file.hash:
                    pending.unchanged += self.scope.sees(path)
                    if _settled(found, now):
                        pending.touched.append(found)
                    continue
            pending.changed.append(found)
        for path, file in known.items():
            if path in scan.files:
                continue
            if scan.covers(path) or prune:
                pending.vanished.append(file)
            else:
                pending.kept.append(file)
        return pending

    def _look_at_added(self, scan: Scan, known: Mapping[str, KnownFile]) -> None:
        """Files that were added by name belong to the memory although no folder of it leads to them."""
        added = [path for path, file in known.items() if file.added and path not in scan.files]
        by_real_path = {file.real: file.path for file in scan.files.values()} if added else {}
        for path in added:
            found = self.workspace.look(path)
            if found is not None:
                # A link that leads there may be gone tomorrow: the name that somebody gave comes first.
                other = scan.other_name_of(found.real)
                scan.files.pop(by_real_path.get(found.real, other.path if other else ""), None)
                scan.files[path] = found

    def absent_paths(self, pending: Pending) -> list[str]:
        """Sentences about configured paths that are not there and of which the index has nothing either."""
        configured = [self.workspace.name_of(root) for root in self.workspace.roots[1:]]
        absent = set(pending.scan.missing) - set(missing_folders(pending))
        return [f"{path} is not there, although files.paths names it." for path in configured if path in absent]

    # --- indexing --------------------------------------------------------------------------------------------------

    async def index(
        self,
        *,
        force: bool = False,
        prune: bool = False,
        pending: Pending | None = None,
        wait: float = BUSY_SECONDS,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> IndexReport:
        """Take in every change.

        :param force: read and chunk every file and make every strategy's tables anew, changed or not.
        :param prune: forget files whose folder is missing.
        :param pending: what `look` found, if it was asked already.
        :param wait: how many seconds to wait for another process that is writing.
        :param on_progress: called with the number of files done and of all files that are to be read.
        :raises IndexBusyError: another process was writing for longer than that. What was written before stays.
        """
        start = time.perf_counter()
        if pending is None:
            pending = await self.look(force=force, prune=prune)
        report = IndexReport(unchanged=pending.unchanged)
        for _ in range(_ATTEMPTS):
            overtaken = await self._run(pending, report, force=force, wait=wait, on_progress=on_progress)
            if not overtaken:
                break
            pending, force = await self.look(prune=prune), False
        report.pending += sorted(overtaken)
        await self._finish(report, pending)
        report.seconds = time.perf_counter() - start
        return report

    async def _run(
        self,
        pending: Pending,
        report: IndexReport,
        *,
        force: bool,
        wait: float,
        on_progress: Callable[[int, int], None],
    ) -> set[str]:
        """Take in what is pending, and return the files that another process wrote meanwhile."""
        report.skipped, report.pending = list(pending.scan.skipped), []
        if pending.tables:
            async with self.database.transaction(wait) as connection:
                tables = await tables_of(connection, self.strategies, self.identity)
                for each in tables if force else await outdated(connection, tables):
                    await backfill(connection, each)
        vanished, overtaken, done = _ByHash(pending.vanished), set(), 0
        on_progress(done, len(pending.changed))
        for files in _batches(pending.changed):
            batch = await asyncio.to_thread(self._prepare, files, pending.known, vanished, force, report)
            overtaken |= await self._write(batch, report, wait)
            done += len(files)
            on_progress(done, len(pending.changed))
        known = pending.known
        touched = [
            PreparedFile.of(found, known[found.path].hash, known[found.path].chunker, known[found.path])
            for found in pending.touched
        ]
        overtaken |= await self._write(Batch(touched), None, wait)
        overtaken |= await self._write(Batch(removed=vanished.left()), report, wait)
        return overtaken

    async def refresh(self, paths: Sequence[str]) -> IndexReport:
        """Take in single files that were just written or removed; the others are not looked at."""
        start, report = time.perf_counter(), IndexReport()
        for _ in range(_ATTEMPTS):
            async with self.database.reader() as connection:
                known = await known_files(connection, paths)
            found = {path: self.workspace.look(path) for path in paths}
            batch = await asyncio.to_thread(
                self._prepare, [file for file in found.values() if file], known, _ByHash([]), False, report
            )
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
        start = time.perf_counter()
        found = self._found(path)
        for _ in range(_ATTEMPTS):
            report = IndexReport()
            async with self.database.reader() as connection:
                known = await known_files(connection, [found.path])
            batch = await asyncio.to_thread(self._prepare, [found], known, _ByHash([]), force, report)
            reasons = [file.reason for file in report.skipped] + [file.problem for file in batch.files if file.problem]
            if reasons or not batch.files:
                raise MemoryFileError(f"{path} {reasons[0] if reasons else 'is not there any more'}.")
            batch.files = [attrs.evolve(file, added=True) for file in batch.files]
            if not await self._write(batch, report, BUSY_SECONDS):
                break
        async with self.database.reader() as connection:
            report.chunks = await count_chunks(connection, self.scope.sources)
        report.seconds = time.perf_counter() - start
        return report

    def _found(self, path: str) -> FoundFile:
        real = self.workspace.locate(path)
        name = self.workspace.name_of(real)
        if os.path.isdir(real):
            raise MemoryFileError(f'{path} is a folder. Folders are named in kipu.toml: [files] paths = ["..."].')
        if not is_memory_file_name(name.rpartition("/")[2]):
            raise MemoryFileError(f"{path} is not a Markdown file: its name must end in .md or .markdown.")
        if self.workspace.excluded(name):
            raise MemoryFileError(f"{path} is left out by files.exclude in kipu.toml.")
        if os.path.isfile(real) and os.path.getsize(real) > self.workspace.max_bytes:
            raise MemoryFileError(f"{path} is larger than files.max_bytes in kipu.toml allows.")
        found = self.workspace.look(name)
        if found is None:
            raise MemoryFileError(f"{path} does not exist, or is not a file.")
        return found

    async def _write(self, batch: Batch, report: IndexReport | None, wait: float) -> set[str]:
        """Write a batch, count it, and return the files that another process wrote since it was prepared."""
        if not batch.files and not batch.removed:
            return set()
        async with self.database.transaction(wait) as connection:
            tables = await tables_of(connection, self.strategies, self.identity)
            for each in await outdated(connection, tables):
                await backfill(connection, each)
            overtaken = await apply(connection, batch, tables)
        if report is not None:
            _count(report, batch, {path for path in _paths_of(batch) if path in overtaken or not self.scope.sees(path)})
        return overtaken

    async def _finish(self, report: IndexReport, pending: Pending) -> None:
        async with self.database.reader() as connection:
            report.chunks = await count_chunks(connection, self.scope.sources)
            known = await known_files(connection)
        problems = {file.path: file.problem for file in known.values() if file.problem}
        report.skipped += [SkippedFile(path, problem) for path, problem in sorted(problems.items())]
        report.missing = [folder for folder in missing_folders(pending) if self.scope.sees_folder(folder)]
        report.notices += self.database.notices
        self.database.notices.clear()

    # --- reading and chunking, off the event loop -------------------------------------------------------------------

    def _prepare(
        self,
        files: Sequence[FoundFile],
        known: Mapping[str, KnownFile],
        vanished: _ByHash,
        force: bool,
        report: IndexReport,
    ) -> Batch:
        batch = Batch()
        for found in files:
            before = known.get(found.path)
            try:
                now = time.time_ns()
                with open(found.real, "rb") as file:
                    data = file.read()
            except FileNotFoundError:
                continue  # removed while we looked: the next run sees that
            except OSError as error:
                reason = f"cannot be read: {error.strerror or error}"
                report.skipped.append(SkippedFile(found.path, reason))
                report.pending.append(found.path)
                continue
            batch.files.append(self._prepared(found, data, now, before, vanished, force))
        return batch

    def _prepared(
        self,
        found: FoundFile,
        data: bytes,
        now: int,
        before: KnownFile | None,
        vanished: _ByHash,
        force: bool,
    ) -> PreparedFile:
        digest = hashlib.sha256(data).hexdigest()
        if not _settled(found, now):
            found = found._replace(mtime_ns=0, ctime_ns=0)
        identity = chunker_identity(self.chunker)
        if before is not None and (before.hash, before.chunker) == (digest, identity) and not force:
            return PreparedFile.of(found, digest, identity, before)
        if before is None:
            before = vanished.take(digest)
        file = PreparedFile.of(found, digest, identity, before)
        try:
            return attrs.evolve(file, chunks=chunks_of(self.chunker, found.path, decode(data)), problem=None)
        except NotTextError as error:
            return attrs.evolve(file, chunks=(), problem=str(error))


def _paths_of(batch: Batch) -> list[str]:
    return [*(file.path for file in batch.files), *(file.path for file in batch.removed)]


def _count(report: IndexReport, batch: Batch, left_out: set[str]) -> None:
    """Add to a report what a batch changed, but for some paths."""
    for file in batch.files:
        if file.path in left_out:
            continue
        if file.chunks is None:
            report.unchanged += 1
        elif file.before is None:
            report.added += 1
        elif file.renamed:
            report.renamed += 1
        else:
            report.changed += 1
    report.removed += sum(file.path not in left_out for file in batch.removed)


def missing_folders(pending: Pending) -> list[str]:
    """The folders that are not there although the index has files of theirs, which it keeps."""
    above = {folder for file in pending.kept for folder in folders_above(file.path)}
    return [folder for folder in (*pending.scan.missing, *pending.scan.dangling) if folder in above]


def _stamp(file: KnownFile | FoundFile) -> tuple[int, int, int]:
    return file.mtime_ns, file.ctime_ns, file.size


def _settled(file: FoundFile, now: int) -> bool:
    """Whether a change after ``now`` would show in the file's time stamp."""
    return now - max(file.mtime_ns, file.ctime_ns) > _TICK_NS


def _digest(path: str) -> str | None:
    """The SHA-256 of a file; None where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


class _ByHash:
    """Files that vanished, to be found again under another name by what they say."""

    def __init__(self, files: Sequence[KnownFile]) -> None:
        self._files = {file.path: file for file in files}
        self._paths: dict[str, list[str]] = {}
        for file in files:
            self._paths.setdefault(file.hash, []).append(file.path)

    def take(self, hash: str) -> KnownFile | None:
        paths = self._paths.get(hash)
        return self._files.pop(paths.pop()) if paths else None

    def left(self) -> list[KnownFile]:
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
