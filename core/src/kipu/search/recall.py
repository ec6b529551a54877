"""Render search results as one text for the prompt of a model: as much evidence as fits, quoted as data."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import QueryError
from ..index.queries import load_chunks, passing_ids
from ..index.recovery import recovering
from ..plugins.kinds import FALLBACK_STRATEGY
from ..sqlite import in_batches
from ..types import Place, Recall
from .duplicates import identity_of, list_places
from .query import make_query
from .quotation import CLOSING, OPENING, frame, without_tags
from .snippets import best_part, cut
from .tokens import LONGEST_TOKEN, count_tokens
from .validity import is_outdatable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    import aiosqlite

    from ..index.database import Database
    from ..types import Query, SearchResult, SearchResults, StoredChunk
    from .service import SearchService

# If even the best result scores no more, nothing is recalled. To a model, any two texts are a little alike, which words
# are not; benchmarks/unanswerable.py measures what each costs.
_FLOOR = 0.265
_FLOOR_BY_WORDS = 0.15
# One more result for so many tokens of the budget: enough that what fits is chosen from more than fits.
_TOKENS_PER_RESULT = 15
_MOST_RESULTS = 400
# So many results come first, then their surroundings, then further results.
_FIRST_RESULTS = 12
# So many chunks are read at a time, and so many in a row that do not fit show that the budget is full.
_MOST_MISSES = 100
# The fewest characters of a result that are worth a label.
_FEWEST_CHARACTERS = 40

_Position = tuple[int, int]  # of a chunk: the id of its file, and its place among the chunks of that file


def _results_for(max_tokens: int) -> int:
    """Return how many results to search for.

    :raises QueryError: the budget is no whole number of at least 1.
    """
    if type(max_tokens) is not int or max_tokens < 1:
        raise QueryError(f"max_tokens must be a whole number of at least 1, not {max_tokens!r}.")
    return max(20, min(_MOST_RESULTS, max_tokens // _TOKENS_PER_RESULT))


@recovering
async def recall(
    service: SearchService,
    search: Callable[..., Awaitable[SearchResults]],
    query: str,
    max_tokens: int,
    options: Mapping[str, Any],
    floor: float | None = None,
) -> Recall:
    """Search, and render the results. See `kipu.Memory.recall`.

    :param search: searches as `kipu.Memory.search` does.
    :param floor: the score above which the best result is recalled, None for that of the strategy.
    """
    results = await search(query, max_results=_results_for(max_tokens), **options)
    best = max((result.score for result in results), default=0.0)
    by_words = all(name.partition(".")[0] == FALLBACK_STRATEGY for result in results for name in result.scores)
    if floor is None:
        floor = _FLOOR_BY_WORDS if by_words else _FLOOR
    if results and best <= floor and options.get("min_score") is None:
        results.clear()
        results.notices.append(
            f"Nothing is recalled: the best result has a score of {best:.2f}, and {floor} is too low. "
            "To recall it anyway, set the lowest score to 0 (--min-score 0)."
        )
    given = {name: options[name] for name in ("tag", "where", "as_of") if name in options}
    given["sources"] = service.context.scope.sources
    return await _render(service.database, results, make_query(query, max_results=1, **given), max_tokens)


async def _render(database: Database, results: SearchResults, query: Query, max_tokens: int) -> Recall:
    """Fill a budget with the results, in their order, and with those of their surroundings that pass the filters."""
    prompt, misses = _Prompt(results, query, max_tokens), 0
    async with database.reader() as connection:
        names = dict.fromkeys(name for each in results for name in (*(step.chunk for step in each.chain), each.chunk))
        order = await _order(connection, [*names], max_tokens)
        passing = await passing_ids(connection, query, {id for id, *_ in order}, archived=False)
        wanted = [chunk for chunk in order if chunk[0] in passing]
        for start in range(0, len(wanted), _MOST_MISSES):
            chunks = await load_chunks(connection, [id for id, *_ in wanted[start : start + _MOST_MISSES]])
            for id, file, place in wanted[start : start + _MOST_MISSES]:
                misses = 0 if prompt.add((file, place), chunks[id]) else misses + 1
            if misses >= _MOST_MISSES:
                break
    text = prompt.text()
    while (tokens := count_tokens(text)) > max_tokens:  # what is beside each other may count more than each by itself
        prompt.drop_last()
        text = prompt.text()
    used = prompt.used(results)
    if results and not text:
        best_place = Place(results[0].path, results[0].start_line, results[0].end_line)
        used.notices.append(
            f"{best_place}, the best that was found, does not fit into {max_tokens:,} tokens: allow more."
        )
    elif prompt.cut_place:
        used.notices.append(f"{prompt.cut_place} is a part of the best that was found, cut to {max_tokens:,} tokens.")
    return Recall(text, used, tokens)


async def _order(connection: aiosqlite.Connection, names: Sequence[str], max_tokens: int) -> list[tuple[int, int, int]]:
    """Return chunks (id, file, place in it) in the order in which they are worth their tokens; some are there twice.

    These are the first results, what is beside them in their section, the other results, and all of their sections.
    """
    near: dict[tuple[str, int], tuple[int, int, int]] = {}  # by the name of a result, and the distance to it
    titles: dict[str, str] = {}
    for marks, batch in in_batches(names):
        for name, distance, titles[name], *chunk in await connection.execute_fetchall(
            "SELECT found.chunk, near.position - found.position, near.heading, near.id, near.file_id, near.position "
            "FROM chunks AS found CROSS JOIN chunks AS near ON near.file_id = found.file_id AND near.position "
            "BETWEEN found.position - 2 AND found.position + 2 AND near.heading = found.heading "
            f"WHERE found.chunk IN ({marks})",
            batch,
        ):
            near[name, distance] = tuple(chunk)
    first, rest = names[:_FIRST_RESULTS], names[_FIRST_RESULTS:]
    keys = [(name, distance) for pair in ((0,), (1, -1), (2, -2)) for name in first for distance in pair]
    wanted = [near[key] for key in (*keys, *((name, 0) for name in rest)) if key in near]
    sections = dict.fromkeys((near[name, 0][1], titles[name]) for name in names if name in titles)
    if not sections:
        return wanted
    values = ", ".join(f"({number}, ?, ?)" for number in range(len(sections)))
    further = await connection.execute_fetchall(
        f"WITH sections(number, file, title) AS (VALUES {values}) SELECT chunks.id, file_id, position "
        "FROM sections CROSS JOIN chunks ON file_id = file AND heading = title ORDER BY number, position LIMIT ?",
        (*itertools.chain(*sections), min(max_tokens, 1_000_000)),  # no chunk costs less than a token
    )
    return [*wanted, *((row[0], row[1], row[2]) for row in further)]


class _Prompt:
    """The chunks chosen so far, and the tokens that are left. Adjacent chunks make a block."""

    def __init__(self, results: Sequence[SearchResult], query: Query, max_tokens: int) -> None:
        # What the label of a result says: those of adjacent chunks with the same label are one block.
        self._labels = {
            result.chunk: {
                "outdated": result.outdated,
                "also": list_places(result.also_in),
                "path": result.why if result.chain else "",
            }
            for result in results
        }
        self._chains = [[step.chunk for step in result.chain] for result in results if result.chain]
        self._query = query.text
        self._is_past = query.as_of is not None  # then what has an id may supersede what was valid
        self._chosen: dict[_Position, StoredChunk] = {}
        self._ends: dict[_Position, int] = {}  # for the first and the last chunk of a block, the place of the other
        self._said: set[object] = set()
        self._left = max_tokens - count_tokens(OPENING + CLOSING)
        self.cut_place: Place | None = None

    def add(self, position: _Position, chunk: StoredChunk) -> bool:
        """Add a chunk if all of it fits; the first one is cut. Return whether it, or its like, is in."""
        if position in self._chosen:
            return True
        label = self._labels.get(chunk.chunk)
        # What the search did not judge has no label; what surrounds a result is nothing without it.
        is_uncertain = is_outdatable(chunk) or (self._is_past and "id" in chunk.metadata)
        if label is None and (is_uncertain or not self._chosen):
            return False
        if len(chunk.text) > LONGEST_TOKEN * max(self._left, 0) or (cost := self._cost(position, chunk)) > self._left:
            if label and label["also"]:  # where else it says so is worth less than what it says
                label["also"] = ""
                return self.add(position, chunk)
            return not self._chosen and self._add_cut(position, chunk)
        identity = identity_of(chunk)
        if label is None and identity in self._said:
            return True
        file, place = position
        start = self._ends[file, place - 1] if self._adjacent(chunk, file, place - 1) else place
        end = self._ends[file, place + 1] if self._adjacent(chunk, file, place + 1) else place
        self._left -= cost
        self._said.add(identity)
        self._chosen[position] = chunk
        self._ends[file, start], self._ends[file, end] = end, start
        return True

    def _cost(self, position: _Position, chunk: StoredChunk) -> int:
        """Return what a chunk adds to the tokens of the text."""
        file, place = position
        first, last = chunk, chunk
        cost = _price(chunk.text)
        if before := self._adjacent(chunk, file, place - 1):
            first = self._chosen[file, self._ends[file, place - 1]]
            cost = _price(_continuation(before, chunk)) - self._frame_price(first, before)
        if after := self._adjacent(chunk, file, place + 1):
            last = self._chosen[file, self._ends[file, place + 1]]
            cost += _price(_continuation(chunk, after)) - _price(after.text) - self._frame_price(after, last)
        return cost + self._frame_price(first, last)

    def _add_cut(self, position: _Position, chunk: StoredChunk) -> bool:
        """Add the part of a chunk around what the query matched, as much as fits."""
        length = min(len(chunk.text), 5 * self._left)
        while length >= min(len(chunk.text), _FEWEST_CHARACTERS):
            start, end = best_part(chunk.text, self._query, length)
            first = min(chunk.end_line, chunk.start_line + chunk.text.count("\n", 0, start))
            last = min(chunk.end_line, first + chunk.text.count("\n", start, end))
            part = attrs.evolve(chunk, text=cut(chunk.text, start, end), start_line=first, end_line=last)
            if self._cost(position, part) <= self._left:
                self._chosen[position], self._left = part, 0
                self.cut_place = Place(part.path, first, last) if part.text != chunk.text else None
                return True
            length = length * 9 // 10
        if chunk.heading:
            return self._add_cut(position, attrs.evolve(chunk, heading=""))
        self._left = 0  # what is worth less is not quoted instead
        return False

    def drop_last(self) -> None:
        """Take out the chunk that was added last."""
        self._chosen.popitem()

    def used(self, results: SearchResults) -> SearchResults:
        """Return the results that are in it."""
        chosen = {chunk.chunk for chunk in self._chosen.values()}
        used = copy.copy(results)
        used[:] = [result for result in results if result.chunk in chosen]
        return used

    def text(self) -> str:
        """Return all of it; nothing if nothing fits. What is outdated is at the end, behind what supersedes it."""
        files = self._files()
        blocks: list[list[StoredChunk]] = []
        for file, place in sorted(self._chosen, key=lambda position: (files[position[0]], *position)):
            chunk = self._chosen[file, place]
            if not self._adjacent(chunk, file, place - 1):
                blocks.append([])
            blocks[-1].append(chunk)
        ranks = {name: rank for rank, (name, label) in enumerate(self._labels.items(), 1) if label["outdated"]}
        blocks.sort(key=lambda block: min(ranks.get(chunk.chunk, 0) for chunk in block))
        return "".join([OPENING, *map(self._block, blocks), CLOSING]) if blocks else ""

    def _files(self) -> dict[int, float]:
        """Return what orders the files: the best chunk of each, and the passages of a path right behind its first."""
        files: dict[int, float] = {}
        for file, _ in self._chosen:
            files.setdefault(file, len(files))
        file_of = {chunk.chunk: file for (file, _), chunk in self._chosen.items()}
        for first, second in itertools.chain.from_iterable(map(itertools.pairwise, self._chains)):
            if first in file_of and second in file_of:
                place = files[file_of[first]]
                files[file_of[second]] = min(files[file_of[second]], place + (1 - place % 1) / 2)
        return files

    def _adjacent(self, chunk: StoredChunk, file: int, place: int) -> StoredChunk | None:
        """Return the chosen chunk at a place, if a chunk beside it belongs into its block."""
        other = self._chosen.get((file, place))
        return other if other and self._label(other) == self._label(chunk) else None

    def _label(self, chunk: StoredChunk) -> dict[str, str]:
        return self._labels.get(chunk.chunk, {"outdated": "", "also": "", "path": ""})

    def _block(self, chunks: Sequence[StoredChunk]) -> str:
        texts = [chunks[0].text, *(_continuation(before, chunk) for before, chunk in itertools.pairwise(chunks))]
        return without_tags("".join(texts)).join(self._frame(chunks[0], chunks[-1]))

    def _frame(self, first: StoredChunk, last: StoredChunk) -> tuple[str, str]:
        """Return the lines around a block."""
        # The path of a dated file has its date, and the first chunk of a section its heading.
        heading = "" if first.heading.rpartition(" > ")[2] in first.text.split("\n")[0] else first.heading
        source = str(Place(first.path, first.start_line, last.end_line))
        return frame(source=source, heading=heading, **self._label(first))

    def _frame_price(self, first: StoredChunk, last: StoredChunk) -> int:
        return count_tokens("".join(self._frame(first, last)))


def _price(text: str) -> int:
    """Return the tokens of a text whose signs are escaped: which ones are depends on the next chunk."""
    return count_tokens(without_tags(text))


def _continuation(before: StoredChunk, chunk: StoredChunk) -> str:
    """Return what a chunk adds to the text of the one before it: their common lines are there once."""
    common = before.end_line - chunk.start_line + 1
    lines = chunk.text.split("\n")
    if common > 0 and before.text.split("\n")[-common:] == lines[:common]:
        return "".join(f"\n{line}" for line in lines[common:])
    if common > 0:  # a line that was cut
        return f" {chunk.text}"
    return "\n" * (1 - common) + chunk.text
