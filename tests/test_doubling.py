"""Twice the Markdown makes at most about twice the work, and an index of at most about twice the size.

What is counted is bytes, rows and calls, never time. All of it runs what ``pip install kipu`` gives, without vectors.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from kipu import Memory, MemoryConfig
from kipu.config import PluginsConfig
from kipu.sqlite import choose_driver

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOST_BYTES = 80
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
    "sections": lambda size: numbered("## Part {i}\n\ntext {i}\n\n", size),
    "headings of all levels": lambda size: "".join(f"{'#' * (1 + i % 6)} Part {i}\n" for i in range(size // 14)),
    "headings of one letter": lambda size: "# a\n" * (size // 4),
    "long headings": lambda size: (
        "".join(f"{'#' * i} {f'title{i} ' * 40}\n\n" for i in range(1, 7)) + FACT * (size // 16)
    ),
    "a long heading": lambda size: f"# {'title ' * (size // 12)}\n\n{FACT * (size // 32)}\n",
    "front matter": lambda size: f"---\ntitle: {'title ' * (size // 12)}\ntags: {'x ' * (size // 8)}\n---\nfact\n",
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


@pytest.fixture
def config(workspace: Path) -> MemoryConfig:
    return MemoryConfig(workspace, plugins=PluginsConfig(disable=["kipu-embedder-onnx"]))


def size_of_index(workspace: Path) -> int:
    return sum(path.stat().st_size for path in (workspace / ".kipu").glob("index.*"))


@pytest.mark.parametrize("kind", KINDS)
async def test_the_index_is_a_constant_times_the_markdown(workspace: Path, config: MemoryConfig, kind: str) -> None:
    sizes = []
    for size in (20_000, 40_000):
        (workspace / "memory/a.md").write_text(KINDS[kind](size), "utf-8")
        async with Memory(config) as memory:
            await memory.index(force=True)
        with contextlib.closing(choose_driver().connect(workspace / ".kipu/index.sqlite")) as connection:
            connection.execute("VACUUM")
        sizes.append(size_of_index(workspace))
    assert sizes[1] <= 2.2 * sizes[0]
    assert sizes[1] <= MOST_BYTES * 40_000
