"""Change one memory file by a rename: prepare the new content, check the old, replace it and keep the old beside.

An operating system has no rename that compares first. So the old file gets a second name before, under which what
another program saved in between outlives the rename.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat

import attrs

from ..errors import FileChangedError, MemoryFileError
from .files import OTHER, digest_of, put_new, sync_folder, write_new


@attrs.frozen
class FileChange:
    """The content of a file before and after; None if it does not exist. ``real`` is its real path.

    A new file gets the permissions of the file ``like``, or those in ``mode``, if one is given.
    """

    real: str
    before: bytes | None
    after: bytes | None
    like: str | None = None
    mode: int | None = None


@attrs.frozen
class Step:
    """A change as the journal has it: digests before and after, and the temporary file with the new content."""

    real: str
    temporary: str
    before: str
    after: str

    @classmethod
    def of(cls, change: FileChange, temporary: str) -> Step:
        """Make the step of a change."""
        return cls(change.real, temporary, digest(change.before), digest(change.after))

    @property
    def old(self) -> str:
        """Where the old file is kept until its content has been compared with what was expected."""
        return f"{self.temporary}.old"


def prepare(change: FileChange, temporary: str) -> None:
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
    write_new(temporary, change.after, 0o666 if status is None and change.mode is None else 0o600, name=change.real)
    if status is not None:
        if hasattr(os, "chown") and (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
            with contextlib.suppress(PermissionError):  # then it belongs to the user who writes it
                os.chown(temporary, status.st_uid, status.st_gid)
        os.chmod(temporary, stat.S_IMODE(status.st_mode))
    elif change.mode is not None:
        os.chmod(temporary, change.mode & 0o777)


def check_unchanged(step: Step) -> None:
    """Check that a file has the content that is to be replaced.

    :raises FileChangedError: it has another.
    :raises MemoryFileError: it is not a regular file.
    """
    now = digest_of(step.real)
    if now == OTHER:
        raise MemoryFileError(f"{step.real} is not a regular file, or is larger than 64 MB. Nothing was changed.")
    if now != step.before:
        raise FileChangedError(f"{step.real} has changed since it was read. Nothing was changed; try again.")


def replace(step: Step) -> bool:
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


def remove(path: str) -> None:
    """Remove a file if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def digest(data: bytes | None) -> str:
    """Return the SHA-256 of the content of a file; "" if there is none."""
    return "" if data is None else hashlib.sha256(data).hexdigest()
