"""The versions: written once for the kernel, and the same everywhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import kipu

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = sorted([ROOT / "pyproject.toml", *ROOT.glob("plugins/*/*/pyproject.toml")])


def metadata(path: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))["project"]
    return project


def test_the_newest_version_of_the_changelog_is_that_of_the_kernel():
    versions = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert versions[0] == kipu.__version__


def test_the_version_of_the_kernel_is_written_once():
    project = metadata(ROOT / "core/pyproject.toml")
    assert "version" not in project
    assert "version" in project["dynamic"]


@pytest.mark.parametrize("path", PROJECTS, ids=lambda path: path.parent.relative_to(ROOT).as_posix())
def test_all_distributions_have_the_version_of_the_kernel(path):
    assert metadata(path)["version"] == kipu.__version__


def test_the_standard_plugins_of_the_root_are_those_of_this_repository():
    names = {metadata(path)["name"] for path in ROOT.glob("plugins/*/*/pyproject.toml")} | {"kipu-core"}
    required = {re.split(r"[<>=~ ]", dependency)[0] for dependency in metadata(ROOT / "pyproject.toml")["dependencies"]}
    assert required <= names
