"""What becomes of vectors: kept, found again, replaced, and never lost or wrong, whatever an embedder does."""

from __future__ import annotations

import asyncio
from datetime import UTC
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np
import pytest
from embedders import OtherEmbedder, answering, fill, named

from kipu import Hit, Memory
from kipu.errors import (
    ConfigurationError,
    EmbedderBusyError,
    EmbedderError,
    PluginFailedError,
    QueryError,
    TextTooLongError,
)
from kipu.testing import CombinedStrategy, HashingEmbedder, ScriptedEmbedder, VectorStrategy, WordStrategy

if TYPE_CHECKING:
    from kipu import Query


# --- keeping vectors -----------------------------------------------------------------------------------------------


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


async def test_a_search_needs_no_indexing_before(meaning, write):
    fill(write, 9)
    async with meaning() as memory:
        results = await memory.search("note3")
        assert (results[0].path, results.degraded, results.notices) == ("memory/003.md", False, [])
        assert results[0].scores == {"nearest": results[0].score}


async def test_what_comes_back_is_not_embedded_again(meaning, embedder, write):
    file = write("memory/a.md", "one\n")
    async with meaning() as memory:
        await memory.index()
        file.unlink()
        assert (await memory.index()).removed == 1
        write("memory/b.md", "one\n")
        assert (await memory.search("one"))[0].path == "memory/b.md"
    assert embedder.calls == [["one"], ["one"]]  # the text, and the query


async def test_a_vector_is_stored_once_as_float32(meaning, write):
    write("memory/a.md", "one\n\ntwo\n\none\n")
    async with meaning() as memory:
        await memory.index()
        async with memory._context.database.reader() as connection:
            rows = await connection.execute_fetchall("SELECT length(vector) FROM embeddings")
        assert [row[0] for row in rows] == [4 * 64, 4 * 64]


async def test_deleted_chunks_leave_the_index_of_vectors(meaning, write):
    fill(write, 5)
    async with meaning() as memory:
        await memory.index()
        write("memory/003.md", "something else\n")
        (memory.workspace / "memory/004.md").unlink()
        assert [result.path for result in await memory.search("note3 note4")] == []
        async with memory._context.database.reader() as connection:
            (row,) = await connection.execute_fetchall("SELECT count(*) FROM nearest_1")
        assert row[0] == 4


async def test_the_oldest_of_what_is_not_needed_goes_first(config, write, embedder):
    size = 4 * 64
    memory = Memory(config(index={"embedder": embedder, "cache_bytes": 2 * size}, strategy=VectorStrategy()))
    async with memory:
        for word in ("one", "two", "three", "one", "four", "five"):
            write("memory/a.md", f"{word}\n")
            await memory.index()
        embedder.calls.clear()
        for word in ("one", "four", "five", "three"):  # "one" was used after "two" and "three"
            write("memory/a.md", f"{word}\n")
            await memory.index()
    assert embedder.calls == [["three"]]


async def test_a_renamed_file_keeps_its_vectors_and_is_found_under_its_name(meaning, write):
    file = write("memory/a.md", "one\n")
    async with meaning() as memory:
        await memory.index()
        (memory.workspace / "memory/team").mkdir()
        file.rename(memory.workspace / "memory/team/b.md")
        assert [result.path for result in await memory.search("one", source="team")] == ["memory/team/b.md"]


async def test_most_is_embedded_in_the_background_of_a_search(meaning, write):
    fill(write, 300)
    async with meaning(HashingEmbedder(dimension=2048)) as memory:
        memory._synchronizer.embeddings.search_embeds = 64
        results = await memory.search("note299")
        assert results[0].path == "memory/299.md"  # the newest come first
        assert results.pending_vectors == 236
        assert results.notices == ["236 chunks are not embedded yet, and found by words only. To embed all: kipu index"]
        await memory._synchronizer.embeddings._background
        results = await memory.search("note3")
        assert (results[0].path, results.pending_vectors, results.notices) == ("memory/003.md", 0, [])


async def test_closing_ends_what_runs_in_the_background(meaning, write):
    fill(write, 300)
    started = asyncio.Event()

    async def hang(texts: list[str]) -> None:
        started.set()
        await asyncio.Event().wait()

    embedder = ScriptedEmbedder(script=[None, None, hang])
    async with meaning(embedder) as memory:
        memory._synchronizer.embeddings.search_embeds = 64
        await memory.search("note1")
        await started.wait()
    assert embedder.closed == 1
    async with meaning(HashingEmbedder()) as memory:
        assert (await memory.index()).embedded == 236


# --- an embedder that fails ----------------------------------------------------------------------------------------


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


async def test_what_an_embedder_says_and_what_follows_are_two_sentences(meaning, write):
    fill(write, 3)
    async with meaning(ScriptedEmbedder(script=[EmbedderError("Rate limit reached")])) as memory:
        report = await memory.index()
        assert report.notices == ["Rate limit reached. Nothing is lost: the next indexing tries again."]


async def test_a_search_during_an_outage_costs_two_calls(meaning, write):
    fill(write, 3)
    down = ScriptedEmbedder(script=[EmbedderBusyError("The server is overloaded (503).")])
    async with meaning(down) as memory:
        results = await memory.search("note1")
        assert (len(down.calls), results.degraded) == (2, True)
        assert len(results.notices) == 1


async def test_what_passes_by_itself_is_waited_for(meaning, write):
    fill(write, 100)
    busy = EmbedderBusyError("Too many requests (429).", retry_after=0)
    embedder = ScriptedEmbedder(script=[busy, busy, None, busy, busy, None])
    async with meaning(embedder) as memory:
        report = await memory.index()
        assert (report.embedded, report.pending_vectors, len(embedder.calls)) == (100, 0, 6)


async def test_what_was_embedded_before_an_outage_is_kept(meaning, write):
    fill(write, 200)
    async with meaning(ScriptedEmbedder(script=[None, None, EmbedderError("The quota is used up.")])) as memory:
        report = await memory.index()
        assert (report.embedded, report.pending_vectors) == (128, 72)
    async with meaning() as memory:
        assert (await memory.index()).embedded == 72


# --- vectors that are wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "said"),
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
async def test_an_invalid_answer_is_not_stored(meaning, write, make, said):
    fill(write, 3)
    wrong = ScriptedEmbedder(script=[answering(make)])
    async with meaning(wrong) as memory:
        report = await memory.index()
        assert (report.embedded, report.pending_vectors, len(wrong.calls)) == (0, 3, 2)
        assert said in report.notices[0]
    async with meaning() as memory:
        assert (await memory.index()).pending_vectors == 0


async def test_one_bad_vector_is_refused_by_file_and_line_and_the_others_stay(meaning, write):
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


async def test_another_dimension_under_the_same_identity_is_refused(meaning, write):
    write("memory/a.md", "one\n")
    async with meaning() as memory:
        await memory.index()
    write("memory/b.md", "two\n")
    other = ScriptedEmbedder(script=[lambda texts: np.ones((len(texts), 32), np.float32)])
    async with meaning(other) as memory:
        report = await memory.index()
        assert report.pending_vectors == 1
        assert "dimension 32" in report.notices[0]
        assert "dimension 64" in report.notices[0]
        results = await memory.search("one")
        assert results.degraded


async def test_the_vectors_of_a_model_that_has_changed_behind_its_name_are_replaced_by_force(meaning, write):
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


async def test_huge_numbers_are_scaled_and_not_lost(meaning, write):
    fill(write, 30)
    async with meaning(ScriptedEmbedder(script=[answering(lambda rows: rows * np.float32(1e37))])) as memory:
        assert (await memory.index()).pending_vectors == 0
        assert (await memory.search("note3"))[0].score > 0.5


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"batch_size": 0}, "invalid batch_size: it must be a whole number of at least 1, not 0."),
        ({"batch_size": "64"}, "invalid batch_size: it must be a whole number of at least 1, not '64'."),
        ({"languages": "en"}, "invalid languages: it must be a list of texts, not 'en'."),
        ({"languages": [1]}, "invalid languages: it must be a list of texts, not [1]."),
    ],
)
async def test_what_an_embedder_says_of_itself_is_checked(meaning, write, wrong, said):
    fill(write, 3)
    async with meaning(HashingEmbedder(**wrong)) as memory:
        report = await memory.index()
        assert (report.pending_vectors, len(report.notices)) == (3, 1)
        assert said in report.notices[0]
        results = await memory.search("note1")
        assert results.degraded
        assert said in results.notices[0]


@pytest.mark.parametrize("share", ["half", float("nan"), 2.0, ZeroDivisionError()])
async def test_an_invalid_share_is_reported_and_the_search_continues(meaning, write, share):
    @attrs.define
    class Unsure(HashingEmbedder):
        def unknown_share(self, text: str) -> float:
            if isinstance(share, Exception):
                raise share
            return share  # type: ignore[no-any-return]

    fill(write, 3)
    async with meaning(Unsure()) as memory:
        results = await memory.search("note1")
        assert (results[0].path, results.degraded) == ("memory/001.md", False)
        assert "failed to tell what it knows of the query" in results.notices[0]


# --- texts that are too long ---------------------------------------------------------------------------------------


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


# --- another embedder ----------------------------------------------------------------------------------------------


async def test_the_earlier_vectors_answer_until_there_are_new_ones(meaning, write):
    fill(write, 300)
    async with named(meaning("hashing"), hashing=HashingEmbedder) as memory:
        await memory.index()
    async with named(meaning("other"), hashing=HashingEmbedder, other=OtherEmbedder) as memory:
        memory._synchronizer.embeddings.search_embeds = 64
        results = await memory.search("note3")
        assert (results[0].path, results.degraded) == ("memory/003.md", False)
        assert results.notices == [
            'The embedder changed. Until "other" has embedded the remaining 236 of 300 chunks, "hashing" answers. '
            "To embed them now: kipu index"
        ]
        await memory.index()
        results = await memory.search("note3")
        assert (results[0].path, results.notices) == ("memory/003.md", [])
        assert dict((await memory.status()).vectors) == {"hashing-64": 300, "hashing-32other": 300}
        async with memory._context.database.reader() as connection:
            tables = await connection.execute_fetchall("SELECT name FROM sqlite_master WHERE name LIKE 'nearest%'")
        assert [row[0] for row in tables] == ["nearest_2"]
    async with named(meaning("hashing"), hashing=HashingEmbedder) as memory:
        assert (await memory.search("note3", sync=True)).notices == []
        assert (await memory.index()).embedded == 0


async def test_an_earlier_embedder_that_is_gone_leaves_the_words(meaning, write):
    fill(write, 3)
    async with named(meaning("other"), other=OtherEmbedder) as memory:
        await memory.index()
    down = ScriptedEmbedder(script=[EmbedderError("The key was refused (401).")])
    async with meaning(down) as memory:
        results = await memory.search("note1")
        assert (results.degraded, results.pending_vectors) == (True, 3)


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


async def test_an_embedder_that_needs_options_says_where_they_are_given(meaning, write):
    @attrs.define(kw_only=True)
    class Demanding(HashingEmbedder):
        model: str

    write("memory/a.md", "one\n")
    async with named(meaning("hashing"), hashing=HashingEmbedder, demanding=Demanding) as memory:
        with pytest.raises(ConfigurationError) as caught:
            await memory.reindex("demanding")
    assert str(caught.value) == (
        'embedder, embedder "demanding": it needs "model". Configure it in kipu.toml, then run kipu reindex: [index] '
        'embedder = { use = "demanding", ... }'
    )


@attrs.define
class Elsewhere(OtherEmbedder):
    destination: ClassVar[str | None] = "https://elsewhere.example"


async def test_nothing_is_sent_to_where_the_configuration_sends_nothing_any_more(meaning, write):
    sent: list[str] = []

    @attrs.define
    class Remote(HashingEmbedder):
        destination: ClassVar[str | None] = "https://provider.example"

        async def embed(self, texts: Any, *, role: Any) -> Any:
            sent.extend(texts)
            return await HashingEmbedder.embed(self, texts, role=role)

    fill(write, 3)
    known = {"remote": Remote, "other": OtherEmbedder, "elsewhere": Elsewhere}
    async with named(meaning("remote"), **known) as memory:
        await memory.index()
    sent.clear()
    for name in ("other", "elsewhere"):
        async with named(meaning(name), **known) as memory:
            results = await memory.search("note1", sync=False)
            assert results.degraded
            assert results.notices == ["This search went by words. Nothing is embedded yet: kipu index"]
    assert sent == []


async def test_an_earlier_model_at_the_same_place_still_answers(meaning, write):
    @attrs.define
    class Sibling(Elsewhere):
        salt: str = "sibling"

    fill(write, 3)
    known = {"elsewhere": Elsewhere, "sibling": Sibling}
    async with named(meaning("elsewhere"), **known) as memory:
        await memory.index()
    async with named(meaning("sibling"), **known) as memory:
        results = await memory.search("note1", sync=False)
        assert (results[0].path, results.degraded) == ("memory/001.md", False)


async def test_a_search_reports_that_the_earlier_embedder_answered(meaning, write):
    @attrs.define
    class Down(OtherEmbedder):
        script: Any = (EmbedderError("The key was refused (401)."),)

    fill(write, 3)
    async with named(meaning("hashing"), hashing=HashingEmbedder) as memory:
        await memory.index()
    async with named(meaning("down"), hashing=HashingEmbedder, down=Down) as memory:
        results = await memory.search("note1")
        assert (results[0].path, results.degraded) == ("memory/001.md", True)
        assert results.notices == [
            'The embedder changed. Until "down" has embedded the remaining 3 of 3 chunks, "hashing" answers. '
            "The key was refused (401)."
        ]
        assert await memory.check_embedder() == "The key was refused (401)."


@pytest.mark.parametrize("recipe", ["{", "5", '"hashing"', '{"use": 5}', "[]"])
async def test_an_invalid_recipe_is_no_failure(meaning, write, recipe):
    fill(write, 3)
    async with named(meaning("hashing"), hashing=HashingEmbedder) as memory:
        await memory.index()
        async with memory._context.database.transaction() as connection:
            await connection.execute("UPDATE spaces SET recipe = ?", (recipe,))
    async with named(meaning("other"), other=OtherEmbedder) as memory:
        assert (await memory.search("note1"))[0].path == "memory/001.md"


async def test_a_recipe_follows_the_configuration(meaning, write):
    @attrs.define
    class Moved(HashingEmbedder):
        address: str = "a"

    fill(write, 3)
    for address in ("a", "b"):
        write("memory/new.md", f"new {address}\n")
        async with named(meaning({"use": "moved", "address": address}), moved=Moved) as memory:
            await memory.index()
            async with memory._context.database.reader() as connection:
                (row,) = await connection.execute_fetchall("SELECT recipe FROM spaces")
            assert f'"address": "{address}"' in row[0]


async def test_a_secret_is_not_written_into_the_index(meaning, write):
    @attrs.define
    class WithKey(HashingEmbedder):
        key: Any = attrs.field(default="", metadata={"secret": True})

    fill(write, 3)
    choice = {"use": "keyed", "dimension": 16, "key": "sk-secret"}
    async with named(meaning(choice), keyed=WithKey) as memory:
        assert (await memory.index()).notices == []
        async with memory._context.database.reader() as connection:
            (row,) = await connection.execute_fetchall("SELECT recipe FROM spaces")
    assert row[0] == '{"use": "keyed", "dimension": 16}'


async def test_one_text_that_a_provider_refuses_does_not_keep_the_others_from_being_embedded(meaning, write):
    def picky(texts: list[str]) -> None:
        if any("note7 " in text for text in texts):
            raise EmbedderError("This text is not allowed (400).")

    fill(write, 200)
    embedder = ScriptedEmbedder(dimension=512, script=[picky])
    async with meaning(embedder) as memory:
        for _ in range(3):
            report = await memory.index()
        assert report.pending_vectors == 1
        assert "memory/007.md:1 was not embedded" in report.notices[0]
        results = await memory.search("note11")
        assert results, (results.notices, results.degraded)
        assert (results[0].path, results.degraded) == ("memory/011.md", False)
    async with meaning(HashingEmbedder(dimension=512)) as memory:
        assert (await memory.index()).pending_vectors == 0
        assert (await memory.search("note7"))[0].path == "memory/007.md"


async def test_an_embedder_that_rejects_even_the_shortest_text_as_too_long_is_not_believed(meaning, write):
    write("memory/a.md", "one\n")
    async with meaning(ScriptedEmbedder(script=[TextTooLongError("Bad request (400).")])) as memory:
        report = await memory.index()
    assert report.notices[0].startswith(
        'The embedder "kipu.testing.doubles.ScriptedEmbedder" rejects even 3 characters as too long: '
        "that is hardly the reason. Bad request (400)."
    )


async def test_an_embedder_can_be_checked(meaning, embedder):
    async with meaning() as memory:
        assert await memory.check_embedder() is None
        assert embedder.calls == [["memory"]]
    async with meaning(ScriptedEmbedder(script=[answering(lambda rows: rows * 0)])) as memory:
        assert (
            await memory.check_embedder() == '"kipu.testing.doubles.ScriptedEmbedder" answers, but the vector is zero.'
        )


async def test_the_earlier_embedder_answers_also_after_two_changes(meaning, write):
    @attrs.define
    class Third(HashingEmbedder):
        salt: str = "third"

    fill(write, 3)
    known = {"hashing": HashingEmbedder, "other": OtherEmbedder, "third": Third}
    for name in ("hashing", "other"):
        async with named(meaning(name), **known) as memory:
            await memory.index()
    async with named(meaning("third"), **known) as memory:
        results = await memory.search("note1", sync=False)
        assert (results[0].path, results.degraded) == ("memory/001.md", False)
        assert '"other" answers' in results.notices[0]


async def test_old_vectors_answer_while_new_ones_are_made(meaning, write):
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


async def test_vectors_of_what_was_deleted_go_where_none_may_stay(config, write):
    memory = Memory(config(index={"embedder": HashingEmbedder(), "cache_bytes": 0}, strategy=VectorStrategy()))
    async with memory:
        write("memory/a.md", "one\n")
        file = write("memory/b.md", "two\n")
        await memory.index()
        file.unlink()
        await memory.index()
        async with memory._context.database.reader() as connection:
            (row,) = await connection.execute_fetchall("SELECT count(*) FROM embeddings")
    assert row[0] == 1


@pytest.mark.parametrize("query", ["", " ", '"', "***", "\0"])
async def test_a_query_without_words_is_not_embedded(meaning, embedder, write, query):
    fill(write, 3)
    async with meaning() as memory:
        await memory.index()
        embedder.calls.clear()
        results = await memory.search(query)
        assert (results.degraded, results.notices, embedder.calls) == (False, [], [])


@pytest.mark.parametrize(("method", "asked", "unasked"), [("score", 1, 99), ("score_files", "memory/n.md", "no.md")])
async def test_what_a_strategy_says_of_chunks_and_files_is_checked(meaning, write, method, asked, unasked):
    answers = [
        (None, "it returned None, and must return a dictionary"),
        ({asked: 7}, "between 0 and 1"),
        ({asked: float("nan")}, "between 0 and 1"),
        ({unasked: 1}, f"it scored {unasked!r}, which it was not asked for"),
    ]

    said: list[Any] = [{asked: 0.5}]

    async def say(self: Any, query: Query, index: Any, what: Any) -> Any:
        return said[-1]

    opinionated = type("Opinionated", (VectorStrategy,), {method: say})
    heard = []

    class Asks(CombinedStrategy):
        async def search(self, query: Query, index: Any) -> list[Hit]:
            heard.append(await getattr(index, method)("near", query, [asked]))
            return []

    fill(write, 3)
    async with meaning(strategy=Asks(("near",))) as memory:
        memory.register_strategy("near", opinionated())
        await memory.search("note1")
        assert heard == [{asked: 0.5}]
        for answer, wrong in answers:
            said.append(answer)
            with pytest.raises(PluginFailedError, match=wrong):
                await memory.search("note1")


async def test_a_strategy_that_has_no_opinion_on_files_says_nothing(meaning, write):
    heard = []

    class Asks(CombinedStrategy):
        async def search(self, query: Query, index: Any) -> list[Hit]:
            heard.append(await index.score_files("near", query, ["memory/note1.md"]))
            return []

    fill(write, 3)
    async with meaning(strategy=Asks(("near",))) as memory:
        memory.register_strategy("near", VectorStrategy())
        await memory.search("note1")
    assert heard == [{}]


# --- an embedder that cannot be had --------------------------------------------------------------------------------


async def test_a_missing_embedder_is_one_sentence_and_words_still_work(meaning, write):
    fill(write, 3)
    async with named(meaning("hashng", strategy=WordStrategy()), hashing=HashingEmbedder) as memory:
        memory.register_strategy("near", VectorStrategy())
        results = await memory.search("note1", strategy="near")
        assert results.degraded
        assert len(results.notices) == 1
        assert 'No embedder "hashng". Did you mean "hashing"?' in results.notices[0]
        assert results.notices[0].startswith("This search went by words.")
        assert results.pending_vectors == 3
        report = await memory.index()
        assert report.pending_vectors == 3
        assert "searches go by words" in report.notices[0]
        assert any("hashng" in sentence for sentence in await memory.check())


async def test_without_vectors_nothing_is_embedded(meaning, embedder, write):
    fill(write, 3)
    async with meaning(strategy=WordStrategy()) as memory:
        report = await memory.index()
        results = await memory.search("note1")
        assert (report.embedded, report.pending_vectors, results.degraded, results.notices) == (0, 0, False, [])
        assert (await memory.status()).embedder is None
    assert embedder.calls == []


async def test_an_empty_workspace_is_no_failure(meaning, embedder):
    async with meaning() as memory:
        results = await memory.search("anything")
        assert (list(results), results.degraded, results.notices) == ([], False, [])
    assert embedder.calls == []


# --- strategies that search with others, and post-processors with vectors --------------------------------------------


async def test_a_strategy_searches_with_others(meaning, write):
    fill(write, 20)
    async with meaning(strategy=CombinedStrategy()) as memory:
        memory.register_strategy("near", VectorStrategy())
        memory.register_strategy("by-words", WordStrategy())
        found = await asyncio.gather(*(memory.search(f"note{number % 20}") for number in range(40)))
        assert [results[0].path for results in found] == [f"memory/{number % 20:03}.md" for number in range(40)]


async def test_a_strategy_cannot_search_with_itself(meaning, write):
    fill(write, 3)
    async with meaning(strategy=CombinedStrategy(("circle",))) as memory:
        memory.register_strategy("circle", CombinedStrategy(("other",)))
        memory.register_strategy("other", CombinedStrategy(("circle",)))
        with pytest.raises(ConfigurationError, match="cannot search with itself"):
            await memory.search("note1")


async def test_a_strategy_that_searches_with_others_goes_on_without_vectors(meaning, write):
    fill(write, 3)
    down = ScriptedEmbedder(script=[EmbedderError("The key was refused (401).")])
    async with meaning(down, strategy=CombinedStrategy()) as memory:
        memory.register_strategy("near", VectorStrategy())
        memory.register_strategy("by-words", WordStrategy())
        results = await memory.search("note1")
        assert (results[0].path, results.degraded, results[0].scores) == ("memory/001.md", True, {"words": 1.0})


async def test_a_post_processor_that_needs_vectors_gets_them(meaning, write):
    seen: list[Any] = []

    class Looks:
        needs_vectors = True

        async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
            seen.extend(hit.vector for hit in hits)
            return hits

    fill(write, 3)
    async with meaning(postprocessors=[Looks()]) as memory:
        await memory.search("note1")
    assert [round(float(np.linalg.norm(vector)), 4) for vector in seen] == [1.0] * len(seen)
    assert seen


async def test_the_query_says_what_day_it_is(config, write):
    from datetime import datetime

    days = []

    class Looks:
        async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
            days.append(query.today)
            return hits

    fill(write, 3)
    before = datetime.now(UTC).date()
    async with Memory(attrs.evolve(config(postprocessors=[Looks()]), timezone="UTC")) as memory:
        await memory.search("note1")
    assert before <= days[0] <= datetime.now(UTC).date()
