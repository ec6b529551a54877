"""The filters of a query as SQL, and the properties that they ask for.

Properties are those of a file's front matter, and those of the metadata of an entry. A chunk passes a filter if its
entry or its file has what is asked for.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from typing import TYPE_CHECKING, Any

from ..config import are_simple
from ..markdown import Kind, canonical, scan
from ..workspace.paths import ARCHIVE, EXTERNAL, MEMORY_FOLDER
from .annotations import annotation_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..types import Query

TAGS = "tags"
"""The key of tags, whether a file spells it ``tags`` or ``tag``."""

# The label of what was archived, and those of the sources that it was in: "archive", "archive/team". So "external".
IN_ARCHIVE = f"{{files}}.source = '{ARCHIVE}' OR ({{files}}.source > '{ARCHIVE}/' AND {{files}}.source < '{ARCHIVE}0')"
_BELOW = {ARCHIVE: IN_ARCHIVE, EXTERNAL: IN_ARCHIVE.replace(ARCHIVE, EXTERNAL)}
# The day of a file: of its name, else of its front matter.
_DAY = (
    "coalesce({files}.date, (SELECT substr(min(value), 1, 10) FROM file_properties WHERE file_id = {files}.id "
    "AND key = 'date' AND value GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*'))"
)
_HAS = (
    "{files}.id IN (SELECT file_id FROM file_properties WHERE {wanted}) OR {chunks}.id IN (SELECT chunks.id FROM "
    "metadata_properties CROSS JOIN chunks ON chunks.metadata_id = metadata_properties.metadata_id WHERE {wanted})"
)
_CODE_SPAN = re.compile(r"(?<![`\\])(`+)(?!`)(?:(?!\n\s*\n).){1,1000}?(?<!`)\1(?!`)", re.DOTALL)
_LONGEST_KEY, _LONGEST_VALUE = 60, 200  # that are compared
_MOST_VALUES = 1000  # of a file or an entry: the index stays linear in the Markdown


def filters(query: Query, *, archived: bool = True, prefix: str = "") -> tuple[str, list[Any]]:
    """Return the query's filters as an SQL condition on files and chunks, and its parameters.

    :param archived: whether archived files, which are found only if they are asked for, must be left out.
    :param prefix: what the names of the two tables begin with: nothing, or ``kipu_`` for the views of strategies.
    """
    files, chunks = f"{prefix}files", f"{prefix}chunks"
    condition, parameters = source_filter(query.sources, files)
    conditions = [condition] if query.sources else [f"NOT ({IN_ARCHIVE.format(files=files)})"] if archived else []
    day = _DAY.format(files=files)
    for bound, comparison in (
        (query.since, f"{day} >= ?"),
        (query.until, f"{day} <= ?"),
        (query.as_of, f"coalesce({day} <= ?, 1)"),
    ):
        if bound is not None:
            conditions.append(comparison)
            parameters.append(bound.isoformat())
    if query.path is not None:
        conditions.append(f"kipu_path({files}.path, ?)")
        parameters.append(query.path)
    for tag in query.tags:
        has = _HAS.format(
            files=files, chunks=chunks, wanted=f"key = '{TAGS}' AND (value = ? OR (value > ? AND value < ?))"
        )
        marked = f"(instr({chunks}.text, '#') OR instr({chunks}.heading, '#'))"
        conditions.append(f"({has} OR ({marked} AND kipu_tag({chunks}.heading || char(10) || {chunks}.text, ?)))")
        parameters += [tag, f"{tag}/", f"{tag}0"] * 2 + [tag]
    for key, value in query.where:
        conditions.append(f"({_HAS.format(files=files, chunks=chunks, wanted='key = ? AND value = ?')})")
        parameters += [key, value] * 2
    return " AND ".join(conditions) or "1", parameters


def source_filter(sources: Sequence[str], files: str = "files") -> tuple[str, list[Any]]:
    """Return the condition for files of some sources, and its parameters; without any, the condition for all."""
    conditions = [f"{files}.source IN ({', '.join('?' * len(sources))})"] if sources else ["1"]
    conditions += [below.format(files=files) for label, below in _BELOW.items() if label in sources]
    return f"({' OR '.join(conditions)})" if sources else "1", list(sources)


def register_functions(connection: Any) -> None:
    """Define our SQL functions on a connection of the driver."""
    connection.create_function("annotation_hash", 2, annotation_hash, deterministic=True)
    connection.create_function("kipu_path", 2, matches_path, deterministic=True)
    connection.create_function("kipu_tag", 2, has_inline_tag, deterministic=True)


@functools.lru_cache(maxsize=100_000)
def matches_path(path: str, pattern: str) -> bool:
    """Return whether a path matches a pattern in the syntax of ``.gitignore``, from the workspace or ``memory/`` on.

    :raises ValueError: the pattern is invalid.
    """
    spec, path = _path_spec(unicodedata.normalize("NFC", pattern)), unicodedata.normalize("NFC", path)
    return spec.match_file(path) or spec.match_file(path.removeprefix(f"{MEMORY_FOLDER}/"))  # type: ignore[no-any-return]


@functools.lru_cache(maxsize=100)
def _path_spec(pattern: str) -> Any:
    import pathspec

    if not are_simple([pattern]):
        raise ValueError("it has more than four stars between two slashes, or two **/")
    pattern = unicodedata.normalize("NFC", pattern).removeprefix("./")
    try:
        # A folder may begin with the mark of a comment or of an exception.
        return pathspec.GitIgnoreSpec.from_lines([f"\\{pattern}" if pattern[:1] in ("#", "!") else pattern])
    except re.error as error:
        raise ValueError(error) from error


def has_inline_tag(text: str, tag: str) -> bool:
    """Return whether a text has a tag, or one nested in it, as in ``#tag`` or ``#tag/nested``, outside of code."""
    text = unicodedata.normalize("NFC", text).casefold()
    return bool(_inline_tag(tag).search(text) and _inline_tag(tag).search(_without_code(text)))


def _without_code(text: str) -> str:
    lines = text.split("\n")
    for block in scan(lines):
        if block.kind is Kind.FENCE:
            lines[block.start : block.end] = [""] * (block.end - block.start)
    return _CODE_SPAN.sub("``", "\n".join(lines))


@functools.lru_cache(maxsize=100)
def _inline_tag(tag: str) -> re.Pattern[str]:
    nested = "" if re.search(r"[^\d/]", tag) else r"(?=[\w/-]*[^\W\d])"  # a number alone is none
    return re.compile(rf"(?<!\S)#{re.escape(tag)}(?![-\w\u0300-\u036f\u0900-\u0963\u0971-\u0df3\u0e31-\u0e4e]){nested}")


# --- Properties ----------------------------------------------------------------------------------------------------


def comparable(text: str) -> str:
    """Return the form in which keys and values are stored and compared: case and white space make no difference."""
    return canonical(text).casefold()[:_LONGEST_VALUE]


def comparable_tag(tag: str) -> str:
    """Return a tag as it is compared: without ``#``."""
    return comparable(tag).removeprefix("#").strip("/")


def comparable_key(key: str) -> str:
    """Return a key as it is compared."""
    name = comparable(key)[:_LONGEST_KEY]
    return TAGS if name == "tag" else name


def of_file(properties: Mapping[str, Sequence[str]]) -> set[tuple[str, str]]:
    """Return the keys and values of front matter as they are compared, 1,000 at most."""
    return _rows((key, value, len(values) > 1) for key, values in properties.items() for value in values)


def of_entry(metadata: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return the keys and values of metadata as they are compared: a text with commas may be a list as well."""
    return _rows((key, part, False) for key, value in metadata.items() for part in [value, *value.split(",")])


def _rows(properties: Iterable[tuple[str, str, bool]]) -> set[tuple[str, str]]:
    """Return keys and values; of a text that is no item of a list, each tag in it too."""
    rows: set[tuple[str, str]] = set()
    for key, value, is_item in properties:
        name = comparable_key(key)
        tags = [value] if is_item else [value, *re.split(r"[,\s]+", value)]
        texts = map(comparable_tag, tags) if name == TAGS else [comparable(value)]
        rows.update((name, text) for text in itertools.islice(texts, _MOST_VALUES) if text)
        if len(rows) >= _MOST_VALUES:
            break
    return rows
