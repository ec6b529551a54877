"""Keep what is worth it of a conversation that ends: python end_of_session.py WORKSPACE CONVERSATION.json [MODEL].

MODEL is one that LiteLLM knows, such as openai/gpt-4o-mini, whose key is in the environment; without it, kipu.toml says
which one is asked. The conversation is a list of messages with "role" and "content".
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kipu.errors import KipuError, NotWrittenError
from kipu.sync import Memory

if len(sys.argv) not in (3, 4):
    sys.exit(__doc__)
conversation = json.loads(Path(sys.argv[2]).read_text("utf-8"))
try:
    with Memory(sys.argv[1]) as memory:
        flushed = memory.flush(conversation, model=sys.argv[3] if len(sys.argv) > 3 else None)
except NotWrittenError as error:
    sys.exit(f"{error}\n{error.text}")  # what the model was paid for is not lost
except KipuError as error:
    sys.exit(str(error))  # a sentence that says what to do
if flushed is None:
    print("Nothing new to remember.")
else:
    print(flushed)
    print(f"-> {flushed.path}")
