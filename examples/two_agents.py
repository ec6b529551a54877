"""Two agents that share a workspace: python two_agents.py WORKSPACE.

A researcher writes what it finds, while a writer waits for it. Each is a memory of its own, as if in a process of its
own. What both may know is in the source "team"; what only one may know, in its own scope.
"""

from __future__ import annotations

import asyncio
import sys

from kipu import Memory
from kipu.errors import KipuError


async def research(workspace: str, done: asyncio.Event) -> None:
    """Find something out, and change one's mind about it."""
    async with Memory(workspace) as shared, Memory(workspace, scope="researcher") as own:
        await own.remember("The archive wants requests by e-mail, before noon.")
        first = await shared.remember("The bridge was built in 1874.", source="team", tags=["bridge"])
        place = f"{first.path}:{first.start_line}-{first.end_line}"
        await shared.remember("The bridge was built in 1847, says the town's archive.", source="team", supersedes=place)
        done.set()


async def write(workspace: str, done: asyncio.Event) -> None:
    """Wait for what the other finds, and use it."""
    await done.wait()
    async with Memory(workspace) as shared, Memory(workspace, scope="writer") as own:
        for result in await shared.search("when was the bridge built", source="team", max_results=2):
            print(f"{result.text.splitlines()[-2].strip()}  [{result.outdated or 'current'}]")
        print(f"Of what is the researcher's own, the writer sees {len(await own.search('requests, archive'))} notes.")


async def main(workspace: str) -> None:
    """Let both work at once."""
    done = asyncio.Event()
    await asyncio.gather(research(workspace, done), write(workspace, done))


if len(sys.argv) != 2:
    sys.exit(__doc__)
try:
    asyncio.run(main(sys.argv[1]))
except KipuError as error:
    sys.exit(str(error))  # a sentence that says what to do
