"""What holds for any text: places are right, nothing is raised, and the cost grows as the text does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kipu.types import StoredChunk
from kipu_strategy_graph.extraction import Extraction, extract, key, names_in, phrase

PIECES = [
    *("Ravi", "Marta Lopes", "FastAPI", "[[", "]]", "|", "#", "`", "**", "::", ": ", "- ", "[x] ", "\n", "\n\n", ". "),
    *(
        "uses ",
        "is ",
        "the ",
        "and ",
        "not ",
        "who ",
        ", ",
        "'s ",
        "(",
        ")",
        "same_as ",
        "May ",
        "It ",
        "?",
        "2019",
        " ",
    ),
    *(
        "---\n",
        "```\n",
        "Dr. ",
        "since 2020",
        "ł",
        "\u0301",
        "小明",
        "\ud800",
        "\0",
        "\u2028",
        "İ",
        "ﬁ",
        "’s",
        "aliases: [",
    ),
]
TEXTS = st.text() | st.lists(st.sampled_from(PIECES)).map("".join)


def read(text: str, heading: str = "Ravi", path: str = "memory/ravi.md") -> Extraction:
    return extract(StoredChunk(1, "c", path, "memory", None, 1, 9, heading, 1, text, ""))


@given(TEXTS)
def test_a_name_stands_where_it_is_found(text):
    for name, start, end, _ in names_in(text):
        assert text[start:end] == name != ""
    for mention in read(text).mentions:
        if mention.start >= 0:
            assert text[mention.start : mention.end] == mention.name


@given(TEXTS, TEXTS, TEXTS)
def test_any_text_is_read_and_always_alike(text, heading, path):
    found = read(text, heading, path)
    assert found == read(text, heading, path)
    assert all(each.source and each.predicate and each.target for each in found.relations)
    assert all(key(each.alias) and key(each.name) for each in found.aliases)
    assert len({key(each.name) for each in found.mentions}) == len(found.mentions)


@given(TEXTS)
def test_keys_and_phrases_of_keys_are_what_they_were(text):
    assert key(key(text)) == key(text)
    assert all(word and not word.isspace() for word in phrase(text))
    assert phrase(" ".join(phrase(text))) or not phrase(text)


@pytest.mark.parametrize(
    "piece",
    ["a", "A", "A ", "a-", "a.", "A.", "A'", ". ", " ", "[[", "[[a|b]]", "[[a", "`", "**", "#", " #a", "(", ": ", "::",
     "- [a] ", "\n- ", "The a ", "Ravi uses ", ", and A ", "A and ", "\t", "_", "]", "'s", "小"],
)  # fmt: skip
def test_a_megabyte_is_read_in_time_that_grows_as_it_does(piece):
    found = read(piece * (1_000_000 // len(piece)))
    assert len(found.mentions) <= 1_010
    assert len(found.relations) + len(found.aliases) <= 1_000


def test_ten_thousand_aliases_are_read_up_to_a_thousand():
    assert len(read(" ".join(f"[[P{number}|q{number}]]" for number in range(10_000))).aliases) == 1_000
