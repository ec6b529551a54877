"""Annotations: what is annotated, when, once, within the budget, and what is left where it fails or is forgotten."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from redaction import KEY, KeyFilter

from kipu import FlushConfig, Memory, WritingConfig
from kipu.errors import AnnotatorBusyError, AnnotatorError
from kipu.testing import ScriptedAnnotator, WordStrategy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kipu import MemoryConfig


@attrs.frozen
class NotedStrategy(WordStrategy):
    """A strategy that finds chunks by what was said of them; it fails where that is no JSON object."""

    schema_version: int = 1
    needs_annotations = True

    async def add(self, connection, chunks):
        said = [" ".join(json.loads(chunk.annotation)["words"]) if chunk.annotation else "" for chunk in chunks]
        pairs = zip(chunks, said, strict=True)
        await WordStrategy.add(self, connection, [attrs.evolve(chunk, text=text) for chunk, text in pairs])


@pytest.fixture
def annotator() -> ScriptedAnnotator:
    return ScriptedAnnotator()


@pytest.fixture
def noted(config: Callable[..., MemoryConfig], annotator: ScriptedAnnotator, monkeypatch) -> Callable[..., Memory]:
    """Make memories with an annotator, and a strategy that needs one."""
    monkeypatch.setattr("kipu.distill.annotate.BACKOFF_SECONDS", (0.0, 0.0))

    def noted(annotator: Any = annotator, scope: str | None = None, filters: Any = (), **flush: Any) -> Memory:
        made = config(index={"annotator": annotator}, strategy=NotedStrategy())
        return Memory(
            attrs.evolve(made, flush=FlushConfig(**flush), writing=WritingConfig(filters=list(filters))), scope=scope
        )

    return noted


async def found(memory: Memory, query: str) -> list[str]:
    return [result.path for result in await memory.search(query)]


def asked(annotator: ScriptedAnnotator) -> list[str]:
    return [text for call in annotator.calls for text in call]


async def table(memory: Memory) -> list[tuple[Any, ...]]:
    async with memory._context.database.reader() as connection:
        return sorted(tuple(row) for row in await connection.execute_fetchall("SELECT * FROM words"))


def counts(report: Any) -> tuple[int, int, list[str]]:
    return report.annotated, report.pending_annotations, report.notices


async def test_indexing_annotates_and_a_search_never_does(noted, annotator, write):
    write("memory/a.md", "# Cache\n\nWe chose Valkey.\n\nIt is fast.\n")
    async with noted() as memory:
        assert await found(memory, "valkey") == []
        assert annotator.calls == []
        assert counts(await memory.index()) == (3, 0, [])
        assert sorted(asked(annotator)) == ["Cache\n# Cache", "Cache\nIt is fast.", "Cache\nWe chose Valkey."]
        assert await found(memory, "valkey") == ["memory/a.md"]
        write("memory/b.md", "Ravi is new.\n")
        assert await found(memory, "ravi") == []
        status = await memory.status()
        assert (status.annotator, status.pending_annotations) == ("kipu.testing.doubles.ScriptedAnnotator", 1)
        assert counts(await memory.index()) == (1, 0, [])
        assert len(annotator.calls) == 2


async def test_a_text_is_annotated_once_wherever_it_is_and_whatever_is_around_it(noted, annotator, write, workspace):
    write("memory/a.md", "We chose Valkey.\n")
    write("memory/b.md", "We chose Valkey.\n")
    async with noted() as memory:
        assert counts(await memory.index()) == (2, 0, [])
        write("memory/a.md", "Before.\n\nWe chose Valkey.\n")
        (workspace / "memory/b.md").unlink()
        (workspace / "memory/a.md").rename(workspace / "memory/c.md")
        assert counts(await memory.index()) == (1, 0, [])
        write("memory/d.md", "We chose Valkey.\n")
        assert await found(memory, "valkey") == ["memory/c.md"]
        assert sorted(row[1:] for row in await table(memory) if "valkey" in row[1]) == [
            (" we chose valkey ", "memory/c.md"),
            (" we chose valkey ", "memory/d.md"),
        ]
    assert sorted(asked(annotator)) == ["Before.", "We chose Valkey."]


async def test_another_annotator_replaces_what_the_previous_one_said(noted, annotator, write):
    write("memory/a.md", "We chose Valkey.\n")
    other = ScriptedAnnotator([['{"words": ["redis"]}']], salt="2")
    async with noted() as memory:
        await memory.index()
    async with noted(other) as memory:
        assert (await memory.status()).pending_annotations == 1
        assert await found(memory, "valkey") == ["memory/a.md"]
        assert counts(await memory.index()) == (1, 0, [])
        assert (await found(memory, "valkey"), await found(memory, "redis")) == ([], ["memory/a.md"])


async def test_rebuilt_tables_are_as_those_that_grew(noted, write):
    for number in range(20):
        write(f"memory/{number}.md", f"Note {number % 15} is here.\n")
    async with noted() as memory:
        await memory.index()
        write("memory/new.md", "Note 3 is here.\n\nNote 99 is here.\n")
        await memory.index()
        grown = await table(memory)
        await memory._synchronizer._index_all(force=False)
        indexer = await memory._synchronizer.indexer()
        await indexer.rebuild_tables(everything=True)
        assert await table(memory) == grown
        assert all(row[1].strip() for row in grown)


# --- failures ------------------------------------------------------------------------------------------------------


async def test_a_busy_annotator_is_retried_and_what_fails_is_healed(noted, annotator, write):
    write("memory/a.md", "We chose Valkey.\n")
    annotator.script = [AnnotatorBusyError("Overloaded (503)."), None]
    async with noted() as memory:
        assert counts(await memory.index()) == (1, 0, [])
        write("memory/b.md", "Ravi is new.\n")
        annotator.script = [AnnotatorBusyError("Overloaded (503).")]
        left = "Overloaded (503). What is not annotated yet is left to the next indexing."
        assert counts(await memory.index()) == (0, 1, [left])
        assert len(annotator.calls) == 2 + 3
        annotator.script = []
        assert counts(await memory.index()) == (1, 0, [])
        assert await found(memory, "ravi") == ["memory/b.md"]


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        (AnnotatorError("The key was refused (401)."), 5),
        (TimeoutError(), 1),
        ([], 5),
        (lambda texts: "{}" * len(texts), 5),
        (lambda texts: [{} for _ in texts], 5),
        (object(), 5),
    ],
    ids=["refused", "slow", "too few", "a text", "no texts", "no list"],
)
async def test_a_run_ends_where_all_calls_fail_and_all_stays_pending(noted, annotator, write, answer, calls):
    for number in range(20):
        write(f"memory/{number}.md", f"Note {number}.\n")
    annotator.script = [answer]
    async with noted() as memory:
        report = await memory.index()
        assert (report.annotated, report.pending_annotations) == (0, 20)
        assert report.notices[0].endswith(" What is not annotated yet is left to the next indexing.")
        assert len(annotator.calls) == calls
        annotator.script = []
        assert counts(await memory._index_while_watching()) == (20, 0, [])


async def test_a_text_that_fails_alone_is_named_and_stays_pending(noted, annotator, write):
    for number in range(10):
        write(f"memory/{number}.md", f"Note {number}.\n")

    def refuse(texts: list[str]) -> None:
        if "Note 4." in texts:
            raise AnnotatorError("The content was refused (400).")

    annotator.script = [refuse]
    problem = (
        'memory/4.md:1 was not annotated by "kipu.testing.doubles.ScriptedAnnotator": The content was refused (400).'
    )
    async with noted() as memory:
        assert counts(await memory.index()) == (9, 1, [problem])
        annotator.script = []
        assert counts(await memory.index()) == (1, 0, [])


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Ravi uses FastAPI.",
        "[]",
        "null",
        '{"words": ["a"',
        '{"words": NaN}',
        '{"words": ["\\ud800"]}',
        '{"a":' * 10_000 + "1" + "}" * 10_000,
        json.dumps({"words": ["x" * 65_536]}),
    ],
    ids=lambda answer: answer[:20],
)
async def test_what_is_no_json_object_is_dropped_and_not_asked_for_again(noted, annotator, write, answer):
    write("memory/a.md", "We chose Valkey.\n")
    write("memory/b.md", "Ravi is new.\n")
    annotator.script = [lambda texts: [answer if "Valkey" in text else '{"words": ["ravi"]}' for text in texts]]
    problem = (
        'memory/a.md:1 was not annotated by "kipu.testing.doubles.ScriptedAnnotator": it returned no JSON object of at '
        "most 65,536 characters."
    )
    async with noted() as memory:
        assert counts(await memory.index()) == (2, 0, [problem])
        assert counts(await memory.index()) == (0, 0, [])
        assert len(annotator.calls) == 1
        assert await found(memory, "ravi") == ["memory/b.md"]
        write("memory/a.md", "We chose Valkey 8.\n")
        annotator.script = []
        assert counts(await memory.index()) == (1, 0, [])


KILLED = """
import asyncio, os, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
import attrs
from test_annotate import NotedStrategy
from kipu import IndexConfig, Memory, MemoryConfig, SearchConfig
from kipu.testing import ParagraphChunker, ScriptedAnnotator

def answer(texts):
    if len(annotator.calls) == 3:
        os.kill(os.getpid(), 9)

async def main():
    index = IndexConfig(chunker=ParagraphChunker(), annotator=annotator)
    search = SearchConfig(strategy=NotedStrategy(), postprocessors=[])
    async with Memory(MemoryConfig(Path({workspace!r}), index=index, search=search)) as memory:
        await memory.index()

annotator = ScriptedAnnotator([answer])
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no such signal")
async def test_a_run_that_is_killed_keeps_what_it_stored_and_the_next_one_goes_on(noted, annotator, write, workspace):
    for number in range(30):
        write(f"memory/{number}.md", f"Note {number}.\n")
    program = KILLED.format(tests=str(__file__.rpartition("/")[0]), workspace=str(workspace))
    run = partial(subprocess.run, capture_output=True, text=True, check=False)
    done = await asyncio.to_thread(run, [sys.executable, "-c", program])
    assert done.returncode == -9, done.stderr
    async with noted() as memory:
        assert (await memory.status()).pending_annotations == 14
        assert counts(await memory.index()) == (14, 0, [])
        assert len(asked(annotator)) == 14
        assert len([row for row in await table(memory) if row[1].strip()]) == 30


async def test_two_memories_that_index_at_once_annotate_each_text_once(noted, annotator, write):
    for number in range(30):
        write(f"memory/{number}.md", f"Note {number}.\n")
    async with noted() as first, noted() as second:
        await asyncio.gather(first.index(), second.index())
        assert (await first.index()).pending_annotations == 0
    assert len(asked(annotator)) == len(set(asked(annotator))) == 30


# --- what is sent --------------------------------------------------------------------------------------------------


async def test_the_budget_is_used_up_to_the_last_call_and_the_rest_stays_pending(noted, write, workspace):
    for number in range(20):
        write(f"memory/{number}.md", f"Note {number}.\n")
    annotator = ScriptedAnnotator(destination="api.example.com")
    async with noted(annotator, calls_per_day=11) as memory:
        report = await memory.index()
        assert counts(report) == (
            11,
            9,
            [
                "Daily budget reached: 11 of 11 model calls used, 1 more needed. Nothing was sent. Raise "
                "flush.calls_per_day in kipu.toml. What is not annotated yet is left to the next indexing."
            ],
        )
        assert len(asked(annotator)) == 11
    ((_, used),) = json.loads((workspace / ".kipu/usage.json").read_text("utf-8")).items()
    assert used["calls"] == 11
    assert used["tokens"] > 11
    async with noted(annotator, calls_per_day=100) as memory:
        assert counts(await memory.index()) == (9, 0, [])


async def test_an_annotator_that_sends_nothing_anywhere_costs_nothing_and_sees_all(noted, annotator, write):
    write("memory/a.md", f"The key is {KEY}.\n")
    async with noted(filters=[KeyFilter()], calls_per_day=0) as memory:
        assert counts(await memory.index()) == (1, 0, [])
    assert asked(annotator) == [f"The key is {KEY}."]


@pytest.mark.parametrize("destination", ["api.example.com", "unknown"])
async def test_no_secret_is_sent_elsewhere(noted, write, destination):
    write("memory/a.md", f"The key is {KEY}.\n")
    annotator = ScriptedAnnotator(destination=destination)
    async with noted(annotator, filters=[KeyFilter()]) as memory:
        report = await memory.index()
        assert counts(report) == (1, 0, ["In what is sent to the annotator: A key was replaced."])
        assert asked(annotator) == ["The key is [redacted: key]."]
        assert counts(await memory.index()) == (0, 0, [])


async def test_nothing_is_sent_where_a_write_filter_fails(noted, write):
    @attrs.frozen
    class Broken:
        def filter(self, text, path):
            raise ValueError(text)

    write("memory/a.md", "We chose Valkey.\n")
    annotator = ScriptedAnnotator(destination="api.example.com")
    async with noted(annotator, filters=[Broken()]) as memory:
        report = await memory.index()
    assert (report.annotated, report.pending_annotations, annotator.calls) == (0, 1, [])
    assert "failed: ValueError" in report.notices[0]


async def test_a_scope_annotates_counts_and_names_its_own_texts_only(noted, annotator, write):
    annotator.script = [lambda texts: ["" for _ in texts]]
    async with noted(scope="ada") as memory:
        own = (await memory.remember("Ada likes tea.", file="own.md")).path
    write("memory/team/b.md", "Ravi is new.\n\nWe chose Valkey.\n")
    async with noted(scope="ada") as memory:
        assert (await memory.status()).pending_annotations == 1
        progress: list[Any] = []
        report = await memory.index(on_annotating=lambda done, total: progress.append((done, total)))
        assert (report.annotated, report.pending_annotations, progress) == (1, 0, [(0, 1), (1, 1)])
        assert [notice.partition(":")[0] for notice in report.notices] == [own]
    assert asked(annotator) == ["- Ada likes tea."]
    async with noted() as memory:
        assert (await memory.index()).annotated == 2


async def test_progress_is_reported(noted, write):
    for number in range(20):
        write(f"memory/{number}.md", f"Note {number}.\n")
    progress: list[Any] = []
    async with noted() as memory:
        await memory.index(on_annotating=lambda done, total: progress.append((done, total)))
    assert progress == [(0, 20), (8, 20), (16, 20), (20, 20)]


# --- where it is not needed, or cannot be used ---------------------------------------------------------------------


async def test_without_a_strategy_that_needs_annotations_the_annotator_is_not_called(config, annotator, write):
    write("memory/a.md", "We chose Valkey.\n")
    async with Memory(config(index={"annotator": annotator}, relation=False)) as memory:
        assert counts(await memory.index()) == (
            0,
            0,
            [
                'No strategy in use needs annotations: the annotator "kipu.testing.doubles.ScriptedAnnotator" is not '
                "called."
            ],
        )
        assert (await memory.status()).annotator is None
    assert annotator.calls == []


async def test_without_an_annotator_a_strategy_has_chunks_without_annotations(noted, write):
    write("memory/a.md", "We chose Valkey.\n")
    async with noted(None) as memory:
        assert counts(await memory.index()) == (0, 0, [])
        assert [row[1].strip() for row in await table(memory)] == [""]


async def test_an_annotator_that_cannot_be_used_is_named_and_the_rest_is_indexed(noted, write):
    write("memory/a.md", "We chose Valkey.\n")
    async with noted(ScriptedAnnotator(destination=3)) as memory:  # type: ignore[arg-type]
        report = await memory.index()
        assert (report.added, report.annotated) == (1, 0)
        assert "has an invalid destination" in report.notices[0]
        assert "has an invalid destination" in (await memory.status()).notices[0]


# --- forgetting ----------------------------------------------------------------------------------------------------


def files_with(workspace: Path, word: str) -> list[str]:
    files = (path for path in workspace.rglob("*") if path.is_file())
    return sorted(path.name for path in files if word.encode() in path.read_bytes().lower())


@pytest.mark.parametrize("history", ["as it is", "edited before", "not annotated again"])
async def test_a_forgotten_text_leaves_no_annotation(noted, annotator, write, workspace, history):
    annotator.script = [
        lambda texts: [json.dumps({"words": [word[:7] + "says" for word in text.split()]}) for text in texts]
    ]
    write("memory/a.md", "Bananas are yellow.\n\nThe code is xylophonequartz.\n")
    async with noted() as memory:
        await memory.index()
        assert files_with(workspace, "xylophosays") == ["index.sqlite"] or files_with(workspace, "xylophosays")
        if history != "as it is":
            write("memory/a.md", "Bananas are yellow.\n\nThe code is xylophonequartz now.\n")
            if history == "edited before":
                await memory.index()
        receipt = await memory.forget(path="memory/a.md", start=3)
        assert receipt.complete
        if history != "not annotated again":
            (trace,) = [trace for trace in receipt.traces if trace.place == "index: annotations"]
            assert (trace.before, trace.after) == (1, 0)
        assert files_with(workspace, "xylophosays") == files_with(workspace, "xylophonequartz") == []
        assert await found(memory, "bananassays") == ["memory/a.md"]
        assert (await memory.status()).pending_annotations == 0


async def test_annotations_that_no_chunk_needs_are_evicted_beyond_the_cache(config, annotator, write, workspace):
    made = config(index={"annotator": annotator, "cache_bytes": 100}, strategy=NotedStrategy())
    async with Memory(made) as memory:
        for number in range(9):
            write("memory/a.md", f"Always.\n\nNote {number}.\n")
            await memory.index()
        async with memory._context.database.reader() as connection:
            rows = [row[0] for row in await connection.execute_fetchall("SELECT annotation FROM annotations")]
    assert 3 <= len(rows) <= 6
    assert '{"words": ["always"]}' in rows
    assert '{"words": ["note", "8"]}' in rows
