"""Compacting: old dated files become a summary that links to them, and can be brought back."""

from __future__ import annotations

import os
from datetime import date, timedelta

import attrs
import pytest

from kipu import FlushConfig, Memory
from kipu.errors import FlusherError
from kipu.testing import ScriptedFlusher


def days_ago(days: int) -> str:
    return (date.today() - timedelta(days=days)).isoformat()  # noqa: DTZ011


@pytest.fixture
def flusher() -> ScriptedFlusher:
    return ScriptedFlusher(["- Both facts are known."])


@pytest.fixture
async def memory(config, flusher):
    async with Memory(attrs.evolve(config(), flush=FlushConfig(flusher=flusher))) as memory:
        yield memory


@pytest.fixture
def old(write) -> dict[str, str]:
    """Write three dated files, of which two are old, and one that is not dated; return the texts of the former."""
    texts = {
        f"memory/team/{days_ago(days)}.md": f"# {days_ago(days)}\n\n- Fact of day {days}.\n" for days in (90, 60, 2)
    }
    for path, text in texts.items():
        write(path, text)
    write("memory/team/rules.md", "# Evergreen\n\nStays.\n")
    return texts


def texts_of(workspace, paths) -> dict[str, str]:
    return {path: (workspace / path).read_text("utf-8") for path in paths}


async def test_old_files_become_a_summary_that_links_to_them(memory, workspace, old):
    first, last, recent = old
    compacted = await memory.compact("team")
    assert compacted.path == f"memory/team/{days_ago(60)}-summary.md"
    assert list(compacted.archived) == [first, last]
    for original, kept in compacted.archived.items():
        assert kept == original.replace("memory/", "memory/archive/")
        assert not (workspace / original).exists()
        assert (workspace / kept).read_text("utf-8") == old[original]
        link = kept.replace("memory/archive/", "../archive/")
        assert f"]({link})" in (workspace / compacted.path).read_text("utf-8")
    assert (workspace / recent).exists()
    assert [result.path for result in await memory.search("fact of day 90")].count(compacted.archived[first]) == 0
    assert (await memory.search("fact of day 90", source="archive"))[0].path == compacted.archived[first]
    assert (await memory.search("fact of day 90", source="archive/team"))[0].path == compacted.archived[first]
    assert (await memory.search("both known"))[0].path == compacted.path


async def test_a_summary_is_not_compacted_again(memory, flusher, write, old):
    assert await memory.compact("team") is not None
    assert await memory.compact("team") is None
    assert len(flusher.calls) == 1
    write(f"memory/team/{days_ago(70)}.md", "- A late fact.\n")
    assert list((await memory.compact("team")).archived) == [f"memory/team/{days_ago(70)}.md"]


async def test_compacting_can_be_undone(memory, workspace, old):
    compacted = await memory.compact("team")
    await memory.undo(compacted.change)
    assert texts_of(workspace, old) == old
    assert not (workspace / compacted.path).exists()
    assert (await memory.search("fact of day 90"))[0].path == f"memory/team/{days_ago(90)}.md"


async def test_a_dry_run_of_compacting_moves_nothing(memory, workspace, old):
    compacted = await memory.compact("team", dry_run=True)
    assert "Both facts are known." in compacted.text
    assert texts_of(workspace, old) == old
    assert not (workspace / "memory/archive").exists()


async def test_the_oldest_files_are_compacted_first(memory, flusher, old):
    compacted = await memory.compact("team", 1, max_tokens=10)
    assert list(compacted.archived) == [next(iter(old))]
    assert not any("Fact of day 60" in message.text for message in flusher.calls[0])


async def test_a_failing_provider_moves_nothing(memory, flusher, workspace, old):
    flusher.script = [FlusherError("The key was refused (401)."), "NOTHING_TO_REMEMBER"]
    with pytest.raises(FlusherError):
        await memory.compact("team")
    assert texts_of(workspace, old) == old
    assert await memory.compact("team") is None
    assert texts_of(workspace, old) == old


@pytest.mark.skipif(os.name == "nt", reason="there are no such permissions")
async def test_permissions_are_kept_in_the_archive_and_back(memory, workspace, old):
    first = next(iter(old))
    (workspace / first).chmod(0o600)
    compacted = await memory.compact("team")
    assert (workspace / compacted.archived[first]).stat().st_mode & 0o777 == 0o600
    await memory.undo(compacted.change)
    assert (workspace / first).stat().st_mode & 0o777 == 0o600
