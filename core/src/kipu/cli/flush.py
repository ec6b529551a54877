"""``kipu flush`` and ``kipu compact``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import QueryError
from ..search.query import unknown_source
from .common import memory_options, scope_option
from .output import LINES, escape

if TYPE_CHECKING:
    from ..memory import Memory
    from .output import Output

__all__ = ["compact_command", "flush_command"]


@click.command("flush")
@click.argument("file", required=False, metavar="[FILE.json]")
@click.option("--source", help="The label of a source: a folder below memory/, created if missing.")
@click.option("--model", help="The model to use instead of the configured one.")
@click.option("--instructions", help="Further instructions for the model, such as what matters here.")
@click.option("--dry-run", is_flag=True, help="Ask the model, and print the result instead of writing it.")
@scope_option
@memory_options
async def flush_command(
    output: Output, memory: Memory, *, file: str | None, dry_run: bool, **options: str | None
) -> None:
    """Have a model distil what is worth keeping from a conversation, and remember it.

    FILE.json is a list of messages as OpenAI or Anthropic have them; by default it is read from standard input. Set the
    model in kipu.toml: [flush] flusher = { use = "litellm", model = "..." }
    """
    conversation = _read_conversation(file)
    output.waiting("Asking the model")
    flushed = await memory.flush(conversation, dry_run=dry_run, **options)
    if output.json:
        output.data(flushed)
    elif flushed is not None:
        output.line(escape(flushed.text, keep=LINES))
    if flushed is None:
        output.note("Nothing new to remember.")
    else:
        output.notices(flushed.notices)
        output.note(f"{'Would be written to' if dry_run else 'Written to'} {escape(flushed.path)}.")


def _read_conversation(file: str | None) -> Any:
    """Read a conversation from a file, or from standard input."""
    name = "standard input" if file in (None, "-") else str(file)
    try:
        data = sys.stdin.buffer.read() if file in (None, "-") else Path(name).read_bytes()
    except OSError as error:
        raise QueryError(f"{name} cannot be read: {error.strerror or error}.") from None
    try:
        return json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise QueryError(f"{name} is not JSON in UTF-8: {error}.") from None


@click.command("compact")
@click.option("--source", help="The source to compact. By default files directly in memory/.")
@click.option("--older-than", metavar="DAYS", default="30", show_default=True,
              help="Only files older than this number of days, or from before this date.")  # fmt: skip
@click.option("--max-tokens", type=int, help="How many tokens of old files to distil at most. [default: 20000]")
@click.option("--model", help="The model to use instead of the configured one.")
@click.option("--instructions", help="Further instructions for the model.")
@click.option("--dry-run", is_flag=True, help="Ask the model, and print the summary instead of writing it.")
@scope_option
@memory_options
async def compact_command(
    output: Output,
    memory: Memory,
    *,
    source: str | None,
    older_than: str,
    dry_run: bool,
    **options: Any,
) -> None:
    """Have a model distil old dated files into one summary, and move them to memory/archive/.

    Searches leave the archive out, unless they name it: kipu search --source archive
    """
    output.waiting("Asking the model")
    age = int(older_than) if older_than.isdecimal() and len(older_than) < 10 else older_than
    compacted = await memory.compact(source, age, dry_run=dry_run, **options)
    if compacted is None and source is not None:
        sources = (await memory.status()).sources
        output.notices([unknown_source(source, sources)] if source not in sources else [])
    if output.json:
        output.data(compacted)
    if compacted is None:
        output.note("Nothing to compact.")
        return
    if not output.json:
        output.line(escape(compacted.text.rstrip("\n"), keep=LINES))
    output.notices(compacted.notices)
    for original, archived in compacted.archived.items():
        output.note(f"{original} -> {archived}")
    if dry_run:
        output.note(f"Would be written to {compacted.path}.")
    else:
        output.note(f"Written to {compacted.path}. To undo: kipu undo {compacted.change}")
