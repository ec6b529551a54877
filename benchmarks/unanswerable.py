"""Measures what a lowest score would be worth: what it removes where nothing answers, and what it costs elsewhere.

    python benchmarks/unanswerable.py [--strategy hybrid] [--sets locomo,cranfield] [--every 5]

The first table asks the questions of each LoCoMo conversation in the memory of the next one, which cannot answer them,
and then in their own; a search returns as many results as by default. The second table asks the questions of each
evaluation set, as quality.py does, and shows what the figures lose where results below the score are left out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import quality

if TYPE_CHECKING:
    from collections.abc import Sequence

SCORES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35)
DEFAULT_RESULTS = 6


def ask(workspace: Path, strategy: str, questions: Sequence[dict[str, Any]], limit: int) -> list[list[quality.Found]]:
    """Return the results for each question, with their scores."""
    memory = quality.Kipu(workspace, strategy)
    found = [memory(question["text"], limit) for question in questions]
    memory.close()
    return found


def strangers(folder: Path, strategy: str, every: int) -> list[list[str]]:
    """Count for each lowest score the questions with results, and the results, in another corpus and in their own."""
    questions = json.loads((folder / "questions.json").read_text("utf-8"))
    names = list(dict.fromkeys(question["workspace"] for question in questions))
    scores: dict[str, list[list[float]]] = {"elsewhere": [], "at home": []}
    for name, stranger in zip(names, [*names[1:], names[0]], strict=True):
        for place, asked in (("elsewhere", stranger), ("at home", name)):
            those = [question for question in questions if question["workspace"] == asked][::every]
            found = ask(folder / name, strategy, those, DEFAULT_RESULTS)
            scores[place] += [[score for *_, score in results] for results in found]
    rows = [["min_score", ""]]
    rows[0] += [f"{what} {place}" for place in scores for what in ("with a result", "results")]
    for lowest in SCORES:
        rows.append([f"{lowest:.2f}", ""])
        for of_place in scores.values():
            left = [sum(score >= lowest for score in results) for results in of_place]
            rows[-1] += [f"{sum(map(bool, left)) / len(left):.3f}", f"{sum(left) / len(left):.2f}"]
    return rows


def costs(name: str, folder: Path, strategy: str, every: int, limit: int) -> list[list[str]]:
    """Return the loss of each figure of a set for each lowest score."""
    questions = json.loads((folder / "questions.json").read_text("utf-8"))[::every]
    figures: dict[float, list[dict[str, float]]] = {lowest: [] for lowest in SCORES}
    for workspace in dict.fromkeys(question["workspace"] for question in questions):
        those = [question for question in questions if question["workspace"] == workspace]
        lengths: dict[str, list[int]] = {}
        for question, results in zip(those, ask(folder / workspace, strategy, those, limit), strict=True):
            for lowest in SCORES:
                left = [result for result in results if result[3] >= lowest]
                figures[lowest].append(quality.tool().measure(question, left, folder / workspace, lengths))
    rows = []
    for lowest in SCORES:
        cells = []
        for figure in quality.FIGURES:
            means = [
                sum(each.get(figure, 0.0) for each in figures[score]) / len(questions) for score in (lowest, SCORES[0])
            ]
            cells.append(f"{means[0] - means[1]:+.3f}" if figure in figures[lowest][0] else "-")
        rows.append([quality.SETS[name].title, f"{lowest:.2f}", *cells])
    return rows


def main() -> None:
    """Ask, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", default="hybrid", help="the strategy to search with [default: hybrid]")
    parser.add_argument("--sets", default=",".join(quality.SETS), help="the sets of the second table")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="ask every Nth question only")
    parser.add_argument("--limit", type=int, default=50, help="how many results a search is asked for [default: 50]")
    parser.add_argument("--data", type=Path, default=quality.SHARED / "data", help="the folder with the sets")
    parser.add_argument("--tools", type=Path, default=quality.SHARED / "tools", help="where retrieval_eval.py is")
    parser.add_argument("--work", type=Path, default=quality.ROOT / "build" / "benchmarks", help="where to build")
    options = parser.parse_args()
    try:
        quality.tool(options.tools)
        folders = {name: quality.build(name, options.data, options.work) for name in options.sets.split(",")}
        locomo = quality.build("locomo", options.data, options.work)
        print(quality.table(strangers(locomo, options.strategy, options.every)))
        rows = [["set", "min_score", *quality.FIGURES]]
        for name, folder in folders.items():
            rows += costs(name, folder, options.strategy, options.every, options.limit)
        print(quality.table(rows))
    except quality.MissingError as missing:
        print(f"skipped: {missing}")


if __name__ == "__main__":
    main()
