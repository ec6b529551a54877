"""Where words go in a memory file: how lines are added, replaced and taken out, with nothing else touched."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from ..errors import QueryError
from ..markdown import Kind, canonical, front_matter, heading_level, heading_title, item_mark, scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..markdown import Block
    from ..workspace.text import TextFile

__all__ = ["append", "check_heading", "from_the_margin", "remove", "replace", "without_text"]

_MARKS = "-*+"


def check_heading(heading: Any) -> str:
    """The title of a heading, without its marks.

    :raises QueryError: it is no text of one line.
    """
    title = heading.strip() if isinstance(heading, str) else ""
    title = heading_title(title if heading_level(title) <= 6 else f"# {title}")
    if not title or len(title.splitlines()) > 1 or "\0" in title:
        raise QueryError(f"A heading is a text of one line, not {heading!r}.")
    return title.encode("utf-8", "replace").decode("utf-8")


def append(file: TextFile, entry: Sequence[str], heading: str | None = None) -> tuple[TextFile, int]:
    """Put the lines of an entry at the end of a file, or of the section below a heading, which is made if need be.

    Without a heading it goes above the sections of the file: at its end it would belong to the last of them.

    :return: the file, and the number of the entry's first line, from 1.
    """
    plain = file.plain_lines
    blocks = _blocks(plain)
    headings = [block for block in blocks if block.kind is Kind.HEADING]
    at, title = len(plain), []
    if heading is not None:
        wanted = canonical(heading).casefold()
        titles = [canonical(heading_title(plain[found.start])).casefold() for found in headings]
        if wanted in titles:
            following = headings[titles.index(wanted) + 1 :][:1]
            at = following[0].start if following else len(plain)
        else:
            title = [f"## {heading}", ""]
    else:
        at = _above_sections(headings, len(plain))
    while at > 0 and not plain[at - 1].strip():
        at -= 1
    before = plain[at - 1] if at else ""
    # An item goes on with the list above it; all else begins after a blank line.
    mark = _mark_of_list(plain, blocks, at) if not title and item_mark(entry[0]) else ""
    above = ([] if mark or not before else [""]) + title
    first = mark + entry[0][1:] if mark and entry[0][0] in _MARKS else entry[0]
    new = [*above, first, *entry[1:]]
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


def from_the_margin(lines: Sequence[str]) -> Sequence[str]:
    """Lines that were a part of something, such as an inner item of a list, as something of their own.

    Indented, they would become a part of the item of a list that they are put below.
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
    """Put other lines in the place of the lines from ``start`` to ``end``, which count from 1 and are included."""
    line_end = file.line_end
    ends_file = end >= len(file.lines) and not "".join(file.lines[-1:]).endswith(("\n", "\r"))
    lines = [line + line_end for line in new]
    if ends_file and lines:
        lines[-1] = new[-1]
    return file._replace(lines=[*file.lines[: start - 1], *lines, *file.lines[end:]])


def remove(file: TextFile, start: int, end: int) -> TextFile | None:
    """Take out lines, the headings above them that nothing is left below, and a blank line of the two around them.

    A heading that was above nothing before stays.

    :return: the file; None where nothing is left in it but blank lines.
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
    return file._replace(lines=lines) if any(line.strip() for line in lines) else None


def without_text(file: TextFile, start: int, end: int, text: str) -> TextFile | None:
    """Take a text out of lines that hold more than it, as a chunk of a very long line; None where nothing is left."""
    left = "\n".join(file.plain_lines[start - 1 : end]).replace(text, "", 1)
    return replace(file, start, end, left.split("\n")) if left.strip() else remove(file, start, end)
