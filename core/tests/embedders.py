"""What the tests of embedding share: a second model, embedders by name, and files to embed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs

from kipu.testing import HashingEmbedder, ScriptedEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kipu import Memory
    from kipu.types import Vectors


@attrs.define
class OtherEmbedder(ScriptedEmbedder):
    """Another model than `HashingEmbedder`."""

    dimension: int = 32
    salt: str = "other"


def fill(write: Callable[[str, str], Path], files: int) -> None:
    """Write so many files, each with a word of its own."""
    for number in range(files):
        write(f"memory/{number:03}.md", f"note{number} about topic{number % 7}\n")


def short_of_time(memory: Memory) -> None:
    """Have each search embed one batch, of eight texts: each look at the stopwatch is a second later."""
    memory._synchronizer.embeddings.start_stopwatch = lambda: itertools.count().__next__


def answering(change: Callable[[Vectors], Any]) -> Callable[[list[str]], Any]:
    """Make a step of a script: the right vectors, changed."""
    return lambda texts: change(HashingEmbedder().vectors(texts))


def named(memory: Memory, **embedders: Any) -> Memory:
    """Make embedders available by name, as a plugin would."""
    from kipu.plugins.records import PluginInfo

    register = memory.plugins._register("embedder", PluginInfo("test", "kipu-test", "1"))
    for name, factory in embedders.items():
        register(name, factory)
    return memory
