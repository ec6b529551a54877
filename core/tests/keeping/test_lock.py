"""One process at a time changes the memory files of a workspace; others wait."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kipu.errors import (
    MemoryFileError,
    WritingBusyError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def held(workspace: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    lock = workspace / ".kipu/writing.lock"
    lock.parent.mkdir(exist_ok=True)
    hold = f"lock = filelock.FileLock({str(lock)!r}); lock.acquire(); print(flush=True); sys.stdin.read()"
    script = f"import sys, filelock; {hold}"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


async def test_a_write_waits_for_another_process_and_then_fails(workspace, memory, held):
    memory._writer.lock.wait = 0.05
    with pytest.raises(WritingBusyError, match="Another process has been writing"):
        await memory.remember("something")
    assert list((workspace / "memory").iterdir()) == []
    held.kill()
    held.wait()
    memory._writer.lock.wait = 60
    await memory.remember("something")


async def test_reading_does_not_wait_for_another_process(memory, write, held):
    write("memory/a.md", "alpha")
    assert len(await memory.search("alpha")) == 1
    assert await memory.read("memory/a.md") == "alpha"


async def test_the_lock_is_released_after_an_error(memory, write):
    write("memory/a.md", "alpha")
    for _ in range(3):
        with pytest.raises(MemoryFileError):
            await memory.forget(path="memory/missing.md")
    await memory.remember("something")
