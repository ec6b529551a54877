"""A scanner of Markdown lines: blocks and headings. Line numbers count from 0, and ends are excluded."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "Block",
    "Kind",
    "group_items",
    "item_mark",
    "scan",
]

# Atomic groups and possessive quantifiers keep every expression linear in the length of the line.
_MARK = r"(?:[-*+]|[0-9]{1,9}[.)])"
_START = re.compile(
    rf"""
      [ ]{{0,3}}(?P<heading>\#{{1,6}})(?:[ \t\r]|$)
    | (?P<fence>(?>[ \t>]*+(?:{_MARK}[ \t]++)*+[ \t>]*+)(?P<marks>`{{3,}}+(?=[^`]*$)|~{{3,}}+))
    | [ ]{{0,3}}(?P<underline>=++|-++)[ \t\r]*$
    | [ ]{{0,3}}(?P<rule>(?>(?:\*[ \t\r]*+){{3,}}|(?:-[ \t\r]*+){{3,}}|(?:_[ \t\r]*+){{3,}}))$
    | [ ]{{0,3}}(?P<comment><!--)
    | [ \t>]*+(?P<item>{_MARK}(?:[ \t\r]|$))
    """,
    re.VERBOSE,
)
ITEM = re.compile(rf"{_MARK}(?:[ \t]|$)")
_ITEM_MARK = re.compile(rf"[ \t]*+{_MARK}[ \t]++(?=\S)")
_DELIMITER_ROW = re.compile(
    rf"(?!{_MARK}[ \t])[ \t>]*+(?=[^|]*\|)\|?(?:[ \t]*+:?-++:?[ \t]*+(?:\||(?=[ \t\r]*$)))++[ \t\r]*$"
)
_LONGEST_SETEXT_HEADING = 200
_ENDS_NO_ITEM = ("heading", "underline", "rule", "comment")


class Kind(enum.Enum):
    """What a block is: ``TEXT``, ``HEADING``, ``RULE``, ``FENCE`` or ``TABLE``."""

    TEXT = "text"
    HEADING = "heading"
    RULE = "rule"
    FENCE = "fence"
    TABLE = "table"


@attrs.define
class Block:
    """Lines that belong together, from ``start`` up to ``end``, which is excluded; they count from 0.

    ``level`` is that of a heading, 0 for anything else. ``is_item`` is true for what begins an item of a list.
    """

    kind: Kind
    start: int
    end: int
    level: int = 0
    is_item: bool = False


def scan(lines: Sequence[str], first: int = 0, *, tolerant: bool = False) -> list[Block]:
    """Return the blocks of a text from line ``first`` on, in order. Blank lines around blocks belong to none.

    It looks no further into the syntax than where a text may be cut. What it does not know is a paragraph.

    :param tolerant: end a fence or a comment only at a line that is neither indented nor an item, and read one that is
        never ended as text. So the text of an entry never changes how the lines above it are read, and a fence that
        was left open hides no entries. By default, as in CommonMark, these run to the end of the text.
    """
    scanner = _Scanner(lines, tolerant)
    index = first
    while index < len(lines):
        index = scanner.take(index)
    return scanner.blocks


class _Scanner:
    """Reads line by line, in time linear in the length of the text."""

    def __init__(self, lines: Sequence[str], tolerant: bool) -> None:
        self.lines = lines
        self.tolerant = tolerant
        self.blocks: list[Block] = []
        self.in_item = False  # whether indented lines belong to an item of a list
        self.never_ended: set[str] = set()  # openings of fences and comments that nothing ends from here on

    def take(self, index: int) -> int:
        """Read the line at ``index`` and what belongs to it. Return the index of the next line to read."""
        line = self.lines[index]
        if not line or line.isspace():
            return index + 1
        if "|" in line and self._is_table(index):
            is_item = ITEM.match(line) is not None
            self.in_item |= is_item
            return self._add(Kind.TABLE, index, self._table_end(index), is_item=is_item)
        found = None if line[0].isalpha() else _START.match(line)  # what is special starts with something else
        construct = found.lastgroup if found else None
        if line[0] not in " \t":
            self.in_item = False
        elif self.in_item and construct in _ENDS_NO_ITEM:  # a heading in an item begins no section of the document
            return self._text(index)
        if found is None or construct is None:
            return self._text(index)
        if construct == "heading":
            return self._add(Kind.HEADING, index, index + 1, level=len(found["heading"]))
        if construct == "fence":
            return self._fence(index, found["marks"], found["fence"].removesuffix(found["marks"]))
        if construct == "underline":
            return self._underline(index, found["underline"])
        if construct == "rule":
            return self._add(Kind.RULE, index, index + 1)
        if construct == "comment":
            end = self._comment_end(index)
            return self._add(Kind.TEXT, index, end) if end else self._text(index)
        self.in_item = True
        return self._add(Kind.TEXT, index, index + 1, is_item=True)

    def _add(self, kind: Kind, start: int, end: int, *, level: int = 0, is_item: bool = False) -> int:
        self.blocks.append(Block(kind, start, end, level, is_item))
        return end

    def _text(self, index: int) -> int:
        """Go on with a paragraph or with an item (its indented lines may follow a blank one), or begin a paragraph."""
        block = self.blocks[-1] if self.blocks else None
        if (
            block
            and block.kind is Kind.TEXT
            and (block.end == index or (block.is_item and self.lines[index][0] in " \t"))
        ):
            block.end = index + 1
            return block.end
        return self._add(Kind.TEXT, index, index + 1)

    def _underline(self, index: int, marks: str) -> int:
        """Read a line of ``=`` or ``-``: below a paragraph of one line, it makes a heading; else it is a rule or text.

        CommonMark makes a heading of a longer paragraph too; in notes that is a rule written too close to a text.
        """
        block = self.blocks[-1] if self.blocks else None
        if block and block.kind is Kind.TEXT and not block.is_item and (block.start, block.end) == (index - 1, index):
            above = self.lines[index - 1]
            if len(above) <= _LONGEST_SETEXT_HEADING and not above.startswith((">", "<!--", "    ", "\t")):
                self.blocks.pop()
                return self._add(Kind.HEADING, index - 1, index + 1, level=1 if marks[0] == "=" else 2)
        if marks[0] == "-" and len(marks) >= 3:
            return self._add(Kind.RULE, index, index + 1)
        return self._text(index)

    def _fence(self, index: int, marks: str, opening: str) -> int:
        quoted, is_item = ">" in opening, bool(opening.strip(" \t>"))
        self.in_item |= is_item and not opening.lstrip().startswith(">")
        if self.tolerant and not quoted and not self.in_item:
            end = 0 if opening else self._end_at_the_margin(index, marks)
            return self._add(Kind.FENCE, index, end) if end else self._text(index)
        return self._add(Kind.FENCE, index, self._fence_end(index, marks, opening, quoted), is_item=is_item)

    def _fence_end(self, start: int, marks: str, opening: str, quoted: bool) -> int:
        """Return the line after the closing fence. A fence ends with its quotation or item, any other with the text."""
        padding = " \t\r>" if quoted else " \t\r"
        for index in range(start + 1, len(self.lines)):
            line = self.lines[index]
            if quoted and not line.lstrip().startswith(">"):
                return index
            if self.in_item and opening and line and line[0] not in " \t":
                return self._end_before(index)
            if marks in line:
                bare = line.strip(padding)
                if bare.startswith(marks) and not bare.strip(marks[0]):
                    return index + 1
        return self._end_before(len(self.lines))

    def _comment_end(self, start: int) -> int:
        """Return the line after the one that closes an HTML comment; without one it runs to the end."""
        if self.tolerant:
            return start + 1 if "-->" in self.lines[start] else self._end_at_the_margin(start, "-->")
        for index in range(start, len(self.lines)):
            if "-->" in self.lines[index]:
                return index + 1
        return self._end_before(len(self.lines))

    def _end_at_the_margin(self, start: int, marks: str) -> int:
        """Return the line after the one below ``start`` that closes a fence or a comment; 0 if no line does."""
        if any(marks.startswith(known) for known in self.never_ended):
            return 0
        for index in range(start + 1, len(self.lines)):
            if marks not in (line := self.lines[index]):
                continue
            is_end = marks == "-->" or (line.startswith(marks) and not line.rstrip().strip(marks[0]))
            if is_end and line[0] not in " \t" and not ITEM.match(line):
                return index + 1
        self.never_ended.add(marks)
        return 0

    def _end_before(self, index: int) -> int:
        """Return the line after the last one before ``index`` that is not blank."""
        while not self.lines[index - 1].strip():
            index -= 1
        return index

    def _is_table(self, index: int) -> bool:
        following = self.lines[index + 1] if index + 1 < len(self.lines) else ""
        return "|" in following and "-" in following and _DELIMITER_ROW.match(following) is not None

    def _table_end(self, start: int) -> int:
        index = start + 2
        while index < len(self.lines) and "|" in self.lines[index] and not ITEM.match(self.lines[index]):
            index += 1
        return index


def group_items(lines: Sequence[str], blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """Yield the blocks that belong together: an item with all that is indented below it, or a block by itself."""
    group: list[Block] = []
    for block in blocks:
        is_below = group and group[0].is_item and lines[block.start][0] in " \t"
        if group and (not is_below or block.kind is Kind.HEADING):
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def item_mark(line: str) -> str:
    """Return the mark of an item of a list, with the white space around it; nothing for any other line."""
    found = _ITEM_MARK.match(line)
    return found[0] if found else ""
