from __future__ import annotations

import base64
import random
from itertools import pairwise

import attrs
import pytest

from kipu.errors import ConfigurationError
from kipu.types import Chunk, Chunker, Document
from kipu_chunker_markdown import MarkdownChunker, kipu_register_chunkers
from kipu_chunker_markdown.tokens import estimate_tokens


def cut(text: str, **options: int) -> list[Chunk]:
    return MarkdownChunker(**options).chunk(Document("memory/notes.md", text))


def lines_of(chunks: list[Chunk]) -> list[tuple[int, int]]:
    return [(chunk.start_line, chunk.end_line) for chunk in chunks]


# --- Registration and options ----------------------------------------------------------------------------------------


def test_the_plugin_registers_markdown():
    registered = {}
    kipu_register_chunkers(registered.__setitem__)
    assert registered == {"markdown": MarkdownChunker}


def test_it_implements_the_protocol():
    assert isinstance(MarkdownChunker(), Chunker)


def test_every_option_has_a_help_text():
    assert all(option.metadata["help"] for option in attrs.fields(MarkdownChunker))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": 15}, "tokens must be a whole number of at least 16, not 15"),
        ({"tokens": "100"}, "tokens must be a whole number of at least 16, not '100'"),
        ({"tokens": True}, "tokens must be a whole number of at least 16, not True"),
        ({"overlap": -1}, "overlap must be a whole number of at least 0, not -1"),
        ({"context_before": -1}, "context_before must be a whole number of at least 0, not -1"),
        ({"context_after": 1.5}, "context_after must be a whole number of at least 0, not 1.5"),
        (
            {"tokens": 40, "overlap": 21},
            "overlap must be at most half of tokens, 20, not 21. Reduce it, or increase tokens",
        ),
    ],
)
def test_an_invalid_option_is_refused(options, message):
    with pytest.raises(ConfigurationError) as caught:
        MarkdownChunker(**options)
    assert str(caught.value) == message


# --- Lines -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "\n", " \t\n\n  \n", "\n" * 100_000])
def test_a_blank_document_has_no_chunks(text):
    assert cut(text) == []


def test_blank_lines_at_the_edges_belong_to_no_chunk():
    assert cut("\n\n  indented\n\nend\n\n\n") == [Chunk("  indented\n\nend", 3, 5)]


def test_many_blank_lines_separate_chunks():
    assert lines_of(cut("first" + "\n" * 100_000 + "last")) == [(1, 1), (100_001, 100_001)]


def test_only_a_line_feed_ends_a_line():
    text = "one\x0b still\x0c one\u2028 line\x85 here\x1c\n\nthree"
    assert cut(text) == [Chunk(text, 1, 3)]


def test_carriage_returns_are_accepted():
    chunks = cut("---\r\ntitle: Trip\r\n---\r\n# Day ##\r\n\r\n```\r\n# code\r\n```\r\nEnd\r\n===\r\ntext")
    assert [(chunk.start_line, chunk.end_line, chunk.heading) for chunk in chunks] == [
        (4, 8, "Trip > Day"),
        (9, 11, "Trip > End"),
    ]


def test_odd_characters_are_kept():
    text = "a\0b\tc 😀 \ud800 <!-- d -->"
    assert cut(text) == [Chunk(text, 1, 1)]


def test_prose_fills_chunks_up_to_the_limit():
    text = "\n".join(f"**{'Ann' if turn % 2 else 'Bob'}**: This is turn number {turn} of it." for turn in range(100))
    chunks = cut(text)
    assert chunks[0].start_line == 1
    assert chunks[-1].end_line == 100
    assert all(after.start_line == before.end_line + 1 for before, after in pairwise(chunks))
    assert all(85 <= estimate_tokens(chunk.text) <= 100 for chunk in chunks[:-1])


def test_the_limit_is_exact():
    assert lines_of(cut("a" * 31 + "\n" + "b" * 32, tokens=16)) == [(1, 2)]
    assert lines_of(cut("a" * 32 + "\n" + "b" * 32, tokens=16)) == [(1, 1), (2, 2)]


# --- Overlong lines --------------------------------------------------------------------------------------------------


def test_an_overlong_line_is_cut_at_the_ends_of_sentences():
    sentence = "The cache is cleared every night at four."
    chunks = cut(" ".join([sentence] * 7), tokens=32)
    assert lines_of(chunks) == [(1, 1)] * len(chunks)
    assert all(chunk.text.startswith("The cache") and chunk.text.endswith("at four.") for chunk in chunks)
    assert sum(chunk.text.count(sentence) for chunk in chunks) == 7


def test_an_overlong_line_of_chinese_is_cut_at_the_ends_of_sentences():
    chunks = cut("我们决定使用新的缓存系统。" * 20, tokens=32)
    assert {chunk.text for chunk in chunks} == {"我们决定使用新的缓存系统。" * 2}


def test_an_overlong_line_without_sentences_is_cut_at_spaces():
    words = [f"word{number}" for number in range(200)]
    chunks = cut(" ".join(words), tokens=16)
    assert [word for chunk in chunks for word in chunk.text.split()] == words


def test_a_line_without_spaces_is_cut_anywhere():
    chunks = cut("x/." * 333 + "x", tokens=100)
    assert [len(chunk.text) for chunk in chunks] == [400, 300, 300]


def test_the_last_two_pieces_of_a_line_are_about_equally_long():
    chunks = cut(("One more sentence of it. " * 17).strip(), tokens=100)
    assert [estimate_tokens(chunk.text) for chunk in chunks] == [56, 50]


def test_a_very_long_line_is_cut():
    text = "0123456789abcde." * 44_344
    chunks = cut(f"# Data\n\n{text}\n\nend")
    assert "".join(chunk.text for chunk in chunks) == f"# Data\n\n{text}end"
    assert {chunk.end_line for chunk in chunks} == {3, 5}


@pytest.mark.parametrize("sequence", ["e\u0301\u0323", "👩‍👩‍👧", "👍🏽", "\u0e17\u0e35\u0e48", "\ud83d\ude00"])
def test_a_cut_does_not_split_a_character(sequence):
    for shift in range(5):
        for chunk in cut("x" * shift + sequence * 200, tokens=16):
            rest = chunk.text.lstrip("x").replace(sequence, "")
            assert rest == "", ascii(chunk.text)


def test_a_character_longer_than_a_chunk_is_cut():
    chunks = cut("a" + "\u0301" * 1000, tokens=16)
    assert sum(len(chunk.text) for chunk in chunks) == 1001


def test_long_white_space_within_a_line_is_not_a_chunk():
    assert [chunk.text for chunk in cut("a" + " " * 10_000 + "b", tokens=16)] == ["a", "b"]


def test_the_rest_of_the_line_is_context_of_a_piece():
    first, second = cut("One two three four five. " * 4 + "Six seven eight nine ten.", tokens=20, context_before=1)
    assert (first.context, second.context) == (second.text, first.text)


# --- Headings --------------------------------------------------------------------------------------------------------


def test_the_heading_is_the_path_of_headings():
    chunks = cut("intro\n# Decisions\nwhy\n## Cache\nRedis\n### When\nnow\n## Queue\nnone\n# Other\nend")
    assert [(chunk.heading, chunk.heading_level, chunk.start_line, chunk.end_line) for chunk in chunks] == [
        ("", 0, 1, 1),
        ("Decisions", 1, 2, 3),
        ("Decisions > Cache", 2, 4, 5),
        ("Decisions > Cache > When", 3, 6, 7),
        ("Decisions > Queue", 2, 8, 9),
        ("Other", 1, 10, 11),
    ]


def test_underlined_lines_are_headings():
    chunks = cut("Decisions\n=====\nwhy\n\nCache\n-----\nRedis")
    assert [(chunk.heading, chunk.heading_level, chunk.start_line) for chunk in chunks] == [
        ("Decisions", 1, 1),
        ("Decisions > Cache", 2, 5),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "an item\n - one\n---\ntext",
        "two lines\nof text\n---\nmore",
        "> a quotation\n---\nmore",
        "text\n\n---\nmore",
        "text\n--- more",
        "#hashtag\n####### seven",
        "    # code",
        "<!--\n# hidden\n-->\nmore",
        "- # no section",
    ],
)
def test_a_line_that_only_resembles_a_heading_is_text(text):
    assert cut(text) == [Chunk(text, 1, text.count("\n") + 1)]


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("# Cache ##", "Cache"),
        ("# C#", "C#"),
        ("#\tTabs\tinside", "Tabs inside"),
        ("# **Bold** and *slanted* and _this_ ~~gone~~", "Bold and slanted and this gone"),
        ("# snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4"),
        ("# The `__init__` method", "The __init__ method"),
        ("# **`foo`**", "foo"),
        ("# See [the *page*](https://example.org) ![logo](x.png)", "See the page logo"),
        ("# [[People/Ann|Ann]] and [[Bob]]", "Ann and Bob"),
        (r"# 1\. Not \*this\*", "1. Not *this*"),
        ("# Usage {#usage}", "Usage"),
        ('# <a name="top"></a>Top', "Top"),
    ],
)
def test_markup_is_removed_from_a_heading(line, heading):
    assert cut(line + "\ntext")[0].heading == heading


def test_a_long_heading_is_shortened_in_the_path_and_complete_in_the_text():
    chunks = cut("# " + "[" * 100_000)
    assert len(chunks[0].heading) == 300
    assert sum(chunk.text.count("[") for chunk in chunks) == 100_000


def test_a_heading_without_text_joins_the_section_below_it():
    assert cut("# Decisions\n\n## Cache\n\nRedis") == [
        Chunk("# Decisions\n\n## Cache\n\nRedis", 1, 5, "Decisions > Cache", 2)
    ]


def test_a_section_without_text_is_a_chunk_if_no_section_below_it_follows():
    chunks = cut("## To do\n\n## Done\n\nall\n\n## Later")
    assert [chunk.heading for chunk in chunks] == ["To do", "Done", "Later"]


def test_a_heading_stays_with_the_first_lines_of_a_paragraph_that_is_too_long_to_join_it():
    chunks = cut("# Notes\n" + "\n".join(["twenty-three characters"] * 10), tokens=60)
    assert lines_of(chunks) == [(1, 10), (11, 11)]


def test_a_heading_takes_the_first_sentences_of_a_line_that_is_too_long_to_join_it():
    first, second = cut("# Notes\n\n" + "This sentence is here twice. " * 2, tokens=16)
    assert first == Chunk("# Notes\n\nThis sentence is here twice.", 1, 3, "Notes", 1, "This sentence is here twice.")
    assert second == Chunk("This sentence is here twice.", 3, 3, "Notes", 1, "This sentence is here twice.")


def test_a_rule_belongs_to_the_section_after_it():
    assert lines_of(cut("# One\ntext\n\n---\n\n# Two\ntext")) == [(1, 2), (4, 7)]


# --- Fences and tables -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fence",
    [
        "```\n# no heading\n\nmore\n```",
        "~~~ python title=x\n# no heading\n```\n\nmore\n~~~",
        "````md\n```\n# no heading\n```\n\nmore\n````",
        "- item\n\n  ```sh\n  # no heading\n\n  more\n  ```",
        "- ```sh\n  # no heading\n\n  more\n  ```",
        "> ```\n> # no heading\n>\n> more\n> ```",
        "```\n# no heading\n\nunclosed, with a | b",
        "``` a\n# no heading\n``` not closed by this\n```",
    ],
)
def test_a_fence_is_not_split_and_has_no_headings(fence):
    before = "word " * 70
    chunks = cut(f"{before.strip()}\n\n{fence}", tokens=100)
    assert chunks[-1].text.endswith(fence.split("\n", 2)[2])
    assert "# no heading" in chunks[-1].text
    assert chunks[-1].heading == ""


def test_code_in_a_line_opens_no_fence():
    assert [chunk.heading for chunk in cut("``` not ``` a fence\n# Heading\ntext")] == ["", "Heading"]


def test_a_fence_in_a_quotation_ends_with_it():
    assert [chunk.heading for chunk in cut("> ```\n> code\n\n# Heading\ntext")] == ["", "Heading"]


def test_parts_of_a_long_fence_have_its_first_line_as_context():
    code = "\n".join(f"value_{number} = {number}" for number in range(40))
    chunks = cut(f"Text.\n\n```python\n{code}\n```", tokens=50, context_before=0, context_after=0)
    assert chunks[0].text == "Text."
    assert chunks[1].text.startswith("```python\nvalue_0 = 0\n")
    assert chunks[1].context == ""
    assert [chunk.context for chunk in chunks[2:]] == ["```python"] * (len(chunks) - 2)
    assert chunks[-1].text.endswith("value_39 = 39\n```")


def test_parts_of_a_long_table_have_its_header_as_context():
    rows = "\n".join(f"| {number} | something in a cell |" for number in range(30))
    chunks = cut(f"| id | what |\n|---|:-:|\n{rows}\n\nText.", tokens=50, context_before=1, context_after=1)
    assert chunks[0].text.startswith("| id | what |\n|---|:-:|\n| 0 |")
    last_row = chunks[0].text.split("\n")[-1]
    assert chunks[1].context.split("\n")[:2] == ["| id | what |", last_row]


def test_a_table_is_not_split_if_it_fits():
    table = "\n".join(["a | b", "--- | ---", *(f"{number} | something" for number in range(15))])
    chunks = cut(f"{'word ' * 50}\n\n{table}\n\n{'word ' * 50}")
    assert table in [chunk.text for chunk in chunks]


def test_a_fence_that_fits_only_without_its_heading_is_not_split():
    fence = "```\n" + "x" * 55 + "\n```"
    assert [chunk.text for chunk in cut(f"# Code\n{fence}", tokens=16)] == ["# Code", fence]


def test_a_list_item_keeps_its_lines_together():
    items = [f"- item {number}\n  goes on\n\n  and on" for number in range(20)]
    for chunk in cut("\n".join(items), tokens=32):
        assert chunk.text.startswith("- item")
        assert chunk.text.endswith("  and on")


# --- Entries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- milk\n- bread\n- eggs", [(1, 1), (2, 2), (3, 3)]),
        ("1. one\n   - nested\n\n   more\n2) two\n* [ ] task", [(1, 4), (5, 5), (6, 6)]),
        ("# Log\n\n- one\n- two\n\nProse,\n\nmore of it.\n\n- three", [(1, 3), (4, 4), (6, 8), (10, 10)]),
        ("Prose.\n\nA fact.\n[tags: a]\n\nMore.", [(1, 1), (3, 4), (6, 6)]),
        ("- one\n  [tags: a]\n- two", [(1, 2), (3, 3)]),
        ("> - quoted\n> - list", [(1, 2)]),
        ("- " + "word " * 50 + "\n- two", [(1, 1), (2, 2)]),
        ("# A heading that is long\n\n- " + "x" * 60 + " y " + "z" * 320, [(1, 1), (3, 3)]),
    ],
)
def test_an_entry_is_a_chunk_of_its_own_with_the_headings_above_it(text, expected):
    assert lines_of(cut(text)) == expected


def test_an_entry_has_its_neighbours_and_what_announces_the_list_as_context():
    chunks = cut("## Hosts\n\nServers:\n\n- one\n- two\n- three\n- four\n- five")
    assert [chunk.context.split("\n") for chunk in chunks[1:]] == [
        ["Servers:", "- two"],
        ["Servers:", "- one", "- three"],
        ["Servers:", "- one", "- two", "- four"],
        ["Servers:", "- two", "- three", "- five"],
        ["Servers:", "- three", "- four"],
    ]
    assert {chunk.heading for chunk in chunks} == {"Hosts"}


def test_an_entry_that_is_too_long_is_split():
    chunks = cut("- first\n" + "- " + "This is a sentence. " * 50 + "\n- last")
    assert {chunk.start_line for chunk in chunks[1:-1]} == {2}
    assert all(50 <= estimate_tokens(chunk.text) <= 100 for chunk in chunks[1:-1])


def test_an_item_that_is_appended_changes_no_chunk_but_its_neighbour():
    before = {chunk.hash for chunk in cut("\n".join(f"- item {number}" for number in range(1000)))}
    after = {chunk.hash for chunk in cut("\n".join(f"- item {number}" for number in range(1001)))}
    assert len(after) == 1001
    assert len(after - before) == 2


# --- Data ------------------------------------------------------------------------------------------------------------

IMAGE = base64.b64encode(random.Random(1).randbytes(45_000)).decode()
BLOCK = "\n\n".join(IMAGE[start : start + 256] for start in range(0, 12_000, 256))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"We saw.\n\n![p](data:image/png;base64,{IMAGE})\n\nThen.", "We saw.\n\n![p]([59 KB of image/png])\n\nThen."),
        (f'a <img src="data:image/gif;base64,{IMAGE}"> b', 'a <img src="[59 KB of image/gif]"> b'),
        (f"[p][1]\n\n[1]: DATA:text/html,{'%20a' * 500}", "[p][1]\n\n[1]: [2 KB of text/html]"),
        (f"```compressed-json\n{BLOCK}\n```", "```compressed-json\n[12 KB of data]\n```"),
        (f"> {BLOCK[:76]}\n" * 20 + "> Text", "[2 KB of data]\n> Text"),
        ("x" * 200_000, "[196 KB of data]"),
        ("я" * 2_000, "[2 KB of data]"),
    ],
    ids=["image", "HTML", "link", "drawing", "quotation", "word", "Cyrillic"],
)
def test_data_is_a_label_in_one_chunk(text, shown):
    assert cut(text) == [Chunk(shown, 1, text.count("\n") + 1)]


@pytest.mark.parametrize(
    "text",
    [
        "今天我们去了公园。" * 10,
        "今天我们去了公园" * 100,
        "\n".join(["ab12" * 16] * 50),
        '{"name":"ann"},' * 100,
        "https://example.org/" + "a-path/" * 10 + "?" + "&key=value" * 100,
    ],
    ids=["Chinese", "without marks", "hashes", "JSON", "address"],
)
def test_long_text_without_white_space_is_no_data(text):
    assert "KB of" not in "".join(chunk.text for chunk in cut(text))


# --- Front matter ----------------------------------------------------------------------------------------------------


def test_front_matter_is_context_of_the_first_chunk_and_its_title_a_heading():
    metadata = "title: 'Cache: why'\ntags: [redis, c#]\nlinks:\n  - one\nabout: >-\n  long text"
    text = f"---\n{metadata}\n---\n\nHello\n# Next\nmore"
    assert cut(text) == [
        Chunk("Hello", 10, 10, "Cache: why", 1, "redis, c#\none\nlong text\nmore"),
        Chunk("# Next\nmore", 11, 12, "Cache: why > Next", 1, "Hello"),
    ]


@pytest.mark.parametrize(
    ("front_matter", "heading"),
    [
        ("title: >-\n  two\n  lines", "two lines"),
        ("title: |\n  two\n  lines", "two lines"),
        ("title: 'It''s fine' # comment", "It's fine"),
        ("title: ~", ""),
        ("meta:\n  title: X", ""),
        ("title: Not: YAML", "Not: YAML"),
    ],
)
def test_a_title_is_read_as_yaml_is(front_matter, heading):
    assert [chunk.heading for chunk in cut(f"---\n{front_matter}\n---\ntext")] == [heading]


def test_a_title_that_is_the_first_heading_is_not_repeated():
    assert [chunk.heading for chunk in cut("---\ntitle: Cache\n---\n# Cache\na\n# Other\nb")] == ["Cache", "Other"]


def test_front_matter_may_be_toml():
    assert cut('+++\ntitle = "Cache"\ntags = ["a", "b"]\n+++\nHello') == [Chunk("Hello", 5, 5, "Cache", 1, "a, b")]


def test_long_front_matter_is_indexed_in_full():
    tags = [f"tag{number}" for number in range(1000)]
    (chunk,) = cut("\n".join(["---", "tags:", *(f"  - {tag}" for tag in tags), "---", "Hello"]))
    assert chunk.context.split(", ") == tags


def test_front_matter_without_text_is_indexed_as_text():
    assert cut("---\ntitle: Cache\ntags: redis\n---\n") == [Chunk("title: Cache\ntags: redis", 2, 3)]


def test_empty_front_matter_without_text_has_no_chunks():
    assert cut("---\n---\n") == []


@pytest.mark.parametrize(
    "text", ["---\ntitle: Cache", "---\nprose, and more\n\n---\nmore", "\n---\na: b\n---", "- a: b"]
)
def test_lines_that_only_resemble_front_matter_are_text(text):
    assert "".join(chunk.text for chunk in cut(text)).split() == text.split()


# --- Overlap and context ---------------------------------------------------------------------------------------------


def test_overlap_repeats_whole_lines():
    text = "\n".join(f"This is line {number:05}" for number in range(40))
    chunks = cut(text, tokens=50, overlap=12)
    assert lines_of(chunks)[:3] == [(1, 10), (9, 18), (17, 26)]
    assert all(estimate_tokens(chunk.text) <= 50 for chunk in chunks)


def test_overlap_repeats_words_of_a_line_that_was_cut():
    words = [f"word{number}" for number in range(200)]
    chunks = cut(" ".join(words), tokens=40, overlap=10)
    for before, after in pairwise(chunks):
        repeated = [word for word in after.text.split() if word in before.text.split()]
        assert repeated
        assert before.text.endswith(" ".join(repeated))
        assert estimate_tokens(" ".join(repeated)) <= 10


def test_overlap_does_not_cross_a_heading():
    assert lines_of(cut("# One\ntext\n# Two\ntext", overlap=50)) == [(1, 2), (3, 4)]


def test_context_is_the_lines_with_words_around_a_chunk_without_headings():
    chunks = cut("# One\n\nfirst\nsecond\nthird\n\n***\n\n# Two\n\nfourth\n\n# Three\n\n...\n\nfifth\nsixth")
    assert [chunk.context for chunk in chunks] == ["fourth", "second\nthird\nfifth", "third\nfourth"]


def test_context_can_be_disabled():
    assert {chunk.context for chunk in cut("# A\na\n# B\nb\n# C\nc", context_before=0, context_after=0)} == {""}


def test_long_neighbours_are_shortened_to_the_part_next_to_the_chunk():
    long_line = " ".join(f"word{number}" for number in range(1000))
    chunks = cut(f"# A\n{long_line}\n# B\nshort\n# C\n{long_line}", context_before=1)
    (chunk,) = [chunk for chunk in chunks if chunk.heading == "B"]
    before, after = chunk.context.split("\n")
    assert before.endswith(" word999")
    assert after.startswith("word0 word1 ")
    assert estimate_tokens(before) <= 100
    assert estimate_tokens(after) <= 100
