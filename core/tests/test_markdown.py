"""`kipu.markdown` reads files as people write them: blocks, front matter, entries and metadata."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from markdown_texts import texts

from kipu.errors import QueryError
from kipu.markdown import (
    canonical,
    check_metadata,
    entries,
    format_entry,
    format_metadata,
    front_matter,
    group_items,
    heading_level,
    heading_title,
    item_mark,
    leading_headings,
    normalize_text,
    page_properties,
    read_metadata,
    scan,
)


def kinds(text: str, **options: bool) -> list[tuple[str, int, int]]:
    return [(block.kind.value, block.start, block.end) for block in scan(text.split("\n"), **options)]


# --- blocks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("one\ntwo\n\nthree", [("text", 0, 2), ("text", 3, 4)]),
        ("# A\ntext\n## B", [("heading", 0, 1), ("text", 1, 2), ("heading", 2, 3)]),
        ("A\n===\nB\n---", [("heading", 0, 2), ("heading", 2, 4)]),
        ("- a\n---", [("text", 0, 1), ("rule", 1, 2)]),
        ("- a\n\n  # b\n- c", [("text", 0, 3), ("text", 3, 4)]),
        ("- a\nlazy\n\nb", [("text", 0, 2), ("text", 3, 4)]),
        ("x\n```\n# y\n\n```\nz", [("text", 0, 1), ("fence", 1, 5), ("text", 5, 6)]),
        ("- ```\n  x\ny", [("fence", 0, 2), ("text", 2, 3)]),
        ("a | b\n--|--\n1 | 2\nend", [("table", 0, 3), ("text", 3, 4)]),
        ("- a | b\n- --|--", [("text", 0, 1), ("text", 1, 2)]),
        ("- | a |\n  |---|\n- | b |", [("table", 0, 2), ("text", 2, 3)]),
        ("<!-- a\n\n# b\n--> c\nd", [("text", 0, 5)]),
    ],
)
def test_a_text_is_made_of_blocks(text, blocks):
    assert kinds(text) == blocks


@pytest.mark.parametrize(
    ("text", "strict", "tolerant"),
    [
        ("```\n# a", [("fence", 0, 2)], [("text", 0, 1), ("heading", 1, 2)]),
        (
            "```\n- a\n  ```\n- b",
            [("fence", 0, 3), ("text", 3, 4)],
            [("text", 0, 1), ("text", 1, 2), ("fence", 2, 3), ("text", 3, 4)],
        ),
        (
            "<!--\n- a -->\n# b",
            [("text", 0, 2), ("heading", 2, 3)],
            [("text", 0, 1), ("text", 1, 2), ("heading", 2, 3)],
        ),
        ("```\n# a\n```", [("fence", 0, 3)], [("fence", 0, 3)]),
        ("<!--\n# a\n-->", [("text", 0, 3)], [("text", 0, 3)]),
    ],
)
def test_a_tolerant_scan_ends_fences_and_comments_only_at_the_margin(text, strict, tolerant):
    assert kinds(text) == strict
    assert kinds(text, tolerant=True) == tolerant


def test_headings_have_levels_and_items_are_marked():
    blocks = scan("# A\nB\n---\n- c\n  - d\n> - e\n- ~~~\n".split("\n"))
    assert [block.level for block in blocks] == [1, 2, 0, 0, 0, 0]
    assert [block.is_item for block in blocks] == [False, False, True, True, True, True]


def test_items_are_grouped_with_what_is_indented_below_them():
    lines = "- a\n  ```\n  b\n  ```\n\n  c\n- d\ne".split("\n")
    assert [(group[0].start, group[-1].end) for group in group_items(lines, scan(lines))] == [(0, 6), (6, 8)]


@pytest.mark.parametrize("unit", ["````a\n", "<!--\n", "- ```\n", "> ```\n", "```\n", "- a\n\n", "a | b\n", "---\n"])
@pytest.mark.parametrize("tolerant", [True, False])
def test_a_long_text_of_anything_is_scanned(unit, tolerant):
    lines = (unit * 40_000).split("\n")
    blocks = scan(lines, tolerant=tolerant)
    assert all(before.end <= after.start for before, after in pairwise(blocks))


@pytest.mark.parametrize("title", ["x", "#x", "x#", "C #1", "x # y"])
@pytest.mark.parametrize("end", ["", " ", " #", "\t## ", " ###  "])
def test_a_title_has_no_marks(title, end):
    assert heading_title(f"## {title}{end}") == title
    assert heading_title(title) == title


@pytest.mark.parametrize(
    ("line", "level"), [("# a", 1), ("######", 6), ("####### a", 7), ("#a", 7), (" # a", 7), ("", 7)]
)
def test_a_heading_has_a_level(line, level):
    assert heading_level(line) == level


@pytest.mark.parametrize(
    ("text", "new", "count"),
    [
        ("# A\n\n## B\n\nx", "", 4),
        ("# A\n\n## B\n\nx", "## C", 2),
        ("# A", "", 0),
        ("x\n# A", "", 0),
        ("# A\nx", "# B", 0),
    ],
)
def test_headings_lead_a_text(text, new, count):
    assert leading_headings(text, new) == count


@pytest.mark.parametrize(
    ("line", "mark"), [("- a", "- "), ("  12)  a", "  12)  "), ("*\ta", "*\t"), ("-a", ""), ("- ", ""), ("a - b", "")]
)
def test_an_item_has_a_mark(line, mark):
    assert item_mark(line) == mark


# --- front matter --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "end", "properties"),
    [
        ("---\ntitle: A\ntags:\n  - b\n---\nx", 5, {"title": ["A"], "tags": ["b"]}),
        (
            '+++\ntitle = "A"\ndate = 2026-11-20\n[x]\ny = true\n+++',
            6,
            {"title": ["A"], "date": ["2026-11-20"], "x": []},
        ),
        ("---\n# comment\na: b\n...\n", 4, {"a": ["b"]}),
        ("---\n---\n", 2, {}),
        ("---\na: b\n", 0, {}),
        ("---\nprose, and more\n---\n", 0, {}),
        ("a\n---\nb: c\n---\n", 0, {}),
        ("", 0, {}),
    ],
)
def test_front_matter_stands_at_the_very_start(text, end, properties):
    found = front_matter(text.split("\n"))
    assert (found.end, {key: found.properties.get(key) for key in properties}) == (end, properties)


@pytest.mark.parametrize(
    ("yaml", "values"),
    [
        ("a: >-\n  two\n  lines", ["two lines"]),
        ("a: over\n  two", ["over two"]),
        ('a: "A \\"quoted\\" title"', ['A "quoted" title']),
        ("a: 'It''s fine'", ["It's fine"]),
        ("a: Real title # comment", ["Real title"]),
        ('a: "Real title" # comment', ["Real title"]),
        ("a: ~", []),
        ("a: null", []),
        ("a: 'null'", ["null"]),
        ("a: no", ["no"]),
        ("a: True", ["true"]),
        ("a: 1.10", ["1.10"]),
        ("a: 2026-11-20", ["2026-11-20"]),
        ("a: 2026-11-20 10:00:00 +01:00", ["2026-11-20T10:00:00+01:00"]),
        ("a: 2026-13-45 10:00:00", ["2026-13-45 10:00:00"]),
        ("a:\n- x\n- [y, z]", ["x", "y", "z"]),
        ("a: &all [x]\nb: *all", ["x"]),
        ("a: x\na: y", ["x", "y"]),
        ("a: !!python/object/apply:os.getcwd []", []),
        ("a: Not: YAML", ["Not: YAML"]),
        ("b: x\n\ta: y", ["y"]),
        ("a: [x\nb: }", ["x"]),
        (f"a: {'[' * 9000}", []),
    ],
)
def test_the_values_of_front_matter_are_texts(yaml, values):
    assert front_matter(["---", *yaml.split("\n"), "---"]).properties["a"] == values


def test_keys_of_inner_mappings_are_joined_by_dots():
    assert front_matter(["---", "meta:", "  title: X", "---"]).properties == {"meta": [], "meta.title": ["X"]}


@pytest.mark.parametrize("leaf", ["[]", "{k: v}", "text", "{[]: v}"])
@pytest.mark.parametrize("key", ["a", '"": ', "- "])
def test_aliases_that_multiply_are_read_to_a_bound(leaf, key):
    lines = [f"{f'a{n}: ' if key == 'a' else key}&a{n} [{', '.join([f'*a{n - 1}'] * 50)}]" for n in range(1, 12)]
    found = front_matter(["---", f"{'a0: ' if key == 'a' else key}&a0 {leaf}", *lines, "---"]).properties
    assert ("a0" in found) is (key == "a")
    assert sum(map(len, found.values())) < 100_000


@pytest.mark.parametrize(
    ("fence", "line"),
    [("+++", f"a = 0x{'f' * 5000}"), ("+++", f"{'a.' * 45_000}a = 1"), ("---", f'a: !!timestamp "x{" " * 90_000}y"')],
)
def test_a_value_that_takes_long_to_read_is_read_by_line(fence, line):
    assert front_matter([fence, "b = 1" if fence == "+++" else "b: 1", line, fence]).properties["b"][0] == "1"


def test_opened_links_of_a_property_are_read_in_linear_time():
    assert page_properties(["tags:: " + "[[" * 200_000]) == {"tags": ["[[" * 200_000]}


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("---\ntags: #a #b\n---", ["a b"]),
        ("---\ntags:\n  - #a\n  - b/c\n---", ["a", "b/c"]),
        ("tags:: a, [[b c]], #d\ntitle:: X\n- text", ["a", "b c", "#d"]),
        ("text\ntags:: a", None),
    ],
)
def test_tags_are_read_as_people_write_them(text, tags):
    assert page_properties(text.split("\n")).get("tags") == tags


def test_no_lines_have_no_front_matter():
    assert front_matter([]).end == 0


# --- entries -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# A\n\ntext\nmore\n\n---\n\n- b\n\n  c\n- d", ["text\nmore", "b\n\nc", "d"]),
        ("- a\n  [id: q]\n- b", ["a", "b"]),
        ("---\ntitle: x\n---\n\ny", ["y"]),
        ("```\nnever closed\n\n- a\n- b", ["```\nnever closed", "a", "b"]),
        ("```\ncode\n\n- a\n```\n- b", ["```\ncode\n\n- a\n```", "b"]),
        ("<!-- a\n\n- b\n-->", ["<!-- a\n\n- b\n-->"]),
        ("| a |\n|---|\n[id: q]", ["| a |\n|---|", "[id: q]"]),
    ],
)
def test_entries_are_items_paragraphs_fences_and_tables(text, found):
    assert [entry.text for entry in entries(text.split("\n"))] == found


@given(texts, st.dictionaries(st.sampled_from(["tags", "origin", "id", "b-2"]), texts, max_size=3))
def test_an_entry_is_read_as_it_was_written(text, metadata):
    try:
        normalized, known = normalize_text(text), check_metadata(metadata)
    except QueryError:
        assume(False)
    lines = format_entry(normalized, known)
    (entry,) = entries(lines)
    assert entry.metadata == known
    unescaped = "\n".join(line.removeprefix("\\") for line in entry.text.split("\n"))
    plain = "\n".join(line.strip().removeprefix("\\") for line in normalized.split("\n"))
    assert canonical(unescaped) == canonical(plain)
    assert format_entry(entry.text, known) == lines
    assert all(line[:1] in ("-", " ", "") for line in lines)


@given(texts, texts)
def test_an_entry_changes_nothing_above_and_below_it(above, text):
    try:
        lines = format_entry(text, {"tags": "mine"})
    except QueryError:
        assume(False)
    before, after = above.split("\n"), ["", "# Heading", "", "word"]
    found = entries([*before, "", *lines, *after])
    (new,) = [entry for entry in found if entry.start_line == len(before) + 2]
    assert new.end_line == len(before) + 1 + len(lines)
    others = [(entry.text, entry.metadata) for entry in found if entry is not new]
    assert others == [(entry.text, entry.metadata) for entry in entries([*before, *after])]


# --- metadata ------------------------------------------------------------------------------------------------------


@given(st.dictionaries(st.from_regex("[a-z][a-z0-9_-]{0,5}", fullmatch=True), st.text(max_size=20), max_size=4))
def test_metadata_is_read_as_it_was_written(metadata):
    try:
        known = check_metadata(metadata)
    except QueryError:
        assume(False)
    line = format_metadata(known)
    assert read_metadata(line) == known
    assert len(line.splitlines()) <= 1 or not set(line) & set("\r\n")


@given(st.text(max_size=40))
def test_any_line_in_brackets_is_read_as_text(line):
    metadata = read_metadata(f"[{line}]")
    assert all(isinstance(part, str) for pair in metadata.items() for part in pair)


UNITS = [" ", "\t", "#", " #", "# ", "x ", "<", "</", "[a: ", "a: b; ", '"', "\\", "> ", "- ", "1. ", "`", "ä", "日"]


@pytest.mark.parametrize("unit", UNITS)
def test_a_long_line_of_anything_is_read(unit):
    filler = unit * (200_000 // len(unit))
    for line in (f"x{filler}y", f"# x{filler}y", f"[a: {filler}", f'[a: "{filler}', f"  [a: {filler}]y"):
        assert heading_title(line) in line
        assert leading_headings(f"{line}\n\nand so on") == (2 if line[0] == "#" else 0)
        assert read_metadata(line) == {}
        assert entries(format_entry(line, {}))[0].text == line.strip()
