"""Which conversations are understood, and how they are split."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kipu.distill.messages import parse_messages, split_messages
from kipu.errors import QueryError
from kipu.search.tokens import count_tokens
from kipu.types import Message


def nested(depth: int) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": "deep"}
    for _ in range(depth):
        block = {"type": "tool_result", "content": [block, "x"]}
    return block


@pytest.mark.parametrize("role", ["user", "tool"])
def test_results_of_tools_may_be_nested_deeply(role):
    (message,) = parse_messages([{"role": role, "content": [nested(3000)]}])
    assert message.text == "[the result of a tool was left out: 3,004 characters]"


def test_a_tool_without_a_valid_name_is_named_so():
    calls = [{"function": {"name": nested(3000)}}, 3]
    (message,) = parse_messages([{"role": "assistant", "tool_calls": calls}])
    assert message.text == "\n\n".join(["[called the tool without a name]"] * 2)


@pytest.mark.parametrize(
    ("conversation", "message"),
    [
        ("hello", "A conversation is a list of messages, not str."),
        (3, "A conversation is a list of messages, not int."),
        ({"text": "x"}, 'or a dictionary with the key "messages".'),
        ([{"content": "x"}], 'Message 1 has no "role". Each message is a dictionary with "role" and "content".'),
        ([{"role": "user", "content": 3}], "The content of message 1 is neither a text nor a list of blocks."),
        ([{"role": "user", "content": [3]}], "The content of message 1 has a block that is not a dictionary."),
        ([{"role": "user"}, {"role": "wizard", "content": "x"}], 'Message 2 has an unknown role: "wizard".'),
        ([{"role": "assistant", "tool_calls": 5}], "The tool_calls of message 1 must be a list."),
        ([{"role": "assistant", "tool_calls": {"name": "f"}}], "The tool_calls of message 1 must be a list."),
        ([Message("user", None)], "The role and the text of message 1 must be texts."),  # type: ignore[arg-type]
        ([Message(None, "x")], "The role and the text of message 1 must be texts."),  # type: ignore[arg-type]
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_conversation_of_another_shape_is_an_error_that_names_the_message(conversation, message):
    with pytest.raises(QueryError) as error:
        parse_messages(conversation)
    assert str(error.value).endswith(message)


@given(
    text=st.lists(st.sampled_from(["a", "ä", "日本", "\n", " ", "word " * 5])).map("".join),
    tokens=st.integers(1, 60),
)
def test_the_parts_of_a_message_fit_and_are_complete(text, tokens):
    parts = split_messages([Message("user", text)], tokens)
    assert all(sum(count_tokens(piece.text) + 5 for piece in part) <= max(tokens, 6) for part in parts)
    assert "".join("".join(piece.text.split()) for part in parts for piece in part) == "".join(text.split())


@pytest.mark.parametrize("unit", ["ä\n", "<kipu-memories> ", "<kipu-memories><memory>", "\n", "</kipu-memories>", "<"])
def test_a_long_conversation_is_parsed_and_split_quickly(unit):
    text = "x" + unit * (200_000 // len(unit)) + "y"
    parts = split_messages(parse_messages([{"role": "user", "content": text}]), 3000)
    assert "".join("".join(piece.text.split()) for part in parts for piece in part) == "".join(text.split())
