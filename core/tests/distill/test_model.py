"""What a model is asked, and which of its answers are used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from kipu import FlushConfig, Memory
from kipu.errors import BudgetExceededError, FlusherError, PluginFailedError
from kipu.testing import ScriptedFlusher
from kipu.types import Distillation

if TYPE_CHECKING:
    from collections.abc import Callable

    from kipu import MemoryConfig

    Config = Callable[..., MemoryConfig]

MESSAGES = [{"role": "user", "content": "We chose Valkey."}]


@pytest.fixture
def new_memory(config: Config) -> Callable[..., Memory]:
    """Make a memory whose flusher gives these answers."""

    def new_memory(*answers: Any, window: Any = None, **flush: Any) -> Memory:
        flusher = ScriptedFlusher(answers, window=window)
        return Memory(attrs.evolve(config(), flush=FlushConfig(flusher=flusher, **flush)))

    return new_memory


@pytest.mark.parametrize(
    "thoughts", ["<think>\n- A thought.\n</think>", " \n<THINKING>A.\n\nB:</thinking>\n", "<think></think>"]
)
async def test_thoughts_before_an_answer_are_ignored(new_memory, thoughts):
    async with new_memory(f"{thoughts}\nHere:\n- One.", f"{thoughts}NOTHING_TO_REMEMBER", thoughts) as memory:
        assert str(await memory.flush(MESSAGES)) == "- One."
        assert await memory.flush(MESSAGES) is None
        with pytest.raises(FlusherError, match="The model returned no text"):
            await memory.flush(MESSAGES)


async def test_an_answer_that_is_cut_off_in_its_thoughts_is_empty(new_memory):
    async with new_memory(Distillation("<think>\nThey say\n- a lot", complete=False)) as memory:
        with pytest.raises(FlusherError, match="before its answer began: give it more max_tokens"):
            await memory.flush(MESSAGES)


async def test_thoughts_that_began_in_the_prompt_are_ignored(new_memory):
    async with new_memory("They say:\n- a lot\n</think>\n- One.", "Nothing new.\n</think>\n") as memory:
        assert str(await memory.flush(MESSAGES)) == "- One."
        with pytest.raises(FlusherError, match="The model returned no text"):
            await memory.flush(MESSAGES)


@pytest.mark.parametrize("answer", ["- One ends with\n</think>\n- Two.", "- <think> opens\n- One."])
async def test_a_tag_of_thoughts_in_a_list_is_text(new_memory, answer):
    async with new_memory(answer) as memory:
        assert str(await memory.flush(MESSAGES)).replace("\n  ", "\n") == answer


async def test_each_half_of_an_answer_is_parsed_by_itself(new_memory):
    cut = Distillation("- Half a fa", complete=False)
    messages = [{"role": "user", "content": f"{number} " + "word " * 300} for number in range(3)]
    halves = ("Here:\n- One\n  and more.", "<think>x</think>Here:\n- Two.\nNOTHING_TO_REMEMBER")
    async with new_memory(cut, *halves) as memory:
        assert str(await memory.flush(messages)) == "- One\n  and more.\n- Two."


@pytest.mark.parametrize(
    "answer",
    [Distillation("- One.", tokens=-1), Distillation(None), {"text": "- One."}, None],  # type: ignore[arg-type]
    ids=repr,
)
async def test_an_invalid_answer_is_refused_and_counted(new_memory, workspace, answer):
    async with new_memory(answer, Distillation("- Two.", tokens=7)) as memory:
        with pytest.raises(PluginFailedError, match=r"The flusher .* failed to distill: .* must"):
            await memory.flush(MESSAGES)
        assert str(await memory.flush(MESSAGES)) == "- Two."
    ((_, used),) = json.loads((workspace / ".kipu/usage.json").read_text("utf-8")).items()
    assert used["calls"] == 2
    assert type(used["tokens"]) is int


async def test_an_invalid_window_is_refused(new_memory):
    async with new_memory("- One.", window=0) as memory:
        with pytest.raises(PluginFailedError, match="invalid window: it must be a whole number of at least 1"):
            await memory.flush(MESSAGES)


async def test_the_window_is_not_read_when_the_budget_is_used_up(new_memory):
    async with new_memory("- One.", window=0, calls_per_day=0) as memory:
        with pytest.raises(BudgetExceededError):
            await memory.flush(MESSAGES)
