"""Lines and chunks are named clearly, say what was expected, and are in the scope."""

from __future__ import annotations

import os
import sys
from functools import partial

import pytest
from entry_chunks import without_id

from kipu.errors import (
    FileChangedError,
    KipuError,
    MemoryFileError,
    QueryError,
)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"chunk": "x", "path": "memory/a.md"},
        {"chunk": "x", "start": 1},
        {"path": "memory/a.md", "start": 2, "end": 9},
        {"path": "memory/none.md"},
        {"path": "../a.md"},
        {"chunk": 5},
        {"chunk": "missing"},
    ],
)
async def test_an_ambiguous_target_is_not_changed(memory, workspace, write, arguments):
    file = write("memory/a.md", "one\n\ntwo\n")
    for work in (partial(memory.edit, "new"), partial(memory.move, "b.md"), memory.forget):
        with pytest.raises(KipuError):
            await work(**arguments)
    assert file.read_text("utf-8") == "one\n\ntwo\n"
    assert [path.name for path in (workspace / "memory").iterdir()] == ["a.md"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
async def test_of_a_file_whose_name_is_not_unicode_only_the_whole_is_moved(memory, workspace):
    path = os.fsdecode(b"memory/a\xff.md")
    (workspace / path).write_text("- one\n- two\n", "utf-8")
    for work in (
        memory.edit("- new", path=path, start=1),
        memory.move("b.md", path=path, start=1),
        memory.forget(path=path, start=1),
        memory.read(path),
    ):
        with pytest.raises(MemoryFileError, match=r"'memory/a\\udcff\.md' is not a valid path .* not valid UTF-8"):
            await work
    with pytest.raises(QueryError, match=r"such as memory/a\.md:3-4 in valid Unicode, not 'memory/a\\udcff\.md:1'"):
        await memory.remember("new", supersedes=f"{path}:1")
    assert (workspace / path).read_text("utf-8") == "- one\n- two\n"
    assert not (workspace / ".kipu/forgetting").exists()
    assert [file.name for file in (workspace / "memory").iterdir()] == [os.path.basename(path)]
    await memory.move("b.md", path=path)
    assert {file.name: file.read_text("utf-8") for file in (workspace / "memory").iterdir()} == {
        "b.md": "- one\n- two\n"
    }


async def test_a_file_without_lines_is_not_taken_for_a_chunk(notebook, workspace):
    (workspace / "memory/a.md").write_text("- one\n", "utf-8")
    for name in ("memory/a.md", "memory/a.md:"):
        with pytest.raises(QueryError, match=r"Name lines of memory/a\.md, such as"):
            await notebook.remember("new", supersedes=name)


@pytest.mark.parametrize("text", ["Ada likes tea.", "Ada likes:\n- tea\n- cake", "Ada likes\ntea.", "```\ntea\n```"])
async def test_what_is_expected_may_be_the_text_that_lists_and_results_give(notebook, workspace, text):
    note = await notebook.remember(text, metadata={"tags": "food"})
    (entry,) = await notebook.entries()
    in_file = await notebook.read(id=note.id)
    for expected in (entry.text, f"- {entry.text}", in_file.rpartition("\n")[0], in_file):
        assert (await notebook.edit(in_file, id=note.id, expected=expected)).replaced == ""
    for expected in ("", "tea", entry.text + " More.", f"- {entry.text}\n  [tags: drinks]"):
        with pytest.raises(FileChangedError, match="does not say what was expected"):
            await notebook.edit("Bob likes cake.", id=note.id, expected=expected)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("# Theirs\n- fact", "# Mine\n- fact"),
        ("# Theirs\n- fact", "- fact"),
        ("---\n\n- fact", "fact"),
        ("* fact\n\n<!-- theirs -->\n* other", "* fact\n* other"),
    ],
)
async def test_what_is_expected_has_the_lines_around_entries_too(notebook, workspace, before, expected):
    (workspace / "memory/a.md").write_text(before, "utf-8")
    lines = before.count("\n") + 1
    with pytest.raises(FileChangedError, match="does not say what was expected"):
        await notebook.edit("- new", path="memory/a.md", start=1, end=lines, expected=expected, all=True)
    assert (workspace / "memory/a.md").read_text("utf-8") == before


async def test_lines_that_say_something_unexpected_are_not_changed(notebook, workspace):
    file = workspace / "memory/a.md"
    file.write_text("- new on top\n- zebra\n- lion\n", "utf-8")
    for change in (
        notebook.edit("- lion", path="memory/a.md", start=1, expected="- zebra"),
        notebook.move("b.md", path="memory/a.md", start=1, expected="- zebra"),
        notebook.forget(path="memory/a.md", start=1, expected="- zebra"),
    ):
        with pytest.raises(FileChangedError, match=r"memory/a\.md:1 does not say what was expected"):
            await change
    assert file.read_text("utf-8") == "- new on top\n- zebra\n- lion\n"
    lion = await notebook.read("memory/a.md", 3) + "\r\n"
    note = await notebook.edit("- two lions", path="memory/a.md", start=3, expected=lion)
    assert (await notebook.forget(path="memory/a.md", start=2, expected="- zebra")).complete
    with pytest.raises(QueryError, match="expected must be a text"):
        await notebook.forget(path="memory/a.md", start=1, expected=1)
    assert without_id(file, note.id) == "- new on top\n- two lions\n"
