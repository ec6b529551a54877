"""``kipu watch``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import attrs
import click

from ..cli import leave
from .common import Output, harmless, open_memory, run, scope_option, shared_options

if TYPE_CHECKING:
    from pathlib import Path

    from ..watch import Event, FileSummary

__all__ = ["watch_command"]

_ANOTHER_WATCHES = 5


@click.command("watch")
@scope_option
@shared_options
def watch_command(output: Output, workspace: Path, *, scope: str | None) -> int:
    """Take in what changes on disk, as it changes, until Ctrl-C, or until nobody reads it any more.

    With --json, each change is a line of JSON.

    Searches look at the files by themselves: this is for who wants to see changes, and for large workspaces.
    """
    nobody_reads, problems = asyncio.Event(), list[OSError]()

    def show(event: Event, path: str, summary: FileSummary) -> None:
        try:
            if output.json:
                output.data_line({"event": event, "path": path} | attrs.asdict(summary))
            elif not output.quiet:
                output.data_line(f"{event} {harmless(path)} ({harmless(str(summary))})")
        except OSError as error:
            problems.append(error)
            nobody_reads.set()

    async def work() -> int:
        async with open_memory(workspace, output, scope) as memory:
            if not await memory.start_watching(show, on_problem=output.note):
                output.note(f"Another process watches {memory.workspace} already. Searches find what it takes in.")
                return _ANOTHER_WATCHES
            output.note(f"Watching {memory.workspace}. To stop: Ctrl-C")
            await nobody_reads.wait()
            leave(1)
            if not isinstance(problems[0], BrokenPipeError):
                raise problems[0]
            return 0

    return run(work())
