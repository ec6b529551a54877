"""Annotating what strategies need annotations of: a batch at a time, each stored before the next, within the budget.

A batch that fails is tried text by text. What fails is named and stays pending; a run ends where the annotator does not
answer, or fails again and again.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import attrs

from ..embedding.client import BACKOFF_SECONDS, is_away, retry
from ..embedding.lock import exclusive
from ..errors import AnnotatorBusyError, AnnotatorError, BudgetExceededError, PluginError
from ..index.annotations import (
    annotated_text,
    annotation_hash,
    evict_annotations,
    pending_annotations,
    store_annotations,
)
from ..index.database import BUSY_SECONDS
from ..index.queries import load_chunks
from ..index.recovery import recovering
from ..index.strategy_tables import change, rebuild, stale_tables
from ..search.tokens import count_tokens
from .budget import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..index.queries import Snapshot
    from ..index.strategy_tables import Select
    from ..keeping.writer import Writer
    from ..plugins.adapters import AnnotatorAdapter
    from ..types import IndexReport, StoredChunk

_LONGEST = 65_536  # characters of an annotation
_LARGEST_BATCH = 64
_MAX_FAILURES = 5  # in a row
_NAMED_PROBLEMS = 5


@recovering
async def annotate(writer: Writer, report: IndexReport, on_progress: Callable[[int, int], None]) -> None:
    """Annotate everything in the scope that is pending, and count it in the report.

    :param on_progress: called with the number of texts done and of all that are pending.
    """
    context, annotator = writer.context, writer.context.components.annotator()
    if annotator is None:
        return
    if not context.components.needs_annotations:
        context.notices.add(f'No strategy in use needs annotations: the annotator "{annotator.name}" is not called.')
        return
    try:
        run = _Run(writer, annotator, await annotator.identity())
        async with exclusive(context.database.path, 0.0, "annotating") as has_lock:
            before = sum(map(len, (await run.pending()).values()))
            if has_lock:
                await run.annotate_all(on_progress)
            elif before:
                context.notices.add("Another process is annotating: what is pending is left to it.")
            report.pending_annotations = sum(map(len, (await run.pending()).values()))
        report.annotated = max(0, before - report.pending_annotations)
    except PluginError as error:
        context.notices.add(f"Nothing was annotated. {error}")


@attrs.define
class _Run:
    """A run of one annotator over what it has not annotated yet."""

    writer: Writer
    annotator: AnnotatorAdapter
    identity: str
    problems: list[str] = attrs.field(factory=list, init=False)

    async def pending(self) -> dict[str, list[int]]:
        """Return the chunks that are pending, newest first, by the hash of their text."""
        async with self.writer.database.reader() as connection:
            return await pending_annotations(connection, self.identity, self.writer.context.scope.sources)

    async def annotate_all(self, on_progress: Callable[[int, int], None]) -> None:
        """Annotate and store what is pending, until the annotator does not answer or the budget is used up."""
        context, pending = self.writer.context, await self.pending()
        hashes, size, failures = list(pending), min(self.annotator.batch_size, _LARGEST_BATCH), 0
        queue = [hashes[start : start + size] for start in range(0, len(hashes), size)][::-1]
        while queue:
            on_progress(len(hashes) - sum(map(len, queue)), len(hashes))
            batch = queue.pop()
            async with context.database.reader() as connection:
                chunks = await load_chunks(connection, [pending[hash][0] for hash in batch])
            try:
                if chunks:  # else they were removed since
                    await self._annotate(list(chunks.values()))
                failures = 0
            except (PluginError, BudgetExceededError) as error:
                failures += 1
                if _ends_run(error, failures) or (len(batch) == 1 and isinstance(error, BudgetExceededError)):
                    reason = str(error).removesuffix(".")
                    context.notices.add(f"{reason}. What is not annotated yet is left to the next indexing.")
                    break
                if len(batch) == 1:
                    self._add_problem(next(iter(chunks.values())), str(error))
                else:
                    queue += [[hash] for hash in reversed(batch)]
        if hashes:
            on_progress(len(hashes) - sum(map(len, queue)), len(hashes))
            async with context.database.transaction() as connection:
                await evict_annotations(connection, context.config.index.cache_bytes)
        context.notices.add(*self.problems[:_NAMED_PROBLEMS])
        if (more := len(self.problems) - _NAMED_PROBLEMS) > 0:
            context.notices.add(f"... and {more} more were not annotated.")

    async def _annotate(self, chunks: Sequence[StoredChunk]) -> None:
        """Annotate chunks, and store the annotations, "" for what cannot be used."""
        annotations: dict[str, str] = {}
        for chunk, answer in zip(chunks, await self._ask(chunks), strict=True):
            annotation = annotations[annotation_hash(chunk.heading, chunk.text)] = _json_object(answer)
            if not annotation:
                self._add_problem(chunk, f"it returned no JSON object of at most {_LONGEST:,} characters")

        async def work(snapshot: Snapshot, select: Select) -> None:
            tables = [each for each in select(snapshot) if each.space is None and each.strategy.needs_annotations]
            for each in stale_tables(snapshot, tables):
                await rebuild(snapshot.connection, each)
            ids = await store_annotations(snapshot.connection, self.identity, annotations)
            annotated = list((await load_chunks(snapshot.connection, ids)).values())
            for each in tables:
                await each.remove(snapshot.connection, ids)
                await each.add_chunks(snapshot.connection, annotated)

        indexer = await self.writer.synchronizer.indexer(lenient=True)
        await change(self.writer.database, indexer.tables, work, self.writer.context.notices, BUSY_SECONDS)

    async def _ask(self, chunks: Sequence[StoredChunk]) -> list[str]:
        """Return the answers to chunks. What leaves this machine is filtered first, and counted in the budget."""
        texts = [annotated_text(chunk.heading, chunk.text) for chunk in chunks]
        if self.annotator.destination is None:
            return await retry(lambda: self.annotator.annotate(texts), BACKOFF_SECONDS)
        budget, overhead = Budget(self.writer.context), count_tokens(str(self.annotator.optional("instructions")))
        where = "In what is sent to the annotator: "
        pairs = zip(texts, chunks, strict=True)
        sent = [await self.writer.filter(text, chunk.path, where=where) for text, chunk in pairs]

        async def attempt() -> list[str]:
            await asyncio.to_thread(budget.spend, len(sent), sum(overhead + count_tokens(text) for text in sent))
            return await self.annotator.annotate(sent)

        answers = await retry(attempt, BACKOFF_SECONDS)
        await asyncio.to_thread(budget.spend, 0, sum(map(count_tokens, answers)), check=False)
        return answers

    def _add_problem(self, chunk: StoredChunk, problem: str) -> None:
        place, problem = f"{chunk.path}:{chunk.start_line}", problem.removesuffix(".")
        self.problems.append(f'{place} was not annotated by "{self.annotator.name}": {problem}.')


def _ends_run(error: Exception, failures: int) -> bool:
    """Return whether other texts would not fare better."""
    is_passing = isinstance(error, (AnnotatorError, BudgetExceededError)) and not isinstance(error, AnnotatorBusyError)
    return not is_passing or is_away(error) or failures >= _MAX_FAILURES


def _json_object(answer: str) -> str:
    """Return an answer as it is stored, "" if it is no JSON object that every strategy can read."""
    try:
        value = json.loads(answer) if len(answer) <= _LONGEST else None
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        return text if isinstance(value, dict) and text.encode("utf-8") else ""
    except (ValueError, RecursionError):
        return ""
