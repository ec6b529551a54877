"""The daily budget: its file is never followed out of the workspace, and never waited for."""

from __future__ import annotations

import json
import os

import attrs
import pytest

from kipu import FlushConfig, Memory
from kipu.errors import BudgetExceededError, KipuError
from kipu.testing import ScriptedFlusher
from kipu.types import Distillation

MESSAGES = [{"role": "user", "content": "We chose Valkey."}]
NOTHING = "NOTHING_TO_REMEMBER"


@pytest.fixture
def flusher() -> ScriptedFlusher:
    return ScriptedFlusher([NOTHING])


@pytest.fixture
def new_memory(config, flusher):
    """Make a memory with a budget."""

    def new_memory(**flush: int) -> Memory:
        return Memory(attrs.evolve(config(), flush=FlushConfig(flusher=flusher, **flush)))

    return new_memory


async def test_calls_of_a_day_are_limited_over_several_memories(new_memory, flusher):
    for _ in range(2):
        async with new_memory(calls_per_day=2) as memory:
            await memory.flush(MESSAGES)
    async with new_memory(calls_per_day=2) as memory:
        with pytest.raises(BudgetExceededError) as error:
            await memory.flush(MESSAGES)
    assert str(error.value) == (
        "Daily budget reached: 2 of 2 model calls used, 1 more needed. Nothing was sent. "
        "Raise flush.calls_per_day in kipu.toml."
    )
    assert len(flusher.calls) == 2


async def test_a_scope_is_not_told_how_much_of_the_budget_others_used(config, flusher):
    flusher.script = [Distillation(NOTHING, tokens=901)]
    limited = attrs.evolve(config(), flush=FlushConfig(flusher=flusher, tokens_per_day=1000))
    for scope in ("bob", "alice"):
        async with Memory(limited, scope=scope) as memory:
            if scope == "bob":
                await memory.flush(MESSAGES)
                continue
            with pytest.raises(BudgetExceededError) as error:
                await memory.flush(MESSAGES)
    assert str(error.value) == (
        "Daily budget reached: 1,000 model tokens in the whole workspace. Nothing was sent. "
        "Raise flush.tokens_per_day in kipu.toml."
    )


async def test_tokens_of_a_day_are_limited(new_memory, flusher):
    flusher.script = [Distillation(NOTHING, tokens=901)]
    async with new_memory(tokens_per_day=1000) as memory:
        await memory.flush(MESSAGES)
        with pytest.raises(BudgetExceededError, match="901 of 1,000 model tokens used"):
            await memory.flush(MESSAGES)
    assert len(flusher.calls) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
async def test_a_pipe_in_place_of_the_file_is_an_error(new_memory, workspace):
    (workspace / ".kipu").mkdir()
    os.mkfifo(workspace / ".kipu/usage.json")
    async with new_memory() as memory:
        with pytest.raises(KipuError, match="is not a regular file"):
            await memory.flush(MESSAGES)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="symbolic links need a privilege on Windows")
async def test_a_symlink_in_place_of_the_temporary_file_is_not_followed(new_memory, workspace, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("precious", "utf-8")
    (workspace / ".kipu").mkdir()
    (workspace / f".kipu/usage.{os.getpid()}.tmp").symlink_to(outside)
    async with new_memory() as memory:
        assert await memory.flush(MESSAGES) is None
    assert outside.read_text("utf-8") == "precious"


@pytest.mark.parametrize(
    "usage",
    [
        {"TODAY": {"calls": -100, "tokens": -100}},
        {f"2999-01-{day:02}": {"calls": 0, "tokens": 0} for day in range(1, 32)},
    ],
)
async def test_an_edited_record_does_not_switch_the_budget_off(new_memory, workspace, usage):
    async with new_memory(calls_per_day=1) as memory:
        record = json.dumps(usage).replace("TODAY", memory.config.today().isoformat())
        (workspace / ".kipu").mkdir()
        (workspace / ".kipu/usage.json").write_text(record, "utf-8")
        await memory.flush(MESSAGES)
        with pytest.raises(BudgetExceededError):
            await memory.flush(MESSAGES)


@pytest.mark.parametrize("usage", ['{"2020-01-01": {"calls": Infinity, "tokens": 0}}', "[" * 100_000, "[]", "x", None])
async def test_a_broken_record_is_an_error(new_memory, workspace, usage):
    (workspace / ".kipu").mkdir()
    if usage is None:
        (workspace / ".kipu/usage.json").mkdir()
    else:
        (workspace / ".kipu/usage.json").write_text(usage, "utf-8")
    async with new_memory() as memory:
        with pytest.raises(KipuError, match=r"the record of model calls, cannot be read: .* Fix or delete it"):
            await memory.flush(MESSAGES)
