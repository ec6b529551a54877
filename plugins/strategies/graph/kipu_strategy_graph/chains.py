"""Hits of paths: the passages of each as a chain, in words, and where they stand among other hits."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

import attrs

from kipu.types import Hit, Step

from .extraction import phrase
from .extraction.pages import page_title

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kipu.types import Index, Query, StoredChunk

    from .lookup import Lookup
    from .paths import Path

__all__ = ["MOST", "insert", "path_hits"]

PLACE, DISTANCE, MOST = 3, 2, 3
"""Paths are put at the fourth place, the sixth and the eighth: three at most."""

_LOOKED_AT = 8
"""How many paths are looked at for each that is shown: others may end in the same file."""

_WORD = re.compile(r"\w[\w'’-]*")
_LISTED = "(SELECT value FROM json_each(?))"


class _Relation(NamedTuple):
    source: str
    predicate: str
    target: str


class _Move(NamedTuple):
    """A step, and whether a path goes from its source to its target."""

    step: Step
    is_forward: bool


async def path_hits(lookup: Lookup, paths: Sequence[Path], limit: int) -> list[Hit]:
    """Return the last passage of each path as a hit, the best one for each file. No path leads through what is past."""
    if not paths:
        return []
    query, index = lookup.query, lookup.index
    shown: dict[int, Path] = {}
    paths = paths[: _LOOKED_AT * limit]
    chunks = await index.chunks({id for path in paths for id in path.chunks})
    files: set[str] = set()
    for path in paths:
        if not chunks.keys() >= {*path.chunks} or any(_is_past(chunks[id], query) for id in path.chunks[:-1]):
            continue
        end = chunks[path.chunks[-1]]
        if end.path not in files and len(shown) < limit:
            files.add(end.path)
            shown[end.id] = path
    relations, names = await _said(index, {id for path in shown.values() for id in path.chunks})
    same = await lookup.aliases({name for path in shown.values() for name in path.names})
    hits = []
    for id, path in shown.items():
        moves = _moves([chunks[each] for each in path.chunks], path.names, relations, names, same)
        score = min(1.0, path.score)
        hits.append(Hit(chunks[id], score, {"graph": score}, why=_why(moves), chain=[move.step for move in moves]))
    return hits


def insert(hits: Sequence[Hit], paths: Sequence[Hit]) -> list[Hit]:
    """Return hits with the ends of paths between them.

    The first three hits stay where they are. An end that is a hit further down is moved up; one that is a hit further
    up stays there, and tells its path if the first passage is before it. An end has a score between those of the hits
    before and after it.
    """
    merged = list(hits)
    place = PLACE
    for path in paths[:MOST]:
        known = next((number for number, hit in enumerate(merged) if hit.chunk.id == path.chunk.id), None)
        if known is not None and known <= place:
            if path.chain[0].chunk in {hit.chunk.chunk for hit in merged[:known]}:
                merged[known] = attrs.evolve(merged[known], why=path.why, chain=path.chain)
        else:
            scores = {**merged.pop(known).scores, **path.scores} if known is not None else path.scores
            at = min(place, len(merged))
            above = merged[at - 1].score if at else 1.0
            below = merged[at].score if at < len(merged) else above * path.score
            merged.insert(at, attrs.evolve(path, score=(above + below) / 2, scores=scores))
        place += DISTANCE
    return merged


def _is_past(chunk: StoredChunk, query: Query) -> bool:
    """Return whether an entry has expired or was superseded on the day of a query."""
    until = chunk.metadata.get("valid_until", "")
    day = (query.as_of or query.today or date.min).isoformat()
    if until and until < day:
        return True
    return bool(chunk.metadata.get("superseded_by")) and not (query.as_of and day < until)


def _moves(
    chunks: Sequence[StoredChunk],
    phrases: Sequence[str],
    relations: Mapping[int, Sequence[_Relation]],
    names: Mapping[int, Mapping[str, str]],
    same: Mapping[str, Mapping[str, str]],
) -> list[_Move]:
    """Return a step for each passage, with the relation that it states, or with the two names that it has.

    A relation is shown as it is stated: with its own ends, which may be longer than the names that they have.
    """
    moves: list[_Move] = []
    for number, chunk in enumerate(chunks):
        own, said = names.get(chunk.id, {}), relations.get(chunk.id, ())
        one, other = phrases[number], phrases[number + 1] if number + 1 < len(phrases) else ""
        is_alias = other != one and other in same.get(one, ())
        starts, ends = {one: "", **same.get(one, {})}, {other: "", **same.get(other, {})}
        fits = [
            (_fit(start, starts) * _fit(end, ends), is_forward, each)
            for each in (() if is_alias else said)
            for start, end, is_forward in ((each.source, each.target, True), (each.target, each.source, False))
        ]
        best, is_forward, relation = max(fits, key=lambda fit: fit[:2], default=(0, True, _Relation("", "", "")))
        if not best:
            is_forward, start = True, _written(chunk, own, {one: starts[one]} if is_alias else starts)
            if other:
                end = _written(chunk, own, {other: ends[other]} if is_alias else ends)
            else:
                others = (name for folded, name in own.items() if not _fit(folded, starts) and not _fit(one, (folded,)))
                end = next(others, "")
            relation = _Relation(start, "", end)
        moves.append(_Move(Step(*relation, chunk.path, chunk.start_line, chunk.end_line, chunk.chunk), is_forward))
    return moves


def _why(moves: Sequence[_Move]) -> str:
    """Return a path in a line: "Ravi -uses-> FastAPI -runs on-> Uvicorn", "Ravi - FastAPI" without relations."""
    line = at = ""
    for step, is_forward in moves:
        start, end = (step.source, step.target) if is_forward else (step.target, step.source)
        if not line:
            line = start
        elif phrase(start) != phrase(at):
            line += f" - {start}"
        if not end:
            break
        arrow = "-" if not step.predicate else f"-{step.predicate}->" if is_forward else f"<-{step.predicate}-"
        line += f" {arrow} {end}"
        at = end
    return line


def _fit(name: str, phrases: Iterable[str]) -> int:
    """Return how well a name is what phrases stand for: 2 if it is one of them, 1 if it has its words, 0 if not."""
    folded = " ".join(phrase(name))
    return max(2 if folded == part or not part else int(f" {part} " in f" {folded} ") for part in phrases)


def _written(chunk: StoredChunk, own: Mapping[str, str], names: Mapping[str, str]) -> str:
    """Return the first of some names that a chunk has, as it writes it, or else the first as it is given."""
    for name in names:
        if found := own.get(name) or _find(chunk, name):
            return found
    return next((written or name for name, written in names.items()), "")


def _find(chunk: StoredChunk, name: str) -> str:
    """Return a phrase as a chunk writes it, or an empty text."""
    wanted = tuple(name.split())
    for text in (chunk.text, chunk.heading, page_title(chunk.path)):
        if not name.isascii() and (joined := name.replace(" ", "")) in text:  # in a script without spaces
            return joined
        words = [(found[0], phrase(found[0])) for found in _WORD.finditer(text)]
        for start in range(len(words)):
            folded: tuple[str, ...] = ()
            for end in range(start, min(len(words), start + len(wanted))):
                folded += words[end][1]
                if folded == wanted:
                    return " ".join(word for word, _ in words[start : end + 1])
    return ""


async def _said(index: Index, ids: Iterable[int]) -> tuple[dict[int, list[_Relation]], dict[int, dict[str, str]]]:
    """Return by chunk the relations that it states, and its names as it writes them, by their phrases."""
    listed = json.dumps(sorted(ids))
    relations: dict[int, list[_Relation]] = defaultdict(list)
    for id, *parts in await index.connection.execute_fetchall(
        "SELECT chunk_id, source_text, predicate, target_text FROM graph_relations "
        f"WHERE chunk_id IN {_LISTED} AND polarity > 0 AND modality = '' ORDER BY chunk_id, number",
        (listed,),
    ):
        relations[id].append(_Relation(*parts))
    names: dict[int, dict[str, str]] = defaultdict(dict)
    for id, folded, name in await index.connection.execute_fetchall(
        f"SELECT chunk_id, phrase, name FROM graph_mentions WHERE chunk_id IN {_LISTED} "
        "ORDER BY chunk_id, start < 0, start, name",
        (listed,),
    ):
        names[id].setdefault(folded, name)
    return relations, names
