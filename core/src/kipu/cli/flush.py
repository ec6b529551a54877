"""``kipu flush`` and ``kipu compact``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import QueryError
from ..search.query import unknown_source
from .common import memory_options, read_standard_input, scope_option
from .output import LINES, escape

if TYPE_CHECKING:
    from ..memory import Memory
    from .output import Output

__all__ = ["compact_command", "flush_command"]


@click.command("flush")
@click.argument("file", required=False, metavar="[FILE]")
@click.option("--source", help="The label of a source: a folder below memory/, created if missing.")
@click.option("--model", help="The model to use instead of the configured one.")
@click.option("--instructions", help="Further instructions for the model, such as what matters here.")
@click.option("--dry-run", is_flag=True, help="Ask the model, and print the result instead of writing it.")
@click.option("--apply", "reviewed", metavar="LIST", help="Write what --dry-run printed to this file, or - for stdin.")
@scope_option
@memory_options
async def flush_command(
    output: Output, memory: Memory, *, file: str | None, reviewed: str | None, dry_run: bool, **options: str | None
) -> None:
    """Have a model distil what is worth keeping from a conversation, and remember it.

    FILE is JSON or JSONL: messages as OpenAI or Anthropic have them, or a transcript of Claude Code or Codex; by
    default it is read from standard input.

    Set the model in kipu.toml: [flush] flusher = { use = "litellm", model = "..." }

    To review what is written: kipu flush FILE --dry-run > list.md, then kipu flush --apply list.md
    """
    if reviewed is not None:
        if file or dry_run or options["model"] or options["instructions"]:
            raise click.UsageError("--apply asks no model: it takes no FILE, --dry-run, --model or --instructions.")
        flushed = await memory.apply_flush(_read_reviewed(reviewed), source=options["source"])
    else:
        conversation = _read_conversation(file)
        output.waiting("Asking the model")
        flushed = await memory.flush(conversation, dry_run=dry_run, **options)
    if output.json:
        output.data(flushed)
    elif flushed is not None:
        output.line(escape(flushed.text, keep=LINES))
    if flushed is None:
        output.notices((await memory.status()).notices)
        output.note("Nothing new to remember.")
    else:
        output.notices(flushed.notices)
        output.note(f"{'Would be written to' if dry_run else 'Written to'} {escape(flushed.path)}.")


def _read_conversation(file: str | None) -> Any:
    """Read a conversation from a file, or from standard input: one JSON document, or one on each line."""
    name, text = _read(file)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = error
    records: list[Any] = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            records += [json.loads(line)] if line.strip() else []
        except (ValueError, RecursionError) as error:
            if records:
                raise QueryError(f"Line {number} of {name} is not JSON: {error}.") from None
            raise QueryError(f"{name} is not JSON or JSONL in UTF-8: {problem}.") from None
    return records


def _read_reviewed(file: str) -> Any:
    """Read the list that a dry run printed: as text, or with --json as a document."""
    from ..types import Flushed

    name, text = _read(file)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if found is None:  # the dry run had nothing
        return ""
    if isinstance(found, dict) and all(isinstance(found.get(key), str) for key in ("text", "path")):
        return Flushed(found["text"], found["path"])
    raise QueryError(f"{name} is not what kipu flush --dry-run prints.")


def _read(file: str | None) -> tuple[str, str]:
    """Return what to call a file, and its text."""
    name = "standard input" if file in (None, "-") else str(file)
    try:
        data = read_standard_input() if file in (None, "-") else Path(name).read_bytes()
    except OSError as error:
        raise QueryError(f"{name} cannot be read: {error.strerror or error}.") from None
    try:
        return name, data.decode("utf-8-sig")
    except ValueError as error:
        raise QueryError(f"{name} is not UTF-8: {error}.") from None


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
        how = f" To undo: kipu undo {compacted.change}" if compacted.change else ""  # none outside the workspace
        output.note(f"Written to {compacted.path}.{how}")
