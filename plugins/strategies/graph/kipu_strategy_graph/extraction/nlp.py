"""Statements of sentences that spaCy parses, with any pipeline that is installed: more of them, and slower."""

from __future__ import annotations

import importlib.util
import re
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kipu.errors import ConfigurationError

from .names import STOP_WORDS
from .records import Relation
from .words import ATTITUDES, singular, without_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    # spaCy is optional, and has types of its own that would be needed to check ours.
    Token = Any
    Target = tuple[str, Token]

__all__ = ["Parser", "identity", "load"]

_SUBJECTS = {"nsubj", "nsubjpass", "nsubj:pass", "csubj"}
_PASSIVE = {"auxpass", "aux:pass"}
_MODAL = frozenset("may might could would should will can must shall ca wo 'll ’ll 'd ’d".split())
_COPULAS = {"is", "was", "are", "were", "in", "at", "on"}
_GUESSES = {"maybe", "perhaps", "probably", "possibly", "apparently"}
_CONDITIONS = {"if", "whether", "unless", "when", "once"}
_NEGATIONS = {"not", "n't", "n’t", "never", "no longer", "hardly", "barely", "scarcely", "rarely", "seldom"}
_BEFORE_NOUN = {"compound", "amod", "nummod", "nmod", "poss", "case", "quantmod", "advmod", "punct", "flat", "npadvmod"}
_LONGEST = 10_000
_MOST_CONJUNCTS = 20  # each subject is joined to each object
_LINK = re.compile(r"\[\[([^\[\]|#\n]{1,100})[^\[\]\n]{0,200}\]\]")
_MARKS = {ord(mark): None for mark in "`*"}
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
# Objects after these say when or why, and with whom only beside another object.
_NOT_AN_OBJECT = {"as", "after", "before", "during", "until", "since", "because", "than", "like", "about", "against"}


def identity(name: str) -> str:
    """Return the name and version of a pipeline, without loading it: another one reads other relations.

    :param name: the name of an installed pipeline, such as "en_core_web_sm", or a path to one.
    :raises ConfigurationError: spaCy or the pipeline is not installed.
    """
    if not _is_installed("spacy"):
        raise ConfigurationError(f"The option nlp = {name!r} needs spaCy: pip install 'kipu[nlp]'")
    if name and (folder := Path(name)).is_dir():
        described = folder / "meta.json"
        return f"{name} {described.stat().st_mtime_ns if described.is_file() else ''}"
    if not name.isidentifier() or not _is_installed(name):
        installed = sorted(entry.name for entry in metadata.entry_points(group="spacy_models"))
        raise ConfigurationError(
            f"The spaCy pipeline {name!r} is not installed; installed: {', '.join(installed) or 'none'}. Set nlp to "
            "one of them, or install it, as with `python -m spacy download en_core_web_sm`."
        )
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return name


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # it is blocked
        return False


@lru_cache(maxsize=2)
def load(name: str) -> Parser:
    """Return the parser of a pipeline, which is loaded once."""
    return Parser(name)


class Parser:
    """A spaCy pipeline that reads relations.

    :param name: the name of an installed pipeline, such as "en_core_web_sm", or a path to one.
    :raises ConfigurationError: spaCy or the pipeline is not installed, or the pipeline does not parse.
    """

    def __init__(self, name: str) -> None:
        identity(name)
        import spacy

        try:
            self._pipeline = spacy.load(name, exclude=["ner", "textcat"])
        except (OSError, ValueError, ImportError) as error:
            raise ConfigurationError(f"The spaCy pipeline {name!r} cannot be loaded: {error}") from error
        if "parser" not in self._pipeline.pipe_names:
            raise ConfigurationError(
                f"The spaCy pipeline {name!r} has no parser of dependencies. Set nlp to one with, as en_core_web_sm."
            )

    def relations(self, text: str, subject: str, speaker: str = "") -> list[Relation]:
        """Return the statements of a paragraph; of its first 10,000 characters.

        :param subject: the subject of "he", "she" and "it"; empty to leave such statements out.
        :param speaker: the subject of "I"; likewise.
        """
        pronouns = {"he": subject, "she": subject, "it": subject, "i": speaker}
        text = text[:_LONGEST].encode("utf-8", "replace").decode("utf-8")  # halves of characters cannot be parsed
        document = self._pipeline(" ".join(_LINK.sub(r"\1", text).translate(_MARKS).split()))
        found: dict[tuple[str, str, str], Relation] = {}
        for sentence in document.sents:
            reader = _Reader(sentence, pronouns)
            for token in sentence:
                for relation in reader.read(token):
                    found.setdefault((relation.source, relation.predicate, relation.target), relation)
        return list(found.values())


class _Reader:
    """Reads the statements that begin at the words of a sentence."""

    def __init__(self, sentence: Token, pronouns: dict[str, str]) -> None:
        self._sentence = sentence
        self._text = sentence.text.strip()
        self._pronouns = pronouns

    def read(self, token: Token) -> Iterator[Relation]:
        if token.pos_ in {"VERB", "AUX"} and token.dep_ not in {"aux", *_PASSIVE}:
            yield from self._verb(token)
        for child in token.children:
            if child.dep_ == "appos" and child.pos_ in {"PROPN", "NOUN"}:
                yield from self._apposition(token, child)

    def _apposition(self, noun: Token, other: Token) -> Iterator[Relation]:
        owner = _child(noun, "poss")
        if owner is not None and owner.pos_ == "PROPN" and other.pos_ == "PROPN":  # Elsa's brother, Timo
            yield self._relation(_name(owner), _name(noun, without=owner), other)
        elif noun.pos_ == "PROPN" and other.pos_ == "NOUN" and _child(other, "det") is not None:  # Greta, a nurse
            yield self._relation(_name(noun), "is", other)

    def _verb(self, verb: Token) -> Iterator[Relation]:
        subjects = [*_subjects(verb)]
        modality = self._modality(verb)
        polarity = -1 if any(_is_negation(child) for child in verb.children) else 1
        said = [*_said(verb)] if subjects and (modality or verb.lower_ not in ATTITUDES) else []
        for noun in subjects:
            owner = _owner(noun) if verb.lemma_ == "be" else None
            for predicate, target in said:
                if owner is not None and predicate in _COPULAS:  # Ingrid's manager is Paul
                    source, predicate = _name(owner), _name(noun, without=owner)  # noqa: PLW2901 - of this role
                else:
                    source = self._source(noun)
                denied = _child(target, "det")
                sign = -polarity if denied is not None and denied.lower_ == "no" else polarity
                if source:
                    yield self._relation(source, predicate, target, sign, modality)

    def _source(self, noun: Token) -> str:
        if noun.pos_ == "PRON":
            return self._pronouns.get(noun.lower_, "")
        name = without_kind(_name(noun))
        return "" if name.casefold() in STOP_WORDS else name

    def _modality(self, verb: Token) -> str:
        if self._text.endswith("?"):
            return "question"
        for word in [verb, *verb.ancestors]:
            below = [child.lower_ for child in word.children if child.dep_ in {"aux", "advmod", "mark"}]
            if not _CONDITIONS.isdisjoint(below) and word.dep_ in {"advcl", "ccomp", "ROOT"}:
                return "condition"
            if not (_MODAL | _GUESSES).isdisjoint(below):
                return "possible"
            if word.dep_ in {"xcomp", "ccomp", "pcomp", "acl"} and word.head.pos_ in {"VERB", "ADJ", "AUX"}:
                if word.head.lemma_ == "use" and word.head.lower_ == "used":
                    return "past"
                return "possible"  # what one wants, tries or thinks
            if word.dep_ not in {"conj", "relcl"}:
                break
        return ""

    def _relation(self, source: str, predicate: str, target: Token, polarity: int = 1, modality: str = "") -> Relation:
        name = without_kind(_name(target))
        determiner = _child(target, "det")
        definite = determiner is not None and determiner.lower_ == "the"
        is_entity = target.pos_ == "PROPN" or definite or bool(re.search(r"\d", name) and re.search(r"[^\W\d]", name))
        return Relation(source, predicate, name, self._text, "nlp", polarity, modality, 0.9, is_entity=is_entity)


def _child(token: Token, *labels: str) -> Token | None:
    return next((child for child in token.children if child.dep_ in labels), None)


def _owner(noun: Token) -> Token | None:
    """Return whose role a noun is: "Ingrid" of "Ingrid's manager" and of "the manager of Ingrid"."""
    of = next((child for child in noun.children if child.dep_ == "prep" and child.lower_ == "of"), None)
    owner = _child(noun, "poss") or (_child(of, "pobj") if of is not None else None)
    return owner if owner is not None and owner.pos_ == "PROPN" and noun.pos_ == "NOUN" else None


def _with_conjuncts(token: Token) -> list[Token]:
    return [token, *token.conjuncts[:_MOST_CONJUNCTS]]


def _is_negation(child: Token) -> bool:
    if child.dep_ == "neg" or child.lower_ in _NEGATIONS:
        return True
    return child.lower_ == "longer" and any(each.lower_ == "no" for each in child.children)


def _subjects(verb: Token) -> list[Token]:
    """Return the subjects of a verb: its own, those of the verb that it is joined to, or the noun that it describes."""
    own = [child for child in verb.children if child.dep_ in _SUBJECTS]
    if verb.dep_ == "relcl" and (not own or own[0].tag_ in {"WP", "WDT"}):
        return _with_conjuncts(verb.head)[:1]
    if own:
        return [noun for child in own for noun in _with_conjuncts(_named(child))]
    if verb.dep_ == "acl" and verb.tag_ == "VBN":
        return [verb.head] if verb.head.dep_ in _SUBJECTS or verb.head.pos_ == "PROPN" else []
    if verb.dep_ == "conj" and verb.head.pos_ in {"VERB", "AUX"}:
        return _subjects(verb.head)
    return []


def _named(noun: Token) -> Token:
    """Return the name of a role: "Timo" for "Elsa's brother, Timo"."""
    name = _child(noun, "appos") if _child(noun, "poss") is not None else None
    return name if name is not None and name.pos_ == "PROPN" else noun


def _said(verb: Token) -> Iterator[Target]:
    """Yield the predicates of a verb, each with its target."""
    if verb.lemma_ == "be":
        yield from _of_being(verb)
        return
    passive = _child(verb, *_PASSIVE) is not None or (verb.dep_ == "acl" and verb.tag_ == "VBN")
    if verb.dep_ == "conj" and verb.tag_ == "VBN" and _child(verb.head, *_PASSIVE) is not None:
        passive = passive or not _child(verb, "dobj", "aux")
    particle = _child(verb, "prt")
    start = verb.lower_ if passive or verb.tag_ in {"VBD", "VBN", "VBZ"} else singular(verb.lemma_.lower())
    if particle is not None:
        start += f" {particle.lower_}"
    named = _child(verb, "oprd")
    if named is not None and passive:
        yield from ((start, target) for target in _with_conjuncts(named))
    objects = [child for child in verb.children if child.dep_ in {"dobj", "obj"}]
    if objects and not passive:
        yield from ((start, target) for each in objects for target in _with_conjuncts(each) if _is_target(target))
        return
    places = [*_places(verb)]
    for number, (preposition, target) in enumerate(places):
        if passive or number == 0 or places[0][0] == "from":
            yield f"{start} {preposition}", target


def _places(word: Token) -> Iterator[Target]:
    """Yield the prepositions of a word, each with what it leads to."""
    for child in word.children:
        if child.dep_ in {"prep", "agent"} and child.lower_ not in _NOT_AN_OBJECT:
            for found in child.children:
                if found.dep_ == "pobj":
                    yield from ((child.lower_, target) for target in _with_conjuncts(found) if _is_target(target))
                elif found.dep_ == "prep" and (inner := _child(found, "pobj")) is not None:  # up to, out of
                    yield f"{child.lower_} {found.lower_}", inner


def _is_target(noun: Token) -> bool:
    if noun.pos_ not in {"NOUN", "PROPN", "NUM", "X", "ADJ", "VERB"} and not noun.text[:1].isupper():
        return False
    return not _YEAR.fullmatch(noun.text)


def _of_being(verb: Token) -> Iterator[Target]:
    """Yield what "is" says: a role, a noun, a quality with a preposition, or a place."""
    attribute = _child(verb, "attr", "oprd")
    if attribute is not None:
        owner = _child(attribute, "poss")
        of = next((target for preposition, target in _places(attribute) if preposition == "of"), None)
        if owner is not None and owner.pos_ == "PROPN":  # Anders's sister
            yield f"{_name(attribute, without=owner)} of", owner
        elif of is not None and attribute.pos_ == "NOUN":  # the mother of Zayd
            yield f"{_name(attribute)} of", of
        else:
            yield from ((verb.lower_, target) for target in _with_conjuncts(attribute) if _is_target(target))
        return
    quality = _child(verb, "acomp")
    for preposition, target in _places(quality if quality is not None else verb):
        yield f"{quality.lower_} {preposition}" if quality is not None else preposition, target


def _name(noun: Token, without: Token | None = None) -> str:
    """Return a noun with the words that belong to it in front of it, and the number or name behind it."""
    words = [noun]
    for child in noun.children:
        before = child.i < noun.i and child.dep_ in _BEFORE_NOUN and child is not without
        if before and not (child.dep_ == "poss" and child.pos_ == "PRON"):
            words += [each for each in child.subtree if each.i < noun.i and each.dep_ not in {"det", "prep", "pobj"}]
        elif child.i == noun.i + 1 and child.dep_ in {"nummod", "nmod", "flat"}:
            words.append(child)
    if without is not None:
        inside = set(without.subtree)
        words = [word for word in words if word not in inside]
    of = _child(noun, "prep")
    inner = _child(of, "pobj") if of is not None and of.lower_ == "of" else None
    if noun.pos_ == "PROPN" and of is not None and inner is not None and inner.pos_ == "PROPN":
        words += [of, *(each for each in inner.subtree if each.i <= inner.i)]
    words.sort(key=lambda word: word.i)
    text = "".join(word.text_with_ws for word in words).strip(" ,\"'“”`*[]")
    return " ".join(text.split())
