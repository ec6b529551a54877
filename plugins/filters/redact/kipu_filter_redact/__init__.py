"""Takes keys, tokens and passwords out of a text before it is written.

`kipu_filter_redact.tokens` knows those that show by themselves what they are, `kipu_filter_redact.assignments` those
that only their surroundings give away, as in ``password = ...``. Here they are replaced, and reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from kipu import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kipu.types import Filtered, Register, WriteFilter

    from .found import Found

__all__ = ["Redact"]

_LINES_NAMED = 10
# The labels that are spoken with a vowel first, though they are not written so.
_SPOKEN_WITH_A_VOWEL = ("A", "E", "I", "O", "a", "npm", "xAI")


def _values(allow: Sequence[str]) -> tuple[str, ...]:
    # A text is a sequence of texts as well: each of its letters would be allowed.
    return allow if isinstance(allow, str) else tuple(allow)  # type: ignore[return-value]  # the validator refuses it


def _check_allow(instance: Redact, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, tuple):
        raise TypeError('allow is a list of texts that may stay, as in allow = ["AKIAIOSFODNN7EXAMPLE"], not one text')
    for number, text in enumerate(value, start=1):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"allow is a list of texts that may stay: entry {number} is empty or not a text")


@attrs.frozen
class Redact:
    """Put ``[redacted: AWS access key]`` and the like in place of each key, token or password.

    ``allow`` lists what may stay although it looks like one: the whole key or password, letter for letter.
    """

    allow: tuple[str, ...] = attrs.field(
        default=(),
        converter=_values,
        validator=_check_allow,
        metadata={"help": "Keys or passwords that may stay, each in full, such as those of documentation."},
    )

    def filter(self, text: str, path: str) -> Filtered:
        """Return the text without the secrets that it shows, and a sentence for each kind of them.

        All else stays as it is, and so does the number of lines. A text that was prepared before does not change.
        """
        from kipu.types import Filtered

        notices: list[str] = []
        # What stood beside a secret may only now be seen for one: nothing is left for a second time.
        while secrets := self._secrets(text):
            notices += _describe(text, secrets)
            text = _replace(text, secrets)
        return Filtered(text, notices, secret=bool(notices))

    def _secrets(self, text: str) -> list[Found]:
        """The secrets in the text, by their place; where several overlap, one that covers all of them."""
        from .assignments import find_assigned
        from .found import merge, unescaped
        from .tokens import find_tokens

        plain = unescaped(text)
        found = [*find_tokens(text), *find_assigned(text)]
        if plain.text != text:
            found += map(plain.back, [*find_tokens(plain.text), *find_assigned(plain.text)])
        return merge(secret for secret in found if not self._is_allowed(text[secret.start : secret.end]))

    def _is_allowed(self, secret: str) -> bool:
        from .found import unescaped

        return secret in self.allow or unescaped(secret).text in self.allow


def _placeholder(label: str) -> str:
    return f"[redacted: {label}]"


def _replace(text: str, secrets: Sequence[Found]) -> str:
    """Put placeholders in place of the secrets; the line ends within a secret stay."""
    pieces: list[str] = []
    end = 0
    for secret in secrets:
        line_ends = "".join(letter for letter in text[secret.start : secret.end] if letter in "\r\n")
        pieces += text[end : secret.start], _placeholder(secret.label), line_ends
        end = secret.end
    return "".join([*pieces, text[end:]])


def _describe(text: str, secrets: Sequence[Found]) -> list[str]:
    """A sentence for each kind of secret, with the lines where they stood."""
    lines: dict[str, list[int]] = {}
    line, seen = 1, 0
    for secret in secrets:
        line += text.count("\n", seen, secret.start)
        seen = secret.start
        lines.setdefault(secret.label, []).append(line)
    return [_sentence(label, numbers) for label, numbers in lines.items()]


def _sentence(label: str, lines: Sequence[int]) -> str:
    different = [str(line) for line in dict.fromkeys(lines)]
    named, unnamed = different[:_LINES_NAMED], len(different) - _LINES_NAMED
    if unnamed > 0:
        where = f"lines {', '.join(named)} and {unnamed} more"
    elif len(named) > 1:
        where = f"lines {', '.join(named[:-1])} and {named[-1]}"
    else:
        where = f"line {named[0]}"
    if len(lines) > 1:
        return f"{len(lines)} {label}s in {where} were replaced by {_placeholder(label)}."
    article = "An" if label.startswith(_SPOKEN_WITH_A_VOWEL) else "A"
    return f"{article} {label} in {where} was replaced by {_placeholder(label)}."


@hookimpl
def kipu_register_write_filters(register: Register[WriteFilter]) -> None:
    register("redact", Redact)
