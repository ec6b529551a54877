"""Where words go in a memory file: how lines are added, replaced and taken out, with nothing else touched."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import QueryError
from ..markdown import fenced, heading_level, heading_of, normalized

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..workspace.text import TextFile

__all__ = ["append", "check_heading", "from_the_margin", "remove", "replace", "without_text"]

_ITEM = re.compile(r"(?:[-*+]|[0-9]{1,9}[.)])[ \t]")
_MARKS = "-*+"
_UNDERLINE = re.compile(r"(?:=+|-+)[ \t]*$")


class _Heading(NamedTuple):
    """A heading of a file: the index of its line, its level, and its title."""

    place: int
    level: int
    title: str


def check_heading(heading: Any) -> str:
    """The title of a heading, without its marks.

    :raises QueryError: it is no text of one line.
    """
    title = heading.strip() if isinstance(heading, str) else ""
    _, title = heading_of(title) or heading_of(f"# {title}") or (0, title)
    if not title or len(title.splitlines()) > 1 or "\0" in title:
        raise QueryError(f"A heading is a text of one line, not {heading!r}.")
    return title.encode("utf-8", "replace").decode("utf-8")


def append(file: TextFile, entry: Sequence[str], heading: str | None = None) -> tuple[TextFile, int]:
    """Put the lines of an entry at the end of a file, or of the section below a heading, which is made if need be.

    Without a heading it goes above the sections of the file: at its end it would belong to the last of them.

    :return: the file, and the number of the entry's first line, from 1.
    """
    plain = file.plain_lines
    headings = _headings(plain)
    at, title = len(plain), []
    if heading is not None:
        wanted = normalized(heading).casefold()
        places = [place for place, found in enumerate(headings) if normalized(found.title).casefold() == wanted]
        if places:
            following = headings[places[0] + 1 : places[0] + 2]
            at = following[0].place if following else len(plain)
        else:
            title = [f"## {heading}", ""]
    else:
        at = _above_sections(headings, len(plain))
    while at > 0 and not plain[at - 1].strip():
        at -= 1
    before = plain[at - 1] if at else ""
    # An item goes on with the list above it; all else begins after a blank line.
    mark = _mark_of_list(plain, at) if not title and _ITEM.match(entry[0]) else ""
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


def _above_sections(headings: Sequence[_Heading], end: int) -> int:
    """Where what stands below the last title of a file ends and its first section begins; a title is of level 1."""
    titles = [heading.place for heading in headings if heading.level == 1]
    return next((heading.place for heading in headings if not titles or heading.place > titles[-1]), end)


def from_the_margin(lines: Sequence[str]) -> Sequence[str]:
    """Lines that were a part of something, such as an inner item of a list, as something of their own.

    Indented, they would become a part of the item of a list that they are put below.
    """
    return textwrap.dedent("\n".join(lines)).split("\n") if lines[0][:1] in (" ", "\t") else lines


def _headings(lines: Sequence[str]) -> list[_Heading]:
    """The headings of a file, in order. What stands in a fence, in an item, or in a comment is none."""
    inside = fenced(lines)
    last_end = max((index for index, line in enumerate(lines) if "-->" in line), default=-1)
    found: list[_Heading] = []
    index = _end_of_front_matter(lines)
    while index < len(lines):
        line = lines[index]
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if inside[index] or not line.strip():
            index += 1
        elif line.startswith("<!--"):
            # One that nothing ends is looked for no end of: there may be thousands.
            index = next((end for end in range(index, last_end + 1) if "-->" in lines[end]), index) + 1
        elif heading := heading_of(line):
            found.append(_Heading(index, *heading))
            index += 1
        elif _is_title(line) and (index == 0 or not lines[index - 1].strip()) and _UNDERLINE.match(following):
            found.append(_Heading(index, 1 if following[0] == "=" else 2, line.strip()))
            index += 2
        else:  # a paragraph, whose last line is no heading by being underlined
            index = next(
                (end for end in range(index, len(lines)) if _ends_paragraph(lines[end], end > index)), len(lines)
            )
    return found


def _is_title(line: str) -> bool:
    """Whether a line would be a heading if it was underlined."""
    return _ITEM.match(line) is None and line[0] not in " \t>|"


def _ends_paragraph(line: str, is_later: bool) -> bool:
    return is_later and (not line.strip() or heading_of(line) is not None or line.startswith(("```", "~~~", "<!--")))


def _end_of_front_matter(lines: Sequence[str]) -> int:
    """The index of the first line after the front matter; 0 where there is none."""
    if not lines or lines[0].rstrip() != "---":
        return 0
    return next((index + 1 for index in range(1, len(lines)) if lines[index].rstrip() in {"---", "..."}), 0)


def _mark_of_list(lines: Sequence[str], end: int) -> str:
    """The mark of the list, if the last line before ``end`` belongs to an item that is not indented; else nothing."""
    for index in range(end - 1, -1, -1):
        line = lines[index]
        if _ITEM.match(line):
            return line[0] if line[0] in _MARKS else ""
        if line.strip() and line[0] not in " \t":
            return ""
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
    titles = {heading.place for heading in _headings(plain) if heading_of(plain[heading.place])}
    while True:
        above = first - 1
        while above >= 0 and not plain[above].strip():
            above -= 1
        below = last
        while below < len(plain) and not plain[below].strip():
            below += 1
        if above < 0 or above not in titles or (below < len(plain) and below not in titles):
            break
        level = heading_level(plain[above])
        if level >= lowest or (below < len(plain) and heading_level(plain[below]) > level):
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
