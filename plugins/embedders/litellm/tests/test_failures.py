"""What comes of a provider that refuses, fails or is not there, over real HTTP: one request, and one sentence."""

from __future__ import annotations

import gzip
import zlib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from completion_server import BROKEN_JSON
from embedding_server import NOT_JSON, Dropped, Packed, Raw, Slow, Status, Trickle

# --- keys ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_refused_key_is_reported_without_the_key(kind, server):
    server.key = "sk-right-key"
    error = await kind.failure(kind.make(server, api_key="sk-wrong-key"))
    assert type(error) is kind.failed
    assert str(error) == "openai/any refused the key (401). It came from api_key."
    assert server.count == 1


async def test_the_message_names_the_variable_that_the_key_came_from(kind, server, monkeypatch):
    server.key = "sk-right-key"
    monkeypatch.setenv("TEAM_KEY", "sk-wrong-key")
    error = await kind.failure(kind.make(server, api_key={"env": "TEAM_KEY"}))
    assert str(error).endswith("It came from the environment variable TEAM_KEY.")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-key")
    error = await kind.failure(kind.make(server, api_key=None))
    assert str(error).endswith("It came from OPENAI_API_KEY.")


async def test_the_key_is_left_out_of_quotes(kind, model, server):
    server.then(Status(403, "The key sk-right-key may not use this model."))
    error = await kind.failure(kind.make(server, model=model))
    assert f"{model} refused the key (403): The key ... may not use this model. It came from" in str(error)
    assert server.count == 1


@pytest.mark.parametrize("code", [400, 403, 500])
@pytest.mark.parametrize(
    ("key", "repeated"),
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
async def test_an_encoded_key_is_left_out_of_quotes_too(kind, server, key, repeated, code):
    server.then(Status(code, f"The key <{repeated}> may not use this model."))
    assert "The key <...> may not use this model." in str(await kind.failure(kind.make(server, api_key=key)))


async def test_other_keys_in_the_environment_are_left_out_of_quotes(kind, server, monkeypatch):
    monkeypatch.setenv("COHERE_API_KEY", "sk-of-the-environment")
    server.then(Status(403, "The key sk-of-the-environment may not use this model."))
    assert "The key ... may not use this model." in str(await kind.failure(kind.make(server)))


# --- models --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nonsense", "nowhere/nothing"])
async def test_an_unknown_provider_is_reported(kind, server, name):
    error = await kind.failure(kind.make(server, model=name, api_base=None))
    assert str(error).startswith(f'LiteLLM knows no provider for the model "{name}". Write it as provider/model')
    assert server.count == 0


async def test_a_model_that_the_provider_lacks_is_reported(kind, model, server):
    server.then(Status(404, "The model does not exist"))
    error = await kind.failure(kind.make(server, model=model))
    assert type(error) is kind.failed
    assert str(error) == f"There is no {model} at that provider or address (404): The model does not exist."
    assert server.count == 1


# --- what may pass by itself ---------------------------------------------------------------------------------------


async def test_a_passing_failure_is_busy_after_a_single_request(kind, model, server):
    server.always(Status(503, "Try again later.", retry_after="7"))
    error = await kind.failure(kind.make(server, model=model))
    assert isinstance(error, kind.busy)
    assert error.retry_after == 7.0
    assert str(error) == f"{model} cannot answer at the moment (503): Try again later. It asks to wait 7 seconds."
    assert server.count == 1


@pytest.mark.parametrize("code", [408, 429, 500, 502, 529])
async def test_these_statuses_are_busy_too(kind, server, code):
    server.always(Status(code, "Try again later."))
    assert isinstance(await kind.failure(kind.make(server)), kind.busy)
    assert server.count == 1


NEXT_YEAR = format_datetime(datetime.now(UTC) + timedelta(days=365), usegmt=True)


@pytest.mark.parametrize(
    ("header", "seconds"),
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
async def test_retry_after_is_a_number_of_seconds_or_a_date(kind, server, header, seconds):
    server.then(Status(429, "Rate limit reached", retry_after=header))
    error = await kind.failure(kind.make(server))
    assert isinstance(error, kind.busy)
    assert error.retry_after == seconds
    expected = "openai/any cannot answer at the moment (429): Rate limit reached."
    assert str(error) == expected or seconds is not None


async def test_an_account_without_credit_is_not_busy(kind, server):
    server.then(Status(429, "You exceeded your current quota, please check your plan and billing details."))
    error = await kind.failure(kind.make(server))
    assert type(error) is kind.failed
    assert str(error).startswith("There is no credit left for openai/any (429): You exceeded")
    server.then(Status(429, "You exceeded your current quota. Please retry in 7 s.", retry_after="7"))
    assert isinstance(await kind.failure(kind.make(server)), kind.busy)


# --- what is final -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (400, "No such option."),
        (400, "max_tokens is too large: 99999. This model supports at most 16384 completion tokens."),
        (418, "A teapot."),
        (422, "Field required."),
    ],
)
async def test_any_other_refusal_is_final_and_quotes_the_provider(kind, server, code, message):
    server.then(Status(code, message))
    error = await kind.failure(kind.make(server))
    assert type(error) is kind.failed
    assert str(error) == f"openai/any refused the request ({code}): {message}"
    assert server.count == 1


async def test_an_answer_that_takes_too_long_is_final(kind, model, server):
    server.always(Slow(60))
    error = await kind.failure(kind.make(server, model=model, request_timeout=0.3))
    assert type(error) is kind.failed
    assert str(error) == f"{model} did not answer within 0.3 seconds."


async def test_an_answer_that_comes_byte_by_byte_is_ended_in_time(kind, model, server):
    server.always(Trickle())
    error = await kind.failure(kind.make(server, model=model, request_timeout=1))
    assert str(error) == f"{model} did not answer within 1 seconds."
    assert server.count == 1


async def test_a_dropped_or_refused_connection_is_final(kind, model, server):
    server.always(Dropped())
    expected = f"{model} cannot be reached: there is no connection, or api_base is wrong."
    error = await kind.failure(kind.make(server, model=model))
    assert (type(error), str(error)) == (kind.failed, expected)
    assert server.count == 1
    with kind.server() as closed:
        pass
    error = await kind.failure(kind.make(closed, model=model))
    assert (type(error), str(error)) == (kind.failed, expected)


@pytest.mark.parametrize("answer", [BROKEN_JSON, *map(Raw, ["null", "[1, 2]", '"text"', "", "{}"])])
async def test_a_response_of_the_wrong_form_is_reported_in_plain_words(kind, server, answer):
    server.always(answer)
    error = await kind.failure(kind.make(server))
    assert type(error) is kind.failed
    assert not any(word in str(error) for word in ("NoneType", "model_dump", "object has no", "Expecting value"))
    assert server.count == 1


async def test_a_response_that_is_no_json_asks_for_the_address(kind, model, server):
    server.always(NOT_JSON)
    expected = f"{model} answered with something that has no {kind.content} in it. Check api_base."
    assert str(await kind.failure(kind.make(server, model=model))) == expected
    assert server.count == 1


@pytest.mark.parametrize("form", ['"{}"', '{{"message": "{}", "code": 429}}'])
async def test_an_error_with_a_status_of_success_is_quoted_without_the_key(kind, model, server, form):
    server.always(Raw(f'{{"error": {form.format("The quota of sk-right-key is used up")}}}'))
    error = await kind.failure(kind.make(server, model=model))
    assert str(error) == f"{model} answered with an error (200): The quota of ... is used up."


# --- large responses -----------------------------------------------------------------------------------------------

MEBIBYTE = 1024 * 1024
PACKED = [Packed("identity"), Packed("gzip", gzip.compress), Packed("X-GZIP", gzip.compress)]


@pytest.mark.parametrize("size", [None, 64 * MEBIBYTE], ids=["usual", "most"])
@pytest.mark.parametrize("packed", PACKED, ids=["plain", "gzip", "other-case"])
async def test_a_body_is_read_up_to_a_limit_however_it_is_packed(kind, server, packed, size):
    # By default for one text or answer; never more than 64 MiB.
    limit = (
        size
        or {"embedder": 576 * 1024 + 6 * len("Only the model may read this."), "flusher": MEBIBYTE + 64 * 1024}[
            kind.name
        ]
    )
    options = {{"embedder": "dimensions", "flusher": "max_tokens"}[kind.name]: 10_000_000} if size else {}
    server.always(Packed(packed.encoding, bytes, packed.pack(b" " * (limit + 1))))
    error = await kind.failure(kind.make(server, **options))
    assert (type(error), str(error)) == (
        kind.failed,
        f"openai/any answered (200) with a body of more than {limit // 1024:,} KiB. It is not used. Check api_base.",
    )
    server.always(Packed(packed.encoding, bytes, packed.pack(b" " * limit)))
    assert "that has no" in str(await kind.failure(kind.make(server, **options)))


async def test_every_way_of_a_request_has_the_limit(kind, model, server):
    server.always(Packed("gzip", bytes, gzip.compress(b" " * 2 * MEBIBYTE)))
    error = await kind.failure(kind.make(server, model=model))
    assert str(error).startswith(f"{model} answered (200) with a body of more than ")


@pytest.mark.parametrize(
    "packed",
    [Packed("deflate", zlib.compress), Packed("br"), Packed("zstd"), Packed("gzip, gzip", gzip.compress)],
    ids=lambda packed: packed.encoding,
)
async def test_an_encoding_that_was_not_asked_for_is_refused(kind, server, packed):
    server.always(packed)
    assert str(await kind.failure(kind.make(server))) == (
        f"openai/any answered (200) with a body in the encoding {packed.encoding}, which was not asked for. It is not "
        "used. Check api_base."
    )


COMPLETION = (
    b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "packed"}, "finish_reason": "stop"}]}'
)


async def test_a_packed_answer_is_read(kind, server):
    server.always(Packed("gzip", gzip.compress, COMPLETION if kind.name == "flusher" else None))
    answer = await kind.ask(kind.make(server))
    assert answer.text == "packed" if kind.name == "flusher" else answer.shape == (1, 64)
    assert server.requests[0].headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize("body", [b"", b"not packed", gzip.compress(b"{" * 1000)[:20]], ids=["", "plain", "cut"])
async def test_a_body_that_is_not_what_its_header_says_is_final(kind, server, body):
    server.always(Packed("gzip", bytes, body))
    assert str(await kind.failure(kind.make(server))) == (
        f"openai/any answered with something that has no {kind.content} in it. Check api_base."
    )


# --- quotes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["429 - Rate limit", "429: Rate limit", "Error code: 429 - Rate limit", "Rate limit"])
async def test_a_status_is_written_once(kind, server, text):
    server.then(Status(429, text))
    assert str(await kind.failure(kind.make(server))) == "openai/any cannot answer at the moment (429): Rate limit."


@pytest.mark.parametrize("unit", ["x", " ", "Error", '"message":"', '\\"', "litellm."])
async def test_a_long_response_is_quoted_on_one_short_line(kind, server, unit):
    server.then(Raw(unit * (200_000 // len(unit))), Status(400, unit * (200_000 // len(unit))))
    for _ in range(2):
        assert len(str(await kind.failure(kind.make(server)))) < 400


async def test_a_page_of_a_proxy_is_quoted_on_one_short_line(kind, server):
    server.then(Status(502, "<html>\n  <h1>Bad gateway</h1>" + " and so on" * 100))
    error = await kind.failure(kind.make(server))
    assert "\n" not in str(error)
    assert len(str(error)) < 300


# --- what is too long ----------------------------------------------------------------------------------------------


async def test_input_beyond_the_window_is_too_long(kind, server):
    server.max_characters = 100
    error = await kind.failure(kind.make(server), text="a " * 100)
    assert isinstance(error, kind.too_long)
    assert str(error).startswith("openai/any found its input too long (400): This model's maximum context length")
    assert server.count == 1
