"""A run over what is pending: which text is at fault, when to stop, and what others are doing meanwhile."""

from __future__ import annotations

import asyncio
import errno
import shutil
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np
import pytest
from embedders import OtherEmbedder, answering, fill, named

from kipu import Memory
from kipu.embedding.lock import exclusive
from kipu.errors import EmbedderError, IndexUnavailableError, MemoryClosedError, TextTooLongError
from kipu.index.damage import find_damaged
from kipu.testing import HashingEmbedder, ScriptedEmbedder, VectorStrategy

if TYPE_CHECKING:
    from collections.abc import Callable


# --- texts at fault, and embedders at fault -----------------------------------------------------------------------


def picky(*words: str) -> Callable[[int, list[str]], None]:
    """Refuse every call that has a text with one of the words in it."""

    def step(texts: list[str]) -> None:
        if any(word in text for text in texts for word in words):
            raise EmbedderError("This text is not allowed (400).")

    return step


async def test_a_rejected_text_is_named_refused_and_not_asked_for_again_by_a_search(meaning, write):
    fill(write, 5)
    async with meaning() as memory:
        await memory.index()
    write("memory/bad.md", "POISON about topic9\n")
    calls = []
    for _ in range(2):
        embedder = ScriptedEmbedder(script=[picky("POISON")])
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
        embedder = ScriptedEmbedder(script=[picky(*words)])
        async with meaning(embedder) as memory:
            results = await memory.search("topic3")
            counts.append(len(embedder.calls))
            degraded.append(results.degraded)
            assert results.pending_vectors >= bad
    assert max(counts) <= 40
    assert (counts[-1], degraded) == ((0, [True] * 20) if bad == 64 else (1, [False] * 20))


async def test_a_refused_text_in_a_large_batch_keeps_no_other_from_its_vector(meaning, write):
    fill(write, 300)
    embedder = ScriptedEmbedder(dimension=512, script=[picky("note7 ", "note150 ")])
    async with meaning(embedder) as memory:
        report = await memory.index()
        assert (report.embedded, report.pending_vectors, len(report.notices)) == (298, 2, 2)
        assert len(embedder.calls) < 60


async def test_an_outage_in_the_middle_is_not_taken_for_the_fault_of_a_text(meaning, write):
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


@pytest.mark.parametrize("make", [lambda rows: rows * np.nan, lambda rows: rows * 0])
@pytest.mark.parametrize("batch_size", [1, 64])
async def test_vectors_that_are_all_wrong_end_a_run_soon_and_blame_no_text(meaning, write, make, batch_size):
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


async def test_documents_that_are_all_refused_end_a_run_in_a_bounded_number_of_calls(meaning, write):
    fill(write, 150)
    embedder = ScriptedEmbedder(batch_size=1, script=[picky("note")])
    async with meaning(embedder) as memory:
        for _ in range(2):
            embedder.calls.clear()
            report = await memory.index()
            assert len(embedder.calls) < 50
            assert report.embedded == 0


async def test_what_one_embedder_did_not_take_is_not_held_against_another(meaning, write):
    fill(write, 5)
    known = {"hashing": Refusing, "other": OtherEmbedder}
    async with named(meaning("hashing"), **known) as memory:
        report = await memory.index()
        assert (report.embedded, len(report.notices)) == (0, 5)
        assert report.notices[0] == 'memory/004.md:1 was not embedded by "hashing": the vector is zero.'
    async with named(meaning("other"), **known) as memory:
        results = await memory.search("note3")
        assert (results[0].path, results.degraded, results.pending_vectors) == ("memory/003.md", False, 0)


@attrs.define
class Refusing(HashingEmbedder):
    batch_size: int = 1

    async def embed(self, texts: Any, *, role: Any) -> Any:
        rows = await HashingEmbedder.embed(self, texts, role=role)
        rows[["note" in text for text in texts]] = 0
        return rows


async def test_the_embedder_with_more_vectors_answers_whatever_the_other_was_refused(meaning, write):
    @attrs.define
    class Narrow(HashingEmbedder):
        async def embed(self, texts: Any, *, role: Any) -> Any:
            rows = await HashingEmbedder.embed(self, texts, role=role)
            rows[[role == "document" and "note1 " not in text for text in texts]] = 0
            return rows

    fill(write, 6)
    known = {"narrow": Narrow, "other": OtherEmbedder}
    async with named(meaning("narrow"), **known) as memory:
        assert (await memory.index()).pending_vectors == 5
    script = [None] * 4 + [EmbedderError("The quota is used up.")]
    async with meaning(OtherEmbedder(batch_size=1, script=script)) as memory:
        assert (await memory.index()).pending_vectors == 2
    async with named(meaning("other"), **known) as memory:
        results = await memory.search("note3", sync=False)
        assert (results[0].path, results.degraded) == ("memory/003.md", False)
        assert results.notices == ["2 chunks are not embedded yet, and found by words only. To embed all: kipu index"]


@pytest.mark.parametrize("again", [False, True])
async def test_another_dimension_in_the_middle_is_reported_once_and_blames_no_text(meaning, write, again):
    fill(write, 40)
    async with meaning() as memory:
        await memory.index()
        fill(write, 120)
        other = HashingEmbedder(dimension=32)
        memory.config.index.embedder.script = [other.vectors]
        memory.config.index.embedder.calls.clear()
        for _ in range(2):
            report = await memory.index() if again else await memory.search("note1")
            assert len(report.notices) == 1
            assert "returned vectors of dimension 32" in report.notices[0]
        assert len(memory.config.index.embedder.calls) <= (4 if again else 2)
        async with memory._context.database.reader() as connection:
            refused = await connection.execute_fetchall("SELECT count(*) FROM unembedded WHERE problem IS NOT NULL")
            assert [tuple(row) for row in refused] == [(0,)]


async def test_copies_of_a_refused_text_do_not_hide_other_texts_of_the_same_run(meaning, write):
    async with meaning(ScriptedEmbedder(script=[picky("POISON")])) as memory:
        write("memory/first.md", "first\n")
        await memory.index()
        for number in range(50):
            write(f"memory/a{number}.md", "harmless\n")
            write(f"memory/b{number}.md", "POISON\n")
        report = await memory.index()
        assert report.pending_vectors == 50


# --- several at once ----------------------------------------------------------------------------------------------


async def test_two_runs_at_once_pay_for_no_text_twice(config, write):
    fill(write, 300)
    asked: list[str] = []

    @attrs.define
    class Counting(HashingEmbedder):
        async def embed(self, texts: Any, *, role: Any) -> Any:
            if role == "document":
                asked.extend(texts)
            await asyncio.sleep(0.01)
            return await HashingEmbedder.embed(self, texts, role=role)

    memories = [Memory(config(index={"embedder": Counting()}, strategy=VectorStrategy())) for _ in range(3)]
    reports = await asyncio.gather(memories[0].index(), memories[1].index(), memories[2].search("note3"))
    for memory in memories:
        await memory.close()
    assert sorted(asked) == sorted(set(asked))
    assert len(asked) == 300
    assert [each.pending_vectors for each in reports[:2]] == [0, 0]


async def test_vectors_of_another_dimension_from_another_process_are_refused(meaning, write, monkeypatch):
    monkeypatch.setattr("filelock.FileLock.acquire", unlockable)
    fill(write, 3)
    first, second = asyncio.Event(), asyncio.Event()

    async def wait(texts: list[str]) -> Any:
        first.set()
        await second.wait()
        return np.ones((len(texts), 8), np.float32)

    async with meaning(ScriptedEmbedder(script=[wait])) as slow, meaning() as fast:
        running = asyncio.create_task(slow.index())
        await first.wait()
        assert (await fast.index()).embedded == 3
        second.set()
        assert (await running).embedded == 0
        assert "dimension 8" in (await running).notices[0]
        assert "dimension 64" in (await running).notices[0]
        assert (await fast.search("note1"))[0].path == "memory/001.md"


async def test_of_two_answers_for_one_text_the_first_is_kept_everywhere(meaning, write, monkeypatch):
    monkeypatch.setattr("filelock.FileLock.acquire", unlockable)
    write("memory/a.md", "one\n")
    first, second = asyncio.Event(), asyncio.Event()

    async def wait(texts: list[str]) -> Any:
        first.set()
        await second.wait()
        return np.ones((len(texts), 64), np.float32)

    async with meaning(ScriptedEmbedder(script=[wait])) as slow, meaning() as fast:
        running = asyncio.create_task(slow.index())
        await first.wait()
        await fast.index()
        second.set()
        await running
        async with fast._context.database.reader() as connection:
            kept = await connection.execute_fetchall("SELECT vector FROM embeddings")
            nearest = await connection.execute_fetchall("SELECT vector FROM nearest_1")
        assert [row[0] for row in kept] == [row[0] for row in nearest]


async def test_a_link_in_place_of_the_lock_is_not_followed(meaning, write, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine", "utf-8")
    fill(write, 3)
    async with meaning() as memory:
        (memory.workspace / ".kipu").mkdir()
        (memory.workspace / ".kipu/embedding.lock").symlink_to(precious)
        assert (await memory.index()).embedded == 3
    assert precious.read_text("utf-8") == "mine"


async def test_a_search_leaves_the_texts_to_a_process_that_embeds_and_indexing_waits_for_it(meaning, embedder, write):
    fill(write, 3)
    async with meaning() as memory:
        memory._synchronizer.embeddings.lock_seconds = 0.0
        async with exclusive(memory._context.database.path, 0.0) as has_lock:
            assert has_lock
            assert (await memory.search("note1")).pending_vectors == 3
            report = await memory.index()
            assert (report.pending_vectors, report.notices) == (
                3,
                ["Another process is embedding: what is pending is left to it."],
            )
            assert embedder.calls == []
            memory._synchronizer.embeddings.lock_seconds = 60.0
            waiting = asyncio.create_task(memory.index())
            await asyncio.sleep(0)
        assert (await waiting).embedded == 3


async def test_where_files_cannot_be_locked_texts_are_embedded_all_the_same(meaning, write, monkeypatch):
    monkeypatch.setattr("filelock.FileLock.acquire", unlockable)
    fill(write, 3)
    async with meaning() as memory:
        assert (await memory.index()).embedded == 3


def unlockable(lock: Any, timeout: float) -> None:
    """Fail as on a network folder."""
    raise OSError(errno.ENOLCK, "No locks available")


# --- damaged vectors, and writes that fail --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE embeddings SET vector = zeroblob(5) WHERE id = 2",
        "UPDATE embeddings SET vector = zeroblob(4 * 64) WHERE id = 2",
        "UPDATE embeddings SET vector = CAST(x'0000c07f' || substr(vector, 5) AS BLOB)",
        "UPDATE embeddings SET vector = CAST(x'ffff7f7f' || substr(vector, 5) AS BLOB)",
        "DELETE FROM embeddings",
        "UPDATE spaces SET dimension = 0",
    ],
)
async def test_damaged_vectors_are_ignored_and_embedded_again_by_force(meaning, write, statement):
    fill(write, 5)
    async with meaning() as memory:
        await memory.index()
        async with memory._context.database.transaction() as connection:
            await connection.execute(statement)
        write("memory/copy.md", "note1 about topic1\n")  # its vector would be taken from the cache
        await memory.search("note1")
        report = await memory.index(force=True)
        assert (report.pending_vectors, report.notices) == (0, [])
        async with memory._context.database.reader() as connection:
            assert await find_damaged(connection) == []
        assert (await memory.search("note3"))[0].path == "memory/003.md"


async def test_after_a_failed_write_searches_embed_nothing_for_a_minute_and_say_so(
    meaning, embedder, write, monkeypatch
):
    def fail(*arguments: Any) -> Any:
        raise IndexUnavailableError("The index cannot be written: disk I/O error.")

    fill(write, 3)
    async with meaning() as memory:
        monkeypatch.setattr("kipu.embedding.storage.store", fail)
        for _ in range(3):
            results = await memory.search("note1")
            assert "What is new could not be embedded. The index cannot be written" in results.notices[0]
        assert len(embedder.calls) == 1
        with pytest.raises(IndexUnavailableError):
            await memory.index()


async def test_a_full_disk_costs_no_call_and_every_search_says_so(meaning, embedder, write, monkeypatch):
    fill(write, 3)
    async with meaning() as memory:
        with monkeypatch.context() as full:
            full.setattr("shutil.disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9 - 5000, 5000))
            for _ in range(2):
                results = await memory.search("note1")
                assert "The disk is too full for the vectors of 3 chunks" in results.notices[0]
            with pytest.raises(IndexUnavailableError, match="Free some space and try again"):
                await memory.index()
        assert embedder.calls == []
        assert (await memory.index()).embedded == 3


async def test_closing_ends_what_is_being_indexed(meaning, write):
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


async def test_closing_before_anything_was_asked_for_keeps_it_from_being_asked(meaning, write):
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


async def test_a_search_with_nothing_to_embed_takes_no_lock(meaning, write, monkeypatch):
    from kipu.errors import IndexBusyError
    from kipu.index.database import Database

    def busy(database: Any, wait: float = 0) -> Any:
        raise IndexBusyError("Another process is writing.")

    fill(write, 5)
    async with meaning(Refusing()) as memory:
        assert (await memory.index()).pending_vectors == 5
    async with meaning(ScriptedEmbedder(script=[picky("note3 ")])) as memory:
        await memory.index()
        assert (await memory.index()).pending_vectors == 1
        monkeypatch.setattr(Database, "transaction", busy)
        results = await memory.search("topic3")
        assert results.notices == ["1 chunk is not embedded yet, and found by words only. To embed all: kipu index"]


# --- long queries ---------------------------------------------------------------------------------------------------


async def test_of_a_long_query_the_beginning_is_embedded_in_few_calls(meaning, write):
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
        assert results.notices == ["The query is long: by meaning, its first 989 characters were searched for."]


# --- the key of an earlier embedder ---------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["sk-configured", None])
async def test_the_earlier_embedder_is_asked_with_the_key_of_the_one_that_is_used(meaning, write, key):
    used: list[tuple[str, str]] = []

    @attrs.define
    class Keyed(HashingEmbedder):
        destination: ClassVar[str | None] = "https://provider.example"

        key: Any = attrs.field(default="sk-of-the-environment", metadata={"secret": True})

        async def embed(self, texts: Any, *, role: Any) -> Any:
            used.append((self.salt, self.key))
            return await HashingEmbedder.embed(self, texts, role=role)

    @attrs.define
    class Stranger(Keyed):
        salt: str = "stranger"

    fill(write, 3)
    known = {"keyed": Keyed, "stranger": Stranger}
    options = {} if key is None else {"key": key}
    async with named(meaning({"use": "keyed", "salt": "a", "key": "sk-earlier"}), **known) as memory:
        await memory.index()
    used.clear()
    async with named(meaning({"use": "keyed", "salt": "b", **options}), **known) as memory:
        results = await memory.search("note1", sync=False)
        assert (results[0].path, results.degraded) == ("memory/001.md", False)
    assert used == [("a", key or "sk-of-the-environment")]
    async with named(meaning({"use": "stranger", **options}), **known) as memory:
        assert (await memory.search("note1", sync=False)).degraded
    assert len(used) == 1
