"""Find entries that say the same as a text, or nearly the same."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import date
from typing import TYPE_CHECKING

from ..errors import KipuError
from ..markdown import Entry, canonical, entries, format_entry
from ..search.validity import expiry
from ..sqlite import in_batches
from ..types import Place
from .files import read_file
from .supersede import find_entry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..context import Context

# From this share of common words on, two entries say nearly the same; or if one word of at least four is another.
_SIMILAR = 0.7
_FEWEST_COMMON = 3
_PUNCTUATION = ".,;:!?\"'()[]*_`"
_MAX_SIMILAR = 5
# Chunkers cut words that are longer than a chunk: the index does not have those as one.
_LONGEST_WORD = 40
_SHOWN_CHARACTERS = 80

Candidates = dict[str, list[tuple[str, Entry]]]  # by the texts as they are compared, with the paths of the files


async def find_candidates(
    context: Context, texts: Sequence[str], source: str | None, *, similar: bool = False
) -> Candidates:
    """Return the entries of the files of a source, or of all, in which any of some texts or a similar one may be."""
    paths, words = set[str](), set(map(probe_word, texts))
    if similar:  # their longest word may be the one that differs
        words |= {probe_word(text.replace(probe_word(text), " ")) for text in texts} - {""}
    async with context.database.reader() as connection:
        for marks, batch in in_batches(list(words)):
            rows = await connection.execute_fetchall(
                f"WITH words(word) AS (VALUES {marks.replace('?', '(?)')}) SELECT path FROM files WHERE "
                "source = ifnull(?, source) AND EXISTS "
                "(SELECT 1 FROM chunks CROSS JOIN words ON instr(text, word) WHERE file_id = files.id)",
                (*batch, source),
            )
            paths.update(row[0] for row in rows if context.scope.sees(row[0]))
    return await asyncio.to_thread(_read_entries, context, sorted(paths))


def _read_entries(context: Context, paths: Sequence[str]) -> Candidates:
    found: Candidates = {}
    for path in paths:
        with contextlib.suppress(KipuError):  # removed since, or not readable: it says nothing
            _, file = read_file(context.workspace, context.workspace.locate(path), path)
            for entry in entries(file.plain_lines):
                found.setdefault(canonical(entry.text), []).append((path, entry))
    return found


def probe_word(text: str) -> str:
    """Return the longest word of a text that can be looked up in the chunks of an index; "" if there is none."""
    words = [word.strip(_PUNCTUATION) for word in text.split() if word.isascii() and len(word) <= _LONGEST_WORD]
    return max(words, key=len, default="")


def find_duplicate(
    candidates: Candidates, text: str, metadata: Mapping[str, str], today: date
) -> tuple[str, Entry] | None:
    """Return the path and the entry that says exactly that, apart from white space and how letters are composed.

    An entry that is outdated does not: its text may be remembered again.
    """
    for path, entry in candidates.get(_as_entry(text), ()):
        if not _is_outdated(entry, metadata, today):
            return path, entry
    return None


def _as_entry(text: str) -> str:
    return canonical(entries(format_entry(text, {}))[0].text)


async def is_superseded(context: Context, candidates: Candidates, text: str, *, again: bool) -> bool:
    """Return whether something superseded an entry that says exactly that. A notice names it, or an expired entry."""
    for path, entry in candidates.get(_as_entry(text), ()):
        if by := entry.metadata.get("superseded_by"):
            place = await find_entry(context, by)
            by, outcome = f"{by} ({place})" if place else by, "is believed again beside it" if again else "was left out"
            context.notices.add(f'"{text[:_SHOWN_CHARACTERS]}" was superseded by {by}, and {outcome}.')
            return True
        if until := expiry(entry.metadata, context.config.today()):
            context.notices.add(f'"{text[:_SHOWN_CHARACTERS]}" is in {path}:{entry.start_line} too, {until[0]}.')
    return False


async def find_copies(context: Context, path: str, entry: Entry, source: str | None) -> list[Place]:
    """Return where else a source, or all that the scope sees, says what an entry of a file says, and believes it."""
    found = (await find_candidates(context, [entry.text], source)).get(canonical(entry.text), ())
    today = context.config.today()
    return [
        Place(name, each.start_line, each.end_line)
        for name, each in found
        if (name, each) != (path, entry) and not _is_outdated(each, entry.metadata, today)
    ]


def _is_outdated(entry: Entry, new: Mapping[str, str], today: date) -> bool:
    """Return whether an entry was superseded, or was valid until a day that is over, unless the new one was too."""
    if "superseded_by" in entry.metadata:
        return True
    until = entry.metadata.get("valid_until")
    if until is None or until == new.get("valid_until"):
        return False
    try:
        return date.fromisoformat(until) < today
    except ValueError:
        return False  # it was written by hand, and is not a date


def find_similar(candidates: Candidates, text: str) -> list[Place]:
    """Return the entries that say nearly the same, most similar first."""
    words = _words(text)
    places = []
    for said, found in candidates.items() if words else ():
        others = _words(said)
        common = len(words & others)
        share = common / (len(words) + len(others) - common)
        if share >= _SIMILAR or (common >= _FEWEST_COMMON and max(len(words), len(others)) == common + 1):
            places += [Place(path, entry.start_line, entry.end_line, round(share, 3)) for path, entry in found]
    return sorted(places, key=lambda place: -place.similarity)[:_MAX_SIMILAR]


def _words(text: str) -> set[str]:
    """Return the words of a text by which it is compared; of scripts without spaces, pairs of letters."""
    words = set()
    for word in canonical(text).casefold().split():
        bare = word.strip(_PUNCTUATION)
        if bare.isascii() or len(bare) < 3 or not any("\u2e80" <= char <= "\uffdc" for char in bare):
            words.add(bare)
        else:
            words |= {bare[place : place + 2] for place in range(len(bare) - 1)}
    return words - {""}
