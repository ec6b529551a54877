"""Lets what is dated fade with age, so that of two memories that fit alike the younger comes first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from kipu import hookimpl

if TYPE_CHECKING:
    from datetime import date

    from kipu.types import Hit, PostProcessor, Query, Register

__all__ = ["Decay"]


def _check_days(_: object, option: attrs.Attribute[float], value: float) -> None:
    if not value > 0.0:
        raise ValueError(f"{option.name} must be a number above 0, not {value:g}")


@attrs.frozen
class Decay:
    """Multiply the score of a dated hit by exp(-ln 2 / ``half_life_days`` x its age in days), and sort anew.

    The age is counted from the date in the file's name to the day of the search in the time zone of the workspace; a
    date that is still to come has the age 0. Evergreen hits keep their score.
    """

    half_life_days: float = attrs.field(
        default=30.0,
        converter=float,
        validator=_check_days,
        metadata={
            "help": "After how many days a score is worth half; more than 0.",
            "per_call": "decay_half_life_days",
        },
    )

    async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
        """Return the hits with what age leaves of their scores, best first; those that score alike keep their order.

        Without ``query.today``, which the kernel always sets, no age is known, and the hits are returned as they are.
        """
        if query.today is None:
            return hits
        aged = [attrs.evolve(hit, score=hit.score * self._left(hit.chunk.date, query.today)) for hit in hits]
        return sorted(aged, key=lambda hit: hit.score, reverse=True)

    def _left(self, written: date | None, today: date) -> float:
        """What age leaves of a score: 1 for an evergreen hit."""
        if written is None:
            return 1.0
        age_days = max(0, (today - written).days)
        return math.exp(-math.log(2) * age_days / self.half_life_days)


@hookimpl
def kipu_register_postprocessors(register: Register[PostProcessor]) -> None:
    """Register the post-processor ``decay``."""
    register("decay", Decay)
