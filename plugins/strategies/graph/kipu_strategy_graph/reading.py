"""Read the graph: the facts about an entity, its neighbours and its history, and the paths between entities."""

from __future__ import annotations

import contextlib
import inspect
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import attrs

from kipu.errors import QueryError

from .extraction import key
from .extraction.names import LONGEST_NAME
from .facts import FUNCTIONAL, Conflict, Fact, conflicts
from .likeness import Suggestion, similar_names, suggestions
from .rows import Reader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from kipu import Memory
    from kipu.types import Step

__all__ = ["Entity", "Graph", "Neighbour", "Profile"]

_LONGEST_PATH = 6  # steps by relations
_LONGEST_LOOSE_PATH = 3  # steps where entities only share a passage


@attrs.frozen
class Entity:
    """What a name stands for: its main name, the others that files give it, and the page about it, if there is one.

    ``mentions`` counts the passages that name it. A name without a page is known from what mentions it alone.
    """

    name: str
    aliases: Sequence[str] = ()
    page: str | None = None
    mentions: int = 0


@attrs.frozen
class Neighbour:
    """An entity that facts relate to another one, and these facts."""

    name: str
    facts: Sequence[Fact]


@attrs.frozen
class Profile:
    """What a memory says now: what a name stands for, the facts about it, and what they relate it to."""

    entities: Sequence[Entity]
    facts: Sequence[Fact]
    neighbours: Sequence[Neighbour]


class Graph:
    """What the strategy ``graph`` has read out of a memory, as far as the memory's scope goes::

        async with Memory("project") as memory:
            for fact in await Graph(memory).facts("Ravi"):
                print(fact, fact.path, fact.start_line)

    Each call first indexes what changed on disk. A name is compared without case and width; an alias stands for what
    files say that it does, and for each of several candidates if they say several.

    :param as_of: show what was believed on that day: a date, or a text such as ``2026-11-29``.
    :param functional: the predicates of which a subject has one value at a time; by default as configured.
    :raises QueryError: it is no `kipu.Memory`, such as a `kipu.sync.Memory`.
    """

    def __init__(
        self, memory: Memory, *, as_of: date | str | None = None, functional: Sequence[str] | None = None
    ) -> None:
        if not hasattr(memory, "open_index") or not inspect.iscoroutinefunction(memory.search):
            raise QueryError(
                f"Graph needs a kipu.Memory, not a {type(memory).__module__}.{type(memory).__qualname__}: use "
                '`async with kipu.Memory("project") as memory` in a coroutine that `asyncio.run` runs.'
            )
        self._memory = memory
        self._as_of = _day(as_of)
        self._functional = _configured(memory) if functional is None else tuple(functional)

    @property
    def _today(self) -> date:
        return self._as_of or self._memory.config.today()

    @contextlib.asynccontextmanager
    async def _open(self) -> AsyncIterator[Reader]:
        async with self._memory.open_index("graph") as index:
            yield Reader(index, self._as_of)

    # --- entities --------------------------------------------------------------------------------------------------

    async def entities(self, name: str) -> list[Entity]:
        """Return what a name stands for: one entity, or several candidates if files give it to several.

        :raises QueryError: the memory does not mention it; the message names the most similar name.
        """
        async with self._open() as reader:
            return [await self._entity(reader, each) for each in await self._resolve(reader, name)]

    async def _resolve(self, reader: Reader, name: str) -> list[str]:
        """Return the main keys of what a name stands for."""
        if not isinstance(name, str):
            raise QueryError(f"A name must be a text, not {name!r}.")
        wanted = key(name)
        await reader.load_aliases([wanted])
        found = [each for each in reader.candidates(wanted) if await reader.is_named(reader.group(each))]
        if not found:
            if len(name) > LONGEST_NAME:
                raise QueryError(f'The memory names no "{name[:LONGEST_NAME]}...".')
            near = similar_names(wanted, await reader.similar(wanted))
            names = await reader.names(near)
            hint = f' Did you mean "{names[near[0]]}"?' if near else ""
            raise QueryError(f'The memory names no "{name}".{hint}')
        return found

    async def _entity(self, reader: Reader, main: str) -> Entity:
        keys = reader.group(main)
        names = await reader.names(keys)
        aliases = sorted({names[each] for each in keys} - {names[main]}, key=str.casefold)
        return Entity(names[main], aliases, await reader.page(keys), await reader.count_mentions(keys))

    # --- facts -----------------------------------------------------------------------------------------------------

    async def profile(self, entity: str) -> Profile:
        """Return all that the memory says now about what a name stands for.

        :raises QueryError: the memory does not mention it.
        """
        async with self._open() as reader:
            mains = await self._resolve(reader, entity)
            entities = [await self._entity(reader, each) for each in mains]
            facts = [fact for fact in reversed(await self._about(reader, mains)) if fact.holds]
        return Profile(entities, facts, _neighbours(facts, {each.name for each in entities}))

    async def facts(self, entity: str) -> list[Fact]:
        """Return the facts about an entity that hold now, as their source or their target, the newest first.

        :raises QueryError: the memory does not mention it.
        """
        async with self._open() as reader:
            facts = await self._about(reader, await self._resolve(reader, entity))
        return [fact for fact in reversed(facts) if fact.holds]

    async def history(self, entity: str) -> list[Fact]:
        """Return every statement about an entity, the oldest first: also those that are outdated, or deny something.

        :raises QueryError: the memory does not mention it.
        """
        async with self._open() as reader:
            return await self._about(reader, await self._resolve(reader, entity))

    async def neighbours(self, entity: str) -> list[Neighbour]:
        """Return the entities that facts relate to an entity now, those with the most facts first.

        :raises QueryError: the memory does not mention it.
        """
        async with self._open() as reader:
            mains = await self._resolve(reader, entity)
            facts = [fact for fact in await self._about(reader, mains) if fact.holds]
            return _neighbours(facts, set((await reader.names(mains)).values()))

    async def _about(self, reader: Reader, mains: Iterable[str]) -> list[Fact]:
        """Return all statements about entities, each with what has ended it, the oldest first."""
        keys = {each for main in mains for each in reader.group(main)}
        facts = [fact for _, fact in await reader.judged(keys, self._functional, self._today)]
        return sorted(facts, key=lambda fact: (fact.date or date.min, fact.path, fact.start_line, str(fact)))

    async def conflicts(self) -> list[Conflict]:
        """Return the facts that hold now and exclude each other.

        These are two values of a functional predicate, and an edge that one passage asserts and another denies, where
        neither is known to be the newer one.
        """
        async with self._open() as reader:
            statements = await reader.contested(self._functional)
        return conflicts(statements, self._functional, self._today)

    async def suggest(self) -> list[Suggestion]:
        """Return pairs of names with facts that may be one entity, because they are written alike. Nothing is merged.

        To merge two: write the other name below ``aliases:`` in the front matter of the page.
        """
        async with self._open() as reader:
            names = await reader.names_in_statements()
            await reader.load_aliases(names)
            groups = {each: reader.main(each) for each in names}
        return suggestions(names, groups)

    # --- paths -----------------------------------------------------------------------------------------------------

    async def paths(self, question: str, **options: Any) -> list[Sequence[Step]]:
        """Return the paths across notes that answer a question, best first, as a search with the strategy finds them.

        :param options: the options of `Memory.search`.
        """
        results = await self._memory.search(question, strategy="graph", as_of=self._as_of, **options)
        return [result.chain for result in results if result.chain]

    async def path(self, start: str, end: str) -> list[Fact]:
        """Return the shortest chain of facts that leads from one entity to another, in whatever direction each goes.

        Without one, the chain may have steps without a predicate: passages that only name both, and neither deny nor
        suppose that they are related. It is empty if there is none of at most three steps either.

        :raises QueryError: the memory does not mention one of them.
        """
        async with self._open() as reader:
            starts, ends = await self._resolve(reader, start), await self._resolve(reader, end)
            return await self._walk(reader, starts, set(ends), loose=False) or await self._walk(
                reader, starts, set(ends), loose=True
            )

    async def _walk(self, reader: Reader, starts: Sequence[str], ends: set[str], *, loose: bool) -> list[Fact]:
        came_by: dict[str, tuple[str, Fact] | None] = dict.fromkeys(starts)
        frontier = set(starts) - ends
        for _ in range(_LONGEST_LOOSE_PATH if loose else _LONGEST_PATH):
            if not frontier:
                break
            keys = {each for main in frontier for each in reader.group(main)}
            edges = await reader.edges(keys, self._functional, self._today)
            if loose:
                judged = await reader.judged(keys, self._functional, self._today)
                refuted = {(fact.chunk, frozenset(each.edge[::2])) for each, fact in judged if not fact.holds}
                shared = await reader.shared_passages(keys)
                edges += [edge for edge in shared if (edge[2].chunk, frozenset(edge[:2])) not in refuted]
            following = set()
            for source, target, fact in sorted(edges, key=lambda edge: (edge[0], edge[1], not edge[2].predicate)):
                for one, other in ((source, target), (target, source)):
                    if one in frontier and other not in came_by:
                        came_by[other] = one, fact
                        following.add(other)
            if reached := sorted(ends & following):
                return _chain(came_by, reached[0])
            frontier = following
        return []

    async def network(self, entity: str | None = None, *, depth: int = 1) -> tuple[list[str], list[Fact]]:
        """Return the names and the facts that hold now: of everything, or of what is a few steps from an entity.

        Targets that are no entities are left out. Both lists are in the same order each time.

        :raises QueryError: the memory does not mention it.
        """
        async with self._open() as reader:
            facts: list[Fact] = []
            names: set[str] = set()
            if entity is None:
                facts = [fact for _, fact in await reader.judged(None, self._functional, self._today)]
            else:
                seen: set[str] = set()
                frontier = set(await self._resolve(reader, entity))
                names = set((await reader.names(frontier)).values())
                for _ in range(depth):
                    keys = {each for main in frontier for each in reader.group(main)}
                    edges = await reader.edges(keys, self._functional, self._today)
                    facts += [fact for _, _, fact in edges]
                    seen |= frontier
                    frontier = {end for source, target, _ in edges for end in (source, target)} - seen
        held = {fact for fact in facts if fact.holds and fact.is_entity}
        names |= {name for fact in held for name in (fact.source, fact.target)}
        order = sorted(held, key=lambda fact: (fact.source, fact.predicate, fact.target, fact.path, fact.start_line))
        return sorted(names), order


def _neighbours(facts: Iterable[Fact], own: set[str]) -> list[Neighbour]:
    found: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.is_entity:
            for name in {fact.source, fact.target} - own:
                found[name].append(fact)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0].casefold()))
    return [Neighbour(name, facts) for name, facts in ordered]


def _chain(came_by: Mapping[str, tuple[str, Fact] | None], end: str) -> list[Fact]:
    chain: list[Fact] = []
    while (step := came_by[end]) is not None:
        end, fact = step
        chain.insert(0, fact)
    return chain


def _day(value: date | str | None) -> date | None:
    if value is None or isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise QueryError(f"as_of must be a date such as 2026-11-29, not {value!r}.") from None


def _configured(memory: Memory) -> Sequence[str]:
    """Return the option ``functional`` of the strategy, where it is configured."""
    for choice in (memory.config.search.relation, memory.config.search.strategy):
        value = choice.get("functional") if isinstance(choice, dict) else getattr(choice, "functional", None)
        if value is not None:
            return tuple(value)
    return FUNCTIONAL
