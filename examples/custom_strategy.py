"""Search with a strategy of this program: python custom_strategy.py WORKSPACE QUERY.

It finds what was written last. To share a strategy, make it a plugin: see kipu-strategy-newest beside this file.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import attrs

from kipu import Hit, Memory
from kipu.errors import KipuError

if TYPE_CHECKING:
    from kipu import Query
    from kipu.types import Index


@attrs.frozen
class Latest:
    """Rank the chunks of dated files by their date, whatever they contain."""

    async def search(self, query: Query, index: Index) -> list[Hit]:
        """Return the newest chunks that pass the filters of the query."""
        condition, parameters = index.where(query)
        rows = await index.connection.execute_fetchall(
            "SELECT kipu_chunks.id FROM kipu_chunks JOIN kipu_files ON kipu_files.id = file_id "
            f"WHERE date IS NOT NULL AND {condition} ORDER BY date DESC, position LIMIT ?",
            [*parameters, query.limit],
        )
        chunks = await index.chunks([row[0] for row in rows])
        return [Hit(chunk, 1 / rank) for rank, chunk in enumerate(chunks.values(), 1)]


async def main(workspace: str, query: str) -> None:
    """Search with it."""
    async with Memory(workspace) as memory:
        memory.register_strategy("latest", Latest())
        for result in await memory.search(query, strategy="latest", max_results=3):
            print(f"{result.path}:{result.start_line}-{result.end_line}  {result.score:.2f}")


if len(sys.argv) != 3:
    sys.exit(__doc__)
try:
    asyncio.run(main(sys.argv[1], sys.argv[2]))
except KipuError as error:
    sys.exit(str(error))  # a sentence that says what to do
