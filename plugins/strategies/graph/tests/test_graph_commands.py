"""``kipu graph``: what it prints, for people and as JSON, and how it ends."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import attrs
import pytest

from kipu.commands import main

NOTES = {
    "team.md": "Ravi uses FastAPI for the billing API.\n",
    "stack.md": "# Stack\n\nAll of it.\nFastAPI runs on Uvicorn here.\n",
    "2026-01-10.md": "Ravi lives in Rome.\n",
    "2026-02-10.md": "Ravi lives in Oslo. Ravi does not use Flask.\n",
}


@attrs.frozen
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def kipu(kipu_workspace, kipu_write, monkeypatch, capsys):
    """Call ``kipu graph`` in a workspace with notes."""
    monkeypatch.chdir(kipu_workspace)
    kipu_write("kipu.toml", '[search]\nstrategy = "keyword"\n')
    for path, text in NOTES.items():
        kipu_write(f"memory/{path}", text)

    def kipu(*arguments, command="graph"):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([command, *arguments])
        captured = capsys.readouterr()
        return Done(ended.value.code or 0, captured.out, captured.err)

    return kipu


def test_show_prints_the_facts_that_hold_with_their_places(kipu):
    assert kipu("show", "ravi") == Done(
        0,
        "Ravi  no page of its own  mentioned in 3 passages\n"
        "Ravi -lives in-> Oslo  memory/2026-02-10.md:1\n"
        "Ravi -uses-> FastAPI  memory/team.md:1\n"
        "neighbours: FastAPI, Oslo\n",
        "",
    )
    assert "Ravi -lives in-> Rome" in kipu("show", "ravi", "--as-of", "2026-01-31").out


@pytest.mark.parametrize(
    ("notes", "found"),
    [
        (
            "---\naliases: [{}]\n---\n".format(", ".join(f"Name {number}" for number in range(60))),
            " and 10 more  memory/Zoe.md",
        ),
        (" ".join(f"[[Person {number}|Zoe]]" for number in range(60)), "Person 10  no page of its own"),
    ],
)
def test_show_prints_the_first_of_many_names(kipu, kipu_write, notes, found):
    kipu_write("memory/Zoe.md", notes)
    shown, whole = kipu("show", "Zoe").out, kipu("show", "Zoe", "--verbose").out
    assert found in shown
    assert shown.count("\n") <= 101
    assert len(whole) > len(shown)


def test_path_prints_a_fact_for_each_step(kipu):
    steps = "Ravi -uses-> FastAPI  memory/team.md:1\nFastAPI -runs on-> Uvicorn  memory/stack.md:4\n"
    assert kipu("path", "Ravi", "Uvicorn") == Done(0, steps, "")
    assert kipu("path", "Rome", "Uvicorn", "--as-of", "2025-01-01").code == 2
    assert kipu("path", "Ravi", "Ravi") == Done(0, "", "No path leads from Ravi to Ravi.\n")


def test_path_marks_passages_that_only_name_both(kipu, kipu_write):
    kipu_write("memory/x.md", "Today: Mia with Uvicorn.\n")
    assert kipu("path", "Mia", "Uvicorn").out == "Mia - Uvicorn  memory/x.md:1  named together\n"


def test_history_prints_what_ended_each_fact(kipu):
    assert kipu("history", "Ravi").out == (
        "undated     Ravi -uses-> FastAPI  memory/team.md:1\n"
        "2026-01-10  Ravi -lives in-> Rome  memory/2026-01-10.md:1  superseded by memory/2026-02-10.md:1\n"
        "2026-02-10  Ravi -lives in-> Oslo  memory/2026-02-10.md:1\n"
        "2026-02-10  Ravi -not use-> Flask  memory/2026-02-10.md:1\n"
    ).replace("-not use-", "-not uses-")


def test_conflicts_and_suggestions_are_listed(kipu, kipu_write):
    assert kipu("conflicts") == Done(0, "", "No facts exclude each other.\n")
    assert kipu("suggest").err == "No names are written alike.\n"
    kipu_write("memory/a.md", "Atlas owns `x`. Mia uses Fast-API. Mia lives in Rome.\n")
    kipu_write("memory/b.md", "Mia lives in Oslo.\n")
    assert kipu("conflicts").out == (
        "Mia: lives in\n"
        "undated     Mia -lives in-> Rome  memory/a.md:1\n"
        "undated     Mia -lives in-> Oslo  memory/b.md:1\n"
    )
    assert "Fast-API\tFastAPI\tthey differ in spaces, marks or accents only\n" in kipu("suggest").out


@pytest.mark.parametrize("command", [["show"], ["history"], ["path", "Ravi"], ["export"]], ids=lambda each: each[0])
def test_an_unknown_name_ends_with_2_and_a_hint(kipu, command):
    for extra in ([], ["--json"]):
        done = kipu(*command, "Uvicron", *extra)
        assert done == Done(2, "", 'Error: The memory names no "Uvicron". Did you mean "Uvicorn"?\n')


@pytest.mark.parametrize(
    "command",
    [["show", "Ravi"], ["path", "Ravi", "Uvicorn"], ["history", "Ravi"], ["conflicts"], ["suggest"], ["export"]],
    ids=lambda each: each[0],
)
def test_every_command_prints_one_document_as_json(kipu, command):
    done = kipu(*command, "--json")
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    facts = document if isinstance(document, list) else document["facts"]
    assert all({"source", "predicate", "target", "path", "start_line", "outdated"} <= fact.keys() for fact in facts)
    assert kipu(*command, "--json") == done
    assert all(option in kipu(*command, "--help").out for option in ("--workspace", "--scope", "--as-of", "--json"))


def test_export_prints_a_document_for_graphviz_or_a_picture(kipu):
    dot = kipu("export").out
    assert dot.startswith("digraph kipu {\n")
    assert '  "FastAPI" -> "Uvicorn" [label="runs on"];\n' in dot
    assert kipu("export", "Uvicorn", "--dot").out.count("->") == 1
    assert kipu("export", "Uvicorn", "--depth", "2").out.count("->") == 2
    pytest.importorskip("networkx")
    picture = kipu("export", "Ravi", "--svg").out
    assert {text.text for text in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")} == {
        *("Ravi", "Oslo", "FastAPI"),
        *("lives in", "uses"),
    }


def test_mistakes_end_with_2(kipu, kipu_write):
    assert kipu("export", "--svg", "--json").code == 2
    assert kipu("show", "Ravi", "--as-of", "yesterday").code == 2
    kipu_write("memory/many.md", "".join(f"Person{each} uses Tool{each}.\n\n" for each in range(100)))
    done = kipu("export", "--svg")
    assert (done.code, done.out) == (2, "")
    assert "make no readable picture" in done.err


def test_long_lists_are_cut_and_what_is_stated_twice_is_shown_once(kipu, kipu_write):
    kipu_write("memory/many.md", "".join(f"Mia uses Tool{each}.\n\n" for each in range(60)))
    kipu_write("memory/again.md", "Mia uses Tool1.\n")
    done = kipu("show", "Mia")
    assert (done.out.count("->"), done.err) == (50, "... and 10 more; --verbose names all of them\n")
    assert kipu("show", "Mia", "--verbose").out.count("->") == 60
    assert (
        len(json.loads(kipu("show", "Mia", "--json").out)["facts"])
        == kipu("history", "Mia", "-v").out.count("->")
        == 61
    )


def test_doctor_says_how_much_each_rule_has_found(kipu):
    assert kipu("conflicts").code == 0
    assert "ok       graph: 5 statements, by rule: sentence 5\n" in kipu(command="doctor").out


def test_a_scope_sees_its_own_facts_only(kipu, kipu_write):
    kipu_write("memory/ann/a.md", "Ravi uses Redis.\n")
    assert kipu("show", "Ravi", "--scope", "ann").out.count("->") == 1
    assert kipu("show", "Uvicorn", "--scope", "ann").code == 2


def test_control_characters_of_notes_are_shown_as_escapes(kipu, kipu_write):
    kipu_write("memory/bad.md", "- uses [[Evil\x1b[31m Tool]]\n")
    assert "\x1b" not in kipu("export").out + kipu("history", "bad").out + kipu("export", "--json").out
