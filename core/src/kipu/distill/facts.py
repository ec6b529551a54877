"""The instructions for a model, and the facts in its answer."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ..errors import FlusherError, QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

NOTHING = "NOTHING_TO_REMEMBER"
"""The whole answer of a model that finds nothing worth keeping."""

_NOTHING = NOTHING.casefold().replace("_", " ")

# What models say instead of it.
_NOTHINGS = {
    "", "null", "none", "n/a", "na", "nothing", "nothing new", "no facts", "no new facts", "no new information",
    "keine", "nichts", "rien", "nada", "ничего", "нет", "没有", "没有新信息", "無", "无", "なし", "없음",
}  # fmt: skip
_JSON = re.compile(r'\[\s*["{\]]|\{\s*["}]')
NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""What no text file has."""

_TEXT_KEYS = ("text", "fact", "memory", "content", "facts", "memories")

ITEM = re.compile(r"(?:[-*+\u2022]|[0-9]{1,3}[.)])[ \t]+(?P<text>.*)")
_MARKUP = re.compile(r"#{1,6}[ \t]|[`~]{3,}|---+$|\*\*\*+$")  # a heading, a fence, a rule


def format_instructions(template: str, today: date, more: str | None) -> str:
    """Return the instructions for a model: a template with ``{today}`` and ``{nothing}``, and what the caller adds.

    :raises QueryError: what the caller adds is not a text.
    """
    if more is not None and not isinstance(more, str):
        raise QueryError(f"instructions must be a text, not {type(more).__name__}.")
    instructions = template.format(today=f"{today.isoformat()} ({today.strftime('%A')})", nothing=NOTHING)
    return f"{instructions}\n{more.strip()}\n" if more and more.strip() else instructions


def parse_facts(answer: str) -> list[str]:
    """Return the items of the list in a model's answer, Markdown or JSON, or its paragraphs if it has no list.

    One line without a list is none: that is how models say, in any language, that nothing is worth keeping.

    :raises FlusherError: it is JSON of another shape, or cut off.
    """
    answer = NO_TEXT.sub("", answer)
    if (facts := _parse_json(answer)) is not None:
        return facts
    if sentence_of(answer):
        return []
    parts: list[tuple[bool, list[str]]] = []  # whether it is an item, and its lines
    is_new = True
    for line in answer.replace("\r\n", "\n").split("\n"):
        item = ITEM.match(line)
        text = (item["text"] if item else line).strip()
        is_nothing = text.strip("`*_.!\"' ").startswith(NOTHING)
        if is_nothing or not text.strip("-`*. ") or _MARKUP.match(line.strip()):
            is_new = True
            continue
        if item or (is_new and not line[0].isspace()) or not parts:
            parts.append((item is not None, [text]))
        else:
            parts[-1][1].append(line.strip())
        is_new = False
    has_items = any(is_item for is_item, _ in parts)
    found = ["\n".join(lines) for is_item, lines in parts if is_item or not has_items]
    facts = [fact for fact in found if not says_nothing(fact)]
    is_why = not has_items and (len(facts) < len(found) or NOTHING in answer)  # a sentence on why there is nothing
    return [] if is_why else facts


def sentence_of(answer: str) -> str:
    """Return an answer that is one line of prose, where a list was to be written; "" for any other answer."""
    lines = [line for line in map(str.strip, answer.split("\n")) if line.strip("-`*. ") and not _MARKUP.match(line)]
    is_prose = len(lines) == 1 and not ITEM.match(lines[0]) and NOTHING not in lines[0] and not says_nothing(lines[0])
    return lines[0] if is_prose and _parse_json(answer) is None else ""


def says_nothing(text: str) -> bool:
    """Return whether an item says that nothing is worth keeping, or nothing at all."""
    plain = text.strip("-`*_.!\"'() \t\n。！").casefold().replace("_", " ")
    return plain.startswith(_NOTHING) or plain in _NOTHINGS


def _parse_json(answer: str) -> list[str] | None:
    """Return the facts in an answer that is JSON, or has JSON in a fence; None for any other answer."""
    text, around = answer.strip(), ""
    if not _JSON.match(text):
        before, _, rest = text.partition("```")
        text, after = rest.partition("\n")[2], ""
        if "```" in text:
            text, _, after = text.rpartition("```")
        around = f"{before}{after}".strip()
        if not _JSON.match(text.strip()) or any(map(ITEM.match, around.split("\n"))):
            return None
    try:
        facts = [NO_TEXT.sub("", fact).strip().removeprefix("- ") for fact in _texts_of(json.loads(text))]
    except (ValueError, RecursionError) as error:
        if around:
            return None  # a text that quotes JSON
        raise FlusherError(f"The model's answer is JSON and no list of texts: {error}. Nothing was written.") from None
    return [fact for fact in facts if not says_nothing(fact)]


def _texts_of(found: Any) -> Iterator[str]:
    """Yield the texts in what an answer in JSON has: a list of texts or of objects with one, or an object with a list.

    :raises ValueError: it has another shape.
    """
    if isinstance(found, str):
        yield found
    elif isinstance(found, list):
        for each in found:
            yield from _texts_of(each)
    elif not isinstance(found, dict):
        raise ValueError(f"it has {found!r:.40} where a text should be")  # noqa: TRY004 - the caller catches one class
    elif found:
        lists = [value for value in found.values() if isinstance(value, list)]
        values = [found[key] for key in _TEXT_KEYS if key in found][:1] or [each for each in lists if each] or lists[:1]
        if len(values) != 1:  # of several, none is left out without a word
            raise ValueError(f"it has an object with the keys {', '.join(found)}")
        yield from _texts_of(values[0])
