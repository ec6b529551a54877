"""Cut out of a text the part that shows why it was found."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# Runs of letters and digits. Not \w: it drops the vowel signs of Hindi and Thai. Both are compiled when first needed,
# since most chunks are shown whole.
_WORD = r"[^\s\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f\u2010-\u203a\u3000-\u3003\u3008-\u3011\u200d\ufe0f]+"
_WITHOUT_SPACES = "[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]"
_ACCENTS = "\u00c0-\u024f\u1e00-\u1eff][\u0300-\u036f\u00ad\u200b-\u200d\u2060]*"  # after a Latin letter
_WORDS = 64
_CUT = "\u2026"


def snippet(text: str, query: str, length: int = 480) -> str:
    """Return the part of ``text``, about ``length`` characters at most, that has most of the query's words.

    An ellipsis marks what is left out before and after. If no word is found, it is the beginning.
    """
    start, end = best_part(text, query, length)
    return cut(text, start, end)


def cut(text: str, start: int, end: int) -> str:
    """Return a part of a text, with an ellipsis for what is left out before and after."""
    if end - start == len(text):
        return text
    return f"{_CUT if start else ''}{text[start:end].strip()}{_CUT if end < len(text) else ''}"


def best_part(text: str, query: str, length: int) -> tuple[int, int]:
    """Return where the part of a text begins and ends that `snippet` shows."""
    if len(text) <= length:
        return 0, len(text)
    first = start = _best_start(_matches(text, query), length)
    if start:
        # Show some of what leads up to the first match, from the beginning of a line or a word.
        start = max(0, min(start - length // 4, len(text) - length))
        start = min(first, _next_border(text, start)) if start else 0
    end = min(len(text), start + length)
    if end < len(text):
        line = text.rfind("\n", max(start, end - 40), end)
        border = line if line >= 0 else max(text.rfind(" ", start, end), text.rfind("\n", start, end))
        end = border if border > start + length // 2 else end
    return start, end


def _matches(text: str, query: str) -> list[tuple[int, str]]:
    """Return where words of the query begin in the text, and which."""
    return [(match.start(), match.group().lower()[:5]) for match in _pattern(query).finditer(text)]


@lru_cache(maxsize=8)
def _pattern(query: str) -> re.Pattern[str]:
    parts = []
    plain = unicodedata.normalize("NFC", re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", query)))
    for word in list(dict.fromkeys(re.findall(_WORD, plain)))[:_WORDS]:
        if not word.isascii() and re.search(_WITHOUT_SPACES, word):
            parts += [re.escape(word[start : start + 2]) for start in range(max(1, len(word) - 1))]
        else:
            # The beginning of a word stands for its forms: "decided" is shown where "decision" was asked for.
            start = re.sub("(?i)[a-z]", rf"[\g<0>{_ACCENTS}", re.escape(word[: max(4, min(27, len(word)) - 3)]))
            parts.append(rf"(?<!\w){start}" + r"(?!\w)" * (len(word) < 3))
    return re.compile("|".join(parts) or "(?!)", re.IGNORECASE)


def _best_start(matches: list[tuple[int, str]], length: int) -> int:
    """Return the match from which on most different words are within ``length``.

    Rarer words count for more, and so do numbers and names with digits.
    """
    count: dict[str, float] = {}
    for _, word in matches:
        count[word] = count.get(word, 0) + (0.5 if any(map(str.isdigit, word)) else 1)
    best, best_worth, end, last = 0, 0.0, 0, 0
    inside: dict[str, int] = {}
    worth = 0.0
    for position, word in matches:
        while last < len(matches) and matches[last][0] < position + length:
            found = matches[last][1]
            inside[found] = inside.get(found, 0) + 1
            worth += 1 / count[found] if inside[found] == 1 else 0
            last += 1
        if worth > best_worth + 1e-9:
            best, best_worth, end = position, worth, position + length
        elif best and position < end and worth > best_worth - 1e-9:
            best = position  # the same words are nearer to each other
        inside[word] -= 1
        worth -= 1 / count[word] if inside[word] == 0 else 0
    return best


def _next_border(text: str, start: int) -> int:
    """Return the beginning of the next line after ``start``, or else of the next word, if it comes soon."""
    line = text.find("\n", start, start + 40)
    if line >= 0:
        return line + 1
    space = text.find(" ", start, start + 20)
    return space + 1 if space >= 0 else start
