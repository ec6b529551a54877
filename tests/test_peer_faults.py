"""Faults that were found in other memory systems.

Each test is named after the fault that it rules out, and runs what ``pip install kipu`` gives.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
import pytest

import kipu.index.database
import kipu.indexing.compare
import kipu.indexing.indexer
import kipu.indexing.synchronizer
from kipu import Chunk, FilesConfig, IndexConfig, Memory, MemoryConfig, SearchConfig
from kipu.cli import main
from kipu.errors import MemoryFileError, OutsideWorkspaceError
from kipu.sqlite import choose_driver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from kipu import Document


@pytest.fixture
async def memory(workspace: Path) -> AsyncIterator[Memory]:
    async with Memory(workspace) as memory:
        yield memory


def select(workspace: Path, statement: str) -> list[tuple[Any, ...]]:
    """Return rows of the index, by Kipu's own driver: two SQLite libraries in one process undo each other's locks."""
    with contextlib.closing(choose_driver().connect(workspace / ".kipu/index.sqlite")) as connection:
        found: list[tuple[Any, ...]] = connection.execute(statement).fetchall()
        return found


async def paths_found(memory: Memory, query: str, *, strategy: str = "keyword", **options: Any) -> list[str]:
    """Search by words: by vectors, something is always near."""
    options["strategy"] = strategy
    return list(dict.fromkeys(result.path for result in await memory.search(query, **options)))


def run_kipu(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command line in a process of its own, with pipes for its output."""
    program = [sys.executable, "-c", "from kipu.cli import main; main()", *arguments]
    return subprocess.run(program, capture_output=True, check=False, env=os.environ | environment)


@attrs.frozen
class WholeFile:
    """Make one chunk of a file, and call a function meanwhile."""

    interrupt: Callable[[str], None] = lambda path: None

    def chunk(self, document: Document) -> list[Chunk]:
        self.interrupt(document.path)
        return [Chunk(document.text, 1, document.text.count("\n") + 1)]


# --- 1: the default workspace lies below a folder that discovery skips ---------------------------------------------


@pytest.mark.parametrize("parent", [".", ".hidden/.agents"])
async def test_the_default_workspace_is_indexed_wherever_it_is(tmp_path, monkeypatch, parent):
    folder = tmp_path / parent / "project"
    (folder / "memory").mkdir(parents=True)
    (folder / "memory/note.md").write_text("We moved to Valkey.", "utf-8")
    monkeypatch.chdir(folder)
    async with Memory() as memory:
        report = await memory.index()
        assert (report.added, report.skipped) == (1, [])
        assert await paths_found(memory, "valkey") == ["memory/note.md"]


# --- 4: every error is treated as temporary and retried thousands of times -----------------------------------------


async def test_a_chunker_that_raises_is_called_once_and_named(workspace, write):
    write("memory/long.md", "word " * 20_000)
    calls: list[str] = []

    def interrupt(path: str) -> None:
        calls.append(path)
        raise ConnectionError("text too long")

    async with Memory(MemoryConfig(workspace, index=IndexConfig(chunker=WholeFile(interrupt)))) as memory:
        (file,) = (await memory.index()).skipped
    assert calls == ["memory/long.md"]
    assert 'WholeFile" failed on memory/long.md: ConnectionError: text too long' in file.reason


async def test_a_strategy_that_raises_is_called_once_and_named(workspace, write):
    write("memory/long.md", "word " * 20_000)
    calls: list[str] = []

    @attrs.frozen
    class Refusing:
        schema_version: int = 1

        async def create(self, connection: Any) -> None:
            pass

        async def add(self, connection: Any, chunks: Any) -> None:
            calls.append("add")
            raise ConnectionError("refused")

        async def remove(self, connection: Any, chunk_ids: Any) -> None:
            pass

        async def search(self, query: Any, index: Any) -> list[Any]:
            calls.append("search")
            raise ConnectionError("refused")

    async with Memory(MemoryConfig(workspace, search=SearchConfig(strategy=Refusing()))) as memory:
        (notice,) = (await memory.index()).notices
        assert 'Refusing" failed while indexing: ConnectionError: refused.' in notice
        assert calls == ["add"]
        calls.clear()
        assert (await memory.search("word")).notices == [notice]
    assert calls == ["add"]


# --- 6: the command line hangs when the index is locked, read-only or corrupt; a search needs the write lock --------


@pytest.fixture
def impatient(monkeypatch) -> None:
    """Wait for a locked index only for a moment."""
    monkeypatch.setattr(kipu.indexing.synchronizer, "_SEARCH_WAITS_SECONDS", 0.05)
    monkeypatch.setitem(kipu.indexing.indexer.Indexer.index.__kwdefaults__, "wait", 0.05)


def kipu_exits(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    code = caught.value.code or 0
    assert isinstance(code, int)
    return code


@contextlib.contextmanager
def held(workspace: Path) -> Iterator[None]:
    connection = choose_driver().connect(workspace / ".kipu/index.sqlite", isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.close()


def test_a_locked_index_is_searched_as_it_is_without_a_long_wait(workspace, write, capsys, impatient):
    write("memory/old.md", "alpha before")
    assert kipu_exits("index", "-w", str(workspace)) == 0
    with held(workspace):
        capsys.readouterr()
        assert kipu_exits("search", "alpha", "--json", "-w", str(workspace)) == 0
        output = capsys.readouterr()
        assert "memory/old.md" in output.out
        assert output.err == ""  # nothing changed: no lock was needed
        write("memory/new.md", "alpha after")
        assert kipu_exits("search", "alpha", "-w", str(workspace)) == 0
        output = capsys.readouterr()
        assert "memory/old.md" in output.out
        assert "Another process is writing" in output.err
        assert kipu_exits("index", "-w", str(workspace)) == 5
        assert "Another process is writing" in capsys.readouterr().err
    assert kipu_exits("index", "-w", str(workspace)) == 0


def test_a_corrupt_index_is_set_aside_and_rebuilt(workspace, write, capsys):
    write("memory/note.md", "alpha")
    assert kipu_exits("index", "-w", str(workspace)) == 0
    (workspace / ".kipu/index.sqlite").write_bytes(b"no database at all " * 500)
    capsys.readouterr()
    assert kipu_exits("search", "alpha", "-w", str(workspace)) == 0
    output = capsys.readouterr()
    assert "memory/note.md" in output.out
    assert "set aside" in output.err


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is read-only for this user")
def test_a_read_only_index_is_searched_as_it_is(workspace, write, capsys):
    write("memory/note.md", "alpha")
    assert kipu_exits("index", "-w", str(workspace)) == 0
    (workspace / ".kipu/index.sqlite").chmod(0o444)
    (workspace / ".kipu").chmod(0o555)
    try:
        capsys.readouterr()
        assert kipu_exits("search", "alpha", "-w", str(workspace)) == 0
        assert "memory/note.md" in capsys.readouterr().out
        write("memory/new.md", "beta")
        assert kipu_exits("index", "-w", str(workspace)) == 1
    finally:
        (workspace / ".kipu").chmod(0o755)


# --- 7: the write transaction is held while texts are worked on ----------------------------------------------------


async def test_other_processes_can_write_while_files_are_chunked(workspace, write):
    write("memory/one.md", "alpha")
    written = []

    def interrupt(path: str) -> None:
        if not (workspace / ".kipu/index.sqlite").exists():
            return
        with contextlib.closing(
            choose_driver().connect(workspace / ".kipu/index.sqlite", isolation_level=None, timeout=0)
        ) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
            written.append(path)

    async with Memory(MemoryConfig(workspace, index=IndexConfig(chunker=WholeFile(interrupt)))) as memory:
        await memory.index()
        write("memory/one.md", "alpha changed")
        await memory.index()
    assert "memory/one.md" in written


# --- 8: a long-lived instance does not see what changes ------------------------------------------------------------


async def test_a_long_lived_memory_sees_new_edited_deleted_and_renamed_files(memory, workspace, write):
    assert await paths_found(memory, "alpha") == []
    file = write("memory/one.md", "alpha")
    assert await paths_found(memory, "alpha") == ["memory/one.md"]
    write("memory/one.md", "omega")
    assert await paths_found(memory, "alpha") == []
    assert await paths_found(memory, "omega") == ["memory/one.md"]
    file.rename(workspace / "memory/two.md")
    assert await paths_found(memory, "omega") == ["memory/two.md"]
    (workspace / "memory/two.md").unlink()
    assert await paths_found(memory, "omega") == []


# --- 9: every word is required, stop words too; an identifier that occurs once is below the threshold ---------------


async def test_a_question_in_sentences_finds_files_with_some_of_its_words(memory, write):
    write("memory/cache.md", "We moved from Redis to Valkey.")
    write("memory/other.md", "The meeting is on Monday.")
    found = await paths_found(memory, "Could you tell me what exactly was the reason why they chose Valkey?")
    assert found[0] == "memory/cache.md"


async def test_an_identifier_that_occurs_once_is_found_first_with_the_defaults(memory, write):
    for number in range(60):
        write(f"memory/{number}.md", f"Ticket ZX-{99000 + number} about error {number} was closed by the team.")
    write("memory/wanted.md", "A long note that mentions ticket ZX-99817 once.\n" + "It says other things. " * 12)
    results = await memory.search("what happened with ZX-99817?")
    assert results[0].path == "memory/wanted.md"
    assert results[0].score >= 0.35


# --- 10: concurrent calls duplicate rows; a cancelled run hides files ----------------------------------------------


async def test_concurrent_calls_on_one_memory_leave_each_chunk_once(memory, workspace, write):
    for number in range(30):
        write(f"memory/{number}.md", f"# Note {number}\n\nalpha {number}")
    await asyncio.gather(*(memory.index() for _ in range(10)), *(memory.search("alpha") for _ in range(10)))
    assert select(workspace, "SELECT count(*) FROM chunks") == [(30,)]
    assert select(workspace, "SELECT count(*) FROM keyword") == [(30,)]


async def test_a_run_that_was_cancelled_hides_no_file(memory, write):
    for number in range(40):
        write(f"memory/{number}.md", f"alpha word{number}")
    for turns in range(1, 60, 3):
        task = asyncio.create_task(memory.index(force=True))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    assert [await paths_found(memory, f"word{number}") for number in range(40)] == [
        [f"memory/{number}.md"] for number in range(40)
    ]


# --- 11: what was deleted stays; adding one file marks all as clean; a folder that is away empties the index --------


async def test_deleted_and_edited_text_leaves_every_table(memory, workspace, write):
    write("memory/one.md", "# One\n\nsecret alpha\n\n# Two\n\nbeta")
    write("memory/two.md", "secret gamma")
    await memory.index()
    write("memory/one.md", "# Two\n\nbeta")
    (workspace / "memory/two.md").unlink()
    await memory.index()
    assert await paths_found(memory, "secret") == []
    chunks = select(workspace, "SELECT id FROM chunks ORDER BY id")
    assert select(workspace, "SELECT rowid FROM keyword ORDER BY rowid") == chunks
    assert select(workspace, "SELECT id FROM keyword_chunks ORDER BY id") == chunks
    assert select(workspace, "SELECT path FROM keyword_files") == [("memory/one.md",)]
    assert select(workspace, "SELECT rowid FROM vector_coarse_1_rowids ORDER BY rowid") == chunks


async def test_adding_one_file_does_not_mark_the_others_as_clean(memory, write):
    write("memory/one.md", "alpha")
    write("memory/two.md", "beta")
    await memory.index()
    write("memory/one.md", "gamma")
    write("memory/two.md", "delta")
    await memory.add("memory/one.md")
    assert await paths_found(memory, "delta") == ["memory/two.md"]


async def test_a_folder_that_is_missing_for_a_moment_does_not_empty_the_index(memory, workspace, write):
    write("memory/one.md", "alpha")
    await memory.index()
    before = select(workspace, "SELECT * FROM chunks")
    (workspace / "memory").rename(workspace / "away")
    assert (await memory.index()).missing == ["memory"]
    results = await memory.search("alpha")
    assert ([result.path for result in results], results.stale) == (["memory/one.md"], True)
    (workspace / "away").rename(workspace / "memory")
    assert not (await memory.search("alpha")).stale
    assert select(workspace, "SELECT * FROM chunks") == before


# --- 13: a touched file is stale for ever; an older time hides a change --------------------------------------------


async def test_a_touched_file_is_not_stale(memory, write, monkeypatch):
    monkeypatch.setattr(kipu.indexing.compare, "_TICK_NS", -1)  # trust time stamps at once
    file = write("memory/one.md", "alpha")
    await memory.index()
    os.utime(file, (1_000_000, 1_000_000))
    assert (await memory.status()).pending == []
    assert not (await memory.search("alpha", sync=False)).stale
    assert (await memory.index()).changed == 0
    assert not (await memory.search("alpha", sync=False)).stale


async def test_an_older_time_does_not_hide_a_change(memory, write):
    write("memory/one.md", "alpha")
    await memory.index()
    os.utime(write("memory/one.md", "omega"), (1_000_000, 1_000_000))  # of the same size, too
    assert await paths_found(memory, "omega") == ["memory/one.md"]


# --- 15: any path can be added: out of the workspace, binary ------------------------------------------------------


async def test_only_markdown_of_the_workspace_can_be_added(memory, workspace, write):
    (workspace.parent / "outside.md").write_text("alpha", "utf-8")
    write("picture.md", b"\x89PNG\r\n\x1a\n\0\0\0")
    write("tool.py", "alpha = 1")
    for path in ("../outside.md", str(workspace.parent / "outside.md"), "memory/../../outside.md"):
        with pytest.raises(OutsideWorkspaceError, match="leads out of the workspace"):
            await memory.add(path)
    with pytest.raises((OutsideWorkspaceError, MemoryFileError)):
        await memory.add("/etc/hostname")
    for path in ("picture.md", "tool.py", "missing.md", "memory"):
        with pytest.raises(MemoryFileError):
            await memory.add(path)
    assert await memory.files() == []
    write("notes/inside.md", "alpha")
    await memory.add("notes/inside.md")
    assert [(file.path, file.source) for file in await memory.files()] == [("notes/inside.md", "external")]


# --- 16: older encodings become junk; one bad file aborts the whole run --------------------------------------------


async def test_older_encodings_are_decoded(memory, write):
    write("memory/latin.md", "Der Käse aus der Küche schmeckt süß.".encode("latin-1"))
    write("memory/utf-16.md", "La façade du café.".encode("utf-16"))
    results = await memory.search("Küche")
    assert results[0].text == "Der Käse aus der Küche schmeckt süß."
    results = await memory.search("façade")
    assert results[0].text == "La façade du café."


@pytest.mark.skipif(sys.platform != "linux", reason="only some file systems allow such names")
async def test_a_file_name_that_is_not_unicode_does_not_stop_the_others(memory, workspace, write):
    write("memory/good.md", "alpha")
    write(os.fsdecode(b"memory/caf\xe9.md"), "alpha")
    report = await memory.index()
    assert (report.added, ["not valid UTF-8" in skipped.reason for skipped in report.skipped]) == (1, [True])
    assert await paths_found(memory, "alpha") == ["memory/good.md"]


async def test_a_file_that_vanishes_during_a_run_does_not_stop_the_others(workspace, write):
    for name in "abc":
        write(f"memory/{name}.md", f"alpha {name}")

    def interrupt(path: str) -> None:
        if path == "memory/a.md":
            (workspace / "memory/b.md").unlink()

    async with Memory(MemoryConfig(workspace, index=IndexConfig(chunker=WholeFile(interrupt)))) as memory:
        await memory.index()
        assert sorted(await paths_found(memory, "alpha")) == ["memory/a.md", "memory/c.md"]


# --- 17: no hits in scripts without spaces -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("データベース", "本番のデータベースは東京にあります。"),
        ("東京", "本番のデータベースは東京にあります。"),
        ("数据库", "我们把数据库迁移到了新的服务器。"),
        ("데이터베이스", "우리는 데이터베이스를 새 서버로 옮겼습니다."),
        ("ฐานข้อมูล", "เราย้ายฐานข้อมูลไปยังเซิร์ฟเวอร์ใหม่"),
    ],
)
async def test_words_of_scripts_without_spaces_are_found(memory, write, query, text):
    write("memory/wanted.md", text)
    write("memory/other.md", "今天天气很好。今日は寒い。오늘은 춥다. วันนี้อากาศดี")
    assert await paths_found(memory, query) == ["memory/wanted.md"]


# --- 18: touched and linked files are indexed twice ----------------------------------------------------------------


async def test_a_file_is_indexed_once_however_it_is_reached(memory, workspace, write):
    file = write("memory/team/one.md", "alpha")
    await memory.index()
    os.utime(file, (1_000_000, 1_000_000))
    os.link(file, workspace / "memory/hard.md")
    if sys.platform != "win32":
        (workspace / "memory/soft.md").symlink_to(file)
        (workspace / "memory/folder").symlink_to(workspace / "memory/team")
    await memory.index()
    assert len(await memory.files()) == 1
    assert len(await memory.search("alpha")) == 1
    assert select(workspace, "SELECT count(*) FROM keyword") == [(1,)]
    await memory.add("memory/team/one.md")
    assert len(await memory.files()) == 1


async def test_a_configured_folder_within_another_is_indexed_once(workspace, write):
    write("memory/team/one.md", "alpha")
    config = MemoryConfig(workspace, files=FilesConfig(paths=["memory/team", ".", "memory/team/one.md"]))
    async with Memory(config) as memory:
        assert [file.path for file in await memory.files()] == ["memory/team/one.md"]


# --- 19: fences, tables and headings are split anywhere ------------------------------------------------------------


async def test_fences_tables_and_headings_stay_whole(memory, workspace, write):
    prose = "Some prose that fills the chunk with its words, sentence after sentence. " * 6
    fence = "```python\n# no heading\ndef move():\n\n    return 'valkey'\n```"
    table = "| name | value |\n|---|---|\n| one | 1 |\n| two | 2 |\n| three | 3 |"
    sections = [f"## Section {number}\n\n{prose}\n\n{fence}\n\n{table}" for number in range(8)]
    write("memory/one.md", "\n\n".join(["# Title", *sections]))
    await memory.index()
    texts = [text for (text,) in select(workspace, "SELECT text FROM chunks ORDER BY position")]
    assert len(texts) > 8
    for whole in (fence, table):
        touched = [text for text in texts if any(line in text.split("\n") for line in whole.split("\n") if line)]
        assert touched
        assert all(whole in text for text in touched)
    assert not any(text.rstrip().split("\n")[-1].startswith("#") for text in texts)
    headings = {heading for (heading,) in select(workspace, "SELECT heading FROM chunks")}
    assert all("no heading" not in heading for heading in headings)


# --- 20: JSON is polluted; characters crash pipes ------------------------------------------------------------------


@pytest.mark.slow
def test_json_is_the_only_thing_on_stdout(workspace, write):
    write("memory/one.md", "alpha")
    write("memory/picture.md", b"\0\0\0")  # something to complain of
    for command in (["index"], ["search", "alpha"], ["files"], ["status"], ["plugins"], ["doctor"]):
        done = run_kipu(*command, "--json", "-w", str(workspace))
        assert json.loads(done.stdout) is not None
        assert b"Traceback" not in done.stderr


def test_every_character_passes_a_pipe_of_an_old_code_page(workspace, write):
    write("memory/one.md", "alpha \U0001f980 東京 – naïve")
    for output in ([], ["--json"]):
        done = run_kipu(
            "search", "alpha", "-w", str(workspace), *output, PYTHONIOENCODING="cp1252", PYTHONUTF8="0", LC_ALL="C"
        )
        assert done.returncode == 0
        assert "alpha \U0001f980 東京 – naïve" in done.stdout.decode("utf-8")


# --- 21: a typing error in the workspace makes an empty store and says that all is well ----------------------------


@pytest.mark.parametrize("command", [["index"], ["search", "alpha"], ["status"], ["files"], ["add", "one.md"]])
def test_a_typo_in_the_workspace_is_an_error_and_nothing_is_created(workspace, capsys, command):
    wrong = workspace.with_name("projct")
    assert kipu_exits(*command, "-w", str(wrong)) == 3
    output = capsys.readouterr()
    assert output.out == ""
    assert "does not exist" in output.err
    assert 'Did you mean "project"?' in output.err
    assert not wrong.exists()


# --- 24: indexing is quadratic -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("edited", [False, True], ids=["new", "edited"])
async def test_indexing_is_linear_in_the_number_of_chunks(tmp_path, monkeypatch, edited):
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connect = choose_driver().connect

    def counting(*arguments: Any, **options: Any) -> Any:
        connection = connect(*arguments, **options)
        connection.set_progress_handler(count, 100)  # is called after each hundred instructions of SQLite
        return connection

    monkeypatch.setattr(choose_driver(), "connect", counting)

    async def work(files: int) -> int:
        nonlocal steps
        folder = tmp_path / f"{files} files"
        (folder / "memory").mkdir(parents=True)
        async with Memory(folder) as memory:
            for turn in range(2 if edited else 1):
                for number in range(files):
                    sections = [f"## Part {part}\n\nfact {turn} {part} of {number}" for part in range(10)]
                    (folder / f"memory/{number}.md").write_text("\n\n".join(sections), "utf-8")
                steps = 0
                await memory.index()
        return steps

    few, many = await work(25), await work(200)
    assert few > 10
    # Eight times the chunks: 8 times the work, and something for deeper trees; a square would be 64 times.
    assert many < 16 * few
