"""Measures how much of the evidence a prompt gets for its tokens: by recall, and by results one after the other.

    python benchmarks/recall.py [--strategy hybrid] [--every 5] [--budgets 500,1000,1500]

Asks the questions of LoCoMo, each in the memory of its conversation, and counts the lines of evidence that stand in the
text of a recall, whose tokens are those of the whole text, with its labels. ``results`` are the same results, best
first, as long as their bare texts fit.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import quality

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kipu.sync import Memory

# Some lines of a file.
Found = tuple[str, int, int]

PART = re.compile(r'^<memory source="(?P<path>[^"]+?):(?P<start>\d+)(?:-(?P<end>\d+))?"', re.MULTILINE)


def share(found: Iterable[Found], lines: Sequence[Sequence[Any]]) -> float:
    """Return the share of lines that stand in some places."""
    places = list(found)
    wanted = {tuple(line) for line in lines}
    return sum(any(p == path and start <= n <= end for p, start, end in places) for path, n in wanted) / len(wanted)


def ask(
    memory: Memory, question: str, budget: int
) -> tuple[list[tuple[str, int, int]], list[tuple[str, int, int]], int]:
    """Return what a recall quotes, what its results alone would bring, and how many tokens the recall has."""
    from kipu.search.tokens import count_tokens

    recalled = memory.recall(question, max_tokens=budget)
    quoted = [
        (part["path"], int(part["start"]), int(part["end"] or part["start"])) for part in PART.finditer(recalled.text)
    ]
    left, bare = budget, []
    for result in memory.search(question, max_results=100):
        left -= count_tokens(result.text)
        if left < 0:
            break
        bare.append((result.path, result.start_line, result.end_line))
    return quoted, bare, recalled.tokens


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", default="hybrid", help="the strategy to search with")
    parser.add_argument("--every", type=int, default=5, help="ask every so many questions [default: 5]")
    parser.add_argument("--budgets", default="500,1000,1500", help="tokens, separated by commas")
    parser.add_argument("--data", type=Path, default=quality.SHARED / "data", help="the folder with the sets")
    parser.add_argument("--work", type=Path, default=quality.ROOT / "build" / "benchmarks", help="where to build")
    options = parser.parse_args()
    try:
        folder = quality.build("locomo", options.data, options.work)
    except quality.MissingError as missing:
        print(f"skipped: {missing}")
        return
    from kipu import MemoryConfig, SearchConfig
    from kipu.sync import Memory

    questions = json.loads((folder / "questions.json").read_text("utf-8"))
    questions = [question for question in questions if question["lines"]][:: options.every]
    budgets = [int(budget) for budget in options.budgets.split(",")]
    shares: dict[int, list[tuple[float, float, int]]] = {budget: [] for budget in budgets}
    for name in dict.fromkeys(question["workspace"] for question in questions):
        with Memory(MemoryConfig(folder / name, search=SearchConfig(strategy=options.strategy))) as memory:
            memory.index(force=True)
            for question in (question for question in questions if question["workspace"] == name):
                for budget in budgets:
                    quoted, bare, tokens = ask(memory, question["text"], budget)
                    lines = question["lines"]
                    shares[budget].append((share(quoted, lines), share(bare, lines), tokens))
    rows = [["budget", "", "recall", "results", "tokens used"]]
    for budget, found in shares.items():
        means = [sum(values) / len(found) for values in zip(*found, strict=True)]
        rows.append([str(budget), "", f"{means[0]:.3f}", f"{means[1]:.3f}", f"{means[2]:.0f}"])
    print(f"LoCoMo, {len(questions)} questions, {options.strategy}: share of the evidence in the text")
    print(quality.table(rows))


if __name__ == "__main__":
    main()
