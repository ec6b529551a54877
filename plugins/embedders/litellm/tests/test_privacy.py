"""Where texts go and where they do not, and what is said where a provider answers with something else than vectors."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from embedding_server import EmbeddingServer, Raw, Redirect, each_number

from kipu.errors import EmbedderError
from kipu_embedder_litellm import LiteLLM

TEXTS = ["We chose Redis.", "Ana likes tea."]
KEY = "sk-right-and-secret"
# One for each way in which LiteLLM sends: the client of OpenAI, its own, and what it does for Ollama.
MODELS = ["openai/a", "mistral/a", "hosted_vllm/a", "voyage/a", "cohere/a", "ollama/a", "gemini/a", "jina_ai/a"]


@pytest.fixture
def server() -> Any:
    """A server that takes any key."""
    with EmbeddingServer() as opened:
        yield opened


def make(server: EmbeddingServer, **options: Any) -> LiteLLM:
    return LiteLLM(**{"model": "openai/a", "api_base": server.url, "api_key": KEY, "timeout": 20} | options)


async def failure(embedder: LiteLLM) -> EmbedderError:
    with pytest.raises(EmbedderError) as caught:
        await embedder.embed(TEXTS, role="document")
    return caught.value


# --- redirects -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "code"), [*((model, 307) for model in MODELS), ("openai/a", 308)])
async def test_no_text_goes_to_an_address_that_is_not_configured(
    server: EmbeddingServer, model: str, code: int
) -> None:
    with EmbeddingServer() as other:
        server.always(Redirect(f"{other.url}/embeddings?key={KEY}&text=tea#part", code))
        error = await failure(make(server, model=model))
        assert (server.count, other.count) == (1, 0)
        assert type(error) is EmbedderError
        assert str(error) == (
            f"{model} is at another address, says the one that was asked ({code}): {other.url}/embeddings. Texts are "
            "sent to no address that is not configured: if this one is right, put it into api_base, without what "
            "LiteLLM adds, such as /embeddings."
        )


@pytest.mark.parametrize("code", [301, 302, 303])
async def test_any_redirect_is_said(server: EmbeddingServer, code: int) -> None:
    server.always(Redirect("/v2/elsewhere", code))
    error = await failure(make(server))
    assert f"({code}): {server.url.removesuffix('/v1')}/v2/elsewhere. Texts" in str(error)
    assert server.count == 1


async def test_what_the_program_itself_sends_follows_redirects_as_before(server: EmbeddingServer) -> None:
    import httpx

    await make(server).embed(TEXTS, role="document")
    server.then(Redirect(f"{server.url}/embeddings"))
    async with httpx.AsyncClient(follow_redirects=True) as client:
        answer = await client.post(f"{server.url}/embeddings", json={"input": TEXTS})
    assert (answer.status_code, server.count) == (200, 3)


# --- errors that are sent as answers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "error"),
    [
        *((model, f'"The quota of {KEY} is used up"') for model in MODELS),
        ("openai/a", '{"message": "The quota of ... is used up", "code": 429}'),
    ],
)
async def test_an_error_that_is_sent_as_an_answer_is_quoted_without_the_key(
    server: EmbeddingServer, model: str, error: str
) -> None:
    server.always(Raw(f'{{"error": {error}}}'))
    said = str(await failure(make(server, model=model)))
    assert said == f"{model} answered with an error instead of vectors (200): The quota of ... is used up."


# --- keys that cannot be sent ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["sk-secret\n", "sk\nsecret", "sk-secret\a", "sk-secré", "\tsk-secret"])
async def test_a_key_that_no_header_can_hold_is_said_before_anything_is_sent(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("TEAM_KEY", key)
    monkeypatch.setenv("OPENAI_API_KEY", key)
    for given, place in (
        (key, "api_key"),
        ({"env": "TEAM_KEY"}, "the environment variable TEAM_KEY"),
        (None, "the environment variable OPENAI_API_KEY"),
    ):
        assert str(await failure(make(server, api_key=given))) == (
            f"The key for openai/a cannot be sent: {place} has a character in it that no key has, such as a line break "
            "or a letter with an accent."
        )
    assert server.count == 0


# --- quiet ----------------------------------------------------------------------------------------------------------


async def test_numbers_that_float32_cannot_hold_are_handed_over_without_a_warning(server: EmbeddingServer) -> None:
    server.always(each_number(lambda number: number * 1e45))
    assert not np.isfinite(await make(server).embed(TEXTS, role="document")).all()


LOGGED = """
import asyncio, logging, sys
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
{before}
from kipu_embedder_litellm import LiteLLM
for model in ("openai/a", "voyage/a"):
    asyncio.run(LiteLLM(model, {url!r}, "sk-right").embed(["confidential"], role="query"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "import litellm", "logging.getLogger('LiteLLM').setLevel(logging.DEBUG)"])
def test_texts_are_logged_only_where_somebody_asked_litellm_for_it(server: EmbeddingServer, before: str) -> None:
    program = LOGGED.format(before=before, url=server.url)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ("confidential" in done.stdout + done.stderr) == ("setLevel" in before)
    assert server.count == 2
