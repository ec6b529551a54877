"""The doubles keep the contract of their kind, and follow their scripts."""

from __future__ import annotations

import numpy as np
import pytest

import kipu.testing
from kipu.errors import AnnotatorError, EmbedderError, FlusherError
from kipu.testing import (
    CombinedStrategy,
    HashingEmbedder,
    ParagraphChunker,
    ScriptedAnnotator,
    ScriptedEmbedder,
    ScriptedFlusher,
    VectorStrategy,
    WordStrategy,
)
from kipu.types import Annotator, Chunker, Distillation, Embedder, Flusher, Strategy


@pytest.mark.parametrize(
    ("double", "protocol"),
    [
        (ParagraphChunker(), Chunker),
        (HashingEmbedder(), Embedder),
        (ScriptedEmbedder(), Embedder),
        (ScriptedAnnotator(), Annotator),
        (ScriptedFlusher(), Flusher),
        (WordStrategy(), Strategy),
        (VectorStrategy(), Strategy),
        (CombinedStrategy(), Strategy),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_double_keeps_the_contract_of_its_kind(double, protocol):
    assert isinstance(double, protocol)


def test_every_double_is_public():
    assert sorted(kipu.testing.__all__) == dir(kipu.testing)
    with pytest.raises(AttributeError, match="no attribute 'Hashing'"):
        _ = kipu.testing.Hashing


async def test_texts_that_share_words_are_near_each_other():
    embedder = HashingEmbedder()
    query, near, far = await embedder.embed(["red green", "green red blue", "yellow"], role="document")
    assert query @ near > query @ far == 0
    assert embedder.calls == [["red green", "green red blue", "yellow"]]
    assert HashingEmbedder(salt="other").identity != embedder.identity


async def test_each_call_takes_the_next_step_of_a_script_and_the_last_one_repeats():
    async def later(texts):
        return np.full((len(texts), 2), 3, np.float32)

    embedder = ScriptedEmbedder(script=[None, EmbedderError("Overloaded (503)."), later])
    right = await embedder.embed(["red"], role="query")
    assert (right == HashingEmbedder().vectors(["red"])).all()
    with pytest.raises(EmbedderError, match="503"):
        await embedder.embed(["red"], role="query")
    for _ in range(2):
        assert (await embedder.embed(["red"], role="query")).tolist() == [[3, 3]]
    embedder.script = []
    assert (await embedder.embed(["red"], role="query") == right).all()


async def test_an_annotator_follows_its_script():
    annotator = ScriptedAnnotator([None, ["{}"], AnnotatorError("No answer.")])
    assert await annotator.annotate(["Red, red."]) == ['{"words": ["red"]}']
    assert await annotator.annotate(["Red."]) == ["{}"]
    with pytest.raises(AnnotatorError, match="No answer"):
        await annotator.annotate(["Red."])
    assert annotator.calls == [["Red, red."], ["Red."], ["Red."]]


async def test_a_flusher_follows_its_script():
    flusher = ScriptedFlusher(["- One.", Distillation("- Two.", tokens=7), FlusherError("No answer.")])
    assert await flusher.distill([], instructions="") == Distillation("- One.")
    assert (await flusher.distill([], instructions="")).tokens == 7
    with pytest.raises(FlusherError, match="No answer"):
        await flusher.distill([], instructions="")
    assert flusher.calls == [[], [], []]


@pytest.mark.parametrize("strategy", [WordStrategy(), VectorStrategy()], ids=lambda each: type(each).__name__)
async def test_a_memory_of_doubles_finds_what_was_written(kipu_memory, kipu_write, strategy):
    kipu_write("memory/colours.md", "red green\n\nblue\n")
    kipu_write("memory/other.md", b"yellow\n")
    async with kipu_memory(index={"embedder": HashingEmbedder()}, strategy=strategy) as memory:
        (result,) = await memory.search("green")
    assert (result.path, result.text) == ("memory/colours.md", "red green")
