"""What the markup of a text says, in any language: fields, observations, relations, links and their labels."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from kipu.markdown import read_metadata

from .denials import believed
from .names import LONGEST_NAME, STOP_WORDS, key, names_in
from .pages import plain
from .records import Alias, Relation
from .words import INTERJECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Block", "aliases", "blocks", "links_in", "metadata_spans", "only_name", "read"]

_ITEM = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX/-]\][ \t]+)?")
_BREAK = re.compile(r"[ \t]*(?:#{1,6}[ \t]|[|]|[-*_=]{3,}[ \t]*$|$)")
# A line that says something of its own, in a paragraph or not: "owner:: Marta", "**Owner**: Marta", "Marta: Hello".
_STARTS = re.compile(
    r"[^\W_][\w -]{0,40}::[ \t]|\*\*[^*\n]{1,40}(?:\*\*::?|:\*\*|\*\*[ \t]:)[ \t]"
    r"|[^\W\d_]\w{0,30}(?:[ ]\w{1,30}){0,2}:[ \t]"
)
_FENCE = re.compile(r"[ \t>]*(?P<fence>```|~~~)")
_LINK = re.compile(r"\[\[(?P<page>[^\[\]|#\n]{1,100})(?:#[^\[\]|\n]{0,100})?(?:\|(?P<label>[^\[\]\n]{1,100}))?\]\]")
_ONLY_LINKS = re.compile(r"\[\[[^\[\]\n]{1,300}\]\](?:[,;]?\s*(?:and\s)?)")
# - uses [[FastAPI]] (since March)
_RELATION = re.compile(r"(?P<predicate>\"[^\"\n]{1,60}\"|[^\W\d_A-Z][^\[\]:*`\"\n.!?]{0,60}?)[ \t]{1,3}(?=\[\[)")
# - [preference] likes tea #drink (in the morning)
_OBSERVATION = re.compile(r"\[(?P<category>[^\W_][\w -]{0,40})\]\s+(?P<text>\S.*)")
_CONTEXT = re.compile(r"(?:\s*(?<=\s)#[\w/-]+)*(?:\s*(?<=\s)\([^()\n]*\))?\s*$")
# owner:: Marta; (owner:: Marta) or [owner:: Marta] within a sentence
_PROPERTY = re.compile(r"(?P<key>[^\W_][\w -]{0,40}|\*\*[^*\n]{1,40}\*\*)::[ \t]+(?P<value>\S.*)")
_INLINE = re.compile(r"[\[(](?P<key>[^\W_][\w -]{0,40})::[ \t]+(?P<value>[^\]\[()\n]+)[\])]")
# **Owner**: Marta; Owner: Marta
_FIELD = re.compile(
    r"(?:\*\*(?P<bold>[^*\n]{1,40}?)(?::\*\*|\*\*[ \t]*:)|(?P<key>[^\W\d_][\w '’-]{0,40}):)[ \t]+(?P<value>\S.*)"
)
_SPEECH = re.compile(r"[.!?…][\"”'’)]?(?:\s|$)|\b(?:I|I'm|I've|you|we)\b|^[\"“]")
_BRACKETS = re.compile(r"^[ \t]*\[.*\][ \t]*$", re.MULTILINE)
_LONGEST_VALUE = 200


@attrs.frozen
class Block:
    """A paragraph or an item of a list, on one line: ``text`` without its mark, and ``is_item`` for the latter.

    ``indent`` is the width of what stands in front of the mark.
    """

    text: str
    is_item: bool
    indent: int = 0


def blocks(text: str) -> Iterator[Block]:
    """Yield the paragraphs and items of a text. Headings, tables, code and lines of metadata are none."""
    lines: list[str] = []
    is_item = False
    indent = 0
    fence = ""
    for line in text.split("\n"):
        marked = _FENCE.match(line)
        if fence or marked is not None:
            if marked is not None and fence in {"", marked["fence"]}:
                fence = "" if fence else marked["fence"]
            continue
        item = _ITEM.match(line)
        ends = item is not None or _BREAK.match(line) is not None
        starts = not ends and ":" in line and _STARTS.match(line.lstrip("> \t")) is not None
        if (ends or starts) and lines:
            yield Block(" ".join(lines), is_item, indent)
            lines = []
        if item is not None:
            is_item = True
            indent = len(line) - len(line.lstrip(" \t"))
        elif ends or starts:
            is_item, indent = False, 0
            if ends:
                continue
        stripped = line[item.end() if item is not None else 0 :].lstrip("> \t").rstrip()
        if stripped and not (stripped[0] == "[" and read_metadata(stripped)):
            lines.append(stripped)
    if lines:
        yield Block(" ".join(lines), is_item, indent)


def aliases(text: str) -> Iterator[Alias]:
    """Yield the labels of links, which are other names of their pages."""
    for link in _LINK.finditer(text):
        page, label = link["page"].strip(), plain(link["label"] or "")
        if page and label and key(label) != key(page):
            yield Alias(label, page)


def metadata_spans(text: str) -> list[tuple[int, int]]:
    """Return where the lines of metadata of a text are."""
    return [line.span() for line in _BRACKETS.finditer(text) if read_metadata(line[0].strip())]


def read(block: Block, subject: str) -> tuple[list[Relation], str, str]:
    """Return what the markup of a block says of a subject, the text that is left to read, and who says it."""
    text = block.text
    if block.is_item and (found := _OBSERVATION.match(text)) is not None and not found["text"].startswith("("):
        said = _CONTEXT.sub("", found["text"][:1_000])[:_LONGEST_VALUE]
        relation = Relation(subject, found["category"].strip(), plain(said), text, "observation", is_entity=False)
        return [relation], said, ""
    found = _RELATION.match(text) if block.is_item else None
    if found is not None and len(found["predicate"].split()) <= 4 and _only_links(text, found.end()):
        predicate, polarity, modality = believed(" ".join(found["predicate"].strip('"').replace("_", " ").split()))
        pages = links_in(text)
        return [Relation(subject, predicate, page, text, "relation", polarity, modality) for page in pages], "", ""
    if ":" not in text:
        return [], text, ""
    if (found := _PROPERTY.match(text)) is not None:
        return [*_field(found["key"].strip("*"), found["value"], subject, text, "field")], "", ""
    inline = _INLINE.finditer(text) if ":: " in text else ()
    fields = [relation for found in inline for relation in _field(found["key"], found["value"], subject, text, "field")]
    if fields:
        return fields, _INLINE.sub("", text), ""
    if (found := _FIELD.match(text)) is not None:
        name, value = plain(found["bold"] or found["key"]), found["value"]
        if len(value) > 80 or _SPEECH.search(value):
            speaker = name if name[:1].isupper() and name.casefold() not in INTERJECTIONS else ""
            return [], value, speaker if len(name.split()) <= 3 else ""
        words = name.casefold().split()
        is_plain = len(words) <= 3 and words[0] not in STOP_WORDS | INTERJECTIONS
        if words and (found["bold"] or (block.is_item and is_plain)) and name.casefold() not in INTERJECTIONS:
            return [*_field(name, value, subject, text, "field")], "", ""
    return [], text, ""


def only_name(text: str) -> str:
    """Return the name or the page that a text consists of, or an empty text if it says more."""
    link = _LINK.fullmatch(text.rstrip(":"))
    name = link["page"].strip() if link is not None else plain(text.rstrip(":"))
    return name if name and (link is not None or _is_name(name)) else ""


def links_in(text: str) -> list[str]:
    """Return the pages that a text links to."""
    return list(dict.fromkeys(page for link in _LINK.finditer(text) if (page := link["page"].strip())))


def _only_links(text: str, position: int) -> bool:
    while (link := _ONLY_LINKS.match(text, position)) is not None:
        position = link.end()
    return _CONTEXT.match(text, position) is not None or text[position:] == "."


def _field(name: str, value: str, subject: str, sentence: str, via: str) -> Iterator[Relation]:
    """Yield a relation for each link in a value, or else one for its text."""
    name = name.lower()
    links = links_in(value)
    for page in links:
        yield Relation(subject, name, page, sentence, via)
    target = plain(value[:1_000])[:_LONGEST_VALUE]
    if not links and target:
        yield Relation(subject, name, target, sentence, via, is_entity=_is_name(target))


def _is_name(text: str) -> bool:
    return len(text) <= LONGEST_NAME and next(names_in(text), ("",))[0] == text
