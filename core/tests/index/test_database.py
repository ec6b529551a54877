"""The SQLite file of the index: made when it is needed, shared by processes, mended when it is damaged."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sqlite3
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kipu import Memory
from kipu.errors import IndexBusyError, IndexUnavailableError
from kipu.index.database import Database
from kipu.index.schema import APPLICATION_ID
from kipu.sqlite import choose_driver, shielded, sqlite_errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kipu import MemoryConfig

    Config = Callable[..., MemoryConfig]
    Write = Callable[[str, str], Path]

INSERT = (
    "INSERT INTO files (path, source, size, mtime_ns, ctime_ns, hash, chunker) VALUES (?, 'memory', 0, 0, 0, '', '')"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".kipu" / "index.sqlite"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[Database]:
    database = Database(path)
    yield database
    await database.close()


async def paths(database: Database) -> list[str]:
    async with database.reader() as connection:
        return [row[0] for row in await connection.execute_fetchall("SELECT path FROM files ORDER BY path")]


def put(path: Path, data: bytes = b"") -> None:
    """Make a file, and the folder for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


async def insert(database: Database, path: str) -> None:
    async with database.transaction() as connection:
        await connection.execute(INSERT, (path,))


# --- making and sharing --------------------------------------------------------------------------------------------


async def test_reading_makes_nothing(database: Database, path: Path) -> None:
    assert await paths(database) == []
    assert not database.exists
    assert not path.parent.exists()


async def test_writing_makes_the_file_and_its_folder(database: Database, path: Path) -> None:
    await insert(database, "a.md")
    assert database.exists
    assert sorted(name for name in os.listdir(path.parent) if "-" not in name) == [".gitignore", "index.sqlite"]
    assert await paths(database) == ["a.md"]


async def test_what_was_written_is_there_for_others(database: Database, path: Path) -> None:
    assert await paths(database) == []
    other = Database(path)
    try:
        await insert(other, "a.md")
        assert await paths(database) == ["a.md"]
        await insert(database, "b.md")
        assert await paths(other) == ["a.md", "b.md"]
    finally:
        await other.close()


async def test_the_journal_is_a_write_ahead_log(database: Database) -> None:
    await insert(database, "a.md")
    async with database.reader() as connection:
        assert [tuple(row) for row in await connection.execute_fetchall("PRAGMA journal_mode")] == [("wal",)]


async def test_a_reader_cannot_write(database: Database) -> None:
    await insert(database, "a.md")
    with pytest.raises((*sqlite_errors(), IndexUnavailableError)):
        async with database.reader() as connection:
            await connection.execute("DELETE FROM files")
    assert await paths(database) == ["a.md"]


async def test_readers_work_side_by_side_and_during_a_transaction(database: Database) -> None:
    await insert(database, "a.md")
    async with database.transaction() as connection:
        await connection.execute(INSERT, ("b.md",))
        assert await asyncio.gather(*(paths(database) for _ in range(9))) == [["a.md"]] * 9
    assert await paths(database) == ["a.md", "b.md"]


async def test_a_closed_database_opens_again(database: Database) -> None:
    await insert(database, "a.md")
    await database.close()
    await database.close()
    await insert(database, "b.md")
    assert await paths(database) == ["a.md", "b.md"]


@pytest.mark.parametrize("name", ["a b", "a#b", "a?b=c", "100%25", "ünï-日本", "quote'\"s", "-dash"])
async def test_a_workspace_may_have_any_name(tmp_path: Path, name: str) -> None:
    if sys.platform == "win32" and set(name) & set('?"'):
        pytest.skip("Windows has no such names")
    put(tmp_path / name / "memory" / "a.md")
    database = Database(tmp_path / name / ".kipu" / "index.sqlite")
    try:
        await insert(database, "a.md")
        assert await paths(database) == ["a.md"]
    finally:
        await database.close()
    assert os.listdir(tmp_path) == [name]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have only names that are text")
async def test_a_workspace_may_have_a_name_that_is_no_text(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), b"caf\xe9")))
    put(folder / "memory" / "a.md")
    database = Database(folder / ".kipu" / "index.sqlite")
    try:
        await insert(database, "a.md")
        assert await paths(database) == ["a.md"]
    finally:
        await database.close()


# --- transactions --------------------------------------------------------------------------------------------------


async def test_a_transaction_that_fails_changes_nothing(database: Database) -> None:
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


async def test_a_transaction_that_is_cancelled_changes_nothing(database: Database) -> None:
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


async def test_an_error_of_work_for_which_nobody_waits_any_more_is_not_told_long_after_it():
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
    begun, end = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await end.wait()
        raise ValueError("of no interest any more")

    task = asyncio.create_task(shielded(work()))
    await begun.wait()
    task.cancel()
    end.set()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert isinstance(caught.value.__cause__, ValueError)
    del caught, task
    gc.collect()
    assert told == []


async def test_transactions_of_one_memory_wait_for_each_other(database: Database) -> None:
    await asyncio.gather(*(insert(database, f"{number}.md") for number in range(9)))
    assert await paths(database) == [f"{number}.md" for number in range(9)]


async def test_a_lock_of_another_process_is_explained(database: Database, path: Path) -> None:
    await insert(database, "a.md")
    other = choose_driver().connect(path, isolation_level=None)  # locks of two SQLites in one process do not meet
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
async def test_a_damaged_index_is_set_aside_and_made_anew(path: Path, database: Database, data: bytes) -> None:
    put(path, data)
    await insert(database, "a.md")
    assert await paths(database) == ["a.md"]
    assert path.with_name("index.damaged.sqlite").read_bytes() == data
    (note,) = database.notices
    assert note.startswith("The index could not be used (")
    assert note.endswith("). It was set aside as index.damaged.sqlite and made anew.")


async def test_an_empty_file_is_an_index_that_was_never_made(path: Path, database: Database) -> None:
    put(path)
    assert await paths(database) == []
    await insert(database, "a.md")
    assert (await paths(database), database.notices) == (["a.md"], [])


async def test_the_index_of_another_version_is_made_anew(path: Path, database: Database) -> None:
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
    assert database.notices == ["The index was made by another version of Kipu, or lacked a table. It was made anew."]


@pytest.mark.parametrize("version", [0, 1, 70])
async def test_the_database_of_another_program_is_moved_aside_whole(
    path: Path, database: Database, version: int
) -> None:
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
async def test_a_link_in_the_place_of_the_index_is_not_followed(path: Path, database: Database, linked: str) -> None:
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
async def test_an_index_that_lacks_a_table_is_made_anew(
    path: Path, workspace: Path, write: Write, config: Config, table: str
) -> None:
    write("memory/a.md", "valkey")
    async with Memory(config()) as memory:
        await memory.index()
    with contextlib.closing(choose_driver().connect(workspace / ".kipu/index.sqlite")) as connection:
        connection.execute(f"DROP TABLE {table}")
    async with Memory(config()) as memory:
        assert len(await memory.search("valkey")) == 1


async def test_a_strategy_whose_tables_are_gone_makes_them_anew(workspace: Path, write: Write, config: Config) -> None:
    write("memory/a.md", "valkey")
    async with Memory(config()) as memory:
        await memory.index()
    with contextlib.closing(choose_driver().connect(workspace / ".kipu/index.sqlite")) as connection:
        connection.execute("DROP TABLE words")
    async with Memory(config()) as memory:
        assert len(await memory.search("valkey")) == 1
        write("memory/b.md", "valkey too")
        assert len(await memory.search("valkey")) == 2


async def test_an_index_that_is_removed_while_it_is_open_is_made_anew(path: Path, database: Database) -> None:
    await insert(database, "a.md")
    assert await paths(database) == ["a.md"]
    for file in path.parent.glob("index.sqlite*"):
        file.unlink()
    assert await paths(database) == []
    await insert(database, "b.md")
    assert await paths(database) == ["b.md"]


async def test_a_folder_in_the_place_of_the_index_is_explained(path: Path, database: Database) -> None:
    put(path / "something")
    with pytest.raises(IndexUnavailableError) as caught:
        await insert(database, "a.md")
    assert str(caught.value) == f"The index {path} cannot be used: unable to open database file."


def test_an_index_that_cannot_be_opened_leaves_no_thread_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.mkdir(parents=True)
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    before = set(threading.enumerate())
    for _ in range(20):
        with pytest.raises(IndexUnavailableError):
            asyncio.run(paths(Database(path)))
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert raised == []


async def test_a_file_in_the_place_of_the_hidden_folder_is_explained(path: Path, database: Database) -> None:
    path.parent.write_text("not a folder", "utf-8")
    assert await paths(database) == []
    with pytest.raises(IndexUnavailableError, match="cannot be written"):
        await insert(database, "a.md")


async def test_asking_for_the_state_of_a_damaged_index_changes_nothing(
    workspace: Path, write: Write, config: Config
) -> None:
    write("memory/a.md", "valkey")
    index = workspace / ".kipu" / "index.sqlite"
    index.parent.mkdir()
    index.write_bytes(b"x" * 5000)
    async with Memory(config()) as memory:
        with pytest.raises(IndexUnavailableError, match="is damaged"):
            await memory.status()
    assert index.read_bytes() == b"x" * 5000


async def test_a_search_mends_a_damaged_index(workspace: Path, write: Write, config: Config) -> None:
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


def test_the_driver_can_load_extensions_where_any_can() -> None:
    driver = choose_driver()
    assert driver.sqlite_version_info >= (3, 35)
    if driver is sqlite3 and not hasattr(sqlite3.Connection, "enable_load_extension"):
        with pytest.raises(ImportError):
            import pysqlite3  # noqa: F401


def test_errors_of_the_driver_and_of_the_standard_library_are_known() -> None:
    assert sqlite3.Error in sqlite_errors()
    assert choose_driver().Error in sqlite_errors()
