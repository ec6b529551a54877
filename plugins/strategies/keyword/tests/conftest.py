"""What the tests of this folder share: an index with the strategy's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kipu.testing import ScratchIndex
from kipu_strategy_keyword import Keyword

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class Workspace(ScratchIndex):
    """An index of the strategy, with shortcuts for what tests often ask."""

    async def texts(self, text: str, **options: Any) -> list[str]:
        """Return the texts that a search finds, best first."""
        return [hit.chunk.text for hit in await self.search(text, **options)]

    async def score(self, text: str, ids: list[int], **options: Any) -> dict[int, float]:
        """Return the strategy's scores of chunks."""
        return await self.strategy.score(self.query(text, **options), self, ids)

    async def score_files(self, text: str, paths: list[str]) -> dict[str, float]:
        """Return the strategy's scores of files."""
        return await self.strategy.score_files(self.query(text), self, paths)


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    """Create an empty index."""
    async with Workspace.open(Keyword()) as opened:
        yield opened


@pytest.fixture(scope="session")
def new_workspace() -> Callable[..., Any]:
    """Open an empty index: for tests that need many, or one with options."""

    def new(strategy: Keyword | None = None) -> Any:
        return Workspace.open(strategy or Keyword())

    return new
