"""Pack the blocks of a section into spans, which are parts of the document within the limit of a chunk."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import attrs

from kipu.markdown import Block, Kind

from .headings import ANNOUNCING
from .tokens import QUARTERS, cut_line, quarters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["Packer", "Span"]

_ATOMIC = (Kind.FENCE, Kind.TABLE)
_BESIDE_HEADING = 4  # a heading takes a part of a line if that gets at least a quarter of the span


@attrs.frozen
class Span:
    """A part of a document: from column ``left`` of line ``start`` up to column ``right`` of the line before ``end``.

    Lines count from 0 and ``end`` is excluded. ``right`` is None for whole lines. ``opening`` is a line that every
    part needs: the first one of a fence or table that was split, or the one that announces a list.
    """

    start: int
    end: int
    left: int = 0
    right: int | None = None
    opening: int | None = None


@attrs.define
class _Open:
    """The span being filled; ``starts`` are the first lines of its blocks in order."""

    starts: list[int]
    end: int
    opening: int | None
    announcing: bool

    @property
    def start(self) -> int:
        return self.starts[0]


class Packer:
    """Fills spans with as many blocks as fit, in order. A block that is too long for a span is split.

    ``limit`` and ``overlap`` are in quarters of a token. A heading or rule is not the end of a span, unless a
    fence or table follows that would have to be split to join it.
    """

    def __init__(self, lines: Sequence[str], limit: int, overlap: int = 0) -> None:
        self.lines = lines
        self.limit = limit
        self.overlap = overlap
        # The size of lines a to b, joined by line feeds, is offsets[b] - offsets[a] - 1: each line is measured once.
        self.offsets = list(accumulate((quarters(line) + 1 for line in lines), initial=0))
        self._spans: list[Span] = []
        self._open: _Open | None = None

    def pack(self, blocks: Iterable[Block]) -> list[Span]:
        """Return the spans that hold the blocks of one section."""
        self._spans = []
        for block in blocks:
            self._add(block, None)
        self._close()
        return self._spans

    def size(self, start: int, end: int) -> int:
        """Return the quarters of the lines from ``start`` up to ``end``, joined by line feeds."""
        return self.offsets[end] - self.offsets[start] - 1

    def _add(self, block: Block, opening: int | None) -> None:
        current = self._open
        if current and self.size(current.start, block.end) <= self.limit:
            current.starts.append(block.start)
            current.end = block.end
            current.announcing = current.announcing and block.kind in ANNOUNCING
            return
        fits = self.size(block.start, block.end) <= self.limit
        room = self._room_beside_heading(block.start)
        if fits and (not room or block.kind in _ATOMIC or block.kind in ANNOUNCING):
            self._begin(block, opening)
        elif block.end - block.start == 1:
            self._cut(block.start, room, opening)
        else:
            if not room:
                self._close()
            if opening is None and block.kind in _ATOMIC:
                opening = block.start
            for part in self._parts(block):
                self._add(part, opening)

    def _room_beside_heading(self, index: int) -> int:
        """Return how much of line ``index`` can join a heading without text; 0 if that is too little."""
        current = self._open
        if current is None or not current.announcing:
            return 0
        line = self.lines[index]
        indentation = len(line) - len(line.lstrip())
        room = self.limit - (self.offsets[index] - self.offsets[current.start]) - indentation * QUARTERS
        return room if room >= self.limit // _BESIDE_HEADING else 0

    def _begin(self, block: Block, opening: int | None) -> None:
        """Close the span being filled and begin another one with ``block``, after the overlap."""
        starts = [block.start]
        previous = self._open
        if self.overlap and previous:
            for start in reversed(previous.starts[1:]):
                if self.size(start, previous.end) > self.overlap or self.size(start, block.end) > self.limit:
                    break
                starts.insert(0, start)
        self._close()
        self._open = _Open(starts, block.end, opening, block.kind in ANNOUNCING)

    def _close(self) -> None:
        if self._open:
            self._spans.append(Span(self._open.start, self._open.end, opening=self._open.opening))
        self._open = None

    def _parts(self, block: Block) -> Iterator[Block]:
        """Yield the non-blank lines of a block. The first and last lines of a fence or table stay with a neighbour."""
        starts = [index for index in range(block.start, block.end) if self.lines[index].strip()]
        if block.kind not in _ATOMIC or len(starts) < 3:
            yield from (Block(block.kind, start, start + 1) for start in starts)
            return
        head = 2 if block.kind is Kind.FENCE or len(starts) < 4 else 3
        tail = 2 if block.kind is Kind.FENCE and len(starts) - head >= 2 else 0
        yield Block(block.kind, starts[0], starts[head - 1] + 1)
        yield from (Block(block.kind, start, start + 1) for start in starts[head : len(starts) - tail])
        if tail:
            yield Block(block.kind, starts[-tail], starts[-1] + 1)

    def _cut(self, index: int, room: int, opening: int | None) -> None:
        """Make spans of the pieces of a line. The first one joins a heading without text."""
        pieces = cut_line(self.lines[index], self.limit, first=room or None, overlap=self.overlap)
        if room and self._open:
            _, right = next(pieces)
            self._spans.append(Span(self._open.start, index + 1, 0, right, self._open.opening))
            self._open = None
        self._close()
        self._spans.extend(Span(index, index + 1, left, right, opening) for left, right in pieces)
