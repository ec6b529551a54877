"""What the kernel's tests share: a workspace of one's own, and memories on it that need no plugin."""

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
from doubles import Hashing, Nearest, Paragraphs, Words

from kipu import FilesConfig, IndexConfig, Memory, MemoryConfig, SearchConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A slow machine is no fault of what is tested.
settings.register_profile("kipu", deadline=None)
settings.load_profile("kipu")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An empty workspace: a folder with an empty ``memory/``."""
    folder = tmp_path / "project"
    (folder / "memory").mkdir(parents=True)
    return folder


@pytest.fixture
def write(workspace: Path) -> Callable[[str, str], Path]:
    """Write a file below the workspace, with the folders that it needs."""

    def write(path: str, text: str) -> Path:
        file = workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("utf-8"))
        return file

    return write


@pytest.fixture
def config(workspace: Path) -> Callable[..., MemoryConfig]:
    """A configuration of the workspace with the doubles for components."""

    def config(files: dict[str, Any] | None = None, index: dict[str, Any] | None = None, **search: Any) -> MemoryConfig:
        return MemoryConfig(
            workspace,
            files=FilesConfig(**(files or {})),
            index=IndexConfig(**({"chunker": Paragraphs()} | (index or {}))),
            search=SearchConfig(**({"strategy": Words(), "postprocessors": []} | search)),
        )

    return config


@pytest.fixture
async def memory(config: Callable[..., MemoryConfig]) -> Any:
    """A memory on the workspace."""
    async with Memory(config()) as memory:
        yield memory


@pytest.fixture
def embedder() -> Hashing:
    return Hashing()


@pytest.fixture
def meaning(config: Callable[..., MemoryConfig], embedder: Hashing) -> Callable[..., Memory]:
    """A memory that searches by vectors."""

    def meaning(embedder: Any = embedder, **search: Any) -> Memory:
        return Memory(config(index={"embedder": embedder}, **({"strategy": Nearest()} | search)))

    return meaning


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A place to install plugins in, in which nothing is installed yet, whatever this Python has."""
    site = Site(tmp_path / "site-packages")
    monkeypatch.syspath_prepend(str(site.folder))
    monkeypatch.delenv("KIPU_DISABLE_PLUGINS", raising=False)
    yield site
    site.forget_modules()
