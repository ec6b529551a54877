"""The SQLite file of the index: created when it is needed, shared by processes, rebuilt when it is damaged."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sqlite3
import stat
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kipu import Memory
from kipu.errors import IndexBusyError, IndexUnavailableError, MemoryClosedError
from kipu.index.database import Database
from kipu.index.schema import APPLICATION_ID
from kipu.notices import Notices
from kipu.sqlite import choose_driver, shielded, sqlite_errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


INSERT = (
    "INSERT INTO files (path, source, size, mtime_ns, ctime_ns, hash, chunker) VALUES (?, 'memory', 0, 0, 0, '', '')"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".kipu" / "index.sqlite"


@pytest.fixture
def notices() -> Notices:
    return Notices()


@pytest.fixture
async def database(path: Path, notices: Notices) -> AsyncIterator[Database]:
    database = Database(path, notices)
    yield database
    await database.close()


def waiting(notices: Notices) -> list[str]:
    with notices.collect() as sentences:
        return sentences


async def paths(database: Database) -> list[str]:
    async with database.reader() as connection:
        return [row[0] for row in await connection.execute_fetchall("SELECT path FROM files ORDER BY path")]


def put(path: Path, data: bytes = b"") -> None:
    """Create a file and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


async def insert(database: Database, path: str) -> None:
    async with database.transaction() as connection:
        await connection.execute(INSERT, (path,))


# --- creating and sharing ------------------------------------------------------------------------------------------


async def test_reading_creates_nothing(database, path):
    assert await paths(database) == []
    assert not database.exists
    assert not path.parent.exists()


async def test_writing_creates_the_file_and_its_folder(database, path):
    await insert(database, "a.md")
    assert database.exists
    assert sorted(name for name in os.listdir(path.parent) if "-" not in name) == [".gitignore", "index.sqlite"]
    assert await paths(database) == ["a.md"]


async def test_another_database_sees_what_was_written(database, path):
    assert await paths(database) == []
    other = Database(path, Notices())
    try:
        await insert(other, "a.md")
        assert await paths(database) == ["a.md"]
        await insert(database, "b.md")
        assert await paths(other) == ["a.md", "b.md"]
    finally:
        await other.close()


async def test_the_journal_is_a_write_ahead_log(database):
    await insert(database, "a.md")
    async with database.reader() as connection:
        assert [tuple(row) for row in await connection.execute_fetchall("PRAGMA journal_mode")] == [("wal",)]


async def test_a_reader_cannot_write(database):
    await insert(database, "a.md")
    with pytest.raises((*sqlite_errors(), IndexUnavailableError)):
        async with database.reader() as connection:
            await connection.execute("DELETE FROM files")
    assert await paths(database) == ["a.md"]


async def test_readers_are_concurrent_with_each_other_and_with_a_transaction(database):
    await insert(database, "a.md")
    async with database.transaction() as connection:
        await connection.execute(INSERT, ("b.md",))
        assert await asyncio.gather(*(paths(database) for _ in range(9))) == [["a.md"]] * 9
    assert await paths(database) == ["a.md", "b.md"]


async def test_a_closed_database_is_closed(database):
    await insert(database, "a.md")
    await database.close()
    await database.close()
    for use in (insert(database, "b.md"), paths(database)):
        with pytest.raises(MemoryClosedError):
            await use


@pytest.mark.parametrize("name", ["a b", "a#b", "a?b=c", "100%25", "ünï-日本", "quote'\"s", "-dash"])
async def test_a_workspace_may_have_any_name(tmp_path, name):
    if sys.platform == "win32" and set(name) & set('?"'):
        pytest.skip("Windows has no such names")
    put(tmp_path / name / "memory" / "a.md")
    database = Database(tmp_path / name / ".kipu" / "index.sqlite", Notices())
    try:
        await insert(database, "a.md")
        assert await paths(database) == ["a.md"]
    finally:
        await database.close()
    assert os.listdir(tmp_path) == [name]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems only have names in Unicode")
async def test_a_workspace_may_have_a_name_that_is_not_unicode(tmp_path):
    folder = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), b"caf\xe9")))
    put(folder / "memory" / "a.md")
    database = Database(folder / ".kipu" / "index.sqlite", Notices())
    try:
        await insert(database, "a.md")
        assert await paths(database) == ["a.md"]
    finally:
        await database.close()


# --- transactions --------------------------------------------------------------------------------------------------


async def test_a_transaction_that_fails_changes_nothing(database):
    await insert(database, "a.md")

    async def fail() -> None:
        async with database.transaction() as connection:
            await connection.execute(INSERT, ("b.md",))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await paths(database) == ["a.md"]
    await insert(database, "c.md")
    assert await paths(database) == ["a.md", "c.md"]


async def test_a_transaction_that_is_cancelled_changes_nothing(database):
    inside = asyncio.Event()

    async def write() -> None:
        async with database.transaction() as connection:
            await connection.execute(INSERT, ("a.md",))
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(write())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await paths(database) == []
    await insert(database, "b.md")
    assert await paths(database) == ["b.md"]


async def test_an_error_of_cancelled_work_is_not_logged_later():
    logged: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: logged.append(context))
    started, end = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        await end.wait()
        raise ValueError("too late")

    task = asyncio.create_task(shielded(work()))
    await started.wait()
    task.cancel()
    end.set()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert isinstance(caught.value.__cause__, ValueError)
    del caught, task
    gc.collect()
    assert logged == []


async def test_transactions_of_one_memory_wait_for_each_other(database):
    await asyncio.gather(*(insert(database, f"{number}.md") for number in range(9)))
    assert await paths(database) == [f"{number}.md" for number in range(9)]


async def test_a_lock_of_another_process_is_explained(database, path):
    await insert(database, "a.md")
    other = choose_driver().connect(
        path, isolation_level=None
    )  # the same SQLite library: another one ignores its locks
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(IndexBusyError) as caught:
            async with database.transaction(wait=0.01):
                pass
        assert str(caught.value) == (f"Another process is writing to the index {path}. Try again when it is done.")
        assert await paths(database) == ["a.md"]
        other.execute("ROLLBACK")
    finally:
        other.close()
    await insert(database, "b.md")


# --- what is wrong with the file -----------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"x" * 5000, b"SQLite format 3\0" + b"\xff" * 5000], ids=["no database", "damaged"])
async def test_a_damaged_index_is_set_aside_and_rebuilt(path, database, notices, data):
    put(path, data)
    await insert(database, "a.md")
    assert await paths(database) == ["a.md"]
    assert path.with_name("index.damaged.sqlite").read_bytes() == data
    (notice,) = waiting(notices)
    assert notice.startswith("The index could not be used (")
    assert notice.endswith("). It was set aside as .kipu/index.damaged.sqlite, and the memory files are indexed again.")


async def test_an_empty_file_is_an_empty_index(path, database, notices):
    put(path)
    assert await paths(database) == []
    await insert(database, "a.md")
    assert (await paths(database), waiting(notices)) == (["a.md"], [])


async def test_the_index_of_another_version_is_set_aside(path, database, notices):
    path.parent.mkdir()
    with sqlite3.connect(path) as old:
        old.execute("CREATE TABLE files (something)")
        old.execute("INSERT INTO files VALUES (1)")
        old.execute("PRAGMA user_version = 99")
        old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    old.close()
    assert await paths(database) == []
    await insert(database, "a.md")
    assert await paths(database) == ["a.md"]
    assert waiting(notices) == [
        "The index could not be used (another version of Kipu made it, or a table is missing). It was set aside as "
        ".kipu/index.damaged.sqlite, and the memory files are indexed again."
    ]
    with contextlib.closing(sqlite3.connect(path.with_name("index.damaged.sqlite"))) as aside:
        assert aside.execute("SELECT something FROM files").fetchall() == [(1,)]


@pytest.mark.parametrize("version", [0, 1, 70])
async def test_the_database_of_another_program_is_moved_aside_and_kept(path, database, version):
    path.parent.mkdir()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE precious (something)")
        other.execute(f"PRAGMA user_version = {version}")
    other.close()
    await insert(database, "a.md")
    assert await paths(database) == ["a.md"]
    aside = sqlite3.connect(path.with_suffix(".foreign-1.sqlite"))
    assert aside.execute("SELECT name FROM sqlite_master").fetchall() == [("precious",)]
    aside.close()


@pytest.mark.parametrize("linked", ["index.sqlite", "."])
async def test_a_symlink_in_place_of_the_index_is_not_followed(path, database, linked):
    elsewhere = path.parent.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "index.sqlite").write_bytes(b"precious")
    if linked == ".":
        path.parent.symlink_to(elsewhere)
    else:
        path.parent.mkdir()
        os.symlink(elsewhere / "index.sqlite", path)
    for use in (paths(database), insert(database, "a.md")):
        with pytest.raises(IndexUnavailableError, match="is a symbolic link"):
            await use
    assert os.listdir(elsewhere) == ["index.sqlite"]
    assert (elsewhere / "index.sqlite").read_bytes() == b"precious"


@pytest.mark.parametrize("table", ["files", "chunks", "strategies"])
async def test_an_index_that_lacks_a_table_is_rebuilt(path, workspace, write, config, table):
    write("memory/a.md", "valkey")
    async with Memory(config()) as memory:
        await memory.index()
    with contextlib.closing(choose_driver().connect(workspace / ".kipu/index.sqlite")) as connection:
        connection.execute(f"DROP TABLE {table}")
    async with Memory(config()) as memory:
        assert len(await memory.search("valkey")) == 1


async def test_missing_tables_of_a_strategy_are_rebuilt(workspace, write, config):
    write("memory/a.md", "valkey")
    async with Memory(config()) as memory:
        await memory.index()
    with contextlib.closing(choose_driver().connect(workspace / ".kipu/index.sqlite")) as connection:
        connection.execute("DROP TABLE words")
    async with Memory(config()) as memory:
        assert len(await memory.search("valkey")) == 1
        write("memory/b.md", "valkey too")
        assert len(await memory.search("valkey")) == 2


async def test_an_index_that_is_removed_while_it_is_open_is_rebuilt(path, database):
    await insert(database, "a.md")
    assert await paths(database) == ["a.md"]
    for file in path.parent.glob("index.sqlite*"):
        file.unlink()
    assert await paths(database) == []
    await insert(database, "b.md")
    assert await paths(database) == ["b.md"]


async def test_a_folder_in_place_of_the_index_is_explained(path, database):
    put(path / "something")
    with pytest.raises(IndexUnavailableError) as caught:
        await insert(database, "a.md")
    assert (
        str(caught.value) == f"{path} is not a regular file. Kipu keeps its index in the workspace itself: remove it."
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
async def test_a_pipe_in_place_of_a_file_of_the_index_is_not_waited_for(path, database, ending):
    await insert(database, "a.md")
    await database.close()
    file = path.with_name(f"{path.name}{ending}")
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    again = Database(path, Notices())
    for work in (paths, Database.check_pages, lambda each: insert(each, "b.md")):
        with pytest.raises(IndexUnavailableError, match=f"{file.name} is not a regular file"):
            await work(again)


def test_an_index_that_cannot_be_opened_leaves_no_thread(path, monkeypatch):
    path.mkdir(parents=True)
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    before = set(threading.enumerate())
    for _ in range(20):
        with pytest.raises(IndexUnavailableError):
            asyncio.run(paths(Database(path, Notices())))
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert raised == []


async def test_a_file_in_place_of_the_hidden_folder_is_explained(path, database):
    path.parent.write_text("not a folder", "utf-8")
    assert await paths(database) == []
    with pytest.raises(IndexUnavailableError, match="cannot be written"):
        await insert(database, "a.md")


async def test_the_status_sets_a_damaged_index_aside(workspace, write, config):
    write("memory/a.md", "valkey")
    index = workspace / ".kipu" / "index.sqlite"
    index.parent.mkdir()
    index.write_bytes(b"x" * 5000)
    async with Memory(config()) as memory:
        status = await memory.status()
    assert status.pending == ["memory/a.md"]
    assert "It was set aside as .kipu/index.damaged.sqlite" in status.notices[0]
    assert index.with_name("index.damaged.sqlite").read_bytes() == b"x" * 5000


@pytest.mark.skipif(os.name == "nt", reason="permissions are those of POSIX")
@pytest.mark.parametrize("chosen", [None, 0o755])
async def test_the_folder_of_the_index_is_private_unless_its_mode_was_chosen(workspace, write, config, chosen):
    write("memory/a.md", "valkey").chmod(0o600)
    if chosen:
        (workspace / ".kipu").mkdir()
        (workspace / ".kipu").chmod(chosen)
    async with Memory(config()) as memory:
        await memory.search("valkey")
        assert stat.S_IMODE((workspace / ".kipu").stat().st_mode) == (chosen or 0o700)


async def test_a_search_rebuilds_a_damaged_index(workspace, write, config):
    write("memory/a.md", "valkey")
    async with Memory(config()) as memory:
        await memory.index()
    for file in (workspace / ".kipu").glob("index.sqlite-*"):
        file.unlink()
    (workspace / ".kipu" / "index.sqlite").write_bytes(b"x" * 5000)
    async with Memory(config()) as memory:
        results = await memory.search("valkey")
    assert [result.path for result in results] == ["memory/a.md"]
    assert len(results.notices) == 1
    assert results.notices[0].startswith("The index could not be used (")


# --- the driver ----------------------------------------------------------------------------------------------------


def test_the_driver_can_load_extensions_if_one_is_installed_that_can():
    driver = choose_driver()
    assert driver.sqlite_version_info >= (3, 35)
    if driver is sqlite3 and not hasattr(sqlite3.Connection, "enable_load_extension"):
        with pytest.raises(ImportError):
            import pysqlite3  # noqa: F401


def test_errors_of_the_driver_and_of_the_standard_library_are_recognized():
    assert sqlite3.Error in sqlite_errors()
    assert choose_driver().Error in sqlite_errors()
