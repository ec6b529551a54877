"""What the tests of this folder share: an index of vectors with the strategy's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kipu.testing import ScratchIndex
from kipu_strategy_vector import Vector, coarse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class Workspace(ScratchIndex):
    """An index of the strategy, with a shortcut for what tests often ask."""

    async def found(self, row: Any, **options: Any) -> list[tuple[int, float]]:
        """Return the ids and scores of the hits of a search, best first."""
        return [(hit.chunk.id, hit.score) for hit in await self.search(vector=row, **options)]


def _skip_without_sqlite_vec() -> None:
    if not coarse.is_available():
        pytest.skip("neither sqlite3 nor pysqlite3 can load sqlite-vec here")


@pytest.fixture
def with_sqlite_vec() -> None:
    """Skip a test of the table of sqlite-vec where there is none."""
    _skip_without_sqlite_vec()


@pytest.fixture(params=["vec0", "numpy"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test where sqlite-vec can be loaded, and where it cannot."""
    if request.param == "numpy":
        monkeypatch.setattr(coarse, "is_available", lambda: False)
    else:
        _skip_without_sqlite_vec()


@pytest.fixture
async def workspace(either_way: None) -> AsyncIterator[Workspace]:
    """Create an empty index for vectors of four numbers."""
    async with Workspace.open(Vector(), dimension=4) as opened:
        yield opened


@pytest.fixture(scope="session")
def new_workspace() -> Callable[..., Any]:
    """Open an empty index: for tests that need many, or one with other vectors."""

    def new(dimension: int = 4, **options: Any) -> Any:
        return Workspace.open(Vector(), dimension=dimension, **options)

    return new
