"""Measures what it costs to reorder hits by maximal marginal relevance, by words and by vectors.

    python benchmarks/postprocessors.py

Each figure is the median CPU time of all threads, in milliseconds. The texts are those that speed.py searches, each
about a chunk; the vectors have 384 numbers, as those of the standard embedder have. To reach: 400 hits in 50 ms, and
no more than four times as much for twice as many. On a busy machine, judge milliseconds by the yardstick.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import corpus
import numpy as np

from kipu.types import Hit, Query, StoredChunk
from kipu_postprocessor_mmr import Mmr

HITS = (100, 200, 400)
ROUNDS = 15
DIMENSION = 384


def make_hits(count: int, share_with_vector: float) -> list[Hit]:
    """Return hits with the texts of the corpus, and random vectors for a part of them."""
    chance, numbers = random.Random(count), np.random.default_rng(count)
    vectors = numbers.standard_normal((count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        (file,) = corpus.write(Path(folder), sections=count, sections_in_file=count).rglob("*.md")
        texts = ["## " + text for text in file.read_text("utf-8").split("## ")[1:]]
    return [
        Hit(
            StoredChunk(number, "", "memory/notes.md", "memory", None, 1, 1, "", 0, text, ""),
            score=1 - number / count,
            vector=vector if chance.random() < share_with_vector else None,
        )
        for number, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]


def cpu_ms(hits: list[Hit]) -> float:
    """Return what it takes to reorder hits, in milliseconds of CPU time."""

    async def measure() -> list[float]:
        spent = []
        for _ in range(ROUNDS):
            start = time.process_time()
            await Mmr().process(Query("anything"), hits)
            spent.append(time.process_time() - start)
        return spent

    return 1e3 * statistics.median(asyncio.run(measure()))


def main() -> None:
    """Measure and print."""
    start = time.process_time()
    sum(1 for _ in range(1_000_000))
    print(f"Yardstick, CPU: {1e3 * (time.process_time() - start):.0f} ms to count to a million, one by one\n")
    print(f"{'mmr, CPU':<24}", *(f"{count:>5} hits" for count in HITS), "  for twice as many")
    for name, share in (("by words", 0.0), ("by vectors", 1.0), ("half of them by words", 0.5)):
        spent = [cpu_ms(make_hits(count, share)) for count in HITS]
        times = ", ".join(f"x {more / fewer:.1f}" for fewer, more in pairwise(spent))
        print(f"{name:<24}", *(f"{milliseconds:7.1f} ms" for milliseconds in spent), f"  {times}")


if __name__ == "__main__":
    main()
