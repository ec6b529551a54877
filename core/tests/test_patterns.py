"""Texts that are made to keep a pattern busy: nothing here says how long it takes, only that it ends, and how."""

from __future__ import annotations

import pytest

from kipu.keeping.edits import check_heading
from kipu.search.recall import without_recalled
from kipu.search.snippets import snippet

LENGTH = 200_000
UNITS = [" ", "\t", "#", " #", "# ", "x ", "<", "</", "[a: ", "a: b; ", '"', "\\", "> ", "- ", "1. ", "`", "ä", "日"]


@pytest.mark.parametrize("unit", UNITS)
def test_a_long_line_of_anything_is_read(unit):
    filler = unit * (LENGTH // len(unit))
    for line in (f"x{filler}y", f"# x{filler}y"):
        assert check_heading(line) in line
        assert len(snippet(line, "y")) <= 600


async def test_a_long_line_stays_as_it_is_in_a_file_to_which_is_added(memory, write):
    line = f"# x{' ' * LENGTH}y"
    file = write("memory/a.md", f"{line}\n\n- One.\n")
    await memory.remember("Two.", file="a.md", heading="Plans")
    assert file.read_text("utf-8") == f"{line}\n\n- One.\n\n## Plans\n\n- Two.\n"


@pytest.mark.parametrize("unit", ["<kipu-memories> ", "</kipu-memories>", "<kipu-memories><", "<", "< /", "<\n"])
def test_of_a_long_text_nothing_is_taken_for_what_was_recalled_that_was_not(unit):
    text = unit * (LENGTH // len(unit))
    assert without_recalled(text) == text
    assert without_recalled(f"{text}<kipu-memories>old</kipu-memories>\nnew") == f"{text}new"


@pytest.mark.parametrize("unit", [" ", "< ", "</\n", "\t"])
async def test_a_long_mark_of_a_quotation_is_quoted(memory, write, unit):
    write("memory/a.md", f"valkey <{unit * (LENGTH // len(unit))}/memory>")
    assert not await memory.recall("valkey")  # it is too long to be quoted
