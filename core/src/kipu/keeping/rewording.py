"""What becomes of entries, and of what is known of them, when other words take the place of some lines.

Which lines are meant is found by `kipu.locating`, lines are put into a file by `kipu.editing`, and `kipu.keeping`
writes it. Here is only how a new text is fitted in, and what there is to tell of the entries around it.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from ..markdown import entries, format_metadata, leading_headings, read_metadata
from ..types import Place
from . import edits
from .targets import inside_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..markdown import Entry
    from ..workspace.text import TextFile
    from .targets import Target

__all__ = ["below_its_headings", "disturbed", "reworded"]

_MOST_TOLD = 3
_BOX = re.compile(r"\[[ xX]\][ \t]")
_MARK = re.compile(rf"(?P<mark>[ \t]*(?:[-*+]|[0-9]{{1,9}}[.)])[ \t]+)(?P<box>(?:{_BOX.pattern})?)(?=\S)")
_STRUCTURE = re.compile(
    r"[ \t]|[-*+][ \t]|[0-9]{1,9}[.)][ \t]|#{1,6}(?:[ \t]|$)|>|\|.*\|[ \t]*$|`{3}|~{3}|<!--|(?:-[ \t]*){3,}$"
)
_ENDS_BLOCK = re.compile(r"[ \t]*(?:\||`{3}|~{3}|=+[ \t]*$|-+[ \t]*$|#{1,6}(?:[ \t]|$)|.*-->[ \t]*$)")


def below_its_headings(target: Target, new: str = "") -> Target:
    """What is changed of a chunk: not the headings that it begins with, down to one that the new text brings.

    Other chunks may stand below the same headings.
    """
    count = leading_headings(target.text, new)
    text = "\n".join(target.text.split("\n")[count:])
    return target._replace(start_line=target.start_line + count, text=text)


def reworded(file: TextFile, target: Target, said: str) -> tuple[TextFile, int, list[str]]:
    """A file with a text in the place of a target.

    An item stays an item, and what is known of an entry stays with it, where the text says nothing else.

    :return: the file; how many lines the text has in it; and what is not known of an entry any more, or of another one
        now, in sentences.
    :raises FileChangedError: the lines of the target do not say any more what they said.
    """
    inside = inside_of(file, target)
    old, new = target.text.split("\n"), said.split("\n")
    if inside == target.text:
        new = _as_item(old, new)
        new += _kept_below(old, new)
    lines = inside.replace(target.text, "\n".join(new), 1).split("\n")
    changed = edits.replace(file, target.start_line, target.end_line, lines)
    notices = _not_known_any_more(file, changed, target, lines)
    if len(notices) > _MOST_TOLD:
        notices[_MOST_TOLD:] = [f"So it is with {len(notices) - _MOST_TOLD:,} others."]
    notices += disturbed(file, changed, target)
    return changed, len(new), notices


def _as_item(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """New lines with the mark (and the box of a task) of the item that the old ones begin with, if they have none.

    A bare text there would become a part of the item above it.
    """
    mark = _MARK.match(old[0])
    if mark is None or _STRUCTURE.match(new[0]):
        return list(new)
    indent, box = " " * len(mark["mark"]), "" if _BOX.match(new[0]) else mark["box"]
    return [mark["mark"] + box + new[0], *(indent + line if line.strip() else "" for line in new[1:])]


def _kept_below(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The line of metadata that stays when the lines of an entry are replaced by those of another one.

    It is nothing where they bring one of their own, where the old or the new lines are not those of a single entry, and
    below what goes on in no further line, such as a table.
    """
    before, now = entries(old), entries(new)
    if len(before) != 1 or not before[0].metadata or len(now) != 1 or any(map(read_metadata, new)):
        return []
    first = new[now[0].start_line - 1]
    mark = _MARK.match(first)
    if mark is None and _ENDS_BLOCK.match(new[-1]):
        return []
    margin = first[: len(first) - len(first.lstrip())]
    line = f"{margin}{'  ' if mark else ''}{old[before[0].end_line - 1].strip()}"
    after = entries([*new, line])
    return [line] if len(after) == 1 and after[0].metadata == before[0].metadata else []


def disturbed(file: TextFile, changed: TextFile | None, target: Target) -> list[str]:
    """Sentences on entries that nobody changed, and that are others now, since they go on with what is left."""
    after = Counter(map(_said, entries(changed.plain_lines) if changed else []))
    places = []
    for entry in entries(file.plain_lines):
        if _touches(entry, target):
            continue
        if after[_said(entry)]:
            after[_said(entry)] -= 1
        else:
            places.append(Place(target.path, entry.start_line, entry.end_line))
    more = f", and in {len(places) - _MOST_TOLD:,} other places" if len(places) > _MOST_TOLD else ""
    told = ", ".join(map(str, places[:_MOST_TOLD]))
    return [f"What stood in {told}{more} is another entry now, with more or less in it. Look at it."] if told else []


def _said(entry: Entry) -> tuple[str, frozenset[tuple[str, str]]]:
    return entry.text, frozenset(entry.metadata.items())


def _not_known_any_more(file: TextFile, changed: TextFile, target: Target, new: Sequence[str]) -> list[str]:
    """Sentences on what was known of the entries of a target and is not any more, or of another one."""
    before = [entry for entry in entries(file.plain_lines) if _touches(entry, target)]
    now = target._replace(end_line=target.start_line + len(new) - 1)
    after = [entry for entry in entries(changed.plain_lines) if _touches(entry, now)]
    left = Counter(frozenset(entry.metadata.items()) for entry in after)
    brought = [said for line in new if (said := read_metadata(line))]
    keys = {key for said in brought for key in said}
    notices = []
    for metadata in (entry.metadata for entry in before if entry.metadata):
        if left[frozenset(metadata.items())]:
            left[frozenset(metadata.items())] -= 1
            if len(after) > len(before) and metadata not in brought:
                line = format_metadata(metadata)
                notices.append(f"There are more entries now, and of the last alone is known what was of one: {line}")
        elif not metadata.keys() <= keys:
            gone = format_metadata({key: value for key, value in metadata.items() if key not in keys})
            notices.append(f"What was known of it is not there any more: {gone}")
    return notices


def _touches(entry: Entry, target: Target) -> bool:
    return entry.end_line >= target.start_line and entry.start_line <= target.end_line
