"""Counts what each flow of Kipu goes through: how much a reader has to follow, and how often the database is asked.

    python benchmarks/flows.py
    python benchmarks/flows.py --json figures.json

The flows run on a workspace of three files, with the standard strategies and an embedder that hashes words: twice, and
the second time is counted, so that nothing is imported then. What the figures mean is in README.md beside this file.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import aiosqlite
import attrs
import numpy as np

import kipu
from kipu import IndexConfig, Memory, MemoryConfig

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

KERNEL = str(Path(kipu.__file__).parent)
FIGURES = ("modules", "functions", "depth", "round_trips", "write_transactions")
FILES = {
    "memory/decisions.md": "# Decisions\n\nWe use Redis as a cache for sessions.\n\nThe API speaks JSON.\n",
    "memory/2026-11-29.md": "# Sunday\n\n- Ada moved the cache to Redis.\n- The build takes nine minutes.\n",
    "memory/team/people.md": "# People\n\nGrace is on call, and knows Redis.\n",
}


@attrs.frozen
class Hashing:
    """Counts the words of a text, each in a dimension of its own. Not that of `kipu.testing`: that is in the kernel."""

    identity: ClassVar[str] = "hashing"
    languages: ClassVar[Sequence[str] | None] = None
    batch_size: ClassVar[int] = 64
    destination: ClassVar[str | None] = None

    async def embed(self, texts: Sequence[str], *, role: str) -> Any:
        rows = np.zeros((len(texts), 64), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split() or [""]:
                row[hashlib.sha256(word.encode()).digest()[0] % 64] += 1
        return rows


class Meter:
    """Counts while a flow runs, in all threads that are started after `install`."""

    def __init__(self) -> None:
        self.figures: dict[str, dict[str, int]] = {}
        self._entered: set[tuple[str, str]] = set()
        self._depth = 0
        self._statements: Counter[str] = Counter()
        self._is_on = False

    def install(self) -> None:
        """Start to watch the calls of functions and of SQLite."""
        real = aiosqlite.Connection._execute  # noqa: SLF001 (every statement passes here)

        async def execute(connection: Any, function: Any, *arguments: Any, **options: Any) -> Any:
            if self._is_on:
                statement = arguments[0] if arguments and isinstance(arguments[0], str) else ""
                self._statements["BEGIN IMMEDIATE" if statement.startswith("BEGIN IMMEDIATE") else "other"] += 1
            return await real(connection, function, *arguments, **options)

        aiosqlite.Connection._execute = execute  # type: ignore[method-assign]  # noqa: SLF001
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    def _called(self, frame: FrameType, event: str, _: Any) -> None:
        if not self._is_on or event != "call" or not frame.f_code.co_filename.startswith(KERNEL):
            return
        name = frame.f_code.co_qualname
        if "comp>" in name or "<genexpr>" in name:
            return
        depth, caller = 0, frame
        while caller is not None:
            depth += caller.f_code.co_filename.startswith(KERNEL)
            caller = caller.f_back  # type: ignore[assignment]
        self._entered.add((frame.f_code.co_filename, name))
        self._depth = max(self._depth, depth)

    @contextmanager
    def count(self, flow: str) -> Iterator[None]:
        """Count what happens inside. A second time, under the same name, replaces the first."""
        self._entered.clear()
        self._statements.clear()
        self._depth = 0
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False
        modules = {path for path, _ in self._entered}
        counts = (len(modules), len(self._entered), self._depth, self._statements.total())
        self.figures[flow] = dict(zip(FIGURES, (*counts, self._statements["BEGIN IMMEDIATE"]), strict=True))


async def run(meter: Meter, workspace: Path) -> None:
    """Run each flow, a search twice: the first one indexes."""
    for path, text in FILES.items():
        file = workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    config = MemoryConfig(workspace, index=IndexConfig(embedder=Hashing()))
    with meter.count("open"):
        memory = Memory(config)
    async with memory:
        for _ in range(2):
            with meter.count("search"):
                results = await memory.search("why redis")
        if results.degraded or not results:
            raise SystemExit(f"The search did not go by meaning: {list(results)}")
        with meter.count("remember"):
            note = await memory.remember("The harbour has two ferries.")
        with (workspace / "memory/decisions.md").open("a", encoding="utf-8") as file:
            file.write("\nTests come first.\n")
        with meter.count("index of one changed file"):
            report = await memory.index()
        if (report.changed, report.pending_vectors) != (1, 0):
            raise SystemExit(f"The file was not indexed: {report}")
        (result,) = await memory.search("harbour ferries", max_results=1)
        with meter.count("forget"):
            await memory.forget(chunk=result.chunk)
        if note.path in {file.path for file in await memory.files()}:
            raise SystemExit(f"{note.path} was not forgotten.")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures to this file too")
    options = parser.parse_args()
    meter = Meter()
    meter.install()
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(run(meter, Path(folder)))
    print(f"{'':26}", *(f"{name.replace('_', ' '):>18}" for name in FIGURES))
    for flow, figures in meter.figures.items():
        print(f"{flow:26}", *(f"{figures[name]:18}" for name in FIGURES))
    if options.json:
        options.json.write_text(json.dumps(meter.figures, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
