"""Read names, relations and aliases out of a chunk, without a model. Everything found depends on the chunk alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .names import key, names_in, phrase
from .records import Alias, Extraction, Mention, Relation

if TYPE_CHECKING:
    from kipu.types import StoredChunk

__all__ = ["Alias", "Extraction", "Mention", "Relation", "extract", "key", "names_in", "phrase"]


def extract(chunk: StoredChunk) -> Extraction:
    """Return the names of a chunk, and what it says about them."""
    mentions: dict[str, Mention] = {}
    for name, start, end, via in names_in(chunk.text):
        mentions.setdefault(key(name), Mention(name, start, end, via))
    return Extraction(list(mentions.values()))
