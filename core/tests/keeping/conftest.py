"""What the tests of the writing side share: a memory that writes texts as they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest
from rows import with_doubles

from kipu import Memory
from kipu.config import WritingConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
async def memory(workspace: Path) -> Any:
    """A memory with the smallest components and no write filter."""
    async with Memory(attrs.evolve(with_doubles(workspace), writing=WritingConfig(filters=[]))) as memory:
        yield memory


@pytest.fixture
def remains() -> Callable[[Path], list[str]]:
    """Return the temporary files and journals below a folder, wherever they are."""

    def remains(folder: Path) -> list[str]:
        left = [*folder.rglob(".kipu/writing/*"), *folder.rglob(".kipu-*"), *folder.rglob("*.tmp*")]
        return sorted({path.name for path in left})

    return remains
