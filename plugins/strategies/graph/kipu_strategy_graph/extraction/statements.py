"""Statements in English sentences: "Ravi uses FastAPI". A sentence that is not built like one says nothing here."""

from __future__ import annotations

import re
from calendar import monthrange
from typing import TYPE_CHECKING

import attrs

from . import grammar
from .names import STOP_WORDS, UPPER
from .predicates import MARKS, Found, passive, predicates
from .records import Relation
from .words import INTERJECTIONS, without_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["statements"]

_LONGEST_SENTENCE = 400
_LINK = re.compile(r"\[\[([^\[\]|#\n]{1,100})[^\[\]\n]{0,200}\]\]")
_BOLD = re.compile(rf"\*\*([{UPPER}]\w*ing)\*\*")  # which without marks might be no name
_BETWEEN_NAMES = re.compile(r",\s(?:and\s)?|\s(?:and|&)\s")
_IN_PARENTHESES = re.compile(r"\s?\([^()\n]{0,100}\)")
_DASH = re.compile("[;–—]")
_SINCE = re.compile(r"\b(?P<when>[Ss]ince|[Uu]ntil)\s(?P<date>\d{4}(?:-\d\d(?:-\d\d)?)?)\b")
_ENDED = re.compile(r"\b(?:was|were|had)\s.*\buntil\s(?!\d{4})")
_CONDITIONS = {"if", "when", "whenever", "unless", "whether", "suppose", "assuming", "once"}
_NO_SUBJECTS = STOP_WORDS | INTERJECTIONS
_CONFIDENCE = {"sentence": 0.8, "pronoun": 0.6}
_ROLE_OF = re.compile(rf"(?P<role>[a-z][a-z-]*(?:\s[a-z][a-z-]*)?)\sof\s(?P<owner>[{UPPER}][^,]*)")
_COPULAS = {"is", "was", "are", "were", "in", "at", "on"}
_EXPLETIVE = re.compile(r"(?:would|could|must|might|will|can|may|has|'s)?\s?(?:been|be|is|was)\s(?!\w+ed\b|based\b)")
_POSSESSIVE = re.compile(r"['’]s?$")
_CONTRACTED = re.compile(r"['’](?:s|ve|d|ll|re|m)?$")


@attrs.define
class _Subject:
    """What a statement is about, and where its name ends."""

    names: list[str]
    end: int
    owner: str = ""
    role: str = ""
    via: str = "sentence"
    before: str = ""
    any_verb: bool = False
    is_entity: bool = True


def statements(text: str, *, subject: str = "", speaker: str = "", is_item: bool = False) -> Iterator[Relation]:
    """Yield the statements of a paragraph.

    :param subject: the subject of "he", "she" or "it" in the first sentence.
    :param speaker: the subject of "I".
    :param is_item: the text is an item of a list, which may leave out its subject: "lives in Porto".
    """
    text = _LINK.sub(r"[[\1]]", text) if "[[" in text else text
    text = _BOLD.sub(r"`\1`", text).replace("**", "") if "**" in text else text
    for found in grammar.SENTENCE.finditer(text):
        sentence = found[0].strip()
        if not 8 < len(sentence) <= _LONGEST_SENTENCE:
            continue
        modality = "question" if sentence.endswith("?") else ""
        line = sentence
        if is_item and subject and grammar.ELIDED.match(sentence[0].lower() + sentence[1:]):
            line = f"She {sentence[0].lower()}{sentence[1:]}"
        is_item = False
        dates: dict[str, str] = {}
        if "ince " in sentence or "ntil " in sentence:
            dates = {each["when"].lower(): each["date"] for each in _SINCE.finditer(sentence)}
        has_ended = _ENDED.search(sentence) is not None
        has_clauses = ", " in line or "because" in line or _DASH.search(line) is not None
        for start in (0, *(each.end() for each in grammar.CLAUSE.finditer(line))) if has_clauses else (0,):
            known, relations = _clause(line, start, modality, subject, speaker)
            for source, via, said in relations:
                yield Relation(
                    source,
                    said.predicate,
                    said.target,
                    sentence,
                    via,
                    polarity=said.polarity,
                    modality=said.modality or ("past" if has_ended else ""),
                    confidence=_CONFIDENCE[via],
                    valid_from=dates.get("since"),
                    valid_until=_last_day(dates["until"]) if "until" in dates else None,
                    is_entity=said.is_entity,
                )
            subject = known if relations or start else ""


def _last_day(day: str) -> str:
    """Return the last day of a year or of a month, and a day as it is."""
    year, _, month = day.partition("-")
    if not month:
        return f"{year}-12-31"
    if "-" in month or not 1 <= int(month) <= 12 or int(year) < 1:
        return day
    return f"{day}-{monthrange(int(year), int(month))[1]}"


def _clause(
    text: str, start: int, modality: str, implied: str, speaker: str
) -> tuple[str, list[tuple[str, str, Found]]]:
    """Return what "she" is after a clause, and what it says: each with its source and the rule that found it."""
    lead = grammar.LEADING.match(text, start)
    assert lead is not None  # noqa: S101 - it may be empty
    if word := lead["modal"]:
        modality = modality or ("condition" if word.lower() in _CONDITIONS else "possible")
    if lead["question"]:
        modality = "question"
    subject = _pronoun(text, lead.end(), implied, speaker) or _subject(text, lead.end())
    if subject is None:
        return "", []
    position, said = _aside(text, subject, modality)
    if text.startswith(" ", position):
        before = subject.before or ("does" if lead["question"] else "")
        for each in predicates(text, position + 1, modality, any_verb=subject.any_verb, before=before):
            if subject.role and each.predicate in _COPULAS:  # Ingrid's manager is Paul
                said.append((subject.owner, attrs.evolve(each, predicate=subject.role)))
            else:
                said += [(name, each) for name in subject.names]
    known = subject.names[0] if len(subject.names) == 1 and subject.is_entity else ""
    return known, [(source, subject.via, each) for source, each in said]


def _pronoun(text: str, position: int, implied: str, speaker: str) -> _Subject | None:
    found = grammar.PRONOUN.match(text, position)
    if found is None or not (name := speaker if found["speaker"] else implied):
        return None
    before = {"m": "am", "ve": "have", "ll": "will"}.get(found["short"] or "", "")
    if found["other"] == "It" and _EXPLETIVE.match(text, found.end()):
        return None
    return _Subject([name], found.end() - 1, via="pronoun", before=before, any_verb=bool(found["speaker"]))


def _subject(text: str, position: int) -> _Subject | None:
    found = grammar.SUBJECT.match(text, position)
    if found is None:
        return None
    if word := found["word"]:
        return _Subject([word], found.end()) if grammar.STATES.match(text, found.end()) is not None else None
    if _begins_otherwise(found["owner"] or found["names"] or ""):
        return None
    if found["noun"]:
        name = text[found.start("owner") if found["owner"] else found.start("noun") : found.end()]
        owner, role = "", ""
        if found["owner"] and found["noun"].islower():  # Ingrid's manager
            owner, role = _POSSESSIVE.sub("", found["owner"]), found["noun"]
        elif (of := _ROLE_OF.fullmatch(name)) is not None:  # the manager of Ingrid
            owner, role = of["owner"], of["role"]
        name = without_kind(name)
        return _Subject([name], found.end(), owner=owner, role=role, is_entity=False)
    marked = _BETWEEN_NAMES.split(found["names"])
    names = [name.strip(MARKS) for name in marked]
    if any(map(_begins_otherwise, names)):
        return None
    if any(map(_is_gerund, marked)) and grammar.STATES.match(text, found.end()) is None:
        return None
    return _Subject(names, found.end(), any_verb=len(names) > 1)


def _begins_otherwise(name: str) -> bool:
    """Return whether a subject begins with a word that begins none, such as "Wow" or "That's"."""
    word = name.casefold().partition(" ")[0]
    if "'" in word or "’" in word:
        word = word if word in _NO_SUBJECTS else _CONTRACTED.sub("", word)
    return word in _NO_SUBJECTS


def _is_gerund(name: str) -> bool:
    """Return whether a name may be "Running" as well, and is not marked as a name: "[[Billing]]" is."""
    return " " not in name and name.endswith("ing")


def _aside(text: str, subject: _Subject, modality: str) -> tuple[int, list[tuple[str, Found]]]:
    """Return what is between a subject and its verb, and where that ends: "Hanna, who leads the data team, ..."."""
    position = subject.end
    if (parentheses := _IN_PARENTHESES.match(text, position)) is not None:
        position = parentheses.end()
    if (apposition := grammar.APPOSITION.match(text, position)) is not None:
        end = apposition.end() - 1
        if apposition["noun"]:
            found = Found("is", apposition["noun"], end, False, 1, modality)
            return end, [(name, found) for name in subject.names]
        if not subject.role:
            return end, []
        found = Found(subject.role, apposition["name"], end, True, 1, modality)
        owner, subject.names, subject.role = subject.owner, [apposition["name"]], ""
        return end, [(owner, found)]
    if (relative := grammar.RELATIVE.match(text, position)) is not None:
        said = predicates(text, relative.end(), modality)
    elif text.startswith(", ", position) and (verb := grammar.PARTICIPLE.match(text, position + 2)) is not None:
        said = passive(text, verb, modality, 1)
    else:
        return position, []
    end = text.find(", ", max([position + 2, *(each.end for each in said)]))
    return (end + 1 if end > 0 else len(text)), [(name, each) for each in said for name in subject.names]
