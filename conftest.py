"""What the tests of the whole tree share: short names for the fixtures of `kipu.testing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def workspace(kipu_workspace: Path) -> Path:
    """See `kipu.testing.fixtures`."""
    return kipu_workspace


@pytest.fixture
def write(kipu_write: Callable[[str, str | bytes], Path]) -> Callable[[str, str | bytes], Path]:
    """See `kipu.testing.fixtures`."""
    return kipu_write
