"""Doubles for the tests of plugins, and of programs that use Kipu: small, deterministic, and without a model.

    from kipu import IndexConfig, Memory, MemoryConfig
    from kipu.testing import HashingEmbedder

    memory = Memory(MemoryConfig(folder, index=IndexConfig(embedder=HashingEmbedder())))

Where pytest runs, the fixtures ``kipu_workspace``, ``kipu_write``, ``kipu_config`` and ``kipu_memory`` are available
without an import: see `kipu.testing.fixtures`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .doubles import (
        CombinedStrategy,
        HashingEmbedder,
        ParagraphChunker,
        ScriptedAnnotator,
        ScriptedEmbedder,
        ScriptedFlusher,
        VectorStrategy,
        WordStrategy,
    )
    from .index import ScratchIndex

__all__ = [
    "CombinedStrategy",
    "HashingEmbedder",
    "ParagraphChunker",
    "ScratchIndex",
    "ScriptedAnnotator",
    "ScriptedEmbedder",
    "ScriptedFlusher",
    "VectorStrategy",
    "WordStrategy",
]


def __getattr__(name: str) -> Any:
    """Import a double when it is first used: pytest imports this package in every project that has Kipu installed."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import doubles, index

    return getattr(index if name == "ScratchIndex" else doubles, name)


def __dir__() -> list[str]:
    return sorted(__all__)
