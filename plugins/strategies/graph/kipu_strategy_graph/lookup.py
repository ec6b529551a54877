"""What a search reads from the tables of the graph: only of chunks that pass the filters of its query.

What is counted is counted among these chunks alone: no number depends on what the scope of a memory excludes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from .extraction import phrase
from .extraction.pages import page_title
from .naming import HAS_ALIASES, named_pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kipu.types import Index, Query

__all__ = ["Known", "Lookup", "Place"]


class Known(NamedTuple):
    """Which phrases of a question are names, in how many chunks, how many there are, and whether names have aliases."""

    names: Mapping[str, int]
    chunks: int
    has_aliases: bool


class Place(NamedTuple):
    """Where a chunk stands, and its words: with single spaces between and around them."""

    path: str
    heading: str
    words: str

    def titles(self) -> frozenset[str]:
        """Return the innermost heading and the title of the file, as phrases."""
        return _titles(self.path, self.heading)


@lru_cache(maxsize=20_000)
def _phrases(names: tuple[str, ...]) -> dict[str, str]:
    return {" ".join(phrase(name)): name for name in names}


@lru_cache(maxsize=10_000)
def _titles(path: str, heading: str) -> frozenset[str]:
    return frozenset(" ".join(phrase(title)) for title in (heading.rpartition(" > ")[2], page_title(path)))


class Lookup:
    """Looks names and phrases up for one query. A phrase that ends with ``*`` stands for all that begin like it."""

    def __init__(self, index: Index, query: Query) -> None:
        self.index = index
        self.query = query
        self._of_pages: dict[str, list[dict[str, str]]] | None = None
        self._where, self._parameters = index.where(query)
        self._found: dict[tuple[str, int], list[int]] = {}

    async def _rows(self, statement: str, *parameters: Any) -> list[Any]:
        return list(await self.index.connection.execute_fetchall(statement, parameters))

    def _passing(self, id: str) -> str:
        """Return the joins and the condition for rows of chunks that pass the filters."""
        return (
            f"CROSS JOIN kipu_chunks ON kipu_chunks.id = {id} "
            f"CROSS JOIN kipu_files ON kipu_files.id = kipu_chunks.file_id WHERE {self._where}"
        )

    async def known(self, phrases: Iterable[str]) -> Known:
        """Return which of the phrases are names somewhere, and the size of what is searched."""
        rows = await self._rows(
            f"SELECT value, (SELECT count(*) FROM graph_mentions {self._passing('chunk_id')} AND phrase = value) "
            f"FROM json_each(?) UNION ALL SELECT '', EXISTS (SELECT 1 FROM graph_aliases) OR {HAS_ALIASES} "
            "UNION ALL SELECT '', count(*) "
            f"FROM kipu_chunks CROSS JOIN kipu_files ON kipu_files.id = kipu_chunks.file_id WHERE {self._where}",
            *self._parameters,
            json.dumps([*phrases]),
            *self._parameters,
        )
        *names, (_, has_aliases), (_, chunks) = rows
        return Known({name: count for name, count in names if count}, chunks, bool(has_aliases))

    async def aliases(self, phrases: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return what else files call what some phrases name: phrases, each with how it is written."""
        asked = [*phrases]
        listed = json.dumps(asked)
        rows = await self._rows(
            "SELECT alias_phrase, name_phrase, alias_text, name_text FROM graph_aliases "
            f"{self._passing('chunk_id')} AND (alias_phrase IN "
            "(SELECT value FROM json_each(?)) OR name_phrase IN (SELECT value FROM json_each(?)))",
            *self._parameters,
            listed,
            listed,
        )
        if self._of_pages is None:
            self._of_pages = {}
            for page in await named_pages(self.index, self.query.as_of, has_aliases=True):
                names = _phrases(page.names)
                for each in names:
                    self._of_pages.setdefault(each, []).append(names)
        found: dict[str, dict[str, str]] = defaultdict(dict)
        for each in asked:
            for names in self._of_pages.get(each, ()):
                found[each] |= names
        for alias, name, alias_text, name_text in rows:
            found[alias][name] = name_text
            found[name][alias] = alias_text
        return found

    async def chunks_with(self, phrases: Iterable[str], most: int) -> dict[str, list[int]]:
        """Return for each phrase the chunks that have it, without those phrases that more than ``most`` have."""
        asked = list(dict.fromkeys(phrases))
        if missing := [each for each in asked if (each, most) not in self._found]:
            expressions = [f'"{each[:-1]}"*' if each.endswith("*") else f'"{each}"' for each in missing]
            passing = "WHERE 1" if self._where == "1" else self._passing("graph_words.rowid")
            rows = await self._rows(
                "SELECT key, (SELECT json_group_array(id) FROM (SELECT graph_words.rowid AS id FROM graph_words "
                f"{passing} AND graph_words MATCH asked.value LIMIT {most + 1})) FROM json_each(?) AS asked",
                *self._parameters,
                json.dumps(expressions),
            )
            self._found.update(((missing[number], most), json.loads(ids)) for number, ids in rows)
        return {each: ids for each in asked if len(ids := self._found[each, most]) <= most}

    async def names(self, ids: Iterable[int]) -> dict[int, dict[str, float]]:
        """Return the names of chunks as phrases, with what they weigh."""
        rows = await self._rows(
            "SELECT chunk_id, phrase, weight FROM graph_mentions WHERE chunk_id IN (SELECT value FROM json_each(?)) "
            "AND phrase <> '' ORDER BY chunk_id, start, phrase",
            json.dumps([*ids]),
        )
        found: dict[int, dict[str, float]] = defaultdict(dict)
        for id, name, weight in rows:
            found[id][name] = max(weight, found[id].get(name, 0.0))
        return found

    async def predicates(self, ids: Iterable[int]) -> dict[int, set[str]]:
        """Return the words of the predicates that chunks state."""
        found: dict[int, set[str]] = defaultdict(set)
        for id, predicate in await self._rows(
            "SELECT chunk_id, predicate FROM graph_relations WHERE chunk_id IN (SELECT value FROM json_each(?))",
            json.dumps([*ids]),
        ):
            found[id].update(phrase(predicate))
        return found

    async def files(self, ids: Iterable[int]) -> dict[int, int]:
        """Return the file of each chunk."""
        return dict(
            await self._rows(
                "SELECT id, file_id FROM kipu_chunks WHERE id IN (SELECT value FROM json_each(?))", json.dumps([*ids])
            )
        )

    async def places(self, ids: Iterable[int]) -> dict[int, Place]:
        """Return where chunks stand, and their words."""
        rows = await self._rows(
            "SELECT kipu_chunks.id, path, heading, ' ' || words || ' ' FROM kipu_chunks CROSS JOIN kipu_files "
            "ON kipu_files.id = file_id CROSS JOIN graph_words ON graph_words.rowid = kipu_chunks.id "
            "WHERE kipu_chunks.id IN (SELECT value FROM json_each(?))",
            json.dumps([*ids]),
        )
        return {id: Place(*place) for id, *place in rows}
