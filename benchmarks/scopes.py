"""Measures what a search in one source costs, beside one in a workspace that holds that source alone.

    python benchmarks/scopes.py                              # 20,000 chunks of four sources
    python benchmarks/scopes.py --before ../other-checkout   # beside another version of Kipu, too

Prints the CPU time of all threads of one search by words, the median of several, for words from common to rare. What
looks at the files is left out (``sync=False`` compares time stamps only).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import corpus

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[1]
SOURCE = corpus.FOLDERS[0]
QUERIES = 12


def choose_queries(workspace: Path) -> dict[str, list[str]]:
    """Return queries of one word by how many chunks of the workspace have it, and queries of three words."""
    files = sorted((workspace / "memory" / SOURCE).glob("*.md"))
    counts: dict[str, int] = {}
    for file in files:
        for section in file.read_text("utf-8").split("## "):
            for word in {word.strip(".").lower() for word in section.split()}:
                counts[word] = counts.get(word, 0) + 1
    words = sorted((word for word in counts if word.isalpha() and word not in corpus.COMMON), key=counts.__getitem__)
    middle = len(words) // 2
    return {
        "the commonest words": words[-QUERIES:],
        "common words": words[-10 * QUERIES :: 10][:QUERIES],
        "rare words": words[middle : middle + QUERIES],
        "three words": corpus.queries(workspace, QUERIES),
    }


async def measure(workspace: Path, source: str | None, queries: dict[str, list[str]], rounds: int) -> dict[str, float]:
    """Return the median CPU time of a search for each kind of query, in milliseconds."""
    from speed_child import timed

    from kipu import Memory

    found: dict[str, float] = {}
    async with Memory(workspace) as memory:
        await memory.index()
        for kind, asked in queries.items():
            spent: list[float] = []
            for query in asked * (rounds + 1):
                cpu, _ = await timed(lambda query=query: memory.search(query, source=source, sync=False))  # type: ignore[misc]
                spent.append(cpu * 1e3)
            found[kind] = statistics.median(spent[len(asked) :])  # the first round fills caches
    return found


def run(
    workspace: Path, source: str | None, queries: dict[str, list[str]], rounds: int, code: Path
) -> dict[str, float]:
    """Measure in a process of its own, with the version of Kipu in a checkout."""
    folders = [code / "core" / "src", *(file.parent for file in code.glob("plugins/*/*/pyproject.toml"))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
    arguments = [str(workspace), json.dumps(source), json.dumps(queries), str(rounds)]
    command = [sys.executable, __file__, "--child", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def copy(workspace: Path, target: Path, folders: Sequence[str]) -> Path:
    """Copy some sources of a workspace, unless they are there, and return the copy."""
    if not target.exists():
        for folder in folders:
            shutil.copytree(workspace / "memory" / folder, target / "memory" / folder)
        shutil.copy(workspace / "kipu.toml", target)
        time.sleep(corpus.SETTLING_SECONDS)
    return target


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path, help="a checkout of another version")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "benchmarks", help="where workspaces are built")
    options = parser.parse_args()
    shared = corpus.write(options.work / f"corpus-{options.chunks}", sections=options.chunks, sections_in_file=20)
    alone = copy(shared, options.work / f"corpus-{options.chunks}-{SOURCE}", [SOURCE])
    queries = choose_queries(shared)
    columns = {
        "in the source": run(shared, SOURCE, queries, options.rounds, ROOT),
        "in everything": run(shared, None, queries, options.rounds, ROOT),
        "alone, in the source": run(alone, SOURCE, queries, options.rounds, ROOT),
        "alone, in everything": run(alone, None, queries, options.rounds, ROOT),
    }
    if options.before:
        before = copy(shared, options.work / f"corpus-{options.chunks}-before", corpus.FOLDERS)
        columns["before"] = run(before, SOURCE, queries, options.rounds, options.before)
        columns["times before"] = {
            kind: columns["in the source"][kind] / figure for kind, figure in columns["before"].items()
        }
    width = max(map(len, queries)) + 2
    print(f"{'CPU, milliseconds':{width}}{''.join(f'{name:>22}' for name in columns)}")
    for kind in queries:
        print(f"{kind:{width}}{''.join(f'{figures[kind]:22.2f}' for figures in columns.values())}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        path, label, asked, count = sys.argv[2:]
        print(json.dumps(asyncio.run(measure(Path(path), json.loads(label), json.loads(asked), int(count)))))
    else:
        main()
