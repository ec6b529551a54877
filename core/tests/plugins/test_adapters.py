"""What each kind of component may answer: anything else is an error that names the component, and does no harm."""

from __future__ import annotations

import asyncio
import itertools
import re
import threading
from typing import Any

import attrs
import numpy as np
import pytest

from kipu import Chunk, Hit, Memory, Query
from kipu.errors import EmbedderError, PluginFailedError, UnavailableError
from kipu.plugins.adapters import (
    ADAPTERS,
    ChunkerAdapter,
    EmbedderAdapter,
    FlusherAdapter,
    PostProcessorAdapter,
    StrategyAdapter,
    WriteFilterAdapter,
)
from kipu.plugins.kinds import KINDS
from kipu.testing import ParagraphChunker, WordStrategy
from kipu.types import Distillation, Document, Filtered, StoredChunk


def adapted(kind: str, component: object) -> Any:
    return ADAPTERS[kind](KINDS[kind], "mine", component)


def component(**members: Any) -> object:
    """Return an object of a class with these members."""
    return type("Component", (), members)()


def stored(id: int) -> StoredChunk:
    return StoredChunk(id, str(id), "memory/a.md", "memory", None, 1, 1, "", 0, "text", "", {})


class Str(str):
    """A text that ends the program when it is used as one."""

    def __str__(self) -> str:
        raise SystemExit(7)

    __repr__ = strip = split = __str__


class Number(float):
    def __le__(self, other):
        raise SystemExit(7)

    __ge__ = __gt__ = __lt__ = __float__ = __le__


class Table(dict):
    def items(self):
        raise SystemExit(7)

    __repr__ = values = items


@attrs.frozen
class Ends:
    """A component that ends the program, or its task, wherever it is called."""

    error: BaseException = attrs.field(factory=lambda: SystemExit(3))

    async def search(self, query, index):
        raise self.error

    async def process(self, query, hits):
        raise self.error

    def chunk(self, document):
        raise self.error


class OwnError(BaseException):
    pass


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(3), OwnError(3)], ids=repr)
@pytest.mark.parametrize("kind", ["strategy", "postprocessors"])
async def test_a_component_that_ends_the_program_or_its_task_only_fails(config, write, kind, error):
    write("memory/a.md", "apple")
    part = Ends(error) if kind == "strategy" else [Ends(error)]
    async with Memory(config(**{kind: part})) as memory:
        with pytest.raises(PluginFailedError, match=f"{type(error).__name__}: 3"):
            await memory.search("apple")


# --- chunkers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, "TypeError: 'NoneType' object is not iterable"),
        ("text", "TypeError: it returned 't', which is no Chunk"),
        ([{"text": "a"}], "TypeError: it returned {'text': 'a'}, which is no Chunk"),
        ([Chunk(None, 1, 1)], "TypeError: text, heading, context and metadata of a chunk are texts"),
        ([Chunk("a", None, 1)], "TypeError: text, heading, context and metadata of a chunk are texts, lines are"),
        ([Chunk("a", 1, 99)], "ValueError: a chunk has lines 1 to 99, and the file has 1 to 3"),
        ([Chunk("a", 0, 1)], "ValueError: a chunk has lines 0 to 1"),
        ([Chunk("a", 2, 1)], "ValueError: a chunk has lines 2 to 1"),
        ([Chunk("\ud800", 1, 1)], "UnicodeEncodeError"),
        ([Chunk("a", 1, 1, heading=b"x")], "TypeError: text, heading"),
        ([Chunk("a", 1, 1, heading_level=2**70)], "ValueError: a chunk has"),
    ],
    ids=str,
)
async def test_a_file_whose_chunks_are_invalid_is_skipped_with_the_reason(config, write, answer, problem):
    class Invalid(ParagraphChunker):
        def chunk(self, document):
            return answer if "apple" in document.text else ParagraphChunker.chunk(self, document)

    write("memory/a.md", "apple\npear\n")
    write("memory/b.md", "plum\n")
    async with Memory(config(index={"chunker": Invalid()})) as memory:
        report = await memory.index()
        assert [result.path for result in await memory.search("plum")] == ["memory/b.md"]
    (file,) = report.skipped
    assert (file.path, report.pending, report.added) == ("memory/a.md", ["memory/a.md"], 1)
    assert file.reason.startswith(f'was not chunked: The chunker "{__name__}.{Invalid.__qualname__}" failed on memory')
    assert problem in file.reason
    assert not file.reason.endswith(".")


async def test_a_chunker_that_does_not_advance_is_read_to_a_bound():
    read = []

    def chunk(self, document):
        while True:
            read.append(1)
            yield Chunk("x", 1, 1)

    (error,) = await adapted("chunker", component(chunk=chunk)).chunk([Document("memory/a.md", "apple\n")])
    assert str(error) == 'The chunker "mine" failed on memory/a.md: ValueError: it returned more than 8 items.'
    assert len(read) == 9


@pytest.mark.parametrize("part", [{"text": Str("a")}, {"heading": Str("a")}, {"metadata": Table(a="b")}], ids=list)
async def test_what_a_chunk_says_is_of_builtin_classes(part):
    chunk = Chunk(**({"text": "apple", "start_line": 1, "end_line": 1} | part))
    chunker = adapted("chunker", component(chunk=lambda self, document: [chunk]))
    (error,) = await chunker.chunk([Document("memory/a.md", "apple\n")])
    assert str(error) == 'The chunker "mine" failed on memory/a.md: SystemExit: 7.'


async def test_a_chunker_may_be_async():
    async def chunk(self, document):
        return ParagraphChunker().chunk(document)

    chunker = adapted("chunker", component(chunk=chunk))
    assert isinstance(chunker, ChunkerAdapter)
    (chunks,) = await chunker.chunk([Document("memory/a.md", "apple\n")])
    assert [chunk.text for chunk in chunks] == ["apple"]


def test_the_identity_of_a_chunker_follows_its_options_and_its_version():
    identities = {adapted("chunker", chunker).identity for chunker in (ParagraphChunker(), ParagraphChunker(2))}
    assert len(identities) == 2
    assert adapted("chunker", ParagraphChunker()).identity in identities


# --- embedders -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "value", "expected"),
    [
        ("identity", None, "a text"),
        ("batch_size", 0, "a whole number of at least 1"),
        ("languages", "en", "a list of texts"),
        ("destination", 5, "a text"),
    ],
)
async def test_an_invalid_member_of_an_embedder_is_an_embedder_error(member, value, expected):
    embedder = adapted("embedder", component(**({"identity": "mine"} | {member: value})))
    assert isinstance(embedder, EmbedderAdapter)
    with pytest.raises(EmbedderError, match=f'The embedder "mine" has an invalid {member}: it must be {expected}'):
        await embedder.identity()


async def test_an_identity_that_cannot_be_stored_is_an_embedder_error():
    with pytest.raises(EmbedderError, match='The embedder "mine" failed when asked for identity: UnicodeEncodeError'):
        await adapted("embedder", component(identity="\ud800")).identity()
    assert type(await adapted("embedder", component(identity=Str("mine"))).identity()) is str


async def test_an_array_that_is_made_lazily_is_made_in_a_thread():
    class Lazy:
        def __array__(self, dtype=None, copy=None):
            return np.full((1, 2), threading.get_ident() == loop, dtype)

    async def embed(self, texts, *, role):
        return Lazy()

    loop = threading.get_ident()
    rows = await adapted("embedder", component(embed=embed)).embed(["apple"], role="query")
    assert not rows.any()


async def test_optional_members_of_an_embedder_have_defaults():
    embedder = adapted("embedder", component(identity="mine"))
    assert (embedder.languages, embedder.batch_size, embedder.says_destination) == (None, 64, False)
    assert await embedder.unknown_share("apple") is None


# --- strategies and post-processors --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, "TypeError: it returned None, and must return a list of hits"),
        ([None], "TypeError: it returned None, which is no Hit with a chunk from Index.chunks()"),
        ([Hit(None, 1.0)], "TypeError: it returned Hit("),
        ([Hit(stored(1), 2.0)], "ValueError: it gave memory/a.md the score 2.0; scores are between 0 and 1"),
        ([Hit(stored(1), float("nan"))], "ValueError: it gave memory/a.md the score nan"),
        ([Hit(stored(1), "1")], "TypeError: "),
        ([Hit(stored(1), 1.0, {"a": "b"})], "TypeError: the score of a hit, and those by strategy, are numbers"),
        ([Hit(stored(1), 1.0, why=5)], "TypeError: outdated and why of a hit are texts, unlike '' and 5"),
        ([Hit(stored(1), 1.0, outdated=b"x")], "TypeError: outdated and why of a hit are texts, unlike b'x' and ''"),
    ],
    ids=str,
)
@pytest.mark.parametrize(("kind", "method"), [("strategy", "search"), ("postprocessor", "process")])
async def test_invalid_hits_are_an_error(kind, method, answer, problem):
    adapter = adapted(kind, component(**{method: lambda self, query, other: answer}))
    with pytest.raises(PluginFailedError, match=re.escape(f'"mine" failed in this search: {problem}')):
        await getattr(adapter, method)(Query("apple"), [])


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_a_hit_says_is_of_builtin_classes(is_async):
    class Own(Hit):
        pass

    hit = Own(stored(1), Number(0.5), Table({Str("mine"): Number(0.25)}), None, Str("until May"), Str("It is red."))

    async def process():
        return [hit]

    stage = adapted("postprocessor", component(process=lambda self, query, hits: process() if is_async else [hit]))
    (found,) = await stage.process(Query("apple"), [])
    assert found == Hit(stored(1), 0.5, {"mine": 0.25}, None, "until May", "It is red.")
    ((name, score),) = found.scores.items()
    parts = [found, found.score, found.scores, name, score, found.outdated, found.why]
    assert [*map(type, parts)] == [Hit, float, dict, str, float, str, str]


async def test_scores_are_numbers_by_the_names_that_were_asked_for():
    class Path(str):
        pass

    def score_files(self, query, index, paths):
        return {Path("memory/a.md"): np.float32(0.5)}

    found = await adapted("strategy", component(score_files=score_files)).score_files(None, None, ["memory/a.md"])
    assert [(type(path), type(score)) for path, score in found.items()] == [(str, float)]


async def test_a_generator_of_hits_without_end_is_abandoned():
    def process(self, query, hits):
        while True:
            yield Hit(stored(1), 0.5)

    stage = ADAPTERS["postprocessor"](KINDS["postprocessor"], "mine", component(process=process), time_limit=0.02)
    with pytest.raises(PluginFailedError, match=r"took more than|more than 1,000,000 items"):
        await stage.process(Query("apple"), [])


async def test_a_hit_counts_once_and_no_more_than_were_requested():
    hits = [Hit(stored(id), 0.5) for id in (1, 2, 1, 3)]
    strategy = adapted("strategy", component(search=lambda self, query, index: hits))
    assert isinstance(strategy, StrategyAdapter)
    assert [hit.chunk.id for hit in await strategy.search(Query("apple", limit=2), None)] == [1, 2]
    stage = adapted("postprocessor", component(process=lambda self, query, hits: hits))
    assert isinstance(stage, PostProcessorAdapter)
    assert [hit.chunk.id for hit in await stage.process(Query("apple"), hits)] == [1, 2, 3]


async def test_the_best_hits_come_first():
    hits = [Hit(stored(1), 0.5), Hit(stored(2), 0.6)]
    with pytest.raises(PluginFailedError, match=r"a hit with the score 0\.6 after one with 0\.5; the best come first"):
        await adapted("strategy", component(search=lambda self, query, index: hits)).search(Query("apple"), None)
    stage = adapted("postprocessor", component(process=lambda self, query, hits: hits))
    assert await stage.process(Query("apple"), hits) == hits  # such as one that ranks by diversity


def test_the_strategies_of_a_strategy_are_names():
    with pytest.raises(PluginFailedError, match="has an invalid strategies: it must be a list of names"):
        _ = adapted("strategy", component(strategies="keyword")).strategies


async def test_the_why_of_a_hit_reaches_its_result(config, write):
    class Because(WordStrategy):
        async def search(self, query, index):
            return [attrs.evolve(hit, why="It is red.") for hit in await WordStrategy.search(self, query, index)]

    write("memory/a.md", "apple\n")
    async with Memory(config(strategy=Because())) as memory:
        (result,) = await memory.search("apple")
    assert result.why == "It is red."


# --- flushers and write filters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("- a fact", "TypeError: it returned str, and must return a Distillation"),
        (Distillation(3), "TypeError: the text of its Distillation must be a text, and complete True or False"),
        (Distillation("- a fact", complete=None), "TypeError: the text of its Distillation must be a text"),
        (Distillation("- a fact", tokens=-1), "ValueError: the tokens of its Distillation must be a whole number"),
        (Distillation("- a fact", tokens=True), "ValueError: the tokens"),
    ],
    ids=str,
)
async def test_an_invalid_distillation_is_an_error(answer, problem):
    flusher = adapted("flusher", component(distill=lambda self, messages, *, instructions, model: answer))
    with pytest.raises(PluginFailedError, match=f'The flusher "mine" failed to distill: {problem}'):
        await flusher.distill([], instructions="", model=None)


async def test_the_window_of_a_flusher_is_a_whole_number():
    flusher = adapted("flusher", component())
    assert isinstance(flusher, FlusherAdapter)
    assert await flusher.window() == 32_000
    with pytest.raises(PluginFailedError, match='The flusher "mine" has an invalid window'):
        await adapted("flusher", component(window="8000")).window()


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        ("text", "TypeError"),
        (Filtered(" "), "TypeError"),
        (Filtered("a\0b"), "ValueError"),
        (ValueError("the key sk-secret"), "ValueError"),
        (UnavailableError("the key sk-secret"), "UnavailableError"),
    ],
    ids=str,
)
async def test_a_write_filter_that_fails_refuses_the_write_and_quotes_nothing(answer, cause):
    def answering(self, text, path):
        if isinstance(answer, Exception):
            raise answer
        return answer

    write_filter = adapted("filter", component(filter=answering))
    assert isinstance(write_filter, WriteFilterAdapter)
    with pytest.raises(PluginFailedError) as caught:
        await write_filter.filter("sk-secret", "memory/a.md")
    assert str(caught.value) == (
        f'The write filter "mine" failed: {cause}. Nothing was written. To write without it: [writing] filters = [] '
        "in kipu.toml."
    )


async def test_notices_without_end_refuse_the_write():
    write_filter = adapted("filter", component(filter=lambda self, text, path: Filtered("text", itertools.repeat(""))))
    with pytest.raises(PluginFailedError, match=r'The write filter "mine" failed: ValueError\. Nothing was written'):
        await write_filter.filter("text", "memory/a.md")


async def test_the_texts_of_filters_and_flushers_are_of_the_builtin_class():
    write_filter = adapted("filter", component(filter=lambda self, text, path: Filtered(Str("a"), ["It is red."])))
    assert type((await write_filter.filter("text", "memory/a.md")).text) is str
    distill = lambda self, messages, *, instructions, model: Distillation(Str("- a fact"))  # noqa: E731
    found = await adapted("flusher", component(distill=distill)).distill([], instructions="", model=None)
    assert type(found.text) is str


async def test_a_write_filter_with_a_long_name_of_an_error_is_cut():
    def failing(self, text, path):
        raise type("E" * 1_000_000, (Exception,), {})

    with pytest.raises(PluginFailedError, match=r"failed: E{100}\. Nothing was written"):
        await adapted("filter", component(filter=failing)).filter("text", "memory/a.md")


# --- close and check -----------------------------------------------------------------------------------------------


@attrs.define
class Closing:
    """A component of every kind that counts how often it was closed, and has a problem."""

    closed: int = attrs.field(default=0, init=False)
    identity = "closing"
    window = None

    async def close(self):
        self.closed += 1

    async def check(self):
        return "The server is down."

    async def search(self, query, index):
        return []

    async def process(self, query, hits):
        return hits

    async def embed(self, texts, *, role):
        return np.ones((len(texts), 2), np.float32)

    async def annotate(self, texts):
        return ["{}" for _ in texts]

    async def distill(self, messages, *, instructions, model=None):
        return Distillation("- a fact")

    def chunk(self, document):
        return []

    def filter(self, text, path):
        return Filtered(text)


async def test_every_kind_is_checked_and_closed_with_the_memory(config):
    parts = {kind: Closing() for kind in KINDS}
    registered = Closing()
    configured = config(
        index={name: parts[name] for name in ("chunker", "embedder", "annotator")},
        strategy=parts["strategy"],
        postprocessors=[parts["postprocessor"]],
    )
    configured = attrs.evolve(
        configured,
        flush=attrs.evolve(configured.flush, flusher=parts["flusher"]),
        writing=attrs.evolve(configured.writing, filters=[parts["filter"]]),
    )
    memory = Memory(configured)
    memory.register_postprocessor("registered", registered)
    problems = await memory.check()
    assert sorted(problem.partition(' "')[0] for problem in problems) == sorted(
        f"The {label}" for label in [*(kind.label for kind in KINDS.values()), "post-processor"]
    )
    assert all(problem.endswith(": The server is down.") for problem in problems)
    await memory.close()
    assert [part.closed for part in (*parts.values(), registered)] == [1] * 8
