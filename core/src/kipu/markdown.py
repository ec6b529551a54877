"""The form of what is remembered: entries, with metadata that people can read and edit.

An entry that Kipu writes is an item of a Markdown list. Whatever its text is, headings and fences included, it stays
inside of the item, because its lines are indented. What is known of it stands in its last line::

    - We moved to Valkey, because Redis changed its licence.
      [tags: infrastructure, cache; session: 2026-11-29-a; valid_until: 2027-01-31]

A person may write such a line below any paragraph or item. An entry, to those who look for one, is an item of a list
that is not indented, or else a block of lines without a blank one between them.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import attrs

from .errors import QueryError

__all__ = [
    "Entry",
    "as_written",
    "below_headings",
    "check_metadata",
    "entries_of",
    "fenced",
    "format_entry",
    "heading_level",
    "heading_of",
    "metadata_line",
    "normalized",
    "read_metadata",
    "said_in",
]

_KEY = "[a-z][a-z0-9_-]{0,59}"
_VALUE = r'"(?:[^"\\]|\\.)*+"|[^;\]"][^;\]]*+'
_LINE = re.compile(rf"[ \t>]*+\[(?P<pairs>{_KEY}:[ \t]*+(?:{_VALUE})(?:;[ \t]*+{_KEY}:[ \t]*+(?:{_VALUE}))*+)\][ \t]*$")
_PAIR = re.compile(rf"(?P<key>{_KEY}):[ \t]*+(?P<value>{_VALUE})")
_ITEM = re.compile(r"(?:[-*+]|[0-9]{1,9}[.)])[ \t]")
_HEADING = re.compile(r"#{1,6}(?:[ \t]|$)")
_TITLE = re.compile(r"(?P<marks>#{1,6})(?:[ \t](?P<title>.*))?$")
_FENCE = re.compile(r"(`{3,}|~{3,})")
_RULE = re.compile(r"(?:-[ \t]*+){3,}$")
_INDENT = "  "


@attrs.frozen
class Entry:
    """A part of a file that was written as one: its lines, from 1, both included, and what is known of it."""

    start_line: int
    end_line: int
    text: str
    metadata: Mapping[str, str]
    is_item: bool = False


def read_metadata(line: str) -> dict[str, str]:
    """What a line such as ``[tags: cache; valid_until: 2027-01-31]`` says; nothing where the line is no such line."""
    found = _LINE.match(line) if "[" in line else None
    if found is None:
        return {}
    metadata = {pair["key"]: _plain(pair["value"]) for pair in _PAIR.finditer(found["pairs"])}
    return {} if metadata.keys() == {"redacted"} else metadata  # what stands for a key that was taken out


def _plain(value: str) -> str:
    if not value.startswith('"'):
        return value.strip()
    try:
        return str(json.loads(value))
    except ValueError:
        return value.strip('"')


def metadata_line(metadata: Mapping[str, str]) -> str:
    """The line that says what is known of an entry; an empty one for nothing."""
    if not metadata:
        return ""
    pairs = (f"{key}: {_quoted(value)}" for key, value in metadata.items())
    return f"[{'; '.join(pairs)}]"


def _quoted(value: str) -> str:
    is_plain = value and value == value.strip() and not any(char in value for char in ';]"\\')
    return value if is_plain else json.dumps(value, ensure_ascii=False).replace("\u2028", "\\u2028")


def check_metadata(metadata: Mapping[Any, Any] | None) -> dict[str, str]:
    """Metadata as it is written: values become texts, and lists are joined by commas.

    :raises QueryError: a key or a value that a line of metadata cannot hold.
    """
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise QueryError(f"metadata must be a dictionary, not {metadata!r}.")
    checked = {}
    for key, value in metadata.items():
        if not isinstance(key, str) or not re.fullmatch(_KEY, key):
            raise QueryError(f"A key of metadata is a word of lower-case letters, digits, _ and -, unlike {key!r}.")
        if value is None or value in ([], ""):
            continue
        text = ", ".join(map(_text_of, value)) if isinstance(value, (list, tuple)) else _text_of(value)
        text = " ".join(text.encode("utf-8", "replace").decode("utf-8").split())
        if "\0" in text:
            raise QueryError(f"The metadata {key} has a NUL character in it, which no text file has.")
        if not text:
            continue
        if key == "valid_until":
            try:
                date.fromisoformat(text)
            except ValueError:
                raise QueryError(f"valid_until must be a date such as 2027-01-31, not {text!r}.") from None
        checked[key] = text
    return checked


def _text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float, date)):
        return str(value)
    raise QueryError(f"A value of metadata is a text, a number, a date or a list of them, not {value!r}.")


def format_entry(text: str, metadata: Mapping[str, str]) -> list[str]:
    """The lines of an entry, without their ends: an item of a list."""
    lines = [f"\\{line.lstrip()}" if read_metadata(line) else line for line in said_in(text).split("\n")]
    first, *rest = lines
    if _RULE.match(f"- {first}"):  # the item would be a line across the page, and what follows no part of it
        first = f"\\{first}"
    formatted = [f"- {first}", *(f"{_INDENT}{line}" if line.strip() else "" for line in rest)]
    if metadata:
        formatted += ([""] if rest else []) + [_INDENT + metadata_line(metadata)]
    return formatted


def as_written(text: str) -> str:
    """What an entry with this text would be read as."""
    return entries_of(format_entry(text, {}))[0].text


def said_in(text: str) -> str:
    """A text as it is written: with plain line ends, and without blank lines and white space around it.

    :raises QueryError: it is no text, there is nothing in it, or it has a character that no text file has.
    """
    if not isinstance(text, str):
        raise QueryError(f"What is to be remembered must be text, not {text!r}.")
    if "\0" in text:
        raise QueryError("What is to be remembered has a NUL character in it, which no text file has.")
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    lines = [line.rstrip() if not line.strip() else line for line in text.split("\n")]
    text = "\n".join(lines).strip("\n").rstrip()
    if not text.strip():
        raise QueryError("There is nothing to remember: the text is empty.")
    return text.lstrip() if "\n" not in text else text


def normalized(text: str) -> str:
    """A text as it is compared: two that differ in white space, or in how their letters are composed, are the same."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def entries_of(lines: Sequence[str]) -> list[Entry]:
    """The entries of a file, in order. ``lines`` are without their ends."""
    entries: list[Entry] = []
    inside = fenced(lines)
    index = 0
    while index < len(lines):
        line = lines[index]
        if not line.strip() or _HEADING.match(line):
            index += 1
            continue
        end = _item_end(lines, index) if _ITEM.match(line) else _block_end(lines, index, inside)
        entries.append(_entry(lines, index, end))
        index = end
    return entries


def _item_end(lines: Sequence[str], start: int) -> int:
    """The line after an item: it goes on as long as lines are indented, blank ones between them included."""
    end = start + 1
    for index in range(start + 1, len(lines)):
        if not lines[index].strip():
            continue
        if lines[index][0] not in " \t":
            break
        end = index + 1
    return end


def _block_end(lines: Sequence[str], start: int, inside: Sequence[bool]) -> int:
    """The line after a block: it ends with a blank line, unless in a fence, or where something else begins."""
    for index in range(start, len(lines)):
        line = lines[index]
        if inside[index]:
            continue
        if not line.strip() or (index > start and (_HEADING.match(line) or _ITEM.match(line))):
            return index
    return len(lines)


def fenced(lines: Sequence[str]) -> list[bool]:
    """Whether each line belongs to a fence that is not indented, its first and last lines included.

    A fence that nobody closed is none: what was written below it is as it was meant to be.
    """
    closers = {mark: [0] * (len(lines) + 1) for mark in "`~"}  # how long the longest is, from each line on
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index].rstrip()
        for mark, longest in closers.items():
            longest[index] = max(longest[index + 1], 0 if line.strip(mark) else len(line))
    inside, fence = [], ""
    for index, line in enumerate(lines):
        found = None if fence else _FENCE.match(line)
        if found and closers[line[0]][index + 1] >= len(found[1]):
            fence = found[1]
            inside.append(True)
            continue
        inside.append(bool(fence))
        bare = line.rstrip()
        if fence and bare.startswith(fence) and not bare.strip(fence[0]):
            fence = ""
    return inside


def _entry(lines: Sequence[str], start: int, end: int) -> Entry:
    metadata = read_metadata(lines[end - 1]) if end - start > 1 else {}
    last = end - 1 if metadata else end
    marker = _ITEM.match(lines[start])
    if marker is None:
        text = "\n".join(lines[start:last])
    else:
        width = marker.end()
        rest = (line[width:] if not line[:width].strip() else line.lstrip() for line in lines[start + 1 : last])
        text = "\n".join([lines[start][width:], *rest])
    return Entry(start + 1, end, text.rstrip(), metadata, marker is not None)


def heading_of(line: str) -> tuple[int, str] | None:
    """The level of a heading and its title, without the marks before and after it; None for any other line."""
    found = _TITLE.match(line)
    if found is None:
        return None
    title = (found["title"] or "").strip(" \t")
    unmarked = title.rstrip("#")
    is_closed = not unmarked or unmarked[-1] in " \t"
    return len(found["marks"]), (unmarked if is_closed else title).strip()


def heading_level(line: str) -> int:
    """Return the level of a heading, from 1; 7 for any other line."""
    heading = heading_of(line)
    return heading[0] if heading else 7


def below_headings(text: str, new: str = "") -> int:
    """How many lines of a text are headings, and blank lines, that stand above all else that it says.

    :param new: what takes the place of the text. Where it begins with a heading, that takes the place of one.
    """
    count, level = 0, heading_level(new.split("\n", maxsplit=1)[0])
    for line in (lines := text.split("\n")):
        if line.strip() and heading_level(line) >= level:
            return count
        count += 1
    return 0 if count == len(lines) else count
