"""Embeds queries, in the space that covers most chunks: while a new embedder catches up, an earlier one answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..errors import EmbedderError, KipuError, PluginError
from ..index.strategy_tables import tables_of
from ..index.vectors import count_pending
from ..types import QueryEmbedding
from .client import EmbedderClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..context import Context
    from ..index.vectors import KnownSpace
    from ..types import VectorSpace
    from .client import Pauses
    from .identity import ConfiguredEmbedder, Embedders

__all__ = ["QueryEmbedder"]


@attrs.frozen
class _Coverage:
    """A space, and how many chunks have no vector in it."""

    known: KnownSpace
    lacking: int


@attrs.frozen
class QueryEmbedder:
    """Embeds the queries of one memory. What a search cannot do by meaning is a notice."""

    context: Context
    embedders: Embedders
    pauses: Pauses

    async def embed(self, text: str) -> tuple[QueryEmbedding | None, bool]:
        """Return the embedding of a query, None if there is none, and whether the configured embedder failed.

        Nothing is embedded without an embedder, for an empty index, or for a query without letters and digits.
        """
        try:
            configured = await self.embedders.configured()
        except PluginError as error:
            return self._by_words(str(error))
        if configured is None or not any(map(str.isalnum, text)):
            return None, False
        chunks, awaited, spaces = await self._coverage(configured)
        if not chunks:
            return None, False
        own = next((each for each in spaces if each.known.space.identity == configured.identity), None)
        answering = await self._earlier(configured, own, spaces, chunks) if own is None or awaited else None
        reason = self.pauses.reason(configured)
        if answering is not None:
            name = f'"{answering[0].name}"' if answering[0].name != configured.name else "the previous model"
            self.context.notices.add(
                f'The embedder changed. Until "{configured.name}" has embedded the remaining '
                f"{own.lacking if own else chunks:,} of {chunks:,} chunks, {name} answers. "
                f"{reason or 'To embed them now: kipu index'}"
            )
        elif own is None or own.lacking == chunks:
            return self._by_words(reason or "Nothing is embedded yet: kipu index")
        else:
            answering = configured, own.known.space
        embedding = await self._embed(*answering, text)
        return embedding, embedding is None or bool(reason)

    async def _coverage(self, configured: ConfiguredEmbedder) -> tuple[int, int, list[_Coverage]]:
        """Return the number of chunks, how many of them are still to be embedded, and the spaces that can answer.

        Those are the space of the configured embedder, and earlier ones that still have the tables of strategies.
        """
        async with self.context.database.snapshot() as snapshot:
            chunks = awaited = await count_pending(snapshot.connection, None)
            strategies = self.context.components.indexed
            has_tables = {each.space for each in tables_of(snapshot, strategies, None)}
            needs_tables = any(each.needs_vectors for each in strategies.values())
            spaces = []
            for identity, known in snapshot.spaces.items():
                if identity == configured.identity:
                    awaited = await count_pending(snapshot.connection, known.space, refused=False, only_lacking=True)
                elif needs_tables and known.space not in has_tables:
                    continue
                if known.space.dimension:
                    lacking = await count_pending(snapshot.connection, known.space, only_lacking=True)
                    spaces.append(_Coverage(known, lacking))
        return chunks, awaited, spaces

    async def _earlier(
        self, configured: ConfiguredEmbedder, own: _Coverage | None, spaces: Sequence[_Coverage], chunks: int
    ) -> tuple[ConfiguredEmbedder, VectorSpace] | None:
        """Return the earlier embedder whose space covers more chunks than that of the configured one, if any."""
        for each in sorted(spaces, key=lambda each: each.lacking):
            if each.lacking >= (own.lacking if own else chunks):
                return None
            embedder = await self.embedders.earlier(each.known.recipe, each.known.space.identity, configured)
            if embedder is not None:
                return embedder, each.known.space
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
        share = None
        try:
            share = await embedder.embedder.unknown_share(embedded)
        except KipuError as error:
            self.context.notices.add(str(error))
        return QueryEmbedding(space, vector, embedder.embedder.languages, share)

    def _by_words(self, reason: str) -> tuple[None, bool]:
        self.context.notices.add(f"This search went by words. {reason}")
        return None, True
