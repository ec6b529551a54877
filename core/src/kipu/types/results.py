"""What a search goes through and returns.

A `Query` makes a strategy return `Hit` objects, post-processors change them, and the caller gets `SearchResults`. All
of it is public in `kipu.types`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

import attrs

from .documents import StoredChunk
from .memories import Place

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

__all__ = [
    "Explanation",
    "Hit",
    "Query",
    "QueryEmbedding",
    "Recall",
    "SearchResult",
    "SearchResults",
    "StageChange",
    "Step",
    "StrategyScore",
    "VectorSpace",
]


@attrs.frozen
class VectorSpace:
    """The vectors of one embedder, which can be compared with each other and with no others.

    ``id`` is a small number of the index's own, never used twice, and may be a part of the name of a table.
    ``identity`` is that of the embedder, and ``dimension`` the length of each vector.
    """

    id: int
    identity: str
    dimension: int


@attrs.frozen(eq=False)
class QueryEmbedding:
    """What a query means, and how far its embedder knows its language.

    ``vector`` has the shape ``(dimension,)``, is float32 and of length 1. ``unknown_share`` is the part of the query,
    from 0 to 1, that the embedder does not know: because it says so, or because of the script.
    """

    space: VectorSpace
    vector: Vectors
    unknown_share: float = 0.0

    @property
    def confidence(self) -> float:
        """What a cosine with it is worth, from 0.2 to 1: to a model, texts that it does not know are all alike."""
        return 1.0 - 0.8 * self.unknown_share


@attrs.frozen
class Query:
    """A search as the plugins see it.

    A strategy returns at most ``limit`` hits, more than the ``max_results`` that the caller will get, so that
    post-processors have something to choose from. The filters are turned into SQL by `Index.where`: ``sources`` are the
    labels to search, all if there are none; ``since`` and ``until`` are both included, and leave files without a date
    out; ``path`` is a pattern in the syntax of ``.gitignore``; ``tags`` and ``where``, pairs of a key and a value, must
    all match. ``as_of`` is the day whose beliefs are asked for: what was written later is left out. ``today`` is the
    day of the search in the time zone of the workspace. ``embedding`` is there where a strategy needs vectors, or uses
    one that does, and the query could be embedded.
    """

    text: str
    max_results: int = 6
    limit: int = 60
    sources: Sequence[str] = ()
    since: date | None = None
    until: date | None = None
    as_of: date | None = None
    today: date | None = None
    tags: Sequence[str] = ()
    path: str | None = None
    where: Sequence[tuple[str, str]] = ()
    embedding: QueryEmbedding | None = None


@attrs.frozen
class Step:
    """One passage on the path that leads to a hit: ``source -predicate-> target``, and where that is said.

    ``predicate`` is empty where the passage only names both, ``target`` where the path ends; ``chunk`` is the name of
    its chunk.
    """

    source: str
    predicate: str
    target: str
    path: str
    start_line: int
    end_line: int
    chunk: str


@attrs.frozen
class Hit:
    """A chunk on its way to becoming a result: its score in [0, 1], and the scores of the strategies behind it.

    ``vector`` is the chunk's, float32 and of length 1: present for a post-processor that needs vectors, if the chunk
    has one. It is neither compared by ``==`` nor shown. ``outdated`` says why the chunk is no longer valid, and is
    empty for any other. ``why`` is a sentence of the strategy on why it found the chunk, shown by ``--explain``.
    ``chain`` are the passages that lead from the question to a chunk that does not answer it alone, itself the last.
    """

    chunk: StoredChunk
    score: float
    scores: Mapping[str, float] = attrs.field(factory=dict)
    vector: Vectors | None = attrs.field(default=None, eq=False, repr=False)
    outdated: str = ""
    why: str = ""
    chain: Sequence[Step] = ()


@attrs.frozen
class StrategyScore:
    """How one arm saw a hit: its rank among the hits, from 1, and its score in [0, 1].

    Those with equal scores share the best of their ranks; what the arm gave 0 has none.
    """

    rank: int | None
    score: float


@attrs.frozen
class StageChange:
    """What a post-processor did to a hit: its rank, from 1, and its score, before and after."""

    stage: str
    rank_before: int
    rank_after: int
    score_before: float
    score_after: float


@attrs.frozen
class Explanation:
    """Why a result stands where it stands: what each arm of the strategy gave it, and what each stage changed."""

    arms: Mapping[str, StrategyScore]
    stages: Sequence[StageChange]


@attrs.frozen
class SearchResult:
    """One answer: which lines of which file, how well they fit, and what they say.

    ``snippet`` is the part of ``text`` where the query matched; ``scores`` are the scores by arm; ``chunk`` names the
    chunk and stays the same while its text and its file stay. ``id`` is that of the entry that these lines are of, None
    for prose: `Memory.edit` keeps it. ``metadata`` is what the entry says of itself, and
    ``outdated`` a sentence about what is not believed any more: until when it was, and what took its place; it is empty
    for all else. ``also_in`` are the other places that say the same. ``chain`` are the passages that lead to a result
    which does not answer the query alone, and ``why`` is them in a line. ``explanation`` is there where it was asked
    for.
    """

    path: str
    start_line: int
    end_line: int
    score: float
    scores: Mapping[str, float]
    snippet: str
    text: str
    source: str
    heading: str
    heading_level: int
    chunk: str
    id: str | None = None
    metadata: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    outdated: str = ""
    also_in: Sequence[Place] = ()
    why: str = ""
    chain: Sequence[Step] = ()
    explanation: Explanation | None = None


class SearchResults(list[SearchResult]):
    """The results of a search, best first, and what the caller should know about them.

    ``stale`` is true when files changed that the search could not take into account, and ``pending`` names them.
    ``degraded`` is true when the search had to go on with less than what was configured, as when the query
    could not be embedded. ``pending_vectors`` is how many chunks could be found by keywords only, because they are not
    embedded yet. ``notices`` says why, in sentences for people. All are empty, 0 or false when all is well. ``absence``
    is a sentence that says why the file of ``search(..., explain_path=...)`` is not among the results.
    """

    def __init__(
        self,
        results: Iterable[SearchResult] = (),
        *,
        pending: Sequence[str] = (),
        degraded: bool = False,
        notices: Sequence[str] = (),
        stale: bool | None = None,
        pending_vectors: int = 0,
        absence: str | None = None,
    ) -> None:
        super().__init__(results)
        self.pending = list(pending)
        self.degraded = degraded
        self.notices = list(notices)
        self.stale = bool(self.pending) if stale is None else stale
        self.pending_vectors = pending_vectors
        self.absence = absence


@attrs.frozen
class Recall:
    """What a memory knows about a question, for the prompt of a model; false where it knows nothing.

    ``text`` quotes memories as data, each with where it stands; the name of a dated file is its date. ``results`` are
    the results that are in it, best first. ``tokens`` is how many tokens the text has at most in o200k, the vocabulary
    of current OpenAI models; other models may count more.
    """

    text: str
    results: SearchResults
    tokens: int

    def __bool__(self) -> bool:
        return bool(self.text)

    def __str__(self) -> str:
        return self.text
