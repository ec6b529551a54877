"""Which parts of a model's answer are facts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kipu.distill.facts import parse_facts


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        ("- One.\n* Two.\n3. Three.\n4) Four.", ["One.", "Two.", "Three.", "Four."]),
        ("Here are the facts:\n\n```\n- One.\n```\n\nLet me know if you need more!", ["One."]),
        ("## Facts\n- One.\n---\n**Plans**\n- Two.", ["One.", "Two."]),
        ("- Ada likes:\n  - tea\n- Two\nand more.\n\n  And this.", ["Ada likes:\n- tea", "Two\nand more.\nAnd this."]),
        ("- **Ada**\r\n- **Grace**", ["**Ada**", "**Grace**"]),
        ("Ada moved to Berlin.\n\nGrace has\nthe pager.", ["Ada moved to Berlin.", "Grace has\nthe pager."]),
        ("NOTHING_TO_REMEMBER", []),
        ("`NOTHING_TO_REMEMBER`.", []),
        ("- **NOTHING_TO_REMEMBER**", []),
        ("- Ada answers NOTHING_TO_REMEMBER to the bot.", ["Ada answers NOTHING_TO_REMEMBER to the bot."]),
        ("-\n```\n```\n", []),
        ("", []),
    ],
)
def test_facts_are_the_items_or_else_the_paragraphs(answer, facts):
    assert parse_facts(answer) == facts


@given(st.lists(st.sampled_from(["a", "A fact.", ":", "\n  ", " ", "**"])), st.booleans())
def test_all_words_of_an_item_are_kept(pieces, is_first):
    item = "- x" + "".join(pieces)
    answer = f"{item}\n- last" if is_first else f"- first\n{item}"
    assert "".join("".join(parse_facts(answer)).split()).count("Afact.") == pieces.count("A fact.")


@pytest.mark.parametrize("unit", ["<think>", "**a", "**", "- ", "a:\n", "a\n", " \n", "1. ", "__a", "<think>\n"])
def test_a_long_answer_is_parsed_quickly(unit):
    text = unit * (200_000 // len(unit))
    assert sum(map(len, parse_facts(text))) <= len(text)
