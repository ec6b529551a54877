"""What a hostile or careless workspace, plugin or program may try, and what comes of it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import attrs
import pytest

from kipu import Chunk, FilesConfig, IndexConfig, Memory, MemoryConfig, SearchConfig
from kipu.cli.common import harmless
from kipu.config import load_config
from kipu.errors import ConfigurationError, MemoryFileError, PluginFailedError, QueryError
from kipu.sync import Memory as SyncMemory
from kipu.testing import ParagraphChunker, WordStrategy

if TYPE_CHECKING:
    from pathlib import Path

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such thing")

# --- the configuration ---------------------------------------------------------------------------------------------


@posix_only
def test_a_configuration_that_is_a_pipe_is_not_waited_for(workspace: Path) -> None:
    os.mkfifo(workspace / "kipu.toml")
    with pytest.raises(ConfigurationError, match="must be a file of at most"):
        load_config(workspace)


@pytest.mark.parametrize(
    "text",
    ["# " + "x" * 1_000_000, "a = " + "[" * 20_000, "a = 1" + "0" * 5_000],
    ids=["too large", "nested too deeply", "a number without end"],
)
def test_a_configuration_without_measure_is_an_error(workspace: Path, text: str) -> None:
    (workspace / "kipu.toml").write_text(text)
    with pytest.raises(ConfigurationError):
        load_config(workspace)


def test_a_pattern_that_would_take_for_ever_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="exclude must be without more than four stars between two slashes"):
        FilesConfig(exclude=["*a" * 30 + "*b"])
    FilesConfig(exclude=["**/drafts/**/*.tmp.md"])


@pytest.mark.parametrize("pattern", ["[z-a]", "a[", "!"])
async def test_a_pattern_that_is_none_is_an_error_or_means_nothing(workspace: Path, pattern: str) -> None:
    config = MemoryConfig(workspace, files=FilesConfig(exclude=[pattern]))
    try:
        Memory(config)
    except ConfigurationError as error:
        assert "files.exclude" in str(error)  # noqa: PT017 (some versions of pathspec take such a pattern)


# --- files ---------------------------------------------------------------------------------------------------------


async def test_a_file_that_is_too_large_is_skipped_and_named(write, config):
    write("memory/a.md", "apple " * 100)
    write("memory/b.md", "apple")
    async with Memory(config(files={"max_bytes": 100})) as memory:
        report = await memory.index()
        assert [(file.path, file.reason) for file in report.skipped] == [
            ("memory/a.md", "is larger than files.max_bytes allows: 600 bytes")
        ]
        assert [result.path for result in await memory.search("apple")] == ["memory/b.md"]
        with pytest.raises(MemoryFileError, match=r"is larger than files\.max_bytes in kipu\.toml allows\."):
            await memory.add("memory/a.md")


@posix_only
@pytest.mark.parametrize("year", [-(10**10), 10**10])
async def test_a_time_stamp_of_any_year_is_taken(memory, write, year):
    file = write("memory/a.md", "apple")
    try:
        os.utime(file, (year, year))
    except OSError:
        pytest.skip("this file system has no such year")
    assert len(await memory.search("apple")) == 1
    assert (await memory.index()).unchanged == 1


# --- plugins -------------------------------------------------------------------------------------------------------


@attrs.frozen
class Ends:
    """A component that ends the program wherever it is called."""

    async def search(self, query, index):
        raise SystemExit(3)

    async def process(self, query, hits):
        raise SystemExit(3)

    def chunk(self, document):
        raise SystemExit(3)


def test_a_component_that_ends_the_program_only_fails(workspace, write):
    write("memory/a.md", "apple")
    parts = {"index": IndexConfig(ParagraphChunker()), "search": SearchConfig(WordStrategy(), [])}
    for part in (
        {"index": IndexConfig(Ends())},
        {"search": SearchConfig(Ends(), [])},
        {"search": SearchConfig(WordStrategy(), [Ends()])},
    ):
        with (
            SyncMemory(MemoryConfig(workspace, **(parts | part))) as memory,
            pytest.raises(PluginFailedError, match="SystemExit: 3"),
        ):
            memory.search("apple")


@attrs.frozen
class Returns:
    """A chunker that returns what its option says."""

    what: object

    def chunk(self, document):
        return self.what


@pytest.mark.parametrize(
    "what",
    [
        None,
        "text",
        [None],
        [{"text": "a"}],
        [Chunk(None, 1, 1)],
        [Chunk("a", None, 1)],
        [Chunk("a", 1, 99)],
        [Chunk("a", 0, 1)],
        [Chunk("a", 2, 1)],
        [Chunk("\ud800", 1, 1)],
        [Chunk("a", 1, 1, heading=b"x")],
        [Chunk("a", 1, 1, heading_level=2**70)],
    ],
    ids=str,
)
async def test_what_a_chunker_returns_is_checked_before_it_is_kept(workspace, write, what):
    write("memory/a.md", "apple\npear\n")
    async with Memory(
        MemoryConfig(workspace, index=IndexConfig(Returns(what)), search=SearchConfig(WordStrategy(), []))
    ) as memory:
        with pytest.raises(PluginFailedError, match=r"The chunker Returns failed on memory/a\.md"):
            await memory.index()


@attrs.frozen
class Commits(WordStrategy):
    """A strategy that ends the transaction, as ``executescript`` does, and then fails."""

    async def remove(self, connection, chunk_ids):
        await connection.executescript("DELETE FROM words")


async def test_a_strategy_cannot_end_the_transaction(workspace, write):
    write("memory/a.md", "apple")
    config = MemoryConfig(workspace, index=IndexConfig(ParagraphChunker()), search=SearchConfig(Commits(), []))
    async with Memory(config) as memory:
        assert len(await memory.search("apple")) == 1
        write("memory/a.md", "pear")
        with pytest.raises(PluginFailedError, match="not authorized"):
            await memory.index()
        (result,) = await memory.search("apple", sync=False)
        assert result.text == "apple"
        assert (await memory.status()).pending == ["memory/a.md"]


# --- links and names -----------------------------------------------------------------------------------------------


@posix_only
async def test_what_is_excluded_is_not_reached_by_a_link_to_its_folder(workspace, write, config):
    write("docs/secret.md", "apple")
    write("docs/private/b.md", "apple")
    write("docs/open.md", "apple")
    (workspace / "memory/all").symlink_to(workspace / "docs")
    async with Memory(config(files={"exclude": ["docs/secret.md", "docs/private/"]})) as memory:
        assert [result.path for result in await memory.search("apple")] == ["memory/all/open.md"]


@posix_only
@pytest.mark.parametrize("link", ["symbolic", "hard"])
async def test_a_file_that_was_added_keeps_its_name_when_a_link_comes_and_goes(memory, workspace, write, link):
    file = write("docs/a.md", "apple")
    await memory.add("docs/a.md")
    other = workspace / "memory/l.md"
    if link == "hard":
        os.link(file, other)
    else:
        other.symlink_to(file)
    assert [result.path for result in await memory.search("apple")] == ["docs/a.md"]
    other.unlink()
    assert [result.path for result in await memory.search("apple")] == ["docs/a.md"]


@posix_only
async def test_a_name_that_is_no_text_does_not_hide_another_name_of_the_file(memory, workspace, write):
    file = write("memory/z.md", "apple")
    os.link(file, os.fsencode(workspace / "memory") + b"/a\xff.md")
    assert [result.path for result in await memory.search("apple")] == ["memory/z.md"]


async def test_an_added_file_that_grew_too_large_is_not_read(write, config):
    write("docs/a.md", "apple")
    async with Memory(config(files={"max_bytes": 100})) as memory:
        await memory.add("docs/a.md")
        write("docs/a.md", "apple " * 100)
        assert await memory.search("apple") == []


# --- programs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{"strategy": []}, {"max_results": 2**70}, {"max_results": 10_001}])
async def test_an_argument_without_measure_is_refused(memory, arguments):
    with pytest.raises(QueryError):
        await memory.search("apple", **arguments)


@posix_only
def test_after_a_fork_nobody_waits_for_ever(workspace, write, config):
    write("memory/a.md", "apple")
    program = textwrap.dedent(
        f"""
        import asyncio, os, sys
        from kipu.testing import ParagraphChunker, WordStrategy
        from kipu import IndexConfig, Memory, MemoryConfig, SearchConfig
        from kipu.errors import IndexUnavailableError
        from kipu.sync import Memory as SyncMemory

        index, search = IndexConfig(ParagraphChunker()), SearchConfig(WordStrategy(), [])
        config = MemoryConfig({str(workspace)!r}, index=index, search=search)
        memory, waiting = SyncMemory(config), Memory(config)
        memory.search("apple")
        asyncio.run(waiting.search("apple"))
        if os.fork() == 0:
            try:
                memory.search("apple")
            except RuntimeError as error:
                assert "fork" in str(error)
            for inherited in (waiting, Memory(config)):
                try:
                    asyncio.run(inherited.search("apple"))
                except IndexUnavailableError as error:
                    assert "fork" in str(error)
                else:
                    os._exit(1)
            os._exit(11)
        print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
        memory.close()
        asyncio.run(waiting.close())
        if os.fork() == 0:
            os._exit(10 + len(asyncio.run(Memory(config).search("apple"))))
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("11\n11\n", 0), done.stderr


# --- the terminal --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, grüße, 日本, \u200d\U0001f469", "plain, grüße, 日本, \u200d\U0001f469"),
        ("\x1b]52;c;eA==\x07", "\\x1b]52;c;eA==\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("a\nb\tc\x7f", "a\\nb\\tc\\x7f"),
        ("abc\u202egnp", "abc\\u202egnp"),
    ],
)
def test_control_characters_are_shown_and_not_obeyed(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_line_feeds_can_be_kept() -> None:
    assert harmless("a\nb\x1b", keep="\n") == "a\nb\\x1b"
