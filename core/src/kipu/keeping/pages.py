"""Search the files in ``.kipu/`` for words of a text that was forgotten."""

from __future__ import annotations

import asyncio
import os
from glob import escape, glob
from typing import TYPE_CHECKING

from ..index.file import INDEX_FILE
from ..index.queries import CHUNKS_AND_FILES
from ..workspace.paths import HIDDEN_FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..context import Context

BYTES_AT_A_TIME = 8_000_000
INDEX = f"{HIDDEN_FOLDER}/{INDEX_FILE}"
MARK = "forgetting"
"""A file that is there while a text is being forgotten, and says of which file."""

SHORTEST_WORD = 6
_MAX_WORDS = 10


async def _find_unique_words(context: Context, text: str) -> list[bytes]:
    """Return words of a text that the memory has nowhere else: a page that has one of them has a part of the text.

    They are as SQLite has them, with small ASCII letters. A line counts as a word: it may have only short ones.
    """
    words = {word.strip(" -.,;:!?\"'()[]{}*_`<>") for word in (*text.split(), *text.split("\n"))}
    small = {word.encode().lower() for word in words}
    long = sorted((word for word in small if len(word) >= SHORTEST_WORD), key=lambda word: (-len(word), word))
    candidates = [word.decode() for word in long[: 5 * _MAX_WORDS]]
    if not candidates:
        return []
    async with context.database.reader() as connection:
        # The names of tables and columns, and what embedders are called, are in the file of the index as well.
        rows = await connection.execute_fetchall(
            f"WITH candidates(word) AS (VALUES {', '.join(['(?)'] * len(candidates))}) SELECT word FROM candidates "
            f"WHERE NOT EXISTS (SELECT 1 FROM {CHUNKS_AND_FILES} WHERE instr(lower(text), word) "
            "OR instr(lower(context), word) OR instr(lower(heading), word) OR instr(lower(path), word)) "
            "AND NOT EXISTS (SELECT 1 FROM sqlite_master WHERE instr(lower(sql), word)) "
            "AND NOT EXISTS (SELECT 1 FROM spaces WHERE instr(lower(identity || recipe), word)) "
            "AND NOT EXISTS (SELECT 1 FROM annotations WHERE instr(lower(identity || annotation), word)) "
            f"AND NOT EXISTS (SELECT 1 FROM strategies WHERE instr(lower(name), word)) LIMIT {_MAX_WORDS}",
            candidates,
        )
    return [row[0].encode() for row in rows]


async def search_pages(context: Context, real: str, text: str) -> dict[str, int]:
    """Return how many words of a text are in each file of the index, and in what else has some; {} without words.

    :param real: the file that the text was in.
    """
    words = await _find_unique_words(context, text)
    return await asyncio.to_thread(_count_on_pages, context, real, words) if words else {}


def _count_on_pages(context: Context, real: str, words: Sequence[bytes]) -> dict[str, int]:
    folder, found = str(context.workspace.root / HIDDEN_FOLDER), {}
    paths = [os.path.join(above, name) for above, _, names in os.walk(folder) for name in names]
    # Temporary files that a killed process left beside a file on another disk.
    paths += glob(f"{escape(os.path.dirname(real))}/.kipu-*")
    for path in sorted(paths):
        is_checked = os.path.isfile(path) and not os.path.islink(path)
        if is_checked and not path.endswith(("-shm", ".lock", f"{os.sep}{MARK}")):
            place = context.workspace.name_of(os.path.realpath(path))
            if (count := _count_words(path, words)) or place.startswith(INDEX):
                found[place] = count
    return found


def _count_words(path: str, words: Sequence[bytes]) -> int:
    """Return how many of some words are anywhere in a file, in lower or upper case."""
    missing, rest, overlap = set(words), b"", max(map(len, words))
    try:
        with open(path, "rb") as file:
            while missing and (part := file.read(BYTES_AT_A_TIME)):
                data = (rest + part).lower()
                missing = {word for word in missing if word not in data}
                rest = data[-overlap:]
    except FileNotFoundError:
        return 0
    except OSError:  # it may have them
        return len(words)
    return len(words) - len(missing)
