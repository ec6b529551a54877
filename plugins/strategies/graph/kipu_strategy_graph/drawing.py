"""A part of the graph as a document: DOT for Graphviz, JSON, or a picture. The same facts make the same document."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import attrs

from kipu.commands import escape
from kipu.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .facts import Fact

__all__ = ["MOST_DRAWN", "as_document", "as_dot", "as_svg"]

MOST_DRAWN = 150
"""How many entities a picture shows at most: with more, nothing in it can be read."""

_LONGEST_LABEL = 40
_MARGIN, _LINE = 20, 44
_STYLE = """
svg { --paper: #ffffff; --ink: #1f2328; --box: #e7f1f0; --rim: #00796b; --edge: #6e7781; }
@media (prefers-color-scheme: dark) {
  svg { --paper: #0d1117; --ink: #e6edf3; --box: #12312e; --rim: #4db6ac; --edge: #8b949e; }
}
.paper { fill: var(--paper); } text { fill: var(--ink); font: 13px sans-serif; text-anchor: middle; }
.entity rect { fill: var(--box); stroke: var(--rim); } .middle rect { stroke-width: 3; }
.fact line { stroke: var(--edge); stroke-width: 1.4; marker-end: url(#arrow); }
.fact text { font-size: 11px; stroke: var(--paper); stroke-width: 4; paint-order: stroke; }
marker path { fill: var(--edge); }
"""
# What XML 1.0 has no character for: https://www.w3.org/TR/xml/#charsets
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_document(entities: Sequence[str], facts: Sequence[Fact]) -> dict[str, Any]:
    """Return entities and facts as values for JSON."""
    return {"entities": list(entities), "facts": [attrs.asdict(fact) for fact in facts]}


def as_dot(entities: Sequence[str], facts: Sequence[Fact]) -> str:
    """Return entities and facts in the language of Graphviz."""
    lines = ["digraph kipu {", "  node [shape=box];"]
    lines += [f"  {_quoted(name)};" for name in entities]
    lines += [
        f"  {_quoted(fact.source)} -> {_quoted(fact.target)} [label={_quoted(fact.predicate)}];" for fact in facts
    ]
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    text = escape(" ".join(text.replace("\0", " ").split()))
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))


def as_svg(entities: Sequence[str], facts: Sequence[Fact], middle: str = "") -> str:
    """Return a picture of entities and facts, readable on light and on dark paper.

    :param middle: the entity that the picture is about, if it is about one.
    :raises ConfigurationError: networkx, which places the entities, is not installed.
    """
    try:
        import networkx
    except ImportError:
        raise ConfigurationError(
            'A picture needs networkx. Install it with: pip install "kipu-strategy-graph[svg]"'
        ) from None
    network = networkx.Graph()
    network.add_nodes_from(entities)
    network.add_edges_from((fact.source, fact.target) for fact in facts if fact.source != fact.target)
    room = len(entities) ** 0.5
    places = networkx.spring_layout(network, k=1.9 / max(1, room), iterations=200, seed=1)
    at = _apart({name: (float(x) * (40 + 75 * room), float(y) * (80 + 75 * room)) for name, (x, y) in places.items()})
    width = max((x + _width(name) / 2 for name, (x, _) in at.items()), default=0) + _MARGIN
    height = max((y for _, y in at.values()), default=0) + 15 + _MARGIN
    svg = ElementTree.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width:.0f} {height:.0f}")
    ElementTree.SubElement(svg, "style").text = _STYLE
    shape = {"viewBox": "0 0 8 8", "refX": "8", "refY": "4", "markerWidth": "8", "markerHeight": "8", "orient": "auto"}
    marker = ElementTree.SubElement(ElementTree.SubElement(svg, "defs"), "marker", {"id": "arrow", **shape})
    ElementTree.SubElement(marker, "path", d="M0 0 L8 4 L0 8 z")
    ElementTree.SubElement(svg, "rect", {"class": "paper", "width": "100%", "height": "100%"})
    edges: dict[tuple[str, str], list[Fact]] = {}
    for fact in facts:
        edges.setdefault((fact.source, fact.target), []).append(fact)
    for (source, target), said in edges.items():
        _draw_edge(svg, at[source], at[target], _width(target), said)
    for name in entities:
        _draw_entity(svg, name, at[name], is_middle=name == middle)
    ElementTree.indent(svg)
    return ElementTree.tostring(svg, encoding="unicode")


def _apart(at: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Return places at which no name covers another one, with the margin left and above."""
    order, placed = sorted(at, key=lambda name: (at[name][1], name)), dict[str, tuple[float, float]]()
    for name in order:  # from above: what would be covered goes down
        x, y = at[name]
        while near := [
            below
            for other, (left, below) in placed.items()
            if abs(below - y) < _LINE - 1 and abs(left - x) < (_width(name) + _width(other)) / 2 + 10
        ]:
            y = max(near) + _LINE
        placed[name] = x, y
    first_x = min((x - _width(name) / 2 for name, (x, _) in placed.items()), default=0.0)
    first_y = min((y for _, y in placed.values()), default=0.0)
    return {name: (x - first_x + _MARGIN, y - first_y + 15 + _MARGIN) for name, (x, y) in placed.items()}


def _draw_edge(
    svg: ElementTree.Element, start: tuple[float, float], end: tuple[float, float], width: float, said: Sequence[Fact]
) -> None:
    """Draw an arrow to the rim of its target, with its predicates, and with its evidence where a pointer rests."""
    group = ElementTree.SubElement(svg, "g", {"class": "fact"})
    evidence = [f"{fact} ({fact.path}:{fact.start_line})" for fact in said]
    ElementTree.SubElement(group, "title").text = _xml("\n".join(evidence))
    across, down = end[0] - start[0], end[1] - start[1]
    share = min(1.0, width / 2 / abs(across) if across else 1.0, 15 / abs(down) if down else 1.0)
    place = {"x1": start[0], "y1": start[1], "x2": end[0] - share * across, "y2": end[1] - share * down}
    ElementTree.SubElement(group, "line", {name: f"{value:.1f}" for name, value in place.items()})
    x, y = start[0] + 0.55 * across, start[1] + 0.55 * down
    label = ElementTree.SubElement(group, "text", x=f"{x:.1f}", y=f"{y:.1f}")
    label.text = _shown(", ".join(dict.fromkeys(fact.predicate for fact in said)))


def _draw_entity(svg: ElementTree.Element, name: str, at: tuple[float, float], *, is_middle: bool) -> None:
    group = ElementTree.SubElement(svg, "g", {"class": "entity middle" if is_middle else "entity"})
    ElementTree.SubElement(group, "title").text = _xml(name)
    width = _width(name)
    box = {"x": at[0] - width / 2, "y": at[1] - 15, "width": width, "height": 30, "rx": 6}
    ElementTree.SubElement(group, "rect", {key: f"{value:.1f}" for key, value in box.items()})
    ElementTree.SubElement(group, "text", x=f"{at[0]:.1f}", y=f"{at[1] + 5:.1f}").text = _shown(name)


def _width(name: str) -> float:
    wide = sum(1.8 if character > "\u2e7f" else 1.0 for character in _shown(name))
    return 20 + 7.4 * wide


def _shown(text: str) -> str:
    text = _xml(" ".join(text.split()))
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"


def _xml(text: str) -> str:
    return escape(_NO_XML.sub("\ufffd", text), keep="\n\t")
