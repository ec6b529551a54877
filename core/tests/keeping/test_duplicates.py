"""Texts that the memory has already are not written again; similar ones are, and are reported."""

from __future__ import annotations

import asyncio
import unicodedata

import pytest
from entry_chunks import EntryChunker, entries_in, with_entries

from kipu import Memory

FACT = "Otters hold hands while they sleep."


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
    "text", ["```\nopen", "# Heading\n\ntext", "[tags: a]", "a\n[tags: a]", "    code", "---\na: b\n---"]
)
async def test_a_duplicate_is_found_whatever_it_looks_like(memory, workspace, text):
    first = await memory.remember(text)
    second = await memory.remember(text)
    assert str(second.duplicate_of) == f"{first.path}:{first.start_line}" + (
        f"-{first.end_line}" if first.end_line > first.start_line else ""
    )
    assert len(entries_in(workspace / first.path)) == 1


async def test_a_text_that_was_written_by_hand_is_a_duplicate_too(memory, write):
    write("memory/zoo.md", f"# Zoo\n\nOtters hold hands\nwhile they sleep.\n[origin: a book]\n\n* {FACT} Really.\n")
    note = await memory.remember(FACT)
    assert (note.path, str(note.duplicate_of)) == ("memory/zoo.md", "memory/zoo.md:3-5")
    note = await memory.remember(f"{FACT} Really.")
    assert str(note.duplicate_of) == "memory/zoo.md:7"


async def test_another_source_may_have_the_same_text(memory, workspace):
    notices = [await memory.remember(FACT, source=source) for source in ("one", "two", None)]
    assert [note.duplicate_of for note in notices] == [None] * 3
    (result,) = await memory.search("otters")
    assert len(result.also_in) == 2


async def test_letters_and_marks_make_a_difference(memory, workspace):
    texts = ["The limit is 10", "The limit is 10.", "the limit is 10", "The limit is \u2460\u24ea", "The limit is 1 0"]
    for text in texts:
        assert (await memory.remember(text, file="limits.md")).duplicate_of is None
    assert [entry.text for entry in entries_in(workspace / "memory/limits.md")] == texts


async def test_a_duplicate_is_found_if_the_chunker_cuts_its_words(workspace):
    async with Memory(with_entries(workspace, chunker=EntryChunker(longest=50))) as memory:
        text = f"The key is {'0123456789' * 20}."
        await memory.remember(text)
        assert (await memory.remember(text)).duplicate_of is not None


async def test_a_duplicate_is_found_below_a_fence_that_was_left_open(memory, write):
    write("memory/likes.md", "```\nthis was never closed\n")
    await memory.remember(FACT, file="likes.md")
    assert (await memory.remember(FACT, file="likes.md")).duplicate_of is not None


async def test_a_duplicate_from_another_process_is_found(memory, workspace):
    await memory.search("otters")
    async with Memory(with_entries(workspace)) as another:
        first = await another.remember(FACT)
    assert (await memory.remember(FACT)).duplicate_of is not None
    (workspace / first.path).unlink()
    assert (await memory.remember(FACT)).duplicate_of is None


async def test_a_text_that_several_tasks_remember_is_written_once(memory, workspace):
    notices = await asyncio.gather(*(memory.remember(FACT) for _ in range(8)))
    assert sum(note.duplicate_of is None for note in notices) == 1
    assert len(entries_in(workspace / notices[0].path)) == 1


async def test_a_duplicate_gets_no_new_metadata_and_a_notice_says_so(notebook):
    await notebook.remember("alpha", file="a.md")
    note = await notebook.remember("alpha", file="a.md", metadata={"tags": "x"})
    assert list(note.notices) == ["This text was remembered before. The metadata of that entry was not changed."]


async def test_near_duplicates_are_kept_and_reported(memory, workspace):
    first = await memory.remember("The staging database listens on port 5432 of the host alpha today.")
    second = await memory.remember("The staging database listens on port 5433 of the host alpha today.")
    assert second.duplicate_of is None
    assert [str(place) for place in second.similar] == [f"{first.path}:{first.start_line}"]
    assert 0.7 <= second.similar[0].similarity < 1
    assert len(entries_in(workspace / first.path)) == 2
    third = await memory.remember("Bananas are yellow.")
    assert list(third.similar) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("We ship on Friday", "We ship on Friday."),
        (
            "Jonas works from Lisbon and is offline on Fridays.",
            "Jonas works from Lisbon, and is offline on Fridays!",
        ),
        ("The port is 8080.", "The port is 9090."),
        ("Jonas is unavailable on each Friday of May.", "Jonas is unreachable on each Friday of May."),
    ],
)
async def test_near_duplicates_are_found_whichever_word_or_mark_differs(memory, first, second):
    await memory.remember("The cat is black.", file="a.md")
    note = await memory.remember(first, file="b.md")
    assert [*map(str, (await memory.remember(second, file="c.md")).similar)] == [str(note.place)]


async def test_near_duplicates_of_a_script_without_spaces_are_reported(memory):
    await memory.remember("\u6771\u4eac\u306e\u4e8b\u52d9\u6240\u306f\u4e09\u968e\u306b\u3042\u308a\u307e\u3059")
    note = await memory.remember("\u6771\u4eac\u306e\u4e8b\u52d9\u6240\u306f\u56db\u968e\u306b\u3042\u308a\u307e\u3059")
    assert len(note.similar) == 1


async def test_a_superseded_text_may_be_remembered_again(memory, workspace):
    first = await memory.remember("The cache is Redis.")
    second = await memory.remember("The cache is Valkey.", supersedes=first.chunk)
    third = await memory.remember("The cache is Redis.", supersedes=second.chunk)
    assert third.duplicate_of is None
    assert [(result.text.split("\n")[0], bool(result.outdated)) for result in await memory.search("cache")] == [
        ("- The cache is Redis.", False),
        ("- The cache is Valkey.", True),
        ("- The cache is Redis.", True),
    ]


async def test_a_superseded_text_that_is_said_again_is_believed_again_and_a_notice_says_so(memory):
    first = await memory.remember("The cache is Redis.", file="a.md")
    second = await memory.remember("The cache is Valkey.", file="b.md", supersedes=first.id)
    for text in ("The cache is Redis.", "- Ada looks after it.\n- The cache is Redis."):
        third = await memory.remember(text, file="c.md")
        by = f"{second.id} (memory/b.md:1-2)"
        assert third.notices == [f'"The cache is Redis." was superseded by {by}, and is believed again beside it.']
        assert third.duplicate_of is None
        await memory.undo()
    fourth = await memory.remember("The cache is Redis.", supersedes=second.id)
    assert [notice.partition(":")[0] for notice in fourth.notices] == ["It supersedes memory/b.md"]


@pytest.mark.parametrize("outdated", ["superseded_by: x", "valid_until: 2000-01-01"])
async def test_a_text_that_is_said_again_has_an_id_of_its_own(memory, write, outdated):
    write("memory/a.md", f"- The cache is Redis.\n  [{outdated}]\n- Eve left.\n  [{outdated}]\n")
    note = await memory.remember("The cache is Redis.", file="b.md")
    await memory.remember("- Eve left.\n- Ada came.", file="b.md")
    ids = [entry.id for entry in await memory.entries()]
    assert (len(ids), len(set(ids)), note.id) == (5, 5, ids[2])
    assert (await memory.edit("The cache is Valkey.", id=note.id)).place == note.place
    await memory.forget(id=ids[0])
    assert [entry.id for entry in await memory.entries()] == ids[1:]


async def test_an_edit_that_makes_a_copy_names_the_other_place(memory, write):
    write("memory/a.md", "- one\n- two\n")
    write("memory/b.md", "- three\n  [superseded_by: x]\n- four\n")
    write("memory/other/c.md", "- five\n")
    note = await memory.edit("one", path="memory/b.md", start=3)
    assert (str(note.duplicate_of), note.notices) == ("memory/a.md:1", ["memory/a.md:1 says the same."])
    for text in ("three", "five", "one of them"):  # outdated, of another source, no copy
        assert (await memory.edit(text, path="memory/b.md", start=3, end=4)).duplicate_of is None


async def test_an_edit_to_the_same_text_changes_nothing_and_says_so(memory, write):
    file = write("memory/a.md", "- one\n- two\n")
    before = file.stat()
    note = await memory.edit("two", path="memory/a.md", start=2)
    assert (note.replaced, note.change, note.duplicate_of) == ("", None, None)
    assert note.notices == ["Nothing was changed: that is what is there."]
    assert (file.stat().st_ino, await memory.changes()) == (before.st_ino, [])


async def test_an_expired_text_may_be_remembered_again(memory):
    await memory.remember("The office is closed.", metadata={"valid_until": "2001-01-01"})
    note = await memory.remember("The office is closed.")
    assert note.duplicate_of is None
    day = memory.config.today().isoformat()
    assert note.notices == [f'"The office is closed." is in memory/{day}.md:3 too, valid until 2001-01-01.']
    assert (await memory.remember("The office is closed.")).duplicate_of is not None
