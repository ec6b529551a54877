"""The share of a text that is written in none of an embedder's languages.

A script is recognized by letter: Unicode's names of characters begin with its name. Of the languages in Latin, some
that are written much are recognized by words that any sentence in them has, and the rest counts as known.
"""

from __future__ import annotations

import re
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
# Words of questions, and others that any sentence needs.
_FREQUENT = """
cs byl co jak jaké jaký je jsou kde kdo kdy kolik která který na nebo od pro proč se že;
da af den der det er et hvad hvem hvilken hvilket hvor hvordan hvorfor hvornår ikke og på til;
de als auf aus das dem den der des die ein eine für hat im ist mit nicht sind und vom von wann warum welche welcher
welches wem wer wie wo wurde zu zum zur;
en a about an and are at by can did do does for from had has have how in is it my of on should tell that the this to was
were what when where which who whom whose why with you your;
es cuál cuándo cuánto cuántos cómo de del donde dónde el en es la las los para por que quién qué se una y;
fr au combien comment dans de des du en est et la le les où par pour pourquoi quand que quel quelle quels qui sur un
une;
it che chi come cosa da del della di dove gli il in la le per perché quale quali quando quanti quanto sono un una è;
nl de een en het hoe hoeveel is niet van voor waar waarom wanneer wat welk welke wie zijn;
pl co czy gdzie ile jak jaka jaki jakie jest kiedy kto która który na nie od się w z;
pt como da de do dos em na no o onde os para por qual quais quando quantos que quem são um uma é;
sv att det en ett för hur i inte med när och på som till vad var varför vem vilka vilken är;
tr bir bu da de en hangi hangisi ile için kaç ki kim kimin mi mı nasıl ne neden nedir nerede ve zaman
"""
_WORDS = {code: frozenset(words) for code, *words in map(str.split, _FREQUENT.split(";"))}
_UNKNOWN_OF_LATIN = 0.6
"""The share of a text in another language in Latin that a model does not know: names and many words are the same."""
_SCRIPTS = {script: frozenset(codes) for script, *codes in map(str.split, _LISTED.split(";"))}


def foreign_share(text: str, languages: Sequence[str] | None) -> float:
    """Return the share of a text, from 0 to 1, that is in none of the languages, as far as that is recognized.

    0 where the languages are not known, and of a text without letters.
    """
    if languages is None:
        return 0.0
    text = unicodedata.normalize("NFKC", text)
    codes = frozenset(language.lower().partition("-")[0] for language in languages)
    known = _scripts_of(codes)
    letters = [character for character in text if character.isalpha()]
    share = sum(_script(letter) not in known for letter in letters) / len(letters) if letters else 0.0
    return max(share, _UNKNOWN_OF_LATIN) if _is_foreign(text, codes) else share


def _is_foreign(text: str, codes: frozenset[str]) -> bool:
    """Return whether a text has more words of another language than of those; one word is no sign of a language."""
    words = set(re.findall(r"\w+", text.casefold()))
    counts = {code: len(words & frequent) for code, frequent in _WORDS.items()}
    if not codes & counts.keys():
        return False
    own = max(counts[code] for code in codes & counts.keys())
    return max(counts.values()) > max(1, own)


def _scripts_of(languages: frozenset[str]) -> frozenset[str]:
    scripts = {script for script, codes in _SCRIPTS.items() if languages & codes}
    return frozenset(scripts | {"LATIN"} if languages.difference(*_SCRIPTS.values()) else scripts)


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    return unicodedata.name(letter, "").replace("-", " ").partition(" ")[0]
