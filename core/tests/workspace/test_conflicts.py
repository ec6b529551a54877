"""Conflict copies of tools for synchronisation."""

from __future__ import annotations

import unicodedata

import pytest

from kipu.workspace.paths import find_conflicts

COPIES = [
    "x (conflicted copy).md",
    "x (Ann's conflicted copy 2026-11-28).md",
    "x (Ann's Conflicted Copy 2026-11-28 (1)).md",
    "x (conflicted copy 2026-11-28 101112).md",
    "x.sync-conflict-20261128-101112-ABCDEFG.md",
    "x_conflict-20261128-101112.md",
    "x 2.md",
]


@pytest.mark.parametrize("name", COPIES)
async def test_a_conflict_copy_ranks_below_its_original_and_is_named(memory, write, name):
    copy, original = f"memory/team/{name}", "memory/team/x.md"
    write(copy, "The valkey port is 6379.\n\nThe port of valkey.\n")
    write(original, "A port of valkey is 6380, for all of us.\n\nThe port of valkey.\n")
    results = await memory.search("valkey port")
    assert [result.path for result in results] == [original, original, copy]
    assert [place.path for result in results for place in result.also_in] == [copy]
    assert (await memory.status()).conflicts == {copy: original}


@pytest.mark.parametrize("name", [*COPIES, "conflicted copy.md", "x 20.md", "x2.md", "x (2).md"])
async def test_without_an_original_it_is_a_file_like_others(memory, write, name):
    write(f"memory/{name}", "The port of valkey is 6379.")
    write("memory/deep/x.md", "Nothing.")
    (result,) = await memory.search("valkey port")
    assert (result.path, result.score) == (f"memory/{name}", 1.0)
    assert (await memory.status()).conflicts == {}


async def test_what_its_original_does_not_say_keeps_its_score(memory, write):
    write("memory/chapter.md", "Whales sing.")
    write("memory/chapter 2.md", "The port of valkey is 6379.")
    (result,) = await memory.search("valkey port")
    assert (result.path, result.score) == ("memory/chapter 2.md", 1.0)


def test_an_original_is_found_whatever_the_composition_of_its_name():
    name = unicodedata.normalize("NFD", "memory/café")
    assert find_conflicts([f"{name} 2.md", "memory/café.md"]) == {f"{name} 2.md": "memory/café.md"}
