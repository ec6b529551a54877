"""The options that the components share."""

from __future__ import annotations

import re
from typing import Any

from kipu.options import Rule, number, option

__all__ = [
    "IMPORT_SECONDS",
    "address_option",
    "fits_into_a_header",
    "key_option",
    "model_option",
    "timeout_option",
]

IMPORT_SECONDS = 120.0
"""How long the import of LiteLLM may take. It takes more than twenty seconds on a slow machine."""

_ADDRESS = re.compile(r"https?://[^?#@\s]+")


def model_option(examples: str) -> Any:
    """Return the option ``model``."""
    rule = Rule(
        f"written as provider/model, such as {examples.partition(',')[0]}",
        lambda value: isinstance(value, str) and value.strip("/ ") != "" and not re.search(r"\s", value),
    )
    return option(rule=rule, help=f"The model, as provider/model: {examples}.")


def address_option() -> Any:
    """Return the option ``api_base``. It is written into the index and shown, so no key may be in it."""
    rule = Rule(
        "an address such as https://host/v1, without a user or a query: a key goes into api_key",
        lambda value: value is None or (isinstance(value, str) and _ADDRESS.fullmatch(value) is not None),
        hidden=True,
    )
    return option(None, rule, "The address of the provider, where it is not the usual one.")


def timeout_option(seconds: float) -> Any:
    """Return the option ``request_timeout``."""
    return option(seconds, number(above=0), "How long to wait for a whole answer, in seconds.", converter=float)


def key_option() -> Any:
    """Return the option ``api_key``."""
    return option(
        None,
        Rule('a text in quotes, or { env = "NAME" } for that of an environment variable', _is_key, hidden=True),
        'The key, or { env = "NAME" }. By default that of the provider\'s own environment variable.',
        secret=True,
        eq=False,
    )


def _is_key(value: Any) -> bool:
    text = value["env"] if isinstance(value, dict) and [*value] == ["env"] else value
    return value is None or (isinstance(text, str) and text.strip() != "" and fits_into_a_header(text))


def fits_into_a_header(key: str) -> bool:
    """Return whether an HTTP header can hold a key."""
    return key.isascii() and key.isprintable()
