"""Measures how well searches find what they should, for Kipu and for what one would use instead.

    python benchmarks/quality.py                                   # everything; the first time, embedding takes long
    python benchmarks/quality.py --sets locomo,eips --systems words --json figures.json

The sets and the program that measures are not part of this project; where they are not there, this says so and does
nothing. What the figures mean is in README.md beside this file.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"

# A result: its path relative to the workspace, its first and last line, and its score.
Found = tuple[str, int, int, float]


class EvaluationSet(NamedTuple):
    """What it is called, how its workspaces are built, and from which file or folder of the evaluation data."""

    title: str
    build: str
    source: str


SETS = {
    "locomo": EvaluationSet("LoCoMo", "build_locomo", "locomo10.json"),
    "pooled": EvaluationSet("LoCoMo, pooled", "build_pooled", "locomo10.json"),
    "cranfield": EvaluationSet("Cranfield", "build_passages", "cranfield"),
    "hotpotqa": EvaluationSet("HotpotQA", "build_passages", "hotpotqa"),
    "eips": EvaluationSet("EIPs", "build_passages", "eips"),
    "xquad-en": EvaluationSet("XQuAD, English", "build_passages", "xquad-en"),
    "xquad-zh": EvaluationSet("XQuAD, Chinese", "build_passages", "xquad-zh"),
    "xquad-de": EvaluationSet("XQuAD, German", "build_passages", "xquad-de"),
    "xquad-hi": EvaluationSet("XQuAD, Hindi", "build_passages", "xquad-hi"),
    "xquad-ru": EvaluationSet("XQuAD, Russian", "build_passages", "xquad-ru"),
    "xquad-tr": EvaluationSet("XQuAD, Turkish", "build_passages", "xquad-tr"),
}

FIGURES = ("R@1", "any@10", "all@5", "all@10", "MRR", "nDCG@10", "turn_R@1000t")


class Kipu:
    """Kipu with the plugins that are installed and their defaults. A new index is built for each workspace.

    :param strategy: the name of a strategy.
    :param options: what every search is asked with, besides the question.
    """

    def __init__(self, workspace: Path, strategy: str, **options: Any) -> None:
        from kipu import MemoryConfig, SearchConfig
        from kipu.sync import Memory

        self._options = options
        self._memory = Memory(MemoryConfig(workspace, search=SearchConfig(strategy=strategy)))
        # Not only what changed: an index that an earlier state of the code has made says nothing about this one. The
        # vectors of texts that are as they were are kept.
        report = self._memory.index(force=True)
        if report.pending_vectors:
            raise MissingError(f"{report.pending_vectors} chunks of {workspace} are not embedded: {report.notices}")

    def __call__(self, question: str, limit: int) -> list[Found]:
        results = self._memory.search(question, max_results=limit, **self._options)
        if results.degraded:
            raise MissingError(f"a search used keywords only only: {results.notices}")
        return [(result.path, result.start_line, result.end_line, result.score) for result in results]

    def close(self) -> None:
        self._memory.close()


class Grep:
    """Files ranked by how many different words of the question they have: search without a memory."""

    def __init__(self, workspace: Path) -> None:
        self._search = tool().grep(workspace)

    def __call__(self, question: str, limit: int) -> list[Found]:
        found: list[Found] = self._search(question, limit)
        return found

    def close(self) -> None:
        """Do nothing: the system keeps nothing open."""


def peer(workspace: Path, name: str, **options: Any) -> Any:
    """Open memweave or memsearch, with the model that Kipu uses, in a process of its own."""
    from peer import Peer, PeerMissingError

    try:
        return Peer(name, workspace, **options)
    except PeerMissingError as missing:
        raise MissingError(str(missing)) from missing


# Each is made for a workspace, called with a question and a number of results, and closed.
SYSTEMS: dict[str, Callable[[Path], Any]] = {
    "grep": Grep,
    "words": partial(Kipu, strategy="keyword", relation=False),
    "vectors": partial(Kipu, strategy="vector", relation=False),
    "hybrid": partial(Kipu, strategy="hybrid", relation=False),
    "relation": partial(Kipu, strategy="hybrid"),
    "memweave": partial(peer, name="memweave"),
    "memweave-0": partial(peer, name="memweave", min_score=0.0),
    "memsearch": partial(peer, name="memsearch"),
}


class MissingError(Exception):
    """Something that a system or a set needs is missing."""


def tool(folder: Path = SHARED / "tools") -> ModuleType:
    """Return the program that measures, imported from where it is."""
    name = "retrieval_eval"
    if name in sys.modules:
        return sys.modules[name]
    path = folder / f"{name}.py"
    specification = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or specification is None or specification.loader is None:
        raise MissingError(f"{path}, which measures, is not there (--tools)")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    sys.modules[name] = module
    return module


def build(name: str, data: Path, work: Path) -> Path:
    """Make the workspaces of a set below ``work``, unless they are there and newer than what they are made from."""
    source = data / SETS[name].source
    files = sorted(source.iterdir()) if source.is_dir() else [source]
    if not files or not all(file.is_file() for file in files):
        raise MissingError(f"{source} is not there (--data)")
    folder = work / "quality" / name
    questions = folder / "questions.json"  # written last
    newest = max(file.stat().st_mtime for file in [*files, Path(str(tool().__file__))])
    if not questions.exists() or questions.stat().st_mtime < newest:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.redirect_stdout(io.StringIO()):  # it prints how many questions there are
            getattr(tool(), SETS[name].build)(source, folder)
    return folder


def evaluate(folder: Path, make_system: Callable[[Path], Any], limit: int = 50) -> dict[str, Any]:
    """Ask a system all questions of a set and return the means of the figures.

    ``questions/s`` counts seconds of CPU time, of all threads, which a busy machine does not change much. Indexing
    does not count. A system in a process of its own counts its ``seconds`` itself.
    """
    seconds = 0.0

    def make_search(workspace: Path) -> Callable[[str, int], list[Found]]:
        system = make_system(workspace)

        def search(question: str, limit: int) -> list[Found]:
            nonlocal seconds
            start, elsewhere = time.process_time(), getattr(system, "seconds", 0.0)
            found: list[Found] = system(question, limit)
            seconds += time.process_time() - start + getattr(system, "seconds", 0.0) - elsewhere
            return found

        search.close = system.close  # type: ignore[attr-defined]
        return search

    report = tool().run(folder, make_search, limit)
    figures: dict[str, Any] = {"questions": report["questions"]}
    figures |= {figure: report["all"][figure] for figure in FIGURES if figure in report["all"]}
    figures["questions/s"] = round(report["questions"] / seconds, 1)
    return figures


def table(rows: Sequence[Sequence[str]]) -> str:
    """Align rows of text: the first two columns to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for cells in rows:
        padded = zip(cells, widths, strict=True)
        lines.append(
            [cell.rjust(width) if column > 1 else cell.ljust(width) for column, (cell, width) in enumerate(padded)]
        )
    return "\n".join("  ".join(line) for line in lines)


def row(name: str, system: str, figures: dict[str, Any]) -> list[str]:
    """Return a line of the table."""
    shares = [f"{figures[figure]:.3f}".lstrip("0") if figure in figures else "-" for figure in FIGURES]
    return [SETS[name].title, system, str(figures["questions"]), *shares, f"{figures['questions/s']:,.0f}"]


def arguments() -> argparse.Namespace:
    """Parse the command line."""

    def choice(known: dict[str, Any]) -> Callable[[str], list[str]]:
        def parse(text: str) -> list[str]:
            names = text.split(",")
            if unknown := [name for name in names if name not in known]:
                raise argparse.ArgumentTypeError(f"no {', '.join(unknown)}; there are: {','.join(known)}")
            return names

        return parse

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=choice(SETS), default=list(SETS), help=f"some of {','.join(SETS)}")
    parser.add_argument("--systems", type=choice(SYSTEMS), default=list(SYSTEMS), help=f"some of {','.join(SYSTEMS)}")
    parser.add_argument("--data", type=Path, default=SHARED / "data", help="the folder with the sets")
    parser.add_argument("--tools", type=Path, default=SHARED / "tools", help="the folder with retrieval_eval.py")
    parser.add_argument(
        "--work", type=Path, default=ROOT / "build" / "benchmarks", help="where workspaces are built, and used again"
    )
    parser.add_argument("--limit", type=int, default=50, help="how many results a search is asked for [default: 50]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    return parser.parse_args()


def main() -> None:
    """Evaluate and print."""
    options = arguments()
    try:
        tool(options.tools)
    except MissingError as missing:
        print(f"skipped: {missing}")
        return
    measured: dict[str, dict[str, Any]] = {}
    rows = [["set", "system", "questions", *FIGURES, "questions/s"]]
    for name in options.sets:
        try:
            folder = build(name, options.data, options.work)
        except MissingError as missing:
            print(f"{SETS[name].title} skipped: {missing}")
            continue
        for system in options.systems:
            print(f"{SETS[name].title}: {system} ...", file=sys.stderr)
            try:
                figures = evaluate(folder, SYSTEMS[system], options.limit)
            except MissingError as missing:
                print(f"{SETS[name].title}, {system}, skipped: {missing}")
                continue
            measured.setdefault(name, {})[system] = figures
            rows.append(row(name, system, figures))
    if measured:
        print(table(rows))
    if options.json:
        options.json.write_text(json.dumps({"limit": options.limit, "sets": measured}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
