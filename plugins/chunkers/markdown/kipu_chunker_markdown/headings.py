"""Reads what stands above a text: its headings, and the front matter of its file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FrontMatter", "plain_heading", "read_front_matter"]

_LONGEST_HEADING = 300
_CLOSING_MARKS = re.compile(r"(?:^|[ \t])#+[ \t]*$")
_LINKS = re.compile(
    r"""
      !?\[\[(?:[^\]|]*+\|)?(?P<page>[^\]]++)\]\]
    | !?\[(?P<text>[^\]]*+)\](?:\([^)]*+\)|\[[^\]]*+\])
    | </?[A-Za-z][^>]*+>
    | \{\#[^}]*\}$
    """,
    re.VERBOSE,
)
_MARKS = re.compile(
    r"""
      `+(?P<code>[^`]+)`+
    | (?<![\w\\]) (?:\*{1,3}|_{1,3}|~~|==) (?=\S)
    | (?<=[^\s\\]) (?:\*{1,3}|_{1,3}|~~|==) (?!\w)
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")

_CLOSING_LINES = {"---": ("---", "..."), "+++": ("+++",)}
_SEPARATORS = {"---": ":", "+++": "="}
_LONGEST_KEY = 60


def plain_heading(text: str) -> str:
    """Return what a heading says, without closing ``#`` and without the marks of emphasis, code and links."""
    text = _CLOSING_MARKS.sub("", text[:_LONGEST_HEADING].strip())
    text = _LINKS.sub(lambda found: found["page"] or found["text"] or "", text)
    text = _MARKS.sub(lambda found: found["code"] or "", text)
    return " ".join(_ESCAPE.sub(r"\1", text).split())


@attrs.frozen
class FrontMatter:
    """The metadata at the start of a file.

    ``end`` is the line after it, counted from 0; ``title`` is its title, or empty; ``values`` are the other values,
    in order, without their keys.
    """

    end: int = 0
    title: str = ""
    values: tuple[str, ...] = ()


def read_front_matter(lines: Sequence[str]) -> FrontMatter:
    """Read YAML between ``---`` or TOML between ``+++`` at the very start; an empty one if there is none.

    What is not closed, or does not begin like metadata (a rule at the start of a text), is none. Lines are all that is
    understood: enough to find a title and words to search for.
    """
    fence = lines[0].rstrip()
    if fence not in _CLOSING_LINES:
        return FrontMatter()
    closing = _CLOSING_LINES[fence]
    end = next((index for index in range(1, len(lines)) if lines[index].rstrip() in closing), 0)
    inside = [line.strip() for line in lines[1:end] if line.strip()]
    beginning = next((line for line in inside if not line.startswith("#")), "")
    if not end or (beginning and not _key_and_value(beginning, fence)[0] and not beginning.startswith("[")):
        return FrontMatter()
    title, values = "", []
    for line in inside:
        key, value = _key_and_value(line, fence)
        if key == "title" and not title:
            title = " ".join(value[:_LONGEST_HEADING].strip("\"' ").split())
        elif plain := _plain_value(value):
            values.append(plain)
    return FrontMatter(end + 1, title, tuple(values))


def _key_and_value(line: str, fence: str) -> tuple[str, str]:
    """Split a line of front matter; the key is empty and the value all of the line if it has no key."""
    key, separator, value = line.partition(_SEPARATORS[fence])
    key = key.strip().strip("\"'")
    is_entry = separator and 0 < len(key) <= _LONGEST_KEY and key[0] not in "-#[{"
    if fence == "---" and value and value[0] not in " \t":
        is_entry = False
    return (key, value) if is_entry else ("", line)


def _plain_value(value: str) -> str:
    """Return a value without the punctuation of lists, quotes and block scalars around it."""
    return value.lstrip("-#[{\"'>|+ \t").rstrip("]}\"', \t")
