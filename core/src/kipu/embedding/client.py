"""Asks an embedder for vectors: checks what it answers, tries again what may pass by itself, and stops in time.

What an embedder raises says what to do. `TextTooLongError`: the text is split, and its vector is the mean of those of
its parts. `EmbedderBusyError`: a few more attempts, with longer and longer waits. Anything else: nothing more is asked
in this run, since the next text would fare no better.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import attrs

from ..errors import EmbedderBusyError, EmbedderError, KipuError, TextTooLongError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..plugins.adapters import EmbedderAdapter
    from ..types import Role, Vectors

__all__ = ["BACKOFF_SECONDS", "LONGEST_QUERY", "Asking", "embedding_text", "unknown_share"]

BACKOFF_SECONDS = (0.5, 1.0, 2.0)
"""How long to wait before each further attempt, at least; after the last one, embedding stops for this run."""

LONGEST_QUERY = 8_000
"""How many characters of a query are embedded at most: about as much as the largest models take."""

_LONGEST_WAIT_SECONDS = 30.0
# A model that finds even this too long, in characters, would find everything too long. One syllable of Korean can be
# three word pieces, so 200 characters may well be too many.
_SHORTEST_TEXT = 40
# Far below the length of any vector that means something, and far above the noise of float32.
_SMALLEST_NORM = 1e-6


def embedding_text(heading: str, context: str, text: str) -> str:
    """What is embedded of a chunk: its text, and what it takes to understand it."""
    return "\n".join(part for part in (heading, context, text) if part)


@attrs.frozen
class Asking:
    """How an embedder is asked: under which name it appears in messages, and how patiently.

    ``dimension`` is that of the vectors that there are already, None before the first; ``backoff`` the seconds to wait
    before each further attempt.
    """

    name: str
    embedder: EmbedderAdapter
    dimension: int | None = None
    backoff: Sequence[float] = ()

    async def vectors(self, texts: Sequence[str], role: Role) -> list[Vectors | str]:
        """A vector of length 1 for each text, or a sentence that says what is wrong with the one that came.

        :raises EmbedderError: the embedder cannot go on.
        """
        try:
            rows = await self._patiently(texts, role)
        except TextTooLongError as error:
            return await self._vectors_of_parts(texts, role, error)
        checked = [self._checked(row) for row in rows]
        if texts and all(isinstance(row, str) for row in checked) and len(texts) > 1:
            raise EmbedderError(f'The embedder "{self.name}" gives no vector that can be used: {checked[0]}.')
        return checked

    async def query(self, text: str) -> tuple[Vectors | str, str]:
        """The vector of a query, or what is wrong with it; and as much of the query, from its beginning, as it is of.

        While it is too long it is halved. The end is not asked for: that would cost a call for each of its parts.

        :raises EmbedderError: the embedder cannot go on.
        """
        said = text[:LONGEST_QUERY]
        while True:
            try:
                rows = await self._patiently([said], "query")
            except TextTooLongError as error:
                if len(said) < _SHORTEST_TEXT:
                    raise self._too_long(said, error) from error
                said = said[: _middle(said)]
            else:
                return self._checked(rows[0]), said

    async def _patiently(self, texts: Sequence[str], role: Role) -> Vectors:
        for delay in (*self.backoff, None):
            try:
                return await self._once(texts, role)
            except EmbedderBusyError as error:
                wait = max(delay or 0.0, error.retry_after or 0.0)
                if delay is None or wait > _LONGEST_WAIT_SECONDS:
                    raise
            await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    async def _once(self, texts: Sequence[str], role: Role) -> Vectors:
        """One call. What is wrong with all of its answer is an error of the embedder."""
        rows = await self.embedder.embed(texts, role=role)
        if rows.shape[1] != (self.dimension or rows.shape[1]):
            raise EmbedderError(
                f'The embedder "{self.name}" returned vectors of dimension {rows.shape[1]}, and those that the index '
                f"has of it are of dimension {self.dimension}: they cannot be compared. If the model behind its name "
                "is another now, have everything embedded anew (kipu reindex --force)."
            )
        return rows

    @staticmethod
    def _checked(row: Vectors) -> Vectors | str:
        import numpy as np

        if not np.isfinite(row).all():
            return "the vector has NaN or infinite numbers in it"
        exact = row.astype(np.float64)  # whose square may be more than float32 holds
        norm = float(np.linalg.norm(exact))
        if norm < _SMALLEST_NORM:
            return "the vector is zero"
        return (exact / norm).astype(np.float32)

    # --- texts that are too long -----------------------------------------------------------------------------------

    async def _vectors_of_parts(self, texts: Sequence[str], role: Role, error: TextTooLongError) -> list[Vectors | str]:
        """Embed the texts that fit as they are, and the others in parts."""
        if len(texts) == 1:
            return [await self._mean_of_halves(texts[0], role, error)]
        long = {position for position in error.positions or () if 0 <= position < len(texts)}
        if not long:  # it does not say which: most likely the longest, which tells at once if nothing is short enough
            longest = max(range(len(texts)), key=lambda position: len(texts[position]))
            (vector,) = await self.vectors([texts[longest]], role)
            rest = [text for position, text in enumerate(texts) if position != longest]
            middle = len(rest) // 2
            others = [await self.vectors(half, role) for half in (rest[:middle], rest[middle:]) if half]
            vectors = [each for half in others for each in half]
            return [*vectors[:longest], vector, *vectors[longest:]]
        short = [text for position, text in enumerate(texts) if position not in long]
        fitting = iter(await self.vectors(short, role) if short else [])
        return [
            await self._mean_of_halves(text, role, error) if position in long else next(fitting)
            for position, text in enumerate(texts)
        ]

    async def _mean_of_halves(self, text: str, role: Role, error: TextTooLongError) -> Vectors | str:
        """The mean of the vectors of both halves of a text, each as long as its half."""
        if len(text) < _SHORTEST_TEXT:
            raise self._too_long(text, error) from error
        cut = _middle(text)
        halves = [text[:cut], text[cut:]]
        vectors = [*await self.vectors(halves[:1], role), *await self.vectors(halves[1:], role)]
        first, second = vectors
        if isinstance(first, str) or isinstance(second, str):
            return first if isinstance(first, str) else second
        return self._checked(first * len(halves[0]) + second * len(halves[1]))

    def _too_long(self, text: str, error: TextTooLongError) -> EmbedderError:
        return EmbedderError(
            f'The embedder "{self.name}" refuses even {len(text)} characters as too long: it is hardly their length. '
            f"{error}"
        )


def _middle(text: str) -> int:
    """Where to halve a text: at a space, if there is one before the middle."""
    middle = len(text) // 2
    space = text.rfind(" ", middle // 2, middle)
    return space if space > 0 else middle


async def unknown_share(embedder: EmbedderAdapter, text: str, notices: list[str]) -> float | None:
    """Return the share of a text that an embedder does not know; add a sentence if it cannot tell."""
    try:
        return await embedder.unknown_share(text)
    except KipuError as error:
        notices.append(str(error))
        return None
