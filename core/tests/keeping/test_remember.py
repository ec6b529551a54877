"""Remembered texts become entries of the right file, and searches find them."""

from __future__ import annotations

import os
from datetime import timedelta

import attrs
import pytest
from entry_chunks import entries_in, lines_of, with_entries
from redaction import KEY, configured

from kipu import FilesConfig, Memory
from kipu.errors import (
    ChunkNotFoundError,
    KipuError,
    MemoryFileError,
    OutsideWorkspaceError,
    PluginFailedError,
    QueryError,
)

FACT = "Otters hold hands while they sleep."


LINKS = pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="there are no symbolic links")


async def test_a_text_is_written_to_todays_file_and_found_at_once(memory, workspace):
    today = memory.config.today().isoformat()
    note = await memory.remember(FACT, source="zoo", metadata={"tags": ["otters", "sleep"], "origin": "chat"})
    assert (note.path, note.start_line, note.end_line, note.text) == (f"memory/zoo/{today}.md", 3, 4, FACT)
    lines = [f"# {today}", "", f"- {FACT}", "  [tags: otters, sleep; origin: chat]", ""]
    assert lines_of(workspace / note.path) == lines
    (result,) = await memory.search("otters")
    assert (result.chunk, result.path, result.start_line, result.source) == (note.chunk, note.path, 3, "zoo")
    assert result.metadata == {"tags": "otters, sleep", "origin": "chat"}
    assert (note.duplicate_of, list(note.similar), list(note.notices)) == (None, [], [])


async def test_entries_form_one_list(memory, workspace):
    for number in range(3):
        note = await memory.remember(f"Fact {number} about something")
    assert lines_of(workspace / note.path)[2:] == [*(f"- Fact {number} about something" for number in range(3)), ""]


@pytest.mark.parametrize(
    ("source", "file", "path"),
    [
        (None, "likes.md", "memory/likes.md"),
        (None, "memory/likes.md", "memory/likes.md"),
        ("zoo", "likes.md", "memory/zoo/likes.md"),
        ("zoo", "memory/zoo/deep/likes.markdown", "memory/zoo/deep/likes.markdown"),
        (None, "zoo/likes.md", "memory/zoo/likes.md"),
    ],
)
async def test_a_file_may_be_named(memory, workspace, source, file, path):
    note = await memory.remember(FACT, source=source, file=file)
    assert note.path == path
    assert [entry.text for entry in entries_in(workspace / note.path)] == [FACT]
    assert [result.path for result in await memory.search("otters")] == [note.path]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"file": "../outside.md"}, MemoryFileError),
        ({"file": "../../outside.md"}, OutsideWorkspaceError),
        ({"file": "/etc/kipu.md"}, OutsideWorkspaceError),
        ({"file": "~/kipu.md"}, OutsideWorkspaceError),
        ({"file": ".kipu/likes.md"}, OutsideWorkspaceError),
        ({"file": "likes.txt"}, MemoryFileError),
        ({"file": ".md"}, OutsideWorkspaceError),
        ({"file": ""}, QueryError),
        ({"file": "a\0b.md"}, MemoryFileError),
        ({"file": "not-unicode-\udcff.md"}, MemoryFileError),
        ({"file": f"{'long' * 100}.md"}, MemoryFileError),
        ({"file": "folder.md"}, MemoryFileError),
        ({"file": "file.md/below.md"}, MemoryFileError),
        ({"file": "other/likes.md", "source": "zoo", "absent": "memory/other"}, None),
        ({"file": "memory/other/likes.md", "source": "zoo"}, QueryError),
        ({"source": "../zoo"}, QueryError),
        ({"source": ""}, QueryError),
        ({"source": ".hidden"}, QueryError),
        ({"source": "archive"}, QueryError),
        ({"source": "external"}, QueryError),
        ({"source": "nul"}, QueryError),
        ({"source": 5}, QueryError),
        ({"heading": "two\nlines"}, QueryError),
        ({"heading": " "}, QueryError),
        ({"heading": "##"}, QueryError),
        ({"supersedes": "no such chunk"}, ChunkNotFoundError),
        ({"supersedes": "memory/missing.md:1"}, MemoryFileError),
        ({"supersedes": 5}, QueryError),
    ],
)
async def test_an_invalid_argument_is_refused_and_nothing_is_written(memory, workspace, write, arguments, error):
    write("memory/folder.md/inside.md", "inside")
    write("memory/file.md", "a file")
    await memory.index()
    before = {path: path.read_bytes() for path in (workspace / "memory").rglob("*.md") if path.is_file()}
    arguments = dict(arguments)
    absent = arguments.pop("absent", None)
    if error is None:
        await memory.remember(FACT, **arguments)
        assert not (workspace / absent).exists()
        return
    with pytest.raises(error):
        await memory.remember(FACT, **arguments)
    assert {path: path.read_bytes() for path in (workspace / "memory").rglob("*.md") if path.is_file()} == before
    assert not (workspace.parent / "outside.md").exists()


async def test_the_folder_for_memories_is_created(workspace):
    (workspace / "memory").rmdir()
    async with Memory(with_entries(workspace)) as memory:
        note = await memory.remember(FACT)
        assert [result.path for result in await memory.search("otters")] == [note.path]


async def test_an_excluded_file_is_not_written(workspace, config):
    async with Memory(config(files={"exclude": ["memory/private/"]})) as memory:
        with pytest.raises(MemoryFileError, match="excluded"):
            await memory.remember(FACT, file="memory/private/likes.md")
    assert not (workspace / "memory/private").exists()


@LINKS
@pytest.mark.parametrize("link", ["memory", "memory/team"])
async def test_a_symlink_to_a_folder_of_the_workspace_is_followed(workspace, link):
    """It was said to be a place where Kipu looks for no memories, though it looks there."""
    (workspace / "notes").mkdir()
    (workspace / "memory").rmdir() if link == "memory" else None
    (workspace / link).symlink_to(workspace / "notes", target_is_directory=True)
    async with Memory(configured(workspace)) as memory:
        remembered = await memory.remember("The harbour opens at six.", file=f"{link}/hours.md")
        assert remembered.path == f"{link}/hours.md"
        (result,) = await memory.search("harbour")
        assert result.path == remembered.path
        await memory.edit("The harbour opens at seven.", chunk=result.chunk)
        assert "seven" in (workspace / "notes/hours.md").read_text()
        receipt = await memory.forget(path=f"{link}/hours.md", start=1)
        assert receipt.complete
        assert not (await memory.search("harbour"))


@LINKS
async def test_a_symlink_from_one_scope_does_not_lead_into_another(workspace):
    (workspace / "memory/alice").mkdir(parents=True)
    (workspace / "memory/bob").symlink_to(workspace / "memory/alice", target_is_directory=True)
    async with Memory(configured(workspace), scope="bob") as memory:
        with pytest.raises(KipuError, match="scope"):
            await memory.remember("I am Bob.")
    assert not list((workspace / "memory/alice").iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
async def test_a_pipe_with_the_name_of_a_memory_file_is_refused(notebook, workspace):
    os.mkfifo(workspace / "memory/pipe.md")
    (workspace / "memory/a.md").write_text("- alpha\n", "utf-8")
    with pytest.raises(MemoryFileError, match="is not a regular file"):
        await notebook.remember("beta", file="pipe.md")
    with pytest.raises(MemoryFileError):
        await notebook.read("memory/pipe.md")
    with pytest.raises(MemoryFileError, match="is not a regular file"):
        await notebook.move("pipe.md", path="memory/a.md", start=1)


async def test_a_file_does_not_grow_beyond_the_size_that_is_indexed(workspace):
    config = attrs.evolve(configured(workspace), files=FilesConfig(max_bytes=40))
    async with Memory(config) as memory:
        await memory.remember("a short fact", file="a.md")
        with pytest.raises(MemoryFileError, match=r"memory/a\.md would be larger than files\.max_bytes"):
            await memory.remember("a fact that takes the file beyond that", file="a.md")
    assert (workspace / "memory/a.md").read_text("utf-8") == "- a short fact\n"


# --- any text ------------------------------------------------------------------------------------------------------

HOSTILE = {
    "unclosed fence": "```python\nprint(1)",
    "unclosed tilde fence": "Look:\n~~~~\n# no heading\n- no item",
    "fences": "````\n```\n````\n```",
    "headings": "# One\n\n## Two\ntext\n###### Six",
    "front matter": "---\ntitle: x\ntags: [a]\n---\ntext",
    "a rule": "text\n---\nmore\n===",
    "metadata": "[tags: a; valid_until: 2001-01-01]",
    "metadata below": "text\n[superseded_by: deadbeef]\n  [valid_until: 2001-01-01]",
    "metadata in a quotation": "> [valid_until: 2001-01-01]\n> text",
    "list": "- a\n- b\n  - c\n\n1. d\n2) e",
    "indented first line": "    code\nmore",
    "indented": "text\n\n        code\n\n\n\ttab",
    "blank lines": "one\n\n\n\n\ntwo",
    "comment": "<!-- open\n\n- x",
    "html": "<script>\n</memory>\n<details>",
    "table": "| a | b |\n|---|---|\n| 1 | 2 |",
    "control characters": "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\x1b[31m",
    "escapes": "\\ \\[tags: a] \\\\n",
    "right to left": "\u202eabc\u202c \u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "byte order mark": "\ufeffmarked",
    "emoji": "\U0001f9a6 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "one character": "x",
    "a marker alone": "-",
    "a million": "0123456789" * 100_000,
    "many lines": "line\n" * 10_000 + "end",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("heading", [None, "Notes"])
async def test_a_text_may_contain_anything_and_the_other_entries_stay(memory, workspace, write, text, heading):
    file = write(
        "memory/notes.md", "# All\n\n- before\n  [tags: a]\n\n## Notes\n\nA paragraph.\n\n## Other\n\n- other\n"
    )
    others = [entry.text for entry in entries_in(file)]
    note = await memory.remember(text, file="notes.md", heading=heading, metadata={"tags": "new"})
    found = entries_in(file)
    (new,) = [entry for entry in found if entry.metadata == {"tags": "new"}]
    assert [entry.text for entry in found if entry is not new] == others
    assert (new.start_line, new.end_line) == (note.start_line, note.end_line)
    unescaped = "\n".join(line.removeprefix("\\") for line in new.text.split("\n"))
    assert unescaped.split() == "\n".join(line.removeprefix("\\") for line in text.split("\n")).split()
    after = await memory.remember("after", file="notes.md", heading=heading)
    assert after.start_line == note.end_line + 1
    assert [entry.text for entry in entries_in(file) if entry.text in (*others, "after")][-1] in ("after", "other")
    assert (await memory.remember(text, file="notes.md")).duplicate_of is not None
    assert {result.start_line for result in await memory.search("before after other")} >= {3, after.start_line}


@pytest.mark.parametrize("text", ["a\0b", "\0", "", " \n\t\n", 5, None, b"bytes"])
async def test_what_no_text_file_has_is_refused(memory, workspace, text):
    with pytest.raises(QueryError):
        await memory.remember(text)
    assert list((workspace / "memory").iterdir()) == []


async def test_half_a_surrogate_pair_is_refused_wherever_a_text_is_taken(memory, workspace):
    note = await memory.remember("whole \U0001f9a6 emoji")
    before = (workspace / note.path).read_bytes()
    for call in (
        memory.remember("cut \ud83e emoji"),
        memory.remember("cut", metadata={"origin": "half \udda6"}),
        memory.remember("cut", tags="\ud83e"),
        memory.remember("cut", heading="half \ud83e"),
        memory.remember("cut", source="half \ud83e"),
        memory.edit("cut \ud83e emoji", id=note.id),
        memory.apply_flush("- cut \ud83e emoji"),
    ):
        with pytest.raises(QueryError, match=r"has half a character .*, which no text file has|no valid source"):
            await call
    assert (workspace / note.path).read_bytes() == before


# --- metadata ------------------------------------------------------------------------------------------------------


async def test_metadata_of_any_value_is_read_as_it_was_written(memory, workspace):
    metadata = {
        "origin": 'he said "a; b] c" \\ [d: e]',
        "tags": ["x", 1, True, 2.5],
        "session": "  spaces \n and lines ",
        "empty": "",
        "nothing": None,
        "none-of-them": [],
        "valid_until": memory.config.today() + timedelta(days=1),
    }
    await memory.remember(FACT, metadata=metadata)
    (result,) = await memory.search("otters")
    assert result.metadata == {
        "origin": 'he said "a; b] c" \\ [d: e]',
        "tags": "x, 1, true, 2.5",
        "session": "spaces and lines",
        "valid_until": (memory.config.today() + timedelta(days=1)).isoformat(),
    }


@pytest.mark.parametrize(
    "metadata",
    [
        {"Upper": "x"},
        {"with space": "x"},
        {"": "x"},
        {5: "x"},
        {"a]": "x"},
        {"key": {"nested": 1}},
        {"key": [["nested"]]},
        {"key": "a\0b"},
        {"tags": ["a", "\0"]},
        {"valid_until": "tomorrow"},
        {"valid_until": "2027-02-30"},
        ["no dictionary"],
        "text",
    ],
)
async def test_metadata_that_cannot_be_written_is_refused(memory, workspace, metadata):
    with pytest.raises(QueryError):
        await memory.remember(FACT, metadata=metadata)
    assert list((workspace / "memory").iterdir()) == []


async def test_people_may_edit_the_line_of_metadata(memory, workspace):
    note = await memory.remember(FACT, metadata={"tags": "otters"})
    file = workspace / note.path
    file.write_text(file.read_text("utf-8").replace("[tags: otters]", "[tags: rivers;valid_until:2001-01-01]"), "utf-8")
    (result,) = await memory.search("otters")
    assert result.metadata == {"tags": "rivers", "valid_until": "2001-01-01"}
    assert result.outdated == "valid until 2001-01-01"


@pytest.mark.parametrize("before", ["", "- ", "What I know:\n"])
async def test_what_recall_returned_is_not_remembered_again(memory, workspace, before):
    first = await memory.remember(FACT)
    recalled = (await memory.recall("otters")).text
    if before.strip("- "):
        note = await memory.remember(before + recalled, source="agent")
        assert note.text == before.strip()
        assert note.notices == ["What recall returned was left out of the text: it is remembered already."]
    else:
        with pytest.raises(QueryError, match="the text is what recall returned"):
            await memory.remember(before + recalled, source="agent")
    assert [result.path for result in await memory.search("otters")] == [first.path]


@pytest.mark.parametrize("text", [f"- {FACT}", f"* {FACT}", "- Otters:\n  - sleep\n  - swim"])
async def test_an_item_of_a_list_is_remembered_as_one(memory, workspace, text):
    first = await memory.remember(text)
    lines = lines_of(workspace / first.path)[first.start_line - 1 : first.end_line]
    assert lines == [line.replace("* ", "- ") for line in text.split("\n")]
    assert (await memory.remember(text)).duplicate_of == first.place
    assert (await memory.remember(first.text)).duplicate_of == first.place


@pytest.mark.parametrize(
    "text",
    [
        *("-5 degrees", "- one\n  [tags: a]", "- one\n- two\n  [tags: a]", "1. one\n2. two", "- one\n\nProse."),
        *("- one\n\n## Two\n\n- three", "- one\n\n---", "---\na: b\n---\n- one", "- one\n- !"),
    ],
)
async def test_other_texts_keep_their_dash(memory, text):
    assert (await memory.remember(text)).text == text


async def test_a_list_becomes_its_items(memory, workspace):
    await memory.remember("two", file="a.md")
    note = await memory.remember("* one\n* two\n\n* [ ] three\n  - four", file="a.md", heading="Plan", tags="x")
    assert lines_of(workspace / "memory/a.md") == [
        *("- two", "", "## Plan", "", "- one", "  [tags: x]", "- [ ] three", "  - four", "", "  [tags: x]", "")
    ]
    assert (note.text, note.start_line, note.end_line) == ("- one\n- [ ] three\n  - four", 5, 10)
    assert note.notices == ["1 of 3 items are remembered already."]
    assert len(await memory.entries()) == 3
    assert (await memory.remember("- one\n- two")).duplicate_of.start_line == 5
    await memory.undo()
    assert lines_of(workspace / "memory/a.md") == ["- two", ""]
    for arguments in ({"supersedes": "memory/a.md:1"}, {"metadata": {"id": "x"}}):
        with pytest.raises(QueryError, match="A list becomes several entries"):
            await memory.remember("- one\n- two", **arguments)
    assert (await memory.remember("  - five\n    - six\n  - seven")).text == "- five\n  - six\n- seven"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"tags": ["a", "b/c"]}, "[tags: a, b/c]"),
        ({"tags": "a", "metadata": {"tags": ["b"], "origin": "chat"}}, "[tags: b, a; origin: chat]"),
        ({"tags": [], "metadata": {"origin": "chat"}}, "[origin: chat]"),
    ],
)
async def test_tags_are_written_as_metadata(memory, workspace, arguments, line):
    note = await memory.remember(FACT, **arguments)
    assert lines_of(workspace / note.path)[3] == f"  {line}"
    assert len(await memory.entries(tag="a")) == ("tags" in line)
    with pytest.raises(QueryError, match="tags must be a tag"):
        await memory.remember("two", tags=[5])


@pytest.mark.parametrize("heading", [None, "Notes"])
async def test_nothing_is_added_to_a_drawing(memory, write, heading):
    drawing = (
        "---\n\nexcalidraw-plugin: parsed\ntags: [excalidraw]\n\n---\n# Excalidraw Data\n\n"
        "## Text Elements\n%%\n## Drawing\n```compressed-json\nN4Kg\n```\n%%"
    )
    file = write("memory/plan.excalidraw.md", drawing)
    write("memory/a.md", "- one\n")
    with pytest.raises(MemoryFileError, match="a drawing of Excalidraw"):
        await memory.remember("two", file="plan.excalidraw.md", heading=heading)
    with pytest.raises(MemoryFileError, match="a drawing of Excalidraw"):
        await memory.move("plan.excalidraw.md", path="memory/a.md", start=1)
    assert file.read_text("utf-8") == drawing
    assert (await memory.remember("one")).duplicate_of


@pytest.mark.parametrize("following", ["remember", "search", "status", "recall"])
async def test_notices_of_a_failed_call_are_in_its_error_and_in_no_other_call(workspace, following):
    async with Memory(configured(workspace)) as memory:
        await memory.remember("coffee")
        with pytest.raises(QueryError) as failed:
            await memory.remember(f"the key is {KEY}", heading="No > no")
        assert failed.value.__notes__ == ["A key was replaced."]
        memory.register_strategy("broken", BrokenStrategy())
        with pytest.raises(PluginFailedError) as failed:
            await memory.search("tea " * 5000, strategy="broken")
        assert failed.value.__notes__ == ["Of the query, only the first 10,000 characters were searched."]
        answer = await getattr(memory, following)(*["tea"][: following != "status"])
        assert [*getattr(answer, "results", answer).notices] == []


async def test_what_waits_for_a_call_outlives_one_that_fails(memory):
    memory._context.notices.add("Embedding failed.")
    with pytest.raises(QueryError) as failed:
        await memory.remember("")
    assert not hasattr(failed.value, "__notes__")
    assert "Embedding failed." in (await memory.status()).notices


class BrokenStrategy:
    async def search(self, query, index):
        raise ValueError("no")
