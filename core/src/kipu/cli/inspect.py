"""``kipu files``, ``kipu list``, ``kipu status`` and ``kipu plugins``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..config import load_config
from ..errors import ConfigurationError
from ..markdown import canonical
from ..search.query import unknown_source
from ..types import Place
from ..workspace.paths import Workspace
from .common import filter_options, given, load_plugins, memory_options, scope_option, shared_options
from .output import Output, conflict, count, escape, missing_folder

if TYPE_CHECKING:
    from pathlib import Path

    from ..memory import Memory
    from ..types import FileInfo

__all__ = ["files_command", "list_command", "plugins_command", "status_command"]

_SHOWN_CHARACTERS = 80


@click.command("files")
@filter_options
@memory_options
async def files_command(output: Output, memory: Memory, **options: Any) -> None:
    """Bring the index up to date, and list its files."""
    filters = given(options)
    files = await memory.files(**filters)
    output.notices(files.notices)
    if not files:
        status = await memory.status()
        known, scope = status.sources, click.get_current_context().params["scope"]
        above = {*known, *(label.partition("/")[0] for label in known)}
        unknown = [unknown_source(source, known) for source in options["source"] if source not in above]
        if unknown:
            output.notices(unknown)
        elif filters:
            output.note("No memory file passes the filters.")
        elif scope is not None:
            output.note(f'No memory file belongs to the scope "{scope}".')
        else:
            output.note("No memory files.")
    if output.json:
        output.data([_file(file) for file in files])
        return
    output.table(
        ("path", "source", "date", "chunks", "bytes", "problem"),
        [
            (
                file.path,
                file.source,
                str(file.date or "evergreen"),
                str(file.chunks),
                str(file.size),
                file.problem or "",
            )
            for file in files
        ],
    )


def _file(file: FileInfo) -> dict[str, object]:
    return {
        "path": file.path,
        "source": file.source,
        "date": file.date,
        "evergreen": file.evergreen,
        "size": file.size,
        "chunks": file.chunks,
        "problem": file.problem,
    }


@click.command("list")
@filter_options
@memory_options
async def list_command(output: Output, memory: Memory, **options: Any) -> None:
    """List the entries of all memory files: items of lists, and paragraphs with metadata.

    The id of an entry is a PLACE for kipu read, edit, move and forget, and for kipu remember --supersedes.
    """
    found = await memory.entries(**given(options))
    output.notices(found.notices)
    if output.json:
        output.data(found)
        return
    if not found:
        output.note("No entries.")
        return
    rows = []
    for entry in found:
        text = canonical(entry.text)
        shown = text if output.verbose or len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."
        rows.append((entry.id, str(Place(entry.path, entry.start_line, entry.end_line)), entry.outdated, shown))
    output.table(("id", "place", "outdated", "text"), rows)


@click.command("status")
@scope_option
@memory_options
async def status_command(output: Output, memory: Memory) -> None:
    """Show what is indexed, what is pending and what was skipped. Changes nothing."""
    status = await memory.status()
    if output.json:
        output.data(status)
        return
    sources = ", ".join(f"{escape(label)} ({files:,})" for label, files in status.sources.items())
    output.line(f"workspace       {status.workspace}")
    output.line(f"files           {status.files:,}")
    output.line(f"chunks          {status.chunks:,}")
    output.line(f"sources         {sources or 'none'}")
    output.line(f"pending         {len(status.pending):,}")
    output.line(f"chunker         {status.chunker}")
    output.line(f"strategy        {status.strategy}")
    output.line(f"embedder        {status.embedder or 'none: search by keywords'}")
    if status.embedder:
        output.line(f"not embedded    {count(status.pending_vectors, 'chunk')}")
    if status.annotator:
        output.line(f"annotator       {status.annotator}")
        output.line(f"not annotated   {count(status.pending_annotations, 'chunk')}")
    if output.verbose:
        for identity, vectors in status.vectors.items():
            output.line(f"vectors         {vectors:,} of {escape(identity)}")
    output.line(f"post-processors {', '.join(status.postprocessors) or 'none'}")
    output.line(f"write filters   {', '.join(status.filters) or 'none: secrets are written as they are'}")
    size = f" ({status.index_bytes / 1e6:.1f} MB)" if status.index_bytes else ""
    output.line(f"index           {status.index_path}{' (does not exist yet)' if status.index_bytes == 0 else size}")
    if output.verbose:
        for path in status.pending:
            output.line(f"pending: {escape(path)}")
    output.skipped(status.skipped)
    output.notices(conflict(*names) for names in status.conflicts.items())
    output.notices(status.notices)
    output.notices(missing_folder(folder) for folder in status.missing)


@click.command("plugins")
@shared_options
def plugins_command(output: Output, workspace: Path) -> int:
    """List the installed plugins: what each registers, whether it is in use, and if not, why."""
    Workspace(workspace)  # a missing workspace has a message of its own
    plugins, code = load_plugins(workspace), 0
    try:
        load_config(workspace)
    except ConfigurationError as error:
        output.note(f"Error: {error}")
        code = error.exit_code
    if output.json:
        output.data({"plugins": plugins.infos, "problems": plugins.problems})
        return code
    output.table(
        ("distribution", "version", "plugin", "registers", "state", "reason"),
        [
            (info.distribution, info.version, info.name, ", ".join(info.registers), info.state, info.reason)
            for info in plugins.infos
        ],
    )
    if not plugins.infos:
        output.note("No plugin is installed. The standard ones come with: pip install kipu")
    output.notices(plugins.problems)
    return code
