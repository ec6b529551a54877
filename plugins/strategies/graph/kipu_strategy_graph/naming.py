"""What pages are called: by their title, by the name of their file, and by their front matter."""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from kipu import Query
from kipu.markdown import heading_level, heading_title

from .extraction import key
from .extraction.pages import page_title, split_aliases, subject

if TYPE_CHECKING:
    from datetime import date

    from kipu.types import Index

__all__ = ["HAS_ALIASES", "Page", "named_pages"]

_ALIASES = "key IN ('alias', 'aliases')"
HAS_ALIASES = f"EXISTS (SELECT 1 FROM kipu_properties WHERE {_ALIASES})"
"""A condition in SQL: whether the front matter of any file names others."""


class Page(NamedTuple):
    """A file, and its names as they are written: its title first, then that of the file, then the other ones."""

    path: str
    names: tuple[str, ...]


async def named_pages(index: Index, as_of: date | None, *, has_aliases: bool = False) -> list[Page]:
    """Return the pages within the scope of a memory that have a name, in the order of their paths.

    The title is the first heading of level 1, or else that of the front matter. A heading that several pages have is
    the name of none.

    :param has_aliases: return only pages whose front matter names others.
    """
    where, parameters = index.where(Query("", as_of=as_of))
    if has_aliases:
        where = f"kipu_files.id IN (SELECT file_id FROM kipu_properties WHERE {_ALIASES}) AND {where}"
    of_file = "FROM kipu_chunks AS inner WHERE inner.file_id = kipu_files.id AND"
    rows = list(
        await index.connection.execute_fetchall(
            f"SELECT path, (SELECT substr(text, 1, 200) {of_file} position = 0), "
            f"(SELECT heading {of_file} heading_level = 1 ORDER BY position LIMIT 1), "
            "(SELECT json_group_array(json_array(key, value)) FROM kipu_properties "
            f"WHERE file_id = kipu_files.id AND ({_ALIASES} OR key = 'title')), "
            f"(SELECT context {of_file} position = 0) FROM kipu_files WHERE {where} ORDER BY path",
            parameters,
        )
    )
    found = [_names(*row) for row in rows]
    counts = Counter(key(heading) for heading, _ in found)
    named = [names[1:] if heading and counts[key(heading)] > 1 else names for heading, names in found]
    return [Page(row[0], names) for row, names in zip(rows, named, strict=True) if names]


@lru_cache(maxsize=20_000)
def _names(
    path: str, text: str | None, heading: str | None, properties: str, context: str | None
) -> tuple[str, tuple[str, ...]]:
    """Return the heading of a page, empty if it is no name, and all names: the heading first, if it is one."""
    title = _heading(text or "", heading or "")
    said = json.loads(properties)
    own = [title, *(value for name, value in said if name == "title"), page_title(path)]
    others = split_aliases([value for name, value in said if name != "title"])
    names = {key(each): each for each in [*own, *others] if each}
    if others:
        # Front matter is kept without case; the context of the first chunk has it as it is written.
        written = {key(each): each for line in (context or "").split("\n") for each in split_aliases([line])}
        names |= {each: written[each] for each in names if each in written}
    return title, tuple(names.values())


def _heading(text: str, heading: str) -> str:
    """Return the first heading of level 1 if it is a name, and an empty text if not."""
    first = text.split("\n", 1)[0]
    title = heading_title(first) if heading_level(first) == 1 else heading.rpartition(" > ")[2]
    return subject(title, "")
