"""``kipu recall``, which has a flag for each per-call option of a plugin, as ``kipu search`` has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .common import Output, check_scope, harmless, open_memory, run, shared_options
from .flags import Searching, with_flags_of_plugins

if TYPE_CHECKING:
    from pathlib import Path

    from ..types import Recall

__all__: list[str] = []  # but recall_command, which is made when it is asked for

LINES = "\n\t"


def _recall(
    output: Output, workspace: Path, *, query: tuple[str, ...], max_tokens: int, scope: str | None, **options: Any
) -> None:
    """Print what the memory knows about QUERY, as one text for the prompt of a model.

    It is quoted as data, with where each part stands. Nothing is printed where nothing is found.
    """
    given = {name: value for name, value in options.items() if value is not None}

    async def work() -> Recall:
        async with open_memory(workspace, output, scope) as memory:
            with output.progress("Indexing") as on_progress, output.progress("Embedding") as on_embedding:
                found = await memory.recall(
                    " ".join(query),
                    max_tokens=max_tokens,
                    on_progress=on_progress,
                    on_embedding=on_embedding,
                    **given,
                )
            output.notices(memory.plugins.problems)
            return found

    found = run(work())
    if output.json:
        results = [{"path": r.path, "start_line": r.start_line, "end_line": r.end_line} for r in found.results]
        output.data({"text": found.text, "tokens": found.tokens, "results": results, "notices": found.results.notices})
    elif found:
        output.line(harmless(found.text.rstrip("\n"), keep=LINES))
    output.notices(found.results.notices)


def _make_command() -> click.Command:
    """The command, with a flag for each per-call option of an installed plugin."""
    command = click.command("recall", cls=Searching)(shared_options(_recall))
    command.params[:0] = [
        click.Argument(["query"], nargs=-1, required=True),
        click.Option(["--max-tokens"], type=int, default=1500, show_default=True, help="How long the text may be."),
        click.Option(["--source"], help="Only files with this source label."),
        click.Option(["--since"], metavar="DATE", help="Only dated files of that day or later."),
        click.Option(["--until"], metavar="DATE", help="Only dated files of that day or earlier."),
        click.Option(["--as-of"], metavar="DATE", help="What was believed on that day."),
        click.Option(
            ["--scope"], metavar="ID", callback=check_scope, help="Only the source of a user, an agent or a team."
        ),
    ]
    return with_flags_of_plugins(command)


def __getattr__(name: str) -> Any:
    """Make the command when it is asked for: its flags depend on the plugins of this call."""
    if name == "recall_command":
        return _make_command()
    raise AttributeError(name)
