"""A post-processor for Kipu that keeps only the best hits of each file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs

from kipu import hookimpl
from kipu.options import option, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from kipu import Hit, Query


@attrs.frozen
class OnePerFile:
    """Keep only the best hits of each file, so that one long file cannot fill the results."""

    hits_per_file: int = option(
        1, whole_number(at_least=1), "How many hits to keep of each file.", per_call="hits_per_file"
    )

    async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
        """Return the first ``hits_per_file`` hits of each file, in the order in which they came."""
        seen: Counter[str] = Counter()
        kept = []
        for hit in hits:
            seen[hit.chunk.path] += 1
            if seen[hit.chunk.path] <= self.hits_per_file:
                kept.append(hit)
        return kept


@hookimpl
def kipu_register_postprocessors(register: Callable[[str, type[OnePerFile]], None]) -> None:
    """Register the post-processor "one-per-file"."""
    register("one-per-file", OnePerFile)
