"""What a client makes of the answers and errors of an embedder: retries, splits, checks."""

from __future__ import annotations

import numpy as np
import pytest
from embedders import answering, fill

from kipu.embedding.client import embedding_text
from kipu.errors import (
    EmbedderBusyError,
    TextTooLongError,
)
from kipu.testing import ScriptedEmbedder


@pytest.mark.parametrize(
    ("text", "embedded"),
    [
        ("Yes, at six.", "Head\nIs it open?\nYes, at six."),
        ("- Yes, at six.", "Head\n- Yes, at six."),
        ("## Head\n\n- Yes, at six.", "Head\n## Head\n\n- Yes, at six."),
        ("Yes.\n[tags: time]", "Head\nYes.\n[tags: time]"),
    ],
)
def test_prose_is_embedded_with_its_context_and_an_entry_without(text, embedded):
    assert embedding_text("Head", "Is it open?", text) == embedded


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda rows: rows[:-1], "returned 2 vectors for 3 texts"),
        (lambda rows: np.vstack([rows, rows]), "returned 6 vectors for 3 texts"),
        (lambda rows: rows[0], "returned an array of the shape (64,) for 3 texts"),
        (lambda rows: rows[:, :0], "returned vectors of dimension 0"),
        (lambda rows: [[1.0], [1.0, 2.0], []], "failed to embed: ValueError"),
        (lambda rows: "vectors", "failed to embed: ValueError"),
        (lambda rows: rows * np.nan, "returned no usable vector: the vector has NaN or infinite numbers in it"),
        (lambda rows: rows + np.inf, "returned no usable vector: the vector has NaN or infinite numbers in it"),
        (lambda rows: rows * 0, "returned no usable vector: the vector is zero"),
    ],
)
async def test_an_invalid_answer_is_not_stored(meaning, write, make, message):
    fill(write, 3)
    wrong = ScriptedEmbedder(script=[answering(make)])
    async with meaning(wrong) as memory:
        report = await memory.index()
        assert (report.embedded, report.pending_vectors, len(wrong.calls)) == (0, 3, 2)
        assert message in report.notices[0]
    async with meaning() as memory:
        assert (await memory.index()).pending_vectors == 0


async def test_huge_numbers_are_scaled(meaning, write):
    fill(write, 30)
    async with meaning(ScriptedEmbedder(script=[answering(lambda rows: rows * np.float32(1e37))])) as memory:
        assert (await memory.index()).pending_vectors == 0
        assert (await memory.search("note3"))[0].score > 0.5


async def test_a_busy_embedder_is_retried(meaning, write):
    fill(write, 100)
    busy = EmbedderBusyError("Too many requests (429).", retry_after=0)
    embedder = ScriptedEmbedder(script=[busy, busy, None, busy, busy, None])
    async with meaning(embedder) as memory:
        report = await memory.index()
        assert (report.embedded, report.pending_vectors, len(embedder.calls)) == (100, 0, 6)


async def test_a_search_goes_on_without_an_embedder_that_hands_over_a_header_as_it_is(meaning, write):
    write("memory/a.md", "apple\n")
    async with meaning(ScriptedEmbedder(script=[EmbedderBusyError("Too many requests (429).", "30")])) as memory:
        results = await memory.search("apple")
    assert results.degraded
    assert "Too many requests (429)." in results.notices[0]


@pytest.mark.parametrize("tells_which", [True, False])
async def test_only_a_text_that_is_too_long_is_split(meaning, write, tells_which):
    def limited(texts: list[str]) -> None:
        long = [position for position, text in enumerate(texts) if len(text) > 1000]
        if long:
            raise TextTooLongError("1,000 characters at most.", long if tells_which else None)

    fill(write, 30)
    write("memory/long.md", " ".join(f"word{number}" for number in range(1000)) + "\n")
    embedder = ScriptedEmbedder(dimension=512, script=[limited])
    async with meaning(embedder) as memory:
        report = await memory.index()
        assert (report.embedded, report.pending_vectors, report.notices) == (31, 0, [])
        assert len(embedder.calls) < 40
        for word in ("word0", "word500", "word999"):
            assert (await memory.search(word))[0].path == "memory/long.md"


async def test_an_embedder_that_rejects_any_text_as_too_long_is_not_believed(meaning, write):
    write("memory/a.md", "one\n")
    async with meaning(ScriptedEmbedder(script=[TextTooLongError("Bad request (400).")])) as memory:
        report = await memory.index()
    assert report.notices[0].startswith(
        'The embedder "kipu.testing.doubles.ScriptedEmbedder" rejects even 3 characters as too long: '
        "that is hardly the reason. Bad request (400)."
    )


async def test_of_a_long_query_only_the_beginning_is_embedded(meaning, write):
    def limited(texts: list[str]) -> None:
        if any(len(text) > 1000 for text in texts):
            raise TextTooLongError("1,000 characters at most.")

    fill(write, 3)
    embedder = ScriptedEmbedder(script=[limited])
    async with meaning(embedder) as memory:
        await memory.index()
        embedder.calls.clear()
        results = await memory.search("note1 " * 20_000)
        assert (results[0].path, results.degraded) == ("memory/001.md", False)
        assert [len(text) for (text,) in embedder.calls] == [8000, 3995, 1991, 989]
        assert results.notices == [
            "Of the query, only the first 10,000 characters were searched.",
            "The query is long: by meaning, its first 989 characters were searched for.",
        ]
