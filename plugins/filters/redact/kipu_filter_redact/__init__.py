"""A write filter that removes keys, tokens and passwords from a text.

`kipu_filter_redact.tokens` recognizes keys by their own form, `kipu_filter_redact.forms` headers, commands, calls and
pairs, and `kipu_filter_redact.assignments` values by the name before them, as in ``password = ...``. This module
replaces and reports them.
"""

from __future__ import annotations

from collections.abc import Sequence  # cattrs reads the types of options
from typing import TYPE_CHECKING

import attrs

from kipu import hookimpl
from kipu.options import Rule, option
from kipu.types import WriteFilterBase

if TYPE_CHECKING:
    from kipu.types import Filtered, Register, WriteFilter

    from .secret import Secret

__all__ = ["Redact"]

_MAX_LISTED_LINES = 10
_LINE_ENDS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"
# Labels that take the article "An": they begin with a vowel or are pronounced with one.
_VOWELS = ("A", "E", "I", "O", "a", "npm", "xAI")


_ALLOW = Rule(
    'a list of keys and passwords in full, such as ["AKIAIOSFODNN7EXAMPLE"]',
    lambda value: (
        isinstance(value, (list, tuple)) and all(isinstance(secret, str) and secret.strip() != "" for secret in value)
    ),
    hidden=True,
)


@attrs.frozen
class Redact(WriteFilterBase):
    """Replace each key, token or password by a placeholder such as ``[redacted: AWS access key]``.

    ``allow`` lists keys and passwords to keep, each in full.
    """

    allow: Sequence[str] = option(
        (), _ALLOW, "Keys or passwords to keep, each in full, such as those of documentation."
    )

    def filter(self, text: str, path: str) -> Filtered:
        """Return the text without secrets, and a notice for each kind of secret.

        The rest of the text and the number of lines do not change. Filtering a text twice changes nothing.
        """
        from kipu.types import Filtered

        notices: list[str] = []
        # A replacement can reveal a secret beside it, so repeat until none is found.
        while secrets := self._find_secrets(text):
            notices += _describe(text, secrets)
            text = _replace(text, secrets)
        return Filtered(text, notices, secret=bool(notices))

    def _find_secrets(self, text: str) -> list[Secret]:
        """Return the secrets in the text by position. Overlapping ones are merged."""
        from .secret import merge, unescape

        plain = unescape(text)
        found = _find(text)
        if plain.text != text:
            found += map(plain.locate, _find(plain.text))
        return merge(secret for secret in found if not self._is_allowed(text[secret.start : secret.end]))

    def _is_allowed(self, secret: str) -> bool:
        from .secret import unescape

        return secret in self.allow or unescape(secret).text in self.allow


def _find(text: str) -> list[Secret]:
    from .assignments import find_assigned
    from .forms import find_forms
    from .secret import lower_in_place
    from .tables import find_in_tables
    from .tokens import find_encoded, find_tokens

    lower = lower_in_place(text)
    found = [*find_tokens(text), *find_forms(text, lower), *find_assigned(text, lower)]
    return [*found, *find_in_tables(text, lower), *find_encoded(text)]


def _placeholder(label: str) -> str:
    return f"[redacted: {label}]"


def _replace(text: str, secrets: Sequence[Secret]) -> str:
    """Replace the secrets by placeholders, and keep the line ends within a secret."""
    pieces: list[str] = []
    end = 0
    for secret in secrets:
        line_ends = "".join(letter for letter in text[secret.start : secret.end] if letter in _LINE_ENDS)
        pieces += text[end : secret.start], _placeholder(secret.label), line_ends
        end = secret.end
    return "".join([*pieces, text[end:]])


def _describe(text: str, secrets: Sequence[Secret]) -> list[str]:
    """Return a sentence for each kind of secret, with its lines."""
    lines: dict[str, list[int]] = {}
    line, seen = 1, 0
    for secret in secrets:
        line += text.count("\n", seen, secret.start)
        seen = secret.start
        lines.setdefault(secret.label, []).append(line)
    return [_sentence(label, numbers) for label, numbers in lines.items()]


def _sentence(label: str, lines: Sequence[int]) -> str:
    distinct = [str(line) for line in dict.fromkeys(lines)]
    named, unnamed = distinct[:_MAX_LISTED_LINES], len(distinct) - _MAX_LISTED_LINES
    if unnamed > 0:
        where = f"lines {', '.join(named)} and {unnamed} more"
    elif len(named) > 1:
        where = f"lines {', '.join(named[:-1])} and {named[-1]}"
    else:
        where = f"line {named[0]}"
    if len(lines) > 1:
        return f"{len(lines)} {label}s in {where} were replaced by {_placeholder(label)}."
    article = "An" if label.startswith(_VOWELS) else "A"
    return f"{article} {label} in {where} was replaced by {_placeholder(label)}."


@hookimpl
def kipu_register_write_filters(register: Register[WriteFilter]) -> None:
    register("redact", Redact)
