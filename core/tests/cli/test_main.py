"""The command line as a whole: names, exit codes, streams, plugins, and no traceback for a user's mistake."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kipu as package
from kipu.cli import COMMANDS

if TYPE_CHECKING:
    from distributions import Site


COMMAND = """
import click

@click.command()
@click.argument("name", default="world")
def greet(name):
    click.echo(f"Hello, {name}.")

no_command = 3
"""


# --- names ---------------------------------------------------------------------------------------------------------


def test_help_names_every_command(kipu):
    for arguments in (["--help"], ["-h"]):
        done = kipu(*arguments)
        assert done.code == 0
        assert all(f"  {name} " in done.out for name in COMMANDS)


@pytest.mark.parametrize("name", [*COMMANDS, "stats"])
def test_every_command_has_help(kipu, name):
    done = kipu(name, "--help")
    assert done.code == 0
    assert all(option in done.out for option in ("--workspace", "--json", "--quiet", "--verbose"))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("serach", ' Did you mean "search"?'),
        ("Index", ' Did you mean "index"?'),
        ("great", ' Did you mean "greet"?'),
        ("xyz", ""),
    ],
)
def test_an_unknown_command_is_an_error_with_a_hint(kipu, site, name, hint):
    site.install("kipu-greeter", {"kipu.commands": {"greet": "kipu_greeter:greet"}}, kipu_greeter=COMMAND)
    done = kipu(name)
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(f'\nError: No command "{name}".{hint} See: kipu --help\n')


def test_the_version_names_the_plugins(kipu):
    done = kipu("--version")
    assert done.code == 0
    assert done.out == (
        f"kipu-core {package.__version__}, Python {sys.version.split()[0]}\nplugins: fake-standard 1.0\n"
    )


def test_without_plugins_it_says_what_to_install(site, workspace, monkeypatch, capsys):
    from kipu.cli import main

    (workspace / "memory" / "a.md").write_text("valkey", "utf-8")
    monkeypatch.chdir(workspace)
    last = {}
    for arguments in (["--version"], ["plugins"], ["search", "valkey"], ["index"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        captured = capsys.readouterr()
        last[arguments[0]] = (ended.value.code or 0, (captured.out + captured.err).rstrip("\n").split("\n")[-1])
    assert last == {
        "--version": (0, "plugins: none (pip install kipu brings the standard ones)"),
        "plugins": (0, "No plugin is installed. The standard ones come with: pip install kipu"),
        "search": (
            3,
            'Error: No plugin with a strategy is installed, so there is no "keyword". '
            "The standard ones come with: pip install kipu",
        ),
        "index": (
            3,
            'Error: No plugin with a strategy is installed, so there is no "keyword". '
            "The standard ones come with: pip install kipu",
        ),
    }


# --- the workspace -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["kipu.toml", ".kipu/index.sqlite"])
def test_the_workspace_is_the_nearest_folder_above_that_looks_like_one(kipu, here, write, monkeypatch, mark):
    write("memory/a.md", "valkey")
    write(mark, "")
    (here / "src" / "deep").mkdir(parents=True)
    monkeypatch.chdir(here / "src" / "deep")
    assert kipu("search", "valkey", "--json").json["results"][0]["path"] == "memory/a.md"
    assert kipu("status", "--json").json["workspace"] == str(here)
    (here / "src" / "kipu.toml").touch()
    assert kipu("status", "--json").json["workspace"] == str(here / "src")


def test_without_a_mark_the_workspace_is_this_folder(kipu, here, monkeypatch):
    (here / "memory").rmdir()
    (here / "src").mkdir()
    monkeypatch.chdir(here / "src")
    assert kipu("status", "--json").json["workspace"] == str(here / "src")


@pytest.mark.parametrize("flag", [["-w", "{}"], ["--workspace", "{}"], ["--workspace={}"], ["-w{}"]], ids=str)
def test_a_named_workspace_wins(kipu, here, write, tmp_path, monkeypatch, flag):
    write("memory/a.md", "valkey")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "kipu.toml").touch()
    monkeypatch.chdir(tmp_path / "other")
    named = [part.format(here) for part in flag]
    assert [result["path"] for result in kipu("search", "valkey", *named, "--json").json["results"]] == ["memory/a.md"]


def test_a_missing_workspace_is_an_error_with_a_hint(kipu, here):
    missing = here.with_name("projcet")
    done = kipu("search", "valkey", "-w", str(missing))
    assert (done.code, done.out) == (3, "")
    assert done.err == f'Error: The workspace {missing} does not exist. Did you mean "project"?\n'
    assert not missing.exists()


# --- exit codes and mistakes ---------------------------------------------------------------------------------------

MISTAKES: list[tuple[list[str], int, str]] = [
    (["search"], 2, "Error: Missing argument 'QUERY...'.\n"),
    (
        ["search", "x", "-n", "many"],
        2,
        "Error: Invalid value for '-n' / '--max-results': 'many' is not a valid integer.\n",
    ),
    (["search", "x", "-n", "0"], 2, "Error: --max-results must be a whole number from 1 to 10,000, not 0.\n"),
    (["search", "x", "--since", "monday"], 2, "Error: --since must be a date such as 2026-11-29, not 'monday'.\n"),
    (
        ["search", "x", "--since", "2026-11-30", "--until", "2026-11-29"],
        2,
        "Error: since (2026-11-30) is after until (2026-11-29): nothing can be between them.\n",
    ),
    (["search", "x", "--min-score", "2"], 2, "Error: 'min_score' must be <= 1.0: 2.0.\n"),
    (
        ["search", "x", "--strategy", "keywrod"],
        3,
        'Error: No strategy "keywrod". Did you mean "keyword"? Installed: keyword.\n',
    ),
    (
        ["-p", "kipu-x", "status"],
        2,
        'Error: -p takes no:NAME, with the name of a plugin from "kipu plugins", not "kipu-x".\n',
    ),
    (
        ["-p", "no:", "status"],
        2,
        'Error: -p takes no:NAME, with the name of a plugin from "kipu plugins", not "no:".\n',
    ),
    (["add"], 2, "Error: Missing argument 'FILE...'.\n"),
    (["index", "--froce"], 2, "Error: No such option '--froce'. Did you mean '--force'?\n"),
    (["files", "extra"], 2, "Error: Got unexpected extra argument (extra)\n"),
    (["status", "-w", "memory/a.md"], 3, "Error: The workspace memory/a.md is not a folder.\n"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), MISTAKES, ids=str)
def test_a_mistake_is_explained_in_a_sentence(kipu, write, arguments, code, message):
    write("memory/a.md", "valkey")
    done = kipu(*arguments)
    assert (done.code, done.out) == (code, "")
    assert done.err.endswith(message)
    assert "Traceback" not in done.err


def test_an_unknown_option_is_an_error_with_a_hint(kipu):
    done = kipu("search", "x", "--sorce", "team")
    assert (done.code, done.out) == (2, "")
    assert "Error: No such option '--sorce'" in done.err
    assert "'--source'" in done.err


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("max = [", "{} is not valid TOML: Invalid value (at end of document)."),
        ("[search]\nsync = 'false'", "{}: search.sync: must be true or false, not 'false'"),
        (
            "[search]\nstrategy = 'graph'",
            'search.strategy: No strategy "graph". Installed: keyword. It comes with: pip install kipu-strategy-graph',
        ),
        (
            "[search]\npostprocessors = [{ use = 'threshold', min_scor = 1 }]",
            'search.postprocessors[0], post-processor "threshold": no option "min_scor". Did you mean "min_score"? '
            "It has: min_score.",
        ),
        (
            "[index]\nchunker = 'markdwn'",
            'index.chunker: No chunker "markdwn". Did you mean "markdown"? Installed: markdown.',
        ),
    ],
)
def test_a_mistake_in_the_configuration_ends_with_3(kipu, here, write, toml, message):
    write("memory/a.md", "valkey")
    write("kipu.toml", toml)
    done = kipu("search", "valkey")
    assert (done.code, done.out) == (3, "")
    assert done.err == f"Error: {message.format(here / 'kipu.toml')}\n"


RAISING = """
import attrs
from kipu import errors, hookimpl

@attrs.frozen
class Raising:
    async def search(self, query, index):
        raise {error}

@hookimpl
def kipu_register_strategies(register):
    register("raising", Raising)
"""


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ("errors.IndexBusyError('Busy. Wait.')", 5, "Error: Busy. Wait.\n"),
        ("errors.IndexUnavailableError('The disk is full. Make room.')", 1, "Error: The disk is full. Make room.\n"),
        (
            "ValueError('no disk')",
            1,
            'Error: The strategy "raising" (kipu-strategy-raising 1.0) failed in this search: ValueError: no disk.\n',
        ),
    ],
)
def test_a_failure_inside_has_its_exit_code(kipu, site, write, error, code, message):
    site.plugin("kipu-strategy-raising", RAISING.format(error=error))
    write("memory/a.md", "valkey")
    done = kipu("search", "valkey", "--strategy", "raising")
    assert (done.code, done.out, done.err) == (code, "", message)


def test_verbose_shows_the_traceback_of_an_error(process, site, write):
    site.plugin("kipu-strategy-raising", RAISING.format(error="ValueError('no disk')"))
    write("memory/a.md", "valkey")
    done = process("search", "valkey", "--strategy", "raising", "--verbose")
    assert done.returncode == 1
    assert b"Traceback" in done.stderr
    assert done.stderr.strip().endswith(b"ValueError: no disk.")


@pytest.mark.parametrize("name", [".kipu", ".kipu/index.sqlite"])
def test_something_in_place_of_the_index_is_reported_without_a_traceback(process, here, write, name):
    write("memory/a.md", "valkey")
    if name == ".kipu":
        write(name, "a file")
    else:
        (here / name).mkdir(parents=True)
    done = process("search", "valkey")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not remove a folder that is in use")
def test_a_removed_current_folder_is_reported(kipu, tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    done = kipu("search", "valkey")
    monkeypatch.chdir(tmp_path)
    assert (done.code, done.err) == (3, "Error: The current folder no longer exists. Change to another one: cd\n")


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are text there")
@pytest.mark.parametrize("arguments", [["search", "\udcff"], ["search", "x", "--source", "\udcff"]], ids=ascii)
def test_bytes_that_are_not_text_are_a_valid_query(kipu, write, arguments):
    write("memory/a.md", "valkey")
    done = kipu(*arguments, "--json")
    assert (done.code, done.json["results"]) == (0, [])


# --- quiet, streams, encodings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["index"], ["search", "valkey"], ["files"], ["status"], ["plugins"], ["init"]])
def test_quiet_prints_no_messages(kipu, site, write, command):
    site.plugin("kipu-broken", "import not_there")
    write("memory/a.md", "valkey")
    write("memory/bad.md", "\0")
    assert kipu(*command).err != ""
    assert kipu(*command, "--quiet").err == ""


def test_quiet_does_not_hide_errors(kipu):
    done = kipu("search", "x", "-n", "0", "--quiet")
    assert (done.code, done.err) == (2, "Error: --max-results must be a whole number from 1 to 10,000, not 0.\n")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-16"])
def test_output_is_utf_8_whatever_the_environment_says(process, write, encoding):
    text = "データベースは Valkey になった 🦊 naïve"
    write("memory/メモ.md", text)
    done = process("search", "valkey", PYTHONIOENCODING=encoding, LC_ALL="C")
    assert (done.returncode, done.stderr) == (0, b"")
    assert text in done.stdout.decode("utf-8")
    assert "memory/メモ.md" in done.stdout.decode("utf-8")
    done = process("search", "valkey", "-w", "無い", PYTHONIOENCODING=encoding)
    assert (done.returncode, "無い" in done.stderr.decode("utf-8")) == (3, True)


def test_no_color_reaches_a_file(process, write):
    write("memory/a.md", "valkey")
    assert b"\x1b" not in process("search", "valkey").stdout


def with_closed_pipe(site: Site, *arguments: str, closed: str = "stdout") -> subprocess.CompletedProcess[bytes]:
    """Run the command with a pipe for stdout or stderr whose other end is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, closed: writing}
    try:
        return subprocess.run(
            [sys.executable, "-c", "from kipu.cli import main; main()", *arguments],
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": places(site)},
            **streams,
        )
    finally:
        os.close(writing)


def places(site: Site) -> str:
    return os.pathsep.join([str(site.folder), str(Path(__file__).parent.parent)])


@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe is another error there")
@pytest.mark.parametrize(
    "command",
    [
        ["search", "valkey", "-n", "3000"],
        ["files"],
        ["search", "valkey", "--json"],
        ["--help"],
        ["--version"],
        ["search", "--help"],
    ],
    ids=" ".join,
)
def test_a_closed_pipe_is_not_an_error(here, site, write, command):
    write("memory/a.md", "valkey\n\n" * 3000)
    done = with_closed_pipe(site, *command)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe is another error there")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_messages_are_printed_after_stdout_is_closed(here, site, write, options):
    write("memory/a.md", "valkey\n\n" * 3000)
    done = with_closed_pipe(site, "search", "valkey", "--source", "x", *options)
    assert done.returncode == 0
    assert b'No memory file has the source "x".' in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe is another error there")
def test_a_closed_stderr_does_not_fail_the_command(here, site, write):
    write("memory/a.md", "- valkey\n")

    def silent(*arguments: str) -> int:
        return with_closed_pipe(site, *arguments, closed="stderr").returncode

    full = [
        "sh",
        "-c",
        '"$0" -c "from kipu.cli import main; main()" search --source x valkey 2>/dev/full',
        sys.executable,
    ]
    if os.path.exists("/dev/full"):
        done = subprocess.run(full, timeout=60, check=False, env={**os.environ, "PYTHONPATH": places(site)})
        assert done.returncode == 0
    assert silent("search", "valkey", "--source", "x") == 0
    assert silent("search", "valkey", "-n", "0") == 2
    assert silent("search") == 2
    assert silent("forget", "memory/a.md:1") == 2  # there was no answer
    assert (here / "memory/a.md").exists()
    assert silent("forget", "memory/a.md:1", "--yes") == 0
    assert not (here / "memory/a.md").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe is another error there")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_watching_ends_when_the_pipe_is_closed(here, site, write, options):
    write("memory/a.md", "valkey")
    with subprocess.Popen(
        [sys.executable, "-c", "from kipu.cli import main; main()", "watch", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": places(site)},
    ) as watching:
        assert watching.stdout
        assert watching.stderr
        assert b"Watching" in watching.stderr.readline()
        watching.stdout.close()
        write("memory/b.md", "redis")
        assert watching.wait(60) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such way to close a stream")
def test_a_closed_stdin_is_an_empty_text(here, site):
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "from kipu.cli import main; main()" remember <&-', sys.executable],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": places(site)},
    )
    assert (done.returncode, done.stderr) == (2, b"Error: There is nothing to remember: the text is empty.\n")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such way to close a stream")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("command", ["search valkey", "search valkey --json", "plugins", "files", "index"])
def test_a_stream_that_the_caller_closed_is_not_an_error(here, site, write, command, closed):
    write("memory/a.md", "valkey")
    done = subprocess.run(
        ["sh", "-c", f'"$0" -c "from kipu.cli import main; main()" {command} {closed}', sys.executable],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": places(site)},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert bool(done.stdout) == (">&-" not in closed.split())


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_terminal_gets_tables_and_colours(here, site, write):
    write("memory/[bold]a.md", "valkey")

    def on_terminal(*arguments: str) -> str:
        terminal, end = os.openpty()
        with subprocess.Popen(
            [sys.executable, "-c", "from kipu.cli import main; main()", *arguments],
            stdout=end,
            stderr=end,
            env={**os.environ, "PYTHONPATH": places(site), "COLUMNS": "100", "TERM": "xterm"},
        ):
            os.close(end)
            shown = b""
            try:
                while data := os.read(terminal, 4096):
                    shown += data
            except OSError:
                pass  # the other end is closed
        os.close(terminal)
        return shown.decode("utf-8")

    assert "\x1b[" in on_terminal("search", "valkey")
    table = on_terminal("files")
    assert "\t" not in table
    assert "memory/[bold]a.md" in table
    assert "evergreen" in table
    assert on_terminal("files", "--json").startswith("[")
    assert "Asking the model" in on_terminal("compact")
    assert "Asking the model" not in on_terminal("compact", "--quiet")


# --- plugins -------------------------------------------------------------------------------------------------------


def test_a_plugin_adds_a_command(kipu, site):
    site.install("kipu-greeter", {"kipu.commands": {"greet": "kipu_greeter:greet [extra]"}}, kipu_greeter=COMMAND)
    done = kipu("greet", "Ann")
    assert (done.code, done.out, done.err) == (0, "Hello, Ann.\n", "")
    assert "Commands of plugins:\n  greet  From kipu-greeter.\n" in kipu("--help").out


@pytest.mark.parametrize(
    ("value", "source", "message"),
    [
        (
            "kipu_greeter:greet",
            "import not_there",
            'The command "greet" is not available: the plugin kipu-greeter failed to load '
            "(ModuleNotFoundError: No module named 'not_there').",
        ),
        (
            "kipu_greeter:greet",
            "raise SystemExit('bye')",
            'The command "greet" is not available: the plugin kipu-greeter failed to load (SystemExit: bye).',
        ),
        (
            "kipu_greeter:greeet",
            COMMAND,
            'The command "greet" is not available: the plugin kipu-greeter failed to load '
            "(AttributeError: module 'kipu_greeter' has no attribute 'greeet').",
        ),
        (
            "kipu_greeter:no_command",
            COMMAND,
            'The command "greet" of kipu-greeter is not a click command: kipu_greeter:no_command.',
        ),
    ],
)
def test_a_broken_command_is_reported_and_breaks_nothing_else(kipu, site, write, value, source, message):
    site.install("kipu-greeter", {"kipu.commands": {"greet": value}}, kipu_greeter=source)
    write("memory/a.md", "valkey")
    done = kipu("greet")
    assert (done.code, done.out, done.err) == (3, "", f"Error: {message}\n")
    assert kipu("--help").code == 0
    assert kipu("search", "valkey").code == 0


@pytest.mark.parametrize("name", ["status", "stats"])
def test_a_plugin_cannot_replace_a_command(kipu, site, name):
    site.install("kipu-greeter", {"kipu.commands": {name: "kipu_greeter:greet"}}, kipu_greeter=COMMAND)
    assert "Hello" not in kipu(name).out
    assert kipu("status").err == (
        f'kipu-greeter 1.0 has a command "{name}", which kipu-core has too. That of kipu-core is used. '
        "Disable the other: -p no:kipu-greeter\n"
    )
    assert kipu("-p", "no:kipu-greeter", "status").err == ""
    assert "kipu-greeter" not in kipu("--help").out


def test_a_command_that_two_plugins_have_is_an_error_that_names_both(kipu, site, write):
    for name in ("kipu-first", "kipu-second"):
        module = name.replace("-", "_")
        site.install(name, {"kipu.commands": {"greet": f"{module}:greet"}}, **{module: COMMAND})
    assert kipu("greet").err == (
        'Error: Both kipu-first and kipu-second have a command "greet". Disable one of them, for example with: '
        "-p no:kipu-second\n"
    )
    assert "greet  From kipu-first and kipu-second.\n" in kipu("--help").out
    assert kipu("-p", "no:kipu-first", "greet").out == "Hello, world.\n"
    write("memory/a.md", "valkey")
    assert (kipu("search", "valkey").code, kipu("search", "valkey").err) == (0, "")


def block_by_flag(here: Path, monkeypatch: Any) -> list[str]:
    return ["-p", "no:kipu-greeter"]


def block_by_environment(here: Path, monkeypatch: Any) -> list[str]:
    monkeypatch.setenv("KIPU_DISABLE_PLUGINS", "kipu-greeter")
    return []


def block_by_configuration(here: Path, monkeypatch: Any) -> list[str]:
    (here / "kipu.toml").write_text('[plugins]\ndisable = ["kipu-greeter"]\n', "utf-8")
    return []


@pytest.mark.parametrize(
    ("block", "place"),
    [
        (block_by_flag, "-p"),
        (block_by_environment, "KIPU_DISABLE_PLUGINS"),
        (block_by_configuration, "plugins.disable in kipu.toml"),
    ],
)
def test_a_blocked_plugin_is_not_even_imported(kipu, site, here, write, monkeypatch, block, place):
    imported = "from pathlib import Path\nPath('imported').touch()\n"
    site.install(
        "kipu-greeter",
        {"kipu": {"greeting": "kipu_greeting"}, "kipu.commands": {"greet": "kipu_greeter:greet"}},
        kipu_greeting=imported,
        kipu_greeter=imported + COMMAND,
    )
    write("memory/a.md", "valkey")
    blocking = block(here, monkeypatch)
    for command in (["search", "valkey"], ["search", "--help"], ["index"], ["plugins"], ["status"], ["--help"]):
        done = kipu(*blocking, *command)
        assert (done.code, done.err) == (0, "")
    done = kipu(*blocking, "greet")
    assert (done.code, done.err) == (
        3,
        f'Error: The command "greet" comes with kipu-greeter, which is not in use: blocked by {place}.\n',
    )
    states = {
        info["name"]: (info["state"], info["reason"]) for info in kipu(*blocking, "plugins", "--json").json["plugins"]
    }
    assert states["greeting"] == states["greet"] == ("blocked", f"blocked by {place}")
    assert not (here / "imported").exists()


def test_a_plugin_that_the_named_workspace_blocks_has_no_options_there(kipu, here, write, tmp_path):
    write("memory/a.md", "valkey")
    other = tmp_path / "other"
    other.mkdir()
    (other / "kipu.toml").write_text('[plugins]\ndisable = ["fake-standard"]\n', "utf-8")
    assert "--min-score" in kipu("search", "--help").out
    assert "--min-score" not in kipu("search", "-w", str(other), "--help").out


def test_blocking_a_plugin_that_is_not_installed_is_reported(kipu):
    done = kipu("-p", "no:fake-standart", "status")
    assert (done.code, done.err) == (
        0,
        '-p blocks "fake-standart", which is not installed. Did you mean "fake-standard"?\n',
    )


def test_a_broken_plugin_is_reported_once_by_every_command(kipu, site, write):
    site.plugin("kipu-broken", "import not_there")
    write("memory/a.md", "valkey")
    for command in (["index"], ["search", "valkey"], ["files"], ["status"], ["plugins"], ["add", "memory/a.md"]):
        done = kipu(*command)
        assert (done.code, done.err.count("Plugin kipu-broken 1.0 failed to load and was skipped")) == (0, 1)


def test_a_failing_observer_is_reported_and_the_results_are_printed(kipu, site, write):
    site.plugin(
        "kipu-observer", "from kipu import hookimpl\n@hookimpl\ndef kipu_indexed():\n    raise OSError('no disk')"
    )
    write("memory/a.md", "valkey")
    done = kipu("search", "valkey")
    assert (done.code, done.out.partition("  ")[0]) == (0, "1. memory/a.md:1")
    assert done.err == 'The plugin "kipu-observer 1.0 (observer)" failed in kipu_indexed: OSError: no disk.\n'


def test_a_plugin_whose_task_ignores_its_cancellation_does_not_hold_up_the_end(process, site, write):
    site.plugin(
        "kipu-strategy-endless",
        "import asyncio, attrs\nfrom kipu import hookimpl\n"
        "@attrs.frozen\nclass Endless:\n"
        "    async def search(self, query, index):\n"
        "        while True:\n            try:\n                await asyncio.sleep(9)\n"
        "            except BaseException:\n                pass\n"
        "@hookimpl\ndef kipu_register_strategies(register):\n    register('endless', Endless)\n",
    )
    write("kipu.toml", "[plugins]\ntime_limit = 0.5\n[search]\nstrategy = 'endless'\n")
    write("memory/a.md", "valkey")
    done = process("search", "valkey")
    assert done.returncode == 1
    assert (
        "took more than 0.5 seconds in this search and was abandoned. 1 of its calls still run." in done.stderr.decode()
    )
