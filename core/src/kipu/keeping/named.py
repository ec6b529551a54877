"""What a caller names, by an id, a chunk or the lines of a file: find it, and refuse what names several entries."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ChunkNotFoundError, FileChangedError, IndexUnavailableError, QueryError
from ..index.entries import find_entries, shown_ids
from ..markdown import canonical, derive_id, entries
from ..workspace.paths import parse_place
from .files import read_file
from .targets import Target, check_lines, find_chunk, resolve_file

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from ..context import Context
    from ..markdown import Entry

_LABEL = re.compile(r"\[[0-9,]+ KB of [^\]]+\]")
_MOST_LISTED = 20
_SHOWN_CHARACTERS = 60


class Named(NamedTuple):
    """What a caller names: an id, a chunk, or the lines of a file, and what they say as far as it knows.

    ``all`` is whether it may be several entries. See `Memory.edit`.
    """

    id: str | None = None
    chunk: str | None = None
    path: str | os.PathLike[str] | None = None
    start: int | None = None
    end: int | None = None
    expected: str | None = None
    all: bool = False

    @property
    def is_whole_file(self) -> bool:
        """Whether it is a file, without lines."""
        return self.path is not None and self.start is None and self.end is None


async def resolve(context: Context, named: Named, *, any_name: bool = False) -> list[Target]:
    """Return the lines that a caller names, from the top; several if they are entries with one id, in any files.

    :param any_name: of a file that is moved as a whole: see `resolve_file`.
    :raises FileChangedError: they do not say what was ``expected``.
    :raises QueryError: they are several entries, and not ``all`` are named.
    """
    id, chunk, path, start, end, expected, is_all = named
    if [id, chunk, path].count(None) != 2:
        raise QueryError("Name one of these: an id, a chunk, or a path with lines.")
    if path is None and (start is not None or end is not None):
        raise QueryError("An id and a chunk have their own lines: name one of them, or a path with lines.")
    if path is not None:
        name, real = resolve_file(context, path, any_name=any_name)
        _, file = await asyncio.to_thread(read_file, context.workspace, real, name)
        first, last = check_lines(name, start, end, len(file.lines))
        targets = [Target(name, real, first, last, "\n".join(file.plain_lines[first - 1 : last]))]
    elif chunk is not None:
        targets = [await _resolve_chunk(context, chunk)]
    else:
        targets = await _resolve_id(context, id or "")
    if expected is not None and not _says("\n".join(target.text for target in targets), _comparable(expected)):
        raise FileChangedError(
            f"{targets[0].place} does not say what was expected. Nothing was changed. Read it again and retry."
        )
    if not is_all and not any_name:
        await _check_single(context, id or chunk or str(targets[0].place), targets)
    return targets


async def _resolve_chunk(context: Context, name: str) -> Target:
    found = await find_chunk(context, name)
    _, real = resolve_file(context, found.path)
    _, file = await asyncio.to_thread(read_file, context.workspace, real, found.path)
    inside = "\n".join(file.plain_lines[found.start_line - 1 : found.end_line])
    first, *rest = map(re.escape, _LABEL.split(found.text))  # in a chunk, a label may stand for data
    pattern = "".join([first, *(f"(?>.+?{part})" if part else ".+" for part in rest)])
    text = inside if rest and re.fullmatch(pattern, inside, re.DOTALL) else found.text
    return Target(found.path, real, found.start_line, found.end_line, text, is_chunk=True)


async def _resolve_id(context: Context, id: str) -> list[Target]:
    """Return the entries with an id, where they are now; or the chunk of that name, if no entry has it."""
    async with context.database.reader() as connection:
        found = await find_entries(connection, id, context.scope.sources)
    if not found:
        with contextlib.suppress(ChunkNotFoundError):
            return [await _resolve_chunk(context, id)]
        short = " A derived id is named by at least 8 characters." if len(id) < 8 else ""
        raise ChunkNotFoundError(
            f'There is no entry with the id "{id}", and no such chunk.{short} To see all ids: kipu list'
        )
    full, targets = {entry.id for entry in found}, []
    for path in dict.fromkeys(entry.path for entry in found):
        for entry, target in await _entries_of(context, path):
            if entry.id_in(context.workspace.source_of(path)) in full:
                targets.append(target)
    if not targets:
        raise FileChangedError(f'{found[0].path} has changed since it was indexed, and has no entry "{id}". Try again.')
    return targets


async def _entries_of(context: Context, path: str) -> list[tuple[Entry, Target]]:
    """Return the entries of a file that have an id, each with its lines."""
    _, real = resolve_file(context, path)
    _, file = await asyncio.to_thread(read_file, context.workspace, real, path)
    lines, found = file.plain_lines, []
    for entry in await asyncio.to_thread(entries, lines):
        if entry.has_id:
            first, last = entry.start_line, entry.end_line
            found.append((entry, Target(path, real, first, last, "\n".join(lines[first - 1 : last]))))
    return found


async def _check_single(context: Context, name: str, targets: Sequence[Target]) -> None:
    """Raise QueryError if targets are several entries."""
    found: list[tuple[Entry, Target]] = []
    for path in dict.fromkeys(target.path for target in targets):
        inside = [target for target in targets if target.path == path]
        found += [
            (entry, target)
            for entry, target in await _entries_of(context, path)
            if any(each.start_line <= target.end_line and each.end_line >= target.start_line for each in inside)
        ]
    if len(found) < 2:
        return
    ids = await ids_of(context, [(target.path, entry) for entry, target in found[:_MOST_LISTED]])
    listed = "".join(
        f"\n  {id}  {target.place}  {canonical(entry.text)[:_SHOWN_CHARACTERS]}"
        for id, (entry, target) in zip(ids, found, strict=False)
    )
    more = f"\n  ... and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
    raise QueryError(
        f"{name} names {len(found)} entries. Name one of them; or to edit, move or forget all, add --all (all=True):"
        f"{listed}{more}"
    )


async def ids_of(context: Context, found: Iterable[tuple[str, Entry]]) -> list[str]:
    """Return the ids of entries in files, as they are shown. If the index is busy, derived ones have 8 characters."""
    pairs = [
        (entry.metadata.get("id"), derive_id(context.workspace.source_of(path), entry.text)) for path, entry in found
    ]
    derived = [full for explicit, full in pairs if not explicit]
    shown: dict[str, str] = {}
    with contextlib.suppress(IndexUnavailableError):
        async with context.database.reader() as connection:
            shown = await shown_ids(connection, derived, context.scope.sources)
    return [explicit or shown.get(full, full[:8]) for explicit, full in pairs]


def _says(text: str, expected: str) -> bool:
    """Return whether lines are what was expected: as they are, or without metadata, or only entries with that text."""
    lines = text.split("\n")
    found = entries(lines)
    metadata = {each.end_line for each in found if each.metadata}
    plain = "\n".join(line for number, line in enumerate(lines, 1) if number not in metadata)
    inside = {number for each in found for number in range(each.start_line, each.end_line + 1)}
    said = "\n".join(entry.text for entry in found)
    is_entries = bool(found) and all(number in inside or not line.strip() for number, line in enumerate(lines, 1))
    return expected in map(_comparable, (text, plain)) or (is_entries and expected in (said, f"- {said}"))


def _comparable(text: str) -> str:
    """Return a text with plain line ends, and without those at its end."""
    if not isinstance(text, str):
        raise QueryError(f"expected must be a text, not {text!r}.")
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


async def resolve_place(context: Context, place: str) -> Target:
    """Return the lines that are named in one text: an id, a chunk, or a path and lines such as ``memory/a.md:3-4``."""
    named = Named(**parse_place(place))
    if named.is_whole_file:
        raise QueryError(f"Name lines of {named.path}, such as {named.path}:3-4.")
    (target,) = await resolve(context, named)
    return target
