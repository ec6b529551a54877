"""Processes that are killed while they write, and many that write at once: no file is ever half written, nothing lost.

Run as a program, this file forks the processes that are killed, or one of those that write at once.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from fork_server import fork_server, needs_fork, serve
from rows import is_sound, rows, rows_made_afresh, select, with_doubles

from kipu import IndexConfig, Memory, SearchConfig
from kipu.config import FlushConfig, WritingConfig
from kipu.testing import HashingEmbedder, ParagraphChunker, VectorStrategy
from kipu.types import Distillation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kipu import MemoryConfig

pytestmark = pytest.mark.slow

KILLS = 15  # of each of the seven kinds below
PROCESSES = 8
NOTES = 50

ONE, TWO, THREE = "memory/one.md", "memory/two.md", "memory/deep/three.md"
SECRET = "xylophonequartz"
# What each kind of change makes of the two files: before, and after; None is no file.
OLD, FLUSHED = "memory/old/2024-05-01.md", "memory/2024-06-01.md"
SUMMARY, ARCHIVED = "memory/old/2024-05-01-summary.md", "memory/archive/old/2024-05-01.md"
BEFORE = {
    **dict.fromkeys((THREE, FLUSHED, SUMMARY, ARCHIVED)),
    ONE: f"# One\n\nalpha {SECRET}\n\nbeta\n",
    TWO: "# Two\n\ngamma\n",
    OLD: "# Old\n\nkappa\n",
}
AFTER = {
    "remember": {ONE: f"{BEFORE[ONE]}\n- delta\n"},
    "supersede": {
        ONE: f"# One\n\nalpha {SECRET}\n[superseded_by: d; valid_until: TODAY]\n\nbeta\n",
        TWO: "# Two\n\ngamma\n\n- delta\n  [id: d]\n",
    },
    "forget": {ONE: "# One\n\nbeta\n"},
    "move": {ONE: "# One\n\nbeta\n", TWO: f"# Two\n\ngamma\n\nalpha {SECRET}\n"},
    "move a file": {ONE: None, THREE: BEFORE[ONE]},
    "flush": {FLUSHED: "- epsilon\n  [origin: flush]\n- zeta\n  [origin: flush]\n"},
    "compact": {
        OLD: None,
        ARCHIVED: BEFORE[OLD],
        SUMMARY: "---\nsummary_of:\n  - ../archive/old/2024-05-01.md\n---\n# Summary of 2024-05-01\n\n"
        "- kappa, in short\n\nFrom [2024-05-01](../archive/old/2024-05-01.md).\n",
    },
}


@attrs.frozen
class Script:
    """Answers as a model would."""

    async def distill(self, messages: Any, *, instructions: str, model: str | None = None) -> Distillation:
        return Distillation("- kappa, in short" if "several days" in instructions else "- epsilon\n- zeta")


def configured(workspace: Path) -> MemoryConfig:
    flush = FlushConfig(flusher=Script(), calls_per_day=10_000)
    return attrs.evolve(with_doubles(workspace), writing=WritingConfig(filters=[]), flush=flush, timezone="UTC")


def with_vectors(workspace: Path) -> MemoryConfig:
    index = IndexConfig(chunker=ParagraphChunker(), embedder=HashingEmbedder())
    return attrs.evolve(configured(workspace), index=index, search=SearchConfig(strategy=VectorStrategy()))


async def forget_and_be_killed(workspace: Path, at: int) -> None:
    """Forget a text, and be killed at that call of a function, in any thread; or write how many there were."""
    calls = itertools.count(1)

    def count(frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_call") and next(calls) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    async with Memory(with_vectors(workspace), background=False) as memory:
        await memory.files()
        threading.setprofile(count)
        sys.setprofile(count)
        await memory.forget(path=ONE, start=3)
        sys.setprofile(None)
        (workspace / "calls").write_text(str(next(calls)), "ascii")


async def work(workspace: str, kind: str, at: int = 0) -> None:
    """Change the files, over and over in one direction, as one kind of change does."""
    if kind == "forget vectors":
        await forget_and_be_killed(Path(workspace), at)
        return
    async with Memory(configured(Path(workspace))) as memory:
        if kind == "remember":
            await memory.remember("delta", file="one.md")
        elif kind == "supersede":
            await memory.remember("delta", file="two.md", metadata={"id": "d"}, supersedes=f"{ONE}:3")
        elif kind == "forget":
            await memory.forget(path=ONE, start=3)
        elif kind == "move":
            await memory.move("two.md", path=ONE, start=3)
        elif kind == "flush":
            await memory.flush([{"role": "user", "content": "eta"}], file="2024-06-01.md")
        elif kind == "compact":
            await memory.compact("old")
        else:
            await memory.move("deep/three.md", path=ONE)


# --- killed --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def work_and_kill() -> Iterator[Callable[..., dict[str, Any]]]:
    """Change a workspace in another process that is killed after so many seconds, or never."""
    with fork_server(__file__) as work_and_kill:
        yield work_and_kill


def put(workspace: Path) -> None:
    """Put the files as they are before."""
    for path, text in BEFORE.items():
        file = workspace / path
        if text is None:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")


def state(workspace: Path) -> dict[str, str | None]:
    texts = {path: (workspace / path).read_text("utf-8") if (workspace / path).exists() else None for path in BEFORE}
    others = {str(path.relative_to(workspace)) for path in (workspace / "memory").rglob("*") if path.is_file()}
    assert others <= set(BEFORE)
    return texts


@needs_fork
@pytest.mark.parametrize("kind", AFTER)
async def test_where_a_process_is_killed_each_file_is_the_old_or_the_new(workspace, tmp_path, work_and_kill, kind):
    chance = random.Random(f"2026-11-29 {kind}")
    config = configured(workspace)
    after = {path: text and text.replace("TODAY", str(config.today())) for path, text in (BEFORE | AFTER[kind]).items()}
    put(workspace)
    async with Memory(config) as memory:
        await memory.index()
    longest = 0.0
    for _ in range(2):
        put(workspace)
        answer = work_and_kill(None, str(workspace), kind)
        longest = answer["seconds"]
        assert (answer["status"], state(workspace)) == (0, after)
    kills, ends = 0, []
    for rounds in itertools.count(1):
        if kills == KILLS or rounds == 4 * KILLS:
            break
        put(workspace)
        answer = work_and_kill(chance.uniform(0, longest), str(workspace), kind)
        assert answer["killed"] or answer["status"] == 0
        kills += answer["killed"]
        if not answer["killed"]:
            longest *= 0.9  # the machine is less busy than it was
        for path, text in state(workspace).items():
            assert text in (BEFORE[path], after[path]), path
        if rounds % 4:
            # The next process finds all of it done, or nothing, and no stray file.
            async with Memory(config) as memory:
                results = await memory.search(SECRET)
                assert {result.path for result in results} == {
                    path for path, text in state(workspace).items() if text and SECRET in text
                }
            ends.append(state(workspace))
            assert ends[-1] in (BEFORE, after)
            assert os.listdir(workspace / ".kipu/writing") == [] if (workspace / ".kipu/writing").exists() else True
            if kind == "forget" and ends[-1] == after:
                assert not any(
                    SECRET.encode() in file.read_bytes() for file in (workspace / ".kipu").iterdir() if file.is_file()
                )
        if rounds % 8 == 1:
            assert is_sound(workspace)
        if rounds % 8 == 2:
            assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")
    assert kills == KILLS
    assert BEFORE in ends
    assert is_sound(workspace)


@needs_fork
async def test_where_a_process_is_killed_that_forgets_the_next_one_leaves_neither_text_nor_vector(
    workspace, work_and_kill
):
    config, gone, moments = with_vectors(workspace), 0, 40

    async def prepare() -> set[bytes]:
        put(workspace)
        async with Memory(config, background=False) as memory:
            await memory.index()
            await memory.edit(f"alpha {SECRET} in a second version", path=ONE, start=3)
            await memory.index()
        statement = "SELECT vector FROM embeddings JOIN chunks USING (hash) WHERE instr(text, 'alpha')"
        vectors = {row[0] for row in select(workspace, statement)}
        cached = select(workspace, "SELECT vector FROM embeddings WHERE hash NOT IN (SELECT hash FROM chunks)")
        return vectors | {row[0] for row in cached}

    await prepare()
    assert work_and_kill(None, str(workspace), "forget vectors", 0)["status"] == 0
    calls = int((workspace / "calls").read_text("ascii"))
    for moment in range(moments):
        vectors = await prepare()
        assert len(vectors) == 2
        answer = work_and_kill(None, str(workspace), "forget vectors", 1 + moment * calls // moments)
        assert answer["killed"] or answer["status"] == 0  # the number of calls is not always the same
        async with Memory(config, background=False) as memory:
            files = await memory.files()
        assert len(files) == 3
        if SECRET in (workspace / ONE).read_text("utf-8"):
            continue
        gone += 1
        data = b"".join(file.read_bytes() for file in (workspace / ".kipu").rglob("*") if file.is_file())
        assert [found for found in (SECRET.encode(), *vectors) if found in data] == []
        assert not (workspace / ".kipu/forgetting").exists()
        assert is_sound(workspace)
    assert 0 < gone < moments


# --- many at once --------------------------------------------------------------------------------------------------


async def write(workspace: Path, name: str, where: str) -> None:
    """Remember so many facts, one after the other, when a line arrives on standard input."""
    async with Memory(configured(workspace)) as memory:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(NOTES):
            arguments = {"file": "facts.md"} if where == "one file" else {"source": name}
            note = await memory.remember(f"fact {name}x{number}y of the writer {name}", **arguments)
            assert note.duplicate_of is None
            if number % 10 == 9:
                found = await memory.search(f"{name}x{number}y", sync=False)
                assert note.path in [result.path for result in found], (name, number)


@pytest.mark.parametrize("where", ["one file", "many files"])
def test_many_processes_remember_at_once_and_nothing_is_lost(workspace, tmp_path, where):
    names = [f"writer{number}" for number in range(PROCESSES)]
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, str(workspace), name, where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        for name in names
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert (process.returncode, errors) == (0, ""), errors
    lines = [
        line for file in sorted((workspace / "memory").rglob("*.md")) for line in file.read_text("utf-8").splitlines()
    ]
    facts = [line for line in lines if line.startswith("- ")]
    assert len(facts) == PROCESSES * NOTES
    for name in names:
        assert [line for line in facts if f" {name}x" in line] == [
            f"- fact {name}x{number}y of the writer {name}" for number in range(NOTES)
        ]
    assert len(list((workspace / "memory").rglob("*.md"))) == (1 if where == "one file" else PROCESSES)
    assert os.listdir(workspace / ".kipu/writing") == []
    assert is_sound(workspace)
    assert rows(workspace) == rows_made_afresh(workspace, tmp_path / "copy")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(write(Path(sys.argv[1]), *sys.argv[2:]))
    else:
        for module in ("aiosqlite", "filelock", "numpy", "charset_normalizer"):  # each process would import them
            __import__(module)
        serve(work)
