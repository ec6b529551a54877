"""What a model says of a chunk: how much of it becomes rows, and when."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kipu import IndexConfig, Memory, MemoryConfig, SearchConfig
from kipu.testing import ParagraphChunker, ScriptedAnnotator
from kipu.types import StoredChunk
from kipu_strategy_graph.extraction import Extraction, extract
from kipu_strategy_graph.extraction.model import with_annotation

TEXT = "Ravi, who runs billing, put his API on FastAPI.\nHe will not use Django, maybe 8 GB of it."
USES = {"source": "Ravi", "predicate": "uses", "target": "FastAPI"}


def read(annotation: Any, text: str = TEXT, heading: str = "") -> Extraction:
    said = annotation if isinstance(annotation, str) else json.dumps(annotation)
    chunk = StoredChunk(1, "c", "memory/2026-11-29.md", "memory", None, 1, 2, heading, 0, text, "", {}, said)
    return with_annotation(chunk, extract(chunk))


def said(found: Extraction) -> list[str]:
    return [
        f"{'not ' * (each.polarity < 0)}{each.modality + ' ' * bool(each.modality)}{each.source} -{each.predicate}-> "
        f"{each.target}{'' if each.is_entity else ' (text)'}"
        for each in found.relations
        if each.via == "model"
    ]


def test_names_and_relations_of_an_annotation_are_read_with_their_place():
    found = read({"entities": ["Ravi", "billing", "FastAPI"], "relations": [USES]})
    assert said(found) == ["Ravi -uses-> FastAPI"]
    (relation,) = [each for each in found.relations if each.via == "model"]
    assert relation.sentence == TEXT.split("\n", maxsplit=1)[0]
    (billing,) = [each for each in found.mentions if each.name == "billing"]
    assert (TEXT[billing.start : billing.end], billing.via) == ("billing", "model")
    assert [each.via for each in found.mentions if each.name == "Ravi"] == ["name"]


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        (USES | {"target": "Django", "polarity": -1}, "not Ravi -uses-> Django"),
        (USES | {"target": "Django", "modality": "possible"}, "possible Ravi -uses-> Django"),
        (USES | {"modality": "rumour"}, "possible Ravi -uses-> FastAPI"),
        (USES | {"modality": ["x"], "polarity": {}}, "possible Ravi -uses-> FastAPI"),
        (USES | {"predicate": "has", "target": "8 GB"}, "Ravi -has-> 8 GB (text)"),
        (USES | {"source": "ravi", "target": "fastapi"}, "ravi -uses-> fastapi"),
    ],
    ids=str,
)
def test_a_statement_is_read_as_the_model_marks_it(relation, expected):
    assert said(read({"relations": [relation]})) == [expected]


@pytest.mark.parametrize(
    "annotation",
    [
        {"relations": [USES | {"source": "Marta"}], "entities": ["Marta"]},
        {"relations": [USES | {"target": "Postgres"}], "entities": ["Postgres"]},
        {"relations": [USES | {"predicate": ""}, USES | {"predicate": "x" * 101}, USES | {"predicate": 3}]},
        {"relations": [USES | {"source": ["Ravi"]}, USES | {"target": None}, "Ravi", [], 3]},
        {"relations": [USES | {"target": "FastAPI " * 100}]},
        {"relations": {"a": USES}, "entities": "Ravi"},
        {"entities": [3, {}, "", " ", ".", "x" * 200, "Redis"]},
        [],
        "[",
        "{}",
    ],
    ids=str,
)
def test_what_the_chunk_does_not_have_or_is_no_statement_is_left_out(annotation):
    assert read(annotation) == read("")


def test_a_name_of_the_heading_may_be_the_source():
    assert said(read({"relations": [USES | {"source": "Ada"}]}, heading="People > Ada")) == ["Ada -uses-> FastAPI"]


def test_markup_counts_more_than_the_model_and_the_model_more_than_sentences():
    text = "Ravi uses FastAPI.\n- uses [[Redis]]"
    other = {"relations": [USES | {"predicate": "avoids"}, {"source": "Ada", "predicate": "owns", "target": "Redis"}]}
    found = read(other, text, heading="Ada")
    assert [(each.via, each.predicate, each.target) for each in found.relations] == [
        ("relation", "uses", "Redis"),
        ("model", "avoids", "FastAPI"),
    ]


async def test_what_a_model_said_becomes_rows_when_it_arrives_and_goes_with_its_chunk(kipu_workspace, kipu_write):
    kipu_write("memory/a.md", TEXT)
    annotator = ScriptedAnnotator([lambda texts: [json.dumps({"relations": [USES]}) for _ in texts]])
    config = MemoryConfig(
        kipu_workspace,
        index=IndexConfig(chunker=ParagraphChunker(), annotator=annotator),
        search=SearchConfig(strategy="keyword", relation="graph", postprocessors=[]),
    )

    async def rows(memory: Memory) -> list[Any]:
        async with memory.open_index("graph") as index:
            found = await index.connection.execute_fetchall(
                "SELECT source, predicate, target FROM graph_relations WHERE via = 'model'"
            )
            return [tuple(row) for row in found]

    async with Memory(config) as memory:
        await memory.search("ravi")
        assert await rows(memory) == []
        assert (await memory.index()).annotated == 1
        assert await rows(memory) == [("ravi", "uses", "fastapi")]
        await memory.index(force=True)
        assert await rows(memory) == [("ravi", "uses", "fastapi")]
        await memory.forget(path="memory/a.md")
        assert await rows(memory) == []
    assert len(annotator.calls) == 1
