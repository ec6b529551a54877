"""The last changes of memory files: for each file what a change removed, so that it can be taken back.

A record is written before the first file changes, in ``.kipu/writing``, and moved to ``.kipu/undo`` after the last one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ..errors import FileChangedError, MemoryFileError, QueryError
from ..markdown import canonical, item_mark, read_metadata
from ..workspace.paths import HIDDEN_FOLDER, is_inside
from ..workspace.reader import read_regular
from .files import digest_of, is_memory_file, read_file, write_new
from .step import FileChange, digest, remove

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..context import Context

PENDING = "record.json"
"""The record in ``.kipu/writing`` of the change that is being made."""

UNDONE = "undo "
"""The first word in the kind of a change that took back another one."""

_KEPT = 100
_FORGOTTEN = "forgotten.md"  # stands for the file of a forgotten text
_NAME = re.compile(r"[0-9]{8,}-[0-9a-f]{8}\.json")
_KIND = re.compile(r"[a-z ]{1,40}")
RECORD = re.compile(rf"{re.escape(HIDDEN_FOLDER)}/undo/{_NAME.pattern}")
"""The path of a record."""

_INVALID = OSError, ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError
_DIGEST = re.compile("([0-9a-f]{64})?")
_MAX_BYTES = 256_000_000


class Patch(NamedTuple):
    """What brings one file back: the lines that a change removed, between the lines that it left.

    ``before`` and ``after`` are digests of the whole file, "" if there is none; ``head`` and ``tail`` the numbers of
    bytes that were left at its beginning and end; ``mode`` its permissions, if the change removed it. Of a change that
    cannot be undone, there is the path alone.
    """

    path: str
    before: str = ""
    after: str = ""
    head: int = 0
    tail: int = 0
    removed: str = ""
    mode: int | None = None

    @classmethod
    def of(cls, path: str, change: FileChange) -> Patch:
        """Return what brings a file back to where it is before a change."""
        # Whole lines: a line that is forgotten later is in a record as a whole, or not at all.
        old, new = ((data or b"").splitlines(keepends=True) for data in (change.before, change.after))
        head = _count_equal(old, new)
        old, new = old[head:][::-1], new[head:][::-1]
        tail = _count_equal(old, new)
        before, after = change.before or b"", change.after
        left, right = len(before) - sum(map(len, old)), sum(map(len, old[:tail]))
        removed = before[left : len(before) - right].decode("utf-8", "surrogateescape")
        mode = stat.S_IMODE(os.stat(change.real).st_mode) if change.before is not None and after is None else None
        return cls(path, digest(change.before), digest(after), left, right, removed, mode)

    def revert(self, data: bytes | None) -> bytes | None:
        """Return the content of the file before the change."""
        if not self.before:
            return None
        data = data or b""
        removed = self.removed.encode("utf-8", "surrogateescape")
        return data[: self.head] + removed + data[len(data) - self.tail :]


class Record(NamedTuple):
    """A change as it is kept. ``undoes`` names the change that it took back."""

    name: str
    kind: str
    time: str
    undoes: str
    files: list[Patch]

    @property
    def is_undoable(self) -> bool:
        """Whether it can be taken back: Kipu keeps no text that `forget` removed, nor any outside the workspace."""
        return not any(patch == Patch(patch.path) for patch in self.files)


class History:
    """The records of one workspace. Call it with the lock of the workspace, except for reading."""

    def __init__(self, context: Context, root: str) -> None:
        self._context = context
        self._root = root
        self._folder = os.path.join(root, HIDDEN_FOLDER, "undo")
        self.pending = os.path.join(root, HIDDEN_FOLDER, "writing", PENDING)

    # --- writing -----------------------------------------------------------------------------------------------------

    def begin(self, changes: Sequence[FileChange], kind: str, undoes: str) -> Record:
        """Write the record of a change that is about to be made.

        :raises MemoryFileError: a symlink is in the place of the folder.
        """
        if os.path.islink(self._folder):
            raise MemoryFileError(f"{self._folder} is a symbolic link. Kipu does not follow it: remove the link.")
        os.makedirs(self._folder, exist_ok=True)
        inside = f"{self._root}{os.sep}"
        make = Patch.of if all(is_inside(each.real, self._root) for each in changes) else lambda path, _: Patch(path)
        files = [make(change.real.removeprefix(inside), change) for change in changes]
        record = Record(secrets.token_hex(4), kind, datetime.now(UTC).isoformat(timespec="seconds"), undoes, files)
        data = json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogateescape")
        write_new(self.pending, data, 0o600, durable=False)
        return record

    def keep(self, record: Record) -> None:
        """Keep the record of a change that was made, drop the one that it took back, and those beyond the last 100."""
        with contextlib.suppress(OSError):  # the next process that writes does it: see `recover`
            names = self._names()
            number = int(names[-1].partition("-")[0]) + 1 if names else 1
            os.replace(self.pending, os.path.join(self._folder, f"{number:08}-{record.name}.json"))
            stale = [name for name in names if name.endswith(f"-{record.undoes}.json")]
            for name in {*stale, *names[: 1 - _KEPT]}:
                remove(os.path.join(self._folder, name))

    def block(self, path: str) -> None:
        """Record that a text of a file was forgotten, which cannot be undone. The name of the file is left out."""
        forgotten = FileChange(os.path.join(self._root, os.path.dirname(path), _FORGOTTEN), None, None)
        with contextlib.suppress(OSError, MemoryFileError):  # it is forgotten all the same
            self.keep(self.begin([forgotten], "forget", ""))

    def recover(self) -> None:
        """Keep the record that a killed process left, if it made the change."""
        record = None if os.path.islink(self._folder) else self._read(self.pending)
        if record and all(digest_of(self.real_of(patch)) == patch.after for patch in record.files):
            self.keep(record)

    def _names(self) -> list[str]:
        """Return the names of all records, the oldest first."""
        try:
            names = [] if os.path.islink(self._folder) else os.listdir(self._folder)
        except OSError:
            return []
        return sorted(filter(_NAME.fullmatch, names), key=lambda name: int(name.partition("-")[0]))

    # --- reading -----------------------------------------------------------------------------------------------------

    def _read(self, path: str) -> Record | None:
        """Return a record; None if Kipu did not write it: a cloned workspace may bring any."""
        with contextlib.suppress(*_INVALID):
            data = read_regular(path, _MAX_BYTES)
            name, kind, time, undoes, rows = json.loads(data.decode("utf-8", "surrogateescape"))
            record = Record(name, kind, time, undoes, [Patch(*row) for row in rows])
            datetime.fromisoformat(time).astimezone()
            is_named = _NAME.fullmatch(f"00000000-{name}.json") and _KIND.fullmatch(kind)
            is_one_each = 0 < len(record.files) == len(set(map(self.real_of, record.files)))
            if is_named and is_one_each and all(map(self._is_ours, record.files)):
                return record
        return None

    def _is_ours(self, patch: Patch) -> bool:
        real = self.real_of(patch)
        return (
            # A cloned workspace may bring a record, and a kipu.toml that allows it.
            (is_inside(real, self._root) or patch == Patch(patch.path))
            and is_memory_file(self._context.workspace, real)
            and patch.removed.encode("utf-8", "surrogateescape") is not None
            and _DIGEST.fullmatch(patch.before) is not None
            and _DIGEST.fullmatch(patch.after) is not None
            and all(type(number) is int and number >= 0 for number in (patch.head, patch.tail, patch.mode or 0))
        )

    def real_of(self, patch: Patch) -> str:
        """Return the real path of a file of a record."""
        return os.path.join(self._root, patch.path)

    def name_of(self, patch: Patch) -> str:
        """Return the path by which Kipu names a file of a record."""
        return self._context.workspace.name_of(self.real_of(patch))

    def records(self) -> Iterator[Record]:
        """Yield the changes of which the scope sees every file, the newest first: also those that cannot be undone."""
        for name in reversed(self._names()):
            record = self._read(os.path.join(self._folder, name))
            if record and all(self._context.scope.sees(self.name_of(patch)) for patch in record.files):
                yield record

    def find(self, name: str | None) -> Record:
        """Return a change by its name, or the last one that was not taken back.

        :raises QueryError: there is none, or the last one cannot be undone.
        """
        blocked = ""
        for record in self.records():
            if not record.is_undoable:
                blocked = blocked or self._describe(record)
            elif record.name == name or (name is None and not blocked and not record.kind.startswith(UNDONE)):
                return record
            elif name is None and not record.kind.startswith(UNDONE):
                before = f"{record.name} ({self._describe(record)})"
                raise QueryError(
                    f"The last change, {blocked}, cannot be undone. For the one before: kipu undo {before}"
                )
        if name is None:
            raise QueryError(f"There is no change to undo{f': {blocked} cannot be undone' if blocked else ''}.")
        raise QueryError(
            f'There is no change "{name}". It may have been taken back, or be too old: Kipu keeps the last {_KEPT}. To '
            "list them: kipu undo --list"
        )

    def _describe(self, record: Record) -> str:
        return f"{record.kind} in {', '.join(map(self.name_of, record.files)).removesuffix(f'/{_FORGOTTEN}')}"

    def revert(self, record: Record) -> list[FileChange]:
        """Return what brings the files of a change back.

        :raises FileChangedError: one of them has changed since.
        :raises MemoryFileError: one cannot be read, or the record is damaged.
        """
        changes = []
        for patch in reversed(record.files):  # what was removed last comes back first: a text is never in no file
            real, name = self.real_of(patch), self.name_of(patch)
            data, _ = read_file(self._context.workspace, real, name)
            if digest(data) != patch.after:
                raise FileChangedError(
                    f"{name} has changed since change {record.name} ({record.kind}). Nothing was changed. Edit it by "
                    "hand, or undo another change: kipu undo --list"
                )
            before = patch.revert(data)
            if digest(before) != patch.before:
                raise MemoryFileError(f"The record of change {record.name} is damaged. Nothing was changed.")
            changes.append(FileChange(real, data, before, mode=patch.mode))
        return changes

    # --- forgetting --------------------------------------------------------------------------------------------------

    def holding(self, real: str, text: str) -> list[str]:
        """Return the paths of records that may hold a text of a file: those of the file, and those with a line of it.

        In a scope, records of other scopes are left out. A record that cannot be read, or compared, may hold it.
        """
        lines = [line[len(item_mark(line)) :].strip("#>*+- \t") for line in text.split("\n") if not read_metadata(line)]
        wanted = {canonical(line) for line in lines if any(map(str.isalnum, line))}
        found = []
        for name in self._names():
            path, scope = os.path.join(self._folder, name), self._context.scope
            record = self._read(path)
            if record is None:
                is_concerned = scope.label is None
            else:
                is_concerned = any(scope.sees(self.name_of(patch)) for patch in record.files) and any(
                    self.real_of(patch) == real or _has_any(patch, wanted) for patch in record.files
                )
            if is_concerned:
                found.append(path)
        return found


def _has_any(patch: Patch, wanted: set[str]) -> bool:
    removed = canonical(patch.removed)
    is_utf_8 = "\0" not in removed and not any("\ud800" <= char <= "\udfff" for char in removed)
    return not is_utf_8 or any(line in removed for line in wanted)


def _count_equal(old: Sequence[bytes], new: Sequence[bytes]) -> int:
    """Return how many lines are equal from the first on."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((number for number, (one, other) in pairs if one != other), min(len(old), len(new)))
