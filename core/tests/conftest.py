"""What the kernel's tests share: memories on a workspace that need no plugin, and a place to install plugins in."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

# For this process, and for those that tests start.
sys.path.insert(0, str(Path(__file__).parent))
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]).rstrip(
    os.pathsep
)

from distributions import Site

from kipu import Memory
from kipu.testing import ScriptedEmbedder, VectorStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kipu import MemoryConfig

# A slow machine is no failure.
settings.register_profile("kipu", deadline=None)
settings.load_profile("kipu")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs an embedder: the kernel runs without."""
    for item in items:
        if {"embedder", "meaning"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("services")


@pytest.fixture
def config(kipu_config: Callable[..., MemoryConfig]) -> Callable[..., MemoryConfig]:
    """See `kipu.testing.fixtures`."""
    return kipu_config


@pytest.fixture
async def memory(config: Callable[..., MemoryConfig]) -> Any:
    """Open a memory on the workspace."""
    async with Memory(config()) as memory:
        yield memory


@pytest.fixture
def embedder() -> ScriptedEmbedder:
    """Make an embedder that hashes words until its script says otherwise."""
    return ScriptedEmbedder()


@pytest.fixture
def meaning(config: Callable[..., MemoryConfig], embedder: ScriptedEmbedder) -> Callable[..., Memory]:
    """Make memories that search by vectors."""

    def meaning(embedder: Any = embedder, **search: Any) -> Memory:
        memory = Memory(config(index={"embedder": embedder}, **({"strategy": VectorStrategy()} | search)))
        memory._synchronizer.embeddings.backoff = (0.0, 0.0, 0.0)
        memory._synchronizer.embeddings.start_stopwatch = lambda: lambda: 0.0  # a slow machine is no failure
        return memory

    return meaning


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Make a place to install plugins in, where nothing is installed yet."""
    site = Site(tmp_path / "site-packages")
    monkeypatch.syspath_prepend(str(site.folder))
    monkeypatch.delenv("KIPU_DISABLE_PLUGINS", raising=False)
    yield site
    site.forget_modules()
