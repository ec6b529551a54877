"""A secret in a text, and what several that overlap are together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Found", "merge"]


@attrs.frozen
class Found:
    """Where a secret stands in a text, and what kind of one it is, in words that an "s" makes plural."""

    start: int
    end: int
    label: str


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
