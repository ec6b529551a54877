"""Watching a workspace: index what changes in its files soon after it does, and report it.

An event of the file system is only a hint that something changed. After a hint all files are compared with the index,
and what is reported is how the index differs from before. Besides events there are two occasions for that comparison:
``sync.interval``, for what the file system does not report, and a retry of what failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import math
import os
import sys
from typing import TYPE_CHECKING, Any, Literal

import attrs

from .errors import IndexUnavailableError, KipuError
from .index.file import make_hidden_folder
from .index.queries import file_infos, known_files
from .sqlite import sqlite_errors
from .workspace.paths import is_memory_file_name, printable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from filelock import BaseFileLock
    from watchfiles import Change

    from .context import Context
    from .index.queries import KnownFile
    from .types import IndexReport

Event = Literal["added", "changed", "renamed", "removed"]

_logger = logging.getLogger("kipu")

_RETRY_SECONDS = 1.0  # when to retry what failed: each time after twice as long
_MAX_RETRY_SECONDS = 900.0
# These systems report everything below a folder cheaply. Linux needs a watch for each folder: naming them leaves out
# excluded ones, and keeps watchfiles from following a symlink to all of a disk.
_RECURSIVE = sys.platform in {"darwin", "win32"}


@attrs.frozen
class FileSummary:
    """What the index has of a file that changed; ``str`` makes a few words of it.

    ``earlier_path`` is the path of a renamed file before. ``problem`` is why a file has no chunks.
    """

    chunks: int = 0
    earlier_path: str | None = None
    problem: str | None = None

    def __str__(self) -> str:
        content = self.problem or ("1 chunk" if self.chunks == 1 else f"{self.chunks:,} chunks")
        return content if self.earlier_path is None else f"formerly {self.earlier_path}, {content}"


class Watcher:
    """Keeps the index of one workspace up to date for as long as it runs.

    :param update: brings the index up to date, as `Memory.index` does.
    :param on_event: called for each changed file of the scope with the event, the path as results have it, and what the
        index now has of it. It may be a coroutine function; the next call waits for it.
    :param on_problem: called with a sentence when something goes wrong, and not again while it stays so. By default it
        is logged as a warning.
    """

    def __init__(
        self,
        context: Context,
        update: Callable[[], Awaitable[IndexReport]],
        on_event: Callable[[Event, str, FileSummary], object] | None = None,
        on_problem: Callable[[str], object] | None = None,
    ) -> None:
        self._workspace = context.workspace
        self._scope = context.scope
        self._database = context.database
        self._config = context.config.sync
        self._notices = context.notices
        self._update = update
        self._on_event = on_event or (lambda event, path, summary: None)
        self._on_problem = on_problem or _logger.warning
        self._lock: BaseFileLock | None = None
        self._known: Mapping[str, KnownFile] | None = None
        self._failures = 0
        self._listening = False
        self._deaf: str | None = None
        self._reported: frozenset[str] = frozenset()
        self._callback_problem: str | None = None

    # --- one for each workspace ------------------------------------------------------------------------------------

    def claim(self) -> bool:
        """Lock the workspace for this watcher. Return False if another one, in any process, holds the lock.

        The system releases the lock when the process ends. Call `run` or `release` afterwards.

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
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # --- watching --------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> bool:
        """Index what changed before this call, then every change, until ``stop`` is set.

        Stopping cancels an update that is under way: what it has written stays, and a later one finds the rest. No
        error of a plugin, of the index or of a callback ends the watching.

        :returns: False, at once, if the workspace is already being watched.
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
        # An update repairs an index that cannot be read; the changes since before are not known then.
        with contextlib.suppress(KipuError, *sqlite_errors()):
            await self._changes()
        while True:
            folders = await asyncio.to_thread(self._folders)
            self._listening, self._deaf = False, None
            listener = asyncio.create_task(self._listen(folders))
            try:
                await asyncio.sleep(0)  # a change from here on ends the wait below
                self._listening = True
                await self._report_problems(await self._look())
                if folders == await asyncio.to_thread(self._folders):  # a folder that is new since is not heard
                    await asyncio.wait([listener], timeout=self._pause())
            finally:
                listener.cancel()
                await asyncio.wait([listener])

    def _pause(self) -> float:
        """Return after how many seconds to look although there was no hint."""
        retry = min(_RETRY_SECONDS * 2.0 ** min(self._failures - 1, 30), _MAX_RETRY_SECONDS)
        return min(self._config.interval or math.inf, retry if self._failures else math.inf)

    # --- listening to the file system --------------------------------------------------------------------------------

    async def _listen(self, folders: Iterable[str]) -> None:
        """Return after a change in one of the folders. Do not return where the file system cannot be listened to."""
        try:
            from watchfiles import awatch

            changes = awatch(
                *sorted(folders),
                watch_filter=self._matters,
                debounce=self._config.debounce_ms,
                rust_timeout=0,  # when a timeout is over, watchfiles drops what it hears at that moment
                recursive=_RECURSIVE,
                ignore_permission_denied=True,
            )
            async for _ in changes:
                await changes.aclose()
                return
        except Exception as error:  # noqa: BLE001 (watchfiles raises several, and watching goes on without it)
            # A folder has gone since, or a path that changed is not valid UTF-8, perhaps by the look itself.
            if self._listening or isinstance(error, FileNotFoundError):
                await asyncio.sleep(_RETRY_SECONDS)
                return
            self._deaf = f"The file system reports no changes: {error}. "
            if self._config.interval:
                self._deaf += f"All files are checked every {self._config.interval:g} seconds instead."
            else:
                self._deaf += "To check all files every 30 seconds, set this in kipu.toml: [sync] interval = 30"
        await asyncio.Event().wait()

    def _folders(self) -> frozenset[str]:
        """Return where to listen: the folders that may hold memory files, and those that hold a root.

        Symlinks that the configuration names are followed, others not.
        """
        added = [os.path.join(self._workspace.root, path) for path, file in (self._known or {}).items() if file.added]
        places = [*self._workspace.roots, *added]
        real = [os.path.realpath(place) for place in places]
        folders = {folder for folder in real if self._workspace.allows(folder)}
        if not _RECURSIVE:
            folders.update(*map(self._folders_below, folders))
            folders.update(os.path.dirname(place) for place in (*places, *real))
        return frozenset(filter(os.path.exists, folders))

    def _folders_below(self, top: str) -> Iterator[str]:
        for folder, names, _ in os.walk(top):
            yield folder
            names[:] = [
                name
                for name in names
                if not name.startswith(".")
                and printable(name) == name  # watchfiles refuses a name that is not valid UTF-8
                and not self._workspace.excluded(self._workspace.name_of(os.path.join(folder, name)) + "/")
            ]

    def _matters(self, change: Change, path: str) -> bool:
        """Return whether the path of a change may be a memory file, or a folder of some."""
        if change.name == "modified" and not is_memory_file_name(os.path.basename(path)) and not os.path.isdir(path):
            return False
        return self._workspace.allows(path) and not self._workspace.excluded(self._workspace.name_of(path))

    # --- updating and reporting --------------------------------------------------------------------------------------

    async def _look(self) -> list[str]:
        """Index and report what changed. Return what is wrong, in sentences."""
        problems = [self._deaf] if self._deaf else []
        try:
            with self._notices.collect() as notices:
                report = await self._update()
                changes = await self._changes()
        except Exception as error:  # noqa: BLE001 (a plugin may raise anything, and watching outlives it)
            self._failures += 1
            return [*problems, _describe(error)]
        self._failures = self._failures + 1 if report.pending or report.pending_vectors else 0
        if changes:
            self._callback_problem = None
        for change in changes:
            if failure := await _failure_of(self._on_event, *change):
                self._callback_problem = f"The on_event callback failed. {_describe(failure)}"
        known = self._known or {}
        return [
            *problems,
            *notices,
            *report.notices,
            *(f"{path} is missing; its files stay in the index." for path in report.missing),
            *(f"{file.path} {file.reason}." for file in report.skipped if known.get(file.path) is None),
            *([self._callback_problem] if self._callback_problem else []),
        ]

    async def _changes(self) -> list[tuple[Event, str, FileSummary]]:
        """Return how the index differs from before. A search may have changed it first."""
        async with self._database.reader() as connection:
            known = {path: file for path, file in (await known_files(connection)).items() if self._scope.sees(path)}
            changes = [] if self._known is None else _compare(self._known, known)
            infos = {info.path: info for info in await file_infos(connection)} if changes else {}
        self._known = known
        found = [(change, infos.get(change[1], FileSummary())) for change in changes]
        return [
            (event, path, FileSummary(info.chunks, earlier, info.problem)) for (event, path, earlier), info in found
        ]

    async def _report_problems(self, problems: Iterable[str]) -> None:
        """Report each problem that was not there the last time."""
        earlier, self._reported = self._reported, frozenset(problems)
        for problem in sorted(self._reported - earlier):
            if error := await _failure_of(self._on_problem, problem):
                _logger.warning("The on_problem callback failed (%s). The problem: %s", _describe(error), problem)


def _compare(before: Mapping[str, KnownFile], after: Mapping[str, KnownFile]) -> list[tuple[Event, str, str | None]]:
    """Return what happened to files, by path. A renamed file is one that went and came with the same bytes."""
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


async def _failure_of(callback: Callable[..., object], *arguments: Any) -> BaseException | None:
    """Call a function, or await a coroutine function, and return what it raised."""
    task = asyncio.current_task()
    try:
        answer = callback(*arguments)
        if inspect.isawaitable(answer):
            await answer
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling():
            raise
        return error  # of a task that the callback awaited
    except (Exception, SystemExit) as error:  # noqa: BLE001 (it is not ours, and watching outlives it)
        return error
    return None


def _describe(error: BaseException) -> str:
    return str(error) if isinstance(error, KipuError) else f"{type(error).__name__}: {error}"
