"""Entries are named by ids, which edits and moves keep; what names several entries is refused unless all are meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest
from entry_chunks import lines_of, with_entries
from redaction import configured

from kipu import Memory
from kipu.errors import ChunkNotFoundError, FileChangedError, QueryError
from kipu.markdown import derive_id
from kipu.testing import ParagraphChunker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# Two texts whose derived ids in the source "memory" begin alike.
ALIKE = ("note 406593", "note 773463")
LIST = "# A\n\n- alpha\n- beta\n  more\n- gamma\n"


@pytest.fixture
def verbs(memory: Memory) -> list[Callable[..., Awaitable[Any]]]:
    async def edit(**named: Any) -> Any:
        return await memory.edit("- new", **named)

    async def move(**named: Any) -> Any:
        return await memory.move("to.md", **named)

    return [edit, move, memory.forget]


async def test_every_note_and_result_of_an_entry_has_an_id_and_prose_has_none(memory, write):
    write("memory/prose.md", "Zebras are striped.\n")
    note = await memory.remember("The zebra likes plums.")
    named = await memory.remember("The zebra sleeps.", metadata={"id": "nap"})
    again = await memory.remember("The  zebra likes plums.")
    assert note.id == derive_id("memory", "The zebra likes plums.")[:8] == again.id
    assert {result.text.split("\n")[0]: result.id for result in await memory.search("zebra zebras")} == {
        "Zebras are striped.": None,
        "- The zebra likes plums.": note.id,
        "- The zebra sleeps.": named.id,
    }
    assert await memory.read(id=note.id) == "- The zebra likes plums."
    assert await memory.read(id=named.id) == "- The zebra sleeps.\n  [id: nap]"


async def test_an_edited_entry_keeps_its_id_however_it_is_named(memory, write):
    file = write("memory/a.md", LIST)
    id = (await memory.entries())[1].id
    note = await memory.edit("BETA", id=id)
    assert (note.id, note.start_line, note.end_line) == (id, 4, 5)
    assert file.read_text("utf-8") == f"# A\n\n- alpha\n- BETA\n  [id: {id}]\n- gamma\n"
    for named in ({"chunk": note.chunk}, {"path": "memory/a.md", "start": 4}, {"id": id}):
        assert (await memory.edit(f"- by {next(iter(named))}", **named)).id == id
    assert [entry.id for entry in await memory.entries()][1] == id
    assert (await memory.edit("- with tags\n  [tags: x]", id=id)).id == id
    assert lines_of(file)[4] == f"  [tags: x; id: {id}]"
    assert (await memory.edit("- own\n  [id: own]", id=id)).id == "own"


@pytest.mark.parametrize(
    ("text", "lines", "new", "after"),
    [
        ("- a\r\n- b\r\n", 2, "B", "- a\r\n- B\r\n  [id: {}]\r\n"),
        ("- a\n- b", 2, "B", "- a\n- B\n  [id: {}]"),
        ("- a\n- b\n  - c\n", 3, "  - C", "- a\n- b\n  - C\n  [id: {}]\n"),
        ("- a\n- b\n", 2, "- B\n- C", "- a\n- B\n  [id: {}]\n- C\n"),
        ("- a\n- b\n", 2, "## B", "- a\n## B\n"),
        ("- a\n- b\n", 2, "-  b", "- a\n-  b\n"),  # says the same
        ("- a\n\nprose\n", 3, "other", "- a\n\nother\n"),
        ("- a\n\nprose\n[tags: x]\n", 3, "other", "- a\n\nother\n[tags: x; id: {}]\n"),
        ("- a\n\n> - b\n", 3, "> - B", "- a\n\n> - B\n"),
        ("- a\n  ```\n  b\n  ```\n---\n", 1, "- A", "- A\n  ```\n  b\n  ```\n  [id: {}]\n\n---\n"),
        ("- a\n  ```\n  b\n  ```\nprose\n", 1, "- A", "- A\n  ```\n  b\n  ```\n  [id: {}]\n\nprose\n"),
        ("  - a\n\n  b\n\n  [tags: x]\n", 1, "  - A", "  - A\n\n  b\n\n  [tags: x; id: {}]\n"),
    ],
)
async def test_an_id_is_written_where_an_edit_would_change_it(memory, write, text, lines, new, after):
    file = write("memory/a.md", text)
    ids = [entry.id for entry in await memory.entries()]
    await memory.edit(new, path="memory/a.md", start=lines)
    assert file.read_bytes().decode() == after.format(ids[-1])
    assert "{}" not in after or ids[-1] in [entry.id for entry in await memory.entries()]


async def test_an_id_is_not_given_twice(memory, write):
    file = write("memory/a.md", "one\ntwo\n[id: i]\n")
    await memory.edit("first\n\nsecond", path="memory/a.md", start=1)
    assert file.read_text("utf-8") == "first\n\nsecond\ntwo\n[id: i]\n"


async def test_an_indented_entry_that_moves_keeps_its_id(memory, write):
    write("memory/a.md", "## A\n\n  - alpha\n    [tags: x]\n")
    (entry,) = await memory.entries()
    assert (await memory.move("b.md", id=entry.id)).id == entry.id
    assert [(moved.id, moved.text) for moved in await memory.entries()] == [(entry.id, "alpha")]


async def test_an_entry_that_moves_keeps_its_id(memory, write):
    write("memory/a.md", LIST)
    ids = {entry.text: entry.id for entry in await memory.entries()}
    same = await memory.move("b.md", id=ids["alpha"])
    other = await memory.move("team/c.md", id=ids["beta\nmore"])
    assert (same.id, same.text) == (ids["alpha"], "- alpha")
    assert (other.id, other.text) == (ids["beta\nmore"], f"- beta\n  more\n  [id: {other.id}]")
    assert {entry.text: entry.id for entry in await memory.entries()} == ids
    inner = write("memory/d.md", "- outer\n  - inner\n")
    assert (await memory.move("team/c.md", path="memory/d.md", start=2)).text == "- inner"
    assert inner.read_text("utf-8") == "- outer\n"
    text = (await memory.move("deep/all.md", path="memory/a.md")).text
    assert text == "# A\n\n- gamma"  # a renamed file keeps its bytes


async def test_what_names_several_entries_is_refused_with_their_list(memory, write, verbs):
    file = write("memory/a.md", LIST)
    first, second, _ = [entry.id for entry in await memory.entries()]
    for verb in verbs:
        for named in ({"start": 3, "end": 5}, {"start": 4, "end": 6}, {"start": 1, "end": 6}):
            with pytest.raises(
                QueryError, match=rf"names \d entries.*--all(.|\n)*{second}  memory/a.md:4-5  beta more"
            ):
                await verb(path="memory/a.md", **named)
    with pytest.raises(QueryError, match=rf"{first}  memory/a.md:3  alpha"):
        await memory.forget(path="memory/a.md")
    with pytest.raises(QueryError, match="names 3 entries"):
        await memory.remember("new", supersedes="memory/a.md:3-6")
    assert file.read_text("utf-8") == LIST
    assert (await memory.edit("- one", path="memory/a.md", start=3, end=5, all=True)).replaced.count("\n") == 2
    assert file.read_text("utf-8") == "# A\n\n- one\n- gamma\n"
    assert (await memory.forget(path="memory/a.md", all=True)).complete


async def test_a_chunk_of_another_chunker_that_has_several_entries_is_refused(workspace, write):
    write("memory/a.md", "- plums\n- pears\n\nprose\n")
    config = with_entries(workspace, chunker=ParagraphChunker())
    async with Memory(config) as memory:
        result = (await memory.search("plums"))[0]
        assert (result.text, result.id) == ("- plums\n- pears", None)
        with pytest.raises(QueryError, match="names 2 entries"):
            await memory.forget(chunk=result.chunk)
        ids = [entry.id for entry in await memory.entries()]
        assert (await memory.edit("- apples", id=ids[0])).id == ids[0]
        await memory.forget(chunk=(await memory.search("apples"))[0].chunk, all=True)
    assert (workspace / "memory/a.md").read_text("utf-8") == "prose\n"


async def test_equal_texts_share_an_id_which_names_all_of_them(memory, write, verbs):
    files = [write("memory/a.md", "- same\n- other\n- same\n"), write("memory/b.md", "# B\n\n- same\n")]
    id = (await memory.entries())[0].id
    for verb in verbs:
        with pytest.raises(QueryError, match=f"{id} names 3 entries"):
            await verb(id=id)
    assert await memory.read(id=id) == "- same\n- same\n- same"
    note = await memory.edit("- new", id=id, all=True)
    line = f"- new\n  [id: {id}]\n"
    assert [file.read_text("utf-8") for file in files] == [f"{line}- other\n{line}", f"# B\n\n{line}"]
    assert (note.path, note.start_line, note.end_line, note.id) == ("memory/a.md", 1, 2, id)
    assert "3 entries have that id, and all were changed." in note.notices
    note = await memory.move("team/c.md", id=id, all=True)
    assert (note.text, files[1].exists()) == ((3 * line).rstrip("\n"), False)
    receipt = await memory.forget(id=id, all=True)
    assert receipt.complete
    assert [entry.text for entry in await memory.entries()] == ["other"]


async def test_equal_texts_that_are_forgotten_together_are_not_said_to_be_left(memory, write):
    write("memory/d.md", "- same\n\n## Other\n\n- same\n  [tags: x]\n")
    receipt = await memory.forget(id=(await memory.entries())[0].id, all=True)
    assert (receipt.complete, receipt.elsewhere) == (True, [])
    assert "2 entries have that id, and all were forgotten: memory/d.md:1, memory/d.md:5-6" in receipt.notices


async def test_as_many_characters_are_shown_as_tell_an_id_from_others(memory, write):
    write("memory/a.md", "".join(f"- {text}\n" for text in ALIKE))
    one, other = await memory.entries()
    assert (one.id[:8], len(one.id), len(other.id)) == (other.id[:8], 9, 9)
    with pytest.raises(QueryError, match="names 2 entries"):
        await memory.edit("- new", id=one.id[:8])
    assert await memory.read(id=other.id) == f"- {ALIKE[1]}"
    write("memory/b.md", f"- explicit\n  [id: {one.id[:8]}]\n")
    assert await memory.read(id=one.id[:8]) == f"- explicit\n  [id: {one.id[:8]}]"
    assert [entry.id for entry in await memory.entries()] == [one.id, other.id, one.id[:8]]
    async with Memory(memory.config, scope="elsewhere") as scope:
        note = await scope.remember("in a scope")
        assert len(note.id or "") == 8


async def test_an_id_that_is_taken_exactly_wins_over_the_beginning_of_a_derived_one(memory, write):
    derived = derive_id("memory", "plums")
    write("memory/a.md", f"- plums\n- pears\n  [id: {derived[:8]}]\n")
    assert [entry.id for entry in await memory.entries()] == [derived[:9], derived[:8]]
    await memory.edit("PEARS", id=derived[:8])
    await memory.edit("PLUMS", id=derived[:9])
    assert [(entry.text, entry.id) for entry in await memory.entries()] == [
        ("PLUMS", derived[:9]),
        ("PEARS", derived[:8]),
    ]
    for taken in (derived[:8], derive_id("memory", "figs")[:8]):
        await memory.remember("figs")
        with pytest.raises(QueryError, match=f'There is an entry with the id "{taken}" already'):
            await memory.remember("apples", metadata={"id": taken})


@pytest.mark.parametrize(
    "id", ["x", "a.md:3", "memory/a.md", "ö 中 '\"; --", "0123456789abcdef", "%_%", "A" * 60, "-y"]
)
async def test_an_id_may_have_any_characters(memory, id):
    note = await memory.remember("plums", metadata={"id": id})
    assert note.id == id
    assert (await memory.edit("pears", id=id)).id == id
    assert [(entry.text, entry.id) for entry in await memory.entries()] == [("pears", id)]
    assert (await memory.search("pears"))[0].id == id
    assert (await memory.forget(id=id)).complete


async def test_an_id_that_no_text_file_has_hides_no_entry(memory, write):
    write("memory/a.md", '- plums\n  [id: "\\ud800"]\n- pears\n  [id: "a\\u0000b"]\n- figs\n')
    entries = await memory.entries()
    assert [entry.text for entry in entries] == ["plums", "pears", "figs"]
    for entry in entries:
        assert (await memory.edit("new", id=entry.id)).id == entry.id


async def test_ids_of_other_scopes_name_nothing_and_lengthen_none(workspace):
    async with (
        Memory(configured(workspace), scope="alice") as alice,
        Memory(configured(workspace), scope="bob") as bob,
    ):
        ours, theirs = await alice.remember("plums"), await bob.remember("plums", metadata={"id": "p1"})
        await bob.remember("trap", metadata={"id": ours.id})
        assert (await alice.entries())[0].id == ours.id == (await alice.search("plums"))[0].id
        for id in (theirs.id, derive_id("bob", "trap")[:8]):
            with pytest.raises(ChunkNotFoundError, match="There is no entry with the id"):
                await alice.forget(id=id)
        await alice.remember("figs", metadata={"id": "p1"})
        assert (await alice.edit("mine", id=ours.id)).replaced == "- plums"
        assert [entry.text for entry in await bob.entries()] == ["plums", "trap"]


async def test_what_is_named_is_one_thing_that_exists(memory, write):
    write("memory/a.md", LIST)
    for named in ({}, {"id": "a", "chunk": "b"}, {"id": "a", "path": "memory/a.md"}):
        with pytest.raises(QueryError, match="Name one of these: an id, a chunk, or a path"):
            await memory.forget(**named)
    with pytest.raises(QueryError, match="have their own lines"):
        await memory.edit("new", id="abcdefgh", start=3)
    with pytest.raises(ChunkNotFoundError, match="named by at least 8 characters"):
        await memory.forget(id=(await memory.entries())[0].id[:7])
    (result,) = await memory.search("beta")
    assert await memory.read(id=result.chunk) == "- beta\n  more"  # the shell cannot tell a chunk from an id
    with pytest.raises(FileChangedError, match="does not say what was expected"):
        await memory.forget(id=result.id, expected="- BETA")
    assert (await memory.forget(id=result.id, expected="- beta\n  more\n")).complete


async def test_lines_that_shift_do_not_change_what_an_id_names(memory, write):
    write("memory/a.md", LIST)
    id = (await memory.entries())[1].id
    file = write("memory/a.md", f"- first\n\n```\n- beta\n```\n\n{LIST}")
    await memory.edit("BETA", id=id)
    assert file.read_text("utf-8").endswith(f"- alpha\n- BETA\n  [id: {id}]\n- gamma\n")


# --- superseding -----------------------------------------------------------------------------------------------------


async def test_a_text_that_is_believed_again_gets_another_id(memory):
    old = await memory.remember("Heron is hosted at Hetzner.", file="old.md")
    new = await memory.remember("Heron is hosted at OVH.", supersedes=old.id)
    back = await memory.remember("Heron is hosted at Hetzner.", supersedes=new.id)
    assert len({old.id, new.id, back.id}) == 3
    assert (
        await memory.read(id=old.id)
        == f"- Heron is hosted at Hetzner.\n  [superseded_by: {new.id}; valid_until: {memory.config.today()}]"
    )
    await memory.forget(id=old.id)
    assert {entry.id: entry.outdated for entry in await memory.entries()} == {
        new.id: f"superseded by {back.id}",
        back.id: "",
    }
    last = await memory.remember("Heron is hosted at AWS.", supersedes=back.id)
    assert [result.id for result in await memory.search("heron hosted") if not result.outdated] == [last.id]


@pytest.mark.parametrize("by", ["id", "chunk", "place"])
async def test_an_entry_is_superseded_by_any_of_its_names(memory, by):
    old = await memory.remember("The cache is Redis.")
    new = await memory.remember("The cache is Valkey.", supersedes=str(getattr(old, by)))
    assert new.id == derive_id("memory", "The cache is Valkey.")[:8]
    first, second = await memory.entries()
    assert (first.metadata["superseded_by"], second.metadata) == (new.id, {"id": new.id})
    assert (first.id, first.outdated) == (old.id, f"superseded by {new.id}")
    assert [result.id for result in await memory.search("cache redis")] == [new.id, old.id]


async def test_a_successor_may_be_named_by_a_derived_id(memory, write):
    id = derive_id("memory", "The cache is Valkey.")[:8]
    write("memory/a.md", f"- The cache is Redis.\n  [superseded_by: {id}]\n- The cache is Valkey.\n")
    assert [result.outdated for result in await memory.search("cache redis")] == ["", "superseded by memory/a.md:3"]
    receipt = await memory.forget(id=id)
    assert f"memory/a.md:1-2 names {derive_id('memory', 'The cache is Valkey.')} as its successor" in receipt.notices[0]


# --- listing ---------------------------------------------------------------------------------------------------------


async def test_entries_are_listed_with_what_is_known_of_them(notebook, write):
    write("memory/a.md", "# Zoo\n\nProse.\n\n## Birds\n\n- owl\n  [tags: night, birds of prey; id: o1]\n- > quoted\n")
    write("memory/team/2026-11-29.md", "A paragraph.\n[tags: #Night; valid_until: 2026-11-30]\n\n> - quoted\n")
    write("memory/archive/team/2025-01-01.md", "- archived\n")
    owl, quoted, paragraph = await notebook.entries()
    assert attrs.asdict(owl) == {
        "id": "o1",
        "path": "memory/a.md",
        "start_line": 7,
        "end_line": 8,
        "text": "owl",
        "source": "memory",
        "date": None,
        "heading": "Zoo > Birds",
        "metadata": {"tags": "night, birds of prey", "id": "o1"},
        "outdated": "",
    }
    assert (quoted.text, quoted.start_line) == ("> quoted", 9)
    assert (paragraph.text, paragraph.outdated) == ("A paragraph.", "valid until 2026-11-30")
    assert await notebook.entries("team") == await notebook.entries(since="2026-11-29") == [paragraph]
    assert await notebook.entries(tag="night") == [owl, paragraph]
    assert await notebook.entries(tag="Birds of Prey") == [owl]
    assert [entry.text for entry in await notebook.entries("archive")] == ["archived"]
    assert await notebook.entries(where={"id": "o1"}, path="memory/*.md") == [owl]
