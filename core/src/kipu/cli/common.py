"""What the commands share: how their arguments are read, and the memory and the plugins that they open."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..config import CONFIG_FILE, load_config
from ..errors import KipuError, QueryError
from ..memory import Memory
from ..plugins.manager import Plugins
from ..plugins.records import disabled_by_environment
from ..workspace.paths import HIDDEN_FOLDER, MEMORY_FOLDER, Workspace
from . import ALIASES, COMMANDS, UNENDED, print_error
from .output import Output
from .workspace import WORKSPACE_VARIABLE, find_workspace, require_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from pathlib import Path

__all__ = [
    "TextCommand",
    "blocked_plugins",
    "filter_options",
    "given",
    "load_plugins",
    "memory_options",
    "open_memory",
    "read_standard_input",
    "read_text",
    "run",
    "scope_option",
    "shared_options",
]

Answer = TypeVar("Answer")

_END_SECONDS = 2.0

# The commands print the problems of plugins themselves; without a handler, Python would print them a second time.
logging.getLogger("kipu").addHandler(logging.NullHandler())


# --- Arguments and options -------------------------------------------------------------------------------------------


class TextCommand(click.Command):
    """A command whose arguments are text, which may begin with a dash as an item of a list does.

    An argument is an option only if it looks like one: dashes, a letter, and no white space before an ``=``. Other text
    that begins with a dash stands behind ``--``.
    """

    _OPTION = re.compile(r"--?[A-Za-z][^\s=]*(=.*)?", re.DOTALL)

    def make_parser(self, ctx: click.Context) -> Any:
        """Return click's parser, which takes for text what does not look like an option."""
        parser: Any = super().make_parser(ctx)
        process_option = parser._process_opts  # noqa: SLF001 (click has no public place to decide what an option is)

        def process(argument: str, state: Any) -> None:
            if self._OPTION.fullmatch(argument):
                process_option(argument, state)
            else:
                state.largs.append(argument)

        parser._process_opts = process  # noqa: SLF001
        return parser

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. The error for an unknown option says how to write it if it is text."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            message = (
                f"{error.format_message()} Write text that begins with a dash after --: {ctx.command_path} -- TEXT"
            )
            raise click.NoSuchOption(error.option_name, message, ctx=ctx) from None


def read_standard_input() -> bytes:
    """Return what is written to standard input: bytes, because the system's encoding may be another than UTF-8."""
    if sys.stdin.isatty():
        print_error("Write the text, and end it with Ctrl-D on a line of its own.")
    return sys.stdin.buffer.read()


def read_text(words: tuple[str, ...]) -> str:
    """Return the text that is given as words. A dash, or no words, stands for standard input."""
    data = os.fsencode(" ".join(words)) if words and words != ("-",) else read_standard_input()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise QueryError(
            f"The text is not valid UTF-8: its byte {error.start + 1:,} is {data[error.start]:#04x}."
        ) from None


def shared_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that every command has, and pass them as ``output`` and ``workspace``."""

    @click.option(
        "-w",
        "--workspace",
        type=click.Path(),
        metavar="FOLDER",
        envvar=WORKSPACE_VARIABLE,
        help=f"The workspace. By default {WORKSPACE_VARIABLE}, else the nearest folder, this one or one above, "
        f"with {MEMORY_FOLDER}/, {CONFIG_FILE} or {HIDDEN_FOLDER}.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout, and nothing else.")
    @click.option("-q", "--quiet", is_flag=True, help="Print data and errors only.")
    @click.option("-v", "--verbose", is_flag=True, help="Print long lists in full, and the traceback of an error.")
    @functools.wraps(command)
    def with_output(*, workspace: str | None, as_json: bool, quiet: bool, verbose: bool, **rest: Any) -> Any:
        output = Output(as_json, quiet, verbose)
        folder = find_workspace(workspace)
        # A plugin may print; it must not spoil the document.
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            try:
                return command(output=output, workspace=folder, **rest)
            except KipuError as error:
                output.notices(getattr(error, "__notes__", ()))  # those of the call that failed
                if isinstance(error, QueryError):
                    raise type(error)(_with_flag(str(error))) from error
                raise

    return with_output


def memory_options(command: Callable[..., Coroutine[Any, Any, int | None]]) -> Callable[..., Any]:
    """Add the options that every command has, and pass ``output`` and the open ``memory`` of the workspace."""

    @shared_options
    @functools.wraps(command)
    def with_memory(*, output: Output, workspace: Path, scope: str | None = None, **options: Any) -> int | None:
        async def work() -> int | None:
            async with open_memory(workspace, output, scope) as memory:
                require_memory(memory)
                code = await command(output, memory, **options)
                with memory._context.notices.collect() as waiting:  # noqa: SLF001 (no other call follows that returns them)
                    output.notices([*waiting, *memory.plugins.problems])
                return code

        return run(work())

    return with_memory


def _with_flag(message: str) -> str:
    """Return a message about an option with the option's name on the command line, not the one in Python."""
    options = click.get_current_context().command.params
    flags = {option.name: max(option.opts, key=len) for option in options if isinstance(option, click.Option)}
    return re.sub(r"^\w+(?= must be )", lambda name: flags.get(name[0], name[0]), message)


def scope_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --scope."""
    help_text = "The id of a user, an agent or a team: read and write its own source only."
    return click.option("--scope", metavar="ID", help=help_text, callback=_check_scope)(command)


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that restrict a command to a part of the memory, named as the arguments in Python."""
    for decorator in (
        scope_option,
        click.option("--until", metavar="DATE", help="Only files dated this day or earlier."),
        click.option("--since", metavar="DATE", help="Only files dated this day or later."),
        click.option(
            "--where",
            metavar="KEY=VALUE",
            multiple=True,
            callback=_properties,
            help="Only what has this property, in its metadata or front matter. Repeat it for several: all must match.",
        ),
        click.option("--path", metavar="PATTERN", help="Only files that match, such as 'projects/**'."),
        click.option("--tag", multiple=True, help="Only what has this tag. Repeat it for several: all must match."),
        click.option("--source", multiple=True, help="Only files with this source label. Repeat it for several."),
    ):
        command = decorator(command)
    return command


def _properties(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, list[str]]:
    where: dict[str, list[str]] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not key.strip() or not separator or not value.strip():
            raise click.UsageError(f"--where takes KEY=VALUE, such as status=done, not {pair!r}.")
        where.setdefault(key, []).append(value)
    return where


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value not in (None, (), {})}


def _check_scope(context: click.Context, parameter: click.Parameter, scope: str | None) -> str | None:
    if scope == "":  # as of a variable that is not set
        raise click.UsageError("--scope is empty. Give the id of a user, an agent or a team.")
    return scope


# --- The workspace and its plugins -----------------------------------------------------------------------------------


def load_plugins(workspace: Path | None = None) -> Plugins:
    """Load the plugins of this call, once, without those that are blocked: see `blocked_plugins`."""
    blocked = blocked_plugins(workspace)
    context = click.get_current_context(silent=True)
    loaded: dict[tuple[str, ...], Plugins] = context.find_root().meta.setdefault("kipu.plugins", {}) if context else {}
    key = tuple(f"{name} {place}" for name, place in blocked.items())
    if key not in loaded:
        with contextlib.redirect_stdout(sys.stderr):  # some libraries print when they are imported
            loaded[key] = Plugins(blocked)
        loaded[key].problems += [
            f'{info.label} has a command "{info.name}", which kipu-core has too. That of kipu-core is used. '
            f"Disable the other: -p no:{info.distribution}"
            for info in loaded[key].infos
            if f"command {info.name}" in info.registers and info.name in (*COMMANDS, *ALIASES)
        ]
    return loaded[key]


def blocked_plugins(workspace: Path | None = None) -> dict[str, str]:
    """Return the plugins that the environment, the workspace or -p blocks, each with the place that blocks it.

    :param workspace: by default the one of the command line: which options there are depends on its plugins.
    """
    blocked = dict.fromkeys(disabled_by_environment(), "KIPU_DISABLE_PLUGINS")
    context = click.get_current_context(silent=True)
    root = context.find_root() if context is not None else None
    with contextlib.suppress(KipuError):  # opening the workspace reports what is wrong with it
        config = load_config(workspace or _workspace_of(root.meta.get("kipu.arguments", ()) if root else ()))
        blocked |= dict.fromkeys(config.plugins.disable, f"plugins.disable in {CONFIG_FILE}")
    return blocked | dict.fromkeys((root.obj if root else None) or (), "-p")


def _workspace_of(arguments: Iterable[str]) -> Path:
    """Return the workspace that arguments name which are not parsed yet."""
    parser = TextCommand(
        None,
        params=[click.Option(["-w", "--workspace"], envvar=WORKSPACE_VARIABLE)],
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    with parser.make_context(None, list(arguments), resilient_parsing=True) as parsed:
        return find_workspace(parsed.params["workspace"])


def open_memory(workspace: Path, output: Output, scope: str | None = None) -> Memory:
    """Return the memory of a workspace, and print the problems of its plugins."""
    Workspace(workspace)  # a missing workspace has a message of its own
    memory = Memory(workspace, scope=scope, plugins=load_plugins(workspace), background=False)
    output.notices(memory.plugins.problems)
    return memory


def run(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run asynchronous work to its end. `asyncio.run` would wait for a plugin's task that ignores its cancellation."""
    import asyncio

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            UNENDED.update(loop.run_until_complete(asyncio.wait(tasks, timeout=_END_SECONDS))[1])
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
