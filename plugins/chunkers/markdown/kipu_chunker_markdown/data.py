"""Data in the text of memory files: images, drawings and keys, which say nothing to a search or to a reader."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["without_data"]

_LONGEST_WORD = 500  # of letters and digits, in scripts that put spaces between words
_SHORTEST_DATA = 100
_SHORTEST_LINE = 60  # of base64 that goes on in further lines
_SHORTEST_BLOCK = 1_000
# Of letters, only those of scripts with white space between words: from Thai on there is none.
_DATA = re.compile(
    rf"""
      data:(?P<type>[\w.+-]*/[\w.+-]+)?(?:;[\w.=+-]+)*+,[A-Za-z0-9+/=_%!$*:;?@.~&-]{{100,}}+
    | (?<![A-Za-z0-9+/=_%-])[A-Za-z0-9+/=_%-]{{{_LONGEST_WORD},}}+
    | (?<![^\W_])(?:(?![\u0e00-\U0010ffff])[^\W_]){{{_LONGEST_WORD},}}+
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BASE64 = re.compile(r"[ \t>]*+(?=[^A-Z]*[A-Z])(?=[^a-z]*[a-z])(?=[^0-9]*[0-9])[A-Za-z0-9+/_-]++={0,2}[ \t]*$")


def without_data(lines: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield the lines of a text with a label such as ``[60 KB of image/png]`` in place of data.

    Data is what a data URI holds, a run of characters far longer than words, or lines of base64. The last becomes one
    line. Each line is yielded with the index of the line after it in ``lines``.
    """
    index = 0
    while index < len(lines):
        line = lines[index]
        end, length = _block_end(lines, index)
        index = end if length >= _SHORTEST_BLOCK else index + 1
        if length >= _SHORTEST_BLOCK:
            line = _label(length)
        elif len(line) > _SHORTEST_DATA:
            line = _DATA.sub(lambda match: _label(len(match[0]), match["type"]), line)
        yield line, index


def _block_end(lines: Sequence[str], start: int) -> tuple[int, int]:
    """Return the line after the lines of base64 from ``start`` on, which blank lines may separate, and their length."""
    end, length = start, 0
    for index in range(start, len(lines)):
        line = lines[index]
        if not line.strip() and length:
            continue
        if not _BASE64.match(line) or (len(line) < _SHORTEST_LINE and not length):
            break
        end, length = index + 1, length + len(line)
        if len(line) < _SHORTEST_LINE:
            break
    return end, length


def _label(length: int, kind: str | None = None) -> str:
    return f"[{-(-length // 1024):,} KB of {kind or 'data'}]"
