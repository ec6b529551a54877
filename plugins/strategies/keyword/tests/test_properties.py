"""What holds for any text and any query."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kipu_strategy_keyword import Keyword
from kipu_strategy_keyword.stemming import Stems
from kipu_strategy_keyword.tokens import fold, identifiers, words

# Every code point, lone surrogates and NUL among them, and the pieces of FTS5's query language.
SYNTAX = [
    "AND",
    "OR",
    "NOT",
    "NEAR(",
    ")",
    '"',
    "*",
    "^",
    "text:",
    "{",
    "}",
    "-",
    "+",
    "“",
    "”",
    " ",
    "redis",
    "東京",
    "猫",
]
ANY_TEXT = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=60),
    st.lists(st.sampled_from(SYNTAX), max_size=12).map("".join),
)


@pytest.mark.slow
@given(texts=st.lists(ANY_TEXT, min_size=1, max_size=4), query=ANY_TEXT)
@example(texts=["a"], query='"')
@example(texts=["redis \0 nul"], query="\0redis")
@example(texts=["\ud800"], query="\udfff redis")
@example(texts=["😀"], query="😀")
@example(texts=["redis"], query="redis " * 20_000)
@example(texts=["redis"], query=" ".join(f"word{number}" for number in range(20_000)))
@example(texts=["redis"], query='"redis" ' * 2_000)
@example(texts=["a/" * 50_000], query="a/" * 50_000)
@settings(deadline=None, max_examples=150)
def test_no_text_and_no_query_is_an_error(new_workspace, texts, query):
    async def check() -> None:
        async with new_workspace() as workspace:
            chunks = [text.encode("utf-8", "replace").decode() for text in texts]
            await workspace.add(*chunks)
            hits = await workspace.search(query)
            scores = [hit.score for hit in hits]
            assert all(0 <= score <= 1 for score in scores)
            assert scores == sorted(scores, reverse=True)
            assert len({hit.chunk.id for hit in hits}) == len(hits)

    asyncio.run(check())


@given(text=ANY_TEXT)
@settings(deadline=None)
def test_a_token_has_no_space_and_no_quote_and_can_be_stored(text):
    folded = fold(text)
    for token in (*words(folded), *identifiers(folded)):
        assert token
        assert not set(token) & set(' \t\n\r\0"')
        token.encode("utf-8")


@pytest.mark.slow
@given(text=ANY_TEXT)
@settings(deadline=None)
def test_a_text_that_has_tokens_finds_itself_with_a_high_score(new_workspace, text):
    async def check() -> None:
        async with new_workspace() as workspace:
            stored = text.encode("utf-8", "replace").decode()
            await workspace.add(stored)
            if words(fold(stored)):
                [hit] = await workspace.search(stored)
                assert hit.score == pytest.approx(1)

    asyncio.run(check())


@pytest.mark.slow
@given(
    kept=st.lists(ANY_TEXT, max_size=4),
    gone=st.lists(ANY_TEXT, max_size=4),
    query=ANY_TEXT,
)
@settings(deadline=None, max_examples=60)
def test_what_was_removed_leaves_no_trace(new_workspace, kept, gone, query):
    async def check() -> None:
        async with new_workspace() as used, new_workspace() as fresh:
            kept_texts = [text.encode("utf-8", "replace").decode() for text in kept]
            gone_texts = [text.encode("utf-8", "replace").decode() for text in gone]
            removed = await used.add(*gone_texts)
            removed += await used.add(*gone_texts, path="memory/gone.md")
            await used.add(*kept_texts)
            await fresh.add(*kept_texts)
            await used.remove(removed)
            found, expected = await used.search(query), await fresh.search(query)
            assert [(hit.chunk.text, hit.score) for hit in found] == [(hit.chunk.text, hit.score) for hit in expected]
            async with used.connection.execute("INSERT INTO keyword(keyword) VALUES ('integrity-check')"):
                pass

    asyncio.run(check())


# Few words, so that several texts have the same ones.
SOME_WORDS = st.lists(
    st.sampled_from(["redis", "walnut", "ZX-99817", "東京", "a b", "c++", "x_y", "mine", "1.md"]), max_size=9
)


@pytest.mark.slow
@given(mine=st.lists(SOME_WORDS, min_size=1, max_size=6), others=st.lists(SOME_WORDS, max_size=6), query=SOME_WORDS)
@settings(deadline=None, max_examples=100)
def test_sources_are_searched_as_if_there_were_no_others(new_workspace, mine, others, query):
    async def check() -> None:
        async with new_workspace() as shared, new_workspace() as alone:
            for number, (text, other) in enumerate(itertools.zip_longest(mine, others, fillvalue=())):
                await shared.add(" ".join(other), path=f"memory/other/{number % 2}.md", heading="redis")
                for index in (shared, alone) if number < len(mine) else ():
                    folder = ("mine", "too")[number % 2]
                    await index.add(" ".join(text), path=f"memory/{folder}/{number % 3}.md", context="walnut")
            asked, sources = " ".join(query), ["mine", "too"]
            found = [(hit.chunk.path, hit.chunk.text, hit.score) for hit in await shared.search(asked, sources=sources)]
            expected = [
                [(hit.chunk.path, hit.chunk.text, hit.score) for hit in await alone.search(asked, **options)]
                for options in ({"sources": sources}, {})
            ]
            assert found == expected[0]
            # Without sources, FTS5 adds up the same numbers.
            assert [each[:2] for each in found] == [each[:2] for each in expected[1]]
            assert [each[2] for each in found] == pytest.approx([each[2] for each in expected[1]])

    asyncio.run(check())


@pytest.mark.slow
@given(texts=st.lists(ANY_TEXT, min_size=1, max_size=4), gone=st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_the_lengths_of_sources_are_those_of_fts5(new_workspace, texts, gone):
    async def check() -> None:
        async with new_workspace() as workspace:
            ids = []
            for number, text in enumerate(texts):
                stored = text.encode("utf-8", "replace").decode()
                ids += await workspace.add(stored, path=f"memory/s{number % 2}/{number}.md", heading=stored)
            await workspace.remove(ids[:gone])
            rows = await workspace.connection.execute_fetchall(
                "SELECT total(tokens), total(chunks), total(files) FROM keyword_sources"
            )
            await workspace.connection.execute(
                "CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, keyword, instance)"
            )
            words = await workspace.connection.execute_fetchall("SELECT count(*) FROM words")
            left = len(ids[gone:])
            assert list(rows) == [(next(iter(words))[0], left, left)]
            labels = await workspace.connection.execute_fetchall("SELECT count(*) FROM keyword_sources")
            assert list(labels) == [(len({number % 2 for number in range(gone, len(texts))}),)]

    asyncio.run(check())


ENGLISH = (
    "caresses ponies ties cats feed agreed plastered bled motoring sing conflated troubled sized hopping "
    "tanned falling hissing fizzed failing filing happy sky relational conditional rational valency hesitancy "
    "digitizer conformably radically differently vileness analogously vietnamization predication operator "
    "feudalism decisiveness hopefulness callousness formality sensitivity sensibility triplicate formative "
    "formalize electricity electrical hopeful goodness revival allowance inference airliner gyroscopic "
    "adjustable defensible irritant replacement adjustment dependent adoption communism activate angularity "
    "homologous effective bowdlerize probate rate cease controlling rolling yes syzygy generously analogies "
    "toy"
).split()


@given(st.lists(st.one_of(st.sampled_from(ENGLISH), st.from_regex("[a-z]{3,12}", fullmatch=True)), max_size=20))
@settings(deadline=None)
@example(ENGLISH)
def test_words_are_stemmed_as_sqlite_stems_them(english):
    # SQLite takes "eed" off a word that is nothing else, and Porter does not.
    english = [word for word in english if word != "eed"]
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE texts USING fts5(word, tokenize = 'porter ascii')")
        connection.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(texts, instance)")
        connection.executemany("INSERT INTO texts(rowid, word) VALUES (?, ?)", enumerate(english))
        stems = dict(connection.execute("SELECT doc, term FROM terms").fetchall())
    finally:
        connection.close()
    ours = Stems()
    assert {number: ours[word] for number, word in enumerate(english)} == stems


def test_the_tables_have_a_version():
    assert Keyword().schema_version == Keyword(context_weight=0.1).schema_version
