"""Show equal texts once, so that other facts get the places of their copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..markdown import canonical, entries
from ..types import Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..types import Hit, StoredChunk

DUPLICATES = "duplicates"
"""The name of this stage in an explanation."""

_MOST_PLACES = 3


def list_places(places: Sequence[Place]) -> str:
    """Return the first places as people read them, each once, and how many more there are."""
    shown = [*dict.fromkeys(map(str, places))]
    further = len(shown) - _MOST_PLACES
    return ", ".join([*shown[:_MOST_PLACES], *([f"{further:,} more"] if further > 0 else [])])


def identity_of(chunk: StoredChunk) -> tuple[str, ...]:
    """Return what a chunk says, as it is compared: without marks, metadata and the headings within it.

    The same words below another heading may be about another thing. A heading that is the date of its file is none.
    """
    texts = [canonical(entry.text) for entry in entries(chunk.text.split("\n"))] or [canonical(chunk.text)]
    return (*(title for title in chunk.heading.split(" > ") if title != str(chunk.date)), "", *texts)


def merge_duplicates(hits: Sequence[Hit]) -> tuple[list[Hit], dict[int, list[Place]]]:
    """Return the best hit of each text, and the places of the others by the id of its chunk.

    What is outdated is not merged with what is not.
    """
    best: dict[object, Hit] = {}
    others: dict[int, list[Place]] = {}
    for hit in hits:
        first = best.setdefault((identity_of(hit.chunk), bool(hit.outdated)), hit)
        if first is not hit:
            place = Place(hit.chunk.path, hit.chunk.start_line, hit.chunk.end_line)
            others.setdefault(first.chunk.id, []).append(place)
    return list(best.values()), others
