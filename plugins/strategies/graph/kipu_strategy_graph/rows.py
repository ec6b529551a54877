"""Read the rows of the graph as far as a memory may see them, and join the names that files say are the same.

A *key* is a name as names are compared. The *main* key of a group stands for all names of one entity.
"""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

from kipu import Query

from .extraction import key
from .extraction.pages import page_title
from .facts import Fact, Statement, functions, judge, lines_of, plain
from .naming import Page, named_pages

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kipu.types import Index, StoredChunk

__all__ = ["Edge", "Reader"]

Edge = tuple[str, str, Fact]
"""The main keys of a source and of a target, and the fact that relates them."""

_FROM = (
    "FROM {table} AS row CROSS JOIN kipu_chunks ON kipu_chunks.id = row.chunk_id "
    "CROSS JOIN kipu_files ON kipu_files.id = file_id WHERE ({rows}) AND "
)
_LISTED = "(SELECT value FROM json_each(?))"
_DAY = (  # of the name of the file, else of its front matter
    "coalesce(kipu_files.date, (SELECT substr(min(value), 1, 10) FROM kipu_properties "
    "WHERE file_id = kipu_files.id AND key = 'date'))"
)
_STATEMENT = (
    "row.chunk_id, row.source, row.source_text, row.predicate, row.target, row.target_text, row.sentence, row.via, "
    f"row.polarity, row.modality, row.confidence, row.valid_from, row.valid_until, {_DAY}"
)
_IN_ORDER = "ORDER BY kipu_files.path, kipu_chunks.position, row.number"
_PLAIN = "lower(replace(replace(row.predicate, '_', ' '), '-', ' '))"
_EITHER_END = f"row.source IN {_LISTED} OR row.target IN {_LISTED}"
_MOST_SHARED = 100  # passages: an entity that more of them name leads everywhere
_MOST_SIMILAR = 5000  # names that are compared with one that is not known


class Reader:
    """The graph on one connection, within the scope of the memory.

    :param as_of: the day that is asked about; None for today.
    """

    def __init__(self, index: Index, as_of: date | None) -> None:
        self._index = index
        self._as_of = as_of
        self._where, self._parameters = index.where(Query("", as_of=as_of))
        self._targets: dict[str, set[str]] = {}  # of a key: what files say that it is another name of
        self._others: dict[str, set[str]] = {}  # of a key: the other names that files give it
        self._named: list[Page] | None = None
        self._titles: set[str] = set()
        self._written: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._groups: dict[str, tuple[str, set[str]]] = {}

    async def _select(self, columns: str, table: str, rows: str, *values: Any, rest: str = "") -> list[Any]:
        """Return rows of a table of the graph; ``rows`` is a condition on them, with a list of keys for each mark."""
        statement = f"SELECT {columns} {_FROM.format(table=table, rows=rows)} {self._where} {rest}"
        listed = [json.dumps(sorted(each)) for each in values]
        return list(await self._index.connection.execute_fetchall(statement, [*listed, *self._parameters]))

    # --- names -----------------------------------------------------------------------------------------------------

    async def load_aliases(self, keys: Iterable[str]) -> None:
        """Load what files say that keys are the same as, and what these are the same as. A circle ends."""
        unknown = {each for each in keys if each not in self._targets}
        while unknown:
            for each in unknown:
                self._targets[each], self._others[each] = set(), set()
            ends: set[str] = set()
            said = await self._select(
                "DISTINCT row.alias, row.name, row.alias_text, row.name_text",
                "graph_aliases",
                f"row.alias IN {_LISTED} OR row.name IN {_LISTED}",
                unknown,
                unknown,
            )
            for alias, name, alias_text, name_text in [*said, *await self._names_of_pages(unknown)]:
                if alias == name:
                    continue
                if alias in self._targets:
                    self._targets[alias].add(name)
                if name in self._others:
                    self._others[name].add(alias)
                ends |= {alias, name}
                self._written.setdefault(alias, alias_text)
                self._written.setdefault(name, name_text)
            unknown = ends - self._targets.keys()
        self._groups.clear()

    async def _pages(self) -> list[Page]:
        if self._named is None:
            self._named = await named_pages(self._index, self._as_of)
            self._titles = {key(page.names[0]) for page in self._named}
        return self._named

    async def _names_of_pages(self, keys: Collection[str]) -> list[tuple[str, str, str, str]]:
        """Return what else pages are called of which one name is among some keys: as rows of aliases."""
        rows = (
            (key(name), key(page.names[0]), name, page.names[0])
            for page in await self._pages()
            for name in page.names[1:]
        )
        return [row for row in rows if row[0] in keys or row[1] in keys]

    def main(self, one: str) -> str:
        """Return the key that stands for the entity of a key."""
        return self._group(one)[0]

    def group(self, one: str) -> set[str]:
        """Return all keys of the entity of a key."""
        return self._group(one)[1]

    def _group(self, one: str) -> tuple[str, set[str]]:
        if one not in self._groups:
            group, unseen = {one}, [one]
            while unseen:
                each = unseen.pop()
                near = self._stands_for(each) | {
                    other for other in self._others.get(each, ()) if self._stands_for(other)
                }
                unseen += near - group
                group |= near
            main = min(
                group,
                key=lambda each: (
                    each not in self._titles,
                    -len(self._others.get(each, ())),
                    bool(self._stands_for(each)),
                    each,
                ),
            )
            self._groups |= dict.fromkeys(group, (main, group))
        return self._groups[one]

    def _stands_for(self, one: str) -> set[str]:
        """Return what a key is another name of, if that is one name only."""
        targets = self._targets.get(one, set())
        return targets if len(targets) == 1 else set()

    def candidates(self, one: str) -> list[str]:
        """Return the main keys of what a key may stand for: of one entity, or of each that files give it to."""
        return sorted({self.main(each) for each in (one, *self._targets.get(one, ()))})

    async def count_mentions(self, keys: Collection[str]) -> int:
        """Return how many passages name one of some keys."""
        rows = await self._select("count(DISTINCT row.chunk_id)", "graph_mentions", f"row.entity IN {_LISTED}", keys)
        return int(rows[0][0])

    async def is_named(self, keys: Collection[str]) -> bool:
        """Return whether anything names one of some keys, as a mention, in a statement, or as an alias."""
        for table, rows, marks in (
            ("graph_mentions", f"row.entity IN {_LISTED}", 1),
            ("graph_relations", _EITHER_END, 2),
            ("graph_aliases", f"row.alias IN {_LISTED} OR row.name IN {_LISTED}", 2),
        ):
            if await self._select("1", table, rows, *[keys] * marks, rest="LIMIT 1"):
                return True
        return False

    async def names(self, keys: Iterable[str]) -> dict[str, str]:
        """Return keys as files write them where they mention them, or else in a statement."""
        wanted = set(keys)
        if missing := wanted - self._names.keys():
            rows = await self._select(
                "row.entity, min(row.name)",
                "graph_mentions",
                f"row.entity IN {_LISTED}",
                missing,
                rest="GROUP BY row.entity",
            )
            self._names |= {each: self._written.get(each, each) for each in missing} | dict(rows)
        return {each: self._names[each] for each in wanted}

    async def names_in_statements(self) -> dict[str, str]:
        """Return all names that a statement is about, by their keys."""
        found: set[str] = set()
        for end in ("source", "target"):
            rows = await self._select(f"DISTINCT row.{end}", "graph_relations", f"row.{end} IS NOT NULL")
            found |= {each for (each,) in rows}
        return await self.names(found)

    async def similar(self, wanted: str) -> list[str]:
        """Return keys among which the one that was meant may be: with the same first letters, or with it inside."""
        near = f"substr(row.entity, 1, 2) IN {_LISTED} OR instr(row.entity, (SELECT value FROM json_each(?)))"
        rows = await self._select(
            "DISTINCT row.entity", "graph_mentions", near, [wanted[:2]], [wanted], rest=f"LIMIT {_MOST_SIMILAR}"
        )
        return [each for (each,) in rows]

    async def page(self, keys: Collection[str]) -> str | None:
        """Return the path of the file whose name, or else its title, is one of some keys; None if there is none."""
        pages = await self._pages()
        of_files = (page.path for page in pages if key(page_title(page.path)) in keys)
        return next(of_files, next((page.path for page in pages if key(page.names[0]) in keys), None))

    async def count_rules(self) -> list[tuple[str, int]]:
        """Return how many statements each rule has found, most first."""
        rows = await self._select(
            "row.via, count(*)", "graph_relations", "1", rest="GROUP BY row.via ORDER BY count(*) DESC, row.via"
        )
        return [(rule, count) for rule, count in rows]

    # --- statements ------------------------------------------------------------------------------------------------

    async def statements(self, keys: Collection[str] | None = None) -> list[Statement]:
        """Return what is stated about some keys, or everything that is, in the order of files and lines."""
        if keys is None:
            return await self._read("1")
        return await self._read(_EITHER_END, keys, keys)

    async def judged(
        self, keys: Collection[str] | None, functional: Sequence[str], day: date
    ) -> list[tuple[Statement, Fact]]:
        """Return what is stated about some keys, or everything, each with the fact that it is on a day."""
        statements = await self.statements(keys)
        rivals = [] if keys is None else await self._rivals(statements, functional)
        facts = judge([*statements, *rivals], functional, day)
        return list(zip(statements, facts, strict=False))

    async def _rivals(self, statements: Sequence[Statement], functional: Sequence[str]) -> list[Statement]:
        """Return what else may supersede statements: other values of their subjects, about other entities."""
        found: list[Statement] = []
        for end, is_inverse in (("source", False), ("target", True)):
            predicates = functions(functional, is_inverse=is_inverse).keys()
            subjects = {
                each.edge[2] if is_inverse else each.edge[0] for each in statements if each.edge[1] in predicates
            }
            keys = {each for subject in subjects for each in self.group(subject)}
            if keys:
                found += await self._read(f"row.{end} IN {_LISTED} AND {_PLAIN} IN {_LISTED}", keys, predicates)
        return found

    async def contested(self, functional: Sequence[str]) -> list[Statement]:
        """Return the statements that may exclude others: of functional predicates, and of edges that one denies."""
        predicates = {*functions(functional, is_inverse=False), *functions(functional, is_inverse=True)}
        return await self._read(
            f"{_PLAIN} IN {_LISTED} OR row.source IN (SELECT source FROM graph_relations WHERE polarity < 0)",
            predicates,
        )

    async def edges(self, keys: Collection[str], functional: Sequence[str], day: date) -> list[Edge]:
        """Return the facts between entities that hold on a day, at one end of which is one of some keys."""
        judged = await self.judged(keys, functional, day)
        return [(each.edge[0], each.edge[2], fact) for each, fact in judged if fact.holds and fact.is_entity]

    async def shared_passages(self, keys: Collection[str]) -> list[Edge]:
        """Return an edge without a predicate for each entity that a passage names together with one of some keys."""
        counted = await self._select(
            "row.entity, count(*)", "graph_mentions", f"row.entity IN {_LISTED}", keys, rest="GROUP BY row.entity"
        )
        few = [each for each, count in counted if count <= _MOST_SHARED]
        rows = await self._select(
            "row.entity, other.entity, kipu_files.path, kipu_chunks.start_line, kipu_chunks.end_line, "
            f"kipu_chunks.chunk, {_DAY}",
            "graph_mentions AS other CROSS JOIN graph_mentions",
            f"row.entity IN {_LISTED} AND other.chunk_id = row.chunk_id AND other.entity != row.entity",
            few,
            rest="ORDER BY kipu_files.path, kipu_chunks.position, other.entity",
        )
        await self.load_aliases({row[1] for row in rows})
        names = await self.names({self.main(each) for row in rows for each in row[:2]})
        return [
            (
                source := self.main(row[0]),
                target := self.main(row[1]),
                Fact(names[source], "", names[target], True, "", row[2], row[3], row[4], row[5], _date(row[6])),
            )
            for row in rows
        ]

    async def _read(self, rows: str, *values: Collection[str]) -> list[Statement]:
        found = await self._select(_STATEMENT, "graph_relations", rows, *values, rest=_IN_ORDER)
        for row in found:
            self._written.setdefault(row[1], row[2])
            if row[4] is not None:
                self._written.setdefault(row[4], row[5])
        ends = {end for row in found for end in (row[1], row[4]) if end is not None}
        await self.load_aliases(ends)
        await self.names({self.main(each) for each in ends})
        chunks = await self._index.chunks({row[0]: None for row in found})
        later = await self._written_later({chunk.metadata.get("superseded_by", "") for chunk in chunks.values()})
        return [self._statement(row, chunks[row[0]], later) for row in found]

    def _statement(self, row: Sequence[Any], chunk: StoredChunk, later: Collection[str]) -> Statement:
        source, target = self.main(row[1]), None if row[4] is None else self.main(row[4])
        first, last = lines_of(chunk.text, row[6], chunk.start_line, chunk.end_line)
        until = min(filter(None, (_date(row[12]), _date(chunk.metadata.get("valid_until")))), default=None)
        superseded = chunk.metadata.get("superseded_by", "")
        if self._as_of and superseded and (superseded in later or (until and self._as_of < until)):
            superseded = ""  # it was valid on that day
        fact = Fact(
            self._names[source],
            row[3],
            row[5] if target is None else self._names[target],
            target is not None,
            row[6],
            chunk.path,
            first,
            last,
            chunk.chunk,
            _date(row[11]) or _date(row[13]),
            denied=row[8] < 0,
            modality=row[9],
            confidence=row[10],
            via=row[7],
        )
        edge = source, plain(row[3]), key(row[5]) if target is None else target
        return Statement(fact, edge, until, superseded)

    async def _written_later(self, names: Collection[str]) -> set[str]:
        """Return those of the successors of entries that were written after the day that is asked about."""
        if self._as_of is None or not any(names):
            return set()
        where, parameters = self._index.where(Query(""))  # also what was written later, but of no other scope
        rows = await self._index.connection.execute_fetchall(
            "SELECT kipu_entries.id FROM kipu_entries JOIN kipu_files ON kipu_files.id = file_id WHERE date > ? "
            f"AND kipu_entries.id IN {_LISTED} AND {where} UNION SELECT path FROM kipu_files WHERE date > ? "
            f"AND path IN {_LISTED} AND {where}",
            [self._as_of.isoformat(), json.dumps(sorted(names)), *parameters] * 2,
        )
        return {name for (name,) in rows}


def _date(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        return None  # not a date: people write these lines too
