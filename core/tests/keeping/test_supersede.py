"""A superseded entry names its successor, ranks below it, and cannot be superseded twice."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from entry_chunks import lines_of
from redaction import configured

from kipu import Memory
from kipu.errors import (
    MemoryFileError,
    QueryError,
)


async def outdated_by_text(memory: Memory, query: str, **options: Any) -> dict[str, str]:
    return {result.text.split("\n")[0]: result.outdated for result in await memory.search(query, **options)}


async def test_a_superseded_entry_ranks_below_its_successor_and_says_so(memory, workspace):
    old = await memory.remember("The cache is Redis, which is fast.", metadata={"tags": "infra"})
    new = await memory.remember("The cache is Valkey.", supersedes=old.chunk)
    assert lines_of(workspace / old.path)[2:] == [
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


async def test_an_expired_entry_keeps_its_date_when_it_is_superseded(memory, workspace):
    old = await memory.remember("We are in sprint five.", metadata={"valid_until": "2026-01-01"})
    new = await memory.remember("We are in sprint six.", supersedes=old.chunk)
    assert lines_of(workspace / old.path)[3] == f"  [valid_until: 2026-01-01; superseded_by: {new.id}]"


async def test_a_successor_is_found_although_it_lacks_the_words(memory):
    old = await memory.remember("We deploy with Capistrano.", source="team")
    new = await memory.remember("Releases go out by GitOps.", source="team", supersedes=f"{old.path}:{old.start_line}")
    results = await memory.search("capistrano")
    assert [(result.chunk == new.chunk, bool(result.outdated)) for result in results] == [(True, False), (False, True)]
    assert [result.chunk == new.chunk for result in await memory.search("capistrano", max_results=1)] == [True]
    assert [bool(result.outdated) for result in await memory.search("capistrano", source="team")] == [False, True]


async def test_successors_may_be_in_other_files_and_form_a_chain(memory, workspace, write):
    file = write("memory/zoo.md", "# Zoo\n\nOtters are fish.\nThey swim.\n\nDogs bark.\n")
    second = await memory.remember("Otters are birds.", file="likes.md", supersedes="memory/zoo.md:4")
    third = await memory.remember("Otters are mammals.", source="zoo", supersedes=second.chunk)
    assert third.id != second.id
    assert lines_of(file)[:6] == [
        *("# Zoo", "", "Otters are fish.", "They swim."),
        f"[superseded_by: {second.id}; valid_until: {memory.config.today()}]",
        "",
    ]
    results = await memory.search("fish")
    assert results[0].chunk == third.chunk
    assert {bool(result.outdated) for result in results[1:]} == {True}


async def test_lines_that_are_not_one_entry_cannot_be_superseded(memory, workspace, write):
    write("memory/zoo.md", "# Zoo\n\nOtters swim.\n\nDogs bark.\n")
    for place in ("memory/zoo.md:1", "memory/zoo.md:3-5", "memory/zoo.md:9"):
        with pytest.raises(QueryError):
            await memory.remember("Otters sleep.", supersedes=place)
    assert sorted(path.name for path in (workspace / "memory").iterdir()) == ["zoo.md"]


@pytest.mark.parametrize("files", [("a.md", "a.md"), ("a.md", "b.md")])
@pytest.mark.parametrize("first", ["old", "new"])
async def test_an_existing_entry_can_supersede_another_one(memory, workspace, files, first):
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


async def test_a_successor_is_named_by_the_line_of_its_entry(notebook, workspace):
    await notebook.remember("office in Bonn", file="facts.md")
    await notebook.remember("office in Cologne", file="facts.md", heading="Now", supersedes="memory/facts.md:1")
    lines = (workspace / "memory/facts.md").read_text("utf-8").split("\n")
    line = lines.index("- office in Cologne") + 1
    (outdated,) = [result.outdated for result in await notebook.search("office") if result.outdated]
    assert outdated.startswith(f"superseded by memory/facts.md:{line}")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
async def test_a_place_may_be_in_a_file_with_a_line_feed_in_its_name(notebook, workspace, write):
    write("memory/two\nlines.md", "# Facts\n\n- office in Bonn\n")
    await notebook.remember("office in Cologne", supersedes="memory/two\nlines.md:3")
    assert "superseded_by: " in (workspace / "memory/two\nlines.md").read_text("utf-8")


async def test_a_superseded_entry_is_not_superseded_by_another_one(notebook, workspace):
    await notebook.remember("Lead is Ann.", file="l.md")
    bob = await notebook.remember("Lead is Bob.", file="l.md", supersedes="memory/l.md:1")
    before = (workspace / "memory/l.md").read_text("utf-8")
    with pytest.raises(QueryError, match=r"was superseded before, by memory/l\.md:3"):
        await notebook.remember("Lead is Cid.", file="l.md", supersedes="memory/l.md:1")
    assert (workspace / "memory/l.md").read_text("utf-8") == before
    again = await notebook.remember("Lead is Bob.", file="l.md", supersedes="memory/l.md:1")
    assert again.duplicate_of is not None
    cid = await notebook.remember("Lead is Cid.", file="l.md", supersedes=bob.chunk)
    assert next(iter(await outdated_by_text(notebook, "Lead"))) == "- Lead is Cid."
    await notebook.forget(path="memory/l.md", start=cid.start_line, end=cid.end_line)
    await notebook.remember("Lead is Dot.", file="l.md", supersedes="memory/l.md:3-4")  # what it names is gone


async def test_an_inner_item_is_not_superseded_with_its_list(notebook, workspace):
    text = "- zoo\n  - zebra\n  - lion\n"
    (workspace / "memory/a.md").write_text(text, "utf-8")
    with pytest.raises(QueryError, match=r"memory/a\.md:2 is an item within another one.*name memory/a.md:1-3"):
        await notebook.remember("two zebras", supersedes="memory/a.md:2")
    assert (workspace / "memory/a.md").read_text("utf-8") == text


async def test_a_table_or_code_cannot_be_superseded(notebook, workspace):
    text = "# Run\n\n```sh\nkubectl apply\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    (workspace / "memory/a.md").write_text(text, "utf-8")
    for line in (4, 9):
        with pytest.raises(QueryError, match="is a table or a block of code"):
            await notebook.remember("new", supersedes=f"memory/a.md:{line}")
    assert (workspace / "memory/a.md").read_text("utf-8") == text


async def test_a_comment_can_be_superseded_and_front_matter_cannot(notebook, workspace):
    (workspace / "memory/a.md").write_text("---\ntitle: zebra\n---\n\n<!-- one\n\ntwo -->\n", "utf-8")
    note = await notebook.remember("no zebra", supersedes="memory/a.md:5")
    assert f"two -->\n[superseded_by: {note.id}" in (workspace / "memory/a.md").read_text("utf-8")
    with pytest.raises(QueryError, match="there is no entry that could be superseded"):
        await notebook.remember("zebra", supersedes="memory/a.md:2")


async def test_an_item_with_a_tab_can_be_superseded(notebook, workspace):
    (workspace / "memory/a.md").write_text("-\tzebra\n", "utf-8")
    await notebook.remember("two zebras", file="a.md", supersedes="memory/a.md:1")
    assert (workspace / "memory/a.md").read_text("utf-8").startswith("-\tzebra\n  [superseded_by: ")
    assert (await notebook.remember("zebra", file="a.md")).duplicate_of is None  # it is believed again


async def test_a_file_whose_encoding_lacks_a_letter_is_not_changed(notebook, workspace):
    file = workspace / "memory/old.md"
    file.write_bytes("- zebra straße\n".encode("cp1252"))
    with pytest.raises(MemoryFileError, match="Save it as UTF-8 first"):
        await notebook.remember("two zebras", metadata={"id": "中文"}, supersedes="memory/old.md:1")
    assert file.read_bytes() == "- zebra straße\n".encode("cp1252")


async def test_an_id_is_unique(notebook):
    await notebook.remember("The cache is Valkey.", metadata={"id": "k1"})
    with pytest.raises(QueryError, match='There is an entry with the id "k1" already: memory/'):
        await notebook.remember("The cache is evil.", file="0.md", metadata={"id": "k1"})


async def test_of_two_successors_with_one_id_that_of_the_same_source_is_used(notebook, workspace):
    for path, text in {
        "0/a.md": "- The cache is evil.\n  [id: k1]\n",
        "team/a.md": "- The cache is Redis.\n  [superseded_by: k1]\n",
        "team/b.md": "- The cache is Valkey.\n  [id: k1]\n",
    }.items():
        (workspace / "memory" / path).parent.mkdir(exist_ok=True)
        (workspace / "memory" / path).write_text(text, "utf-8")
    (redis,) = [result for result in await notebook.search("redis") if "Redis" in result.text]
    assert redis.outdated == "superseded by memory/team/b.md:1"


async def test_a_forgotten_successor_is_reported_as_missing(notebook):
    await notebook.remember("zebra one", file="a.md")
    new = await notebook.remember("zebra two", file="a.md", supersedes="memory/a.md:1")
    await notebook.forget(path="memory/a.md", start=new.start_line, end=new.end_line)
    (outdated,) = (await outdated_by_text(notebook, "zebra")).values()
    assert outdated == f"superseded by {new.id}, which does not exist"


async def test_a_notice_names_the_copies_of_what_is_superseded(memory):
    copies = [await memory.remember("The cache is Redis.", source=source) for source in ("one", "two", "three")]
    note = await memory.remember("The cache is Valkey.", source="one", supersedes=copies[0].id)
    assert f"What was superseded is also said in {copies[2].place}, {copies[1].place}." in note.notices
    note = await memory.remember("The cache is Valkey.", source="one", supersedes=str(copies[1].place))
    assert (note.duplicate_of is not None, list(note.notices)) == (
        True,
        [f"What was superseded is also said in {copies[2].place}."],
    )
    note = await memory.remember("The cache is Valkey.", source="one", supersedes=str(copies[2].place))
    assert not any("also said" in notice for notice in note.notices)


async def test_a_successor_that_says_the_same_is_no_copy(memory):
    old = await memory.remember("The cache is Redis.", source="one")
    for _ in ("added", "found"):
        note = await memory.remember("The cache is Redis.", source="two", supersedes=f"{old.path}:{old.start_line}")
        assert not any("also said" in notice for notice in note.notices)


async def test_copies_beyond_the_scope_are_not_named(workspace):
    async with Memory(configured(workspace), scope="alice") as alice, Memory(configured(workspace), scope="bob") as bob:
        old = await alice.remember("The cache is Redis.")
        await bob.remember("The cache is Redis.")
        note = await alice.remember("The cache is Valkey.", supersedes=old.id)
    assert not any("also said" in notice for notice in note.notices)


# --- as of a day ---------------------------------------------------------------------------------------------------


async def test_a_search_may_ask_what_was_valid_on_a_day(memory, write):
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


@pytest.mark.parametrize("is_there", [False, True])
async def test_a_correction_counts_from_the_day_of_its_file(memory, write, workspace, is_there):
    old = write("memory/2026-01-10.md", "- The cache is Redis.\n")
    if is_there:
        write("memory/2026-03-01.md", "- The cache is Valkey.\n")
    new = await memory.remember("The cache is Valkey.", file="2026-03-01.md", supersedes="memory/2026-01-10.md:1")
    assert f"[superseded_by: {new.id}; valid_until: 2026-03-01]" in old.read_text("utf-8")
    for day, path in (("2026-02-28", "memory/2026-01-10.md"), ("2026-03-01", new.path), ("2026-03-02", new.path)):
        found = await memory.search("cache", as_of=day)
        assert [result.path for result in found if not result.outdated] == [path]


async def test_a_successor_in_an_evergreen_file_was_unknown_before_it_superseded(memory, write):
    write("memory/2026-01-10.md", "- The cache is Redis.\n  [superseded_by: b2; valid_until: 2026-03-01]\n")
    write("memory/cache.md", "- The cache is Valkey.\n  [id: b2]\n")
    before = {result.path: bool(result.outdated) for result in await memory.search("cache", as_of="2026-02-01")}
    assert before["memory/2026-01-10.md"] is False
    after = [(result.path, bool(result.outdated)) for result in await memory.search("cache", as_of="2026-03-02")]
    assert after == [("memory/cache.md", False), ("memory/2026-01-10.md", True)]


async def test_an_entry_is_not_found_as_of_a_day_before_it_was_valid(notebook, workspace):
    (workspace / "memory/facts.md").write_text(
        "- office in Bonn\n  [superseded_by: c; valid_until: 2026-03-01]\n- office in Cologne\n  [id: c]\n", "utf-8"
    )
    assert list(await outdated_by_text(notebook, "office", as_of="2026-02-01")) == ["- office in Bonn"]
    assert await outdated_by_text(notebook, "office", as_of="2026-02-01") == {"- office in Bonn": ""}
    assert list(await outdated_by_text(notebook, "office", as_of="2026-03-01")) == [
        "- office in Cologne",
        "- office in Bonn",
    ]
    assert list(await outdated_by_text(notebook, "office")) == ["- office in Cologne", "- office in Bonn"]


async def test_entries_of_other_scopes_do_not_supersede(workspace):
    async with Memory(configured(workspace), scope="alice") as alice, Memory(configured(workspace), scope="bob") as bob:
        await alice.remember("zebra", metadata={"id": "one"}, file="a.md")
        await bob.remember("lion", metadata={"superseded_by": "one", "valid_until": "2030-01-01"})
        assert len(await alice.search("zebra", as_of="2029-12-15")) == 1


async def test_entries_that_supersede_each_other_are_both_outdated_by_text(memory, write):
    write("memory/a.md", "- alpha one\n  [id: a; superseded_by: b]\n- alpha two\n  [id: b; superseded_by: a]\n")
    write("memory/b.md", "- alpha alone\n  [id: c; superseded_by: c]\n- alpha lost\n  [superseded_by: none]\n")
    results = await memory.search("alpha")
    assert len(results) == 4
    assert [result.outdated for result in results if "lost" in result.text] == [
        "superseded by none, which does not exist"
    ]


async def test_a_successor_must_match_the_filters_of_the_search(memory, write):
    write("memory/one/2026-01-10.md", "- alpha old\n  [superseded_by: b]\n")
    write("memory/two/2026-01-20.md", "- beta new\n  [id: b]\n")
    assert [result.source for result in await memory.search("alpha")] == ["two", "one"]
    assert [result.source for result in await memory.search("alpha", source="one")] == ["one"]
    assert [result.source for result in await memory.search("alpha", until="2026-01-15")] == ["one"]
