"""Equal texts are one result, with the other places named."""

from __future__ import annotations

from entry_chunks import EntryChunker

from kipu import Memory
from kipu.types import Place


async def test_copies_leave_their_places_to_other_facts(memory, write):
    for name in "abcde":
        write(f"memory/{name}.md", "The valkey cache is full.\n")
    write("memory/f.md", "The valkey runs on ada.\n")
    results = await memory.search("valkey cache", max_results=3)
    assert [result.path for result in results] == ["memory/a.md", "memory/f.md"]
    assert results[0].also_in == tuple(Place(f"memory/{name}.md", 1, 1) for name in "bcde")
    assert results[1].also_in == ()


async def test_white_space_marks_and_dates_do_not_make_another_text(memory, write):
    write("memory/2026-11-28.md", "# 2026-11-28\n\n- The  valkey is full.\n  [session: 1]\n")
    write("memory/2026-11-29.md", "# 2026-11-29\n\n* The valkey\n  is full.\n")
    write("memory/plan.md", "# Plan\n\nThe valkey is full.\n")
    results = await memory.search("valkey full")
    assert sorted(len(result.also_in) for result in results) == [0, 1]


async def test_more_copies_than_a_search_looks_at_leave_their_places_too(memory, write):
    for number in range(90):
        write(f"memory/{number:02}.md", "The valkey cache is full.\n")
    write("memory/other.md", "The valkey runs on ada.\n")
    results = await memory.search("valkey cache", max_results=2)
    assert [len(result.also_in) for result in results] == [89, 0]


async def test_a_scope_learns_of_no_copies_beyond_it(config, write):
    write("memory/alice/a.md", "The valkey cache is full.\n")
    write("memory/bob/a.md", "The valkey cache is full.\n")
    async with Memory(config(), scope="alice") as memory:
        (result,) = await memory.search("valkey")
    assert result.also_in == ()


async def test_what_is_outdated_stays_a_result_beside_its_copy(config, write):
    write("memory/a.md", "- The valkey cache is full.\n  [superseded_by: c.md]\n")
    write("memory/b.md", "- The valkey cache is full.\n")
    async with Memory(config(index={"chunker": EntryChunker()})) as memory:
        results = await memory.search("valkey")
    assert [bool(result.outdated) for result in results] == [False, True]


async def test_an_explanation_names_the_stage(memory, write):
    write("memory/a.md", "valkey\n")
    write("memory/b.md", "valkey\n")
    results = await memory.search("valkey", explain_path="memory/b.md")
    assert "the stage duplicates dropped it" in results.absence
