"""One search from end to end: bring the index up to date, embed the query, run the pipeline, make results."""

from __future__ import annotations

import contextlib
import posixpath
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import IndexUnavailableError
from ..index.entries import ids_at
from ..index.queries import file_infos, sources
from ..index.recovery import IndexReplacedError, recovering
from ..index.strategy_tables import indexed_strategies, tables_of
from ..markdown import leading_headings
from ..sqlite import sqlite_errors
from ..types import Listing, Query, SearchResult, SearchResults
from ..workspace.paths import MEMORY_FOLDER
from .pipeline import Pipeline, build_pipeline, fallback, run_pipeline
from .query import unknown_source, unmatched_filters
from .reader import IndexReader, has_current_tables
from .snippets import snippet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from ..context import Context
    from ..embedding.query import VectorState
    from ..index.database import Database
    from ..index.queries import Snapshot
    from ..indexing.synchronizer import Synchronizer
    from ..types import Explanation, FileInfo, Hit, Place, VectorSpace

_LONGEST_QUERY = 10_000  # characters, of which each is folded, stemmed and embedded


@attrs.frozen
class SearchService:
    """Searches one memory, as far as its scope goes."""

    context: Context
    synchronizer: Synchronizer
    _pipelines: dict[tuple[str | None, bool, int], Pipeline] = attrs.field(factory=dict, init=False)

    @property
    def database(self) -> Database:
        """The database of the index."""
        return self.context.database

    @recovering
    async def search(
        self,
        query: Query,
        *,
        strategy: str | None,
        relation: bool,
        options: Mapping[str, Any],
        sync: bool,
        explain: bool,
        explain_path: str | None,
        on_progress: Callable[[int, int], None],
        on_embedding: Callable[[int, int], None],
    ) -> SearchResults:
        """Return the results of a query. See `kipu.Memory.search`."""
        if len(query.text) > _LONGEST_QUERY:
            self.context.notices.add(f"Of the query, only the first {_LONGEST_QUERY:,} characters were searched.")
            query = attrs.evolve(query, text=query.text[:_LONGEST_QUERY])
        path = None if explain_path is None else posixpath.normpath(str(explain_path).replace("\\", "/"))
        if path is not None:
            self.context.scope.check(path, explain_path)
        async with self._pipeline(strategy, relation, options) as built:
            pipeline = built
            update = await self.synchronizer.before_search(sync=sync, on_progress=on_progress)
            pending_vectors, degraded = 0, False
            if pipeline.needs_vectors:
                engine = self.synchronizer.embeddings
                pending_vectors, state = await engine.embed_before_search(embed=sync, on_progress=on_embedding)
                query, degraded = await self._embedded(query, pipeline, state)
                if query.embedding is None and pipeline.strategy.needs_vectors:
                    pipeline = fallback(self.context, pipeline)
            async with self.context.database.snapshot() as snapshot:
                if update.index_id not in ("", snapshot.index_id):  # that one was up to date, and this one may be empty
                    raise IndexReplacedError("The index was replaced during the search. Search again.")
                trace = await run_pipeline(self.context, snapshot, query, pipeline)
                explanations, absence = {}, None
                if explain:
                    from .explain import explain as explain_hits

                    explanations = explain_hits(trace)
                if path is not None:
                    from .explain import why_absent

                    absence = await why_absent(self.context, snapshot, query, pipeline, trace, path)
                ids = await self._ids(snapshot, trace.hits)
                await self.add_notices(snapshot, query, found=bool(trace.hits))
                if pending_vectors and query.embedding is not None:
                    await self._add_pending(query.embedding.space, pending_vectors)
        if not trace.hits:
            from .status import read_status

            skipped = [f"skipped {file.path}: {file.reason}" for file in (await read_status(self)).skipped]
            more = [f"... and {len(skipped) - 3:,} more: kipu status --verbose"] if len(skipped) > 3 else []
            self.context.notices.add(*skipped[:3], *more)
        return SearchResults(
            [
                _result(hit, id, query, trace.also_in.get(hit.chunk.id, ()), explanations.get(hit.chunk.id))
                for hit, id in zip(trace.hits, ids, strict=True)
            ],
            pending=update.pending,
            stale=update.stale,
            degraded=degraded or trace.degraded,
            pending_vectors=pending_vectors,
            absence=absence,
        )

    async def _ids(self, snapshot: Snapshot, hits: Sequence[Hit]) -> list[str | None]:
        """Return for each hit the id of the entry that its lines, below any headings, are of."""
        chunks = [hit.chunk for hit in hits]
        places = [(each.path, each.start_line + leading_headings(each.text), each.end_line) for each in chunks]
        return await ids_at(snapshot.connection, places, self.context.scope.sources)

    @contextlib.asynccontextmanager
    async def reading(
        self, open_index: Callable[[], Awaitable[tuple[contextlib.AsyncExitStack, IndexReader]]]
    ) -> AsyncIterator[IndexReader]:
        """Yield an index for reading, which is set aside if it turns out to be damaged."""
        stack, index = await open_index()
        try:
            async with contextlib.aclosing(stack):  # an error of the caller is none of the connection
                yield index
        except sqlite_errors() as error:
            await self.database.recover(error)
            raise IndexUnavailableError(
                f"The index could not be read: {error}. If it was damaged, the next call rebuilds it."
            ) from error

    @recovering
    async def open_index(self, strategy: str) -> tuple[contextlib.AsyncExitStack, IndexReader]:
        """Return the index for a strategy, up to date, and what closes it. See `kipu.Memory.open_index`."""
        chosen = self.context.components.strategy_alone(strategy)
        update = await self.synchronizer.before_search(sync=self.context.config.search.sync)
        async with contextlib.AsyncExitStack() as stack:
            snapshot = await stack.enter_async_context(self.database.snapshot())
            if update.index_id not in ("", snapshot.index_id):
                raise IndexReplacedError("The index was replaced while it was opened. Try again.")
            if not snapshot.index_id:  # an empty one, in memory
                for tables in tables_of(snapshot, indexed_strategies({strategy: chosen}), None):
                    await tables.create(snapshot.connection)
            elif not has_current_tables(snapshot, chosen, Query("")):
                raise IndexUnavailableError(
                    f'The strategy "{strategy}" has no index yet. Another process may be writing it. Try: kipu index'
                )
            reader = IndexReader(self.context, snapshot, chosen, {}, self.context.notices.add)
            await stack.enter_async_context(reader)
            return stack.pop_all(), reader

    @contextlib.asynccontextmanager
    async def _pipeline(
        self, strategy: str | None, relation: bool, options: Mapping[str, Any]
    ) -> AsyncIterator[Pipeline]:
        """Yield the pipeline of a search: with options a new one, else that of an earlier search."""
        known = None if options else self._pipelines.get((strategy, relation, self.context.components.generation))
        pipeline = known or build_pipeline(self.context, strategy, options, relation=relation)
        if not options:
            self._pipelines[strategy, relation, self.context.components.generation] = pipeline
        try:
            yield pipeline
        finally:
            for adapter in pipeline.temporary:
                await adapter.close()

    @recovering
    async def files(self, query: Query) -> Listing[FileInfo]:
        """Return the files that the index knows. See `kipu.Memory.files`."""
        await self.synchronizer.before_search(sync=True, lenient=True)
        async with self.context.database.snapshot() as snapshot:
            found = [
                file for file in await file_infos(snapshot.connection, query) if self.context.scope.sees(file.path)
            ]
            await self.add_notices(snapshot, query, found=bool(found))
        return Listing(found)

    async def _embedded(self, query: Query, pipeline: Pipeline, state: VectorState | None) -> tuple[Query, bool]:
        """Return the query with its embedding, if it can be embedded, and whether the search is degraded."""
        embedding, degraded = await self.synchronizer.embeddings.queries.embed(query.text, state)
        if embedding is None and not degraded and self.context.components.embedder_choice is None:
            degraded = pipeline.strategy.needs_vectors
            if degraded:
                self.context.notices.add(
                    f'The strategy "{pipeline.name}" needs an embedder, and none is installed, so this search went by '
                    "words. Install the offline one with: pip install kipu"
                )
        return attrs.evolve(query, embedding=embedding), degraded

    async def _add_pending(self, space: VectorSpace, pending: int) -> None:
        """Say how many chunks have no vector yet."""
        # If an earlier embedder answers, a notice has said so, and what is pending.
        if space.identity == await self.synchronizer.embeddings.identity():
            chunks = "1 chunk is" if pending == 1 else f"{pending:,} chunks are"
            is_running = self.synchronizer.embeddings.is_in_background
            rest = "That goes on in the background." if is_running else "To embed all: kipu index"
            self.context.notices.add(f"{chunks} not embedded yet, and found by keywords only. {rest}")

    async def add_notices(self, snapshot: Snapshot, query: Query, *, found: bool) -> None:
        """Say if there is no such source, tag or property, or no memory at all."""
        unknown: list[str] = []
        if query.sources and self.context.scope.label is None:
            known = await sources(snapshot.connection)
            above = {label.partition("/")[0] for label in known}  # archive, external
            unknown = [source for source in query.sources if source not in known and source not in above]
            self.context.notices.add(*(unknown_source(source, known) for source in unknown))
        if not found and not unknown:
            self.context.notices.add(*await unmatched_filters(snapshot.connection, query))
        if not found and not self.context.workspace.has_memory:
            self.context.notices.add(no_memory(self.context.workspace.root))


def no_memory(root: Path) -> str:
    """Return a sentence for a workspace without memory files."""
    if root.name == MEMORY_FOLDER:  # its user may have named the folder of the memories themselves
        return f"{root} has no folder memory/. If it is that folder, the workspace is the folder above: {root.parent}"
    return f"There is no memory here yet: {root} has no folder memory/. Create one with: kipu init"


def _result(
    hit: Hit, id: str | None, query: Query, also_in: Sequence[Place], explanation: Explanation | None
) -> SearchResult:
    """Return what the caller gets for a hit."""
    chunk = hit.chunk
    return SearchResult(
        path=chunk.path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        score=round(max(hit.score, 1e-6), 6),  # whatever a post-processor lowers, a result has one
        scores={name: round(score, 6) for name, score in hit.scores.items()},
        snippet=snippet(chunk.text, query.text),
        text=chunk.text,
        source=chunk.source,
        heading=chunk.heading,
        heading_level=chunk.heading_level,
        chunk=chunk.chunk,
        id=id,
        metadata=chunk.metadata,
        outdated=hit.outdated,
        also_in=tuple(also_in),
        why=hit.why,
        chain=hit.chain,
        explanation=explanation,
    )
