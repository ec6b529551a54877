"""Measures what the first searches of a workspace cost whose chunks are not embedded yet, with the offline model.

    python benchmarks/first_search.py [--chunks 5000] [--searches 3]

Once with an index that has no vectors, as after a change of the model, and once without any index, so that the first
search reads and chunks all files too. CPU time is that of the whole process `kipu search`, all threads together.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import corpus
import speed

QUESTION = "what did we decide about the cache"
WORDS = '[search]\nstrategy = "keyword"\n'
LIMIT = 2.0  # seconds of CPU time, for the first search with an index


def measure(workspace: Path, searches: int) -> list[tuple[float, float, int]]:
    """Search some times; return the CPU time, the time and the chunks that are not embedded after each."""
    rows = []
    for _ in range(searches):
        spent = speed.run([speed.KIPU, "search", QUESTION, "--json", "--quiet", "-w", workspace])
        rows.append((spent.cpu, spent.wall, json.loads(spent.output)["pending_vectors"]))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=5000, help="how many chunks there are [default: 5000]")
    parser.add_argument("--searches", type=int, default=3, help="how many searches to measure [default: 3]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        workspace = corpus.write(Path(folder) / "workspace", options.chunks, 25)
        configuration = workspace / "kipu.toml"
        configuration.write_text(WORDS, "utf-8")
        indexed = speed.run([speed.KIPU, "index", "-w", workspace])
        print(f"kipu index by words: {indexed.cpu:.2f} s CPU. {indexed.output.strip()}")
        configuration.write_text("", "utf-8")
        for title in ("with an index, without vectors", "without an index"):
            for number, (cpu, wall, pending) in enumerate(measure(workspace, options.searches), 1):
                is_limited = number == 1 and title.startswith("with an")
                verdict = f" (limit {LIMIT:.1f}: {'kept' if cpu <= LIMIT else 'MISSED'})" if is_limited else ""
                print(f"search {number} {title}: {cpu:.2f} s CPU, {wall:.2f} s, {pending:,} chunks left{verdict}")
            shutil.rmtree(workspace / ".kipu")


if __name__ == "__main__":
    main()
