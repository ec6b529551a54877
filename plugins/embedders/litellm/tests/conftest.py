"""What the tests of this folder share: the server of embeddings that the tests of the repository have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from embedding_server import EmbeddingServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    """A server of embeddings that behaves until it is told otherwise, and knows one key."""
    with EmbeddingServer(key="sk-right") as opened:
        yield opened


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key of whoever runs the tests goes anywhere."""
    for name in ("OPENAI", "VOYAGE", "COHERE", "GEMINI", "GOOGLE", "MISTRAL"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
