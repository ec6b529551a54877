"""Remember a text: write it to a memory file as an entry, unless the memory says it already."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import FileChangedError, QueryError
from ..index.recovery import recovering
from ..markdown import canonical, check_metadata, entries, format_entry, normalize_text
from ..markdown.entry import check_characters
from ..search.duplicates import list_places
from ..search.query import texts_of
from ..search.quotation import without_recalled
from ..types import Note, Place
from ..workspace.paths import date_of
from ..workspace.text import TextFile
from .duplicates import find_candidates, find_copies, find_duplicate, find_similar, is_superseded
from .edits import append, check_heading, dedent
from .files import read_file
from .named import ids_of, resolve_place
from .sections import describe_choice, sections
from .step import FileChange
from .supersede import add_metadata, entry_of, find_entry, mark_superseded
from .targets import find_chunks_at, resolve_destination
from .writer import retried

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from ..context import Context
    from ..markdown import Entry
    from .targets import Target
    from .writer import Writer

# How much is shown of what was superseded, so that a caller who named wrong lines sees it.
_SHOWN_CHARACTERS = 80


class Destination(NamedTuple):
    """Where an entry is added: a file, by its path and its real path, and a heading in it."""

    path: str
    real: str
    heading: str | None = None


@recovering
async def remember(
    writer: Writer,
    text: str,
    *,
    source: str | None,
    file: str | os.PathLike[str] | None,
    heading: str | None,
    tags: str | Sequence[str] | None,
    metadata: Mapping[str, Any] | None,
    supersedes: str | None,
) -> Note:
    """Write one entry, or those of a list. See `kipu.Memory.remember`."""
    context, today = writer.context, writer.context.config.today()
    texts, known = _items(_new_text(context, normalize_text(text))), check_metadata(metadata)
    if given := texts_of("tags", tags, "a tag such as infrastructure"):
        check_characters("A tag", "".join(tags or ()))
        known |= check_metadata({"tags": [*filter(None, [known.get("tags")]), *given]})
    if len(texts) > 1 and (supersedes is not None or "id" in known):
        raise QueryError("A list becomes several entries. Give an id, or what is superseded, with one of them alone.")
    title = None if heading is None else check_heading(heading)
    path, real = resolve_destination(context, source, file)
    async with writer.locked():
        texts = [await writer.filter(item, path) for item in texts]
        known = await writer.filter_metadata(known, path)
        title = None if title is None else await writer.filter(title, path, where="In the heading: ")
        await writer.refuse_secret_names(path)
        if "id" in known and (place := await find_entry(context, known["id"])):
            raise QueryError(f'There is an entry with the id "{known["id"]}" already: {place}. Give another one.')
        destination = Destination(path, real, title)
        if len(texts) > 1 and (new := await add_entries(writer, texts, destination, known, "remember")):
            if len(new) < len(texts):
                context.notices.add(f"{len(texts) - len(new)} of {len(texts)} items are remembered already.")
            text = "\n".join(line for note in new for line in format_entry(note.text, {}))
            return Note(path, new[0].start_line, new[-1].end_line, text, change=new[0].change)
        text = texts[0]  # of a list that is remembered already
        old = None if supersedes is None else await resolve_place(context, supersedes)
        candidates = await find_candidates(context, [text], context.workspace.source_of(path), similar=True)
        if duplicate := await asyncio.to_thread(find_duplicate, candidates, text, known, today):
            return await _keep_duplicate(writer, text, duplicate, old, known)
        if old is not None:
            await _check_not_superseded(context, old, known.get("id"))
        else:
            await is_superseded(context, candidates, text, again=True)
        known = await _with_id(context, path, text, known, is_named=old is not None)
        similar = await asyncio.to_thread(find_similar, candidates, text)
        lines = format_entry(text, known)
        (place,), change = await _add(writer, destination, [lines], "remember", old, known.get("id", ""))
        if old is not None:
            first = old.text.strip().split("\n")[0][:_SHOWN_CHARACTERS]
            context.notices.add(f"It supersedes {old.place}: {first}")
        await writer.index(path, *([old.path] if old else []))
        await _note_copies(context, old, text)
        (chunk,), (id,) = await find_chunks_at(writer, [place]), await _ids(context, path, [lines])
    return Note(path, place.start_line, place.end_line, text, chunk, None, similar, id, change=change)


def _new_text(context: Context, text: str) -> str:
    """Return a text without what `recall` returned.

    :raises QueryError: nothing is left of it.
    """
    new = without_recalled(text)
    if new == text:
        return text
    if not any(map(str.isalnum, new)):
        raise QueryError("There is nothing to remember: the text is what recall returned, which is remembered already.")
    context.notices.add("What recall returned was left out of the text: it is remembered already.")
    return normalize_text(new)


def _items(text: str) -> list[str]:
    """Return what the items of a list say, if a text is one: they become items again. Return any other as it is."""
    lines = dedent(text.split("\n"))
    found = [each for each in entries(lines) if each.is_item and not each.metadata and any(map(str.isalnum, each.text))]
    marked = [entry for entry in found if lines[entry.start_line - 1].lstrip()[0] in "-*+"]
    inside = {number for entry in marked for number in range(entry.start_line, entry.end_line + 1)}
    is_list = all(number in inside or not line.strip() for number, line in enumerate(lines, 1))
    return [entry.text for entry in found] if is_list else [text]


async def add_entries(
    writer: Writer, texts: Sequence[str], destination: Destination, metadata: Mapping[str, str], kind: str
) -> list[Note]:
    """Write several entries to the end of one file, all or none; leave out those that exist. Call it with the lock.

    :param texts: as write filters returned them.
    """
    context, path = writer.context, destination.path
    new = await filter_new(context, texts, path, metadata, again=kind == "remember")
    if not new:
        return []
    formatted = [format_entry(text, await _with_id(context, path, text, metadata)) for text in new]
    places, change = await _add(writer, destination, formatted, kind)
    await writer.index(path)
    chunks, ids = await find_chunks_at(writer, places), await _ids(context, path, formatted)
    return [
        Note(path, place.start_line, place.end_line, text, chunk, id=id, change=change)
        for place, text, chunk, id in zip(places, new, chunks, ids, strict=True)
    ]


async def _with_id(
    context: Context, path: str, text: str, metadata: Mapping[str, str], *, is_named: bool = False
) -> dict[str, str]:
    """Return metadata with an id if that is to be in the file: another entry names it, or one says the same.

    What says the same is not believed any more, and has the id that is derived from the text.
    """
    (derived,) = await _ids(context, path, [format_entry(text, {})])
    unused, number = derived, 2
    while await find_entry(context, unused):
        unused, number = f"{derived}{number}", number + 1
    return {**metadata, "id": metadata.get("id", unused)} if is_named or unused != derived else {**metadata}


async def _ids(context: Context, path: str, formatted: Sequence[Sequence[str]]) -> list[str]:
    """Return the ids of entries by their lines."""
    return await ids_of(context, [(path, entries(lines)[0]) for lines in formatted])


async def filter_new(
    context: Context, texts: Sequence[str], path: str, metadata: Mapping[str, str], *, again: bool = False
) -> list[str]:
    """Return those of several texts that the source of a file does not say yet, or not any more if ``again``."""
    new: dict[str, str] = {}
    texts = [normalize_text(text) for text in texts]
    candidates = await find_candidates(context, texts, context.workspace.source_of(path))
    for text in texts:
        if find_duplicate(candidates, text, metadata, context.config.today()):
            continue
        if not await is_superseded(context, candidates, text, again=again) or again:
            new.setdefault(canonical(text), text)
    return list(new.values())


@retried(FileChangedError, attempts=5)
async def _add(
    writer: Writer,
    destination: Destination,
    formatted: Sequence[Sequence[str]],
    kind: str,
    old: Target | None = None,
    id: str = "",
) -> tuple[list[Place], str | None]:
    """Append entries to a file, and mark the entry that they supersede.

    Return where they are, and the name of the change.
    """
    path, real, heading = destination
    data, file = await asyncio.to_thread(read_file, writer.context.workspace, real, path)
    if data is None:
        file = _new_file(writer.context, path)
    file, changes = await _supersede(writer, file, destination, old, id)
    if heading is not None and (notice := describe_choice(sections(file.plain_lines), heading, path)):
        writer.context.notices.add(notice)
    file, start = append(file, formatted[0], heading, formatted[1:])
    places = []
    for lines in formatted:
        places.append(Place(path, start, start + len(lines) - 1))
        start += len(lines)
    return places, await writer.commit(FileChange(real, data, writer.encode(file, path)), *changes, kind=kind)


async def _supersede(
    writer: Writer, file: TextFile, new: Destination, old: Target | None, id: str
) -> tuple[TextFile, list[FileChange]]:
    """Mark an entry as superseded: in a file that is being changed anyway, or by a change of its own."""
    today = writer.context.config.today()
    day = min(today, date_of(new.path) or today)  # what is in a file of the past was so then
    if old is None:
        return file, []
    if old.real == new.real:
        return mark_superseded(file, old, id, day), []
    old_data, old_file = await asyncio.to_thread(read_file, writer.context.workspace, old.real, old.path)
    marked = mark_superseded(old_file, old, id, day)
    return file, [FileChange(old.real, old_data, writer.encode(marked, old.path))]


def _new_file(context: Context, path: str) -> TextFile:
    """Return a new file. A dated one begins with its date, which is indexed with everything in it."""
    name = path.rpartition("/")[2].removesuffix(".md")
    return TextFile([f"# {name}\n"] if name == context.config.today().isoformat() else [])


async def _keep_duplicate(
    writer: Writer, text: str, found: tuple[str, Entry], old: Target | None, metadata: Mapping[str, str]
) -> Note:
    """Return a note on the entry that says the same. It supersedes the old one, if one was named."""
    path, entry = found
    place = Place(path, entry.start_line, entry.end_line)
    (id,) = await ids_of(writer.context, [found])
    change = None if old is None else await _supersede_by_existing(writer, place, old)
    await _note_copies(writer.context, old, text)
    if metadata:
        writer.context.notices.add("This text was remembered before. The metadata of that entry was not changed.")
    (chunk,) = await find_chunks_at(writer, [place])
    return Note(place.path, place.start_line, place.end_line, text, chunk, place, id=id, change=change)


async def _note_copies(context: Context, old: Target | None, text: str) -> None:
    """Add a notice that names the entries which say what was superseded by a text, and are believed still."""
    for entry in entries(old.text.split("\n")) if old else ():
        is_same = canonical(entry.text) == canonical(text)  # then the successor would be named as well
        if old and not is_same and (copies := await find_copies(context, old.path, entry, None)):
            context.notices.add(f"What was superseded is also said in {list_places(copies)}.")


async def _supersede_by_existing(writer: Writer, place: Place, old: Target) -> str | None:
    real = writer.context.workspace.locate(place.path)
    if old.real == real and place.start_line <= old.start_line <= place.end_line:
        raise QueryError(f"{place} says that already: an entry cannot supersede itself.")
    change = await _mark(writer, place, real, old)
    await writer.index(place.path, old.path)
    return change


@retried(FileChangedError, attempts=5)
async def _mark(writer: Writer, place: Place, real: str, old: Target) -> str | None:
    """Mark an entry as superseded by one that exists, which gets an id if it has none."""
    data, file = await asyncio.to_thread(read_file, writer.context.workspace, real, place.path)
    new = next((entry for entry in entries(file.plain_lines) if entry.start_line == place.start_line), None)
    if new is None:
        raise FileChangedError(f"{place} has changed since it was read. Try again.")
    (id,) = await ids_of(writer.context, [(place.path, new)])
    await _check_not_superseded(writer.context, old, id)
    # From the bottom up, so that the lines above are still where they were.
    by = Destination(place.path, real)
    if old.real == real and old.start_line > new.start_line:
        file, changes = await _supersede(writer, file, by, old, id)
        file = add_metadata(file, new, {"id": id})
    else:
        file, changes = await _supersede(writer, add_metadata(file, new, {"id": id}), by, old, id)
    return await writer.commit(FileChange(real, data, writer.encode(file, place.path)), *changes, kind="remember")


async def _check_not_superseded(context: Context, old: Target, id: str | None) -> None:
    """Raise QueryError if another entry superseded this one before, and exists."""
    _, file = await asyncio.to_thread(read_file, context.workspace, old.real, old.path)
    before = entry_of(file, old).metadata.get("superseded_by")
    if before is not None and before != id and (place := await find_entry(context, before)):
        raise QueryError(f"{old.place} was superseded before, by {place}. Name that instead.")
