"""Forget a text for good: in its file, in the index, and on the pages of the index that were not reused."""

from __future__ import annotations

import asyncio
import hashlib
from bisect import bisect_left, bisect_right
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..errors import IndexUnavailableError, KipuError, MemoryFileError
from ..index.batch import Batch, apply
from ..index.database import BUSY_SECONDS
from ..index.queries import CHUNKS_AND_FILES, known_files
from ..index.strategy_tables import change, tables_of
from ..markdown import canonical, entries
from ..types import Place, Receipt, Trace
from ..workspace.paths import HIDDEN_FOLDER
from ..workspace.reader import IrregularFileError
from ..workspace.text import NotTextError, decode
from .change import take_out
from .duplicates import probe_word
from .files import write_new
from .supersede import find_superseded
from .targets import include_metadata, resolve, resolve_file

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from pathlib import Path

    from ..context import Context
    from ..index.queries import Snapshot
    from ..index.strategy_tables import Select
    from ..workspace.paths import Workspace
    from .targets import Target
    from .writer import Writer

__all__ = ["finish_forgetting", "forget"]

# How much of a file is searched for words at a time.
_BYTES_AT_A_TIME = 8_000_000
_SHORTEST_WORD = 6
_MAX_WORDS = 10
_MARK = "forgetting"  # a file that is there while a text is being forgotten


class _Count(NamedTuple):
    """How often a text that will be forgotten is in its file and in the index, and the hashes of the file's chunks."""

    in_file: int
    chunks: int
    vectors: int
    hashes: list[str]


async def forget(
    writer: Writer,
    *,
    chunk: str | None,
    path: str | os.PathLike[str] | None,
    start: int | None,
    end: int | None,
    expected: str | None,
) -> Receipt:
    """Remove a text from its file, the index and the cache of vectors. See `kipu.Memory.forget`."""
    context = writer.context
    mark = context.workspace.root / HIDDEN_FOLDER / _MARK
    async with writer.locked():
        target = await resolve(context, chunk, path, start, end, expected)
        if chunk is not None:
            target = target.below_headings()  # headings that nothing is left below are removed with it
        target = await include_metadata(context, target)
        await asyncio.to_thread(_write_mark, mark)
        before = await _count(context, target)
        await take_out(writer, target)
        try:
            await _erase(writer, target.path, before.hashes)
        except IndexUnavailableError as error:
            raise type(error)(
                f"The text was removed from {target.path}, but not from the index yet: the next process that opens the "
                f"memory and can write the index does that. {error}"
            ) from error
        receipt = await _receipt(context, target, before)
        if any(trace.after for trace in receipt.traces):  # tables of a strategy that is not used here, perhaps
            await writer.synchronizer.rebuild_all_tables()
            receipt = await _receipt(context, target, before)
        await _add_notices(context, target)
        if not any(trace.after for trace in receipt.traces):
            await asyncio.to_thread(mark.unlink, missing_ok=True)
            return receipt
    context.notices.add(
        "Another process is reading the index, so the text stays on the disk until it is done. The next process that "
        "opens the memory after that removes it."
    )
    return receipt


async def finish_forgetting(writer: Writer) -> None:
    """Erase what a killed process had removed from a file but not from the index, if it can be done now."""
    context = writer.context
    mark = context.workspace.root / HIDDEN_FOLDER / _MARK
    if not mark.exists():
        return
    try:
        async with writer.locked():
            async with context.database.reader() as connection:
                rows = await connection.execute_fetchall(
                    "SELECT DISTINCT hash FROM embeddings WHERE hash NOT IN (SELECT hash FROM chunks)"
                )
            await writer.synchronizer.scrub([row[0] for row in rows])
            if not context.database.has_log:  # else another process reads what was there before
                await asyncio.to_thread(mark.unlink, missing_ok=True)
    except (KipuError, OSError):
        return  # the mark stays, for the next process that can write


def _write_mark(mark: Path) -> None:
    try:
        write_new(mark, b"")
    except OSError as error:
        raise MemoryFileError(f"{mark} cannot be written: {error.strerror or error}. Nothing was forgotten.") from error


async def _count(context: Context, target: Target) -> _Count:
    in_file = (await asyncio.to_thread(_read_text, context.workspace, target.real)).count(target.text)
    async with context.database.reader() as connection:
        rows = await connection.execute_fetchall(
            "SELECT chunks.hash, start_line <= ? AND end_line >= ?, "
            "(SELECT count(*) FROM embeddings WHERE embeddings.hash = chunks.hash) "
            f"FROM {CHUNKS_AND_FILES} WHERE files.path = ?",
            (target.end_line, target.start_line, target.path),
        )
    found = [row for row in rows if row[1]]
    return _Count(in_file, len(found), sum(row[2] for row in found), [row[0] for row in rows])


async def _erase(writer: Writer, path: str, hashes: Sequence[str]) -> None:
    """Remove from the index what a file does not say any more, even if a plugin fails."""
    report = await writer.synchronizer.refresh()  # of all files: another hard link to this one has its text too
    if report is None or path in report.pending:
        await _drop_file(writer.context, path)
    await writer.synchronizer.scrub(hashes)


async def _drop_file(context: Context, path: str) -> None:
    """Remove a file from the index. The next search that can index it does so."""

    async def work(snapshot: Snapshot, select: Select) -> None:
        known = await known_files(snapshot.connection, [path])
        await apply(snapshot, Batch(removed=list(known.values())), select(snapshot))

    tables = partial(tables_of, strategies=context.components.indexed, identity=None)
    await change(context.database, tables, work, context.notices, BUSY_SECONDS)


# --- the receipt -----------------------------------------------------------------------------------------------------


async def _receipt(context: Context, target: Target, before: _Count) -> Receipt:
    wanted = _text_of_lines(target.text)
    elsewhere = await _find_elsewhere(context, wanted) if wanted else []
    # The same text may be in the file more than once: that is reported as elsewhere.
    left_in_file = (await asyncio.to_thread(_read_text, context.workspace, target.real)).count(target.text)
    chunks = vectors = 0
    async with context.database.reader() as connection:
        if before.hashes and wanted and not elsewhere:
            rows = await connection.execute_fetchall(
                f"SELECT files.path FROM {CHUNKS_AND_FILES} WHERE instr(text, ?) OR instr(context, ?)",
                (target.text, target.text),
            )
            chunks = sum(context.scope.sees(row[0]) for row in rows)
        rows = await connection.execute_fetchall(
            "SELECT hash FROM embeddings WHERE hash NOT IN (SELECT hash FROM chunks)"
        )
        vectors = len({row[0] for row in rows}.intersection(before.hashes))
    traces = [
        Trace(target.path, 1, int(bool(wanted) and left_in_file >= max(1, before.in_file))),
        Trace("index: chunks", before.chunks, chunks),
        Trace("index: vectors", before.vectors, vectors),
    ]
    if words := await _find_unique_words(context, target.text):
        folder = context.workspace.root / HIDDEN_FOLDER
        for name, count in (await asyncio.to_thread(_count_on_pages, folder, words)).items():
            traces.append(Trace(f"{HIDDEN_FOLDER}/{name}: words on its pages", int(before.chunks > 0), count))
    else:
        context.notices.add(
            f"The text has no word of {_SHORTEST_WORD} letters or more that the memory has nowhere else, so the pages "
            "of the index could not be searched for it."
        )
    digest = hashlib.sha256(target.text.encode("utf-8")).hexdigest()
    return Receipt(target.path, target.start_line, target.end_line, digest, traces, elsewhere)


async def _add_notices(context: Context, target: Target) -> None:
    ids = [entry.metadata["id"] for entry in entries(target.text.split("\n")) if "id" in entry.metadata]
    for id in ids:
        for place in await find_superseded(context, id):
            context.notices.add(f"{place} names {id} as its successor, which does not exist any more.")
    if not await asyncio.to_thread(context.workspace.root.joinpath(target.real).exists):
        context.notices.add(f"Nothing was left in {target.path}, so the file was removed.")
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


async def _find_unique_words(context: Context, text: str) -> list[bytes]:
    """Return words of a text that the memory has nowhere else: a page that has one of them has a part of the text."""
    words = {word.strip(".,;:!?\"'()[]{}*_`<>").lower() for word in text.split()}
    words = {word for word in words if len(word) >= _SHORTEST_WORD and word.isascii()}
    candidates = sorted(words, key=lambda word: (-len(word), word))[: 5 * _MAX_WORDS]
    if not candidates:
        return []
    async with context.database.reader() as connection:
        # The names of tables and columns, and what embedders are called, are in the file of the index as well.
        rows = await connection.execute_fetchall(
            f"WITH candidates(word) AS (VALUES {', '.join(['(?)'] * len(candidates))}) SELECT word FROM candidates "
            f"WHERE NOT EXISTS (SELECT 1 FROM {CHUNKS_AND_FILES} WHERE instr(lower(text), word) "
            "OR instr(lower(context), word) OR instr(lower(heading), word) OR instr(lower(path), word)) "
            "AND NOT EXISTS (SELECT 1 FROM sqlite_master WHERE instr(lower(sql), word)) "
            "AND NOT EXISTS (SELECT 1 FROM spaces WHERE instr(lower(identity || recipe), word)) "
            f"AND NOT EXISTS (SELECT 1 FROM strategies WHERE instr(lower(name), word)) LIMIT {_MAX_WORDS}",
            candidates,
        )
    return [row[0].encode("ascii") for row in rows]


def _count_on_pages(folder: Path, words: Sequence[bytes]) -> dict[str, int]:
    """Return how many of some words are in each file of the index, and of those that were set aside."""
    return {
        path.name: _count_words(path, words)
        for path in sorted(folder.glob("index.*"))
        if path.is_file() and not path.is_symlink() and not path.name.endswith(("-shm", ".lock"))
    }


def _count_words(path: Path, words: Sequence[bytes]) -> int:
    """Return how many of some words are anywhere in a file, in lower or upper case."""
    missing, rest, overlap = set(words), b"", max(map(len, words))
    try:
        with open(path, "rb") as file:
            while missing and (part := file.read(_BYTES_AT_A_TIME)):
                data = (rest + part).lower()
                missing = {word for word in missing if word not in data}
                rest = data[-overlap:]
    except FileNotFoundError:
        return 0
    return len(set(words)) - len(missing)


def _read_text(workspace: Workspace, real: str) -> str:
    try:
        return decode(workspace.read(real))
    except (FileNotFoundError, IrregularFileError, NotTextError):
        return ""
