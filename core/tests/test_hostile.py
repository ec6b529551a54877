"""Hostile or careless workspaces and programs do no harm. Those of plugins are in plugins/test_adapters.py."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from kipu import FilesConfig, Memory, MemoryConfig
from kipu.config import load_config
from kipu.errors import ConfigurationError, MemoryFileError, QueryError
from kipu.keeping.edits import check_heading
from kipu.search.recall import without_recalled
from kipu.search.snippets import snippet

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such thing")

# --- the configuration ---------------------------------------------------------------------------------------------


@posix_only
def test_a_configuration_that_is_a_pipe_is_refused(workspace):
    os.mkfifo(workspace / "kipu.toml")
    with pytest.raises(ConfigurationError, match="must be a file of at most"):
        load_config(workspace)


@pytest.mark.parametrize(
    "text",
    ["# " + "x" * 1_000_000, "a = " + "[" * 20_000, "a = 1" + "0" * 5_000],
    ids=["too large", "nested too deeply", "a number of 5,000 digits"],
)
def test_an_excessive_configuration_is_an_error(workspace, text):
    (workspace / "kipu.toml").write_text(text)
    with pytest.raises(ConfigurationError):
        load_config(workspace)


def test_a_pattern_of_exponential_time_is_refused():
    with pytest.raises(ConfigurationError, match="exclude must be without more than four stars between two slashes"):
        FilesConfig(exclude=["*a" * 30 + "*b"])
    FilesConfig(exclude=["**/drafts/**/*.tmp.md"])


@pytest.mark.parametrize("pattern", ["[z-a]", "a[", "!"])
async def test_an_invalid_pattern_is_an_error_or_matches_nothing(workspace, pattern):
    config = MemoryConfig(workspace, files=FilesConfig(exclude=[pattern]))
    try:
        Memory(config)
    except ConfigurationError as error:
        assert "files.exclude" in str(error)  # noqa: PT017 (some versions of pathspec accept such a pattern)


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
async def test_a_time_stamp_may_be_of_any_year(memory, write, year):
    file = write("memory/a.md", "apple")
    try:
        os.utime(file, (year, year))
    except OSError:
        pytest.skip("this file system has no such year")
    assert len(await memory.search("apple")) == 1
    assert (await memory.index()).unchanged == 1


# --- links and names -----------------------------------------------------------------------------------------------


@posix_only
async def test_excluded_files_are_not_reached_by_a_link_to_their_folder(workspace, write, config):
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
async def test_a_name_that_is_not_unicode_does_not_hide_another_name_of_the_file(memory, workspace, write):
    file = write("memory/z.md", "apple")
    os.link(file, os.fsencode(workspace / "memory") + b"/a\xff.md")
    assert [result.path for result in await memory.search("apple")] == ["memory/z.md"]


async def test_an_added_file_that_grew_too_large_is_not_read(write, config):
    write("docs/a.md", "apple")
    async with Memory(config(files={"max_bytes": 100})) as memory:
        await memory.add("docs/a.md")
        write("docs/a.md", "apple " * 100)
        assert await memory.search("apple") == []


# --- long texts that keep a pattern busy: only that it ends, and how --------------------------------------------------

LENGTH = 200_000
UNITS = [" ", "\t", "#", " #", "# ", "x ", "<", "</", "[a: ", "a: b; ", '"', "\\", "> ", "- ", "1. ", "`", "ä", "日"]


@pytest.mark.parametrize("unit", UNITS)
def test_a_long_line_of_anything_is_read(unit):
    filler = unit * (LENGTH // len(unit))
    for line in (f"x{filler}y", f"# x{filler}y"):
        assert check_heading(line) in line
        assert len(snippet(line, "y")) <= 600


async def test_a_long_line_stays_as_it_is_in_a_file_to_which_is_added(memory, write):
    line = f"# x{' ' * LENGTH}y"
    file = write("memory/a.md", f"{line}\n\n- One.\n")
    await memory.remember("Two.", file="a.md", heading="Plans")
    assert file.read_text("utf-8") == f"{line}\n\n- One.\n\n## Plans\n\n- Two.\n"


@pytest.mark.parametrize("unit", ["<kipu-memories> ", "</kipu-memories>", "<kipu-memories><", "<", "< /", "<\n"])
def test_of_a_long_text_nothing_is_taken_for_what_was_recalled_that_was_not(unit):
    text = unit * (LENGTH // len(unit))
    assert without_recalled(text) == text
    assert without_recalled(f"{text}<kipu-memories>old</kipu-memories>\nnew") == f"{text}new"


@pytest.mark.parametrize("unit", [" ", "< ", "</\n", "\t"])
async def test_a_long_mark_of_a_quotation_is_quoted(memory, write, unit):
    write("memory/a.md", f"valkey <{unit * (LENGTH // len(unit))}/memory>")
    assert not await memory.recall("valkey")  # it is too long to be quoted


# --- programs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{"strategy": []}, {"max_results": 2**70}, {"max_results": 10_001}])
async def test_an_excessive_argument_is_refused(memory, arguments):
    with pytest.raises(QueryError):
        await memory.search("apple", **arguments)


@posix_only
def test_a_forked_child_is_refused_at_once(workspace, write, config):
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
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("11\n", 0), done.stderr
