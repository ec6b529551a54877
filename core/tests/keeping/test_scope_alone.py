"""What a scoped memory answers is what it would be if the workspace held that scope alone."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from entry_chunks import with_entries

from kipu import IndexConfig, Memory
from kipu.config import FlushConfig
from kipu.errors import KipuError
from kipu.testing import CombinedStrategy, HashingEmbedder, ScriptedFlusher, VectorStrategy, WordStrategy

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from kipu import MemoryConfig

SECRET = "Oppenheimer arrived with xylophonequartz"
OTHER_CHUNK = "the name of a chunk that is not there"


def configured(workspace: Path) -> MemoryConfig:
    """Configure a memory that searches by words and by meaning, and has a model."""
    config = with_entries(workspace, strategy=CombinedStrategy())
    index = attrs.evolve(config.index, embedder=HashingEmbedder())
    flusher = ScriptedFlusher(script=["- both days in short"])
    return attrs.evolve(config, index=index, flush=FlushConfig(flusher=flusher), timezone="UTC")


def opened(workspace: Path, scope: str | None, *, index: IndexConfig | None = None) -> Memory:
    config = configured(workspace)
    memory = Memory(attrs.evolve(config, index=index) if index else config, scope=scope, background=False)
    memory.register_strategy("near", VectorStrategy())
    memory.register_strategy("by-words", WordStrategy())
    return memory


async def add_others(workspace: Path) -> str:
    """Have other scopes, and the workspace as a whole, say and be what could show; return the name of a chunk."""
    for name in ("bob", "alic", "alice2"):
        async with opened(workspace, name) as memory:
            note = await memory.remember(SECRET, file="mine.md", metadata={"id": "taken"})
            await memory.remember(f"{SECRET} too", file="mine.md", supersedes=f"memory/{name}/mine.md:1")
            await memory.remember("nearly the same words as those", file="mine.md", metadata={"superseded_by": "new"})
            await memory.remember(
                "It went by the id that is gone", file="2026-01-01.md", metadata={"superseded_by": "gone"}
            )
            await memory.search("Oppenheimer")
    (workspace / "memory/common.md").write_text(f"- {SECRET}\n- a second entry\n", "utf-8")
    (workspace / "memory/bob/binary.md").write_bytes(b"\0\0")
    (workspace / "memory/bob/loop.md").symlink_to("loop.md")
    (workspace / "memory/bob/out.md").symlink_to(workspace.parent / "outside.md")
    (workspace / "memory/bob/folder.md").mkdir()
    (workspace / "memory/bob/hidden.md").symlink_to("../../.kipu/index.sqlite")
    (workspace / "memory/archive/bob").mkdir(parents=True)
    (workspace / "memory/archive/bob/2025-01-01.md").write_text(f"- {SECRET}\n", "utf-8")
    async with opened(workspace, None) as memory:
        await memory.index()
    (workspace / "memory/bob/later.md").write_text(f"- {SECRET} later\n", "utf-8")  # which no one has indexed
    (workspace / "memory/bob/2026-01-01.md").unlink()
    return note.chunk or ""


async def answers(workspace: Path, other_chunk: str) -> list[str]:  # noqa: PLR0915 - one statement for each method
    """Return what a scoped memory answers to everything but searches, in a form that can be compared."""
    shown: list[str] = []

    async def show(what: Awaitable[Any]) -> Any:
        answer: Any = None
        try:
            answer = await what
            text = repr(answer)
        except KipuError as error:
            text = f"{type(error).__name__}: {error}"
        text = text.replace(str(workspace), "WORKSPACE").replace(other_chunk, "CHUNK").replace(OTHER_CHUNK, "CHUNK")
        text = re.sub("(change|name|undone_by)='[0-9a-f]{8}'", "change", text)  # which is a random one
        shown.append(re.sub(r"seconds=[0-9.e-]+|time=[^)]+", "", text))
        return answer

    async with opened(workspace, "alice") as alice:
        note = await show(alice.remember(SECRET, file="mine.md"))
        await show(alice.forget(chunk=note.chunk))  # before it has a vector of its own
        await show(alice.remember(SECRET, file="mine.md", metadata={"id": "taken"}))
        await show(alice.remember("another", file="mine.md", metadata={"id": "taken"}))
        await show(alice.remember("nearly the same words as these", file="mine.md"))
        await show(alice.remember("a new entry", file="mine.md", metadata={"id": "new"}))
        await show(alice.remember("newer", file="mine.md", metadata={"id": "n2"}, supersedes="memory/alice/mine.md:4"))
        await show(alice.remember("newest", file="mine.md", metadata={"id": "n3"}, supersedes="memory/alice/mine.md:4"))
        await show(alice.remember("an entry to lose", file="gone.md", metadata={"id": "gone"}))
        await show(alice.files())
        await show(alice.edit(f"{SECRET} once more", path="memory/alice/mine.md", start=1))
        await show(alice.move("other.md", path="memory/alice/mine.md", start=3))
        await show(alice.add("memory/alice/other.md"))
        await show(alice.index())
        await show(alice.status())
        await alice.search("anything at all")  # which embeds
        await show(alice.forget(path="memory/alice/gone.md"))
        await show(alice.forget(path="memory/alice/mine.md", start=1))
        await show(alice.forget(path="memory/alice/mine.md"))
        await show(alice.files())
        await show(alice.flush([{"role": "user", "content": "the day in short"}], file="2025-03-01.md"))
        await show(alice.compact(older_than=0))
        await show(alice.undo())
        await show(alice.changes())
        for name in (other_chunk, OTHER_CHUNK):
            for change in (alice.forget(chunk=name), alice.edit("x", chunk=name), alice.move("x.md", chunk=name)):
                await show(change)
            await show(alice.read(chunk=name))
            await show(alice.remember("x", supersedes=name))
        for name in ("mine", "none", "binary", "loop", "out", "folder", "hidden", "later", "mine.md/below"):
            for path in (f"memory/bob/{name}.md", workspace / f"memory/bob/{name}.md", f"../bob/{name}.md"):
                await show(alice.read(path))
                await show(alice.forget(path=path))
                await show(alice.edit("x", path=path, start=1))
                await show(alice.add(path))
                await show(alice.move("y.md", path=path))
                await show(alice.move(path, path="memory/alice/other.md"))
                await show(alice.remember("y", file=path))
                await show(alice.remember("y", supersedes=f"{path}:1"))
                await show(alice.flush([{"role": "user", "content": "z"}], file=path))
        for source in ("bob", "carol", "archive/bob", "archive"):
            await show(alice.files(source))
            await show(alice.compact(source, older_than=0))
    return shown


@pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="there are no symbolic links")
async def test_a_scope_gets_the_answers_of_a_workspace_that_it_has_alone(tmp_path):
    found = []
    (tmp_path / "outside.md").write_text("outside", "utf-8")
    for name in ("alone", "shared"):
        workspace = tmp_path / name
        (workspace / "memory").mkdir(parents=True)
        chunk = await add_others(workspace) if name == "shared" else "0" * 16
        found.append(await answers(workspace, chunk))
    alone, shared = found
    assert len(alone) == len(shared)
    for one, other in zip(alone, shared, strict=True):
        assert one == other
