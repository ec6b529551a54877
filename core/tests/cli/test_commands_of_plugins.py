"""The command of a stranger's plugin, made with what `kipu.commands` offers: its docstring has a whole one."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap

import pytest

from kipu import commands

SOURCE = textwrap.dedent((inspect.getdoc(commands) or "").partition("::\n\n")[2].partition("    # pyproject.toml")[0])
GROUP = """

@click.group()
def words():
    pass

words.add_command(count)

@words.command()
@memory_options
async def fail(output, memory):
    from kipu.errors import QueryError
    raise QueryError("max_results must be less.")

@words.command()
@memory_options
async def size(output, memory):
    async with memory.open_index("keyword") as index:
        ((count,),) = await index.connection.execute_fetchall("SELECT count(*) FROM kipu_chunks")
        output.line(str(count))
"""


@pytest.fixture(autouse=True)
def plugin(site, here):
    points = {"count": "kipu_count:count", "words": "kipu_count:words"}
    site.install("kipu-count", {"kipu.commands": points}, kipu_count=SOURCE + GROUP)


def test_it_has_the_memory_the_options_and_the_exit_codes_of_all_commands(kipu, write, tmp_path):
    write("memory/a.md", "valkey now")
    write("memory/ann/b.md", "valkey then")
    assert kipu("count", "valkey").out == "2 files mention valkey.\n"
    assert kipu("count", "valkey", "--json").json == {"word": "valkey", "files": 2}
    assert kipu("count", "valkey", "--scope", "ann").out == "1 files mention valkey.\n"
    (tmp_path / "other" / "memory").mkdir(parents=True)
    assert kipu("count", "valkey", "-w", str(tmp_path / "other")).out == "0 files mention valkey.\n"
    assert kipu("count", "valkey", "--jsn").code == 2


def test_a_group_of_commands_works_as_one(kipu, write):
    write("memory/a.md", "valkey")
    assert kipu("words", "count", "valkey").out == "1 files mention valkey.\n"
    failed = kipu("words", "fail")
    assert (failed.code, failed.out, failed.err) == (2, "", "Error: max_results must be less.\n")
    assert kipu("words", "cuont").code == 2


@pytest.mark.parametrize("command", [["count"], ["words", "count"]], ids=" ".join)
def test_without_a_memory_it_says_so(kipu, here, command):
    (here / "memory").rmdir()
    done = kipu(*command, "valkey")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("Error: There is no memory here yet")


def test_what_came_up_while_the_index_was_read_is_printed(kipu, write, here):
    write("kipu.toml", "[files]\npaths = ['docs']\n")
    write("docs/a.md", "valkey")
    assert kipu("words", "size").out == "1\n"
    (here / "docs" / "a.md").unlink()
    (here / "docs").rmdir()
    done = kipu("words", "size")
    assert (done.code, done.out) == (0, "1\n")
    assert done.err.startswith("docs is missing; what was indexed of it is kept.")


def test_the_help_of_kipu_imports_neither_plugin_nor_kernel():
    program = (
        "import sys\nfrom kipu.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "sys.exit('kipu.commands' in sys.modules or 'kipu.memory' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0
