"""Forget a text for good: in its file, in the index, and on the pages of the index that were not reused."""

from __future__ import annotations

import asyncio
import hashlib
import os
from bisect import bisect_left, bisect_right
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import attrs

from ..errors import IndexBusyError, IndexUnavailableError, KipuError, MemoryClosedError, MemoryFileError
from ..index.annotations import OF_NO_CHUNK
from ..index.batch import Batch, apply
from ..index.database import BUSY_SECONDS
from ..index.queries import CHUNKS_AND_FILES, known_files
from ..index.recovery import recovering
from ..index.strategy_tables import change, tables_of
from ..indexing.synchronizer import OLD_PAGES
from ..markdown import canonical, entries
from ..sqlite import IndexDamageError, sqlite_errors
from ..types import Place, Receipt, Trace
from ..workspace.paths import HIDDEN_FOLDER
from ..workspace.reader import IrregularFileError, read_regular
from ..workspace.text import NotTextError, decode
from .change import take_out
from .duplicates import probe_word
from .files import write_new
from .history import RECORD
from .named import resolve
from .pages import BYTES_AT_A_TIME, INDEX, MARK, SHORTEST_WORD, search_pages
from .supersede import find_superseded
from .targets import include_metadata, resolve_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..context import Context
    from ..index.queries import Snapshot
    from ..index.strategy_tables import Select
    from ..workspace.paths import Workspace
    from .named import Named
    from .targets import Target
    from .writer import Writer

_FAILURES: tuple[type[Exception], ...] = (KipuError, OSError, *sqlite_errors())
_CACHED = "SELECT hash FROM embeddings WHERE hash NOT IN (SELECT hash FROM chunks)"
_CACHED_ANNOTATIONS = f"SELECT hash FROM annotations WHERE {OF_NO_CHUNK}"


class _Count(NamedTuple):
    """How often a text that will be forgotten is in its file and in the index.

    ``hashes`` are those of all vectors and annotations that may be of the text: of the file's chunks, and of texts no
    chunk has.
    """

    in_file: int
    chunks: int
    vectors: int
    annotations: int
    hashes: set[str]


@recovering
async def forget(writer: Writer, named: Named) -> Receipt:
    """Remove a text from its file, the index and the cache of vectors. See `kipu.Memory.forget`."""
    async with writer.locked():
        targets = await resolve(writer.context, named)
        receipts = [await _forget(writer, target) for target in reversed(targets)]  # the lines above them stay
        return receipts[0] if len(receipts) == 1 else await _joined(writer.context, targets, receipts)


async def _forget(writer: Writer, target: Target) -> Receipt:
    context = writer.context
    mark = context.workspace.root / HIDDEN_FOLDER / MARK
    if target.is_chunk:
        target = target.below_headings()  # headings that nothing is left below are removed with it
    target = await include_metadata(context, target)
    before = await _count(context, target)
    await asyncio.to_thread(_write_mark, mark, target.path)
    records = await asyncio.to_thread(_drop_records, writer, target)
    await take_out(writer, target)
    try:
        receipt, left = await _finish(writer, target, before, records)
    except _FAILURES as error:
        # Of another class than those that are retried: the same lines have another text now.
        kind = type(error) if isinstance(error, (IndexBusyError, MemoryClosedError)) else IndexUnavailableError
        raise kind(
            f"The text was removed from {target.place}, but the index may still have it. The next call, or the "
            "next process that opens the memory, removes it there: do not forget these lines again, they have "
            f"another text now. {error}"
        ) from error
    finally:  # after the index is searched for words of the text: the record may have some of them
        await asyncio.to_thread(writer.transactions.history.block, target.real)
    if not left:
        await asyncio.to_thread(mark.unlink, missing_ok=True)
    return receipt


async def _joined(context: Context, targets: Sequence[Target], receipts: Sequence[Receipt]) -> Receipt:
    """Return one receipt for entries with one id. While a text was in several places, only the last one tells all."""
    last = {receipt.sha256: receipt for receipt in receipts}.values()
    traces = [trace for receipt in last for trace in receipt.traces]
    texts = {_text_of_lines(target.text): None for target in targets}  # metadata may differ
    elsewhere = [place for text in filter(None, texts) for place in await _find_elsewhere(context, text)]
    places = (str(target.place) for target in targets)
    notices = [f"{len(receipts)} entries have that id, and all were forgotten: {', '.join(places)}"]
    return attrs.evolve(receipts[-1], traces=traces, elsewhere=elsewhere, notices=notices)


async def finish_forgetting(writer: Writer) -> None:
    """Erase what a killed process had removed from a file but not from the index, if it can be done now."""
    mark = writer.context.workspace.root / HIDDEN_FOLDER / MARK
    try:
        async with writer.locked():
            if not mark.exists():  # another task or process was forgetting, and is done
                return
            path = (await asyncio.to_thread(read_regular, mark, BYTES_AT_A_TIME)).decode("utf-8", "replace")
            left = await _erase(writer, path)
            await asyncio.to_thread(writer.transactions.history.block, path)
            if not left:
                await asyncio.to_thread(mark.unlink, missing_ok=True)
    except _FAILURES:
        return  # the mark stays, for the next process that can write


def _write_mark(mark: Path, path: str) -> None:
    try:
        write_new(mark, path.encode("utf-8"))
    except OSError as error:
        raise MemoryFileError(f"{mark} cannot be written: {error.strerror or error}. Nothing was forgotten.") from error


def _drop_records(writer: Writer, target: Target) -> int:
    """Remove the records of changes that may hold a text. Return how many there were."""
    records = writer.transactions.history.holding(target.real, target.text)
    for path in records:
        try:
            os.remove(path)
        except OSError as error:
            raise MemoryFileError(f"{path} cannot be removed: {error.strerror}. Nothing was forgotten.") from error
    return len(records)


async def _count(context: Context, target: Target) -> _Count:
    in_file = (await asyncio.to_thread(_read_text, context.workspace, target.real)).count(target.text)
    async with context.database.reader() as connection:
        rows = await connection.execute_fetchall(
            "SELECT chunks.hash, start_line <= ? AND end_line >= ?, "
            "(SELECT count(*) FROM embeddings WHERE embeddings.hash = chunks.hash), annotations.hash "
            f"FROM {CHUNKS_AND_FILES} LEFT JOIN annotations ON annotations.hash = annotation_hash(heading, text) "
            "WHERE files.path = ?",
            (target.end_line, target.start_line, target.path),
        )
        cached = await connection.execute_fetchall(f"{_CACHED} UNION {_CACHED_ANNOTATIONS}")
    found = [row for row in rows if row[1]]
    hashes = {row[0] for row in (*rows, *cached)} | {row[3] for row in rows}
    return _Count(in_file, len(found), sum(row[2] for row in found), sum(map(bool, {row[3] for row in found})), hashes)


@recovering
async def _erase(writer: Writer, path: str) -> list[str]:
    """Remove from the index what a file does not say any more, even if a plugin fails. Return what still has it."""
    report = await writer.synchronizer.refresh()  # of all files: another hard link to this one has its text too
    if report is None or path in report.pending:
        await _drop_file(writer.context, path)
    return await writer.synchronizer.scrub()


async def _drop_file(context: Context, path: str) -> None:
    """Remove a file from the index. The next search that can index it does so."""

    async def work(snapshot: Snapshot, select: Select) -> None:
        known = await known_files(snapshot.connection, [path])
        await apply(snapshot, Batch(removed=list(known.values())), select(snapshot))

    tables = partial(tables_of, strategies=context.components.indexed, identity=None)
    await change(context.database, tables, work, context.notices, BUSY_SECONDS)


# --- the receipt -----------------------------------------------------------------------------------------------------


@recovering
async def _finish(writer: Writer, target: Target, before: _Count, records: int) -> tuple[Receipt, list[str]]:
    """Remove from the index what was taken out of a file. Return the receipt, and the places that still have it."""
    context = writer.context
    left = await _erase(writer, target.path)
    pages = await search_pages(context, target.real, target.text)
    if pages.get(INDEX) and not left:  # a strategy has left it in its tables
        left = await writer.synchronizer.scrub(rebuild_tables=True)
        pages = await search_pages(context, target.real, target.text)
    if context.scope.label is None:  # records of other texts that have a word which is nowhere else now
        for place in [place for place, count in pages.items() if count and RECORD.fullmatch(place)]:
            await asyncio.to_thread(os.remove, context.workspace.root / place)
            records += bool(pages.pop(place))
    left_records = await asyncio.to_thread(writer.transactions.history.holding, target.real, target.text)
    receipt = await _receipt(context, target, before, pages, [Trace("undo: changes", records, len(left_records))], left)
    await _add_notices(context, target)
    if OLD_PAGES in left:
        context.notices.add(
            "Another process is reading the index, so the text stays on the disk until it is done. The next process "
            "that opens the memory after that removes it."
        )
    return receipt, left


async def _receipt(
    context: Context, target: Target, before: _Count, pages: dict[str, int], more: list[Trace], left: list[str]
) -> Receipt:
    wanted = _text_of_lines(target.text)
    elsewhere = await _find_elsewhere(context, wanted) if wanted else []
    # The same text may be in the file more than once: that is reported as elsewhere.
    left_in_file = (await asyncio.to_thread(_read_text, context.workspace, target.real)).count(target.text)
    chunks = 0
    async with context.database.reader() as connection:
        if wanted and not elsewhere:
            rows = await connection.execute_fetchall(
                f"SELECT files.path FROM {CHUNKS_AND_FILES} WHERE instr(text, ?) OR instr(context, ?)",
                (target.text, target.text),
            )
            if not left_in_file and any(row[0] == target.path for row in rows):
                raise IndexDamageError("a row of a table cannot be removed")
            chunks = sum(context.scope.sees(row[0]) for row in rows)
        vectors = {row[0] for row in await connection.execute_fetchall(_CACHED)} & before.hashes
        annotations = {row[0] for row in await connection.execute_fetchall(_CACHED_ANNOTATIONS)} & before.hashes
    traces = [
        Trace(target.path, 1, int(bool(wanted) and left_in_file >= max(1, before.in_file))),
        Trace("index: chunks", before.chunks, chunks),
        *more,
    ]
    # Equal texts of all scopes share a vector, and all texts share the pages and the folder of the index: what is found
    # there depends on what others wrote. So in a scope, a receipt counts only the files and chunks of that scope.
    if context.scope.label is None:
        traces.append(Trace("index: vectors", before.vectors, len(vectors)))
        if before.annotations or annotations:
            traces.append(Trace("index: annotations", before.annotations, len(annotations)))
        for place, count in pages.items():
            traces.append(Trace(f"{place}: words of the text", max(int(before.chunks > 0), count), count))
            if count and not (OLD_PAGES in left and place.startswith(INDEX)):
                context.notices.add(
                    f"{place} has words of the text, or cannot be read. Kipu does not delete it: it may be a file of "
                    "another program, or a copy that was kept for you. Look into it, and delete it if you can."
                )
        if not pages:
            context.notices.add(
                "The index was rewritten without the text. Its pages could not be searched for what is left, because "
                f"the text has no word of {SHORTEST_WORD} letters or more of its own."
            )
    traces += [Trace(place, 1, 1) for place in left]
    digest = hashlib.sha256(target.text.encode("utf-8")).hexdigest()
    return Receipt(target.path, target.start_line, target.end_line, digest, traces, elsewhere)


async def _add_notices(context: Context, target: Target) -> None:
    for entry in entries(target.text.split("\n")):
        id = entry.id_in(context.workspace.source_of(target.path))
        for place in await find_superseded(context, id, is_derived=id != entry.metadata.get("id")):
            context.notices.add(f"{place} names {id} as its successor, which does not exist any more.")
    if await asyncio.to_thread((context.workspace.root / ".git").exists):
        context.notices.add("Kipu does not change what git has of the file: an earlier commit may still have the text.")


def _text_of_lines(text: str) -> str:
    """Return what lines say: of a single entry, without the mark of an item and its metadata."""
    found = entries(text.split("\n"))
    return canonical(found[0].text if len(found) == 1 else text)


async def _find_elsewhere(context: Context, wanted: str) -> list[Place]:
    """Return other lines of the memory that say the same, in however many chunks."""
    async with context.database.reader() as connection:
        rows = await connection.execute_fetchall(
            f"SELECT DISTINCT files.path FROM {CHUNKS_AND_FILES} WHERE instr(text, ?) ORDER BY files.path",
            (probe_word(wanted),),
        )
    paths = [row[0] for row in rows if context.scope.sees(row[0])]
    return await asyncio.to_thread(_find_lines, context, paths, wanted)


def _find_lines(context: Context, paths: Sequence[str], wanted: str) -> list[Place]:
    places = []
    for path in paths:
        try:
            text = _read_text(context.workspace, resolve_file(context, path)[1])
        except KipuError:
            continue  # it was removed since
        except OSError as error:
            context.notices.add(f"{path} cannot be read, and may have the text too: {error.strerror or error}.")
            continue
        places += [Place(path, *lines) for lines in _matching_lines(wanted, text)]
    return places


def _matching_lines(wanted: str, text: str) -> list[tuple[int, int]]:
    """Return the first and last lines, from 1, of each place in a text that says the same, apart from white space."""
    ends: list[int] = []  # where each line ends in the text as it is compared
    compared = ""
    for line in text.split("\n"):
        words = canonical(line)
        compared += f" {words}" if compared and words else words
        ends.append(len(compared))
    found = []
    start = compared.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        if not _splits_word(compared, start) and not _splits_word(compared, end):
            found.append((bisect_right(ends, start) + 1, bisect_left(ends, end) + 1))
        start = compared.find(wanted, end)
    return found


def _splits_word(text: str, position: int) -> bool:
    """Return whether a position is inside a word of ASCII letters; scripts without spaces have no such position."""
    around = text[max(0, position - 1) : position + 1]
    return len(around) == 2 and around.isascii() and around.isalnum()


def _read_text(workspace: Workspace, real: str) -> str:
    try:
        return decode(workspace.read(real))
    except (FileNotFoundError, IrregularFileError, NotTextError):
        return ""
