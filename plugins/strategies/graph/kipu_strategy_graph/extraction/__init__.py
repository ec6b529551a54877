"""Read names, relations and aliases out of a chunk, without a model. Everything found depends on the chunk alone."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import attrs

from .markup import aliases, blocks, links_in, metadata_spans, properties, read
from .names import LONGEST_NAME, key, names_in, phrase
from .pages import page_title, plain, subject
from .records import Alias, Extraction, Mention, Relation
from .statements import statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kipu.types import StoredChunk

__all__ = ["Alias", "Extraction", "Mention", "Relation", "extract", "key", "names_in", "phrase"]

# More than any chunk of a usual size has: what one line of a megabyte costs is bounded.
_MOST = 1_000
_SAME = {"same as", "alias of", "aka", "also known as"}


def extract(chunk: StoredChunk) -> Extraction:
    """Return the names of a chunk, and what it says about them.

    At most 1,000 names, relations and aliases each are returned, in the order of the text.
    """
    found = list(islice(_statements(chunk), _MOST))
    same = [each for each in found if isinstance(each, Alias)]
    relations = [_dated(each, chunk) for each in found if isinstance(each, Relation)]
    return Extraction(_mentions(chunk), relations, same)


def _mentions(chunk: StoredChunk) -> list[Mention]:
    mentions: dict[str, Mention] = {}
    metadata = metadata_spans(chunk.text) if chunk.metadata else []
    for name, start, end, via in names_in(chunk.text):
        if any(first <= start < last for first, last in metadata):
            continue
        mentions.setdefault(key(name), Mention(name, start, end, via))
        if len(mentions) == _MOST:
            break
    for heading in chunk.heading.split(" > "):
        title = plain(heading)
        if 0 < len(title) <= LONGEST_NAME:
            mentions.setdefault(key(title), Mention(title, -1, -1, "heading"))
        for name, _, _, via in names_in(heading):
            mentions.setdefault(key(name), Mention(name, -1, -1, via))
    if title := page_title(chunk.path):
        mentions.setdefault(key(title), Mention(title, -1, -1, "title"))
    return list(mentions.values())


def _statements(chunk: StoredChunk) -> Iterator[Alias | Relation]:
    about = subject(chunk.heading, chunk.path)
    text = chunk.text
    if text.startswith(("---\n", "+++\n")) and about:
        yield from properties(text, about)
    if "[[" in text:
        yield from aliases(text)
    for block in blocks(text):
        marked, rest, speaker = read(block, about)
        for relation in marked:
            if relation.predicate.casefold() in _SAME and relation.is_entity and about:
                yield Alias(about, relation.target)
            elif about:
                yield relation
        said = [*statements(rest, subject=about, speaker=speaker)] if rest else []
        yield from said
        if about and "[[" in block.text:
            known = {about, *(each.target for each in (*marked, *said)), *(each.source for each in said)}
            for page in links_in(block.text):
                if page not in known:
                    yield Relation(about, "links to", page, block.text[:400], "link")


def _dated(relation: Relation, chunk: StoredChunk) -> Relation:
    """Return a relation with the dates that the metadata of its chunk gives."""
    begin, end = chunk.metadata.get("valid_from"), chunk.metadata.get("valid_until")
    if begin is None and end is None:
        return relation
    return attrs.evolve(relation, valid_from=begin or relation.valid_from, valid_until=end or relation.valid_until)
