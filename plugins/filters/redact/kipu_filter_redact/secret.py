"""Positions of secrets in a text, and in the same text without Markdown's backslashes."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PlainText", "Secret", "merge", "unescape"]

# Signs that Markdown escapes and that occur in keys.
_ESCAPE = re.compile(r"\\(?=[_.~=+*-])")


@attrs.frozen
class Secret:
    """The position and the kind of a secret; an "s" makes the label plural."""

    start: int
    end: int
    label: str


@attrs.frozen
class PlainText:
    """A text without the backslashes of Markdown, and the positions where each was removed."""

    text: str
    escapes: list[int]

    def locate(self, secret: Secret) -> Secret:
        """Return the secret at its position in the text with the backslashes."""
        start = secret.start + bisect_right(self.escapes, secret.start)
        end = secret.end - 1 + bisect_right(self.escapes, secret.end - 1) + 1
        return Secret(start, end, secret.label)


def unescape(text: str) -> PlainText:
    r"""Remove the backslashes of Markdown, so that a key written as ``ghp\_...`` is recognized."""
    escapes = [escape.start() - number for number, escape in enumerate(_ESCAPE.finditer(text))]
    return PlainText(_ESCAPE.sub("", text), escapes)


def merge(secrets: Iterable[Secret]) -> list[Secret]:
    """Sort secrets by position and join those that overlap. The label is that of the first in the given order."""
    merged: list[Secret] = []
    ranks: list[int] = []
    for rank, secret in sorted(enumerate(secrets), key=lambda item: (item[1].start, item[0])):
        if merged and secret.start < merged[-1].end:
            last = merged[-1]
            label = secret.label if rank < ranks[-1] else last.label
            merged[-1] = Secret(last.start, max(last.end, secret.end), label)
            ranks[-1] = min(rank, ranks[-1])
        else:
            merged.append(secret)
            ranks.append(rank)
    return merged
