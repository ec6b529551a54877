"""Facts as a document: valid whatever is in them, and the same for the same facts."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from kipu.commands import escape
from kipu_strategy_graph.drawing import as_document, as_dot, as_svg
from kipu_strategy_graph.facts import Fact

HOSTILE = [
    "Ravi",
    'a "quoted" name\\',
    "<script>alert(1)</script> & co",
    "line\nfeed\ttab",
    "null\0 escape\x1b[31m \ud7ff \ufffe",
    "bell\a reset\x1bc csi\x9b31m from the right\u202e",
    "名前の長い" * 40,
    "x" * 10_000,
    "]]> -->",
    "\\N \\G \\l",
]
SVG = "{http://www.w3.org/2000/svg}"
STRING = r'"(?:[^"\\]|\\.)*"'
DOT = re.compile(
    rf"digraph kipu \{{\n  node \[shape=box\];\n(?:  {STRING};\n)*(?:  {STRING} -> {STRING} \[label={STRING}\];\n)*\}}"
)


def fact(source, predicate, target, **fields):
    return Fact(source, predicate, target, True, f"{source} {predicate} {target}.", "memory/a.md", 3, 3, "c", **fields)


FACTS = [fact(one, other, HOSTILE[0]) for one, other in zip(HOSTILE, reversed(HOSTILE), strict=True)]


def test_dot_is_valid_whatever_the_names_are():
    text = as_dot(HOSTILE, FACTS)
    assert DOT.fullmatch(text)
    assert text.count("label=") == len(FACTS)
    assert escape(text, keep="\n") == text
    assert '"a \\"quoted\\" name\\\\" -> "Ravi"' in text


def test_the_document_is_json():
    facts = json.loads(json.dumps(as_document(HOSTILE, FACTS)))["facts"]
    assert [each["source"] for each in facts] == HOSTILE


def test_a_picture_is_xml_that_shows_every_name_and_runs_nothing():
    pytest.importorskip("networkx")
    picture = as_svg(HOSTILE, FACTS, "Ravi")
    root = ElementTree.fromstring(picture)
    titles = [entity.findtext(f"{SVG}title") for entity in root.iter(f"{SVG}g") if "entity" in entity.get("class")]
    assert [title[:4] for title in titles] == [name[:4] for name in HOSTILE]
    assert "<script" not in picture
    assert escape(picture, keep="\n\t") == picture
    assert {element.tag for element in root.iter()} == {
        f"{SVG}{name}" for name in ("svg", "style", "defs", "marker", "path", "rect", "g", "title", "line", "text")
    }
    assert max(len(text.text) for text in root.iter(f"{SVG}text")) <= 40


def test_a_picture_is_readable_on_light_and_on_dark_paper():
    pytest.importorskip("networkx")
    picture = as_svg(["Ravi", "FastAPI"], [fact("Ravi", "uses", "FastAPI")], "Ravi")
    assert "@media (prefers-color-scheme: dark)" in picture
    light, dark = picture.split("@media")[0], picture.split("@media")[1].split(".paper")[0]
    used = set(re.findall(r"var\((--\w+)\)", picture))
    assert len(used) == 5
    assert set(re.findall(r"(--\w+): #", light)) == set(re.findall(r"(--\w+): #", dark)) == used


@pytest.mark.parametrize("shape", ["star", "pairs"])
def test_names_lie_within_the_picture_and_cover_no_other(shape):
    pytest.importorskip("networkx")
    names = [f"Server {number} of {'many ' * (number % 5)}" for number in range(150)]
    others = [names[0]] * 150 if shape == "star" else names[1:] + names[:1]
    facts = [fact(name, "runs on", other) for name, other in zip(names, others, strict=True)][
        :: 1 if shape == "star" else 2
    ]
    root = ElementTree.fromstring(as_svg(names, facts))
    width, height = map(float, root.get("viewBox").split()[2:])
    boxes = [
        [float(box.get(side)) for side in ("x", "y", "width", "height")]
        for box in root.iter(f"{SVG}rect")
        if box.get("class") != "paper"
    ]
    assert all(x >= 0 and y >= 0 and x + wide <= width and y + high <= height for x, y, wide, high in boxes)
    for number, (x, y, wide, high) in enumerate(boxes):
        assert not [
            other
            for other in boxes[:number]
            if x < other[0] + other[2] and other[0] < x + wide and y < other[1] + other[3] and other[1] < y + high
        ]


@pytest.mark.parametrize("form", [as_dot, as_document, as_svg])
def test_the_same_facts_make_the_same_document(form):
    pytest.importorskip("networkx")
    assert form(HOSTILE, FACTS) == form(HOSTILE, FACTS)


def test_nothing_makes_an_empty_document():
    pytest.importorskip("networkx")
    assert DOT.fullmatch(as_dot([], []))
    assert ElementTree.fromstring(as_svg([], [])).findall(f"{SVG}g") == []
    assert as_document([], []) == {"entities": [], "facts": []}
