"""Leaves out hits whose score is too low to be worth reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from kipu import hookimpl
from kipu.options import number, option
from kipu.types import PostProcessorBase

if TYPE_CHECKING:
    from kipu.types import Hit, PostProcessor, Query, Register

__all__ = ["Threshold"]


@attrs.frozen
class Threshold(PostProcessorBase):
    """Leave out hits with a score below ``min_score``."""

    order: ClassVar[int] = 10

    min_score: float = option(
        0.0,
        number(0, 1),
        "The lowest score to keep, in [0, 1], before decay; 0 keeps everything.",
        per_call="min_score",
        converter=float,
    )

    async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
        """Return the hits that score at least ``min_score``, in the order in which they came."""
        return [hit for hit in hits if hit.score >= self.min_score]


@hookimpl
def kipu_register_postprocessors(register: Register[PostProcessor]) -> None:
    """Register the post-processor ``threshold``."""
    register("threshold", Threshold)
