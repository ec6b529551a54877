"""Options of configuration and of plugins: fields of attrs classes, with a rule and a help text.

An option is one line::

    half_life_days: float = option(30.0, number(above=0), "After how many days a score is halved.")

Its rule checks it wherever it comes from: a file, the command line, or Python. What breaks a rule raises
`kipu.errors.ConfigurationError` with a sentence that names the option.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from .errors import ConfigurationError

__all__ = [
    "Rule",
    "boolean",
    "describe",
    "languages",
    "mapping_of",
    "number",
    "one_of",
    "option",
    "optional",
    "text",
    "texts",
    "whole_number",
]


@attrs.frozen
class Rule:
    """What the value of an option must be: a validator of attrs.

    ``expected`` is a phrase for the message, and ``holds`` returns whether a value is that: "half_life must be a
    number above 0, not -3". The message leaves the value out if it is ``hidden``, because a key may be in it.
    """

    expected: str
    holds: Callable[[Any], bool]
    hidden: bool = False

    def __call__(self, instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        """Raise ConfigurationError unless the rule holds."""
        if not self.holds(value):
            shown = "" if self.hidden else f", not {describe(value)}"
            raise ConfigurationError(f"{attribute.name} must be {self.expected}{shown}")


def option(
    default: Any = attrs.NOTHING,
    rule: Rule | Sequence[Rule] | None = None,
    help: str = "",  # noqa: A002 (what the command line calls it)
    *,
    per_call: str | None = None,
    secret: bool = False,
    **field: Any,
) -> Any:
    """Make a field of an attrs class that is an option.

    :param default: its default; a function without arguments, such as ``list``, is called for each instance. Without
        a default the option is required.
    :param rule: what its value must be.
    :param help: a sentence for the reference page and the command line.
    :param per_call: the name by which it can also be given with one search, as ``memory.search(..., name=value)`` and
        ``kipu search --name``.
    :param secret: whether it must be written nowhere, as a key.
    :param field: further arguments of `attrs.field`, such as ``converter`` or ``repr``.
    """
    metadata: dict[str, Any] = {"help": help} if help else {}
    if per_call is not None:
        metadata["per_call"] = per_call
    if secret:
        metadata["secret"] = True
        field.setdefault("repr", False)
    make = default is not attrs.NOTHING and callable(default)
    given = {"factory": default} if make else {"default": default}
    validator = list(rule) if isinstance(rule, Sequence) else rule
    return attrs.field(**given, validator=validator, metadata=metadata, **field)


def describe(value: Any) -> str:
    """Describe a value in a message. A table of options may hold a key, so its content is not shown."""
    return f"a {type(value).__name__}" if isinstance(value, (dict, list, tuple)) else repr(value)


boolean = Rule("true or false", lambda value: isinstance(value, bool))
"""A rule: true or false."""

text = Rule("a text in quotes", lambda value: isinstance(value, str))
"""A rule: a text."""

texts = Rule(
    "a list of texts", lambda value: isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value)
)
"""A rule: a list of texts."""

languages = Rule(
    'a list of ISO 639-1 codes such as "en"',
    lambda value: (
        value is None
        or (
            isinstance(value, (list, tuple))
            and all(isinstance(code, str) and len(code) == 2 and code.isascii() and code.islower() for code in value)
        )
    ),
)
"""A rule: a list of ISO 639-1 codes of languages, or None."""


def whole_number(at_least: int = 0, at_most: int | None = None) -> Rule:
    """Make a rule: a whole number in a range, both ends included."""
    return Rule(
        f"a whole number {_range(at_least, at_most)}",
        lambda value: type(value) is int and value >= at_least and (at_most is None or value <= at_most),
    )


def number(at_least: float | None = None, at_most: float | None = None, *, above: float | None = None) -> Rule:
    """Make a rule: a finite number in a range whose ends are included, but for ``above``."""
    low = f"above {above}" if above is not None else ""
    high = _range(at_least, at_most)
    expected = " ".join(filter(None, ["a number", low, f"and {high}" if low and high else high]))

    def holds(value: Any) -> bool:
        return (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and math.isfinite(value)
            and (above is None or value > above)
            and (at_least is None or value >= at_least)
            and (at_most is None or value <= at_most)
        )

    return Rule(expected, holds)


def _range(low: float | None, high: float | None) -> str:
    if low is None:
        return "" if high is None else f"of at most {high:,}"
    return f"of at least {low:,}" if high is None else f"from {low:,} to {high:,}"


def one_of(*names: str) -> Rule:
    """Make a rule: one of a few texts."""
    return Rule(f"one of {', '.join(names)}", lambda value: value in names)


def optional(rule: Rule) -> Rule:
    """Make a rule: what another rule allows, or None."""
    return Rule(rule.expected, lambda value: value is None or rule.holds(value))


def mapping_of(rule: Rule) -> Rule:
    """Make a rule: a table whose values each follow another rule."""
    return Rule(
        f"a table whose values are each {rule.expected}",
        lambda value: (
            isinstance(value, Mapping) and all(isinstance(key, str) and rule.holds(part) for key, part in value.items())
        ),
    )
