"""Find the entry points of installed distributions by reading the files that hold them.

``importlib.metadata`` does the same, and more. Importing it takes a quarter of the time of a whole ``kipu search``,
because it imports the parser of e-mail messages; so this module reads the one small file of each distribution itself.
The layout is the one of https://packaging.python.org/specifications/entry-points/ and
https://packaging.python.org/specifications/recording-installed-packages/.
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple


class EntryPoint(NamedTuple):  # not attrs, whose import `kipu --help` can do without
    """An entry point, and the distribution that declares it."""

    name: str
    value: str
    distribution: str
    version: str


def normalized(name: str) -> str:
    """Return the name of a distribution or of a plugin as names are compared: ``Kipu_Graph`` is ``kipu-graph``."""
    return name.lower().replace("_", "-").replace(".", "-")


def entry_points(group: str) -> list[EntryPoint]:
    """Return all entry points of a group, sorted by distribution and name.

    A distribution that is found in several places of ``sys.path`` counts once, at the first, as in imports.
    """
    found: list[EntryPoint] = []
    seen: set[str] = set()
    for place in sys.path:
        try:
            folders = sorted(name for name in os.listdir(place or ".") if name.endswith((".dist-info", ".egg-info")))
        except OSError:
            continue
        for folder in folders:
            distribution, _, version = folder.rpartition(".")[0].partition("-")
            distribution = normalized(distribution)
            if distribution in seen:
                continue
            seen.add(distribution)
            try:
                with open(os.path.join(place, folder, "entry_points.txt"), encoding="utf-8") as file:
                    lines = file.read().splitlines()
            except (OSError, UnicodeDecodeError):
                continue
            for name, value in _section(lines, group):
                found.append(EntryPoint(name, value, distribution, version.partition("-")[0]))
    return sorted(found, key=lambda point: (point.distribution, point.name))


def _section(lines: list[str], group: str) -> list[tuple[str, str]]:
    pairs, inside = [], False
    for line in map(str.strip, lines):
        if line.startswith("["):
            inside = line == f"[{group}]"
        elif inside and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            pairs.append((name.strip(), value.partition("[")[0].strip()))  # extras mean nothing here
    return pairs
