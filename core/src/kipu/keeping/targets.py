"""Resolve what a caller names: a file, lines or a chunk. Check that it is in the workspace and in the scope."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

from ..errors import (
    ChunkNotFoundError,
    FileChangedError,
    IndexUnavailableError,
    MemoryFileError,
    QueryError,
)
from ..index.queries import CHUNKS_AND_FILES, select_chunks
from ..index.recovery import recovering
from ..markdown import entries, front_matter, leading_headings, read_metadata
from ..types import Place
from ..workspace.paths import MEMORY_FOLDER, is_memory_file_name, source_of
from ..workspace.scan import scan_files
from ..workspace.scope import check_source
from .files import read_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..context import Context
    from ..types import StoredChunk
    from ..workspace.text import TextFile
    from .writer import Writer


class Target(NamedTuple):
    """Lines of a file, from 1, both included, and the text in them that was named: that of a chunk, or the lines."""

    path: str
    real: str
    start_line: int
    end_line: int
    text: str
    is_chunk: bool = False

    @property
    def place(self) -> Place:
        """Where it is."""
        return Place(self.path, self.start_line, self.end_line)

    def below_headings(self, new: str = "") -> Target:
        """Return the target without the headings that it begins with, down to one that a new text brings.

        Other chunks may be below the same headings.
        """
        count = leading_headings(self.text, new)
        text = "\n".join(self.text.split("\n")[count:])
        return self._replace(start_line=self.start_line + count, text=text)


def resolve_destination(context: Context, source: str | None, file: str | os.PathLike[str] | None) -> tuple[str, str]:
    """Return the file to write to, by its path and its real path; it need not exist.

    :raises QueryError: a source, or a name, is invalid.
    :raises OutsideScopeError: it belongs to another scope.
    :raises OutsideWorkspaceError: it is outside the workspace.
    :raises MemoryFileError: Kipu would not index it.
    """
    workspace, scope = context.workspace, context.scope
    label = scope.label or MEMORY_FOLDER
    if source is not None and (asked := scope.source(source)) != scope.label:
        label = check_source(asked)
    folder = _folder(label)
    if file is None:
        name = f"{folder}/{context.config.today().isoformat()}.md"
    else:
        name = os.fspath(file)
        if not name:
            raise QueryError("file must be the path of a file, and is empty.")
        _check_unicode(name)
        if not workspace.covers(name) and not os.path.isabs(os.path.expanduser(name)):
            name = f"{folder}/{name}"
    path, real = context.locate(name)
    if not workspace.covers(real) and scope.label is None:
        path = workspace.plain_name_of(name)  # a symlink leads there, and the index knows the file by its name
    if not is_memory_file_name(path.rpartition("/")[2]):
        raise MemoryFileError(f"{path} is not a Markdown file: its name must end in .md or .markdown.")
    if workspace.excluded(path) or not workspace.covers(path):
        raise MemoryFileError(
            f"{path} is outside memory/ or excluded by files.exclude, so searches would never find it."
        )
    if source is not None and source_of(path) != label:
        raise QueryError(f'{path} does not have the source "{source}". Give one of the two.')
    if os.path.lexists(real) and not os.path.isfile(real):
        raise MemoryFileError(f"{path} is {'a folder' if os.path.isdir(real) else 'not a regular file'}.")
    return path, real


def _folder(label: str | None) -> str:
    return MEMORY_FOLDER if label in (None, MEMORY_FOLDER) else f"{MEMORY_FOLDER}/{label}"


def _as_written(context: Context, name: str) -> str:
    """Return the path of a file that exists, of which a caller may give the one that `remember` took."""
    workspace, scope, full = context.workspace, context.scope, f"{_folder(context.scope.label)}/{name}"
    # A scope learns nothing of files that it does not see.
    if workspace.covers(name) or os.path.isabs(name) or not scope.sees(workspace.plain_name_of(full)):
        return name
    is_free = scope.label is not None or not os.path.lexists(workspace.root / workspace.plain_name_of(name))
    return full if is_free and os.path.isfile(workspace.root / workspace.plain_name_of(full)) else name


def _check_unicode(name: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise MemoryFileError(f"{name!r} is not a valid path of a memory file: it is not valid UTF-8.") from None


def resolve_file(context: Context, path: str | os.PathLike[str], *, any_name: bool = False) -> tuple[str, str]:
    """Return a memory file that exists, by its path and its real path.

    :param any_name: whether its name may be one that the index cannot store, because it is not valid UTF-8.
    :raises MemoryFileError: it does not exist, or is not a memory file.
    """
    workspace = context.workspace
    name, real = context.locate(_as_written(context, os.fspath(path)))
    if not any_name:
        _check_unicode(name)
    if not is_memory_file_name(name.rpartition("/")[2]) or workspace.excluded(name):
        raise MemoryFileError(f"{name} is not a memory file: its name must end in .md, and not be excluded.")
    if not os.path.isfile(real):
        raise MemoryFileError(f"{name} does not exist, or is not a file.")
    if not workspace.covers(real):  # a symlink leads there, and the index knows the file by its name
        name = next((file.path for file in scan_files(workspace).files.values() if file.real == real), name)
    return name, real


async def include_metadata(context: Context, target: Target) -> Target:
    """Return a target with the line of metadata below it, if it ends a whole entry."""
    _, file = await asyncio.to_thread(read_file, context.workspace, target.real, target.path)
    lines, end = file.plain_lines, target.end_line
    whole = [entry for entry in entries(lines) if entry.end_line == end + 1 and entry.start_line >= target.start_line]
    if not whole or not read_metadata(lines[end]) or read_metadata(target.text.split("\n")[-1]):
        return target
    return target._replace(end_line=end + 1, text=f"{target.text}\n{lines[end]}")


def check_target(file: TextFile, target: Target) -> str:
    """Return what is in the lines of a target.

    :raises FileChangedError: the text of the target is not among it any more.
    :raises QueryError: only one of the fences of front matter is in these lines, which would end elsewhere without it.
    """
    lines = file.plain_lines
    inside = "\n".join(lines[target.start_line - 1 : target.end_line])
    if target.text not in inside:
        raise FileChangedError(f"{target.path} has changed since it was read. Search again and retry.")
    end = front_matter(lines).end
    if end and (target.start_line == 1) != (target.start_line <= end <= target.end_line):
        raise QueryError(
            f"{target.place} has one of the two lines around the front matter of {target.path}, which ends with line "
            f"{end}. Name lines between them, lines below them, or all of it: {Place(target.path, 1, end)}."
        )
    return inside


def check_lines(path: str, start: int | None, end: int | None, count: int) -> tuple[int, int]:
    """Return the first and the last line of a range in a file, from 1, both included; by default all lines."""
    first = 1 if start is None else start
    last = (max(count, 1) if start is None else first) if end is None else end
    if type(first) is not int or type(last) is not int or not 1 <= first <= last:
        raise QueryError(f"Lines count from 1, and the last is not before the first, unlike {start!r} to {end!r}.")
    if last > max(count, 1):
        raise QueryError(f"{path} has {'1 line' if count == 1 else f'{count:,} lines'}, so there is no line {last}.")
    return first, last


async def find_chunk(context: Context, name: str) -> StoredChunk:
    """Return the chunk of that name.

    :raises ChunkNotFoundError: the index does not have it, or it belongs to another scope.
    """
    async with context.database.reader() as connection:
        chunks = await select_chunks(connection, "WHERE chunks.chunk = ?", (name,))
    for chunk in chunks:
        if context.scope.sees(chunk.path):
            return chunk
    raise ChunkNotFoundError(
        f'There is no chunk "{name}". Its text may have been changed or moved since: search for it again.'
    )


async def find_chunks_at(writer: Writer, places: Sequence[Place]) -> list[str | None]:
    """Return for places in one file, in order, the name of the chunk that has exactly these lines.

    It is None if no chunk or several have them, or the index is busy.
    """
    names: dict[tuple[int, int], list[str]] = {}
    with contextlib.suppress(IndexUnavailableError):  # what was written is written
        for name, start, end in await _chunks_between(writer, places[0], places[-1]):
            names.setdefault((start, end), []).append(name)
    found = [names.get((place.start_line, place.end_line), []) for place in places]
    return [each[0] if len(each) == 1 else None for each in found]


@recovering
async def _chunks_between(writer: Writer, first: Place, last: Place) -> list[tuple[str, int, int]]:
    if not writer.database.exists:
        await writer.synchronizer.refresh()
    async with writer.database.reader() as connection:
        rows = await connection.execute_fetchall(
            f"SELECT chunks.chunk, start_line, end_line FROM {CHUNKS_AND_FILES} WHERE files.path = ? "
            "AND start_line BETWEEN ? AND ?",
            (first.path, first.start_line, last.start_line),
        )
    return [(row[0], row[1], row[2]) for row in rows]
