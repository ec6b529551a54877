"""``kipu index``, ``kipu reindex`` and ``kipu add``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import click

from ..cli import tell
from ..errors import MemoryFileError, OutsideWorkspaceError
from ..workspace.scan import MEMORY_FOLDER
from .common import Output, count, harmless, open_memory, run, shared_options
from .words import Words

if TYPE_CHECKING:
    from pathlib import Path

    from ..memory import Memory
    from ..types import IndexReport

__all__ = ["add_command", "index_command", "reindex_command"]

NOTHING_INDEXED = 4


@click.command("index")
@click.option("--force", is_flag=True, help="Read every file and build everything anew, changed or not.")
@click.option("--prune", is_flag=True, help="Forget files whose folder is missing.")
@shared_options
def index_command(output: Output, workspace: Path, *, force: bool, prune: bool) -> int:
    """Bring the index up to date with the memory files, and embed all of it.

    Only what changed is read and embedded. A search does the same by itself as far as it takes a moment.
    """

    async def work() -> tuple[IndexReport, bool]:
        async with open_memory(workspace, output) as memory:
            with output.progress("Indexing") as on_progress, output.progress("Embedding") as on_embedding:
                report = await memory.index(
                    force=force, prune=prune, on_progress=on_progress, on_embedding=on_embedding
                )
            output.notices(memory.plugins.problems)
            return report, _found_nothing(memory, report)

    report, nothing = run(work())
    if output.json:
        output.data(report)
    elif not output.quiet:
        output.line(_summary(report))
    _tell(output, report)
    if nothing:
        output.note(
            f"Nothing to index: {workspace} has no Markdown file in {MEMORY_FOLDER}/. "
            "Make a workspace with: kipu init. Or see one first: kipu demo"
        )
    return NOTHING_INDEXED if nothing or report.skipped or report.pending_vectors else 0


@click.command("reindex")
@click.option("--embedder", metavar="NAME", help="The embedder. By default the one that is used.")
@click.option("--force", is_flag=True, help="Embed also what has a vector already.")
@shared_options
def reindex_command(output: Output, workspace: Path, *, embedder: str | None, force: bool) -> int:
    """Embed everything with another embedder, before or after the configuration names it.

    The vectors of the one that is used stay, and go on answering meanwhile. An embedder that needs options, as litellm
    needs its model, is told them by the configuration.
    """

    async def work() -> IndexReport:
        async with open_memory(workspace, output) as memory:
            with output.progress("Embedding") as on_progress:
                report = await memory.reindex(embedder, force=force, on_progress=on_progress)
            output.notices(memory.plugins.problems)
            return report

    report = run(work())
    if output.json:
        output.data(report)
    elif not output.quiet:
        output.line(_summary(report))
    _tell(output, report)
    return NOTHING_INDEXED if report.skipped or report.pending_vectors else 0


@click.command("add", cls=Words)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option("--force", is_flag=True, help="Chunk the files anew, changed or not.")
@shared_options
def add_command(output: Output, workspace: Path, files: tuple[str, ...], *, force: bool) -> int:
    """Index single files now, and keep them in the memory wherever they are in the workspace.

    FILE is a path, relative to this folder or absolute.
    """
    import os

    total, failed = [], []
    codes: set[int] = set()

    async def work() -> None:
        async with open_memory(workspace, output) as memory:
            for file in files:
                try:
                    total.append(await memory.add(os.path.abspath(file), force=force))
                except (MemoryFileError, OutsideWorkspaceError) as error:
                    failed.append({"path": file, "reason": str(error)})
                    codes.add(error.exit_code)
                    tell(f"Error: {harmless(str(error))}")

    run(work())
    output.notices(note for report in total for note in report.notices)
    counts = {name: sum(getattr(report, name) for report in total) for name in ("added", "changed", "unchanged")}
    if output.json:
        output.data(counts | {"chunks": total[-1].chunks if total else 0, "failed": failed})
    elif not output.quiet and total:
        output.line(_counted(counts | {"chunks": total[-1].chunks}))
    return codes.pop() if len(codes) == 1 else NOTHING_INDEXED if codes else 0


def _found_nothing(memory: Memory, report: IndexReport) -> bool:
    return not (report.chunks or report.added or report.unchanged or report.removed or report.renamed)


def _summary(report: IndexReport) -> str:
    embedded = f", {count(report.embedded, 'text')} embedded" if report.embedded else ""
    return f"{_counted(attrs.asdict(report, recurse=False))}{embedded} ({report.seconds:.2f} s)"


def _counted(counts: dict[str, int]) -> str:
    kinds = ("added", "changed", "renamed", "removed", "unchanged")
    said = [f"{counts[kind]:,} {kind}" for kind in kinds if counts.get(kind)]
    return f"{', '.join(said) or 'no files'}; {count(counts['chunks'], 'chunk')} in the index"


def _tell(output: Output, report: IndexReport) -> None:
    output.notices(report.notices)
    output.skipped(report.skipped)
    if report.pending_vectors:
        output.note(f"Not embedded yet: {count(report.pending_vectors, 'chunk')}.")
    for folder in report.missing:
        output.note(f"{folder} is missing; what was indexed of it is kept. If it is gone for good: kipu index --prune")
