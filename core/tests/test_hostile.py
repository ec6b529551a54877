"""Hostile or careless workspaces and programs do no harm. Those of plugins are in plugins/test_adapters.py."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from datetime import datetime, timedelta, timezone, tzinfo

import pytest

from kipu import FilesConfig, Memory, MemoryConfig
from kipu.config import load_config
from kipu.errors import ConfigurationError, MemoryFileError, QueryError
from kipu.keeping.edits import check_heading
from kipu.search.query import make_query
from kipu.search.quotation import without_recalled
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
    for pattern in ("*a" * 30 + "*b", "a/**/" * 30 + "b"):
        with pytest.raises(ConfigurationError, match="exclude must be without more than four stars between two slash"):
            FilesConfig(exclude=[pattern])
        with pytest.raises(QueryError, match="it has more than four stars"):
            make_query("", max_results=1, path=pattern)
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
    recalled = await memory.recall("valkey")
    assert recalled.text.count("/memory>") == 1
    assert recalled.tokens <= 1500


# --- programs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{"strategy": []}, {"max_results": 2**70}, {"max_results": 10_001}])
async def test_an_excessive_argument_is_refused(memory, arguments):
    with pytest.raises(QueryError):
        await memory.search("apple", **arguments)


NO_UNICODE = "\ud800"
NO_NAME = r"must be .* in valid Unicode, not '\\ud800'\."
PLACE = {"path": "memory/a.md", "start": 1}


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("remember", {"text": "apples", "supersedes": NO_UNICODE}, f"supersedes {NO_NAME}"),
        (
            "remember",
            {"text": "apples", "supersedes": f"memory/{NO_UNICODE}.md:3"},
            r"supersedes must be .*, not 'memory/\\ud800",
        ),
        ("forget", {"id": NO_UNICODE}, f"id {NO_NAME}"),
        ("edit", {"text": "pears", "chunk": NO_UNICODE}, f"chunk {NO_NAME}"),
        ("move", {"to": "b.md", "chunk": NO_UNICODE}, f"chunk {NO_NAME}"),
        ("edit", {"text": "pears", "id": NO_UNICODE}, f"id {NO_NAME}"),
        ("search", {"query": "apples", "strategy": NO_UNICODE}, f"strategy {NO_NAME}"),
        ("reindex", {"embedder": NO_UNICODE}, f"embedder {NO_NAME}"),
        ("search", {"query": "apples", "max_results": 10**5000}, "max_results is too large: a number of 16,610 bits"),
        ("search", {"query": -(10**5000)}, "query is too large"),
        ("read", {"path": "memory/a.md", "start": 10**5000}, "start is too large"),
        ("recall", {"query": "apples", "as_of": 10**5000}, "as_of is too large"),
        ("search", {"query": "apples", "explain_path": 5}, "explain_path must be a path, not int"),
        ("read", {"path": b"memory/a.md"}, "path must be a path, not bytes"),
        ("add", {"path": ["memory/a.md"]}, "path must be a path, not list"),
        ("remember", {"text": "apples", "file": b"a.md"}, "file must be a path, not bytes"),
        ("move", {"to": 5, **PLACE}, "to must be a path, not int"),
    ],
)
async def test_an_argument_of_no_use_is_an_error_before_any_work(memory, write, method, arguments, message):
    write("memory/a.md", "apples")
    with pytest.raises(QueryError, match=message):
        await getattr(memory, method)(**arguments)
    first, *rest = arguments.items()
    with pytest.raises(QueryError, match=message):
        await getattr(memory, method)(first[1], **dict(rest))


@pytest.mark.parametrize("days", [999_999_999, -999_999_999])
async def test_an_age_that_no_file_has_is_an_error(memory, days):
    with pytest.raises(QueryError, match="older_than must be a date or a number of days"):
        await memory.compact(older_than=timedelta(days=days))


@pytest.mark.parametrize(("path", "methods"), [(None, ["add"]), ("a\0b", ["add", "read"])])
async def test_what_no_path_can_be_is_an_error(memory, path, methods):
    for method in [getattr(memory, name) for name in methods]:
        with pytest.raises(MemoryFileError, match="is not a valid path"):
            await method(path)


async def test_the_text_of_an_error_is_valid_unicode(memory):
    with pytest.raises(MemoryFileError) as caught:
        await memory.add("memory/\udcff.md")
    assert str(caught.value) == "memory/\\udcff.md does not exist, or is not a file."


class NoZone(tzinfo):
    def utcoffset(self, _):
        raise RuntimeError("no zone")


@pytest.mark.parametrize("zone", [NoZone(), timezone(timedelta(hours=-23, minutes=-59))])
async def test_a_day_is_that_of_its_calendar_whatever_its_zone(memory, write, zone):
    write("memory/2026-11-28.md", "apples")
    write("memory/2026-11-30.md", "apples")
    moment = datetime(2026, 11, 29, 23, 59, tzinfo=zone)
    assert [found.path for found in await memory.search("apples", since=moment)] == ["memory/2026-11-30.md"]
    assert [found.path for found in await memory.search("apples", until=moment)] == ["memory/2026-11-28.md"]
    assert await memory.compact(older_than=datetime(2026, 11, 1, tzinfo=zone)) is None


@posix_only
@pytest.mark.parametrize("zone", ["XXX+24:59:59", "XXX-24:59:59", "<\x9b>5", "nowhere"])
def test_any_zone_of_the_machine_has_a_day(zone):
    program = "from kipu import MemoryConfig; print(MemoryConfig().today())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env={**os.environ, "TZ": zone}
    )
    assert (done.returncode, len(done.stdout)) == (0, 11), done.stderr


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
