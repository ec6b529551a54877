"""What is sent to a model and what comes of its answers, when all is well, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
from typing import Any

import pytest
from completion_server import NOTHING_NEW, Answer, CompletionServer, Held, Raw, Status, prompt

from kipu.errors import ConversationTooLongError, FlusherError
from kipu.types import Distillation, Message
from kipu_flusher_litellm import LitellmFlusher
from kipu_flusher_litellm.transcript import transcript

INSTRUCTIONS = "List what is worth keeping."
MESSAGES = [Message("user", "We chose Redis."), Message("assistant", "Noted.\nAnything else?")]


def make(server: CompletionServer, **options: Any) -> LitellmFlusher:
    """A flusher that asks the server, as one would ask OpenAI."""
    given = {"model": "openai/gpt-4o-mini", "api_base": server.url, "api_key": "sk-right-key", "timeout": 20}
    return LitellmFlusher(**given | options)


async def distill(flusher: LitellmFlusher, model: str | None = None) -> Distillation:
    return await flusher.distill(MESSAGES, instructions=INSTRUCTIONS, model=model)


# --- what is sent --------------------------------------------------------------------------------------------------


async def test_instructions_and_the_conversation_are_sent_apart_and_the_conversation_as_data(
    server: CompletionServer,
) -> None:
    assert (await distill(make(server))).text == NOTHING_NEW
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer sk-right-key"
    assert request.body == {
        "model": "gpt-4o-mini",
        "messages": [
            {"role": "system", "content": INSTRUCTIONS},
            {"role": "user", "content": transcript(MESSAGES)},
        ],
        "max_tokens": 1024,
        "temperature": 0.0,
    }


async def test_options_are_sent(server: CompletionServer) -> None:
    await distill(make(server, max_tokens=77, temperature=0.5))
    assert server.requests[0].body.items() >= {"max_tokens": 77, "temperature": 0.5}.items()


async def test_a_model_that_takes_no_temperature_is_asked_without_one(server: CompletionServer) -> None:
    await distill(make(server, model="openai/gpt-5-mini"))
    body = server.requests[0].body
    assert "temperature" not in body
    assert body["max_completion_tokens"] == 1024


async def test_half_a_pair_of_surrogates_can_be_sent(server: CompletionServer) -> None:
    server.then(lambda request: prompt(request, "user"))
    result = await make(server).distill([Message("user", "broken \ud83d")], instructions=INSTRUCTIONS)
    assert "broken \\ud83d" in result.text


async def test_the_model_of_a_call_wins(server: CompletionServer) -> None:
    await distill(make(server), model="openai/gpt-4o")
    assert server.requests[0].body["model"] == "gpt-4o"


# The answer of each provider, in its own form.
ANTHROPIC = {
    "id": "1",
    "type": "message",
    "role": "assistant",
    "model": "any",
    "content": [{"type": "text", "text": "- They chose Redis."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 30, "output_tokens": 10},
}
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "- They chose Redis."}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 30, "candidatesTokenCount": 10, "totalTokenCount": 40},
}
OLLAMA = {
    "model": "llama3.1",
    "created_at": "2026-01-01T00:00:00Z",
    "message": {"role": "assistant", "content": "- They chose Redis."},
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 30,
    "eval_count": 10,
}
OPENAI = {
    "id": "1",
    "object": "chat.completion",
    "created": 0,
    "model": "any",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "- They chose Redis."}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 30, "completion_tokens": 10, "total_tokens": 40},
}
CUT = {
    "anthropic": ANTHROPIC | {"stop_reason": "max_tokens"},
    "gemini": GEMINI | {"candidates": [GEMINI["candidates"][0] | {"finishReason": "MAX_TOKENS"}]},  # type: ignore[index]
    "mistral": OPENAI | {"choices": [OPENAI["choices"][0] | {"finish_reason": "length"}]},  # type: ignore[index]
    "ollama": OLLAMA | {"done_reason": "length"},
    "ollama_chat": OLLAMA | {"done_reason": "length"},
}
PROVIDERS = [
    ("anthropic/claude-haiku-4-5", ANTHROPIC, "/v1/v1/messages"),
    ("gemini/gemini-2.5-flash", GEMINI, "/v1/models/gemini-2.5-flash:generateContent"),
    ("mistral/mistral-small-latest", OPENAI, "/v1/chat/completions"),
    ("ollama/llama3.1", OLLAMA, "/v1/api/chat"),
    ("ollama_chat/llama3.1", OLLAMA, "/v1/api/chat"),
]


@pytest.mark.parametrize(("model", "answer", "path"), PROVIDERS)
async def test_every_provider_is_asked_once_and_in_its_own_way(
    server: CompletionServer, model: str, answer: dict[str, Any], path: str
) -> None:
    server.key = None  # each has its own header for it
    server.then(Raw(json.dumps(answer)), Raw(json.dumps(CUT[model.partition("/")[0]])))
    flusher = make(server, model=model)
    assert await distill(flusher) == Distillation("- They chose Redis.", complete=True, tokens=40)
    assert await distill(flusher) == Distillation("- They chose Redis.", complete=False, tokens=40)
    assert [request.path for request in server.requests] == [path, path]
    text = json.dumps(server.requests[0].body)
    assert text.count(json.dumps(INSTRUCTIONS)) == text.count(json.dumps(transcript(MESSAGES))) == 1
    assert "Bearer None" not in server.requests[0].headers.values()


async def test_ollama_is_told_the_window_and_what_it_cut_is_too_long(server: CompletionServer) -> None:
    server.key = None
    server.always(Raw(json.dumps(OLLAMA | {"prompt_eval_count": 100})))
    await distill(make(server, model="ollama/llama3.1", api_key=None, window=101, max_tokens=20))
    assert server.requests[0].body["options"] == {"num_ctx": 121, "num_predict": 20, "temperature": 0.0}
    with pytest.raises(ConversationTooLongError, match="the 100 tokens of its window, and cut it"):
        await distill(make(server, model="ollama/llama3.1", api_key=None, window=100))
    assert server.count == 2


async def test_a_key_and_an_address_go_to_no_other_provider(
    server: CompletionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    flusher = make(server)
    with pytest.raises(FlusherError, match=r"no key for anthropic/claude-haiku-4-5\. Set ANTHROPIC_API_KEY"):
        await distill(flusher, model="anthropic/claude-haiku-4-5")
    assert server.count == 0
    with CompletionServer() as other:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-anthropic")
        monkeypatch.setenv("ANTHROPIC_API_BASE", other.url.removesuffix("/v1"))
        other.then(Raw(json.dumps(ANTHROPIC)))
        await distill(flusher, model="anthropic/claude-haiku-4-5")
        (request,) = other.requests
    assert request.headers["x-api-key"] == "sk-of-anthropic"
    assert "sk-right-key" not in str(request)
    assert server.count == 0


# --- what comes back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer("- A fact.", usage={"total_tokens": 12}), Distillation("- A fact.", complete=True, tokens=12)),
        (Answer("- A fa", "length", usage={"total_tokens": 9}), Distillation("- A fa", complete=False, tokens=9)),
        (Answer(None, "length", usage={"total_tokens": 9}), Distillation("", complete=False, tokens=9)),
        (Answer("", usage={"total_tokens": 5}), Distillation("", complete=True, tokens=5)),
        (Answer(None, usage={"total_tokens": 5}), Distillation("", complete=True, tokens=5)),
        (Answer("- A fact.", usage=None), Distillation("- A fact.", complete=True, tokens=0)),
        (Answer("- A fact.", None, usage={"total_tokens": 3}), Distillation("- A fact.", complete=True, tokens=3)),
    ],
)
async def test_an_answer_is_handed_over_with_what_it_cost(
    server: CompletionServer, answer: Answer, expected: Distillation
) -> None:
    server.then(answer)
    assert await distill(make(server)) == expected
    assert server.count == 1


CALL = {"id": "1", "type": "function", "function": {"name": "remember", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer("- Half", "content_filter"), "did not answer: the provider's content filter stopped it."),
        (Answer(None, message={"refusal": "I can't help\nwith that."}), "refused to answer: I can't help with that."),
        (Answer(None, "tool_calls", {"tool_calls": [CALL]}), "called a tool instead of answering, and it was given no"),
        (Answer("- Half", "stop", {"tool_calls": [CALL]}), "called a tool instead of answering"),
        (
            Answer(None, "function_call", {"function_call": {"name": "remember", "arguments": "{}"}}),
            "called a tool instead of answering",
        ),
    ],
)
async def test_what_is_no_answer_is_an_error_that_says_what_happened(
    server: CompletionServer, answer: Answer, message: str
) -> None:
    server.then(answer)
    with pytest.raises(FlusherError) as caught:
        await distill(make(server))
    assert type(caught.value) is FlusherError
    assert str(caught.value).startswith(f"openai/gpt-4o-mini {message}")
    assert server.count == 1


async def test_anthropic_refuses_in_its_own_way(server: CompletionServer) -> None:
    server.key = None
    server.then(Raw(json.dumps(ANTHROPIC | {"content": [], "stop_reason": "refusal"})))
    with pytest.raises(FlusherError, match="did not answer"):
        await distill(make(server, model="anthropic/claude-haiku-4-5"))


async def test_conversations_may_be_distilled_side_by_side_and_be_cancelled(server: CompletionServer) -> None:
    released, arrived = threading.Event(), threading.Event()
    server.then(Held(released, "- Late.", arrived))
    flusher = make(server)
    waiting = asyncio.create_task(distill(flusher))
    await asyncio.to_thread(arrived.wait)
    assert (await distill(flusher)).text == NOTHING_NEW
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    released.set()
    assert server.count == 2


# --- quiet ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("log", [False, True])
def test_a_program_prints_nothing_leaves_nothing_open_and_logs_no_text(server: CompletionServer, log: bool) -> None:
    server.key = None
    server.then("- A fact.", Answer(None, "content_filter"), Raw("<html>"), "- A fact.", Raw(json.dumps(OLLAMA)))
    server.then(Status(500, "Nobody"), Raw("<html>"), Raw("{}"))
    program = f"""
import asyncio, gc, logging, sys
if {log}:
    logging.basicConfig(level="INFO")
from kipu.types import Message
from kipu_flusher_litellm import LitellmFlusher
assert not {{"litellm", "httpx"}} & set(sys.modules)
async def main(*models):
    for model in models:
        flusher = LitellmFlusher(model, {server.url!r}, "sk-right-key")
        try:
            await flusher.distill([Message("user", "Nobody is to read this.")], instructions="List.")
        except Exception:
            pass
asyncio.run(main(*3 * ["openai/gpt-4o-mini"]))
asyncio.run(main("openai/gpt-4o-mini", "ollama/llama3.1", "ollama/llama3.1", "gemini/any", "anthropic/any"))
gc.collect()
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)
    assert server.count == 8
    if not log:
        assert done.stderr == ""
    else:  # what LiteLLM and httpx tell the log of the program is that they ask, and nothing of what
        assert not re.search("Nobody|sk-right-key|fact|Redis", done.stderr)
