"""Read names, relations and aliases out of a chunk, without a model. Everything found depends on the chunk alone."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

import attrs

from .markup import aliases, blocks, links_in, metadata_spans, only_name, read
from .names import LONGEST_NAME, key, names_in, phrase
from .pages import page_title, plain, section, subject
from .records import Alias, Extraction, Mention, Relation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kipu.types import StoredChunk

    from .nlp import Parser

__all__ = ["Alias", "Extraction", "Mention", "Relation", "extract", "key", "names_in", "phrase"]

# More than any chunk of a usual size has: what one line of a megabyte costs is bounded.
_MOST = 1_000
_SAME = {"same as", "alias of", "aka", "also known as"}


def extract(chunk: StoredChunk, parser: Parser | None = None) -> Extraction:
    """Return the names of a chunk, and what it says about them.

    At most 1,000 names, and 1,000 relations and aliases, are returned, in the order of the text.

    :param parser: a `nlp.Parser`, which reads the sentences as well. Where both know two names, its relation counts.
    """
    found = list(islice(_statements(chunk, parser), _MOST))
    same = [each for each in found if isinstance(each, Alias)]
    relations = [_dated(each, chunk) for each in found if isinstance(each, Relation)]
    return Extraction(_mentions(chunk), relations, same)


def _mentions(chunk: StoredChunk) -> list[Mention]:
    mentions: dict[str, Mention] = {}
    metadata = metadata_spans(chunk.text) if chunk.metadata else []
    for name, start, end, via in names_in(chunk.text):
        if any(first <= start < last for first, last in metadata):
            continue
        if (identity := key(name)) not in mentions:
            mentions[identity] = Mention(name, start, end, via)
        if len(mentions) == _MOST:
            break
    for identity, mention in _above(chunk.heading, chunk.path):
        mentions.setdefault(identity, mention)
    return list(mentions.values())


@lru_cache(maxsize=1_000)
def _above(headings: str, path: str) -> list[tuple[str, Mention]]:
    """Return the names of a chunk's headings and of its file, with their keys."""
    mentions: list[Mention] = []
    for heading in headings.split(" > "):
        title = plain(heading)
        if 0 < len(title) <= LONGEST_NAME:
            mentions.append(Mention(title, -1, -1, "heading"))
        mentions += [Mention(name, -1, -1, via) for name, _, _, via in names_in(heading)]
    if title := page_title(path):
        mentions.append(Mention(title, -1, -1, "title"))
    return [(key(mention.name), mention) for mention in mentions]


def _statements(chunk: StoredChunk, parser: Parser | None) -> Iterator[Alias | Relation]:
    from .statements import statements  # to compile its patterns takes 0.1 s, which no search needs

    about = subject(chunk.heading, chunk.path, chunk.heading_level)
    page = about or section(chunk.heading)  # what markup is about, which says so: "- uses [[Redis]]"
    text = chunk.text
    if "[[" in text:
        yield from aliases(text)
    top = about, page
    above: list[tuple[int, str]] = []  # items that are only a name, with what is nested in them
    for block in blocks(text):
        while above and above[-1][0] >= block.indent:
            above.pop()
        about, page = (above[-1][1],) * 2 if above else top
        if block.is_item and (name := only_name(block.text)):
            above.append((block.indent, name))
        marked, rest, speaker = read(block, page)
        for relation in marked:
            if relation.predicate.casefold() in _SAME and relation.is_entity and page:
                yield Alias(page, relation.target)
            elif page:
                yield relation
        said = [*statements(rest, subject=about, speaker=speaker, is_item=block.is_item)] if rest else []
        if parser is not None and rest:
            parsed = parser.relations(rest, about, speaker)
            pairs = {(key(each.source), key(each.target)) for each in parsed}
            said = [*parsed, *(each for each in said if (key(each.source), key(each.target)) not in pairs)]
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
