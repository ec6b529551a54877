"""The contract with plugins: the data that flows through Kipu, and the protocols that plugins implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..markdown import read_metadata
from .documents import Chunk, Document, StoredChunk
from .memories import Compacted, Distillation, Filtered, Flushed, Message, Note, Place, Receipt, Trace
from .protocols import (
    Arms,
    Chunker,
    ChunkerBase,
    Embedder,
    EmbedderBase,
    Flusher,
    FlusherBase,
    Index,
    IndexedStrategy,
    PostProcessor,
    PostProcessorBase,
    Register,
    Role,
    Strategy,
    StrategyBase,
    VectorIndexedStrategy,
    WriteFilter,
    WriteFilterBase,
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
    "Arms",
    "Chunk",
    "Chunker",
    "ChunkerBase",
    "Compacted",
    "Distillation",
    "Document",
    "Embedder",
    "EmbedderBase",
    "Explanation",
    "FileInfo",
    "Filtered",
    "Flushed",
    "Flusher",
    "FlusherBase",
    "Hit",
    "Index",
    "IndexReport",
    "IndexedStrategy",
    "Message",
    "Note",
    "Place",
    "PostProcessor",
    "PostProcessorBase",
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
    "StrategyBase",
    "StrategyScore",
    "Trace",
    "VectorIndexedStrategy",
    "VectorSpace",
    "WriteFilter",
    "WriteFilterBase",
    "read_metadata",
]
