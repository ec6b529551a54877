"""What a page is about: the subject of what its lines say without a subject."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from .names import DATE_WORDS, STOP_WORDS
from .words import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["page_title", "plain", "section", "split_aliases", "subject"]

_MARKUP = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]|[`*]|(?<!\w)_|_(?!\w)|^#+\s+|\s#+$")
_WITH_DATE = re.compile(r"\d{4}-\d\d(?:-\d\d)?|\d{8}|(?:19|20)\d\d|w\d\d?|q[1-4]|\d+", re.IGNORECASE)
_JOINING = {"of", "the", "and", "for", "in", "de", "la", "van", "von", "der", "du", "del", "to", "on", "&"}
# Sections of a page, and folders for anything: not what a page is about.
_SECTIONS = frozenset(
    """about abstract action actions agenda alternative alternatives answers api appendix architecture attendees
    background backwards bio bugs calendar case cases changelog changes chapter chat chats comments
    compatibility conclusion config configuration consideration considerations contact contacts contents context
    convention conventions conversation conversations copyright daily day decision decisions definition
    definitions description design designs details dialog dialogue discussion discussions done entities example
    examples facts family faq features feedback general glossary goals health history hobbies home ideas
    implementation index info information install installation interests interface intro introduction issues
    journal knowledge learnings links list log logs main meeting meetings memories memory metadata minutes misc
    miscellaneous month motivation nd next note notes observations open other overview part people person
    personal place places plan plans preferences problems profile progress project projects properties purpose
    questions rationale rd readme references related relations relationships requirements resources results
    review reviews risks roadmap runbook scope scratch section security see session sessions settings setup
    skills specification st status steps summary table tags task tasks team term terms test tests th timeline
    tips today todo todos tools topics untitled updates usage user users version versions week work yesterday""".split()
)

_ARTICLE = re.compile(r"(?:the|an?|our|my)\s", re.IGNORECASE)
_LONGEST_TITLE = 80
_NOT_A_NAME = _SECTIONS | STOP_WORDS | DATE_WORDS


def plain(text: str) -> str:
    """Return a text without the marks of links, code and emphasis."""
    return " ".join(_MARKUP.sub(r"\1", text).split())


@lru_cache(maxsize=1_000)
def subject(heading: str, path: str, level: int = 1) -> str:
    """Return the innermost heading that is a name, or else what the file is about; an empty text if both are none.

    A file is about its name, or about the name in its title if its own name is no part of that: "Billing service".

    :param heading: the headings above a chunk, joined by " > ".
    :param level: the level of the innermost one.
    """
    titles = [plain(title) for title in heading.split(" > ")]
    if name := next(filter(_is_name, reversed(titles)), ""):
        return name
    page = page_title(path)
    if page and (level != len(titles) or set(page.casefold().split()) <= set(titles[0].casefold().split())):
        return page
    return next(filter(None, map(_name_of_kind, reversed(titles) if not page else titles[:1])), page)


@lru_cache(maxsize=1_000)
def section(heading: str) -> str:
    """Return the innermost heading that says something, whether it is a name or not, or an empty text."""
    titles = (plain(title) for title in reversed(heading.split(" > ")))
    return next((title for title in titles if 0 < len(title) <= _LONGEST_TITLE and not _says_nothing(title)), "")


@lru_cache(maxsize=1_000)
def page_title(path: str) -> str:
    """Return the name of a file as a title, or an empty text if it is a date or says nothing."""
    name = path.rpartition("/")[2]
    title = " ".join(re.split(r"[-_\s]+", name.rpartition(".")[0] or name))
    return "" if not title or _says_nothing(title) or _WITH_DATE.match(name) else title


def split_aliases(values: Sequence[str]) -> list[str]:
    """Return the names in a value of front matter: the items of a list, or what commas separate in a text."""
    parts = values[0].split(",") if len(values) == 1 else values
    return [part.strip() for part in parts if part.strip()]


def _says_nothing(title: str) -> bool:
    words = re.findall(r"\w+", title.casefold())
    return all(word in _NOT_A_NAME or _WITH_DATE.fullmatch(word) for word in words)


def _name_of_kind(title: str) -> str:
    """Return the name in a title that also says what it is, such as "Billing service"; an empty text otherwise."""
    words = _ARTICLE.sub("", title).split()
    if len(words) < 2 or words[-1] not in KINDS:
        return ""
    name = " ".join(words[:-1])
    return name if _is_name(name) else ""


def _is_name(title: str) -> bool:
    words = title.split()
    if not 1 <= len(words) <= 6 or len(title) > _LONGEST_TITLE or title[-1] in "?.!:" or _says_nothing(title):
        return False
    return all(not word[0].islower() or word in _JOINING or re.search(r"[\d._/A-Z]", word) for word in words)
