"""Which text is at fault if a batch fails, and when a run ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from embedders import OtherEmbedder, answering, fill, named

from kipu.errors import (
    EmbedderError,
)
from kipu.testing import HashingEmbedder, ScriptedEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable


def rejecting(*words: str) -> Callable[[int, list[str]], None]:
    """Refuse every call that has a text with one of the words in it."""

    def step(texts: list[str]) -> None:
        if any(word in text for text in texts for word in words):
            raise EmbedderError("This text is not allowed (400).")

    return step


@attrs.define
class Zeroing(HashingEmbedder):
    batch_size: int = 1

    async def embed(self, texts: Any, *, role: Any) -> Any:
        rows = await HashingEmbedder.embed(self, texts, role=role)
        rows[["note" in text for text in texts]] = 0
        return rows


async def test_a_rejected_text_is_named_and_not_retried_by_a_search(meaning, write):
    fill(write, 5)
    async with meaning() as memory:
        await memory.index()
    write("memory/bad.md", "POISON about topic9\n")
    calls = []
    for _ in range(2):
        embedder = ScriptedEmbedder(script=[rejecting("POISON")])
        async with meaning(embedder) as memory:
            results = await memory.search("note3")
            calls.append(embedder.calls)
            assert (results.degraded, results[0].path, results.pending_vectors) == (False, "memory/003.md", 1)
            if len(calls) == 1:
                assert results.notices[0] == (
                    'memory/bad.md:1 was not embedded by "kipu.testing.doubles.ScriptedEmbedder": '
                    "This text is not allowed (400)."
                )
    assert calls == [[["POISON about topic9"], ["memory"], ["note3"]], [["note3"]]]
    async with meaning() as memory:
        assert (await memory.index()).embedded == 1


@pytest.mark.parametrize("bad", [1, 3, 64])
async def test_rejected_texts_of_a_batch_are_found_by_bisection_in_few_calls(meaning, write, bad):
    fill(write, 64)
    words = [f"note{number * 7 % 64} " for number in range(bad)]
    counts, degraded = [], []
    for _ in range(20):
        embedder = ScriptedEmbedder(script=[rejecting(*words)])
        async with meaning(embedder) as memory:
            results = await memory.search("topic3")
            counts.append(len(embedder.calls))
            degraded.append(results.degraded)
            assert results.pending_vectors >= bad
    assert max(counts) <= 40
    assert (counts[-1], degraded) == ((0, [True] * 20) if bad == 64 else (1, [False] * 20))


async def test_all_other_texts_of_a_batch_get_their_vector(meaning, write):
    fill(write, 300)
    embedder = ScriptedEmbedder(dimension=512, script=[rejecting("note7 ", "note150 ")])
    async with meaning(embedder) as memory:
        report = await memory.index()
        assert (report.embedded, report.pending_vectors, len(report.notices)) == (298, 2, 2)
        assert len(embedder.calls) < 60


async def test_copies_of_a_text_are_embedded_and_refused_once(meaning, write):
    async with meaning(ScriptedEmbedder(script=[rejecting("POISON")])) as memory:
        write("memory/first.md", "first\n")
        await memory.index()
        for number in range(50):
            write(f"memory/a{number}.md", "harmless\n")
            write(f"memory/b{number}.md", "POISON\n")
        report = await memory.index()
        assert report.pending_vectors == 50


async def test_a_text_with_an_unusable_vector_is_refused_by_file_and_line(meaning, write):
    def one_nan(texts: list[str]) -> Any:
        rows = HashingEmbedder().vectors(texts)
        for row, text in zip(rows, texts, strict=True):
            if "note2" in text:
                row[5] = np.nan
        return rows

    fill(write, 4)
    embedder = ScriptedEmbedder(script=[one_nan])
    async with meaning(embedder) as memory:
        report = await memory.index()
        assert (report.embedded, report.pending_vectors) == (3, 1)
        assert report.notices == [
            'memory/002.md:1 was not embedded by "kipu.testing.doubles.ScriptedEmbedder": '
            "the vector has NaN or infinite numbers in it."
        ]
        embedder.calls.clear()
        results = await memory.search("note1")
        assert results[0].path == "memory/001.md"
        assert embedder.calls == [["note1"]]  # a search does not try again by itself
        embedder.script = []
        assert (await memory.index()).embedded == 1


@pytest.mark.parametrize("make", [lambda rows: rows * np.nan, lambda rows: rows * 0])
@pytest.mark.parametrize("batch_size", [1, 64])
async def test_if_all_vectors_are_unusable_the_run_ends_and_blames_no_text(meaning, write, make, batch_size):
    fill(write, 150)
    for _ in range(2):
        embedder = ScriptedEmbedder(batch_size=batch_size, script=[answering(make)])
        async with meaning(embedder) as memory:
            report = await memory.index()
            assert len(embedder.calls) <= 4
            assert (report.embedded, len(report.notices)) == (0, 1)
            assert "returned no usable vector" in report.notices[0]
    async with meaning() as memory:
        assert (await memory.search("note3"))[0].path == "memory/003.md"
        assert (await memory.status()).pending_vectors == 0


async def test_an_outage_in_the_middle_of_a_run_blames_no_text(meaning, write):
    fill(write, 300)
    embedder = ScriptedEmbedder(script=[None, None, EmbedderError("The quota is used up.")])
    async with meaning(embedder) as memory:
        report = await memory.index()
        assert (report.embedded, len(embedder.calls)) == (128, 4)
        assert report.notices == ["The quota is used up. Nothing is lost: the next indexing tries again."]
    for _ in range(3):
        embedder = ScriptedEmbedder(script=[EmbedderError("The quota is used up.")])
        async with meaning(embedder) as memory:
            report = await memory.index()
            assert len(embedder.calls) == 2
            assert len(report.notices) == 1  # no file is named that is not at fault
    async with meaning() as memory:
        assert (await memory.index()).embedded == 172


@pytest.mark.parametrize("indexing", [False, True])
async def test_another_dimension_is_reported_once_and_blames_no_text(meaning, write, indexing):
    fill(write, 40)
    async with meaning() as memory:
        await memory.index()
        fill(write, 120)
        other = HashingEmbedder(dimension=32)
        memory.config.index.embedder.script = [other.vectors]
        memory.config.index.embedder.calls.clear()
        for _ in range(2):
            report = await memory.index() if indexing else await memory.search("note1")
            assert len(report.notices) == 1
            assert "returned vectors of dimension 32" in report.notices[0]
        assert len(memory.config.index.embedder.calls) <= (4 if indexing else 2)
        async with memory._context.database.reader() as connection:
            refused = await connection.execute_fetchall("SELECT count(*) FROM unembedded WHERE problem IS NOT NULL")
            assert [tuple(row) for row in refused] == [(0,)]


async def test_if_all_texts_are_rejected_the_number_of_calls_is_bounded(meaning, write):
    fill(write, 150)
    embedder = ScriptedEmbedder(batch_size=1, script=[rejecting("note")])
    async with meaning(embedder) as memory:
        for _ in range(2):
            embedder.calls.clear()
            report = await memory.index()
            assert len(embedder.calls) < 50
            assert report.embedded == 0


async def test_texts_refused_by_one_embedder_are_embedded_by_another(meaning, write):
    fill(write, 5)
    known = {"hashing": Zeroing, "other": OtherEmbedder}
    async with named(meaning("hashing"), **known) as memory:
        report = await memory.index()
        assert (report.embedded, len(report.notices)) == (0, 5)
        assert report.notices[0] == 'memory/004.md:1 was not embedded by "hashing": the vector is zero.'
    async with named(meaning("other"), **known) as memory:
        results = await memory.search("note3")
        assert (results[0].path, results.degraded, results.pending_vectors) == ("memory/003.md", False, 0)


async def test_a_search_writes_nothing_if_only_refused_texts_are_pending(meaning, write, monkeypatch):
    from kipu.errors import IndexBusyError
    from kipu.index.database import Database

    def busy(database: Any, wait: float = 0) -> Any:
        raise IndexBusyError("Another process is writing.")

    fill(write, 5)
    async with meaning(Zeroing()) as memory:
        assert (await memory.index()).pending_vectors == 5
    async with meaning(ScriptedEmbedder(script=[rejecting("note3 ")])) as memory:
        await memory.index()
        assert (await memory.index()).pending_vectors == 1
        monkeypatch.setattr(Database, "transaction", busy)
        results = await memory.search("topic3")
        assert results.notices == ["1 chunk is not embedded yet, and found by keywords only. To embed all: kipu index"]
