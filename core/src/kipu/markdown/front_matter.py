"""Front matter: the metadata at the start of a file, in YAML or TOML, and the page properties of Logseq."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import attrs

__all__ = ["FrontMatter", "front_matter", "page_properties"]

_CLOSING_LINES = {"---": ("---", "..."), "+++": ("+++",)}
_SEPARATORS = {"---": ":", "+++": "="}
_LONGEST_KEY = 60
# Longer front matter is data and read by line. Aliases repeat values, which then count as often.
_LONGEST = 100_000
_DEEPEST = 10
# To YAML, "#" begins a comment; people begin tags with it.
_YAML_TAGS = re.compile(r"(?im)^(tags?[ \t]*:|[ \t]*-)[ \t].*")
_HASH = re.compile(r"(?<=[ \t,\[])#(?=\w)")
_LOGSEQ = re.compile(r"(?:- )?(?P<key>[\w-]{1,60}):: +(?P<value>.+)")
_REFERENCE = re.compile(r"#?\[\[([^\[\]]*)\]\]")


@attrs.frozen
class FrontMatter:
    """The metadata at the start of a file: the line after it, counted from 0, its fence, and the lines between."""

    end: int = 0
    fence: str = ""
    lines: Sequence[str] = ()

    @property
    def properties(self) -> dict[str, list[str]]:
        """The values by key, as texts: ``true`` for a boolean, ISO 8601 for a date, several for a list.

        The keys of an inner mapping are joined by dots. What YAML or TOML refuse is read line by line.
        """
        text = "\n".join(self.lines)
        if len(text) > _LONGEST:
            return self._by_line()
        properties: dict[str, list[str]] = {}
        room = _LONGEST
        try:
            found = _read_toml(text) if self.fence == "+++" else _read_yaml(text)
            for key, value in _values(found, "", 0):
                room -= len(key) + len(value) + 1
                if room < 0:
                    break
                if key:
                    properties.setdefault(key, []).extend([value] if value else [])
        except (ValueError, RecursionError):  # the numbers of TOML may be longer than Python writes
            return self._by_line()
        return properties

    def _by_line(self) -> dict[str, list[str]]:
        properties: dict[str, list[str]] = {}
        values: list[str] = []
        for line in self.lines:
            key, value = _key_and_value(line.strip(), self.fence)
            if key:
                values = properties.setdefault(key, [])
            if plain := value.lstrip("-#[{\"'>|+ \t").rstrip("]}\"', \t"):  # of lists, quotes and block scalars
                values.append(plain)
        return properties


def front_matter(lines: Sequence[str]) -> FrontMatter:
    """Find YAML between ``---`` or TOML between ``+++`` at the very start of a file. Return an empty one for none.

    What is not closed, or does not begin like metadata (a rule at the start of a text), is none.
    """
    fence = lines[0].rstrip() if lines else ""
    if fence not in _CLOSING_LINES:
        return FrontMatter()
    closing = _CLOSING_LINES[fence]
    end = next((index for index in range(1, len(lines)) if lines[index].rstrip() in closing), 0)
    pairs = (_key_and_value(line.strip(), fence) for line in lines[1:end] if line.strip())
    key, value = next(((key, value) for key, value in pairs if key or not value.startswith("#")), ("", ""))
    if not end or (value and not key and not value.startswith("[")):
        return FrontMatter()
    return FrontMatter(end + 1, fence, lines[1:end])


def page_properties(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return what a file says of itself: its front matter, or lines such as ``tags:: a, [[b]]`` at its top.

    The values of such a line are separated by commas.
    """
    if (above := front_matter(lines)).end:
        return above.properties
    properties: dict[str, list[str]] = {}
    for line in lines:
        if (found := _LOGSEQ.match(line)) is None:
            break
        value = _REFERENCE.sub(r"\1", found["value"])
        properties[found["key"]] = [part.strip() for part in value.split(",") if part.strip()]
    return properties


def _key_and_value(line: str, fence: str) -> tuple[str, str]:
    """Split a line of front matter. If it has no key, the key is empty and the value is the line."""
    key, separator, value = line.partition(_SEPARATORS[fence])
    key = key.strip().strip("\"'")
    is_pair = separator and 0 < len(key) <= _LONGEST_KEY and key[0] not in "-#[{"
    if fence == "---" and value and value[0] not in " \t":
        is_pair = False
    return (key, value) if is_pair else ("", line)


def _read_toml(text: str) -> Any:
    import tomllib

    if any(line.count(".") > 1_000 for line in text.split("\n")):
        raise ValueError  # keys take time by the square of their parts
    return tomllib.loads(text)


def _read_yaml(text: str) -> Any:
    """Return the nodes of YAML, which no constructor has seen: their values are as they were written."""
    import yaml  # type: ignore[import-untyped]

    text = _YAML_TAGS.sub(lambda line: _HASH.sub("", line[0]), text)
    try:
        return yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(error) from error


def _values(found: Any, key: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the values of a document, each with its key; an empty one for null, a list, and what is too deep."""
    inner = list(found.items()) if isinstance(found, Mapping) else getattr(found, "value", found)
    if isinstance(inner, list):
        yield key, ""  # even without a key: the caller counts what aliases repeat
        for each in inner if depth < _DEEPEST else ():
            if not isinstance(each, tuple):
                yield from _values(each, key, depth + 1)
            elif isinstance(name := getattr(each[0], "value", each[0]), str):
                yield from _values(each[1], f"{key}.{name}" if key else name, depth + 1)
            else:
                yield key, ""
    else:
        yield key, _text(found)


def _text(value: Any) -> str:
    """Return a scalar as text: of YAML as it was written, apart from booleans in JSON's spelling and dates."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date):  # or a datetime
        return value.isoformat()
    kind = getattr(value, "tag", "").rpartition(":")[2]
    text = str(getattr(value, "value", value))
    if kind == "null":
        return ""
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower()
    if kind == "timestamp" and len("2026-11-29") < len(text) < _LONGEST_KEY:
        try:
            return datetime.fromisoformat(re.sub(r"[ \t]+(?=[-+Z])", "", text)).isoformat()
        except ValueError:
            return text
    return text
