"""Data that is no text is a label in chunks, and what a chunk names is the data in the file."""

from __future__ import annotations

import base64
import random

import pytest

from kipu.errors import FileChangedError

IMAGE = base64.b64encode(random.Random(1).randbytes(45_000)).decode()
PHOTO = f"![photo](data:image/png;base64,{IMAGE})"
LABEL = "![photo]([59 KB of image/png])"
TEXT = f"# Trip photos\n\nWe saw a heron.\n\n{PHOTO}\n\n- Lunch was late.\n"


@pytest.fixture
async def memory(notebook):
    return notebook


async def test_data_is_neither_found_nor_recalled(memory, write):
    write("memory/trip.md", TEXT)
    (result, *_) = await memory.search("heron")
    assert result.text == f"# Trip photos\n\nWe saw a heron.\n\n{LABEL}"
    assert IMAGE[:20] not in (await memory.recall("trip photos")).text
    assert not await memory.search(IMAGE[:600], strategy="keyword")


async def test_a_chunk_with_data_is_replaced_and_forgotten_as_what_is_in_the_file(memory, write):
    file = write("memory/trip.md", TEXT)
    (result, *_) = await memory.search("heron")
    await memory.edit(f"We saw an ibis.\n\n{PHOTO}", chunk=result.chunk)
    assert file.read_text("utf-8") == TEXT.replace("a heron", "an ibis")
    (result, *_) = await memory.search("ibis")
    receipt = await memory.forget(chunk=result.chunk)
    assert receipt.complete
    assert file.read_text("utf-8").strip() == "# Trip photos\n\n- Lunch was late."


async def test_a_part_of_a_line_is_not_changed_if_it_has_data(memory, write):
    file = write("memory/trip.md", text := "This comes before it. " * 20 + PHOTO + " This comes after it." * 20)
    (result,) = [each for each in await memory.search("photo", max_results=9) if "KB" in each.text]
    with pytest.raises(FileChangedError):
        await memory.forget(chunk=result.chunk)
    assert file.read_text("utf-8") == text
