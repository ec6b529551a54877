"""What is sent to providers, and what comes of their answers, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import traceback
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import embedding_server
import numpy as np
import pytest
from embedding_server import (
    NOT_JSON,
    OUT_OF_ORDER,
    TOO_FEW,
    TOO_MANY,
    Dropped,
    EmbeddingServer,
    Items,
    Raw,
    Slow,
    Status,
    Trickle,
)

from kipu.errors import EmbedderBusyError, EmbedderError, TextTooLongError
from kipu_embedder_litellm import LiteLLM

TEXTS = ["We chose Redis.", "Ana likes tea.", "Redis it is."]


def make(server: EmbeddingServer, **options: Any) -> LiteLLM:
    """An embedder that asks the server, as one would ask OpenAI."""
    given = {"model": "openai/text-embedding-3-small", "api_base": server.url, "api_key": "sk-right", "timeout": 20}
    return LiteLLM(**given | options)


async def failure(embedder: LiteLLM, texts: list[str] | None = None) -> EmbedderError:
    with pytest.raises(EmbedderError) as caught:
        await embedder.embed(TEXTS if texts is None else texts, role="document")
    return caught.value


# --- when all is well ----------------------------------------------------------------------------------------------


async def test_texts_become_rows_of_float32_in_their_order(server: EmbeddingServer) -> None:
    rows = await make(server).embed(TEXTS, role="document")
    assert rows.dtype == np.float32
    assert rows.shape == (3, 64)
    assert rows[0] @ rows[2] > rows[0] @ rows[1]
    assert server.texts == TEXTS


async def test_vectors_that_come_out_of_order_are_put_in_order(server: EmbeddingServer) -> None:
    expected = await make(server).embed(TEXTS, role="document")
    server.then(OUT_OF_ORDER)
    assert np.array_equal(await make(server).embed(TEXTS, role="document"), expected)


async def test_a_request_has_batch_size_texts(server: EmbeddingServer) -> None:
    rows = await make(server, batch_size=2).embed(TEXTS, role="document")
    assert [request.texts for request in server.requests] == [TEXTS[:2], TEXTS[2:]]
    assert np.array_equal(rows, await make(server).embed(TEXTS, role="document"))


async def test_dimensions_are_asked_for(server: EmbeddingServer) -> None:
    rows = await make(server, dimensions=8).embed(TEXTS, role="document")
    assert rows.shape == (3, 8)


async def test_dimensions_may_be_asked_of_any_server_that_speaks_the_protocol_of_openai(
    server: EmbeddingServer,
) -> None:
    rows = await make(server, model="openai/our-own-model", dimensions=8).embed(TEXTS, role="document")
    assert rows.shape == (3, 8)
    assert server.requests[0].body == {"model": "our-own-model", "input": TEXTS, "dimensions": 8}


async def test_vectors_may_come_as_base64(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = await make(server).embed(TEXTS, role="document")
    monkeypatch.setenv("LITELLM_DEFAULT_EMBEDDING_ENCODING_FORMAT", "base64")
    assert np.allclose(await make(server).embed(TEXTS, role="document"), expected)
    assert server.requests[-1].body["encoding_format"] == "base64"


# The answer of each provider, in its own form, to two texts.
OWN_ANSWERS = {
    "cohere": {"id": "1", "embeddings": {"float": [[1, 0], [0, 1]]}, "texts": [], "meta": {}},
    "gemini": {"embeddings": [{"values": [1, 0]}, {"values": [0, 1]}]},
    "ollama": {"model": "any", "embeddings": [[1, 0], [0, 1]], "prompt_eval_count": 2},
}


@pytest.mark.parametrize(
    ("model", "document", "query"),
    [
        ("cohere/embed-v4.0", {"input_type": "search_document"}, {"input_type": "search_query"}),
        ("gemini/gemini-embedding-001", {"taskType": "RETRIEVAL_DOCUMENT"}, {"taskType": "RETRIEVAL_QUERY"}),
        ("mistral/mistral-embed", {}, {}),
        ("ollama/nomic-embed-text", {}, {}),
        ("openai/text-embedding-3-small", {}, {}),
        ("voyage/voyage-3.5", {"input_type": "document"}, {"input_type": "query"}),
    ],
)
async def test_a_provider_that_wants_to_know_is_told_what_the_texts_are_for(
    server: EmbeddingServer, model: str, document: dict[str, str], query: dict[str, str]
) -> None:
    answer = OWN_ANSWERS.get(model.partition("/")[0])
    server.always(answer and Raw(json.dumps(answer)))
    embedder = make(server, model=model)
    server.key = None  # Gemini has a header of its own for it
    for role, expected in (("document", document), ("query", query)):
        assert (await embedder.embed(["one", "two"], role=role)).shape[0] == 2
        body = server.requests[-1].body
        for part in body.get("requests", [body]):
            sent = {name: value for name, value in part.items() if name in {"input_type", "taskType", "task_type"}}
            assert sent == expected
    assert server.count == 2


@pytest.mark.parametrize(
    ("model", "option"),
    [
        ("cohere/embed-v4.0", {"truncate": "NONE"}),
        ("ollama/nomic-embed-text", {"truncate": False}),
        ("voyage/voyage-3.5", {"truncation": False}),
    ],
)
async def test_a_provider_that_would_cut_long_texts_is_told_to_refuse_them(
    server: EmbeddingServer, model: str, option: dict[str, Any]
) -> None:
    answer = OWN_ANSWERS.get(model.partition("/")[0])
    server.always(answer and Raw(json.dumps(answer)))
    await make(server, model=model).embed(["one", "two"], role="document")
    assert server.requests[0].body.items() >= option.items()


# --- when it is not ------------------------------------------------------------------------------------------------


async def test_a_refused_key_is_one_sentence_without_the_key(server: EmbeddingServer) -> None:
    error = await failure(make(server, api_key="sk-wrong"))
    assert type(error) is EmbedderError
    assert str(error) == "The key for openai/text-embedding-3-small was refused (401). It came from api_key."
    assert "sk-wrong" not in "".join(traceback.format_exception(error))
    assert server.count == 1


async def test_the_message_names_the_variable_that_the_key_came_from(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_KEY", "sk-wrong")
    error = await failure(make(server, api_key={"env": "TEAM_KEY"}))
    assert str(error).endswith("It came from the environment variable TEAM_KEY.")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    error = await failure(make(server, api_key=None))
    assert str(error).endswith("It came from OPENAI_API_KEY.")


async def test_a_key_that_the_provider_repeats_is_left_out(server: EmbeddingServer) -> None:
    server.then(Status(403, "The key sk-right may not use this model."))
    assert "The key ... may not use this model." in str(await failure(make(server)))


@pytest.mark.parametrize("code", [400, 403, 500])
@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("  sk-right-key  ", "sk-right-key"),
        ("sk-right  key", "sk-right key"),
        ("sk-right key", "sk-right%20key"),
        ("sk-right key", "sk-right+key"),
        ("sk/right/key", "sk%2Fright%2Fkey"),
        ("sk-right-key", "c2stcmlnaHQta2V5"),
        ("sk-right-key", "dXNlcjpzay1yaWdodC1rZXk="),
        ("sk-right-key", "OnNrLXJpZ2h0LWtleQ"),
        ('sk-"right"-key', 'sk-\\"right\\"-key'),
    ],
)
async def test_a_key_that_the_provider_repeats_in_another_form_is_left_out_too(
    server: EmbeddingServer, key: str, said: str, code: int
) -> None:
    server.key = None
    server.then(Status(code, f"The key <{said}> may not use this model."))
    assert "The key <...> may not use this model." in str(await failure(make(server, api_key=key)))


async def test_a_key_of_the_environment_is_left_out_whatever_it_is_for(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COHERE_API_KEY", "sk-of-the-environment")
    server.then(Status(403, "The key sk-of-the-environment may not use this model."))
    assert "The key ... may not use this model." in str(await failure(make(server)))


@pytest.mark.parametrize("key", ["sk-one\nsecret-part", "sk-schlüssel-secret-part"])
async def test_a_key_that_cannot_be_sent_is_not_shown(server: EmbeddingServer, key: str) -> None:
    assert "secret-part" not in str(await failure(make(server, api_key=key)))


async def test_a_key_is_taken_from_the_variable_that_is_named(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_KEY", "sk-right")
    await make(server, api_key={"env": "TEAM_KEY"}).embed(TEXTS, role="query")
    assert server.requests[0].headers["authorization"] == "Bearer sk-right"


async def test_a_variable_that_is_not_set_is_named_before_anything_is_sent(server: EmbeddingServer) -> None:
    error = await failure(make(server, api_key={"env": "TEAM_KEY"}))
    assert str(error) == (
        "The environment variable TEAM_KEY is not set, and the key for openai/text-embedding-3-small should be in it, "
        "says api_key."
    )
    assert server.count == 0


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai/text-embedding-3-small", "OPENAI_API_KEY"),
        ("voyage/voyage-3.5", "VOYAGE_API_KEY"),
        ("cohere/embed-v4.0", "COHERE_API_KEY"),
        ("mistral/mistral-embed", "MISTRAL_API_KEY"),
        ("gemini/gemini-embedding-001", "GEMINI_API_KEY"),
    ],
)
async def test_a_missing_key_is_found_before_anything_is_sent(
    server: EmbeddingServer, model: str, variable: str
) -> None:
    error = await failure(make(server, model=model, api_key=None))
    assert str(error).startswith(f"There is no key for {model}. Set ")
    assert variable in str(error)
    assert server.count == 0


@pytest.mark.parametrize("model", ["nonsense", "nowhere/nothing"])
async def test_a_provider_that_does_not_exist_is_said(server: EmbeddingServer, model: str) -> None:
    error = await failure(make(server, model=model, api_base=None))
    assert str(error).startswith(f'LiteLLM knows no provider for the model "{model}". Write it as provider/model')


async def test_a_model_that_the_provider_lacks_is_said(server: EmbeddingServer) -> None:
    server.then(Status(404, "The model `gpt-embed` does not exist"))
    error = await failure(make(server))
    assert type(error) is EmbedderError
    assert "(404): 404 - The model `gpt-embed` does not exist" in str(error)
    assert server.count == 1


@pytest.mark.parametrize("code", [429, 500, 502, 503, 529])
@pytest.mark.parametrize("model", ["openai/text-embedding-3-small", "mistral/mistral-embed", "voyage/voyage-3.5"])
async def test_what_may_pass_by_itself_is_said_to_be_busy_after_a_single_request(
    server: EmbeddingServer, model: str, code: int
) -> None:
    server.always(Status(code, "Try again later.", retry_after="7"))
    error = await failure(make(server, model=model))
    assert isinstance(error, EmbedderBusyError)
    assert error.retry_after == 7.0
    assert f"({code})" in str(error)
    assert "Try again later." in str(error)
    assert server.count == 1


@pytest.mark.parametrize(("said", "seconds"), [(None, None), ("soon", None), ("-3", None), ("1.5", 1.5), ("0", 0.0)])
async def test_how_long_to_wait_is_known_only_where_the_provider_says_it(
    server: EmbeddingServer, said: str | None, seconds: float | None
) -> None:
    server.then(Status(429, retry_after=said))
    error = await failure(make(server))
    assert isinstance(error, EmbedderBusyError)
    assert error.retry_after == seconds


async def test_a_message_says_how_long_to_wait_and_is_made_of_sentences(server: EmbeddingServer) -> None:
    server.then(Status(429, "Rate limit reached", retry_after="20"), Status(429, "Rate limit reached"))
    error = await failure(make(server))
    assert str(error).endswith("Rate limit reached. It asks to wait 20 seconds.")
    error = await failure(make(server))
    assert str(error).endswith("Rate limit reached.")


async def test_how_long_to_wait_may_be_said_by_a_date(server: EmbeddingServer) -> None:
    server.then(Status(503, retry_after=format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)))
    error = await failure(make(server))
    assert isinstance(error, EmbedderBusyError)
    assert error.retry_after == pytest.approx(3600, abs=60)
    server.then(Status(503, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"))
    error = await failure(make(server))
    assert isinstance(error, EmbedderBusyError)
    assert error.retry_after == 0.0


async def test_an_account_without_credit_is_not_busy(server: EmbeddingServer) -> None:
    server.then(Status(429, "You exceeded your current quota, please check your plan and billing details."))
    error = await failure(make(server))
    assert type(error) is EmbedderError
    assert str(error).startswith("There is no credit left for openai/text-embedding-3-small (429)")


async def test_a_text_that_is_too_long_is_named_where_it_can_be_told(server: EmbeddingServer) -> None:
    server.max_characters = 100
    error = await failure(make(server), ["a " * 100])
    assert isinstance(error, TextTooLongError)
    assert error.positions == [0]
    error = await failure(make(server), ["short", "a " * 100])
    assert isinstance(error, TextTooLongError)
    assert error.positions is None
    assert server.count == 2


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (400, "The example at index 0 has too many tokens and does not fit into the model's context window of 32000"),
        (400, "invalid request: total number of tokens in the text must be less than 512"),
        (400, "Invalid 'input': maximum request size is 300000 tokens per request."),
        (500, "the input length exceeds the context length"),
        (413, "The text is too long"),
    ],
)
async def test_providers_have_many_ways_to_say_that_a_text_is_too_long(
    server: EmbeddingServer, code: int, message: str
) -> None:
    server.then(Status(code, message))
    assert isinstance(await failure(make(server)), TextTooLongError)


@pytest.mark.parametrize("code", [400, 418, 422])
async def test_any_other_refusal_is_final_and_says_what_the_provider_said(server: EmbeddingServer, code: int) -> None:
    server.then(Status(code, "No such option."))
    error = await failure(make(server))
    assert type(error) is EmbedderError
    assert f"refused the request ({code})" in str(error)
    assert "No such option." in str(error)
    assert server.count == 1


@pytest.mark.slow
async def test_an_answer_that_takes_too_long_is_final(server: EmbeddingServer) -> None:
    server.always(Slow(60))
    error = await failure(make(server, timeout=5))
    assert type(error) is EmbedderError
    assert str(error) == "openai/text-embedding-3-small did not answer within 5 seconds."
    assert server.count == 1


@pytest.mark.slow
@pytest.mark.parametrize("model", ["openai/text-embedding-3-small", "voyage/voyage-3.5", "ollama/nomic-embed-text"])
async def test_an_answer_that_comes_byte_by_byte_is_ended_in_time(server: EmbeddingServer, model: str) -> None:
    server.always(Trickle())
    async with asyncio.timeout(30):
        error = await failure(make(server, model=model, timeout=5))
    assert str(error) == f"{model} did not answer within 5 seconds."
    assert server.count == 1


async def test_a_connection_that_is_dropped_is_final(server: EmbeddingServer) -> None:
    server.always(Dropped())
    error = await failure(make(server))
    assert type(error) is EmbedderError
    assert "cannot be reached" in str(error)
    assert server.count == 1


@pytest.mark.parametrize("model", ["openai/text-embedding-3-small", "voyage/voyage-3.5", "ollama/nomic-embed-text"])
async def test_a_connection_that_is_refused_is_final(model: str) -> None:
    with EmbeddingServer() as closed:
        pass
    error = await failure(make(closed, model=model))
    assert type(error) is EmbedderError
    assert str(error) == f"{model} cannot be reached: there is no connection, or the address is wrong."


async def test_an_answer_with_no_vector_at_all_is_said(server: EmbeddingServer) -> None:
    server.always(Raw('{"data": []}'))
    assert "answered with 0 vectors for 3 texts." in str(await failure(make(server)))


@pytest.mark.parametrize("fault", [NOT_JSON, Raw("{}"), Raw("null"), Raw("[1, 2]")])
async def test_an_answer_that_is_none_is_said_in_words_of_ours(server: EmbeddingServer, fault: Raw) -> None:
    server.always(fault)
    error = await failure(make(server))
    assert type(error) is EmbedderError
    assert "answered with something that has no vectors in it. Is the address the right one?" in str(error)
    assert "model_dump" not in str(error)
    assert server.count == 1


@pytest.mark.parametrize(("fault", "count"), [(TOO_FEW, 2), (TOO_MANY, 4)])
async def test_a_wrong_number_of_vectors_is_an_error_that_says_both(
    server: EmbeddingServer, fault: Items, count: int
) -> None:
    server.then(fault)
    error = await failure(make(server))
    assert str(error) == f"openai/text-embedding-3-small answered with {count} vectors for 3 texts."


async def test_vectors_that_cannot_be_told_apart_are_an_error(server: EmbeddingServer) -> None:
    server.then(Items(lambda items: [item | {"index": 0} for item in items]))
    assert "not numbered from 0 to 2" in str(await failure(make(server)))


async def test_vectors_of_different_lengths_are_an_error(server: EmbeddingServer) -> None:
    server.spoil("tea", embedding_server.cut_to(7))
    assert str(await failure(make(server))).endswith("answered with vectors of different lengths: [7, 64].")


@pytest.mark.parametrize("fault", ["NOT_A_NUMBER", "INFINITE", "ZERO"])
async def test_bad_vectors_are_handed_over_as_they_came_for_the_kernel_to_refuse_them(
    server: EmbeddingServer, fault: str
) -> None:
    server.spoil("tea", getattr(embedding_server, fault))
    rows = await make(server).embed(TEXTS, role="document")
    assert rows.shape == (3, 64)
    assert [bool(np.isfinite(row).all() and row.any()) for row in rows] == [True, False, True]


# --- quiet ---------------------------------------------------------------------------------------------------------


def test_a_missing_key_is_told_without_importing_litellm() -> None:
    program = """
import asyncio, sys
from kipu_embedder_litellm import LiteLLM
for model in ("openai/a", "gemini/a", "voyage/a", "mistral/a", "cohere/a"):
    try:
        asyncio.run(LiteLLM(model=model).embed(["a"], role="query"))
    except Exception as error:
        print(error)
print("litellm" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    *said, imported = done.stdout.splitlines()
    assert [line.split(". ")[1].split(",")[0] for line in said] == [
        "Set OPENAI_API_KEY",
        "Set GOOGLE_API_KEY or GEMINI_API_KEY",
        "Set VOYAGE_API_KEY",
        "Set MISTRAL_API_KEY",
        "Set COHERE_API_KEY",
    ]
    assert imported == "False"


@pytest.mark.slow
def test_a_program_prints_nothing_and_leaves_nothing_open(server: EmbeddingServer) -> None:
    program = f"""
import asyncio, gc, sys
from kipu_embedder_litellm import LiteLLM
assert "litellm" not in sys.modules
embedder = LiteLLM("openai/text-embedding-3-small", {server.url!r}, "sk-right")
wrong = LiteLLM("openai/text-embedding-3-small", {server.url!r}, "sk-wrong")
async def main():
    await embedder.embed(["text"], role="query")
    try:
        await wrong.embed(["text"], role="query")
    except Exception:
        pass
asyncio.run(main())
asyncio.run(main())
gc.collect()
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert server.count == 4
