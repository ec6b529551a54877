"""Where texts and keys go, and where they do not: redirects, keys that cannot be sent, logs and output."""

from __future__ import annotations

import subprocess
import sys

import pytest
from embedding_server import Redirect

from kipu.errors import ConfigurationError

# --- redirects -----------------------------------------------------------------------------------------------------


async def test_nothing_is_sent_to_an_address_that_is_not_configured(kind, model, server):
    with kind.server() as other:
        server.always(Redirect(f"{other.url}/any?key=sk-right-key&text=tea#part", 307))
        error = await kind.failure(kind.make(server, model=model))
        assert (server.count, other.count) == (1, 0)
        assert type(error) is kind.failed
        assert str(error) == (
            f"{model} redirects to another address (307): {other.url}/any. Nothing was sent there. If it is right, set "
            f"it as api_base, without what LiteLLM appends, such as {kind.path}."
        )


@pytest.mark.parametrize("code", [301, 302, 303, 308])
async def test_any_redirect_is_refused(kind, server, code):
    server.always(Redirect("/v2/elsewhere", code))
    error = await kind.failure(kind.make(server))
    assert f"({code}): {server.url.removesuffix('/v1')}/v2/elsewhere. Nothing was sent there." in str(error)
    assert server.count == 1


async def test_providers_whose_redirects_cannot_be_refused_are_not_used(kind, server):
    error = await kind.failure(kind.make(server, model="amazon_nova/a"))
    assert str(error).startswith("amazon_nova/a cannot be used: LiteLLM follows redirects of amazon_nova")
    assert server.count == 0


async def test_a_response_that_was_not_watched_is_not_used(kind, server, monkeypatch):
    await kind.ask(kind.make(server))
    monkeypatch.setattr("kipu_litellm.exchange._record", lambda response: None)
    assert "LiteLLM sent the request with a client that may follow redirects" in str(
        await kind.failure(kind.make(server))
    )


async def test_other_requests_of_the_program_follow_redirects_as_before(kind, server):
    import httpx
    import litellm

    before = httpx.AsyncClient.send, httpx.Client.send
    await kind.ask(kind.make(server))
    assert (httpx.AsyncClient.send, httpx.Client.send) == before
    server.then(Redirect(f"{server.url}{kind.path}"), None, Redirect(f"{server.url}{kind.path}"))
    async with httpx.AsyncClient(follow_redirects=True) as client:
        answer = await client.post(f"{server.url}{kind.path}", json={"input": ["a"], "messages": []})
    assert (answer.status_code, server.count) == (200, 3)
    await litellm.module_level_aclient.post(f"{server.url}{kind.path}", json={"input": ["a"], "messages": []})
    assert server.count == 5


# --- keys ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["sk-right-key\n", "sk\nright-key", "sk-right-key\a", "sk-right-ké", "\tsk-right-key"])
async def test_a_key_that_no_header_can_hold_is_refused_before_anything_is_sent(kind, server, monkeypatch, key):
    with pytest.raises(ConfigurationError, match="api_key must be a text in quotes") as caught:
        kind.make(server, api_key=key)
    assert key not in str(caught.value)
    for name, api_key in (("TEAM_KEY", {"env": "TEAM_KEY"}), ("OPENAI_API_KEY", None)):
        monkeypatch.setenv(name, key)
        assert str(await kind.failure(kind.make(server, api_key=api_key))) == (
            f"The key for openai/any cannot be sent: the environment variable {name} has a character that no key has, "
            "such as a line break or a letter with an accent."
        )
    assert server.count == 0


async def test_a_key_is_taken_from_the_variable_that_is_named(kind, server, monkeypatch):
    monkeypatch.setenv("TEAM_KEY", "sk-right-key")
    await kind.ask(kind.make(server, api_key={"env": "TEAM_KEY"}))
    assert server.requests[0].headers["authorization"] == "Bearer sk-right-key"


async def test_a_variable_that_is_not_set_is_named_before_anything_is_sent(kind, server):
    error = await kind.failure(kind.make(server, api_key={"env": "TEAM_KEY"}))
    assert str(error) == "There is no key for openai/any: api_key names the variable TEAM_KEY, which is not set."
    assert server.count == 0


@pytest.mark.parametrize("provider", ["openai", "gemini", "mistral", "cohere"])
async def test_a_missing_key_is_found_before_anything_is_sent(kind, server, provider):
    error = await kind.failure(kind.make(server, model=f"{provider}/a", api_key=None))
    assert str(error).startswith(f"There is no key for {provider}/a. Set ")
    assert f"{provider.upper()}_API_KEY" in str(error)
    assert str(error).endswith('or put api_key = { env = "NAME" } beside model in kipu.toml.')
    assert server.count == 0


# --- quiet ---------------------------------------------------------------------------------------------------------

PROGRAM = """
import asyncio, gc, logging, sys
{before}
from kipu.types import Message
from kipu_litellm import LitellmEmbedder, LitellmFlusher
async def ask(model, key):
    component = {factory}(model, {url!r}, key)
    try:
        if isinstance(component, LitellmEmbedder):
            await component.embed(["confidential"], role="query")
        else:
            await component.distill([Message("user", "confidential")], instructions="List.")
    except Exception as error:
        assert "sk-wrong-key" not in str(error)
async def main():
    for model in {models!r}:
        await ask(model, "sk-right-key")
    await ask("openai/a", "sk-wrong-key")
asyncio.run(main())
asyncio.run(main())
gc.collect()
"""


def run(kind, server, before=""):
    server.key = "sk-right-key"
    models = ["openai/a", "openai/a", "mistral/a"] + ([] if kind.name == "embedder" else ["ollama/a", "anthropic/a"])
    program = PROGRAM.format(before=before, factory=kind.factory.__name__, url=server.url, models=models)
    return subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_program_prints_nothing_and_leaves_nothing_open(kind, server):
    done = run(kind, server, "assert not {'litellm', 'httpx'} & set(sys.modules)")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert server.count >= 8


@pytest.mark.slow
@pytest.mark.parametrize(
    "before", ["logging.basicConfig(level='DEBUG')", "logging.basicConfig(level='DEBUG'); import litellm"]
)
def test_texts_and_keys_are_not_logged(kind, server, before):
    done = run(kind, server, before)
    assert done.returncode == 0
    assert not any(text in done.stdout + done.stderr for text in ("confidential", "-key"))


@pytest.mark.slow
def test_texts_are_logged_where_a_program_asks_litellm_for_it(kind, server):
    done = run(kind, server, "logging.basicConfig(level='DEBUG'); logging.getLogger('LiteLLM').setLevel('DEBUG')")
    assert "confidential" in done.stdout + done.stderr


MISSING_KEYS = """
import asyncio, sys
from kipu.types import Message
from kipu_litellm import LitellmEmbedder, LitellmFlusher
for model in ("openai/a", "gemini/a", "voyage/a", "mistral/a", "cohere/a", "anthropic/a"):
    for ask in (
        lambda: LitellmEmbedder(model).embed(["a"], role="query"),
        lambda: LitellmFlusher(model).distill([Message("user", "a")], instructions="List."),
    ):
        try:
            asyncio.run(ask())
        except Exception as error:
            print(str(error).split(". ")[1].split(",")[0])
flusher = LitellmFlusher("openai/a", api_key={"env": "TEAM_KEY"})
assert flusher.window == 32_000
for model in (None, "mistral/a"):
    try:
        asyncio.run(flusher.distill([Message("user", "a")], instructions="List.", model=model))
    except Exception as error:
        print(error)
assert "litellm" not in sys.modules
"""


@pytest.mark.slow
def test_a_missing_key_is_reported_without_importing_litellm():
    done = subprocess.run([sys.executable, "-c", MISSING_KEYS], capture_output=True, text=True, check=True)
    *lines, unset, other = done.stdout.splitlines()
    assert lines[::2] == lines[1::2]
    assert lines[::2] == [
        "Set OPENAI_API_KEY",
        "Set GOOGLE_API_KEY or GEMINI_API_KEY",
        "Set VOYAGE_API_KEY",
        "Set MISTRAL_API_KEY",
        "Set COHERE_API_KEY",
        "Set ANTHROPIC_API_KEY",
    ]
    assert unset.endswith("the variable TEAM_KEY, which is not set.")
    assert other.startswith("There is no key for mistral/a. Set MISTRAL_API_KEY")
