"""The contract with plugins: the data that flows through Kipu, and the protocols that plugins implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..markdown import read_metadata
from .documents import Chunk, Document, StoredChunk
from .memories import Compacted, Distillation, Flushed, Message, Note, Place, Prepared, Receipt, Trace
from .protocols import (
    Chunker,
    Embedder,
    Flusher,
    Index,
    IndexedStrategy,
    PostProcessor,
    Preparer,
    Register,
    Role,
    Strategy,
    VectorIndexedStrategy,
)
from .results import (
    ArmScore,
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
    VectorSpace,
)

if TYPE_CHECKING:
    from .results import Vectors as Vectors

__all__ = [
    "ArmScore",
    "Chunk",
    "Chunker",
    "Compacted",
    "Distillation",
    "Document",
    "Embedder",
    "Explanation",
    "FileInfo",
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
    "Prepared",
    "Preparer",
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
    "Trace",
    "VectorIndexedStrategy",
    "VectorSpace",
    "read_metadata",
]
