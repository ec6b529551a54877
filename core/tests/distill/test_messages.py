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
        ({"text": "x", "n": 1}, 'or a dictionary with the key "messages". This one has the keys text, n.'),
        ([{"content": "x"}], "Claude Code or Codex. This one has the keys content."),
        ([{"speaker": "Ada", "text": "x"}, {"role": "user"}], "This one has the keys speaker, text."),
        ([{"type": "summary", "summary": "x"}], "This one has the keys type, summary."),
        ([{}], "This one has no keys."),
        ([{f"k{n}": n for n in range(20)}], "k10, k11 and more."),
        ([5], "This one has the type int."),
        ([{"role": "user", "content": 3}], "The content of message 1 is neither a text nor a list of blocks."),
        ([{"role": "user", "content": [3]}], "The content of message 1 has a block that is not a dictionary."),
        ([{"role": "user"}, {"role": "wizard", "content": "x"}], 'Message 2 has an unknown role: "wizard".'),
        ([{"role": "assistant", "tool_calls": 5}], "The tool_calls of message 1 must be a list."),
        ([{"role": "assistant", "tool_calls": {"name": "f"}}], "The tool_calls of message 1 must be a list."),
        ([{"role": "model", "parts": [{"text": "x"}]}], 'has no "content". This one has the keys role, parts.'),
        ([{"role": "user", "text": "x"}], 'Message 1 has no "content". This one has the keys role, text.'),
        ([{"role": "user", "content": [{"body": "x"}]}, {"role": "user", "content": "y"}], "it has the keys body."),
        (
            [{"role": "user", "content": [{"type": "text", "value": "x"}]}],
            "The content of message 1 has a block without a text: it has the keys type, value.",
        ),
        (
            [{"role": "user", "content": [{"type": "weird", "body": "x"}]}],
            'No text was found in the conversation. A block has the type "weird" and the keys type, body.',
        ),
        ([Message("user", None)], "The role and the text of message 1 must be texts."),  # type: ignore[arg-type]
        ([Message(None, "x")], "The role and the text of message 1 must be texts."),  # type: ignore[arg-type]
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_conversation_of_another_shape_is_an_error_that_names_the_message(conversation, message):
    with pytest.raises(QueryError) as error:
        parse_messages(conversation)
    assert str(error.value).endswith(message)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "refusal": "no"},
        {"role": "user", "content": [{"type": "text", "text": None}, {"type": "text", "text": ""}]},
        *({"role": "user", "content": [{"type": kind, kind: {}}]} for kind in ("image", "image_url", "input_audio")),
    ],
)
def test_a_message_may_have_no_text(message):
    assert parse_messages([message]) == []
    assert len(parse_messages([message, {"role": "user", "content": [{"type": "weird"}, "x"]}])) == 1


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


# --- transcripts ---------------------------------------------------------------------------------------------------

CLAUDE_CODE: list[Any] = [
    {"type": "summary", "summary": "SUMMARY", "leafUuid": "u9"},
    {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
    {"type": "user", "isMeta": True, "message": {"role": "user", "content": "META"}},
    {"type": "user", "isCompactSummary": True, "message": {"role": "user", "content": "SUMMARY"}},
    {
        "type": "user", "uuid": "u1", "cwd": "/x", "isSidechain": False,
        "message": {"role": "user", "content": "<system-reminder>\nREMINDER\n</system-reminder>\n\nWe chose Valkey."},
    },
    {
        "type": "assistant", "uuid": "u2",
        "message": {"id": "m", "role": "assistant", "model": "x", "content": [
            {"type": "thinking", "thinking": "THOUGHT", "signature": "s"},
            {"type": "text", "text": "Noted."},
            {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ARGS"}},
        ]},
    },
    {
        "type": "user", "toolUseResult": {"stdout": "RESULT"},
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "RESULT"}]},
    },
    {"type": "assistant", "isSidechain": True, "message": {"role": "assistant", "content": "SUB-AGENT"}},
    {"type": "user", "message": {"content": "<command-name>/x</command-name>\n<command-message>x</command-message>"}},
    {"type": "system", "subtype": "local_command", "content": "SYSTEM"},
    {"type": "assistant", "isApiErrorMessage": True, "message": {"content": [{"type": "text", "text": "ERROR"}]}},
]  # fmt: skip


def codex_item(kind: str, **values: Any) -> dict[str, Any]:
    return {"timestamp": "2026-11-30T10:00:00Z", "type": "response_item", "payload": {"type": kind, **values}}


def codex_message(role: str, *texts: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return codex_item("message", role=role, content=[{"type": kind, "text": text} for text in texts])


CODEX: list[Any] = [
    {"type": "session_meta", "payload": {"id": "s", "cwd": "/x", "instructions": "SYSTEM"}},
    codex_message("developer", "SYSTEM"),
    codex_message("user", "# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nSYSTEM\n</INSTRUCTIONS>"),
    codex_message("user", "<environment_context>\n<cwd>SYSTEM</cwd>\n</environment_context>"),
    codex_message("user", "We chose Valkey."),
    {"type": "event_msg", "payload": {"type": "user_message", "message": "REPEATED"}},
    codex_item("reasoning", summary=[], encrypted_content="THOUGHT"),
    codex_message("assistant", "Noted."),
    codex_item("function_call", name="Bash", arguments='{"cmd": "ARGS"}', call_id="c"),
    codex_item("function_call_output", call_id="c", output="RESULT"),
    {"type": "turn_context", "payload": {"model": "x"}},
]
# The first version of Codex, and what the Responses API of OpenAI has.
CODEX_BEFORE: list[Any] = [
    {"id": "s", "timestamp": "2026-11-30T10:00:00Z", "instructions": "SYSTEM"},
    *({"record_type": "state"} if each["type"] != "response_item" else each["payload"] for each in CODEX),
]
SAID = [
    ("user", "We chose Valkey."),
    ("assistant", "Noted."),
    ("assistant", "[called the tool Bash]"),
    ("tool", "[the result of a tool was left out: 6 characters]"),
]


@pytest.mark.parametrize("transcript", [CLAUDE_CODE, CODEX, CODEX_BEFORE], ids=["Claude Code", "Codex", "Codex before"])
def test_of_a_transcript_what_was_said_is_taken(transcript):
    found = [(message.role, text) for message in parse_messages(transcript) for text in message.text.split("\n\n")]
    said = [("tool" if "left out" in text else role, text) for role, text in found]
    assert said == SAID


@pytest.mark.parametrize(
    "record", [CLAUDE_CODE[4], CODEX[4], CODEX_BEFORE[5], {"role": "user", "content": "We chose Valkey."}]
)
def test_one_record_is_a_conversation(record):
    assert [message.text for message in parse_messages(record)] == ["We chose Valkey."]


@pytest.mark.parametrize(
    "output", [None, {"content": "RESULT", "success": True}, [{"type": "input_text", "text": "R"}], 5]
)
def test_the_output_of_a_tool_may_have_any_shape(output):
    (_, message) = parse_messages(
        [codex_item("local_shell_call"), codex_item("custom_tool_call_output", output=output)]
    )
    assert message.text.startswith("[the result of a tool was left out")


def test_a_long_transcript_is_parsed_quickly():
    text = "<system-reminder>x</system-reminder>\n" * 30_000 + "<system-reminder>" * 30_000
    (message,) = parse_messages([{"type": "user", "message": {"role": "user", "content": text}}])
    assert message.text == "<system-reminder>" * 30_000


def test_what_no_text_file_has_is_left_out():
    assert parse_messages([{"role": "user", "content": "a\0b\ud800"}, {"role": "user", "content": "\0"}]) == [
        Message("user", "ab")
    ]
