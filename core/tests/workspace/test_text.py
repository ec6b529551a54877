"""A file that is parsed can be written back, byte for byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kipu.workspace.text import NotTextError, TextFile

line = st.text(st.characters(exclude_characters="\0\r\n"), max_size=8)
text = st.lists(st.tuples(line, st.sampled_from(["\n", "\r\n", "\r", ""])), max_size=12).map(
    lambda lines: "".join(map("".join, lines))
)
encoding = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])


@given(text, encoding)
def test_a_file_that_is_parsed_can_be_written_back(text, encoding):
    data = text.encode(encoding, "replace")
    try:
        file = TextFile.parse(data)
    except NotTextError:
        return
    assert file.data() == data
    assert "\n".join(file.plain_lines).split("\n") == (file.plain_lines or [""])
