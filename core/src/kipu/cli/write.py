"""``kipu remember``, ``kipu read``, ``kipu edit``, ``kipu move``, ``kipu forget`` and ``kipu undo``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from ..cli import print_error
from ..errors import QueryError
from ..markdown import entries
from ..types import Place
from ..workspace.paths import parse_place
from .common import TextCommand, memory_options, read_text, scope_option
from .output import LINES, Output, escape
from .search import print_result

if TYPE_CHECKING:
    from ..memory import Memory
    from ..types import Change, Listing, Note, Receipt

__all__ = [
    "edit_command",
    "forget_command",
    "move_command",
    "read_command",
    "remember_command",
    "undo_command",
]

_INCOMPLETE = 1


class _Place(click.ParamType[Any]):
    """One word that names an entry, a chunk, a file, or lines of a file."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if isinstance(value, dict) else parse_place(value)


PLACE = _Place()
_PLACE_HELP = (
    "PLACE is the id of an entry, as kipu list shows it; a chunk, as kipu search --json names it; or lines of a file: "
    "memory/team/2026-11-29.md:3-4"
)
all_option = click.option("--all", "all", is_flag=True, help="Allow a PLACE that names several entries.")


def _parse_metadata(pairs: tuple[str, ...]) -> dict[str, str]:
    metadata = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--metadata takes KEY=VALUE, not {pair!r}.")
        metadata[key] = value
    return metadata


def _print_note(output: Output, memory: Memory, note: Note, label: str) -> None:
    if output.json:
        output.data(note)
    elif not output.quiet:
        place = str(note.place)  # relative to the workspace
        if not os.path.samefile(memory.workspace, os.curdir):
            place = os.path.join(memory.workspace, place)
        output.line(f"{label} {escape(place)}{f'  {escape(note.id)}' if note.id else ''}")
        if note.replaced:
            output.line(f"Replaced: {escape(note.replaced, keep=LINES)}")
    output.notices(note.notices)
    output.notices(f"Nearly the same text is in {place}" for place in note.similar)


@click.command("remember", cls=TextCommand, epilog="Without TEXT, or with -, the text is read from standard input.")
@click.argument("text", nargs=-1)
@click.option("--source", help="The label of a source: a folder below memory/, created if missing.")
@click.option("--file", metavar="FILE", help="Write to this file instead of today's dated one.")
@click.option("--heading", help="Write at the end of the section with this heading, created if missing.")
@click.option("--tag", "tags", multiple=True, help="A tag. May be given several times.")
@click.option(
    "--metadata",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="Metadata of the text: session=42, or valid_until=2027-01-31.",
)
@click.option(
    "--supersedes",
    metavar="PLACE",
    help="What this replaces: an entry, by id, chunk or lines. Searches rank it lower.",
)
@scope_option
@memory_options
async def remember_command(
    output: Output,
    memory: Memory,
    *,
    text: tuple[str, ...],
    pairs: tuple[str, ...],
    **options: Any,
) -> None:
    """Write TEXT to a memory file, where every later search finds it."""
    note = await memory.remember(read_text(text), metadata=_parse_metadata(pairs), **options)
    _print_note(output, memory, note, "Already remembered:" if note.duplicate_of else "Remembered:")


@click.command("read", cls=TextCommand)
@click.argument("place", type=PLACE)
@scope_option
@memory_options
async def read_command(output: Output, memory: Memory, *, place: dict[str, Any]) -> None:
    """Print an entry, a memory file, or some of its lines.

    PLACE is the id of an entry, a chunk, a file, or lines of one, such as memory/team/2026-11-29.md:3-4
    """
    text = await memory.read(**place)
    if output.json:
        output.data(place | {"text": text})
    else:
        output.line(escape(text, keep=LINES))


@click.command("edit", cls=TextCommand, epilog=_PLACE_HELP)
@click.argument("place", type=PLACE)
@click.argument("text", nargs=-1)
@all_option
@scope_option
@memory_options
async def edit_command(
    output: Output, memory: Memory, *, place: dict[str, Any], text: tuple[str, ...], all: bool
) -> None:
    """Replace an entry, a chunk, or lines of a file, with TEXT.

    Without TEXT, or with -, the text is read from standard input. The rest of the file stays as it is.
    """
    note = await memory.edit(read_text(text), **place, all=all)
    _print_note(output, memory, note, "Changed:" if note.replaced else "Unchanged:")


@click.command("move", cls=TextCommand, epilog=_PLACE_HELP)
@click.argument("place", type=PLACE)
@click.argument("to")
@all_option
@scope_option
@memory_options
async def move_command(output: Output, memory: Memory, *, place: dict[str, Any], to: str, all: bool) -> None:
    """Move an entry, a chunk, or lines of a file, to the end of the file TO; or move a whole file.

    TO is relative to the workspace if it is below memory/ there, else to memory/.
    """
    _print_note(output, memory, await memory.move(to, **place, all=all), "Moved to:")


@click.command("forget", cls=TextCommand, epilog=_PLACE_HELP)
@click.argument("place", type=PLACE, required=False)
@click.option("--query", help="Search, and ask for each result whether to forget it.")
@click.option(
    "-n", "--max-results", type=int, default=6, show_default=True, help="How many results to show for --query."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask. Not for --query.")
@all_option
@scope_option
@memory_options
async def forget_command(
    output: Output,
    memory: Memory,
    *,
    place: dict[str, Any] | None,
    query: str | None,
    max_results: int,
    yes: bool,
    all: bool,
) -> int:
    """Delete a text from its file, from every index and from the cache, for good. This cannot be undone.

    The receipt says where the text was, and that none of these places has it any more.
    """
    if (place is None) == (query is None):
        raise click.UsageError("Give either a PLACE or a --query.")
    if query is not None and (yes or output.json):
        raise click.UsageError(
            "--query asks for each result: it takes no --json and no --yes. To skip the prompt: kipu forget PLACE --yes"
        )
    if output.json and not yes:
        raise click.UsageError("--json prints no prompt. Add --yes.")

    receipts = []
    if query is not None:
        receipts = await _forget_results(memory, output, query, max_results, all=all)
    elif yes:
        receipts = [await memory.forget(**(place or {}), all=all)]
    else:
        text = await memory.read(**(place or {}), all=all)
        print_error(escape(f"{text}\n", keep=LINES))
        if _confirm(text):  # the file may change during the prompt: forget only what was shown
            receipts = [await memory.forget(**(place or {}), expected=text, all=all)]
    if output.json:
        output.data([_as_json(receipt) for receipt in receipts])
    for receipt in receipts:
        if not output.json:
            _print_receipt(output, receipt)
        output.notices(receipt.notices)
        output.notices(f"The same text is also in {place}, and was not deleted." for place in receipt.elsewhere)
    if not receipts:
        output.note("Nothing was forgotten.")
    return _INCOMPLETE if any(trace.after for receipt in receipts for trace in receipt.traces) else 0


async def _forget_results(memory: Memory, output: Output, query: str, max_results: int, *, all: bool) -> list[Receipt]:
    """Ask for each result of a search whether to forget it, and do so."""
    results = await memory.search(query, max_results=max_results)
    output.notices(results.notices)
    if not results:
        output.note("No results.")
    receipts = []
    for rank, result in enumerate(results, 1):
        print_result(Output(), rank, result, full=True)
        if _confirm(result.text):
            receipts.append(await memory.forget(chunk=result.chunk, all=all))
    return receipts


def _confirm(text: str) -> bool:
    """Ask whether to forget a text."""
    count = sum(entry.has_id for entry in entries(text.split("\n")))
    question = f"Forget all {count} entries?" if count > 1 else "Forget this?"
    return _ask(f"{question} This cannot be undone.", "nothing was forgotten", "kipu forget PLACE --yes")


def _ask(question: str, result: str, command: str) -> bool:
    try:
        return click.confirm(question, err=True)
    except (click.Abort, OSError):
        raise QueryError(f"No answer, so {result}. To skip the prompt: {command}") from None


def _as_json(receipt: Receipt) -> dict[str, Any]:
    from attrs import asdict

    return asdict(receipt) | {"complete": receipt.complete}


def _print_receipt(output: Output, receipt: Receipt) -> None:
    place = Place(receipt.path, receipt.start_line, receipt.end_line)
    output.line(f"Forgotten: {escape(str(place))} (SHA-256 {receipt.sha256[:16]}...)")
    rows = [[trace.place, str(trace.before), str(trace.after)] for trace in receipt.traces]
    output.table(["place", "before", "now"], rows)


@click.command("undo", cls=TextCommand)
@click.argument("change", required=False)
@click.option("--list", "is_list", is_flag=True, help="List the changes that can be taken back, the newest first.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@scope_option
@memory_options
async def undo_command(output: Output, memory: Memory, *, change: str | None, is_list: bool, yes: bool) -> None:
    """Take back a change: of remember, edit, move, flush or compact.

    Without CHANGE, the last one that was not taken back. What forget deleted does not come back, and changes of
    files outside the workspace cannot be undone: after either, name an earlier CHANGE.
    """
    if is_list:
        _print_changes(output, await memory.changes())
        return
    if output.json and not yes:
        raise click.UsageError("--json prints no prompt. Add --yes.")
    if not yes:
        shown = await memory.undo(change, dry_run=True)
        print_error(escape(f"{shown.diff}\n", keep=LINES))
        if not _ask(f"Undo this {shown.kind}?", "nothing was undone", "kipu undo --yes"):
            output.note("Nothing was undone. Earlier changes: kipu undo --list")
            return
        change = shown.name  # others may write during the prompt: undo only what was shown
    undone = await memory.undo(change)
    if output.json:
        output.data(undone)
    elif not output.quiet:
        output.line(f"Undone: {undone.kind} {undone.name} ({escape(', '.join(undone.paths))})")
    output.notices(undone.notices)
    output.note(f"To take that back: kipu undo {undone.undone_by}")


def _print_changes(output: Output, changes: Listing[Change]) -> None:
    output.notices(changes.notices)
    if output.json:
        output.data(changes)
        return
    rows = [
        [each.name, each.kind, each.time.astimezone().strftime("%Y-%m-%d %H:%M"), ", ".join(each.paths)]
        for each in changes
    ]
    output.table(["change", "kind", "time", "files"], rows)
