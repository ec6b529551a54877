"""What is remembered, changed, moved and forgotten: what the files say then, and what a search finds."""

from __future__ import annotations

import asyncio
import os
import unicodedata
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from rows import rows, rows_made_afresh, select, with_doubles

from kipu import Chunk, IndexConfig, Memory, SearchConfig
from kipu.config import WritingConfig
from kipu.errors import (
    ChunkNotFoundError,
    FileChangedError,
    KipuError,
    MemoryFileError,
    OutsideWorkspaceError,
    PluginFailedError,
    QueryError,
)
from kipu.markdown import entries
from kipu.testing import CombinedStrategy, HashingEmbedder, ParagraphChunker, VectorStrategy, WordStrategy
from kipu.types import Filtered

if TYPE_CHECKING:
    from pathlib import Path

    from kipu import Document, MemoryConfig
    from kipu.markdown import Entry

FACT = "Otters hold hands while they sleep."


@attrs.frozen
class Entries:
    """Each entry is a chunk, with its metadata; one longer than ``longest`` is cut there, also in a word."""

    longest: int = 1_000_000_000

    def chunk(self, document: Document) -> list[Chunk]:
        lines = document.text.split("\n")
        chunks = []
        for entry in entries(lines):
            text = "\n".join(lines[entry.start_line - 1 : entry.end_line])
            for start in range(0, len(text), self.longest):
                part = text[start : start + self.longest]
                chunks.append(Chunk(part, entry.start_line, entry.end_line, metadata=entry.metadata))
        return chunks


def keeping(workspace: Path, *, chunker: Any = None, filters: Any = (), **search: Any) -> MemoryConfig:
    """A configuration with doubles for components, under which each entry is a chunk."""
    return attrs.evolve(
        with_doubles(workspace),
        index=IndexConfig(chunker=chunker or Entries()),
        search=SearchConfig(**({"strategy": WordStrategy(), "postprocessors": []} | search)),
        writing=WritingConfig(filters=list(filters)),
    )


@pytest.fixture
async def memory(workspace: Path) -> Any:
    async with Memory(keeping(workspace)) as memory:
        yield memory


def said(file: Path) -> list[str]:
    return file.read_text("utf-8").split("\n")


def entries_in(file: Path) -> list[Entry]:
    return entries(said(file))


def holding(workspace: Path, word: str) -> list[str]:
    """The files that have a word anywhere in their bytes, in small or capital letters: those of Kipu, and memories."""
    files = (path for path in workspace.rglob("*") if path.is_file())
    return sorted(path.name for path in files if word.encode().lower() in path.read_bytes().lower())


# --- where it is written -------------------------------------------------------------------------------------------


async def test_what_is_remembered_stands_in_the_file_of_today_and_is_found_at_once(memory, workspace):
    today = memory.config.today().isoformat()
    note = await memory.remember(FACT, source="zoo", metadata={"tags": ["otters", "sleep"], "origin": "chat"})
    assert (note.path, note.start_line, note.end_line, note.text) == (f"memory/zoo/{today}.md", 3, 4, FACT)
    lines = [f"# {today}", "", f"- {FACT}", "  [tags: otters, sleep; origin: chat]", ""]
    assert said(workspace / note.path) == lines
    (result,) = await memory.search("otters")
    assert (result.chunk, result.path, result.start_line, result.source) == (note.chunk, note.path, 3, "zoo")
    assert result.metadata == {"tags": "otters, sleep", "origin": "chat"}
    assert (note.duplicate_of, list(note.similar), list(note.notices)) == (None, [], [])


async def test_entries_follow_each_other_as_one_list(memory, workspace):
    for number in range(3):
        note = await memory.remember(f"Fact {number} about something")
    assert said(workspace / note.path)[2:] == [*(f"- Fact {number} about something" for number in range(3)), ""]


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
async def test_what_cannot_be_is_refused_and_nothing_is_written(memory, workspace, write, arguments, error):
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


async def test_the_folder_for_memories_is_made_where_there_is_none(workspace):
    (workspace / "memory").rmdir()
    async with Memory(keeping(workspace)) as memory:
        note = await memory.remember(FACT)
        assert [result.path for result in await memory.search("otters")] == [note.path]


async def test_an_excluded_file_is_not_written(workspace, config):
    async with Memory(config(files={"exclude": ["memory/private/"]})) as memory:
        with pytest.raises(MemoryFileError, match="excluded"):
            await memory.remember(FACT, file="memory/private/likes.md")
    assert not (workspace / "memory/private").exists()


# --- below a heading -----------------------------------------------------------------------------------------------


async def test_a_section_takes_what_belongs_to_it_and_the_others_stay(memory, workspace, write):
    file = write("memory/likes.md", "# Likes\n\n## Tea\n\n- Green tea\n\n### Cold\n\n- Iced tea\n## Pets\n\nDogs.\n")
    note = await memory.remember("Black tea", file="likes.md", heading="Tea")
    assert note.start_line == 6
    await memory.remember("A parrot", file="likes.md", heading="## Pets")
    await memory.remember("Chess", file="likes.md", heading="Games ##")
    note = await memory.remember("Go", file="likes.md", heading="Games ##")
    assert said(file) == [
        *("# Likes", "", "## Tea", "", "- Green tea", "- Black tea", "", "### Cold", "", "- Iced tea"),
        *("## Pets", "", "Dogs.", "", "- A parrot", "", "## Games", "", "- Chess", "- Go", ""),
    ]
    assert note.start_line == 20


async def test_a_heading_in_a_fence_or_in_an_entry_is_none(memory, workspace, write):
    file = write("memory/likes.md", "```\n# Tea\n```\n\n- # Tea\n  # Tea\n\n## Pets\n")
    await memory.remember("Green tea", file="likes.md", heading="Tea")
    assert said(file)[7:] == ["## Pets", "", "## Tea", "", "- Green tea", ""]


@pytest.mark.parametrize(
    "heading", ["C#", "#tag", "- item", "---", "Caf\u00e9 ~ \u6771\u4eac", "```", "[tags: a]", "Tea #"]
)
async def test_a_heading_is_found_again_whatever_its_title_is(memory, workspace, heading):
    await memory.remember("Green tea", file="likes.md", heading=heading)
    await memory.remember("Black tea", file="likes.md", heading=heading)
    assert said(workspace / "memory/likes.md")[1:] == ["", "- Green tea", "- Black tea", ""]


# --- what is there already -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "again",
    [
        "The caf\u00e9 in Z\u00fcrich opens at nine.",
        unicodedata.normalize("NFD", "The caf\u00e9 in Z\u00fcrich opens at nine."),
        "  The caf\u00e9\tin  Z\u00fcrich\nopens at\u00a0nine. \n",
        "The caf\u00e9 in Z\u00fcrich\r\n\r\nopens at nine.",
    ],
)
async def test_an_exact_duplicate_is_not_written_again(memory, workspace, again):
    first = await memory.remember("The caf\u00e9 in Z\u00fcrich opens at nine.", source="town", file="places.md")
    before = (workspace / first.path).read_bytes()
    second = await memory.remember(again, source="town", metadata={"tags": "cafe"})
    assert (workspace / first.path).read_bytes() == before
    assert (second.path, second.start_line, second.end_line) == (first.path, first.start_line, first.end_line)
    assert second.chunk == first.chunk
    assert str(second.duplicate_of) == f"{first.path}:1"
    assert not (workspace / f"memory/town/{memory.config.today()}.md").exists()


@pytest.mark.parametrize(
    "text", ["```\nopen", "# Heading\n\ntext", "[tags: a]", "a\n[tags: a]", "- a\n- b", "    code", "---\na: b\n---"]
)
async def test_a_duplicate_is_recognised_whatever_it_looks_like(memory, workspace, text):
    first = await memory.remember(text)
    second = await memory.remember(text)
    assert str(second.duplicate_of) == f"{first.path}:{first.start_line}" + (
        f"-{first.end_line}" if first.end_line > first.start_line else ""
    )
    assert len(entries_in(workspace / first.path)) == 1


async def test_what_a_person_wrote_is_a_duplicate_too(memory, write):
    write("memory/zoo.md", f"# Zoo\n\nOtters hold hands\nwhile they sleep.\n[origin: a book]\n\n* {FACT} Really.\n")
    note = await memory.remember(FACT)
    assert (note.path, str(note.duplicate_of)) == ("memory/zoo.md", "memory/zoo.md:3-5")
    note = await memory.remember(f"{FACT} Really.")
    assert str(note.duplicate_of) == "memory/zoo.md:7"


async def test_another_source_may_say_the_same(memory, workspace):
    notices = [await memory.remember(FACT, source=source) for source in ("one", "two", None)]
    assert [note.duplicate_of for note in notices] == [None] * 3
    assert len(await memory.search("otters")) == 3


async def test_letters_and_marks_make_a_difference(memory, workspace):
    texts = ["The limit is 10", "The limit is 10.", "the limit is 10", "The limit is \u2460\u24ea", "The limit is 1 0"]
    for text in texts:
        assert (await memory.remember(text, file="limits.md")).duplicate_of is None
    assert [entry.text for entry in entries_in(workspace / "memory/limits.md")] == texts


async def test_a_duplicate_is_recognised_where_the_chunker_cuts_its_words(workspace):
    async with Memory(keeping(workspace, chunker=Entries(longest=50))) as memory:
        text = f"The key is {'0123456789' * 20}."
        await memory.remember(text)
        assert (await memory.remember(text)).duplicate_of is not None


async def test_a_duplicate_is_recognised_below_a_fence_that_was_left_open(memory, write):
    write("memory/likes.md", "```\nsomebody forgot to close this\n")
    await memory.remember(FACT, file="likes.md")
    assert (await memory.remember(FACT, file="likes.md")).duplicate_of is not None


async def test_a_duplicate_is_recognised_that_somebody_wrote_meanwhile(memory, workspace):
    await memory.search("otters")
    async with Memory(keeping(workspace)) as another:
        first = await another.remember(FACT)
    assert (await memory.remember(FACT)).duplicate_of is not None
    (workspace / first.path).unlink()
    assert (await memory.remember(FACT)).duplicate_of is None


async def test_what_is_remembered_at_once_by_several_tasks_is_written_once(memory, workspace):
    notices = await asyncio.gather(*(memory.remember(FACT) for _ in range(8)))
    assert sum(note.duplicate_of is None for note in notices) == 1
    assert len(entries_in(workspace / notices[0].path)) == 1


async def test_near_duplicates_are_kept_and_reported(memory, workspace):
    first = await memory.remember("The staging database listens on port 5432 of the host alpha today.")
    second = await memory.remember("The staging database listens on port 5433 of the host alpha today.")
    assert second.duplicate_of is None
    assert [str(place) for place in second.similar] == [f"{first.path}:{first.start_line}"]
    assert 0.7 <= second.similar[0].similarity < 1
    assert len(entries_in(workspace / first.path)) == 2
    third = await memory.remember("Bananas are yellow.")
    assert list(third.similar) == []


async def test_near_duplicates_of_a_script_without_spaces_are_reported(memory):
    await memory.remember("\u6771\u4eac\u306e\u4e8b\u52d9\u6240\u306f\u4e09\u968e\u306b\u3042\u308a\u307e\u3059")
    note = await memory.remember("\u6771\u4eac\u306e\u4e8b\u52d9\u6240\u306f\u56db\u968e\u306b\u3042\u308a\u307e\u3059")
    assert len(note.similar) == 1


async def test_what_was_superseded_may_be_remembered_again(memory, workspace):
    first = await memory.remember("The cache is Redis.")
    second = await memory.remember("The cache is Valkey.", supersedes=first.chunk)
    third = await memory.remember("The cache is Redis.", supersedes=second.chunk)
    assert third.duplicate_of is None
    assert [(result.text.split("\n")[0], bool(result.outdated)) for result in await memory.search("cache")] == [
        ("- The cache is Redis.", False),
        ("- The cache is Valkey.", True),
        ("- The cache is Redis.", True),
    ]


async def test_what_was_valid_once_may_be_remembered_again(memory):
    await memory.remember("The office is closed.", metadata={"valid_until": "2001-01-01"})
    note = await memory.remember("The office is closed.")
    assert note.duplicate_of is None
    assert (await memory.remember("The office is closed.")).duplicate_of is not None


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
async def test_a_text_may_hold_anything_and_the_other_entries_stay(memory, workspace, write, text, heading):
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


async def test_half_a_surrogate_pair_does_not_harm_the_file(memory, workspace):
    note = await memory.remember("broken \ud83e emoji", metadata={"origin": "half \udda6"})
    assert "emoji" in (workspace / note.path).read_text("utf-8")
    note = await memory.edit("broken \ud83e again", path=note.path, start=note.start_line, end=note.end_line)
    assert said(workspace / note.path)[2] == f"- {note.text}"
    assert len(await memory.search("again")) == 1


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


# --- filters -----------------------------------------------------------------------------------------------------


class Shouting:
    def filter(self, text: str, path: str) -> Filtered:
        if "fail" in text:
            raise ValueError(text)
        return Filtered(text.upper(), [f"shouted for {path}"])


async def test_what_a_preparer_makes_of_a_text_is_what_is_written_compared_and_reported(workspace):
    async with Memory(keeping(workspace, filters=[Shouting()])) as memory:
        note = await memory.remember(FACT, file="likes.md", metadata={"origin": "chat"})
        assert said(workspace / note.path) == [f"- {FACT.upper()}", "  [origin: CHAT]", ""]
        assert (note.text, list(note.notices)) == (FACT.upper(), ["shouted for memory/likes.md"])
        assert (await memory.remember(FACT.title())).duplicate_of is not None
        note = await memory.edit("edited", path="memory/likes.md", start=1)
        assert (said(workspace / note.path)[0], note.text) == ("- EDITED", "EDITED")


async def test_where_a_preparer_fails_nothing_is_written_and_the_text_is_not_told(workspace):
    async with Memory(keeping(workspace, filters=[Shouting()])) as memory:
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


# --- what took the place of what -----------------------------------------------------------------------------------


async def test_what_was_superseded_ranks_below_its_successor_and_says_so(memory, workspace):
    old = await memory.remember("The cache is Redis, which is fast.", metadata={"tags": "infra"})
    new = await memory.remember("The cache is Valkey.", supersedes=old.chunk)
    assert said(workspace / old.path)[2:] == [
        "- The cache is Redis, which is fast.",
        f"  [tags: infra; superseded_by: {new.id}; valid_until: {memory.config.today()}]",
        "- The cache is Valkey.",
        f"  [id: {new.id}]",
        "",
    ]
    results = await memory.search("cache redis fast")
    assert [result.start_line for result in results] == [5, 3]
    assert [result.outdated for result in results] == ["", f"superseded by {new.path}:5"]
    assert results[0].score > results[1].score


async def test_what_was_not_valid_any_more_stays_so_when_it_is_superseded(memory, workspace):
    old = await memory.remember("We are in sprint five.", metadata={"valid_until": "2026-01-01"})
    new = await memory.remember("We are in sprint six.", supersedes=old.chunk)
    assert said(workspace / old.path)[3] == f"  [valid_until: 2026-01-01; superseded_by: {new.id}]"


async def test_a_successor_is_brought_in_where_the_words_do_not_find_it(memory):
    old = await memory.remember("We deploy with Capistrano.", source="team")
    new = await memory.remember("Releases go out by GitOps.", source="team", supersedes=f"{old.path}:{old.start_line}")
    results = await memory.search("capistrano")
    assert [(result.chunk == new.chunk, bool(result.outdated)) for result in results] == [(True, False), (False, True)]
    assert [result.chunk == new.chunk for result in await memory.search("capistrano", max_results=1)] == [True]
    assert [bool(result.outdated) for result in await memory.search("capistrano", source="team")] == [False, True]


async def test_a_successor_in_another_file_and_a_line_of_them(memory, workspace, write):
    file = write("memory/zoo.md", "# Zoo\n\nOtters are fish.\nThey swim.\n\nDogs bark.\n")
    second = await memory.remember("Otters are birds.", file="likes.md", supersedes="memory/zoo.md:4")
    third = await memory.remember("Otters are mammals.", source="zoo", supersedes=second.chunk)
    assert third.id != second.id
    assert said(file)[:6] == [
        *("# Zoo", "", "Otters are fish.", "They swim."),
        f"[superseded_by: {second.id}; valid_until: {memory.config.today()}]",
        "",
    ]
    results = await memory.search("fish")
    assert results[0].chunk == third.chunk
    assert {bool(result.outdated) for result in results[1:]} == {True}


async def test_an_entry_that_is_not_one_cannot_be_superseded(memory, workspace, write):
    write("memory/zoo.md", "# Zoo\n\nOtters swim.\n\nDogs bark.\n")
    for place in ("memory/zoo.md:1", "memory/zoo.md:3-5", "memory/zoo.md:9"):
        with pytest.raises(QueryError):
            await memory.remember(FACT, supersedes=place)
    assert sorted(path.name for path in (workspace / "memory").iterdir()) == ["zoo.md"]


@pytest.mark.parametrize("files", [("a.md", "a.md"), ("a.md", "b.md")])
@pytest.mark.parametrize("first", ["old", "new"])
async def test_what_is_there_already_can_take_the_place_of_something(memory, workspace, files, first):
    texts = {"old": "The cache is Redis.", "new": "The cache is Valkey."}
    notices = {}
    for which in (first, "new" if first == "old" else "old"):
        notices[which] = await memory.remember(texts[which], file=files[which == "new"], metadata={"tags": which})
    note = await memory.remember(texts["new"], supersedes=notices["old"].chunk)
    assert note.duplicate_of is not None
    results = await memory.search("cache redis")
    assert [(result.text.split("\n")[0], bool(result.outdated)) for result in results] == [
        ("- The cache is Valkey.", False),
        ("- The cache is Redis.", True),
    ]
    assert [result.metadata["tags"] for result in results] == ["new", "old"]
    assert results[1].metadata["superseded_by"] == results[0].metadata["id"]
    with pytest.raises(QueryError, match="cannot supersede itself"):
        await memory.remember(texts["new"], supersedes=results[0].chunk)


async def test_what_was_believed_on_a_day_is_asked_for(memory, write):
    write("memory/2026-01-10.md", "- The cache is Redis.\n  [superseded_by: b2; valid_until: 2026-03-01]\n")
    write("memory/2026-03-01.md", "- The cache is Valkey.\n  [id: b2; valid_until: 2026-06-01]\n")

    async def believed(day: str | None) -> list[tuple[str, bool]]:
        return [(result.path[7:17], bool(result.outdated)) for result in await memory.search("cache", as_of=day)]

    assert await believed("2026-01-01") == []
    assert await believed("2026-02-01") == [("2026-01-10", False)]
    assert await believed("2026-03-01") == [("2026-03-01", False), ("2026-01-10", True)]
    assert await believed("2026-06-01") == [("2026-03-01", False), ("2026-01-10", True)]
    assert await believed("2026-06-02") == [("2026-03-01", True), ("2026-01-10", True)]
    assert await believed(None) == [("2026-03-01", True), ("2026-01-10", True)]


async def test_a_successor_in_an_evergreen_file_was_not_known_before_it_took_the_place(memory, write):
    write("memory/2026-01-10.md", "- The cache is Redis.\n  [superseded_by: b2; valid_until: 2026-03-01]\n")
    write("memory/cache.md", "- The cache is Valkey.\n  [id: b2]\n")
    before = {result.path: bool(result.outdated) for result in await memory.search("cache", as_of="2026-02-01")}
    assert before["memory/2026-01-10.md"] is False
    after = [(result.path, bool(result.outdated)) for result in await memory.search("cache", as_of="2026-03-02")]
    assert after == [("memory/cache.md", False), ("memory/2026-01-10.md", True)]


async def test_those_that_supersede_each_other_in_a_circle_are_both_found(memory, write):
    write("memory/a.md", "- alpha one\n  [id: a; superseded_by: b]\n- alpha two\n  [id: b; superseded_by: a]\n")
    write("memory/b.md", "- alpha alone\n  [id: c; superseded_by: c]\n- alpha lost\n  [superseded_by: nobody]\n")
    results = await memory.search("alpha")
    assert len(results) == 4
    assert [result.outdated for result in results if "lost" in result.text] == [
        "superseded by nobody, which does not exist"
    ]


async def test_a_successor_must_pass_the_filters(memory, write):
    write("memory/one/2026-01-10.md", "- alpha old\n  [superseded_by: b]\n")
    write("memory/two/2026-01-20.md", "- beta new\n  [id: b]\n")
    assert [result.source for result in await memory.search("alpha")] == ["two", "one"]
    assert [result.source for result in await memory.search("alpha", source="one")] == ["one"]
    assert [result.source for result in await memory.search("alpha", until="2026-01-15")] == ["one"]


# --- changing ------------------------------------------------------------------------------------------------------


async def test_a_chunk_is_changed_and_nothing_else(memory, workspace, write, tmp_path):
    file = write("memory/a.md", "# A\n\n- alpha\n- beta\n  more\n\n- gamma")
    (result,) = await memory.search("beta")
    note = await memory.edit("- delta\n  epsilon\n  zeta\n", chunk=result.chunk)
    assert file.read_text("utf-8") == "# A\n\n- alpha\n- delta\n  epsilon\n  zeta\n\n- gamma"
    assert (note.start_line, note.end_line, note.text) == (4, 6, "- delta\n  epsilon\n  zeta")
    assert [(found.chunk, found.end_line) for found in await memory.search("zeta")] == [(note.chunk, 6)]
    assert await memory.search("beta") == []
    with pytest.raises(ChunkNotFoundError):
        await memory.edit("again", chunk=result.chunk)


async def test_lines_are_changed_up_to_the_end_of_the_file(memory, write):
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
async def test_what_is_not_named_clearly_is_not_changed(memory, workspace, write, arguments):
    file = write("memory/a.md", "one\n\ntwo\n")
    for work in (partial(memory.edit, "new"), partial(memory.move, "b.md"), memory.forget):
        with pytest.raises(KipuError):
            await work(**arguments)
    assert file.read_text("utf-8") == "one\n\ntwo\n"
    assert [path.name for path in (workspace / "memory").iterdir()] == ["a.md"]


@pytest.mark.parametrize("text", ["", "\n", "a\0b", 5])
async def test_nothing_is_put_in_the_place_of_something_by_an_edit(memory, write, text):
    file = write("memory/a.md", "one")
    with pytest.raises(QueryError):
        await memory.edit(text, path="memory/a.md", start=1)
    assert file.read_text("utf-8") == "one"


async def test_what_somebody_else_saves_in_the_middle_is_never_overwritten(memory, workspace, write, monkeypatch):
    file = write("memory/a.md", "one\n\ntwo\n")
    (result,) = await memory.search("two")
    apply, saves = memory._writer.commit, ["two and more\n", "gone\n"]

    async def interrupted(*changes: Any) -> None:
        if saves:
            file.write_text(f"zero\n\none\n\n{saves.pop(0)}", "utf-8")
        await apply(*changes)

    monkeypatch.setattr(memory._writer, "commit", interrupted)
    with pytest.raises(FileChangedError):
        await memory.edit("TWO", chunk=result.chunk)
    assert file.read_text("utf-8").startswith("zero\n\none\n\n")
    assert "TWO" not in file.read_text("utf-8")
    saves[:] = ["two\n"]
    await memory.remember(FACT, file="a.md")
    assert file.read_text("utf-8") == f"zero\n\none\n\ntwo\n\n- {FACT}\n"


# --- moving --------------------------------------------------------------------------------------------------------


async def test_lines_are_moved_to_the_end_of_another_file(memory, workspace, write, tmp_path):
    one = write("memory/one.md", "# One\n\n- alpha\n- beta\n  [tags: b]\n- gamma\n")
    two = write("memory/two.md", "# Two\n\n- delta\n")
    (result,) = await memory.search("beta")
    note = await memory.move("two.md", chunk=result.chunk)
    assert one.read_text("utf-8") == "# One\n\n- alpha\n- gamma\n"
    assert two.read_text("utf-8") == "# Two\n\n- delta\n- beta\n  [tags: b]\n"
    assert (note.path, note.start_line, note.end_line) == ("memory/two.md", 4, 5)
    assert [(found.path, found.chunk) for found in await memory.search("beta")] == [("memory/two.md", note.chunk)]
    await memory.move("memory/new/three.md", path="memory/two.md", start=1, end=5)
    assert not two.exists()
    assert (workspace / "memory/new/three.md").read_text("utf-8") == "# Two\n\n- delta\n- beta\n  [tags: b]\n"


async def test_a_whole_file_is_moved_byte_for_byte_and_its_permissions_with_it(memory, workspace):
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


async def test_nothing_is_moved_onto_what_is_there(memory, workspace, write):
    one, two = write("memory/one.md", "alpha\n"), write("memory/two.md", "beta\n")
    for to in ("two.md", "one.md"):
        with pytest.raises(QueryError):
            await memory.move(to, path="memory/one.md")
    with pytest.raises(QueryError):
        await memory.move("one.md", path="memory/one.md", start=1)
    with pytest.raises(KipuError):
        await memory.move("../three.md", path="memory/one.md")
    assert (one.read_text("utf-8"), two.read_text("utf-8")) == ("alpha\n", "beta\n")


# --- forgetting ----------------------------------------------------------------------------------------------------


async def test_what_is_forgotten_stands_nowhere_any_more(memory, workspace, tmp_path):
    await memory.remember("Bananas are yellow.", file="likes.md")
    note = await memory.remember(
        "The passphrase is xylophonequartz.", file="likes.md", metadata={"origin": "vexillology"}
    )
    for number in range(20):
        await memory.remember(f"Number {number} is a number.", file="likes.md")
    receipt = await memory.forget(chunk=note.chunk)
    assert (receipt.path, receipt.start_line, receipt.end_line) == (note.path, 2, 3)
    assert receipt.complete
    assert not receipt.elsewhere
    assert all(trace.after == 0 for trace in receipt.traces)
    assert sum(trace.before for trace in receipt.traces) >= 3
    for word in ("xylophonequartz", "vexillology", "passphrase"):
        assert holding(workspace, word) == []
    assert holding(workspace, "bananas") != []
    assert await memory.search("xylophonequartz") == []
    assert said(workspace / "memory/likes.md")[:2] == ["- Bananas are yellow.", "- Number 0 is a number."]


async def test_what_is_forgotten_leaves_no_vector_behind(workspace):
    config = keeping(workspace, strategy=CombinedStrategy(), postprocessors=[])
    config = attrs.evolve(config, index=attrs.evolve(config.index, embedder=HashingEmbedder()))
    async with Memory(config, background=False) as memory:
        memory.register_strategy("near", VectorStrategy())
        memory.register_strategy("by-words", WordStrategy())
        kept = await memory.remember("Bananas are yellow.")
        note = await memory.remember("The passphrase is xylophonequartz.")
        await memory.index()
        (vector,) = select(
            workspace,
            f"SELECT vector FROM embeddings WHERE hash = (SELECT hash FROM chunks WHERE chunk = '{note.chunk}')",
        )
        receipt = await memory.forget(chunk=note.chunk)
        assert receipt.complete
        assert [trace.before for trace in receipt.traces if "vectors" in trace.place] == [1]
        assert not any(vector[0] in path.read_bytes() for path in (workspace / ".kipu").iterdir() if path.is_file())
        assert select(workspace, "SELECT count(*) FROM embeddings") == [(1,)]
        assert [result.chunk for result in await memory.search("bananas passphrase")] == [kept.chunk]


async def test_a_heading_goes_with_the_last_that_stood_below_it(memory, workspace, write):
    file = write("memory/a.md", "# A\n\n## B\n\n- xylophone\n\n### C\n\n- quartz\n\n## D\n\nvellum\n")
    await memory.index()
    for word, left in (
        ("quartz", "# A\n\n## B\n\n- xylophone\n\n## D\n\nvellum\n"),
        ("xylophone", "# A\n\n## D\n\nvellum\n"),
    ):
        (result,) = await memory.search(word)
        assert (await memory.forget(chunk=result.chunk)).complete
        assert file.read_text("utf-8") == left
    assert (await memory.forget(path="memory/a.md", start=5)).complete
    assert not file.exists()


async def test_a_whole_file_is_forgotten(memory, workspace, write):
    write("memory/secret.md", "# Secret\n\nxylophone quartz\n\n- vellum\n")
    await memory.index()
    receipt = await memory.forget(path="memory/secret.md")
    assert receipt.complete
    assert holding(workspace, "xylophone") == holding(workspace, "secret.md") == []
    assert await memory.files() == []


async def test_what_other_places_say_too_is_named_and_left(memory, workspace, write):
    write("memory/a.md", "- The xylophone  is out of tune.\n")
    write("memory/b.md", "dogs\n\nThe xylophone is out of tune.\n")
    (result, _) = await memory.search("xylophone")
    receipt = await memory.forget(chunk=result.chunk)
    assert not receipt.complete
    assert [place.path for place in receipt.elsewhere] == ["memory/b.md"]
    receipt = await memory.forget(path="memory/b.md", start=3)
    assert receipt.complete
    assert holding(workspace, "xylophone") == []


async def test_of_two_that_are_the_same_one_is_forgotten(memory, workspace, write):
    file = write("memory/a.md", "xylophone quartz\n\ndogs\n\nxylophone quartz\n")
    first, _ = await memory.search("xylophone")
    receipt = await memory.forget(chunk=first.chunk)
    assert file.read_text("utf-8") == "dogs\n\nxylophone quartz\n"
    assert [str(place) for place in receipt.elsewhere] == ["memory/a.md:3"]
    receipt = await memory.forget(path="memory/a.md", start=3)
    assert receipt.complete
    assert holding(workspace, "xylophone") == []


async def test_lines_that_say_nothing_are_said_nowhere_else(memory, write):
    write("memory/a.md", "alpha\n\n\n\nbeta\n")
    receipt = await memory.forget(path="memory/a.md", start=3)
    assert list(receipt.elsewhere) == []


@pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="there are no symbolic links")
async def test_a_file_that_is_known_by_a_link_is_changed_and_forgotten_as_such(workspace, write, tmp_path):
    real = write("notes/real.md", "xylophone quartz\n\ndogs\n")
    (workspace / "memory/link.md").symlink_to("../notes/real.md")
    config = attrs.evolve(keeping(workspace), index=IndexConfig(chunker=ParagraphChunker()))
    async with Memory(config) as memory:
        note = await memory.edit("dogs and cats", path="memory/link.md", start=3)
        assert note.path == "memory/link.md"
        assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")
        receipt = await memory.forget(path="memory/link.md", start=1)
        assert receipt.complete
        assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")
        assert holding(workspace, "xylophone") == []
        assert (workspace / "memory/link.md").is_symlink()
        assert real.read_text("utf-8") == "dogs and cats\n"
        (result,) = await memory.search("dogs")
        assert (await memory.forget(chunk=result.chunk)).complete


@pytest.mark.skipif(os.name == "nt", reason="names of one file are told apart by their inode")
async def test_the_other_name_of_a_forgotten_file_is_not_overlooked(memory, workspace, write):
    file = write("memory/a.md", "xylophone quartz\n\ndogs\n")
    os.link(file, workspace / "memory/b.md")
    await memory.index()
    receipt = await memory.forget(path="memory/a.md", start=1)
    assert [place.path for place in receipt.elsewhere] == ["memory/b.md"]


async def test_forgetting_by_the_chunk_of_a_note_takes_no_neighbour_with_it(workspace):
    async with Memory(keeping(workspace, chunker=ParagraphChunker())) as memory:  # for which a list is one chunk
        notices = [await memory.remember(fact, file="zoo.md") for fact in ("zebra one", "zebra two", "zebra three")]
        if notices[2].chunk is not None:
            await memory.forget(chunk=notices[2].chunk)
        assert said(workspace / "memory/zoo.md")[:2] == ["- zebra one", "- zebra two"]


async def test_a_part_of_a_line_is_forgotten_where_a_chunk_is_no_more(workspace, write):
    file = write("memory/a.md", f"{'a' * 40} {'b' * 40} {'c' * 40}\n")
    async with Memory(keeping(workspace, chunker=Entries(longest=41))) as memory:
        (result,) = await memory.search("b" * 40)
        await memory.forget(chunk=result.chunk)
        assert "b" not in file.read_text("utf-8")
        assert holding(workspace, "b" * 40) == []
        assert file.read_text("utf-8").split() == ["a" * 40, "c" * 40]


@pytest.mark.parametrize("waits", [False, True])
async def test_what_a_query_finds_is_forgotten_as_far_as_somebody_says_so(memory, write, waits):
    file = write("memory/zoo.md", "zebra one\n\nzebra two\n")

    def ask(result):
        return "two" in result.text

    async def ask_later(result):
        return ask(result)

    (receipt,) = await memory.forget_found("zebra", ask_later if waits else ask, max_results=2)
    assert receipt.complete
    assert said(file)[0] == "zebra one"
    assert "two" not in file.read_text("utf-8")
