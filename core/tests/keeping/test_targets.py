"""Places: what takes the place of what, where in a file entries go, what is expected to stand there, and its names."""

from __future__ import annotations

from typing import Any

import pytest
from redaction import KEY, configured

from kipu import Memory
from kipu.errors import FileChangedError, MemoryFileError, QueryError
from kipu.keeping.edits import append, remove
from kipu.keeping.targets import Target
from kipu.workspace.text import TextFile


@pytest.fixture
async def memory(workspace):
    async with Memory(configured(workspace)) as memory:
        yield memory


async def found(memory: Memory, query: str, **options: Any) -> dict[str, str]:
    return {result.text.split("\n")[0]: result.outdated for result in await memory.search(query, **options)}


# --- what was believed when ----------------------------------------------------------------------------------------


async def test_what_was_not_believed_yet_is_not_found_as_of_then(memory, workspace):
    (workspace / "memory/facts.md").write_text(
        "- office in Bonn\n  [superseded_by: c; valid_until: 2026-03-01]\n- office in Cologne\n  [id: c]\n", "utf-8"
    )
    assert list(await found(memory, "office", as_of="2026-02-01")) == ["- office in Bonn"]
    assert await found(memory, "office", as_of="2026-02-01") == {"- office in Bonn": ""}
    assert list(await found(memory, "office", as_of="2026-03-01")) == ["- office in Cologne", "- office in Bonn"]
    assert list(await found(memory, "office")) == ["- office in Cologne", "- office in Bonn"]


async def test_what_others_say_of_an_id_does_not_count_in_a_scope(workspace):
    async with Memory(configured(workspace), scope="alice") as alice, Memory(configured(workspace), scope="bob") as bob:
        await alice.remember("zebra", metadata={"id": "one"}, file="a.md")
        await bob.remember("lion", metadata={"superseded_by": "one", "valid_until": "2030-01-01"})
        assert len(await alice.search("zebra", as_of="2029-12-15")) == 1


async def test_where_a_successor_stands_is_the_line_of_its_entry(memory, workspace):
    await memory.remember("office in Bonn", file="facts.md")
    await memory.remember("office in Cologne", file="facts.md", heading="Now", supersedes="memory/facts.md:1")
    lines = (workspace / "memory/facts.md").read_text("utf-8").split("\n")
    line = lines.index("- office in Cologne") + 1
    (outdated,) = [result.outdated for result in await memory.search("office") if result.outdated]
    assert outdated.startswith(f"superseded by memory/facts.md:{line}")


# --- what may be superseded ----------------------------------------------------------------------------------------


async def test_what_was_superseded_before_is_not_superseded_by_something_else(memory, workspace):
    await memory.remember("Lead is Ann.", file="l.md")
    bob = await memory.remember("Lead is Bob.", file="l.md", supersedes="memory/l.md:1")
    before = (workspace / "memory/l.md").read_text("utf-8")
    with pytest.raises(QueryError, match=r"was superseded before, by memory/l\.md:3"):
        await memory.remember("Lead is Cid.", file="l.md", supersedes="memory/l.md:1")
    assert (workspace / "memory/l.md").read_text("utf-8") == before
    again = await memory.remember("Lead is Bob.", file="l.md", supersedes="memory/l.md:1")
    assert again.duplicate_of is not None
    cid = await memory.remember("Lead is Cid.", file="l.md", supersedes=bob.chunk)
    assert next(iter(await found(memory, "Lead"))) == "- Lead is Cid."
    await memory.forget(path="memory/l.md", start=cid.start_line, end=cid.end_line)
    await memory.remember("Lead is Dot.", file="l.md", supersedes="memory/l.md:3-4")  # what it names is gone


async def test_an_inner_item_is_not_superseded_with_all_that_is_around_it(memory, workspace):
    text = "- zoo\n  - zebra\n  - lion\n"
    (workspace / "memory/a.md").write_text(text, "utf-8")
    with pytest.raises(QueryError, match=r"memory/a\.md:2 is an item within another one.*name memory/a.md:1-3"):
        await memory.remember("two zebras", supersedes="memory/a.md:2")
    assert (workspace / "memory/a.md").read_text("utf-8") == text


async def test_a_comment_can_be_superseded_and_front_matter_cannot(memory, workspace):
    (workspace / "memory/a.md").write_text("---\ntitle: zebra\n---\n\n<!-- one\n\ntwo -->\n", "utf-8")
    note = await memory.remember("no zebra", supersedes="memory/a.md:5")
    assert f"two -->\n[superseded_by: {note.id}" in (workspace / "memory/a.md").read_text("utf-8")
    with pytest.raises(QueryError, match="there is no entry that could be superseded"):
        await memory.remember("zebra", supersedes="memory/a.md:2")


async def test_metadata_below_an_item_with_a_tab_belong_to_it(memory, workspace):
    (workspace / "memory/a.md").write_text("-\tzebra\n", "utf-8")
    await memory.remember("two zebras", file="a.md", supersedes="memory/a.md:1")
    assert (workspace / "memory/a.md").read_text("utf-8").startswith("-\tzebra\n  [superseded_by: ")
    assert (await memory.remember("zebra", file="a.md")).duplicate_of is None  # it is believed again


async def test_a_file_that_lacks_a_letter_is_not_changed(memory, workspace):
    file = workspace / "memory/old.md"
    file.write_bytes("- zebra straße\n".encode("cp1252"))
    with pytest.raises(MemoryFileError, match="Save it as UTF-8 first"):
        await memory.remember("two zebras", metadata={"id": "中文"}, supersedes="memory/old.md:1")
    assert file.read_bytes() == "- zebra straße\n".encode("cp1252")


# --- where entries stand ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# Day\n\n- one\n\n## Standup\n\n- two\n", "# Day\n\n- one\n- new\n\n## Standup\n\n- two\n"),
        ("# Day\n\n## Standup\n\n- two\n", "# Day\n\n- new\n\n## Standup\n\n- two\n"),
        ("## Standup\n\n- two\n", "- new\n\n## Standup\n\n- two\n"),
        ("# One\n\n- a\n\n# Two\n\n- b\n", "# One\n\n- a\n\n# Two\n\n- b\n- new\n"),
        ("# One\n\n## In\n\n# Two\n\n## In\n", "# One\n\n## In\n\n# Two\n\n- new\n\n## In\n"),
        ("---\ntags: x\n---\n## In\n", "---\ntags: x\n---\n\n- new\n\n## In\n"),
        ("text\n\n```\n# no heading\n```\n", "text\n\n```\n# no heading\n```\n\n- new\n"),
    ],
)
async def test_an_entry_without_a_heading_belongs_to_no_section(memory, workspace, before, after):
    """It was put below the last heading of the file, whatever that said."""
    (workspace / "memory/a.md").write_text(before, "utf-8")
    await memory.remember("new", file="a.md")
    assert (workspace / "memory/a.md").read_text("utf-8") == after


async def test_an_inner_item_that_is_moved_becomes_one_of_its_own(memory, workspace):
    (workspace / "memory/a.md").write_text("- zoo\n  - zebra\n    with stripes\n", "utf-8")
    (workspace / "memory/b.md").write_text("- old\n  [superseded_by: x; valid_until: 2026-01-01]\n", "utf-8")
    note = await memory.move("b.md", path="memory/a.md", start=2, end=3)
    assert (workspace / "memory/b.md").read_text("utf-8") == (
        "- old\n  [superseded_by: x; valid_until: 2026-01-01]\n- zebra\n  with stripes\n"
    )
    assert (note.start_line, note.end_line) == (3, 4)
    assert (await found(memory, "old"))["- old"]


async def test_a_whole_file_that_was_moved_has_all_of_its_lines(memory, workspace):
    (workspace / "memory/a.md").write_text("# A\n\none\n\ntwo\n", "utf-8")
    note = await memory.move("b.md", path="memory/a.md")
    assert (note.start_line, note.end_line) == (1, 5)


# --- what somebody expected ------------------------------------------------------------------------------------------


async def test_lines_that_say_something_else_than_was_expected_are_left(memory, workspace):
    file = workspace / "memory/a.md"
    file.write_text("- new on top\n- zebra\n- lion\n", "utf-8")
    for change in (
        memory.edit("- lion", path="memory/a.md", start=1, expected="- zebra"),
        memory.move("b.md", path="memory/a.md", start=1, expected="- zebra"),
        memory.forget(path="memory/a.md", start=1, expected="- zebra"),
    ):
        with pytest.raises(FileChangedError, match="does not say in lines 1 to 1 what was expected"):
            await change
    assert file.read_text("utf-8") == "- new on top\n- zebra\n- lion\n"
    await memory.edit("- two lions", path="memory/a.md", start=3, expected=await memory.read("memory/a.md", 3) + "\r\n")
    assert (await memory.forget(path="memory/a.md", start=2, expected="- zebra")).complete
    with pytest.raises(QueryError, match="expected must be a text"):
        await memory.forget(path="memory/a.md", start=1, expected=1)
    assert file.read_text("utf-8") == "- new on top\n- two lions\n"


async def test_a_text_of_several_chunks_that_stands_twice_is_told_as_elsewhere(memory, workspace):
    said = "\n\n".join(f"paragraph {number} of zebras" for number in range(40))
    for name in ("a", "b"):
        (workspace / f"memory/{name}.md").write_text(f"# {name}\n\n{said}\n", "utf-8")
    receipt = await memory.forget(path="memory/a.md", start=3, end=81)
    assert [str(place) for place in receipt.elsewhere] == ["memory/b.md:3-81"]


# --- names that are secrets ------------------------------------------------------------------------------------------


async def test_a_key_is_no_name_wherever_it_is_given(memory, workspace):
    (workspace / "memory/a.md").write_text("- zebra\n", "utf-8")
    said = [{"role": "user", "content": "zebra"}]
    for change in (
        memory.move(f"{KEY}.md", path="memory/a.md"),
        memory.move(f"{KEY}.md", path="memory/a.md", start=1),
        memory.move(f"{KEY}/a.md", path="memory/a.md"),
        memory.flush(said, file=f"2026-01-01-{KEY}.md"),
        memory.flush(said, source=KEY),
        memory.remember("zebra", source=KEY),
    ):
        with pytest.raises(QueryError):
            await change
    async with Memory(configured(workspace), scope=f"id {KEY}") as scoped:
        with pytest.raises(QueryError, match="contains a secret"):
            await scoped.remember("zebra")
    assert sorted(path.name for path in (workspace / "memory").rglob("*")) == ["a.md"]


# --- recalling within a budget -------------------------------------------------------------------------------------


async def test_a_budget_that_the_best_does_not_fit_into_says_so(memory):
    await memory.remember("zebra lion " + "grass " * 80, file="a.md")
    await memory.remember("zebra", file="b.md")
    recalled = await memory.recall("zebra lion grass", max_tokens=60)
    assert [result.path for result in recalled.results] == ["memory/b.md"]
    assert recalled.results.notices == [
        "The best of what was found, memory/a.md:1, does not fit into 60 tokens: allow more."
    ]


# --- what a text must not do to the file that it is in -------------------------------------------------------------


@pytest.mark.parametrize("text", ["---", "--", "- -", "---\ntitle: Zoo\n---\nbody", "- - - -"])
async def test_a_text_of_dashes_is_no_line_across_the_page(memory, workspace, text):
    await memory.remember(text, file="a.md")
    await memory.remember("taxes", file="a.md")
    lines = (workspace / "memory/a.md").read_text("utf-8").split("\n")
    assert lines[0].startswith("- \\-")
    assert (await memory.remember(text, file="a.md")).duplicate_of is not None
    assert lines[-2] == "- taxes"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# T\n\nKept.\n\n<!--\n## Draft\nold\n-->\n", "# T\n\nKept.\n\n<!--\n## Draft\nold\n-->\n\n- new\n"),
        ("Notes\n=====\n\ntext\n\nSub\n---\n\nmore\n", "Notes\n=====\n\ntext\n\n- new\n\nSub\n---\n\nmore\n"),
        ("---\ntitle: x\n---\n\ntext\n", "---\ntitle: x\n---\n\ntext\n\n- new\n"),
        ("a\nb\n\n* one\n", "a\nb\n\n* one\n* new\n"),
        ("- one\n\n---\n\n## S\n", "- one\n\n---\n\n- new\n\n## S\n"),
    ],
)
async def test_what_is_a_section_is_seen_as_markdown_sees_it(memory, workspace, before, after):
    (workspace / "memory/a.md").write_text(before, "utf-8")
    await memory.remember("new", file="a.md")
    assert (workspace / "memory/a.md").read_text("utf-8") == after


@pytest.mark.parametrize("heading", ["queue", "## QUEUE", "Queue"])
async def test_a_heading_is_found_whatever_its_letters_are(memory, workspace, heading):
    (workspace / "memory/a.md").write_text("Queue\n-----\n\n- one\n", "utf-8")
    await memory.remember("new", file="a.md", heading=heading)
    assert (workspace / "memory/a.md").read_text("utf-8") == "Queue\n-----\n\n- one\n- new\n"


async def test_a_file_without_lines_is_not_taken_for_a_chunk(memory, workspace):
    (workspace / "memory/a.md").write_text("- one\n", "utf-8")
    for name in ("memory/a.md", "memory/a.md:"):
        with pytest.raises(QueryError, match=r"Name lines of memory/a\.md, such as"):
            await memory.remember("new", supersedes=name)


async def test_a_successor_that_was_forgotten_is_said_to_be_gone(memory):
    await memory.remember("zebra one", file="a.md")
    new = await memory.remember("zebra two", file="a.md", supersedes="memory/a.md:1")
    await memory.forget(path="memory/a.md", start=new.start_line, end=new.end_line)
    (outdated,) = (await found(memory, "zebra")).values()
    assert outdated == f"superseded by {new.id}, which does not exist"


async def test_what_a_link_among_our_files_leads_to_is_not_searched_for_what_was_forgotten(memory, workspace, tmp_path):
    (tmp_path / "outside").write_text("xylophone", "utf-8")
    note = await memory.remember("xylophone", file="a.md")
    (workspace / ".kipu/index.x").symlink_to(tmp_path / "outside")
    receipt = await memory.forget(path=note.path, start=note.start_line, end=note.end_line)
    assert not [trace for trace in receipt.traces if trace.after or "index.x" in trace.place]


# --- what is known of what is edited ---------------------------------------------------------------------------------


@pytest.mark.parametrize("by_chunk", [True, False])
async def test_what_is_known_of_an_entry_stays_when_it_is_edited(memory, workspace, by_chunk):
    await memory.remember("office in Bonn", file="a.md")
    new = await memory.remember("office in Cologne", file="a.md", supersedes="memory/a.md:1", metadata={"tags": "work"})
    where = {"chunk": new.chunk} if by_chunk else {"path": new.path, "start": new.start_line, "end": new.end_line}
    note = await memory.edit("- office in Cologne\n  since May", **where)
    text = (workspace / "memory/a.md").read_text("utf-8")
    assert text.endswith(f"- office in Cologne\n  since May\n  [tags: work; id: {new.id}]\n")
    assert (note.text, note.end_line) == ("- office in Cologne\n  since May", len(text.splitlines()))
    assert note.replaced == f"- office in Cologne\n  [tags: work; id: {new.id}]"
    assert (await found(memory, "office"))["- office in Bonn"].startswith("superseded by memory/a.md")
    with pytest.raises(QueryError, match="was superseded before"):
        await memory.remember("office in Kiel", file="a.md", supersedes="memory/a.md:1-2")


async def test_what_is_known_of_one_of_several_entries_is_not_given_to_another_one(memory, write):
    file = write("memory/a.md", "- a\n- b\n  [id: q]\n")
    note = await memory.edit("- b\n- a", path="memory/a.md", start=1, end=3)
    assert file.read_text("utf-8") == "- b\n- a\n"
    assert note.replaced == "- a\n- b\n  [id: q]"


@pytest.mark.parametrize(
    ("lines", "text", "after"),
    [
        ((1, 2), "- new\n  [tags: b]", "- new\n  [tags: b]\n- two\n  [id: q]\n"),
        ((1, 2), "- new\n  [tags: b; id: p]", "- new\n  [tags: b; id: p]\n- two\n  [id: q]\n"),
        ((1, 4), "- new", "- new\n"),
        ((2, 2), "  more", "- one\n  more\n- two\n  [id: q]\n"),
        ((2, 2), "  [id: p]", "- one\n  [id: p]\n- two\n  [id: q]\n"),
        ((1, 1), "- new", "- new\n  [id: p; tags: a]\n- two\n  [id: q]\n"),
        ((1, 1), "new", "- new\n  [id: p; tags: a]\n- two\n  [id: q]\n"),
        ((2, 4), "- new", "- one\n- new\n"),
        ((1, 2), "- new\n- more", "- new\n- more\n- two\n  [id: q]\n"),
        ((1, 2), "## New", "## New\n- two\n  [id: q]\n"),
        ((1, 2), "| a |\n|---|", "| a |\n|---|\n- two\n  [id: q]\n"),
        ((1, 2), "```\nx\n```", "```\nx\n```\n- two\n  [id: q]\n"),
        ((1, 1), "# New", "# New\n  [id: p; tags: a]\n- two\n  [id: q]\n"),
        ((1, 2), "A new\none.", "- A new\n  one.\n  [id: p; tags: a]\n- two\n  [id: q]\n"),
        ((1, 2), "> A new one.", "> A new one.\n[id: p; tags: a]\n- two\n  [id: q]\n"),
        ((1, 2), "- ```\n  x\n  ```", "- ```\n  x\n  ```\n  [id: p; tags: a]\n- two\n  [id: q]\n"),
        ((1, 2), "  - new", "  - new\n    [id: p; tags: a]\n- two\n  [id: q]\n"),
    ],
)
async def test_what_is_known_goes_only_where_that_is_asked_for(memory, write, lines, text, after):
    file = write("memory/a.md", "- one\n  [id: p; tags: a]\n- two\n  [id: q]\n")
    lines_of_file = file.read_text("utf-8").split("\n")
    note = await memory.edit(text, path="memory/a.md", start=lines[0], end=lines[1])
    assert file.read_text("utf-8") == after
    assert note.replaced.split("\n") == lines_of_file[lines[0] - 1 : lines[1]]


async def test_an_item_stays_one_and_becomes_no_part_of_the_one_above(memory, write):
    file = write("memory/a.md", "- redis\n- other\n- third\n")
    note = await memory.remember("valkey", file="a.md", supersedes="memory/a.md:1")
    await memory.edit("cache is valkey 8,\nsince May", chunk=note.chunk)
    assert file.read_text("utf-8").endswith(f"- third\n- cache is valkey 8,\n  since May\n  [id: {note.id}]\n")
    assert any("- third" in result.text for result in await memory.search("third", as_of="2001-01-01"))


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
async def test_the_headings_that_a_chunk_begins_with_stay(memory, write, text, above):
    file = write("memory/a.md", "# A\n\n## Facts\n\n- one\n  [id: p]\n\n## Others\n\n- two\n")
    (result, *_) = await memory.search("one")
    assert result.text.startswith("# A\n\n## Facts")
    await memory.edit(text, chunk=result.chunk)
    assert file.read_text("utf-8") == f"{above}\n\n- new\n  [id: p]\n\n## Others\n\n- two\n"


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ("- [ ] buy milk", "buy oat milk", "- [ ] buy oat milk"),
        ("- [ ] buy milk", "[x] buy milk", "- [x] buy milk"),
        ("- [ ] buy milk", "- bought milk", "- bought milk"),
        ("3. milk", "oat milk\nor rice", "3. oat milk\n   or rice"),
        ("- milk", "|x| < 3 litres", "- |x| < 3 litres"),
        ("- milk", "| a | b |", "| a | b |"),
        ("- milk", "> milk", "> milk"),
        ("- milk", "# Milk", "# Milk"),
    ],
)
async def test_an_item_keeps_its_mark_where_the_text_has_none(memory, write, old, new, after):
    file = write("memory/a.md", f"- bread\n{old}\n- tea\n")
    await memory.edit(new, path="memory/a.md", start=2)
    assert file.read_text("utf-8") == f"- bread\n{after}\n- tea\n"


async def test_what_said_that_something_forgotten_took_its_place_is_told(memory):
    await memory.remember("zebra one", file="a.md")
    new = await memory.remember("zebra two", file="a.md", supersedes="memory/a.md:1")
    receipt = await memory.forget(path="memory/a.md", start=new.start_line, end=new.end_line)
    assert f"memory/a.md:1-2 names {new.id} as its successor, which does not exist any more." in receipt.notices


async def test_a_heading_that_was_above_nothing_stays(memory, workspace, write):
    file = write("memory/a.md", "# A\n\n## Intro\n\n## B\n\nxylophone\n\n## C\n\nquartz\n")
    await memory.index()
    await memory.forget(path="memory/a.md", start=7)
    assert file.read_text("utf-8") == "# A\n\n## Intro\n\n## C\n\nquartz\n"
    await memory.forget(path="memory/a.md", start=7)
    assert file.read_text("utf-8") == "# A\n\n## Intro\n"


async def test_a_text_with_a_word_longer_than_a_chunk_is_told_as_elsewhere(memory, write):
    word = "Q" + "x1Yz" * 1500
    write("memory/a.md", f"- secret {word} end\n")
    write("memory/b.md", f"- secret {word} end\n- keep\n")
    receipt = await memory.forget(path="memory/a.md", start=1)
    assert [str(place) for place in receipt.elsewhere] == ["memory/b.md:1"]


@pytest.mark.parametrize("unit", ["<!--\n", "<!--\n# x\n", "a\n<!--\n", "<!-- a\n-->\n", "---\n", "```\n"])
def test_a_long_file_of_anything_is_no_trouble(unit):
    file = TextFile.parse((unit * 40_000).encode())
    changed, line = append(file, ["- new"])
    assert changed.plain_lines[line - 1] == "- new"
    assert remove(changed, Target("", "", line, line, "- new")) is not None
