"""Searches across notes: which paths are shown, where, and what never is on one."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kipu import IndexConfig, Memory, MemoryConfig, SearchConfig
from kipu.errors import ConfigurationError
from kipu.markdown import read_metadata
from kipu.testing import ParagraphChunker, ScratchIndex, VectorStrategy, WordStrategy
from kipu.types import Hit
from kipu_strategy_graph import GraphStrategy
from kipu_strategy_graph.extraction import phrase

QUESTION = "Which server runs what Ravi uses?"
FIRST, SECOND = "Ravi uses FastAPI for the billing API.", "FastAPI runs on the server Uvicorn."
PAST = "\n  [valid_until: 2020-01-01]"


class EntryChunker(ParagraphChunker):
    """Makes a chunk of each paragraph, with its metadata."""

    def chunk(self, document: Any) -> list[Any]:
        chunks = super().chunk(document)
        return [attrs.evolve(each, metadata=read_metadata(each.text.split("\n")[-1].strip())) for each in chunks]


@pytest.fixture
def memory(kipu_config, kipu_write):
    """Make a memory with one note a file, searched by words and completed by the graph."""

    def make(*notes: str, scope: str | None = None) -> Memory:
        for number, note in enumerate(notes):
            kipu_write(f"memory/note-{number}.md", note + "\n")
        made = Memory(
            kipu_config(index={"chunker": EntryChunker()}, relation=GraphStrategy(strategy="words")), scope=scope
        )
        made.register_strategy("words", WordStrategy())
        return made

    return make


def others(count: int) -> list[str]:
    about = [f"Ravi likes number {number} and what it stands for." for number in range(min(count, 9))]
    return [*about, *(f"Which of the {number} lists is it, and what for?" for number in range(count - len(about)))]


def texts(results: Any) -> list[str]:
    return [result.text for result in results]


@pytest.mark.parametrize("count", [0, 50, 200])
async def test_the_second_note_is_found_with_its_path_among_many_others(memory, count):
    async with memory(FIRST, *others(count), SECOND) as notes:
        results = await notes.search(QUESTION, max_results=5)
    (found,) = [result for result in results if result.text == SECOND]
    assert found.why == "Ravi -uses-> FastAPI -runs on-> Uvicorn"
    assert [(step.source, step.predicate, step.target) for step in found.chain] == [
        ("Ravi", "uses", "FastAPI"),
        ("FastAPI", "runs on", "Uvicorn"),
    ]
    assert [step.path for step in found.chain] == ["memory/note-0.md", found.path]
    assert [(step.start_line, step.end_line) for step in found.chain] == [(1, 1)] * 2


async def test_other_hits_keep_their_order_and_the_first_three_their_places(memory):
    async with memory(FIRST, *others(50), SECOND) as notes:
        results = await notes.search(QUESTION, max_results=20)
        without = await notes.search(QUESTION, max_results=20, relation=False)
    assert texts(results)[3] == SECOND
    direct = [text for text in texts(results) if text != SECOND]
    assert direct == [text for text in texts(without) if text != SECOND][: len(direct)]
    assert texts(results)[:3] == texts(without)[:3]
    assert all(before.score >= after.score for before, after in pairwise(results))


@pytest.mark.parametrize("mark", ["", PAST])
async def test_nor_do_outdated_notes_or_copies_give_way_to_paths(memory, mark):
    note = "- Which server runs what it uses?" + mark
    async with memory(note, note, FIRST, *others(50), SECOND) as notes:
        results = await notes.search(QUESTION, max_results=20)
        without = await notes.search(QUESTION, max_results=20, relation=False)
    assert texts(results)[:3] == texts(without)[:3]
    assert texts(results)[3] == SECOND
    assert all(before.score >= after.score for before, after in pairwise(results))


NAMES = st.sampled_from(["Ravi", "FastAPI", "Uvicorn", "Oslo", "小明"])
NOTES = st.tuples(NAMES, st.sampled_from(["uses", "runs on", "likes"]), NAMES, st.sampled_from(["", " here", PAST]))


async def search_twice(workspace: Path, question: str, **options: Any) -> list[Any]:
    index, search = IndexConfig(chunker=EntryChunker()), SearchConfig(WordStrategy(), relation=GraphStrategy())
    async with Memory(MemoryConfig(workspace, index=index, search=search)) as notes:
        return [await notes.search(question, relation=on, **options) for on in (True, False)]


@given(st.lists(NOTES, min_size=4, max_size=30), NAMES, st.integers(1, 30), st.sampled_from([None, "2019-01-01"]))
@settings(deadline=None, max_examples=25)
def test_paths_stand_behind_the_third_hit_and_move_no_other(said, name, count, as_of):
    with tempfile.TemporaryDirectory() as folder:
        memory = Path(folder, "memory")
        memory.mkdir()
        for number, note in enumerate(said):
            (memory / f"{number}.md").write_text("- {} {} {}{}\n".format(*note), "utf-8")
        question = f"What runs on what {name} uses?"
        results, without = asyncio.run(search_twice(Path(folder), question, max_results=count, as_of=as_of))
    assert texts(results)[: min(3, len(without))] == texts(without)[:3]
    ends = {result.text for result in results if result.chain}
    one, other = ([text for text in texts(each) if text not in ends] for each in (results, without))
    assert [text for text in one if text in other] == [text for text in other if text in one]
    assert all(before.score >= after.score > 0 for before, after in pairwise(results))


async def test_an_outdated_note_begins_no_path_and_is_labelled_where_one_ends(memory):
    notes = [f"- {FIRST}{PAST}", "Ravi uses Django.", *others(50), SECOND, f"- Django: the server Granian{PAST}"]
    async with memory(*notes) as notes:
        results = await notes.search(QUESTION, max_results=60)
    assert [(result.why, result.outdated) for result in results if result.chain] == [
        ("Ravi -uses-> Django - Granian", "valid until 2020-01-01")
    ]


async def test_no_path_leads_through_what_was_superseded(memory):
    past = "- FastAPI runs on Uvicorn.\n  [superseded_by: memory/note-3.md; valid_until: 2026-01-05]"
    third = "Uvicorn: companies like Encode wrote it"
    question = "Which company made what runs what Ravi uses?"
    async with memory(FIRST, past, third, "FastAPI runs on Hypercorn.", *others(50)) as notes:
        now, alone, then = [
            {result.path for result in await notes.search(question, max_results=60, **options) if result.chain}
            for options in ({}, {"strategy": "graph"}, {"as_of": "2026-01-04"})
        ]
    assert [("memory/note-2.md" in each) for each in (now, alone, then)] == [False, False, True]


async def test_a_third_note_is_reached_through_the_second(memory):
    third = "Uvicorn: companies like Encode wrote it"
    async with memory(FIRST, "FastAPI runs on Uvicorn.", third, *others(50)) as notes:
        results = await notes.search("Which company made what runs what Ravi uses?", max_results=10)
    (found,) = [result for result in results if result.text == third]
    assert [step.path for step in found.chain] == [f"memory/note-{number}.md" for number in range(3)]
    assert found.why.startswith("Ravi -uses-> FastAPI -runs on-> Uvicorn")


async def test_notes_that_only_share_a_name_have_a_path_without_predicates(memory):
    async with memory("Notes by Ravi (FastAPI)", "Servers: FastAPI, Uvicorn", *others(3)) as notes:
        results = await notes.search("Which server for Ravi?", max_results=20)
    assert [result.why for result in results if result.chain] == ["Ravi - FastAPI - Servers"]


async def test_names_without_capitals_are_found_where_nothing_has_any(memory):
    notes = [note.lower() for note in (FIRST, *others(50), SECOND)]
    async with memory(*notes) as lower:
        results = await lower.search(QUESTION.lower(), max_results=5)
    (found,) = [result for result in results if result.text == SECOND.lower()]
    assert found.why == "ravi uses - fastapi"


async def test_a_script_without_capitals_or_spaces_has_paths_too():
    async with ScratchIndex.open(GraphStrategy()) as index:
        (id,) = await index.add("拉维使用 FastAPI 开发账单接口。", path="memory/a.md")
        await index.add("FastAPI 在服务器 Uvicorn 上。", path="memory/b.md")
        for number in range(20):
            await index.add(f"莉娜写了第{number}次会议。", path=f"memory/{number}.md")
        hits = [Hit((await index.chunks([id]))[id], 0.9)]
        completed = await index.strategy.complete(index.query("拉维的服务器？"), index, hits)
    assert [hit.why for hit in completed] == ["", "拉维 - FastAPI - Uvicorn"]


@pytest.mark.parametrize("question", ["which server runs it?", "", "   ", "?", "and the of", "Xyzzy uses what server?"])
async def test_a_question_without_a_known_name_has_no_path(memory, question):
    async with memory(FIRST, *others(9), SECOND) as notes:
        results = await notes.search(question)
        without = await notes.search(question, relation=False)
    assert texts(results) == texts(without)
    assert not any(result.chain for result in results)


async def test_a_name_that_every_note_has_opens_no_path(memory):
    async with memory(FIRST, SECOND, *(f"Ravi said {number}: which of them is it?" for number in range(60))) as notes:
        assert not any(result.chain for result in await notes.search(QUESTION, max_results=20))


async def test_the_strategy_shows_paths_alone(memory):
    async with memory(FIRST, *others(50), SECOND) as notes:
        (found,) = await notes.search(QUESTION, strategy="graph")
    assert (found.text, found.scores.keys()) == (SECOND, {"graph"})


async def test_an_alias_stands_for_its_name(memory, kipu_write):
    kipu_write("memory/z/Fast.md", "---\naliases: [FastAPI]\n---\n# Fast\n\nFast runs on the server Uvicorn.\n")
    async with memory(FIRST, *others(20)) as notes:
        results = await notes.search(QUESTION, max_results=5)
    assert [result.path for result in results if result.chain] == ["memory/z/Fast.md"]


@pytest.mark.parametrize(
    ("question", "page", "fact", "why"),
    [
        (
            "Which Java does the customs gateway need?",
            "---\naliases: [Customs Gateway]\n---\n# Plover\n\nQuarkus: what all customs need, a gateway.\n",
            "Quarkus needs Java 21.",
            "Plover - Quarkus -needs-> Java 21",
        ),
        (
            "What does 李娜 own?",
            "---\naliases: 李娜, Nana\n---\n# Li Na\n\nShe likes tea.\n",
            "Li Na owns the Kestrel.",
            "李娜 - Li Na -owns-> Kestrel",
        ),
        (
            "What does the tin man own?",
            "# Li Na\n\nAll call her [[Li Na|tin man]], the tin man.\n",
            "Li Na owns the Kestrel.",
            "tin man - Li Na -owns-> Kestrel",
        ),
    ],
)
async def test_a_question_may_use_an_alias_of_a_page(kipu_config, kipu_write, question, page, fact, why):
    kipu_write("memory/people/page.md", page)
    kipu_write("memory/a.md", fact + "\n")
    kipu_write("memory/other/b.md", "---\naliases: [Lists, 山]\n---\n# Mountain\n\nIt is high.\n")
    for number, note in enumerate(others(30)):
        kipu_write(f"memory/n/{number}.md", note + "\n")
    config = kipu_config(index={"chunker": "markdown"}, relation={"use": "graph", "strategy": "keyword"})
    async with Memory(config) as notes:
        results = await notes.search(question, strategy="graph")
    assert [(result.text, result.why) for result in results] == [(fact, why)]
    async with Memory(config, scope="n") as notes:
        assert not await notes.search(question, strategy="graph")


async def test_vectors_say_which_note_is_nearer():
    notes = {"a": ("Ravi uses FastAPI", [1, 1]), "b": ("FastAPI, a logo", [-1, 1]), "c": ("FastAPI, a port", [2, 1])}
    graph = GraphStrategy()
    async with ScratchIndex.open(VectorStrategy(), dimension=2) as index:
        for path, (note, vector) in notes.items():
            await index.add(note, path=f"memory/{path}.md", vectors=[vector])
        chunks = await index.chunks([1, 2, 3])
        await graph.create(index.connection)
        await graph.add(index.connection, [*chunks.values()])
        query = index.query("Where is it, Ravi?", [1, 0])
        completed = await graph.complete(query, index, [Hit(chunks[1], 0.9)])
    assert [hit.chunk.path for hit in completed] == ["memory/a.md", "memory/c.md"]


# --- What is said of a path ----------------------------------------------------------------------------------------

ARROW = re.compile(r" (?:-([^<>-]+)->|<-([^<>-]+)-|-) ")
SPELLINGS = ("quay-11", "quay 11", "Quay 11", "Heron", "billing", "Billing", "Ravi Kumar", "Ravi", "Schelde", "FastAPI")
LINES = st.builds(
    "{} {} {}.".format, st.sampled_from(SPELLINGS), st.sampled_from(["uses", "owns", "and"]), st.sampled_from(SPELLINGS)
) | st.builds("- owned by [[{}]]".format, st.sampled_from(SPELLINGS))


async def explained(question, notes):
    """Return why notes are found, with the first as the only other hit, and all that is stated, as phrases."""
    async with ScratchIndex.open(GraphStrategy()) as index:
        for number, (heading, note) in enumerate(notes):
            await index.add(note, path=f"memory/{number:04}.md", heading=heading)
        hits = [Hit((await index.chunks([1]))[1], 0.9)]
        completed = await index.strategy.complete(index.query(question), index, hits)
        rows = await index.connection.execute_fetchall(
            "SELECT source_text, predicate, target_text FROM graph_relations"
        )
    return [hit.why for hit in completed if hit.why], {(phrase(row[0]), row[1], phrase(row[2])) for row in rows}


@given(
    st.lists(st.tuples(st.sampled_from(("", *SPELLINGS)), LINES), min_size=2, max_size=8), st.sampled_from(SPELLINGS)
)
@settings(deadline=None, max_examples=200)
def test_every_arrow_of_a_path_is_a_statement_in_its_direction(notes, name):
    found, stated = asyncio.run(explained(f"What has {name} to do with it?", notes))
    for why in found:
        parts = ARROW.split(why)
        for start, forward, backward, end in zip(parts[::3], parts[1::3], parts[2::3], parts[3::3], strict=False):
            if forward or backward:
                ends = (start, end) if forward else (end, start)
                assert (phrase(ends[0]), forward or backward, phrase(ends[1])) in stated, why


async def test_names_that_are_spelled_in_two_ways_join():
    notes = [("", "Heron runs on quay-11."), ("Quay 11", "- owned by [[Schelde]]")]
    found, _ = await explained("Who owns what Heron runs on?", notes)
    assert found == ["Heron -runs on-> quay-11 -owned by-> Schelde"]


async def test_a_name_leads_on_and_not_the_word_that_relates_it():
    notes = ["Heron runs on wharf-05.", "Runs located in the harbour of Rotterdam.", "wharf-05 is in the harbour."]
    found, _ = await explained("In which harbour is Heron located?", [("", note) for note in (*notes, *["It is."] * 9)])
    assert found == ["Heron -runs on-> wharf-05 -in-> harbour"]


async def test_a_word_that_joins_notes_is_shown_as_it_is_written():
    notes = [("", "Ravi: the dolores of us"), ("", "What of dolores, a server?"), *[("", "It is that.")] * 9]
    assert (await explained("Which server has Ravi?", notes))[0] == ["Ravi - dolores"]


# --- What no path crosses ------------------------------------------------------------------------------------------


async def test_filters_hold_with_the_sqlite_of_python_itself(memory, monkeypatch):
    monkeypatch.setitem(sys.modules, "pysqlite3", None)  # else it may be used, and is newer
    async with memory(FIRST, *others(9), SECOND) as notes:
        found = await notes.search(QUESTION, path="note-*.md")
        assert [result.text for result in found if result.chain] == [SECOND]
        assert not any(result.chain for result in await notes.search(QUESTION, path="note-0.md"))


async def test_no_path_leaves_the_scope_or_passes_through_another(memory, kipu_write):
    async with memory(scope="ada") as ada:
        source = (await ada.remember(FIRST)).path.split("/")[1]
        for note in others(20):
            await ada.remember(note)
        kipu_write("memory/other/a.md", SECOND + "\n")
        assert SECOND not in texts(await ada.search(QUESTION, max_results=30))
        alone = [(result.text, result.why, result.score) for result in await ada.search(QUESTION)]
        for number in range(70):  # nor does it matter how often others have a name
            kipu_write(f"memory/other/ravi-{number}.md", "Ravi uses FastAPI, Uvicorn and what server it is\n")
        assert [(result.text, result.why, result.score) for result in await ada.search(QUESTION)] == alone
        kipu_write(f"memory/{source}/b.md", SECOND + "\n")
        assert SECOND in texts(await ada.search(QUESTION))


@pytest.mark.parametrize(
    "filters", [{"path": "memory/note-*.md"}, {"source": "team"}, {"since": "2026-01-01"}, {"tag": "kept"}]
)
async def test_no_path_passes_through_a_note_that_is_filtered_out(memory, kipu_write, filters):
    kipu_write("memory/team/2026-05-05.md", "Ravi uses it. #kept\n")
    kipu_write("memory/archive.md", "FastAPI runs on Uvicorn.\n")
    async with memory(FIRST + " #kept", *others(20), "The server Uvicorn runs what it uses. #kept") as notes:
        chains = [result.chain for result in await notes.search(QUESTION, max_results=30, **filters)]
    assert "memory/archive.md" not in {step.path for chain in chains for step in chain}


# --- Bad input -----------------------------------------------------------------------------------------------------

NASTY = {
    "stop words": "May will not be in May. It is an IT. The The play. US and us. May uses It.",
    "a long name": f"Ravi uses {'X' * 10_000} and {'Y ' * 10_000}.",
    "a long line": "Ravi uses FastAPI. " * 50_000,
    "quotes": "Ravi uses \"FastAPI\" OR 'NEAR(a b)' AND * ^ - : {x} \\ %_ \u0000 \u200b.",
    "many names": " ".join(f"Name{number}" for number in range(20_000)),
    "other scripts": "拉维使用FastAPI。 राम FastAPI का उपयोग करता है। ราวีใช้FastAPI 🦊🦊",
}


@pytest.mark.parametrize("text", NASTY.values(), ids=NASTY)
async def test_any_text_is_indexed_and_any_question_answered(memory, text):
    async with memory(FIRST, text, SECOND, *others(3)) as notes:
        for question in (QUESTION, text[:3000], "May uses It?", "拉维?", '"Ravi" * NEAR( FastAPI'):
            results = await notes.search(question, max_results=50)
            assert all(0 < result.score <= 1 for result in results)


@pytest.mark.parametrize("options", [{"strategy": "graph"}, {"strategy": ""}, {"nlp": 3}])
def test_wrong_options_are_refused(options):
    with pytest.raises(ConfigurationError):
        GraphStrategy(**options)


async def test_few_hits_are_followed_by_paths():
    async with ScratchIndex.open(GraphStrategy()) as index:
        await index.add(FIRST, path="memory/a.md")
        await index.add(SECOND, path="memory/b.md")
        words = WordStrategy()
        await words.create(index.connection)
        await words.add(index.connection, [*(await index.chunks([1])).values()])
        query = index.query(QUESTION)
        hits = await words.search(query, index)
        completed = await index.strategy.complete(query, index, hits)
    assert [hit.chunk.path for hit in completed] == ["memory/a.md", "memory/b.md"]
    assert completed[0] == hits[0]
    assert 0 < completed[1].score < completed[0].score
