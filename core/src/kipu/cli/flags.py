"""The flags of a command that searches: each per-call option of an installed plugin is one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .common import load_plugins_in_advance
from .words import Words

if TYPE_CHECKING:
    from ..plugins.records import PerCallOption

__all__ = ["Searching", "with_flags_of_plugins"]


class Searching(Words):
    """A command that searches. It knows that an option may be missing because its plugin is."""

    not_in_use = ""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Tell options from words. An error names the plugins that are not in use."""
        try:
            return super().parse_args(context, arguments)
        except click.NoSuchOption as error:
            raise click.UsageError(f"{error.format_message()}{self.not_in_use}", context) from None


def with_flags_of_plugins(command: Searching) -> Searching:
    """The command, with a flag for each per-call option of an installed plugin."""
    taken = {parameter.name for parameter in command.params}
    plugins = load_plugins_in_advance()
    command.not_in_use = plugins.not_in_use()
    options = plugins.per_call_options()
    command.params += [_flag(option) for name, option in sorted(options.items()) if name not in taken]
    return command


def _flag(option: PerCallOption) -> click.Option:
    """The command-line flag of a plugin's per-call option."""
    field = option.field
    flag = option.name.replace("_", "-")
    about = f"{field.metadata.get('help', '')} [{option.registration.kind} {option.registration.name}]".strip()
    if field.type in (bool, "bool"):
        return click.Option([f"--{flag}/--no-{flag}", option.name], default=None, help=about)
    kinds: dict[Any, Any] = {"float": float, "int": int, float: float, int: int}
    return click.Option([f"--{flag}", option.name], type=kinds.get(field.type, str), default=None, help=about)
