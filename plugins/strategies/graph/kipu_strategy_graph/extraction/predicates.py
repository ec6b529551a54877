"""What the verbs of an English sentence say of its subject."""

from __future__ import annotations

import re

import attrs

from . import grammar
from .names import STOP_WORDS, UPPER
from .words import ATTITUDES, BE, MODAL, NEGATION, VERBS, singular, without_kind

__all__ = ["MARKS", "Found", "passive", "predicates"]

MARKS = "`[]*"
_YEAR = re.compile(r"(?:[A-Z][a-z]+\s)?(?:1[5-9]|20)\d\d$")
_WITHOUT_PLACE = {"as", "after", "about", "like"}
_TARGET = re.compile(rf"(?:(?:an?|the|our|my|his|her|its|their)\s|[\d`\[*{UPPER}])")
_PLAIN_WORD = re.compile(r"[a-z][a-z-]*")
_NOT = re.compile(r"n['’]t\b")
_HAVE = frozenset({"has", "have", "had"})
_WAS = frozenset({"was", "were", "had"})
_DO = frozenset({"do", "does", "did", "to", "stopped", "quit"})
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
class Found:
    """What a verb says of its subject, and where that ends."""

    predicate: str
    target: str
    end: int
    is_entity: bool
    polarity: int = 1
    modality: str = ""


def predicates(text: str, position: int, modality: str, *, any_verb: bool = False, before: str = "") -> list[Found]:
    """Return what the verbs from a position on say of one subject: "works at Norwind and lives in Bergen"."""
    said: list[Found] = []
    while True:
        found = _predicate(text, position, modality, any_verb, before)
        said += found
        if not found or (again := grammar.AGAIN.search(text, found[-1].end)) is None:
            return said
        position, before, any_verb = again.end(), "", False


def _predicate(text: str, position: int, modality: str, any_verb: bool, before: str) -> list[Found]:
    verb = grammar.VERB.match(text, position)
    assert verb is not None  # noqa: S101 - it may be empty
    helpers = [before, *_NOT.sub("", verb["before"].lower()).split()]
    polarity = -1 if _NOT.search(verb["before"]) or not NEGATION.isdisjoint(helpers) else 1
    if not modality:
        modality = "possible" if not MODAL.isdisjoint(helpers) else "past" if "used" in helpers else ""
    if not BE.isdisjoint(helpers):
        return _of_being(text, verb.end("before"), modality, polarity, helpers)
    said: list[Found] = []
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


def _after_verb(text: str, verb: str, position: int, modality: str, polarity: int) -> list[Found]:
    """Return what stands after a verb: its objects, or what its preposition leads to."""
    if (found := grammar.PREPOSITION.match(text, position)) is None:
        return _objects(text, position + 1, verb, modality, polarity) if text.startswith(" ", position) else []
    said: list[Found] = []
    if found["preposition"] == "of" and not verb.startswith(("consist", "approv", "dispos", "made", "die")):
        return []
    if found["preposition"] not in _WITHOUT_PLACE:
        predicate = " ".join(filter(None, [verb, found["particle"], found["preposition"]]))
        if found["preposition"] != "to" or _TARGET.match(text, found.end()):
            said = _objects(text, found.end(), predicate, modality, polarity)
        if said and found["preposition"] == "from" and text.startswith(" to ", said[-1].end):
            said += _objects(text, said[-1].end + 4, f"{verb} to", modality, polarity)
    return said


def passive(text: str, verb: re.Match[str], modality: str, polarity: int) -> list[Found]:
    """Return what follows a participle: "sent to Acme by Lucy" has two targets."""
    said: list[Found] = []
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


def _of_being(text: str, position: int, modality: str, polarity: int, helpers: list[str]) -> list[Found]:
    """Return what stands after "is": a participle, a role, a quality with a preposition, or a noun."""
    verb = grammar.PARTICIPLE.match(text, position)
    if verb is not None:
        if verb["verb"] in {"called", "named"} and text.startswith(" ", verb.end()):
            return _objects(text, verb.end() + 1, verb["verb"], modality, polarity)
        return passive(text, verb, modality, polarity)
    was = "" if _WAS.isdisjoint(helpers) else "was "
    if "going" in helpers or "to" in helpers:
        return []
    word = _PLAIN_WORD.match(text, position)
    if word is not None and word[0] in _BASES and word[0].endswith("ing"):
        return _after_verb(text, was + word[0] if was else _BASES[word[0]], word.end(), modality, polarity)
    if (place := grammar.PREPOSITION.match(text, position)) is not None:
        return _quality(text, place, "", modality, polarity)
    if (role := grammar.ROLE.match(text, position)) is not None:
        if role["no"]:
            polarity = -polarity
        if role["owner"]:
            return [Found(f"{was}{role['of']} of", role["owner"], role.end(), True, polarity, modality)]
        return _objects(text, role.end(), f"{was}{role['role']} of", modality, polarity)
    if word is not None and word[0] not in STOP_WORDS:
        place = grammar.PREPOSITION.match(text, word.end())
        return _quality(text, place, word[0] + " ", modality, polarity) if place is not None else []
    if _TARGET.match(text, position) is None:
        return []
    copula = next(helper for helper in reversed(helpers) if helper in BE)
    predicate = {"am": "is", "been": "was", "be": "is"}.get(copula, copula)
    return _objects(text, position, predicate, modality, polarity)


def _quality(text: str, place: re.Match[str], quality: str, modality: str, polarity: int) -> list[Found]:
    """Return what follows "allergic to", or a preposition alone: "is near"."""
    preposition = place["preposition"]
    has_target = _TARGET.match(text, place.end()) is not None
    if preposition in _WITHOUT_PLACE or (not has_target and (preposition == "to" or not quality)):
        return []
    return _objects(text, place.end(), quality + preposition, modality, polarity)


def _objects(text: str, position: int, predicate: str, modality: str, polarity: int) -> list[Found]:
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
        return [Found(predicate, name, end, True, polarity, modality)]
    is_entity = bool(found["name"] or found["definite"] or _IDENTIFIER.search(target))
    said = [Found(predicate, target.strip(MARKS), end, is_entity, polarity, modality)]
    while found["name"] and (more := grammar.NEXT.match(text, end)) is not None and len(said) < 50:
        end = more.end()
        said.append(Found(predicate, more["name"].strip(MARKS), end, True, polarity, modality))
    return [attrs.evolve(each, end=end) for each in said]
