"""Read, edit and move what is in memory files."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..errors import FileChangedError, MemoryFileError, QueryError
from ..index.recovery import recovering
from ..markdown import normalize_text
from ..types import Note, Place
from ..workspace.text import TextFile
from .edits import append, dedent, remove, reword
from .files import read_file
from .step import FileChange
from .targets import (
    check_lines,
    find_chunk,
    find_chunks_at,
    include_metadata,
    resolve,
    resolve_destination,
    resolve_file,
)
from .writer import retried

if TYPE_CHECKING:
    import os

    from ..context import Context
    from ..types import StoredChunk
    from .targets import Named, Target
    from .writer import Writer


@recovering
async def find(writer: Writer, chunk: str) -> StoredChunk:
    """Return a chunk by its name. See `kipu.Memory.find_chunk`."""
    if not writer.database.exists:
        await writer.synchronizer.refresh()
    return await find_chunk(writer.context, chunk)


async def read(context: Context, path: str | os.PathLike[str], start: int | None, end: int | None) -> str:
    """Return the text of a memory file. See `kipu.Memory.read`."""
    name, real = resolve_file(context, path)
    _, file = await asyncio.to_thread(read_file, context.workspace, real, name)
    lines = file.plain_lines
    first, last = check_lines(name, start, end, len(lines))
    return "\n".join(lines[first - 1 : last])


@recovering
async def edit(writer: Writer, text: str, named: Named) -> Note:
    """Replace a text. See `kipu.Memory.edit`."""
    if not str(text).strip():
        raise QueryError("The replacement text is empty. To delete lines, use forget.")
    normalize_text(text)  # refuse what cannot be written before looking for the target
    if named.chunk is None and named.start is None:
        raise QueryError("Name the lines to replace, or a chunk. A whole file cannot be replaced.")
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    async with writer.locked():
        target = await resolve(writer.context, named)
        text = await writer.filter(text, target.path, where="In the new text: ")
        if named.chunk is not None:
            target = target.below_headings(text)
        place, change = await _reword(writer, target, text)
        await writer.index(place.path)
        (name,) = await find_chunks_at(writer, [place])
    return Note(place.path, place.start_line, place.end_line, text, name, replaced=target.text, change=change)


@retried(FileChangedError, attempts=5)
async def _reword(writer: Writer, target: Target, text: str) -> tuple[Place, str]:
    data, file = await asyncio.to_thread(read_file, writer.context.workspace, target.real, target.path)
    changed, length = reword(file, target, text)
    change = await writer.commit(FileChange(target.real, data, writer.encode(changed, target.path)), kind="edit")
    return Place(target.path, target.start_line, target.start_line + length - 1), change


@recovering
async def move(writer: Writer, to: str | os.PathLike[str], named: Named) -> Note:
    """Move a file, or lines of one to the end of another. See `kipu.Memory.move`."""
    context = writer.context
    name, real = resolve_destination(context, None, to)
    await writer.refuse_secret_names(name)
    is_whole_file = named.path is not None and named.start is None and named.end is None
    async with writer.locked():
        target = await resolve(context, named, any_name=is_whole_file)
        if target.real == real:
            raise QueryError(f"{target.path} is already there.")
        if is_whole_file:
            change = await _move_file(writer, target, name, real)
            await writer.index()
            first = 1
        else:
            target = await include_metadata(context, target)
            first, change = await _move_lines(writer, target, name, real)
            await writer.index(target.path, name)
        place = Place(name, first, first + target.text.count("\n"))
        (moved,) = await find_chunks_at(writer, [place])
    return Note(name, place.start_line, place.end_line, target.text, moved, change=change)


@retried(FileChangedError, attempts=5)
async def _move_file(writer: Writer, target: Target, path: str, real: str) -> str:
    if writer.context.workspace.is_link(target.path):
        raise MemoryFileError(f"{target.path} is reached by a symbolic link. Move the file that it leads to.")
    data, _ = await asyncio.to_thread(read_file, writer.context.workspace, target.real, target.path)
    there, _ = await asyncio.to_thread(read_file, writer.context.workspace, real, path)
    if there is not None:
        raise QueryError(f"{path} exists already. To move lines into it, name the lines.")
    changes = FileChange(real, None, data, like=target.real), FileChange(target.real, data, None)
    return await writer.commit(*changes, kind="move")


@retried(FileChangedError, attempts=5)
async def _move_lines(writer: Writer, target: Target, path: str, real: str) -> tuple[int, str]:
    """Move lines to the end of another file. Return where they begin there, and the name of the change."""
    data, file = await asyncio.to_thread(read_file, writer.context.workspace, target.real, target.path)
    there, other = await asyncio.to_thread(read_file, writer.context.workspace, real, path)
    rest = remove(file, target)
    changed, first = append(other, dedent(target.text.split("\n")))
    change = await writer.commit(
        FileChange(real, there, writer.encode(changed, path)),
        FileChange(target.real, data, None if rest is None else rest.data()),
        kind="move",
    )
    return first, change


@retried(FileChangedError, attempts=5)
async def take_out(writer: Writer, target: Target) -> None:
    """Remove lines from their file. Call it with the lock held."""
    data, file = await asyncio.to_thread(read_file, writer.context.workspace, target.real, target.path)
    rest = remove(file, target)
    if rest is None and writer.context.workspace.is_link(target.path):
        rest = TextFile([])  # a symlink leads to the file, which stays, without a text
    await writer.commit(FileChange(target.real, data, None if rest is None else rest.data()))
    left = [] if rest is None else rest.plain_lines
    if headings := [line for line in file.plain_lines[: target.start_line - 1] if line.strip() and line not in left]:
        writer.context.notices.add(f"Nothing was left below {' and '.join(headings)}, so it was removed too.")
