"""Change memory files: one by a rename, several all or none.

New content is written to a temporary file and renamed over the file, so that the file has its old or its new content at
every moment. For several files, a journal is written before the first rename: the next process that takes the lock
finishes what a killed process began.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import secrets
import time
from typing import TYPE_CHECKING

import attrs

from ..errors import FileChangedError, KipuError, MemoryFileError
from ..workspace.paths import HIDDEN_FOLDER, is_inside
from ..workspace.reader import IrregularFileError, read_regular
from .files import OTHER, digest_of, is_memory_file, put_new, sync_folder, write_new
from .history import PENDING, History
from .step import FileChange, Step, check_unchanged, prepare, remove, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..context import Context

_TEMPORARY = re.compile(r"(\.kipu-)?[0-9a-f]{16}\.tmp")
_OURS = re.compile(rf"{_TEMPORARY.pattern}(\.old)?|journal\.json(\.new)?|{re.escape(PENDING)}")
_DIGEST = re.compile("([0-9a-f]{64})?")
_MAX_JOURNAL_BYTES = 16_000_000
_DAY_SECONDS = 86_400


class Transactions:
    """Changes the memory files of one workspace. Call it with the lock of the workspace.

    :param context: what the memory works with.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._root = os.path.realpath(context.workspace.root)
        self._folder = os.path.join(self._root, HIDDEN_FOLDER, "writing")
        self._journal = os.path.join(self._folder, "journal.json")
        self.history = History(context, self._root)

    def remains(self) -> list[str]:
        """Return the names in ``.kipu/writing`` that are Kipu's. It removes nothing else there."""
        try:
            with os.scandir(self._folder) as entries:
                return [entry.name for entry in entries if _OURS.fullmatch(entry.name)]
        except OSError:
            return []

    # --- a transaction ---------------------------------------------------------------------------------------------

    def commit(self, changes: Sequence[FileChange], kind: str = "", undoes: str = "") -> str | None:
        """Make all changes or none. Return the name by which they can be undone; None if one is outside the workspace.

        :param kind: what made them; "" if they cannot be undone.
        :param undoes: the change that they take back.
        :raises FileChangedError: the content of a file is not as expected. Nothing was changed.
        :raises MemoryFileError: a file cannot be written.
        """
        steps: list[Step] = []
        begun = False
        record = None
        try:
            for change in changes:
                steps.append(Step.of(change, self._temporary(change)))
                prepare(change, steps[-1].temporary)
            for step in steps:
                check_unchanged(step)
            if kind:
                record = self.history.begin(changes, kind, undoes)
            if len(steps) > 1:
                self._write_journal(steps)
            for step in steps:
                if not replace(step):
                    self._yield(step, begun)
                begun = True
                self._compare(step)
            remove(self._journal)
        except (OSError, KipuError) as error:
            if begun or not self._roll_back(steps):
                rest = "finishes it" if all(map(self._is_inside, steps)) else f"keeps the rest in {self._folder}"
                raise MemoryFileError(
                    f"{_reason(error)} A part was changed. The next process that writes {rest}."
                ) from error
            if isinstance(error, OSError):
                raise MemoryFileError(f"{_reason(error)} Nothing was changed.") from error
            raise
        if record is None:
            return None
        self.history.keep(record)
        if record.is_undoable:
            return record.name
        outside = ", ".join(self.history.name_of(patch) for patch in record.files if os.path.isabs(patch.path))
        self._context.notices.add(f"This change cannot be undone, because it is outside the workspace: {outside}")
        return None

    def _temporary(self, change: FileChange) -> str:
        """Return where to write a file first: in ``.kipu/writing``, or beside the file if that is on another disk."""
        folder, device = os.path.dirname(change.real), None
        while device is None:
            try:
                device = os.stat(folder).st_dev
            except FileNotFoundError:  # any other error ends the change: it says nothing of the folder above
                folder = os.path.dirname(folder)
        name = f"{secrets.token_hex(8)}.tmp"
        if device == os.stat(self._folder).st_dev:
            return os.path.join(self._folder, name)
        _remove_stale(folder)
        return os.path.join(folder, f".kipu-{name}")

    def _write_journal(self, steps: Sequence[Step]) -> None:
        inside = f"{self._root}{os.sep}"  # relative paths, so that a copied workspace finishes what was begun in itself
        rows = [[path.removeprefix(inside) for path in attrs.astuple(step)] for step in steps]
        write_new(f"{self._journal}.new", json.dumps(rows).encode("ascii"))
        os.replace(f"{self._journal}.new", self._journal)
        sync_folder(self._folder)

    def _roll_back(self, steps: Sequence[Step]) -> bool:
        """Remove the journal and the temporary files of changes of which none was made. Return whether that worked."""
        try:
            temporary = (path for step in steps for path in (step.temporary, step.old))
            for path in (self._journal, self.history.pending, *temporary):
                remove(path)
        except OSError:
            return False
        return True

    # --- what happened at the same time ------------------------------------------------------------------------------

    def _yield(self, step: Step, begun: bool) -> None:
        """Leave a file as another program saved it just now.

        :raises FileChangedError: nothing has been changed yet, so that nothing need be.
        """
        if not begun:
            raise FileChangedError(f"{step.real} was changed at the same time. Nothing was written; try again.")
        if step.after:
            self._keep(step.temporary, step)

    def _compare(self, step: Step) -> None:
        """Keep what another program saved between the last check of a file and the rename."""
        found = digest_of(step.old)
        if found in ("", step.before, step.after) or found == digest_of(step.real):
            remove(step.old)
        else:
            self._keep(step.old, step)

    def _keep(self, path: str, step: Step) -> None:
        """Put a version of a memory file that has lost its place beside the file, and say so."""
        stem, suffix = os.path.splitext(step.real)
        numbers = itertools.count(2)
        beside = f"{stem}.recovered{suffix}"
        while not put_new(path, beside):
            beside = f"{stem}.recovered-{next(numbers)}{suffix}"
        sync_folder(os.path.dirname(beside))
        if self._context.scope.sees(self._context.workspace.name_of(step.real)):
            notice = f"{step.real} was changed by another program at the same time. One version is kept in {beside}."
        else:
            notice = "A file of another scope was changed by another program at the same time. Both versions are kept."
        self._context.notices.add(notice)

    # --- recovery ----------------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Finish what a killed process began: each file that still has its old content gets the new one.

        A file with any other content keeps it, and the new content is kept beside it. If a file that was changed has
        its old content again, as after ``git checkout``, the change was taken back: the others stay as they are.

        :raises MemoryFileError: it cannot be finished now; or the folder for temporary files cannot be made.
        """
        if os.path.islink(self._folder):
            raise MemoryFileError(f"{self._folder} is a symbolic link. Kipu does not follow it: remove the link.")
        try:
            os.makedirs(self._folder, exist_ok=True)
            steps = self._read_journal()
            taken_back = any(
                not digest_of(each.temporary) and digest_of(each.real) == each.before
                for each in steps
                if each.after not in ("", each.before)
            )
            for step in steps:
                now = digest_of(step.real)
                is_ready = digest_of(step.temporary) == step.after and not taken_back  # else it was renamed before
                if is_ready and now != step.after and not (now == step.before and replace(step)):
                    self._yield(step, begun=True)
                self._compare(step)
                remove(step.temporary)
            remove(self._journal)
            self.history.recover()
        except OSError as error:
            is_named = self._context.scope.label is None  # it may be a file of another scope
            reason = _reason(error if is_named else OSError(error.errno, error.strerror))
            raise MemoryFileError(
                f"{reason} A killed process left a change half done that Kipu finishes before it writes. To "
                f"give the change up, delete {self._journal}."
            ) from error
        for name in self.remains():
            with contextlib.suppress(OSError):
                os.remove(os.path.join(self._folder, name))

    def _read_journal(self) -> list[Step]:
        """Return what a killed process began. Rename a journal that is not to be followed, and say so."""
        if not os.path.lexists(self._journal):
            return []
        what, kept = "was not written by Kipu", ""
        with contextlib.suppress(IrregularFileError, ValueError, TypeError, LookupError, RecursionError):
            if not os.path.islink(self._journal):
                rows = json.loads(read_regular(self._journal, _MAX_JOURNAL_BYTES))
                steps = [Step(*(os.path.join(self._root, path) for path in row[:2]), *row[2:]) for row in rows]
                if all(map(self._is_ours, steps)):
                    if all(map(self._is_inside, steps)):
                        return steps
                    what, kept = "changes files outside the workspace", self._keep_rest(steps)
        ignored = os.path.join(self._folder, "journal.ignored.json")
        os.replace(self._journal, ignored)
        self._context.notices.add(f"{self._journal} {what}. It was ignored, and renamed to {ignored}.{kept}")
        return []

    def _is_inside(self, step: Step) -> bool:
        """Return whether a step leaves alone what is outside the workspace, where a cloned kipu.toml may lead."""
        return all(is_inside(path, self._root) for path in (step.real, step.temporary))

    def _keep_rest(self, steps: Sequence[Step]) -> str:
        """Copy what a change has not written yet to files that recovery does not remove. Return a sentence on them."""
        kept = []
        for step in steps:
            for path in (step.temporary, step.old):
                found = digest_of(path)
                if found not in ("", OTHER, step.before) and found != digest_of(step.real):
                    kept.append(os.path.join(self._folder, f"{os.path.basename(path)}.md"))
                    write_new(kept[-1], read_regular(path), 0o600)  # the file may be private
        return f" What it had not written yet is kept in {', '.join(kept)}." if kept else ""

    def _is_ours(self, step: Step) -> bool:
        """Return whether a step changes a memory file of this workspace, by a temporary file that Kipu named."""
        folder, name = os.path.split(step.temporary)
        target = os.path.dirname(step.real)
        is_beside = name.startswith(".kipu-") and f"{target}{os.sep}".startswith(f"{folder.rstrip(os.sep)}{os.sep}")
        return (
            is_memory_file(self._context.workspace, step.real)
            and (folder == self._folder or is_beside)
            and os.path.realpath(folder) == folder  # no symlink on the way
            and _TEMPORARY.fullmatch(name) is not None
            and all(_DIGEST.fullmatch(digest) for digest in (step.before, step.after))
        )


def _remove_stale(folder: str) -> None:
    """Remove the temporary files that a killed process left beside a memory file more than a day ago."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".kipu-") and _OURS.fullmatch(entry.name):
                status = entry.stat(follow_symlinks=False)
                if time.time() - max(status.st_mtime, status.st_ctime) > _DAY_SECONDS:
                    os.remove(entry.path)


def _reason(error: Exception) -> str:
    """Return what went wrong, as a sentence."""
    if not isinstance(error, OSError):
        return str(error)
    path = error.filename2 or error.filename or "A file"
    return f"{path} cannot be written: {error.strerror or error}."
