"""The state of a workspace and of its index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import PluginError
from ..index.annotations import pending_annotations as read_pending
from ..index.coverage import read_coverage
from ..index.queries import count_chunks, file_infos, sources
from ..index.recovery import recovering
from ..indexing.compare import absent_paths, missing_folders
from ..plugins.build import name_of
from ..types import Query, SkippedFile, Status
from ..workspace.paths import find_conflicts
from .reader import IndexReader, has_current_tables
from .service import no_memory

if TYPE_CHECKING:
    from .service import SearchService


@recovering
async def read_status(service: SearchService) -> Status:
    """Return the state of a workspace and of its index, as far as the scope goes.

    :raises IndexUnavailableError: the index cannot be read.
    """
    context, synchronizer = service.context, service.synchronizer
    scope, components, path = context.scope, context.components, context.database.path
    indexer = await synchronizer.indexer(lenient=True)
    pending = await indexer.look()
    notices = absent_paths(context.workspace, pending, scope)
    async with context.database.snapshot() as snapshot:
        files = [file for file in await file_infos(snapshot.connection) if scope.sees(file.path)]
        labels = {
            label: count for label, count in (await sources(snapshot.connection)).items() if scope.sees_source(label)
        }
        chunks = await count_chunks(snapshot.connection, scope.sources)
        coverage = await read_coverage(snapshot.connection, scope.sources)
        vectors = {
            identity: chunks - coverage.lacking.get(known.space.id, 0)
            for identity, known in snapshot.spaces.items()
            if known.space.dimension and (scope.label is None or chunks > coverage.lacking.get(known.space.id, 0))
        }
        described = []
        for each in components.indexed.values():
            if each.has("describe") and has_current_tables(snapshot, each, Query("")):
                try:
                    described.append(await each.describe(IndexReader(context, snapshot, each, {}, notices.append)))
                except PluginError as error:
                    notices.append(str(error))
        space = snapshot.spaces.get(indexer.identity or "")
        pending_vectors = coverage.pending.get(space.space.id, 0) if space else chunks
    problems = [SkippedFile(file.path, file.problem) for file in files if file.problem is not None]
    embedder = components.embedder_choice if components.needs_vectors else None
    if not context.workspace.has_memory:
        notices.append(no_memory(context.workspace.root))
    if embedder is not None and (problem := await synchronizer.embeddings.problem()):
        notices.append(f"Searches use keywords only. {problem}")
    annotator, pending_annotations = None, 0
    try:
        if components.needs_annotations and (chosen := components.annotator()) is not None:
            annotator = chosen.name
            async with context.database.reader() as connection:
                found = await read_pending(connection, await chosen.identity(), scope.sources)
            pending_annotations = sum(map(len, found.values()))
    except PluginError as error:
        notices.append(f"Nothing is annotated. {error}")
    return Status(
        workspace=str(context.workspace.root),
        files=len(files),
        chunks=chunks,
        sources=labels,
        pending=scope.seen(pending.paths),
        skipped=[file for file in pending.scan.skipped if scope.sees_folder(file.path)] + problems,
        missing=[folder for folder in missing_folders(pending) if scope.sees_folder(folder)],
        notices=notices,
        strategy=name_of(components.strategy_choice),
        chunker=name_of(context.config.index.chunker),
        postprocessors=[name_of(choice) for choice in components.postprocessor_choices],
        filters=[name_of(choice) for choice in components.filter_choices],
        index_path=str(path),
        index_bytes=(path.stat().st_size if path.exists() else 0) if scope.label is None else None,
        sqlite=context.database.driver.sqlite_version,
        embedder=None if embedder is None else name_of(embedder),
        pending_vectors=0 if embedder is None else pending_vectors,
        vectors=vectors,
        conflicts=find_conflicts(scope.seen(pending.scan.files)),
        annotator=annotator,
        pending_annotations=pending_annotations,
        described=described,
    )
