"""What statements mean at a time: which of them hold, and what has ended the others.

It is derived when it is read, and written nowhere: the rows of a chunk depend on that chunk alone.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["FUNCTIONAL", "Conflict", "Fact", "Statement", "conflicts", "functions", "judge", "lines_of", "plain"]

FUNCTIONAL = ("lives in", "works at|works for", "owned by|owner", "^owns", "version", "port")
"""Predicates of which a subject has one value at a time. Of one with ``^``, a value has one subject. Those that ``|``
separates are one predicate.
"""


@attrs.frozen
class Fact:
    """A statement of a memory: ``source -predicate-> target``, and the lines that make it.

    ``target`` is the name of an entity if ``is_entity``, and any text otherwise. ``date`` is since when it holds, as
    far as the statement, its entry or the name of its file says. ``outdated`` says why it does not hold any more, and
    is empty for one that holds. A statement that is ``denied`` says that it does not hold; one with a ``modality``
    (``question``, ``condition``, ``possible``) is none that holds. ``via`` is the rule that found it.
    """

    source: str
    predicate: str
    target: str
    is_entity: bool
    sentence: str
    path: str
    start_line: int
    end_line: int
    chunk: str
    date: date | None = None
    outdated: str = ""
    denied: bool = False
    modality: str = ""
    confidence: float = 1.0
    via: str = ""

    @property
    def holds(self) -> bool:
        """Whether it is believed, and holds now."""
        return not (self.outdated or self.denied or self.modality)

    def __str__(self) -> str:
        edge = f"not {self.predicate}" if self.denied else self.predicate
        return f"{self.source} -{edge}-> {self.target}"


@attrs.frozen
class Conflict:
    """Facts that hold now and exclude each other: two values, or an edge that is both asserted and denied."""

    subject: str
    predicate: str
    facts: Sequence[Fact]


@attrs.frozen
class Statement:
    """A fact with what decides whether it holds.

    ``edge`` are the entity of the source, the predicate and the entity or the text of the target, as they are compared:
    what a denial closes. ``superseded`` says what supersedes the entry of the fact, empty if nothing does.
    """

    fact: Fact
    edge: tuple[str, str, str]
    valid_until: date | None = None
    superseded: str = ""


@functools.lru_cache(maxsize=10_000)
def plain(predicate: str) -> str:
    """Return a predicate as predicates are compared: ``Works_at`` is ``works at``."""
    return " ".join(predicate.casefold().replace("_", " ").replace("-", " ").split())


def functions(functional: Iterable[str], *, is_inverse: bool) -> dict[str, str]:
    """Return the functional predicates, or the inverse ones, each with the one that it is compared as."""
    groups = [
        [plain(each) for each in name.lstrip("^").split("|")]
        for name in functional
        if name.startswith("^") == is_inverse
    ]
    return {each: group[0] for group in groups for each in group}


def judge(statements: Iterable[Statement], functional: Iterable[str], day: date) -> list[Fact]:
    """Return the facts of statements, each with what has ended it, in the order given.

    A statement has ended if its entry is superseded or expired, if a newer one denies the same edge, or if its
    predicate is functional and a newer one gives the same subject another value.

    :param functional: see `FUNCTIONAL`.
    :param day: the day that is asked about; statements of later days must be left out by the caller.
    """
    statements = _compared(statements, functional)
    believed = [each for each in statements if not each.fact.modality and (each.fact.date or day) <= day]
    subject = _subjects(functional)
    denials = _grouped((each for each in believed if each.fact.denied), lambda each: each.edge)
    rivals = _grouped((each for each in believed if not each.fact.denied), subject)

    def ended(each: Statement) -> str:
        if each.superseded:
            return f"superseded by {each.superseded}"
        if each.valid_until and each.valid_until < day:
            return f"valid until {each.valid_until.isoformat()}"
        if each.fact.date and each.fact.date > day:
            return f"valid from {each.fact.date.isoformat()}"
        if each.fact.denied or each.fact.modality:
            return ""
        if each.edge in denials and (newer := denials[each.edge].newer_than(each)):
            return f"denied by {newer}"
        key = subject(each)
        if key and (newer := rivals[key].newer_than(each, but=each.edge)):
            return f"superseded by {newer}"
        return ""

    return [attrs.evolve(each.fact, outdated=ended(each)) for each in statements]


def conflicts(statements: Sequence[Statement], functional: Iterable[str], day: date) -> list[Conflict]:
    """Return the facts that hold on a day and exclude each other, by subject and predicate."""
    statements = _compared(statements, functional)
    facts = judge(statements, functional, day)
    subject = _subjects(functional)
    groups: dict[tuple[str, ...], list[tuple[Statement, Fact]]] = defaultdict(list)
    for statement, fact in zip(statements, facts, strict=True):
        if fact.outdated or fact.modality:
            continue
        groups[statement.edge].append((statement, fact))
        if not fact.denied and (key := subject(statement)):
            groups[key].append((statement, fact))
    found = []
    for key, members in groups.items():
        is_edge = len(key) == 3
        values = {fact.denied for _, fact in members} if is_edge else {statement.edge for statement, _ in members}
        if len(values) > 1:
            first = members[0][1]
            name = first.target if key[0] == "<" else first.source
            ordered = sorted((fact for _, fact in members), key=lambda fact: (fact.path, fact.start_line))
            found.append(Conflict(name, first.predicate, ordered))
    return sorted(found, key=lambda each: (each.subject.casefold(), each.predicate, each.facts[0].path))


def lines_of(text: str, sentence: str, first: int, last: int) -> tuple[int, int]:
    """Return the lines of a sentence in a chunk; those of the chunk if it is not there as it is written."""
    if last == first or text.count("\n") != last - first:
        return first, last
    start = text.find(sentence)
    end = start + len(sentence)
    if start < 0:  # its lines were joined
        found = re.search(r"\s+".join(map(re.escape, sentence.split())), text)
        start, end = found.span() if found else (0, len(text))
    return first + text.count("\n", 0, start), first + text.count("\n", 0, end)


class _Newest:
    """The newest statements of a group: by their dates, or of one file without two dates that differ, by their lines.

    Nothing tells which is newer of two files of one day, or without a date: both hold.
    """

    def __init__(self) -> None:
        self._by_date: list[Statement] = []
        self._by_line: dict[tuple[str, date | None, bool], list[Statement]] = defaultdict(list)

    def add(self, statement: Statement) -> None:
        fact = statement.fact
        if fact.date:
            self._keep(self._by_date, statement, lambda each: (each.fact.date, each.fact.path, each.fact.start_line))
        for place in ((fact.path, fact.date, False), (fact.path, None, True)):  # of that date, and of any
            self._keep(self._by_line[place], statement, lambda each: each.fact.start_line)

    @staticmethod
    def _keep(newest: list[Statement], statement: Statement, order: Callable[[Statement], Any]) -> None:
        """Keep the newest statement of each of two edges: one of them is another edge than that of any statement."""
        same = next((each for each in newest if each.edge == statement.edge), None)
        if same is not None and order(same) >= order(statement):
            return
        newest[:] = sorted([*(each for each in newest if each is not same), statement], key=order, reverse=True)[:2]

    def newer_than(self, statement: Statement, *, but: tuple[str, str, str] | None = None) -> str:
        """Return the place of a newer statement, of another edge than ``but``; empty if there is none."""
        fact = statement.fact
        dated = [each for each in self._by_date if each.edge != but and fact.date and each.fact.date > fact.date]  # type: ignore[operator]
        places = [(fact.path, fact.date, False), (fact.path, None, False)] if fact.date else [(fact.path, None, True)]
        below = [each for place in places for each in self._by_line.get(place, ()) if each.edge != but]
        newer = dated or [each for each in below if each.fact.start_line > fact.start_line]
        return f"{newer[0].fact.path}:{newer[0].fact.start_line}" if newer else ""


def _compared(statements: Iterable[Statement], functional: Iterable[str]) -> list[Statement]:
    """Return statements with one predicate for all that are the same."""
    functional = list(functional)
    same = functions(functional, is_inverse=False) | functions(functional, is_inverse=True)

    def compared(each: Statement) -> Statement:
        source, predicate, target = each.edge
        one = same.get(predicate, predicate)
        return each if one == predicate else attrs.evolve(each, edge=(source, one, target))

    return [compared(each) for each in statements]


def _subjects(functional: Iterable[str]) -> Callable[[Statement], tuple[str, ...]]:
    """Return a function that returns what a statement says one value of; nothing if it may have several."""
    one_target = functions(functional, is_inverse=False).values()
    one_source = functions(functional, is_inverse=True).values()

    def subject(statement: Statement) -> tuple[str, ...]:
        source, predicate, target = statement.edge
        if predicate in one_target:
            return ">", source, predicate, ""
        return ("<", target, predicate, "") if predicate in one_source else ()

    return subject


def _grouped(
    statements: Iterable[Statement], group: Callable[[Statement], tuple[str, ...]]
) -> dict[tuple[str, ...], _Newest]:
    groups: dict[tuple[str, ...], _Newest] = defaultdict(_Newest)
    for statement in statements:
        groups[group(statement)].add(statement)
    return groups
