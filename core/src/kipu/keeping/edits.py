"""Add lines to a memory file, replace them and remove them, and touch nothing else."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

from ..errors import MemoryFileError, QueryError
from ..markdown import (
    Kind,
    entries,
    front_matter,
    heading_level,
    heading_title,
    item_mark,
    read_metadata,
    scan,
)
from ..markdown.entry import check_characters
from .sections import sections, sections_named
from .targets import check_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..markdown import Block
    from ..workspace.text import TextFile
    from .targets import Target

_MARKS = "-*+"
_BOX = re.compile(r"\[[ xX]\][ \t]")
_STRUCTURE = re.compile(r"[ \t>]|\|.*\|[ \t]*$|<!--")


def check_heading(heading: Any) -> str:
    """Return the title of a heading, without its marks.

    :raises QueryError: it is not a text of one line.
    """
    title = heading.strip() if isinstance(heading, str) else ""
    title = heading_title(title if heading_level(title) <= 6 else f"# {title}")
    if not title or len(title.splitlines()) > 1:
        raise QueryError(f"A heading is a text of one line, not {heading!r}.")
    check_characters("The heading", title)
    return title


def append(
    file: TextFile, entry: Sequence[str], heading: str | None = None, more: Sequence[Sequence[str]] = ()
) -> tuple[TextFile, int]:
    """Add the lines of an entry to the end of a section, which is created if it does not exist.

    Without a heading, the entry goes above the sections of the file: at its end it would belong to the last of them.

    :param more: the lines of further items, directly below the entry, which is an item too.
    :return: the file, and the number of the entry's first line, from 1.
    :raises MemoryFileError: it is a drawing of Excalidraw, whose data is in a comment below a title.
    """
    plain = file.plain_lines
    if any(line.startswith("excalidraw-plugin:") for line in front_matter(plain).lines):
        raise MemoryFileError("This file is a drawing of Excalidraw, which text in it may break. Name another file.")
    blocks = _blocks(plain)
    headings = [block for block in blocks if block.kind is Kind.HEADING]
    at, title = len(plain), []
    if heading is not None:
        if named := sections_named(sections(plain), heading):
            at = named[0].end
        else:
            title = [f"## {heading}", ""]
    else:
        at = _above_sections(headings, len(plain))
        if at < len(plain) and plain[at][:1] in (" ", "\t"):  # below an item, an indented heading would be a part of it
            at = len(plain)
    while at > 0 and not plain[at - 1].strip():
        at -= 1
    before = plain[at - 1] if at else ""
    # An item continues the list above it; anything else begins after a blank line.
    mark = _mark_of_list(plain, blocks, at) if not title and item_mark(entry[0]) else ""
    above = ([] if mark or not before else [""]) + title
    new = list(above)
    for first, *rest in (entry, *more):
        new += [mark + first[1:] if mark and first[0] in _MARKS else first, *rest]
    if at < len(plain) and plain[at].strip():
        new.append("")
    end = file.line_end
    lines = list(file.lines)
    if at and not lines[at - 1].endswith(("\n", "\r")):
        lines[at - 1] += end
    changed = file._replace(lines=[*lines[:at], *(line + end for line in new), *lines[at:]])
    return changed, at + len(above) + 1


def _blocks(lines: Sequence[str]) -> list[Block]:
    return scan(lines, front_matter(lines).end, tolerant=True)


def _above_sections(headings: Sequence[Block], end: int) -> int:
    """Return where the first section below the last title (a heading of level 1) of a file begins."""
    titles = [heading.start for heading in headings if heading.level == 1]
    return next((heading.start for heading in headings if not titles or heading.start > titles[-1]), end)


def dedent(lines: Sequence[str]) -> Sequence[str]:
    """Return lines that were a part of something, such as an inner item, as something of its own.

    Indented, they would become a part of the item that they are put below.
    """
    return textwrap.dedent("\n".join(lines)).split("\n") if lines[0][:1] in (" ", "\t") else lines


def _mark_of_list(lines: Sequence[str], blocks: Sequence[Block], end: int) -> str:
    """Return the mark of the list that the line before ``end`` belongs to, unless it is numbered; else nothing."""
    for block in reversed(blocks):
        start = lines[block.start][0]
        if block.start < end and start not in " \t":
            return start if block.is_item and start in _MARKS else ""
    return ""


def replace(file: TextFile, start: int, end: int, new: Sequence[str]) -> TextFile:
    """Replace the lines from ``start`` to ``end``, which count from 1 and are both included."""
    line_end = file.line_end
    ends_file = end >= len(file.lines) and not "".join(file.lines[-1:]).endswith(("\n", "\r"))
    lines = [line + line_end for line in new]
    if ends_file and lines:
        lines[-1] = new[-1]
    return file._replace(lines=[*file.lines[: start - 1], *lines, *file.lines[end:]])


def _remove_lines(file: TextFile, start: int, end: int) -> tuple[TextFile | None, list[str]]:
    """Remove lines, the headings above them that nothing is left below, and one of two blank lines around them.

    A heading that was above nothing before stays.
    """
    plain = file.plain_lines
    first, last = start - 1, min(end, len(plain))
    lowest = 7  # level of a heading that may go: of a section that holds the one that went before
    # Of an underlined heading, nothing goes: it may be a paragraph above a rule.
    levels = {block.start: block.level for block in _blocks(plain) if block.level and block.end - block.start == 1}
    while True:
        above = first - 1
        while above >= 0 and not plain[above].strip():
            above -= 1
        below = last
        while below < len(plain) and not plain[below].strip():
            below += 1
        if above not in levels or (below < len(plain) and below not in levels):
            break
        level = levels[above]
        if level >= lowest or levels.get(below, 0) > level:
            break
        first, lowest = above, level
    if (first == 0 or not plain[first - 1].strip()) and last < len(plain) and not plain[last].strip():
        last += 1
    lines = [*file.lines[:first], *file.lines[last:]]
    while last >= len(file.lines) and lines and not lines[-1].strip():
        lines.pop()
    headings = [line for line in plain[first : start - 1] if line.strip()]
    if not any(line.strip() for line in lines):
        return None, headings
    return _separate(plain, last, file._replace(lines=lines), first), headings


def _separate(before: Sequence[str], line: int, after: TextFile, at: int) -> TextFile:
    """Return a file with a blank line above the one at ``at`` if what is above would go on there, unlike before.

    :param before: the lines of the file before, in which that one was at ``line``. Both count from 0.
    """
    if not 0 < at < len(after.lines) or after.lines[at].startswith((*" \t\r\n", "- ", "* ", "# ", "## ")):
        return after
    was_start = any(block.start == line for block in _blocks(before))
    is_start = any(block.start == at for block in _blocks(after.plain_lines))
    return replace(after, at + 1, at, [""]) if was_start and not is_start else after


def reword(file: TextFile, target: Target, text: str) -> tuple[TextFile, int, int]:
    """Return a file with a text in the place of a target, where it begins, and how many lines it has.

    An item stays an item, and the metadata of an entry stays below it, unless the text brings a mark or metadata.

    :raises FileChangedError: the lines of the target have changed.
    """
    inside = check_target(file, target)
    old, new = target.text.split("\n"), text.split("\n")
    if inside == target.text:
        new = _as_item(old[0], new)
        new += _kept_metadata(old, new)
    lines = inside.replace(target.text, "\n".join(new), 1).split("\n")
    before, start = file.plain_lines, target.start_line - 1
    changed = replace(file, target.start_line, target.end_line, lines)
    changed = _separate(before, target.end_line, changed, start + len(lines))
    apart = _separate(before, start, changed, start)
    return apart, target.start_line + len(apart.lines) - len(changed.lines), len(new)


def _as_item(old: str, new: list[str]) -> list[str]:
    """Return lines with the mark of the item that they replace, and the box of a task, unless they have their own.

    Without a mark, a text would become a part of the item above it.
    """
    mark, block = item_mark(old), scan(new)[0]
    if not mark or block.kind is not Kind.TEXT or block.is_item or _STRUCTURE.match(new[0]):
        return new
    box = _BOX.match(old, len(mark))
    first = mark + (box[0] if box and not _BOX.match(new[0]) else "") + new[0]
    return [first, *(" " * len(mark) + line if line.strip() else "" for line in new[1:])]


def _kept_metadata(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return the line of metadata that stays if one entry is replaced by another; nothing in any other case."""
    before, after = entries(old), entries(new)
    if len(before) != 1 or not before[0].metadata or len(after) != 1 or any(map(read_metadata, new)):
        return []
    first = new[after[0].start_line - 1]
    margin = first[: len(first) - len(first.lstrip())] + ("  " if item_mark(first) else "")
    line = margin + old[before[0].end_line - 1].strip()
    with_line = entries([*new, line])  # a table, for one, has no place for it
    return [line] if len(with_line) == 1 and with_line[0].metadata == before[0].metadata else []


def remove(file: TextFile, target: Target) -> tuple[TextFile | None, list[str]]:
    """Return a file without the text of a target, and without the headings that nothing is left below.

    :raises FileChangedError: the lines of the target have changed.
    :return: the file, None if nothing is left in it but blank lines; and those headings.
    """
    inside = check_target(file, target)
    rest = inside.replace(target.text, "", 1)
    if rest.strip():  # a chunk of a very long line
        return replace(file, target.start_line, target.end_line, rest.split("\n")), []
    return _remove_lines(file, target.start_line, target.end_line)
