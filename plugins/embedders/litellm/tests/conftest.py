"""What the tests of this folder share: the two kinds of component, and a server that plays the provider of each.

A test that takes ``kind`` runs for the embedder and the flusher; one that takes ``model`` too, for each way in which
LiteLLM sends a request of that kind.
"""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from completion_server import CompletionServer
from embedding_server import EmbeddingServer

from kipu.errors import (
    ConversationTooLongError,
    EmbedderBusyError,
    EmbedderError,
    FlusherBusyError,
    FlusherError,
    KipuError,
    TextTooLongError,
)
from kipu.types import Message
from kipu_litellm import LitellmEmbedder, LitellmFlusher

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "sk-right-key"
SECRET = "Only the model may read this."


@attrs.frozen
class Kind:
    """The embedder or the flusher, and what tests need to know of it."""

    name: str
    factory: Any
    server: Any
    model: str
    models: list[str]
    failed: type[KipuError]
    busy: type[KipuError]
    too_long: type[KipuError]
    content: str
    path: str

    def make(self, server: Any, **options: Any) -> Any:
        """Return a component that sends requests to the server as to OpenAI."""
        return self.factory(
            **{"model": self.model, "api_base": server.url, "api_key": KEY, "request_timeout": 20} | options
        )

    async def ask(self, component: Any, *, text: str = SECRET) -> Any:
        """Send one request."""
        if self.name == "embedder":
            return await component.embed([text], role="document")
        return await component.distill([Message("user", text)], instructions="List what is worth keeping.")

    async def failure(self, component: Any, *, text: str = SECRET) -> Any:
        """Return the error of one request. Check that its traceback shows no key, no text and no code of LiteLLM."""
        with pytest.raises(KipuError) as caught:
            await self.ask(component, text=text)
        shown = "".join(traceback.format_exception(caught.value))
        assert not any(part in shown for part in (KEY, "sk-wrong-key", SECRET, "site-packages"))
        return caught.value


EMBEDDER = Kind(
    name="embedder",
    factory=LitellmEmbedder,
    server=EmbeddingServer,
    model="openai/any",
    models=["openai/a", "mistral/a", "hosted_vllm/a", "voyage/a", "cohere/a", "ollama/a", "gemini/a", "jina_ai/a"],
    failed=EmbedderError,
    busy=EmbedderBusyError,
    too_long=TextTooLongError,
    content="vectors",
    path="/embeddings",
)
FLUSHER = Kind(
    name="flusher",
    factory=LitellmFlusher,
    server=CompletionServer,
    model="openai/any",
    models=["openai/a", "anthropic/a", "gemini/a", "mistral/a", "ollama/a", "cohere/a"],
    failed=FlusherError,
    busy=FlusherBusyError,
    too_long=ConversationTooLongError,
    content="text",
    path="/chat/completions",
)
KINDS = [EMBEDDER, FLUSHER]


def pytest_generate_tests(metafunc: Any) -> None:
    if "kind" in metafunc.fixturenames and "model" in metafunc.fixturenames:
        pairs = [pytest.param(kind, model, id=f"{kind.name}-{model}") for kind in KINDS for model in kind.models]
        metafunc.parametrize(("kind", "model"), pairs)
    elif "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


@pytest.fixture
def server(kind: Kind) -> Iterator[Any]:
    """Run a provider of that kind that accepts any key."""
    with kind.server() as opened:
        yield opened


@pytest.fixture
def embeddings() -> Iterator[EmbeddingServer]:
    """Run a provider of embeddings that accepts only KEY."""
    with EmbeddingServer(key=KEY) as opened:
        yield opened


@pytest.fixture
def completions() -> Iterator[CompletionServer]:
    """Run a provider of completions that accepts only KEY."""
    with CompletionServer(key=KEY) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the keys and addresses in the environment that the tests run in."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL")):
            monkeypatch.delenv(name)
