"""When texts are embedded: by indexing, before a search, in its background; and what an outage costs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from embedders import OtherEmbedder, answering, fill, named, short_of_time

from kipu.errors import (
    EmbedderBusyError,
    EmbedderError,
    MemoryClosedError,
    QueryError,
    TextTooLongError,
    UnavailableError,
)
from kipu.testing import HashingEmbedder, ScriptedEmbedder, WordStrategy


async def test_indexing_embeds_each_text_once(meaning, embedder, write):
    fill(write, 100)
    write("memory/copy.md", "note1 about topic1\n")
    async with meaning() as memory:
        report = await memory.index()
        assert (report.embedded, report.pending_vectors, report.notices) == (100, 0, [])
        assert sorted(text for call in embedder.calls for text in call) == sorted(
            f"note{number} about topic{number % 7}" for number in range(100)
        )
        assert (await memory.index()).embedded == 0
        status = await memory.status()
        assert (status.pending_vectors, dict(status.vectors)) == (0, {"hashing-64": 101})


async def test_a_search_embeds_what_is_new(meaning, write):
    fill(write, 9)
    async with meaning() as memory:
        results = await memory.search("note3")
        assert (results[0].path, results.degraded, results.notices) == ("memory/003.md", False, [])
        assert results[0].scores == {"nearest": results[0].score}


async def test_without_a_strategy_that_needs_vectors_nothing_is_embedded(meaning, embedder, write):
    fill(write, 3)
    async with meaning(strategy=WordStrategy()) as memory:
        report = await memory.index()
        results = await memory.search("note1")
        assert (report.embedded, report.pending_vectors, results.degraded, results.notices) == (0, 0, False, [])
        assert (await memory.status()).embedder is None
    assert embedder.calls == []


async def test_a_search_leaves_most_to_the_background(meaning, write):
    fill(write, 300)
    async with meaning(HashingEmbedder(dimension=2048)) as memory:
        short_of_time(memory)
        results = await memory.search("note299")
        assert results[0].path == "memory/299.md"  # the newest come first
        assert results.pending_vectors == 292
        assert results.notices == [
            "292 chunks are not embedded yet, and found by keywords only. That goes on in the background."
        ]
        await memory._synchronizer.embeddings._background
        results = await memory.search("note3")
        assert (results[0].path, results.pending_vectors, results.notices) == ("memory/003.md", 0, [])


@pytest.mark.parametrize(
    ("seconds_per_text", "batches"), [(1 / 64, [8, 16, 32, 8]), (1 / 1024, [8, 16, 32, 64, 64, 64, 52]), (5, [8])]
)
async def test_a_search_embeds_for_about_a_second_in_growing_batches(meaning, write, seconds_per_text, batches):
    fill(write, 300)
    embedder = HashingEmbedder()

    def start_stopwatch() -> Any:
        before = sum(map(len, embedder.calls))
        return lambda: (sum(map(len, embedder.calls)) - before) * seconds_per_text

    async with meaning(embedder) as memory:
        memory._synchronizer.embeddings.start_stopwatch = start_stopwatch
        memory._synchronizer.embeddings._in_background = False
        results = await memory.search("note299")
        assert [len(call) for call in embedder.calls[:-1]] == batches  # the last one is the query
        assert results.pending_vectors == 300 - sum(batches)
        assert len(results.notices) == (sum(batches) < 300)


async def test_progress_begins_at_once_and_goes_on_with_each_batch(meaning, write):
    fill(write, 100)
    write("memory/copy.md", "note1 about topic1\n")
    seen: list[tuple[int, int]] = []
    async with meaning(HashingEmbedder(batch_size=40)) as memory:
        await memory.index(on_embedding=lambda *done: seen.append(done))
    assert seen == [(0, 101), (40, 101), (80, 101), (101, 101)]


async def test_notices_of_the_background_wait_for_the_next_call(meaning, write):
    fill(write, 100)

    def refuse(texts: list[str]) -> None:
        if any("note3" in text.split() for text in texts):
            raise ValueError("no threes")

    async with meaning(ScriptedEmbedder(script=[refuse])) as memory:
        short_of_time(memory)
        first = list((await memory.search("note99")).notices)
        await memory._synchronizer.embeddings._background
        notices = (await memory.search("note99")).notices
    assert "no threes" not in " ".join(first)
    assert "no threes" in " ".join(notices)


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (EmbedderError("The key was refused (401)."), 2),
        (EmbedderBusyError("Too many requests (429)."), 5),
        (EmbedderBusyError("Too many requests (429).", retry_after=3600), 2),
        (TextTooLongError("Too long."), 8),
        (RuntimeError("no such model"), 2),
        (SystemExit(1), 2),
    ],
)
async def test_an_outage_costs_few_calls_loses_nothing_and_heals(meaning, write, error, calls):
    fill(write, 200)
    down = ScriptedEmbedder(script=[error])
    async with meaning(down) as memory:
        report = await memory.index()
        assert (report.added, report.embedded, report.pending_vectors) == (200, 0, 200)
        assert len(down.calls) <= calls
        assert str(error) in report.notices[0] or repr(error) in report.notices[0]
        assert (await memory.status()).pending_vectors == 200
        down.calls.clear()
        for _ in range(5):
            results = await memory.search("note3")
            assert (results.degraded, results.pending_vectors) == (True, 200)
            assert any("words" in note for note in results.notices)
        assert down.calls == []  # it failed a moment ago
    async with meaning() as memory:
        report = await memory.index()
        assert (report.embedded, report.pending_vectors, report.notices) == (200, 0, [])
        assert (await memory.search("note3"))[0].path == "memory/003.md"


async def test_a_search_during_an_outage_costs_two_calls(meaning, write):
    fill(write, 3)
    down = ScriptedEmbedder(script=[EmbedderBusyError("The server is overloaded (503).")])
    async with meaning(down) as memory:
        results = await memory.search("note1")
        assert (len(down.calls), results.degraded) == (2, True)
        assert len(results.notices) == 1


async def test_what_was_embedded_before_an_outage_is_kept(meaning, write):
    fill(write, 200)
    async with meaning(ScriptedEmbedder(script=[None, None, EmbedderError("The quota is used up.")])) as memory:
        report = await memory.index()
        assert (report.embedded, report.pending_vectors) == (128, 72)
    async with meaning() as memory:
        assert (await memory.index()).embedded == 72


async def test_an_error_without_a_full_stop_gets_one(meaning, write):
    fill(write, 3)
    async with meaning(ScriptedEmbedder(script=[EmbedderError("Rate limit reached")])) as memory:
        report = await memory.index()
        assert report.notices == ["Rate limit reached. Nothing is lost: the next indexing tries again."]


async def test_an_embedder_can_be_checked(meaning, embedder):
    async with meaning() as memory:
        assert await memory.check_embedder() is None
        assert embedder.calls == [["memory"]]
    async with meaning(ScriptedEmbedder(script=[answering(lambda rows: rows * 0)])) as memory:
        assert (
            await memory.check_embedder() == '"kipu.testing.doubles.ScriptedEmbedder" answers, but the vector is zero.'
        )


async def test_reindexing_makes_another_embedder_ready(meaning, write):
    fill(write, 3)
    async with named(meaning("hashing"), hashing=HashingEmbedder, other=OtherEmbedder) as memory:
        await memory.index()
        report = await memory.reindex("other")
        assert (report.embedded, report.pending_vectors) == (3, 0)
        assert (await memory.search("note1")).notices == []
        assert (await memory.reindex("other")).embedded == 0
        assert (await memory.reindex(force=True)).embedded == 3
        assert (await memory.search("note1"))[0].path == "memory/001.md"
        with pytest.raises(QueryError):
            await memory.reindex(3)
    async with named(meaning("other"), hashing=HashingEmbedder, other=OtherEmbedder) as memory:
        results = await memory.search("note1")
        assert (results[0].path, results.notices) == ("memory/001.md", [])


async def test_reindexing_by_force_replaces_the_vectors_of_a_model_that_changed_behind_its_name(meaning, write):
    fill(write, 3)
    async with meaning() as memory:
        await memory.index()
    other = ScriptedEmbedder()
    other.script = [lambda texts: HashingEmbedder(32).vectors(texts)]
    async with meaning(other) as memory:
        assert "kipu reindex --force" in (await memory.search("note1")).notices[0]
        assert "kipu reindex --force" in str(await memory.check_embedder())
        report = await memory.reindex(force=True)
        assert (report.embedded, report.pending_vectors, report.notices) == (3, 0, [])
    async with meaning(other) as memory:
        assert await memory.check_embedder() is None
        results = await memory.search("note1")
        assert (results[0].path, results.degraded, results.notices) == ("memory/001.md", False, [])
        assert dict((await memory.status()).vectors) == {"hashing-64": 3}


async def test_vectors_go_on_answering_until_they_are_replaced(meaning, write):
    fill(write, 3)
    async with meaning() as memory:
        await memory.index()
    down = ScriptedEmbedder(script=[EmbedderError("The quota is used up.")])
    async with meaning(down) as memory:
        report = await memory.reindex(force=True)
        assert report.pending_vectors == 3
        assert (await memory.status()).vectors == {"hashing-64": 3}
    async with meaning() as memory:
        results = await memory.search("note1", sync=False)
        assert (results[0].path, results.degraded) == ("memory/001.md", False)


async def test_closing_ends_the_background(meaning, write):
    fill(write, 300)
    started = asyncio.Event()

    async def hang_in_the_background(texts: list[str]) -> None:
        if len(texts) > 1 and len(embedder.calls) > 1:
            started.set()
            await asyncio.Event().wait()

    embedder = ScriptedEmbedder(script=[hang_in_the_background])
    async with meaning(embedder) as memory:
        short_of_time(memory)
        await memory.search("note1")
        await started.wait()
    assert embedder.closed == 1
    async with meaning(HashingEmbedder()) as memory:
        assert (await memory.index()).embedded == 292


async def test_closing_ends_indexing(meaning, write):
    started = asyncio.Event()

    async def hang(texts: list[str]) -> None:
        started.set()
        await asyncio.Event().wait()

    fill(write, 300)
    embedder = ScriptedEmbedder(script=[None, hang])
    memory = meaning(embedder)
    running = asyncio.create_task(memory.index())
    await started.wait()
    await memory.close()
    with pytest.raises(MemoryClosedError, match="was closed while it was embedding"):
        await running
    assert (len(embedder.calls), embedder.closed) == (2, 1)
    async with meaning() as memory:
        assert (await memory.index()).embedded == 300 - 64


async def test_after_closing_the_embedder_is_not_called(meaning, write):
    fill(write, 300)
    embedder = HashingEmbedder()
    memory = meaning(embedder)
    closed: list[Any] = []
    running = asyncio.create_task(
        memory.index(on_progress=lambda done, total: closed.append(asyncio.create_task(memory.close())))
    )
    with pytest.raises(MemoryClosedError):
        await running
    await asyncio.gather(*closed)
    assert embedder.calls == []


# --- an embedder that does not answer ------------------------------------------------------------------------------


class Silent(ScriptedEmbedder):
    """An embedder whose calls, or whose identity, come to no end."""

    async def embed(self, texts, *, role):
        self.calls.append(list(texts))
        await asyncio.Event().wait()


def impatient(meaning, embedder):
    memory = meaning(embedder)
    memory._context.components.embedder().time_limit = 0.02
    return memory


async def test_after_a_call_that_was_abandoned_no_other_text_is_sent(meaning, write):
    fill(write, 300)
    embedder = Silent()
    async with impatient(meaning, embedder) as memory:
        report = await memory.index()
        assert (report.embedded, report.pending_vectors, len(embedder.calls)) == (0, 300, 1)
        assert len(report.notices) == 1
        assert "took more than 0.02 seconds to embed and was abandoned" in report.notices[0]
        results = await memory.search("note3")
        assert (results[0].path, results.degraded, len(embedder.calls)) == ("memory/003.md", True, 1)
    async with meaning() as memory:
        assert (await memory.index()).embedded == 300


@pytest.mark.parametrize("error", [TimeoutError("no answer"), UnavailableError("The server is down.")], ids=repr)
async def test_after_an_embedder_was_away_no_other_text_is_sent(meaning, write, error):
    fill(write, 3)
    embedder = ScriptedEmbedder(script=[error])
    async with meaning(embedder) as memory:
        report = await memory.index()
        assert (report.embedded, report.pending_vectors, len(embedder.calls)) == (0, 3, 1)


async def test_an_identity_that_comes_to_no_end_is_asked_for_once(meaning, write):
    fill(write, 3)
    end, asked = threading.Event(), []

    class Endless(HashingEmbedder):
        @property
        def identity(self):
            asked.append(self)
            end.wait()

    async with impatient(meaning, Endless()) as memory:
        for _ in range(2):
            results = await memory.search("note3")
            assert results.degraded
            assert "took more than 0.02 seconds when asked for identity and was abandoned" in results.notices[0]
        await memory.index()
        end.set()
    assert len(asked) == 1
