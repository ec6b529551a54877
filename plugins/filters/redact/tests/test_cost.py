"""The work of filtering grows with the length of a text, whatever is in it."""

from __future__ import annotations

import base64
import re
import sys
from typing import Any

import pytest
import sample_keys

from kipu_filter_redact import Redact, assignments, forms, places, secret, tables, tokens

GITHUB = sample_keys.tokens()["GitHub"][0]
ID = "AKIA" + sample_keys.draw(sample_keys.CAPITALS, 16)


def patterns() -> list[str]:
    """Return all patterns that are searched for in a whole text, or from a place in it."""
    found = [kind.pattern for kind in tokens._KINDS]
    found += [pattern for form in forms._FORMS for pattern in (form.pattern, form.parts, form.before)]
    for module in (assignments, places, secret, tables, tokens):
        found += [value.pattern for value in vars(module).values() if isinstance(value, re.Pattern)]
    return found


def unbounded(parsed: Any) -> list[Any]:
    """Return the repetitions of a parsed pattern that have no limit, and can give back what they matched."""
    found = []
    for operator, argument in parsed:
        if str(operator) in ("MAX_REPEAT", "MIN_REPEAT") and argument[1] == re._parser.MAXREPEAT:  # type: ignore[attr-defined]
            found.append(argument)
        for part in argument if isinstance(argument, (list, tuple)) else ():
            for inner in part if isinstance(part, list) else [part]:
                if isinstance(inner, re._parser.SubPattern):  # type: ignore[attr-defined]
                    found += unbounded(inner)
    return found


def test_no_pattern_repeats_without_limit():
    # The work within a pattern cannot be counted. With limits, it does not depend on the length of the text.
    assert [p for p in patterns() if unbounded(re._parser.parse(p, re.VERBOSE if "\n" in p else 0))] == []  # type: ignore[attr-defined]


def calls_to_filter(text: str) -> int:
    """Return how many functions are called to filter a text, those of Python and of C."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        Redact().filter(text, "memory/notes.md")
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "a=",
            '"',
            ":",
            "a1B2",
            "\u200b",
            "\\_",
            "\n",
            "a\n",
            "ghp_a\n",
            "password\n",
            "password: |\n",
            "a|password|b\n",
            "|password|",
            "user,password\n",
            "DB_PASSWORD=swordfish ",
        ),
        *(
            "user: a\npassword: swordfish\n",
            '{"password": "swordfish"}',
            'setPassword("',
            'set("password", "',
            "${PASSWORD:-",
        ),
        *(
            'password = os.getenv("X", "',
            'auth=("a", "',
            "cookie: a=b1c2d3e4b1c2d3e4; ",
            "docker login -p ",
            "curl -b ",
        ),
        *(
            "credentials a/",
            "authorization: a ",
            f"{ID} ",
            f"{ID}:",
            "a1a1a1a1a1a1a1a1:",
            "identified by '",
            "%22password%22%3A",
        ),
        base64.b64encode(f"{GITHUB}..".encode()).decode(),
    ],
)
def test_the_work_does_not_grow_faster_than_the_text(unit):
    calls_to_filter(unit * 10)  # patterns are compiled once
    length = 20_000 // len(unit)
    assert calls_to_filter(unit * length * 2) <= 2.1 * calls_to_filter(unit * length) + 100
