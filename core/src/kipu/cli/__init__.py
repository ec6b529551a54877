"""The command line. A command is imported when it is called, so that ``kipu --help`` starts at once.

A plugin adds a command with an entry point in the group ``kipu.commands``: its name is that of the command, its value a
click command or group. So the plugin is listed without being imported, and cannot slow down or break other commands.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..plugins.discovery import EntryPoint

__all__ = ["COMMANDS", "kipu", "main", "print_error", "silence"]

# name: (module below this package, what it does)
COMMANDS = {
    "index": ("index", "Bring the index up to date with the memory files."),
    "reindex": ("index", "Embed everything with another embedder."),
    "add": ("index", "Index single files now, wherever they are in the workspace."),
    "search": ("search", "Find what the memory says about a question."),
    "recall": ("search", "Print what the memory knows about a question, for the prompt of a model."),
    "remember": ("write", "Write a text to a memory file."),
    "list": ("inspect", "List the remembered entries, with their ids."),
    "read": ("write", "Print an entry, a memory file, or some of its lines."),
    "edit": ("write", "Replace an entry, or lines of a file."),
    "move": ("write", "Move an entry or lines to another file, or a whole file."),
    "forget": ("write", "Delete a text from its file and from every index, for good."),
    "undo": ("write", "Take back a change that Kipu made of memory files."),
    "flush": ("flush", "Distil a conversation into memories."),
    "compact": ("flush", "Distil old dated files into a summary, and archive them."),
    "watch": ("watch", "Index changes on disk as they happen."),
    "files": ("inspect", "List the files in the index."),
    "status": ("inspect", "Show what is indexed, what is pending and what was skipped."),
    "plugins": ("inspect", "List the installed plugins and what they register."),
    "doctor": ("doctor", "Explain what works here, what does not, and how to fix it."),
    "demo": ("demo", "Create the memory of a small project, index it and search it."),
    "init": ("init", "Create a workspace here: a memory folder and a configuration."),
}
ALIASES = {"stats": "status"}


class Commands(click.Group):
    """The commands of the kernel, then those of plugins."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [*COMMANDS, *sorted(self._plugin_commands())]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        name = ALIASES.get(name, name)
        if name in COMMANDS:
            command: click.Command = getattr(import_module(f"{__name__}.{COMMANDS[name][0]}"), f"{name}_command")
            return command
        points = self._plugin_commands().get(name)
        if points is None:
            return None
        from ..errors import PluginClashError, PluginError, PluginNotFoundError
        from ..plugins.records import blocked_by
        from .common import blocked_plugins

        blocked = blocked_plugins()
        places = [blocked_by(blocked, name, point.distribution) for point in points]
        usable = [point for point, place in zip(points, places, strict=True) if not place]
        if not usable:
            raise PluginNotFoundError(
                f'The command "{name}" comes with {points[0].distribution}, which is not in use: blocked by '
                f"{places[0]}."
            )
        if len(usable) > 1:
            raise PluginClashError(
                f'Both {usable[0].distribution} and {usable[1].distribution} have a command "{name}". '
                f"Disable one of them, for example with: -p no:{usable[1].distribution}"
            )
        value, distribution = usable[0].value, usable[0].distribution
        module, _, attribute = value.partition(":")
        try:
            loaded = getattr(import_module(module), attribute)
        except (Exception, SystemExit) as error:
            raise PluginError(
                f'The command "{name}" is not available: the plugin {distribution} failed to load '
                f"({type(error).__name__}: {error})."
            ) from error
        if not isinstance(loaded, click.Command):
            raise PluginError(f'The command "{name}" of {distribution} is not a click command: {value}.')
        return loaded

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with _ending_with_the_pipe():
            return super().make_context(*arguments, **options)

    def invoke(self, context: click.Context) -> Any:
        with _ending_with_the_pipe():
            return super().invoke(context)

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        try:
            return super().parse_args(context, arguments)
        except click.NoSuchOption as error:
            raise click.UsageError(
                f"{error.format_message()} Options follow the command: kipu COMMAND {error.option_name}", context
            ) from None

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        context.meta["kipu.arguments"] = arguments[1:]
        if arguments[0] in self.list_commands(context) or arguments[0] in ALIASES:
            return super().resolve_command(context, arguments)
        from ..plugins.suggest import did_you_mean

        near = did_you_mean(arguments[0], self.list_commands(context))
        raise click.UsageError(f'No command "{arguments[0]}".{near} See: kipu --help', context)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, text) for name, (_, text) in COMMANDS.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
        if plugins := self._plugin_commands():
            with formatter.section("Commands of plugins"):
                names = {name: " and ".join(point.distribution for point in plugins[name]) for name in sorted(plugins)}
                formatter.write_dl([(name, f"From {distributions}.") for name, distributions in names.items()])

    @staticmethod
    def _plugin_commands() -> dict[str, list[EntryPoint]]:
        """Return the entry points of plugins by the name of the command, without names that the kernel has."""
        from ..plugins.discovery import entry_points

        commands: dict[str, list[EntryPoint]] = {}
        for point in entry_points("kipu.commands"):
            if point.name not in COMMANDS and point.name not in ALIASES:
                commands.setdefault(point.name, []).append(point)
        return commands


@contextlib.contextmanager
def _ending_with_the_pipe() -> Iterator[None]:
    """Exit without an error when the reader of the output closes the pipe, as ``| head`` does."""
    try:
        yield
    except BrokenPipeError:
        silence(1)
        raise click.exceptions.Exit(0) from None


def _show_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    from .. import __version__
    from ..plugins.discovery import entry_points

    names = dict.fromkeys(f"{point.distribution} {point.version}" for point in entry_points("kipu"))
    click.echo(f"kipu-core {__version__}, Python {sys.version.split()[0]}")
    click.echo(f"plugins: {', '.join(names) or 'none (pip install kipu brings the standard ones)'}")
    context.exit()


def _read_blocks(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> None:
    """Read -p no:NAME while options are parsed: the commands and their options depend on it."""
    for name in names:
        if not name.startswith("no:") or len(name) < 4:
            raise click.UsageError(f'-p takes no:NAME, with the name of a plugin from "kipu plugins", not "{name}".')
    context.obj = [name[3:] for name in names]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("-p", "block", multiple=True, metavar="no:NAME", expose_value=False, callback=_read_blocks,
              help="Disable a plugin for this call.")  # fmt: skip
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version,
              help="Show the versions of Kipu and of its plugins.")  # fmt: skip
def kipu() -> None:
    """Memory for AI agents that people can read: Markdown files, and an index to search them.

    In a folder with notes in memory/, start with: kipu search "why redis"
    """


UNENDED: set[Any] = set()
"""Tasks of plugins that ignored their cancellation."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with one of the codes of ``docs/reference/commands.md``."""
    # Starting makes many objects that all stay: collecting garbage among them takes a twelfth of a whole call.
    gc.set_threshold(100_000)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _stop)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the caller closed it (>&-): open its number, or the index would get it
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (open until the process ends)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # Windows would use its code page, which lacks most of the world's letters
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        silence(1)
    # At exit, Python collects garbage among all remaining objects, which takes a tenth of a whole call.
    gc.freeze()
    if UNENDED:  # Python would wait for their end
        sys.stderr.flush()
        os._exit(code or 0)
    sys.exit(code)


def silence(stream: int) -> None:
    """Send what is written to a closed stream nowhere. Otherwise Python complains when it flushes it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def print_error(text: str = "") -> None:
    """Print to stderr. A closed or full stderr does not fail the command."""
    try:
        click.echo(text, err=True)
    except OSError:
        silence(2)


def _stop(*_: object) -> None:
    """Exit at once on Ctrl-C. asyncio would first wait for threads that read files."""
    show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # a progress bar hides it
    with contextlib.suppress(OSError):
        os.write(2, f"{show_cursor}\nInterrupted. What was done so far is kept.\n".encode())
    os._exit(130)  # the index is safe: SQLite rolls back what was not committed


def _run(arguments: list[str] | None) -> Any:
    try:
        return kipu.main(arguments, prog_name="kipu", standalone_mode=False)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        _show(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print_error("Interrupted. What was done so far is kept.")
        return 130
    except Exception as error:
        return _explain(error)


def _show(error: click.ClickException) -> None:
    """Print a usage error, which may quote an argument."""
    import io

    from .output import escape

    shown = io.StringIO()
    error.show(shown)
    print_error(escape(shown.getvalue().rstrip("\n"), keep="\n"))


def _explain(error: Exception) -> int:
    """Print what went wrong, with a traceback if it is a bug, and return the exit code."""
    from ..errors import KipuError

    verbose = "-v" in sys.argv or "--verbose" in sys.argv
    expected = isinstance(error, (KipuError, OSError))  # such as a full disk behind the output
    if verbose or not expected:
        import traceback

        traceback.print_exception(error)
    from .output import escape

    print_error(escape(f"Error: {error}" if expected else f"Error, a bug in Kipu: {error!r}", keep="\n"))
    return error.exit_code if isinstance(error, KipuError) else 1
