"""Positions of secrets in a text, and in the same text without some of its characters."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PlainText", "Secret", "lower_in_place", "merge", "unescape", "without"]

# A backslash of Markdown before a sign that occurs in keys, and characters without a shape: soft hyphens, spaces of no
# width, marks of direction, selectors of variants, tags, and fillers.
_UNSEEN = re.compile(
    r"\\(?=[_.~=+*-])|[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


# The wide forms of ASCII, as input methods of Chinese and Japanese write them, without the punctuation of sentences.
_IS_WIDE = re.compile("[\uff01-\uff5e]")
_WIDE = {0xFEE0 + code: code for code in range(0x21, 0x7F) if chr(code) not in ".,:;!?()[]"}


@attrs.frozen
class Secret:
    """The position and the kind of a secret; an "s" makes the label plural."""

    start: int
    end: int
    label: str


@attrs.frozen
class PlainText:
    """A text without some of its characters, and the position in it where each was removed."""

    text: str
    removed: list[int]

    def locate(self, secret: Secret) -> Secret:
        """Return the secret at its position in the whole text."""
        start = secret.start + bisect_right(self.removed, secret.start)
        end = secret.end - 1 + bisect_right(self.removed, secret.end - 1) + 1
        return Secret(start, end, secret.label)


def unescape(text: str) -> PlainText:
    r"""Remove backslashes of Markdown and characters without a shape, and narrow wide ones: ``ghp\_...``."""
    narrow = text.translate(_WIDE) if _IS_WIDE.search(text) else text
    return without(narrow, _UNSEEN.finditer(text))


def without(text: str, matches: Iterable[re.Match[str]]) -> PlainText:
    """Return a text without these matches."""
    pieces: list[str] = []
    removed: list[int] = []
    end = 0
    for match in matches:
        pieces.append(text[end : match.start()])
        removed += [match.start() - len(removed)] * (match.end() - match.start())
        end = match.end()
    return PlainText("".join([*pieces, text[end:]]), removed)


def lower_in_place(text: str) -> str:
    """Return the text in lower case, with every character at the same position."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)


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
