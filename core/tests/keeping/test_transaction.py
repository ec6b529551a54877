"""Memory files are changed whole or not at all, under a lock, and keep all that nobody meant to change."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from rows import rows, rows_made_afresh, with_doubles

import kipu.keeping.steps
from kipu import Memory
from kipu.config import WritingConfig
from kipu.errors import (
    FileChangedError,
    KipuError,
    MemoryFileError,
    OutsideWorkspaceError,
    QueryError,
    WritingBusyError,
)
from kipu.keeping.transaction import FileChange, Writer
from kipu.workspace.text import TextFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POSIX = pytest.mark.skipif(os.name == "nt", reason="permissions and links are those of POSIX")
NOT_ROOT = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is read-only for this user"
)


@pytest.fixture
def writer(workspace: Path) -> Writer:
    return Writer(workspace / ".kipu", lambda path: True, wait=0)


@pytest.fixture
async def memory(workspace: Path) -> Any:
    config = attrs.evolve(with_doubles(workspace), writing=WritingConfig(filters=[]))
    async with Memory(config) as memory:
        yield memory


def change(file: Path, after: bytes | None) -> FileChange:
    return FileChange(str(file), file.read_bytes() if file.exists() else None, after)


def remains(workspace: Path) -> list[str]:
    """What nobody needs any more: temporary files and journals, wherever they are."""
    left = [*(workspace / ".kipu/writing").glob("*"), *workspace.rglob(".kipu-*"), *workspace.rglob("*.tmp*")]
    return sorted(path.name for path in left)


# --- all or none ---------------------------------------------------------------------------------------------------


async def test_files_are_made_changed_and_removed_together(workspace, writer):
    one, two, three = (workspace / f"memory/{name}.md" for name in ("one", "two", "deep/three"))
    one.write_bytes(b"one")
    two.write_bytes(b"two")
    async with writer.locked():
        await writer.apply([change(one, b"ONE"), change(two, None), change(three, b"THREE")])
    assert (one.read_bytes(), two.exists(), three.read_bytes()) == (b"ONE", False, b"THREE")
    assert remains(workspace) == []


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_where_one_file_changed_meanwhile_none_is_changed(workspace, writer, which):
    files = [workspace / f"memory/{number}.md" for number in range(3)]
    for file in files:
        file.write_bytes(b"old")
    changes = [change(file, b"new") for file in files]
    files[which].write_bytes(b"somebody's")
    async with writer.locked():
        with pytest.raises(FileChangedError):
            await writer.apply(changes)
    assert [file.read_bytes() for file in files] == [b"somebody's" if at == which else b"old" for at in range(3)]
    assert remains(workspace) == []


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 3])
async def test_where_one_file_changes_at_the_last_moment_none_is_changed(workspace, writer, monkeypatch, which, count):
    files = [workspace / f"memory/{number}.md" for number in range(count)]
    for file in files:
        file.write_bytes(b"old")
    put = kipu.keeping.steps.put_in_place
    saved = files[min(which, count - 1)]

    def late(step: Any) -> bool:
        if step.real == str(files[0]) and saved.read_bytes() == b"old":
            saved.write_bytes(b"somebody's")
        return put(step)

    monkeypatch.setattr(kipu.keeping.steps, "put_in_place", late)
    async with writer.locked():
        with pytest.raises(FileChangedError):
            await writer.apply([change(file, b"new") for file in files])
    assert saved.read_bytes() == b"somebody's"
    assert all(file.read_bytes() == b"old" for file in files if file != saved)
    assert remains(workspace) == []


async def test_where_one_file_cannot_be_written_none_is_changed(workspace, writer):
    one = workspace / "memory/one.md"
    one.write_bytes(b"old")
    below_a_file = workspace / "memory/one.md/two.md"
    async with writer.locked():
        with pytest.raises(MemoryFileError, match="Nothing was changed"):
            await writer.apply([change(one, b"new"), FileChange(str(below_a_file), None, b"new")])
    assert one.read_bytes() == b"old"
    assert remains(workspace) == []


async def test_a_change_that_has_begun_is_finished_by_somebody_who_does_not_wait_for_it(workspace, writer):
    files = [workspace / f"memory/{number}.md" for number in range(20)]

    async def work() -> None:
        async with writer.locked():
            await writer.apply([FileChange(str(file), None, b"new") for file in files])

    for turns in range(1, 12):
        task = asyncio.create_task(work())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        async with writer.locked():
            there = {file.exists() for file in files}
        assert len(there) == 1
        assert remains(workspace) == []
        for file in files:
            file.unlink(missing_ok=True)


# --- what a killed process left ------------------------------------------------------------------------------------


@pytest.fixture
def left(workspace: Path) -> Any:
    """What a process leaves that is killed when the journal is written, and ``done`` of two changes are made."""

    def left(done: int) -> list[Path]:
        files = [workspace / f"memory/{name}.md" for name in ("one", "two")]
        folder = workspace / ".kipu/writing"
        folder.mkdir(parents=True)
        steps = []
        for number, file in enumerate(files):
            old, new = f"old {number}".encode(), f"new {number}".encode()
            file.write_bytes(new if number < done else old)
            temporary = folder / f"1-{number}.tmp"
            if number >= done:
                temporary.write_bytes(new)
            (folder / f"1-{number}.tmp.saved").write_bytes(old)
            step = kipu.keeping.steps.Step.of(FileChange(str(file), old, new), str(temporary))
            steps.append(attrs.asdict(step))
        (folder / "journal.json").write_text(json.dumps(steps), "utf-8")
        return files

    return left


@pytest.mark.parametrize("done", [0, 1, 2])
@pytest.mark.parametrize("what", ["index", "search", "remember", "read"])
async def test_what_was_begun_is_finished_before_anything_else(workspace, memory, left, done, what):
    files = left(done)
    if what == "remember":
        await memory.remember("something else")
    elif what == "read":
        assert await memory.read("memory/two.md") == "new 1"
    elif what == "search":
        assert {result.text for result in await memory.search("new")} == {"new 0", "new 1"}
    else:
        await memory.index()
    assert [file.read_bytes() for file in files] == [b"new 0", b"new 1"]
    assert remains(workspace) == []


@pytest.mark.parametrize("done", [0, 1])
async def test_what_somebody_saved_since_stays_and_the_rest_is_taken_back(workspace, memory, left, done):
    one, two = left(done)
    two.write_bytes(b"somebody's")
    await memory.index()
    assert (one.read_bytes(), two.read_bytes()) == (b"old 0", b"somebody's")
    assert remains(workspace) == []


async def test_half_of_a_journal_is_nothing(workspace, memory, left):
    files = left(0)
    journal = workspace / ".kipu/writing/journal.json"
    journal.rename(journal.with_name("journal.json.new"))
    await memory.index()
    assert [file.read_bytes() for file in files] == [b"old 0", b"old 1"]
    assert remains(workspace) == []


# --- the lock ------------------------------------------------------------------------------------------------------


@pytest.fixture
def held(workspace: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    lock = workspace / ".kipu/writing.lock"
    lock.parent.mkdir(exist_ok=True)
    hold = f"lock = filelock.FileLock({str(lock)!r}); lock.acquire(); print(flush=True); sys.stdin.read()"
    script = f"import sys, filelock; {hold}"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


async def test_who_writes_waits_for_another_process_and_says_so_in_the_end(workspace, memory, held):
    memory._writer._wait = 0.05
    with pytest.raises(WritingBusyError, match="Another process has been writing"):
        await memory.remember("something")
    assert list((workspace / "memory").iterdir()) == []
    held.kill()
    held.wait()
    memory._writer._wait = 60
    await memory.remember("something")


async def test_who_reads_does_not_wait_for_another_process(memory, write, held):
    write("memory/a.md", "alpha")
    assert len(await memory.search("alpha")) == 1
    assert await memory.read("memory/a.md") == "alpha"


async def test_the_lock_is_free_again_after_an_error(memory, write):
    write("memory/a.md", "alpha")
    for _ in range(3):
        with pytest.raises(MemoryFileError):
            await memory.forget(path="memory/missing.md")
    await memory.remember("something")


@POSIX
async def test_a_link_in_the_place_of_the_hidden_folder_is_not_followed(workspace, memory, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (workspace / ".kipu").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MemoryFileError, match="symbolic link"):
        await memory.remember("something")
    assert list((tmp_path / "elsewhere").iterdir()) == []


# --- what stays as it is -------------------------------------------------------------------------------------------

LINES = "# Caf\u00e9\n\nna\u00efve  \n\n\n- one\n- two\t\n\n\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "cp1252"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("ends", [True, False])
async def test_encoding_mark_and_line_ends_stay(workspace, memory, encoding, line_end, ends):
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    file = workspace / "memory/a.md"
    before = LINES.replace("\n", line_end) if ends else LINES.rstrip("\n").replace("\n", line_end)
    file.write_bytes(mark + before.encode(encoding))
    note = await memory.remember("tr\u00e8s\nbien", file="a.md")
    kept, rest = (before.rstrip("\r\n") + line_end, before[len(before.rstrip("\r\n")) + len(line_end) :])
    expected = f"{kept}- tr\u00e8s{line_end}  bien{line_end}{rest}"
    assert file.read_bytes() == mark + expected.encode(encoding)
    assert len(await memory.search("bien")) == 1
    await memory.forget(path="memory/a.md", start=note.start_line, end=note.end_line)
    left = TextFile.parse(file.read_bytes())
    assert left.plain_lines[:7] == ["# Caf\u00e9", "", "na\u00efve  ", "", "", "- one", "- two\t"]
    assert (left.mark, left.encoding) == (
        {"utf-8-sig": b"\xef\xbb\xbf"}.get(encoding, mark) or left.mark,
        left.encoding,
    )


async def test_a_file_of_mixed_line_ends_keeps_each(workspace, memory):
    file = workspace / "memory/a.md"
    file.write_bytes(b"one\r\ntwo\nthree\rfour")
    await memory.remember("five", file="a.md")
    assert file.read_bytes() == b"one\r\ntwo\nthree\rfour\r\n\r\n- five\r\n"
    await memory.edit("TWO", path="memory/a.md", start=2)
    assert file.read_bytes() == b"one\r\nTWO\r\nthree\rfour\r\n\r\n- five\r\n"


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\n\n", b"\xff\xfe", b"no end", b"\xff\xfe\r\x00\n\x00"])
async def test_something_is_remembered_in_a_file_that_says_next_to_nothing(workspace, memory, data):
    file = workspace / "memory/a.md"
    file.write_bytes(data)
    note = await memory.remember("xylophone \u6771\u4eac", file="a.md")
    assert file.read_bytes().startswith(data.rstrip(b"\n\r") if data.isspace() else data[:2])
    (result,) = await memory.search("xylophone")
    assert result.text.endswith("- xylophone \u6771\u4eac")
    assert await memory.read("memory/a.md", note.start_line) == "- xylophone \u6771\u4eac"


@pytest.mark.parametrize("data", [b"\0\1\2", b"\xff\xfe\0\xd8", b"caf\xe9 \x81\x8d\x8f\x90\x9d " * 40])
async def test_what_is_no_text_is_not_written(workspace, memory, data):
    file = workspace / "memory/a.md"
    file.write_bytes(data)
    remember = partial(memory.remember, "something", file="a.md")
    for work in (remember, partial(memory.edit, "x", path="memory/a.md", start=1)):
        try:
            await work()
        except MemoryFileError:
            assert file.read_bytes() == data
        else:
            assert data.startswith(b"caf")  # an encoding was found in which it can be written back


async def test_a_character_that_the_encoding_of_a_file_lacks_is_not_lost_silently(workspace, memory):
    file = workspace / "memory/a.md"
    file.write_bytes("caf\u00e9\n".encode("cp1252"))
    for text in ("\u6771\u4eac", "\U0001f9a6"):
        with pytest.raises(MemoryFileError, match="Save it as UTF-8"):
            await memory.remember(text, file="a.md")
    assert file.read_bytes() == b"caf\xe9\n"


@pytest.mark.parametrize(
    "text", ["\u00e9\u00e8\u00ea\u00eb\u00e0\u00e2\u00e4\u00f9\u00fb\u00fc" * 3, "\u00c3\u00a9", "\u00d7\u00f7\u00ac"]
)
async def test_a_text_that_would_change_how_the_file_is_read_is_refused(workspace, memory, text):
    file = workspace / "memory/a.md"
    file.write_bytes("caf\u00e9\n".encode("cp1252"))
    try:
        await memory.edit(text, path="memory/a.md", start=1)
    except MemoryFileError:
        assert file.read_bytes() == b"caf\xe9\n"
    else:
        assert await memory.read("memory/a.md") == text


@POSIX
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
async def test_permissions_stay(workspace, memory, write, mode):
    file, other = write("memory/a.md", "alpha\n\nbeta\n"), write("memory/b.md", "gamma\n")
    file.chmod(mode)
    other.chmod(0o604)
    await memory.remember("something", file="a.md")
    await memory.edit("ALPHA", path="memory/a.md", start=1)
    await memory.move("b.md", path="memory/a.md", start=3)
    await memory.forget(path="memory/a.md", start=1)
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert stat.S_IMODE(other.stat().st_mode) == 0o604


@POSIX
async def test_a_private_file_is_at_no_moment_readable_by_others(workspace, writer, monkeypatch):
    file = workspace / "memory/a.md"
    file.write_bytes(b"old")
    file.chmod(0o600)
    modes = []
    fsync = os.fsync

    def look(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    async with writer.locked():
        await writer.apply([change(file, b"new")])
    assert modes == [0o600]


@POSIX
async def test_a_new_file_has_the_permissions_of_new_files(workspace, memory):
    before = os.umask(0o027)
    try:
        note = await memory.remember("something")
    finally:
        os.umask(before)
    assert stat.S_IMODE((workspace / note.path).stat().st_mode) == 0o640


@NOT_ROOT
async def test_a_file_that_is_read_only_is_not_replaced(workspace, memory, write):
    file = write("memory/a.md", "alpha\n\nbeta\n")
    file.chmod(0o444)
    for work in (
        partial(memory.remember, "something", file="a.md"),
        partial(memory.edit, "x", path="memory/a.md", start=1),
        partial(memory.forget, path="memory/a.md", start=1),
        partial(memory.move, "b.md", path="memory/a.md"),
    ):
        with pytest.raises(MemoryFileError, match="Nothing was changed"):
            await work()
    assert file.read_text("utf-8") == "alpha\n\nbeta\n"
    assert remains(workspace) == []


@NOT_ROOT
@pytest.mark.parametrize("folder", ["memory", ".kipu"])
async def test_a_folder_that_is_read_only_is_said_to_be(workspace, memory, write, folder):
    write("memory/a.md", "alpha\n")
    (workspace / ".kipu").mkdir()
    (workspace / folder).chmod(0o555)
    try:
        with pytest.raises(MemoryFileError, match="cannot be written"):
            await memory.remember("something")
    finally:
        (workspace / folder).chmod(0o755)
    assert (workspace / "memory/a.md").read_text("utf-8") == "alpha\n"


# --- reading -------------------------------------------------------------------------------------------------------


async def test_a_file_is_read_whole_or_by_its_lines(memory, workspace, write):
    write("memory/a.md", "one\r\ntwo\r\nthree")
    write("memory/empty.md", "")
    assert await memory.read("memory/a.md") == "one\ntwo\nthree"
    assert await memory.read(workspace / "memory/a.md", 2) == "two"
    assert await memory.read("./memory/../memory/a.md", 2, 3) == "two\nthree"
    assert await memory.read("memory/empty.md") == ""
    for lines in ((0,), (4,), (1, 4), (3, 2), ("1",), (True,), (None, 0), (-1,)):
        with pytest.raises(QueryError):
            await memory.read("memory/a.md", *lines)


@pytest.mark.parametrize(
    "path", ["memory/none.md", "memory", "kipu.toml", "../x.md", ".kipu/index.sqlite", "memory/a\0.md", "memory/bin.md"]
)
async def test_what_is_no_memory_file_is_not_read(memory, workspace, write, path):
    write("kipu.toml", "")
    (workspace / "memory/bin.md").write_bytes(b"\0\1\2")
    with pytest.raises(KipuError):
        await memory.read(path)


# --- links ---------------------------------------------------------------------------------------------------------


@POSIX
async def test_a_link_stays_a_link_and_what_it_leads_to_is_changed(workspace, memory, write):
    file = write("memory/real.md", "alpha\n")
    link = workspace / "memory/link.md"
    link.symlink_to("real.md")
    note = await memory.remember("something", file="link.md")
    assert note.path == "memory/real.md"
    assert link.is_symlink()
    assert file.read_text("utf-8") == "alpha\n\n- something\n"


@POSIX
@pytest.mark.parametrize("target", ["../../outside.md", "../../missing.md", "../.kipu/inside.md", "/etc/hostname.md"])
async def test_a_link_that_leads_out_is_not_followed(workspace, memory, target):
    outside = workspace.parent / "outside.md"
    outside.write_text("outside\n", "utf-8")
    (workspace / "memory/link.md").symlink_to(target)
    (workspace / "memory/folder").symlink_to("../..")
    for file in ("link.md", "folder/outside.md", "folder/new.md"):
        for work in (
            partial(memory.remember, "something", file=file),
            partial(memory.edit, "x", path=f"memory/{file}", start=1),
            partial(memory.forget, path=f"memory/{file}"),
            partial(memory.read, f"memory/{file}"),
        ):
            with pytest.raises((MemoryFileError, OutsideWorkspaceError)):
                await work()
    assert outside.read_text("utf-8") == "outside\n"
    assert not (workspace.parent / "new.md").exists()


@POSIX
async def test_a_further_folder_elsewhere_is_written_to(workspace, tmp_path, config):
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault/a.md").write_text("alpha\n", "utf-8")
    made = attrs.evolve(config(files={"paths": [str(tmp_path / "vault")]}), writing=WritingConfig(filters=[]))
    async with Memory(made) as memory:
        note = await memory.remember("something", file=tmp_path / "vault/a.md")
        assert (tmp_path / "vault/a.md").read_text("utf-8") == "alpha\n\n- something\n"
        assert [result.path for result in await memory.search("something")] == [note.path]
        assert (await memory.forget(path=note.path, start=note.start_line)).complete
    assert remains(tmp_path) == []


async def test_the_index_is_that_of_the_files_after_every_kind_of_change(workspace, memory, write, tmp_path):
    write("memory/a.md", "# A\n\nalpha\n\nbeta\n\ngamma\n")
    await memory.remember("something", source="team")
    await memory.edit("BETA\n\nmore", path="memory/a.md", start=5)
    await memory.move("b.md", path="memory/a.md", start=3)
    await memory.forget(path="memory/a.md", start=1, end=4)
    await memory.move("team/c.md", path="memory/b.md")
    assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")
