"""What an attack on the writing side found: each was a fault once."""

from __future__ import annotations

import os

import attrs
import pytest
from redaction import KEY, configured

from kipu import FilesConfig, Memory
from kipu.errors import KipuError, MemoryFileError, QueryError
from kipu.sqlite import choose_driver

LINKS = pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="there are no symbolic links")


@pytest.fixture
async def kept(workspace):
    async with Memory(configured(workspace)) as memory:
        yield memory


# --- keys ----------------------------------------------------------------------------------------------------------


async def test_a_key_reaches_no_heading_and_no_metadata(kept, workspace):
    note = await kept.remember("x", file="a.md", heading=f"Key {KEY}", metadata={"password": "hunter", "tags": KEY})
    assert note.notices == ["A key was replaced."]
    text = (workspace / "memory/a.md").read_text("utf-8")
    assert KEY not in text
    assert "hunter" not in text
    assert (await kept.search("x"))[0].metadata == {"password": "[redacted: password]", "tags": "[redacted: key]"}


@pytest.mark.parametrize("where", [{"source": KEY}, {"file": f"{KEY}.md"}, {"file": f"{KEY}/a.md"}])
async def test_a_key_names_no_file(kept, workspace, where):
    with pytest.raises(QueryError, match=r"contains a secret\. A key was replaced\.$"):
        await kept.remember("x", **where)
    assert list((workspace / "memory").iterdir()) == []


async def test_a_key_that_stands_alone_is_replaced_by_a_plain_placeholder(kept, workspace):
    await kept.remember(f"The key:\n{KEY}", file="a.md")
    assert (workspace / "memory/a.md").read_text("utf-8") == "- The key:\n  [redacted: key]\n"


# --- files of others -----------------------------------------------------------------------------------------------


@LINKS
async def test_what_a_link_leads_to_is_neither_moved_nor_removed(workspace):
    (workspace / "outside.md").write_text("alpha\n", "utf-8")
    (workspace / "memory/s.md").symlink_to("../outside.md")
    (workspace / "memory/2020-01-01.md").symlink_to("../outside.md")
    async with Memory(configured(workspace)) as memory:
        with pytest.raises(MemoryFileError, match="is reached by a symbolic link"):
            await memory.move("x.md", path="memory/s.md")
        assert await memory.compact() is None
        await memory.forget(path="memory/s.md")
    assert (workspace / "outside.md").read_bytes() == b""
    assert (workspace / "memory/s.md").is_symlink()


# --- what is forgotten ---------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_what_another_process_still_reads_is_taken_away_later(workspace):
    (workspace / "memory/a.md").write_text("alpha\n\nxylophonequartz\n", "utf-8")
    async with Memory(configured(workspace)) as memory:
        await memory.index()
        driver = choose_driver()
        reader = driver.connect(workspace / ".kipu/index.sqlite", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM chunks").fetchone()
        receipt = await memory.forget(path="memory/a.md", start=3)
        assert not receipt.complete
        assert "Another process is reading the index" in receipt.notices[-1]
        reader.close()
        await memory.search("alpha")
        held = [path.name for path in (workspace / ".kipu").iterdir() if path.is_file()]
        assert not any(b"xylophonequartz" in (workspace / ".kipu" / name).read_bytes() for name in held)
        assert "forgetting" not in held


async def test_a_part_of_an_entry_goes_without_what_is_known_of_it(kept, workspace):
    text = "- We use Redis\n  for the cache\n  [superseded_by: memory/b.md]\n"
    for forgetting in (True, False):
        (workspace / "memory/a.md").write_text(text, "utf-8")
        if forgetting:
            await kept.forget(path="memory/a.md", start=2)
        else:
            await kept.move("c.md", path="memory/a.md", start=2)
        assert (workspace / "memory/a.md").read_text("utf-8") == "- We use Redis\n  [superseded_by: memory/b.md]\n"
    (workspace / "memory/a.md").write_text(text, "utf-8")
    await kept.forget(path="memory/a.md", start=1, end=2)
    assert not (workspace / "memory/a.md").exists()


async def test_a_text_that_stands_twice_is_forgotten_once_and_told_of(kept, workspace):
    (workspace / "memory/a.md").write_text("alpha\n\nbeta\n\nalpha\n", "utf-8")
    receipt = await kept.forget(path="memory/a.md", start=1)
    assert [trace.after for trace in receipt.traces if trace.place == "memory/a.md"] == [0]
    assert [str(place) for place in receipt.elsewhere] != []


# --- who took whose place ------------------------------------------------------------------------------------------


async def test_an_id_is_given_once(kept):
    await kept.remember("The cache is Valkey.", metadata={"id": "k1"})
    with pytest.raises(QueryError, match='There is an entry with the id "k1" already: memory/'):
        await kept.remember("The cache is evil.", file="0.md", metadata={"id": "k1"})


async def test_of_two_successors_with_one_id_that_of_the_same_source_counts(kept, workspace):
    for path, text in {
        "0/a.md": "- The cache is evil.\n  [id: k1]\n",
        "team/a.md": "- The cache is Redis.\n  [superseded_by: k1]\n",
        "team/b.md": "- The cache is Valkey.\n  [id: k1]\n",
    }.items():
        (workspace / "memory" / path).parent.mkdir(exist_ok=True)
        (workspace / "memory" / path).write_text(text, "utf-8")
    (redis,) = [result for result in await kept.search("redis") if "Redis" in result.text]
    assert redis.outdated == "superseded by memory/team/b.md:1"


async def test_a_file_does_not_grow_beyond_what_is_indexed(workspace):
    config = attrs.evolve(configured(workspace), files=FilesConfig(max_bytes=40))
    async with Memory(config) as memory:
        await memory.remember("a short fact", file="a.md")
        with pytest.raises(MemoryFileError, match=r"memory/a\.md would be larger than files\.max_bytes"):
            await memory.remember("a fact that takes the file beyond that", file="a.md")
    assert (workspace / "memory/a.md").read_text("utf-8") == "- a short fact\n"


async def test_metadata_that_a_duplicate_does_not_get_is_told_of(kept):
    await kept.remember("alpha", file="a.md")
    note = await kept.remember("alpha", file="a.md", metadata={"tags": "x"})
    assert list(note.notices) == ["This text was remembered before. The metadata of that entry was not changed."]


@pytest.mark.parametrize("word", ["heading", "integer", "metadata", "strategies"])
async def test_a_word_that_names_a_table_or_a_column_is_not_taken_for_what_was_left(kept, workspace, word):
    note = await kept.remember(f"{word} xylophonequartz", file="a.md")
    assert (await kept.forget(path=note.path, start=note.start_line)).complete


async def test_a_table_or_code_is_not_said_to_be_superseded(kept, workspace):
    text = "# Run\n\n```sh\nkubectl apply\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    (workspace / "memory/a.md").write_text(text, "utf-8")
    for line in (4, 9):
        with pytest.raises(QueryError, match="is a table or a block of code"):
            await kept.remember("new", supersedes=f"memory/a.md:{line}")
    assert (workspace / "memory/a.md").read_text("utf-8") == text


async def test_a_budget_that_is_too_small_is_told_apart_from_nothing(kept):
    await kept.remember("alpha " * 50)
    recalled = await kept.recall("alpha", max_tokens=20)
    assert recalled.results.notices == ["Of what was found, nothing fits into 20 tokens: allow more."]
    assert not recalled


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
async def test_a_pipe_with_the_name_of_a_memory_file_is_not_waited_for(kept, workspace):
    os.mkfifo(workspace / "memory/pipe.md")
    (workspace / "memory/a.md").write_text("- alpha\n", "utf-8")
    with pytest.raises(MemoryFileError, match="is not a regular file"):
        await kept.remember("beta", file="pipe.md")
    with pytest.raises(MemoryFileError):
        await kept.read("memory/pipe.md")
    with pytest.raises(MemoryFileError, match="is not a regular file"):
        await kept.move("pipe.md", path="memory/a.md", start=1)


@LINKS
@pytest.mark.parametrize("link", ["memory", "memory/team"])
async def test_a_folder_that_is_a_link_within_the_workspace_is_written_to(workspace, link):
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
async def test_a_link_from_one_scope_does_not_lead_into_another(workspace):
    (workspace / "memory/alice").mkdir(parents=True)
    (workspace / "memory/bob").symlink_to(workspace / "memory/alice", target_is_directory=True)
    async with Memory(configured(workspace), scope="bob") as memory:
        with pytest.raises(KipuError, match="scope"):
            await memory.remember("I am Bob.")
    assert not list((workspace / "memory/alice").iterdir())


@LINKS
async def test_nothing_is_made_where_a_link_in_the_hidden_folder_leads(kept, workspace, tmp_path):
    await kept.remember("alpha", file="a.md")
    (workspace / ".kipu/forgetting").symlink_to(tmp_path / "outside")
    assert (await kept.forget(path="memory/a.md", start=1)).complete
    assert not (tmp_path / "outside").exists()
