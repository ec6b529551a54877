"""The contract with plugins: the data that flows through Kipu, and the protocols that plugins implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..markdown import read_metadata
from .documents import Chunk, Document, StoredChunk
from .memories import Compacted, Distillation, Filtered, Flushed, Message, Note, Place, Receipt, Trace
from .protocols import (
    Chunker,
    Embedder,
    Flusher,
    Index,
    IndexedStrategy,
    PostProcessor,
    Register,
    Role,
    Strategy,
    VectorIndexedStrategy,
    WriteFilter,
)
from .results import (
    Explanation,
    FileInfo,
    Hit,
    IndexReport,
    Query,
    QueryEmbedding,
    Recall,
    SearchResult,
    SearchResults,
    SkippedFile,
    StageChange,
    Status,
    StrategyScore,
    VectorSpace,
)

if TYPE_CHECKING:
    from .results import Vectors as Vectors

__all__ = [
    "Chunk",
    "Chunker",
    "Compacted",
    "Distillation",
    "Document",
    "Embedder",
    "Explanation",
    "FileInfo",
    "Filtered",
    "Flushed",
    "Flusher",
    "Hit",
    "Index",
    "IndexReport",
    "IndexedStrategy",
    "Message",
    "Note",
    "Place",
    "PostProcessor",
    "Query",
    "QueryEmbedding",
    "Recall",
    "Receipt",
    "Register",
    "Role",
    "SearchResult",
    "SearchResults",
    "SkippedFile",
    "StageChange",
    "Status",
    "StoredChunk",
    "Strategy",
    "StrategyScore",
    "Trace",
    "VectorIndexedStrategy",
    "VectorSpace",
    "WriteFilter",
    "read_metadata",
]
