"""The import rule: a module of the kernel imports only modules to its right, and a plugin only the public contract."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kipu

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
KERNEL = ROOT / "core/src/kipu"

# Each module may import those further down, and none of its own line.
ORDER = [
    ["__main__"],
    ["cli", "testing"],
    ["sync"],
    ["memory"],
    ["compacting", "flushing", "forgetting"],
    ["distilling"],
    ["conversations"],
    ["searchable"],
    ["keeping", "reading", "recalling"],
    ["syncing", "superseding", "rewording"],
    ["embedding", "explaining", "locating", "watching"],
    ["searching", "indexing", "runs"],
    ["components", "changes", "chunking", "validity", "writing"],
    ["tables"],
    ["index", "mending", "scoping"],
    ["vectors"],
    ["database", "files", "config"],
    ["building"],
    ["plugins"],
    ["hookspecs"],
    ["asking"],
    ["types"],
    ["data", "editing", "outcomes"],
    ["entries", "journal"],
    ["decoding", "errors", "steps"],
    ["exchanging"],
    # Leaves: they import nothing of ours.
    ["demo", "disk", "driver", "entrypoints", "schema", "snippets", "turns"],
]
RANKS = {name: rank for rank, names in enumerate(ORDER) for name in names}

# What `from . import ...` may mean other than a module.
OWN_NAMES = {"kipu.__version__"}

CONTRACT = {"kipu", "kipu.types", "kipu.errors", *(f"kipu.{name}" for name in kipu.__all__)}
CONTRACT_OF_TESTS = CONTRACT | {"kipu.testing", "kipu.sync"}


def imported(path: Path, package: str) -> Iterator[str]:
    """The full names of all modules that a file imports, wherever in the file, also only for types."""
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


def kernel_module(path: Path) -> str:
    """The module of the kernel that a file is, or is a part of: ``cli`` for ``cli/search.py``."""
    return path.relative_to(KERNEL).parts[0].removesuffix(".py")


def package_of(path: Path) -> str:
    return ".".join(["kipu", *path.relative_to(KERNEL).parent.parts])


KERNEL_FILES = sorted(path for path in KERNEL.rglob("*.py") if path != KERNEL / "__init__.py")
PLUGIN_FILES = sorted([*ROOT.glob("plugins/**/*.py"), *ROOT.glob("examples/**/*.py")])
# Distributions with nothing but data in them are no plugins: who needs the data depends on them.
DATA = {folder.name for folder in ROOT.glob("plugins/models/*/kipu_model_*")}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", KERNEL_FILES, ids=name_of)
def test_a_module_of_the_kernel_has_its_place_in_the_order(path: Path) -> None:
    assert kernel_module(path) in RANKS, "a new module: give it a place in ORDER, as far down as it can be"


@pytest.mark.parametrize("path", KERNEL_FILES, ids=name_of)
def test_a_module_of_the_kernel_imports_only_to_its_right(path: Path) -> None:
    own = kernel_module(path)
    names = set(imported(path, package_of(path))) - OWN_NAMES
    others = {name.split(".")[1] for name in names if name.startswith("kipu.")} - {own}
    wrong = sorted(other for other in others if RANKS.get(other, -1) <= RANKS.get(own, len(ORDER)))
    assert not wrong, f"{own} may not import {', '.join(wrong)}"


@pytest.mark.parametrize("path", [*KERNEL_FILES, KERNEL / "__init__.py"], ids=name_of)
def test_the_kernel_never_imports_a_plugin(path: Path) -> None:
    assert not [name for name in imported(path, package_of(path)) if name.startswith("kipu_")]


def test_the_hookspecs_import_nothing_of_ours_at_run_time() -> None:
    tree = ast.parse((KERNEL / "hookspecs.py").read_text("utf-8"))
    assert not [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.level]


@pytest.mark.parametrize("path", PLUGIN_FILES, ids=name_of)
def test_a_plugin_imports_only_the_contract(path: Path) -> None:
    allowed = CONTRACT_OF_TESTS if {"tests", "examples"} & set(path.relative_to(ROOT).parts) else CONTRACT
    names = {name for name in imported(path, "") if name.split(".")[0] == "kipu"}
    assert names <= allowed


@pytest.mark.parametrize("path", PLUGIN_FILES, ids=name_of)
def test_a_plugin_never_imports_another_plugin(path: Path) -> None:
    own = {child.stem for parent in path.parents for child in parent.glob("kipu_*")}
    names = {name.split(".")[0] for name in imported(path, "") if name.startswith("kipu_")}
    assert names <= own | DATA
