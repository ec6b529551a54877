"""Mark an entry as superseded: which entry replaced it, and until when it was valid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import QueryError
from ..index.entries import find_entries, names_of
from ..markdown import Kind, entries, format_metadata, item_mark
from ..types import Place
from .edits import replace
from .targets import check_target

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from ..context import Context
    from ..markdown import Entry
    from ..workspace.text import TextFile
    from .targets import Target


def mark_superseded(file: TextFile, old: Target, id: str, day: date) -> TextFile:
    """Return a file in which the metadata of an entry names its successor, and the day until which it was valid.

    :raises QueryError: the lines of ``old`` are not those of one entry.
    :raises FileChangedError: they have changed.
    """
    entry = entry_of(file, old)
    until = min(day.isoformat(), entry.metadata.get("valid_until", day.isoformat()))
    return add_metadata(file, entry, {"superseded_by": id, "valid_until": until})


def add_metadata(file: TextFile, entry: Entry, more: Mapping[str, str]) -> TextFile:
    """Return a file in which an entry has more metadata."""
    # The lines of a long file are stripped once only.
    old = file._replace(lines=file.lines[entry.start_line - 1 : entry.end_line]).plain_lines
    below = "".join(file.lines[entry.end_line : entry.end_line + 1]).rstrip("\r\n")
    line = old.pop() if entry.metadata else "  " * entry.is_item
    margin = line[: len(line) - len(line.lstrip(" \t>"))]
    new = [*old, margin + format_metadata({**entry.metadata, **more})]
    # After code in an item, the line is a paragraph: a text directly below goes on with it, a rule underlines it.
    if below.strip() and entries([*new, below])[0].end_line != len(new):
        new.append("")
    return replace(file, entry.start_line, entry.end_line, new)


def entry_of(file: TextFile, target: Target) -> Entry:
    """Return the one entry that the lines of a target are of.

    :raises QueryError: there is none, or there are several, or it has no place for metadata.
    """
    check_target(file, target)
    lines = file.plain_lines
    found = [
        entry for entry in entries(lines) if entry.end_line >= target.start_line and entry.start_line <= target.end_line
    ]
    if not found:
        raise QueryError(f"In {target.place}, there is no entry that could be superseded.")
    if len(found) > 1:
        ranges = ", ".join(str(Place(target.path, entry.start_line, entry.end_line)) for entry in found[:5])
        raise QueryError(
            f"In {target.place}, there are {len(found)} entries. Name the one that is superseded: {ranges}."
        )
    (entry,) = found
    whole = Place(target.path, entry.start_line, entry.end_line)
    first = lines[target.start_line - 1]
    if target.start_line > entry.start_line and first[:1] in (" ", "\t") and item_mark(first):
        raise QueryError(
            f"{target.place} is an item within another one, and metadata is that of the whole: name {whole}, or move "
            "the inner item out of it first."
        )
    if entry.kind in (Kind.TABLE, Kind.FENCE) and not entry.is_item:
        raise QueryError(
            f"{whole} is a table or a block of code, which has no place for the line that names its successor. Write "
            "that line above it, or make it an item of a list."
        )
    return entry


async def find_entry(context: Context, id: str) -> Place | None:
    """Return where the first entry with that id is, if the scope sees it."""
    async with context.database.reader() as connection:
        found = await find_entries(connection, id, context.scope.sources)
    return Place(found[0].path, found[0].start_line, found[0].end_line) if found else None


async def find_superseded(context: Context, id: str, *, is_derived: bool) -> list[Place]:
    """Return the entries that are superseded by the one with that full id, as far as the scope sees them."""
    names = names_of(id, is_derived=is_derived)
    async with context.database.reader() as connection:
        rows = await connection.execute_fetchall(
            "SELECT files.path, start_line, end_line FROM metadata CROSS JOIN entries ON metadata_id = metadata.id "
            f"CROSS JOIN files ON files.id = file_id WHERE superseded_by IN ({', '.join('?' * len(names))})",
            names,
        )
    return [Place(*row) for row in rows if context.scope.sees(row[0])]
