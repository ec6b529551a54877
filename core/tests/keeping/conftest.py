"""What the tests of the writing side share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from entry_chunks import with_entries
from redaction import configured

from kipu import Memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
async def memory(workspace: Path) -> Any:
    """Open a memory in which each entry is a chunk, without write filters."""
    async with Memory(with_entries(workspace)) as memory:
        yield memory


@pytest.fixture
async def notebook(workspace: Path) -> Any:
    """Open a memory with the standard chunker, and with a write filter that removes a key."""
    async with Memory(configured(workspace)) as memory:
        yield memory


@pytest.fixture
def remains() -> Callable[[Path], list[str]]:
    """Return the temporary files and journals below a folder, wherever they are."""

    def remains(folder: Path) -> list[str]:
        left = [*folder.rglob(".kipu/writing/*"), *folder.rglob(".kipu-*"), *folder.rglob("*.tmp*")]
        return sorted({path.name for path in left})

    return remains
