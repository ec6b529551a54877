"""Entries of memory files, and the line of metadata that people can read and edit."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import attrs

from ..errors import QueryError
from .front_matter import front_matter
from .headings import leading_headings
from .scanner import ITEM, Block, Kind, group_items, scan

__all__ = [
    "Entry",
    "canonical",
    "check_metadata",
    "derive_id",
    "entries",
    "format_entry",
    "format_metadata",
    "normalize_text",
    "read_metadata",
]

_KEY = "[a-z][a-z0-9_-]{0,59}"
_VALUE = r'"(?:[^"\\]|\\.)*+"|[^;\]"][^;\]]*+'
_METADATA = re.compile(
    rf"[ \t>]*+\[(?P<pairs>{_KEY}:[ \t]*+(?:{_VALUE})(?:;[ \t]*+{_KEY}:[ \t]*+(?:{_VALUE}))*+)\][ \t]*$"
)
_PAIR = re.compile(rf"(?P<key>{_KEY}):[ \t]*+(?P<value>{_VALUE})")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_RULE = re.compile(r"(?:-[ \t]*+){3,}$")
_INDENT = "  "


@attrs.frozen
class Entry:
    """A part of a file that was written as one: its lines, from 1, both included, its text and its metadata.

    ``is_item`` is true for an item of a list; ``kind`` is that of its first block.
    """

    start_line: int
    end_line: int
    text: str
    metadata: Mapping[str, str]
    is_item: bool = False
    kind: Kind = Kind.TEXT

    @property
    def has_id(self) -> bool:
        """Whether it is a remembered fact, with an id: an item, or a paragraph with metadata."""
        return self.is_item or bool(self.metadata)

    def id_in(self, source: str) -> str:
        """Return its id in a source: that of its metadata, else the derived one, in full."""
        return self.metadata.get("id") or derive_id(source, self.text)


def derive_id(source: str, text: str) -> str:
    """Return the id of an entry whose metadata has none: 26 letters and digits, the same for texts that compare equal.

    It is shown by its first 8 characters, or as many as tell it from others.
    """
    digest = hashlib.sha256(f"{source}\0{canonical(text)}".encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(digest[:16]).decode("ascii").rstrip("=").lower()


def entries(lines: Sequence[str]) -> list[Entry]:
    """Return the entries of a file, in order. ``lines`` are without their ends."""
    blocks = scan(lines, front_matter(lines).end, tolerant=True)
    return [
        _entry(lines, group[0], group[-1].end)
        for group in group_items(lines, blocks)
        if group[0].kind not in (Kind.HEADING, Kind.RULE)
    ]


def _entry(lines: Sequence[str], first: Block, end: int) -> Entry:
    start = first.start
    metadata = read_metadata(lines[end - 1]) if end - start > 1 else {}
    last = end - 1 if metadata else end
    mark = ITEM.match(lines[start])
    if mark is None:
        text = "\n".join(lines[start:last])
    else:
        width = mark.end()
        rest = (line[width:] if not line[:width].strip() else line.lstrip() for line in lines[start + 1 : last])
        text = "\n".join([lines[start][width:], *rest])
    return Entry(start + 1, end, text.rstrip(), metadata, mark is not None, first.kind)


def is_entry(text: str) -> bool:
    """Return whether a text begins, below any headings, with an item of a list, or ends with a line of metadata."""
    lines = text.split("\n")
    return ITEM.match(lines[leading_headings(text)]) is not None or (len(lines) > 1 and bool(read_metadata(lines[-1])))


def format_entry(text: str, metadata: Mapping[str, str]) -> list[str]:
    """Return the lines of an entry, without their ends: an item of a list."""
    lines = [f"\\{line.lstrip()}" if read_metadata(line) else line for line in normalize_text(text).split("\n")]
    first, *rest = lines
    if _RULE.match(f"- {first}"):  # the item would be a line across the page, and what follows no part of it
        first = f"\\{first}"
    formatted = [f"- {first}", *(f"{_INDENT}{line}" if line.strip() else "" for line in rest)]
    if metadata:
        formatted += ([""] if rest else []) + [_INDENT + format_metadata(metadata)]
    return formatted


def normalize_text(text: str) -> str:
    """Return a text as it is written: with plain line ends, and without blank lines and white space around it.

    :raises QueryError: it is not a text, it is empty, or it has a character that no text file has.
    """
    if not isinstance(text, str):
        raise QueryError(f"The text to remember must be a string, not {text!r}.")
    check_characters("The text to remember", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = [line.rstrip() if not line.strip() else line for line in text.split("\n")]
    text = "\n".join(lines).strip("\n").rstrip()
    if not text.strip():
        raise QueryError("There is nothing to remember: the text is empty.")
    return text.lstrip() if "\n" not in text else text


def check_characters(name: str, text: str) -> None:
    """Raise QueryError if a text has a character that no text file has."""
    if found := _NO_TEXT.search(text):
        what = "a NUL character" if found[0] == "\0" else f"half a character ({found[0]!r}, a lone surrogate)"
        raise QueryError(f"{name} has {what} in it, which no text file has.")


def canonical(text: str) -> str:
    """Return a text as it is compared: two that differ in white space, or in how letters are composed, are the same."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def read_metadata(line: str) -> dict[str, str]:
    """Read a line such as ``[tags: cache; valid_until: 2027-01-31]``; return nothing for any other line."""
    found = _METADATA.match(line) if "[" in line else None
    if found is None:
        return {}
    metadata = {pair["key"]: _unquoted(pair["value"]) for pair in _PAIR.finditer(found["pairs"])}
    return {} if metadata.keys() == {"redacted"} else metadata  # it stands for a key that was taken out


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value.strip()
    try:
        return str(json.loads(value)).encode("utf-8", "replace").decode("utf-8")  # an escape may be half a character
    except ValueError:
        return value.strip('"')


def format_metadata(metadata: Mapping[str, str]) -> str:
    """Return the line that `read_metadata` reads; an empty one for no metadata."""
    pairs = "; ".join(f"{key}: {_quoted(value)}" for key, value in metadata.items())
    return f"[{pairs}]" if pairs else ""


def _quoted(value: str) -> str:
    is_plain = value and value == value.strip() and not any(char in value for char in ';]"\\')
    return value if is_plain else json.dumps(value, ensure_ascii=False).replace("\u2028", "\\u2028")


def check_metadata(metadata: Mapping[Any, Any] | None) -> dict[str, str]:
    """Return metadata as it is written: values become texts, and lists are joined by commas.

    :raises QueryError: a line of metadata cannot hold a key or a value.
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
        check_characters(f"The metadata {key}", text)
        text = " ".join(text.split())
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
