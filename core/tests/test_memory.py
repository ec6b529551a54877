"""`kipu.Memory`: what a program sees."""

from __future__ import annotations

import asyncio
import datetime
import os
import shutil

import attrs
import pytest

from kipu import IndexConfig, Memory, MemoryConfig, SearchConfig
from kipu.errors import (
    ConfigurationError,
    MemoryClosedError,
    MemoryFileError,
    OtherEventLoopError,
    OutsideWorkspaceError,
    PluginFailedError,
    PluginNotFoundError,
    QueryError,
    WorkspaceNotFoundError,
)
from kipu.testing import HashingEmbedder, ParagraphChunker, VectorStrategy, WordStrategy

# --- Searching -----------------------------------------------------------------------------------------------------


async def test_a_search_finds_the_lines_of_a_file(memory, write):
    write("memory/2026-11-29.md", "# Cache\n\nWe moved from Redis to Valkey.\nIt was cheaper.\n")
    results = await memory.search("why valkey")
    assert [(result.path, result.start_line, result.end_line) for result in results] == [("memory/2026-11-29.md", 3, 4)]
    assert results[0].text == "We moved from Redis to Valkey.\nIt was cheaper."
    assert (results[0].source, results[0].heading, results[0].scores) == ("memory", "Cache", {"words": 0.5})
    assert (results.stale, results.degraded, results.pending, results.notices) == (False, False, [], [])


async def test_a_search_in_a_long_lived_memory_sees_every_change_on_disk(memory, write, workspace):
    async def found(query: str) -> list[str]:
        return [result.path for result in await memory.search(query)]

    file = write("memory/a.md", "apple")
    assert await found("apple") == ["memory/a.md"]
    write("memory/b.md", "banana")
    assert await found("banana") == ["memory/b.md"]
    file.write_text("cherry")
    assert (await found("apple"), await found("cherry")) == ([], ["memory/a.md"])
    file.rename(workspace / "memory/c.md")
    assert await found("cherry") == ["memory/c.md"]
    (workspace / "memory/c.md").unlink()
    assert await found("cherry") == []


async def test_a_search_without_sync_names_what_is_not_indexed(memory, write):
    write("memory/a.md", "apple")
    await memory.index()
    write("memory/b.md", "more about the apple")
    results = await memory.search("apple", sync=False)
    assert [result.path for result in results] == ["memory/a.md"]
    assert (results.stale, results.pending) == (True, ["memory/b.md"])
    assert not (await memory.search("apple")).stale


async def test_a_search_can_be_limited_to_a_source_and_to_days(memory, write):
    for path in ("memory/2026-01-01.md", "memory/team/2026-02-01.md", "memory/team/2026-03-01.md", "memory/team/x.md"):
        write(path, f"apple of {path}")

    async def found(**filters: object) -> list[str]:
        return sorted(result.path for result in await memory.search("apple", **filters))

    assert len(await found()) == 4
    assert await found(source="team", since="2026-02-15") == ["memory/team/2026-03-01.md"]
    assert await found(until=datetime.date(2026, 1, 31)) == ["memory/2026-01-01.md"]
    assert await found(since="2026-02-01", until="2026-02-01") == ["memory/team/2026-02-01.md"]


async def test_a_missing_source_is_reported_with_the_nearest_name(memory, write):
    write("memory/team/a.md", "apple")
    results = await memory.search("apple", source="tema")
    assert results == []
    assert results.notices == ['No memory file has the source "tema". Did you mean "team"? There are: team.']


async def test_an_empty_workspace_has_no_results_and_no_error(tmp_path):
    config = MemoryConfig(tmp_path, index=IndexConfig(ParagraphChunker()), search=SearchConfig(WordStrategy(), []))
    async with Memory(config) as memory:
        results = await memory.search("anything")
        assert results == []
        assert "kipu init" in results.notices[0]
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": 5}, "The query must be text, not 5."),
        ({"query": "x", "max_results": 0}, "max_results must be a whole number from 1 to 10,000, not 0."),
        ({"query": "x", "max_results": True}, "max_results must be a whole number from 1 to 10,000, not True."),
        ({"query": "x", "source": 7}, "source must be the label of a source, or a list of them, not 7."),
        ({"query": "x", "since": "yesterday"}, "since must be a date such as 2026-11-29, not 'yesterday'."),
        (
            {"query": "x", "since": "2026-02-01", "until": "2026-01-01"},
            "since (2026-02-01) is after until (2026-01-01): nothing can be between them.",
        ),
    ],
)
async def test_an_invalid_search_is_explained(memory, arguments, message):
    with pytest.raises(QueryError) as caught:
        await memory.search(**arguments)
    assert str(caught.value) == message


async def test_the_number_of_results_is_limited(memory, write):
    write("memory/a.md", "\n\n".join(f"apple {number}" for number in range(20)))
    assert len(await memory.search("apple")) == 6
    assert len(await memory.search("apple", max_results=11)) == 11


async def test_a_long_text_is_shown_where_it_matched(memory, write):
    write("memory/a.md", " ".join(["filler"] * 200) + " the answer is marzipan " + " ".join(["filler"] * 200))
    (result,) = await memory.search("marzipan")
    assert "marzipan" in result.snippet
    assert len(result.snippet) < 500 < len(result.text)


# --- Opening -------------------------------------------------------------------------------------------------------


def test_a_missing_workspace_is_an_error_and_is_not_created(tmp_path):
    (tmp_path / "project").mkdir()
    with pytest.raises(WorkspaceNotFoundError) as caught:
        Memory(tmp_path / "projet")
    assert str(caught.value) == f'The workspace {tmp_path / "projet"} does not exist. Did you mean "project"?'
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


async def test_the_index_keeps_itself_out_of_git(memory, write, workspace):
    write("memory/a.md", "apple")
    await memory.index()
    assert (workspace / ".kipu/.gitignore").read_text().splitlines()[-1] == "*"


@pytest.mark.services
async def test_a_closed_memory_refuses_every_call(memory, write):
    write("memory/a.md", "apple")
    await memory.index()
    await memory.close()
    await memory.close()
    for call in (memory.search, memory.remember, memory.add):
        with pytest.raises(MemoryClosedError, match=r"^This memory is closed\. Open another one: Memory\(workspace\)$"):
            await call("apple")
    for call in (memory.index, memory.files, memory.status, memory.check, memory.check_embedder, memory.start_watching):
        with pytest.raises(MemoryClosedError):
            await call()
    with pytest.raises(MemoryClosedError):
        memory.register_strategy("newest", Newest())
    with pytest.raises(MemoryClosedError):
        memory.register_postprocessor("reverse", Reverse())


# --- Indexing ------------------------------------------------------------------------------------------------------


async def test_the_report_counts_what_was_done(memory, write, workspace):
    for name in "abcd":
        write(f"memory/{name}.md", f"file {name}\n\nsecond chunk")
    report = await memory.index()
    assert (report.added, report.chunks) == (4, 8)
    write("memory/a.md", "changed")
    (workspace / "memory/b.md").rename(workspace / "memory/e.md")
    (workspace / "memory/c.md").unlink()
    os.utime(workspace / "memory/d.md", (1, 1))
    report = await memory.index()
    assert (report.added, report.changed, report.renamed, report.removed, report.unchanged) == (0, 1, 1, 1, 1)
    assert report.chunks == 5


async def test_a_folder_that_is_missing_keeps_what_was_indexed_until_it_is_pruned(memory, write, workspace):
    write("memory/a.md", "apple")
    await memory.index()
    shutil.move(workspace / "memory", workspace / "elsewhere")
    report = await memory.index()
    assert (report.removed, report.missing, report.chunks) == (0, ["memory"], 1)
    results = await memory.search("apple")
    assert [result.path for result in results] == ["memory/a.md"]
    assert results.stale
    assert results.notices == [
        "memory is missing; what was indexed of it is kept. If it is gone for good: kipu index --prune"
    ]
    shutil.move(workspace / "elsewhere", workspace / "memory")
    assert not (await memory.search("apple")).stale
    shutil.rmtree(workspace / "memory")
    assert (await memory.index(prune=True)).removed == 1
    assert await memory.search("apple") == []


async def test_a_deleted_file_leaves_the_index_even_if_it_was_the_last_one(memory, write, workspace):
    write("memory/a.md", "apple")
    await memory.index()
    (workspace / "memory/a.md").unlink()
    report = await memory.index()
    assert (report.removed, report.missing, report.chunks) == (1, [], 0)


async def test_force_reads_everything_and_rebuilds_the_tables_of_the_strategy(memory, write, config):
    write("memory/a.md", "apple")
    await memory.index()
    async with memory._context.database.transaction() as connection:
        await connection.execute("DELETE FROM words")
    assert await memory.search("apple") == []
    report = await memory.index(force=True)
    assert (report.changed, report.unchanged) == (1, 0)
    assert len(await memory.search("apple")) == 1


async def test_another_chunker_chunks_every_file_again(write, workspace):
    write("memory/a.md", "apple")
    for version in (1, 2):
        config = MemoryConfig(
            workspace, index=IndexConfig(ParagraphChunker(version)), search=SearchConfig(WordStrategy(), [])
        )
        async with Memory(config) as memory:
            report = await memory.index()
            assert report.added + report.changed == 1
            assert (await memory.index()).unchanged == 1


async def test_a_new_strategy_or_version_is_filled_from_the_chunks(write, workspace):
    write("memory/a.md", "apple")
    for version in (1, 2):
        config = MemoryConfig(
            workspace, index=IndexConfig(ParagraphChunker()), search=SearchConfig(WordStrategy(version), [])
        )
        async with Memory(config) as memory:
            assert len(await memory.search("apple")) == 1
            assert (await memory.index()).unchanged == 1


async def test_a_strategy_that_missed_a_change_is_rebuilt_when_it_is_used_again(memory, write, config):
    write("memory/a.md", "apple")
    await memory.index()
    async with Memory(config(strategy=Newest())) as other:
        write("memory/b.md", "apple too")
        assert [result.path for result in await other.search("x")] == ["memory/b.md", "memory/a.md"]
    assert sorted(result.path for result in await memory.search("apple")) == ["memory/a.md", "memory/b.md"]


# --- Adding --------------------------------------------------------------------------------------------------------


async def test_a_file_that_was_added_by_name_stays_in_the_memory(memory, write, workspace):
    file = write("docs/plan.md", "apple")
    assert await memory.search("apple") == []
    assert (await memory.add("docs/plan.md")).added == 1
    (result,) = await memory.search("apple")
    assert (result.path, result.source) == ("docs/plan.md", "external")
    file.write_text("banana")
    assert len(await memory.search("banana")) == 1
    file.unlink()
    assert await memory.search("banana") == []


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("/etc/hostname", OutsideWorkspaceError, "/etc/hostname leads out of the workspace"),
        ("../outside.md", OutsideWorkspaceError, "../outside.md leads out of the workspace"),
        ("link.md", OutsideWorkspaceError, "link.md leads out of the workspace"),
        ("missing.md", MemoryFileError, "missing.md does not exist, or is not a file."),
        ("memory", MemoryFileError, "memory is a folder. Name folders in kipu.toml"),
        ("picture.png", MemoryFileError, "picture.png is not a Markdown file"),
        ("binary.md", MemoryFileError, "binary.md is not text: it has NUL bytes and no byte order mark."),
        (".kipu/x.md", OutsideWorkspaceError, ".kipu/x.md is hidden, or in a hidden folder"),
    ],
)
async def test_a_file_that_cannot_be_added_is_refused_with_the_reason(memory, workspace, path, error, message):
    (workspace.parent / "outside.md").write_text("secret")
    (workspace / "link.md").symlink_to(workspace.parent / "outside.md")
    (workspace / "picture.png").write_bytes(b"PNG")
    (workspace / "binary.md").write_bytes(b"a\0b")
    (workspace / ".kipu").mkdir()
    (workspace / ".kipu/x.md").write_text("x")
    with pytest.raises(error) as caught:
        await memory.add(path)
    assert str(caught.value).startswith(message)
    assert (await memory.status()).files == 0


# --- Components that a program registers ---------------------------------------------------------------------------


@attrs.frozen
class Newest:
    async def search(self, query, index):
        from kipu import Hit

        rows = await index.connection.execute_fetchall("SELECT id FROM chunks ORDER BY id DESC")
        chunks = await index.chunks([row[0] for row in rows])
        return [Hit(chunk, 1.0) for chunk in chunks.values()]


@attrs.frozen
class Reverse:
    async def process(self, query, hits):
        return hits[::-1]


@attrs.frozen
class Broken:
    async def search(self, query, index):
        raise ZeroDivisionError("oh")

    async def process(self, query, hits):
        raise ZeroDivisionError("oh")


async def test_registered_components_are_used(memory, write):
    write("memory/a.md", "one\n\ntwo\n\nthree")
    memory.register_strategy("newest", Newest())
    assert [result.text for result in await memory.search("x", strategy="newest")] == ["three", "two", "one"]
    memory.register_postprocessor("reverse", Reverse())
    assert [result.text for result in await memory.search("x", strategy="newest")] == ["one", "two", "three"]


async def test_only_components_are_registered(memory):
    with pytest.raises(ConfigurationError, match="must be an object with a method search"):
        memory.register_strategy("x", object())
    with pytest.raises(ConfigurationError, match="must be an object with a method process"):
        memory.register_postprocessor("x", Reverse)
    memory.register_strategy("x", Newest())
    with pytest.raises(ConfigurationError, match='There is a strategy "x" already'):
        memory.register_strategy("x", Newest())


async def test_a_component_that_raises_is_named(memory, write):
    write("memory/a.md", "apple")
    memory.register_strategy("broken", Broken())
    with pytest.raises(PluginFailedError) as caught:
        await memory.search("apple", strategy="broken")
    assert str(caught.value) == 'The strategy "broken" failed in this search: ZeroDivisionError: oh.'
    memory.register_postprocessor("broken", Broken())
    with pytest.raises(PluginFailedError) as caught:
        await memory.search("apple")
    assert str(caught.value) == 'The post-processor "broken" failed in this search: ZeroDivisionError: oh.'


async def test_a_typo_in_the_name_of_an_argument_is_explained(memory):
    with pytest.raises(
        PluginNotFoundError, match=r'an option "max_result" for a search\. Did you mean "max_results"\?'
    ):
        await memory.search("apple", max_result=3)


async def test_the_configured_components_are_checked_without_a_search(workspace, config):
    async with Memory(config(postprocessors=["nonesuch"])) as memory:
        (problem,) = await memory.check()
        assert problem.startswith(("search.postprocessors[0]: No post-processor", "No plugin with a post-processor"))
    async with Memory(config()) as memory:
        assert await memory.check() == []


async def test_an_unknown_option_is_refused(memory):
    with pytest.raises(PluginNotFoundError, match='No installed plugin has an option "min_scoer" for a search'):
        await memory.search("apple", min_scoer=0.5)


# --- Status and files ----------------------------------------------------------------------------------------------


async def test_the_status_changes_nothing_and_says_what_is_pending(memory, write, workspace):
    write("memory/team/a.md", "apple")
    (workspace / "memory/b.md").write_bytes(b"\0")
    status = await memory.status()
    assert (status.files, status.pending) == (0, ["memory/b.md", "memory/team/a.md"])
    assert not (workspace / ".kipu").exists()
    await memory.index()
    status = await memory.status()
    assert (status.files, status.chunks, status.sources, status.pending) == (2, 1, {"team": 1}, [])
    assert [(file.path, file.reason) for file in status.skipped] == [
        ("memory/b.md", "is not text: it has NUL bytes and no byte order mark")
    ]


async def test_files_are_listed_with_their_properties(memory, write):
    write("memory/team/2026-11-29-standup.md", "apple\n\npear")
    write("memory/a.md", "")
    first, second = await memory.files()
    assert (first.path, first.source, first.date, first.evergreen, first.chunks) == (
        "memory/a.md",
        "memory",
        None,
        True,
        0,
    )
    assert (second.source, second.date, second.chunks, second.size) == ("team", datetime.date(2026, 11, 29), 2, 11)
    assert await memory.files(source="team") == [second]


# --- Event loops ---------------------------------------------------------------------------------------------------


@pytest.mark.services
def test_a_memory_works_in_one_event_loop_after_the_other(config, write):
    write("memory/a.md", "the apple")
    memory = Memory(config(index={"embedder": HashingEmbedder()}, strategy=VectorStrategy()))

    async def use(number: int) -> None:
        numbers = range(4 * number, 4 * number + 4)
        await asyncio.gather(*(memory.remember(f"apple number {each}") for each in numbers))
        await asyncio.gather(*(memory.index() for _ in numbers))
        for results in await asyncio.gather(*(memory.search("apple", max_results=100) for _ in numbers)):
            assert sum(result.text.count("number") for result in results) == 4 * number + 4

    for number in range(3):
        asyncio.run(use(number))
    asyncio.run(memory.close())


@pytest.mark.services
async def test_a_memory_says_that_another_event_loop_uses_it(memory, write):
    write("memory/a.md", "the apple")
    assert await memory.search("apple")
    operations = [memory.search, memory.remember, memory.recall]
    for operation in operations:
        with pytest.raises(OtherEventLoopError, match=r"in use in another event loop.*kipu\.sync\.Memory"):
            await asyncio.to_thread(asyncio.run, operation("apple"))
    for operation in (memory.index, memory.status, memory.files, memory.check):
        with pytest.raises(OtherEventLoopError):
            await asyncio.to_thread(asyncio.run, operation())
    assert await memory.search("apple")


@pytest.mark.services
async def test_lists_have_their_notices_and_leave_none_to_the_next_call(memory):
    await memory.remember("One.")
    for found in (await memory.entries(tag="nosuch"), await memory.files(tag="nosuch")):
        assert (found, ["nosuch" in notice for notice in found.notices]) == ([], [True])
        assert (await memory.remember("Two.")).notices == ()
    assert (await memory.entries()).notices == (await memory.changes()).notices == []
