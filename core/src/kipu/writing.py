"""Changes memory files: the only code that does.

Who writes holds the lock of the workspace. What a file is to say is written beside it first and put in its place at
once, so that at every moment each file says what it said before or what it says then. Several files change together: a
journal is written first, and whoever holds the lock next finishes what a killed process began.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from .database import make_hidden_folder
from .driver import uninterrupted
from .errors import FileChangedError, MemoryFileError, WritingBusyError
from .exchanging import put_in_place_of, put_new, sync_folder
from .files import is_memory_file_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from filelock import BaseFileLock

__all__ = ["FileChange", "Writer"]

_LOCK_SECONDS = 60.0
# How long to wait before the lock is tried again: longer and longer, for many who try often keep who has it from work.
_LOOK_AGAIN_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.02
_JOURNAL = "journal.json"
_LARGEST = 64_000_000
# What we call files in .kipu/writing, and beside a file on another disk. Nothing else is ever removed.
_ENDINGS = ("saved", "replaced", "again")
_TEMPORARY = r"[0-9]+-[0-9]+\.tmp"
_OURS = re.compile(rf"{_TEMPORARY}(\.({'|'.join(_ENDINGS)}))?|{re.escape(_JOURNAL)}(\.new)?|[0-9a-f]{{16}}\.elsewhere")
_ELSEWHERE = re.compile(rf"\.kipu-{_TEMPORARY}")


@attrs.frozen
class FileChange:
    """What a file says before and after; None is a file that is not there. ``real`` is its real path.

    A new file gets the permissions of the file ``like``, where that is given.
    """

    real: str
    before: bytes | None
    after: bytes | None
    like: str | None = None


class Writer:
    """Writes the files of one workspace.

    :param hidden: the folder ``.kipu`` of the workspace.
    :param allows: whether a real path is one of the workspace's. What a journal says of others is not done: the folder
        may have come with files that somebody else made.
    :param wait: how many seconds to wait for another process that is writing.
    """

    def __init__(self, hidden: Path, allows: Callable[[str], bool], wait: float = _LOCK_SECONDS) -> None:
        self._hidden = hidden
        self._allows = allows
        self._root = os.path.realpath(hidden.parent)
        self._folder = Path(self._root) / hidden.name / "writing"
        self._wait = wait
        self._here = asyncio.Lock()  # between the tasks of this memory; the file keeps out everybody else

    # --- the lock --------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the lock of the workspace. What a killed process left half done is finished first.

        :raises WritingBusyError: another process holds it for longer than we wait.
        :raises MemoryFileError: the folder ``.kipu`` cannot be written.
        """
        async with self._here:
            lock = await self._acquired(self._wait)
            try:
                await uninterrupted(asyncio.to_thread(self._recover))
                yield
            finally:
                lock.release()

    async def recover(self) -> None:
        """Finish what a killed process left half done, unless somebody is writing now, or nothing can be written."""
        if not self._has_remains():
            return
        async with self._here:
            try:
                lock = await self._acquired(0)
            except (WritingBusyError, MemoryFileError):
                return
            try:
                await uninterrupted(asyncio.to_thread(self._recover))
            except (OSError, MemoryFileError):
                return  # who reads is not kept from it; who writes next says what is wrong, if it still is
            finally:
                lock.release()

    async def _acquired(self, wait: float) -> BaseFileLock:
        from filelock import FileLock, Timeout

        if self._folder.is_symlink():
            raise MemoryFileError(
                f"{self._folder} is a symbolic link, and what it leads to is not Kipu's. Remove the link."
            )
        end, pause = time.monotonic() + wait, _LOOK_AGAIN_SECONDS
        try:
            make_hidden_folder(self._hidden)
            self._folder.mkdir(exist_ok=True)
            # Not of one thread: tasks of one event loop may be in several, one after the other.
            lock = FileLock(self._hidden / "writing.lock", blocking=False, thread_local=False)
            while True:
                with contextlib.suppress(Timeout):
                    lock.acquire()
                    return lock
                if time.monotonic() >= end:
                    raise WritingBusyError(
                        f"Another process has been writing to the memory in {self._hidden.parent} for {wait:.0f} "
                        "seconds. Try again when it is done."
                    )
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        except OSError as error:
            raise MemoryFileError(
                f"{self._hidden} cannot be written: {error.strerror or error}. Kipu keeps its lock there while it "
                "changes memory files."
            ) from error

    # --- changing files --------------------------------------------------------------------------------------------

    async def apply(self, changes: Sequence[FileChange]) -> None:
        """Make changes, all or none. Call it while you hold the lock.

        :raises FileChangedError: a file does not say what it should have said before. Nothing was changed.
        :raises MemoryFileError: a file cannot be written. Nothing was changed.
        """
        # A change that has begun is finished, also for somebody who does not wait for it any more.
        await uninterrupted(asyncio.to_thread(self._apply, changes))

    def _apply(self, changes: Sequence[FileChange]) -> None:
        steps = [_Step.of(change, self._temporary(change, number)) for number, change in enumerate(changes)]
        try:
            for change, step in zip(changes, steps, strict=True):
                _check_unchanged(change)
                self._note_elsewhere(step.temporary)
                if change.after is not None:
                    self._write_temporary(change.real, step.temporary, change.after, change.like)
                if len(steps) > 1 and change.before is not None:
                    self._write_temporary(change.real, step.saved, change.before)
            for change in changes:  # an editor may have saved a file meanwhile: this is the last moment to see it
                _check_unchanged(change)
            finished = _put_in_place(steps[0]) if len(steps) == 1 else True
            if len(steps) > 1:
                self._write_journal(steps)
        except OSError as error:
            raise _cannot_write(error) from error
        finally:
            finished_all = self._recover()
        if not (finished and finished_all):
            raise FileChangedError("A file was changed by somebody else meanwhile. Nothing was changed; try again.")

    def _temporary(self, change: FileChange, number: int) -> str:
        """Where a file is written first: in ``.kipu``, or beside the file where that is another disk."""
        nearest = os.path.dirname(change.real)
        while not os.path.isdir(nearest):
            nearest = os.path.dirname(nearest)
        name = f"{os.getpid()}-{number}.tmp"
        if os.stat(nearest).st_dev == os.stat(self._folder).st_dev:
            return os.path.join(self._folder, name)
        return os.path.join(nearest, f".kipu-{name}")

    def _write_temporary(self, real: str, temporary: str, data: bytes, like: str | None = None) -> None:
        """Write what a file is to say, with the permissions of the file; a new one gets those of new files."""
        os.makedirs(os.path.dirname(real), exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        old = None
        with contextlib.suppress(FileNotFoundError):
            old = os.stat(like or real)
            if not os.access(like or real, os.W_OK):
                raise PermissionError(errno.EACCES, "it is read-only", like or real)
        # Nobody else may read it before it has the permissions of the file: that may be a private one.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(temporary, flags, 0o600 if old else 0o666)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            if hasattr(os, "chown") and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                with contextlib.suppress(PermissionError):  # the owner of a new file is who writes it
                    os.chown(temporary, old.st_uid, old.st_gid)
            os.chmod(temporary, stat.S_IMODE(old.st_mode))

    def _note_elsewhere(self, temporary: str) -> None:
        """Write down where a temporary file is that does not lie in ``.kipu``: so it is found if we are killed."""
        if os.path.dirname(temporary) == str(self._folder):
            return
        name = hashlib.sha256(os.fsencode(temporary)).hexdigest()[:16]
        (self._folder / f"{name}.elsewhere").write_bytes(os.fsencode(temporary))
        sync_folder(str(self._folder))

    def _write_journal(self, steps: Sequence[_Step]) -> None:
        whole = self._folder / f"{_JOURNAL}.new"
        with open(whole, "w", encoding="utf-8") as file:
            json.dump([attrs.asdict(step.below(self._root)) for step in steps], file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(whole, self._folder / _JOURNAL)
        sync_folder(str(self._folder))

    # --- what a killed process left ----------------------------------------------------------------------------------

    def _has_remains(self) -> bool:
        try:
            with os.scandir(self._folder) as entries:
                return any(True for _ in entries)
        except OSError:
            return False

    def _recover(self) -> bool:
        """Finish the changes of a journal, and remove what nobody needs any more. Called with the lock.

        Where a file says what nobody here decided on, somebody else wrote it: it stays, and the others are undone.

        :return: whether the changes were made.
        """
        # The journal goes last: as long as it is there, it can be begun again.
        ours = sorted(self._ours(), key=lambda name: name == _JOURNAL)
        steps = [step.at(self._root) for step in _read_journal(self._folder / _JOURNAL)] if _JOURNAL in ours else []
        if not all(map(self._is_ours, steps)):
            steps = []
        problem = None
        try:
            finished = all(_put_in_place(step) for step in steps)
        except OSError as error:
            finished, problem = False, error
        if not finished:
            for step in steps:
                _take_back(step)
        for name in ours:
            if name.endswith(".elsewhere"):
                self._remove_elsewhere((self._folder / name).read_bytes())
        for name in ours:
            with contextlib.suppress(FileNotFoundError):
                os.remove(self._folder / name)
        if problem is not None:
            raise _cannot_write(problem) from problem
        return finished

    def _ours(self) -> list[str]:
        """The names of the files that we left: no folder, link or pipe is one, and no other name."""
        with os.scandir(self._folder) as entries:
            return [
                entry.name for entry in entries if _OURS.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
            ]

    def _remove_elsewhere(self, noted: bytes) -> None:
        """Remove a temporary file that does not lie in ``.kipu``, if it is one, and what was kept beside it."""
        path = os.fsdecode(noted)
        if _ELSEWHERE.fullmatch(os.path.basename(path)) and self._allows(os.path.dirname(path)):
            for each in (path, *(f"{path}.{ending}" for ending in _ENDINGS)):
                with contextlib.suppress(OSError):
                    os.remove(each)

    def _is_ours(self, step: _Step) -> bool:
        """Whether this is a change of a memory file of this workspace, as we would have written it down."""
        folder, name = os.path.split(step.real)
        elsewhere, temporary = os.path.split(step.temporary)
        return (
            is_memory_file_name(name)
            and os.path.realpath(folder) == folder
            and self._allows(step.real)
            and (
                (elsewhere == str(self._folder) and _OURS.fullmatch(temporary) is not None)
                or (self._allows(elsewhere) and _ELSEWHERE.fullmatch(temporary) is not None)
            )
        )


@attrs.frozen
class _Step:
    """A change as the journal has it. ``before`` and ``after`` are the SHA-256 of what the file says; "" is no file.

    ``temporary`` is where what it is to say was written, and ``saved`` where what it said before was. What stood in its
    place is kept in ``replaced`` until it was looked at, and in ``again`` where it has to be put back.
    """

    real: str
    temporary: str
    before: str
    after: str

    @classmethod
    def of(cls, change: FileChange, temporary: str) -> _Step:
        return cls(change.real, temporary, _digest(change.before), _digest(change.after))

    def below(self, root: str) -> _Step:
        """The step with paths that are relative to a folder, as far as they lie in it: it may be copied or moved."""
        inside = f"{root}{os.sep}"
        return attrs.evolve(self, real=self.real.removeprefix(inside), temporary=self.temporary.removeprefix(inside))

    def at(self, root: str) -> _Step:
        """The step with absolute paths."""
        return attrs.evolve(self, real=os.path.join(root, self.real), temporary=os.path.join(root, self.temporary))

    @property
    def saved(self) -> str:
        return f"{self.temporary}.saved"

    @property
    def replaced(self) -> str:
        return f"{self.temporary}.replaced"

    @property
    def again(self) -> str:
        return f"{self.temporary}.again"


def _cannot_write(error: OSError) -> MemoryFileError:
    name = error.filename2 or error.filename or "A file"
    return MemoryFileError(f"{name} cannot be written: {error.strerror or error}. Nothing was changed.")


def _digest(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


def _read(real: str) -> bytes | None:
    """What a file says; None where there is none."""
    try:
        status = os.stat(real)
        if not stat.S_ISREG(status.st_mode):  # to open a pipe would be to wait for somebody who writes to it
            raise MemoryFileError(f"{real} is no regular file.")
        if status.st_size > _LARGEST:
            raise MemoryFileError(f"{real} is too large to be changed.")
        with open(real, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _has(path: str, digest: str) -> bool:
    """Whether a file of ours says what it should; a link is none of ours."""
    return not os.path.islink(path) and _digest(_read(path)) == digest


def _check_unchanged(change: FileChange) -> None:
    if _read(change.real) != change.before:
        raise FileChangedError(f"{change.real} was changed by somebody else meanwhile. Nothing was changed; try again.")


def _put_in_place(step: _Step) -> bool:
    """Make a change, unless it was made already. False where somebody else changed the file since it was decided on."""
    now = _digest(_read(step.real))
    if now == step.after:
        return True
    # Without its temporary file it was made before, and somebody put back what the file had said.
    if now != step.before or (step.after and not _has(step.temporary, step.after)):
        return False
    return _replaced(step)


def _replaced(step: _Step) -> bool:
    """Make a change. False where somebody saved the file at the same moment: then what they saved stands there again.

    An editor writes into the file, or puts another one in its place. So what stood there is kept until it was read.
    """
    if not step.before:
        made = put_new(step.temporary, step.real)
        sync_folder(os.path.dirname(step.real))
        return made
    taken: str | None = step.replaced
    if step.after:
        taken = put_in_place_of(step.temporary, step.real, step.replaced)
    else:
        os.rename(step.real, step.replaced)
    # At once: until it is put back, others read the file without what somebody saved.
    if taken is None or _digest(_read(taken)) == step.before:
        if taken is not None:
            os.remove(taken)
        sync_folder(os.path.dirname(step.real))
        return True
    if not step.after:
        put_new(taken, step.real)  # unless it was saved once more: that is what it shall say then
    elif (said := put_in_place_of(taken, step.real, step.again)) and _digest(_read(said)) != step.after:
        os.replace(said, step.real)  # it was saved once more
    sync_folder(os.path.dirname(step.real))
    return False


def _take_back(step: _Step) -> None:
    """Undo a change, if it was made."""
    if step.before == step.after or _digest(_read(step.real)) != step.after:
        return
    if not step.before:
        _replace(None, step.real)
    elif _has(step.saved, step.before):
        _replace(step.saved, step.real)


def _replace(temporary: str | None, real: str) -> None:
    """Put a temporary file in the place of another one; None removes it."""
    if temporary is not None:
        os.makedirs(os.path.dirname(real), exist_ok=True)
        os.replace(temporary, real)
    else:
        os.remove(real)
    sync_folder(os.path.dirname(real))


def _read_journal(path: Path) -> list[_Step]:
    try:
        found: list[dict[str, str]] = json.loads(path.read_text("utf-8"))  # what is no UTF-8 is a ValueError
        return [_Step(**{key: _checked(value) for key, value in step.items()}) for step in found]
    except FileNotFoundError:
        return []
    except (
        ValueError,
        TypeError,
        AttributeError,
        RecursionError,
    ):  # not ours: a journal is put in its place when it is whole
        return []


def _checked(said: str) -> str:
    """What a journal says, if it could be a path at all; a ValueError if it could not."""
    if "\0" in os.fsdecode(os.fsencode(said)):
        raise ValueError("a path with NUL in it")
    return said
