"""Lines and chunks are named clearly, say what was expected, and are in the scope."""

from __future__ import annotations

from functools import partial

import pytest

from kipu.errors import (
    FileChangedError,
    KipuError,
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


async def test_a_file_without_lines_is_not_taken_for_a_chunk(notebook, workspace):
    (workspace / "memory/a.md").write_text("- one\n", "utf-8")
    for name in ("memory/a.md", "memory/a.md:"):
        with pytest.raises(QueryError, match=r"Name lines of memory/a\.md, such as"):
            await notebook.remember("new", supersedes=name)


async def test_lines_that_say_something_unexpected_are_not_changed(notebook, workspace):
    file = workspace / "memory/a.md"
    file.write_text("- new on top\n- zebra\n- lion\n", "utf-8")
    for change in (
        notebook.edit("- lion", path="memory/a.md", start=1, expected="- zebra"),
        notebook.move("b.md", path="memory/a.md", start=1, expected="- zebra"),
        notebook.forget(path="memory/a.md", start=1, expected="- zebra"),
    ):
        with pytest.raises(FileChangedError, match="does not say in lines 1 to 1 what was expected"):
            await change
    assert file.read_text("utf-8") == "- new on top\n- zebra\n- lion\n"
    await notebook.edit(
        "- two lions", path="memory/a.md", start=3, expected=await notebook.read("memory/a.md", 3) + "\r\n"
    )
    assert (await notebook.forget(path="memory/a.md", start=2, expected="- zebra")).complete
    with pytest.raises(QueryError, match="expected must be a text"):
        await notebook.forget(path="memory/a.md", start=1, expected=1)
    assert file.read_text("utf-8") == "- new on top\n- two lions\n"
