"""Writes memory files for measuring speed: prose that no one needs to read, the same at every call."""

from __future__ import annotations

import random
import time
from datetime import date, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["queries", "write"]

SEED = 20261129
FOLDERS = ("atlas", "juno", "decisions", "incidents")
# What makes up almost half of an English text.
COMMON = "the of and to a in is that it was for on are with as at be this from by have or not but what we they".split()
# So long that a section, its heading included, is more than half a chunk of 100 tokens (400 characters) and fits.
PARAGRAPH_CHARACTERS = 310
# An index does not trust the time stamp of a file that has only just been written, and reads it again.
SETTLING_SECONDS = 2.1


def vocabulary(chance: random.Random, size: int = 6_000) -> list[str]:
    """Return pronounceable words, most common first; some of the rare ones look like identifiers."""
    starts = "b br c ch d dr f fl g gr h j k l m n p pl qu r s sh st t th tr v w z".split()
    ends = "a al an ar e ed el en er i ic ing ion it o on or ous u um ure y".split()
    words: dict[str, None] = {}
    while len(words) < size:
        syllables = chance.choices((1, 2, 3), (2, 5, 3))[0]
        word = "".join(chance.choice(starts) + chance.choice(ends) for _ in range(syllables))
        if len(words) > size // 4 and chance.random() < 0.05:
            word = f"{word[:2].upper()}-{chance.randrange(100, 100_000)}"
        words[word] = None
    return list(words)


def write(workspace: Path, sections: int, sections_in_file: int) -> Path:
    """Write a workspace of so many sections, each about one chunk, unless it is there. The workspace."""
    written = workspace / "written"
    if written.exists():
        return workspace
    chance = random.Random(SEED)
    words = vocabulary(chance)
    # Zipf's law: the n-th commonest word is there a n-th as often as the commonest.
    weights = list(accumulate(1 / (rank + 10) for rank in range(len(words))))

    def draw(count: int) -> list[str]:
        rare = iter(chance.choices(words, cum_weights=weights, k=count))
        return [chance.choice(COMMON) if chance.random() < 0.45 else next(rare) for _ in range(count)]

    def heading() -> str:
        return " ".join(chance.choices(words, cum_weights=weights, k=3))

    def paragraph() -> str:
        text = ""
        while len(text) < PARAGRAPH_CHARACTERS - 20:
            text += f" {' '.join(draw(chance.randint(6, 16))).capitalize()}."
        return text.strip()[:PARAGRAPH_CHARACTERS]

    for number in range(-(-sections // sections_in_file)):
        day = date(2025, 1, 1) + timedelta(days=number // len(FOLDERS))
        folder = workspace / "memory" / FOLDERS[number % len(FOLDERS)]
        folder.mkdir(parents=True, exist_ok=True)
        count = min(sections_in_file, sections - number * sections_in_file)
        parts = [f"## {heading()}\n\n{paragraph()}\n" for _ in range(count)]
        (folder / f"{day}.md").write_text("\n".join(parts), "utf-8")
    # Words alone are compared; by meaning, embedding would be most of what is measured.
    (workspace / "kipu.toml").write_text('[search]\nstrategy = "keyword"\n', "utf-8")
    written.touch()
    time.sleep(SETTLING_SECONDS)
    return workspace


def queries(workspace: Path, count: int = 50) -> list[str]:
    """Return queries of three words that are near each other in the corpus, so that every system finds something."""
    chance = random.Random(SEED)
    files = sorted((workspace / "memory").rglob("*.md"))
    asked: list[str] = []
    while len(asked) < count:
        paragraphs = chance.choice(files).read_text("utf-8").split("\n\n")[1::2]
        words = [word.strip(".") for word in chance.choice(paragraphs).split()]
        telling = [word for word in words if len(word) > 3 and word.isalpha() and word not in COMMON]
        if len(telling) >= 3:
            start = chance.randrange(len(telling) - 2)
            asked.append(" ".join(telling[start : start + 3]).lower())
    return asked
