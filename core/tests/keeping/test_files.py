"""Files keep what nobody meant to change; what is no file is neither read nor written."""

from __future__ import annotations

import errno
import os
import stat
from functools import partial
from typing import TYPE_CHECKING

import attrs
import pytest
from rows import rows, rows_made_afresh

from kipu import Memory
from kipu.config import WritingConfig
from kipu.errors import KipuError, MemoryFileError, OutsideWorkspaceError, QueryError
from kipu.keeping.files import read_regular, write_new
from kipu.workspace.text import TextFile

if TYPE_CHECKING:
    from pathlib import Path

POSIX = pytest.mark.skipif(os.name == "nt", reason="permissions and links are those of POSIX")
NOT_ROOT = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is read-only for this user"
)
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
async def test_a_new_file_has_the_permissions_of_new_files(workspace, memory):
    before = os.umask(0o027)
    try:
        note = await memory.remember("something")
    finally:
        os.umask(before)
    assert stat.S_IMODE((workspace / note.path).stat().st_mode) == 0o640


@NOT_ROOT
async def test_a_file_that_is_read_only_is_not_replaced(workspace, memory, write, remains):
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
async def test_a_further_folder_elsewhere_is_written_to(tmp_path, config, remains):
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


def a_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def a_link_to_nothing(path: Path, outside: Path) -> None:
    path.symlink_to(outside.with_name("nothing"))


def a_pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("size", [0, 3, 100_000])
@pytest.mark.parametrize("put", [a_link, a_link_to_nothing, a_pipe, None])
def test_a_file_is_made_anew_whatever_stands_there(tmp_path, put, size):
    outside, path = tmp_path / "outside", tmp_path / "path"
    outside.write_bytes(b"precious")
    if put is not None:
        put(path, outside)
    write_new(path, b"x" * size)
    assert not path.is_symlink()
    assert read_regular(path) == b"x" * size
    assert outside.read_bytes() == b"precious"
    assert not (tmp_path / "nothing").exists()


def test_a_pipe_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is not a regular file"):
        read_regular(tmp_path / "pipe")


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_new(tmp_path / "path", b"x", name="memory/a.md")
    assert caught.value.filename == "memory/a.md"


@NOT_ROOT
async def test_a_folder_that_may_not_be_read_may_be_written_to(workspace, memory):
    (workspace / "memory/team").mkdir()
    (workspace / "memory/team/a.md").write_text("- alpha\n", "utf-8")
    (workspace / "memory/team").chmod(0o300)
    try:
        await memory.edit("- beta", path="memory/team/a.md", start=1)
        assert (workspace / "memory/team/a.md").read_text("utf-8") == "- beta\n"
    finally:
        (workspace / "memory/team").chmod(0o700)
