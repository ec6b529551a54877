"""The context of a chunk: lines around it that are indexed with it and not shown."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from .headings import ANNOUNCING
from .tokens import reach, reach_back

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .headings import Section
    from .packing import Packer, Span

__all__ = ["Surroundings"]


class Surroundings:
    """The lines with words next to a span, without headings, which are indexed with every chunk.

    A line longer than a chunk is shortened to the part next to the span.
    """

    def __init__(self, packer: Packer, sections: Sequence[Section], *, before: int, after: int) -> None:
        self.lines = packer.lines
        self.packer = packer
        self.before = before
        self.after = after
        blocks = [block for section in sections for block in section.blocks if block.kind not in ANNOUNCING]
        indices = (index for block in blocks for index in range(block.start, block.end))
        self.speaking = [index for index in indices if any(map(str.isalnum, self.lines[index]))]

    def of(self, span: Span) -> list[str]:
        """Return the lines before and after ``span``, in order, each shortened to the part next to it.

        The rest of a line that was cut counts as a line. The opening of a span comes first, also from farther away.
        """
        last = self.lines[span.end - 1]
        is_cut_before = span.left > 0 and self.before > 0
        is_cut_after = span.right is not None and span.right < len(last) and self.after > 0
        first = bisect_left(self.speaking, span.start)
        behind = bisect_left(self.speaking, span.end)
        before = self.speaking[max(0, first - self.before + is_cut_before) : first]
        after = self.speaking[behind : behind + self.after - is_cut_after]
        context = [self._end_of(index) for index in before]
        if span.opening is not None and span.opening < span.start and span.opening not in before:
            context.insert(0, self._start_of(span.opening))
        if is_cut_before:
            context.append(self._end_of(span.start, span.left))
        if is_cut_after:
            context.append(self._start_of(span.end - 1, span.right or 0))
        context.extend(self._start_of(index) for index in after)
        return [line for line in context if line]

    def _start_of(self, index: int, start: int = 0) -> str:
        line = self.lines[index]
        if self.packer.size(index, index + 1) <= self.packer.limit:
            return line[start:].strip()
        end = reach(line, start, self.packer.limit)
        part = line[start:end]
        if end < len(line):
            part = part.rpartition(" ")[0] or part
        return part.strip()

    def _end_of(self, index: int, end: int | None = None) -> str:
        line = self.lines[index]
        if self.packer.size(index, index + 1) <= self.packer.limit:
            return line[:end].strip()
        end = len(line) if end is None else end
        start = reach_back(line, end, self.packer.limit)
        part = line[start:end]
        if start > 0:
            part = part.partition(" ")[2] or part
        return part.strip()
