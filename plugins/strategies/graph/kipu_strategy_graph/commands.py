"""``kipu graph``: look at what the notes say about names, and at the paths between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kipu.commands import Output, TextCommand, escape, memory_options, scope_option
from kipu.types import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kipu import Memory

    from .facts import Fact

__all__ = ["graph"]

_MOST_SHOWN = 50


@click.group()
def graph() -> None:
    """Look at names, the facts about them, and the paths between them."""


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what all commands take."""
    as_of = click.option("--as-of", metavar="DATE", help="What was believed on that day.")
    return as_of(scope_option(memory_options(command)))


@graph.command("show", cls=TextCommand)
@click.argument("name")
@_options
async def show_command(output: Output, memory: Memory, name: str, as_of: str | None) -> None:
    """Show what the notes say about NAME: its other names, the facts that hold, and its neighbours."""
    from .reading import Graph

    found = await Graph(memory, as_of=as_of).profile(name)
    if output.json:
        neighbours = [{"name": each.name, "facts": len(each.facts)} for each in found.neighbours]
        output.data({"entities": found.entities, "facts": found.facts, "neighbours": neighbours})
        return
    if len(found.entities) > 1:
        output.note(f"{name} may be one of {len(found.entities)}.")
    for entity in found.entities if output.verbose else found.entities[:_MOST_SHOWN]:
        also = f", also {_listed(output, entity.aliases)}" if entity.aliases else ""
        page = entity.page or "no page of its own"
        output.line(
            f"{click.style(escape(entity.name), bold=True)}{escape(also)}  {escape(page)}  "
            f"mentioned in {entity.mentions:,} passage{'' if entity.mentions == 1 else 's'}"
        )
    _print_facts(output, _once(found.facts))
    if found.neighbours:
        output.line(f"neighbours: {escape(_listed(output, [each.name for each in found.neighbours]))}")
    if not found.facts:
        output.note("The notes name it, and state no fact about it that holds.")


@graph.command("path", cls=TextCommand)
@click.argument("start", metavar="A")
@click.argument("end", metavar="B")
@_options
async def path_command(output: Output, memory: Memory, start: str, end: str, as_of: str | None) -> None:
    """Show how A is related to B: the shortest chain of facts, each with its lines.

    Without one, passages may lead on that only name both: these steps are marked as "named together".
    """
    from .reading import Graph

    facts = await Graph(memory, as_of=as_of).path(start, end)
    if output.json:
        output.data(facts)
        return
    _print_facts(output, facts)
    if not facts:
        output.note(f"No path leads from {start} to {end}.")


@graph.command("history", cls=TextCommand)
@click.argument("name")
@_options
async def history_command(output: Output, memory: Memory, name: str, as_of: str | None) -> None:
    """Show all that was ever stated about NAME, the oldest first, and what ended it."""
    from .reading import Graph

    facts = await Graph(memory, as_of=as_of).history(name)
    if output.json:
        output.data(facts)
        return
    _print_facts(output, facts, dated=True)
    if not facts:
        output.note("The notes name it, and state no fact about it.")


@graph.command("conflicts")
@_options
async def conflicts_command(output: Output, memory: Memory, as_of: str | None) -> None:
    """List facts that hold now and exclude each other, such as two ports of one server."""
    from .reading import Graph

    conflicts = await Graph(memory, as_of=as_of).conflicts()
    if output.json:
        output.data(conflicts)
        return
    for conflict in conflicts:
        output.line(click.style(escape(f"{conflict.subject}: {conflict.predicate}"), bold=True))
        _print_facts(output, conflict.facts, dated=True)
    if not conflicts:
        output.note("No facts exclude each other.")


@graph.command("suggest")
@_options
async def suggest_command(output: Output, memory: Memory, as_of: str | None) -> None:
    """List names that may be one entity, because they are written alike. Nothing is merged.

    To merge two names, write one below "aliases:" in the front matter of the page of the other.
    """
    from .reading import Graph

    suggestions = await Graph(memory, as_of=as_of).suggest()
    if output.json:
        output.data(suggestions)
        return
    output.table(("name", "other", "reason"), [(each.name, each.other, each.reason) for each in suggestions])
    if not suggestions:
        output.note("No names are written alike.")


@graph.command("export", cls=TextCommand)
@click.argument("name", required=False)
@click.option(
    "--depth", type=click.IntRange(1, 6), default=1, show_default=True, help="How many steps from NAME to go."
)
@click.option("--dot", "form", flag_value="dot", help="In the language of Graphviz, the default.")
@click.option("--svg", "form", flag_value="svg", help="As a picture of at most 150 names.")
@_options
async def export_command(
    output: Output, memory: Memory, name: str | None, depth: int, form: str | None, as_of: str | None
) -> None:
    """Print the names and facts around NAME, or all, as a document. The same notes give the same document."""
    from .drawing import MOST_DRAWN, as_document, as_dot, as_svg
    from .reading import Graph

    if output.json and form:
        raise click.UsageError("Give one of --dot, --json and --svg.")
    reader = Graph(memory, as_of=as_of)
    names, facts = await reader.network(name, depth=depth)
    if output.json:
        output.data(as_document(names, facts))
    elif form == "svg":
        if len(names) > MOST_DRAWN:
            raise click.UsageError(
                f"{len(names):,} names make no readable picture: at most {MOST_DRAWN} do. Give a NAME, or less --depth."
            )
        middle = (await reader.entities(name))[0].name if name else ""
        output.line(as_svg(names, facts, middle))
    else:
        output.line(as_dot(names, facts))


def _listed(output: Output, names: Sequence[str]) -> str:
    """Return names with commas; of many, the first ones, unless the output is verbose."""
    shown = names if output.verbose else names[:_MOST_SHOWN]
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    return f"{', '.join(shown)}{more}"


def _print_facts(output: Output, facts: Sequence[Fact], *, dated: bool = False) -> None:
    """Print facts, each with its place; long lists in full if the output is verbose."""
    shown = facts if output.verbose else facts[:_MOST_SHOWN]
    for fact in shown:
        edge = str(fact) if fact.predicate else f"{fact.source} - {fact.target}"
        day = f"{fact.date.isoformat() if fact.date else 'undated':10}  " if dated else ""
        state = fact.outdated or fact.modality or ("" if fact.predicate else "named together")
        label = click.style(f"  {escape(state)}", fg="yellow") if state else ""
        place = str(Place(fact.path, fact.start_line, fact.end_line))
        output.line(f"{day}{escape(edge)}  {click.style(escape(place), fg='cyan')}{label}")
    if len(facts) > len(shown):
        output.note(f"... and {len(facts) - len(shown):,} more; --verbose names all of them")


def _once(facts: Sequence[Fact]) -> list[Fact]:
    """Return each fact once, at the first of its places."""
    return list({(fact.source, fact.predicate, fact.target): fact for fact in reversed(facts)}.values())[::-1]
