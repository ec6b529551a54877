"""Which embedder answers a query, and what the search says if none does."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from embedders import OtherEmbedder, fill, named, short_of_time

from kipu.errors import (
    EmbedderError,
)
from kipu.testing import HashingEmbedder, ScriptedEmbedder, VectorStrategy, WordStrategy


@pytest.mark.parametrize("query", ["", " ", '"', "***", "\0"])
async def test_a_query_without_letters_and_digits_is_not_embedded(meaning, embedder, write, query):
    fill(write, 3)
    async with meaning() as memory:
        await memory.index()
        embedder.calls.clear()
        results = await memory.search(query)
        assert (results.degraded, results.notices, embedder.calls) == (False, [], [])


async def test_for_an_empty_workspace_nothing_is_embedded(meaning, embedder):
    async with meaning() as memory:
        results = await memory.search("anything")
        assert (list(results), results.degraded, results.notices) == ([], False, [])
    assert embedder.calls == []


async def test_a_missing_embedder_is_one_notice_and_searches_go_by_words(meaning, write):
    fill(write, 3)
    async with named(meaning("hashng", strategy=WordStrategy()), hashing=HashingEmbedder) as memory:
        memory.register_strategy("near", VectorStrategy())
        results = await memory.search("note1", strategy="near")
        assert results.degraded
        assert len(results.notices) == 1
        assert 'No embedder "hashng". Did you mean "hashing"?' in results.notices[0]
        assert results.notices[0].startswith("This search used keywords only.")
        assert results.pending_vectors == 3
        report = await memory.index()
        assert report.pending_vectors == 3
        assert "searches use keywords only" in report.notices[0]
        assert any("hashng" in sentence for sentence in await memory.check())


@pytest.mark.parametrize("share", ["half", float("nan"), 2.0, ZeroDivisionError()])
async def test_an_invalid_unknown_share_is_a_notice(meaning, write, share):
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


@pytest.mark.parametrize(
    ("text", "languages", "unknown"),
    [
        ("为什么选择了数据库", ["en"], 1),
        ("почему мы выбрали базу данных", ["en", "de"], 1),
        ("لماذا اخترنا قاعدة البيانات", ["en"], 1),
        ("why did we choose it", ["zh"], 1),
        ("为什么选择了数据库", None, 0),
        ("why redis, ¿por qué?", ["de"], 0.6),
        ("Ｆｕｌｌ　ｗｉｄｔｈ 1234 !?", ["en-US"], 0),
        ("日本のデータ", ["ja"], 0),
        ("한국어", ["ko"], 0),
        ("ключ key", ["ru"], 3 / 7),
        ("Wer hat das Klavier gestimmt?", ["en"], 0.6),
        ("Wer hat das Klavier gestimmt?", ["en", "de-AT"], 0),
        ("¿Dónde está el servidor de pruebas?", ["en"], 0.6),
        ("Where is the file die-and-das.md?", ["en"], 0),
        ("Die hard", ["en"], 0),
        ("Tell me about de la Cruz", ["en"], 0),
        ("Wer hat das Klavier gestimmt?", ["fi"], 0),
    ],
)
async def test_a_strategy_learns_how_much_of_the_query_the_embedder_does_not_know(
    meaning, write, text, languages, unknown
):
    asked: list[Any] = []

    @attrs.define
    class Asked(VectorStrategy):
        async def search(self, query: Any, index: Any) -> Any:
            asked.append(query.embedding)
            return []

    fill(write, 1)
    async with meaning(HashingEmbedder(languages=languages), strategy=Asked()) as memory:
        await memory.search(text)
    assert [each.unknown_share for each in asked] == [pytest.approx(unknown)]
    assert asked[0].confidence == pytest.approx(1 - 0.8 * unknown)


async def test_an_earlier_embedder_answers_until_the_new_one_has_caught_up(meaning, write):
    fill(write, 300)
    async with named(meaning("hashing"), hashing=HashingEmbedder) as memory:
        await memory.index()
    async with named(meaning("other"), hashing=HashingEmbedder, other=OtherEmbedder) as memory:
        short_of_time(memory)
        memory._synchronizer.embeddings._in_background = False
        results = await memory.search("note3")
        assert (results[0].path, results.degraded) == ("memory/003.md", False)
        assert results.notices == [
            'The embedder changed. Until "other" has embedded the remaining 292 of 300 chunks, "hashing" answers. '
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


async def test_after_two_changes_the_embedder_with_most_vectors_answers(meaning, write):
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


async def test_a_search_is_degraded_if_an_earlier_embedder_answers_for_one_that_fails(meaning, write):
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


async def test_without_the_earlier_embedder_searches_go_by_words(meaning, write):
    fill(write, 3)
    async with named(meaning("other"), other=OtherEmbedder) as memory:
        await memory.index()
    down = ScriptedEmbedder(script=[EmbedderError("The key was refused (401).")])
    async with meaning(down) as memory:
        results = await memory.search("note1")
        assert (results.degraded, results.pending_vectors) == (True, 3)


async def test_the_embedder_with_more_vectors_answers_though_texts_are_pending(meaning, write):
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
        assert results.notices == [
            "2 chunks are not embedded yet, and found by keywords only. To embed all: kipu index"
        ]
