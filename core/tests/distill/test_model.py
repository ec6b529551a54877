"""What a model answers: which of it is a fact, and what a flusher may hand over."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kipu import FlushConfig, Memory
from kipu.distill.messages import in_parts
from kipu.distill.model import facts_of
from kipu.errors import BudgetExceededError, FlusherError, KipuError, PluginFailedError, QueryError
from kipu.search.recall import estimate_tokens
from kipu.types import Distillation, Message

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kipu import MemoryConfig

    Config = Callable[..., MemoryConfig]

SAID = [{"role": "user", "content": "We chose Valkey."}]


@attrs.frozen
class Says:
    """Answers with what it is given; counts how often it was asked, and for its window."""

    answers: Any
    asked: list[Any] = attrs.field(factory=list)
    windows: list[Any] = attrs.field(factory=lambda: [None])

    @property
    def window(self) -> Any:
        window = self.windows[0]
        if isinstance(window, Exception):
            raise window
        return window

    async def distill(self, messages: list[Message], *, instructions: str, model: str | None = None) -> Distillation:
        self.asked.append(messages)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        return Distillation(answer) if isinstance(answer, str) else answer


@pytest.fixture
def flushing(config: Config) -> Callable[..., Memory]:
    """A memory whose flusher gives these answers, the last one again and again."""

    def flushing(*answers: Any, window: Any = None, **flush: Any) -> Memory:
        settings = config()
        flusher = Says(answers, windows=[window])
        return Memory(attrs.evolve(settings, flush=FlushConfig(flusher=flusher, **flush)))

    return flushing


# --- what is a fact ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        ("Here are the facts:\n- One.\n- Two.", ["One.", "Two."]),
        ("Sure! Here is what I would keep:\n\n1. One.\n2) Two.", ["One.", "Two."]),
        ("**Here they are:**\n\n```\n- One.\n```", ["One."]),
        ("以下是事实：\n- One.", ["One."]),
        ("- Here are the facts:\n- One.\n- Two.", ["One.", "Two."]),
        ("**Facts**\n- One.\n\n**Plans**:\n\n* Two.", ["One.", "Two."]),
        ("- One.\n**Plans**\n- Two.", ["One.", "Two."]),
        ("## Facts\n\n__Plans__\n- One.", ["One."]),
    ],
)
def test_what_introduces_a_list_is_no_fact(answer: str, facts: list[str]) -> None:
    assert facts_of(answer) == facts


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        ("Ada moved to Berlin.\nShe likes:\n- tea", ["Ada moved to Berlin.", "tea"]),
        ("Ada likes:\n\nTea.", ["Ada likes:", "Tea."]),
        ("Ada likes:", ["Ada likes:"]),
        ("- Ada likes:\n  - tea\n- Two.", ["Ada likes:\n- tea", "Two."]),
        ("- Ada likes:\n  - tea and:\n- Two.", ["Ada likes:\n- tea and:", "Two."]),
        ("- One.\n\nThe ports are:\n- 80", ["One.", "The ports are:", "80"]),
        ("- One.\n- The ports are:\n- 80", ["One.", "The ports are:", "80"]),
        ("**Ada looks after the cache**", ["**Ada looks after the cache**"]),
        ("**Ada looks after it.**\n- Two.", ["**Ada looks after it.**", "Two."]),
        ("**One**\n\n**Two**", ["**One**", "**Two**"]),
        ("**Valkey** is the cache.\n- Two.", ["**Valkey** is the cache.", "Two."]),
        ("- **Ada**\n- **Grace**", ["**Ada**", "**Grace**"]),
        ("<think> is a mark.\n- Two.", ["<think> is a mark.", "Two."]),
        ("- The team prefers:\n- tabs", ["The team prefers:", "tabs"]),
        ("1. Here at Acme we use two tools. They are:\n2. git", ["Here at Acme we use two tools. They are:", "git"]),
    ],
)
def test_in_doubt_it_is_a_fact(answer: str, facts: list[str]) -> None:
    assert facts_of(answer) == facts


@given(st.lists(st.sampled_from(["- ", "1. ", "  ", "a", "A fact.", ":", "\n", "\n\n", "# ", " "])))
def test_words_are_lost_of_headings_and_introductions_alone(pieces: list[str]) -> None:
    answer = "".join(pieces)
    kept = "\n".join(facts_of(answer))
    for line in answer.split("\n"):
        if "A fact." in line and not line.strip().startswith("# ") and not line.rstrip(" *").endswith(":"):
            assert "A fact." in kept


@pytest.mark.parametrize(
    "thought", ["<think>\n- A thought.\n</think>", " \n<THINKING>A.\n\nB:</thinking>\n", "<think></think>"]
)
async def test_what_a_model_thinks_before_it_answers_is_not_remembered(
    flushing: Callable[..., Memory], thought: str
) -> None:
    async with flushing(f"{thought}\nHere:\n- One.", f"{thought}NOTHING_TO_REMEMBER", thought) as memory:
        assert str(await memory.flush(SAID)) == "- One."
        assert await memory.flush(SAID) is None
        with pytest.raises(FlusherError, match="The model answered nothing"):
            await memory.flush(SAID)


async def test_an_answer_that_was_cut_off_while_the_model_thought_is_none(flushing: Callable[..., Memory]) -> None:
    async with flushing(Distillation("<think>\nThey say\n- a lot", complete=False)) as memory:
        with pytest.raises(FlusherError, match="before it had said anything: give it more max_tokens"):
            await memory.flush(SAID)


async def test_thoughts_that_were_begun_in_the_prompt_are_not_remembered(flushing: Callable[..., Memory]) -> None:
    async with flushing("They say:\n- a lot\n</think>\n- One.", "Nothing new.\n</think>\n") as memory:
        assert str(await memory.flush(SAID)) == "- One."
        with pytest.raises(FlusherError, match="The model answered nothing"):
            await memory.flush(SAID)


async def test_a_mark_within_a_list_is_not_the_end_of_thoughts(flushing: Callable[..., Memory]) -> None:
    async with flushing("- One ends with\n</think>\n- Two.") as memory:
        assert str(await memory.flush(SAID)) == "- One ends with\n</think>\n- Two."


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize("name", ["usage.json", "usage.PID.tmp"])
async def test_a_pipe_or_a_link_where_the_budget_stands_is_not_waited_for_or_followed(
    flushing: Callable[..., Memory], workspace: Path, tmp_path: Path, name: str
) -> None:
    (workspace / ".kipu").mkdir(exist_ok=True)
    outside = tmp_path / "outside"
    outside.write_text("precious", "utf-8")
    path = workspace / ".kipu" / name.replace("PID", str(os.getpid()))
    if name == "usage.json":
        os.mkfifo(path)
    else:
        path.symlink_to(outside)
    async with flushing("- One.") as memory:
        if name == "usage.json":
            with pytest.raises(KipuError, match="is not a regular file"):
                await memory.flush(SAID)
        else:
            assert str(await memory.flush(SAID)) == "- One."
    assert outside.read_text("utf-8") == "precious"


async def test_a_mark_of_thoughts_that_nothing_ends_stays(flushing: Callable[..., Memory]) -> None:
    async with flushing("<think>\n- One.") as memory:
        assert str(await memory.flush(SAID)) == "- <think>\n- One."


async def test_each_half_of_an_answer_has_its_own_introduction(flushing: Callable[..., Memory]) -> None:
    cut = Distillation("- Half a fa", complete=False)
    said = [{"role": "user", "content": f"{number} " + "word " * 300} for number in range(3)]
    halves = ("Here:\n- One\n  and more.", "<think>x</think>Here:\n- Two.\nNOTHING_TO_REMEMBER")
    async with flushing(cut, *halves) as memory:
        assert str(await memory.flush(said)) == "- One\nand more.\n- Two."


# --- what a flusher hands over -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        *(Distillation("- One.", tokens=tokens) for tokens in (math.inf, math.nan, None, -1, True, 1.0, "1", 10**5000)),  # type: ignore[arg-type]
        *(Distillation(text) for text in (None, 3, b"- One.")),  # type: ignore[arg-type]
        Distillation("- One.", complete=None),  # type: ignore[arg-type]
        None,
        {"text": "- One."},
    ],
    ids=lambda answer: repr(answer) if getattr(answer, "tokens", 0) != 10**5000 else "many",
)
async def test_what_a_flusher_may_not_return_is_said_and_does_no_harm(
    flushing: Callable[..., Memory], workspace: Path, answer: Any
) -> None:
    async with flushing(answer, Distillation("- Two.", tokens=7)) as memory:
        with pytest.raises(PluginFailedError, match=r"The flusher Says \(.*\) returned .* must"):
            await memory.flush(SAID)
        assert str(await memory.flush(SAID)) == "- Two."
    ((_, spent),) = json.loads((workspace / ".kipu/usage.json").read_text("utf-8")).items()
    assert spent["calls"] == 2
    assert type(spent["tokens"]) is int


@pytest.mark.parametrize("window", [math.inf, math.nan, -1, 0, True, "8000", 1.5])
async def test_a_window_that_is_none_is_said(flushing: Callable[..., Memory], window: Any) -> None:
    async with flushing("- One.", window=window) as memory:
        with pytest.raises(PluginFailedError, match="for its window, which must be a whole number of at least 1"):
            await memory.flush(SAID)


async def test_a_window_that_cannot_be_told_is_said(flushing: Callable[..., Memory]) -> None:
    async with flushing("- One.", window=RuntimeError("no such model")) as memory:
        with pytest.raises(PluginFailedError, match="failed: RuntimeError: no such model"):
            await memory.flush(SAID)


async def test_where_the_day_is_spent_a_flusher_is_not_even_asked_for_its_window(
    flushing: Callable[..., Memory],
) -> None:
    async with flushing("- One.", window=RuntimeError("asked"), calls_per_day=0) as memory:
        with pytest.raises(BudgetExceededError):
            await memory.flush(SAID)


# --- what a conversation may be ------------------------------------------------------------------------------------


def nested(depth: int) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": "deep"}
    for _ in range(depth):
        block = {"type": "tool_result", "content": [block, "x"]}
    return block


async def test_results_of_tools_may_stand_in_each_other_however_deep(flushing: Callable[..., Memory]) -> None:
    async with flushing("- One.") as memory:
        for role in ("user", "tool"):
            assert await memory.flush([{"role": role, "content": [nested(3000)]}], dry_run=True)
        flusher: Any = memory.config.flush.flusher
    said = "[the result of a tool was left out: 3,004 characters]"
    assert [[message.text for message in asked] for asked in flusher.asked] == [[said], [said]]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"role": "assistant", "content": "x", "tool_calls": 5}, "The tool_calls of message 2 "),
        ({"role": "assistant", "content": "x", "tool_calls": {"name": "f"}}, "The tool_calls of message 2 "),
        (Message("user", None), "text of message 2 "),  # type: ignore[arg-type]
        (Message(None, "x"), "The role and the text of message 2 "),  # type: ignore[arg-type]
        (Message("user", ["x"]), "text of message 2 "),  # type: ignore[arg-type]
    ],
)
async def test_a_message_of_another_shape_is_an_error_that_names_it(
    flushing: Callable[..., Memory], message: Any, said: str
) -> None:
    async with flushing("- One.") as memory:
        with pytest.raises(QueryError, match=said):
            await memory.flush([*SAID, message])


async def test_a_name_of_a_tool_that_is_no_text_is_left_out(flushing: Callable[..., Memory]) -> None:
    async with flushing("- One.") as memory:
        await memory.flush([{"role": "assistant", "tool_calls": [{"function": {"name": nested(3000)}}, 3]}])
        flusher: Any = memory.config.flush.flusher
    assert flusher.asked[0][0].text == "\n\n".join(["[called the tool without a name]"] * 2)


@given(
    text=st.lists(st.sampled_from(["a", "ä", "日本", "\n", " ", "word " * 5])).map("".join),
    tokens=st.integers(1, 60),
)
def test_the_parts_of_a_message_fit_and_are_all_of_it(text: str, tokens: int) -> None:
    parts = in_parts([Message("user", text)], tokens)
    assert all(sum(estimate_tokens(piece.text) + 5 for piece in part) <= max(tokens, 6) for part in parts)
    assert "".join("".join(piece.text.split()) for part in parts for piece in part) == "".join(text.split())


@pytest.mark.parametrize("unit", ["ä\n", "<kipu-memories> ", "<kipu-memories><memory>", "\n", "</kipu-memories>", "<"])
async def test_a_long_conversation_of_anything_is_no_trouble(flushing: Callable[..., Memory], unit: str) -> None:
    text = "x" + unit * (200_000 // len(unit)) + "y"
    async with flushing("- One.", calls_per_day=1000, tokens_per_day=10**9) as memory:
        await memory.flush([{"role": "user", "content": text}], dry_run=True)
        flusher: Any = memory.config.flush.flusher
    said = "".join(message.text for asked in flusher.asked for message in asked)
    assert said.split() == text.split() or "".join(said.split()) == "".join(text.split())


def test_a_long_answer_of_anything_is_no_trouble() -> None:
    for unit in ("<think>", "**a", "**", "- ", "a:\n", "a\n", " \n", "1. ", "__a", "<think>\n"):
        text = unit * (200_000 // len(unit))
        assert sum(map(len, facts_of(text))) <= len(text)


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        ("- fact\n\nLet me know if you need more!", ["fact"]),
        ("- fact\n\nShall I go on?", ["fact"]),
        ("- fact\n\nThe rest is about Alice.", ["fact", "The rest is about Alice."]),
        ("- We won!", ["We won!"]),
        ("Alice won!", ["Alice won!"]),
        ("", []),
    ],
)
def test_what_a_model_says_after_its_list_is_no_fact_where_it_asks_or_exclaims(answer: str, facts: list[str]) -> None:
    assert facts_of(answer) == facts
