"""Says where in the memory files something stands, or is to be written: paths, lines, chunks and entries.

Whatever a caller names is checked here: that it is a memory file, in the workspace and in the scope.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

from ..errors import (
    ChunkNotFoundError,
    FileChangedError,
    KipuError,
    MemoryFileError,
    OutsideWorkspaceError,
    QueryError,
)
from ..index.queries import CHUNK_COLUMNS, CHUNKS_AND_FILES, stored_chunk
from ..markdown import canonical, entries, format_entry, read_metadata
from ..types import Place
from ..workspace.paths import MEMORY_FOLDER, is_memory_file_name, source_of
from ..workspace.scan import scan_files
from ..workspace.scope import check_source
from ..workspace.text import NotTextError, TextFile
from .files import read_regular

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..config import MemoryConfig
    from ..index.database import Database
    from ..markdown import Entry
    from ..types import StoredChunk
    from ..workspace.paths import Workspace
    from ..workspace.scope import Scope

__all__ = ["Locating", "Target", "checked_lines", "inside_of", "read_file", "telling_word"]

# From this share of common words on, two entries say nearly the same.
_SIMILAR = 0.7
_SIMILAR_AT_MOST = 5
# Chunkers cut words that are longer than a chunk: the index does not have those as one.
_LONGEST_WORD = 40


class Target(NamedTuple):
    """Lines of a file that somebody named, and what they say."""

    path: str
    real: str
    start_line: int
    end_line: int
    text: str


_LINES_OF = re.compile(r"(?P<path>.+):(?P<start>[1-9][0-9]*)(?:-(?P<end>[1-9][0-9]*))?")


class Locating:
    """Where the things of one memory stand, as far as its scope goes."""

    def __init__(self, config: MemoryConfig, database: Database, workspace: Workspace, scope: Scope) -> None:
        self._config = config
        self._database = database
        self._workspace = workspace
        self.scope = scope

    # --- where -----------------------------------------------------------------------------------------------------

    def place(self, source: str | None, file: str | os.PathLike[str] | None) -> tuple[str, str]:
        """The file to write to, by its path and its real path; it need not exist.

        :raises QueryError: a source, or a name, that cannot be.
        :raises OutsideScopeError: it belongs to another scope.
        :raises OutsideWorkspaceError: it leads out of the workspace.
        :raises MemoryFileError: Kipu would not look for memories there.
        """
        label = self.scope.label or MEMORY_FOLDER
        if source is not None and (asked := self.scope.source(source)) != self.scope.label:
            label = check_source(asked)
        folder = MEMORY_FOLDER if label == MEMORY_FOLDER else f"{MEMORY_FOLDER}/{label}"
        if file is None:
            name = f"{folder}/{self._config.today().isoformat()}.md"
        else:
            name = os.fspath(file)
            if not name:
                raise QueryError("file must be the path of a file, and is empty.")
            try:
                name.encode("utf-8")
            except UnicodeEncodeError:
                raise MemoryFileError(f"{name!r} cannot be the path of a memory file: it is not valid UTF-8.") from None
            if not self._workspace.covers(name) and not os.path.isabs(os.path.expanduser(name)):
                name = f"{folder}/{name}"
        real = self._workspace.locate(name)
        path = self._workspace.name_of(real)
        if not self._workspace.covers(real) and self.scope.label is None:
            path = self._workspace.plain_name_of(name)  # a symbolic link leads there, by whose name the index knows it
        self.scope.check(path, name)
        if not is_memory_file_name(path.rpartition("/")[2]):
            raise MemoryFileError(f"{path} is not a Markdown file: its name must end in .md or .markdown.")
        if self._workspace.excluded(path) or not self._workspace.covers(path):
            raise MemoryFileError(f"{path} is where Kipu looks for no memories: outside of memory/, or excluded.")
        if source is not None and source_of(path) != label:
            raise QueryError(f'{path} does not have the source "{source}". Give one of the two.')
        if os.path.lexists(real) and not os.path.isfile(real):
            raise MemoryFileError(f"{path} is {'a folder' if os.path.isdir(real) else 'not a regular file'}.")
        return path, real

    def existing(self, path: str | os.PathLike[str]) -> tuple[str, str]:
        """A memory file that exists, by its path and its real path.

        :raises MemoryFileError: it does not, or is no memory file.
        """
        try:
            real = self._workspace.locate(path)
        except OutsideWorkspaceError:
            if self.scope.label is not None:
                self.scope.check(os.fspath(path))
            raise
        name = self._workspace.name_of(real)
        self.scope.check(name, path)
        if not is_memory_file_name(name.rpartition("/")[2]) or self._workspace.excluded(name):
            raise MemoryFileError(f"{name} is not a memory file: its name must end in .md, and not be excluded.")
        if not os.path.isfile(real):
            raise MemoryFileError(f"{name} does not exist, or is not a file.")
        if not self._workspace.covers(real):  # a symbolic link leads there, by whose name the index knows it
            found = scan_files(self._workspace).files.values()
            name = next((file.path for file in found if file.real == real), name)
        return name, real

    async def target(
        self,
        chunk: str | None,
        path: str | os.PathLike[str] | None,
        start: int | None,
        end: int | None,
        expected: str | None = None,
    ) -> Target:
        """The lines that somebody named by a chunk, or by a path and lines.

        :raises FileChangedError: they do not say what was ``expected``.
        """
        target = await self._target(chunk, path, start, end)
        if expected is not None and _plain(target.text) != _plain(expected):
            raise FileChangedError(
                f"{target.path} does not say in lines {target.start_line} to {target.end_line} what was expected. "
                "Nothing was changed; read it again."
            )
        return target

    async def _target(
        self, chunk: str | None, path: str | os.PathLike[str] | None, start: int | None, end: int | None
    ) -> Target:
        if (chunk is None) == (path is None):
            raise QueryError("Name either a chunk, or a path with lines.")
        if chunk is not None:
            if start is not None or end is not None:
                raise QueryError("A chunk has its own lines: name either a chunk, or a path with lines.")
            found = await self.chunk_of(chunk)
            _, real = self.existing(found.path)
            return Target(found.path, real, found.start_line, found.end_line, found.text)
        name, real = self.existing(path or "")
        _, file = await asyncio.to_thread(read_file, real, name)
        first, last = checked_lines(name, start, end, len(file.lines))
        return Target(name, real, first, last, "\n".join(file.plain_lines[first - 1 : last]))

    async def metadata_below(self, target: Target) -> str:
        """The line below the lines of a target that says what is known of them; nothing where there is none."""
        _, file = await asyncio.to_thread(read_file, target.real, target.path)
        found = [entry for entry in entries(file.plain_lines) if entry.end_line == target.end_line + 1]
        if not found or found[0].start_line < target.start_line:
            return ""  # something of the entry stays, and what is known of it too
        below = file.plain_lines[target.end_line : target.end_line + 1]
        return below[0] if below and read_metadata(below[0]) and not read_metadata(target.text.split("\n")[-1]) else ""

    async def check_id(self, id: str) -> None:
        """Raise QueryError where an entry that this memory sees has that id already."""
        if place := await self.entry_with(id):
            raise QueryError(f'There is an entry with the id "{id}" already: {place}. Give another one.')

    async def entry_with(self, id: str) -> Place | None:
        """Where the entry with that id stands, if this memory sees it."""
        async with self._database.reader() as connection:
            rows = await connection.execute_fetchall(
                f"SELECT files.path, start_line, end_line FROM {CHUNKS_AND_FILES} WHERE chunks.entry = ?", (id,)
            )
        return next((Place(*row) for row in rows if self.scope.sees(row[0])), None)

    async def id_at(self, place: Place) -> str | None:
        """The id of the entry that begins where a place does."""
        _, file = await asyncio.to_thread(read_file, self._workspace.locate(place.path), place.path)
        found = (entry for entry in entries(file.plain_lines) if entry.start_line == place.start_line)
        return next((entry.metadata.get("id") for entry in found), None)

    async def superseded_by(self, id: str) -> list[Place]:
        """What the index knows to be superseded by the entry with that id, as far as this memory sees it."""
        async with self._database.reader() as connection:
            rows = await connection.execute_fetchall(
                f"SELECT chunks.metadata, files.path, start_line, end_line FROM {CHUNKS_AND_FILES} "
                "WHERE instr(chunks.metadata, 'superseded_by')"
            )
        return [
            Place(*place)
            for metadata, *place in rows
            if json.loads(metadata).get("superseded_by") == id and self.scope.sees(place[0])
        ]

    def is_link(self, path: str) -> bool:
        """Whether a file is reached by a symbolic link, so that the file itself is another one's."""
        plain = os.path.normpath(os.path.join(os.path.realpath(self._workspace.root), path))
        return os.path.realpath(plain) != plain

    async def named(self, place: str) -> Target:
        """The lines that somebody named in one text: a chunk, or a path and lines such as ``memory/a.md:3-4``."""
        if not isinstance(place, str):
            raise QueryError(f"Name a chunk, or a path and lines such as memory/a.md:3-4, not {place!r}.")
        if found := _LINES_OF.fullmatch(place):
            start, end = int(found["start"]), int(found["end"] or found["start"])
            return await self.target(None, found["path"], start, end)
        if is_memory_file_name(place.rpartition("/")[2].rstrip(":")):
            raise QueryError(f"Name the lines of {place.rstrip(':')} that are meant, such as {place.rstrip(':')}:3-4.")
        return await self.target(place, None, None, None)

    async def chunk_of(self, name: str) -> StoredChunk:
        """The chunk of that name.

        :raises ChunkNotFoundError: the index has none, or it belongs to another scope.
        """
        if not isinstance(name, str):
            raise QueryError(f"chunk must be the name of a chunk, as a search gives it, not {name!r}.")
        async with self._database.reader() as connection:
            rows = await connection.execute_fetchall(
                f"SELECT {CHUNK_COLUMNS} FROM {CHUNKS_AND_FILES} WHERE chunks.chunk = ?", (name,)
            )
        for row in rows:
            found = stored_chunk(row)
            if self.scope.sees(found.path):
                return found
        raise ChunkNotFoundError(
            f'There is no chunk "{name}". Its text may have been changed or moved meanwhile: search for it again.'
        )

    async def chunk_at(self, place: Place) -> str | None:
        """The name of the chunk that has just these lines; None where it has others too, or where there are several."""
        async with self._database.reader() as connection:
            rows = list(
                await connection.execute_fetchall(
                    f"SELECT chunks.chunk FROM {CHUNKS_AND_FILES} "
                    "WHERE files.path = ? AND start_line = ? AND end_line = ?",
                    (place.path, place.start_line, place.end_line),
                )
            )
        return str(rows[0][0]) if len(rows) == 1 else None

    # --- what is there already -------------------------------------------------------------------------------------

    async def same(self, said: str, path: str, metadata: Mapping[str, str]) -> Place | None:
        """Where the source of a file says exactly that, apart from white space and how letters are composed.

        What is not believed any more does not say it: who says it again believes it again.
        """
        wanted = canonical(_round_trip(said))
        for other, entry in await self._entries(said, source_of(path)):
            if canonical(entry.text) == wanted and not self._is_outdated(entry, metadata):
                return Place(other, entry.start_line, entry.end_line)
        return None

    def _is_outdated(self, entry: Entry, new: Mapping[str, str]) -> bool:
        """Whether an entry was superseded, or was valid until a day that is over, and not that of a new one too."""
        if "superseded_by" in entry.metadata:
            return True
        until = entry.metadata.get("valid_until")
        if until is None or until == new.get("valid_until"):
            return False
        try:
            return date.fromisoformat(until) < self._config.today()
        except ValueError:
            return False  # a person wrote something that is no date

    async def _entries(self, said: str, source: str) -> list[tuple[str, Entry]]:
        """The entries of those files of a source that have the telling word of a text."""
        word = telling_word(said)
        async with self._database.reader() as connection:
            rows = await connection.execute_fetchall(
                f"SELECT DISTINCT files.path FROM {CHUNKS_AND_FILES} WHERE files.source = ? "
                "AND (? = '' OR instr(chunks.text, ?)) ORDER BY files.path",
                (source, word, word),
            )
        found: list[tuple[str, Entry]] = []
        for (path,) in rows:
            with contextlib.suppress(KipuError, OSError):  # it vanished meanwhile, or cannot be read: it says nothing
                _, file = await asyncio.to_thread(read_file, self._workspace.locate(path), path)
                found += [(path, entry) for entry in entries(file.plain_lines)]
        return found

    async def similar(self, said: str, path: str) -> list[Place]:
        """Where the source of a file says nearly that, most similar first."""
        words = _words(said)
        if not words:
            return []
        found = []
        for other, entry in await self._entries(said, source_of(path)):
            have = _words(entry.text)
            share = len(words & have) / len(words | have)
            if share >= _SIMILAR:
                found.append(Place(other, entry.start_line, entry.end_line, round(share, 3)))
        return sorted(found, key=lambda place: -place.similarity)[:_SIMILAR_AT_MOST]


def telling_word(said: str) -> str:
    """The longest word of a text that can be looked for in the chunks of an index; nothing where there is none."""
    words = [word for word in said.split() if word.isascii() and len(word) <= _LONGEST_WORD]
    return max(words, key=len, default="")


def read_file(real: str, path: str) -> tuple[bytes | None, TextFile]:
    """The bytes and the text of a file; None and no lines where there is none.

    :param path: what it is called in messages.
    :raises MemoryFileError: it cannot be read, or is no text that could be written back.
    """
    try:
        data = read_regular(real)
    except (FileNotFoundError, NotADirectoryError):
        return None, TextFile([])
    except OSError as error:
        raise MemoryFileError(f"{path} cannot be read: {error.strerror or error}.") from error
    try:
        return data, TextFile.parse(data)
    except NotTextError as error:
        raise MemoryFileError(f"{path} {error}. Nothing was changed.") from None


def inside_of(file: TextFile, target: Target) -> str:
    """What stands in the lines of a target, as long as they say what they said.

    :raises FileChangedError: they do not any more.
    """
    inside = "\n".join(file.plain_lines[target.start_line - 1 : target.end_line])
    if target.text not in inside:
        raise FileChangedError(f"{target.path} does not say any more what it said. Search again, and then change it.")
    return inside


def checked_lines(path: str, start: int | None, end: int | None, count: int) -> tuple[int, int]:
    """Lines of a file, from 1 and both included; by default all."""
    first = 1 if start is None else start
    last = (max(count, 1) if start is None else first) if end is None else end
    if type(first) is not int or type(last) is not int or not 1 <= first <= last:
        raise QueryError(f"Lines count from 1, and the last is not before the first, unlike {start!r} to {end!r}.")
    if last > max(count, 1):
        have = "1 line" if count == 1 else f"{count:,} lines"
        raise QueryError(f"{path} has {have}, and none of the number {last}.")
    return first, last


def _plain(text: str) -> str:
    """A text without what differs between ways to read it: line ends, and the last of them."""
    if not isinstance(text, str):
        raise QueryError(f"expected must be a text, not {text!r}.")
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


def _words(text: str) -> set[str]:
    """The words of a text that are compared with those of another; of scripts without spaces, pairs of letters."""
    words = set()
    for word in canonical(text).casefold().split():
        bare = word.strip(".,;:!?\"'()[]*_`")
        if bare.isascii() or len(bare) < 3 or not any("\u2e80" <= char <= "\uffdc" for char in bare):
            words.add(bare)
        else:
            words |= {bare[place : place + 2] for place in range(len(bare) - 1)}
    return words - {""}


def _round_trip(text: str) -> str:
    """Return the text of the entry that `format_entry` makes of a text."""
    return entries(format_entry(text, {}))[0].text
