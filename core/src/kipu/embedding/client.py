"""One embedder as a client sees it: retries with back-off, splits texts that are too long, checks vectors, pauses.

What an embedder raises decides what follows. `TextTooLongError`: the text is split, and its vector is the mean of those
of its parts. `EmbedderBusyError`: a few more attempts with growing waits. Any other error: no further attempt.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

import attrs

from ..errors import AnnotatorBusyError, EmbedderBusyError, EmbedderError, TextTooLongError, UnavailableError
from ..markdown import is_entry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ..plugins.adapters import EmbedderAdapter
    from ..types import Role, Vectors
    from .identity import ConfiguredEmbedder

Answer = TypeVar("Answer")

BACKOFF_SECONDS = (0.5, 1.0, 2.0)
"""How long to wait before each further attempt, at least."""

LONGEST_QUERY = 8_000
"""How many characters of a query are embedded at most: about as much as the largest models take."""

PROBE = "memory"
"""What an embedder is asked for to see whether it responds: nothing of the user's texts."""

_LONGEST_WAIT_SECONDS = 30.0
_PAUSE_SECONDS = 60.0
# A model that rejects even this many characters as too long would reject everything. One syllable of Korean can be
# three word pieces, so 200 characters may well be too many.
_SHORTEST_TEXT = 40
# Far below the length of any vector with a meaning, and far above the noise of float32.
_SMALLEST_NORM = 1e-6


def embedding_text(heading: str, context: str, text: str) -> str:
    """Return what is embedded of a chunk: its text, and what it takes to understand it; of an entry, no context."""
    return "\n".join(part for part in (heading, "" if is_entry(text) else context, text) if part)


def is_away(error: BaseException | None) -> bool:
    """Return whether a component failed because it does not answer: no other text would fare better."""
    return error is not None and (isinstance(error, (TimeoutError, UnavailableError)) or is_away(error.__cause__))


async def retry(attempt: Callable[[], Awaitable[Answer]], backoff: Sequence[float]) -> Answer:
    """Return the answer of a call, after as many attempts as it takes and ``backoff`` allows."""
    for delay in (*backoff, None):
        try:
            return await attempt()
        except (EmbedderBusyError, AnnotatorBusyError) as error:
            wait = max(delay or 0.0, error.retry_after or 0.0)
            if delay is None or wait > _LONGEST_WAIT_SECONDS:
                raise
        await asyncio.sleep(wait)
    raise AssertionError("unreachable")


@attrs.define
class EmbedderClient:
    """A client of one embedder, which messages call by its name.

    ``dimension`` is that of the vectors in the index, 0 before the first; ``backoff`` are the seconds to wait before
    each further attempt.
    """

    name: str
    embedder: EmbedderAdapter
    dimension: int = 0
    backoff: Sequence[float] = ()

    async def vectors(self, texts: Sequence[str], role: Role) -> list[Vectors | str]:
        """Return a vector of length 1 for each text, or a sentence that says why its vector cannot be used.

        :raises EmbedderError: the call failed.
        """
        try:
            return [_normalize(row) for row in await self._call(texts, role)]
        except TextTooLongError as error:
            return await self._split(texts, role, error)

    async def query(self, text: str) -> tuple[Vectors | str, str]:
        """Return the vector of a query, or why it cannot be used, and the part of the query that was embedded.

        A query that is too long is halved until its beginning fits. To embed all parts would take a call for each.

        :raises EmbedderError: the call failed.
        """
        text = text[:LONGEST_QUERY]
        while True:
            try:
                (row,) = await self._call([text], "query")
            except TextTooLongError as error:
                if len(text) < _SHORTEST_TEXT:
                    raise self._too_long(text, error) from error
                text = text[: _middle(text)]
            else:
                return _normalize(row), text

    async def responds(self) -> bool:
        """Return whether the embedder embeds one word, in one attempt."""
        try:
            (vector,) = await attrs.evolve(self, backoff=()).vectors([PROBE], "document")
        except EmbedderError:
            return False
        return not isinstance(vector, str)

    def unusable(self, problem: str) -> EmbedderError:
        """Return the error that all vectors of a call have a problem."""
        return EmbedderError(f'The embedder "{self.name}" returned no usable vector: {problem}.')

    async def _call(self, texts: Sequence[str], role: Role) -> Vectors:
        """Return one row for each text."""
        return await retry(lambda: self._attempt(texts, role), self.backoff)

    async def _attempt(self, texts: Sequence[str], role: Role) -> Vectors:
        try:
            rows = await self.embedder.embed(texts, role=role)
        except UnavailableError as error:
            raise EmbedderError(str(error)) from error
        if rows.shape[1] != (self.dimension or rows.shape[1]):
            raise EmbedderError(
                f'The embedder "{self.name}" returned vectors of dimension {rows.shape[1]}, and those that the index '
                f"has of it are of dimension {self.dimension}: they cannot be compared. If the model behind its name "
                "has changed, embed everything again: kipu reindex --force."
            )
        return rows

    # --- texts that are too long -----------------------------------------------------------------------------------

    async def _split(self, texts: Sequence[str], role: Role, error: TextTooLongError) -> list[Vectors | str]:
        """Embed the texts that are too long in halves, and the others as they are."""
        if len(texts) == 1:
            return [await self._mean_of_halves(texts[0], role, error)]
        long = {position for position in error.positions or () if 0 <= position < len(texts)}
        if not long:  # it does not say which: most likely the longest, which fails at once if nothing is short enough
            longest = max(range(len(texts)), key=lambda position: len(texts[position]))
            (vector,) = await self.vectors([texts[longest]], role)
            rest = [*texts[:longest], *texts[longest + 1 :]]
            middle = len(rest) // 2
            others = await self.vectors(rest[:middle], role) if middle else []
            others = [*others, *await self.vectors(rest[middle:], role)]
            return [*others[:longest], vector, *others[longest:]]
        short = [text for position, text in enumerate(texts) if position not in long]
        fitting = iter(await self.vectors(short, role) if short else [])
        return [
            await self._mean_of_halves(text, role, error) if position in long else next(fitting)
            for position, text in enumerate(texts)
        ]

    async def _mean_of_halves(self, text: str, role: Role, error: TextTooLongError) -> Vectors | str:
        """Return the mean of the vectors of both halves of a text, each as long as its half."""
        if len(text) < _SHORTEST_TEXT:
            raise self._too_long(text, error) from error
        cut = _middle(text)
        (first,) = await self.vectors([text[:cut]], role)
        (second,) = await self.vectors([text[cut:]], role)
        if isinstance(first, str) or isinstance(second, str):
            return first if isinstance(first, str) else second
        return _normalize(first * cut + second * (len(text) - cut))

    def _too_long(self, text: str, error: TextTooLongError) -> EmbedderError:
        return EmbedderError(
            f'The embedder "{self.name}" rejects even {len(text)} characters as too long: that is hardly the reason. '
            f"{error}"
        )


def _normalize(row: Vectors) -> Vectors | str:
    """Return a vector with the length 1, or a sentence that says why it cannot be used."""
    import numpy as np

    if not np.isfinite(row).all():
        return "the vector has NaN or infinite numbers in it"
    exact = row.astype(np.float64)  # the square may be more than float32 holds
    norm = float(np.linalg.norm(exact))
    if norm < _SMALLEST_NORM:
        return "the vector is zero"
    return (exact / norm).astype(np.float32)


def _middle(text: str) -> int:
    """Return where to halve a text: at a space, if there is one before the middle."""
    middle = len(text) // 2
    space = text.rfind(" ", middle // 2, middle)
    return space if space > 0 else middle


class Pauses:
    """Which embedders are not asked for a minute, because they failed: no search waits for a provider that is down."""

    def __init__(self) -> None:
        self._until: dict[str, tuple[float, str]] = {}  # by identity

    def add(self, embedder: ConfiguredEmbedder, error: EmbedderError) -> str:
        """Pause an embedder after an error, and return the reason as a sentence."""
        reason = str(error) if str(error).endswith((".", "!", "?")) else f"{error}."
        self._until[embedder.identity] = (time.monotonic() + _PAUSE_SECONDS, reason)
        return reason

    def end(self, embedder: ConfiguredEmbedder) -> None:
        """End the pause of an embedder that has answered."""
        self._until.pop(embedder.identity, None)

    def reason(self, embedder: ConfiguredEmbedder) -> str:
        """Return why an embedder is paused; empty if it is not."""
        until, reason = self._until.get(embedder.identity, (0.0, ""))
        return reason if time.monotonic() < until else ""
