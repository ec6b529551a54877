"""Says in the metadata of an entry that another one took its place, and until when it was believed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..errors import QueryError
from ..markdown import entries, format_metadata
from ..types import Place
from . import edits
from .targets import inside_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from ..markdown import Entry
    from ..workspace.text import TextFile
    from .targets import Target

__all__ = ["entry_at", "noted", "superseded"]

_NESTED_ITEM = re.compile(r"[ \t]+(?:[-*+]|[0-9]{1,9}[.)])[ \t]")


def superseded(file: TextFile, old: Target, id: str, today: date) -> TextFile:
    """A file in which an entry says that the one with that id took its place, and until when it was believed.

    :raises QueryError: the lines of ``old`` are not those of one entry.
    :raises FileChangedError: they do not say any more what they said.
    """
    entry, day = entry_at(file, old), today.isoformat()
    until = min(day, entry.metadata.get("valid_until", day))  # it may not have been believed any more anyway
    return noted(file, entry, {"superseded_by": id, "valid_until": until})


def noted(file: TextFile, entry: Entry, more: Mapping[str, str]) -> TextFile:
    """A file in which more is known of an entry."""
    indent = "  " if entry.is_item else ""
    last = entry.end_line - 1 if entry.metadata else entry.end_line
    kept = file.plain_lines[entry.start_line - 1 : last]
    line = indent + format_metadata(dict(entry.metadata) | dict(more))
    return edits.replace(file, entry.start_line, entry.end_line, [*kept, line])


def entry_at(file: TextFile, target: Target) -> Entry:
    """The one entry that has something in the lines of a target.

    :raises QueryError: there is none, or there are several, or it has no room for metadata.
    """
    inside_of(file, target)
    lines = file.plain_lines
    found = [
        entry for entry in entries(lines) if entry.end_line >= target.start_line and entry.start_line <= target.end_line
    ]
    place = Place(target.path, target.start_line, target.end_line)
    if not found:
        raise QueryError(f"In {place}, there is no entry that could be superseded.")
    if len(found) > 1:
        ranges = ", ".join(str(Place(target.path, entry.start_line, entry.end_line)) for entry in found[:5])
        raise QueryError(f"In {place}, there are {len(found)} entries. Name the one that is superseded: {ranges}.")
    (entry,) = found
    whole = Place(target.path, entry.start_line, entry.end_line)
    if target.start_line > entry.start_line and _NESTED_ITEM.match(lines[target.start_line - 1]):
        raise QueryError(
            f"{place} is an item within another one, and what is known is known of the whole: name {whole}, or give "
            "the inner item a place of its own first."
        )
    if lines[entry.end_line - 1].strip().startswith(("|", "```", "~~~")) and not entry.is_item:
        raise QueryError(
            f"{whole} is a table or a block of code, which has no room for a line that says what took its place. Write "
            "that above it, or make it an item of a list."
        )
    return entry
