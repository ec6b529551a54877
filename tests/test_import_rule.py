"""The kernel never imports a plugin, and a plugin imports only the public contract. Its layers: pyproject.toml."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kipu
from kipu.index.schema import kernel_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
KERNEL = ROOT / "core/src/kipu"

CONTRACT = {
    "kipu",
    "kipu.commands",
    "kipu.errors",
    "kipu.markdown",
    "kipu.options",
    "kipu.types",
    *(f"kipu.{name}" for name in kipu.__all__),
}
CONTRACT_OF_TESTS = CONTRACT | {"kipu.testing", "kipu.sync"}


def imported(path: Path, package: str) -> Iterator[str]:
    """Yield the full names of all modules that a file imports, wherever in the file, also only for types."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: -node.level + 1 or None] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            if base == "kipu":  # what is imported may be a module
                yield from (f"kipu.{alias.name}" for alias in node.names)
            else:
                yield base


def package_of(path: Path) -> str:
    return ".".join(["kipu", *path.relative_to(KERNEL).parent.parts])


KERNEL_FILES = sorted(path for path in KERNEL.rglob("*.py") if path != KERNEL / "__init__.py")
PLUGIN_FILES = sorted([*ROOT.glob("plugins/**/*.py"), *ROOT.glob("examples/**/*.py")])
# Distributions with nothing but data in them are no plugins: who needs the data depends on them.
DATA = {folder.name for folder in ROOT.glob("plugins/models/*/kipu_model_*")}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", [*KERNEL_FILES, KERNEL / "__init__.py"], ids=name_of)
def test_the_kernel_never_imports_a_plugin(path):
    assert not [name for name in imported(path, package_of(path)) if name.startswith("kipu_")]


def test_the_hookspecs_import_nothing_of_ours_at_run_time():
    tree = ast.parse((KERNEL / "hookspecs.py").read_text("utf-8"))
    assert not [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.level]


@pytest.mark.parametrize("path", PLUGIN_FILES, ids=name_of)
def test_a_plugin_imports_only_the_contract(path):
    allowed = CONTRACT_OF_TESTS if {"tests", "examples"} & set(path.relative_to(ROOT).parts) else CONTRACT
    names = {name for name in imported(path, "") if name.split(".")[0] == "kipu"}
    assert names <= allowed


@pytest.mark.parametrize("path", PLUGIN_FILES, ids=name_of)
def test_a_plugin_never_imports_another_plugin(path):
    own = {child.stem for parent in path.parents for child in parent.glob("kipu_*")}
    names = {name.split(".")[0] for name in imported(path, "") if name.startswith("kipu_")}
    assert names <= own | DATA


@pytest.mark.parametrize("path", PLUGIN_FILES, ids=name_of)
def test_a_plugin_reads_the_views_and_no_table_of_the_kernel(path):
    tables = "|".join(kernel_tables())
    statements = re.findall(rf"\b(?:FROM|JOIN|INTO|UPDATE)\s+(?:{tables})\b", path.read_text("utf-8"))
    assert not statements
