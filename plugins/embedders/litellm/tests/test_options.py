"""The options, from Python and from ``kipu.toml``, and what an index knows the vectors by."""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from kipu import Memory
from kipu.errors import ConfigurationError
from kipu_embedder_litellm import LiteLLM

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "openai/text-embedding-3-small"


def write(workspace: Path, options: str) -> None:
    (workspace / "memory").mkdir(exist_ok=True)
    (workspace / "memory/notes.md").write_text("# Cache\n\nWe chose Redis for sessions.\n", "utf-8")
    (workspace / "kipu.toml").write_text(f'[index.embedder]\nuse = "litellm"\n{options}\n', "utf-8")


@pytest.mark.parametrize(
    ("options", "identity"),
    [
        ({}, f"litellm:{MODEL}"),
        ({"dimensions": 256}, f"litellm:{MODEL} dimensions=256"),
        ({"api_base": "http://localhost:1234/v1/"}, f"litellm:{MODEL} api_base=http://localhost:1234/v1"),
        ({"model": "ollama/nomic-embed-text", "api_base": "http://box:11434"}, "litellm:ollama/nomic-embed-text"),
        ({"api_key": "sk-1", "batch_size": 7, "timeout": 3, "languages": ["en"]}, f"litellm:{MODEL}"),
    ],
)
def test_the_identity_is_what_decides_the_vectors(options: dict[str, Any], identity: str) -> None:
    assert LiteLLM(**{"model": MODEL} | options).identity == identity


def test_the_key_is_not_shown() -> None:
    embedder = LiteLLM(MODEL, api_key="sk-secret")
    assert "sk-secret" not in repr(embedder)
    assert "sk-secret" not in embedder.identity


@pytest.mark.parametrize(
    "key", ["", 5, {"env": ""}, {"env": 5}, {"env": "A", "file": "b"}, {"file": "sk-secret"}, ["sk-secret"]]
)
def test_what_is_no_key_is_refused_without_showing_it(key: Any) -> None:
    with pytest.raises(ValueError, match="api_key must be a text in quotes") as caught:
        LiteLLM(MODEL, api_key=key)
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "model"),
        ('model = ""', 'such as "openai/text-embedding-3-small"'),
        (f'model = "{MODEL}"\napi_key = 5', "api_key must be a text in quotes"),
        (f'model = "{MODEL}"\napi_key = {{ file = "sk-secret" }}', "api_key must be a text in quotes"),
        (f'model = "{MODEL}"\napi_base = "localhost"', "api_base"),
        (f'model = "{MODEL}"\ndimensions = "many"', "dimensions"),
        (f'model = "{MODEL}"\ndimensions = 0', "dimensions"),
        (f'model = "{MODEL}"\nbatch_size = 0', "batch_size"),
        (f'model = "{MODEL}"\ntimeout = 0', "timeout"),
        (f'model = "{MODEL}"\nlanguages = "en"', "languages"),
        (f'model = "{MODEL}"\nkey = "sk-secret"', 'no option "key"'),
    ],
)
async def test_a_wrong_option_in_kipu_toml_is_said(tmp_path: Path, options: str, message: str) -> None:
    write(tmp_path, options)
    async with Memory(tmp_path) as memory:
        with pytest.raises(ConfigurationError, match=re.escape(message)) as caught:
            await memory.reindex()
    assert "sk-secret" not in "".join(traceback.format_exception(caught.value))


async def test_everything_can_be_set_in_kipu_toml(tmp_path: Path, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_KEY", "sk-right")
    write(
        tmp_path,
        f'model = "{MODEL}"\napi_base = "{server.url}"\napi_key = {{ env = "TEAM_KEY" }}\ndimensions = 16\n'
        'batch_size = 8\ntimeout = 20\nlanguages = ["en"]',
    )
    async with Memory(tmp_path) as memory:
        report = await memory.reindex()
        status = await memory.status()
    assert (report.embedded, report.pending_vectors, report.notices) == (1, 0, [])
    assert status.vectors == {f"litellm:{MODEL} dimensions=16 api_base={server.url}": 1}
    assert server.count == 1


@pytest.mark.parametrize("address", ["https://host/v1?key=sk-secret", "https://user:sk-secret@host", "host", 3])
def test_an_address_has_no_key_in_it_and_the_message_neither(address: Any) -> None:
    with pytest.raises(ValueError, match="a key goes into api_key") as caught:
        LiteLLM("openai/any", api_base=address)
    assert "sk-secret" not in str(caught.value)


def test_it_says_where_texts_go() -> None:
    assert LiteLLM("voyage/voyage-3.5").destination == "voyage"
    assert LiteLLM("openai/any", api_base="http://127.0.0.1:80/v1/").destination == "http://127.0.0.1:80/v1"


@pytest.mark.parametrize("model", ["embed-english-v3.0", "gemini-embedding-001", "text-embedding-3-small"])
def test_a_model_without_a_provider_is_not_said_to_go_to_one_by_guess(model: str) -> None:
    destination = LiteLLM(model).destination
    assert destination == f"the provider that LiteLLM knows {model} of"
    assert LiteLLM(model, api_base="http://box/v1").destination == "http://box/v1"


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai/any", "OPENAI_BASE_URL"),
        ("openai/any", "OPENAI_API_BASE"),
        ("azure/any", "AZURE_API_BASE"),
        ("hosted_vllm/any", "HOSTED_VLLM_API_BASE"),
        ("lm_studio/any", "OPENAI_LIKE_API_BASE"),
        ("together_ai/any", "OPENAI_BASE_URL"),
        ("huggingface/org/any", "HF_API_BASE"),
    ],
)
def test_an_address_in_the_environment_is_where_texts_go_and_decides_the_vectors(
    model: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = LiteLLM(model)
    assert (before.destination, before.identity) == (model.partition("/")[0], f"litellm:{model}")
    monkeypatch.setenv(variable, "https://user:sk-secret@box:1/v1/?key=sk-secret")
    assert LiteLLM(model).destination == "https://box:1/v1"
    assert LiteLLM(model).identity == f"litellm:{model} api_base=https://box:1/v1"
    assert LiteLLM(model, api_base="http://other").destination == "http://other"


def test_where_the_name_says_all_an_address_in_the_environment_changes_no_vector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OLLAMA_API_BASE", "http://box:11434")
    assert LiteLLM("ollama/any").destination == "http://box:11434"
    assert LiteLLM("ollama/any").identity == "litellm:ollama/any"


def test_without_a_provider_the_address_of_openai_decides_the_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://box/v1")
    assert LiteLLM("text-embedding-3-small").identity == "litellm:text-embedding-3-small api_base=http://box/v1"
