"""Properties that hold for every document."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kipu.types import Chunk, Document
from kipu_chunker_markdown import MarkdownChunker
from kipu_chunker_markdown.data import without_data
from kipu_chunker_markdown.tokens import estimate_tokens

# A busy machine must not fail a test.
without_deadline = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

words = st.sampled_from("redis a cache. queue! 数据库。 東京 ไทย слово | **b** `c` 👩\u200d👩\u200d👧 e\u0301".split())
prose = st.lists(words, min_size=1, max_size=40).map(" ".join)
headings = ["#", "# A", "## B", "### C #", "===", "---", "title: T", "+++"]
fences = ["```", "```py", "~~~", "````", "> ```", "  ```", "- ```", "    code", "<!--", "-->"]
others = ["- x", "1. y", "* ", "> q", ">", "|a|b|", "|-|-|", "a | b", "--|--", "***", "x" * 70, "Aa1" * 200]
blanks = ["", "", " ", "\t", "\u2028", "\x0b", "\r", "a\r"]
marks = st.sampled_from(headings + fences + others + blanks)
any_line = st.text(max_size=90).map(lambda text: text.replace("\n", ""))
documents = st.lists(st.one_of(marks, marks, prose, any_line), max_size=40).map("\n".join)
code_lines = st.sampled_from(["# code", "", "x = 1", "---", "| a |"])
options = st.integers(16, 60).flatmap(
    lambda tokens: st.builds(
        MarkdownChunker,
        tokens=st.just(tokens),
        overlap=st.integers(0, tokens // 2),
        context_before=st.integers(0, 3),
        context_after=st.integers(0, 3),
    )
)
without_overlap = st.builds(MarkdownChunker, tokens=st.integers(16, 60))


def cut(chunker: MarkdownChunker, text: str) -> list[Chunk]:
    return chunker.chunk(Document("memory/notes.md", text))


def bare(text: str) -> str:
    return "".join(text.split())


@without_deadline
@given(options, documents)
def test_no_chunk_exceeds_the_limit(chunker, text):
    assert all(estimate_tokens(chunk.text) <= chunker.tokens for chunk in cut(chunker, text))


@without_deadline
@example(MarkdownChunker(tokens=16, overlap=0, context_before=0, context_after=0), "- ```\n\n#")
@given(options, documents)
def test_a_chunk_is_the_text_of_its_lines_without_blank_edges(chunker, text):
    lines = text.split("\n")
    for chunk in cut(chunker, text):
        assert 1 <= chunk.start_line <= chunk.end_line <= len(lines)
        inside = lines[chunk.start_line - 1 : chunk.end_line]
        assert inside[0].strip()
        assert inside[-1].strip()
        shown = [line for line, _ in without_data(inside)]
        assert chunk.text.count("\n") == len(shown) - 1
        assert chunk.text in "\n".join(shown)
        assert chunk.text.strip()


@without_deadline
@given(without_overlap, documents)
def test_nothing_is_lost_and_nothing_is_repeated(chunker, body):
    text = f"No front matter.\n{body}"
    shown = "".join(line for line, _ in without_data(text.split("\n")))
    assert bare("".join(chunk.text for chunk in cut(chunker, text))) == bare(shown)


@without_deadline
@given(options, documents)
def test_every_line_is_covered_in_order(chunker, body):
    lines = ["No front matter.", *body.split("\n")]
    chunks = cut(chunker, "\n".join(lines))
    covered = {number for chunk in chunks for number in range(chunk.start_line, chunk.end_line + 1)}
    assert covered >= {number for number, line in enumerate(lines, 1) if line.strip()}
    assert [chunk.start_line for chunk in chunks] == sorted(chunk.start_line for chunk in chunks)


@without_deadline
@given(without_overlap, documents)
def test_front_matter_is_context_and_the_rest_is_text(chunker, body):
    chunks = cut(chunker, f"---\ntags: unseen\n---\nText.\n{body}")
    shown = "".join(line for line, _ in without_data(["Text.", *body.split("\n")]))
    assert bare("".join(chunk.text for chunk in chunks)) == bare(shown)
    assert "unseen" in chunks[0].context


@without_deadline
@given(without_overlap, documents)
def test_chunks_are_in_order_and_share_only_lines_that_were_cut(chunker, text):
    lines = text.split("\n")
    chunks = cut(chunker, text)
    for before, after in pairwise(chunks):
        assert before.end_line <= after.start_line
        if before.end_line == after.start_line:
            (line,) = (line.strip() for line, _ in without_data(lines[before.end_line - 1 : before.end_line]))
            assert after.text != line
            assert before.text.split("\n")[-1].strip() != line


@without_deadline
@given(options, documents)
def test_the_same_document_gives_the_same_chunks(chunker, text):
    assert cut(chunker, text) == cut(chunker, text)


@without_deadline
@given(
    st.lists(prose, max_size=4), st.lists(st.sampled_from(["# code", "", "x = 1", "---", "| a |"]), max_size=8), prose
)
def test_a_fence_that_fits_is_in_one_chunk(before, code, after):
    fence = "\n".join(["```python", *code, "```"])
    text = "\n\n".join([*before, fence, "# Heading", after])
    assert any(fence in chunk.text for chunk in cut(MarkdownChunker(tokens=40), text))


@without_deadline
@given(without_overlap, st.lists(st.tuples(st.integers(1, 4), prose), min_size=1, max_size=8))
def test_a_heading_is_not_the_end_of_a_chunk(chunker, sections):
    text = "\n".join(f"{'#' * level} H\n\n{body}" for level, body in sections)
    assert not any(chunk.text.split("\n")[-1].strip("#") == " H" for chunk in cut(chunker, text))


@without_deadline
@given(st.text(), st.text())
def test_tokens_of_a_text_are_at_most_those_of_its_parts(first, second):
    assert estimate_tokens(first + second) <= estimate_tokens(first) + estimate_tokens(second)
