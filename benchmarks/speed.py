"""Measures how fast Kipu is, beside memweave, which keeps memory in Markdown files too, in one run on one machine.

    python benchmarks/speed.py                  # everything, about ten minutes
    python benchmarks/speed.py --chunks 2000    # only the small corpus

Both index the same files by words alone and in chunks of the same size. memweave is installed from PyPI into an
environment of its own; it needs Python 3.12 or newer, Kipu is the one that runs this. What is measured how is in
README.md beside this file. Needs Linux or macOS.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import corpus

ROOT = Path(__file__).resolve().parents[1]
PEER = "memweave==0.2.1"
CHILD = Path(__file__).with_name("speed_child.py")
KIPU = Path(sys.executable).with_name("kipu")

# What has to be reached: how many times faster than memweave, or how many milliseconds of CPU time.
TIMES_FASTER = 10
HELP_MS = 120
SEARCH_MS = 250

# Compiled modules are kept, as they are for everybody who does not say otherwise.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Spent(NamedTuple):
    """What a process took: CPU time and wall time in seconds, and what it printed; not ``done`` if it was stopped."""

    cpu: float
    wall: float
    output: str
    done: bool


def run(command: list[str | Path], limit: float | None = None) -> Spent:
    """Run a process to its end, or for ``limit`` seconds.

    :raises SystemExit: it failed.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stdin=subprocess.DEVNULL, env=ENVIRONMENT)
        stop = threading.Timer(limit or 0, process.kill)
        if limit:
            stop.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        ended = bool(limit) and not stop.is_alive()
        stop.cancel()
        output.seek(0)
        text = output.read()
    if process.returncode != 0 and not ended:
        raise SystemExit(f"{' '.join(map(str, command))} failed with exit code {process.returncode}:\n{text}")
    return Spent(usage.ru_utime + usage.ru_stime, wall, text, not ended)


def cpu_ms(command: list[str | Path], runs: int) -> float:
    """Return the median CPU time of a process in milliseconds. The first run, which fills caches, does not count."""
    run(command)
    return 1e3 * statistics.median(run(command).cpu for _ in range(runs))


# --- the peer ------------------------------------------------------------------------------------------------------


def find_python(given: Path | None) -> Path | None:
    """Find a Python that memweave runs on: the given one, else one on the path, else one of pyenv."""
    names = ("python3.13", "python3.12")
    on_path = [Path(found) for name in names if (found := shutil.which(name))]
    of_pyenv = sorted(Path.home().glob(".pyenv/versions/3.1[23].*/bin/python3"), reverse=True)
    for python in [given] if given else [*on_path, *of_pyenv]:
        program = "import sys; sys.exit(sys.version_info < (3, 12))"
        try:
            if subprocess.run([python, "-c", program], check=False, stderr=subprocess.DEVNULL).returncode == 0:
                return python
        except OSError:
            continue
    return None


def install_peer(python: Path, folder: Path) -> Path:
    """Make an environment of its own for memweave, about 430 MB, unless it is there. Its Python."""
    own, stamp = folder / "bin" / "python", folder / PEER
    if not stamp.exists():
        print(f"Installing {PEER} into {folder}", file=sys.stderr)
        subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
        pip: list[str | Path] = [own, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", PEER], check=True)
        # Without it, memweave searches by words, on its command line too, where no option says so.
        subprocess.run([*pip, "uninstall", "--yes", "sqlite-vec"], check=True)
        stamp.touch()
    return own


# --- what is measured ----------------------------------------------------------------------------------------------


def measure(
    python: Path | str, function: str, workspace: Path, runs: int, limit: float | None = None
) -> dict[str, Any]:
    """Run a function of speed_child.py on a workspace. If that takes longer than ``limit`` seconds, say only this."""
    print(f"{workspace.name}: {function} ...", file=sys.stderr)
    spent = run([python, CHILD, function, workspace, str(runs), json.dumps(corpus.queries(workspace))], limit)
    if not spent.done:
        return {"stopped_after": limit}
    figures: dict[str, Any] = json.loads(spent.output.splitlines()[-1])
    return figures


def search_command(workspace: Path) -> list[str | Path]:
    """Return the arguments of a search, the same for both command lines, in an index that is up to date."""
    return ["search", "--workspace", workspace, corpus.queries(workspace)[0]]


def sweep(work: Path, files: int) -> dict[str, Any]:
    """Measure what it costs a search to look at every file first, when none has changed."""
    workspace = corpus.write(work / f"files-{files}", sections=files, sections_in_file=1)
    return measure(sys.executable, "sweep", workspace, runs=0)


# --- what is printed -----------------------------------------------------------------------------------------------


def show(rows: list[list[str]]) -> None:
    """Print rows in columns, the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        numbers = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        print("  ".join([first.ljust(widths[0]), *numbers]))
    print()


def compare(
    what: str, own: float, peer: float | None, unit: str, goal: str = "", *, more_than: bool = False
) -> list[str]:
    """Return a line of the table: a figure of Kipu and of memweave, and how many times the second is the first."""

    def cell(figure: float) -> str:
        digits = 0 if figure >= 100 else 1 if figure >= 10 else 2
        return f"{figure:,.{digits}f} {unit}"

    sign = "> " if more_than else ""
    others = ["-", "-"] if peer is None else [sign + cell(peer), f"{sign}{peer / own:,.{1 if peer > own else 3}f}"]
    return [what, cell(own), *others, goal]


def corpus_rows(title: str, own: dict[str, Any], peer: dict[str, Any]) -> list[list[str]]:
    """Return the lines of the table for one corpus. Figures are in seconds."""

    def line(what: str, key: str, unit: str, goal: str = "") -> list[str]:
        scale = {"s": 1, "ms": 1e3}[unit]
        return compare(what, own[key] * scale, peer[key] * scale if key in peer else None, unit, goal)

    faster = f"at least {TIMES_FASTER} times"
    large = faster if own["chunks"] > 9_000 else ""
    peer_chunks = f"{peer['chunks']:,} chunks" if "chunks" in peer else "-"
    rows = [[title, f"{own['chunks']:,} chunks", peer_chunks, "", ""]]
    if "stopped_after" in peer:
        rows.append(compare("  index, wall", own["index_wall"], peer["stopped_after"], "s", large, more_than=True))
    else:
        peer_each = peer["index_cpu"] / peer["chunks"] * 1e3 if peer else None
        rows += [
            line("  index, CPU", "index_cpu", "s", large),
            line("  index, wall", "index_wall", "s"),
            compare("  index, CPU for 1,000 chunks", own["index_cpu"] / own["chunks"] * 1e3, peer_each, "s"),
        ]
    return [
        *rows,
        line("  index, nothing changed, CPU", "again_cpu", "ms", faster),
        line("  index, nothing changed, wall", "again_wall", "ms"),
        line("  search, CPU", "search_cpu", "ms"),
        line("  search, wall, p50", "search_p50", "ms"),
        line("  search, wall, p95", "search_p95", "ms"),
    ]


def show_machine(own: dict[str, Any], peer: dict[str, Any], runs: int) -> None:
    """Say on what this ran, and how fast that is."""
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"Kipu: Python {platform.python_version()}, SQLite {own['sqlite']}")
    if "sqlite" in peer:
        print(f"memweave: Python {peer['python']}, SQLite {peer['sqlite']}")
    yardstick = [
        f"{cpu_ms([sys.executable, '-c', code], runs):.0f} ms for python -c '{code}'"
        for code in ("pass", "import asyncio")
    ]
    print(f"Yardstick, CPU: {', '.join(yardstick)}")
    print("Shared machines are noisy: what runs beside this changes wall time much and CPU time some.")
    print("Trust the ratios, and judge milliseconds by the yardstick.\n")


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, nargs="+", default=[2_000, 10_000], help="sizes of the corpora")
    parser.add_argument("--files", type=int, nargs="*", default=[1_000, 10_000], help="numbers of files to look at")
    parser.add_argument("--runs", type=int, default=7, help="how often what is quick is repeated [default: 7]")
    parser.add_argument("--peer-limit", type=float, default=900, help="seconds after which memweave is stopped")
    parser.add_argument("--python312", type=Path, metavar="PATH", help="a Python of at least 3.12, for memweave")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "benchmarks", help="where everything is built")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    options = arguments()
    if not KIPU.exists():
        raise SystemExit(f"{KIPU} is not there: run this with the Python that Kipu is installed in, after make test.")
    python = find_python(options.python312)
    peer_python = install_peer(python, options.work / "memweave") if python else None
    if peer_python is None:
        print("memweave is left out: it needs Python 3.12 or newer, and there is none here (--python312 PATH).\n")

    measured: dict[str, Any] = {}
    rows = [["", "Kipu", "memweave", "times", "to reach"]]
    for chunks in sorted(options.chunks, reverse=True):
        workspace = corpus.write(options.work / f"corpus-{chunks}", sections=chunks, sections_in_file=20)
        own = measure(sys.executable, "kipu", workspace, options.runs)
        peer = measure(peer_python, "memweave", workspace, options.runs, options.peer_limit) if peer_python else {}
        measured[workspace.name] = {"kipu": own, "memweave": peer}
        rows += corpus_rows(workspace.name, own, peer)
    programs = [KIPU, peer_python.with_name("memweave")] if peer_python else [KIPU]
    rows.append(["command line", "", "", "", ""])
    for what, arguments_of, most in (("--help", ["--help"], HELP_MS), ("search", search_command(workspace), SEARCH_MS)):
        spent = measured[what] = [cpu_ms([program, *arguments_of], options.runs) for program in programs]
        rows.append(compare(f"  {what}, CPU", spent[0], spent[1] if peer_python else None, "ms", f"at most {most} ms"))
    show_machine(own, peer, options.runs)
    show(rows)

    rows = [["search, nothing changed, CPU", "default", "sync=False"]]
    for files in options.files:
        figures = measured[f"files-{files}"] = sweep(options.work, files)
        rows.append([f"  {files:,} files", f"{1e3 * figures['sync']:.1f} ms", f"{1e3 * figures['no_sync']:.1f} ms"])
    show(rows)
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
