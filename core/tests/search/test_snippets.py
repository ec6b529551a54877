"""A snippet is the part of a text that shows why it was found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kipu.search.snippets import snippet

FILLER = "Nothing of interest stands in this sentence, which is here to be passed over. "
LONG = FILLER * 20 + "The cache moved from Redis to Valkey because the licence changed. " + FILLER * 20


def test_a_short_text_is_shown_whole():
    assert snippet("We moved to Valkey.\nIt was cheaper.", "valkey") == "We moved to Valkey.\nIt was cheaper."


def test_a_long_text_is_shown_where_it_matched():
    shown = snippet(LONG, "why did we leave redis for valkey")
    assert "Redis to Valkey because the licence changed." in shown
    assert (shown[0], shown[-1]) == ("…", "…")


def test_the_beginning_is_shown_where_nothing_matches():
    shown = snippet(LONG, "xylophone")
    assert LONG.startswith(shown.removesuffix("…"))
    assert shown.endswith("…")


@pytest.mark.parametrize("query", ["", "   ", "?!...", "\n", "-"])
def test_a_query_without_words_shows_the_beginning(query):
    assert snippet(LONG, query) == snippet(LONG, "xylophone")


def test_the_place_with_most_of_the_words_is_shown():
    text = "Redis once. " + FILLER * 20 + "Redis and Valkey and their licence. " + FILLER * 20 + "The licence again."
    assert "Redis and Valkey and their licence." in snippet(text, "redis valkey licence")


def test_a_rare_word_counts_for_more_than_a_common_one():
    text = "The team met and the team ate and the team left. " + FILLER * 20 + "The pelago code is 42." + FILLER * 20
    assert "pelago" in snippet(text, "the team pelago")


def test_the_forms_of_a_word_match():
    assert "We decided on it." in snippet(FILLER * 20 + "We decided on it. " + FILLER * 20, "deciding")


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("データベース", "新しいデータベースに移行した。"),
        ("数据库", "我们更换了数据库。"),
        ("데이터베이스", "데이터베이스를 옮겼다."),
        ("ฐานข้อมูล", "เราย้ายฐานข้อมูลแล้ว"),
        ("डेटाबेस", "हमने डेटाबेस बदल दिया।"),
        ("café", "The CAFÉ is closed."),
        ("C++", "Written in C++ since then."),
        ("ZX-99817", "The error was ZX-99817."),
        ("foo_bar", "See foo_bar for more."),
        ("lodzi", "Spotkanie w Łodzi dzisiaj."),
        ("RÉSUMÉ", "My resume is here."),
        ("resume", "My résumé is here."),
        ("passphrase", "The pass\u200bphrase is long."),
        ("kapi", "Kapıyı aç."),
        ("❤\ufe0f", "With ❤ from Rome."),
        ("🔥", "The deploy 🔥 failed."),
    ],
)
def test_the_match_is_shown_in_every_script(word, sentence):
    assert sentence in snippet(FILLER * 20 + sentence + " " + FILLER * 20, word)


def test_a_match_at_the_very_end_is_shown():
    assert snippet(FILLER * 20 + "The last word is valkey", "valkey").endswith("valkey")


def test_a_word_is_not_cut_in_two_at_the_end():
    shown = snippet(LONG, "valkey", length=100)
    assert shown.strip("…").split()[-1] in LONG.split()


def test_a_text_without_spaces_is_cut_too():
    assert len(snippet("あ" * 5000 + "東京" + "い" * 5000, "東京", length=100)) <= 102
    assert "東京" in snippet("あ" * 5000 + "東京" + "い" * 5000, "東京", length=100)


def test_characters_of_patterns_in_a_query_match_themselves():
    assert snippet(LONG, "(valkey [.*+ \\d{ ^$ |") == snippet(LONG, "valkey")


@given(st.text(max_size=200), st.text(max_size=20), st.integers(20, 100))
def test_a_snippet_is_a_part_of_the_text_and_no_longer_than_asked(text, query, length):
    shown = snippet(text, query, length)
    if len(text) <= length:
        assert shown == text
    else:
        assert len(shown) <= length + 2
        assert shown.removeprefix("…").removesuffix("…") in text


@given(st.text("ab \n", max_size=600), st.integers(0, 500))
def test_a_word_that_is_in_the_text_is_in_its_snippet(text, place):
    text = f"{text[:place]} valkey {text[place:]}"
    assert "valkey" in snippet(text, "valkey", 80)


def test_a_query_may_be_a_whole_page():
    assert snippet(LONG, FILLER * 500).startswith("Nothing of interest")


@pytest.mark.parametrize("unit", [" ", "\t", "x ", "<", '"', "\\", "> ", "ä", "日"])
def test_a_long_line_of_anything_is_cut(unit):
    assert len(snippet(f"x{unit * (200_000 // len(unit))}y", "y")) <= 600
