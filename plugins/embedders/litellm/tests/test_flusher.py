"""What the flusher sends to models, and what it makes of their answers, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from completion_server import NO_CHOICES, NOTHING_NEW, Answer, CompletionServer, Held, Raw, Status, prompt

from kipu.errors import ConversationTooLongError, FlusherError
from kipu.types import Distillation, Message
from kipu_litellm import LitellmFlusher
from kipu_litellm.flusher import NoAnswerError
from kipu_litellm.transcript import transcript

INSTRUCTIONS = "List what is worth keeping."
MESSAGES = [Message("user", "We chose Redis."), Message("assistant", "Noted.\nAnything else?")]


def make(completions, **options):
    """Return a flusher that sends requests to the server as to OpenAI."""
    given = {
        "model": "openai/gpt-4o-mini",
        "api_base": completions.url,
        "api_key": "sk-right-key",
        "request_timeout": 20,
    }
    return LitellmFlusher(**given | options)


async def distill(flusher, model=None):
    return await flusher.distill(MESSAGES, instructions=INSTRUCTIONS, model=model)


# --- what is sent --------------------------------------------------------------------------------------------------


async def test_the_conversation_is_sent_as_data_after_the_instructions(
    completions,
):
    assert (await distill(make(completions))).text == NOTHING_NEW
    (request,) = completions.requests
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


async def test_options_are_sent(completions):
    await distill(make(completions, max_tokens=77, temperature=0.5))
    assert completions.requests[0].body.items() >= {"max_tokens": 77, "temperature": 0.5}.items()


async def test_a_model_that_takes_no_temperature_is_asked_without_one(completions):
    await distill(make(completions, model="openai/gpt-5-mini"))
    body = completions.requests[0].body
    assert "temperature" not in body
    assert body["max_completion_tokens"] == 1024


async def test_half_a_pair_of_surrogates_can_be_sent(completions):
    completions.then(lambda request: prompt(request, "user"))
    result = await make(completions).distill([Message("user", "broken \ud83d")], instructions=INSTRUCTIONS)
    assert "broken \\ud83d" in result.text


async def test_the_model_of_a_call_wins(completions):
    await distill(make(completions), model="openai/gpt-4o")
    assert completions.requests[0].body["model"] == "gpt-4o"


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
    "gemini": GEMINI | {"candidates": [GEMINI["candidates"][0] | {"finishReason": "MAX_TOKENS"}]},
    "mistral": OPENAI | {"choices": [OPENAI["choices"][0] | {"finish_reason": "length"}]},
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
async def test_every_provider_is_asked_once_and_in_its_own_way(completions, model, answer, path):
    completions.key = None  # each has its own header for it
    completions.then(Raw(json.dumps(answer)), Raw(json.dumps(CUT[model.partition("/")[0]])))
    flusher = make(completions, model=model)
    assert await distill(flusher) == Distillation("- They chose Redis.", complete=True, tokens=40)
    assert await distill(flusher) == Distillation("- They chose Redis.", complete=False, tokens=40)
    assert [request.path for request in completions.requests] == [path, path]
    text = json.dumps(completions.requests[0].body)
    assert text.count(json.dumps(INSTRUCTIONS)) == text.count(json.dumps(transcript(MESSAGES))) == 1
    assert "Bearer None" not in completions.requests[0].headers.values()


async def test_ollama_gets_the_window_and_a_conversation_that_fills_it_is_too_long(completions):
    completions.key = None
    completions.always(Raw(json.dumps(OLLAMA | {"prompt_eval_count": 100})))
    await distill(make(completions, model="ollama/llama3.1", api_key=None, window=101, max_tokens=20))
    assert completions.requests[0].body["options"] == {"num_ctx": 121, "num_predict": 20, "temperature": 0.0}
    with pytest.raises(ConversationTooLongError, match="the 100 tokens of its window, and cut it"):
        await distill(make(completions, model="ollama/llama3.1", api_key=None, window=100))
    assert completions.count == 2


async def test_a_key_and_an_address_go_to_no_other_provider(completions, monkeypatch):
    flusher = make(completions)
    with pytest.raises(FlusherError, match=r"no key for anthropic/claude-haiku-4-5\. Set ANTHROPIC_API_KEY"):
        await distill(flusher, model="anthropic/claude-haiku-4-5")
    assert completions.count == 0
    with CompletionServer() as other:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-anthropic")
        monkeypatch.setenv("ANTHROPIC_API_BASE", other.url.removesuffix("/v1"))
        other.then(Raw(json.dumps(ANTHROPIC)))
        await distill(flusher, model="anthropic/claude-haiku-4-5")
        (request,) = other.requests
    assert request.headers["x-api-key"] == "sk-of-anthropic"
    assert "sk-right-key" not in str(request)
    assert completions.count == 0


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
async def test_an_answer_is_returned_with_its_cost(completions, answer, expected):
    completions.then(answer)
    assert await distill(make(completions)) == expected
    assert completions.count == 1


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
async def test_a_response_without_an_answer_is_an_error_that_says_why(completions, answer, message):
    completions.then(answer)
    with pytest.raises(FlusherError) as caught:
        await distill(make(completions))
    assert type(caught.value) is NoAnswerError
    assert str(caught.value).startswith(f"openai/gpt-4o-mini {message}")
    assert completions.count == 1


async def test_anthropic_refuses_in_its_own_way(completions):
    completions.key = None
    completions.then(Raw(json.dumps(ANTHROPIC | {"content": [], "stop_reason": "refusal"})))
    with pytest.raises(FlusherError, match="did not answer"):
        await distill(make(completions, model="anthropic/claude-haiku-4-5"))


async def test_conversations_may_be_distilled_side_by_side_and_be_cancelled(completions):
    released, arrived = threading.Event(), threading.Event()
    completions.then(Held(released, "- Late.", arrived))
    flusher = make(completions)
    waiting = asyncio.create_task(distill(flusher))
    await asyncio.to_thread(arrived.wait)
    assert (await distill(flusher)).text == NOTHING_NEW
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    released.set()
    assert completions.count == 2


@pytest.mark.parametrize(
    ("model", "code", "message"),
    [
        ("openai/a", 400, "Input tokens exceed the configured limit. (code: context_length_exceeded)"),
        ("openai/a", 413, "No reason given."),
        ("openai/a", 422, "Please reduce the length of the messages or completion."),
        ("openai/a", 429, "Request too large for gpt-4o: Limit 30000, Requested 42000. The tokens must be reduced"),
        ("openai/a", 400, "the request exceeds the available context size. try increasing the context size"),
        ("anthropic/a", 400, "prompt is too long: 210000 tokens > 200000 maximum"),
        ("anthropic/a", 400, "input length and `max_tokens` exceed context limit: 199000 + 1024"),
        ("gemini/a", 400, "The input token count (1300000) exceeds the maximum number of tokens"),
        ("mistral/a", 400, "Prompt contains 40000 tokens, too large for model with 32768"),
        ("ollama/a", 500, "the input length exceeds the context length"),
    ],
)
async def test_providers_have_many_ways_to_report_a_conversation_that_is_too_long(completions, model, code, message):
    completions.key = None
    completions.then(Status(code, message))
    with pytest.raises(ConversationTooLongError):
        await distill(make(completions, model=model))
    assert completions.count == 1


@pytest.mark.parametrize("answer", [NO_CHOICES, *map(Raw, ['{"choices": null}', '{"choices": [{"index": 0}]}'])])
async def test_a_response_without_choices_is_an_error(completions, answer):
    completions.always(answer)
    with pytest.raises(FlusherError) as caught:
        await distill(make(completions))
    assert type(caught.value) in (FlusherError, NoAnswerError)
    assert completions.count == 1


async def test_a_key_is_used_for_a_model_whose_provider_only_litellm_knows(completions):
    assert (await distill(make(completions, model="gpt-4o"), model="openai/gpt-4o-mini")).text
    assert completions.requests[0].headers["authorization"] == "Bearer sk-right-key"
