"""Names with accents, composed or not, and the two ways of naming a file of the memory."""

from __future__ import annotations

import os
import unicodedata

import pytest

from kipu import Memory

NFC, NFD = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))


@pytest.mark.parametrize(("disk", "named"), [(NFC, NFD), (NFD, NFC), (NFC, NFC)], ids=ascii)
async def test_a_name_is_the_same_composed_or_not(config, workspace, write, disk, named):
    write(f"memory/{disk}/{disk}.md", "- valkey\n")
    write(f"{disk}/top.md", "- redis\n")
    async with Memory(config(files={"paths": [named]})) as memory:
        assert await memory.read(f"memory/{named}/{named}.md") == "- valkey"
        note = await memory.remember("tea", source=named, file=f"{named}.md")
        assert note.path == f"memory/{disk}/{disk}.md"
        assert (await memory.remember("cups", source=named, file="new.md")).path == f"memory/{disk}/new.md"
        assert len(await memory.search("valkey", source=named)) == 1
        assert len(await memory.search("valkey", path=f"{named}/**")) == 1
        assert (await memory.edit("pots", path=f"memory/{named}/{named}.md", start=2)).path == note.path
        assert [result.path for result in await memory.search("redis")] == [f"{disk}/top.md"]
        assert (await memory.forget(path=f"{named}/top.md", start=1)).path == f"{disk}/top.md"
    assert sorted(os.listdir(workspace / "memory")) == [disk]


@pytest.mark.parametrize(("disk", "named"), [(NFC, NFD), (NFD, NFC)], ids=ascii)
@pytest.mark.parametrize("scope", [None, "people"])
async def test_a_name_from_the_memory_on_is_the_same_composed_or_not(config, write, disk, named, scope):
    write(f"memory/people/{disk}.md", "- valkey\n- redis\n")
    path = f"{named}.md" if scope else f"people/{named}.md"
    async with Memory(config(), scope=scope) as memory:
        assert await memory.read(path, 1) == "- valkey"
        assert (await memory.edit("tea", path=path, start=1)).path == f"memory/people/{disk}.md"
        assert (await memory.forget(path=path, start=1)).path == f"memory/people/{disk}.md"
        assert (await memory.move(path.replace(".md", "2.md"), path=path)).path.startswith("memory/people/")
        assert [each.path for each in await memory.files()] == [f"memory/people/{named}2.md"]


async def test_a_file_is_named_from_the_workspace_or_from_the_memory(memory, write, workspace):
    write("memory/ops.md", "- valkey\n- redis\n- tea\n")
    assert await memory.read("ops.md", 1) == await memory.read("memory/ops.md", 1) == "- valkey"
    assert (await memory.edit("cups", path="ops.md", start=3)).path == "memory/ops.md"
    assert (await memory.move("other.md", path="ops.md", start=2)).path == "memory/other.md"
    assert (await memory.forget(path="ops.md", start=1)).path == "memory/ops.md"
    (workspace / "ops.md").write_text("- of the workspace\n", "utf-8")
    assert await memory.read("ops.md") == "- of the workspace"


async def test_in_a_scope_a_file_is_named_from_its_folder(config, write):
    write("memory/alice/ops.md", "- of alice\n")
    write("memory/ops.md", "- of all\n")
    write("ops.md", "- of the workspace\n")
    async with Memory(config(), scope="alice") as alice:
        assert await alice.read("ops.md") == await alice.read("memory/alice/ops.md") == "- of alice"


async def test_two_files_that_differ_only_in_composition_are_both_indexed_and_named(memory, write):
    for name in (NFC, NFD):
        write(f"memory/{name}.md", f"valkey {name!a}")
    assert {result.path for result in await memory.search("valkey")} == {f"memory/{NFC}.md", f"memory/{NFD}.md"}
    assert (await memory.status()).conflicts == {f"memory/{NFD}.md": f"memory/{NFC}.md"}
