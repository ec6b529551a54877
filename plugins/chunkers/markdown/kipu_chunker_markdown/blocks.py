"""Finds the blocks of a Markdown document: a scanner over its lines.

It looks no further into the syntax than where a text may be cut: headings, fences, tables, list items, paragraphs.
What it does not know is a paragraph. Line numbers count from 0 here, and ends are excluded.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

import attrs

from .headings import plain_heading

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ANNOUNCING", "Block", "Kind", "Section", "scan"]

# Atomic groups and possessive quantifiers keep every expression linear in the length of the line.
_START = re.compile(
    r"""
      [ ]{0,3}(?P<heading>\#{1,6})(?:[ \t\r]|$)
    | (?P<fence>(?>[ \t>]*+(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]++)*+[ \t>]*+)(?P<marks>`{3,}+(?=[^`]*$)|~{3,}+))
    | [ ]{0,3}(?P<underline>=++|-++)[ \t\r]*$
    | [ ]{0,3}(?P<rule>(?>(?:\*[ \t\r]*+){3,}|(?:-[ \t\r]*+){3,}|(?:_[ \t\r]*+){3,}))$
    | [ ]{0,3}(?P<comment><!--)
    | [ \t>]*+(?P<item>(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t\r]|$))
    """,
    re.VERBOSE,
)
_DELIMITER_ROW = re.compile(r"[ \t>]*+(?=[^|]*\|)\|?(?:[ \t]*+:?-++:?[ \t]*+(?:\||(?=[ \t\r]*$)))++[ \t\r]*$")
_LONGEST_SETEXT_HEADING = 200
_ENDS_NO_ITEM = ("heading", "underline", "rule", "comment")


class Kind(enum.Enum):
    """What a block is."""

    TEXT = "text"
    HEADING = "heading"
    RULE = "rule"
    FENCE = "fence"
    TABLE = "table"


ANNOUNCING = (Kind.HEADING, Kind.RULE)
"""The blocks that say nothing by themselves but announce what follows."""


@attrs.define
class Block:
    """Lines that belong together. ``item`` is true for a list item."""

    kind: Kind
    start: int
    end: int
    item: bool = False


@attrs.define
class Section:
    """A heading and the blocks up to the next heading; ``level`` is 0 for what stands before the first one."""

    level: int = 0
    title: str = ""
    blocks: list[Block] = attrs.field(factory=list)


def scan(lines: Sequence[str], first: int = 0) -> list[Section]:
    """Return the sections of a document from line ``first`` on, in order; those without any block are left out."""
    scanner = _Scanner(lines)
    index = first
    while index < len(lines):
        index = scanner.take(index)
    return [section for section in scanner.sections if section.blocks]


class _Scanner:
    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.sections = [Section()]
        self.blocks = self.sections[-1].blocks
        self.in_item = False  # whether indented lines belong to a list item

    def take(self, index: int) -> int:
        """Take in the line at ``index``, and what belongs to it; return the index of the next line to look at."""
        line = self.lines[index]
        if not line or line.isspace():
            return index + 1
        if "|" in line and self._is_table(index):
            return self._add(Kind.TABLE, index, self._table_end(index))
        found = None if line[0].isalpha() else _START.match(line)  # what is special starts with something else
        construct = found.lastgroup if found else None
        if line[0] not in " \t":
            self.in_item = False
        elif self.in_item and construct in _ENDS_NO_ITEM:  # a heading in an item begins no section of the document
            return self._text(index)
        if found is None or construct is None:
            return self._text(index)
        if construct == "heading":
            return self._heading(index, index + 1, len(found["heading"]), plain_heading(line[found.end() :]))
        if construct == "fence":
            return self._add(
                Kind.FENCE, index, self._fence_end(index, found["marks"], found["fence"].removesuffix(found["marks"]))
            )
        if construct == "underline":
            return self._underline(index, found["underline"])
        if construct == "rule":
            return self._add(Kind.RULE, index, index + 1)
        if construct == "comment":
            return self._add(Kind.TEXT, index, self._comment_end(index))
        self.in_item = True
        return self._add(Kind.TEXT, index, index + 1, item=True)

    def _add(self, kind: Kind, start: int, end: int, *, item: bool = False) -> int:
        self.blocks.append(Block(kind, start, end, item))
        return end

    def _text(self, index: int) -> int:
        """Go on with a paragraph or with a list item (its indented lines may follow a blank one), or begin one."""
        block = self.blocks[-1] if self.blocks else None
        if block and block.kind is Kind.TEXT and (block.end == index or (block.item and self.lines[index][0] in " \t")):
            block.end = index + 1
            return block.end
        return self._add(Kind.TEXT, index, index + 1)

    def _heading(self, start: int, end: int, level: int, title: str) -> int:
        # A rule that ends a section announces the next one, and says nothing by itself.
        announced = self.blocks.pop() if self.blocks and self.blocks[-1].kind is Kind.RULE else None
        self.sections.append(Section(level, title))
        self.blocks = self.sections[-1].blocks
        if announced:
            self.blocks.append(announced)
        return self._add(Kind.HEADING, start, end)

    def _underline(self, index: int, marks: str) -> int:
        """A line of ``=`` or ``-``: it makes a heading of a paragraph of one line above it; else it is a rule or text.

        CommonMark makes a heading of a longer paragraph too; in notes that is a rule written too close to a text.
        """
        block = self.blocks[-1] if self.blocks else None
        if block and block.kind is Kind.TEXT and not block.item and (block.start, block.end) == (index - 1, index):
            above = self.lines[index - 1]
            if len(above) <= _LONGEST_SETEXT_HEADING and not above.startswith((">", "<!--", "    ", "\t")):
                self.blocks.pop()
                return self._heading(index - 1, index + 1, 1 if marks[0] == "=" else 2, plain_heading(above))
        if marks[0] == "-" and len(marks) >= 3:
            return self._add(Kind.RULE, index, index + 1)
        return self._text(index)

    def _fence_end(self, start: int, marks: str, opening: str) -> int:
        """The line after the closing fence; a fence in a quotation or an item ends with it, others run to the end."""
        quoted = ">" in opening
        if opening.strip() and not quoted:
            self.in_item = True
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
        """The line after the one that closes an HTML comment; without one it runs to the end, as in CommonMark."""
        for index in range(start, len(self.lines)):
            if "-->" in self.lines[index]:
                return index + 1
        return self._end_before(len(self.lines))

    def _end_before(self, index: int) -> int:
        """The line after the last one before ``index`` that is not blank."""
        while not self.lines[index - 1].strip():
            index -= 1
        return index

    def _is_table(self, index: int) -> bool:
        following = self.lines[index + 1] if index + 1 < len(self.lines) else ""
        return "|" in following and "-" in following and _DELIMITER_ROW.match(following) is not None

    def _table_end(self, start: int) -> int:
        index = start + 2
        while index < len(self.lines) and "|" in self.lines[index]:
            index += 1
        return index
