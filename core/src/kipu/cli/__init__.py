"""The command line. Commands are imported when they are called, so that ``kipu --help`` starts at once.

A plugin adds a command with an entry point in the group ``kipu.commands``, whose name is the command's name and whose
value is a click command: it can be listed without importing the plugin, and cannot slow down or break the others.
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

__all__ = ["COMMANDS", "kipu", "leave", "main", "tell"]

# name: (module below this package, what it does)
COMMANDS = {
    "index": ("index", "Bring the index up to date with the memory files."),
    "reindex": ("index", "Embed everything with another embedder."),
    "add": ("index", "Index single files now, wherever they are in the workspace."),
    "search": ("search", "Find what the memory says about a question."),
    "recall": ("recall", "Print what the memory knows about a question, for the prompt of a model."),
    "remember": ("keep", "Write a text to a memory file."),
    "read": ("keep", "Print a memory file, or some lines of it."),
    "edit": ("keep", "Put a text in the place of another one."),
    "move": ("keep", "Move lines to another file, or a whole file."),
    "forget": ("keep", "Take a text out of its file and of every index, for good."),
    "flush": ("flush", "Remember what is worth it in a conversation."),
    "compact": ("flush", "Distil old dated files into a summary, and archive them."),
    "watch": ("watch", "Take in what changes on disk, as it changes."),
    "files": ("inspect", "List the files that the index knows."),
    "status": ("inspect", "Say what is indexed, what is pending and what was skipped."),
    "plugins": ("inspect", "List the installed plugins and what they register."),
    "doctor": ("doctor", "Explain what works here, what does not, and how to mend it."),
    "demo": ("demo", "Make a small project's memory, index it and search it."),
    "init": ("init", "Make a workspace here: a memory folder and a configuration."),
}
_ALIASES = {"stats": "status"}


class Commands(click.Group):
    """The commands of the kernel, then those of plugins. None is imported before it is called."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [*COMMANDS, *sorted(self._of_plugins())]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        name = _ALIASES.get(name, name)
        if name in COMMANDS:
            command: click.Command = getattr(import_module(f"{__name__}.{COMMANDS[name][0]}"), f"{name}_command")
            return command
        point = self._of_plugins().get(name)
        if point is None:
            return None
        value, distribution = point.value, point.distribution
        from ..errors import PluginError, PluginNotFoundError
        from ..plugins.records import blocked_by
        from .common import blocked_in_advance

        if place := blocked_by(blocked_in_advance(), name, distribution):
            raise PluginNotFoundError(
                f'The command "{name}" comes with {distribution}, which is not in use: blocked by {place}.'
            )
        module, _, attribute = value.partition(":")
        try:
            loaded = getattr(import_module(module), attribute)
        except (Exception, SystemExit) as error:
            raise PluginError(
                f'The command "{name}" cannot be used: its plugin {distribution} is broken '
                f"({type(error).__name__}: {error})."
            ) from error
        if not isinstance(loaded, click.Command):
            raise PluginError(f'The command "{name}" of {distribution} is not a click command: {value}.')
        return loaded

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with _as_long_as_somebody_reads():
            return super().make_context(*arguments, **options)

    def invoke(self, context: click.Context) -> Any:
        with _as_long_as_somebody_reads():
            return super().invoke(context)

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        try:
            return super().parse_args(context, arguments)
        except click.NoSuchOption as error:
            raise click.UsageError(
                f"{error.format_message()} Options stand behind the command: kipu COMMAND {error.option_name}", context
            ) from None

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        context.meta["kipu.arguments"] = arguments[1:]
        if arguments[0] in self.list_commands(context) or arguments[0] in _ALIASES:
            return super().resolve_command(context, arguments)
        from ..plugins.suggest import did_you_mean

        near = did_you_mean(arguments[0], self.list_commands(context))
        raise click.UsageError(f'No command "{arguments[0]}".{near} See: kipu --help', context)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, text) for name, (_, text) in COMMANDS.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
        if plugins := self._of_plugins():
            with formatter.section("Commands of plugins"):
                formatter.write_dl([(name, f"From {plugins[name].distribution}.") for name in sorted(plugins)])

    @staticmethod
    def _of_plugins() -> dict[str, EntryPoint]:
        from ..plugins.discovery import entry_points

        return {point.name: point for point in entry_points("kipu.commands")}


@contextlib.contextmanager
def _as_long_as_somebody_reads() -> Iterator[None]:
    """End without a failure where whoever read our output has enough; to click it would be one."""
    try:
        yield
    except BrokenPipeError:
        leave(1)
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
    """Take in -p no:NAME while options are parsed: which commands there are, and their flags, depends on it."""
    for name in names:
        if not name.startswith("no:") or len(name) < 4:
            raise click.UsageError(f'-p takes no:NAME, with the name of a plugin from "kipu plugins", not "{name}".')
    context.obj = [name[3:] for name in names]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("-p", "block", multiple=True, metavar="no:NAME", expose_value=False, callback=_read_blocks,
              help="Leave a plugin alone for this call.")  # fmt: skip
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version,
              help="Show the versions of Kipu and of its plugins.")  # fmt: skip
def kipu() -> None:
    """Memory that people can read: Markdown files, and an index that finds what they say.

    In a folder with notes in memory/, start with: kipu search "why redis"
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with one of the codes of ``docs/reference/commands.md``."""
    # To start is to make many objects that all stay: looking for garbage among them takes a twelfth of a whole call.
    gc.set_threshold(100_000)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _stop)
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # Windows would use its code page, which lacks most of the world's letters
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    code = _run(arguments)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        leave(1)
    # At exit, Python looks through everything that is still there for circles that could be freed. The process ends all
    # the same, and that search is a tenth of what a whole call costs.
    gc.freeze()
    sys.exit(code)


def _open_what_is_closed() -> None:
    """Have what a caller closed (``>&-``) lead nowhere: else the index would get its number, and what is printed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    # Python has no stream for what was closed when it started; who prints expects one.
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def leave(stream: int) -> None:
    """Write to nobody from now on: Python would complain when it flushes a closed stream at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def tell(text: str = "") -> None:
    """Tell people something. It may reach nobody: what was asked for is done all the same."""
    try:
        click.echo(text, err=True)
    except OSError:
        leave(2)


def _stop(*_: object) -> None:
    """End at once, as Ctrl-C asks for; asyncio would do so only when its threads are done with their files."""
    show_cursor = "\x1b[?25h" if sys.stderr.isatty() else ""  # a progress bar hides it
    with contextlib.suppress(OSError):
        os.write(2, f"{show_cursor}\nInterrupted. What was done so far is kept.\n".encode())
    os._exit(130)  # the index is safe: what was not committed is rolled back when it is opened again


def _run(arguments: list[str] | None) -> Any:
    try:
        return kipu.main(arguments, prog_name="kipu", standalone_mode=False)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        try:
            error.show()
        except OSError:
            leave(2)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        tell("Interrupted. What was done so far is kept.")
        return 130
    except Exception as error:
        return _explain(error)


def _explain(error: Exception) -> int:
    """Say what went wrong, in a sentence for what Kipu raises on purpose. The exit code for it."""
    from ..errors import KipuError

    verbose = "-v" in sys.argv or "--verbose" in sys.argv
    expected = isinstance(error, (KipuError, OSError))  # such as a full disk behind the output
    if verbose or not expected:
        import traceback

        traceback.print_exception(error)
    from .common import harmless

    said = f"Error: {error}" if expected else f"Error, which is Kipu's own fault: {error!r}"
    tell(harmless(said, keep="\n"))
    return error.exit_code if isinstance(error, KipuError) else 1
