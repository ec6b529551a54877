"""Makes one change of one file, takes it back, and gives back what somebody else saved at that moment.

A process may be killed between any two lines here. What it leaves is told apart by what it says: what the file said
before, what it is to say, and what is neither of the two, which is somebody else's and never deleted.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import stat
from typing import TYPE_CHECKING

import attrs

from .exchanging import put_in_place_of, put_new, sync_folder
from .files import is_there, read_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "ENDINGS",
    "OTHER",
    "FileChange",
    "Step",
    "are_made",
    "digest",
    "give_back",
    "put_in_place",
    "said_by",
    "take_back",
    "were_taken_back",
]

_LARGEST = 64_000_000

OTHER = "other"
"""Instead of the SHA-256 of what is no file that we would write: a link, a folder, a pipe, what is too large."""

ENDINGS = ("", ".saved", ".replaced", ".again", ".saved.replaced", ".saved.again")
"""How the names end of a temporary file and of what is kept beside it."""


@attrs.frozen
class FileChange:
    """What a file says before and after; None is a file that is not there. ``real`` is its real path.

    A new file gets the permissions of the file ``like``, where that is given.
    """

    real: str
    before: bytes | None
    after: bytes | None
    like: str | None = None


@attrs.frozen
class Step:
    """A change as the journal has it. ``before`` and ``after`` are the SHA-256 of what the file says; "" is no file.

    ``temporary`` is where what it is to say was written, and ``saved`` where what it said before was, if it may have to
    be taken back. Beside them is kept what stood in its place, until it was looked at, or has to be put back.
    """

    real: str
    temporary: str
    before: str
    after: str

    @classmethod
    def of(cls, change: FileChange, temporary: str) -> Step:
        """The step that makes a change."""
        return cls(change.real, temporary, digest(change.before), digest(change.after))

    def below(self, root: str) -> Step:
        """The step with paths that are relative to a folder, as far as they lie in it: it may be copied or moved."""
        inside = f"{root}{os.sep}"
        return attrs.evolve(self, real=self.real.removeprefix(inside), temporary=self.temporary.removeprefix(inside))

    def at(self, root: str) -> Step:
        """The step with absolute paths."""
        return attrs.evolve(self, real=os.path.join(root, self.real), temporary=os.path.join(root, self.temporary))

    @property
    def saved(self) -> str:
        """Where what the file said before was written."""
        return f"{self.temporary}.saved"

    @property
    def reversed(self) -> Step:
        """The step that takes this one back."""
        return Step(self.real, self.saved, self.after, self.before)

    def left(self) -> list[str]:
        """What is left of the step: its temporary file, and what was kept beside it."""
        return [path for path in self.names() if is_there(path)]

    def names(self) -> list[str]:
        """What all of that would be called."""
        return [f"{self.temporary}{ending}" for ending in ENDINGS]

    def free(self) -> str:
        """Where something can be kept."""
        paths = self.names()[2:]
        return next((path for path in paths if not is_there(path)), paths[-1])


def digest(data: bytes | None) -> str:
    """The SHA-256 of what a file says; nothing for no file."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


def said_by(path: str) -> str:
    """The SHA-256 of what a file says; nothing where there is none, and `OTHER` for what we would not write.

    :raises OSError: it cannot be read.
    """
    if os.path.islink(path):
        return OTHER
    try:
        return digest(read_regular(path, _LARGEST))
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.EINVAL, errno.EFBIG):
            return OTHER
        raise


def are_made(changes: Sequence[Step]) -> bool:
    """Whether all files say what they were to say.

    :raises OSError: one of them cannot be read.
    """
    return all(said_by(step.real) == step.after for step in changes)


def were_taken_back(changes: Sequence[Step]) -> bool:
    """Whether a killed process had begun to take several changes back: what it put back is not in its place any more.

    Who began them anew could not take them back a second time.

    :raises OSError: something cannot be read.
    """
    return len(changes) > 1 and any(step.before and said_by(step.saved) != step.before for step in changes)


def put_in_place(step: Step) -> bool:
    """Make a change, unless it was made already. False where somebody else changed the file since it was decided on."""
    now = said_by(step.real)
    if now == step.after:
        return True
    # Without its temporary file it was made before, and somebody put back what the file had said.
    if now != step.before or (step.after and said_by(step.temporary) != step.after):
        return False
    return _replaced(step)


def take_back(step: Step) -> None:
    """Undo a change, if it was made, and if nobody saved the file since."""
    if step.before != step.after and said_by(step.real) == step.after:
        put_in_place(step.reversed)


def _replaced(step: Step) -> bool:
    """Make a change. False where somebody saved the file at the same moment: then what they saved stands there again.

    An editor writes into the file, or puts another one in its place. So what stood there is kept until it was read.
    """
    try:
        if not step.before:
            return put_new(step.temporary, step.real)
        kept = f"{step.temporary}.replaced"
        if said_by(kept) in (step.before, step.after):  # a process that was killed here had come as far as this
            with contextlib.suppress(FileNotFoundError):
                os.remove(kept)
        taken: str | None = kept
        if step.after:
            taken = put_in_place_of(step.temporary, step.real, kept)
        else:
            os.rename(step.real, kept)
        # At once: until it is put back, others read the file without what somebody saved.
        if taken is None:
            return True
        if _says(taken, step.before):
            with contextlib.suppress(OSError):  # what is left is removed, or told of, when all is done
                os.remove(taken)
            return True
        _put_back(taken, step)
    except FileNotFoundError:  # somebody removed it at this moment
        return False
    finally:
        sync_folder(os.path.dirname(step.real))
    return False


def _says(path: str, wanted: str) -> bool:
    """Whether a file says something; not if it cannot be read."""
    try:
        return said_by(path) == wanted
    except OSError:
        return False


def _put_back(taken: str, step: Step) -> None:
    """Put back what was taken from the place of a file, whatever it is, unless somebody has saved it once more.

    :raises OSError: what stood there then cannot be read: it is kept among our files, to be looked at once more.
    """
    if not step.after:
        put_new(taken, step.real)
        return
    try:
        said = put_in_place_of(taken, step.real, step.free())
    except FileNotFoundError:  # somebody removed what we had put there
        put_new(taken, step.real)
        return
    if said is not None and said_by(said) != step.after:
        os.replace(said, step.real)


def give_back(step: Step, tell: Callable[[str], None]) -> bool:
    """Give back what somebody saved at the moment of a change, and a killed process left among its own files.

    Where what the process had put there stands in its place still, it is put back. Else it is kept beside the file.

    :param tell: is told where.
    :return: whether there was anything.
    """
    found = False
    for path in step.left():
        said, now = said_by(path), said_by(step.real)
        if said in ("", step.before, step.after) or (said == now and said != OTHER):
            continue
        if not stat.S_ISREG(os.lstat(path).st_mode):  # nothing that could lead elsewhere is put among memory files
            tell(
                f"What was put in the place of {step.real} when a process changed it is no file. It is kept in {path}."
            )
            continue
        found = True
        if now == step.after:
            _put_back(path, step)
        else:
            beside = _kept_beside(path, step.real)
            tell(f"Somebody saved {step.real} when a process that changed it was killed. It is kept in {beside}.")
    return found


def _kept_beside(path: str, real: str) -> str:
    stem, suffix = os.path.splitext(real)
    for number in itertools.count(1):
        beside = f"{stem}.recovered{'' if number == 1 else f'-{number}'}{suffix}"
        if put_new(path, beside):
            sync_folder(os.path.dirname(beside))
            return beside
    raise AssertionError("numbers do not end")
