"""A post-processor that lowers the scores of dated memories with age."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import attrs

from kipu import hookimpl
from kipu.options import number, option
from kipu.types import PostProcessorBase

if TYPE_CHECKING:
    from datetime import date

    from kipu.types import Hit, PostProcessor, Query, Register

__all__ = ["Decay"]


@attrs.frozen
class Decay(PostProcessorBase):
    """Multiply the score of a dated hit by exp(-ln 2 / ``half_life_days`` x its age in days), and sort.

    The age is counted from the date in the file's name to the day of the search in the time zone of the workspace; a
    date in the future has the age 0. Evergreen hits keep their score.
    """

    order: ClassVar[int] = 20

    half_life_days: float = option(
        30.0,
        number(above=0),
        "After how many days a score is halved; more than 0.",
        per_call="decay_half_life_days",
        converter=float,
    )

    async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
        """Return the hits with reduced scores, best first; those with equal scores keep their order.

        Without ``query.today``, which the kernel always sets, no age is known, and the hits are returned as they are.
        """
        if query.today is None:
            return hits
        aged = [attrs.evolve(hit, score=hit.score * self._factor(hit.chunk.date, query.today)) for hit in hits]
        return sorted(aged, key=lambda hit: hit.score, reverse=True)

    def _factor(self, written: date | None, today: date) -> float:
        """Return the factor for a score: 1 for an evergreen hit."""
        if written is None:
            return 1.0
        age_days = max(0, (today - written).days)
        return math.exp(-math.log(2) * age_days / self.half_life_days)


@hookimpl
def kipu_register_postprocessors(register: Register[PostProcessor]) -> None:
    """Register the post-processor ``decay``."""
    register("decay", Decay)
