"""The instructions for a model, and the facts in its answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..errors import QueryError

if TYPE_CHECKING:
    from datetime import date

NOTHING = "NOTHING_TO_REMEMBER"
"""The whole answer of a model that finds nothing worth keeping."""

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
    """Return the items of the list in a model's answer, or its paragraphs if it has no list."""
    parts: list[tuple[bool, list[str]]] = []  # whether it is an item, and its lines
    is_new = True
    for line in answer.replace("\r\n", "\n").split("\n"):
        item = ITEM.match(line)
        text = (item["text"] if item else line).strip()
        if not text.strip("-`*. ") or text.strip("`*_.!\"' ") == NOTHING or _MARKUP.match(line.strip()):
            is_new = True
            continue
        if item or (is_new and not line[0].isspace()) or not parts:
            parts.append((item is not None, [text]))
        else:
            parts[-1][1].append(line.strip())
        is_new = False
    items = [lines for is_item, lines in parts if is_item]
    return ["\n".join(lines) for lines in items or [lines for _, lines in parts]]
