"""What the embedder sends to providers, and what it makes of their vectors, over real HTTP."""

from __future__ import annotations

import json

import embedding_server
import numpy as np
import pytest
from embedding_server import OUT_OF_ORDER, TOO_FEW, TOO_MANY, Items, Raw, Status, each_number

from kipu.errors import EmbedderError, TextTooLongError
from kipu_litellm import LitellmEmbedder

TEXTS = ["We chose Redis.", "Ana likes tea.", "Redis it is."]


def make(server, **options):
    """Return an embedder that sends requests to the server as to OpenAI."""
    given = {
        "model": "openai/text-embedding-3-small",
        "api_base": server.url,
        "api_key": "sk-right-key",
        "request_timeout": 20,
    }
    return LitellmEmbedder(**given | options)


async def failure(embedder, texts=TEXTS):
    with pytest.raises(EmbedderError) as caught:
        await embedder.embed(texts, role="document")
    return caught.value


# --- what is sent --------------------------------------------------------------------------------------------------


async def test_texts_become_rows_of_float32_in_their_order(embeddings):
    rows = await make(embeddings).embed(TEXTS, role="document")
    assert rows.dtype == np.float32
    assert rows.shape == (3, 64)
    assert rows[0] @ rows[2] > rows[0] @ rows[1]
    assert embeddings.texts == TEXTS


async def test_vectors_that_come_out_of_order_are_put_in_order(embeddings):
    expected = await make(embeddings).embed(TEXTS, role="document")
    embeddings.then(OUT_OF_ORDER)
    assert np.array_equal(await make(embeddings).embed(TEXTS, role="document"), expected)


async def test_a_request_has_batch_size_texts(embeddings):
    rows = await make(embeddings, batch_size=2).embed(TEXTS, role="document")
    assert [request.texts for request in embeddings.requests] == [TEXTS[:2], TEXTS[2:]]
    assert np.array_equal(rows, await make(embeddings).embed(TEXTS, role="document"))


@pytest.mark.parametrize("model", ["text-embedding-3-small", "our-own-model"])
async def test_dimensions_may_be_asked_of_any_server_that_speaks_the_protocol_of_openai(embeddings, model):
    rows = await make(embeddings, model=f"openai/{model}", dimensions=8).embed(TEXTS, role="document")
    assert rows.shape == (3, 8)
    assert embeddings.requests[0].body == {"model": model, "input": TEXTS, "dimensions": 8}


async def test_vectors_may_come_as_base64(embeddings, monkeypatch):
    expected = await make(embeddings).embed(TEXTS, role="document")
    monkeypatch.setenv("LITELLM_DEFAULT_EMBEDDING_ENCODING_FORMAT", "base64")
    assert np.allclose(await make(embeddings).embed(TEXTS, role="document"), expected)
    assert embeddings.requests[-1].body["encoding_format"] == "base64"


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
async def test_a_provider_that_distinguishes_queries_from_documents_gets_the_role(embeddings, model, document, query):
    answer = OWN_ANSWERS.get(model.partition("/")[0])
    embeddings.always(answer and Raw(json.dumps(answer)))
    embeddings.key = None  # Gemini has a header of its own for it
    for role, expected in (("document", document), ("query", query)):
        assert (await make(embeddings, model=model).embed(["one", "two"], role=role)).shape[0] == 2
        body = embeddings.requests[-1].body
        for part in body.get("requests", [body]):
            sent = {name: value for name, value in part.items() if name in {"input_type", "taskType", "task_type"}}
            assert sent == expected
    assert embeddings.count == 2


@pytest.mark.parametrize(
    ("model", "option"),
    [
        ("cohere/embed-v4.0", {"truncate": "NONE"}),
        ("ollama/nomic-embed-text", {"truncate": False}),
        ("voyage/voyage-3.5", {"truncation": False}),
    ],
)
async def test_a_provider_that_truncates_is_asked_to_refuse_long_texts(embeddings, model, option):
    answer = OWN_ANSWERS.get(model.partition("/")[0])
    embeddings.always(answer and Raw(json.dumps(answer)))
    await make(embeddings, model=model).embed(["one", "two"], role="document")
    assert embeddings.requests[0].body.items() >= option.items()


# --- what comes back -----------------------------------------------------------------------------------------------


async def test_a_text_that_is_too_long_is_named_where_it_is_the_only_one(embeddings):
    embeddings.max_characters = 100
    error = await failure(make(embeddings), ["a " * 100])
    assert isinstance(error, TextTooLongError)
    assert error.positions == [0]
    error = await failure(make(embeddings), ["short", "a " * 100])
    assert isinstance(error, TextTooLongError)
    assert error.positions is None
    assert embeddings.count == 2


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (400, "The example at index 0 has too many tokens and does not fit into the model's context window of 32000"),
        (400, "invalid request: total number of tokens in the text must be less than 512"),
        (400, "Invalid 'input': maximum request size is 300000 tokens per request."),
        (500, "the input length exceeds the context length"),
        (413, "No reason given."),
    ],
)
async def test_providers_have_many_ways_to_report_a_text_that_is_too_long(embeddings, code, message):
    embeddings.then(Status(code, message))
    assert isinstance(await failure(make(embeddings)), TextTooLongError)


@pytest.mark.parametrize(("fault", "count"), [(TOO_FEW, 2), (TOO_MANY, 4), (Raw('{"data": []}'), 0)])
async def test_a_wrong_number_of_vectors_is_an_error_that_names_both(embeddings, fault, count):
    embeddings.then(fault)
    error = await failure(make(embeddings))
    assert str(error) == f"openai/text-embedding-3-small answered with {count} vectors for 3 texts."


async def test_vectors_with_the_same_number_are_an_error(embeddings):
    embeddings.then(Items(lambda items: [item | {"index": 0} for item in items]))
    assert "not numbered from 0 to 2" in str(await failure(make(embeddings)))


async def test_vectors_of_different_lengths_are_an_error(embeddings):
    embeddings.spoil("tea", embedding_server.cut_to(7))
    assert str(await failure(make(embeddings))).endswith("answered with vectors of different lengths: [7, 64].")


@pytest.mark.parametrize("fault", ["NOT_A_NUMBER", "INFINITE", "ZERO"])
async def test_bad_vectors_are_returned_as_they_came_for_the_kernel_to_refuse_them(embeddings, fault):
    embeddings.spoil("tea", getattr(embedding_server, fault))
    rows = await make(embeddings).embed(TEXTS, role="document")
    assert rows.shape == (3, 64)
    assert [bool(np.isfinite(row).all() and row.any()) for row in rows] == [True, False, True]


async def test_numbers_beyond_float32_are_returned_without_a_warning(embeddings):
    embeddings.always(each_number(lambda number: number * 1e45))
    assert not np.isfinite(await make(embeddings).embed(TEXTS, role="document")).all()
