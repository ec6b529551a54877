"""Fixtures for pytest, which it loads as a plugin: ``-p no:kipu`` switches them off.

Nothing of Kipu is imported before a fixture is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kipu import Memory, MemoryConfig


@pytest.fixture
def kipu_workspace(tmp_path: Path) -> Path:
    """Make an empty workspace: a folder with an empty ``memory/``."""
    folder = tmp_path / "project"
    (folder / "memory").mkdir(parents=True)
    return folder


@pytest.fixture
def kipu_write(kipu_workspace: Path) -> Callable[[str, str | bytes], Path]:
    """Write a file below the workspace, and the folders above it: ``kipu_write("memory/a.md", "text")``."""

    def write(path: str, content: str | bytes) -> Path:
        file = kipu_workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        return file

    return write


@pytest.fixture
def kipu_config(kipu_workspace: Path) -> Callable[..., MemoryConfig]:
    """Make a configuration of the workspace, with the doubles for the chunker and the strategy, and nothing installed.

    ``files`` and ``index`` are the options of these tables; all others are those of ``search``::

        kipu_config(index={"embedder": HashingEmbedder()}, strategy=VectorStrategy())
    """

    def config(files: dict[str, Any] | None = None, index: dict[str, Any] | None = None, **search: Any) -> MemoryConfig:
        from kipu import FilesConfig, IndexConfig, MemoryConfig, SearchConfig
        from kipu.testing import ParagraphChunker, WordStrategy

        index = {"chunker": ParagraphChunker(), **(index or {})}
        search = {"strategy": WordStrategy(), "postprocessors": [], "relation": False, **search}
        return MemoryConfig(
            kipu_workspace,
            files=FilesConfig(**(files or {})),
            index=IndexConfig(**index),
            search=SearchConfig(**search),
        )

    return config


@pytest.fixture
def kipu_memory(kipu_config: Callable[..., MemoryConfig]) -> Callable[..., Memory]:
    """Make a memory on the workspace, with the options of ``kipu_config``.

    It needs closing: ``async with kipu_memory() as memory: ...``.
    """

    def memory(**options: Any) -> Memory:
        from kipu import Memory

        return Memory(kipu_config(**options))

    return memory
