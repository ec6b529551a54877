"""Embeds queries, in the space that covers most chunks: while a new embedder catches up, an earlier one answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..errors import EmbedderError, KipuError, PluginError
from ..index.coverage import read_coverage
from ..index.strategy_tables import tables_of
from ..types import QueryEmbedding
from .client import EmbedderClient
from .languages import foreign_share

if TYPE_CHECKING:
    from ..context import Context
    from ..index.coverage import Coverage
    from ..index.queries import Snapshot
    from ..index.vectors import KnownSpace
    from ..types import VectorSpace
    from .client import Pauses
    from .identity import ConfiguredEmbedder, Embedders


@attrs.frozen
class VectorState:
    """The spaces of the index, and how far they cover the chunks of a scope."""

    snapshot: Snapshot
    coverage: Coverage

    @classmethod
    async def read(cls, context: Context) -> VectorState:
        """Read the state of the index, as far as the scope goes."""
        async with context.database.snapshot() as snapshot:
            return cls(snapshot, await read_coverage(snapshot.connection, context.scope.sources))

    def pending(self, embedder: ConfiguredEmbedder | None) -> int:
        """Return how many chunks an embedder has not embedded; without one, all."""
        known = self.snapshot.spaces.get(embedder.identity) if embedder else None
        return self.coverage.pending.get(known.space.id, 0) if known else self.coverage.chunks

    def lacking(self, known: KnownSpace | None) -> int:
        """Return how many chunks have no vector in a space; without one, all."""
        return self.coverage.lacking.get(known.space.id, 0) if known else self.coverage.chunks


@attrs.frozen
class QueryEmbedder:
    """Embeds the queries of one memory. What a search cannot do by meaning is a notice."""

    context: Context
    embedders: Embedders
    pauses: Pauses

    async def embed(self, text: str, state: VectorState | None) -> tuple[QueryEmbedding | None, bool]:
        """Return the embedding of a query, None if there is none, and whether the configured embedder failed.

        Nothing is embedded without an embedder, for an empty index, or for a query without letters and digits.

        :param state: the state of the index; None if there is no embedder, or it cannot be built.
        """
        try:
            configured = await self.embedders.configured()
        except PluginError as error:
            return self._by_words(str(error))
        if configured is None or state is None or not state.coverage.chunks or not any(map(str.isalnum, text)):
            return None, False
        own = state.snapshot.spaces.get(configured.identity)
        own = own if own and own.space.dimension else None
        awaited = state.coverage.awaited.get(own.space.id, 0) if own else state.coverage.chunks
        answering = await self._earlier(configured, own, state) if awaited else None
        reason = self.pauses.reason(configured)
        if answering is not None:
            name = f'"{answering[0].name}"' if answering[0].name != configured.name else "the previous model"
            self.context.notices.add(
                f'The embedder changed. Until "{configured.name}" has embedded the remaining '
                f"{state.lacking(own):,} of {state.coverage.chunks:,} chunks, {name} answers. "
                f"{reason or 'To embed them now: kipu index'}"
            )
        elif own is None or state.lacking(own) == state.coverage.chunks:
            return self._by_words(reason or "Nothing is embedded yet: kipu index")
        else:
            answering = configured, own.space
        embedding = await self._embed(*answering, text)
        return embedding, embedding is None or bool(reason)

    async def _earlier(
        self, configured: ConfiguredEmbedder, own: KnownSpace | None, state: VectorState
    ) -> tuple[ConfiguredEmbedder, VectorSpace] | None:
        """Return the earlier embedder whose space covers more chunks than that of the configured one, if any.

        Only spaces count that still have the tables of strategies, if strategies need some.
        """
        strategies = self.context.components.indexed
        needs_tables = any(each.needs_vectors for each in strategies.values())
        has_tables = {each.space for each in tables_of(state.snapshot, strategies, None)}
        spaces = [
            known
            for known in state.snapshot.spaces.values()
            if known != own and known.space.dimension and (not needs_tables or known.space in has_tables)
        ]
        for known in sorted(spaces, key=state.lacking):
            if state.lacking(known) >= state.lacking(own):
                return None
            embedder = await self.embedders.earlier(known.recipe, known.space.identity, configured)
            if embedder is not None:
                return embedder, known.space
        return None

    async def _embed(self, embedder: ConfiguredEmbedder, space: VectorSpace, text: str) -> QueryEmbedding | None:
        if reason := self.pauses.reason(embedder):
            return self._by_words(reason)[0]
        client = EmbedderClient(embedder.name, embedder.embedder, space.dimension)
        try:
            vector, embedded = await client.query(text)
        except EmbedderError as error:
            return self._by_words(self.pauses.add(embedder, error))[0]
        if isinstance(vector, str):
            return self._by_words(f'"{embedder.name}" could not embed the query: {vector}.')[0]
        if len(embedded) < len(text):
            self.context.notices.add(
                f"The query is long: by meaning, its first {len(embedded):,} characters were searched for."
            )
        unknown = foreign_share(text, embedder.embedder.languages)
        try:
            unknown = max(unknown, await embedder.embedder.unknown_share(embedded) or 0.0)
        except KipuError as error:
            self.context.notices.add(str(error))
        return QueryEmbedding(space, vector, unknown)

    def _by_words(self, reason: str) -> tuple[None, bool]:
        self.context.notices.add(f"This search used keywords only. {reason}")
        return None, True
