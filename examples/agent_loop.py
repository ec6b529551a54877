"""An agent that remembers: python agent_loop.py WORKSPACE SENTENCE...

Each sentence is what a user says. Before it answers, the agent recalls what it knows; afterwards, it remembers what it
was told. The model is a stand-in, so that this runs without a key: ask yours in its place.
"""

from __future__ import annotations

import asyncio
import sys

from kipu import Memory
from kipu.errors import KipuError


def ask_model(prompt: str, question: str) -> str:
    """Answer in place of a model. This one only reports whether its prompt has memories."""
    return f"I know something about that ({prompt.count('<memory')} sources)." if prompt else "I did not know that."


async def main(workspace: str, sentences: list[str]) -> None:
    """Answer sentences, each with what is remembered of the earlier ones."""
    async with Memory(workspace) as memory:
        for sentence in sentences:
            recalled = await memory.recall(sentence, max_tokens=800)
            print(f"user:  {sentence}")
            print(f"agent: {ask_model(recalled.text, sentence)}")
            note = await memory.remember(sentence, source="agent", metadata={"origin": "conversation"})
            print(f"       ({'known before' if note.duplicate_of else 'remembered'} in {note.path}:{note.start_line})")


if len(sys.argv) < 3:
    sys.exit(__doc__)
try:
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
except KipuError as error:
    sys.exit(str(error))  # a sentence that says what to do
