"""Reading the messages in transcripts of agents: of Claude Code, and of Codex in each of its forms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

# Of Claude Code: what it wrote in the user's name or the model's, what sub-agents said, and summaries of what is above.
_NOT_SAID = ("isMeta", "isApiErrorMessage", "isSidechain", "isCompactSummary")
_INJECTED = re.compile(
    r"\s*+(?:<(?P<tag>system-reminder|environment_context|user_instructions|command-name|command-message|"
    r"local-command-caveat|local-command-stdout|local-command-stderr)>.*?</(?P=tag)>|# AGENTS\.md instructions .*)\s*+",
    re.DOTALL,
)


def messages_of(records: Iterable[Any]) -> list[Any]:
    """Return the messages in the records of a transcript, as dictionaries. Return any other list as it is.

    Once a record is known to be one of a transcript, records without a role are left out: they are events and states.
    """
    records = list(records)
    found = [_message_of(record) for record in records]
    if all(message is record for message, record in zip(found, records, strict=True)):
        return records
    return [message for message in found if not isinstance(message, Mapping) or "role" in message]


def _message_of(record: Any) -> Any:
    """Return the message in a record; an empty one if it was not said in the conversation."""
    if not isinstance(record, Mapping):
        return record
    kind, message = record.get("type"), record.get("message")
    if kind in ("user", "assistant") and isinstance(message, Mapping):  # Claude Code
        return {} if any(record.get(flag) for flag in _NOT_SAID) else {"role": kind, **message}
    if kind == "response_item" and isinstance(record.get("payload"), Mapping):  # Codex
        record = record["payload"]
        kind = record.get("type")
    if isinstance(kind, str) and kind.endswith("_call_output"):
        output = record.get("output")
        return {"role": "tool", "content": output if isinstance(output, (str, list)) else str(output)}
    if isinstance(kind, str) and kind.endswith("_call"):
        return {"role": "assistant", "tool_calls": [{"function": {"name": record.get("name") or kind}}]}
    return record


def without_injected(text: str) -> str:
    """Return a text without what the agent's program put before it."""
    start = 0
    while found := _INJECTED.match(text, start):
        start = found.end()
    return text[start:]
