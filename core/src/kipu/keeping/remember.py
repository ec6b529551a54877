"""Remembers, reads, changes and moves what stands in memory files, and indexes it before it returns.

Each change is made under the lock of the workspace, from what the file says at that moment; where somebody else saves
it in between, the change is worked out anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import FileChangedError, KipuError, MemoryFileError, QueryError
from ..markdown import canonical, check_metadata, entries, format_entry, normalize_text
from ..types import Note, Place
from ..workspace.text import NotTextError, TextFile
from . import edits
from .rewording import below_its_headings, disturbed, reworded
from .supersede import entry_at, noted, superseded
from .targets import checked_lines, inside_of, read_file
from .transaction import FileChange

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ..context import Context
    from ..indexing.synchronizer import Synchronizer
    from .targets import Locating, Target
    from .transaction import Writer

__all__ = ["Keeping"]

Answer = TypeVar("Answer")

_ATTEMPTS = 5
# How much is told of what was superseded, so that whoever named wrong lines sees it.
_TOLD_CHARACTERS = 80


class Keeping:
    """What writes to the files of one memory."""

    def __init__(
        self,
        context: Context,
        syncing: Synchronizer,
        writer: Writer,
        where: Locating,
    ) -> None:
        self._config = context.config
        self._components = context.components
        self._database = context.database
        self._syncing = syncing
        self._where = where
        self.writer = writer

    # --- remembering -----------------------------------------------------------------------------------------------

    async def remember(
        self,
        text: str,
        *,
        source: str | None,
        file: str | os.PathLike[str] | None,
        heading: str | None,
        metadata: Mapping[str, Any] | None,
        supersedes: str | None,
    ) -> Note:
        """Write one entry. See `kipu.Memory.remember`."""
        said, known = normalize_text(text), check_metadata(metadata)
        title = None if heading is None else edits.check_heading(heading)
        path, real = self._where.place(source, file)
        async with self.writer.locked():
            await self._syncing.refresh()
            said, notices = await self.prepared(said, path)
            notices += await self._prepare_what_is_known(known, path)
            if title is not None:
                title, more = await self.prepared(title, path)
                notices += more
            await self.refuse_secret_names(path)
            if "id" in known:
                await self._where.check_id(known["id"])
            old = await self._where.named(supersedes) if supersedes is not None else None
            place = await self._where.same(said, path, known)
            if old is not None:
                await self._check_not_superseded(old, await self._where.id_at(place) if place else known.get("id"))
            if place:
                if old is not None:
                    notices += await self._taken_by(place, old)
                if known:
                    notices.append("It was remembered before; what is known of it there was left as it is.")
                return await self._duplicate(place, said, notices)
            similar = await self._where.similar(said, path)
            if old is not None:
                known.setdefault("id", secrets.token_hex(4))
            start, length = await self._add(path, real, [(said, known)], title, old, known.get("id"))
            if old is not None:
                was = old.text.strip().split("\n")[0][:_TOLD_CHARACTERS]
                notices.append(f"It takes the place of {Place(old.path, old.start_line, old.end_line)}: {was}")
            notices += await self._indexed([path, *([old.path] if old else [])])
        end = start[0] + length[0] - 1
        chunk = await self._where.chunk_at(Place(path, start[0], end))
        return Note(path, start[0], end, said, chunk, None, similar, known.get("id"), notices)

    async def add_entries(self, texts: Sequence[str], path: str, real: str, metadata: Mapping[str, str]) -> list[Note]:
        """Write several entries at the end of one file, all or none; those that are there already are left out.

        Call it while you hold the lock.

        :param texts: as they were prepared.
        """
        await self._syncing.refresh()
        new = await self.not_said_yet(texts, path, metadata)
        if not new:
            return []
        starts, lengths = await self._add(path, real, [(said, metadata) for said in new], None, None, None)
        notices = await self._indexed([path])
        places = [Place(path, start, start + length - 1) for start, length in zip(starts, lengths, strict=True)]
        return [
            Note(path, place.start_line, place.end_line, said, await self._where.chunk_at(place), notices=notices)
            for place, said in zip(places, new, strict=True)
        ]

    async def not_said_yet(self, texts: Sequence[str], path: str, metadata: Mapping[str, str]) -> list[str]:
        """Those of several texts that the source of a file does not say, as far as the index knows; each once."""
        new: list[str] = []
        for said in map(normalize_text, texts):
            if canonical(said) not in map(canonical, new) and not await self._where.same(said, path, metadata):
                new.append(said)
        return new

    async def _add(
        self,
        path: str,
        real: str,
        new: Sequence[tuple[str, Mapping[str, str]]],
        title: str | None,
        old: Target | None,
        id: str | None,
    ) -> tuple[list[int], list[int]]:
        """Append entries to a file, and say in another one that was superseded by what: the first lines and lengths."""
        formatted = [format_entry(said, metadata) for said, metadata in new]

        async def attempt() -> tuple[list[int], list[int]]:
            changes = []
            data, document = await asyncio.to_thread(read_file, real, path)
            file = document if data is not None else self._new_file(path)
            if old is not None and old.real == real:
                file = superseded(file, old, id or "", self._config.today())
            elif old is not None:
                old_data, old_file = await asyncio.to_thread(read_file, old.real, old.path)
                after = superseded(old_file, old, id or "", self._config.today())
                changes.append(FileChange(old.real, old_data, self._encoded(after, old.path)))
            starts = []
            for lines in formatted:
                file, start = edits.append(file, lines, title)
                starts.append(start)
            changes.insert(0, FileChange(real, data, self._encoded(file, path)))
            await self.writer.commit(changes)
            return starts, [len(lines) for lines in formatted]

        return await _again(attempt)

    def _new_file(self, path: str) -> TextFile:
        """A file that does not exist yet: a dated one says its date, which is indexed with all that it holds."""
        name = path.rpartition("/")[2].removesuffix(".md")
        return TextFile([f"# {name}\n"] if name == self._config.today().isoformat() else [])

    async def _taken_by(self, place: Place, old: Target) -> list[str]:
        """Have an entry say that one took its place which is there already; what cannot be indexed, in sentences."""
        _, real = self._where.existing(place.path)

        async def attempt() -> None:
            data, file = await asyncio.to_thread(read_file, real, place.path)
            found = (entry for entry in entries(file.plain_lines) if entry.start_line == place.start_line)
            if (new := next(found, None)) is None:
                raise FileChangedError(f"{place} does not say any more what it said. Try again.")
            id = new.metadata.get("id") or secrets.token_hex(4)
            # From the bottom up, so that the lines above are still where they were.
            if old.real == real and old.start_line > new.start_line:
                file = noted(superseded(file, old, id, self._config.today()), new, {"id": id})
            else:
                file = noted(file, new, {"id": id})
                file = superseded(file, old, id, self._config.today()) if old.real == real else file
            changes = [FileChange(real, data, self._encoded(file, place.path))]
            if old.real != real:
                old_data, old_file = await asyncio.to_thread(read_file, old.real, old.path)
                after = superseded(old_file, old, id, self._config.today())
                changes.append(FileChange(old.real, old_data, self._encoded(after, old.path)))
            await self.writer.commit(changes)

        if old.real == real and place.start_line <= old.start_line <= place.end_line:
            raise QueryError(f"{place} says that already: it cannot take its own place.")
        await _again(attempt)
        return await self._indexed([place.path, old.path])

    async def _check_not_superseded(self, old: Target, id: str | None) -> None:
        """Raise QueryError where something else took the place of an entry before: that would not be named any more."""
        _, file = await asyncio.to_thread(read_file, old.real, old.path)
        before = entry_at(file, old).metadata.get("superseded_by")
        if before is not None and before != id and (place := await self._where.entry_with(before)):
            raise QueryError(
                f"{Place(old.path, old.start_line, old.end_line)} was superseded before, by {place}. Name that instead."
            )

    # --- reading, changing, moving -----------------------------------------------------------------------------------

    async def read(self, path: str | os.PathLike[str], start: int | None, end: int | None) -> str:
        """What a memory file says. See `kipu.Memory.read`."""
        name, real = self._where.existing(path)
        _, file = await asyncio.to_thread(read_file, real, name)
        lines = file.plain_lines
        first, last = checked_lines(name, start, end, len(lines))
        return "\n".join(lines[first - 1 : last])

    async def edit(
        self,
        text: str,
        *,
        chunk: str | None,
        path: str | os.PathLike[str] | None,
        start: int | None,
        end: int | None,
        expected: str | None,
    ) -> Note:
        """Put a text in the place of another one. See `kipu.Memory.edit`."""
        if not str(text).strip():
            raise QueryError("There is nothing to put there: the text is empty. To take lines out, forget them.")
        normalize_text(text)  # what cannot be written is not looked for
        if chunk is None and start is None:
            raise QueryError("Name the lines that the text takes the place of, or a chunk: not a whole file.")
        text = text.encode("utf-8", "replace").decode("utf-8")
        lines = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n").split("\n")
        async with self.writer.locked():
            await self._syncing.refresh()
            target = await self._where.target(chunk, path, start, end, expected)
            said, notices = await self.prepared("\n".join(lines), target.path)
            if chunk is not None:
                target = below_its_headings(target, said)

            async def attempt() -> tuple[int, list[str]]:
                data, file = await asyncio.to_thread(read_file, target.real, target.path)
                changed, length, not_known = reworded(file, target, said)
                await self.writer.commit([FileChange(target.real, data, self._encoded(changed, target.path))])
                return length, not_known

            length, not_known = await _again(attempt)
            notices += [*not_known, *await self._indexed([target.path])]
        last = target.start_line + length - 1
        name = await self._where.chunk_at(Place(target.path, target.start_line, last))
        return Note(target.path, target.start_line, last, said, name, notices=notices)

    async def move(
        self,
        to: str | os.PathLike[str],
        *,
        chunk: str | None,
        path: str | os.PathLike[str] | None,
        start: int | None,
        end: int | None,
        expected: str | None,
    ) -> Note:
        """Move a file, or lines of one to the end of another. See `kipu.Memory.move`."""
        name, real = self._where.place(None, to)
        await self.refuse_secret_names(name)
        whole = chunk is None and path is not None and start is None and end is None
        async with self.writer.locked():
            await self._syncing.refresh()
            target = await self._where.target(chunk, path, start, end, expected)
            if target.real == real:
                raise QueryError(f"{target.path} is where it is to be moved to.")
            if whole and self._where.is_link(target.path):
                raise MemoryFileError(f"{target.path} is reached by a symbolic link. Move the file that it leads to.")
            if not whole and (metadata := await self._where.metadata_below(target)):
                target = target._replace(end_line=target.end_line + 1, text=f"{target.text}\n{metadata}")

            async def attempt() -> tuple[int, list[str]]:
                data, file = await asyncio.to_thread(read_file, target.real, target.path)
                there, other = await asyncio.to_thread(read_file, real, name)
                if whole:
                    if there is not None:
                        raise QueryError(f"{name} is there already. Name the lines that are to be moved into it.")
                    moved = FileChange(real, None, data, like=target.real)
                    await self.writer.commit([moved, FileChange(target.real, data, None)])
                    return 1, []
                inside_of(file, target)
                changed, first = edits.append(other, edits.from_the_margin(target.text.split("\n")))
                left = self._without(file, target)
                await self.writer.commit(
                    [
                        FileChange(real, there, self._encoded(changed, name)),
                        FileChange(target.real, data, None if left is None else left.data()),
                    ]
                )
                return first, disturbed(file, left, target)

            first, notices = await _again(attempt)
            notices += await self._indexed([target.path, name], everything=whole)
        last = first + target.text.count("\n")
        return Note(
            name, first, last, target.text, await self._where.chunk_at(Place(name, first, last)), notices=notices
        )

    async def take_out(self, target: Target) -> list[str]:
        """Remove lines from their file. Call it while you hold the lock. What became of others, in sentences."""

        async def attempt() -> list[str]:
            data, file = await asyncio.to_thread(read_file, target.real, target.path)
            inside_of(file, target)
            left = self._without(file, target)
            if left is None and self._where.is_link(target.path):
                left = TextFile([])  # the file is another one's: it stays, and says nothing
            await self.writer.commit([FileChange(target.real, data, None if left is None else left.data())])
            return disturbed(file, left, target)

        return await _again(attempt)

    @staticmethod
    def _without(file: TextFile, target: Target) -> TextFile | None:
        if inside_of(file, target) == target.text:
            return edits.remove(file, target.start_line, target.end_line)
        return edits.without_text(file, target.start_line, target.end_line, target.text)

    async def _prepare_what_is_known(self, known: dict[str, str], path: str) -> list[str]:
        """Prepare metadata, each value together with its key: a password is known by that. Returns notes."""
        notices: list[str] = []
        for key, value in known.items():
            await self._refuse_secret("A key of metadata", [key], path)
            said, more = await self.prepared(f"{key}: {value}", path)
            if not said.startswith(f"{key}: "):
                said = f"{key}: {(await self.prepared(value, path))[0]}"
            known[key] = said.removeprefix(f"{key}: ")
            notices += more
        return notices

    async def refuse_secret_names(self, path: str) -> None:
        """Raise QueryError where the name of a file or a folder is what a write filter would take out.

        A folder may have an id for its name, of which something is left in it: that is looked at as it was given.
        """
        parts = [*path.removesuffix(".md").split("/"), self._where.scope.id]
        await self._refuse_secret("The name of the file or of its folder", parts, path)

    async def _refuse_secret(self, what: str, parts: Sequence[str], path: str) -> None:
        for write_filter in self._components.filters():
            for part in filter(None, parts):
                prepared = await write_filter.filter(part, path)
                if prepared.secret:
                    notices = " ".join(prepared.notices)
                    raise QueryError(f"{what} has something in it that is not to be written. {notices}")

    # --- within ----------------------------------------------------------------------------------------------------

    def _encoded(self, file: TextFile, path: str) -> bytes:
        """The bytes of a file as it is to be written, if it can be, and if it would be found then."""
        try:
            data = file.data()
        except UnicodeEncodeError as error:
            raise MemoryFileError(
                f"{path} is in {file.encoding}, which lacks {error.object[error.start]!r}. Save it as UTF-8 first."
            ) from None
        if len(data) > self._config.files.max_bytes:
            raise MemoryFileError(
                f"{path} would be larger than files.max_bytes in kipu.toml allows, and nothing in it would be found. "
                "Nothing was changed."
            )
        with contextlib.suppress(NotTextError):
            if TextFile.parse(data).plain_lines == file.plain_lines:
                return data
        raise MemoryFileError(
            f"{path} is in {file.encoding}, and would be taken for another encoding. Save it as UTF-8 first."
        )

    async def _duplicate(self, place: Place, said: str, notices: list[str]) -> Note:
        chunk = await self._where.chunk_at(place)
        return Note(place.path, place.start_line, place.end_line, said, chunk, duplicate_of=place, notices=notices)

    async def prepared(self, text: str, path: str) -> tuple[str, list[str]]:
        """A text as the filters let it be written, and what they say of it.

        :raises PluginFailedError: one of them failed: nothing is written then.
        """
        notices: list[str] = []
        for write_filter in self._components.filters():
            prepared = await write_filter.filter(text, path)
            text = prepared.text
            notices += prepared.notices
        return text, notices

    async def _indexed(self, paths: Sequence[str], *, everything: bool = False) -> list[str]:
        """Take what was written into the index. Where that cannot be, the next search does it, and a note says so."""
        try:
            await self._syncing.refresh(None if everything else list(dict.fromkeys(paths)))
        except KipuError as error:
            return [f"Saved, but not indexed: it will be found once the index can be written. {error}"]
        return []


async def _again(attempt: Callable[[], Awaitable[Answer]]) -> Answer:
    """Work a change out anew where somebody else saved the file meanwhile; not for ever."""
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(FileChangedError):
            return await attempt()
    return await attempt()
