"""``kipu demo``."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..config import CONFIG_FILE
from ..demo import SEARCHES
from .common import load_plugins, open_memory, run, shared_options
from .output import escape
from .search import as_json, print_result
from .workspace import folder_to_make

if TYPE_CHECKING:
    from .output import Output

__all__ = ["demo_command"]

_SHOWN = 2


@click.command("demo")
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
@shared_options
def demo_command(output: Output, workspace: Path, folder: Path | None) -> None:
    """Create the memory of a small project in FOLDER (kipu-demo), index it and run seven searches.

    The notes are invented: six weeks of two coding agents and their team at a ferry-booking service.
    """
    folder = folder_to_make(folder, workspace, Path("kipu-demo"))
    plugins = load_plugins(folder)
    plugins.find("chunker", "markdown")  # before anything is written: without plugins there is nothing to show
    plugins.find("strategy", "keyword")
    _copy_notes(folder)

    async def work() -> list[dict[str, object]]:
        found = []
        async with open_memory(folder, output) as memory:
            with output.progress("Indexing") as on_progress:
                with output.progress("Embedding") as on_embedding:
                    report = await memory.index(on_progress=on_progress, on_embedding=on_embedding)
                output.notices(report.notices)
            if not output.json:
                files = report.added or report.unchanged
                output.line(f"{escape(str(folder))}: {files} memory files, {report.chunks} chunks.\n")
            for search in SEARCHES:
                options: dict[str, Any] = dict(search.options)
                results = await memory.search(search.query, max_results=_SHOWN, **options)
                found.append({"why": search.why, **as_json(search.query, results)})
                if not output.json:
                    output.line(click.style(f"$ {_command(search.query, search.options)}", bold=True))
                    output.line(f"# {search.why}")
                    for rank, result in enumerate(results, 1):
                        print_result(output, rank, result)
        return found

    found = run(work())
    if output.json:
        output.data({"workspace": str(folder.resolve()), "searches": found})
        return
    output.line("Now try your own, and read or change the notes with any editor:")
    output.line(f"  cd {escape(shlex.quote(str(folder)))}")
    output.line('  kipu search "HOLD_TTL_SECONDS" --since 2026-10-01 --full')
    output.line("  kipu files --source juno")
    output.line("  kipu status")
    output.line("In your own project: kipu init")


def _command(query: str, options: dict[str, str]) -> str:
    flags = "".join(f" --{name} {shlex.quote(value)}" for name, value in options.items())
    return f"kipu search {shlex.quote(query)} -n {_SHOWN}{flags}"


def _copy_notes(folder: Path) -> None:
    """Copy the notes of the demo, unless they are there. Refuse a folder with anything else in it."""
    if os.path.exists(folder) and any(folder.iterdir()):
        if (folder / CONFIG_FILE).is_file() and (folder / "memory" / "runbook.md").is_file():
            return
        raise click.UsageError(
            f"{folder} is not empty and is not an earlier demo. Name another folder: kipu demo FOLDER"
        )
    notes = Path(__file__).parent.parent / "demo" / "memory"
    try:
        shutil.copytree(notes, folder / "memory", dirs_exist_ok=True)
        (folder / CONFIG_FILE).write_text(
            "# The demo needs no options. `kipu init` writes a file that lists them.\n", "utf-8"
        )
    except OSError as error:
        raise click.ClickException(f"Cannot create the demo in {folder}: {error}") from error
