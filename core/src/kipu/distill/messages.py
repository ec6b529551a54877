"""Reading conversations, as far as they are worth remembering: of OpenAI, Anthropic, Claude Code and Codex.

What people and assistants said is kept. Images, thoughts, the system prompt and what Kipu had recalled are left out;
calls of tools and their results are replaced with a few words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import QueryError
from ..search.quotation import without_recalled
from ..search.tokens import count_tokens
from ..types import Message
from .facts import NO_TEXT
from .transcript import messages_of, without_injected

_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "model": "assistant"}
_TOOLS = ("tool", "function")
_SYSTEM = ("system", "developer")
_TEXT_BLOCKS = ("text", "input_text", "output_text")
# What a message can have instead of a text, and blocks that never have one that is kept.
_CONTENTS = frozenset({"content", "tool_calls", "function_call", "refusal", "audio"})
_LEFT_OUT = re.compile("image|audio|video|file|document|think|reason|refus|tool|call")


def parse_messages(conversation: Any) -> list[Message]:
    """Return the messages of a conversation, in order.

    :param conversation: a list of messages, each a dictionary with ``role`` and ``content`` (a text, or a list of
        blocks) or a `kipu.types.Message`; the records of a transcript of Claude Code or Codex; or a dictionary with
        such a list as its ``messages``.
    :raises QueryError: it has another shape. The error names the message, or a block if there is no text at all.
    """
    if isinstance(conversation, Mapping):
        if "messages" not in conversation and "type" not in conversation and "role" not in conversation:
            raise QueryError(
                'A conversation is a list of messages, or a dictionary with the key "messages". '
                f"This one has {_keys(conversation)}."
            )
        conversation = conversation.get("messages", [conversation])
    if isinstance(conversation, (str, bytes)) or not isinstance(conversation, Iterable):
        raise QueryError(f"A conversation is a list of messages, not {type(conversation).__name__}.")
    messages, unknown = [], list[str]()
    for number, message in enumerate(messages_of(conversation), 1):
        role, text = _parse_message(message, number, unknown)
        text = NO_TEXT.sub("", without_recalled(text)).strip()  # which no filter nor model takes
        if role and text:
            messages.append(Message(role, text))
    if unknown and not messages:  # beside texts, a block that models have since then is left out
        raise QueryError(f"No text was found in the conversation. A block has {unknown[0]}.")
    return messages


def _parse_message(message: Any, number: int, unknown: list[str]) -> tuple[str, str]:
    """Return the role and the text of a message. The role is empty for a message that is left out."""
    if isinstance(message, Message):
        values: Any = (message.role, message.text)  # the class does not check them
        if not all(isinstance(value, str) for value in values):
            raise QueryError(f"The role and the text of message {number} must be texts.")
        return ("" if message.role in _SYSTEM else message.role), message.text
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        found = _keys(message) if isinstance(message, Mapping) else f"the type {type(message).__name__}"
        raise QueryError(
            f'Message {number} has no "role". Each message is a dictionary with "role" and "content", or a record of a '
            f"transcript of Claude Code or Codex. This one has {found}."
        )
    role = message["role"].lower()
    if role in _SYSTEM:
        return "", ""
    if role in _TOOLS:
        return "tool", _omission(_size(message.get("content"), number))
    if role not in _ROLES:
        raise QueryError(f'Message {number} has an unknown role: "{message["role"]}".')
    if len(message) > 1 and _CONTENTS.isdisjoint(message):
        raise QueryError(f'Message {number} has no "content". This one has {_keys(message)}.')
    parts = _texts(message.get("content"), number, unknown)
    calls = message.get("tool_calls") or ()
    if not isinstance(calls, (list, tuple)):
        raise QueryError(f"The tool_calls of message {number} must be a list.")
    for call in calls:
        function = call.get("function") if isinstance(call, Mapping) else None
        parts.append(f"[called the tool {_name(function)}]")
    return _ROLES[role], "\n\n".join(part for part in parts if part.strip())


def _keys(message: Mapping[Any, Any]) -> str:
    keys = [str(key)[:40] for key in message]
    return f"the keys {', '.join(keys[:12])}{' and more' if len(keys) > 12 else ''}" if keys else "no keys"


def _texts(content: Any, number: int, unknown: list[str]) -> list[str]:
    """Return the texts of a message's content, with a few words for calls and results of tools.

    :param unknown: a description of each block of an unknown type is added to it.
    """
    texts = []
    for block in _blocks(content, number):
        kind = "text" if isinstance(block, str) else block.get("type")
        if isinstance(block, str):
            texts.append(without_injected(block))
        elif kind == "tool_use":
            texts.append(f"[called the tool {_name(block)}]")
        elif kind == "tool_result":
            texts.append(_omission(_size(block.get("content"), number)))
        elif (kind is None or kind in _TEXT_BLOCKS) and block.get("text", block) is not None:
            raise QueryError(f"The content of message {number} has a block without a text: it has {_keys(block)}.")
        elif kind is not None and kind not in _TEXT_BLOCKS and not _LEFT_OUT.search(str(kind)):
            unknown.append(f'the type "{str(kind)[:40]}" and {_keys(block)}')
    return texts


def _blocks(content: Any, number: int) -> Iterator[str | Mapping[str, Any]]:
    """Yield the texts of a message's content, and its other blocks."""
    if content is None or isinstance(content, str):
        content = [content or ""]
    if not isinstance(content, (list, tuple)):
        raise QueryError(f"The content of message {number} is neither a text nor a list of blocks.")
    for block in content:
        if isinstance(block, str):
            yield block
            continue
        if not isinstance(block, Mapping):
            raise QueryError(f"The content of message {number} has a block that is not a dictionary.")
        kind = block.get("type")
        if (kind in _TEXT_BLOCKS or kind is None) and isinstance(block.get("text"), str):
            yield block["text"]
        else:
            yield block


def _size(content: Any, number: int) -> int:
    """Return how many characters the result of a tool has, with the results nested in it."""
    size, stack = 0, [content]  # not by recursion: results can be nested more deeply than Python calls can
    while stack:
        for block in _blocks(stack.pop(), number):
            if isinstance(block, str):
                size += len(block)
            elif block.get("type") == "tool_result":
                stack.append(block.get("content"))
    return size


def _omission(size: int) -> str:
    return f"[the result of a tool was left out: {size:,} characters]"


def _name(tool: Any) -> str:
    name = tool.get("name") if isinstance(tool, Mapping) else None
    return (" ".join(name.split()) if isinstance(name, str) else "")[:80] or "without a name"


def split_messages(messages: Iterable[Message], tokens: int) -> list[list[Message]]:
    """Split messages into parts of at most so many tokens. A message longer than a part is split between lines."""
    parts: list[list[Message]] = [[]]
    room = tokens
    for message in messages:
        for piece in _split_message(message, tokens):
            cost = count_tokens(piece.text) + 5  # and its role
            if cost > room and parts[-1]:
                parts.append([])
                room = tokens
            parts[-1].append(piece)
            room -= cost
    return [part for part in parts if part]


def _split_message(message: Message, tokens: int) -> Iterable[Message]:
    if count_tokens(message.text) + 5 <= tokens:
        yield message
        return
    width = room = max(1, tokens - 5)
    piece: list[str] = []
    for line in message.text.split("\n"):
        start = 0
        while start < len(line) or start == 0:
            length = 4 * width
            while length > 1 and count_tokens(line[start : start + length]) > width:
                length //= 2
            text = line[start : start + length]
            cost = count_tokens(text) + 1  # and the end of the line
            if piece and cost > room + 1:
                yield Message(message.role, "\n".join(piece))
                piece, room = [], width
            if piece or text.strip():
                piece.append(text)
                room -= cost
            start += length
    if piece:
        yield Message(message.role, "\n".join(piece))
