"""Memory for AI agents that people can read: Markdown files, and an index that finds what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .config import (
        FilesConfig,
        FlushConfig,
        IndexConfig,
        MemoryConfig,
        PluginsConfig,
        SearchConfig,
        SyncConfig,
        WritingConfig,
    )
    from .errors import KipuError
    from .hookspecs import hookimpl
    from .memory import Memory
    from .types import (
        Chunk,
        Compacted,
        Document,
        FileInfo,
        Flushed,
        Hit,
        IndexReport,
        Note,
        Query,
        Recall,
        Receipt,
        SearchResult,
        SearchResults,
        Status,
    )

_MODULES = {"KipuError": "errors", "Memory": "memory", "hookimpl": "hookspecs"}  # of names that are no data

__all__ = [
    "Chunk",
    "Compacted",
    "Document",
    "FileInfo",
    "FilesConfig",
    "FlushConfig",
    "Flushed",
    "Hit",
    "IndexConfig",
    "IndexReport",
    "KipuError",
    "Memory",
    "MemoryConfig",
    "Note",
    "PluginsConfig",
    "Query",
    "Recall",
    "Receipt",
    "SearchConfig",
    "SearchResult",
    "SearchResults",
    "Status",
    "SyncConfig",
    "WritingConfig",
    "__version__",
    "hookimpl",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that a plugin's ``from kipu import hookimpl`` costs little."""
    if name not in __all__:
        raise AttributeError(f"module 'kipu' has no attribute {name!r}")
    from importlib import import_module

    home = "config" if name.endswith("Config") else _MODULES.get(name, "types")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
