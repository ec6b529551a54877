"""A damaged index: whatever page it is on, and whatever is done first, it is set aside and rebuilt, and nothing fails.

Runs what ``pip install kipu`` gives, with an embedder that needs no model.
"""

from __future__ import annotations

import contextlib
import os
import random
from typing import TYPE_CHECKING, Any

import pytest

from kipu import IndexConfig, Memory, MemoryConfig
from kipu.cli import main
from kipu.sqlite import choose_driver
from kipu.testing import HashingEmbedder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

PAGE = 4096
LONG_AGO = 1_000_000_000
INDEX = ".kipu/index.sqlite"


def put_files(workspace: Path) -> None:
    (workspace / "memory/new.md").unlink(missing_ok=True)
    for number in range(30):
        file = workspace / f"memory/f{number}.md"
        facts = "".join(f"- fact u{number}x{item} is new\n" for item in range(6))
        file.write_text(f"# T{number}\n\n{facts}  [id: u{number}]\n", "utf-8")
        os.utime(file, (LONG_AGO, LONG_AGO))


def open_memory(workspace: Path) -> Memory:
    return Memory(MemoryConfig(workspace, index=IndexConfig(embedder=HashingEmbedder())))


async def search(memory: Memory) -> None:
    (best, *_) = await memory.search("u3x1")
    assert best.path == "memory/f3.md"


async def recall(memory: Memory) -> None:
    assert "u3x1" in (await memory.recall("u3x1")).text


async def remember(memory: Memory) -> None:
    note = await memory.remember("a fact that is new", file="new.md")
    assert note.chunk is not None
    assert note.duplicate_of is None


async def supersede(memory: Memory) -> None:
    note = await memory.remember("another fact", file="new.md", supersedes="memory/f3.md:5")
    assert note.duplicate_of is None


async def edit(memory: Memory) -> None:
    note = await memory.edit("- a changed fact", path="memory/f3.md", start=5)
    assert note.replaced == "- fact u3x2 is new"


async def move(memory: Memory) -> None:
    note = await memory.move("memory/new.md", path="memory/f3.md", start=5)
    assert note.text == "- fact u3x2 is new"


async def list_files(memory: Memory) -> None:
    assert len(await memory.files()) == 30


async def status(memory: Memory) -> None:
    assert (await memory.status()).workspace


async def index(memory: Memory) -> None:
    assert not (await memory.index()).skipped


OPERATIONS = [search, recall, remember, supersede, edit, move, list_files, status, index]


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """Return a workspace and its index, which no test may change but by writing it again."""
    import asyncio

    workspace = tmp_path_factory.mktemp("damaged")
    (workspace / "memory").mkdir()
    put_files(workspace)

    async def make() -> None:
        async with open_memory(workspace) as memory:
            await memory.index()

    asyncio.run(make())
    return workspace, (workspace / INDEX).read_bytes()


def write_index(workspace: Path, data: bytes) -> None:
    for file in (workspace / ".kipu").glob("index.*"):
        file.unlink()
    (workspace / INDEX).write_bytes(data)


def damage_page(data: bytes, page: int, kind: str) -> bytes:
    start = page * PAGE
    filling = {"zeros": bytes(PAGE), "ones": b"\xff" * PAGE, "noise": random.Random(page).randbytes(PAGE)}[kind]
    return data[:start] + filling + data[start + PAGE :]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    ("kind", "step"),
    [
        ("zeros", 5),
        pytest.param("zeros", 1, marks=pytest.mark.slow),
        pytest.param("ones", 1, marks=pytest.mark.slow),
        pytest.param("noise", 1, marks=pytest.mark.slow),
    ],
)
async def test_a_damaged_page_fails_no_operation(
    indexed: tuple[Path, bytes], kind: str, step: int, operation: Callable[[Memory], Awaitable[None]]
) -> None:
    workspace, good = indexed
    for page in range(0, len(good) // PAGE, step):
        put_files(workspace)
        write_index(workspace, damage_page(good, page, kind))
        async with open_memory(workspace) as memory:
            await operation(memory)
            await search_everything(memory)


async def search_everything(memory: Memory) -> None:
    assert await memory.search("u7x1")
    assert await memory.search("fact", strategy="vector")


@pytest.mark.parametrize("kind", ["zeros", "noise"])
async def test_indexing_with_force_leaves_no_page_damaged(indexed: tuple[Path, bytes], kind: str) -> None:
    workspace, good = indexed
    put_files(workspace)
    for page in range(0, len(good) // PAGE, 3):
        write_index(workspace, damage_page(good, page, kind))
        async with open_memory(workspace) as memory:
            await memory.index(force=True)
            await search(memory)
        with contextlib.closing(choose_driver().connect(workspace / INDEX)) as connection:
            assert connection.execute("PRAGMA integrity_check(1)").fetchone() == ("ok",)


@pytest.mark.parametrize("name", [b"keyword_chunk", b"kipu_chunks", b"CREATE TABLE files"])
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_damaged_name_in_the_schema_fails_no_operation(
    indexed: tuple[Path, bytes], name: bytes, operation: Callable[[Memory], Awaitable[None]]
) -> None:
    workspace, good = indexed
    put_files(workspace)
    place = good.index(name) + len(name) - 4
    write_index(workspace, good[:place] + b"\xda" + good[place + 1 :])
    async with open_memory(workspace) as memory:
        await operation(memory)
        await search_everything(memory)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE metadata SET text = '{no json'",
        "UPDATE files SET date = 'no date'",
        "UPDATE chunks SET text = CAST(x'ff' AS TEXT)",
    ],
)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_what_the_kernel_did_not_write_fails_no_operation(
    indexed: tuple[Path, bytes], statement: str, operation: Callable[[Memory], Awaitable[None]]
) -> None:
    workspace, good = indexed
    put_files(workspace)
    write_index(workspace, good)
    with contextlib.closing(choose_driver().connect(workspace / INDEX)) as connection:
        connection.execute(statement)
        connection.commit()
    async with open_memory(workspace) as memory:
        await operation(memory)
        await search_everything(memory)


@pytest.mark.parametrize(
    ("place", "value"), [(47, 112), (18, 3), (19, 3), (59, 2), (16, 3), (20, 128), (63, 9), (100, 0)]
)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_damaged_header_fails_no_operation(
    indexed: tuple[Path, bytes], place: int, value: int, operation: Callable[[Memory], Awaitable[None]]
) -> None:
    workspace, good = indexed
    put_files(workspace)
    write_index(workspace, good[:place] + bytes([value]) + good[place + 1 :])
    async with open_memory(workspace) as memory:
        await operation(memory)
        await search_everything(memory)


async def test_a_damaged_table_of_fts5_is_rebuilt(indexed: tuple[Path, bytes]) -> None:
    workspace, good = indexed
    put_files(workspace)
    write_index(workspace, good)
    with contextlib.closing(choose_driver().connect(workspace / INDEX, isolation_level=None)) as connection:
        connection.execute("UPDATE keyword_config SET v = 9 WHERE k = 'version'")
    async with open_memory(workspace) as memory:
        await search(memory)


@pytest.mark.parametrize("path", [b"memory/f3.md", b"hashing", b"fact u3x1 is new"])
@pytest.mark.parametrize("number", range(4))
async def test_indexing_with_force_mends_what_sqlite_does_not_check(
    indexed: tuple[Path, bytes], path: bytes, number: int
) -> None:
    """A letter of a row, or of an index of its table, is another one: no page is damaged."""
    workspace, good = indexed
    put_files(workspace)
    places = [place for place in range(len(good)) if good.startswith(path, place)]
    place = places[number % len(places)] + len(path) - 3
    write_index(workspace, good[:place] + b"q" + good[place + 1 :])
    async with open_memory(workspace) as memory:
        assert not (await memory.index(force=True)).pending
        (best, *_) = await memory.search("u3x1")
        assert (best.path, "fact u3x1 is new" in best.text) == ("memory/f3.md", True)
        assert len(await memory.files()) == 30
        await memory.forget(path="memory/f3.md", start=4)
        assert "u3x1" not in " ".join(result.text for result in await memory.search("u3x1"))
        await search_everything(memory)


async def test_a_row_that_cannot_be_removed_is_no_obstacle_to_forgetting(indexed: tuple[Path, bytes]) -> None:
    workspace, good = indexed
    put_files(workspace)
    places = [place for place in range(len(good)) if good.startswith(b"memory/f3.md", place)]
    for place in places:
        write_index(workspace, good[: place + 8] + b"Q" + good[place + 9 :])
        put_files(workspace)
        async with open_memory(workspace) as memory:
            receipt = await memory.forget(path="memory/f3.md", start=4)
            assert receipt.complete
            assert "u3x1" not in " ".join(result.text for result in await memory.search("u3x1"))


async def test_a_chunk_is_found_by_its_name_in_a_rebuilt_index(indexed: tuple[Path, bytes]) -> None:
    workspace, good = indexed
    put_files(workspace)
    write_index(workspace, good)
    async with open_memory(workspace) as memory:
        (found, *_) = await memory.search("u3x1")
    write_index(workspace, good[:100] + b"\xff" * PAGE + good[100 + PAGE :])
    async with open_memory(workspace) as memory:
        assert await memory.read(chunk=found.chunk) == found.text


def test_no_command_circles_around_a_damaged_index(
    indexed: tuple[Path, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    workspace, good = indexed
    (workspace / "kipu.toml").write_text('[search]\nstrategy = "keyword"\n', "utf-8")

    def kipu(*arguments: str) -> tuple[Any, str]:
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--workspace", str(workspace)])
        written = capsys.readouterr()
        return ended.value.code or 0, written.out + written.err

    try:
        for page in range(1, len(good) // PAGE, 4):
            put_files(workspace)
            write_index(workspace, damage_page(good, page, "zeros"))
            code, advice = kipu("doctor")
            assert code == 0 or "kipu index --force" in advice
            assert kipu("index", "--force")[0] == 0
            code, advice = kipu("doctor")
            assert code == 0, advice
    finally:
        (workspace / "kipu.toml").unlink()
