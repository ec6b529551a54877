"""A secret in a text, and what several that overlap are together."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Found", "Plain", "merge", "unescaped"]

# What Markdown escapes and keys are made of.
_ESCAPE = re.compile(r"\\(?=[_.~=+*-])")


@attrs.frozen
class Found:
    """Where a secret stands in a text, and what kind of one it is, in words that an "s" makes plural."""

    start: int
    end: int
    label: str


@attrs.frozen
class Plain:
    """A text without the backslashes of Markdown, and where in it each of them is missing."""

    text: str
    missing: list[int]

    def back(self, found: Found) -> Found:
        """What was found in it, at its place in the text with the backslashes."""
        start = found.start + bisect_right(self.missing, found.start)
        end = found.end - 1 + bisect_right(self.missing, found.end - 1) + 1
        return Found(start, end, found.label)


def unescaped(text: str) -> Plain:
    r"""The text as Markdown shows it: a key such as ``ghp\_...`` is written with a backslash, and is still one."""
    missing = [escape.start() - number for number, escape in enumerate(_ESCAPE.finditer(text))]
    return Plain(_ESCAPE.sub("", text), missing)


def merge(found: Iterable[Found]) -> list[Found]:
    """Sort what was found by its place, and make one of those that overlap, with the label of the first given."""
    merged: list[Found] = []
    ranks: list[int] = []
    for rank, secret in sorted(enumerate(found), key=lambda item: (item[1].start, item[0])):
        if merged and secret.start < merged[-1].end:
            last = merged[-1]
            label = secret.label if rank < ranks[-1] else last.label
            merged[-1] = Found(last.start, max(last.end, secret.end), label)
            ranks[-1] = min(rank, ranks[-1])
        else:
            merged.append(secret)
            ranks.append(rank)
    return merged
