"""Watching: whatever happens to the files of a workspace is taken in and told, and nothing ends it but who began it.

Run as a program, this file is another process that watches: ``python test_watching.py WORKSPACE``.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from doubles import Hashing, Nearest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rows, rows_made_afresh, with_doubles
from watchfiles import Change

import kipu.watch
from kipu import Memory
from kipu.config import SyncConfig
from kipu.errors import EmbedderError, IndexBusyError, IndexUnavailableError
from kipu.index.queries import KnownFile
from kipu.watch import FileSummary, Watcher, _compare, _find_places, _topmost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from kipu import MemoryConfig
    from kipu.types import IndexReport

    Write = Callable[[str, str], Path]
    Config = Callable[..., MemoryConfig]

SECONDS = 60.0  # how long to wait for what must happen
QUICK = SyncConfig(debounce_ms=50, longest_wait_ms=2000)
NO_LINKS = pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege on Windows")


class Watched:
    """A watcher that runs, and what it told."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.told: list[tuple[str, str, str]] = []
        self.problems: list[str] = []
        self.rounds = 0
        self.report: IndexReport | None = None
        self.on_event: Callable[[str, str, FileSummary], Any] = lambda event, path, summary: None
        self.take_in: Callable[[], Awaitable[IndexReport]] = memory.index
        self.stop = asyncio.Event()
        self._news = asyncio.Event()
        self.watcher = Watcher(
            memory._workspace,
            memory._database,
            memory.config.sync,
            self._take_in,
            on_event=self._tell,
            on_problem=self._tell_problem,
        )

    async def _take_in(self) -> IndexReport:
        try:
            self.report = await self.take_in()
            return self.report
        finally:
            self.rounds += 1
            self._news.set()

    def _tell(self, event: str, path: str, summary: FileSummary) -> Any:
        self.told.append((event, path, str(summary)))
        self._news.set()
        return self.on_event(event, path, summary)

    def _tell_problem(self, problem: str) -> None:
        self.problems.append(problem)
        self._news.set()

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait until something holds that what is told brings about."""
        try:
            async with asyncio.timeout(SECONDS):
                while not holds():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pytest.fail(f"after {self.rounds} rounds, it told {self.told}, with the problems {self.problems}")

    async def hears(self, *told: tuple[str, str, str]) -> None:
        """Wait until something is told, which must be this and nothing else."""
        await self.until(lambda: len(self.told) >= len(told))
        assert self.told == list(told)
        self.told.clear()


@asynccontextmanager
async def watched(
    configuration: MemoryConfig, sync: SyncConfig = QUICK, prepare: Callable[[Watched], None] = lambda watched: None
) -> AsyncIterator[Watched]:
    """Watch a workspace, from the end of the first round on."""
    async with Memory(attrs.evolve(configuration, sync=sync)) as memory:
        watched = Watched(memory)
        prepare(watched)
        running = asyncio.create_task(watched.watcher.run(watched.stop))
        try:
            await watched.until(lambda: watched.rounds or running.done())
            yield watched
        finally:
            watched.stop.set()
            assert await asyncio.wait_for(running, SECONDS) is True
    assert not [thread for thread in threading.enumerate() if thread.name == "kipu-watching"]


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look ten times a second at what the file system is silent about."""
    monkeypatch.setattr(kipu.watch, "_LOOK_SECONDS", 0.1)


@pytest.fixture(params=[False, True], ids=["each folder", "folders with all in them"])
def way_of_listening(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listen as it is done on Linux, and as it is done on Windows and macOS."""
    monkeypatch.setattr(kipu.watch, "_RECURSIVE", request.param)


# --- what happens to files -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("way_of_listening")
async def test_a_file_is_made_edited_renamed_and_removed_and_each_is_told(config: Config, write: Write) -> None:
    async with watched(config()) as watching:
        file = write("memory/notes.md", "one\n")
        await watching.hears(("added", "memory/notes.md", "1 chunk"))
        write("memory/notes.md", "one\n\ntwo\n")
        await watching.hears(("changed", "memory/notes.md", "2 chunks"))
        file.rename(file.with_name("renamed.md"))
        await watching.hears(("renamed", "memory/renamed.md", "earlier memory/notes.md, 2 chunks"))
        file.with_name("renamed.md").unlink()
        await watching.hears(("removed", "memory/renamed.md", "0 chunks"))
        assert watching.problems == []


async def test_an_atomic_save_is_one_change(config: Config, write: Write) -> None:
    write("memory/notes.md", "one\n")
    async with watched(config()) as watching:
        await watching.hears(("added", "memory/notes.md", "1 chunk"))
        for number in range(3):
            os.replace(
                write("memory/.notes.md.tmp", f"save {number}\n\nmore\n"), watching.memory.workspace / "memory/notes.md"
            )
            await watching.hears(("changed", "memory/notes.md", "2 chunks"))


@pytest.mark.usefixtures("way_of_listening")
async def test_500_files_at_once_are_all_taken_in(
    config: Config, write: Write, workspace: Path, tmp_path: Path
) -> None:
    async with watched(config()) as watching:
        for number in range(500):
            write(f"memory/{number % 20}/{number:03}.md", f"note {number}\n")
        await watching.until(lambda: len(watching.told) >= 500)
        assert sorted(watching.told) == sorted(
            ("added", f"memory/{number % 20}/{number:03}.md", "1 chunk") for number in range(500)
        )
        assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
async def test_a_checkout_of_500_files_is_taken_in(
    config: Config, write: Write, workspace: Path, tmp_path: Path
) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.autocrlf=false"]
        subprocess.run(["git", *identity, *arguments], cwd=workspace, check=True, capture_output=True)

    git("init", "--initial-branch=few")
    write("memory/always.md", "always\n")
    (workspace / ".gitignore").write_text(".kipu\n")
    git("add", ".")
    git("commit", "-m", "few")
    git("checkout", "-b", "many")
    for number in range(500):
        write(f"memory/{number % 20}/{number:03}.md", f"note {number}\n")
    write("memory/always.md", "always, and changed\n")
    git("add", ".")
    git("commit", "-m", "many")
    async with watched(config()) as watching:
        await watching.until(lambda: len(watching.told) == 501)
        for branch, event in (("few", "removed"), ("many", "added"), ("few", "removed")):
            watching.told.clear()
            git("checkout", branch)
            await watching.until(lambda: len(watching.told) >= 501)
            assert sorted({told[0] for told in watching.told}) == sorted({event, "changed"})
            assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")


@pytest.mark.usefixtures("way_of_listening")
async def test_a_moved_folder_is_renamed_files_and_is_listened_to_where_it_is(
    config: Config, write: Write, workspace: Path
) -> None:
    write("memory/old/a.md", "alpha\n")
    write("memory/old/deep/b.md", "beta\n")
    async with watched(config()) as watching:
        await watching.until(lambda: len(watching.told) == 2)
        watching.told.clear()
        (workspace / "memory/old").rename(workspace / "memory/new")
        await watching.hears(
            ("renamed", "memory/new/a.md", "earlier memory/old/a.md, 1 chunk"),
            ("renamed", "memory/new/deep/b.md", "earlier memory/old/deep/b.md, 1 chunk"),
        )
        write("memory/new/deep/b.md", "gamma\n")
        await watching.hears(("changed", "memory/new/deep/b.md", "1 chunk"))


@pytest.mark.usefixtures("way_of_listening")
async def test_a_folder_that_is_deleted_and_made_again_is_listened_to(
    config: Config, write: Write, workspace: Path
) -> None:
    write("memory/team/a.md", "alpha\n")
    async with watched(config()) as watching:
        await watching.hears(("added", "memory/team/a.md", "1 chunk"))
        shutil.rmtree(workspace / "memory/team")
        (workspace / "memory/team").mkdir()
        await watching.hears(("removed", "memory/team/a.md", "0 chunks"))
        write("memory/team/b.md", "beta\n")
        await watching.hears(("added", "memory/team/b.md", "1 chunk"))
        shutil.rmtree(workspace / "memory/team")
        await watching.hears(("removed", "memory/team/b.md", "0 chunks"))
        write("memory/team/deep/er/c.md", "gamma\n")
        await watching.hears(("added", "memory/team/deep/er/c.md", "1 chunk"))
        write("memory/team/deep/er/c.md", "delta\n")
        await watching.hears(("changed", "memory/team/deep/er/c.md", "1 chunk"))


async def test_the_whole_memory_is_deleted_and_made_again(config: Config, write: Write, workspace: Path) -> None:
    write("memory/a.md", "alpha\n")
    write("memory/b.md", "beta\n")
    async with watched(config()) as watching:
        await watching.until(lambda: len(watching.told) == 2)
        watching.told.clear()
        shutil.rmtree(workspace / "memory")
        await watching.until(lambda: watching.problems)
        assert watching.problems == ["memory is missing; what was indexed of it is kept."]
        assert watching.told == []
        write("memory/b.md", "beta\n")
        await watching.hears(("removed", "memory/a.md", "0 chunks"))
        write("memory/b.md", "gamma\n")
        await watching.hears(("changed", "memory/b.md", "1 chunk"))
        shutil.rmtree(workspace / "memory")
        write("memory/b.md", "delta\n")
        await watching.hears(("changed", "memory/b.md", "1 chunk"))


async def test_a_memory_that_is_not_there_yet_is_waited_for(config: Config, write: Write, workspace: Path) -> None:
    (workspace / "memory").rmdir()
    async with watched(config()) as watching:
        write("memory/deep/a.md", "alpha\n")
        await watching.hears(("added", "memory/deep/a.md", "1 chunk"))


async def test_what_changed_while_nobody_watched_is_told_first(config: Config, write: Write) -> None:
    write("memory/a.md", "alpha\n")
    async with watched(config()) as watching:
        await watching.hears(("added", "memory/a.md", "1 chunk"))
    write("memory/b.md", "beta\n")
    async with watched(config()) as watching:
        await watching.hears(("added", "memory/b.md", "1 chunk"))


async def test_what_a_search_took_in_first_is_told_too(config: Config, write: Write) -> None:
    async with watched(config(), SyncConfig(debounce_ms=1000)) as watching:
        write("memory/a.md", "alpha\n")
        assert [result.path for result in await watching.memory.search("alpha")] == ["memory/a.md"]
        await watching.hears(("added", "memory/a.md", "1 chunk"))


async def test_a_file_that_cannot_be_indexed_is_told_with_the_reason(config: Config, workspace: Path) -> None:
    async with watched(config()) as watching:
        (workspace / "memory/a.md").write_bytes(b"\x00\x01\x02\xff" * 100)
        await watching.until(lambda: watching.told)
        ((event, path, said),) = watching.told
        assert (event, path) == ("added", "memory/a.md")
        assert "chunk" not in said
        with (workspace / "memory/large.md").open("wb") as file:
            file.truncate(20_000_001)
        await watching.until(lambda: watching.problems)
        assert watching.problems == ["memory/large.md is larger than files.max_bytes allows: 20,000,001 bytes."]


# --- places --------------------------------------------------------------------------------------------------------


@NO_LINKS
@pytest.mark.usefixtures("way_of_listening")
async def test_a_folder_behind_a_link_is_listened_to_wherever_the_link_leads(
    config: Config, write: Write, workspace: Path
) -> None:
    write("docs/a.md", "alpha\n")
    write("other/a.md", "beta\n")
    link = workspace / "memory/link"
    link.symlink_to(workspace / "docs")
    async with watched(config()) as watching:
        await watching.hears(("added", "memory/link/a.md", "1 chunk"))
        write("docs/deep/b.md", "b\n")
        await watching.hears(("added", "memory/link/deep/b.md", "1 chunk"))
        shutil.rmtree(workspace / "docs/deep")
        await watching.hears(("removed", "memory/link/deep/b.md", "0 chunks"))
        link.unlink()
        link.symlink_to(workspace / "other")
        await watching.hears(("changed", "memory/link/a.md", "1 chunk"))
        write("other/a.md", "gamma\n\ndelta\n")
        await watching.hears(("changed", "memory/link/a.md", "2 chunks"))
        shutil.rmtree(workspace / "other")
        await watching.until(lambda: watching.problems)
        write("other/a.md", "epsilon\n")
        await watching.hears(("changed", "memory/link/a.md", "1 chunk"))


@NO_LINKS
async def test_a_memory_that_is_a_link_is_listened_to(config: Config, write: Write, workspace: Path) -> None:
    (workspace / "memory").rmdir()
    (workspace / "memory").symlink_to(workspace / "notes", target_is_directory=True)
    async with watched(config()) as watching:
        write("notes/a.md", "alpha\n")
        await watching.until(lambda: watching.told)
        assert watching.told[0][0] == "added"
        write("notes/b.md", "beta\n")
        await watching.until(lambda: len(watching.told) == 2)


@NO_LINKS
async def test_a_file_behind_a_link_is_looked_at(config: Config, write: Write, workspace: Path) -> None:
    write("docs/a.md", "alpha\n")
    (workspace / "memory/link.md").symlink_to(workspace / "docs/a.md")
    async with watched(config()) as watching:
        await watching.hears(("added", "memory/link.md", "1 chunk"))
        os.replace(write("docs/new.md", "beta\n\ngamma\n"), workspace / "docs/a.md")
        await watching.hears(("changed", "memory/link.md", "2 chunks"))


@pytest.mark.usefixtures("way_of_listening")
async def test_further_folders_and_files_are_watched_inside_and_outside_of_the_workspace(
    config: Config, write: Write, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    paths = ["docs", "README.md", str(outside), "not-yet"]
    async with watched(config(files={"paths": paths})) as watching:
        write("README.md", "readme\n")
        await watching.hears(("added", "README.md", "1 chunk"))
        write("docs/a.md", "alpha\n")
        await watching.hears(("added", "docs/a.md", "1 chunk"))
        outside.mkdir()
        (outside / "b.md").write_text("beta\n")
        await watching.hears(("added", (outside / "b.md").as_posix(), "1 chunk"))
        (outside / "b.md").write_text("beta\n\nmore\n")
        await watching.hears(("changed", (outside / "b.md").as_posix(), "2 chunks"))
        os.replace(write("new.md", "readme\n\nmore\n"), watching.memory.workspace / "README.md")
        await watching.hears(("changed", "README.md", "2 chunks"))
        write("not-yet/c.md", "gamma\n")
        await watching.hears(("added", "not-yet/c.md", "1 chunk"))


async def test_a_file_that_was_added_by_name_is_looked_at(config: Config, write: Write) -> None:
    file = write("elsewhere/a.md", "alpha\n")
    async with Memory(config()) as memory:
        await memory.add("elsewhere/a.md")
    async with watched(config()) as watching:
        write("elsewhere/a.md", "alpha\n\nbeta\n")
        await watching.hears(("changed", "elsewhere/a.md", "2 chunks"))
        file.unlink()
        await watching.hears(("removed", "elsewhere/a.md", "0 chunks"))


async def test_only_what_may_be_a_memory_file_or_a_folder_of_some_gives_a_hint(config: Config, write: Write) -> None:
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
async def test_folders_that_are_hidden_excluded_or_out_of_the_workspace_are_not_listened_to(
    config: Config, write: Write, tmp_path: Path
) -> None:
    for path in ("a/b/c.md", "memory/.git/c.md", "memory/node_modules/c.md", "memory/team/c.md"):
        write(path, "text\n")
    async with Memory(config(files={"paths": ["a"], "exclude": ["node_modules"]})) as memory:
        root = memory.workspace
        (root / "memory/out").symlink_to(tmp_path)
        (root / "memory/in").symlink_to(root / "a/b")
        (root / "memory/round").symlink_to(root / "memory")
        (root / "memory/itself").symlink_to(root / "memory/itself")
        places = _find_places(memory._workspace, ["a/b/c.md", "z/z.md"])
    assert places.folders == {str(root / path) for path in ("memory", "memory/team", "a", "a/b")}
    assert set(places.stamps) == {
        str(root / path)
        for path in ("memory", "a", "memory/out", "memory/in", "memory/round", "memory/itself", "z/z.md")
    }
    assert not places.changed()
    write("z/z.md", "text\n")
    assert places.changed()


def test_only_the_topmost_folders_are_kept() -> None:
    folders = ["/a/b", "/a", "/a b", "/a-b/c", "/a.b", "/c/d", "/a/b/c", "/c/d/e"]
    assert sorted(_topmost([folder.replace("/", os.sep) for folder in folders])) == sorted(
        folder.replace("/", os.sep) for folder in ("/a", "/a b", "/a-b/c", "/a.b", "/c/d")
    )


# --- bursts --------------------------------------------------------------------------------------------------------


async def test_a_burst_is_taken_in_at_once(config: Config, write: Write) -> None:
    async with watched(config(), SyncConfig(debounce_ms=1500, longest_wait_ms=600_000)) as watching:
        for number in range(200):
            write(f"memory/{number % 5}.md", f"note {number}\n")
        await watching.until(lambda: len(watching.told) >= 5)
        assert watching.rounds == 2


async def test_a_burst_that_does_not_end_is_taken_in_all_the_same(config: Config, write: Write) -> None:
    done = threading.Event()

    def write_on() -> None:
        number = 0
        while not done.wait(0.005):
            write("memory/log.md", f"line {(number := number + 1)}\n")

    async with watched(config(), SyncConfig(debounce_ms=600_000, longest_wait_ms=300)) as watching:
        writing = asyncio.create_task(asyncio.to_thread(write_on))
        try:
            await watching.until(lambda: len(watching.told) >= 3)
        finally:
            done.set()
            await writing
    assert {told[:2] for told in watching.told} == {("added", "memory/log.md"), ("changed", "memory/log.md")}


# --- file systems that tell of nothing -----------------------------------------------------------------------------


async def test_an_interval_finds_what_the_file_system_does_not_tell(
    config: Config, write: Write, workspace: Path, tmp_path: Path
) -> None:
    write("memory/a.md", "alpha\n")
    os.link(workspace / "memory/a.md", tmp_path / "other-name.md")
    async with watched(config(), attrs.evolve(QUICK, interval=0.1)) as watching:
        await watching.hears(("added", "memory/a.md", "1 chunk"))
        (tmp_path / "other-name.md").write_text("alpha\n\nbeta\n")
        await watching.hears(("changed", "memory/a.md", "2 chunks"))


async def test_where_the_file_system_cannot_be_listened_to_it_is_told_once_and_looked_at(
    config: Config, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*folders: str, **options: Any) -> None:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr("watchfiles.watch", refuse)
    monkeypatch.setattr(kipu.watch, "_DEAF_SECONDS", 0.1)
    async with watched(config()) as watching:
        for number in range(3):
            write(f"memory/{number}.md", f"note {number}\n")
            await watching.hears(("added", f"memory/{number}.md", "1 chunk"))
    assert watching.problems == [
        "The file system tells of no changes: OS file watch limit reached. All files are looked at twice a minute "
        "instead; every 5 seconds with this in kipu.toml: [sync] interval = 5"
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems refuse such names")
async def test_a_name_that_is_not_utf8_keeps_no_other_file_from_being_heard(
    config: Config, write: Write, workspace: Path
) -> None:
    (workspace / os.fsdecode(b"memory/\xff")).mkdir()
    async with watched(config()) as watching:
        write("memory/a.md", "alpha\n")
        await watching.hears(("added", "memory/a.md", "1 chunk"))
        for name in (b"\xff/a.md", b"\xfe.md"):
            write(f"memory/{os.fsdecode(name)}", "text\n")
        await watching.until(lambda: watching.problems)
        write("memory/b.md", "beta\n")
        await watching.hears(("added", "memory/b.md", "1 chunk"))
    assert sorted(watching.problems) == [
        f"memory/\N{REPLACEMENT CHARACTER}{name} has a name that is not valid UTF-8; rename it."
        for name in (".md", "/a.md")
    ]


# --- faults --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_provider_that_fails_is_told_once_and_caught_up_with_when_it_is_back(
    config: Config, write: Write
) -> None:
    embedder = Hashing()

    def fail(number: int, texts: list[str]) -> None:
        raise EmbedderError("There is no answer.")

    embedder.misbehave = fail
    with_meaning = config(index={"embedder": embedder}, strategy=Nearest())
    async with watched(with_meaning) as watching:
        write("memory/a.md", "alpha\n\nbeta\n")
        await watching.hears(("added", "memory/a.md", "2 chunks"))
        write("memory/b.md", "gamma\n")
        await watching.hears(("added", "memory/b.md", "1 chunk"))
        assert (await watching.memory.status()).pending_vectors == 3
        embedder.misbehave = lambda number, texts: None
        await watching.until(lambda: watching.report is not None and watching.report.embedded == 3)
        assert (await watching.memory.status()).pending_vectors == 0
        assert len(watching.problems) == 1
        assert "There is no answer." in watching.problems[0]
        assert watching.told == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (IndexBusyError("Another process is writing."), "Another process is writing."),
        (OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device"),
        (RuntimeError("a plugin broke"), "RuntimeError: a plugin broke"),
    ],
)
async def test_what_cannot_be_taken_in_is_told_once_and_tried_again(
    config: Config, write: Write, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    monkeypatch.setattr(kipu.watch, "_RETRY_SECONDS", 0.01)
    async with watched(config()) as watching:

        async def fail() -> IndexReport:
            if watching.rounds < 4:
                raise error
            return await watching.memory.index()

        watching.take_in = fail
        write("memory/a.md", "alpha\n")
        await watching.hears(("added", "memory/a.md", "1 chunk"))
        assert watching.problems == [said]


async def test_a_damaged_index_is_mended_and_watching_goes_on(config: Config, write: Write, workspace: Path) -> None:
    write("memory/a.md", "alpha\n")
    async with Memory(config()) as memory:
        await memory.index()
    (workspace / ".kipu/index.sqlite").write_bytes(b"no database" * 1000)
    async with watched(config()) as watching:
        write("memory/b.md", "beta\n")
        await watching.hears(("added", "memory/b.md", "1 chunk"))
        shutil.rmtree(workspace / ".kipu", ignore_errors=True)
        write("memory/c.md", "gamma\n")
        await watching.hears(("added", "memory/c.md", "1 chunk"))
        assert rows(workspace)["files"]


async def test_a_callback_that_raises_is_told_once_and_goes_on_being_called(config: Config, write: Write) -> None:
    def refuse(event: str, path: str, summary: FileSummary) -> None:
        raise ValueError("not now")

    async with watched(config()) as watching:
        watching.on_event = refuse
        for number in range(3):
            write(f"memory/{number}.md", f"note {number}\n")
            await watching.hears(("added", f"memory/{number}.md", "1 chunk"))
        await watching.until(lambda: watching.problems)
        assert watching.problems == ["What is called with changes failed. ValueError: not now"]


@NO_LINKS
async def test_a_callback_for_problems_that_raises_is_logged(
    config: Config, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(problem: str) -> None:
        raise ValueError("not now")

    async with watched(config(), prepare=lambda watching: setattr(watching.watcher, "_on_problem", refuse)) as watching:
        (watching.memory.workspace / "memory/bad.md").symlink_to("nowhere.md")
        write("memory/a.md", "alpha\n")
        await watching.hears(("added", "memory/a.md", "1 chunk"))
    assert caplog.messages == [
        "What is called with problems failed (ValueError: not now). The problem: memory/bad.md is a symbolic link to a "
        "file that is not there."
    ]


async def test_callbacks_may_be_coroutine_functions_and_are_called_one_after_the_other(
    config: Config, write: Write
) -> None:
    said: list[str] = []

    async def slowly(event: str, path: str, summary: FileSummary) -> None:
        said.append(f"begin {path}")
        await asyncio.sleep(0)
        said.append(f"end {path}")

    async with watched(config()) as watching:
        watching.on_event = slowly
        write("memory/a.md", "alpha\n")
        await watching.until(lambda: watching.told)
        write("memory/b.md", "beta\n")
        await watching.until(lambda: len(watching.told) == 2)
    assert said[:3] == ["begin memory/a.md", "end memory/a.md", "begin memory/b.md"]


async def test_without_callbacks_problems_are_logged(
    config: Config, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    done = asyncio.Event()
    async with Memory(attrs.evolve(config(), sync=QUICK)) as memory:

        async def fail() -> IndexReport:
            if caplog.messages:
                done.set()
            raise IndexBusyError("Another process is writing.")

        stop = asyncio.Event()
        running = asyncio.create_task(Watcher(memory._workspace, memory._database, QUICK, fail).run(stop))
        await asyncio.wait_for(done.wait(), SECONDS)
        stop.set()
        await asyncio.wait_for(running, SECONDS)
    assert caplog.messages == ["Another process is writing."]


# --- beginning and ending ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "cancel"])
async def test_it_ends_at_once_also_while_it_takes_something_in(config: Config, how: str) -> None:
    begun = asyncio.Event()

    async def never() -> IndexReport:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with Memory(config()) as memory:
        watching = Watched(memory)
        watching.take_in = never
        running = asyncio.create_task(watching.watcher.run(watching.stop))
        await asyncio.wait_for(begun.wait(), SECONDS)
        if how == "stop":
            watching.stop.set()
            assert await asyncio.wait_for(running, SECONDS)
        else:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(running, SECONDS)
        assert not [thread for thread in threading.enumerate() if thread.name == "kipu-watching"]
        other = Watched(memory).watcher
        assert other.claim()
        other.release()


async def test_a_callback_may_end_it(config: Config, write: Write) -> None:
    write("memory/a.md", "alpha\n")
    async with Memory(config()) as memory:
        watching = Watched(memory)
        watching.on_event = lambda event, path, summary: watching.stop.set()
        assert await asyncio.wait_for(watching.watcher.run(watching.stop), SECONDS)
        assert [told[:2] for told in watching.told] == [("added", "memory/a.md")]


async def test_a_second_watcher_of_a_workspace_does_not_watch(config: Config, workspace: Path) -> None:
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


async def test_a_watcher_that_was_killed_leaves_no_lock(config: Config, write: Write, workspace: Path) -> None:
    with other_process(workspace) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        async with Memory(config()) as memory:
            assert not Watched(memory).watcher.claim()
        other.kill()
    async with watched(config()) as watching:
        write("memory/a.md", "alpha\n")
        await watching.hears(("added", "memory/a.md", "1 chunk"))


async def test_a_workspace_that_cannot_be_written_cannot_be_watched(config: Config, workspace: Path) -> None:
    (workspace / ".kipu").write_text("not a folder")
    async with Memory(config()) as memory:
        with pytest.raises(
            IndexUnavailableError, match=r"cannot be watched, because .*watching\.lock cannot be written"
        ):
            await Watched(memory).watcher.run(asyncio.Event())


class other_process(subprocess.Popen[str]):  # noqa: N801 (reads as the function that it stands for)
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


# --- what is told --------------------------------------------------------------------------------------------------

HASHES = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("123"))


@settings(deadline=None)
@given(HASHES, HASHES)
def test_what_is_told_leads_from_the_one_state_to_the_other(before: dict[str, str], after: dict[str, str]) -> None:
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
    return {path: KnownFile(1, path, 0, 0, 0, hash, "", False, None) for path, hash in hashes.items()}


def test_a_summary_is_said_in_a_few_words() -> None:
    assert str(FileSummary(1)) == "1 chunk"
    assert str(FileSummary(1200, "memory/a.md")) == "earlier memory/a.md, 1,200 chunks"
    assert str(FileSummary(0, None, "is not text")) == "is not text"


def test_importing_it_imports_neither_watchfiles_nor_filelock() -> None:
    code = "import sys, kipu.watch; print({'watchfiles', 'anyio', 'filelock'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
