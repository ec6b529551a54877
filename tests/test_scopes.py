"""A scope in a workspace that others use too: the same results, scores, counts and notices as if it were alone."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kipu import Memory, MemoryConfig
from kipu.config import IndexConfig, SearchConfig
from kipu.errors import EmbedderError
from kipu.testing import HashingEmbedder, ScriptedEmbedder

STRATEGIES = ("keyword", "vector", "hybrid")


def configure(workspace: Path, embedder: Any = None, **search: Any) -> MemoryConfig:
    chosen = HashingEmbedder() if embedder is None else embedder
    return MemoryConfig(workspace, index=IndexConfig(embedder=chosen), search=SearchConfig(**search))


def write(workspace: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        place = workspace / "memory" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")


def seen(results: Any) -> Any:
    """Return all that a caller can see of results, but for names of the workspace."""
    return (
        [attrs.asdict(result) for result in results],
        results.notices,
        results.pending,
        results.pending_vectors,
        results.stale,
        results.degraded,
        results.absence,
    )


async def ask(workspace: Path, scope: str | None, queries: list[str], embedder: Any = None, **options: Any) -> Any:
    """Return what searches in a scope find, by strategy and query."""
    async with Memory(configure(workspace, embedder), scope=scope, background=False) as memory:
        return {
            (strategy, query): seen(await memory.search(query, strategy=strategy, **options))
            for strategy in STRATEGIES
            for query in queries
        }


async def compare(folder: Path, mine: dict[str, str], others: dict[str, str], query: str, **options: Any) -> None:
    """Check that a scope has the same results with and without the files of others."""
    shared, alone = folder / "shared", folder / "alone"
    for workspace in (shared, alone):
        workspace.mkdir(exist_ok=True)
        write(workspace, {f"mine/{path}": text for path, text in mine.items()})
        async with Memory(configure(workspace)) as memory:
            await memory.index()
            write(workspace, others if workspace == shared else {})
            await memory.index()
    assert await ask(shared, "mine", [query], **options) == await ask(alone, "mine", [query], **options)


# Few words, so that they are frequent in one source and rare in another; an identifier, and a phrase.
WORDS = st.sampled_from(["redis", "cache", "walnut", "chairs", "ZX-99817", "東京", "the", "mine", "theirs"])
TEXT = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
FILE = st.lists(TEXT, min_size=1, max_size=4).map("\n\n## Part\n\n".join)
NAME = st.sampled_from(["redis.md", "notes.md", "2026-11-28.md", "2026-11-29.md"])
THEIRS = st.tuples(st.sampled_from(["theirs", "a", "archive/mine", "archive/theirs", "."]), NAME).map("/".join)
QUERY = st.lists(st.one_of(WORDS, st.just('"redis cache"')), min_size=1, max_size=4).map(" ".join)


@pytest.mark.slow
@given(
    mine=st.dictionaries(NAME, FILE, min_size=1, max_size=4),
    others=st.dictionaries(THEIRS, FILE, min_size=1, max_size=6),
    query=QUERY,
    options=st.sampled_from([{}, {}, {"since": "2026-11-29"}, {"as_of": "2026-11-28"}, {"mmr_lambda": 0.5}]),
)
@example(
    mine={"1.md": "redis came", "2.md": "walnut came", "3.md": "some chairs"},
    others={f"theirs/{number}.md": f"redis note {number}" for number in range(12)},
    query="redis walnut",
    options={"explain": True},
)
@settings(deadline=None, max_examples=40)
def test_a_scope_has_the_results_of_a_workspace_that_holds_it_alone(mine, others, query, options):
    # What is archived of the scope itself is a part of it, but not of what it searches.
    own = {path: text for path, text in others.items() if path.startswith("archive/mine/")}
    rest = {path: text for path, text in others.items() if path not in own}

    async def check(folder: Path) -> None:
        write(folder / "alone", own)
        await compare(folder, mine, rest | own, query, **options)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder)))


def many(count: int, words: str) -> str:
    """Return a file of sections, in which each of the words is as frequent as its place among them allows."""
    names = words.split()
    return "\n".join(
        f"## Section {number}\n\n"
        + " ".join(name for place, name in enumerate(names, 1) for _ in range(number * place % 7 % place + 1))
        + f" filler{number % 13}.\n"
        for number in range(count)
    )


@pytest.mark.slow
@pytest.mark.parametrize("query", ["redis", "redis cache walnut", 'walnut "redis cache" filler3', "section ZX-99817"])
async def test_so_does_one_in_which_more_chunks_match_than_are_ranked(tmp_path, query):
    mine = {"2026-11-29.md": many(400, "redis cache walnut ZX-99817"), "b.md": many(350, "walnut redis cache")}
    others = {"theirs/a.md": many(900, "cache walnut cache"), "theirs/b.md": many(300, "chairs ZX-99817 redis")}
    await compare(tmp_path, mine, others, query, max_results=100)
    await compare(tmp_path, {}, {}, query, max_results=100, since="2026-11-29")


async def test_the_archive_of_a_scope_has_statistics_of_its_own(tmp_path):
    shared, alone = tmp_path / "shared", tmp_path / "alone"
    old = {"archive/mine/old.md": "redis then", "archive/mine/older.md": "walnut then"}
    write(shared, old | {"mine/a.md": "walnut", "archive/theirs/a.md": "walnut\n\n## B\n\nwalnut", "b.md": "walnut"})
    write(alone, old)
    asked = {"queries": ["redis walnut"], "source": "archive"}
    assert await ask(shared, "mine", **asked) == await ask(alone, "mine", **asked)
    # Without a scope, the archive is that of all sources.
    async with Memory(configure(shared)) as memory:
        found = await memory.search("walnut", strategy="keyword", source="archive")
        assert {result.path for result in found} == {"memory/archive/mine/older.md", "memory/archive/theirs/a.md"}
        assert not await memory.search("then", strategy="keyword")


async def test_a_source_is_searched_as_if_it_were_the_whole_workspace(tmp_path):
    files = {"team/a.md": "redis came", "team/b.md": "walnut came"}
    write(tmp_path / "shared", files | {f"other/{number}.md": "redis" for number in range(9)})
    write(tmp_path / "alone", files)
    found = await ask(tmp_path / "shared", None, ["redis walnut"], source="team")
    assert found == await ask(tmp_path / "alone", None, ["redis walnut"])
    async with Memory(configure(tmp_path / "shared")) as memory:
        first, second = await memory.search("redis walnut", source="team", strategy="keyword")
    assert first.score == second.score == 0.5


# --- hits of components --------------------------------------------------------------------------------------------


class Remembering:
    """A post-processor that keeps hits from one call to the next, as a careless cache would."""

    def __init__(self) -> None:
        self.hits: list[Any] = []

    async def process(self, query: Any, hits: list[Any]) -> list[Any]:
        self.hits += hits
        return self.hits


async def test_no_stage_brings_a_chunk_of_another_scope(tmp_path):
    config = configure(tmp_path, strategy="keyword", postprocessors=[Remembering()])
    for name in ("bob", "alice"):
        async with Memory(config, scope=name) as memory:
            await memory.remember(f"The redis note of {name}.")
            assert {result.source for result in await memory.search("redis")} == {name}
            recalled = await memory.recall("redis")
            assert recalled.text.count("note of") == 1


# --- counts and notices --------------------------------------------------------------------------------------------


def failing() -> ScriptedEmbedder:
    return ScriptedEmbedder(script=[EmbedderError("The key was refused.")])


def refusing() -> ScriptedEmbedder:
    refused = EmbedderError("The text was refused.")
    return ScriptedEmbedder(script=[lambda texts: refused if any("Private" in text for text in texts) else None])


async def look(workspace: Path, embedder: Any) -> Any:
    """Return all counts and notices that a scope can see, after it remembered something."""
    progress: list[tuple[int, int]] = []
    async with Memory(configure(workspace, embedder), scope="alice", background=False) as memory:
        await memory.remember("The only note of mine.", file="mine.md")
        results = await memory.search("mine", on_progress=lambda *done: progress.append(done))
        report = await memory.index(on_embedding=lambda *done: progress.append(done))
        again = await memory.reindex(force=True)
        report.seconds = again.seconds = 0.0
        status, files = await memory.status(), await memory.files()
    shown = attrs.evolve(status, workspace="", index_path="")
    reports = [attrs.asdict(report), attrs.asdict(again)]
    return seen(results), reports, attrs.asdict(shown), [attrs.asdict(file) for file in files], progress


@pytest.mark.parametrize("embedder", [HashingEmbedder, failing, refusing])
async def test_counts_and_notices_of_a_scope_do_not_depend_on_others(tmp_path, embedder):
    looked = []
    for count in (0, 3, 40):
        workspace = tmp_path / str(count)
        write(workspace, {f"bob/{number}.md": f"Private note {number}.\n" for number in range(count)})
        write(workspace, {"bob/binary.md": "\0" * count})
        # A folder that the configuration names and that does not exist is not the scope's.
        looked.append(await look(workspace, embedder()))
    assert looked[0] == looked[1] == looked[2]


async def test_a_search_in_a_scope_embeds_its_own_chunks(tmp_path):
    write(tmp_path, {"alice/a.md": "redis", "bob/b.md": many(600, "walnut")})
    embedder = HashingEmbedder()
    async with Memory(configure(tmp_path, embedder), scope="alice", background=False) as memory:
        (result,) = await memory.search("redis", strategy="vector")
    assert result.score == 1.0
    assert not any("walnut" in text for texts in embedder.calls for text in texts)


async def test_another_embedder_answers_for_a_scope_once_its_own_chunks_are_embedded(tmp_path):
    # More of others than a search embeds.
    mine, others = {"a.md": "redis came"}, {f"theirs/{number}.md": f"walnut {number}" for number in range(300)}
    await compare(tmp_path, mine, others, "redis", embedder=HashingEmbedder(salt="other"))


async def test_a_file_that_comes_from_another_scope_is_new(tmp_path):
    write(tmp_path, {"bob/a.md": "redis\n"})
    config = configure(tmp_path, strategy="keyword")
    async with Memory(config, scope="alice") as alice, Memory(config, scope="bob") as bob:
        await bob.index()
        (tmp_path / "memory/alice").mkdir()
        (tmp_path / "memory/bob/a.md").rename(tmp_path / "memory/alice/a.md")
        report = await alice.index()
        assert (report.added, report.renamed, report.removed) == (1, 0, 0)
        (tmp_path / "memory/alice/a.md").rename(tmp_path / "memory/bob/a.md")
        report = await alice.index()
        assert (report.added, report.renamed, report.removed) == (0, 0, 1)
