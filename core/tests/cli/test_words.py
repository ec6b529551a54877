"""Words on the command line are taken as they are, whatever they begin with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kipu.cli import COMMANDS
from kipu.cli.keep import PLACE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Done

    Kipu = Callable[..., Done]
    Write = Callable[[str, str], Path]


def command_of(name: str) -> click.Command:
    command: click.Command = getattr(import_module(f"kipu.cli.{COMMANDS[name][0]}"), f"{name}_command")
    return command


def options_of(command: click.Command, context: click.Context) -> dict[str, bool]:
    """The names of the options, and whether they take a value."""
    return {
        name: not option.is_flag
        for option in command.get_params(context)
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
    }


beginnings = st.sampled_from(["", "-", "--", "- ", "-q", "-w", "--source", "--json="])
endings = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))  # as a process can be given
dashed = st.builds("".join, st.tuples(beginnings, endings))


@pytest.mark.parametrize(
    ("name", "before", "parameter"),
    [
        ("remember", [], "text"),
        ("edit", ["memory/a.md:1"], "text"),
        ("recall", [], "query"),
        ("search", [], "query"),
        ("read", [], "place"),
        ("move", ["memory/a.md"], "to"),
        ("add", [], "files"),
    ],
)
@pytest.mark.usefixtures("here")
def test_every_text_is_one_argument_as_it_is(name: str, before: list[str], parameter: str) -> None:
    command = command_of(name)
    options = options_of(command, click.Context(command))

    @settings(max_examples=60, deadline=None)
    @given(text=dashed, behind=st.booleans())
    def check(text: str, behind: bool) -> None:
        option, equals, _ = text.partition("=")
        if not behind and (not any(map(str.isspace, text)) or (equals and options.get(option))):
            return
        arguments = [*before, *(["--"] if behind else []), text, *([] if behind else ["--quiet"])]
        values = command.make_context(name, arguments).params
        assert values[parameter] == {"place": PLACE.convert(text, None, None), "to": text}.get(parameter, (text,))
        assert values["quiet"] is not behind
        assert (values["workspace"], values["verbose"], values["as_json"]) == (None, False, False)

    check()


@pytest.mark.parametrize("name", ["remember", "recall", "search"])
@pytest.mark.usefixtures("here")
def test_what_is_no_text_is_an_option_or_an_error_that_says_how_to_write_text(name: str) -> None:
    command = command_of(name)

    @settings(max_examples=60, deadline=None)
    @given(text=st.from_regex(r"--?[A-Za-z][\w=./-]*", fullmatch=True))
    @example("-very")
    @example("--sorce=team")
    @example("-qw0")
    def check(text: str) -> None:
        if text == "--help" or set(text) <= set("-hqv"):
            return
        try:
            context = command.make_context(name, ["word", text])
        except click.UsageError as raised:
            error = raised
        else:
            assert context.params["text" if name == "remember" else "query"] == ("word",)
            sources = list(map(context.get_parameter_source, context.params))
            assert sources.count(click.core.ParameterSource.COMMANDLINE) >= 2  # such as -qw0, which is two
            return
        assert error.exit_code == 2
        assert f"stand behind --: {name} -- WORDS" in error.format_message() or text.startswith("--") or len(text) == 2

    check()


@pytest.mark.parametrize(
    "text", ["- very good, quite nice", "-5 degrees", "- well, -h helps", "-5", "---", "--- a rule"]
)
def test_a_text_that_begins_with_a_dash_is_kept_and_found(kipu: Kipu, here: Path, write: Write, text: str) -> None:
    write("memory/a.md", "first\nsecond valkey\n")
    assert kipu("edit", "memory/a.md:1", text).code == 0
    assert (here / "memory/a.md").read_text("utf-8") == f"{text}\nsecond valkey\n"
    assert kipu("remember", text, "--file", "memory/b.md", "-q").out == ""
    written = f"\\{text}" if text == "---" else text  # an item of dashes alone would be a line across the page
    assert (here / "memory/b.md").read_text("utf-8").endswith(f"- {written}\n")
    assert kipu("search", text, "--json").json["query"] == text
    assert kipu("recall", f"{text} valkey", "--json").code == 0


def test_options_stand_anywhere_and_words_behind_two_dashes_are_none(kipu: Kipu, here: Path, write: Write) -> None:
    write("memory/a.md", "valkey")
    done = kipu("search", "-qn1", "valkey", "--strategy=keyword", "--json", "--", "-q", "--json")
    assert (done.json["query"], len(done.json["results"]), done.err) == ("valkey -q --json", 1, "")
    assert kipu("remember", "--heading=What is new", "-qw", str(here), "--file", "b.md", "one", "-").code == 0
    assert (here / "memory/b.md").read_text("utf-8") == "## What is new\n\n- one -\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["remember", "-very", "good"], "No such option '-e'."),
        (["remember", "-well"], "The workspace ell does not exist."),
        (["remember", "one", "--tagg", "two"], "No such option '--tagg'. Did you mean '--tag'?"),
        (["search", "-nothing"], "'othing' is not a valid integer."),
        (["edit", "memory/a.md:1", "-Xmx512m"], "No such option '-X'."),
    ],
)
def test_a_word_that_looks_like_an_option_and_is_none_is_an_error(
    kipu: Kipu, here: Path, arguments: list[str], said: str
) -> None:
    done = kipu(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(f"{said} Words that begin with a dash stand behind --: kipu {arguments[0]} -- WORDS\n")
    assert not any((here / "memory").iterdir())


def test_an_option_without_its_value_is_an_error(kipu: Kipu) -> None:
    for arguments in (["remember", "one", "--heading"], ["search", "one", "-qn"]):
        done = kipu(*arguments)
        assert done.code == 2
        assert "requires an argument" in done.err


def test_a_workspace_is_not_looked_for_in_a_text(kipu: Kipu, write: Write) -> None:
    write("other/kipu.toml", '[plugins]\ndisable = ["fake-standard"]\n')
    write("memory/a.md", "valkey")
    assert kipu("search", "-wother valkey", "--min-score", "0.1").code == 0
