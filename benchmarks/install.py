"""Measures what installing Kipu takes: megabytes, packages and seconds, in environments that have nothing else.

    python benchmarks/install.py --wheels build/distributions    # after `make build`

The wheels of Kipu are those that were built here, everything else comes from the package registry. What is measured how
is in README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

# What is installed, and how many megabytes it may take.
INSTALLS = {
    "kipu": (["kipu"], 270),
    "by words alone": (["kipu-core", "kipu-strategy-keyword", "kipu-chunker-markdown"], 30),
}


def size(folder: Path) -> float:
    """Return the size of all files below a folder in megabytes (a million bytes); links count as nothing."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def install(names: list[str], wheels: Path) -> dict[str, Any]:
    """Install into an empty environment, with pip from outside of it."""
    with tempfile.TemporaryDirectory(prefix="kipu-install-") as name:
        folder = Path(name)
        venv.create(folder, with_pip=False, symlinks=os.name != "nt")
        empty = size(folder)
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(python)]
        start = time.perf_counter()
        subprocess.run([*pip, "install", "--find-links", str(wheels), *names], check=True)
        seconds = time.perf_counter() - start
        (site_packages,) = folder.glob("lib/python*/site-packages" if os.name != "nt" else "Lib/site-packages")
        packages = sorted(each.name for each in distributions(path=[str(site_packages)]))
        largest = sorted(((size(path), path.name) for path in site_packages.iterdir() if path.is_dir()), reverse=True)
        return {"MB": size(folder) - empty, "packages": packages, "seconds": seconds, "largest": largest[:6]}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=Path, default=ROOT / "build" / "distributions", help="the wheels of Kipu")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    options = parser.parse_args()
    if not list(options.wheels.glob("kipu_core-*.whl")):
        raise SystemExit(f"There are no wheels of Kipu in {options.wheels}: make build, or --wheels FOLDER.")
    measured = {}
    for title, (names, most) in INSTALLS.items():
        figures = measured[title] = install(names, options.wheels)
        print(f"{title}: {figures['MB']:.1f} MB (to reach: less than {most}), ", end="")
        print(f"{len(figures['packages'])} packages, {figures['seconds']:.1f} s")
        print(f"  largest: {', '.join(f'{name} {megabytes:.1f}' for megabytes, name in figures['largest'])}\n")
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
