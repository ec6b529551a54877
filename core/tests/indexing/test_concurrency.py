"""Concurrent programs, memories and tasks on one workspace; and an index that another program locks or damages.

Run as a program, this file is one of the writers and readers of the first test. The environment variable
``KIPU_CONCURRENCY_SECONDS`` says how long they work.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rows import is_sound, rows, rows_made_afresh, select, with_doubles

import kipu.index.database
import kipu.indexing.compare
import kipu.indexing.indexer
import kipu.indexing.synchronizer
from kipu import Memory, sync
from kipu.errors import IndexBusyError, IndexUnavailableError
from kipu.sqlite import choose_driver
from kipu.testing import ParagraphChunker, WordStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kipu import Hit, Query
    from kipu.types import Index

SECONDS = float(os.environ.get("KIPU_CONCURRENCY_SECONDS", "20"))
FACTS = 40


# --- many processes ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_writers_and_four_readers_at_once_lose_nothing(workspace, tmp_path):
    writers = [start("write", workspace, name, str(SECONDS)) for name in ("one", "two")]
    readers = [start("read", workspace, name) for name in ("one", "two", "one", "two")]
    written = [finish(writer) for writer in writers]
    (workspace / "done").touch()
    read = [finish(reader) for reader in readers]
    assert all(int(facts) >= FACTS for facts in written)
    assert all(int(searches) > 0 for searches in read)
    assert is_sound(workspace)
    assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")
    texts = {text for (text,) in select(workspace, "SELECT text FROM chunks")}
    for name, facts in zip(("one", "two"), written, strict=True):
        assert {fact(name, number) for number in range(int(facts))} <= texts


@pytest.mark.slow
def test_processes_that_create_the_index_at_the_same_moment_create_one(workspace, tmp_path):
    for number in range(50):
        (workspace / f"memory/{number}.md").write_text(f"alpha {number}", "utf-8")
    processes = [start("make", workspace, "alpha") for _ in range(4)]
    for number in range(40):
        shutil.rmtree(workspace / ".kipu", ignore_errors=True)
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.stdout.readline() for process in processes if process.stdout is not None]
        assert answers == ["6 results, stale: False []\n"] * 4, number
        assert os.listdir(workspace / ".kipu").count("index.foreign-1.sqlite") == 0
    for process in processes:
        finish(process)
    assert is_sound(workspace)
    assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def finish(process: subprocess.Popen[str]) -> str:
    """Return the last line that a process printed; it must succeed and print no error."""
    output, errors = process.communicate(timeout=SECONDS + 300)
    assert (process.returncode, errors) == (0, ""), errors
    return output.strip().rpartition("\n")[2]


def fact(name: str, number: int) -> str:
    return f"fact {name}{number} of the writer {name}"


async def write(workspace: Path, name: str, seconds: str) -> None:
    """Write facts, at least so many and for so long; change other files; index after each step."""
    chance = random.Random(name)
    folder = workspace / "memory" / name
    folder.mkdir()
    end, facts = time.monotonic() + float(seconds), 0
    async with Memory(with_doubles(workspace)) as memory:
        while facts < FACTS or time.monotonic() < end:
            with (folder / f"facts {facts // 25}.md").open("a", encoding="utf-8") as file:
                file.write(f"{fact(name, facts)}\n\n")
            facts += 1
            scratch = folder / f"scratch {chance.randrange(5)}.md"
            match chance.randrange(4):
                case 0:
                    scratch.unlink(missing_ok=True)
                case 1 if scratch.exists():
                    scratch.replace(folder / f"scratch {chance.randrange(5)}.md")
                case _:
                    scratch.write_text(f"note {chance.random()}\n\nfact of no writer\n", "utf-8")
            await memory.index()
            # Only now readers may rely on the fact.
            aside = workspace / f"written {name} new"
            aside.write_text(str(facts), "utf-8")
            with contextlib.suppress(PermissionError):  # Windows: a reader has it open
                aside.replace(workspace / f"written {name}")
    print(facts)


async def read(workspace: Path, name: str) -> None:
    """Search until the writers are done, for what was indexed before the search."""
    chance, searches = random.Random(name), 0
    async with Memory(with_doubles(workspace)) as memory:
        while not (workspace / "done").exists():
            try:
                facts = int((workspace / f"written {name}").read_text("utf-8"))
            except FileNotFoundError:
                continue
            number = chance.randrange(facts)
            results = await memory.search(f"{name}{number}", sync=chance.choice([True, False]))
            assert [result.text for result in results] == [fact(name, number)], (number, facts, vars(results))
            searches += 1
    print(searches)


async def make(workspace: Path, word: str) -> None:
    """Search where there is no index yet, at the same moment as others, once for each line of input."""
    for _ in sys.stdin:
        async with Memory(with_doubles(workspace)) as memory:
            results = await memory.search(word)
        print(f"{len(results)} results, stale: {results.stale} {results.notices}", flush=True)


# --- many tasks and many memories in one process -------------------------------------------------------------------


async def test_concurrent_calls_on_one_memory_give_one_index(workspace, memory, tmp_path):
    for number in range(30):
        (workspace / f"memory/{number}.md").write_text(f"alpha {number}\n\nbeta {number}", "utf-8")
    answers = await asyncio.gather(
        *(memory.index(force=bool(number % 2)) for number in range(20)), *(memory.search("alpha") for _ in range(20))
    )
    assert all(report.chunks == 60 for report in answers[:20])
    assert all(len(results) == 6 and not results.stale for results in answers[20:])
    assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")


async def test_several_memories_in_one_process_share_an_index(workspace, tmp_path):
    memories = [Memory(with_doubles(workspace)) for _ in range(5)]
    try:
        for number in range(6):
            (workspace / f"memory/{number}.md").write_text(f"word{number}", "utf-8")
            (workspace / "memory/0.md").write_text(f"word0 {'again ' * number}", "utf-8")
            found = await asyncio.gather(
                *(memory.index() for memory in memories),
                *(memory.search(f"word{number}") for memory in memories),
            )
            assert [len(results) for results in found[5:]] == [1] * 5
            assert not any(results.stale for results in found[5:])
    finally:
        for each in memories:
            await each.close()
    assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")


# --- what other processes do in the middle of a run ----------------------------------------------------------------


@pytest.fixture
def in_the_middle(monkeypatch) -> Callable[[Callable[[], None]], None]:
    """Call a function once, when the next run has compared the files and starts to chunk them."""

    def in_the_middle(interrupt: Callable[[], None]) -> None:
        chunk, waiting = ParagraphChunker.chunk, [interrupt]

        def interrupted(self: ParagraphChunker, document: Any) -> Any:
            if waiting:
                waiting.pop()()
            return chunk(self, document)

        monkeypatch.setattr(ParagraphChunker, "chunk", interrupted)

    return in_the_middle


@pytest.fixture
def settled(monkeypatch) -> None:
    """Trust the time stamps of files at once."""
    monkeypatch.setattr(kipu.indexing.compare, "_TICK_NS", -1)


async def test_a_touched_file_that_another_process_removed_meanwhile_is_found_once_it_is_back(
    workspace, memory, write, tmp_path, in_the_middle, settled
):
    file = write("memory/touched.md", "alpha")
    write("memory/other.md", "beta")
    await memory.index()
    os.utime(file, (1, 1))
    write("memory/other.md", "beta changed")

    def interrupt() -> None:
        file.unlink()
        with sync.Memory(with_doubles(workspace)) as another:
            another.index()
        write("memory/touched.md", "alpha")

    in_the_middle(interrupt)
    await memory.index()
    assert [result.path for result in await memory.search("alpha")] == ["memory/touched.md"]
    assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")


async def test_a_touched_file_that_another_process_indexed_meanwhile_is_found_once_it_changed_back(
    workspace, memory, write, tmp_path, in_the_middle, settled
):
    file = write("memory/touched.md", "alpha")
    write("memory/other.md", "beta")
    await memory.index()
    os.utime(file, (1, 1))
    write("memory/other.md", "beta changed")

    def interrupt() -> None:
        write("memory/touched.md", "gamma")
        with sync.Memory(with_doubles(workspace)) as another:
            another.index()

    in_the_middle(interrupt)
    await memory.index()
    write("memory/touched.md", "alpha")
    assert [result.path for result in await memory.search("alpha")] == ["memory/touched.md"]
    assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")


@pytest.mark.parametrize("also", ["memory/one.md", "memory/new.md"])
async def test_an_index_that_is_deleted_during_a_run_is_rebuilt(
    workspace, memory, write, tmp_path, in_the_middle, also
):
    write("memory/one.md", "alpha")
    write("memory/two.md", "beta")
    await memory.index()
    write(also, "alpha changed")
    in_the_middle(lambda: shutil.rmtree(workspace / ".kipu"))
    await memory.index()
    assert len(await memory.search("beta")) == 1
    assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")


async def test_a_file_that_another_process_renamed_first_keeps_its_rows(
    workspace, memory, write, tmp_path, in_the_middle
):
    write("memory/old.md", "alpha")
    write("memory/other.md", "beta")
    await memory.index()
    before = select(workspace, "SELECT id FROM chunks WHERE text = 'alpha'")
    (workspace / "memory/old.md").rename(workspace / "memory/new.md")

    def interrupt() -> None:
        with sync.Memory(with_doubles(workspace)) as another:
            another.index()

    in_the_middle(interrupt)
    await memory.index()
    assert select(workspace, "SELECT id FROM chunks WHERE text = 'alpha'") == before
    assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")


async def test_a_search_sees_one_state_of_the_index_from_its_beginning_to_its_end(workspace, config, write):
    write("memory/one.md", "alpha")

    class Slow(WordStrategy):
        async def search(self, query: Query, index: Index) -> list[Hit]:
            before = list(await index.connection.execute_fetchall("SELECT id FROM chunks"))
            write("memory/one.md", "alpha changed")
            async with Memory(with_doubles(workspace)) as another:
                await another.index()
            assert len(await index.chunks(row[0] for row in before)) == 1
            return []

    async with Memory(config(strategy=Slow())) as memory:
        await memory.search("alpha")


# --- an index that another program locks ---------------------------------------------------------------------------


@pytest.fixture
def lock(workspace, monkeypatch) -> Iterator[Callable[..., None]]:
    """Lock the index as another program would, and wait for it only for a moment."""
    monkeypatch.setattr(kipu.indexing.synchronizer, "_SEARCH_WAITS_SECONDS", 0.05)
    monkeypatch.setitem(kipu.indexing.indexer.Indexer.index.__kwdefaults__, "wait", 0.05)
    monkeypatch.setattr(kipu.index.database.Database._connect, "__defaults__", (0.05,))
    opened = []

    def lock(*before: str) -> None:
        connection = choose_driver().connect(workspace / ".kipu/index.sqlite", isolation_level=None)
        opened.append(connection)
        for statement in (*before, "BEGIN EXCLUSIVE"):
            connection.execute(statement).fetchall()

    yield lock
    for connection in opened:
        connection.close()


async def test_a_search_answers_from_the_index_as_it_is_while_another_process_writes(memory, write, lock):
    write("memory/one.md", "alpha")
    await memory.index()
    lock()
    write("memory/two.md", "alpha too")
    results = await memory.search("alpha")
    assert [result.path for result in results] == ["memory/one.md"]
    assert (results.stale, results.pending) == (True, ["memory/two.md"])
    assert "Another process is writing" in results.notices[0]


async def test_indexing_says_that_another_process_is_writing(memory, write, lock):
    write("memory/one.md", "alpha")
    await memory.index()
    lock()
    write("memory/two.md", "alpha too")
    with pytest.raises(IndexBusyError, match="Another process is writing") as caught:
        await memory.index()
    assert caught.value.exit_code == 5


async def test_a_search_needs_no_lock_when_nothing_changed(config, memory, write, lock):
    write("memory/one.md", "alpha")
    await memory.index()
    lock()
    async with Memory(config()) as another:
        results = await another.search("alpha")
    assert (len(results), results.stale, results.notices) == (1, False, [])
    assert (await memory.index()).unchanged == 1


async def test_a_search_is_not_stale_because_a_time_stamp_cannot_be_stored(memory, write, lock, settled):
    os.utime(write("memory/one.md", "alpha"), (1, 1))
    await memory.index()
    os.utime(write("memory/one.md", "alpha"), (2, 2))
    results = await memory.search("alpha", sync=False)
    assert (len(results), results.stale, results.notices) == (1, False, [])
    lock()
    results = await memory.search("alpha")
    assert (len(results), results.stale, results.notices) == (1, False, [])


async def test_an_exclusively_locked_index_is_busy(config, memory, write, lock):
    write("memory/one.md", "alpha")
    await memory.index()
    await memory.close()
    lock("PRAGMA locking_mode = EXCLUSIVE")
    async with Memory(config()) as another:
        with pytest.raises(IndexBusyError):
            await another.search("alpha")
        with pytest.raises(IndexBusyError):
            await another.index()


# --- a damaged index -----------------------------------------------------------------------------------------------


def deleted(index: Path) -> None:
    index.unlink()


def deleted_with_its_folder(index: Path) -> None:
    shutil.rmtree(index.parent)


def emptied(index: Path) -> None:
    os.truncate(index, 0)


def cut_in_half(index: Path) -> None:
    os.truncate(index, index.stat().st_size // 2)


def overwritten_at_the_start(index: Path) -> None:
    with index.open("r+b") as file:
        file.write(b"garbage " * 20)


def overwritten_in_the_middle(index: Path) -> None:
    size = index.stat().st_size
    with index.open("r+b") as file:
        file.seek(4096)
        file.write(random.Random(1).randbytes(size - 8192))


def replaced_by_text(index: Path) -> None:
    aside = index.with_name("new")
    aside.write_text("This is not a database, and longer than the header of one would be. " * 4, "utf-8")
    aside.replace(index)


def of_a_newer_version(index: Path) -> None:
    with contextlib.closing(choose_driver().connect(index)) as connection:
        connection.execute("PRAGMA user_version = 99")


def with_text_that_is_not_utf_8(index: Path) -> None:
    with contextlib.closing(choose_driver().connect(index, isolation_level=None)) as connection:
        connection.execute("UPDATE chunks SET text = CAST(x'ff' AS TEXT)")


DAMAGES = [
    deleted,
    deleted_with_its_folder,
    emptied,
    cut_in_half,
    overwritten_at_the_start,
    overwritten_in_the_middle,
    replaced_by_text,
    of_a_newer_version,
    with_text_that_is_not_utf_8,
]


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_index_is_rebuilt(workspace, memory, config, write, tmp_path, damage, is_open):
    if is_open and sys.platform == "win32":
        pytest.skip("on Windows, a file that is open can be neither deleted nor truncated")
    for number in range(40):
        write(f"memory/{number}.md", f"alpha {number}\n\n" + f"word{number} " * 100)
    await memory.index()
    assert await memory.search("alpha")
    with contextlib.closing(choose_driver().connect(workspace / ".kipu/index.sqlite")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    if not is_open:
        await memory.close()
        memory = Memory(config())
    damage(workspace / ".kipu/index.sqlite")
    write("memory/new.md", "omega")
    assert [result.path for result in await memory.search("omega")] == ["memory/new.md"]
    assert len(await memory.search("alpha")) == 6
    await memory.index()
    await memory.close()
    assert is_sound(workspace)
    assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")


async def test_concurrent_calls_on_a_damaged_index_rebuild_one(workspace, memory, write, tmp_path):
    for number in range(40):
        write(f"memory/{number}.md", f"alpha {number}\n\n" + f"word{number} " * 100)
    await memory.index()
    for turn in range(5):
        with contextlib.closing(choose_driver().connect(workspace / ".kipu/index.sqlite")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        overwritten_at_the_start(workspace / ".kipu/index.sqlite")
        write("memory/new.md", f"omega{turn}")
        answers = await asyncio.gather(*(memory.search(f"omega{turn}") for _ in range(20)), memory.index())
        assert [len(results) for results in answers[:-1]] == [1] * 20
    await memory.index()
    await memory.close()
    assert is_sound(workspace)
    assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")


async def test_a_folder_in_place_of_the_index_is_reported_and_kept(workspace, memory, write):
    write("memory/one.md", "alpha")
    (workspace / ".kipu/index.sqlite/precious").mkdir(parents=True)
    for work in (lambda: memory.search("alpha"), memory.index):
        with pytest.raises(IndexUnavailableError, match=r"index\.sqlite is not a regular file"):
            await work()
    assert (workspace / ".kipu/index.sqlite/precious").is_dir()


async def test_a_file_in_place_of_the_hidden_folder_is_reported_and_kept(workspace, memory, write):
    write("memory/one.md", "alpha")
    write(".kipu", "precious")
    for work in (lambda: memory.search("alpha"), memory.index):
        with pytest.raises(IndexUnavailableError, match=r"\.kipu"):
            await work()
    assert (workspace / ".kipu").read_text("utf-8") == "precious"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is read-only for this user")
async def test_an_index_in_a_read_only_folder_is_searched_as_it_is(workspace, config, write):
    write("memory/one.md", "alpha")
    async with Memory(config()) as memory:
        await memory.index()
    write("memory/two.md", "alpha too")
    (workspace / ".kipu/index.sqlite").chmod(0o444)
    (workspace / ".kipu").chmod(0o555)
    try:
        async with Memory(config()) as memory:
            results = await memory.search("alpha")
            assert [result.path for result in results] == ["memory/one.md"]
            assert (results.stale, results.pending) == (True, ["memory/two.md"])
            with pytest.raises(IndexUnavailableError):
                await memory.index()
    finally:
        (workspace / ".kipu").chmod(0o755)
        (workspace / ".kipu/index.sqlite").chmod(0o644)


if __name__ == "__main__":
    asyncio.run({"write": write, "read": read, "make": make}[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:]))
