"""Search a workspace from a program that is not async: python search_sync.py WORKSPACE QUERY."""

from __future__ import annotations

import sys

from kipu.errors import KipuError
from kipu.sync import Memory


def main(workspace: str, query: str) -> None:
    """Print the best places for a query."""
    with Memory(workspace) as memory:
        results = memory.search(query, max_results=3)
    for result in results:
        print(f"{result.path}:{result.start_line}-{result.end_line}  {result.score:.2f}  {result.heading}")
    for note in results.notices:
        print(note, file=sys.stderr)


if len(sys.argv) != 3:
    sys.exit(__doc__)
try:
    main(sys.argv[1], sys.argv[2])
except KipuError as error:
    sys.exit(str(error))  # a sentence that says what to do
