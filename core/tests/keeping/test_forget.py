"""A forgotten text is gone from its file, the index and the disk; the receipt says where it was."""

from __future__ import annotations

import asyncio
import os
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from entry_chunks import EntryChunker, lines_of, with_entries
from redaction import configured
from rows import rows, rows_made_afresh, select

from kipu import IndexConfig, Memory
from kipu.errors import IndexUnavailableError, MemoryClosedError, MemoryFileError, QueryError
from kipu.sqlite import choose_driver
from kipu.testing import CombinedStrategy, HashingEmbedder, ParagraphChunker, VectorStrategy, WordStrategy

if TYPE_CHECKING:
    from pathlib import Path

    from kipu import Chunk, Document, MemoryConfig

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


async def test_the_metadata_of_a_forgotten_entry_is_nowhere_any_more(workspace, write):
    write("memory/a.md", f"- {'plums ' * 50}\n  [id: e1; tags: zwetschge]\n")
    async with Memory(with_entries(workspace, chunker=EntryChunker(longest=100))) as memory:
        await memory.index()
        assert (await memory.forget(path="memory/a.md", start=1)).complete
        assert select(workspace, "SELECT text FROM metadata") == []
    assert files_with(workspace, "zwetschge") == []


@pytest.mark.parametrize("text", ["The PIN of the safe is 4711.", "密码是蓝色的猫头鹰。", "Größe zwölf"])
async def test_words_that_are_short_or_not_ascii_are_looked_for_too(memory, write, text):
    note = await memory.remember(text, file="a.md")
    write(".kipu/kept.md", f"- {text}\n")
    receipt = await memory.forget(chunk=note.chunk)
    assert [trace.place for trace in receipt.traces if trace.after] == [".kipu/kept.md: words of the text"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is unreadable to root")
async def test_another_file_that_cannot_be_read_is_named(memory, write):
    write("memory/a.md", "- the xylophonequartz\n")
    other = write("memory/b.md", "- the xylophonequartz too\n")
    await memory.index()
    other.chmod(0)
    receipt = await memory.forget(path="memory/a.md", start=1)
    assert any("memory/b.md cannot be read" in notice for notice in receipt.notices)


@pytest.mark.parametrize("call", [Memory.forget, partial(Memory.move, to="b.md")], ids=["forget", "move"])
async def test_headings_and_files_that_go_with_a_text_are_named(memory, write, workspace, call):
    write("memory/a.md", "# Rooms\n\n## Notes\n\nonly a line here\n\n## Notes\n\nanother\n")  # headings may be equal
    done = await call(memory, path="memory/a.md", start=5)
    assert list(done.notices) == ["Nothing was left below ## Notes, so it was removed too."]
    assert (workspace / "memory/a.md").read_text() == "# Rooms\n\n## Notes\n\nanother\n"
    done = await call(memory, path="memory/a.md", start=5)
    assert "Nothing was left below # Rooms and ## Notes, so it was removed too." in done.notices
    assert "Nothing was left in memory/a.md, so the file was removed." in done.notices
    assert not (workspace / "memory/a.md").exists()


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


def with_vectors(workspace: Path, **embedder: Any) -> MemoryConfig:
    """Configure a memory with the standard chunker that searches by meaning."""
    config = with_entries(workspace, strategy=VectorStrategy(), postprocessors=[])
    return attrs.evolve(config, index=IndexConfig(embedder=HashingEmbedder(**embedder)))


def vectors(workspace: Path) -> set[bytes]:
    return {row[0] for row in select(workspace, "SELECT vector FROM embeddings")}


def holds(workspace: Path, vector: bytes) -> list[str]:
    """Return the files of Kipu that have the bytes of a vector."""
    files = (path for path in (workspace / ".kipu").rglob("*") if path.is_file())
    return [path.name for path in files if vector in path.read_bytes()]


async def test_no_vector_stays_whatever_the_history_of_the_text_was(workspace):
    secret, old = "- The launch phrase: xylophonequartz meridian", set()
    kept: set[bytes] = set()
    file = workspace / "memory/a.md"
    for number, salt in enumerate(("earlier", "now")):
        async with Memory(with_vectors(workspace, salt=salt), background=False) as memory:
            file.write_text(f"{secret}.\n", "utf-8")
            await memory.index()
            await memory.remember("Of gardening and tomatoes.", file="a.md")  # beside it
            await memory.index()
            await memory.edit(f"{secret} {number}", path="memory/a.md", start=1)
            await memory.index()
            old |= vectors(workspace) - kept
            file.write_text("- Something else.\n", "utf-8")  # by hand
            await memory.index()
            kept |= vectors(workspace) - old
            file.write_text(f"{secret} again\n- Something else.\n", "utf-8")
            await memory.index()
            old |= vectors(workspace) - kept
            if salt == "now":
                receipt = await memory.forget(path="memory/a.md", start=1)
                assert receipt.complete
                assert [trace.after for trace in receipt.traces if trace.place == "index: vectors"] == [0]
    assert len(old) >= 8
    assert [vector for vector in old if holds(workspace, vector)] == []
    assert vectors(workspace) == kept


async def test_the_vectors_of_what_cannot_be_read_now_are_kept(workspace, tmp_path):
    shutil.copytree(workspace / "memory", tmp_path / "vault")
    (workspace / "memory/a.md").write_text("- xylophonequartz\n", "utf-8")
    (workspace / "memory/locked.md").write_text("- a fact that is to stay\n", "utf-8")
    (tmp_path / "vault/b.md").write_text("- what a disk has that is not always there\n", "utf-8")
    config = with_vectors(workspace)
    config = attrs.evolve(config, files=attrs.evolve(config.files, paths=[str(tmp_path / "vault")]))
    async with Memory(config, background=False) as memory:
        await memory.index()
        before = vectors(workspace)
        (tmp_path / "vault").rename(tmp_path / "away")
        (workspace / "memory/locked.md").chmod(0)
        receipt = await memory.forget(path="memory/a.md", start=1)
        assert receipt.complete
        assert len(vectors(workspace)) == len(before) - 1 == 2
        (tmp_path / "away").rename(tmp_path / "vault")
        assert (await memory.index()).embedded == 0


async def test_tables_of_strategies_that_are_not_in_use_keep_no_vector(workspace):
    config = with_vectors(workspace)
    by_words = attrs.evolve(config, search=attrs.evolve(config.search, strategy=WordStrategy()))
    (workspace / "memory/a.md").write_text("- kiwi fig\n", "utf-8")  # no word that the pages could be searched for
    (workspace / "memory/b.md").write_text("- bananas are yellow\n", "utf-8")
    async with Memory(config, background=False) as memory:
        await memory.index()
    (vector,) = {row[0] for row in select(workspace, "SELECT vector FROM nearest_1")} & {
        row[0]
        for row in select(
            workspace, "SELECT vector FROM kipu_vectors JOIN kipu_files f ON f.id = file_id WHERE path LIKE '%a.md'"
        )
    }
    async with Memory(by_words) as memory:
        assert (await memory.forget(path="memory/a.md", start=1)).complete
        assert holds(workspace, vector) == []
        assert len(await memory.search("bananas")) == 1
    async with Memory(config, background=False) as memory:
        assert len(await memory.search("bananas")) == 1


async def test_tables_of_other_spaces_are_kept_as_they_are(workspace):
    (workspace / "memory/a.md").write_text("- xylophonequartz meridian\n", "utf-8")
    (workspace / "memory/b.md").write_text("- bananas are yellow\n", "utf-8")
    async with Memory(with_vectors(workspace), background=False) as memory:
        await memory.index()
        tables = select(workspace, "SELECT name FROM sqlite_master ORDER BY name")
        versions = select(workspace, "SELECT * FROM strategies")
        assert (await memory.forget(path="memory/a.md", start=1)).complete
        assert select(workspace, "SELECT name FROM sqlite_master ORDER BY name") == tables
        assert select(workspace, "SELECT * FROM strategies") == versions


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
    (result,) = await memory.search("xylophone")
    receipt = await memory.forget(chunk=result.chunk)
    assert not receipt.complete
    assert [place.path for place in receipt.elsewhere] == ["memory/b.md"]
    receipt = await memory.forget(path="memory/b.md", start=3)
    assert receipt.complete
    assert files_with(workspace, "xylophone") == []


async def test_of_two_equal_texts_one_is_forgotten(memory, workspace, write):
    file = write("memory/a.md", "xylophone quartz\n\ndogs\n\nxylophone quartz\n")
    (first,) = await memory.search("xylophone")
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


# --- what was set aside, and what others left ----------------------------------------------------------------------


async def test_an_index_that_was_set_aside_as_damaged_is_forgotten_too(workspace, write):
    write("memory/a.md", "- xylophonequartz\n")
    write("memory/b.md", "- bananas\n")
    async with Memory(configured(workspace)) as memory:
        await memory.index()
    index = workspace / ".kipu/index.sqlite"
    index.write_bytes(index.read_bytes()[:100] + b"\xff" * 8 + index.read_bytes()[108:])
    async with Memory(configured(workspace)) as memory:
        await memory.search("bananas")
        (workspace / ".kipu/index.damaged.sqlite-wal").write_bytes(b"xylophonequartz")
        assert "index.damaged.sqlite" in files_with(workspace, "xylophonequartz")
        receipt = await memory.forget(path="memory/a.md", start=1)
        assert receipt.complete
        assert files_with(workspace, "xylophonequartz") == []
        notice = ".kipu/index.damaged.sqlite, a damaged index that was set aside, was deleted: it had old texts."
        assert notice in receipt.notices
        assert not [path for path in (workspace / ".kipu").iterdir() if "damaged" in path.name]


async def test_what_cannot_be_deleted_of_a_damaged_index_is_reported(workspace, write):
    write("memory/a.md", "- xylophonequartz\n")
    (workspace / ".kipu/index.damaged.sqlite").mkdir(parents=True)
    async with Memory(configured(workspace)) as memory:
        receipt = await memory.forget(path="memory/a.md", start=1)
    assert [trace.place for trace in receipt.traces if trace.after] == [".kipu/index.damaged.sqlite"]


@pytest.mark.parametrize("name", ["index.foreign-1.sqlite", "writing/0123456789abcdef.tmp.md", "notes/old.txt"])
async def test_a_file_that_kipu_does_not_delete_is_reported_and_stays(workspace, write, name):
    write("memory/a.md", "- xylophonequartz\n- bananas\n")
    file = write(f".kipu/{name}", "a copy of XylophoneQuartz, of another program\n")
    async with Memory(configured(workspace)) as memory:
        receipt = await memory.forget(path="memory/a.md", start=1)
        assert [trace.place for trace in receipt.traces if trace.after] == [f".kipu/{name}: words of the text"]
        (notice,) = [notice for notice in receipt.notices if name in notice]
        assert "Look into it, and delete it if you can." in notice
        assert file.exists()
        assert not (workspace / ".kipu/forgetting").exists()
        assert (await memory.forget(path="memory/a.md", start=1)).complete


async def test_a_temporary_file_of_a_killed_write_on_another_disk_is_reported(notebook, write):
    write("memory/deep/a.md", "- xylophonequartz\n- bananas\n")
    write("memory/deep/.kipu-0123456789abcdef.tmp", "- xylophonequartz\n")
    receipt = await notebook.forget(path="memory/deep/a.md", start=1)
    place = "memory/deep/.kipu-0123456789abcdef.tmp: words of the text"
    assert [trace.place for trace in receipt.traces if trace.after] == [place]


async def test_a_scope_is_not_told_what_is_in_files_of_others(workspace, write):
    write("memory/anna/a.md", "- xylophonequartz\n- bananas\n")
    write(".kipu/writing/0123456789abcdef.tmp.md", "- xylophonequartz is what another scope remembers\n")
    async with Memory(configured(workspace), scope="anna") as memory:
        receipt = await memory.forget(path="memory/anna/a.md", start=1)
    assert [trace.place for trace in receipt.traces] == ["memory/anna/a.md", "index: chunks", "undo: changes"]
    assert list(receipt.notices) == []


# --- half-way ------------------------------------------------------------------------------------------------------


@attrs.frozen
class Trap:
    """A chunker that does something once, when it is called after a line was taken out of a file."""

    spring: Any
    sprung: list[bool] = attrs.field(factory=list)

    def chunk(self, document: Document) -> list[Chunk]:
        """Return the entries."""
        if document.path == "memory/a.md" and "xylophonequartz" not in document.text and not self.sprung:
            self.sprung.append(True)
            self.spring()
        return EntryChunker().chunk(document)


def trapped(workspace: Path, spring: Any) -> Memory:
    (workspace / "memory/a.md").write_text("- xylophonequartz\n- bananas\n", "utf-8")
    (workspace / "memory/b.md").write_text("- xylophonequartz\n", "utf-8")
    return Memory(with_entries(workspace, chunker=Trap(spring)))


async def test_a_failure_after_the_text_is_out_says_so_and_the_next_call_finishes_it(workspace, tmp_path):
    index = workspace / ".kipu/index.sqlite"

    def block() -> None:
        index.rename(tmp_path / "index.sqlite")
        index.mkdir()

    async with trapped(workspace, block) as memory:
        await memory.index()
        with pytest.raises(IndexUnavailableError) as caught:
            await memory.forget(path="memory/a.md", start=1)
        assert "The text was removed from memory/a.md:1, but the index may still have it." in str(caught.value)
        assert "do not forget these lines again, they have another text now" in str(caught.value)
        assert (workspace / "memory/a.md").read_text("utf-8") == "- bananas\n"
        index.rmdir()
        (tmp_path / "index.sqlite").rename(index)
        assert files_with(workspace, "xylophonequartz") != ["b.md"]
        (workspace / "memory/b.md").unlink()
        assert [result.path for result in await memory.search("bananas xylophonequartz")] == ["memory/a.md"]
        assert files_with(workspace, "xylophonequartz") == []
        assert not (workspace / ".kipu/forgetting").exists()


async def test_a_memory_that_is_closed_half_way_says_that_it_is_closed(workspace):
    memories: list[Memory] = []
    loop = asyncio.get_running_loop()

    def close() -> None:
        asyncio.run_coroutine_threadsafe(memories[0]._context.database.close(), loop).result()

    memories.append(trapped(workspace, close))
    await memories[0].index()
    with pytest.raises(MemoryClosedError, match=r"removed from memory/a\.md:1.* do not forget these lines again"):
        await memories[0].forget(path="memory/a.md", start=1)
    await memories[0].close()
    (workspace / "memory/b.md").unlink()
    async with Memory(with_entries(workspace)) as memory:
        assert len(await memory.search("bananas")) == 1
    assert files_with(workspace, "xylophonequartz") == []


async def test_an_index_that_is_damaged_half_way_is_rebuilt_and_the_text_is_forgotten(workspace):
    index = workspace / ".kipu/index.sqlite"

    def damage() -> None:
        with open(index, "r+b") as file:
            file.write(b"no database at all")
        (workspace / ".kipu/index.sqlite-wal").write_bytes(b"")

    async with trapped(workspace, damage) as memory:
        await memory.index()
        receipt = await memory.forget(path="memory/a.md", start=1)
        assert [str(place) for place in receipt.elsewhere] == ["memory/b.md:1"]  # the index is complete again
        assert not any(trace.after for trace in receipt.traces)
        assert (workspace / "memory/a.md").read_text("utf-8") == "- bananas\n"
        assert files_with(workspace, "damaged") == []
        assert not (workspace / ".kipu/index.damaged.sqlite").exists()
        assert len(await memory.search("bananas")) == 1


async def test_a_forgotten_text_leaves_the_index_also_if_the_file_cannot_be_chunked_any_more(workspace):
    async with Memory(with_entries(workspace)) as memory:
        (workspace / "memory/a.md").write_text("- xylophonequartz\n- bananas\n", "utf-8")
        await memory.index()
    # What a process leaves that is killed before it changes the index.
    (workspace / "memory/a.md").write_text("- bananas\n", "utf-8")
    (workspace / ".kipu/forgetting").write_text("memory/a.md", "utf-8")

    class Broken:
        def chunk(self, document: Document) -> list[Chunk]:
            raise ValueError("out of order")

    async with Memory(with_entries(workspace, chunker=Broken())) as memory:
        await memory.search("bananas")
        assert files_with(workspace, "xylophonequartz") == []
        assert not (workspace / ".kipu/forgetting").exists()


@pytest.mark.parametrize("mark", ["memory/a.md", "../../a.md", "memory/a\0/b.md", "/x.md", ""])
async def test_an_unnamed_undo_stops_at_what_a_killed_process_forgot(workspace, mark):
    async with Memory(with_entries(workspace)) as memory:
        note = await memory.remember("bananas")
    (workspace / ".kipu/forgetting").write_text(mark, "utf-8")  # it was killed before its record was written
    async with Memory(with_entries(workspace)) as memory:
        await memory.files()
        assert not (workspace / ".kipu/forgetting").exists()
        if mark == "memory/a.md":
            with pytest.raises(QueryError, match="The last change, forget in memory, cannot be undone"):
                await memory.undo()
        assert (await memory.undo(note.change)).name == note.change


async def test_searches_go_on_while_a_text_is_forgotten(memory, workspace):
    for number in range(5):
        (workspace / f"memory/{number}.md").write_text(f"- xylophonequartz {number}\n- bananas\n", "utf-8")
    await memory.index()
    answers = await asyncio.gather(
        *(memory.forget(path=f"memory/{number}.md", start=1) for number in range(5)),
        *(memory.search("bananas") for _ in range(5)),
    )
    assert all(receipt.traces[0].after == 0 for receipt in answers[:5])
    assert files_with(workspace, "xylophonequartz") == []
