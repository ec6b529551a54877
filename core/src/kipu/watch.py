"""Watches a workspace: what changes in its files is taken in a moment later, and told.

What a file system tells of is only a hint that something changed. It forgets some, when much happens at once or in a
folder that was made just now, and knows nothing of what lies behind a link. So after any hint, once it is quiet, all
files are looked at, and what is told is how the index differs from before. Four things give a hint: the file system;
a look each second at the few places that it is silent about; ``sync.interval``; and something that failed before.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import math
import os
import stat
import sys
import threading
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import attrs

from .errors import IndexUnavailableError, KipuError
from .index.database import make_hidden_folder
from .index.queries import file_infos, known_files
from .sqlite import sqlite_errors
from .workspace.scan import is_memory_file_name, printable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from filelock import BaseFileLock
    from watchfiles import Change

    from .config import SyncConfig
    from .index.database import Database
    from .index.queries import KnownFile
    from .types import IndexReport
    from .workspace.scan import Workspace

__all__ = ["Event", "FileSummary", "Watcher"]

Event = Literal["added", "changed", "renamed", "removed"]

_logger = logging.getLogger("kipu")

# How often watchfiles looks at what the file system told. It calls it quiet when a step brings no *further* path, so a
# file that is written again and again is quiet to it; that is why we wait for the quiet ourselves.
_STEP_MS = 50
_LOOK_SECONDS = 1.0  # how often to look at the places that the file system is silent about
_DEAF_SECONDS = 30.0  # how often to look at all files where the file system cannot be listened to
_INSTEAD = "All files are looked at twice a minute instead; every 5 seconds with this in kipu.toml: [sync] interval = 5"
_RETRY_SECONDS = 1.0  # when to try again what failed, though nothing changed: each time after twice as long
_LONGEST_RETRY_SECONDS = 900.0
# These systems tell of all that is below a folder. Elsewhere each folder has to be named, and is: what is excluded, or
# lies behind a link, is so left out or listened to as the workspace's rules have it.
_RECURSIVE = sys.platform in {"darwin", "win32"}


@attrs.frozen
class FileSummary:
    """What the index has of a file that changed; ``str`` makes a few words of it.

    ``earlier_path`` is what a renamed file was called before. ``problem`` is why a file has no chunks.
    """

    chunks: int = 0
    earlier_path: str | None = None
    problem: str | None = None

    def __str__(self) -> str:
        said = self.problem or ("1 chunk" if self.chunks == 1 else f"{self.chunks:,} chunks")
        return said if self.earlier_path is None else f"earlier {self.earlier_path}, {said}"


class Watcher:
    """Keeps the index of one workspace in step with its files for as long as it runs.

    :param config: how long to wait for what.
    :param take_in: brings the index up to date, as `Memory.index` does.
    :param on_event: called for each file with what happened to it, its path as results have it, and what the index has
        of it now. It may be a coroutine function; what comes after waits for it.
    :param on_problem: called with a sentence when something goes wrong, and not again as long as it stays so. By
        default it is logged as a warning.
    """

    def __init__(
        self,
        workspace: Workspace,
        database: Database,
        config: SyncConfig,
        take_in: Callable[[], Awaitable[IndexReport]],
        on_event: Callable[[Event, str, FileSummary], object] | None = None,
        on_problem: Callable[[str], object] | None = None,
    ) -> None:
        self._workspace = workspace
        self._database = database
        self._config = config
        self._take_in = take_in
        self._on_event = on_event or (lambda event, path, summary: None)
        self._on_problem = on_problem or _logger.warning
        self._lock: BaseFileLock | None = None
        self._listener: _Listener | None = None
        self._places = _Places(frozenset(), {})
        self._hint = asyncio.Event()
        self._known: Mapping[str, KnownFile] | None = None
        self._failures = 0
        self._told: frozenset[str] = frozenset()
        self._event_problem: str | None = None

    # --- one for each workspace ------------------------------------------------------------------------------------

    def claim(self) -> bool:
        """Become the one that watches the workspace; False where another is, in this process or in another one.

        A process that ends, however it does, gives it up. Who claims it either runs or calls `release`.

        :raises IndexUnavailableError: the folder of the index cannot be written.
        """
        from filelock import FileLock, Timeout

        if self._lock is not None:
            return True
        path = self._database.path.parent / "watching.lock"
        lock = FileLock(path, thread_local=False)
        try:
            make_hidden_folder(path.parent)
            lock.acquire(blocking=False)
        except Timeout:
            return False
        except (OSError, NotImplementedError) as error:
            raise IndexUnavailableError(
                f"{self._workspace.root} cannot be watched, because {path} cannot be written: {error}. Allow this user "
                "to write there."
            ) from error
        self._lock = lock
        return True

    def release(self) -> None:
        """Let another one watch the workspace."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # --- watching --------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> bool:
        """Take in what changed while nobody watched, then whatever changes, until ``stop`` is set.

        What is being taken in at that moment is given up; what was written of it stays, and the rest is found again.
        No error of a plugin, of the index or of a callback ends it.

        :returns: False, at once, where another one watches the workspace already.
        :raises IndexUnavailableError: the folder of the index cannot be written.
        """
        if not self.claim():
            return False
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch())
                await stop.wait()
                watching.cancel()
        finally:
            self.release()
        return True

    async def _watch(self) -> None:
        # Taking in mends an index that cannot be read; then what it had is not known, and its changes are not told.
        with contextlib.suppress(KipuError, *sqlite_errors()):
            await self._changes()
        try:
            while True:
                problems: list[str] = []
                try:
                    problems += await self._listen()
                    problems += await self._look()
                except Exception as error:  # noqa: BLE001 (a plugin may raise anything, and watching outlives it)
                    self._failures += 1
                    problems.append(_sentence(error))
                await self._tell_problems(problems)
                await self._wait()
        finally:
            await self._stop_listening()

    async def _wait(self) -> None:
        """Wait until something changed and was left alone since, or until it is time to look all the same."""
        now = asyncio.get_running_loop().time
        end = now() + self._pause()
        while not self._hint.is_set() and now() < end:
            heard = await _is_set(self._hint, min(_LOOK_SECONDS, end - now()))
            if not heard and await asyncio.to_thread(self._places.changed):
                self._hint.set()
        last = now() + self._config.longest_wait_ms / 1000
        while self._hint.is_set():
            self._hint.clear()
            if not await _is_set(self._hint, min(self._config.debounce_ms / 1000, last - now())):
                return

    def _pause(self) -> float:
        """After how many seconds to look at all files although there was no hint."""
        deaf = self._listener is not None and self._listener.error is not None
        retry = min(_RETRY_SECONDS * 2.0 ** min(self._failures - 1, 30), _LONGEST_RETRY_SECONDS)
        return min(
            self._config.interval or math.inf,
            _DEAF_SECONDS if deaf else math.inf,
            retry if self._failures else math.inf,
        )

    # --- hearing of changes ----------------------------------------------------------------------------------------

    async def _listen(self) -> list[str]:
        """Begin anew to listen to all folders that there are now, and say what is wrong with that.

        It is done before each look at the files, so whatever changes later gives a hint; and folders that were made,
        moved or replaced since the last time are heard, by whatever name.
        """
        added = [path for path, file in (self._known or {}).items() if file.added]
        for _ in range(5):
            await self._stop_listening()
            self._places = await asyncio.to_thread(_find_places, self._workspace, added)
            if not self._places.folders:
                return []
            self._listener = _Listener(self._places.folders, self._matters, self._hint)
            await self._listener.opened.wait()
            error = self._listener.error
            # What was made just before we listened to the folder that it is in, nobody told us of.
            found = await asyncio.to_thread(_find_places, self._workspace, added)
            if found.folders == self._places.folders and not isinstance(error, FileNotFoundError):
                return [] if error is None else [f"The file system tells of no changes: {error}. {_INSTEAD}"]
        self._hint.set()  # folders come and go so fast that it has to be done again
        return []

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            await self._listener.close()
            self._listener = None

    def _matters(self, change: Change, path: str) -> bool:
        """Whether what the file system tells of may be a memory file, or a folder of some. Called in another thread."""
        if change.name == "modified" and not is_memory_file_name(os.path.basename(path)) and not os.path.isdir(path):
            return False
        return self._workspace.allows(path) and not self._workspace.excluded(self._workspace.name_of(path))

    # --- taking in, and telling ------------------------------------------------------------------------------------

    async def _look(self) -> list[str]:
        """Take in and tell what changed, and say what went wrong."""
        report = await self._take_in()
        changes = await self._changes()
        self._failures = self._failures + 1 if report.pending or report.pending_vectors else 0
        if changes:
            self._event_problem = None
        for change in changes:
            if error := await _failure_of(self._on_event, *change):
                self._event_problem = f"What is called with changes failed. {_sentence(error)}"
        known = self._known or {}
        return [
            *report.notices,
            *(f"{path} is missing; what was indexed of it is kept." for path in report.missing),
            *(f"{file.path} {file.reason}." for file in report.skipped if known.get(file.path) is None),
            *([self._event_problem] if self._event_problem else []),
        ]

    async def _changes(self) -> list[tuple[Event, str, FileSummary]]:
        """How the index differs from what it was, whoever changed it: a search may have been faster."""
        async with self._database.reader() as connection:
            known = await known_files(connection)
            changes = [] if self._known is None else _compare(self._known, known)
            infos = {info.path: info for info in await file_infos(connection)} if changes else {}
        self._known = known
        found = [(change, infos.get(change[1], FileSummary())) for change in changes]
        return [
            (event, path, FileSummary(info.chunks, earlier, info.problem)) for (event, path, earlier), info in found
        ]

    async def _tell_problems(self, problems: Iterable[str]) -> None:
        """Tell each problem that was not there the last time."""
        told, self._told = self._told, frozenset(problems)
        for problem in sorted(self._told - told):
            if error := await _failure_of(self._on_problem, problem):
                _logger.warning("What is called with problems failed (%s). The problem: %s", _sentence(error), problem)


class _Listener:
    """Hears from the file system, in a thread of its own, that something changed in some folders.

    ``opened`` is set when from then on whatever changes is heard.

    :param matters: whether a change is worth a hint.
    :param hint: is set when there was one, and when from now on nothing can be heard. Where nothing can be heard from
        the beginning, there is only an ``error``.
    """

    def __init__(self, folders: Iterable[str], matters: Callable[[Change, str], bool], hint: asyncio.Event) -> None:
        self.error: Exception | None = None
        self._folders = _topmost(folders) if _RECURSIVE else sorted(folders)
        self._matters = matters
        self._hint = hint
        self._loop = asyncio.get_running_loop()
        self.opened = asyncio.Event()
        self._opening = True
        self._closing = threading.Event()
        # A daemon: a program in which somebody forgot to stop watching can still end.
        self._thread = threading.Thread(target=self._listen, name="kipu-watching", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """End the thread."""
        self._closing.set()
        await asyncio.to_thread(self._thread.join)

    def is_set(self) -> bool:
        """Whether to stop: watchfiles asks for it in each step, and the first time when it has begun to listen."""
        if self._opening:
            self._opening = False
            self._set(self.opened)
        return self._closing.is_set()

    def _listen(self) -> None:
        try:
            import watchfiles

            for _ in watchfiles.watch(
                *self._folders,
                watch_filter=self._matters,
                step=_STEP_MS,
                debounce=_STEP_MS,
                rust_timeout=0,  # when that is over, watchfiles forgets what it heard in the same moment
                stop_event=self,
                recursive=_RECURSIVE,
                ignore_permission_denied=True,
            ):
                self._set(self._hint)
        except Exception as error:  # noqa: BLE001 (a thread has nobody to raise it to)
            self.error = error
            if not self._opening:
                self._set(self._hint)
        finally:
            self._set(self.opened)

    def _set(self, event: asyncio.Event) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop was closed, and nobody waits any more
            self._loop.call_soon_threadsafe(event.set)


class _Places(NamedTuple):
    """Where memory files are: real ``folders``, and the ``stamps`` of what can change without their being told of it.

    That is a folder that is not there, what a link leads to, and a file that was named by itself.
    """

    folders: frozenset[str]
    stamps: Mapping[str, tuple[int, ...] | None]

    def changed(self) -> bool:
        """Whether something changed that the file system is silent about."""
        return any(_stamp(path) != stamp for path, stamp in self.stamps.items())


def _find_places(workspace: Workspace, added: Iterable[str]) -> _Places:
    """The places in which memory files may be: more, rather than fewer, than a look at the files would visit.

    :param added: paths of files that belong to the memory by themselves.
    """
    folders: set[str] = set()
    links: list[str] = []
    left = list(workspace.roots)
    while left:
        real = os.path.realpath(left.pop())
        if real in folders or not workspace.allows(real):
            continue
        try:
            with os.scandir(real) as found:
                entries = [entry for entry in found if not entry.name.startswith(".")]
        except OSError:
            continue  # a file, or not there, or not to be read: who looks at the files tells of it
        folders.add(real)
        for entry in entries:
            is_link = entry.is_symlink()
            is_folder = os.path.isdir(entry.path) if is_link else entry.is_dir(follow_symlinks=False)
            inside = os.path.realpath(entry.path) if is_link else entry.path
            # A name that is not valid UTF-8 cannot be listened to, and no file below it can be indexed.
            if is_folder and not workspace.excluded(workspace.name_of(inside) + "/") and printable(inside) == inside:
                left.append(inside)
            if is_link and (is_folder or is_memory_file_name(entry.name) or not os.path.exists(entry.path)):
                links.append(entry.path)
    named = [os.path.join(workspace.root, path) for path in added]
    elsewhere = [path for path in named if os.path.dirname(os.path.realpath(path)) not in folders]
    return _Places(frozenset(folders), {path: _stamp(path) for path in (*workspace.roots, *links, *elsewhere)})


def _stamp(path: str) -> tuple[int, ...] | None:
    """What tells that a file changed, or that a folder is another one; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    identity = (status.st_dev, status.st_ino)
    return identity if stat.S_ISDIR(status.st_mode) else (*identity, status.st_mtime_ns, status.st_size)


def _topmost(folders: Iterable[str]) -> list[str]:
    """Those of the folders that are in no other."""
    found: list[str] = []
    for folder in sorted(folders, key=lambda folder: folder.split(os.sep)):  # each right before what is in it
        if not found or not folder.startswith(found[-1].rstrip(os.sep) + os.sep):
            found.append(folder)
    return found


def _compare(before: Mapping[str, KnownFile], after: Mapping[str, KnownFile]) -> list[tuple[Event, str, str | None]]:
    """What happened to files, by path; a renamed one is one that went and came with the same bytes."""
    gone: dict[str, list[str]] = {}
    for path in sorted(before.keys() - after.keys(), reverse=True):
        gone.setdefault(before[path].hash, []).append(path)
    changes: list[tuple[Event, str, str | None]] = []
    for path in sorted(after):
        file, earlier = after[path], before.get(path)
        if earlier is None:
            paths = gone.get(file.hash)
            changes.append(("renamed", path, paths.pop()) if paths else ("added", path, None))
        elif earlier.hash != file.hash:
            changes.append(("changed", path, None))
    changes += [("removed", path, None) for paths in gone.values() for path in paths]
    return sorted(changes, key=lambda change: change[1])


async def _is_set(event: asyncio.Event, seconds: float) -> bool:
    """Whether an event is set within so many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


async def _failure_of(callback: Callable[..., object], *arguments: Any) -> Exception | None:
    """Call a function, be it a coroutine function or not, and return what it raised."""
    try:
        answer = callback(*arguments)
        if inspect.isawaitable(answer):
            await answer
    except Exception as error:  # noqa: BLE001 (it is not ours, and watching outlives it)
        return error
    return None


def _sentence(error: Exception) -> str:
    """What went wrong, for people."""
    return str(error) if isinstance(error, KipuError) else f"{type(error).__name__}: {error}"
