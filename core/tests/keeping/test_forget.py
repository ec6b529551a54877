"""A forgotten text is gone from its file, the index and the disk; the receipt says where it was."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs
import pytest
from entry_chunks import EntryChunker, lines_of, with_entries
from redaction import configured
from rows import rows, rows_made_afresh, select

from kipu import IndexConfig, Memory
from kipu.errors import (
    MemoryFileError,
)
from kipu.sqlite import choose_driver
from kipu.testing import CombinedStrategy, HashingEmbedder, ParagraphChunker, VectorStrategy, WordStrategy

if TYPE_CHECKING:
    from pathlib import Path

LINKS = pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="there are no symbolic links")


def files_with(workspace: Path, word: str) -> list[str]:
    """The files that have a word anywhere in their bytes, in small or capital letters: those of Kipu, and memories."""
    files = (path for path in workspace.rglob("*") if path.is_file())
    return sorted(path.name for path in files if word.encode().lower() in path.read_bytes().lower())


async def test_a_forgotten_text_is_nowhere_any_more(memory, workspace, tmp_path):
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
        assert files_with(workspace, word) == []
    assert files_with(workspace, "bananas") != []
    assert await memory.search("xylophonequartz") == []
    assert lines_of(workspace / "memory/likes.md")[:2] == ["- Bananas are yellow.", "- Number 0 is a number."]


async def test_a_forgotten_text_leaves_no_vector(workspace):
    config = with_entries(workspace, strategy=CombinedStrategy(), postprocessors=[])
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


async def test_a_heading_is_removed_with_the_last_text_below_it(memory, workspace, write):
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
    assert files_with(workspace, "xylophone") == files_with(workspace, "secret.md") == []
    assert await memory.files() == []


async def test_a_part_of_an_entry_is_removed_without_its_metadata(notebook, workspace):
    text = "- We use Redis\n  for the cache\n  [superseded_by: memory/b.md]\n"
    for forgetting in (True, False):
        (workspace / "memory/a.md").write_text(text, "utf-8")
        if forgetting:
            await notebook.forget(path="memory/a.md", start=2)
        else:
            await notebook.move("c.md", path="memory/a.md", start=2)
        assert (workspace / "memory/a.md").read_text("utf-8") == "- We use Redis\n  [superseded_by: memory/b.md]\n"
    (workspace / "memory/a.md").write_text(text, "utf-8")
    await notebook.forget(path="memory/a.md", start=1, end=2)
    assert not (workspace / "memory/a.md").exists()


async def test_the_chunk_of_a_note_is_forgotten_without_its_neighbours(workspace):
    async with Memory(with_entries(workspace, chunker=ParagraphChunker())) as memory:  # for which a list is one chunk
        notices = [await memory.remember(fact, file="zoo.md") for fact in ("zebra one", "zebra two", "zebra three")]
        if notices[2].chunk is not None:
            await memory.forget(chunk=notices[2].chunk)
        assert lines_of(workspace / "memory/zoo.md")[:2] == ["- zebra one", "- zebra two"]


async def test_a_chunk_that_is_a_part_of_a_line_is_forgotten(workspace, write):
    file = write("memory/a.md", f"{'a' * 40} {'b' * 40} {'c' * 40}\n")
    async with Memory(with_entries(workspace, chunker=EntryChunker(longest=41))) as memory:
        (result,) = await memory.search("b" * 40)
        await memory.forget(chunk=result.chunk)
        assert "b" not in file.read_text("utf-8")
        assert files_with(workspace, "b" * 40) == []
        assert file.read_text("utf-8").split() == ["a" * 40, "c" * 40]


@pytest.mark.parametrize("waits", [False, True])
async def test_results_of_a_query_are_forgotten_if_they_are_confirmed(memory, write, waits):
    file = write("memory/zoo.md", "zebra one\n\nzebra two\n")

    def ask(result):
        return "two" in result.text

    async def ask_later(result):
        return ask(result)

    (receipt,) = await memory.forget_found("zebra", ask_later if waits else ask, max_results=2)
    assert receipt.complete
    assert lines_of(file)[0] == "zebra one"
    assert "two" not in file.read_text("utf-8")


async def test_an_entry_that_names_a_forgotten_successor_is_reported(notebook):
    await notebook.remember("zebra one", file="a.md")
    new = await notebook.remember("zebra two", file="a.md", supersedes="memory/a.md:1")
    receipt = await notebook.forget(path="memory/a.md", start=new.start_line, end=new.end_line)
    assert f"memory/a.md:1-2 names {new.id} as its successor, which does not exist any more." in receipt.notices


# --- elsewhere -----------------------------------------------------------------------------------------------------


async def test_other_places_with_the_text_are_reported_and_stay(memory, workspace, write):
    write("memory/a.md", "- The xylophone  is out of tune.\n")
    write("memory/b.md", "dogs\n\nThe xylophone is out of tune.\n")
    (result, _) = await memory.search("xylophone")
    receipt = await memory.forget(chunk=result.chunk)
    assert not receipt.complete
    assert [place.path for place in receipt.elsewhere] == ["memory/b.md"]
    receipt = await memory.forget(path="memory/b.md", start=3)
    assert receipt.complete
    assert files_with(workspace, "xylophone") == []


async def test_of_two_equal_texts_one_is_forgotten(memory, workspace, write):
    file = write("memory/a.md", "xylophone quartz\n\ndogs\n\nxylophone quartz\n")
    first, _ = await memory.search("xylophone")
    receipt = await memory.forget(chunk=first.chunk)
    assert file.read_text("utf-8") == "dogs\n\nxylophone quartz\n"
    assert [str(place) for place in receipt.elsewhere] == ["memory/a.md:3"]
    receipt = await memory.forget(path="memory/a.md", start=3)
    assert receipt.complete
    assert files_with(workspace, "xylophone") == []


async def test_a_text_that_is_in_a_file_twice_is_forgotten_once(notebook, workspace):
    (workspace / "memory/a.md").write_text("alpha\n\nbeta\n\nalpha\n", "utf-8")
    receipt = await notebook.forget(path="memory/a.md", start=1)
    assert [trace.after for trace in receipt.traces if trace.place == "memory/a.md"] == [0]
    assert [str(place) for place in receipt.elsewhere] != []


async def test_the_beginning_of_a_word_is_not_the_same_text(notebook, write):
    write("memory/a.md", "# S\n\ndogs\n")
    write("memory/b.md", "# Saturday\n\ncats\n")
    receipt = await notebook.forget(path="memory/a.md", start=1)
    assert list(receipt.elsewhere) == []


async def test_a_text_of_several_chunks_is_found_elsewhere(notebook, workspace):
    said = "\n\n".join(f"paragraph {number} of zebras" for number in range(40))
    for name in ("a", "b"):
        (workspace / f"memory/{name}.md").write_text(f"# {name}\n\n{said}\n", "utf-8")
    receipt = await notebook.forget(path="memory/a.md", start=3, end=81)
    assert [str(place) for place in receipt.elsewhere] == ["memory/b.md:3-81"]


async def test_a_text_with_a_word_longer_than_a_chunk_is_found_elsewhere(notebook, write):
    word = "Q" + "x1Yz" * 1500
    write("memory/a.md", f"- secret {word} end\n")
    write("memory/b.md", f"- secret {word} end\n- keep\n")
    receipt = await notebook.forget(path="memory/a.md", start=1)
    assert [str(place) for place in receipt.elsewhere] == ["memory/b.md:1"]


@pytest.mark.skipif(os.name == "nt", reason="hard links are found by their inode")
async def test_another_hard_link_to_the_file_is_reported(memory, workspace, write):
    file = write("memory/a.md", "xylophone quartz\n\ndogs\n")
    os.link(file, workspace / "memory/b.md")
    await memory.index()
    receipt = await memory.forget(path="memory/a.md", start=1)
    assert [place.path for place in receipt.elsewhere] == ["memory/b.md"]


async def test_blank_lines_are_nowhere_else(memory, write):
    write("memory/a.md", "alpha\n\n\n\nbeta\n")
    receipt = await memory.forget(path="memory/a.md", start=3)
    assert list(receipt.elsewhere) == []


# --- on the disk ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="there are no symbolic links")
async def test_a_file_behind_a_symlink_is_edited_and_forgotten(workspace, write, tmp_path):
    real = write("notes/real.md", "xylophone quartz\n\ndogs\n")
    (workspace / "memory/link.md").symlink_to("../notes/real.md")
    config = attrs.evolve(with_entries(workspace), index=IndexConfig(chunker=ParagraphChunker()))
    async with Memory(config) as memory:
        note = await memory.edit("dogs and cats", path="memory/link.md", start=3)
        assert note.path == "memory/link.md"
        assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")
        receipt = await memory.forget(path="memory/link.md", start=1)
        assert receipt.complete
        assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")
        assert files_with(workspace, "xylophone") == []
        assert (workspace / "memory/link.md").is_symlink()
        assert real.read_text("utf-8") == "dogs and cats\n"
        (result,) = await memory.search("dogs")
        assert (await memory.forget(chunk=result.chunk)).complete


@pytest.mark.slow
async def test_a_text_that_another_process_reads_is_removed_later(workspace):
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


@pytest.mark.parametrize("word", ["heading", "integer", "metadata", "strategies"])
async def test_a_word_that_names_a_table_or_a_column_is_not_taken_for_a_trace(notebook, workspace, word):
    note = await notebook.remember(f"{word} xylophonequartz", file="a.md")
    assert (await notebook.forget(path=note.path, start=note.start_line)).complete


async def test_a_symlink_in_kipus_folder_is_not_searched(notebook, workspace, tmp_path):
    (tmp_path / "outside").write_text("xylophone", "utf-8")
    note = await notebook.remember("xylophone", file="a.md")
    (workspace / ".kipu/index.x").symlink_to(tmp_path / "outside")
    receipt = await notebook.forget(path=note.path, start=note.start_line, end=note.end_line)
    assert not [trace for trace in receipt.traces if trace.after or "index.x" in trace.place]


@LINKS
async def test_nothing_is_created_behind_a_symlink_in_kipus_folder(notebook, workspace, tmp_path):
    await notebook.remember("alpha", file="a.md")
    (workspace / ".kipu/forgetting").symlink_to(tmp_path / "outside")
    assert (await notebook.forget(path="memory/a.md", start=1)).complete
    assert not (tmp_path / "outside").exists()


async def test_a_folder_in_place_of_the_mark_is_an_error(workspace, memory):
    (workspace / "memory/a.md").write_text("- alpha\n", "utf-8")
    (workspace / ".kipu/forgetting").mkdir(parents=True)
    assert len(await memory.search("alpha")) == 1
    with pytest.raises(MemoryFileError, match="forgetting cannot be written"):
        await memory.forget(path="memory/a.md", start=1)
    assert (workspace / "memory/a.md").read_text("utf-8") == "- alpha\n"
