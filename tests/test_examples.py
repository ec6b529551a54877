"""The examples: plugins of strangers, installed from their wheels, and small programs that search."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from completion_server import CompletionServer

if TYPE_CHECKING:
    from conftest import Environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
PLUGINS = sorted(path.parent.name for path in EXAMPLES.glob("*/pyproject.toml"))
SEARCHING = ["search_async.py", "search_sync.py"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    memory = tmp_path / "memory"
    memory.mkdir()
    sections = [f"## Harbour {number}\n\nThe ferry leaves at {number}:00.\n" for number in range(1, 6)]
    (memory / "timetable.md").write_text("# Timetable\n\n" + "\n".join(sections), "utf-8")
    (memory / "2026-11-28.md").write_text("# Saturday\n\nThe ferry was late.\n", "utf-8")
    return tmp_path


def found(environment: Environment, workspace: Path, *arguments: str) -> list[str]:
    """Return the paths that a search finds."""
    done = environment.kipu("search", "ferry", "--json", *arguments, cwd=workspace)
    assert done.returncode == 0, done.stderr
    return [result["path"] for result in json.loads(done.stdout)["results"]]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_tests_of_an_example_pass_where_its_wheel_is_installed(with_examples, tmp_path, plugin):
    # A copy, from where Python does not see the plugin's source.
    shutil.copytree(EXAMPLES / plugin / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    done = with_examples.run("pytest", "tests", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_installed_examples_are_listed_as_plugins(with_examples, workspace):
    done = with_examples.kipu("plugins", "--json", cwd=workspace)
    listed = json.loads(done.stdout)
    states = {plugin["distribution"]: (plugin["registers"], plugin["state"]) for plugin in listed["plugins"]}
    assert states["kipu-postprocessor-one-per-file"] == (["post-processor one-per-file"], "active")
    assert states["kipu-annotator-owners"] == (["annotator owners"], "active")
    assert states["kipu-strategy-newest"] == (["strategy newest"], "active")
    assert listed["problems"] == []


def test_an_option_of_a_plugin_becomes_a_flag_of_search(with_examples, workspace):
    assert found(with_examples, workspace).count("memory/timetable.md") > 1
    best = found(with_examples, workspace, "--hits-per-file", "1")
    assert sorted(best) == ["memory/2026-11-28.md", "memory/timetable.md"]


def test_the_strategy_of_a_plugin_can_be_asked_for(with_examples, workspace):
    assert found(with_examples, workspace, "--strategy", "newest") == ["memory/2026-11-28.md"]


@pytest.mark.parametrize("program", SEARCHING)
def test_a_program_prints_where_it_stands(with_examples, workspace, program):
    done = with_examples.run(
        "python", str(EXAMPLES / program), str(workspace), "when was the ferry late", cwd=workspace
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("memory/2026-11-28.md:1-3  ")


def started(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program as its first lines say."""
    return subprocess.run(
        [sys.executable, str(EXAMPLES / program), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def run_program(program: str, *arguments: str) -> str:
    """Return what a program prints."""
    done = started(program, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_agent_loop_recalls_earlier_messages(tmp_path):
    (tmp_path / "memory").mkdir()
    printed = run_program(
        "agent_loop.py", str(tmp_path), "We chose Valkey.", "Which cache is Valkey for?", "We  chose Valkey."
    )
    answers = [line for line in printed.splitlines() if line.startswith("agent:")]
    assert answers == ["agent: I did not know that.", *["agent: I know something about that (1 sources)."] * 2]
    assert [line.split()[0] for line in printed.splitlines() if line.startswith("  ")] == [
        "(remembered",
        "(remembered",
        "(known",
    ]


def test_two_agents_share_a_workspace_and_keep_to_themselves(tmp_path):
    (tmp_path / "memory").mkdir()
    current, outdated, own = run_program("two_agents.py", str(tmp_path)).splitlines()
    assert current == "- The bridge was built in 1847, says the town's archive.  [current]"
    assert outdated.startswith("- The bridge was built in 1874.  [superseded by memory/team/")
    assert own == "Of what is the researcher's own, the writer sees 0 notes."


def test_a_session_that_ends_is_flushed(tmp_path):
    (tmp_path / "memory").mkdir()
    conversation = tmp_path / "conversation.json"
    conversation.write_text(json.dumps([{"role": "user", "content": "We chose Valkey."}]), "utf-8")
    with CompletionServer() as server:
        server.then("- The team chose Valkey.", "NOTHING_TO_REMEMBER")
        (tmp_path / "kipu.toml").write_text(
            '[flush]\nflusher = { use = "litellm", model = "openai/any", api_key = "sk-1", '
            f'api_base = "{server.url}" }}\n',
            "utf-8",
        )
        printed = run_program("end_of_session.py", str(tmp_path), str(conversation))
        assert printed.startswith("- The team chose Valkey.\n-> memory/")
        assert run_program("end_of_session.py", str(tmp_path), str(conversation)) == "Nothing new to remember.\n"


def test_a_custom_strategy_finds_what_was_written_last(workspace):
    printed = run_program("custom_strategy.py", str(workspace), "anything")
    assert printed == "memory/2026-11-28.md:1-3  1.00\n"


def test_a_session_without_a_flusher_says_what_to_configure(tmp_path):
    (tmp_path / "conversation.json").write_text(json.dumps([{"role": "user", "content": "We chose Valkey."}]), "utf-8")
    done = started("end_of_session.py", str(tmp_path), str(tmp_path / "conversation.json"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("No model is configured. ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("program", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_error_of_kipu_is_printed_in_one_line(tmp_path, program):
    conversation = tmp_path / "conversation.json"
    conversation.write_text("[]", "utf-8")
    missing = tmp_path / "missing"
    done = started(program, str(missing), *([] if program == "two_agents.py" else [str(conversation)]))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"The workspace {missing} does not exist.\n"


def test_every_example_is_run_and_listed():
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    tested = Path(__file__).read_text("utf-8")
    for path in EXAMPLES.iterdir():
        if path.suffix == ".py" or (path / "pyproject.toml").exists():
            assert f"[{path.name}]({path.name})" in listed
        if path.suffix == ".py":
            assert f'"{path.name}"' in tested
