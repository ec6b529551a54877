"""``kipu flush`` and ``kipu compact``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import QueryError
from ..search.query import unknown_source
from .common import Output, harmless, open_memory, run, scope_option, shared_options

if TYPE_CHECKING:
    from ..types import Compacted, Flushed

__all__ = ["compact_command", "flush_command"]

LINES = "\n\t"


@click.command("flush")
@click.argument("file", required=False, metavar="[FILE.json]")
@click.option("--source", help="The label of a source: a folder below memory/, made if need be.")
@click.option("--model", help="The model to ask, instead of the configured one.")
@click.option("--instructions", help="What else the model should know, such as what matters here.")
@click.option("--dry-run", is_flag=True, help="Ask the model, write nothing, and show what would be written.")
@scope_option
@shared_options
def flush_command(
    output: Output, workspace: Path, *, file: str | None, dry_run: bool, scope: str | None, **options: str | None
) -> None:
    """Have a model distil what is worth keeping out of a conversation, and remember it.

    FILE.json has a list of messages in the shape of OpenAI or of Anthropic; without it, they are read from standard
    input. Which model is asked, kipu.toml says: [flush] flusher = { use = "litellm", model = "..." }
    """
    conversation = _conversation(file)

    async def work() -> Flushed | None:
        async with open_memory(workspace, output, scope) as memory:
            output.waiting("Asking the model")
            flushed = await memory.flush(conversation, dry_run=dry_run, **options)
            output.notices(memory.plugins.problems)
            return flushed

    flushed = run(work())
    if output.json:
        output.data(flushed)
    elif flushed is not None:
        output.line(harmless(flushed.text, keep=LINES))
    if flushed is None:
        output.note("Nothing new to remember.")
    else:
        output.notices(flushed.notices)
        what = "Would be written to" if dry_run else "Written to"
        output.note(f"{what} {harmless(flushed.path)}.")


def _conversation(file: str | None) -> Any:
    """The conversation in a file, or on standard input."""
    name = "standard input" if file in (None, "-") else str(file)
    try:
        data = sys.stdin.buffer.read() if file in (None, "-") else Path(name).read_bytes()
    except OSError as error:
        raise QueryError(f"{name} cannot be read: {error.strerror or error}.") from None
    try:
        return json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise QueryError(f"{name} is no JSON in UTF-8: {error}.") from None


@click.command("compact")
@click.option("--source", help="The label of the source to compact. By default files directly in memory/.")
@click.option("--older-than", metavar="DAYS", default="30", show_default=True,
              help="Only files that are older than so many days, or from before a date.")  # fmt: skip
@click.option("--max-tokens", type=int, help="How many tokens of old files to take at most. By default 20,000.")
@click.option("--model", help="The model to ask, instead of the configured one.")
@click.option("--instructions", help="What else the model should know.")
@click.option("--dry-run", is_flag=True, help="Ask the model, write and move nothing, and show what would be.")
@click.option("--undo", metavar="SUMMARY", help="Put the originals of a summary back where they were.")
@scope_option
@shared_options
def compact_command(
    output: Output,
    workspace: Path,
    *,
    source: str | None,
    older_than: str,
    dry_run: bool,
    undo: str | None,
    scope: str | None,
    **options: Any,
) -> None:
    """Have a model distil old dated files into one summary, and move them to memory/archive/.

    Searches leave the archive out unless they ask for it: kipu search --source archive
    """

    async def work() -> Compacted | None:
        async with open_memory(workspace, output, scope) as memory:
            if undo is not None:
                return await memory.undo_compact(undo)
            output.waiting("Asking the model, if there is something to compact")
            age = int(older_than) if older_than.isdecimal() else older_than
            compacted = await memory.compact(source, age, dry_run=dry_run, **options)
            if compacted is None and source is not None:
                sources = (await memory.status()).sources
                output.notices([unknown_source(source, sources)] if source not in sources else [])
            return compacted

    compacted = run(work())
    if output.json:
        output.data(compacted)
    if compacted is None:
        output.note("Nothing to compact.")
        return
    if not output.json and undo is None:
        output.line(harmless(compacted.text.rstrip("\n"), keep=LINES))
    output.notices(compacted.notices)
    if undo is not None:
        for kept, original in compacted.archived.items():
            output.note(f"{kept} -> {original}")
        output.note(f"The summary is in {compacted.path} now.")
        return
    for original, kept in compacted.archived.items():
        output.note(f"{original} -> {kept}")
    what = "Would be written to" if dry_run else "Written to"
    undoing = "" if dry_run else f" To undo: kipu compact --undo {compacted.path}"
    output.note(f"{what} {compacted.path}.{undoing}")
