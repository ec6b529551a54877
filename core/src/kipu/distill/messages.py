"""Reads conversations in the shapes of OpenAI and of Anthropic, as far as they are worth remembering.

What people and assistants said is kept. Images, thoughts and the system's own prompt are left out, calls of tools and
their results are named in a few words, and so is what Kipu itself had recalled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import QueryError
from ..search.recall import estimate_tokens, quarters, without_recalled
from ..types import Message

__all__ = ["in_parts", "messages_of"]

_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "model": "assistant"}
_TOOLS = ("tool", "function")
_SYSTEM = ("system", "developer")
_TEXT_BLOCKS = ("text", "input_text", "output_text")


def messages_of(conversation: Any) -> list[Message]:
    """What was said in a conversation, in order.

    :param conversation: a list of messages, each a dictionary with ``role`` and ``content`` (a text, or a list of
        blocks) or a `kipu.types.Message`; or a dictionary with such a list as its ``messages``.
    :raises QueryError: it has another shape; the message says where.
    """
    if isinstance(conversation, Mapping):
        if "messages" not in conversation:
            raise QueryError('A conversation is a list of messages, or a dictionary with the key "messages".')
        conversation = conversation["messages"]
    if isinstance(conversation, (str, bytes)) or not isinstance(conversation, Iterable):
        raise QueryError(f"A conversation is a list of messages, not {type(conversation).__name__}.")
    found = []
    for position, message in enumerate(conversation):
        role, text = _said(message, position)
        text = without_recalled(text).strip()
        if role and text:
            found.append(Message(role, text))
    return found


def _said(message: Any, position: int) -> tuple[str, str]:
    """The role, empty for what is left out, and the text of a message."""
    if isinstance(message, Message):
        said: Any = (message.role, message.text)  # whoever made it may have given it anything
        if not all(isinstance(each, str) for each in said):
            raise QueryError(f"The role and the text of message {position + 1} of the conversation must be texts.")
        return ("" if message.role in _SYSTEM else message.role), message.text
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise QueryError(f'Message {position + 1} of the conversation has no "role": each is a dictionary with a role.')
    role = message["role"].lower()
    if role in _SYSTEM:
        return "", ""
    if role in _TOOLS:
        return "tool", _left_out(_size(message.get("content"), position))
    if role not in _ROLES:
        raise QueryError(f'Message {position + 1} of the conversation has an unknown role: "{message["role"]}".')
    parts = _blocks(message.get("content"), position)
    calls = message.get("tool_calls") or ()
    if not isinstance(calls, (list, tuple)):
        raise QueryError(f"The tool_calls of message {position + 1} of the conversation are no list.")
    for call in calls:
        function = call.get("function") if isinstance(call, Mapping) else None
        parts.append(f"[called the tool {_name(function)}]")
    return _ROLES[role], "\n\n".join(part for part in parts if part.strip())


def _blocks(content: Any, position: int) -> list[str]:
    """The texts of a message's content; what is no text is left out, or named."""
    texts = []
    for part in _parts(content, position):
        if isinstance(part, str):
            texts.append(part)
        elif part["type"] == "tool_use":
            texts.append(f"[called the tool {_name(part)}]")
        else:
            texts.append(_left_out(_size(part.get("content"), position)))
    return texts


def _parts(content: Any, position: int) -> Iterator[str | Mapping[str, Any]]:
    """What a message's content has of texts, and of blocks of tools."""
    if content is None or isinstance(content, str):
        content = [content or ""]
    if not isinstance(content, (list, tuple)):
        raise QueryError(f"The content of message {position + 1} is neither a text nor a list of blocks.")
    for block in content:
        if isinstance(block, str):
            yield block
            continue
        if not isinstance(block, Mapping):
            raise QueryError(f"The content of message {position + 1} has a block that is no dictionary.")
        kind = block.get("type")
        if (kind in _TEXT_BLOCKS or kind is None) and isinstance(block.get("text"), str):
            yield block["text"]
        elif kind in ("tool_use", "tool_result"):
            yield block


def _size(content: Any, position: int) -> int:
    """How many characters the result of a tool has, with the results that may stand in it, however deep."""
    size, left = 0, [content]
    while left:
        for part in _parts(left.pop(), position):
            if isinstance(part, str):
                size += len(part)
            elif part["type"] == "tool_result":
                left.append(part.get("content"))
    return size


def _left_out(size: int) -> str:
    return f"[the result of a tool was left out: {size:,} characters]"


def _name(named: Any) -> str:
    name = named.get("name") if isinstance(named, Mapping) else None
    return (" ".join(name.split()) if isinstance(name, str) else "")[:80] or "without a name"


def in_parts(messages: Iterable[Message], tokens: int) -> list[list[Message]]:
    """Messages in parts of at most so many tokens; a message that is longer than a part is cut between lines."""
    parts: list[list[Message]] = [[]]
    left = tokens
    for message in messages:
        for piece in _pieces(message, tokens):
            cost = estimate_tokens(piece.text) + 5  # and its role
            if cost > left and parts[-1]:
                parts.append([])
                left = tokens
            parts[-1].append(piece)
            left -= cost
    return [part for part in parts if part]


def _pieces(message: Message, tokens: int) -> Iterable[Message]:
    if estimate_tokens(message.text) + 5 <= tokens:
        yield message
        return
    room = max(1, tokens - 5)
    piece: list[str] = []
    left = 4 * room
    for line in message.text.split("\n"):
        start = 0
        while start < len(line) or start == 0:
            # One character is a token at most: that much of a line fits for sure, and mostly four times as much.
            length = room if not line[start : start + 4 * room].isascii() else 4 * room
            rest = line[start : start + length]
            cost = quarters(rest) + 1  # and the end of the line
            if piece and cost > left + 1:
                yield Message(message.role, "\n".join(piece))
                piece, left = [], 4 * room
            if piece or rest.strip():
                piece.append(rest)
                left -= cost
            start += length
    if piece:
        yield Message(message.role, "\n".join(piece))
