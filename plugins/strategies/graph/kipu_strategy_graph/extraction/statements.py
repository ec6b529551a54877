"""Statements in English sentences: "Ravi uses FastAPI". A sentence that is not built like one says nothing here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from . import grammar
from .names import STOP_WORDS, UPPER
from .records import Relation
from .words import ATTITUDES, BE, INTERJECTIONS, MODAL, NEGATION, VERBS, singular, without_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["statements"]

_LONGEST_SENTENCE = 400
_MARKS = "`[]*"
_LINK = re.compile(r"\[\[([^\[\]|#\n]{1,100})[^\[\]\n]{0,200}\]\]")
_BETWEEN_NAMES = re.compile(r",\s(?:and\s)?|\s(?:and|&)\s")
_IN_PARENTHESES = re.compile(r"\s?\([^()\n]{0,100}\)")
_YEAR = re.compile(r"(?:[A-Z][a-z]+\s)?(?:1[5-9]|20)\d\d$")
_DASH = re.compile("[;–—]")
_SINCE = re.compile(r"\b(?P<when>[Ss]ince|[Uu]ntil)\s(?P<date>\d{4}(?:-\d\d(?:-\d\d)?)?)\b")
_CONDITIONS = {"if", "when", "whenever", "unless", "whether", "suppose", "assuming", "once"}
_WITHOUT_PLACE = {"as", "after", "about", "like"}
_TARGET = re.compile(rf"(?:(?:an?|the|our|my|his|her|its|their)\s|[\d`\[*{UPPER}])")
_NO_SUBJECTS = STOP_WORDS | INTERJECTIONS
_CONFIDENCE = {"sentence": 0.8, "pronoun": 0.6}
_ROLE_OF = re.compile(rf"(?P<role>[a-z][a-z-]*(?:\s[a-z][a-z-]*)?)\sof\s(?P<owner>[{UPPER}][^,]*)")
_COPULAS = {"is", "was", "are", "were", "in", "at", "on"}
_EXPLETIVE = re.compile(r"(?:would|could|must|might|will|can|may|has|'s)?\s?(?:been|be|is|was)\s(?!\w+ed\b|based\b)")
_POSSESSIVE = re.compile(r"['’]s?$")
_PLAIN_WORD = re.compile(r"[a-z][a-z-]*")
_NOT = re.compile(r"n['’]t\b")
_HAVE = frozenset({"has", "have", "had"})
_DO = frozenset({"do", "does", "did", "to", "stopped", "quit"})
_CONTRACTED = re.compile(r"['’](?:s|ve|d|ll|re|m)?$")
# What "has lived since 2019" still does.
_STILL = {
    form: singular(verb)
    for verb in VERBS
    for form in (verb + "ed", verb + "d", verb.removesuffix("y") + "ied", verb + verb[-1] + "ed")
}
_IDENTIFIER = re.compile(r"^[a-z]+[\w./-]*[\d._/A-Z][\w./-]*$")
_BASES = {
    form: singular(verb)
    for verb in VERBS
    for form in (verb, verb + "ing", verb.removesuffix("e") + "ing", verb + verb[-1] + "ing")
}


@attrs.frozen
class _Found:
    """What a verb says of its subject, and where that ends."""

    predicate: str
    target: str
    end: int
    is_entity: bool
    polarity: int = 1
    modality: str = ""


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


def statements(text: str, *, subject: str = "", speaker: str = "") -> Iterator[Relation]:
    """Yield the statements of a paragraph.

    :param subject: the subject of "he", "she" or "it" in the first sentence.
    :param speaker: the subject of "I".
    """
    text = _LINK.sub(r"[[\1]]", text).replace("**", "") if "[[" in text else text.replace("**", "")
    for found in grammar.SENTENCE.finditer(text):
        sentence = found[0].strip()
        if not 8 < len(sentence) <= _LONGEST_SENTENCE:
            continue
        modality = "question" if sentence.endswith("?") else ""
        dates: dict[str, str] = {}
        if "ince " in sentence or "ntil " in sentence:
            dates = {each["when"].lower(): each["date"] for each in _SINCE.finditer(sentence)}
        has_clauses = ", " in sentence or "because" in sentence or _DASH.search(sentence) is not None
        for start in (0, *(each.end() for each in grammar.CLAUSE.finditer(sentence))) if has_clauses else (0,):
            known, relations = _clause(sentence, start, modality, subject, speaker)
            for source, via, said in relations:
                yield Relation(
                    source,
                    said.predicate,
                    said.target,
                    sentence,
                    via,
                    polarity=said.polarity,
                    modality=said.modality,
                    confidence=_CONFIDENCE[via],
                    valid_from=dates.get("since"),
                    valid_until=dates.get("until"),
                    is_entity=said.is_entity,
                )
            subject = known if relations or start else ""


def _clause(
    text: str, start: int, modality: str, implied: str, speaker: str
) -> tuple[str, list[tuple[str, str, _Found]]]:
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
        for each in _predicates(text, position + 1, modality, any_verb=subject.any_verb, before=before):
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
    if found is None or _begins_otherwise(found["owner"] or found["names"] or ""):
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
    names = [name.strip(_MARKS) for name in _BETWEEN_NAMES.split(found["names"])]
    if any(map(_begins_otherwise, names)):
        return None
    return _Subject(names, found.end(), any_verb=len(names) > 1)


def _begins_otherwise(name: str) -> bool:
    """Return whether a subject begins with a word that begins none, such as "Wow" or "That's"."""
    word, _, rest = name.casefold().partition(" ")
    if "'" in word or "’" in word:
        word = word if word in _NO_SUBJECTS else _CONTRACTED.sub("", word)
    return word in _NO_SUBJECTS or (not rest and word.endswith("ing"))


def _aside(text: str, subject: _Subject, modality: str) -> tuple[int, list[tuple[str, _Found]]]:
    """Return what is between a subject and its verb, and where that ends: "Hanna, who leads the data team, ..."."""
    position = subject.end
    if (parentheses := _IN_PARENTHESES.match(text, position)) is not None:
        position = parentheses.end()
    if (apposition := grammar.APPOSITION.match(text, position)) is not None:
        end = apposition.end() - 1
        if apposition["noun"]:
            found = _Found("is", apposition["noun"], end, False, 1, modality)
            return end, [(name, found) for name in subject.names]
        if not subject.role:
            return end, []
        found = _Found(subject.role, apposition["name"], end, True, 1, modality)
        owner, subject.names, subject.role = subject.owner, [apposition["name"]], ""
        return end, [(owner, found)]
    if (relative := grammar.RELATIVE.match(text, position)) is not None:
        said = _predicates(text, relative.end(), modality)
    elif text.startswith(", ", position) and (verb := grammar.PARTICIPLE.match(text, position + 2)) is not None:
        said = _passive(text, verb, modality, 1)
    else:
        return position, []
    end = text.find(", ", max([position + 2, *(each.end for each in said)]))
    return (end + 1 if end > 0 else len(text)), [(name, each) for each in said for name in subject.names]


def _predicates(text: str, position: int, modality: str, *, any_verb: bool = False, before: str = "") -> list[_Found]:
    """Return what the verbs from a position on say of one subject: "works at Norwind and lives in Bergen"."""
    said: list[_Found] = []
    while True:
        found = _predicate(text, position, modality, any_verb, before)
        said += found
        if not found or (again := grammar.AGAIN.search(text, found[-1].end)) is None:
            return said
        position, before, any_verb = again.end(), "", False


def _predicate(text: str, position: int, modality: str, any_verb: bool, before: str) -> list[_Found]:
    verb = grammar.VERB.match(text, position)
    assert verb is not None  # noqa: S101 - it may be empty
    helpers = [before, *_NOT.sub("", verb["before"].lower()).split()]
    polarity = -1 if _NOT.search(verb["before"]) or not NEGATION.isdisjoint(helpers) else 1
    if not modality:
        modality = "possible" if not MODAL.isdisjoint(helpers) else "past" if "used" in helpers else ""
    if not BE.isdisjoint(helpers):
        return _of_being(text, verb.end("before"), modality, polarity, helpers)
    said: list[_Found] = []
    if _HAVE.isdisjoint(helpers):
        after_plural = text[position - 2 : position] == "s "
        if predicate := _active(verb, helpers, bool(modality) or polarity < 0, any_verb or after_plural):
            said = _after_verb(text, predicate, verb.end(), modality, polarity)
    elif (done := grammar.PARTICIPLE.match(text, verb.end("before"))) is not None:
        verb_now = _STILL.get(done["verb"], done["verb"]) if " since " in text else done["verb"]
        return _after_verb(text, verb_now, done.end("verb"), modality, polarity)
    if not said and helpers[-1] in _HAVE | {"do", "does", "did"}:  # the verb itself: "does yoga"
        predicate = {"have": "has", "do": "does"}.get(helpers[-1], helpers[-1])
        said = _after_verb(text, predicate, verb.end("before") - 1, modality, polarity)
    return said


def _active(verb: re.Match[str], helpers: list[str], is_marked: bool, any_verb: bool) -> str:
    """Return the predicate of a verb that is no "is" and no "has", or an empty text if it is no verb."""
    head = verb["seen"] or verb["base"] or verb["word"] or ""
    base = _BASES.get(head, "")
    if not (_DO | MODAL).isdisjoint(helpers):
        if head in STOP_WORDS or helpers[1:2] == ["to"]:
            return ""
        predicate = base or (singular(head) if is_marked and head else "")
        return "" if predicate in ATTITUDES else predicate
    if verb["seen"]:
        return "" if head in ATTITUDES else head
    return base if verb["base"] and any_verb else ""


def _after_verb(text: str, verb: str, position: int, modality: str, polarity: int) -> list[_Found]:
    """Return what stands after a verb: its objects, or what its preposition leads to."""
    if (found := grammar.PREPOSITION.match(text, position)) is None:
        return _objects(text, position + 1, verb, modality, polarity) if text.startswith(" ", position) else []
    said: list[_Found] = []
    if found["preposition"] == "of" and not verb.startswith(("consist", "approv", "dispos", "made", "die")):
        return []
    if found["preposition"] not in _WITHOUT_PLACE:
        predicate = " ".join(filter(None, [verb, found["particle"], found["preposition"]]))
        if found["preposition"] != "to" or _TARGET.match(text, found.end()):
            said = _objects(text, found.end(), predicate, modality, polarity)
        if said and found["preposition"] == "from" and text.startswith(" to ", said[-1].end):
            said += _objects(text, said[-1].end + 4, f"{verb} to", modality, polarity)
    return said


def _passive(text: str, verb: re.Match[str], modality: str, polarity: int) -> list[_Found]:
    """Return what follows a participle: "sent to Acme by Lucy" has two targets."""
    said: list[_Found] = []
    position = verb.end()
    start = " ".join(filter(None, [verb["verb"], verb["particle"]]))
    while (found := grammar.PREPOSITION.match(text, position)) is not None:
        preposition = found["preposition"]
        if preposition == "to" and not _TARGET.match(text, found.end()):
            break
        if preposition in _WITHOUT_PLACE or (said and preposition not in {"by", "to"}):
            break
        here = _objects(text, found.end(), f"{start} {preposition}", modality, polarity)
        if not here:
            break
        said += here
        position = here[-1].end
    return said


def _of_being(text: str, position: int, modality: str, polarity: int, helpers: list[str]) -> list[_Found]:
    """Return what stands after "is": a participle, a role, a quality with a preposition, or a noun."""
    verb = grammar.PARTICIPLE.match(text, position)
    if verb is not None:
        if verb["verb"] in {"called", "named"} and text.startswith(" ", verb.end()):
            return _objects(text, verb.end() + 1, verb["verb"], modality, polarity)
        return _passive(text, verb, modality, polarity)
    if "going" in helpers or "to" in helpers:
        return []
    word = _PLAIN_WORD.match(text, position)
    if word is not None and word[0] in _BASES and word[0].endswith("ing"):
        return _after_verb(text, _BASES[word[0]], word.end(), modality, polarity)
    if (place := grammar.PREPOSITION.match(text, position)) is not None:
        return _quality(text, place, "", modality, polarity)
    if (role := grammar.ROLE.match(text, position)) is not None:
        if role["owner"]:
            target = role["owner"]
            return [_Found(f"{role['of']} of", target, role.end(), True, polarity, modality)]
        return _objects(text, role.end(), f"{role['role']} of", modality, polarity)
    if word is not None and word[0] not in STOP_WORDS:
        place = grammar.PREPOSITION.match(text, word.end())
        return _quality(text, place, word[0] + " ", modality, polarity) if place is not None else []
    if _TARGET.match(text, position) is None:
        return []
    copula = next(helper for helper in reversed(helpers) if helper in BE)
    predicate = {"am": "is", "been": "was", "be": "is"}.get(copula, copula)
    return _objects(text, position, predicate, modality, polarity)


def _quality(text: str, place: re.Match[str], quality: str, modality: str, polarity: int) -> list[_Found]:
    """Return what follows "allergic to", or a preposition alone: "is near"."""
    preposition = place["preposition"]
    has_target = _TARGET.match(text, place.end()) is not None
    if preposition in _WITHOUT_PLACE or (not has_target and (preposition == "to" or not quality)):
        return []
    return _objects(text, place.end(), quality + preposition, modality, polarity)


def _objects(text: str, position: int, predicate: str, modality: str, polarity: int) -> list[_Found]:
    """Return the objects at a position: a noun with what belongs to it, or several names."""
    found = grammar.OBJECT.match(text, position)
    if found is None:
        return []
    target, end = found["object"], found.end()
    first = target.split(" ", 1)[0].casefold()
    if first in STOP_WORDS and first not in {"one", "two"}:
        return []
    if _YEAR.match(target) and predicate.endswith((" in", " since")):
        return []
    if target.islower() and " " not in target and target.endswith(("ed", "ly")) and len(target) > 4:
        return []
    if found["no"]:
        polarity = -polarity
    if target[:1].islower() and (name := without_kind(target)) != target:
        return [_Found(predicate, name, end, True, polarity, modality)]
    is_entity = bool(found["name"] or found["definite"] or _IDENTIFIER.search(target))
    said = [_Found(predicate, target.strip(_MARKS), end, is_entity, polarity, modality)]
    while found["name"] and (more := grammar.NEXT.match(text, end)) is not None and len(said) < 50:
        end = more.end()
        said.append(_Found(predicate, more["name"].strip(_MARKS), end, True, polarity, modality))
    return [attrs.evolve(each, end=end) for each in said]
