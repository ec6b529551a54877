"""Which parts of a model's answer are facts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kipu.distill.facts import parse_facts, sentence_of
from kipu.errors import FlusherError


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
        ("NOTHING_TO_REMEMBER\n\nThey only said hello.", []),
        ("NOTHING_TO_REMEMBER: they only said hello.", []),
        ("There is nothing new, so:\n\n**NOTHING_TO_REMEMBER** - they said hello.", []),
        ("Nothing to remember. They only said hello.", []),
        ("None.\n\nThey only said hello.", []),
        ("Facts:\n\n- None.\n", []),
        ("- Ada is allergic to:\n  none\n- One.", ["Ada is allergic to:\nnone", "One."]),
        ("- Nothing new was bought.", ["Nothing new was bought."]),
        ('["One.", "- Two.", "N/A", ""]', ["One.", "Two."]),
        (
            'Here:\n```json\n[{"text": "One.", "tags": ["a"]}, {"fact": "Two:\\n```\\nx\\n```"}]\n```\nBye!',
            ["One.", "Two:\n```\nx\n```"],
        ),
        ('{"facts": ["One."], "count": 1}', ["One."]),
        ('{"tags": ["a"], "facts": ["One."]}', ["One."]),
        ('{"decisions": ["One."], "plans": []}', ["One."]),
        ('{"decisions": [], "plans": []}', []),
        ('["One.\\u0000", "\\u0000"]', ["One."]),
        ("- One.\0\n- \0", ["One."]),
        ("- One\ud83e.", ["One."]),
        ('["One\\ud83e."]', ["One."]),
        ('```\n{"text": "One."}\n```', ["One."]),
        ("[]", []),
        ('{"facts": []}', []),
        ('["NOTHING_TO_REMEMBER"]', []),
        ('["uses ```x```"]', ["uses ```x```"]),
        ('- One.\n```json\n["two"]\n```', ["One."]),
        ('Ada uses\n```json\n{"a": 1}\n```\nhere.', ["Ada uses", '{"a": 1}', "here."]),
        ("- [Ada](ada.md) has a [[pager]].", ["[Ada](ada.md) has a [[pager]]."]),
        ("-\n```\n```\n", []),
        ("", []),
    ],
)
def test_facts_are_the_items_or_else_the_paragraphs(answer, facts):
    assert parse_facts(answer) == facts


@pytest.mark.parametrize(
    "answer",
    ["Nothing to remember.", "NOTHING TO REMEMBER", "nothing_to_remember", "None", "N/A", "No new information.", "没有",
     "没有。", "null", "`none`"],
)  # fmt: skip
@pytest.mark.parametrize("mark", ["", "- ", "**Facts**\n\n1. "])
def test_an_answer_that_says_nothing_is_no_fact(answer, mark):
    assert parse_facts(mark + answer) == []


@pytest.mark.parametrize(
    "answer",
    ["Nothing worth remembering.", "There are no facts worth keeping.", "Nichts zu merken.", "没有需要记住的内容。",
     "```\nThey only said hello.\n```\n", "## Facts\n\nThere is nothing worth keeping here.\n"],
)  # fmt: skip
def test_a_sentence_instead_of_a_list_is_no_fact(answer):
    assert parse_facts(answer) == []
    assert sentence_of(answer) in answer.split("\n")
    assert parse_facts(f"- {sentence_of(answer)}") == [sentence_of(answer)]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ('{"result": "ok", "note": 3}', "an object with the keys result, note"),
        ('{"decisions": ["One."], "plans": ["Two."]}', "an object with the keys decisions, plans"),
        ('["One.", 5]', "it has 5 where a text should be"),
        ('["One.", "Tw', "Unterminated string"),
        ('```json\n["One.", "Two"', "Expecting"),
        ('[{"a":' * 100_000, "no list of texts"),
    ],
)  # fmt: skip
def test_json_of_another_shape_is_an_error_that_names_its_keys(answer, message):
    with pytest.raises(FlusherError, match=message):
        parse_facts(answer)


@given(st.lists(st.sampled_from(["a", "A fact.", ":", "\n  ", " ", "**"])), st.booleans())
def test_all_words_of_an_item_are_kept(pieces, is_first):
    item = "- x" + "".join(pieces)
    answer = f"{item}\n- last" if is_first else f"- first\n{item}"
    assert "".join("".join(parse_facts(answer)).split()).count("Afact.") == pieces.count("A fact.")


@pytest.mark.parametrize("unit", ["<think>", "**a", "**", "- ", "a:\n", "a\n", " \n", "1. ", "__a", "<think>\n"])
def test_a_long_answer_is_parsed_quickly(unit):
    text = unit * (200_000 // len(unit))
    assert sum(map(len, parse_facts(text))) <= len(text)
