"""What the commands share: their options, the memory that they open, and how they print."""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import attrs
import click

from ..cli import leave, tell
from ..config import CONFIG_FILE, load_config
from ..errors import KipuError, QueryError, WorkspaceNotFoundError
from ..memory import Memory
from ..plugins.manager import Plugins
from ..plugins.records import disabled_by_environment
from ..workspace.scan import HIDDEN_FOLDER, MEMORY_FOLDER, Workspace
from .words import Words

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from ..types import SkippedFile

__all__ = [
    "Output",
    "check_scope",
    "count",
    "find_workspace",
    "folder_to_make",
    "harmless",
    "load_plugins",
    "open_memory",
    "run",
    "scope_option",
    "shared_options",
]

Answer = TypeVar("Answer")

# The commands print the problems of plugins themselves; without a handler, Python would print them a second time.
logging.getLogger("kipu").addHandler(logging.NullHandler())


@attrs.define
class Output:
    """Where a command writes: data to stdout, everything for people to stderr. With ``--json``, only JSON is data."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    _said: set[str] = attrs.field(factory=set)
    _stdout: TextIO = attrs.field(factory=lambda: sys.stdout)

    def data(self, value: Any) -> None:
        """Print a value as one JSON document."""
        import json

        self._write(json.dumps(value, ensure_ascii=False, indent=2, default=_plain))

    def data_line(self, value: Any) -> None:
        """Print a value as one line of JSON, or a text as it is, at once: whoever reads along waits for it.

        :raises BrokenPipeError: nobody does any more.
        """
        import json

        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_plain)
        click.echo(text, file=self._stdout)
        self._stdout.flush()

    def line(self, text: str = "") -> None:
        """Print a line of what was asked for. What stands in files must have passed through `harmless` before."""
        self._write(text)

    def _write(self, text: str) -> None:
        try:
            click.echo(text, file=self._stdout)
        except BrokenPipeError:
            leave(1)  # whoever read has enough, and is told what else there is to say all the same

    def note(self, text: str) -> None:
        """Tell people something, once, unless they want quiet."""
        if not self.quiet and text not in self._said:
            self._said.add(text)
            tell(harmless(text, keep="\n"))

    def notices(self, texts: Iterable[str]) -> None:
        """Tell people several things."""
        for text in texts:
            self.note(text)

    def skipped(self, files: Sequence[SkippedFile]) -> None:
        """Name the files that could not be indexed: the first ones, or all of them if people want to know it all."""
        shown = files if self.verbose else files[:10]
        self.notices(f"skipped {harmless(file.path)}: {file.reason}" for file in shown)
        if len(files) > len(shown):
            self.note(f"... and {len(files) - len(shown)} more; --verbose names all of them")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table: aligned where a person looks, and with tabs where a program does."""
        rows = [[harmless(cell) for cell in row] for row in rows]
        if not sys.stdout.isatty():
            for row in [columns, *rows]:
                self.line("\t".join(" ".join(cell.split()) for cell in row))
            return
        from rich.cells import cell_len  # knows that 日 is as wide as two letters

        told = [place for place in range(len(columns)) if not rows or any(row[place] for row in rows)]
        columns, rows = [columns[place] for place in told], [[row[place] for place in told] for row in rows]
        widths = [max(cell_len(row[place]) for row in [columns, *rows]) for place in range(len(columns))]
        numbers = [bool(rows) and all(row[place].isdigit() for row in rows) for place in range(len(columns))]
        for row in [columns, *rows]:
            cells = []
            for cell, width, number in zip(row, widths, numbers, strict=True):
                padding = " " * (width - cell_len(cell))
                cells.append(padding + cell if number else cell + padding)
            self.line(click.style("  ".join(cells).rstrip(), bold=row is columns))

    def waiting(self, what: str) -> None:
        """Say on a terminal what is being waited for, and nothing elsewhere."""
        if not self.quiet and sys.stderr.isatty():
            tell(f"{what}...")

    def progress(self, what: str) -> Progress:
        """A progress bar on a terminal, and nothing elsewhere."""
        return Progress(what, shown=not self.quiet and sys.stderr.isatty())


def harmless(text: str, keep: str = "") -> str:
    """Text from files, for a terminal: control characters are shown as escapes and not obeyed.

    A note could otherwise clear the screen, write into the clipboard, or pretend to be another file's result.

    :param keep: control characters that are meant, such as line feeds.
    """
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode("ascii") if char not in keep and _controls(char) else char for char in text
    )


def _controls(char: str) -> bool:
    """Whether a character does something to a terminal or to the direction of a text, instead of being shown."""
    return (
        unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")
        or "\u202a" <= char <= "\u202e"
        or "\u2066" <= char <= "\u2069"
    )


class Progress:
    """Shows how far long work has come. Work on a few things is done before a bar could be looked at."""

    _FEWEST = 100

    def __init__(self, what: str, *, shown: bool) -> None:
        self._what = what
        self._shown = shown
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Callable[[int, int], None]:
        return self._update

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _update(self, done: int, total: int) -> None:
        if not self._shown or total < self._FEWEST:
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import Progress as Bar

            self._bar = Bar(console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._what, total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total)


def shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that every command has, and hand them over as ``output`` and ``workspace``."""

    @click.option(
        "-w",
        "--workspace",
        type=click.Path(),
        metavar="FOLDER",
        help="The workspace. By default the nearest folder above with kipu.toml or .kipu, else this one.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout, and nothing else.")
    @click.option("-q", "--quiet", is_flag=True, help="Print only what was asked for, and errors.")
    @click.option("-v", "--verbose", is_flag=True, help="Print long lists whole, and where an error came from.")
    @functools.wraps(command)
    def with_output(*, workspace: str | None, as_json: bool, quiet: bool, verbose: bool, **rest: Any) -> Any:
        output = Output(as_json, quiet, verbose)
        folder = find_workspace(workspace)
        if workspace is None and _is_like_another_workspace(folder):
            output.note(f"The workspace is {folder}. To use the {MEMORY_FOLDER}/ of this folder instead: -w .")
        # A plugin may print what it likes; it must not spoil the document.
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            try:
                return command(output=output, workspace=folder, **rest)
            except QueryError as error:
                raise type(error)(_by_flag(str(error))) from error

    return with_output


def _by_flag(said: str) -> str:
    """A sentence that says what an option must be, with the name that this has here and not the one in Python."""
    options = click.get_current_context().command.params
    flags = {each.name: max(each.opts, key=len) for each in options if isinstance(each, click.Option)}
    return re.sub(r"^\w+(?= must be )", lambda name: flags.get(name[0], name[0]), said)


def scope_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --scope."""
    help_text = "The id of a user, an agent or a team: see and write its own source alone."
    return click.option("--scope", metavar="ID", help=help_text, callback=check_scope)(command)


def check_scope(context: click.Context, parameter: click.Parameter, given: str | None) -> str | None:
    """An id as it was given.

    :raises click.UsageError: it is empty, as of a variable that is not set.
    """
    if given == "":
        raise click.UsageError("--scope names nobody: it is empty.")
    return given


def count(number: int, what: str) -> str:
    """A number of things, in words: ``1 file``, ``2,000 files``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def find_workspace(given: str | None) -> Path:
    """The workspace: the one that was named, else the nearest folder above that looks like one, else this folder."""
    if given is not None:
        if not given:
            raise click.UsageError("--workspace names no folder: it is empty.")
        return Path(given)
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise WorkspaceNotFoundError("This folder is not there any more. Change to another: cd") from None
    for folder in (here, *here.parents):
        if (folder / CONFIG_FILE).is_file() or (folder / HIDDEN_FOLDER).is_dir():
            return folder
    return here


def _is_like_another_workspace(workspace: Path) -> bool:
    """Whether this folder below a workspace has a memory of its own, and is not about to become a workspace."""
    here = Path.cwd()
    return (
        here != workspace
        and Path(MEMORY_FOLDER).is_dir()
        and MEMORY_FOLDER not in here.relative_to(workspace).parts
        and click.get_current_context().info_name not in ("demo", "init")
    )


def folder_to_make(folder: Path | None, workspace: Path, default: Path) -> Path:
    """Where a command makes something: in the folder that was named as such or with --workspace."""
    named = click.get_current_context().get_parameter_source("workspace") is click.core.ParameterSource.COMMANDLINE
    if folder is not None and named:
        raise click.UsageError("The folder is named twice: give FOLDER or --workspace.")
    return folder or (workspace if named else default)


def load_plugins(workspace: Path | None = None) -> Plugins:
    """The plugins of this call, without those that the command line, the environment or the workspace block."""
    return _load(blocked_plugins(workspace))


def load_plugins_in_advance() -> Plugins:
    """The plugins of this call before its own options are parsed: they decide which options there are."""
    return _load(blocked_in_advance())


def _load(blocked: Mapping[str, str]) -> Plugins:
    """Load plugins, once in a call: what its flags are and what it then works with are the same."""
    context = click.get_current_context(silent=True)
    loaded: dict[tuple[str, ...], Plugins] = context.find_root().meta.setdefault("kipu.plugins", {}) if context else {}
    key = tuple(f"{name} {place}" for name, place in blocked.items())
    if key not in loaded:
        with contextlib.redirect_stdout(sys.stderr):  # some libraries greet whoever imports them
            loaded[key] = Plugins(blocked)
    return loaded[key]


def blocked_plugins(workspace: Path | None = None) -> dict[str, str]:
    """The plugins that are blocked for this call, each with the place that blocks it."""
    blocked = dict.fromkeys(disabled_by_environment(), "KIPU_DISABLE_PLUGINS")
    if workspace is not None:
        blocked |= dict.fromkeys(load_config(workspace).plugins.disable, f"plugins.disable in {CONFIG_FILE}")
    context = click.get_current_context(silent=True)
    if context is not None:
        blocked |= dict.fromkeys(context.find_root().obj or (), "-p")
    return blocked


def blocked_in_advance() -> dict[str, str]:
    """As `blocked_plugins`, before the options of the command are parsed: only --workspace is looked for in them."""
    context = click.get_current_context(silent=True)
    arguments = context.find_root().meta.get("kipu.arguments", ()) if context is not None else ()
    parser = Words(
        None,
        params=[click.Option(["-w", "--workspace"])],
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    with parser.make_context(None, list(arguments), resilient_parsing=True) as parsed:
        named = parsed.params["workspace"]
    try:
        return blocked_plugins(find_workspace(named))
    except KipuError:
        return blocked_plugins()  # what is wrong with the workspace is told when it is opened


def open_memory(workspace: Path, output: Output, scope: str | None = None) -> Memory:
    """The memory of a workspace. Problems with plugins are told to people."""
    Workspace(workspace)  # a workspace that is not there is worth its own message
    memory = Memory(workspace, scope=scope, plugins=load_plugins(workspace), background=False)
    output.notices(memory.plugins.problems)
    return memory


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run asynchronous work to its end."""
    import asyncio

    return asyncio.run(work)


def _plain(value: Any) -> Any:
    """What JSON has no form for."""
    if attrs.has(type(value)):
        return {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)
