"""``kipu search``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click

from ..types import Place
from .common import Output, check_scope, count, harmless, open_memory, run, shared_options
from .flags import Searching, with_flags_of_plugins

if TYPE_CHECKING:
    from pathlib import Path

    from ..types import Explanation, SearchResult, SearchResults

TAB = "\t"

__all__ = ["as_json", "print_result"]  # and search_command, which is made when it is asked for


def _search(
    output: Output, workspace: Path, query: tuple[str, ...], *, full: bool, explain: bool, **options: Any
) -> None:
    """Find what the memory says about QUERY, best first.

    What changed on disk is indexed first. Quote a phrase to ask for it word by word: kipu search '"read replica"'.
    """
    text = " ".join(query)
    sync = False if options.pop("no_sync") else None
    scope = options.pop("scope")
    options["explain"] = explain or options.get("explain_path") is not None
    given = {name: value for name, value in options.items() if value is not None}

    async def work() -> SearchResults:
        async with open_memory(workspace, output, scope) as memory:
            with output.progress("Indexing") as on_progress, output.progress("Embedding") as on_embedding:
                results = await memory.search(
                    text, sync=sync, on_progress=on_progress, on_embedding=on_embedding, **given
                )
            output.notices(memory.plugins.problems)
            return results

    results = run(work())
    if output.json:
        output.data(as_json(text, results))
    else:
        for rank, result in enumerate(results, 1):
            print_result(output, rank, result, full=full)
        if results.absence:
            output.line(harmless(results.absence))
    output.notices(results.notices)
    if not results:
        output.note("No results.")
    if results.pending:
        output.note(f"Not searched, because not indexed yet: {count(len(results.pending), 'file')}. Try: kipu index")


def as_json(query: str, results: SearchResults) -> dict[str, Any]:
    """The results as one JSON document, with the names that they have in Python."""
    return {
        "query": query,
        "results": [_without_nothing(result) for result in results],
        "stale": results.stale,
        "degraded": results.degraded,
        "pending": results.pending,
        "pending_vectors": results.pending_vectors,
        "notices": results.notices,
    } | ({"absence": results.absence} if results.absence else {})


def _without_nothing(result: SearchResult) -> dict[str, Any]:
    """A result by the names that it has in Python, without an explanation that nobody asked for."""
    fields = attrs.asdict(result)
    if result.explanation is None:
        del fields["explanation"]
    return fields


def print_result(output: Output, rank: int, result: SearchResult, *, full: bool = False) -> None:
    """Print a result for people: where it is, how well it fits, and what it says."""
    place = harmless(str(Place(result.path, result.start_line, result.end_line)))
    heading = f"  {harmless(result.heading)}" if result.heading else ""
    output.line(f"{rank}. {click.style(place, fg='cyan', bold=True)}  {result.score:.2f}{heading}")
    if result.outdated:
        output.line(click.style(f"   outdated: {harmless(result.outdated)}", fg="yellow"))
    for line in (result.text if full else result.snippet).split("\n"):
        output.line(f"   {harmless(line, keep=TAB)}".rstrip())
    if result.explanation is not None:
        _print_explanation(output, result.explanation)
    output.line()


def _print_explanation(output: Output, explanation: Explanation) -> None:
    """Print what each arm gave a result, and what each stage changed."""
    arms = [
        f"{harmless(name)} {arm.score:.3f} ({f'number {arm.rank}' if arm.rank else 'found nothing'})"
        for name, arm in explanation.arms.items()
    ]
    output.line(click.style(f"   arms: {', '.join(arms) or 'none'}", dim=True))
    for change in explanation.stages:
        moved = change.rank_before != change.rank_after or change.score_before != change.score_after
        before, after = f"{change.score_before:.3f}", f"{change.score_after:.3f}"
        said = (
            f"number {change.rank_before} -> {change.rank_after}, score {before} -> {after}" if moved else "as it was"
        )
        output.line(click.style(f"   {harmless(change.stage)}: {said}", dim=True))


def _make_command() -> click.Command:
    """The command, with a flag for each per-call option of an installed plugin."""
    command = click.command("search", cls=Searching)(shared_options(_search))
    own = [
        click.Argument(["query"], nargs=-1, required=True),
        click.Option(["-n", "--max-results"], type=int, help="How many results at most. [default: 6]"),
        click.Option(["--strategy"], help="The strategy to use instead of the configured one."),
        click.Option(["--source"], help="Only files with this source label."),
        click.Option(["--since"], metavar="DATE", help="Only dated files of this day or later."),
        click.Option(["--until"], metavar="DATE", help="Only dated files of this day or earlier."),
        click.Option(["--as-of"], metavar="DATE", help="What was believed on that day."),
        click.Option(
            ["--scope"], metavar="ID", callback=check_scope, help="Only the source of a user, an agent or a team."
        ),
        click.Option(["--no-sync"], is_flag=True, help="Answer from the index as it is."),
        click.Option(["--full"], is_flag=True, help="Print whole chunks."),
        click.Option(["--explain"], is_flag=True, help="Say how each result came to stand where it stands."),
        click.Option(["--explain-path"], metavar="FILE", help="Say why FILE, relative to the workspace, is not there."),
    ]
    command.params[:0] = own
    return with_flags_of_plugins(command)


def __getattr__(name: str) -> Any:
    """Make the command when it is asked for: its flags depend on the plugins of this call."""
    if name == "search_command":
        return _make_command()
    raise AttributeError(name)
