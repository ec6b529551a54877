"""Faults of other memory systems when they embed, asked of Kipu over real HTTP: see ``test_peer_faults.py``.

The embedder is LiteLLM's, and the provider a server on loopback that misbehaves.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from embedding_server import (
    INFINITE,
    NOT_A_NUMBER,
    NOT_JSON,
    TOO_FEW,
    ZERO,
    Dropped,
    EmbeddingServer,
    Slow,
    Status,
    Trickle,
    cut_to,
)

from kipu import IndexConfig, Memory, MemoryConfig, SearchConfig, sync
from kipu.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Write = Callable[[str, str], Path]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as server:
        yield server


def fill(write: Write, files: int = 200) -> None:
    """Files with a subject each, and one that is long."""
    for number in range(files):
        write(
            f"memory/{number:03}.md", f"# Note {number}\n\nThe harbour{number} has ferries, berths and pier{number}.\n"
        )
    write("memory/long.md", "".join(f"Line {number} of a long report on tides.\n\n" for number in range(3000)))


def embedder(url: str, **options: Any) -> dict[str, Any]:
    return {"use": "litellm", "model": "openai/test", "api_base": url, "api_key": "sk-test", "timeout": 20.0} | options


def configured(workspace: Path, url: str, strategy: Any = None, **options: Any) -> MemoryConfig:
    index = IndexConfig(embedder=embedder(url, **options))
    return MemoryConfig(workspace, index=index, search=SearchConfig(strategy=strategy))


def opened(workspace: Path, url: str, strategy: Any = None, **options: Any) -> Memory:
    memory = Memory(configured(workspace, url, strategy, **options), background=False)
    memory._synchronizer.embeddings.backoff = (0.0, 0.0, 0.0)
    return memory


REFUSED = "http://127.0.0.1:9/v1"  # the port "discard", which is unused


# --- 2: hybrid search raises when the provider is down, on an empty workspace, and on an index without vectors --------


@pytest.mark.parametrize("strategy", ["hybrid", "vector"])
async def test_a_search_goes_on_by_words_when_the_provider_is_down(workspace, write, strategy):
    fill(write, 20)
    with EmbeddingServer() as server:
        async with opened(workspace, server.url, strategy) as memory:
            await memory.index()
            assert not (await memory.search("pier7")).degraded
    async with opened(workspace, server.url, strategy) as memory:
        results = await memory.search("pier7")
        assert (results[0].path, results.degraded) == ("memory/007.md", True)
        assert any("This search went by words." in note for note in results.notices), results.notices


@pytest.mark.parametrize("strategy", ["hybrid", "vector", "keyword"])
async def test_an_empty_workspace_is_searched_without_an_error(workspace, server, strategy):
    async with opened(workspace, server.url, strategy) as memory:
        assert await memory.search("pier7") == []
    assert server.count == 0


@pytest.mark.parametrize("strategy", ["hybrid", "vector"])
async def test_an_index_that_was_built_without_vectors_gets_them(workspace, write, server, strategy):
    fill(write, 20)
    async with opened(workspace, server.url, "keyword") as memory:
        await memory.index()
        assert server.count == 0
    async with opened(workspace, server.url, strategy) as memory:
        results = await memory.search("pier7", sync=False)
        assert results.degraded
        report = await memory.index()
        assert (report.pending_vectors, report.unchanged) == (0, 21)
        results = await memory.search("pier7")
        assert (results[0].path, results.degraded) == ("memory/007.md", False)


# --- 3: an outage while indexing loses vectors for ever, and nobody is told -------------------------------------------


async def test_an_outage_while_indexing_is_told_and_heals_by_itself(workspace, write, server):
    fill(write, 20)
    server.then(None)
    server.always(Status(503))
    async with opened(workspace, server.url, batch_size=8) as memory:
        report = await memory.index()
        assert report.embedded == 8
        assert report.pending_vectors == report.chunks - 8
        assert "503" in report.notices[0] or "words" in report.notices[0]
        assert (await memory.status()).pending_vectors == report.pending_vectors
    server.always(None)
    (workspace / "memory/long.md").unlink()
    async with opened(workspace, server.url) as memory:
        results = await memory.search("pier7")
        assert (results.pending_vectors, results.degraded, results.notices) == (0, False, [])
        assert (await memory.status()).pending_vectors == 0


def test_an_outage_while_indexing_shows_in_the_exit_code(workspace, write, capsys):
    write("memory/a.md", "pier7\n")
    options = ", ".join(f"{name} = {json.dumps(value)}" for name, value in embedder(REFUSED).items())
    write("kipu.toml", f"[index]\nembedder = {{ {options} }}\n")
    with pytest.raises(SystemExit) as ended:
        main(["index", "-w", str(workspace)])
    assert ended.value.code == 4
    assert "Not embedded yet: 1 chunk." in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["search", "pier7", "-w", str(workspace)])
    assert not ended.value.code
    said = capsys.readouterr()
    assert "memory/a.md" in said.out
    assert "This search went by words." in said.err
    assert "sk-test" not in said.out + said.err


# --- 4: thousands of calls for one failure --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "most"),
    [
        (Status(401), 2),
        (Status(429), 5),
        (Status(429, retry_after="0"), 5),
        (Status(429, retry_after="3600"), 2),
        (Status(503), 5),
        (Dropped(), 5),
        (NOT_JSON, 5),
        (TOO_FEW, 2),
        (NOT_A_NUMBER, 2),
        (ZERO, 2),
        (Status(400, "This model's maximum context length is 8 tokens, however you requested 9 tokens."), 9),
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", str(value)),  # the same in every process that runs tests
)
async def test_a_failure_costs_a_handful_of_calls(workspace, write, server, fault, most):
    fill(write)
    server.always(fault)
    async with opened(workspace, server.url) as memory:
        report = await memory.index()
        assert 1 <= server.count <= most
        assert (report.embedded, report.pending_vectors) == (0, report.chunks)
        count = server.count
        for _ in range(3):
            results = await memory.search("pier7")
            assert (results[0].path, results.degraded) == ("memory/007.md", True)
        assert server.count == count
    server.always(None)
    async with opened(workspace, server.url) as memory:
        assert (await memory.index()).pending_vectors == 0


@pytest.mark.slow
async def test_no_answer_in_time_costs_one_call(workspace, write, server):
    write("memory/a.md", "pier7\n")
    server.always(Slow(60.0))
    async with opened(workspace, server.url, timeout=5) as memory:
        results = await memory.search("pier7")
        assert (results[0].path, results.degraded, server.count) == ("memory/a.md", True, 1)
        assert "within 5 seconds" in results.notices[0]


@pytest.mark.slow
async def test_a_server_that_sends_a_byte_now_and_then_is_given_up_in_time(workspace, write, server):
    write("memory/a.md", "pier7\n")
    server.always(Trickle())
    async with opened(workspace, server.url, timeout=5) as memory:
        async with asyncio.timeout(60):
            results = await memory.search("pier7")
        assert (results[0].path, results.degraded, server.count) == ("memory/a.md", True, 1)
        assert "did not answer within 5 seconds" in results.notices[0]


async def test_a_text_that_the_provider_refuses_is_named_and_then_left_alone(workspace, write, server):
    fill(write, 20)
    server.refuse("poison", Status(400, "This input is not allowed."))
    async with opened(workspace, server.url) as memory:
        await memory.index()
    write("memory/bad.md", "poison\n")
    degraded = []
    for _ in range(4):
        async with opened(workspace, server.url) as memory:
            count = server.count
            results = await memory.search("pier7")
            degraded.append(results.degraded)
            assert results[0].path == "memory/007.md"
            if "bad.md:1 was not embedded" in str(results.notices):
                assert "This input is not allowed." in str(results.notices)
                assert len(degraded) == 1
    assert (degraded, server.count - count) == ([False] * 4, 1)


async def test_files_that_are_not_at_fault_are_not_named(workspace, write, server):
    fill(write, 20)
    server.always(Status(401))
    for _ in range(3):
        async with opened(workspace, server.url) as memory:
            report = await memory.index()
            assert len(report.notices) == 1
            assert "refused the key (401)" in report.notices[0]
    assert server.count == 6


async def test_the_earlier_model_is_asked_with_the_key_that_is_configured_and_no_other(
    workspace, write, server, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    fill(write, 20)
    async with opened(workspace, server.url) as memory:
        await memory.index()
    server.requests.clear()
    async with opened(workspace, server.url, model="openai/other") as memory:
        results = await memory.search("pier7", sync=False)
        assert (results[0].path, results.degraded) == ("memory/007.md", False)
        assert "The embedder changed" in results.notices[0]
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer sk-test"]


async def test_refused_connections_cost_two_calls(workspace, write, monkeypatch):
    fill(write, 20)
    async with opened(workspace, REFUSED) as memory:
        kind = memory.plugins.find("embedder", "litellm").factory
        embed, calls = kind.embed, []

        async def counted(self: Any, texts: Any, *, role: Any) -> Any:
            calls.append(len(texts))
            return await embed(self, texts, role=role)

        monkeypatch.setattr(kind, "embed", counted)
        assert (await memory.index()).embedded == 0
        assert (await memory.search("pier7"))[0].path == "memory/007.md"
        assert len(calls) == 2


async def test_only_a_text_that_is_too_long_is_split(workspace, write):
    for number in range(20):
        write(f"memory/{number:03}.md", f"The harbour{number} has ferries.\n")
    words = [f"quay{number}" for number in range(600)]
    write("memory/line.md", " ".join(words) + "\n")
    with EmbeddingServer(max_characters=900) as server:
        options = {"use": "markdown", "tokens": 4000}
        config = MemoryConfig(workspace, index=IndexConfig(chunker=options, embedder=embedder(server.url)))
        async with Memory(config) as memory:
            report = await memory.index()
            assert (report.pending_vectors, report.notices) == (0, [])
            assert len(server.requests) < 24
            for part in (words[:100], words[-100:]):
                assert (await memory.search(" ".join(part), strategy="vector"))[0].path == "memory/line.md"


# --- 5: one bad vector breaks every later search ----------------------------------------------------------------------


@pytest.mark.parametrize("fault", [NOT_A_NUMBER, INFINITE, ZERO], ids=["NaN", "infinite", "zero"])
async def test_a_bad_vector_is_refused_by_file_and_line(workspace, write, server, fault):
    fill(write, 20)
    server.spoil("pier7", fault)
    async with opened(workspace, server.url) as memory:
        report = await memory.index()
        assert report.pending_vectors == 1
        assert report.notices[0].startswith('memory/007.md:1 was not embedded by "litellm": the vector')
        results = await memory.search("pier8")
        assert (results[0].path, results.degraded) == ("memory/008.md", False)
        server._spoiled.clear()
        assert (await memory.index(force=True)).pending_vectors == 0
        assert (await memory.search("pier7", strategy="vector"))[0].path == "memory/007.md"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE vector_coarse_1_vector_chunks00 SET vectors = zeroblob(3)",
        "DELETE FROM vector_coarse_1_rowids",
        "DROP TABLE vector_coarse_1_chunks",
        "DROP TABLE vector_error_1",
    ],
)
async def test_damage_in_the_index_of_vectors_changes_no_answer_and_is_repaired_by_force(
    workspace, write, server, statement
):
    pytest.importorskip("sqlite_vec")
    fill(write, 5)
    (workspace / "memory/long.md").unlink()
    async with opened(workspace, server.url, "hybrid") as memory:
        await memory.index()
        expected = [(result.path, result.score) for result in await memory.search("pier3")]
        if not changed_by(workspace, statement):
            pytest.skip("SQLite loads no extensions here, so that nothing is kept")
        results = await memory.search("pier3")
        assert ([(result.path, result.score) for result in results], results.degraded) == (expected, False)
        write("memory/new.md", "# Note 77\n\nThe harbour77 has ferries, berths and pier77.\n")
        assert (await memory.search("pier77"))[0].path == "memory/new.md"
        count = server.count
        report = await memory.index(force=True)
        assert (report.pending_vectors, server.count) == (0, count)
        assert (await memory.search("pier3"))[0].path == "memory/003.md"


def damage(workspace: Path) -> None:
    """Write something else over the first pages of the index."""
    with open(workspace / ".kipu/index.sqlite", "r+b") as file:
        file.seek(100)
        file.write(bytes(range(256)) * 31)


def changed_by(workspace: Path, statement: str) -> bool:
    """Change the index behind Kipu's back; false where there is no such table."""
    from kipu.sqlite import choose_driver

    connection = choose_driver().connect(workspace / ".kipu/index.sqlite", isolation_level=None)
    try:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master")]
        if "vector_coarse_1_rowids" not in names:
            return False
        connection.execute(statement)
    finally:
        connection.close()
    return True


@pytest.mark.parametrize("strategy", ["vector", "hybrid"])
async def test_searches_at_once_while_another_memory_mends_the_index_answer(workspace, write, server, strategy):
    fill(write, 40)
    (workspace / "memory/long.md").unlink()
    async with opened(workspace, server.url, strategy) as one, opened(workspace, server.url, strategy) as other:
        await one.index()
        for memory in (one, other):
            await memory.search("pier3")
        damage(workspace)
        searches = [memory.search(f"harbour{number} pier{number}") for number in range(3) for memory in (one, other)]
        for number, results in enumerate(await asyncio.gather(*searches)):
            assert results[0].path == f"memory/00{number // 2}.md"


# --- 12: another model or dimension is an error, or is mixed with the first -------------------------------------------


@pytest.mark.parametrize("change", [{"model": "openai/other"}, {"dimensions": 32}], ids=["model", "dimension"])
async def test_another_model_or_dimension_is_embedded_anew(workspace, write, server, change, monkeypatch):
    monkeypatch.setenv("TEST_KEY", "sk-test")
    change = change | {"api_key": {"env": "TEST_KEY"}}
    fill(write, 20)
    (workspace / "memory/long.md").unlink()
    async with opened(workspace, server.url, "vector", api_key={"env": "TEST_KEY"}) as memory:
        await memory.index()
    async with opened(workspace, server.url, "vector", **change) as memory:
        results = await memory.search("pier7", sync=False)
        assert (results[0].path, results.degraded) == ("memory/007.md", False)
        assert "The embedder changed" in results.notices[0]
        assert len((await memory.status()).vectors) == 1
        report = await memory.index()
        assert (report.embedded, report.pending_vectors) == (20, 0)
        results = await memory.search("pier7")
        assert (results[0].path, results.notices) == ("memory/007.md", [])
        assert len((await memory.status()).vectors) == 2
    async with opened(workspace, server.url, "vector") as memory:
        count = server.count
        assert (await memory.search("pier7"))[0].path == "memory/007.md"
        assert server.count == count + 1  # the query: what was embedded before is there still


async def test_a_provider_that_changes_the_dimension_under_the_same_name_is_refused(workspace, write, server):
    fill(write, 20)
    async with opened(workspace, server.url) as memory:
        await memory.index()
        server.always(cut_to(16))
        write("memory/new.md", "pier7 again\n")
        report = await memory.index()
        assert (report.embedded, report.pending_vectors) == (0, 1)
        assert "dimension 16" in report.notices[0]
        assert (await memory.search("pier8"))[0].path == "memory/008.md"


async def test_a_provider_that_has_changed_its_model_is_told_of_and_embeds_anew_by_force(workspace, write, server):
    fill(write, 20)
    (workspace / "memory/long.md").unlink()
    async with opened(workspace, server.url) as memory:
        await memory.index()
    server.always(cut_to(48))
    async with opened(workspace, server.url) as memory:
        results = await memory.search("pier7")
        assert (results[0].path, results.degraded) == ("memory/007.md", True)
        said = await memory.check_embedder()
        assert all("kipu reindex --force" in sentence for sentence in (said or "", *results.notices))
    async with opened(workspace, server.url) as memory:
        report = await memory.reindex(force=True)
        assert (report.embedded, report.pending_vectors, report.notices) == (20, 0, [])
        assert await memory.check_embedder() is None
        for strategy in ("hybrid", "vector"):
            results = await memory.search("pier7", strategy=strategy)
            assert (results[0].path, results.degraded, results.notices) == ("memory/007.md", False, [])


# --- a memory that is not async --------------------------------------------------------------------------------------


def test_a_memory_that_is_not_async_closes_though_the_library_has_tasks_of_its_own(workspace, write, server):
    fill(write, 3)
    ended: list[str] = []

    def use() -> None:
        with sync.Memory(configured(workspace, server.url)) as memory:
            ended.append(memory.search("pier2")[0].path)
        ended.append("closed")

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    thread.join(60)
    assert ended == ["memory/002.md", "closed"]


# --- 17: to MMR, all texts in scripts without spaces are equal ----


@pytest.mark.parametrize(
    ("query", "alike", "other"),
    [
        ("渡轮时刻表", "渡轮时刻表在码头办公室的墙上。", "码头餐厅也有渡轮时刻表,冬天不供应。"),
        (
            "フェリーの時刻表",
            "フェリーの時刻表は事務所の壁にあります。",
            "食堂にもフェリーの時刻表があり、冬は休みです。",
        ),
        ("ตารางเรือ", "ตารางเรือข้ามฟากอยู่บนผนังสำนักงาน", "ร้านอาหารมีตารางเรือและปิดในฤดูหนาว"),
    ],
    ids=["Chinese", "Japanese", "Thai"],
)
async def test_diversity_tells_texts_in_scripts_without_spaces_apart(workspace, write, query, alike, other):
    write("memory/a.md", f"{alike}\n")
    write("memory/b.md", f"{alike} \n\n\n")
    write("memory/c.md", f"{other}\n")
    async with Memory(MemoryConfig(workspace, search=SearchConfig(strategy="keyword"))) as memory:
        paths = [result.path for result in await memory.search(query, mmr_lambda=0.3)]
    assert sorted(paths[:2]) in (["memory/a.md", "memory/c.md"], ["memory/b.md", "memory/c.md"])


# --- 22: MMR is cubic -------------------------------------------------------------------------------------------------


async def test_the_work_of_diversity_grows_with_the_square_of_the_candidates(workspace):
    from kipu import Hit, Query
    from kipu.types import StoredChunk

    async with Memory(workspace) as memory:
        stage = memory.plugins.find("postprocessor", "mmr").factory()

    async def work(count: int) -> int:
        texts = [f"ferry {number} to port{number % 13} at {number % 7} o'clock" for number in range(count)]
        chunks = [
            StoredChunk(number, str(number), "memory/a.md", "", None, 1, 1, "", 0, text, "")
            for number, text in enumerate(texts)
        ]
        hits = [Hit(chunk, 1 - chunk.id / count / 2) for chunk in chunks]
        calls = 0

        def count_calls(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += 1

        sys.setprofile(count_calls)
        try:
            await stage.process(Query("ferry", max_results=count), hits)
        finally:
            sys.setprofile(None)
        return calls

    await work(50)
    assert await work(200) < 5 * await work(100)


# --- 23: vectors are compared one by one with a scalar function ----


async def test_vectors_are_searched_by_an_index_of_nearest_neighbours(workspace, write, server, monkeypatch):
    from kipu.sqlite import choose_driver

    if not hasattr(choose_driver().Connection, "enable_load_extension"):
        pytest.skip("this Python's SQLite cannot load extensions, and pysqlite3 is not installed")
    fill(write, 20)
    import aiosqlite

    said: list[str] = []
    fetch = aiosqlite.Connection.execute_fetchall

    def recorded(self: Any, sql: str, parameters: Any = None) -> Any:
        said.append(sql)
        return fetch(self, sql, parameters)

    async with opened(workspace, server.url, "vector") as memory:
        await memory.index()
        monkeypatch.setattr(aiosqlite.Connection, "execute_fetchall", recorded)
        assert (await memory.search("pier7", max_results=3))[0].path == "memory/007.md"
    assert any("MATCH" in sql for sql in said)
    assert not any("vec_distance" in sql for sql in said)
