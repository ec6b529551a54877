"""Leaves out hits whose score is too low to be worth reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from kipu import hookimpl

if TYPE_CHECKING:
    from kipu.types import Hit, PostProcessor, Query, Register

__all__ = ["Threshold"]


def _check_share(_: object, option: attrs.Attribute[float], value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{option.name} must be a number from 0 to 1, not {value:g}")


@attrs.frozen
class Threshold:
    """Leave out hits with a score below ``min_score``."""

    min_score: float = attrs.field(
        default=0.0,
        converter=float,
        validator=_check_share,
        metadata={
            "help": "The lowest score to keep, in [0, 1], before decay; 0 keeps everything.",
            "per_call": "min_score",
        },
    )

    async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
        """Return the hits that score at least ``min_score``, in the order in which they came."""
        return [hit for hit in hits if hit.score >= self.min_score]


@hookimpl
def kipu_register_postprocessors(register: Register[PostProcessor]) -> None:
    register("threshold", Threshold)
