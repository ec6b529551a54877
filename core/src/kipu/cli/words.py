"""How a command line with somebody's own words on it is read: a text may begin with a dash, as an item does."""

from __future__ import annotations

import re
from typing import Any

import click

from ..errors import WorkspaceNotFoundError

__all__ = ["Words"]

_LIKE_AN_OPTION = re.compile(r"--?[A-Za-z]\S*")
_LETTERS = re.compile(r"-[A-Za-z]\S+")  # several options in one, or one with its value


class Words(click.Command):
    """A command that takes words.

    An argument is an option if it is one of the command's, alone or with ``=`` and a value. It is taken for one if it
    looks like one: one or two dashes, a letter, and no white space; if it is none, that is an error, since it may be a
    typing error. Everything else is text: click alone would look for an option in each letter of "- very good". So
    "-wa b" is text too, which the help says: it cannot be told from a sentence.
    """

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Tell options from words. An error says how to write a text that could be an option."""
        options, words = self._split(context, arguments)
        context.meta["kipu.letters"] = any(map(_LETTERS.fullmatch, options))
        try:
            return super().parse_args(context, [*options, "--", *words] if words else options)
        except click.NoSuchOption as error:
            said = f"{error.format_message()} {_hint(context)}"
            raise click.NoSuchOption(error.option_name, said, ctx=context) from None
        except click.UsageError as error:
            if not context.meta["kipu.letters"]:
                raise
            raise click.UsageError(f"{error.format_message()} {_hint(context)}", context) from None

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Say how words are told from options, below all else."""
        super().format_epilog(context, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(
                "What has white space in it is text, even with a dash before it, unless it begins with an option and "
                "=. So write -w FOLDER, not -wFOLDER, where the name of the folder has any. Other words that begin "
                "with a dash stand behind --."
            )

    def invoke(self, context: click.Context) -> Any:
        """Run the command, of which click knows by now what was given."""
        try:
            return super().invoke(context)
        except WorkspaceNotFoundError as error:
            if context.meta["kipu.letters"]:  # such as "-well", which is -w and a folder
                raise WorkspaceNotFoundError(f"{error} {_hint(context)}") from None
            raise

    def _split(self, context: click.Context, arguments: list[str]) -> tuple[list[str], list[str]]:
        """The options, each with its value behind it, and the words."""
        options: list[str] = []
        words: list[str] = []
        takes_value = {
            name: not (option.is_flag or option.count)
            for option in self.get_params(context)
            if isinstance(option, click.Option)
            for name in (*option.opts, *option.secondary_opts)
        }
        rest = iter(arguments)
        for argument in rest:
            name, equals, _ = argument.partition("=")
            if argument == "--":
                words += rest
            elif not _LIKE_AN_OPTION.fullmatch(argument) and not (equals and takes_value.get(name)):
                words.append(argument)
            else:
                options.append(argument)
                if _wants_value(argument, takes_value):
                    value = next(rest, None)
                    if value is None:
                        return options, []  # click says what is missing
                    options.append(value)
        return options, words


def _hint(context: click.Context) -> str:
    return f"Words that begin with a dash stand behind --: {context.command_path} -- WORDS"


def _wants_value(argument: str, takes_value: dict[str, bool]) -> bool:
    """Whether the value of an option is the next argument. In ``-qw``, it is that of the last letter."""
    if argument.startswith("--"):
        return takes_value.get(argument, False)
    for position, letter in enumerate(argument[1:], 2):
        if takes_value.get(f"-{letter}"):
            return position == len(argument)
    return False
