"""Markdown for properties: lines that mean something to a scanner, texts of them, and files in any encoding."""

from __future__ import annotations

from hypothesis import assume
from hypothesis import strategies as st

from kipu.workspace.text import NotTextError, TextFile

LINES = [
    *("", "", " ", "\t", "word", "two words", "- item", "* item", "1. item", "  indented", "    code", "> quote"),
    *("# Heading", "## Heading", "### Deep ###", "#no heading", "```", "```python", "~~~", "````", "---", "***", "==="),
    *("[tags: a; b: c]", "  [valid_until: 2001-01-01]", "> [tags: a]", "\\[tags: a]", "| a | b |", "|--|--|", "<!--"),
    *("-->", "- ```", "  ```", "> ```", "- | -", "- | a", "trailing  "),
    *("na\u00efve caf\u00e9", "\u6771\u4eac", "\U0001f9a6", "a\u2028b", "a\x0bb", "a\x85b", "\xa0"),
]
lines_of_text = st.one_of(st.sampled_from(LINES), st.text(st.characters(exclude_characters="\0\r\n"), max_size=8))
texts = st.lists(lines_of_text, min_size=1, max_size=6).map("\n".join)
line_ends = st.sampled_from(["\n", "\r\n", "\r"])


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Draw the bytes of a Markdown file: its lines, each with an end of its own, in any encoding."""
    lines = draw(st.lists(lines_of_text, max_size=12))
    end = draw(line_ends)
    ends = draw(st.lists(st.sampled_from([end, end, end, "\n", "\r\n"]), min_size=len(lines), max_size=len(lines)))
    text = "".join(f"{line}{end}" for line, end in zip(lines, ends, strict=True))
    if lines and draw(st.booleans()):
        text = text.rstrip("\r\n")
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"]))
    return text.encode(encoding, "replace")


def parsed(data: bytes) -> TextFile:
    """Parse a file; reject the example if it is no text."""
    try:
        return TextFile.parse(data)
    except NotTextError:
        assume(False)
        raise
