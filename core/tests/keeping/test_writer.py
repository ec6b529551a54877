"""Write filters see every text first, and files keep their encoding and permissions."""

from __future__ import annotations

import os
import stat
from functools import partial

import attrs
import pytest
from entry_chunks import lines_of, with_entries
from redaction import KEY, configured

from kipu import Memory
from kipu.config import WritingConfig
from kipu.errors import (
    IndexUnavailableError,
    MemoryFileError,
    OutsideWorkspaceError,
    PluginFailedError,
    PluginNotFoundError,
    QueryError,
)
from kipu.types import Filtered
from kipu.workspace.text import TextFile

POSIX = pytest.mark.skipif(os.name == "nt", reason="permissions and links are those of POSIX")

NOT_ROOT = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is read-only for this user"
)

LINES = "# Caf\u00e9\n\nna\u00efve  \n\n\n- one\n- two\t\n\n\n"


FACT = "Otters hold hands while they sleep."


# --- write filters -------------------------------------------------------------------------------------------------


class Shouting:
    def filter(self, text: str, path: str) -> Filtered:
        if "fail" in text:
            raise ValueError(text)
        return Filtered(text.upper(), [f"shouted for {path}"])


async def test_the_text_of_a_filter_is_written_compared_and_reported(workspace):
    async with Memory(with_entries(workspace, filters=[Shouting()])) as memory:
        note = await memory.remember(FACT, file="likes.md", metadata={"origin": "chat"})
        assert lines_of(workspace / note.path) == [f"- {FACT.upper()}", "  [origin: CHAT]", ""]
        notice = "shouted for memory/likes.md"
        assert (note.text, list(note.notices)) == (FACT.upper(), [notice, f"In the metadata: {notice}"])
        assert (await memory.remember(FACT.title())).duplicate_of is not None
        note = await memory.edit("edited", path="memory/likes.md", start=1)
        assert (lines_of(workspace / note.path)[0], note.text) == ("- EDITED", "EDITED")
        assert list(note.notices) == [f"In the new text: {notice}"]


async def test_if_a_filter_fails_nothing_is_written_and_the_text_is_not_shown(workspace):
    async with Memory(with_entries(workspace, filters=[Shouting()])) as memory:
        await memory.remember(FACT, file="likes.md")
        before = (workspace / "memory/likes.md").read_bytes()
        for work in (
            partial(memory.remember, "fail secretly", file="likes.md"),
            partial(memory.remember, "word", file="likes.md", metadata={"origin": "fail secretly"}),
            partial(memory.edit, "fail secretly", path="memory/likes.md", start=1),
        ):
            with pytest.raises(PluginFailedError, match="Nothing was written") as raised:
                await work()
            assert "secretly" not in str(raised.value)
        assert (workspace / "memory/likes.md").read_bytes() == before


async def test_without_a_configured_filter_nothing_is_written(workspace, memory):
    await memory.remember(FACT, file="likes.md")
    config = attrs.evolve(with_entries(workspace), writing=WritingConfig(filters=["nonesuch"]))
    async with Memory(config) as other:
        for work in (
            partial(other.remember, "more", file="likes.md"),
            partial(other.edit, "more", path="memory/likes.md", start=1),
            partial(other.move, "other.md", path="memory/likes.md"),
        ):
            with pytest.raises(PluginNotFoundError, match="nonesuch"):
                await work()
    assert lines_of(workspace / "memory/likes.md") == [f"- {FACT}", ""]


async def test_a_text_is_saved_although_the_index_cannot_be_written(workspace, memory, monkeypatch):
    await memory.search("otters")

    async def fail(*arguments):
        raise IndexUnavailableError("The disk is full.")

    monkeypatch.setattr(memory._synchronizer, "refresh", fail)
    note = await memory.remember(FACT, file="likes.md")
    assert list(note.notices) == ["Saved, but not indexed, so searches do not find it yet. The disk is full."]
    assert lines_of(workspace / "memory/likes.md") == [f"- {FACT}", ""]


async def test_a_secret_reaches_no_heading_and_no_metadata(notebook, workspace):
    note = await notebook.remember("x", file="a.md", heading=f"Key {KEY}", metadata={"password": "hunter", "tags": KEY})
    assert note.notices == ["In the metadata: A key was replaced.", "In the heading: A key was replaced."]
    text = (workspace / "memory/a.md").read_text("utf-8")
    assert KEY not in text
    assert "hunter" not in text
    assert (await notebook.search("x"))[0].metadata == {
        "password": "[redacted: password]",
        "tags": "[redacted: key]",
    }


@pytest.mark.parametrize("where", [{"source": KEY}, {"file": f"{KEY}.md"}, {"file": f"{KEY}/a.md"}])
async def test_a_secret_names_no_file(notebook, workspace, where):
    with pytest.raises(QueryError, match=r"contains a secret\. Nothing was written: choose another name\.$"):
        await notebook.remember("x", **where)
    assert list((workspace / "memory").iterdir()) == []


async def test_a_secret_names_no_file_of_any_command(notebook, workspace):
    (workspace / "memory/a.md").write_text("- zebra\n", "utf-8")
    said = [{"role": "user", "content": "zebra"}]
    for change in (
        notebook.move(f"{KEY}.md", path="memory/a.md"),
        notebook.move(f"{KEY}.md", path="memory/a.md", start=1),
        notebook.move(f"{KEY}/a.md", path="memory/a.md"),
        notebook.flush(said, file=f"2026-01-01-{KEY}.md"),
        notebook.flush(said, source=KEY),
        notebook.remember("zebra", source=KEY),
    ):
        with pytest.raises(QueryError):
            await change
    async with Memory(configured(workspace), scope=f"id {KEY}") as scoped:
        with pytest.raises(QueryError, match="contains a secret"):
            await scoped.remember("zebra")
    assert sorted(path.name for path in (workspace / "memory").rglob("*")) == ["a.md"]


async def test_a_secret_on_a_line_of_its_own_is_replaced_by_a_placeholder(notebook, workspace):
    await notebook.remember(f"The key:\n{KEY}", file="a.md")
    assert (workspace / "memory/a.md").read_text("utf-8") == "- The key:\n  [redacted: key]\n"


# --- encodings -----------------------------------------------------------------------------------------------------


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
async def test_a_text_is_added_to_a_nearly_empty_file(workspace, memory, data):
    file = workspace / "memory/a.md"
    file.write_bytes(data)
    note = await memory.remember("xylophone \u6771\u4eac", file="a.md")
    assert file.read_bytes().startswith(data.rstrip(b"\n\r") if data.isspace() else data[:2])
    (result,) = await memory.search("xylophone")
    assert result.text.endswith("- xylophone \u6771\u4eac")
    assert await memory.read("memory/a.md", note.start_line) == "- xylophone \u6771\u4eac"


@pytest.mark.parametrize("data", [b"\0\1\2", b"\xff\xfe\0\xd8", b"caf\xe9 \x81\x8d\x8f\x90\x9d " * 40])
async def test_a_file_that_is_not_text_is_not_written(workspace, memory, data):
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


async def test_a_character_that_the_encoding_lacks_is_refused(workspace, memory):
    file = workspace / "memory/a.md"
    file.write_bytes("caf\u00e9\n".encode("cp1252"))
    for text in ("\u6771\u4eac", "\U0001f9a6"):
        with pytest.raises(MemoryFileError, match="Save it as UTF-8"):
            await memory.remember(text, file="a.md")
    assert file.read_bytes() == b"caf\xe9\n"


@pytest.mark.parametrize(
    "text", ["\u00e9\u00e8\u00ea\u00eb\u00e0\u00e2\u00e4\u00f9\u00fb\u00fc" * 3, "\u00c3\u00a9", "\u00d7\u00f7\u00ac"]
)
async def test_a_text_that_changes_the_guessed_encoding_is_refused(workspace, memory, text):
    file = workspace / "memory/a.md"
    file.write_bytes("caf\u00e9\n".encode("cp1252"))
    try:
        await memory.edit(text, path="memory/a.md", start=1)
    except MemoryFileError:
        assert file.read_bytes() == b"caf\xe9\n"
    else:
        assert await memory.read("memory/a.md") == text


# --- permissions and symlinks --------------------------------------------------------------------------------------


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
async def test_a_read_only_file_is_not_replaced(workspace, memory, write, remains):
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
async def test_a_read_only_folder_is_named(workspace, memory, write, folder):
    write("memory/a.md", "alpha\n")
    (workspace / ".kipu").mkdir()
    (workspace / folder).chmod(0o555)
    try:
        with pytest.raises(MemoryFileError, match="cannot be written"):
            await memory.remember("something")
    finally:
        (workspace / folder).chmod(0o755)
    assert (workspace / "memory/a.md").read_text("utf-8") == "alpha\n"


@NOT_ROOT
async def test_a_folder_that_cannot_be_read_can_be_written(workspace, memory):
    (workspace / "memory/team").mkdir()
    (workspace / "memory/team/a.md").write_text("- alpha\n", "utf-8")
    (workspace / "memory/team").chmod(0o300)
    try:
        await memory.edit("- beta", path="memory/team/a.md", start=1)
        assert (workspace / "memory/team/a.md").read_text("utf-8") == "- beta\n"
    finally:
        (workspace / "memory/team").chmod(0o700)


@POSIX
async def test_a_symlink_stays_and_its_target_is_changed(workspace, memory, write):
    file = write("memory/real.md", "alpha\n")
    link = workspace / "memory/link.md"
    link.symlink_to("real.md")
    note = await memory.remember("something", file="link.md")
    assert note.path == "memory/real.md"
    assert link.is_symlink()
    assert file.read_text("utf-8") == "alpha\n\n- something\n"


@POSIX
@pytest.mark.parametrize("target", ["../../outside.md", "../../missing.md", "../.kipu/inside.md", "/etc/hostname.md"])
async def test_a_symlink_that_leads_out_is_not_followed(workspace, memory, target):
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
async def test_a_configured_folder_elsewhere_is_written(tmp_path, config, remains):
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault/a.md").write_text("alpha\n", "utf-8")
    made = attrs.evolve(config(files={"paths": [str(tmp_path / "vault")]}), writing=WritingConfig(filters=[]))
    async with Memory(made) as memory:
        note = await memory.remember("something", file=tmp_path / "vault/a.md")
        assert (tmp_path / "vault/a.md").read_text("utf-8") == "alpha\n\n- something\n"
        assert [result.path for result in await memory.search("something")] == [note.path]
        assert (await memory.forget(path=note.path, start=note.start_line)).complete
    assert remains(tmp_path) == []
