"""Headings: their level, their title as it is written, and their text as searches show it."""

from __future__ import annotations

import re

__all__ = ["heading_level", "heading_text", "heading_title", "leading_headings"]

_HEADING = re.compile(r"(?P<marks>#{1,6})(?:[ \t](?P<title>.*))?$")
_LONGEST_TEXT = 300
_LINKS = re.compile(
    r"""
      !?\[\[(?:[^\]|]*+\|)?(?P<page>[^\]]++)\]\]
    | !?\[(?P<text>[^\]]*+)\](?:\([^)]*+\)|\[[^\]]*+\])
    | <!--.*?-->
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


def heading_text(line: str) -> str:
    """Return the text that the first line of a heading shows: without the marks of emphasis, code, links and HTML."""
    text = _LINKS.sub(lambda match: match["page"] or match["text"] or "", heading_title(line)[:_LONGEST_TEXT])
    text = _MARKS.sub(lambda match: match["code"] or "", text)
    text = _ESCAPE.sub(r"\1", text)
    if "&" in text:
        import html  # lazy: it has a table of all entities

        text = html.unescape(text)
    return " ".join(text.split())


def heading_title(line: str) -> str:
    """Return the title in the first line of a heading, without the marks before and after it."""
    found = _HEADING.match(line := line.strip())
    if found is None:
        return line
    title = (found["title"] or "").strip(" \t")
    unmarked = title.rstrip("#")
    is_closed = not unmarked or unmarked[-1] in " \t"
    return (unmarked if is_closed else title).strip()


def heading_level(line: str) -> int:
    """Return the level of a heading, from 1; 7 for any other line."""
    found = _HEADING.match(line)
    return len(found["marks"]) if found else 7


def leading_headings(text: str, new: str = "") -> int:
    """Return how many lines of a text are headings, and blank lines, above everything else.

    :param new: what will replace the text. Where it begins with a heading, that replaces one.
    """
    count, level = 0, heading_level(new.split("\n", maxsplit=1)[0])
    for line in (lines := text.split("\n")):
        if line.strip() and heading_level(line) >= level:
            return count
        count += 1
    return 0 if count == len(lines) else count
