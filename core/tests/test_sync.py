"""`kipu.sync.Memory`: the methods of `kipu.Memory` for code that is not async, wherever it runs."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import kipu
from kipu.errors import MemoryClosedError, QueryError
from kipu.sync import Memory
from kipu.testing import WordStrategy


def public(cls: type) -> dict[str, Any]:
    members = {name: member for base in reversed(cls.__mro__[:-1]) for name, member in vars(base).items()}
    return {name: member for name, member in members.items() if not name.startswith("_")}


def test_it_has_the_methods_of_the_async_memory_and_no_others():
    attributes = {"config", "plugins"}  # of an instance, there
    assert public(Memory).keys() == public(kipu.Memory).keys() | attributes


def test_its_methods_have_the_same_signatures_and_docs():
    for name, method in public(kipu.Memory).items():
        if inspect.isfunction(method) and name != "close":
            blocking = getattr(Memory, name)
            assert inspect.signature(blocking) == inspect.signature(method)
            assert blocking.__doc__ == method.__doc__
            assert not inspect.iscoroutinefunction(blocking)


def test_it_does_the_same(workspace, config, write):
    write("memory/a.md", "valkey")
    write("other.md", "redis")
    progress: list[tuple[int, int]] = []
    with Memory(config()) as memory:
        assert memory.index(force=True, on_progress=lambda done, total: progress.append((done, total))).added == 1
        assert memory.add("other.md").added == 1
        assert [result.path for result in memory.search("valkey redis", max_results=1)] == ["memory/a.md"]
        assert [file.path for file in memory.files()] == ["memory/a.md", "other.md"]
        assert [file.path for file in memory.files(source="external")] == ["other.md"]
        assert memory.status().files == 2
        assert (memory.workspace, memory.config, memory.plugins.infos) == (workspace, config(), memory.plugins.infos)
    assert progress == [(0, 1), (1, 1)]


def test_errors_are_raised(config):
    with Memory(config()) as memory, pytest.raises(QueryError, match="max_results must be a whole number"):
        memory.search("anything", max_results=0)


def test_a_wrong_workspace_leaves_no_thread_behind(tmp_path):
    before = threading.active_count()
    with pytest.raises(kipu.KipuError):
        Memory(tmp_path / "none")
    assert threading.active_count() == before


def test_components_can_be_registered(config, write):
    class Finding:
        async def search(self, query: Any, index: Any) -> Any:
            return await WordStrategy().search(query, index)

    class Nothing:
        async def process(self, query: Any, hits: Any) -> Any:
            return []

    write("memory/a.md", "valkey")
    with Memory(config()) as memory:
        memory.register_strategy("mine", Finding())
        assert len(memory.search("valkey", strategy="mine")) == 1
        memory.register_postprocessor("nothing", Nothing())
        assert memory.search("valkey", strategy="mine") == []


async def test_it_works_inside_a_running_event_loop(config, write):
    write("memory/a.md", "valkey")
    with Memory(config()) as memory:
        assert len(memory.search("valkey")) == 1


def test_threads_may_share_it(config, write):
    for number in range(20):
        write(f"memory/{number}.md", f"valkey word{number}")
    with Memory(config()) as memory, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: memory.search(f"word{number}", max_results=1)[0].path, range(20)))
        indexed = list(pool.map(lambda _: memory.index().chunks, range(8)))
    assert found == [f"memory/{number}.md" for number in range(20)]
    assert indexed == [20] * 8


def test_closing_waits_for_the_calls_of_other_threads(config, write):
    started, released = threading.Event(), threading.Event()

    class Slow:
        async def process(self, query: Any, hits: Any) -> Any:
            import asyncio

            started.set()
            await asyncio.to_thread(released.wait)
            return hits

    write("memory/a.md", "valkey")
    memory = Memory(config())
    memory.register_postprocessor("slow", Slow())
    with ThreadPoolExecutor(3) as pool:
        searching = pool.submit(memory.search, "valkey")
        started.wait()
        closing = [pool.submit(memory.close) for _ in range(2)]
        released.set()
        assert len(searching.result()) == 1
        assert [done.result() for done in closing] == [None, None]


def test_a_closed_memory_refuses_calls(config):
    memory = Memory(config())
    memory.close()
    memory.close()
    with pytest.raises(MemoryClosedError, match=r"^This memory is closed\. Open another one: Memory\(workspace\)$"):
        memory.search("anything")


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_callback_may_leave_the_program(config, write, error):
    write("memory/a.md", "valkey")
    with Memory(config()) as memory:

        def confirm(result: Any) -> bool:
            raise error("quit")

        with pytest.raises(error, match="quit"):
            memory.forget_found("valkey", confirm)
        assert memory.search("valkey")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_can_close_it(config):
    program = (
        "import os, sys, kipu.sync\n"
        "with kipu.sync.Memory(sys.argv[1]) as memory:\n"
        "    child = os.fork()\n"
        "    if child:\n"
        "        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, str(config().workspace)]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0


def test_a_callback_cannot_call_the_memory_that_waits_for_it(config, write):
    write("memory/a.md", "valkey")
    messages: list[str] = []
    with Memory(config()) as memory:

        def on_progress(done: int, total: int) -> None:
            for call in (memory.status, memory.close):
                with pytest.raises(RuntimeError) as caught:
                    call()
                messages.append(str(caught.value))

        memory.index(on_progress=on_progress)
    assert (
        messages
        == ["Do not call kipu.sync.Memory from a plugin or callback that it is waiting for: this would deadlock."] * 4
    )


FORGETFUL = """
import sys
from kipu.testing import ParagraphChunker, WordStrategy
from kipu import IndexConfig, MemoryConfig, SearchConfig
from kipu.sync import Memory
index, search = IndexConfig(ParagraphChunker()), SearchConfig(WordStrategy(), [])
memory = Memory(MemoryConfig(sys.argv[1], index=index, search=search))
print(len(memory.search("valkey")))
"""


@pytest.mark.parametrize("ending", ["", "raise SystemExit(0)", "del memory"])
def test_a_program_that_forgets_to_close_it_ends(workspace, write, ending):
    write("memory/a.md", "valkey")
    arguments = [sys.executable, "-c", FORGETFUL + ending, str(workspace)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "1", "")
