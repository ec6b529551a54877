"""``kipu watch``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import attrs
import click

from ..cli import silence
from .common import open_memory, run, scope_option, shared_options
from .output import Output, escape

if TYPE_CHECKING:
    from pathlib import Path

    from ..watch import Event, FileSummary

__all__ = ["watch_command"]

_ALREADY_WATCHED = 5


@click.command("watch")
@scope_option
@shared_options
def watch_command(output: Output, workspace: Path, *, scope: str | None) -> int:
    """Index what changes on disk, as it changes, until Ctrl-C.

    With --json, each change is a line of JSON.

    Searches check the files by themselves. Watch a workspace to see its changes, or so that the first search after many
    changes need not wait for them.
    """
    closed, problems = asyncio.Event(), list[OSError]()

    def show(event: Event, path: str, summary: FileSummary) -> None:
        try:
            if output.json:
                output.data_line({"event": event, "path": path} | attrs.asdict(summary))
            elif not output.quiet:
                output.data_line(f"{event} {escape(path)} ({escape(str(summary))})")
        except OSError as error:
            problems.append(error)
            closed.set()

    async def work() -> int:
        async with open_memory(workspace, output, scope) as memory:
            if not await memory.start_watching(show, on_problem=output.note):
                output.note(f"Another process already watches {memory.workspace}. Searches find what it indexes.")
                return _ALREADY_WATCHED
            output.note(f"Watching {memory.workspace}. To stop: Ctrl-C")
            await closed.wait()
            silence(1)
            if not isinstance(problems[0], BrokenPipeError):
                raise problems[0]
            return 0

    return run(work())
