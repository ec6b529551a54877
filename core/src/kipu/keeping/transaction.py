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
import itertools
import logging
import os
import re
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ..errors import FileChangedError, MemoryFileError, WritingBusyError
from ..index.database import make_hidden_folder
from ..sqlite import uninterrupted
from ..workspace.scan import is_memory_file_name
from . import journal, steps
from .exchanging import sync_folder
from .files import read_regular, write_new
from .steps import ENDINGS, OTHER, FileChange, Step

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from filelock import BaseFileLock

__all__ = ["FileChange", "Writer"]

_LOCK_SECONDS = 60.0
# How long to wait before the lock is tried again: longer and longer, for many who try often keep who has it from work.
_LOOK_AGAIN_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.02
# What we call files in .kipu/writing, and beside a file on another disk. Nothing else is ever removed.
_TEMPORARY = re.compile(r"[0-9]+-[0-9]+\.tmp")
_OURS = re.compile(
    rf"{_TEMPORARY.pattern}({'|'.join(map(re.escape, ENDINGS))})|{re.escape(journal.NAME)}(\.new)?|"
    r"[0-9a-f]{16}\.elsewhere"
)
_ELSEWHERE = re.compile(rf"\.kipu-{_TEMPORARY.pattern}")
_LONGEST_PATH = 65_536

_logger = logging.getLogger("kipu")


class _GivenUpError(MemoryFileError):
    """What was begun cannot be done. It was undone, or what is left of it was set aside: somebody else goes on."""


class Writer:
    """Writes the files of one workspace.

    :param hidden: the folder ``.kipu`` of the workspace.
    :param allows: whether a real path is one of the workspace's. What a journal says of others is not done: the folder
        may have come with files that somebody else made.
    :param sees: whether people may be told of the file of a real path: it may belong to another scope.
    :param notes: where it is noted, for people, what became of what a killed process left.
    :param wait: how many seconds to wait for another process that is writing.
    """

    def __init__(
        self,
        hidden: Path,
        allows: Callable[[str], bool],
        sees: Callable[[str], bool] | None = None,
        notices: list[str] | None = None,
        wait: float = _LOCK_SECONDS,
    ) -> None:
        self._notes: list[str] = [] if notices is None else notices
        self._hidden = hidden
        self._allows = allows
        self._sees = sees
        self._root = os.path.realpath(hidden.parent)
        self._folder = Path(self._root) / hidden.name / "writing"
        self._wait = wait
        self._here = asyncio.Lock()  # between the tasks of this memory; the file keeps out everybody else

    # --- the lock --------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the lock of the workspace. What a killed process left half done is finished first.

        :raises WritingBusyError: another process holds it for longer than we wait.
        :raises MemoryFileError: the folder ``.kipu`` cannot be written, or what a killed process left in it.
        """
        async with self._here:
            lock = await self._acquired(self._wait)
            try:
                await uninterrupted(asyncio.to_thread(self._recover_others))
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
                await uninterrupted(asyncio.to_thread(self._recover_others))
            except MemoryFileError:
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
                f"{error.filename or self._hidden} cannot be written: {error.strerror or error}. Kipu keeps its lock "
                f"and what it is writing in {self._hidden} while it changes memory files."
            ) from error

    def told(self) -> list[str]:
        """What is to be told of what was found, once."""
        notices, self._notes[:] = list(self._notes), []
        return notices

    # --- changing files --------------------------------------------------------------------------------------------

    async def apply(self, changes: Sequence[FileChange]) -> None:
        """Make changes, all or none. Call it while you hold the lock.

        :raises FileChangedError: a file does not say what it should have said before. Nothing was changed.
        :raises MemoryFileError: a file cannot be written. Nothing was changed.
        """
        # A change that has begun is finished, also for somebody who does not wait for it any more.
        await uninterrupted(asyncio.to_thread(self._apply, changes))

    def _apply(self, changes: Sequence[FileChange]) -> None:
        planned: list[Step] | None = None
        problem = None
        try:
            planned = [Step.of(change, self._temporary(change, number)) for number, change in enumerate(changes)]
            for change, step in zip(changes, planned, strict=True):
                _check_unchanged(step)
                self._note_elsewhere(step)
                if change.after is not None:
                    self._write_temporary(change.real, step.temporary, change.after, change.like)
                if len(planned) > 1 and change.before is not None:
                    self._write_temporary(change.real, step.saved, change.before)
            for step in planned:  # an editor may have saved a file meanwhile: this is the last moment to see it
                _check_unchanged(step)
            self._make_way_for_journal()
            # Of a single file, the exchange is what has to reach the disk; the journal is for a process that is killed.
            journal.write(self._folder, [step.below(self._root) for step in planned], durable=len(planned) > 1)
        except OSError as error:
            problem = error
        finally:
            made = self._recover()
        if made == planned:  # also after an error that came when the journal was written: it was followed
            return
        if problem is not None:
            raise _cannot_write(problem) from problem
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
        old = None
        with contextlib.suppress(FileNotFoundError):
            old = os.stat(like or real)
            if not os.access(like or real, os.W_OK):
                raise PermissionError(errno.EACCES, "it is read-only", like or real)
        # Nobody else may read it before it has the permissions of the file: that may be a private one.
        write_new(temporary, data, 0o600 if old else 0o666, name=real)
        if old is not None:
            if hasattr(os, "chown") and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                with contextlib.suppress(PermissionError):  # the owner of a new file is who writes it
                    os.chown(temporary, old.st_uid, old.st_gid)
            os.chmod(temporary, stat.S_IMODE(old.st_mode))

    def _note_elsewhere(self, step: Step) -> None:
        """Write down where a temporary file is that does not lie in ``.kipu``: so it is found if we are killed."""
        if os.path.dirname(step.temporary) == str(self._folder):
            return
        name = hashlib.sha256(os.fsencode(step.temporary)).hexdigest()[:16]
        write_new(self._folder / f"{name}.elsewhere", os.fsencode(f"{step.temporary}\0{step.real}"))
        sync_folder(str(self._folder))

    def _make_way_for_journal(self) -> None:
        """Set aside what stands where the journal is to stand, and is no file of ours."""
        names = [name for name in (journal.NAME, f"{journal.NAME}.new") if os.path.lexists(self._folder / name)]
        if names:
            aside = self._set_aside(names)
            self._tell(f"In {self._folder}, {' and '.join(names)} stood in the way, and was set aside in {aside}.")

    # --- what a killed process left ----------------------------------------------------------------------------------

    def _has_remains(self) -> bool:
        try:
            with os.scandir(self._folder) as entries:
                return any(True for _ in entries)
        except OSError:
            return False

    def _recover_others(self) -> None:
        """Finish what another process began; where that cannot be, it is told, and keeps nobody from going on.

        :raises MemoryFileError: not even that can be done, since the disk is full or read-only.
        """
        try:
            self._recover()
        except _GivenUpError as error:
            reason = "" if self._sees else f" {error}"
            self._tell(f"What a process that was killed had begun could not be finished.{reason}")

    def _recover(self) -> list[Step]:
        """Finish the changes of a journal, and remove what nobody needs any more. Called with the lock.

        Where a file says what nobody here decided on, somebody else wrote it: it stays, and the others are undone.

        :return: the changes that were made: all of them, or none.
        :raises MemoryFileError: what was begun stays as it is, for whoever writes next; or it would be done once more.
        """
        for may_be_of_the_moment in (True, False):
            try:
                made, problem = self._finish(self._begun() if journal.NAME in self._ours() else [])
                ours = self._ours()
                elsewhere = {name: self._elsewhere(name) for name in ours if name.endswith(".elsewhere")}
                break
            except (OSError, ValueError) as error:
                if not may_be_of_the_moment or isinstance(error, ValueError):
                    self._give_up(error)
        if journal.NAME in ours:
            journal.end(self._folder)
        for name, paths in elsewhere.items():
            if not self._remove(paths):
                ours.remove(name)  # the note stays, so that they are found
        self._remove([str(self._folder / name) for name in ours])
        if problem is not None:
            raise _GivenUpError(str(_cannot_write(problem))) from problem
        return made

    def _remove(self, paths: Sequence[str]) -> bool:
        """Remove what nobody needs any more, and is in nobody's way where that cannot be: whether all of it was."""
        all_removed = True
        for path in paths:
            try:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):  # none is ours
                    os.remove(path)
            except OSError as error:
                all_removed = False
                self._tell(f"{path} cannot be removed: {error.strerror or error}. Nobody needs it any more.")
        return all_removed

    def _give_up(self, error: OSError | ValueError) -> NoReturn:
        """Set aside what was begun, so that it keeps nobody from going on."""
        try:
            aside = self._set_aside(self._ours())
        except OSError as worse:
            raise MemoryFileError(
                f"{_name(worse)} cannot be written: {worse.strerror or worse}. What was begun there is finished, or "
                "undone, by whoever writes next."
            ) from worse
        raise _GivenUpError(
            f"What was begun cannot be finished, and not be undone: {_said(error)}. What is left of it was set aside "
            f"in {aside}."
        ) from error

    def _begun(self) -> list[Step]:
        """The steps of the journal.

        :raises ValueError: there is one that we would not have written down.
        """
        begun = [step.at(self._root) for step in journal.read(self._folder)]
        for step in begun:
            if not self._is_ours(step):
                raise ValueError(f"it names {step.real!r}, which is no memory file here")
        if len({step.real for step in begun}) < len(begun) or len({step.temporary for step in begun}) < len(begun):
            raise ValueError("it names a file twice")
        return begun

    def _finish(self, begun: list[Step]) -> tuple[list[Step], OSError | None]:
        """Make all changes, or undo them: those that were made, and what was in the way.

        :raises OSError: one of them can be neither made nor undone.
        """
        problem = None
        try:
            given_back = [steps.give_back(step, self._tell_of(step)) for step in begun]
            undone = steps.were_taken_back(begun) and not steps.are_made(begun)
            if not any(given_back) and not undone and all(map(steps.put_in_place, begun)):
                return begun, None
        except OSError as error:
            problem = error
        for step in begun:
            steps.give_back(step, self._tell_of(step))
            steps.take_back(step)
            steps.give_back(step, self._tell_of(step))
        # After an error, also after one that could be passed over, nobody knows what was done without having looked.
        if any(step.before != step.after and steps.are_made([step]) for step in begun):
            if not steps.are_made(begun):
                raise problem or OSError(errno.EIO, "it was changed, and cannot be changed back", begun[0].real)
            return begun, None
        return [], problem

    def _tell_of(self, step: Step) -> Callable[[str], None]:
        """What tells of a change; of a file of another scope, no more than that there was something."""
        if self._sees is None or self._sees(step.real):
            return self._tell
        return lambda note: self._tell(
            "Somebody saved a file that does not belong to this scope when a process that changed it was killed. "
            "What they saved is kept."
        )

    def _ours(self) -> list[str]:
        """The names of the files that we left: no folder, link or pipe is one, and no other name."""
        with os.scandir(self._folder) as entries:
            names = [
                each.name for each in entries if _OURS.fullmatch(each.name) and each.is_file(follow_symlinks=False)
            ]
        return sorted(names)

    def _elsewhere(self, name: str) -> list[str]:
        """The temporary file that a note is about, which does not lie in ``.kipu``, and what may be kept beside it.

        :raises ValueError: it is none of ours.
        """
        said = os.fsdecode(read_regular(self._folder / name, 2 * _LONGEST_PATH))
        temporary, _, real = said.partition("\0")
        if not self._is_beside(temporary, real):
            raise ValueError(f"{name} names {said!r}, which is no temporary file of Kipu")
        return Step("", temporary, "", "").names()

    def _is_beside(self, temporary: str, real: str) -> bool:
        """Whether this is where a memory file is written first where it is on another disk: in a folder above it."""
        folder, name = os.path.split(temporary)
        return (
            self._is_memory_file(real)
            and _ELSEWHERE.fullmatch(name) is not None
            and os.path.realpath(folder) == folder
            and f"{os.path.dirname(real)}{os.sep}".startswith(f"{folder.rstrip(os.sep)}{os.sep}")
        )

    def _is_memory_file(self, real: str) -> bool:
        folder, name = os.path.split(real)
        return (
            "\0" not in real and is_memory_file_name(name) and os.path.realpath(folder) == folder and self._allows(real)
        )

    def _is_ours(self, step: Step) -> bool:
        """Whether this is a change of a memory file of this workspace, as we would have written it down."""
        folder, name = os.path.split(step.temporary)
        if folder == str(self._folder):
            return self._is_memory_file(step.real) and _TEMPORARY.fullmatch(name) is not None
        return self._is_beside(step.temporary, step.real)

    # --- what cannot be used -----------------------------------------------------------------------------------------

    def _set_aside(self, names: Sequence[str]) -> Path:
        """Move what cannot be used into a folder of its own, where it is in nobody's way and not lost.

        :raises OSError: that cannot be done.
        """
        for number in itertools.count(1):
            aside = self._hidden / f"unusable-{number}"
            with contextlib.suppress(FileExistsError):
                aside.mkdir()
                break
        # The journal is the last: as long as it is there, what belongs to it is not taken for something left over.
        for name in sorted(names, key=lambda name: name == journal.NAME):
            with contextlib.suppress(FileNotFoundError):
                os.rename(self._folder / name, aside / name)
        return aside

    def _tell(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)
            _logger.warning(note)


def _cannot_write(error: OSError) -> MemoryFileError:
    return MemoryFileError(f"{_name(error)} cannot be written: {error.strerror or error}. Nothing was changed.")


def _name(error: OSError) -> str:
    return str(error.filename2 or error.filename or "A file")


def _said(error: OSError | ValueError) -> str:
    """What went wrong, without the end of a sentence."""
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)


def _check_unchanged(step: Step) -> None:
    now = steps.said_by(step.real)
    if now == OTHER:
        raise MemoryFileError(f"{step.real} is no regular file, or is too large to be changed. Nothing was changed.")
    if now != step.before:
        raise FileChangedError(f"{step.real} was changed by somebody else meanwhile. Nothing was changed; try again.")
