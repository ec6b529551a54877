"""Distributions that are installed as real ones are: a folder on the path with their metadata and their modules."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from kipu.plugins.discovery import entry_points

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["STANDARD", "Site"]

GROUPS = ("kipu", "kipu.commands")

# The default configuration asks for these three names; the doubles provide them.
STANDARD = """\
import attrs
from kipu.testing import ParagraphChunker, WordStrategy
from kipu import hookimpl

@attrs.frozen
class Threshold:
    min_score: float = attrs.field(
        default=0.0,
        validator=[attrs.validators.ge(0.0), attrs.validators.le(1.0)],
        metadata={"help": "The lowest score to keep.", "per_call": "min_score"},
    )

    async def process(self, query, hits):
        return [hit for hit in hits if hit.score >= self.min_score]

@hookimpl
def kipu_register_chunkers(register):
    register("markdown", ParagraphChunker)

@hookimpl
def kipu_register_strategies(register):
    register("keyword", WordStrategy)

@hookimpl
def kipu_register_postprocessors(register):
    register("threshold", Threshold)
"""


class Site:
    """A folder of installed distributions. Those that are really installed are hidden by empty ones of their name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: list[str] = []
        folder.mkdir(exist_ok=True)
        for distribution in {point.distribution for group in GROUPS for point in entry_points(group)}:
            (folder / f"{distribution.replace('-', '_')}-0.dist-info").mkdir()

    def install(
        self,
        distribution: str,
        entry_points: Mapping[str, Mapping[str, str]] | None = None,
        *,
        version: str = "1.0",
        **modules: str,
    ) -> None:
        """Install a distribution with entry points (group: name: value) and modules (name: source)."""
        metadata = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        hiding = self.folder / f"{distribution.replace('-', '_')}-0.dist-info"
        if hiding.exists() and not any(hiding.iterdir()):  # of the real one: this takes its place
            hiding.rmdir()
        metadata.mkdir()
        lines: list[str] = []
        for group, points in (entry_points or {}).items():
            lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items()), ""]
        (metadata / "entry_points.txt").write_text("\n".join(lines), "utf-8")
        for name, source in modules.items():
            (self.folder / f"{name}.py").write_text(source, "utf-8")
            self.modules.append(name)
            sys.modules.pop(name, None)  # the real one, which an earlier test imported
        importlib.invalidate_caches()

    def plugin(self, distribution: str, source: str, *, version: str = "1.0") -> str:
        """Install a plugin of one module as they are named by convention: ``kipu-strategy-newest`` and so on."""
        module = distribution.replace("-", "_")
        self.install(
            distribution, {"kipu": {distribution.removeprefix("kipu-"): module}}, version=version, **{module: source}
        )
        return module

    def standard(self) -> None:
        """Install what the default configuration asks for."""
        self.install("fake-standard", {"kipu": {"standard": "fake_standard"}}, fake_standard=STANDARD)

    def forget_modules(self) -> None:
        """Let the next site have modules of the same names."""
        for name in self.modules:
            sys.modules.pop(name, None)
