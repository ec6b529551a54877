"""``kipu search`` and ``kipu recall``, which have an option for each per-call option of a plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click

from ..search.duplicates import list_places
from ..types import Place
from .common import TextCommand, filter_options, given, load_plugins, memory_options, read_text
from .output import LINES, Output, count, escape

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..memory import Memory
    from ..plugins.records import PerCallOption
    from ..types import Explanation, Recall, SearchResult, SearchResults

__all__ = ["as_json", "print_result", "recall_command", "search_command"]


class SearchCommand(TextCommand):
    """A command that searches: it has an option for each per-call option of an installed plugin."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own parameters and the options of plugins."""
        parameters = super().get_params(ctx)
        if "kipu.options" not in ctx.meta:
            names = {parameter.name for parameter in parameters}
            options = sorted(load_plugins().per_call_options().items())
            ctx.meta["kipu.options"] = [_option(option) for name, option in options if name not in names]
        help_option = parameters.pop()
        return [*parameters, *ctx.meta["kipu.options"], help_option]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. The error for an unknown option names the plugins that are not in use."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(f"{error.format_message()}{load_plugins().not_in_use()}", ctx) from None


def _option(option: PerCallOption) -> click.Option:
    """Return the command-line option for a plugin's per-call option."""
    field = option.field
    flag = option.name.replace("_", "-")
    text = f"{field.metadata.get('help', '')} [{option.registration.kind} {option.registration.name}]".strip()
    if field.type in (bool, "bool"):
        return click.Option([f"--{flag}/--no-{flag}", option.name], default=None, help=text)
    kinds: dict[Any, Any] = {"float": float, "int": int, float: float, int: int}
    return click.Option([f"--{flag}", option.name], type=kinds.get(field.type, str), default=None, help=text)


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what every search takes: a query, and the files to look in."""
    for decorator in (
        click.option("--no-relation", "relation", flag_value=False, default=True, help="Show no paths across notes."),
        click.option("--as-of", metavar="DATE", help="What was believed on that day."),
        filter_options,
        click.argument("query", nargs=-1, required=True),
    ):
        command = decorator(command)
    return command


@click.command("search", cls=SearchCommand)
@search_options
@click.option("-n", "--max-results", type=int, help="How many results at most. [default: 6]")
@click.option("--strategy", help="The strategy to use instead of the configured one.")
@click.option("--no-sync", is_flag=True, help="Search the index as it is.")
@click.option("--full", is_flag=True, help="Print whole chunks.")
@click.option("--explain", is_flag=True, help="Explain the rank of each result.")
@click.option("--explain-path", metavar="FILE", help="Explain why FILE, relative to the workspace, is not a result.")
@memory_options
async def search_command(
    output: Output,
    memory: Memory,
    *,
    query: tuple[str, ...],
    no_sync: bool,
    full: bool,
    explain: bool,
    **options: Any,
) -> None:
    """Find what the memory says about QUERY, best first.

    What changed on disk is indexed first. Quote a phrase to search for it word by word: kipu search '"read replica"'.
    With - as QUERY, it is read from standard input.
    """
    text = _read_query(query)
    options["explain"] = explain or options["explain_path"] is not None
    options["sync"] = False if no_sync else None
    results: SearchResults = await _search(output, memory.search, text, options)
    if output.json:
        output.data(as_json(text, results))
    else:
        for rank, result in enumerate(results, 1):
            print_result(output, rank, result, full=full)
        if results.absence:
            output.line(escape(results.absence))
    output.notices(results.notices)
    if not results:
        output.note("No results.")
    if results.pending:
        output.note(f"Not searched, because not indexed yet: {count(len(results.pending), 'file')}. Try: kipu index")


@click.command("recall", cls=SearchCommand)
@search_options
@click.option("--max-tokens", type=int, default=1500, show_default=True, help="How long the text may be.")
@memory_options
async def recall_command(output: Output, memory: Memory, *, query: tuple[str, ...], **options: Any) -> None:
    """Print what the memory knows about QUERY, as one text for the prompt of a model.

    The text quotes the memory as data, each part with its file and lines. It is empty if nothing is found. With - as
    QUERY, it is read from standard input.
    """
    found: Recall = await _search(output, memory.recall, _read_query(query), options)
    if output.json:
        shown = ("path", "start_line", "end_line", "id", "score", "outdated")
        results = [{name: getattr(result, name) for name in shown} for result in found.results]
        output.data({"text": found.text, "tokens": found.tokens, "results": results, "notices": found.results.notices})
    elif found:
        output.line(escape(found.text.rstrip("\n"), keep=LINES))
    output.notices(found.results.notices)


def _read_query(words: tuple[str, ...]) -> str:
    return read_text(words).strip() if words == ("-",) else " ".join(words)


async def _search(
    output: Output, method: Callable[..., Coroutine[Any, Any, Any]], query: str, options: dict[str, Any]
) -> Any:
    """Call a method that searches, with the options that were given."""
    with output.progress("Indexing") as on_progress:
        return await method(query, on_progress=on_progress, **given(options))


# --- Printing results ------------------------------------------------------------------------------------------------


def as_json(query: str, results: SearchResults) -> dict[str, Any]:
    """Return the results as one JSON document, with the names that they have in Python."""
    document = {
        "query": query,
        "results": [_result(result) for result in results],
        "stale": results.stale,
        "degraded": results.degraded,
        "pending": results.pending,
        "pending_vectors": results.pending_vectors,
        "notices": results.notices,
    }
    return document | ({"absence": results.absence} if results.absence else {})


def _result(result: SearchResult) -> dict[str, Any]:
    fields = attrs.asdict(result)
    if result.explanation is None:
        del fields["explanation"]
    return fields


def print_result(output: Output, rank: int, result: SearchResult, *, full: bool = False) -> None:
    """Print a result for people: where it stands, how well it fits, and its text."""
    place = escape(str(Place(result.path, result.start_line, result.end_line)))
    heading = f"  {escape(result.heading)}" if result.heading else ""
    id = f"  {escape(result.id)}" if result.id else ""
    output.line(f"{rank}. {click.style(place, fg='cyan', bold=True)}  {max(result.score, 0.01):.2f}{id}{heading}")
    if result.outdated:
        output.line(click.style(f"   outdated: {escape(result.outdated)}", fg="yellow"))
    if result.also_in:
        output.line(click.style(f"   also in: {escape(list_places(result.also_in))}", dim=True))
    if result.chain:
        output.line(click.style(f"   path: {escape(result.why)}", dim=True))
    for line in (result.text if full else result.snippet).split("\n"):
        output.line(f"   {escape(line, keep=LINES)}".rstrip())
    if result.explanation is not None:
        _print_explanation(output, result.explanation, "" if result.chain else result.why)
    output.line()


def _print_explanation(output: Output, explanation: Explanation, why: str) -> None:
    """Print why a strategy found a result, what each strategy scored it, and what each stage changed."""
    if why:
        output.line(click.style(f"   why: {escape(why)}", dim=True))
    scores = [
        f"{escape(name)} {strategy.score:.3f} ({f'rank {strategy.rank}' if strategy.rank else 'not found'})"
        for name, strategy in explanation.arms.items()
    ]
    output.line(click.style(f"   strategies: {', '.join(scores) or 'none'}", dim=True))
    for stage in explanation.stages:
        before, after = (stage.rank_before, stage.score_before), (stage.rank_after, stage.score_after)
        change = (
            f"rank {before[0]} -> {after[0]}, score {before[1]:.3f} -> {after[1]:.3f}"
            if before != after
            else "unchanged"
        )
        output.line(click.style(f"   {escape(stage.stage)}: {change}", dim=True))
