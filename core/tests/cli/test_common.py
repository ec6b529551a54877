"""How arguments are read: what is an option, and what is text."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kipu.cli import COMMANDS

if TYPE_CHECKING:
    import click


beginnings = st.sampled_from(["", "-", "--", "- ", "-q", "-w", "--source"])
endings = st.text(st.characters(exclude_characters="\0=", exclude_categories=["Cs"]))  # as a process can be given
dashed = st.builds("".join, st.tuples(beginnings, endings))


@pytest.mark.parametrize(("name", "parameter"), [("remember", "text"), ("recall", "query"), ("add", "files")])
@pytest.mark.usefixtures("here")
def test_an_argument_with_white_space_is_text(name, parameter):
    command: click.Command = getattr(import_module(f"kipu.cli.{COMMANDS[name][0]}"), f"{name}_command")

    @settings(max_examples=60, deadline=None)
    @given(text=dashed, behind=st.booleans())
    def check(text: str, behind: bool) -> None:
        if not behind and not any(map(str.isspace, text)):
            return
        arguments = ["--", text] if behind else [text, "--quiet"]
        values = command.make_context(name, arguments).params
        assert values[parameter] == (text,)
        assert values["quiet"] is not behind
        assert (values["workspace"], values["verbose"], values["as_json"]) == (None, False, False)

    check()


@pytest.mark.parametrize(
    "text", ["- very good, quite nice", "-5 degrees", "- well, -h helps", "-5", "---", "--- a rule"]
)
def test_a_text_that_begins_with_a_dash_is_kept_and_found(kipu, here, write, text):
    write("memory/a.md", "first\nsecond valkey\n")
    assert kipu("edit", "memory/a.md:1", text).code == 0
    assert (here / "memory/a.md").read_text("utf-8") == f"{text}\nsecond valkey\n"
    assert kipu("remember", text, "--file", "memory/b.md", "-q").out == ""
    # An item stays one, and an item of dashes alone would be a line across the page.
    written = text if text.startswith("- ") else f"- \\{text}" if text == "---" else f"- {text}"
    assert (here / "memory/b.md").read_text("utf-8").endswith(f"{written}\n")
    assert not (here / "memory/b.md").read_text("utf-8").endswith(f"- {written}\n")
    assert kipu("search", text, "--json").json["query"] == text
    assert kipu("recall", f"{text} valkey", "--json").code == 0


def test_options_stand_anywhere_but_behind_two_dashes(kipu, here, write):
    write("memory/a.md", "valkey")
    done = kipu("search", "-qn1", "valkey", "--strategy=keyword", "--json", "--", "-q", "--json")
    assert (done.json["query"], len(done.json["results"]), done.err) == ("valkey -q --json", 1, "")
    assert kipu("remember", "--heading=What is new", "-qw", str(here), "--file", "b.md", "one", "-").code == 0
    assert (here / "memory/b.md").read_text("utf-8") == "## What is new\n\n- one -\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["remember", "-very", "good"], "No such option '-e'."),
        (["remember", "one", "--tagg", "two"], "No such option '--tagg'. Did you mean '--tag'?"),
        (["edit", "memory/a.md:1", "-Xmx512m"], "No such option '-X'."),
    ],
)
def test_an_unknown_option_is_an_error_that_says_how_to_write_it_as_text(kipu, here, arguments, message):
    done = kipu(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(f"{message} Write text that begins with a dash after --: kipu {arguments[0]} -- TEXT\n")
    assert not any((here / "memory").iterdir())


def test_an_option_without_its_value_is_an_error(kipu):
    for arguments in (["remember", "one", "--heading"], ["search", "one", "-qn"]):
        done = kipu(*arguments)
        assert done.code == 2
        assert "requires an argument" in done.err


def test_a_text_does_not_name_a_workspace(kipu, write):
    write("other/kipu.toml", '[plugins]\ndisable = ["fake-standard"]\n')
    write("memory/a.md", "valkey")
    assert kipu("search", "-wother valkey", "--min-score", "0.1").code == 0
