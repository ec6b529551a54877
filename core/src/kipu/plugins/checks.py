"""What the answers of components must be: each function returns an answer as the kernel uses it, or raises."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from numbers import Real
from typing import Any

from ..types import Chunk, Distillation, Document, Filtered, Hit, Step, StoredChunk

_ROUNDING = 1e-9
_MOST_TOKENS = 10**12  # a number of thousands of digits could not be read from a file again

is_abandoned: ContextVar[Callable[[], bool]] = ContextVar("is_abandoned", default=bool)
"""Returns whether nothing waits any more for the call whose answer is read."""


def items(answer: Iterable[Any], most: int = 1_000_000) -> Iterator[Any]:
    """Yield what an iterable has, which may be a generator that never ends."""
    for count, item in enumerate(answer):
        if count == most or is_abandoned.get()():
            raise ValueError(f"it returned more than {most:,} items")
        yield item


def _exact(value: Any) -> Any:
    """Return a text or a number as one of the builtin class: a derived class may do anything later."""
    if isinstance(value, (str, float)):
        return str.__str__(value) if isinstance(value, str) else float.__float__(value)
    return float(value) if isinstance(value, Real) else value


def text(answer: Any) -> str:
    """Return a text that can be written."""
    if type(answer) is not str:
        raise TypeError(f"it returned {answer!r}, and must return a text")
    return answer.encode("utf-8", "replace").decode("utf-8")


def chunks(answer: Any, document: Document) -> list[Chunk]:
    """Return the chunks of a document."""
    lines = document.text.count("\n") + 1
    returned = list(items(answer, len(document.text) + lines))
    checked: set[int] = set()  # the chunks of one entry share its metadata, which is looked at once
    for chunk in returned:
        if type(chunk) is not Chunk or type(chunk.metadata) is not dict:
            raise TypeError(f"it returned {chunk!r}, which is no Chunk with a dictionary of metadata")
        metadata = chunk.metadata.items() if id(chunk.metadata) not in checked else ()
        checked.add(id(chunk.metadata))
        texts = (chunk.text, chunk.heading, chunk.context, *(part for pair in metadata for part in pair))
        numbers = (chunk.start_line, chunk.end_line, chunk.heading_level)
        if not all(type(text) is str for text in texts) or not all(type(number) is int for number in numbers):
            raise TypeError(f"text, heading, context and metadata of a chunk are texts, lines are numbers: {chunk}")
        if not 1 <= chunk.start_line <= chunk.end_line <= lines or not 0 <= chunk.heading_level < 1000:
            raise ValueError(f"a chunk has lines {chunk.start_line} to {chunk.end_line}, and the file has 1 to {lines}")
        "".join(texts).encode("utf-8")
    return returned


def matrix(answer: Any, count: int) -> Any:
    """Return a matrix with a row for each of ``count`` texts, float32."""
    import numpy as np

    with np.errstate(over="ignore"):  # what is too large for float32 becomes infinite, which is refused by name later
        rows = np.asarray(answer, dtype=np.float32)
    if rows.ndim != 2 or len(rows) != count:
        returned = f"{len(rows)} vectors" if rows.ndim == 2 else f"an array of the shape {rows.shape}"
        raise ValueError(f"it returned {returned} for {count} texts")
    if not rows.shape[1]:
        raise ValueError("it returned vectors of dimension 0")
    return rows


def annotated(answer: Any, count: int) -> list[str]:
    """Return a text for each of ``count`` texts."""
    returned = [_exact(annotation) for annotation in answer] if isinstance(answer, (list, tuple)) else []
    if len(returned) != count or not all(type(annotation) is str for annotation in returned):
        raise TypeError(f"it must return a list of {count} texts, one for each that it was given")
    return returned


def share(answer: Any) -> float | None:
    """Return a share from 0 to 1, or None."""
    if answer is not None and not (isinstance(answer, Real) and 0.0 <= float(answer) <= 1.0):
        raise ValueError(f"it returned {answer!r}; a share is between 0 and 1")
    return None if answer is None else float(answer)


def hits(answer: Any) -> list[Hit]:
    """Return hits, each chunk once."""
    if not isinstance(answer, Iterable):
        raise TypeError(f"it returned {answer!r}, and must return a list of hits")
    by_chunk: dict[int, Hit] = {}
    for hit in items(answer):
        if not isinstance(hit, Hit) or type(hit.chunk) is not StoredChunk or not 0 <= hit.chunk.id < 2**63:
            raise TypeError(f"it returned {hit!r}, which is no Hit with a chunk from Index.chunks()")
        scores = {_exact(name): _exact(score) for name, score in dict(hit.scores).items()}
        score, outdated, why = map(_exact, (hit.score, hit.outdated, hit.why))
        if {type(score), *map(type, scores.values())} - {float}:
            raise TypeError(f"the score of a hit, and those by strategy, are numbers, unlike {score!r} and {scores!r}")
        if not type(outdated) is type(why) is str:
            raise TypeError(f"outdated and why of a hit are texts, unlike {outdated!r} and {why!r}")
        chain = tuple(items(hit.chain, 100))
        if not all(type(step) is Step and str(step.chunk).isascii() for step in chain):
            raise TypeError(f"the chain of a hit is made of steps, unlike {chain!r}")
        if not 0 <= score <= 1:
            raise ValueError(f"it gave {hit.chunk.path} the score {score}; scores are between 0 and 1")
        by_chunk.setdefault(hit.chunk.id, Hit(hit.chunk, score, scores, hit.vector, outdated, why, chain))
    return list(by_chunk.values())


def ordered_hits(answer: Any, limit: int) -> list[Hit]:
    """Return at most ``limit`` hits, each chunk once, if the best come first."""
    found = hits(answer)
    for better, worse in itertools.pairwise(found):
        if worse.score > better.score + _ROUNDING:
            raise ValueError(f"a hit with the score {worse.score} after one with {better.score}; the best come first")
    return found[:limit]


def scores(answer: Any, asked: set[Any]) -> dict[Any, float]:
    """Return scores in [0, 1] by what was asked for."""
    if not isinstance(answer, Mapping):
        raise TypeError(f"it returned {answer!r}, and must return a dictionary of scores")
    for key, score in items(answer.items()):
        if key not in asked:
            raise ValueError(f"it scored {key!r}, which it was not asked for")
        if not isinstance(score, Real) or not 0 <= float(score) <= 1:
            raise ValueError(f"it gave {key!r} the score {score!r}; scores are between 0 and 1")
    return {key: float(answer[key]) for key in asked if key in answer}


def distillation(answer: Any) -> Distillation:
    """Return a distillation."""
    if not isinstance(answer, Distillation):
        raise TypeError(f"it returned {type(answer).__name__}, and must return a Distillation")
    text: Any = _exact(answer.text)  # a plugin may put anything there
    if not isinstance(text, str) or type(answer.complete) is not bool:
        raise TypeError("the text of its Distillation must be a text, and complete True or False")
    if type(answer.tokens) is not int or not 0 <= answer.tokens <= _MOST_TOKENS:
        raise ValueError("the tokens of its Distillation must be a whole number of at least 0")
    return Distillation(text, answer.complete, answer.tokens)


def filtered(answer: Any) -> Filtered:
    """Return a filtered text."""
    text: Any = _exact(getattr(answer, "text", None))  # a plugin may put anything there
    if not isinstance(answer, Filtered) or not isinstance(text, str) or not text.strip():
        raise TypeError("it must return Filtered with a text that is not empty")
    if "\0" in text:
        raise ValueError("it returned a NUL character")
    return Filtered(text, [_exact(str(notice)) for notice in items(answer.notices)], bool(answer.secret))
