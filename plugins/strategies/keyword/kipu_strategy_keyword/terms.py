"""From the text of a query to terms: any text is a query, and there is no syntax."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from . import tokens
from .grammar import grammatical

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MAXIMUM_REQUIREMENTS", "MAXIMUM_TERMS", "Term", "Terms", "read_terms"]

MAXIMUM_TERMS = 200
"""Different terms of a query that are looked up; those after them are left out."""

MAXIMUM_REQUIREMENTS = 16
"""Quoted phrases and identifiers of a query that are searched as such; those after them are only words."""

_QUOTED = re.compile('"([^"]+)"|“([^“”]+)”')


class Term(NamedTuple):
    """A token, or a phrase of tokens joined by spaces; ``prefix`` if the last one is only the start of a token.

    ``form`` is how the query writes it, where that has accents: see `tokens.forms`.
    """

    token: str
    prefix: bool = False
    form: str = ""

    @property
    def expression(self) -> str:
        """The term in the query language of FTS5."""
        return f'"{self.token}"{" *" if self.prefix else ""}'

    @property
    def needle(self) -> str:
        """The part of a text of tokens, with a space before and after each, that shows that the term is in it."""
        return f" {self.token}" if self.prefix else f" {self.token} "


class Terms(NamedTuple):
    """The terms of a query: ``alternatives``, of which more are better, and ``required`` ones, which come first.

    The ``grammatical`` ones of the alternatives say nothing of what the query is about.
    """

    alternatives: list[Term]
    required: list[Term]
    grammatical: frozenset[Term] = frozenset()


def read_terms(text: str) -> Terms:
    """Return the terms of a query. Stop words are left out unless there is nothing else.

    A word that only folding makes a stop word, as Turkish "ın", is searched as it is written beside other words.
    """
    written = tokens.normalise(text)
    folded = tokens.strip_accents(written)
    words = tokens.words(folded)
    forms = {form.partition(tokens.FORM_MARK)[0]: form for form in tokens.forms(written, folded)}
    found = dict.fromkeys(term._replace(form=forms.get(term.token, "")) for term in _words(words))
    telling = _without_stop_words(found) or list(found)
    literal = [Term(token) for token in dict.fromkeys(tokens.identifiers(folded))]
    quoted = (_phrase(tokens.words(tokens.fold(match[1] or match[2]))) for match in _QUOTED.finditer(text))
    phrases = [phrase for phrase in dict.fromkeys(quoted) if phrase is not None][:MAXIMUM_REQUIREMENTS]
    strong = [term for term in (*literal, *telling) if tokens.is_strong(term.token)]
    without_subject = grammatical(words)
    return Terms(
        alternatives=list(dict.fromkeys([*phrases, *telling, *literal]))[:MAXIMUM_TERMS],
        required=list(dict.fromkeys([*phrases, *strong]))[:MAXIMUM_REQUIREMENTS],
        grammatical=frozenset(term for term in telling if term.token.partition(tokens.FORM_MARK)[0] in without_subject),
    )


def _without_stop_words(found: Iterable[Term]) -> list[Term]:
    """Return the terms that are not stop words, with the forms of those that only folding makes stop words.

    The list is empty if there are only stop words, folded or not.
    """
    terms = [term for term in found if term.form or term.token not in tokens.STOP_WORDS]
    if all(term.token in tokens.STOP_WORDS for term in terms):
        return []
    return [Term(term.form) if term.token in tokens.STOP_WORDS else term for term in terms]


def _words(words: list[str]) -> list[Term]:
    """Return words and n-grams as terms, without the shorter n-grams at the end of a run."""
    previous = ["", *words]
    kept = [word for before, word in zip(previous, words, strict=False) if not _is_run_end(before, word)]
    return [Term(word, prefix=len(word) < tokens.n_gram_length(word)) for word in kept]


def _phrase(words: list[str]) -> Term | None:
    """Return the words as one term, which also stands where the last run goes on: "xy" in "wxyz"."""
    while len(words) > 1 and _is_run_end(words[-2], words[-1]):
        words = words[:-1]
    return Term(" ".join(words), prefix=len(words[-1]) < tokens.n_gram_length(words[-1])) if words else None


def _is_run_end(before: str, word: str) -> bool:
    """Return whether ``word`` is one of the shorter n-grams that end a run: y in xy, y."""
    return before[1:] == word and len(word) < tokens.n_gram_length(word)
