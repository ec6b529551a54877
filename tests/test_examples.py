"""The examples: plugins of strangers, installed from their wheels, and small programs that search."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Environment

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
PLUGINS = sorted(path.parent.name for path in EXAMPLES.glob("*/pyproject.toml"))
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    memory = tmp_path / "memory"
    memory.mkdir()
    sections = [f"## Harbour {number}\n\nThe ferry leaves at {number}:00.\n" for number in range(1, 6)]
    (memory / "timetable.md").write_text("# Timetable\n\n" + "\n".join(sections), "utf-8")
    (memory / "2026-11-28.md").write_text("# Saturday\n\nThe ferry was late.\n", "utf-8")
    return tmp_path


def found(environment: Environment, workspace: Path, *arguments: str) -> list[str]:
    """The paths that a search finds."""
    done = environment.kipu("search", "ferry", "--json", *arguments, cwd=workspace)
    assert done.returncode == 0, done.stderr
    return [result["path"] for result in json.loads(done.stdout)["results"]]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_tests_of_an_example_pass_where_its_wheel_is_installed(
    with_examples: Environment, tmp_path: Path, plugin: str
) -> None:
    # A copy, from where Python does not see the plugin's source.
    shutil.copytree(EXAMPLES / plugin / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    done = with_examples.run("pytest", "tests", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_installed_examples_are_listed_as_plugins(with_examples: Environment, workspace: Path) -> None:
    done = with_examples.kipu("plugins", "--json", cwd=workspace)
    listed = json.loads(done.stdout)
    states = {plugin["distribution"]: (plugin["registers"], plugin["state"]) for plugin in listed["plugins"]}
    assert states["kipu-postprocessor-one-per-file"] == (["postprocessor one-per-file"], "active")
    assert states["kipu-strategy-newest"] == (["strategy newest"], "active")
    assert listed["problems"] == []


def test_an_option_of_a_plugin_becomes_a_flag_of_search(with_examples: Environment, workspace: Path) -> None:
    assert found(with_examples, workspace).count("memory/timetable.md") > 1
    best = found(with_examples, workspace, "--hits-per-file", "1")
    assert sorted(best) == ["memory/2026-11-28.md", "memory/timetable.md"]


def test_the_strategy_of_a_plugin_can_be_asked_for(with_examples: Environment, workspace: Path) -> None:
    assert found(with_examples, workspace, "--strategy", "newest") == ["memory/2026-11-28.md"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_prints_where_it_stands(with_examples: Environment, workspace: Path, program: str) -> None:
    done = with_examples.run(
        "python", str(EXAMPLES / program), str(workspace), "when was the ferry late", cwd=workspace
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("memory/2026-11-28.md:1-3  ")
