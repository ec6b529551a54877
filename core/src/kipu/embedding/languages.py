"""The share of a text that is written in a script that none of an embedder's languages uses.

Only scripts are recognized, so German and English count as the same. Unicode's names of characters begin with the name
of their script, which is enough for letters.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Scripts, and the languages (ISO 639) that are written in them; every other language is taken to be in Latin.
_LISTED = """
ARABIC ar ckb fa ks ps sd ug ur; ARMENIAN hy; BENGALI as bn; CJK ja ko zh; DEVANAGARI hi mr ne sa; ETHIOPIC am ti;
CYRILLIC ab av ba be bg ce cv kk kv ky mk mn os ru sr tg tt uk; GEORGIAN ka; GREEK el; GUJARATI gu; GURMUKHI pa;
HANGUL ko; HEBREW he yi; HIRAGANA ja; KANNADA kn; KATAKANA ja; KHMER km; LAO lo; MALAYALAM ml; MYANMAR my; ORIYA or;
SINHALA si; TAMIL ta; TELUGU te; THAANA dv; THAI th; TIBETAN bo dz
"""
_SCRIPTS = {script: frozenset(codes) for script, *codes in map(str.split, _LISTED.split(";"))}


def foreign_share(text: str, languages: Sequence[str] | None) -> float:
    """Return the share of a text's letters, from 0 to 1, whose script none of the languages uses.

    0 where the languages are not known, and of a text without letters.
    """
    if languages is None:
        return 0.0
    known = _scripts_of(frozenset(language.lower().partition("-")[0] for language in languages))
    letters = [character for character in unicodedata.normalize("NFKC", text) if character.isalpha()]
    return sum(_script(letter) not in known for letter in letters) / len(letters) if letters else 0.0


def _scripts_of(languages: frozenset[str]) -> frozenset[str]:
    scripts = {script for script, codes in _SCRIPTS.items() if languages & codes}
    return frozenset(scripts | {"LATIN"} if languages.difference(*_SCRIPTS.values()) else scripts)


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "").replace("-", " ").partition(" ")[0]
