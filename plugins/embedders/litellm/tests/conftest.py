"""What the tests of this folder share: the server of embeddings that the tests of the repository have."""

from __future__ import annotations

import os
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
    """No key of whoever runs the tests goes anywhere, and no address of theirs is used."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL")):
            monkeypatch.delenv(name)
