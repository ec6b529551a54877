"""Flushing and compacting on the command line, over real HTTP: the flusher is LiteLLM's and the model scripted."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from completion_server import CompletionServer, Status, prompt

from kipu import Memory
from kipu.cli import main
from kipu.errors import FlusherError
from kipu.types import Message

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
    change = err.rpartition("To undo: kipu undo ")[2].strip()
    code, out, err = run("undo", change, "--yes")
    assert code == 0
    assert (workspace / f"memory/{days_ago(90)}.md").exists()
    reviewed = write("list.md", "- A reviewed fact.\n")
    code, out, err = run("flush", "--apply", str(reviewed), "--source", "team")
    assert (code, out, err) == (0, "- A reviewed fact.\n", f"Written to memory/team/{days_ago(0)}.md.\n")
    server.then("- A fact of a transcript.")
    transcript = write(
        "transcript.txt", "\n".join(json.dumps({"type": each["role"], "message": each}) for each in MESSAGES)
    )
    code, out, err = run("flush", str(transcript), "--dry-run", "--json")
    assert json.loads(out)["text"] == "- A fact of a transcript."
    code, out, err = run("flush", "--apply", str(write("list.json", out)))
    assert (code, out) == (0, "- A fact of a transcript.\n")
    for text, message in (
        ('{"a": 1}', "is not what kipu flush --dry-run prints"),
        ("null", "Nothing new to remember."),
    ):
        code, out, err = run("flush", "--apply", str(write("list.json", text)))
        assert (code, out) == (2 if "a" in text else 0, "")
        assert message in err
    code, out, err = run("flush", "--apply", "list.json", "--dry-run")
    assert (code, out) == (2, "")
    assert "--apply asks no model" in err
    transcript.write_text('{"role": "user", "content": "x"}\n{"role"', "utf-8")
    code, out, err = run("flush", str(transcript))
    assert (code, out) == (2, "")
    assert "Line 2 of " in err
    conversation.write_text("{", "utf-8")
    code, out, err = run("flush", str(conversation))
    assert (code, out) == (2, "")
    assert "is not JSON" in err


# Made up, and put together here so that no file contains one.
PASSWORD, TOKEN, KEY = "Tr0ub4dor&" + "uFR", "ghp_" + "a1B2c3D4e5F6" * 3, "AKIA" + "Q7ZX9WV3TR5KLM2P"
SECRETS = (PASSWORD, TOKEN, KEY)
WITH_SECRETS = [
    {"role": "system", "content": f"password: {PASSWORD}"},
    {"role": "user", "content": f"The password of the cache is {PASSWORD}.\n" + f"We use {KEY} for Valkey.\n" * 200},
    {"role": "assistant", "content": [{"type": "text", "text": f"I wrote `TOKEN={TOKEN}` down."}]},
    {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": TOKEN, "arguments": TOKEN}}]},
    {"role": "assistant", "content": [{"type": "tool_use", "name": KEY, "input": {"password": PASSWORD}}]},
    {"role": "tool", "content": f"password={PASSWORD}"},
    Message(TOKEN, f"{KEY} and {KEY}"),
]


async def test_a_model_is_sent_no_secret_that_may_not_be_written(workspace, server, write, caplog):
    caplog.set_level(logging.INFO)  # aiosqlite logs what is indexed as DEBUG
    write(
        "kipu.toml",
        '[search]\nstrategy = "keyword"\n[flush]\n'
        f'flusher = {{ use = "litellm", model = "openai/any", api_base = "{server.url}", api_key = "sk-1", '
        "window = 5000 }\n",
    )
    write("memory/by-hand.md", f"The cache is Valkey, and its password: {PASSWORD}\n")
    write(f"memory/{days_ago(90)}.md", f"- By hand: the cache has the key {KEY}.\n")
    server.always(lambda request: f"- The password: {PASSWORD}\n- The key was {TOKEN}.")
    async with Memory(workspace) as memory:
        flushed = await memory.flush(WITH_SECRETS, instructions=f"Sign it with {TOKEN}")
        compacted = await memory.compact(older_than=30, instructions=f"Sign it with {TOKEN}")
        server.always(lambda request: Status(400, f"I cannot read this: {prompt(request, 'user')}"))
        with pytest.raises(FlusherError) as error:
            await memory.flush(WITH_SECRETS)
    assert server.count > 3  # the conversation was sent in parts
    sent = [json.dumps(request.body, ensure_ascii=False) for request in server.requests]
    everything = "\n".join([*sent, str(error.value), str(flushed), *flushed.notices, compacted.text, caplog.text])
    assert [secret for secret in SECRETS if secret in everything] == []
    assert "[redacted: AWS access key] for Valkey" in everything
    assert "its password: [redacted: password]" in everything  # of what is remembered already
    assert "By hand: the cache has the key [redacted: AWS access key]" in everything
    assert "Sign it with [redacted: GitHub token]" in everything
    assert "In what is sent to the model: A password in line 1 was replaced by [redacted: password]." in flushed.notices
