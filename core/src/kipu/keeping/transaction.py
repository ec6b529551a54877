"""Change memory files: one by a rename, several all or none.

New content is written to a temporary file and renamed over the file, so that the file has its old or its new content at
every moment. For several files, a journal is written before the first rename: the next process that takes the lock
finishes what a killed process began.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import re
import secrets
import stat
import time
from typing import TYPE_CHECKING

import attrs

from ..errors import FileChangedError, KipuError, MemoryFileError
from ..workspace.paths import HIDDEN_FOLDER, is_inside, is_memory_file_name
from .files import OTHER, IrregularFileError, digest_of, put_new, read_regular, sync_folder, write_new

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..context import Context

__all__ = ["FileChange", "Transactions"]

_TEMPORARY = re.compile(r"(\.kipu-)?[0-9a-f]{16}\.tmp")
_OURS = re.compile(rf"{_TEMPORARY.pattern}(\.old)?|journal\.json(\.new)?")
_DIGEST = re.compile("([0-9a-f]{64})?")
_MAX_JOURNAL_BYTES = 16_000_000
_DAY_SECONDS = 86_400


@attrs.frozen
class FileChange:
    """The content of a file before and after; None if it does not exist. ``real`` is its real path.

    A new file gets the permissions of the file ``like``, if that is given.
    """

    real: str
    before: bytes | None
    after: bytes | None
    like: str | None = None


@attrs.frozen
class Step:
    """A change as the journal has it: digests before and after, and the temporary file with the new content."""

    real: str
    temporary: str
    before: str
    after: str

    @property
    def old(self) -> str:
        """Where the old file is kept until its content has been compared with what was expected."""
        return f"{self.temporary}.old"


class Transactions:
    """Changes the memory files of one workspace. Call it with the lock of the workspace.

    :param context: what the memory works with.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._root = os.path.realpath(context.workspace.root)
        self._folder = os.path.join(self._root, HIDDEN_FOLDER, "writing")
        self._journal = os.path.join(self._folder, "journal.json")

    def remains(self) -> list[str]:
        """Return the names in ``.kipu/writing`` that are Kipu's. It removes nothing else there."""
        try:
            with os.scandir(self._folder) as entries:
                return [entry.name for entry in entries if _OURS.fullmatch(entry.name)]
        except OSError:
            return []

    # --- a transaction ---------------------------------------------------------------------------------------------

    def commit(self, changes: Sequence[FileChange]) -> None:
        """Make all changes or none.

        :raises FileChangedError: the content of a file is not as expected. Nothing was changed.
        :raises MemoryFileError: a file cannot be written.
        """
        steps: list[Step] = []
        begun = False
        try:
            for change in changes:
                steps.append(Step(change.real, self._temporary(change), *map(_digest, (change.before, change.after))))
                _prepare(change, steps[-1].temporary)
            for step in steps:
                _check_unchanged(step)
            if len(steps) > 1:
                self._write_journal(steps)
            for step in steps:
                if not _replace(step):
                    self._yield(step, begun)
                begun = True
                self._compare(step)
            _remove(self._journal)
        except (OSError, KipuError) as error:
            if begun or not self._roll_back(steps):
                rest = "finishes it" if all(map(self._is_inside, steps)) else f"keeps the rest in {self._folder}"
                raise MemoryFileError(
                    f"{_reason(error)} A part was changed. The next process that writes {rest}."
                ) from error
            if isinstance(error, OSError):
                raise MemoryFileError(f"{_reason(error)} Nothing was changed.") from error
            raise

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
            for path in (self._journal, *(path for step in steps for path in (step.temporary, step.old))):
                _remove(path)
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
            _remove(step.old)
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

        A file with any other content keeps it, and the new content is kept beside it.

        :raises MemoryFileError: it cannot be finished now; or the folder for temporary files cannot be made.
        """
        if os.path.islink(self._folder):
            raise MemoryFileError(f"{self._folder} is a symbolic link. Kipu does not follow it: remove the link.")
        try:
            os.makedirs(self._folder, exist_ok=True)
            for step in self._read_journal():
                now = digest_of(step.real)
                is_ready = digest_of(step.temporary) == step.after  # else it was renamed before
                if is_ready and now != step.after and not (now == step.before and _replace(step)):
                    self._yield(step, begun=True)
                self._compare(step)
                _remove(step.temporary)
            _remove(self._journal)
        except OSError as error:
            raise MemoryFileError(
                f"{_reason(error)} A killed process left a change half done that Kipu finishes before it writes. To "
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
        target, target_name = os.path.split(step.real)
        is_beside = name.startswith(".kipu-") and f"{target}{os.sep}".startswith(f"{folder.rstrip(os.sep)}{os.sep}")
        return (
            b"\0" not in os.fsencode(step.real)
            and self._context.workspace.allows(step.real)
            and is_memory_file_name(target_name)
            and (folder == self._folder or is_beside)
            and all(os.path.realpath(path) == path for path in (folder, target))  # no symlink on the way
            and _TEMPORARY.fullmatch(name) is not None
            and all(_DIGEST.fullmatch(digest) for digest in (step.before, step.after))
        )


def _prepare(change: FileChange, temporary: str) -> None:
    """Write the new content of a file to a temporary file, with the permissions of the file."""
    if change.after is None:
        return
    os.makedirs(os.path.dirname(change.real), exist_ok=True)
    model, status = change.like or change.real, None
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(model)
        if not os.access(model, os.W_OK):
            raise PermissionError(errno.EACCES, "it is read-only", model)
    # Private until it has the permissions of the file, which may be private too.
    write_new(temporary, change.after, 0o600 if status else 0o666, name=change.real)
    if status is not None:
        if hasattr(os, "chown") and (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            with contextlib.suppress(PermissionError):  # then it belongs to the user who writes it
                os.chown(temporary, status.st_uid, status.st_gid)
        os.chmod(temporary, stat.S_IMODE(status.st_mode))


def _check_unchanged(step: Step) -> None:
    now = digest_of(step.real)
    if now == OTHER:
        raise MemoryFileError(f"{step.real} is not a regular file, or is larger than 64 MB. Nothing was changed.")
    if now != step.before:
        raise FileChangedError(f"{step.real} has changed since it was read. Nothing was changed; try again.")


def _replace(step: Step) -> bool:
    """Change a file by one rename. Return False if another program changed it since it was checked."""
    folder = os.path.dirname(step.real)
    try:
        if not step.before:
            os.makedirs(folder, exist_ok=True)
            return put_new(step.temporary, step.real)
        found = _identity(step.real)
        # An editor that saves by a rename does not change the old file, so that comparing its content shows nothing.
        # What it saves in the microseconds after this last look is overwritten.
        if not _link_old(step) or _identity(step.real) != found:
            return False
        if step.after:
            os.replace(step.temporary, step.real)
        else:
            os.remove(step.real)
    except FileNotFoundError:  # another program removed it
        return False
    finally:
        sync_folder(folder)
    return True


def _identity(path: str) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_dev, status.st_ino


def _link_old(step: Step) -> bool:
    """Give the old file a second name, under which it outlives the rename. Return False if it has changed."""
    try:
        os.link(step.real, step.old)
    except FileNotFoundError:
        return False
    except FileExistsError:
        pass  # a killed process had come as far as this
    except OSError:
        return True  # the file system has no hard links
    if digest_of(step.old) == step.before:
        return True
    os.remove(step.old)
    return False


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def _remove_stale(folder: str) -> None:
    """Remove the temporary files that a killed process left beside a memory file more than a day ago."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".kipu-") and _OURS.fullmatch(entry.name):
                status = entry.stat(follow_symlinks=False)
                if time.time() - max(status.st_mtime, status.st_ctime) > _DAY_SECONDS:
                    os.remove(entry.path)


def _digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


def _reason(error: Exception) -> str:
    """Return what went wrong, as a sentence."""
    if not isinstance(error, OSError):
        return str(error)
    path = error.filename2 or error.filename or "A file"
    return f"{path} cannot be written: {error.strerror or error}."
