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

_HOME = {
    "Chunk": "types",
    "Compacted": "types",
    "Document": "types",
    "FileInfo": "types",
    "FilesConfig": "config",
    "FlushConfig": "config",
    "Flushed": "types",
    "Hit": "types",
    "IndexConfig": "config",
    "IndexReport": "types",
    "KipuError": "errors",
    "Memory": "memory",
    "MemoryConfig": "config",
    "Note": "types",
    "PluginsConfig": "config",
    "Query": "types",
    "Recall": "types",
    "Receipt": "types",
    "SearchConfig": "config",
    "SearchResult": "types",
    "SearchResults": "types",
    "Status": "types",
    "SyncConfig": "config",
    "WritingConfig": "config",
    "hookimpl": "hookspecs",
}

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
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'kipu' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
