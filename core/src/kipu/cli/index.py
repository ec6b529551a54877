"""``kipu index``, ``kipu reindex`` and ``kipu add``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs
import click

from ..cli import print_error
from ..errors import MemoryFileError, OutsideWorkspaceError
from ..workspace.paths import MEMORY_FOLDER
from .common import TextCommand, memory_options
from .output import Output, count, escape, missing_folder

if TYPE_CHECKING:
    from ..memory import Memory
    from ..types import IndexReport

__all__ = ["add_command", "index_command", "reindex_command"]

INCOMPLETE = 4


@click.command("index")
@click.option("--force", is_flag=True, help="Read every file and rebuild everything, changed or not.")
@click.option("--prune", is_flag=True, help="Remove files whose folder is missing from the index.")
@memory_options
async def index_command(output: Output, memory: Memory, *, force: bool, prune: bool) -> int:
    """Bring the index up to date with the memory files, and embed and annotate all of it.

    Only what changed is read and embedded. Every search does the same, except for long embedding and annotating.
    """
    with (
        output.progress("Indexing") as on_progress,
        output.progress("Embedding") as on_embedding,
        output.progress("Annotating") as on_annotating,
    ):
        report = await memory.index(
            force=force, prune=prune, on_progress=on_progress, on_embedding=on_embedding, on_annotating=on_annotating
        )
    _print_report(output, report)
    is_empty = not (report.chunks or report.added or report.unchanged or report.removed or report.renamed)
    if is_empty:
        output.note(
            f"Nothing to index: {memory.workspace} has no Markdown file in {MEMORY_FOLDER}/. "
            "Create a workspace with: kipu init. Or try the demo: kipu demo"
        )
    return INCOMPLETE if is_empty else _code(report)


@click.command("reindex")
@click.option("--embedder", metavar="NAME", help="The embedder. By default the configured one.")
@click.option("--force", is_flag=True, help="Embed also what already has a vector.")
@memory_options
async def reindex_command(output: Output, memory: Memory, *, embedder: str | None, force: bool) -> int:
    """Embed everything with another embedder, before or after the configuration names it.

    Meanwhile searches use the vectors that there are. An embedder's options, such as litellm's model, come from the
    configuration.
    """
    with output.progress("Embedding") as on_progress:
        report = await memory.reindex(embedder, force=force, on_progress=on_progress)
    _print_report(output, report)
    return _code(report)


@click.command("add", cls=TextCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option("--force", is_flag=True, help="Chunk the files again, changed or not.")
@memory_options
async def add_command(output: Output, memory: Memory, *, files: tuple[str, ...], force: bool) -> int:
    """Index single files now, and keep them in the index wherever they are in the workspace.

    FILE is a path, relative to this folder or absolute.
    """
    reports, failed = [], []
    codes: set[int] = set()
    for file in files:
        try:
            reports.append(await memory.add(os.path.abspath(file), force=force))
        except (MemoryFileError, OutsideWorkspaceError) as error:
            failed.append({"path": file, "reason": str(error)})
            codes.add(error.exit_code)
            print_error(f"Error: {escape(str(error))}")
    output.notices(note for report in reports for note in report.notices)
    counts = {name: sum(getattr(report, name) for report in reports) for name in ("added", "changed", "unchanged")}
    counts["chunks"] = reports[-1].chunks if reports else 0
    if output.json:
        output.data(counts | {"failed": failed})
    elif not output.quiet and reports:
        output.line(_format_counts(counts))
    return codes.pop() if len(codes) == 1 else INCOMPLETE if codes else 0


def _code(report: IndexReport) -> int:
    failed = [file for file in report.skipped if not file.outside]
    return INCOMPLETE if failed or report.pending_vectors else 0


def _print_report(output: Output, report: IndexReport) -> None:
    if output.json:
        output.data(report)
    elif not output.quiet:
        done = f", {count(report.embedded, 'text')} embedded" if report.embedded else ""
        done += f", {count(report.annotated, 'chunk')} annotated" if report.annotated else ""
        output.line(f"{_format_counts(attrs.asdict(report, recurse=False))}{done} ({report.seconds:.2f} s)")
    output.notices(report.notices)
    output.skipped(report.skipped)
    if report.pending_vectors:
        output.note(f"Not embedded yet: {count(report.pending_vectors, 'chunk')}.")
    if report.pending_annotations:
        output.note(f"Not annotated yet: {count(report.pending_annotations, 'chunk')}.")
    output.notices(missing_folder(folder) for folder in report.missing)


def _format_counts(counts: dict[str, int]) -> str:
    kinds = ("added", "changed", "renamed", "removed", "unchanged")
    files = ", ".join(f"{counts[kind]:,} {kind}" for kind in kinds if counts.get(kind))
    return f"{files or 'no files'}; {count(counts['chunks'], 'chunk')} in the index"
