"""A memory that takes keys out of what is written, and has a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from kipu import FlushConfig, MemoryConfig, SearchConfig, WritingConfig
from kipu.testing import ScriptedFlusher, WordStrategy
from kipu.types import Filtered

if TYPE_CHECKING:
    from pathlib import Path

KEY = "AKIASECRET"


@attrs.frozen
class KeyFilter:
    """A write filter that removes one key, and what follows the word password."""

    def filter(self, text: str, path: str) -> Filtered:
        text = text.replace(KEY, "[redacted: key]")
        head, colon, _ = text.partition("password: ")
        redacted = f"{head}{colon}[redacted: password]" if colon else text
        is_secret = "[redacted" in redacted
        return Filtered(redacted, ["A key was replaced."] if is_secret else [], secret=is_secret)


def configured(workspace: Path, flusher: Any = None, **flush: Any) -> MemoryConfig:
    """Configure a memory with the filter; the flusher answers one fact by default."""
    return MemoryConfig(
        workspace,
        search=SearchConfig(strategy=WordStrategy(), postprocessors=[]),
        writing=WritingConfig(filters=[KeyFilter()]),
        flush=FlushConfig(flusher=flusher or ScriptedFlusher(), **flush),
        timezone="UTC",
    )
