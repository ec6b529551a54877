"""Embedding over real HTTP, with everything that is installed: the embedder is LiteLLM's, the provider a server here.

What statuses and answers become is tested by the plugin, what follows from them in ``core/tests/embedding``.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from embedding_server import (
    NOT_A_NUMBER,
    NOT_JSON,
    TOO_FEW,
    ZERO,
    Dropped,
    EmbeddingServer,
    Status,
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
    return {
        "use": "litellm",
        "model": "openai/test",
        "api_base": url,
        "api_key": "sk-test",
        "request_timeout": 20.0,
    } | options


def configured(workspace: Path, url: str, strategy: Any = None, **options: Any) -> MemoryConfig:
    index = IndexConfig(embedder=embedder(url, **options))
    return MemoryConfig(workspace, index=index, search=SearchConfig(strategy=strategy))


def opened(workspace: Path, url: str, strategy: Any = None, **options: Any) -> Memory:
    memory = Memory(configured(workspace, url, strategy, **options), background=False)
    memory._synchronizer.embeddings.backoff = (0.0, 0.0, 0.0)
    return memory


REFUSED = "http://127.0.0.1:9/v1"  # the port "discard", which is unused


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
        assert any("This search used keywords only." in note for note in results.notices), results.notices


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


async def test_an_outage_while_indexing_is_reported_and_caught_up_with(workspace, write, server):
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
    assert "This search used keywords only." in said.err
    assert "sk-test" not in said.out + said.err


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
