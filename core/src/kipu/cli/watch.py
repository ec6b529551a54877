"""``kipu watch``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import attrs
import click

from ..cli import silence
from .common import memory_options, scope_option
from .output import escape

if TYPE_CHECKING:
    from ..memory import Memory
    from ..watch import Event, FileSummary
    from .output import Output

__all__ = ["watch_command"]

_ALREADY_WATCHED = 5


@click.command("watch")
@scope_option
@memory_options
async def watch_command(output: Output, memory: Memory) -> int:
    """Index what changes on disk, as it changes, until Ctrl-C.

    With --json, each change is a line of JSON.

    Searches check the files by themselves. Watch a workspace to see its changes, or so that the first search after many
    changes need not wait for them.
    """
    closed: asyncio.Future[OSError] = asyncio.get_running_loop().create_future()

    def show(event: Event, path: str, summary: FileSummary) -> None:
        try:
            if output.json:
                output.data_line({"event": event, "path": path} | attrs.asdict(summary))
            elif not output.quiet:
                output.data_line(f"{event} {escape(path)} ({escape(str(summary))})")
        except OSError as error:
            if not closed.done():
                closed.set_result(error)

    if not await memory.start_watching(show, on_problem=output.note):
        output.note(f"Another process already watches {memory.workspace}. Searches find what it indexes.")
        return _ALREADY_WATCHED
    output.note(f"Watching {memory.workspace}. To stop: Ctrl-C")
    error = await closed
    silence(1)
    if not isinstance(error, BrokenPipeError):
        raise error
    return 0
