"""Chunks, lines and files are read, edited and moved; nothing else changes."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import pytest
from entry_chunks import with_entries
from redaction import configured
from rows import rows, rows_made_afresh, select

from kipu import Memory
from kipu.errors import (
    ChunkNotFoundError,
    FileChangedError,
    KipuError,
    MemoryFileError,
    QueryError,
)
from kipu.testing import ParagraphChunker

FACT = "Otters hold hands while they sleep."


LINKS = pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="there are no symbolic links")


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
async def test_only_memory_files_are_read(memory, workspace, write, path):
    write("kipu.toml", "")
    (workspace / "memory/bin.md").write_bytes(b"\0\1\2")
    with pytest.raises(KipuError):
        await memory.read(path)


# --- edit ----------------------------------------------------------------------------------------------------------


async def test_a_chunk_is_edited_and_nothing_else(memory, workspace, write, tmp_path):
    file = write("memory/a.md", "# A\n\n- alpha\n- beta\n  more\n\n- gamma")
    (result,) = await memory.search("beta")
    note = await memory.edit("- delta\n  epsilon\n  zeta\n", chunk=result.chunk)
    text = f"# A\n\n- alpha\n- delta\n  epsilon\n  zeta\n  [id: {result.id}]\n\n- gamma"
    assert file.read_text("utf-8") == text
    assert (note.start_line, note.end_line, note.text) == (4, 7, "- delta\n  epsilon\n  zeta")
    assert [(found.chunk, found.end_line) for found in await memory.search("zeta")] == [(note.chunk, 7)]
    assert await memory.search("beta") == []
    with pytest.raises(ChunkNotFoundError):
        await memory.edit("again", chunk=result.chunk)


async def test_lines_are_edited_up_to_the_end_of_the_file(memory, write):
    file = write("memory/a.md", "one\ntwo\nthree")
    await memory.edit("THREE", path="memory/a.md", start=3)
    assert file.read_text("utf-8") == "one\ntwo\nTHREE"
    await memory.edit("only\nthis", path="memory/a.md", start=1, end=3)
    assert file.read_text("utf-8") == "only\nthis"


async def test_an_empty_file_can_be_filled(memory, write):
    file = write("memory/empty.md", "")
    note = await memory.edit("filled", path="memory/empty.md", start=1)
    assert file.read_text("utf-8").strip() == "filled"
    assert (note.start_line, note.end_line) == (1, 1)
    assert len(await memory.search("filled")) == 1


@pytest.mark.parametrize("text", ["", "\n", "a\0b", 5])
async def test_an_empty_or_invalid_replacement_is_refused(memory, write, text):
    file = write("memory/a.md", "one")
    with pytest.raises(QueryError):
        await memory.edit(text, path="memory/a.md", start=1)
    assert file.read_text("utf-8") == "one"


@pytest.mark.parametrize(
    ("text", "above"),
    [
        ("- new", "# A\n\n## Facts"),
        ("new", "# A\n\n## Facts"),
        ("## New\n\n- new", "# A\n\n## New"),
        ("# New\n\n- new", "# New"),
        ("### New\n\n- new", "# A\n\n## Facts\n\n### New"),
    ],
)
async def test_the_headings_at_the_start_of_a_chunk_stay(notebook, write, text, above):
    file = write("memory/a.md", "# A\n\n## Facts\n\n- one\n  [id: p]\n\n## Others\n\n- two\n")
    (result, *_) = await notebook.search("one")
    assert result.text.startswith("# A\n\n## Facts")
    await notebook.edit(text, chunk=result.chunk)
    assert file.read_text("utf-8") == f"{above}\n\n- new\n  [id: p]\n\n## Others\n\n- two\n"


async def test_a_text_that_another_program_saves_is_never_overwritten(memory, workspace, write, monkeypatch):
    file = write("memory/a.md", "one\n\ntwo\n")
    (result,) = await memory.search("two")
    apply, saves = memory._writer.commit, ["two and more\n", "gone\n"]

    async def interrupted(*changes: Any, kind: str) -> str:
        if saves:
            file.write_text(f"zero\n\none\n\n{saves.pop(0)}", "utf-8")
        return await apply(*changes, kind=kind)

    monkeypatch.setattr(memory._writer, "commit", interrupted)
    with pytest.raises(FileChangedError):
        await memory.edit("TWO", chunk=result.chunk)
    assert file.read_text("utf-8").startswith("zero\n\none\n\n")
    assert "TWO" not in file.read_text("utf-8")
    saves[:] = ["two\n"]
    await memory.remember(FACT, file="a.md")
    assert file.read_text("utf-8") == f"zero\n\none\n\ntwo\n\n- {FACT}\n"


# --- move ----------------------------------------------------------------------------------------------------------


async def test_lines_are_moved_to_the_end_of_another_file(memory, workspace, write, tmp_path):
    one = write("memory/one.md", "# One\n\n- alpha\n- beta\n  [tags: b]\n- gamma\n")
    two = write("memory/two.md", "# Two\n\n- delta\n")
    (result,) = await memory.search("beta")
    note = await memory.move("two.md", chunk=result.chunk)
    assert one.read_text("utf-8") == "# One\n\n- alpha\n- gamma\n"
    assert two.read_text("utf-8") == "# Two\n\n- delta\n- beta\n  [tags: b]\n"
    assert (note.path, note.start_line, note.end_line) == ("memory/two.md", 4, 5)
    assert [(found.path, found.chunk) for found in await memory.search("beta")] == [("memory/two.md", note.chunk)]
    delta, beta = [entry.id for entry in await memory.entries()][2:]
    await memory.move("memory/new/three.md", path="memory/two.md", start=1, end=5, all=True)
    assert not two.exists()
    text = f"# Two\n\n- delta\n  [id: {delta}]\n- beta\n  [tags: b; id: {beta}]\n"
    assert (workspace / "memory/new/three.md").read_text("utf-8") == text


async def test_a_file_is_moved_with_its_bytes_and_permissions(memory, workspace):
    old, new = workspace / "memory/old.md", workspace / "memory/deep/new.md"
    data = b"\xef\xbb\xbf# Old\r\n\r\nalpha\nmixed\r\n"
    old.write_bytes(data)
    old.chmod(0o600)
    await memory.index()
    chunks = select(workspace, "SELECT id FROM chunks ORDER BY id")
    note = await memory.move("deep/new.md", path="memory/old.md")
    assert (note.path, old.exists(), new.read_bytes()) == ("memory/deep/new.md", False, data)
    if os.name != "nt":
        assert new.stat().st_mode & 0o777 == 0o600
    assert select(workspace, "SELECT id FROM chunks ORDER BY id") == chunks
    assert [result.path for result in await memory.search("alpha")] == ["memory/deep/new.md"]


async def test_a_note_on_a_moved_file_has_all_of_its_lines(notebook, workspace):
    (workspace / "memory/a.md").write_text("# A\n\none\n\ntwo\n", "utf-8")
    note = await notebook.move("b.md", path="memory/a.md")
    assert (note.start_line, note.end_line) == (1, 5)


async def test_an_existing_file_is_not_replaced_by_a_move(memory, workspace, write):
    one, two = write("memory/one.md", "alpha\n"), write("memory/two.md", "beta\n")
    for to in ("two.md", "one.md"):
        with pytest.raises(QueryError):
            await memory.move(to, path="memory/one.md")
    with pytest.raises(QueryError):
        await memory.move("one.md", path="memory/one.md", start=1)
    with pytest.raises(KipuError):
        await memory.move("../three.md", path="memory/one.md")
    assert (one.read_text("utf-8"), two.read_text("utf-8")) == ("alpha\n", "beta\n")


async def test_an_inner_item_that_is_moved_becomes_an_item_of_its_own(notebook, workspace):
    (workspace / "memory/a.md").write_text("- zoo\n  - zebra\n    with stripes\n", "utf-8")
    (workspace / "memory/b.md").write_text("- old\n  [superseded_by: x; valid_until: 2026-01-01]\n", "utf-8")
    note = await notebook.move("b.md", path="memory/a.md", start=2, end=3)
    assert (workspace / "memory/b.md").read_text("utf-8") == (
        "- old\n  [superseded_by: x; valid_until: 2026-01-01]\n- zebra\n  with stripes\n"
    )
    assert (note.start_line, note.end_line) == (3, 4)
    (old,) = [result for result in await notebook.search("old") if "- old" in result.text]
    assert old.outdated


@LINKS
@pytest.mark.parametrize("call", [Memory.forget, partial(Memory.move, to="b.md")], ids=["forget", "move"])
async def test_the_target_of_a_symlink_is_neither_moved_nor_removed(workspace, call):
    (workspace / "outside.md").write_text("alpha\n", "utf-8")
    (workspace / "memory/s.md").symlink_to("../outside.md")
    (workspace / "memory/2020-01-01.md").symlink_to("../outside.md")
    async with Memory(configured(workspace)) as memory:
        with pytest.raises(MemoryFileError, match="is reached by a symbolic link"):
            await memory.move("x.md", path="memory/s.md")
        assert await memory.compact() is None
        await call(memory, path="memory/s.md", start=1)
    assert (workspace / "outside.md").read_bytes() == b""
    assert (workspace / "memory/s.md").is_symlink()


async def test_the_index_matches_the_files_after_every_kind_of_change(workspace, write, tmp_path):
    write("memory/a.md", "# A\n\nalpha\n\nbeta\n\ngamma\n")
    async with Memory(with_entries(workspace, chunker=ParagraphChunker())) as memory:
        await memory.remember("something", source="team")
        await memory.edit("BETA\n\nmore", path="memory/a.md", start=5)
        await memory.move("b.md", path="memory/a.md", start=3)
        await memory.forget(path="memory/a.md", start=1, end=4)
        await memory.move("team/c.md", path="memory/b.md")
    assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")


@pytest.mark.parametrize(("start", "end"), [(1, 1), (3, 3), (1, 2), (2, 3), (3, 5)])
@pytest.mark.parametrize("fence", ["---", "+++"])
async def test_a_change_that_takes_one_fence_of_front_matter_is_refused(memory, write, fence, start, end):
    value = "tags: [a]" if fence == "---" else 'tags = ["a"]'
    file = write("memory/a.md", f"{fence}\n{value}\n{fence}\n\n- one\n- two\n")
    before = file.read_bytes()
    for call in (memory.edit, memory.forget, memory.move):
        new = {memory.edit: ["x"], memory.move: ["memory/b.md"]}.get(call, [])
        with pytest.raises(QueryError, match=r"around the front matter .*: memory/a\.md:1-3\."):
            await call(*new, path="memory/a.md", start=start, end=end, all=True)
    assert file.read_bytes() == before


async def test_front_matter_is_edited_within_its_fences_or_as_a_whole(memory, write):
    file = write("memory/a.md", "---\ntags: [a]\n---\n\n- one\n")
    await memory.edit("tags: [b]\nstatus: done", path="memory/a.md", start=2)
    assert len(await memory.entries(tag="b", where={"status": "done"})) == 1
    await memory.edit("---\ntags: [c]\n---", path="memory/a.md", start=1, end=4)
    assert file.read_text("utf-8") == "---\ntags: [c]\n---\n\n- one\n"
