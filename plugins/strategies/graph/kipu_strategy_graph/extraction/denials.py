"""Whether the predicate in front of a link states what it says, in English, and what denies it in other languages."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["believed"]

_MARKED = re.compile(
    r"n['’]t\b|\b(?:not|never|no|cannot|hardly|barely|scarcely|rarely|seldom|neither)\b(?!\sonly\b)"
    r"|\b(?:may|might|could|would|should|will|can|must|shall|maybe|perhaps|possibly|probably)\b"
    r"|\b(?:plans?|planned|hopes?|hoped|wants?|wanted|intends?|intended|going|used)\sto\b|\b(?:stopped|quit)\s",
    re.IGNORECASE,
)
_GUESS = re.compile(r"\b(?:maybe|perhaps|possibly|probably)\b\s?", re.IGNORECASE)
_POSSIBLE = re.compile(r"\b(?:may|might|could|would|should|will|can|must|shall|to)\b", re.IGNORECASE)
_DENIES = re.compile(
    # English, German, Dutch, Swedish, Danish and Polish
    r"\b(?:not|never|no|cannot|hardly|barely|scarcely|rarely|seldom|neither|nicht|kein(?:e[nmrs]?)?|niemals|nie|niet|geen"
    r"|inte|ikke"
    # French, Italian, Spanish, Portuguese, Hungarian, Turkish and Russian
    r"|ne|pas|jamais|non|mai|nunca|jamás|ning[uú]n[ao]?|não|nem|değil|не|нет|никогда)\b|\bn['’](?=\w)|\w*n['’]t\b"
    # Chinese, Japanese, Korean and Hindi
    r"|[没沒]有(?=\w)|[不没沒未]|ない|ません|않[는다고은]*|\b안\b|नहीं",
    re.IGNORECASE,
)
_KIND = re.compile(r"(?:is|are)\s.*(?<=\s)(?:an?|the)$")
_IS = re.compile(r"(?:is|are)\s(?!(?:an?|the)\b)(?=\S+\s)")


@lru_cache(maxsize=1_000)
def believed(predicate: str) -> tuple[str, int, str]:
    """Return a predicate as sentences give it, with its polarity and its modality: "does not use" denies "uses".

    In other languages than English, a word that negates is left out, and denies the rest.
    """
    guess = _GUESS.sub("", predicate) or predicate
    modality = "possible" if guess != predicate else ""
    if _MARKED.search(guess) is not None and _KIND.match(guess) is None:
        from .predicates import predicates  # to compile its patterns takes 0.1 s, which other predicates do not need

        for found in predicates(f"{guess} [[X]]", 0, modality, any_verb=True):
            if found.target == "X":
                return found.predicate, found.polarity, found.modality
        if _POSSIBLE.search(guess):
            modality = "possible"
    rest = " ".join(_DENIES.sub(" ", guess).split())
    polarity = 1 if rest == guess or "not only" in guess else -1
    return _IS.sub("", rest or guess), polarity, modality
