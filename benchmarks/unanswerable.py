"""Measures what lowest scores are worth: what they remove where nothing answers, and what they cost elsewhere.

    python benchmarks/unanswerable.py [--strategy hybrid] [--sets facts,locomo,xquad-zh] [--every 4]

Each set is asked questions that it answers, and questions that it does not: of LoCoMo those on another conversation,
of XQuAD those on every second subject, whose pages are left out, and of other sets those of XQuAD in English;
facts.json has its own. For several scores, the table shows how many questions that nothing answers have no result with
that score, so that a recall with that floor is empty; how many answers are lost with it, because their question has
none either; and how many are lost where each result needs the score. An answer is the first right file among ten.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import facts
import quality

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Questions = Sequence[dict[str, Any]]

SCORES = (0.15, 0.2, 0.25, 0.265, 0.3, 0.35, 0.4)
RESULTS = 10


def questions_of(folder: Path) -> list[dict[str, Any]]:
    """Return the questions of a set."""
    questions: list[dict[str, Any]] = json.loads((folder / "questions.json").read_text("utf-8"))
    return questions


def of_facts(folder: Path) -> tuple[Questions, Questions]:
    """Write each fact into a file of its own, and return the questions."""
    memory = folder / "memory"
    memory.mkdir(parents=True, exist_ok=True)
    names = {fact: f"memory/{number:02}.md" for number, fact in enumerate(facts.FACTS)}
    for fact, name in names.items():
        (folder / name).write_text(f"- {fact}\n", "utf-8")
    pairs = [pair for pairs in facts.SET["answered"].values() for pair in pairs]
    answered = [{"text": text, "files": {names[facts.fact_of(opening)]: 1}} for text, opening in pairs]
    return answered, [{"text": text} for text in facts.SET["unanswerable"]]


def without_every_second_subject(source: Path, folder: Path) -> tuple[Questions, Questions]:
    """Copy a workspace without every second subject. Return the questions on the other subjects, and on these."""
    shutil.copytree(source / "all" / "memory", folder / "memory", dirs_exist_ok=True)
    pages = {page: page.read_text("utf-8").partition("\n")[0] for page in (folder / "memory").iterdir()}
    for page, subject in pages.items():
        if subject in sorted(set(pages.values()))[1::2]:
            page.unlink()
    questions = questions_of(source)
    left = [all((folder / file).exists() for file in question["files"]) for question in questions]
    pairs = list(zip(questions, left, strict=True))
    return [question for question, is_left in pairs if is_left], [
        question for question, is_left in pairs if not is_left
    ]


def asked(name: str, data: Path, work: Path) -> Iterator[tuple[Path, Questions, Questions]]:
    """Yield the workspaces of a set, with the questions that each answers and those that it does not."""
    if name == "facts":
        yield work / name, *of_facts(work / name)
        return
    folder = quality.build(name, data, work)
    if name.startswith("xquad"):
        yield work / f"half-{name}", *without_every_second_subject(folder, work / f"half-{name}")
        return
    questions = questions_of(folder)
    names = list(dict.fromkeys(question["workspace"] for question in questions))
    of_each = {each: [question for question in questions if question["workspace"] == each] for each in names}
    others = [*names[1:], names[0]] if len(names) > 1 else []
    for each, other in zip(names, others or [""], strict=True):
        strangers = of_each[other] if other else questions_of(quality.build("xquad-en", data, work))[::10]
        yield folder / each, of_each[each], strangers


def ask(workspace: Path, strategy: str, questions: Questions) -> list[tuple[float, float]]:
    """Return for each question the best score, and that of the first right file, or 0."""
    memory = quality.Kipu(workspace, strategy)
    found = []
    for question in questions:
        results = memory(question["text"], RESULTS)
        right = [score for path, _, _, score in results if path in question.get("files", {})]
        found.append((max((score for *_, score in results), default=0.0), max(right, default=0.0)))
    memory.close()
    return found


def rows(name: str, arguments: argparse.Namespace) -> list[list[str]]:
    """Return a row for each score."""
    answered, strangers = [], []
    for workspace, own, others in asked(name, arguments.data, arguments.work):
        answered += ask(workspace, arguments.strategy, own if name == "facts" else own[:: arguments.every])
        strangers += ask(workspace, arguments.strategy, others if name == "facts" else others[:: arguments.every])
    table = []
    for lowest in SCORES:
        empty = sum(best < lowest for best, _ in strangers) / len(strangers)
        lost = sum(best < lowest and right > 0 for best, right in answered) / len(answered)
        hidden = sum(0 < right < lowest for _, right in answered) / len(answered)
        counts = (str(len(strangers)), str(len(answered)))
        table.append([name, f"{lowest:.3f}", *counts, f"{empty:.2f}", f"{lost:.3f}", f"{hidden:.3f}"])
    return table


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", default="hybrid", help="the strategy to search with [default: hybrid]")
    parser.add_argument("--sets", default=",".join(["facts", *quality.SETS]), help="some of the sets")
    parser.add_argument("--every", type=int, default=4, metavar="N", help="ask every Nth question only [default: 4]")
    parser.add_argument("--data", type=Path, default=quality.SHARED / "data", help="the folder with the sets")
    parser.add_argument("--tools", type=Path, default=quality.SHARED / "tools", help="where retrieval_eval.py is")
    parser.add_argument("--work", type=Path, default=quality.ROOT / "build" / "benchmarks", help="where to build")
    arguments = parser.parse_args()
    table = [["set", "score", "unanswerable", "answered", "empty", "lost", "lost, each result"]]
    try:
        quality.tool(arguments.tools)
        for name in arguments.sets.split(","):
            table += rows(name, arguments)
    except quality.MissingError as missing:
        print(f"skipped: {missing}")
    print(quality.table(table))


if __name__ == "__main__":
    main()
