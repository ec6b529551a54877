"""Forgets a text for good: in its file, in every index, and in what is left of them on the disk."""

from __future__ import annotations

import asyncio
import hashlib
import os
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

import attrs

from ..errors import IndexUnavailableError, KipuError, MemoryFileError
from ..index.queries import CHUNKS_AND_FILES
from ..markdown import canonical, entries
from ..types import Place, Receipt, Trace
from ..workspace.paths import HIDDEN_FOLDER
from .files import write_new
from .rewording import below_its_headings
from .targets import telling_word

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..index.database import Database
    from ..indexing.synchronizer import Synchronizer
    from .remember import Keeping
    from .targets import Locating, Target

__all__ = ["Forgetting"]

# How much of a file is looked through at a time for words that must not be there.
_BYTES_AT_A_TIME = 8_000_000
_SHORTEST_WORD = 6
_MOST_WORDS = 200
# What a killed process leaves while it forgets; whoever opens the memory next finishes it.
_MARK = "forgetting"


class _Found(NamedTuple):
    """How often what is to be forgotten stands where."""

    chunks: int
    vectors: int
    hashes: list[str]


class Forgetting:
    """What forgets for one memory."""

    def __init__(
        self, root: Path, database: Database, syncing: Synchronizer, where: Locating, keeping: Keeping
    ) -> None:
        self._hidden = root / HIDDEN_FOLDER
        self._root = root
        self._database = database
        self._syncing = syncing
        self._where = where
        self._keeping = keeping

    async def forget(
        self,
        *,
        chunk: str | None,
        path: str | os.PathLike[str] | None,
        start: int | None,
        end: int | None,
        expected: str | None,
    ) -> Receipt:
        """Take a text out of its file, of the index and of the cache. See `kipu.Memory.forget`."""
        async with self._keeping.writer.locked():
            await self._syncing.refresh()
            target = await self._where.target(chunk, path, start, end, expected)
            if chunk is not None:
                target = below_its_headings(target)  # headings that nothing is left below go by themselves
            if metadata := await self._where.metadata_below(target):
                # What is known of an entry goes with it.
                text = f"{target.text}\n{metadata}"
                target = target._replace(end_line=target.end_line + 1, text=text)
            await asyncio.to_thread(self._mark)
            said_before = (await asyncio.to_thread(_text_of, target.real)).count(target.text)
            before = await self._found(target)
            notices = await self._keeping.take_out(target)
            try:
                await self._syncing.refresh()  # everything: another hard link to the file has its text still
                await self._syncing.scrub(before.hashes)
            except IndexUnavailableError as error:
                raise type(error)(
                    f"The text was taken out of {target.path}, but not out of the index yet: that is done by who opens "
                    f"the memory next and can write it. {error}"
                ) from error
            receipt = await self._receipt(target, before, said_before)
            if any(trace.after for trace in receipt.traces):
                # The tables of a strategy that is not used here, perhaps: they are made anew when they are used.
                await self._syncing.rebuild_all_tables()
                receipt = await self._receipt(target, before, said_before)
            for entry in entries(target.text.split("\n")):
                notices += [
                    f"{place} says that {id} took its place, which is not there any more."
                    for id in filter(None, [entry.metadata.get("id")])
                    for place in await self._where.superseded_by(id)
                ]
            receipt = attrs.evolve(receipt, notices=[*receipt.notices, *notices])
            if any(trace.after for trace in receipt.traces):
                note = (
                    "Another process is reading the index, which keeps what it reads on the disk until it is done. Who "
                    "opens the memory after that takes it away."
                )
                return attrs.evolve(receipt, notices=[*receipt.notices, note])
            await asyncio.to_thread((self._hidden / _MARK).unlink, missing_ok=True)
        return receipt

    async def finish(self) -> None:
        """Scrub the index where a process was killed while it forgot: what it took out of a file is gone there too."""
        if not (self._hidden / _MARK).exists():
            return
        try:
            async with self._keeping.writer.locked():
                await self._syncing.refresh()
                async with self._database.reader() as connection:
                    rows = await connection.execute_fetchall(
                        "SELECT DISTINCT hash FROM embeddings WHERE hash NOT IN (SELECT hash FROM chunks)"
                    )
                await self._syncing.scrub([row[0] for row in rows])
                if not self._database.has_log:  # else somebody still reads what was there before
                    await asyncio.to_thread((self._hidden / _MARK).unlink, missing_ok=True)
        except (KipuError, OSError):
            return  # the mark stays: the next one that can write does it

    def _mark(self) -> None:
        try:
            write_new(self._hidden / _MARK, b"")
        except OSError as error:
            said = error.strerror or error
            raise MemoryFileError(
                f"{self._hidden / _MARK} cannot be written: {said}. Nothing was forgotten."
            ) from error

    async def _found(self, target: Target) -> _Found:
        """What the index holds of a file's lines: the chunks that have them, and their neighbours' contexts."""
        async with self._database.reader() as connection:
            rows = list(
                await connection.execute_fetchall(
                    f"SELECT chunks.hash, start_line <= ? AND end_line >= ? FROM {CHUNKS_AND_FILES} "
                    "WHERE files.path = ?",
                    (target.end_line, target.start_line, target.path),
                )
            )
            hashes = [row[0] for row in rows]
            vectors = 0
            for hash, inside in rows:
                if inside:
                    (count,) = await connection.execute_fetchall(
                        "SELECT count(*) FROM embeddings WHERE hash = ?", (hash,)
                    )
                    vectors += count[0]
        return _Found(sum(row[1] for row in rows), vectors, hashes)

    async def _receipt(self, target: Target, before: _Found, said_before: int) -> Receipt:
        wanted = _said_in(target.text)
        elsewhere = await self._elsewhere(wanted) if wanted else []
        words = await self._telling_words(target.text)
        # The same may stand in the file once more: that is told as elsewhere.
        said_now = (await asyncio.to_thread(_text_of, target.real)).count(target.text)
        in_file = bool(wanted) and said_now >= max(1, said_before)
        async with self._database.reader() as connection:
            chunks = 0
            if before.hashes and wanted and not elsewhere:
                rows = await connection.execute_fetchall(
                    f"SELECT files.path FROM {CHUNKS_AND_FILES} WHERE instr(text, ?) OR instr(context, ?)",
                    (target.text, target.text),
                )
                chunks = sum(self._where.scope.sees(row[0]) for row in rows)
            vectors = 0
            for hash in before.hashes:
                (row,) = await connection.execute_fetchall(
                    "SELECT count(*) FROM embeddings WHERE hash = ? AND hash NOT IN (SELECT hash FROM chunks)", (hash,)
                )
                vectors += row[0]
        traces = [
            Trace(target.path, 1, int(in_file)),
            Trace("index: chunks", before.chunks, chunks),
            Trace("index: vectors", before.vectors, vectors),
        ]
        for path in sorted(self._hidden.iterdir()):
            if (
                words
                and path.is_file()
                and not path.is_symlink()
                and path.name.startswith("index.")
                and not path.name.endswith(("-shm", ".lock"))
            ):
                held = await asyncio.to_thread(_holds, path, words)
                traces.append(Trace(f"{HIDDEN_FOLDER}/{path.name}: words on its pages", int(before.chunks > 0), held))
        digest = hashlib.sha256(target.text.encode("utf-8")).hexdigest()
        notices = []
        if not await asyncio.to_thread(os.path.exists, target.real):
            notices.append(f"Nothing was left in {target.path}, so the file was removed.")
        if not words:
            notices.append(
                f"The text has no word of {_SHORTEST_WORD} letters or more that stands nowhere else, so the pages of "
                "the index could not be searched for it."
            )
        if (self._root / ".git").exists():
            notices.append("Kipu does not change what git has of the file: an earlier commit may still hold the text.")
        return Receipt(target.path, target.start_line, target.end_line, digest, traces, elsewhere, notices)

    async def _elsewhere(self, wanted: str) -> list[Place]:
        """Other lines of the memory that say the same, in however many chunks."""
        async with self._database.reader() as connection:
            rows = await connection.execute_fetchall(
                f"SELECT DISTINCT files.path FROM {CHUNKS_AND_FILES} WHERE instr(text, ?) ORDER BY files.path",
                (telling_word(wanted),),
            )
        return [
            Place(path, *lines)
            for (path,) in rows
            if self._where.scope.sees(path)
            for lines in _lines_that_say(wanted, await asyncio.to_thread(self._text_in, path))
        ]

    def _text_in(self, path: str) -> str:
        """The text of a file, by the path that Kipu names it by; nothing where it cannot be read."""
        try:
            return _text_of(self._where.existing(path)[1])
        except KipuError:
            return ""

    async def _telling_words(self, text: str) -> list[bytes]:
        """The words of a text that no chunk has any more: where one of them is found, something of it was left."""
        words = {word.strip(".,;:!?\"'()[]{}*_`<>").lower() for word in text.split()}
        words = {word for word in words if len(word) >= _SHORTEST_WORD and word.isascii()}
        telling = []
        async with self._database.reader() as connection:
            # What the tables are called, and what embedders are, stands in the file as well.
            rows = await connection.execute_fetchall(
                "SELECT lower(sql) FROM sqlite_master WHERE sql IS NOT NULL "
                "UNION ALL SELECT lower(identity || recipe) FROM spaces UNION ALL SELECT lower(name) FROM strategies"
            )
            own = " ".join(row[0] for row in rows)
            words = {word for word in words if word not in own}
            for word in sorted(words, key=lambda word: (-len(word), word))[:_MOST_WORDS]:
                rows = await connection.execute_fetchall(
                    f"SELECT 1 FROM {CHUNKS_AND_FILES} WHERE instr(lower(text), ?) OR instr(lower(context), ?) "
                    "OR instr(lower(heading), ?) OR instr(lower(path), ?) LIMIT 1",
                    (word, word, word, word),
                )
                if not list(rows):
                    telling.append(word.encode("ascii"))
        return telling


def _said_in(text: str) -> str:
    """What lines say, to be compared: without the mark of an item and its metadata, where they are one entry."""
    found = entries(text.split("\n"))
    return canonical(found[0].text if len(found) == 1 else text)


def _lines_that_say(wanted: str, text: str) -> list[tuple[int, int]]:
    """The first and last lines, from 1, of each place in a text that says the same, apart from white space."""
    ends: list[int] = []  # where each line ends in the text as it is compared
    said = ""
    for line in text.split("\n"):
        words = canonical(line)
        said += f" {words}" if said and words else words
        ends.append(len(said))
    found = []
    start = said.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        found.append((bisect_right(ends, start) + 1, bisect_left(ends, end) + 1))
        start = said.find(wanted, end)
    return found


def _holds(path: Path, words: Sequence[bytes]) -> int:
    """How many of some words stand anywhere in a file, in small or capital letters."""
    left, held, rest = set(words), 0, b""
    overlap = max(map(len, words), default=0)
    try:
        with open(path, "rb") as file:
            while left and (part := file.read(_BYTES_AT_A_TIME)):
                data = (rest + part).lower()
                found = {word for word in left if word in data}
                held, left, rest = held + len(found), left - found, data[-overlap:]
    except FileNotFoundError:
        return 0
    return held


def _text_of(real: str) -> str:
    from ..workspace.text import NotTextError, decode

    try:
        with open(real, "rb") as file:
            return decode(file.read())
    except (FileNotFoundError, NotTextError):
        return ""
