"""Search a workspace from an async program: python search_async.py WORKSPACE QUERY."""

from __future__ import annotations

import asyncio
import sys

from kipu import Memory
from kipu.errors import KipuError


async def main(workspace: str, query: str) -> None:
    """Print the best places for a query."""
    async with Memory(workspace) as memory:
        results = await memory.search(query, max_results=3)
    for result in results:
        print(f"{result.path}:{result.start_line}-{result.end_line}  {result.score:.2f}  {result.heading}")
    for note in results.notices:
        print(note, file=sys.stderr)


if len(sys.argv) != 3:
    sys.exit(__doc__)
try:
    asyncio.run(main(sys.argv[1], sys.argv[2]))
except KipuError as error:
    sys.exit(str(error))  # a sentence that says what to do
