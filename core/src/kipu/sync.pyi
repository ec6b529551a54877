# The types of sync.py, written by `make reference` from the signatures of `kipu.Memory`.
# [[[cog import cog, generate; cog.out(generate.sync_stub()) ]]]
from .config import MemoryConfig
from .indexing.indexer import ignore_progress
from .plugins.manager import Plugins
from .types import Change, Compacted, FileInfo, Flushed, Index, IndexReport, Listing, Note, PostProcessor, Recall, Receipt, SearchResult, SearchResults, Status, StoredEntry, Strategy
from .watch import Event, FileSummary
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date, timedelta
from pathlib import Path
from typing import Any
import os


class Memory:
    def __enter__(self) -> Memory: ...
    def __exit__(self, *exception: object) -> None: ...
    @property
    def config(self) -> MemoryConfig: ...
    @property
    def plugins(self) -> Plugins: ...
    @property
    def workspace(self) -> Path: ...
    def __init__(
        self,
        workspace: str | os.PathLike[str] | MemoryConfig = ".",
        *,
        scope: str | None = None,
        plugins: Plugins | None = None,
        background: bool = True,
    ) -> None: ...
    def add(self, path: str | os.PathLike[str], force: bool = False) -> IndexReport: ...
    def apply_flush(
        self, reviewed: Flushed | str, *, source: str | None = None, file: str | os.PathLike[str] | None = None
    ) -> Flushed | None: ...
    def changes(self) -> Listing[Change]: ...
    def check(self) -> list[str]: ...
    def check_embedder(self) -> str | None: ...
    def close(self) -> None: ...
    def compact(
        self,
        source: str | None = None,
        older_than: int | timedelta | date | str | None = None,
        *,
        max_tokens: int | None = None,
        model: str | None = None,
        instructions: str | None = None,
        dry_run: bool = False,
    ) -> Compacted | None: ...
    def edit(
        self,
        text: str,
        *,
        id: str | None = None,
        chunk: str | None = None,
        path: str | os.PathLike[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        expected: str | None = None,
        all: bool = False,
    ) -> Note: ...
    def entries(self, source: str | Sequence[str] | None = None, **filters: Any) -> Listing[StoredEntry]: ...
    def files(self, source: str | Sequence[str] | None = None, **filters: Any) -> Listing[FileInfo]: ...
    def flush(
        self,
        conversation: Any,
        *,
        model: str | None = None,
        instructions: str | None = None,
        source: str | None = None,
        file: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
    ) -> Flushed | None: ...
    def forget(
        self,
        *,
        id: str | None = None,
        chunk: str | None = None,
        path: str | os.PathLike[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        expected: str | None = None,
        all: bool = False,
    ) -> Receipt: ...
    def forget_found(
        self,
        query: str,
        confirm: Callable[[SearchResult], bool | Awaitable[bool]],
        *,
        all: bool = False,
        **options: Any,
    ) -> list[Receipt]: ...
    def index(
        self,
        force: bool = False,
        *,
        prune: bool = False,
        on_progress: Callable[[int, int], None] = ignore_progress,
        on_embedding: Callable[[int, int], None] = ignore_progress,
        on_annotating: Callable[[int, int], None] = ignore_progress,
    ) -> IndexReport: ...
    def move(
        self,
        to: str | os.PathLike[str],
        *,
        id: str | None = None,
        chunk: str | None = None,
        path: str | os.PathLike[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        expected: str | None = None,
        all: bool = False,
    ) -> Note: ...
    def open_index(self, strategy: str) -> AbstractContextManager[Any]: ...
    def read(
        self,
        path: str | os.PathLike[str] | None = None,
        start: int | None = None,
        end: int | None = None,
        *,
        id: str | None = None,
        chunk: str | None = None,
        all: bool = True,
    ) -> str: ...
    def recall(self, query: str, *, max_tokens: int = 1500, **options: Any) -> Recall: ...
    def register_postprocessor(self, name: str, postprocessor: PostProcessor) -> None: ...
    def register_strategy(self, name: str, strategy: Strategy) -> None: ...
    def reindex(
        self,
        embedder: str | None = None,
        *,
        force: bool = False,
        on_progress: Callable[[int, int], None] = ignore_progress,
    ) -> IndexReport: ...
    def remember(
        self,
        text: str,
        *,
        source: str | None = None,
        file: str | os.PathLike[str] | None = None,
        heading: str | None = None,
        tags: str | Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        supersedes: str | None = None,
    ) -> Note: ...
    def search(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        strategy: str | None = None,
        relation: bool = True,
        source: str | Sequence[str] | None = None,
        tag: str | Sequence[str] | None = None,
        path: str | os.PathLike[str] | None = None,
        where: Mapping[str, Any] | None = None,
        since: date | str | None = None,
        until: date | str | None = None,
        as_of: date | str | None = None,
        sync: bool | None = None,
        explain: bool = False,
        explain_path: str | None = None,
        on_progress: Callable[[int, int], None] = ignore_progress,
        on_embedding: Callable[[int, int], None] = ignore_progress,
        **options: Any,
    ) -> SearchResults: ...
    def start_watching(
        self,
        on_event: Callable[[Event, str, FileSummary], object] | None = None,
        *,
        on_problem: Callable[[str], object] | None = None,
    ) -> bool: ...
    def status(self) -> Status: ...
    def stop_watching(self) -> None: ...
    def undo(self, change: str | None = None, *, dry_run: bool = False) -> Change: ...
# [[[end]]]
