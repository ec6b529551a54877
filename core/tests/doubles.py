"""Doubles that are not in `kipu.testing` yet, and those of it under their old names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from kipu import FlushConfig, MemoryConfig, SearchConfig, WritingConfig
from kipu.testing import CombinedStrategy as Both
from kipu.testing import HashingEmbedder
from kipu.testing import ParagraphChunker as Paragraphs
from kipu.testing import VectorStrategy as Nearest
from kipu.testing import WordStrategy as Words
from kipu.types import Distillation, Filtered

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kipu.types import Role, Vectors

__all__ = ["Both", "Hashing", "Nearest", "Other", "Paragraphs", "Words"]


@attrs.define
class Hashing(HashingEmbedder):
    """Does whatever ``misbehave`` makes of it.

    ``misbehave`` is called before each call with its number, from 1, and its texts: what it raises is raised, and what
    it returns other than None is returned.
    """

    misbehave: Any = attrs.field(default=lambda number, texts: None, eq=False, repr=False)

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        vectors = await HashingEmbedder.embed(self, texts, role=role)
        answer = self.misbehave(len(self.calls), list(texts))
        return vectors if answer is None else answer

    def vector(self, text: str) -> list[float]:
        return self.vectors([text])[0].tolist()


KEY = "AKIASECRET"


@attrs.frozen
class Hush:
    """Takes one key out, and what stands behind the word password."""

    def filter(self, text: str, path: str) -> Filtered:
        text = text.replace(KEY, "[redacted: key]")
        head, colon, _ = text.partition("password: ")
        said = f"{head}{colon}[redacted: password]" if colon else text
        found = "[redacted" in said
        return Filtered(said, ["A key was replaced."] if found else [], secret=found)


@attrs.frozen
class Answers:
    """A model that always says the same."""

    text: str = "- a fact"
    tokens: int = 0

    async def distill(self, messages: Any, *, instructions: str, model: str | None = None) -> Distillation:
        return Distillation(self.text, tokens=self.tokens)


def configured(workspace: Path, flusher: Any = None, **flush: Any) -> MemoryConfig:
    """A configuration that takes keys out of what is written, and has a model."""
    return MemoryConfig(
        workspace,
        search=SearchConfig(strategy=Words(), postprocessors=[]),
        writing=WritingConfig(filters=[Hush()]),
        flush=FlushConfig(flusher=flusher or Answers(), **flush),
        timezone="UTC",
    )
