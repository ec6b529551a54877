"""Flushing and compacting on the command line, over real HTTP: the flusher is LiteLLM's and the model scripted."""

from __future__ import annotations

import json
import os
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from completion_server import CompletionServer, Status

from kipu.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator


MESSAGES = [
    {"role": "user", "content": "We chose Valkey for the cache, since Redis changed its licence."},
    {"role": "assistant", "content": "Noted: Valkey it is."},
]
FACTS = "- The team chose Valkey for the cache, because Redis changed its licence.\n- Ada looks after the cache."


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CompletionServer]:
    monkeypatch.setattr("kipu.distill.model.BACKOFF_SECONDS", (0.0, 0.0))
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL")):
            monkeypatch.delenv(name)
    with CompletionServer() as server:
        yield server


def days_ago(days: int) -> str:
    return (date.today() - timedelta(days=days)).isoformat()  # noqa: DTZ011 (the day of this machine)


def test_flush_and_compact_on_the_command_line(workspace, server, write, capsys, monkeypatch):
    monkeypatch.chdir(workspace)
    write(
        "kipu.toml",
        '[search]\nstrategy = "keyword"\n[flush]\n'
        f'flusher = {{ use = "litellm", model = "openai/any", api_base = "{server.url}", api_key = "sk-1" }}\n',
    )
    conversation = write("conversation.json", json.dumps({"messages": MESSAGES}))

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    server.then(Status(429, retry_after="0"), FACTS, FACTS)
    code, out, err = run("flush", str(conversation), "--dry-run")
    assert (code, out, err) == (0, f"{FACTS}\n", f"Would be written to memory/{days_ago(0)}.md.\n")
    code, out, err = run("flush", str(conversation))
    assert (code, out, err) == (0, f"{FACTS}\n", f"Written to memory/{days_ago(0)}.md.\n")
    write(f"memory/{days_ago(90)}.md", "- An old fact.\n")
    server.then("- An old fact, in short.")
    code, out, err = run("compact", "--older-than", "30")
    assert code == 0
    assert "- An old fact, in short." in out
    assert f"To undo: kipu compact --undo memory/{days_ago(90)}-summary.md" in err
    code, out, err = run("compact", "--undo", f"memory/{days_ago(90)}-summary.md")
    assert code == 0
    assert (workspace / f"memory/{days_ago(90)}.md").exists()
    conversation.write_text("{", "utf-8")
    code, out, err = run("flush", str(conversation))
    assert (code, out) == (2, "")
    assert "is not JSON" in err
