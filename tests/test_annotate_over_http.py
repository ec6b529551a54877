"""Annotating for the graph on the command line, over real HTTP: the annotator is LiteLLM's and the model scripted."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from completion_server import CompletionServer, prompt

from kipu.cli import main

pytestmark = pytest.mark.slow

RAVI = "ravi put the billing thing on fastapi."
SERVER = "everything with fastapi sits on top of uvicorn."


def said(request):
    """Return what the scripted model says of a note."""
    is_ravi = RAVI in prompt(request, "user")
    names, predicate = (["ravi", "fastapi"], "uses") if is_ravi else (["fastapi", "uvicorn"], "runs on")
    relation = {"source": names[0], "predicate": predicate, "target": names[1]}
    return json.dumps({"entities": names, "relations": [relation]})


@pytest.fixture
def run(workspace, capsys, monkeypatch):
    """Run a command in the workspace, and return its exit code and what it printed."""
    monkeypatch.chdir(workspace)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def test_what_a_model_relates_is_in_the_graph_and_is_paid_for_once(run, write):
    with CompletionServer() as server:
        server.always(said)
        write(
            "kipu.toml",
            '[search]\nstrategy = "keyword"\n[index]\nannotator = { use = "litellm", model = "openai/any", '
            f'api_base = "{server.url}", api_key = "sk-1" }}\n[flush]\ncalls_per_day = 1\n',
        )
        write("memory/ravi.md", f"{RAVI}\n")
        write("memory/server.md", f"{SERVER}\n")
        code, out, err = run("index")
        assert code == 0
        assert "2 chunks in the index, 1 chunk annotated (" in out
        assert "Daily budget reached: 1 of 1 model calls used, 1 more needed." in err
        assert "Not annotated yet: 1 chunk." in err
        code, out, err = run("status")
        assert "annotator       litellm\nnot annotated   1 chunk\n" in out
        config = Path("kipu.toml")
        config.write_text(config.read_text("utf-8").replace("calls_per_day = 1", "calls_per_day = 9"), "utf-8")
        assert "1 chunk annotated" in run("index")[1]
        assert "annotated" not in run("index")[1]
        assert server.count == 2
        code, out, err = run("graph", "path", "ravi", "uvicorn", "--json")
    assert code == 0
    assert [step["predicate"] for step in json.loads(out)] == ["uses", "runs on"], out
