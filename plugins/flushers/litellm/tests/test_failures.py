"""What comes of a provider that refuses, fails or is not there, over real HTTP: one request, and one sentence."""

from __future__ import annotations

import inspect
import json
import logging
import subprocess
import sys
import traceback
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from completion_server import (
    BROKEN_JSON,
    NO_CHOICES,
    NOT_JSON,
    CompletionServer,
    Dropped,
    Raw,
    Slow,
    Status,
)
from embedding_server import Redirect

from kipu.errors import ConversationTooLongError, FlusherBusyError, FlusherError
from kipu.types import Message
from kipu_flusher_litellm import LitellmFlusher

MODEL = "openai/gpt-4o-mini"
MODELS = [MODEL, "anthropic/claude-haiku-4-5", "gemini/gemini-2.5-flash", "mistral/mistral-small-latest", "ollama/any"]
SAID = "Nobody but the model is to read this."


def make(server: CompletionServer, **options: Any) -> LitellmFlusher:
    given = {"model": MODEL, "api_base": server.url, "api_key": "sk-right-key", "timeout": 20}
    return LitellmFlusher(**given | options)


async def failure(flusher: LitellmFlusher) -> FlusherError:
    with pytest.raises(FlusherError) as caught:
        await flusher.distill([Message("user", SAID)], instructions="List what is worth keeping.")
    shown = "".join(traceback.format_exception(caught.value))
    assert "sk-right-key" not in shown
    assert "sk-wrong-key" not in shown
    assert SAID not in shown
    assert "site-packages" not in shown
    return caught.value


# --- the key -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_refused_key_is_one_sentence_without_the_key(
    server: CompletionServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    error = await failure(make(server, api_key="sk-wrong-key"))
    assert type(error) is FlusherError
    assert str(error) == f"{MODEL} refused the key (401). See api_key, or the provider's own variable."
    assert server.count == 1
    assert "sk-wrong-key" not in caplog.text
    assert SAID not in caplog.text


@pytest.mark.parametrize("model", MODELS)
async def test_what_is_said_of_a_refused_key_is_said_without_it(server: CompletionServer, model: str) -> None:
    server.key = None
    server.then(Status(403, "The key sk-right-key may not use this model."))
    error = await failure(make(server, model=model))
    assert f"{model} refused the key (403): The key ... may not use this model. See api_key" in str(error)
    assert server.count == 1


async def test_a_key_may_come_from_a_variable_and_is_left_out_all_the_same(
    server: CompletionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, key in (("TEAM_KEY", {"env": "TEAM_KEY"}), ("OPENAI_API_KEY", None)):
        monkeypatch.setenv(name, "sk-right-key")
        server.then(Status(400, "sk-right-key is not for this."))
        assert "... is not for this." in str(await failure(make(server, api_key=key)))
        assert server.requests[-1].headers["authorization"] == "Bearer sk-right-key"


async def test_a_variable_that_is_not_set_is_named_before_anything_is_sent(server: CompletionServer) -> None:
    error = await failure(make(server, api_key={"env": "TEAM_KEY"}))
    assert str(error) == "api_key says that the key is in the environment variable TEAM_KEY, which is not set."
    assert server.count == 0


@pytest.mark.parametrize(
    ("model", "variable"), list(zip(MODELS, ["OPENAI", "ANTHROPIC", "GEMINI", "MISTRAL"], strict=False))
)
async def test_a_missing_key_is_found_before_anything_is_sent(
    server: CompletionServer, model: str, variable: str
) -> None:
    error = await failure(make(server, model=model, api_key=None))
    assert str(error).startswith(f"There is no key for {model}. Set ")
    assert f"{variable}_API_KEY" in str(error)
    assert str(error).endswith('or put api_key = { env = "NAME" } beside model in kipu.toml.')
    assert server.count == 0


@pytest.mark.parametrize(
    ("options", "asked", "said"),
    [
        ({"api_key": {"env": "TEAM_KEY"}}, None, "TEAM_KEY, which is not set"),
        ({}, None, "no key for openai/any. Set OPENAI_API_KEY"),
        ({"api_key": {"env": "TEAM_KEY"}}, "mistral/any", "no key for mistral/any. Set MISTRAL_API_KEY"),
        ({"model": "gemini/any"}, "gemini/other", "no key for gemini/other. Set GOOGLE_API_KEY or GEMINI_API_KEY"),
    ],
)
def test_a_missing_key_is_said_without_importing_what_takes_seconds(
    options: dict[str, Any], asked: str | None, said: str
) -> None:
    program = f"""
import asyncio, sys
from kipu.errors import FlusherError
from kipu.types import Message
from kipu_flusher_litellm import LitellmFlusher
flusher = LitellmFlusher(**{ ({"model": "openai/any"} | options)!r})
assert flusher.window == 32_000
try:
    asyncio.run(flusher.distill([Message("user", "x")], instructions="List.", model={asked!r}))
except FlusherError as error:
    print(error)
assert "litellm" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (said in done.stdout, done.stderr, done.returncode) == (True, "", 0)


async def test_a_key_is_used_for_a_model_whose_provider_only_litellm_knows(server: CompletionServer) -> None:
    said = [Message("user", SAID)]
    assert (await make(server, model="gpt-4o").distill(said, instructions="List.", model=MODEL)).text
    assert server.requests[0].headers["authorization"] == "Bearer sk-right-key"


# --- the model -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["nonsense", "nowhere/nothing", "/"])
async def test_a_provider_that_does_not_exist_is_said(server: CompletionServer, model: str) -> None:
    error = await failure(make(server, model=model))
    assert str(error).startswith(f'LiteLLM knows no provider for the model "{model}". Write it as provider/model')
    assert server.count == 0


@pytest.mark.parametrize("model", MODELS)
async def test_a_model_that_the_provider_lacks_is_said(server: CompletionServer, model: str) -> None:
    server.key = None
    server.then(Status(404, "The model does not exist"))
    error = await failure(make(server, model=model))
    assert type(error) is FlusherError
    assert str(error) == f"There is no {model} at that provider or address (404): The model does not exist"
    assert server.count == 1


# --- what may pass by itself ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [408, 429, 500, 503, 529])
@pytest.mark.parametrize("model", MODELS)
async def test_what_may_pass_by_itself_is_said_to_be_busy_after_a_single_request(
    server: CompletionServer, model: str, code: int
) -> None:
    server.key = None
    server.always(Status(code, "Try again later.", retry_after="7"))
    error = await failure(make(server, model=model))
    assert isinstance(error, FlusherBusyError)
    assert error.retry_after == 7.0
    assert str(error) == f"{model} cannot answer at the moment ({code}): Try again later."
    assert server.count == 1


NEXT_YEAR = format_datetime(datetime.now(UTC) + timedelta(days=365), usegmt=True)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (None, None),
        ("soon", None),
        ("-3", None),
        ("1.5", 1.5),
        ("0", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
        pytest.param(NEXT_YEAR, pytest.approx(365 * 86400, abs=86400), id="next year"),
    ],
)
async def test_how_long_to_wait_is_known_where_the_provider_says_it(
    server: CompletionServer, said: str | None, seconds: float | None
) -> None:
    server.then(Status(429, retry_after=said))
    error = await failure(make(server))
    assert isinstance(error, FlusherBusyError)
    assert error.retry_after == seconds


async def test_an_account_without_credit_is_not_busy(server: CompletionServer) -> None:
    server.then(Status(429, "You exceeded your current quota, please check your plan and billing details."))
    error = await failure(make(server))
    assert type(error) is FlusherError
    assert str(error).startswith(f"There is no credit left for {MODEL} (429): You exceeded")
    server.then(Status(429, "You exceeded your current quota. Please retry in 7 s.", retry_after="7"))
    assert isinstance(await failure(make(server)), FlusherBusyError)


# --- what is too long ----------------------------------------------------------------------------------------------


async def test_a_conversation_beyond_the_models_window_is_too_long(server: CompletionServer) -> None:
    server.max_characters = 100
    error = await failure(make(server))
    assert isinstance(error, ConversationTooLongError)
    assert str(error).startswith(f"{MODEL} found the conversation too long (400): This model's maximum context")
    assert server.count == 1


@pytest.mark.parametrize(
    ("model", "code", "message"),
    [
        (MODEL, 400, "Input tokens exceed the configured limit. (code: context_length_exceeded)"),
        (MODEL, 413, "No reason given."),
        (MODEL, 422, "Please reduce the length of the messages or completion."),
        (MODEL, 429, "Request too large for gpt-4o: Limit 30000, Requested 42000. The input or output tokens must be"),
        (MODEL, 400, "the request exceeds the available context size. try increasing the context size"),
        ("anthropic/claude-haiku-4-5", 400, "prompt is too long: 210000 tokens > 200000 maximum"),
        ("anthropic/claude-haiku-4-5", 400, "input length and `max_tokens` exceed context limit: 199000 + 1024"),
        ("gemini/gemini-2.5-flash", 400, "The input token count (1300000) exceeds the maximum number of tokens"),
        ("mistral/mistral-small-latest", 400, "Prompt contains 40000 tokens, too large for model with 32768"),
        ("ollama/any", 500, "the input length exceeds the context length"),
    ],
)
async def test_providers_have_many_ways_to_say_that_a_conversation_is_too_long(
    server: CompletionServer, model: str, code: int, message: str
) -> None:
    server.key = None
    server.then(Status(code, message))
    assert isinstance(await failure(make(server, model=model)), ConversationTooLongError)
    assert server.count == 1


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (400, "No such option."),
        (400, "max_tokens is too large: 99999. This model supports at most 16384 completion tokens."),
        (418, "A teapot."),
        (422, "Field required."),
    ],
)
async def test_any_other_refusal_is_final_and_says_what_the_provider_said(
    server: CompletionServer, code: int, message: str
) -> None:
    server.then(Status(code, message))
    error = await failure(make(server))
    assert type(error) is FlusherError
    assert str(error) == f"{MODEL} refused the request ({code}): {message}"
    assert server.count == 1


# --- no answer, and answers that are none --------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
async def test_an_answer_that_takes_too_long_is_final(server: CompletionServer, model: str) -> None:
    server.key = None
    server.always(Slow(60))
    error = await failure(make(server, model=model, timeout=0.3))
    assert type(error) is FlusherError
    assert str(error) == f"{model} did not answer within 0.3 seconds."


@pytest.mark.parametrize("model", MODELS)
async def test_a_connection_that_is_dropped_or_refused_is_final(server: CompletionServer, model: str) -> None:
    server.key = None
    server.always(Dropped())
    expected = f"{model} cannot be reached: there is no connection, or api_base is wrong."
    error = await failure(make(server, model=model))
    assert (type(error), str(error)) == (FlusherError, expected)
    assert server.count == 1
    with CompletionServer() as closed:
        pass
    error = await failure(make(closed, model=model))
    assert (type(error), str(error)) == (FlusherError, expected)


@pytest.mark.parametrize("answer", [NOT_JSON, BROKEN_JSON, Raw("null"), Raw("[1, 2]"), Raw('"text"'), Raw("")])
@pytest.mark.parametrize("model", MODELS)
async def test_an_answer_that_cannot_be_read_is_said(server: CompletionServer, model: str, answer: Raw) -> None:
    server.key = None
    server.always(answer)
    error = await failure(make(server, model=model))
    assert type(error) is FlusherError
    no_json = f"{model} answered with something that is no JSON: api_base may be wrong."
    assert str(error) == no_json or str(error).startswith(f"{model} gave no answer that can be used: ")
    assert (str(error) == no_json) == (answer in (NOT_JSON, BROKEN_JSON, Raw("")))
    assert server.count == 1


@pytest.mark.parametrize(
    "answer", [NO_CHOICES, Raw("{}"), Raw('{"choices": null}'), Raw(json.dumps({"choices": [{"index": 0}]}))]
)
async def test_an_answer_in_which_nothing_is_said_is_an_error(server: CompletionServer, answer: Raw) -> None:
    server.always(answer)
    error = await failure(make(server))
    assert type(error) is FlusherError
    assert server.count == 1


@pytest.mark.parametrize("said", ["429 - Rate limit", "429: Rate limit", "Error code: 429 - Rate limit", "Rate limit"])
async def test_a_status_is_said_once(server: CompletionServer, said: str) -> None:
    server.then(Status(429, said))
    assert str(await failure(make(server))) == f"{MODEL} cannot answer at the moment (429): Rate limit"


@pytest.mark.parametrize("unit", ["x", " ", "Error", '"message":"', '\\"', "litellm."])
async def test_a_long_answer_of_anything_is_quoted_on_one_short_line(server: CompletionServer, unit: str) -> None:
    server.then(Raw(unit * (200_000 // len(unit))), Status(400, unit * (200_000 // len(unit))))
    for _ in range(2):
        error = await failure(make(server))
        assert len(str(error)) < 400


async def test_a_page_of_a_proxy_is_quoted_on_one_short_line(server: CompletionServer) -> None:
    server.then(Status(502, "<html>\n  <h1>Bad gateway</h1>" + " and so on" * 100))
    error = await failure(make(server))
    assert "\n" not in str(error)
    assert len(str(error)) < 300


# --- other addresses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "code"), [*((model, 307) for model in MODELS), (MODEL, 301), (MODEL, 308)])
async def test_a_conversation_goes_to_no_address_that_is_not_configured(
    server: CompletionServer, model: str, code: int
) -> None:
    server.key = None
    with CompletionServer() as other:
        server.always(Redirect(f"{other.url}/chat?key=sk-right-key#part", code))
        error = await failure(make(server, model=model))
        assert (server.count, other.count) == (1, 0)
        assert str(error) == (
            f"{model} is at another address, says the one that was asked ({code}): {other.url}/chat. Nothing was sent "
            "there; if it is right, write it as api_base, without what LiteLLM adds, such as /chat/completions."
        )


async def test_what_the_program_itself_sends_follows_redirects_as_before(server: CompletionServer) -> None:
    import httpx

    server.key = None
    await make(server).distill([Message("user", SAID)], instructions="List what is worth keeping.")
    server.then(Redirect(f"{server.url}/chat/completions"))
    async with httpx.AsyncClient(follow_redirects=True) as client:
        answer = await client.post(f"{server.url}/chat/completions", json={"messages": []})
    assert (answer.status_code, server.count) == (200, 3)
    assert inspect.iscoroutinefunction(httpx.AsyncClient.send)
    assert not inspect.iscoroutinefunction(httpx.Client.send)


async def test_a_key_that_no_header_can_hold_is_not_used(
    server: CompletionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("sk-right\n-key", "sk-ri\u0007ght-key", "sk-right-kéy"):
        with pytest.raises(ValueError, match="api_key must be") as caught:
            make(server, api_key=key)
        assert key not in str(caught.value)
        monkeypatch.setenv("KIPU_TEST_KEY", key)
        error = await failure(make(server, api_key={"env": "KIPU_TEST_KEY"}))
        assert "KIPU_TEST_KEY has a character that no key has" in str(error)
    assert server.count == 0
