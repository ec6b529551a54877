"""Watching: every change of the files of a workspace is indexed and reported, and no error ends it.

Run as a program, this file is another process that watches: ``python test_watch.py WORKSPACE``.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rows, rows_made_afresh, with_doubles
from watchfiles import Change

import kipu.watch
from kipu import Memory
from kipu.config import SyncConfig
from kipu.errors import EmbedderError, IndexBusyError, IndexUnavailableError
from kipu.index.queries import KnownFile
from kipu.testing import ScriptedEmbedder, VectorStrategy
from kipu.watch import FileSummary, Watcher, _compare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kipu import MemoryConfig
    from kipu.types import IndexReport


SECONDS = 60.0  # how long to wait for what must happen
QUICK = SyncConfig(debounce_ms=200, interval=0)
OFTEN = SyncConfig(debounce_ms=200, interval=0.1)
NO_LINKS = pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege on Windows")


class Watched:
    """A watcher, and what it reported."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.events: list[tuple[str, str, str]] = []
        self.problems: list[str] = []
        self.rounds = 0
        self.report: IndexReport | None = None
        self.on_event: Callable[[str, str, FileSummary], Any] = lambda event, path, summary: None
        self.update: Callable[[], Awaitable[IndexReport]] = memory.index
        self.stop = asyncio.Event()
        self._news = asyncio.Event()
        self.watcher = Watcher(memory._context, self._update, on_event=self._add_event, on_problem=self._add_problem)

    async def _update(self) -> IndexReport:
        try:
            self.report = await self.update()
            return self.report
        finally:
            self.rounds += 1
            self._news.set()

    def _add_event(self, event: str, path: str, summary: FileSummary) -> Any:
        self.events.append((event, path, str(summary)))
        self._news.set()
        return self.on_event(event, path, summary)

    def _add_problem(self, problem: str) -> None:
        self.problems.append(problem)
        self._news.set()

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait until a report makes a condition true."""
        try:
            async with asyncio.timeout(SECONDS):
                while not holds():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pytest.fail(f"after {self.rounds} rounds: events {self.events}, problems {self.problems}")

    async def expect(self, *events: tuple[str, str, str]) -> None:
        """Wait for these events; there must be no others."""
        await self.until(lambda: len(self.events) >= len(events))
        assert self.events == list(events)
        self.events.clear()


@asynccontextmanager
async def watched(
    configuration: MemoryConfig,
    sync: SyncConfig = QUICK,
    prepare: Callable[[Watched], None] = lambda watched: None,
    scope: str | None = None,
) -> AsyncIterator[Watched]:
    """Watch a workspace, from the end of the first round on."""
    async with Memory(attrs.evolve(configuration, sync=sync), scope=scope) as memory:
        watched = Watched(memory)
        prepare(watched)
        running = asyncio.create_task(watched.watcher.run(watched.stop))
        try:
            await watched.until(lambda: watched.rounds or running.done())
            yield watched
        finally:
            watched.stop.set()
            assert await asyncio.wait_for(running, SECONDS) is True


# --- what happens to files -----------------------------------------------------------------------------------------


async def test_added_changed_renamed_and_removed_files_are_reported(config, write):
    async with watched(config()) as watching:
        file = write("memory/notes.md", "one\n")
        await watching.expect(("added", "memory/notes.md", "1 chunk"))
        write("memory/notes.md", "one\n\ntwo\n")
        await watching.expect(("changed", "memory/notes.md", "2 chunks"))
        file.rename(file.with_name("renamed.md"))
        await watching.expect(("renamed", "memory/renamed.md", "formerly memory/notes.md, 2 chunks"))
        file.with_name("renamed.md").unlink()
        await watching.expect(("removed", "memory/renamed.md", "0 chunks"))
        assert watching.problems == []


async def test_an_atomic_save_is_one_change(config, write):
    write("memory/notes.md", "one\n")
    async with watched(config()) as watching:
        await watching.expect(("added", "memory/notes.md", "1 chunk"))
        for number in range(3):
            os.replace(
                write("memory/.notes.md.tmp", f"save {number}\n\nmore\n"), watching.memory.workspace / "memory/notes.md"
            )
            await watching.expect(("changed", "memory/notes.md", "2 chunks"))


async def test_a_scope_hears_of_its_own_files_alone(config, write, workspace):
    write("memory/alice/kept.md", "kept\n")
    other = write("memory/bob/private.md", "moved\n")
    async with watched(config(), scope="alice") as watching:
        await watching.expect(("added", "memory/alice/kept.md", "1 chunk"))
        mine = other.rename(workspace / "memory/alice/mine.md")
        await watching.expect(("added", "memory/alice/mine.md", "1 chunk"))
        mine.rename(other)
        await watching.expect(("removed", "memory/alice/mine.md", "0 chunks"))


async def test_500_files_at_once_are_all_indexed(config, write, workspace, tmp_path):
    async with watched(config()) as watching:
        for number in range(500):
            write(f"memory/{number % 20}/{number:03}.md", f"note {number}\n")
        await watching.until(lambda: len(watching.events) >= 500)
        assert sorted(watching.events) == sorted(
            ("added", f"memory/{number % 20}/{number:03}.md", "1 chunk") for number in range(500)
        )
        assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")


async def test_a_moved_folder_is_reported_as_renamed_files_and_still_watched(config, write, workspace):
    write("memory/old/a.md", "alpha\n")
    write("memory/old/deep/b.md", "beta\n")
    async with watched(config()) as watching:
        await watching.until(lambda: len(watching.events) == 2)
        watching.events.clear()
        (workspace / "memory/old").rename(workspace / "memory/new")
        await watching.expect(
            ("renamed", "memory/new/a.md", "formerly memory/old/a.md, 1 chunk"),
            ("renamed", "memory/new/deep/b.md", "formerly memory/old/deep/b.md, 1 chunk"),
        )
        write("memory/new/deep/b.md", "gamma\n")
        await watching.expect(("changed", "memory/new/deep/b.md", "1 chunk"))


async def test_a_folder_that_is_deleted_and_recreated_is_still_watched(config, write, workspace):
    write("memory/team/a.md", "alpha\n")
    async with watched(config()) as watching:
        await watching.expect(("added", "memory/team/a.md", "1 chunk"))
        shutil.rmtree(workspace / "memory/team")
        (workspace / "memory/team").mkdir()
        await watching.expect(("removed", "memory/team/a.md", "0 chunks"))
        write("memory/team/b.md", "beta\n")
        await watching.expect(("added", "memory/team/b.md", "1 chunk"))
        shutil.rmtree(workspace / "memory/team")
        await watching.expect(("removed", "memory/team/b.md", "0 chunks"))
        write("memory/team/deep/er/c.md", "gamma\n")
        await watching.expect(("added", "memory/team/deep/er/c.md", "1 chunk"))
        write("memory/team/deep/er/c.md", "delta\n")
        await watching.expect(("changed", "memory/team/deep/er/c.md", "1 chunk"))


async def test_the_memory_folder_can_be_deleted_and_recreated(config, write, workspace):
    write("memory/a.md", "alpha\n")
    write("memory/b.md", "beta\n")
    async with watched(config()) as watching:
        await watching.until(lambda: len(watching.events) == 2)
        watching.events.clear()
        shutil.rmtree(workspace / "memory")
        await watching.until(lambda: watching.problems)
        assert watching.problems == ["memory is missing; its files stay in the index."]
        assert watching.events == []
        write("memory/b.md", "beta\n")
        await watching.expect(("removed", "memory/a.md", "0 chunks"))
        write("memory/b.md", "gamma\n")
        await watching.expect(("changed", "memory/b.md", "1 chunk"))
        shutil.rmtree(workspace / "memory")
        write("memory/b.md", "delta\n")
        await watching.expect(("changed", "memory/b.md", "1 chunk"))


async def test_a_memory_folder_that_does_not_exist_yet_is_watched(config, write, workspace):
    (workspace / "memory").rmdir()
    async with watched(config()) as watching:
        write("memory/deep/a.md", "alpha\n")
        await watching.expect(("added", "memory/deep/a.md", "1 chunk"))


async def test_changes_since_the_last_watcher_are_reported_first(config, write):
    write("memory/a.md", "alpha\n")
    async with watched(config()) as watching:
        await watching.expect(("added", "memory/a.md", "1 chunk"))
    write("memory/b.md", "beta\n")
    async with watched(config()) as watching:
        await watching.expect(("added", "memory/b.md", "1 chunk"))


async def test_changes_that_a_search_indexed_first_are_reported_too(config, write):
    async with watched(config(), SyncConfig(debounce_ms=1000, interval=0)) as watching:
        write("memory/a.md", "alpha\n")
        assert [result.path for result in await watching.memory.search("alpha")] == ["memory/a.md"]
        await watching.expect(("added", "memory/a.md", "1 chunk"))


async def test_a_file_that_cannot_be_indexed_is_reported_with_the_reason(config, workspace):
    async with watched(config()) as watching:
        (workspace / "memory/a.md").write_bytes(b"\x00\x01\x02\xff" * 100)
        await watching.until(lambda: watching.events)
        ((event, path, summary),) = watching.events
        assert (event, path) == ("added", "memory/a.md")
        assert "chunk" not in summary
        with (workspace / "memory/large.md").open("wb") as file:
            file.truncate(20_000_001)
        await watching.until(lambda: watching.problems)
        assert watching.problems == ["memory/large.md is larger than files.max_bytes allows: 20,000,001 bytes."]


# --- places --------------------------------------------------------------------------------------------------------


@NO_LINKS
async def test_a_memory_folder_that_is_a_symlink_is_watched(config, write, workspace):
    (workspace / "memory").rmdir()
    (workspace / "memory").symlink_to(workspace / "notes", target_is_directory=True)
    async with watched(config()) as watching:
        write("notes/a.md", "alpha\n")
        await watching.until(lambda: watching.events)
        assert watching.events[0][0] == "added"
        write("notes/b.md", "beta\n")
        await watching.until(lambda: len(watching.events) == 2)


@NO_LINKS
async def test_the_interval_finds_changes_behind_a_symlink(config, write, workspace):
    write("docs/a.md", "alpha\n")
    write("other/a.md", "beta\n")
    link = workspace / "memory/link"
    link.symlink_to(workspace / "docs")
    async with watched(config(), OFTEN) as watching:
        await watching.expect(("added", "memory/link/a.md", "1 chunk"))
        os.replace(write("docs/new", "alpha\n\nbeta\n"), workspace / "docs/a.md")
        await watching.expect(("changed", "memory/link/a.md", "2 chunks"))
        os.replace(workspace / "other", workspace / "docs.new")
        os.replace(workspace / "docs", workspace / "docs.old")
        os.replace(workspace / "docs.new", workspace / "docs")
        await watching.until(lambda: ("changed", "memory/link/a.md", "1 chunk") in watching.events)


async def test_further_folders_and_files_are_watched_inside_and_outside_of_the_workspace(config, write, tmp_path):
    outside = tmp_path / "outside"
    paths = ["docs", "README.md", str(outside), "not-yet"]
    async with watched(config(files={"paths": paths})) as watching:
        write("README.md", "readme\n")
        await watching.expect(("added", "README.md", "1 chunk"))
        write("docs/a.md", "alpha\n")
        await watching.expect(("added", "docs/a.md", "1 chunk"))
        outside.mkdir()
        (outside / "b.md").write_text("beta\n")
        await watching.expect(("added", (outside / "b.md").as_posix(), "1 chunk"))
        (outside / "b.md").write_text("beta\n\nmore\n")
        await watching.expect(("changed", (outside / "b.md").as_posix(), "2 chunks"))
        os.replace(write("new.md", "readme\n\nmore\n"), watching.memory.workspace / "README.md")
        await watching.expect(("changed", "README.md", "2 chunks"))
        write("not-yet/c.md", "gamma\n")
        await watching.expect(("added", "not-yet/c.md", "1 chunk"))


async def test_a_file_that_was_added_by_name_is_watched(config, write):
    file = write("elsewhere/a.md", "alpha\n")
    async with Memory(config()) as memory:
        await memory.add("elsewhere/a.md")
    async with watched(config()) as watching:
        write("elsewhere/a.md", "alpha\n\nbeta\n")
        await watching.expect(("changed", "elsewhere/a.md", "2 chunks"))
        file.unlink()
        await watching.expect(("removed", "elsewhere/a.md", "0 chunks"))


async def test_only_memory_files_and_their_folders_give_a_hint(config, write):
    files = {"paths": ["."], "exclude": ["node_modules/", "drafts/*.md"]}
    async with Memory(config(files=files)) as memory:
        root = memory.workspace
        matters = Watched(memory).watcher._matters
        write("memory/team/notes.txt", "a folder, and a file that is no memory\n")
        for path in ("memory/a.md", "docs/B.MARKDOWN", "memory/team"):
            assert matters(Change.modified, str(root / path)), path
        assert matters(Change.deleted, str(root / "memory/gone"))
        for path in (
            ".kipu/index.sqlite",
            ".git/a.md",
            "memory/.a.md.swp",
            "memory/.obsidian/a.md",
            "node_modules/a.md",
            "web/node_modules/deep/a.md",
            "drafts/a.md",
            "memory/team/notes.txt",
        ):
            assert not matters(Change.modified, str(root / path)), path
        assert not matters(Change.modified, str(root.parent / "other/a.md"))


@NO_LINKS
@pytest.mark.parametrize("recursive", [False, True])
async def test_hidden_excluded_and_outside_folders_are_not_listened_to(config, write, tmp_path, monkeypatch, recursive):
    monkeypatch.setattr(kipu.watch, "_RECURSIVE", recursive)
    for path in ("a/b/c.md", "memory/.git/c.md", "memory/node_modules/c.md", "memory/team/c.md"):
        write(path, "text\n")
    async with Memory(config(files={"paths": ["a", "missing"], "exclude": ["node_modules"]})) as memory:
        root = memory.workspace
        (root / "memory/out").symlink_to(tmp_path)
        (root / "memory/round").symlink_to(root / "memory")
        folders = Watched(memory).watcher._folders()
    expected = ("memory", "a") if recursive else ("", "memory", "memory/team", "a", "a/b")
    assert folders == {str(root / path) for path in expected}


# --- file systems that report nothing ------------------------------------------------------------------------------


async def test_the_interval_finds_changes_that_the_file_system_does_not_report(config, write, workspace, tmp_path):
    write("memory/a.md", "alpha\n")
    os.link(workspace / "memory/a.md", tmp_path / "other-name.md")
    async with watched(config(), OFTEN) as watching:
        await watching.expect(("added", "memory/a.md", "1 chunk"))
        (tmp_path / "other-name.md").write_text("alpha\n\nbeta\n")
        await watching.expect(("changed", "memory/a.md", "2 chunks"))


@pytest.mark.parametrize(
    ("interval", "instead"),
    [
        (0.1, "All files are checked every 0.1 seconds instead."),
        (0, "To check all files every 30 seconds, set this in kipu.toml: [sync] interval = 30"),
    ],
)
async def test_a_file_system_that_cannot_be_listened_to_is_reported_once(config, write, monkeypatch, interval, instead):
    async def refuse(*folders: str, **options: Any) -> Any:
        raise OSError("OS file watch limit reached")
        yield

    monkeypatch.setattr("watchfiles.awatch", refuse)
    async with watched(config(), attrs.evolve(QUICK, interval=interval)) as watching:
        for number in range(3 if interval else 0):
            write(f"memory/{number}.md", f"note {number}\n")
            await watching.expect(("added", f"memory/{number}.md", "1 chunk"))
        await watching.until(lambda: watching.problems)
    assert watching.problems == [f"The file system reports no changes: OS file watch limit reached. {instead}"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other file systems refuse such names")
async def test_a_name_that_is_not_utf8_does_not_hide_other_changes(config, write, workspace):
    (workspace / os.fsdecode(b"memory/\xff")).mkdir()
    async with watched(config()) as watching:
        write("memory/a.md", "alpha\n")
        await watching.expect(("added", "memory/a.md", "1 chunk"))
        for name in (b"\xff/a.md", b"\xfe.md"):
            write(f"memory/{os.fsdecode(name)}", "text\n")
        await watching.until(lambda: watching.problems)
        write("memory/b.md", "beta\n")
        await watching.expect(("added", "memory/b.md", "1 chunk"))
    assert sorted(watching.problems) == [
        f"memory/\N{REPLACEMENT CHARACTER}{name} has a name that is not valid UTF-8; rename it."
        for name in (".md", "/a.md")
    ]


# --- faults --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_failing_provider_is_reported_once_and_retried(config, write):
    embedder = ScriptedEmbedder(script=[EmbedderError("There is no answer.")])

    with_meaning = config(index={"embedder": embedder}, strategy=VectorStrategy())
    async with watched(with_meaning) as watching:
        write("memory/a.md", "alpha\n\nbeta\n")
        await watching.expect(("added", "memory/a.md", "2 chunks"))
        write("memory/b.md", "gamma\n")
        await watching.expect(("added", "memory/b.md", "1 chunk"))
        assert (await watching.memory.status()).pending_vectors == 3
        embedder.script = []
        await watching.until(lambda: watching.report is not None and watching.report.embedded == 3)
        assert (await watching.memory.status()).pending_vectors == 0
        assert len(watching.problems) == 1
        assert "There is no answer." in watching.problems[0]
        assert watching.events == []


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (IndexBusyError("Another process is writing."), "Another process is writing."),
        (OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device"),
        (RuntimeError("a plugin broke"), "RuntimeError: a plugin broke"),
    ],
)
async def test_a_failed_update_is_reported_once_and_retried(config, write, monkeypatch, error, problem):
    monkeypatch.setattr(kipu.watch, "_RETRY_SECONDS", 0.01)
    async with watched(config()) as watching:

        async def fail() -> IndexReport:
            if watching.rounds < 4:
                raise error
            return await watching.memory.index()

        watching.update = fail
        write("memory/a.md", "alpha\n")
        await watching.expect(("added", "memory/a.md", "1 chunk"))
        assert watching.problems == [problem]


async def test_watching_survives_a_damaged_index(config, write, workspace):
    write("memory/a.md", "alpha\n")
    async with Memory(config()) as memory:
        await memory.index()
    (workspace / ".kipu/index.sqlite").write_bytes(b"no database" * 1000)
    async with watched(config()) as watching:
        write("memory/b.md", "beta\n")
        await watching.expect(("added", "memory/b.md", "1 chunk"))
        shutil.rmtree(workspace / ".kipu", ignore_errors=True)
        write("memory/c.md", "gamma\n")
        await watching.expect(("added", "memory/c.md", "1 chunk"))
        assert rows(workspace)["files"]


@pytest.mark.parametrize("error", [ValueError, SystemExit, asyncio.CancelledError])
async def test_a_failing_callback_is_reported_once_and_called_again(config, write, error):
    def refuse(event: str, path: str, summary: FileSummary) -> None:
        raise error("not now")

    async with watched(config()) as watching:
        watching.on_event = refuse
        for number in range(3):
            write(f"memory/{number}.md", f"note {number}\n")
            await watching.expect(("added", f"memory/{number}.md", "1 chunk"))
        await watching.until(lambda: watching.problems)
        assert watching.problems == [f"The on_event callback failed. {error.__name__}: not now"]


@NO_LINKS
async def test_a_failing_callback_for_problems_is_logged(config, write, caplog):
    def refuse(problem: str) -> None:
        raise ValueError("not now")

    async with watched(config(), prepare=lambda watching: setattr(watching.watcher, "_on_problem", refuse)) as watching:
        (watching.memory.workspace / "memory/bad.md").symlink_to("nowhere.md")
        write("memory/a.md", "alpha\n")
        await watching.expect(("added", "memory/a.md", "1 chunk"))
    assert caplog.messages == [
        "The on_problem callback failed (ValueError: not now). The problem: memory/bad.md is a symbolic link to a "
        "file that does not exist."
    ]


async def test_callbacks_may_be_coroutine_functions_and_never_overlap(config, write):
    steps: list[str] = []

    async def slowly(event: str, path: str, summary: FileSummary) -> None:
        steps.append(f"begin {path}")
        await asyncio.sleep(0)
        steps.append(f"end {path}")

    async with watched(config()) as watching:
        watching.on_event = slowly
        write("memory/a.md", "alpha\n")
        await watching.until(lambda: watching.events)
        write("memory/b.md", "beta\n")
        await watching.until(lambda: len(watching.events) == 2)
    assert steps[:3] == ["begin memory/a.md", "end memory/a.md", "begin memory/b.md"]


async def test_without_callbacks_problems_are_logged(config, write, caplog):
    done = asyncio.Event()
    async with Memory(attrs.evolve(config(), sync=QUICK)) as memory:

        async def fail() -> IndexReport:
            if caplog.messages:
                done.set()
            raise IndexBusyError("Another process is writing.")

        stop = asyncio.Event()
        running = asyncio.create_task(Watcher(memory._context, fail).run(stop))
        await asyncio.wait_for(done.wait(), SECONDS)
        stop.set()
        await asyncio.wait_for(running, SECONDS)
    assert caplog.messages == ["Another process is writing."]


# --- starting and stopping -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_it_stops_at_once_even_during_an_update(config, how):
    begun = asyncio.Event()

    async def never() -> IndexReport:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with Memory(config()) as memory:
        watching = Watched(memory)
        watching.update = never
        running = asyncio.create_task(watching.watcher.run(watching.stop))
        await asyncio.wait_for(begun.wait(), SECONDS)
        if how == "stop":
            watching.stop.set()
            assert await asyncio.wait_for(running, SECONDS)
        else:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(running, SECONDS)
        other = Watched(memory).watcher
        assert other.claim()
        other.release()


async def test_a_callback_may_stop_it(config, write):
    write("memory/a.md", "alpha\n")
    async with Memory(config()) as memory:
        watching = Watched(memory)
        watching.on_event = lambda event, path, summary: watching.stop.set()
        assert await asyncio.wait_for(watching.watcher.run(watching.stop), SECONDS)
        assert [event[:2] for event in watching.events] == [("added", "memory/a.md")]


async def test_a_workspace_has_one_watcher(config, workspace):
    async with watched(config()) as watching:
        second = Watched(watching.memory)
        assert await asyncio.wait_for(second.watcher.run(asyncio.Event()), SECONDS) is False
        assert second.rounds == 0
        with other_process(workspace) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "False\n"
    third = Watched(watching.memory).watcher
    assert third.claim()
    assert third.claim()
    third.release()


async def test_a_killed_watcher_leaves_no_lock(config, write, workspace):
    with other_process(workspace) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        async with Memory(config()) as memory:
            assert not Watched(memory).watcher.claim()
        other.kill()
    async with watched(config()) as watching:
        write("memory/a.md", "alpha\n")
        await watching.expect(("added", "memory/a.md", "1 chunk"))


async def test_a_workspace_that_cannot_be_written_cannot_be_watched(config, workspace):
    (workspace / ".kipu").write_text("not a folder")
    async with Memory(config()) as memory:
        with pytest.raises(
            IndexUnavailableError, match=r"cannot be watched, because .*watching\.lock cannot be written"
        ):
            await Watched(memory).watcher.run(asyncio.Event())


class other_process(subprocess.Popen[str]):  # noqa: N801 (used like a function)
    """Another process that watches; its first line says whether it does."""

    def __init__(self, workspace: Path) -> None:
        super().__init__(
            [sys.executable, __file__, str(workspace)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __exit__(self, *arguments: Any) -> None:
        self.kill()
        super().__exit__(*arguments)


async def main(workspace: Path) -> None:
    async with Memory(with_doubles(workspace)) as memory:
        watcher = Watched(memory).watcher
        print(watcher.claim(), flush=True)
        await watcher.run(asyncio.Event())


# --- events --------------------------------------------------------------------------------------------------------

HASHES = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("123"))


@settings(deadline=None)
@given(HASHES, HASHES)
def test_events_lead_from_the_earlier_state_to_the_later(before, after):
    changes = _compare(known(before), known(after))
    state = dict(before)
    for event, path, earlier_path in changes:
        if event in {"removed", "renamed"}:
            hash = state.pop(earlier_path or path)
            assert event == "removed" or hash == after[path]
    for event, path, _ in changes:
        if event != "removed":
            assert (path in before) == (event == "changed")
            state[path] = after[path]
    assert state == after
    assert [change[1] for change in changes] == sorted({change[1] for change in changes})
    added = {after[path] for event, path, _ in changes if event == "added"}
    assert not added & {before[path] for event, path, _ in changes if event == "removed"}


def known(hashes: dict[str, str]) -> dict[str, KnownFile]:
    return {path: KnownFile(1, path, 0, 0, 0, hash, "", False, None, "memory") for path, hash in hashes.items()}


def test_a_summary_is_a_few_words():
    assert str(FileSummary(1)) == "1 chunk"
    assert str(FileSummary(1200, "memory/a.md")) == "formerly memory/a.md, 1,200 chunks"
    assert str(FileSummary(0, None, "is not text")) == "is not text"


def test_importing_it_imports_neither_watchfiles_nor_filelock():
    code = "import sys, kipu.watch; print({'watchfiles', 'anyio', 'filelock'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
