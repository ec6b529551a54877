"""From candidates to a ranking, and to scores that mean something.

The relevance of a chunk is its BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond",
2009, with k1 = 1.2 and b = 0.75) over the weighted fields of the chunk, as in BM25F, plus a share of the BM25 of its
file, where a file's text is that of its candidates. Both use the smoothed idf ``log(1 + (n - df + 0.5) / (df + 0.5))``,
which is positive even in a corpus of one chunk. A chunk that has no term itself, but only stands beside one that has,
is worth half of that.

The score of the most relevant chunk is its *coverage*: the share of the query's terms that it has, weighted by idf, so
that it is 1 if it has them all and almost 0 if it has one that is everywhere. The others' scores are in
proportion to their relevance. If some terms are required, every required term that a chunk has outweighs all
the rest: with *m* of them, the score is ``(required terms that it has + the score above) / (m + 1)``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from .tokens import FORM_MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from .terms import Term

__all__ = ["Candidate", "Corpus", "Frequency", "Weights", "cover", "has_any", "rank"]

K1 = 1.2
B = 0.75
LONGEST = 2.5
"""How many times the mean length a file has at most whose path has a word of the query: it is about that, all of it.

For other files such a limit costs first places where pages are long.
"""
AROUND = 0.5
"""The worth of a chunk that has no word of the query itself, but is beside one that has."""


OTHER_FORM = 0.3
"""The worth of a word with other accents than in the query, if a chunk has it with these: resume for résumé.

From 0.3 to 0.9, what we measure does not differ.
"""

PRIOR_CHUNKS = 30
"""How many more chunks and files, without a word of the query, there are to a coverage.

Without them, a word that both of two notes have is as common as "the", and worth a tenth of an unknown one.
"""

GRAMMATICAL = 0.1
"""What a word that only the grammar of the query needs is worth to a coverage, other words being 1."""


class Weights(NamedTuple):
    """The weight of an occurrence in each field, one in the text being 1, and the share of the file's BM25."""

    heading: float
    context: float
    path: float
    file: float


class Corpus(NamedTuple):
    """How many chunks and files are indexed, and the length in tokens of all their fields, and of the texts alone."""

    chunks: int
    files: int
    length: int
    text_length: int


class Frequency(NamedTuple):
    """How frequent a term is.

    A path is kept with every chunk of its file, but says a word only once: ``chunks`` have the term elsewhere, and
    ``named`` files in their path. ``files`` and ``rows`` are all files and chunks that have it.
    """

    chunks: int
    files: int
    named: int
    rows: int


class Candidate(NamedTuple):
    """A chunk that may be returned. The fields are tokens, each with a space before and after it."""

    id: int
    file: int
    file_length: int
    path: str
    heading: str
    context: str
    text: str
    identifiers: str

    @property
    def length(self) -> int:
        """The number of tokens in the fields but for identifiers and forms, which are there a second time."""
        fields = (self.path, self.heading, self.context, self.text)
        return sum(field.count(" ") - 1 for field in fields) - self.context.count(FORM_MARK)

    @property
    def whole(self) -> str:
        """All fields as one text, for a quick look whether any of them has a term."""
        return f"{self.text}{self.context}{self.heading}{self.identifiers}{self.path}"


class _Match(NamedTuple):
    """A term of the query in a chunk.

    ``weighted`` is how often it occurs, ``by_chunk`` and ``by_path`` how often the chunk and the path add it to the
    file; ``own`` if more than the context has it; ``covered`` is the share of it that counts as found; ``other`` if the
    chunk has it with other accents only.
    """

    number: int
    weighted: float
    by_chunk: int
    by_path: int
    own: bool
    covered: float
    other: bool


class _Found(NamedTuple):
    """The terms of a query in a chunk."""

    candidate: Candidate
    terms: list[_Match]


class _Needle(NamedTuple):
    """What shows a term in a text of tokens, and what the term counts where only the path has it.

    ``forms`` shows that folding made the term of another word, ``form`` that it is the word of the query.
    """

    text: str
    in_path: float
    forms: str
    form: str


def rank(
    candidates: Sequence[Candidate],
    frequencies: Mapping[Term, Frequency],
    required: Sequence[Term],
    corpus: Corpus,
    weights: Weights,
    others: Sequence[Candidate] = (),
    grammatical: Collection[Term] = (),
) -> list[tuple[int, float]]:
    """Return the ids of the candidates with their scores in [0, 1], best first.

    ``frequencies`` has every term of the query, including those that are nowhere. ``others`` are ranked with the
    candidates, on their scale, which they do not change. ``grammatical`` terms count fully for the order, and
    little for the coverage.
    """
    chunk_idfs = [_term_idf(corpus, frequency) for frequency in frequencies.values()]
    path_idfs = [_idf(corpus.files, frequency.named) for frequency in frequencies.values()]
    needles = [
        _Needle(term.needle, min(1.0, path_idf / idf), f" {term.token}{FORM_MARK}", term.form and f" {term.form}")
        for term, idf, path_idf in zip(frequencies, chunk_idfs, path_idfs, strict=True)
    ]
    file_idfs = [_idf(corpus.files, frequency.files) for frequency in frequencies.values()]
    found = [_find(candidate, needles, weights) for candidate in candidates]
    added = [_find(other, needles, weights) for other in others]
    files = _relevance_of_files(added, file_idfs, corpus) | _relevance_of_files(found, file_idfs, corpus)

    saturation = _saturation(corpus.length / max(1, corpus.chunks))
    as_asked = {term.number for chunk in found for term in chunk.terms if term.by_chunk and not term.other}
    relevance = []
    for chunk in (*found, *added):
        held = saturation(chunk.candidate.length)
        own = 0.0
        for term in chunk.terms:
            worth = OTHER_FORM if term.other and term.number in as_asked else 1.0
            own += chunk_idfs[term.number] * worth * _saturated(term.weighted, held)
        value = own + weights.file * files[chunk.candidate.file]
        relevance.append(value if any(term.own for term in chunk.terms) else value * AROUND)
    best = max(range(len(found)), key=relevance.__getitem__)
    if not relevance[best]:
        return []
    supposed = corpus._replace(chunks=corpus.chunks + PRIOR_CHUNKS, files=corpus.files + PRIOR_CHUNKS)
    shares = [
        _term_idf(supposed, frequency) * (GRAMMATICAL if term in grammatical else 1.0)
        for term, frequency in frequencies.items()
    ]
    strength = _coverage(found[best], found, shares) / relevance[best]

    parts = len(required) + 1
    ranked = [
        (candidate.id, (_satisfied(candidate, required) + min(1.0, strength * value)) / parts)
        for candidate, value in zip((*candidates, *others), relevance, strict=True)
        if value
    ]
    return sorted(ranked, key=lambda pair: (-pair[1], pair[0]))


def has_any(candidate: Candidate, terms: Iterable[Term]) -> bool:
    """Return whether a candidate has any of the terms, in any field."""
    whole = candidate.whole
    return any(term.needle in whole for term in terms)


def cover(terms: Iterable[Term], frequencies: Mapping[Term, Frequency], corpus: Corpus) -> float:
    """Return the share of the query's terms, which ``frequencies`` has all of, that a file has, weighted by idf."""
    idfs = {term: _idf(corpus.files, frequency.files) for term, frequency in frequencies.items()}
    return min(1.0, sum(idfs[term] for term in terms) / sum(idfs.values()))


def _find(candidate: Candidate, needles: Sequence[_Needle], weights: Weights) -> _Found:
    # str.count passes over every second one of equal tokens in a row: such a count is saturated anyway.
    whole = candidate.whole
    terms = []
    for number, (needle, in_path, forms, form) in enumerate(needles):
        if needle in whole:
            text = candidate.text.count(needle)
            heading = candidate.heading.count(needle)
            context = candidate.context.count(needle)
            path = candidate.path.count(needle)
            # Forms of the text and of the heading are beside its identifiers, and those of the context in it.
            written, literal = text + heading, candidate.identifiers
            if not written and not path:
                written, literal = context, candidate.context
            other = written > 0 >= (literal.count(form) if form else written - literal.count(forms))
            text += candidate.identifiers.count(needle)
            weighted = text + weights.heading * heading + weights.context * context + weights.path * in_path * path
            covered = 1.0 if text or heading else max(0.5 * (context > 0), in_path * (path > 0))
            own = bool(text or heading or path)
            terms.append(_Match(number, weighted, text + (heading > 0), int(path > 0), own, covered, other))
    return _Found(candidate, terms)


def _relevance_of_files(found: Sequence[_Found], idfs: Sequence[float], corpus: Corpus) -> dict[int, float]:
    """Return the BM25 of each file of the candidates."""
    occurrences: dict[int, dict[int, int]] = {}
    lengths = {}
    named = set()
    for chunk in found:
        lengths[chunk.candidate.file] = chunk.candidate.file_length
        of_file = occurrences.setdefault(chunk.candidate.file, {})
        for term in chunk.terms:
            if term.by_path:
                named.add(chunk.candidate.file)
            of_file[term.number] = of_file.get(term.number, term.by_path) + term.by_chunk
    saturation = _saturation(corpus.text_length / max(1, corpus.files))
    relevance = {}
    longest = LONGEST * corpus.text_length / max(1, corpus.files)
    for file, of_file in occurrences.items():
        held = saturation(min(lengths[file], longest) if file in named else lengths[file])
        relevance[file] = sum(idfs[number] * _saturated(count, held) for number, count in of_file.items())
    return relevance


def _coverage(chunk: _Found, found: Sequence[_Found], idfs: Sequence[float]) -> float:
    """Return the share of the query's terms that a chunk has; one that only its context or its file has is a half."""
    covered: dict[int, float] = {}
    for other in found:
        if other.candidate.file == chunk.candidate.file:
            covered.update((term.number, 0.5) for term in other.terms)
    covered.update((term.number, term.covered) for term in chunk.terms)
    return sum(idfs[number] * share for number, share in covered.items()) / sum(idfs)


def _satisfied(candidate: Candidate, required: Sequence[Term]) -> int:
    if not required:
        return 0
    literal = f"{candidate.text}{candidate.heading}{candidate.identifiers}{candidate.path}"
    return sum(term.needle in literal for term in required)


def _term_idf(corpus: Corpus, frequency: Frequency) -> float:
    """Return the idf of a term: by the chunks that have it, or by the files if it stands in paths only."""
    if frequency.chunks or not frequency.named:
        return _idf(corpus.chunks, frequency.chunks)
    return _idf(corpus.files, frequency.named)


def _idf(total: int, frequency: int) -> float:
    frequency = min(frequency, total)
    return math.log(1 + (total - frequency + 0.5) / (frequency + 0.5))


def _saturation(mean_length: float) -> Callable[[float], float]:
    """Return the function from a length to what BM25 adds to an occurrence count below the fraction line."""
    return lambda length: K1 * (1 - B + B * length / max(1.0, mean_length))


def _saturated(count: float, saturation: float) -> float:
    return (K1 + 1) * count / (count + saturation)
