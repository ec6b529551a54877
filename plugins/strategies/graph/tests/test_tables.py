"""The tables of the graph: rebuilt and incremental are the same, and nothing stays of what is gone."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import signal
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kipu import IndexConfig, Memory, MemoryConfig, SearchConfig
from kipu.testing import ParagraphChunker, ScratchIndex, WordStrategy
from kipu_strategy_graph import GraphStrategy

TABLES = ("graph_mentions", "graph_relations", "graph_aliases")


def configured(workspace: Path) -> MemoryConfig:
    search = SearchConfig(strategy=WordStrategy(), relation=GraphStrategy(strategy="words"), postprocessors=[])
    return MemoryConfig(workspace, index=IndexConfig(chunker=ParagraphChunker(), embedder=None), search=search)


def dump(workspace: Path) -> dict[str, list[Any]]:
    """Return all rows of the graph, with the place of a chunk instead of its id."""
    with sqlite3.connect(f"file:{workspace / '.kipu' / 'index.sqlite'}?mode=ro", uri=True) as connection:
        places = {
            id: place
            for id, *place in connection.execute(
                "SELECT kipu_chunks.id, path, position FROM kipu_chunks JOIN kipu_files ON kipu_files.id = file_id"
            )
        }
        rows = {
            table: sorted(([places[id], *rest] for id, *rest in connection.execute(f"SELECT * FROM {table}")), key=str)
            for table in TABLES
        }
        words = connection.execute("SELECT rowid, words FROM graph_words")
        rows["graph_words"] = sorted([places[id], each] for id, each in words)
    connection.close()
    return rows


LINES = (
    "Ravi uses FastAPI.",
    "FastAPI runs on Uvicorn.",
    "- depends on [[Redis|the cache]]",
    "Ada does not use Django.",
    "# Billing",
    "- [fact] `billing-api` is slow #ops",
    "same_as [[Ravi]]",
    "拉维使用FastAPI。",
    "owner:: Ada Lovelace",
    "",
)
NAMES = ("Ravi.md", "billing.md", "team/2026-01-02.md", "Fast API.md")
EDITS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["write", "delete", "move"]), st.lists(st.sampled_from(LINES))),
    min_size=1,
    max_size=6,
)


@given(edits=EDITS)
@settings(deadline=None, max_examples=25)
def test_an_index_that_was_changed_has_the_rows_of_a_new_one(edits):
    workspace = Path(tempfile.mkdtemp())

    async def edit() -> None:
        async with Memory(configured(workspace)) as memory:
            for name, kind, lines in edits:
                file = workspace / "memory" / name
                file.parent.mkdir(parents=True, exist_ok=True)
                if kind == "write" or not file.exists():
                    file.write_text("\n\n".join(lines), "utf-8")
                elif kind == "delete":
                    file.unlink()
                else:
                    file.rename(file.with_name(f"moved {name.rpartition('/')[2]}"))
                await memory.index()
        changed = dump(workspace)
        shutil.rmtree(workspace / ".kipu")
        async with Memory(configured(workspace)) as memory:
            await memory.index()
        assert dump(workspace) == changed

    try:
        asyncio.run(edit())
    finally:
        shutil.rmtree(workspace)


async def test_nothing_stays_of_a_file_that_is_gone(kipu_workspace, kipu_write):
    kipu_write("memory/a.md", "Ravi uses FastAPI.\n")
    file = kipu_write("memory/Xylophon.md", "---\naliases: [Zither]\n---\n\nXylophon uses Quartz.\n")
    async with Memory(configured(kipu_workspace)) as memory:
        await memory.index()
        assert "Quartz" in str(dump(kipu_workspace))
        file.unlink()
        await memory.index()
    assert {row[0][0] for rows in dump(kipu_workspace).values() for row in rows} == {"memory/a.md"}


async def test_nothing_stays_in_the_database_of_what_was_forgotten(kipu_workspace, kipu_write):
    kipu_write("memory/a.md", "Ravi uses FastAPI.\n")
    kipu_write("memory/b.md", "Xylophon uses Quartzite.\n")
    async with Memory(configured(kipu_workspace)) as memory:
        await memory.index()
        await memory.forget(path="memory/b.md")
    held = b"".join(file.read_bytes() for file in (kipu_workspace / ".kipu").iterdir() if file.is_file()).lower()
    assert (b"xylophon" in held, b"quartzite" in held, b"fastapi" in held) == (False, False, True)


async def test_adding_a_chunk_again_replaces_its_rows():
    async with ScratchIndex.open(GraphStrategy()) as index:
        ids = await index.add("Ravi uses FastAPI.")
        (chunk,) = (await index.chunks(ids)).values()
        await index.change("add", [attrs.evolve(chunk, text="Ada uses Django.")])
        for table, *values in (("graph_mentions", "ada", "django"), ("graph_words", "ada use django")):
            rows = await index.connection.execute_fetchall(f"SELECT * FROM {table}")
            assert all(value in str(rows) for value in values)
            assert "ravi" not in str(rows).lower()


async def test_statements_are_all_kept_whatever_others_say():
    async with ScratchIndex.open(GraphStrategy()) as index:
        for number in range(60):
            await index.add("Ravi uses FastAPI.", "FastAPI uses Ravi.", path=f"memory/{number}.md")
        rows = await index.connection.execute_fetchall("SELECT source, target FROM graph_relations")
        entities = await index.connection.execute_fetchall("SELECT key, mentions FROM graph_entities")
    assert sorted(rows) == [("fastapi", "ravi")] * 60 + [("ravi", "fastapi")] * 60
    assert list(entities) == [("fastapi", 120), ("ravi", 120)]


async def test_tables_that_fail_half_way_are_made_again(kipu_workspace, kipu_write, monkeypatch):
    kipu_write("memory/a.md", "Ravi uses FastAPI.\n")
    calls = itertools.count()
    from kipu_strategy_graph import tables

    extract = tables.extract

    def fail(chunk: Any, parser: Any) -> Any:
        if next(calls) == 0:
            raise OSError("no disk")
        return extract(chunk, parser)

    async with Memory(configured(kipu_workspace)) as memory:
        with monkeypatch.context() as patch:
            patch.setattr(tables, "extract", fail)
            await memory.index()
        await memory.search("Ravi")
        await memory.index()
    assert "fastapi" in str(dump(kipu_workspace)["graph_mentions"])


@pytest.mark.parametrize("writers", [1, 2])
async def test_searches_answer_while_others_write(kipu_workspace, kipu_write, writers):
    kipu_write("memory/a.md", "Ravi uses FastAPI for the billing API.\n")
    kipu_write("memory/b.md", "FastAPI: the server is Uvicorn.\n")
    async with Memory(configured(kipu_workspace)) as reader:
        await reader.index()

        async def write(writer: int) -> None:
            async with Memory(configured(kipu_workspace)) as memory:
                for number in range(15):
                    kipu_write(f"memory/w{writer}-{number}.md", f"Ravi likes Tool{number}. Tool{number} is new.\n")
                    await memory.index()

        writing = asyncio.gather(*(write(number) for number in range(writers)))
        while not writing.done():
            assert (await reader.search("Which server does Ravi use?")).degraded is False
        await writing
        assert len(dump(kipu_workspace)["graph_words"]) == 2 + 15 * writers


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from kipu import Memory
from kipu_strategy_graph import tables
sys.path.insert(0, sys.argv[2])
from test_tables import configured

extract, left = tables.extract, int(sys.argv[3])

def kill(chunk, parser):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return extract(chunk, parser)

tables.extract = kill

async def index():
    async with Memory(configured(Path(sys.argv[1]))) as memory:
        await memory.index()

asyncio.run(index())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("at", [1, 7, 20])
async def test_an_index_whose_process_was_killed_is_completed(kipu_workspace, kipu_write, at):
    for number in range(20):
        kipu_write(f"memory/note-{number}.md", f"Ravi uses Tool{number}.\n")
    arguments = [sys.executable, "-c", KILLED, str(kipu_workspace), str(Path(__file__).parent), str(at)]
    process = await asyncio.create_subprocess_exec(*arguments)
    assert await process.wait() == -signal.SIGKILL
    async with Memory(configured(kipu_workspace)) as memory:
        assert (await memory.search("Ravi")).degraded is False
    rows = dump(kipu_workspace)
    assert [len(rows["graph_words"]), len(rows["graph_relations"])] == [20, 20]
