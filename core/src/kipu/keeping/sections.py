"""The sections of a memory file, by the headings that searches show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from ..errors import QueryError
from ..markdown import Kind, canonical, front_matter, heading_text, heading_title, scan
from ..plugins.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

_BETWEEN = " > "


@attrs.frozen
class Section:
    """A section from its heading up to the next heading, by their lines, which count from 0.

    ``title`` is its heading as it is written, ``text`` as it is shown, and ``path`` that of all headings above it.
    """

    start: int
    end: int
    title: str
    text: str
    path: str


def sections(lines: Sequence[str]) -> list[Section]:
    """Return the sections of a file, in order."""
    above = front_matter(lines)
    headings = [block for block in scan(lines, above.end, tolerant=True) if block.kind is Kind.HEADING]
    ends = [*(heading.start for heading in headings), len(lines)][1:]
    root = " ".join(", ".join(above.properties.get("title", ())).split())
    path, found = [(0, root)] if root else [], []
    for heading, end in zip(headings, ends, strict=True):
        text = heading_text(lines[heading.start])
        path = [*(parent for parent in path if parent[0] < heading.level), (heading.level, text)]
        names = _BETWEEN.join(name for _, name in path if name)
        found.append(Section(heading.start, end, heading_title(lines[heading.start]), text, names))
    return found


def sections_named(found: Sequence[Section], heading: str) -> list[Section]:
    """Return the sections with a heading as it is written or shown; else those whose path is or ends with it."""
    wanted = {_comparable(heading), _comparable(heading_text(f"# {heading}"))} - {""}
    named = [section for section in found if wanted & {_comparable(section.title), _comparable(section.text)}]
    if named or not _is_path(heading):
        return named
    shown = _BETWEEN.join(heading_text(f"# {part}") for part in re.split(r"\s+>\s+", heading))
    ends = tuple(f"{_BETWEEN}{_comparable(path)}" for path in (heading, shown))
    return [section for section in found if f"{_BETWEEN}{_comparable(section.path)}".endswith(ends)]


def describe_choice(found: Sequence[Section], heading: str, path: str) -> str:
    """Return a sentence if several sections of a file have a heading, or if a new one is like another; else nothing.

    :raises QueryError: no section has that path of headings.
    """
    named = sections_named(found, heading)
    if len(named) > 1:
        places = ", ".join(f'"{section.path}" (line {section.start + 1})' for section in named)
        choice = " Name another one by its path." if len({section.path for section in named}) > 1 else ""
        return f'{path} has {len(named)} sections "{heading}": {places}. The first was taken.{choice}'
    if named:
        return ""
    if _is_path(heading):
        near = did_you_mean(heading, [section.path for section in found])
        raise QueryError(
            f'{path} has no section "{heading}".{near} To create one, name its heading alone: '
            f'"{heading.rpartition(_BETWEEN)[2].strip()}".'
        )
    near = did_you_mean(heading, [section.text for section in found])
    return f'{path} had no heading "{heading}", so it was added.{near}' if near else ""


def _is_path(heading: str) -> bool:
    return re.search(r"\S\s+>\s+\S", heading) is not None


def _comparable(text: str) -> str:
    return canonical(text).casefold()
