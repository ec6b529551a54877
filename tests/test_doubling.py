"""Twice the Markdown makes at most about twice the work, and an index of at most about twice the size.

What is counted is bytes, rows and calls, never time. All of it runs what ``pip install kipu`` gives, without vectors.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from kipu import Memory, MemoryConfig
from kipu.config import FlushConfig, PluginsConfig
from kipu.sqlite import choose_driver
from kipu.testing import ScriptedFlusher

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

MOST_BYTES = 110
"""The most bytes of index for a byte of Markdown: notes take 4 to 8, and a heading of one letter takes the most."""

FACT = "some fact here. "


def numbered(line: str, size: int) -> str:
    """Return about ``size`` bytes of a line, in which ``{i}`` is the number of the line."""
    return "".join(line.format(i=i) for i in range(size // len(line)))


KINDS: dict[str, Callable[[int], str]] = {
    "items": lambda size: numbered("- fact number {i} about the day\n", size),
    "one line": lambda size: FACT * (size // 16),
    "an item of many lines": lambda size: "- a fact\n" + "  a fact\n" * (size // 9),
    "metadata of a long entry": lambda size: f"- {FACT * (size // 32)}\n  [tags: {'tag, ' * (size // 10)}x]\n",
    "many keys of a long entry": lambda size: (
        f"- {FACT * (size // 32)}\n  [{'; '.join(f'k{i}: v' for i in range(size // 20))}]\n"
    ),
    "metadata of many entries": lambda size: numbered("- fact number {i}\n  [id: e{i}; superseded_by: e9]\n", size),
    "tags of many entries": lambda size: numbered("- a\n  [tags: a{i}, b{i}, c{i}, d{i}]\n", size),
    "sections": lambda size: numbered("## Part {i}\n\ntext {i}\n\n", size),
    "headings of all levels": lambda size: "".join(f"{'#' * (1 + i % 6)} Part {i}\n" for i in range(size // 14)),
    "headings of one letter": lambda size: "# a\n" * (size // 4),
    "long headings": lambda size: (
        "".join(f"{'#' * i} {f'title{i} ' * 40}\n\n" for i in range(1, 7)) + FACT * (size // 16)
    ),
    "a long heading": lambda size: f"# {'title ' * (size // 12)}\n\n{FACT * (size // 32)}\n",
    "front matter": lambda size: f"---\ntitle: {'title ' * (size // 12)}\ntags: {'x ' * (size // 8)}\n---\nfact\n",
    "many values of front matter": lambda size: f"---\n{'k' * 60}:\n{numbered('- {i}' + chr(10), size)}\n---\nfact\n",
    "empty items": lambda size: "- \n" * (size // 3),
    "nested items": lambda size: "".join(f"{'  ' * (i % 99)}- fact {i}\n" for i in range(size // 108)),
    "a table": lambda size: f"| {'head ' * 60} | b |\n|---|---|\n" + numbered("| fact {i} | value {i} |\n", size),
    "a fence": lambda size: "```\n" + numbered("fact {i}\n", size) + "```\n",
    "links": lambda size: numbered("[fact {i}](a/b/c/{i}.md) ", size),
    "names": lambda size: numbered("src/app{i}/main.py:42 ", size),
    "characters that fold into eighteen": lambda size: "\ufdfa" * (size // 3),
    "Japanese": lambda size: "日本語の事実。" * (size // 21),
    "blank lines": lambda size: "a fact" + "\n" * size + "another fact\n",
}


SIZE = 30_000
MOST_GROWTH = 2.5
"""Twice the Markdown makes at most so many times the calls."""


def open_memory(workspace: Path, *facts: str, window: int | None = None) -> Memory:
    """Open a memory without vectors, whose flusher returns the facts."""
    (workspace / "memory").mkdir(parents=True, exist_ok=True)
    flush = FlushConfig(flusher=ScriptedFlusher(["\n".join(f"- {fact}" for fact in facts)], window))
    return Memory(MemoryConfig(workspace, plugins=PluginsConfig(disable=["kipu-embedder-onnx"]), flush=flush))


# --- the size of the index --------------------------------------------------------------------------------------------


async def size_of_index(workspace: Path, text: str) -> int:
    async with open_memory(workspace) as memory:
        (workspace / "memory/a.md").write_text(text, "utf-8")
        await memory.index()
    with contextlib.closing(choose_driver().connect(workspace / ".kipu/index.sqlite")) as connection:
        connection.execute("VACUUM")
    return (workspace / ".kipu/index.sqlite").stat().st_size


@pytest.mark.parametrize("kind", KINDS)
async def test_the_index_is_a_constant_times_the_markdown(tmp_path: Path, kind: str) -> None:
    one = await size_of_index(tmp_path / "one", KINDS[kind](SIZE // 2))
    two = await size_of_index(tmp_path / "two", KINDS[kind](SIZE))
    assert two <= 2.2 * one
    assert two <= MOST_BYTES * SIZE


# --- calls ------------------------------------------------------------------------------------------------------------


class Calls:
    """The number of calls, of functions in Python and in C, in this thread and in those that are started after it."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._is_on = False

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if self._is_on and event in ("call", "c_call"):
            next(self._numbers)

    async def of(self, work: Callable[[], Awaitable[Any]]) -> int:
        before = next(self._numbers)
        self._is_on = True
        try:
            await work()
        finally:
            self._is_on = False
        return next(self._numbers) - before


@pytest.fixture
def calls() -> Iterator[Calls]:
    calls, before = Calls(), sys.getprofile()
    threading.setprofile(calls)
    sys.setprofile(calls)
    yield calls
    sys.setprofile(before)
    threading.setprofile(before)


MESSAGES = [{"role": "user", "content": "We talked about the day."}]
FILE = "memory/a.md"


def change_a_line(memory: Memory) -> Callable[[], Awaitable[Any]]:
    file = memory.workspace / FILE
    file.write_text(file.read_text("utf-8").replace("number 77 ", "number seventy-seven "), "utf-8")
    return memory.index


OPERATIONS: dict[str, Callable[[Memory, str], Callable[[], Awaitable[Any]]]] = {
    "index one changed line": lambda memory, text: change_a_line(memory),
    "search": lambda memory, text: lambda: memory.search("fact of the day"),
    "explain": lambda memory, text: lambda: memory.search("fact", explain=True, explain_path="memory/none.md"),
    "recall": lambda memory, text: lambda: memory.recall("fact of the day"),
    "recall half of it": lambda memory, text: lambda: memory.recall("fact of the day", max_tokens=len(text) // 8),
    "read": lambda memory, text: lambda: memory.read(FILE, start=77),
    "status": lambda memory, text: memory.status,
    "remember": lambda memory, text: lambda: memory.remember("The boat leaves on day 77", file="a.md"),
    "remember a long text": lambda memory, text: lambda: memory.remember(f"The boat\n{text}", file="b.md"),
    "remember what is there": lambda memory, text: lambda: memory.remember("fact number 77 about the day", file="a.md"),
    "supersede": lambda memory, text: lambda: memory.remember("The boat", file="a.md", supersedes=f"{FILE}:77"),
    "edit": lambda memory, text: lambda: memory.edit("the boat", path=FILE, start=77),
    "move lines": lambda memory, text: lambda: memory.move("memory/b.md", path=FILE, start=77, end=99, all=True),
    "move entries": lambda memory, text: (
        lambda: memory.move("memory/team/b.md", path=FILE, start=1, end=text.count("\n"), all=True)
    ),
    "list entries": lambda memory, text: memory.entries,
    "move the file": lambda memory, text: lambda: memory.move("memory/b.md", path=FILE),
    "forget": lambda memory, text: lambda: memory.forget(path=FILE, start=77),
    "forget all": lambda memory, text: lambda: memory.forget(path=FILE, all=True),
    "flush facts that are there": lambda memory, text: lambda: memory.flush(MESSAGES),
    "flush other facts": lambda memory, text: lambda: memory.flush(MESSAGES, source="team"),
}


async def calls_of_operation(calls: Calls, workspace: Path, name: str, size: int) -> int:
    text = KINDS["items"](size)
    facts = [line.removeprefix("- ") for line in text.splitlines()]
    async with open_memory(workspace, *facts) as memory:
        (workspace / FILE).write_text(text, "utf-8")
        await memory.index()
        return await calls.of(OPERATIONS[name](memory, text))


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
async def test_work_is_not_quadratic_in_a_file(calls: Calls, tmp_path: Path, name: str) -> None:
    one = await calls_of_operation(calls, tmp_path / "one", name, SIZE)
    two = await calls_of_operation(calls, tmp_path / "two", name, 2 * SIZE)
    assert two <= MOST_GROWTH * one


async def calls_of_index(calls: Calls, workspace: Path, text: str) -> int:
    async with open_memory(workspace) as memory:
        (workspace / FILE).write_text(text, "utf-8")
        return await calls.of(memory.index)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_indexing_is_not_quadratic_in_any_kind_of_file(calls: Calls, tmp_path: Path, kind: str) -> None:
    one = await calls_of_index(calls, tmp_path / "one", KINDS[kind](SIZE))
    two = await calls_of_index(calls, tmp_path / "two", KINDS[kind](2 * SIZE))
    assert two <= MOST_GROWTH * one


async def calls_of_compact(calls: Calls, workspace: Path, count: int) -> int:
    async with open_memory(workspace, *(f"fact {number}" for number in range(count))) as memory:
        for number in range(count):
            day = date(2020, 1, 1) + timedelta(number)
            (workspace / f"memory/{day}.md").write_text(f"- On day {number}, a boat left.\n", "utf-8")
        await memory.index()
        return await calls.of(memory.compact)


@pytest.mark.slow
async def test_compact_is_not_quadratic_in_the_number_of_files(calls: Calls, tmp_path: Path) -> None:
    one = await calls_of_compact(calls, tmp_path / "one", 50)
    two = await calls_of_compact(calls, tmp_path / "two", 100)
    assert two <= MOST_GROWTH * one


async def calls_of_many_files(calls: Calls, workspace: Path, count: int) -> int:
    async with open_memory(workspace) as memory:
        for number in range(count):
            (workspace / f"memory/{number}.md").write_text(f"- On day {number}, a boat left.\n", "utf-8")
        return await calls.of(memory.index)


@pytest.mark.slow
async def test_indexing_is_not_quadratic_in_the_number_of_files(calls: Calls, tmp_path: Path) -> None:
    one = await calls_of_many_files(calls, tmp_path / "one", 150)
    two = await calls_of_many_files(calls, tmp_path / "two", 300)
    assert two <= MOST_GROWTH * one


async def calls_of_conversation(calls: Calls, workspace: Path, count: int) -> int:
    messages = [{"role": "user", "content": f"On day {number}, a boat left."} for number in range(count)]
    async with open_memory(workspace, "A boat left.", window=3_000) as memory:
        return await calls.of(lambda: memory.flush(messages))


@pytest.mark.slow
async def test_flush_is_not_quadratic_in_the_conversation(calls: Calls, tmp_path: Path) -> None:
    one = await calls_of_conversation(calls, tmp_path / "one", 1_000)
    two = await calls_of_conversation(calls, tmp_path / "two", 2_000)
    assert two <= MOST_GROWTH * one


# --- queries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("character", ["\ufdfa", "\u65e5", "word ", "a.b/c:"])
async def test_of_a_long_query_only_the_beginning_is_searched(calls: Calls, tmp_path: Path, character: str) -> None:
    async with open_memory(tmp_path) as memory:
        (tmp_path / FILE).write_text("- The boat left.\n", "utf-8")
        await memory.index()
        one = await calls.of(lambda: memory.search("boat " + character * 10_000))
        ten = await calls.of(lambda: memory.search("boat " + character * 100_000))
        results = await memory.search("boat " + character * 100_000)
    assert ten <= 1.1 * one
    assert [result.text for result in results] == ["- The boat left."]
    assert results.notices == ["Of the query, only the first 10,000 characters were searched."]
