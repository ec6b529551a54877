"""A run of indexing that is killed or cancelled, at whatever moment, loses nothing, and the next one heals it."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fork_server import fork_server, needs_fork, serve
from rows import is_sound, rows, rows_made_afresh, with_doubles

import kipu.indexing.indexer
from kipu import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterator

pytestmark = pytest.mark.slow

KILLS = 60
FILES = 150
# Small batches, so that a run has many transactions and many moments between two of them.
FILES_IN_BATCH = 20


# --- killed --------------------------------------------------------------------------------------------------------


async def index(workspace: str) -> None:
    async with Memory(with_doubles(Path(workspace))) as memory:
        await memory.index()


@pytest.fixture
def run_and_kill() -> Iterator[Callable[..., dict[str, Any]]]:
    """Index a workspace in another process that is killed after so many seconds, or never."""
    with fork_server(__file__) as run_and_kill:
        yield run_and_kill


@needs_fork
def test_a_run_that_is_killed_is_healed_by_the_next(workspace, tmp_path, run_and_kill):
    chance = random.Random(20261129)
    write_files(workspace, chance)
    assert run_and_kill(None, str(workspace))["status"] == 0
    shutil.rmtree(workspace / ".kipu")
    longest = run_and_kill(None, str(workspace))["seconds"]
    kills = rounds = 0
    while kills < KILLS and rounds < 4 * KILLS:
        rounds += 1
        if rounds % 4 == 1:
            shutil.rmtree(workspace / ".kipu")  # so that the making of the index is interrupted as well
        change_files(workspace, chance)
        answer = run_and_kill(chance.uniform(0, longest), str(workspace))
        assert answer["killed"] or answer["status"] == 0
        kills += answer["killed"]
        if not answer["killed"]:
            longest *= 0.9  # the machine is less busy than it was
        if (workspace / ".kipu/index.sqlite").exists():
            assert is_sound(workspace)
        if rounds % 3:
            continue  # the next one is killed too, on what this one left
        assert run_and_kill(None, str(workspace))["status"] == 0
        assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")
    assert kills == KILLS


# --- cancelled -----------------------------------------------------------------------------------------------------


class Cancelled:
    """Runs a coroutine and cancels the task in which it runs when it waits for the n-th time, and the m-th."""

    def __init__(self, work: Coroutine[Any, Any, Any], *moments: int) -> None:
        self.work = work
        self.moments = moments
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, None]:
        steps = self.work.__await__()
        task = asyncio.current_task()
        assert task is not None
        resume: Callable[[], Any] = partial(steps.send, None)
        while True:
            try:
                waited_for = resume()
            except StopIteration:
                return
            self.waits += 1
            if self.waits in self.moments:
                task.cancel()
            try:
                resume = partial(steps.send, (yield waited_for))
            except BaseException as error:  # noqa: BLE001 (it is for the coroutine to see)
                resume = partial(steps.throw, error)


async def run(cancelled: Cancelled) -> bool:
    """Whether the work was cancelled before its end."""

    async def work() -> None:
        await cancelled

    try:
        await asyncio.create_task(work())
    except asyncio.CancelledError:
        return True
    return False


@pytest.mark.parametrize(("method", "again_after"), [("index", 0), ("index", 1), ("search", 0)])
async def test_a_run_that_is_cancelled_wherever_it_waits_is_healed_by_the_next(
    workspace, tmp_path, monkeypatch, method, again_after
):
    monkeypatch.setattr(kipu.indexing.indexer, "_FILES_IN_BATCH", 4)
    chance = random.Random(4)
    write_files(workspace, chance, 10)
    moment = 0
    cancelled = True
    while cancelled:
        moment += 1
        shutil.rmtree(workspace / ".kipu", ignore_errors=True)
        change_files(workspace, chance)
        async with Memory(with_doubles(workspace)) as memory:
            work = memory.index() if method == "index" else memory.search("alpha")
            cancelled = await run(Cancelled(work, moment, moment + again_after))
            await memory.index()
        assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")
    assert moment > 20  # it was cancelled at many


async def test_a_run_that_is_cancelled_at_any_time_is_healed_by_the_next(workspace, tmp_path, monkeypatch):
    monkeypatch.setattr(kipu.indexing.indexer, "_FILES_IN_BATCH", FILES_IN_BATCH)
    chance = random.Random(50)
    write_files(workspace, chance, 60)
    start = time.perf_counter()
    async with Memory(with_doubles(workspace)) as memory:
        await memory.index()
        longest = time.perf_counter() - start
        for turn in range(50):
            if turn % 4 == 1:
                shutil.rmtree(workspace / ".kipu")
            change_files(workspace, chance)
            task = asyncio.create_task(memory.index() if turn % 2 else memory.search("alpha"))
            asyncio.get_running_loop().call_later(chance.uniform(0, longest), task.cancel)
            await asyncio.wait([task])
            if turn % 3:
                continue  # the next one is cancelled too, on what this one left
            results = await memory.search("alpha")
            assert not results.stale
            assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")
        await memory.index()
        assert is_sound(workspace)
        assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")


# --- files ---------------------------------------------------------------------------------------------------------


def write_files(workspace: Path, chance: random.Random, count: int = FILES) -> None:
    for number in range(count):
        file = workspace / f"memory/{chance.choice(['team', 'other'])}/{number}.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text(chance), "utf-8")


def change_files(workspace: Path, chance: random.Random) -> None:
    """Edit a third of the files; rename, delete and make some."""
    files = sorted((workspace / "memory").rglob("*.md"))
    for file in files:
        what = chance.random()
        if what < 0.3:
            file.write_text(text(chance), "utf-8")
        elif what < 0.35:
            file.write_text(f"inserted {chance.random()}\n{file.read_text('utf-8')}", "utf-8")
        elif what < 0.4:
            file.replace(file.with_name(f"renamed {chance.random()}.md"))
        elif what < 0.45:
            file.replace(workspace / f"memory/other/{chance.randrange(len(files))}.md")  # maybe onto another
        elif what < 0.5:
            file.unlink()
            write = workspace / f"memory/team/{chance.randrange(len(files))}.md"
            write.write_text(text(chance), "utf-8")


def text(chance: random.Random) -> str:
    words = ["alpha", "beta", "gamma", "delta", "# Heading\n\nwith text"]
    return "\n\n".join(" ".join(chance.choices(words, k=4)) for _ in range(chance.randrange(6)))


if __name__ == "__main__":
    kipu.indexing.indexer._FILES_IN_BATCH = FILES_IN_BATCH
    serve(index)
