"""Lines are added, replaced and removed where they belong, and the other lines stay."""

from __future__ import annotations

import pytest
from entry_chunks import lines_of, without_id
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from markdown_texts import files, lines_of_text, parsed, texts

from kipu.errors import QueryError
from kipu.keeping.edits import append, check_heading, remove, replace
from kipu.keeping.targets import Target
from kipu.markdown import entries, format_entry
from kipu.workspace.text import TextFile


@pytest.fixture
async def memory(notebook):
    return notebook


# --- append --------------------------------------------------------------------------------------------------------


async def test_an_entry_is_added_to_its_section_and_the_others_stay(memory, workspace, write):
    file = write("memory/likes.md", "# Likes\n\n## Tea\n\n- Green tea\n\n### Cold\n\n- Iced tea\n## Pets\n\nDogs.\n")
    note = await memory.remember("Black tea", file="likes.md", heading="Tea")
    assert note.start_line == 6
    await memory.remember("A parrot", file="likes.md", heading="## Pets")
    await memory.remember("Chess", file="likes.md", heading="Games ##")
    note = await memory.remember("Go", file="likes.md", heading="Games ##")
    assert lines_of(file) == [
        *("# Likes", "", "## Tea", "", "- Green tea", "- Black tea", "", "### Cold", "", "- Iced tea"),
        *("## Pets", "", "Dogs.", "", "- A parrot", "", "## Games", "", "- Chess", "- Go", ""),
    ]
    assert note.start_line == 20


async def test_a_heading_in_a_fence_or_in_an_entry_begins_no_section(memory, workspace, write):
    file = write("memory/likes.md", "```\n# Tea\n```\n\n- # Tea\n  # Tea\n\n## Pets\n")
    await memory.remember("Green tea", file="likes.md", heading="Tea")
    assert lines_of(file)[7:] == ["## Pets", "", "## Tea", "", "- Green tea", ""]


@pytest.mark.parametrize(
    "heading", ["C#", "#tag", "- item", "---", "Caf\u00e9 ~ \u6771\u4eac", "```", "[tags: a]", "Tea #"]
)
async def test_a_heading_is_found_whatever_its_title_is(memory, workspace, heading):
    await memory.remember("Green tea", file="likes.md", heading=heading)
    await memory.remember("Black tea", file="likes.md", heading=heading)
    assert lines_of(workspace / "memory/likes.md")[1:] == ["", "- Green tea", "- Black tea", ""]


@pytest.mark.parametrize("heading", ["queue", "## QUEUE", "Queue"])
async def test_a_heading_is_found_in_upper_and_lower_case(memory, workspace, heading):
    (workspace / "memory/a.md").write_text("Queue\n-----\n\n- one\n", "utf-8")
    await memory.remember("new", file="a.md", heading=heading)
    assert (workspace / "memory/a.md").read_text("utf-8") == "Queue\n-----\n\n- one\n- new\n"


@pytest.mark.parametrize(
    "written",
    [
        "## **Open** items",
        "## _Open_ `items`",
        "## [Open](https://example.org) items",
        "## [[pages/open|Open]] items",
        "## Open items ##",
        "## Open <b>items</b> <!-- draft -->",
        "## Open items {#open}",
        "## Open&nbsp;items",
        "Open *items*\n---",
    ],
)
@pytest.mark.parametrize("heading", ["Open items", "Plan > Open items", "**Plan** > open  items"])
async def test_the_heading_that_a_search_shows_is_found(memory, write, written, heading):
    file = write("memory/n.md", f"# Plan\n\n{written}\n\n- alpha\n\n## Other\n")
    note = await memory.remember("beta", file="n.md", heading=heading)
    assert file.read_text("utf-8") == f"# Plan\n\n{written}\n\n- alpha\n- beta\n\n## Other\n"
    assert not note.notices


@pytest.mark.parametrize(("written", "shown"), [("Take \\*args", "Take *args"), ("A &lt;b&gt; tag", "A <b> tag")])
async def test_the_path_that_a_search_shows_is_found_whatever_marks_it_has(memory, write, written, shown):
    file = write("memory/n.md", f"# Plan\n\n## {written}\n\n- alpha\n")
    await memory.remember("beta", file="n.md", heading=f"Plan > {shown}")
    assert file.read_text("utf-8") == f"# Plan\n\n## {written}\n\n- alpha\n- beta\n"


@pytest.mark.parametrize(
    ("heading", "line", "notice"),
    [
        (
            "Open items",
            16,
            'n.md had no heading "Open items", so it was added. Did you mean "Open items #urgent"?',
        ),
        (
            "Todo",
            7,
            'n.md has 2 sections "Todo": "Mine > Plan > Todo" (line 5), "Mine > Log > Todo" (line 11). '
            "The first was taken. Name another one by its path.",
        ),
        ("Log > Todo", 13, ""),
        ("Mine > Log > Todo", 13, ""),
        ("Birds", 16, ""),
    ],
)
async def test_a_heading_that_is_not_clear_is_reported(memory, write, heading, line, notice):
    write(
        "memory/n.md", "---\ntitle: Mine\n---\n# Plan\n## Todo\n## Open items #urgent\n- a\n# Log\n\n\n## Todo\n- b\n"
    )
    note = await memory.remember("new", file="n.md", heading=heading)
    assert "".join(note.notices).removeprefix("memory/") == notice
    assert note.start_line == line


async def test_a_path_of_headings_that_does_not_exist_is_refused(memory, write):
    file = write("memory/n.md", "# Plan\n\n## Todo\n")
    with pytest.raises(QueryError) as caught:
        await memory.remember("new", file="n.md", heading="Plan > Todos")
    assert str(caught.value) == (
        'memory/n.md has no section "Plan > Todos". Did you mean "Plan > Todo"? To create one, name its heading alone: '
        '"Todos".'
    )
    assert file.read_text("utf-8") == "# Plan\n\n## Todo\n"


@given(st.text(max_size=20))
def test_a_heading_that_was_created_is_found(heading):
    try:
        title = check_heading(heading)
    except QueryError:
        assume(False)
    file, _ = append(TextFile([]), ["- one"], title)
    assert check_heading(title) == title
    file, start = append(TextFile.parse(file.data()), ["- two"], title)
    assert (len(file.lines), start) == (4, 4)


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
async def test_sections_are_those_of_markdown(memory, workspace, before, after):
    (workspace / "memory/a.md").write_text(before, "utf-8")
    await memory.remember("new", file="a.md")
    assert (workspace / "memory/a.md").read_text("utf-8") == after


@pytest.mark.parametrize("text", ["---", "--", "- -", "---\ntitle: Zoo\n---\nbody", "- - - -"])
async def test_a_text_of_dashes_does_not_become_a_rule(memory, workspace, text):
    await memory.remember(text, file="a.md")
    await memory.remember("taxes", file="a.md")
    lines = (workspace / "memory/a.md").read_text("utf-8").split("\n")
    assert lines[0].startswith("- \\-")
    assert (await memory.remember(text, file="a.md")).duplicate_of is not None
    assert lines[-2] == "- taxes"


@given(files(), texts, st.sampled_from([None, None, "Heading", "New"]))
@settings(suppress_health_check=[HealthCheck.filter_too_much])
def test_an_entry_is_inserted_and_the_other_lines_stay(data, text, heading):
    file = parsed(data)
    try:
        entry = format_entry(text, {"tags": "mine"})
    except QueryError:
        assume(False)
    changed, start = append(file, entry, heading)
    first, *rest = changed.plain_lines[start - 1 : start - 1 + len(entry)]
    assert (first[1:], rest) == (entry[0][1:], entry[1:])
    assert first[0] in "-*+"  # the mark of the list that it goes on with
    assert (changed.encoding, changed.mark) == (file.encoding, file.mark)
    # What is new is one block of lines; around it stands what stood there, but for an end of the last line.
    count = len(changed.lines) - len(file.lines)
    places = [
        at
        for at in range(len(file.lines) + 1)
        if changed.plain_lines[:at] + changed.plain_lines[at + count :] == file.plain_lines
        and all(
            new == old or (new == f"{old}{file.line_end}" and old == file.lines[-1])
            for new, old in zip(changed.lines[:at] + changed.lines[at + count :], file.lines, strict=True)
        )
    ]
    assert any(at < start <= at + count for at in places)
    added = changed.plain_lines[start - 1 + len(entry) :][:1] + changed.plain_lines[start - 2 : start - 1]
    assert count - len(entry) <= 4, added


@example(b"\n  indented\n---\n", "text")
@example(b"", "> ```\n# Heading")
@given(files(), texts)
def test_the_other_entries_stay_when_one_is_appended(data, text):
    file = parsed(data)
    try:
        entry = format_entry(text, {"tags": "mine"})
    except QueryError:
        assume(False)
    before = [(found.text, found.metadata) for found in entries(file.plain_lines)]
    changed, start = append(file, entry)
    after = entries(changed.plain_lines)
    (new,) = [found for found in after if found.start_line == start]
    assert new.end_line == start + len(entry) - 1
    assert [(found.text, found.metadata) for found in after if found is not new] == before


# --- replace -------------------------------------------------------------------------------------------------------


@given(files(), st.data())
def test_lines_are_replaced_and_the_others_stay(data, draw):
    file = parsed(data)
    assume(file.lines)
    start = draw.draw(st.integers(1, len(file.lines)))
    end = draw.draw(st.integers(start, len(file.lines)))
    new = draw.draw(st.lists(lines_of_text, min_size=1, max_size=4))
    changed = replace(file, start, end, new)
    assert changed.lines[: start - 1] == file.lines[: start - 1]
    assert changed.lines[len(changed.lines) - (len(file.lines) - end) :] == file.lines[end:]
    assert changed.plain_lines[start - 1 :][: len(new)] == new
    assert len(changed.lines) == len(file.lines) - (end - start + 1) + len(new)


@pytest.mark.parametrize("by_chunk", [True, False])
async def test_the_metadata_of_an_entry_stays_when_it_is_edited(memory, workspace, by_chunk):
    await memory.remember("office in Bonn", file="a.md")
    new = await memory.remember("office in Cologne", file="a.md", supersedes="memory/a.md:1", metadata={"tags": "work"})
    where = {"chunk": new.chunk} if by_chunk else {"path": new.path, "start": new.start_line, "end": new.end_line}
    note = await memory.edit("- office in Cologne\n  since May", **where)
    text = (workspace / "memory/a.md").read_text("utf-8")
    assert text.endswith(f"- office in Cologne\n  since May\n  [tags: work; id: {new.id}]\n")
    assert (note.text, note.end_line) == ("- office in Cologne\n  since May", len(text.splitlines()))
    assert note.replaced == f"- office in Cologne\n  [tags: work; id: {new.id}]"
    (bonn,) = [result for result in await memory.search("office") if "Bonn" in result.text]
    assert bonn.outdated.startswith("superseded by memory/a.md")
    with pytest.raises(QueryError, match="was superseded before"):
        await memory.remember("office in Kiel", file="a.md", supersedes="memory/a.md:1-2")


async def test_the_metadata_of_an_entry_is_not_given_to_another_one(memory, write):
    file = write("memory/a.md", "- a\n- b\n  [id: q]\n")
    note = await memory.edit("- b\n- a", path="memory/a.md", start=1, end=3, all=True)
    assert file.read_text("utf-8") == "- b\n- a\n"
    assert note.replaced == "- a\n- b\n  [id: q]"


@pytest.mark.parametrize(
    ("lines", "text", "after"),
    [
        ((1, 2), "- new\n  [tags: b]", "- new\n  [tags: b; id: p]\n- two\n  [id: q]\n"),
        ((1, 2), "- new\n  [tags: b; id: p]", "- new\n  [tags: b; id: p]\n- two\n  [id: q]\n"),
        ((1, 4), "- new", "- new\n"),
        ((2, 2), "  more", "- one\n  more\n  [id: p]\n- two\n  [id: q]\n"),
        ((2, 2), "  [id: p]", "- one\n  [id: p]\n- two\n  [id: q]\n"),
        ((1, 1), "- new", "- new\n  [id: p; tags: a]\n- two\n  [id: q]\n"),
        ((1, 1), "new", "- new\n  [id: p; tags: a]\n- two\n  [id: q]\n"),
        ((2, 4), "- new", "- one\n- new\n"),
        ((1, 2), "- new\n- more", "- new\n  [id: p]\n- more\n- two\n  [id: q]\n"),
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
async def test_metadata_is_removed_only_if_the_edit_covers_it(memory, write, lines, text, after):
    file = write("memory/a.md", "- one\n  [id: p; tags: a]\n- two\n  [id: q]\n")
    lines_of_file = file.read_text("utf-8").split("\n")
    note = await memory.edit(text, path="memory/a.md", start=lines[0], end=lines[1], all=lines[1] == 4)
    assert file.read_text("utf-8") == after
    assert note.replaced.split("\n") == lines_of_file[lines[0] - 1 : lines[1]]


async def test_an_item_stays_an_item(memory, write):
    file = write("memory/a.md", "- redis\n- other\n- third\n")
    note = await memory.remember("valkey", file="a.md", supersedes="memory/a.md:1")
    await memory.edit("cache is valkey 8,\nsince May", chunk=note.chunk)
    assert file.read_text("utf-8").endswith(f"- third\n- cache is valkey 8,\n  since May\n  [id: {note.id}]\n")
    assert any("- third" in result.text for result in await memory.search("third", as_of="2001-01-01"))


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ("- [ ] buy milk", "buy oat milk", "- [ ] buy oat milk"),
        ("- [ ] buy milk", "[x] buy milk", "- [x] buy milk"),
        ("- [ ] buy milk", "- bought milk", "- bought milk"),
        ("3. milk", "oat milk\nor rice", "3. oat milk\n   or rice"),
        ("- milk", "|x| < 3 litres", "- |x| < 3 litres"),
        ("- milk", "| a | b |", "\n| a | b |"),
        ("- milk", "> milk", "\n> milk"),
        ("- milk", "# Milk", "# Milk"),
    ],
)
async def test_an_item_keeps_its_mark_if_the_text_has_none(memory, write, old, new, after):
    file = write("memory/a.md", f"- bread\n{old}\n- tea\n")
    note = await memory.edit(new, path="memory/a.md", start=2)
    assert without_id(file, note.id) == f"- bread\n{after}\n- tea\n"


# --- remove --------------------------------------------------------------------------------------------------------


@given(files(), st.data())
def test_lines_are_removed_with_headings_only(data, draw):
    file = parsed(data)
    assume(file.lines)
    start = draw.draw(st.integers(1, len(file.lines)))
    end = draw.draw(st.integers(start, len(file.lines)))
    changed, headings = remove(file, Target("", "", start, end, "\n".join(file.plain_lines[start - 1 : end])))
    lines = changed.lines if changed is not None else []
    rest = filter(str.strip, [*file.lines[: start - 1], *file.lines[end:]])
    # The lines that are left are some of the others, in order; the rest are headings. Blank ones do not count.
    left = filter(str.strip, lines)
    waiting = next(left, None)
    for line in rest:
        if waiting is not None and line == waiting:
            waiting = next(left, None)
        else:
            assert line.startswith("#"), (line, lines)
            headings.remove(line.rstrip("\r\n"))
    assert waiting is None
    assert headings == []
    assert changed is None or changed.encoding == file.encoding


@pytest.mark.parametrize(
    ("text", "end", "new", "after"),
    [
        ("one\n```\nx\n```\ntwo\n[id: t]\n", 4, "", "one\n\ntwo\n[id: t]\n"),
        ("one\r\n- x\r\n---\r\n", 2, "", "one\r\n\r\n---\r\n"),
        ("one\n| a |\n|---|\n- two\n", 3, "", "one\n- two\n"),
        ("\n- one\n  ```\n  x\n  ```\ntwo\n[id: t]\n", 5, "- x\n  [id: x]", "\n- x\n  [id: x]\n\ntwo\n[id: t]\n"),
        ("- one\n- two\n  [id: t]\n", 3, "> x", "- one\n\n> x\n[id: t]\n"),
        ("- one\n- two\n", 2, "```\nx", "- one\n\n```\nx\n"),
        ("one\ntwo\nthree\n", 2, "", "one\nthree\n"),
    ],
)
async def test_a_text_does_not_become_part_of_the_one_above_what_was_changed(memory, write, text, end, new, after):
    file = write("memory/a.md", text)
    await (memory.edit(new, path=file, start=2, end=end) if new else memory.forget(path=file, start=2, end=end))
    assert file.read_bytes().decode() == after


async def test_a_heading_that_was_above_nothing_stays(memory, workspace, write):
    file = write("memory/a.md", "# A\n\n## Intro\n\n## B\n\nxylophone\n\n## C\n\nquartz\n")
    await memory.index()
    await memory.forget(path="memory/a.md", start=7)
    assert file.read_text("utf-8") == "# A\n\n## Intro\n\n## C\n\nquartz\n"
    await memory.forget(path="memory/a.md", start=7)
    assert file.read_text("utf-8") == "# A\n\n## Intro\n"


@pytest.mark.parametrize("unit", ["<!--\n", "<!--\n# x\n", "a\n<!--\n", "<!-- a\n-->\n", "---\n", "```\n"])
def test_a_long_file_of_anything_can_be_changed(unit):
    file = TextFile.parse((unit * 40_000).encode())
    changed, line = append(file, ["- new"])
    assert changed.plain_lines[line - 1] == "- new"
    assert remove(changed, Target("", "", line, line, "- new"))[0] is not None


@pytest.mark.parametrize("unit", [" ", "\t", "#", " #", "# ", "x ", "> ", "- ", "`", "日"])
def test_a_long_heading_is_read(unit):
    filler = unit * (200_000 // len(unit))
    for line in (f"x{filler}y", f"# x{filler}y"):
        assert check_heading(line) in line


async def test_a_long_line_stays_when_an_entry_is_added(memory, write):
    line = f"# x{' ' * 200_000}y"
    file = write("memory/a.md", f"{line}\n\n- One.\n")
    await memory.remember("Two.", file="a.md", heading="Plans")
    assert file.read_text("utf-8") == f"{line}\n\n- One.\n\n## Plans\n\n- Two.\n"
