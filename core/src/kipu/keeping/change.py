"""Read, edit and move what is in memory files."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

import attrs

from ..errors import FileChangedError, MemoryFileError, QueryError
from ..index.recovery import recovering
from ..markdown import canonical, entries, normalize_text
from ..types import Note, Place
from ..workspace.text import TextFile
from .duplicates import find_copies
from .edits import append, dedent, remove, reword
from .files import read_file
from .named import Named, ids_of, resolve
from .step import FileChange
from .supersede import add_metadata
from .targets import find_chunks_at, include_metadata, resolve_destination
from .writer import retried

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    from ..context import Context
    from ..markdown import Entry
    from .targets import Target
    from .writer import Writer


@recovering
async def read(writer: Writer, named: Named) -> str:
    """Return the text of a memory file. See `kipu.Memory.read`."""
    if named.path is None:
        await writer.synchronizer.refresh()
    return "\n".join(target.text for target in await resolve(writer.context, named))


@recovering
async def edit(writer: Writer, text: str, named: Named) -> Note:
    """Replace a text. See `kipu.Memory.edit`."""
    if not str(text).strip():
        raise QueryError("The replacement text is empty. To delete lines, use forget.")
    normalize_text(text)  # refuse what cannot be written before looking for the target
    if named.is_whole_file:
        raise QueryError("Name the lines to replace, an id or a chunk. A whole file cannot be replaced.")
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    async with writer.locked():
        targets = await resolve(writer.context, named)
        text = await writer.filter(text, targets[0].path, where="In the new text: ")
        targets = [target.below_headings(text) if target.is_chunk else target for target in targets]
        place, found, change = await _reword(writer, targets, text)
        await writer.index(*(target.path for target in targets))
        (name,) = await find_chunks_at(writer, [place])
        id, copy = await _single_id(writer.context, place, found), None
        source = writer.context.workspace.source_of(place.path)
        if change == "":
            writer.context.notices.add("Nothing was changed: that is what is there.")
        elif len(targets) > 1:
            writer.context.notices.add(f"{len(targets)} entries have that id, and all were changed.")
        elif id and (copies := await _copies(writer, place.path, found[0], source)):
            copy = copies[0]
            writer.context.notices.add(f"{copy} says the same.")
    replaced, lines = "" if change == "" else targets[0].text, (place.start_line, place.end_line)
    return Note(place.path, *lines, text, name, copy, id=id, replaced=replaced, change=change or None)


@recovering  # by itself: the files are written by then, and a second run of the whole would find nothing to change
async def _copies(writer: Writer, path: str, entry: Entry, source: str) -> list[Place]:
    return await find_copies(writer.context, path, entry, source)


@retried(FileChangedError, attempts=5)
async def _reword(writer: Writer, targets: Sequence[Target], text: str) -> tuple[Place, list[Entry], str | None]:
    """Replace the lines of targets. Return where the first is now, its entries, and the change; "" if there is none."""
    changes, places = [], []
    for (real, path), of_file in _by_file(targets):
        data, file = await asyncio.to_thread(read_file, writer.context.workspace, real, path)
        for target in reversed(of_file):
            file, place = await _keep_ids(writer.context, file, target, *reword(file, target, text))
        changes.append(FileChange(real, data, writer.encode(file, path)))
        places.append((place, _overlapping(file, place)))
    is_changed = any(change.before != change.after for change in changes)
    return *places[0], await writer.commit(*changes, kind="edit") if is_changed else ""


async def _single_id(context: Context, place: Place, found: Sequence[Entry]) -> str | None:
    """Return the id of the entry that is there; None if there are several or none."""
    return (await ids_of(context, [(place.path, found[0])]))[0] if len(found) == 1 else None


def _by_file(targets: Iterable[Target]) -> Iterator[tuple[tuple[str, str], list[Target]]]:
    """Yield the files of targets, by real path and path, each with its targets in order."""
    for file, of_file in itertools.groupby(targets, lambda target: (target.real, target.path)):
        yield file, list(of_file)


def _overlapping(file: TextFile, place: Place | Target) -> list[Entry]:
    """Return the entries with an id that lines of a file are of."""
    return [
        entry
        for entry in entries(file.plain_lines)
        if entry.has_id and entry.start_line <= place.end_line and entry.end_line >= place.start_line
    ]


async def _keep_ids(
    context: Context, before: TextFile, target: Target, after: TextFile, start: int, length: int, path: str = ""
) -> tuple[TextFile, Place]:
    """Write the ids of entries into their metadata where they would change, because of another text or source.

    :param before: the file that has the target.
    :param after: the file that has the text that took its place, or was moved: ``length`` lines from ``start`` on.
    :param path: that of the file after, if it is another one.
    :return: the file, and the lines with those that were added.
    """
    is_moved, path = bool(path), path or target.path
    source, place = context.workspace.source_of(path), Place(path, start, start + length - 1)
    old, new = _overlapping(before, target), _overlapping(after, place)
    ids = await ids_of(context, [(target.path, entry) for entry in old])
    is_edited = not is_moved and len(old) == 1  # an entry that is divided: its first part keeps the id
    is_whole = all(target.start_line <= entry.start_line and entry.end_line <= target.end_line for entry in old)
    is_whole = is_whole and is_moved and len(old) == len(new)  # then the indentation is all that may differ
    taken = [entry.metadata.get("id") for entry in new]
    for entry, was, id in reversed(list(zip(new, old, ids, strict=False))):
        is_same = entry.id_in(source) == was.id_in(context.workspace.source_of(target.path))
        is_kept = is_edited or is_whole or canonical(entry.text) == canonical(was.text)
        if is_kept and not is_same and not entry.metadata.get("id") and id not in taken:
            after = add_metadata(after, entry, {"id": id})
            if entry.end_line <= place.end_line and not entry.metadata:
                place = attrs.evolve(place, end_line=place.end_line + 1)
    return after, place


@recovering
async def move(writer: Writer, to: str | os.PathLike[str], named: Named) -> Note:
    """Move a file, or lines of one to the end of another. See `kipu.Memory.move`."""
    context = writer.context
    name, real = resolve_destination(context, None, to)
    await writer.refuse_secret_names(name)
    async with writer.locked():
        targets = await resolve(context, named, any_name=named.is_whole_file)
        if any(target.real == real for target in targets):
            raise QueryError(f"{name} has it already.")
        id = None
        if named.is_whole_file:
            change = await _move_file(writer, targets[0], name, real)
            await writer.index()
            place = Place(name, 1, targets[0].end_line)
        else:
            targets = [await include_metadata(context, target) for target in targets]
            place, id, change = await _move_lines(writer, targets, name, real)
            await writer.index(name, *(target.path for target in targets))
        (moved,) = await find_chunks_at(writer, [place])
        text = await read(writer, Named(path=name, start=place.start_line, end=place.end_line, all=True))
    return Note(name, place.start_line, place.end_line, text, moved, id=id, change=change)


@retried(FileChangedError, attempts=5)
async def _move_file(writer: Writer, target: Target, path: str, real: str) -> str | None:
    if writer.context.workspace.is_link(target.path):
        raise MemoryFileError(f"{target.path} is reached by a symbolic link. Move the file that it leads to.")
    data, _ = await asyncio.to_thread(read_file, writer.context.workspace, target.real, target.path)
    there, _ = await asyncio.to_thread(read_file, writer.context.workspace, real, path)
    if there is not None:
        raise QueryError(f"{path} exists already. To move lines into it, name the lines.")
    changes = FileChange(real, None, data, like=target.real), FileChange(target.real, data, None)
    return await writer.commit(*changes, kind="move")


@retried(FileChangedError, attempts=5)
async def _move_lines(
    writer: Writer, targets: Sequence[Target], path: str, real: str
) -> tuple[Place, str | None, str | None]:
    """Move lines to the end of another file. Return where they are there, the id of one entry, and the change."""
    context, changes, places, notices = writer.context, [], [], []
    there, other = await asyncio.to_thread(read_file, context.workspace, real, path)
    for (old_real, old_path), of_file in _by_file(targets):
        data, file = await asyncio.to_thread(read_file, context.workspace, old_real, old_path)
        rest, gone = _without(context, file, of_file)
        notices += gone
        for target in reversed(of_file):
            lines = dedent(target.text.split("\n"))
            changed, first = append(other, lines)
            other, place = await _keep_ids(context, file, target, changed, first, len(lines), path)
            places.append(place)
        changes.append(FileChange(old_real, data, None if rest is None else rest.data()))
    change = await writer.commit(FileChange(real, there, writer.encode(other, path)), *changes, kind="move")
    context.notices.add(*notices)
    place = Place(path, places[0].start_line, places[-1].end_line)
    return place, await _single_id(context, place, _overlapping(other, place)), change


@retried(FileChangedError, attempts=5)
async def take_out(writer: Writer, target: Target) -> None:
    """Remove lines from their file. Call it with the lock held."""
    data, file = await asyncio.to_thread(read_file, writer.context.workspace, target.real, target.path)
    rest, notices = _without(writer.context, file, [target])
    await writer.commit(FileChange(target.real, data, None if rest is None else rest.data()))
    writer.context.notices.add(*notices)


def _without(context: Context, file: TextFile, targets: Sequence[Target]) -> tuple[TextFile | None, list[str]]:
    """Return a file without targets, None if it is to be removed; and sentences about what goes with them."""
    rest: TextFile | None = file
    headings: list[str] = []
    for target in reversed(targets):
        rest, above = remove(rest or TextFile([]), target)
        headings = above + headings
    notices = [f"Nothing was left below {' and '.join(headings)}, so it was removed too."] if headings else []
    if rest is None and context.workspace.is_link(targets[0].path):
        rest = TextFile([])  # a symlink leads to the file, which stays, without a text
    elif rest is None:
        notices.append(f"Nothing was left in {targets[0].path}, so the file was removed.")
    return rest, notices
