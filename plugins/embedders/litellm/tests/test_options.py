"""The options, from Python and from ``kipu.toml``, and what an index knows the vectors by."""

from __future__ import annotations

import re
import subprocess
import sys
import traceback

import attrs
import pytest

from kipu import Memory
from kipu.errors import ConfigurationError
from kipu.types import Embedder, Flusher
from kipu_litellm import LitellmAnnotator, LitellmEmbedder, LitellmFlusher

MODEL = "openai/any"


def test_all_are_registered_under_their_name():
    from kipu_litellm import embedder, flusher

    registered = {}
    embedder.kipu_register_embedders(lambda name, factory: registered.update({("embedder", name): factory}))
    flusher.kipu_register_flushers(lambda name, factory: registered.update({("flusher", name): factory}))
    flusher.kipu_register_annotators(lambda name, factory: registered.update({("annotator", name): factory}))
    assert registered == {
        ("embedder", "litellm"): LitellmEmbedder,
        ("flusher", "litellm"): LitellmFlusher,
        ("annotator", "litellm"): LitellmAnnotator,
    }
    assert isinstance(LitellmEmbedder(MODEL), Embedder)
    assert isinstance(LitellmFlusher(MODEL), Flusher)


def test_the_key_is_not_shown(kind):
    component = kind.factory(MODEL, api_key="sk-secret")
    assert "sk-secret" not in repr(component) + getattr(component, "identity", "")
    assert attrs.fields(kind.factory).api_key.metadata["secret"] is True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": " "}, 'model must be written as provider/model, such as "openai/'),
        ({"model": "/"}, "model must be written as provider/model"),
        ({"api_base": "host"}, "api_base must be an address such as https://host/v1"),
        ({"api_base": "https://host/v1?key=sk-secret"}, "a key goes into api_key"),
        ({"api_base": "https://user:sk-secret@host"}, "without a user or a query"),
        ({"api_base": 3}, "api_base"),
        *(
            ({"api_key": key}, 'api_key must be a text in quotes, or { env = "NAME" }')
            for key in ["", 5, {"env": ""}, {"env": 5}, {"env": "A", "file": "sk-secret"}, ["sk-secret"]]
        ),
        ({"request_timeout": 0}, "request_timeout"),
    ],
)
def test_an_invalid_option_is_refused_without_showing_a_key(kind, options, message):
    with pytest.raises(ConfigurationError, match=re.escape(message)) as caught:
        kind.factory(**{"model": MODEL} | options)
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("factory", "option"),
    [
        (LitellmEmbedder, {"dimensions": 0}),
        (LitellmEmbedder, {"batch_size": 0}),
        (LitellmFlusher, {"max_tokens": 0}),
        (LitellmFlusher, {"temperature": -1}),
        (LitellmFlusher, {"window": 0}),
    ],
)
def test_a_number_out_of_range_is_refused(factory, option):
    with pytest.raises(ConfigurationError, match=next(iter(option))):
        factory(MODEL, **option)


def test_one_call_may_take_as_long_as_a_request_and_the_import(kind):
    assert kind.factory(MODEL, request_timeout=7).timeout == 127


# --- in kipu.toml --------------------------------------------------------------------------------------------------


def write(workspace, options):
    (workspace / "memory").mkdir()
    (workspace / "memory/notes.md").write_text("# Cache\n\nWe chose Redis for sessions.\n", "utf-8")
    (workspace / "kipu.toml").write_text(f'[index.embedder]\nuse = "litellm"\n{options}\n', "utf-8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "model"),
        (f'model = "{MODEL}"\napi_key = {{ file = "sk-secret" }}', "api_key must be a text in quotes"),
        (f'model = "{MODEL}"\ndimensions = "many"', "dimensions"),
        (f'model = "{MODEL}"\nlanguages = "en"', "languages"),
        (f'model = "{MODEL}"\nkey = "sk-secret"', 'no option "key"'),
    ],
)
async def test_an_invalid_option_in_kipu_toml_is_reported(tmp_path, options, message):
    write(tmp_path, options)
    async with Memory(tmp_path) as memory:
        with pytest.raises(ConfigurationError, match=re.escape(message)) as caught:
            await memory.reindex()
    assert "sk-secret" not in "".join(traceback.format_exception(caught.value))


async def test_everything_can_be_set_in_kipu_toml(tmp_path, embeddings, monkeypatch):
    monkeypatch.setenv("TEAM_KEY", "sk-right-key")
    write(
        tmp_path,
        f'model = "{MODEL}"\napi_base = "{embeddings.url}"\napi_key = {{ env = "TEAM_KEY" }}\ndimensions = 16\n'
        'batch_size = 8\nrequest_timeout = 20\nlanguages = ["en"]',
    )
    async with Memory(tmp_path) as memory:
        report = await memory.reindex()
        status = await memory.status()
    assert (report.embedded, report.pending_vectors, report.notices) == (1, 0, [])
    assert status.vectors == {f"litellm:{MODEL} dimensions=16 api_base={embeddings.url}": 1}
    assert embeddings.count == 1


# --- identity and destination of the embedder ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "identity"),
    [
        ({}, f"litellm:{MODEL}"),
        ({"dimensions": 256}, f"litellm:{MODEL} dimensions=256"),
        ({"api_base": "http://localhost:1234/v1/"}, f"litellm:{MODEL} api_base=http://localhost:1234/v1"),
        ({"model": "ollama/nomic-embed-text", "api_base": "http://box:11434"}, "litellm:ollama/nomic-embed-text"),
        ({"api_key": "sk-1", "batch_size": 7, "request_timeout": 3, "languages": ["en"]}, f"litellm:{MODEL}"),
    ],
)
def test_the_identity_is_what_decides_the_vectors(options, identity):
    assert LitellmEmbedder(**{"model": MODEL} | options).identity == identity


def test_the_destination_is_the_address_or_the_provider():
    assert LitellmEmbedder("voyage/voyage-3.5").destination == "voyage"
    assert LitellmEmbedder(MODEL, api_base="http://127.0.0.1:80/v1/").destination == "http://127.0.0.1:80/v1"


@pytest.mark.parametrize("model", ["embed-english-v3.0", "gemini-embedding-001", "text-embedding-3-small"])
def test_the_destination_of_a_model_without_a_provider_is_not_guessed(model):
    destination = LitellmEmbedder(model).destination
    assert destination == f"the provider that LiteLLM knows {model} of"
    assert LitellmEmbedder(model, api_base="http://box/v1").destination == "http://box/v1"


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        (MODEL, "OPENAI_BASE_URL"),
        (MODEL, "OPENAI_API_BASE"),
        ("azure/any", "AZURE_API_BASE"),
        ("hosted_vllm/any", "HOSTED_VLLM_API_BASE"),
        ("lm_studio/any", "OPENAI_LIKE_API_BASE"),
        ("together_ai/any", "OPENAI_BASE_URL"),
        ("huggingface/org/any", "HF_API_BASE"),
    ],
)
def test_an_address_in_the_environment_counts_like_a_configured_one(model, variable, monkeypatch):
    before = LitellmEmbedder(model)
    assert (before.destination, before.identity) == (model.partition("/")[0], f"litellm:{model}")
    monkeypatch.setenv(variable, "https://user:sk-secret@box:1/v1/?key=sk-secret")
    assert LitellmEmbedder(model).destination == "https://box:1/v1"
    assert LitellmEmbedder(model).identity == f"litellm:{model} api_base=https://box:1/v1"
    assert LitellmEmbedder(model, api_base="http://other").destination == "http://other"


def test_an_address_in_the_environment_changes_no_identity_of_a_model_known_by_its_name(monkeypatch):
    monkeypatch.setenv("OLLAMA_API_BASE", "http://box:11434")
    assert LitellmEmbedder("ollama/any").destination == "http://box:11434"
    assert LitellmEmbedder("ollama/any").identity == "litellm:ollama/any"


def test_the_address_of_openai_decides_the_vectors_of_a_model_without_a_provider(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://box/v1")
    assert LitellmEmbedder("text-embedding-3-small").identity == "litellm:text-embedding-3-small api_base=http://box/v1"


# --- window of the flusher -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "window"),
    [
        ({"window": 77}, 77),
        ({}, 128_000 - 1024),
        ({"max_tokens": 100_000}, 64_000),
        ({"model": "anthropic/claude-sonnet-4-5"}, 200_000 - 1024),
        ({"model": "openai/our-own-model"}, 32_000),
        ({"model": "ollama/our-own-model", "api_base": "http://127.0.0.1:9"}, 32_000),
        ({"model": "nowhere/nothing"}, 32_000),
    ],
)
def test_the_window_is_configured_or_known_or_usual(options, window):
    assert LitellmFlusher(**{"model": "openai/gpt-4o-mini"} | options).window == window


def test_no_other_attribute_is_found_late():
    assert not hasattr(LitellmFlusher(MODEL), "destiny")


# --- imports -------------------------------------------------------------------------------------------------------


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_making_one_imports_nothing_heavy():
    printed = run(
        "import sys; from kipu_litellm import LitellmAnnotator, LitellmEmbedder, LitellmFlusher\n"
        "for kind in (LitellmAnnotator, LitellmEmbedder, LitellmFlusher): "
        f"made = kind({MODEL!r}); made == kind({MODEL!r}); repr(made)\n"
        "print({'litellm', 'httpx', 'asyncio', 'email', 'numpy'} & {name.partition('.')[0] for name in sys.modules})"
    )
    assert printed == "set()\n"


@pytest.mark.slow
def test_without_litellm_the_error_names_what_to_install():
    printed = run(
        "import asyncio, sys; sys.modules['litellm'] = None\n"
        "from kipu.errors import KipuError; from kipu_litellm import LitellmEmbedder, LitellmFlusher\n"
        "flusher = LitellmFlusher('ollama/any')\n"
        "for ask in (\n"
        "    lambda: asyncio.run(LitellmEmbedder('ollama/any').embed(['a'], role='query')),\n"
        "    lambda: asyncio.run(flusher.distill([], instructions='List.')),\n"
        "    lambda: flusher.window,\n"
        "):\n"
        "    try: ask()\n"
        "    except KipuError as error: print(error)"
    )
    lines = printed.splitlines()
    assert len(lines) == 3
    assert len(set(lines)) == 1
    assert lines[0].startswith("LiteLLM cannot be imported: ")
    assert lines[0].endswith("pip install kipu-litellm")
