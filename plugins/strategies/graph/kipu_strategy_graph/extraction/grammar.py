"""The patterns of English statements: what leads to a subject, the subject, the verb and the object."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .names import STOP_WORDS, UPPER
from .words import ADVERBS, INTERJECTIONS, PARTICIPLES, PAST, PLURALS, PREPOSITIONS, STOPPERS, VERBS, singular

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AGAIN",
    "APPOSITION",
    "CLAUSE",
    "ELIDED",
    "LEADING",
    "NEXT",
    "OBJECT",
    "PARTICIPLE",
    "PREPOSITION",
    "PRONOUN",
    "RELATIVE",
    "ROLE",
    "SENTENCE",
    "STATES",
    "SUBJECT",
    "VERB",
]


def _any(words: Iterable[str]) -> str:
    """Return a pattern for any of the words that shares their beginnings, so that most texts fail at once."""
    groups: dict[str, list[str]] = {}
    for word in sorted(set(words)):
        groups.setdefault(word[:1], []).append(word[1:])
    if list(groups) == [""]:
        return ""
    branches = [first + _any(rest) for first, rest in groups.items() if first]
    joined = branches[0] if len(branches) == 1 and "" not in groups else f"(?:{'|'.join(branches)})"
    return joined + "?" if "" in groups else joined


_WORD = r"[^\W_](?:[\w'’.+#$@/-]*\w)?(?:\+\+|\#)?"
_TITLES = ("Dr", "Mr", "Mrs", "Ms", "Prof", "St", "Mt")
_CAPITALISED = rf"(?:(?:{'|'.join(_TITLES)})\.\s)?[{UPPER}](?:[\w'’.+#&$@/-]*\w)?(?:\+\+|\#)?"
_NAME = (
    rf"{_CAPITALISED}(?:(?<!['’]s)\s(?:(?:of|de|la|van|von|der|du|del|&)\s(?:the\s)?)?(?:{_CAPITALISED}|\d[\w.]*\b))*"
)
_MARKED = r"(?:`[^`\n]{2,60}`|\[\[[^\[\]\n]{1,100}\]\]|\*\*[^*\n]{2,60}\*\*)"
_ENTITY = rf"(?:{_MARKED}|{_NAME})"
# A name without a capital: with digits, dots, underscores or capitals inside of it.
_IDENTIFIER = r"(?:[a-z](?=[\w-]*[\dA-Z]|[\w-]*[._]\w)(?:[\w.-]*\w)?\b)"
_STOPPER = rf"(?:{_any(STOPPERS)})\b"
_AUXILIARY = (
    r"(?:(?:do|does|did|has|have|had|is|are|was|were|ca|could|would|should|wo|might|must)(?:n['’]t)?"
    r"|cannot|may|can|will|shall|never|no\slonger)\b"
)
_SEEN = _any([*PAST, *map(singular, VERBS)])
_BASE = _any(VERBS)
# A word that ends as a verb does. It is none in front of a verb.
_ENDING = (
    rf"(?!(?:{_any(PLURALS)})\b)[a-z]{{2,}}(?:(?<![suio])s|ed)\b(?!\s(?:{_AUXILIARY}|(?:{_SEEN}|{_BASE}|[a-z]+ed)\b))"
)
_ADVERB = rf"(?:{_any(ADVERBS)}|(?!(?:app|supp|rep|re|comp|imp|f|multip|fami)ly\b)[a-z]+ly)\b"
_VERB_AHEAD = rf"(?:{_AUXILIARY}|{_ADVERB}|{_SEEN}\b|(?<=s\s){_BASE}\b|{_ENDING})"
_NOUN = rf"(?!(?:{_AUXILIARY}|(?:I|which|who|that|also|further|means|be|been|if)\b|[a-z]+ly\b)){_WORD}"
_LAST_NOUN = rf"(?!(?:an?|the|of|in|on|for|to|with|and|or|large|three|two|its|their|his|her)\b){_NOUN}"
# A word of an object, which is none if it begins a clause: "league based in Japan", "films including".
_PART = (
    rf"(?!{_STOPPER}|(?:including|such|known|available|any\s?more|any\slonger)\b|[a-z]+(?:ed|ing)\s(?:{_any(PREPOSITIONS)})\b)"
    rf"(?:\d[\d,.:]*\d\b(?![\w-])|{_WORD})"
)
_DETERMINER = r"(?:an?|the|The|this|our|my|his|her|its|their|your|some)\s"

_SUBJECT = rf"(?:{_ENTITY}|{_IDENTIFIER})"
# Lower-case words that begin a sentence, and are no names.
_NO_NAMES = [
    *filter(str.isalpha, STOP_WORDS | INTERJECTIONS),
    *STOPPERS,
    *"""another either furthermore hence meanwhile mine moreover otherwise ours plus somehow theirs therefore thus yet
    yours""".split(),
]
_AFTER_TITLE = "|".join(rf"(?<=\b{title})" for title in _TITLES)
_NO_SUBJECT = _any(word.capitalize() for word in STOP_WORDS | INTERJECTIONS if word.isalpha())

SENTENCE = re.compile(rf"[^.!?\n]+(?:(?:[.!?](?!\s|$)|(?:{_AFTER_TITLE})\.)[^.!?\n]*)*[.!?]*")
LEADING = re.compile(
    r"(?:(?P<modal>If|When|Whenever|Unless|Whether|Suppose|Assuming|Once|Maybe|Perhaps|Possibly|Probably|if|when|unless)"
    r"\s|(?:Since|Until|From|On|In)\s\d{4}(?:-\d\d){0,2},?\s"
    r"|(?:And|But|So|Also|Then|Because|However|Meanwhile|Today|Now|Currently|Yesterday|Since|As|and|but|because)\b,?\s"
    r"|(?:In|On|At|Since|Last|This|From|By|During|After|Before|Until|For|As)\s[^,.;:!?\n]{1,50},\s)?"
    r"(?P<question>(?:Do|Does|Did|Is|Are|Was|Were|Has|Have|Had|Can|Could|Should|Would|Will|Shall|May|Might|Must)"
    r"(?:n['’]t)?\s)?"
)
PRONOUN = re.compile(r"(?:(?P<speaker>I)(?:['’](?P<short>m|ve|ll))?|(?P<other>[Hh]e|[Ss]he|[Ii]t))\s")
# An item of a list without a subject: "- lives in Porto".
ELIDED = re.compile(
    rf"(?:{_ADVERB}\s)?(?:(?:is|was|has|does|did)(?:n['’]t)?|never|no\slonger|{_any(map(singular, VERBS))})\s"
)
SUBJECT = re.compile(
    # The nightly export; our staging cluster; Olga's team
    rf"(?:(?:[Tt]he|[Aa]n?|[Oo]ur|[Tt]his|[Mm]y)\s|(?P<owner>{_NAME}['’]s?)\s)"
    rf"(?P<noun>(?:{_NOUN}\s){{0,3}}?{_LAST_NOUN})(?=\s{_VERB_AHEAD}|,\s|\s\()"
    # Ravi; Leo and Mia; `kipu`; [[Ravi]]
    rf"|(?P<names>(?!(?:{_NO_SUBJECT})\b){_SUBJECT}(?:(?:,\s|,?\s(?:and|&)\s){_SUBJECT})*)"
    # npm uses Node
    rf"|(?P<word>(?!(?:{_any(_NO_NAMES)}|{_SEEN}|[a-z-]+ly)\b)[a-z][a-z-]*[a-z])(?=\s)"
)
# What makes the word in front of it a name: a verb in the singular, and another name.
STATES = re.compile(
    rf"\s(?:(?:does\snot|doesn['’]t)\s{_BASE}"
    rf"|(?:(?:no\slonger|never|now|also|still)\s)?(?:{_any(map(singular, VERBS))})"
    rf"|is\s(?:(?:not|no\slonger)\s)?(?:[a-z]+ed|{_any(PARTICIPLES)}))\b"
    rf"(?:\s(?:{_any(PREPOSITIONS)})\b)?\s(?:the\s)?(?:{_ENTITY}|{_IDENTIFIER})"
)
VERB = re.compile(
    rf"(?P<before>(?:(?:{_AUXILIARY}|{_ADVERB}|not\b|been\b|being\b|be\b|to\b"
    r"|(?:plans?|planned|hopes?|wants?|intends?|going|used|stopped|quit)\b(?=\sto\s|\s\w+ing\b))\s)*)"
    rf"(?:(?P<seen>{_SEEN}\b|{_ENDING})|(?P<base>{_BASE})\b|(?P<word>[a-z]+)\b)?"
)
PARTICIPLE = re.compile(
    rf"(?:{_ADVERB}\s)?(?P<verb>[a-z]+ed|{_any(PARTICIPLES)})\b(?:\s(?P<particle>up|out|down|off|back)\b)?"
)
ROLE = re.compile(
    # the mother of; a project of; Anders's sister
    rf"(?:(?:an?|the|one\sof\sthe|(?P<no>no))\s)?(?:(?P<role>(?:[a-z-]+\s)?[a-z-]+)\sof\s|(?P<owner>{_NAME}?)['’]s?\s(?P<of>(?:[a-z-]+\s)?[a-z-]+)"
    rf"(?=[.,;:!?)]|$|\s{_STOPPER}))"
)
PREPOSITION = re.compile(rf"\s?(?:(?P<particle>up|out|down|off|back)\s)?(?P<preposition>{_any(PREPOSITIONS)})\s")
OBJECT = re.compile(
    rf"(?:(?P<no>no|neither)\s|(?P<definite>the|The|our|my)\s|{_DETERMINER}|both\s(?:the|of)\s)?"
    rf"(?P<object>(?P<name>{_ENTITY})(?:\s(?=[a-z]){_PART}(?!['’])){{0,3}}"
    rf"|{_PART}(?:\s{_PART}){{0,5}})"
)
NEXT = re.compile(rf"(?:,\s(?:and\s)?|\s(?:and|n?or|&)\s)(?P<name>(?>{_ENTITY}))(?!\s{_VERB_AHEAD}|['’])")
AGAIN = re.compile(rf",?\s(?:and|but|then)\s(?=(?:{_ADVERB}\s)?(?:{_AUXILIARY}|{_SEEN}\b))")
RELATIVE = re.compile(r",?\s(?:who|which|that)\s")
APPOSITION = re.compile(rf",\s(?:(?:an?|the|our)\s(?P<noun>(?:{_WORD}\s){{0,4}}?{_WORD})|(?P<name>{_NAME})),\s")
CLAUSE = re.compile(r"[;–—]\s|,\s(?:and|but|so|while|whereas)\s|because\s(?<=\sbecause\s)")
