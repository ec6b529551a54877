"""The options that say where requests go and with which key, and the search for that key."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kipu.options import Rule, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .failures import Errors

__all__ = [
    "address_option",
    "check_provider",
    "find_key",
    "key_option",
    "model_option",
    "refuse_missing_key",
    "source_of_key",
]

_ADDRESS = re.compile(r"https?://[^?#@\s]+")

# The variables of which a provider needs one. Those of other providers only LiteLLM knows, once it is imported.
_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "cohere": ("COHERE_API_KEY",),
    "gemini": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "mistral": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "voyage": ("VOYAGE_API_KEY",),
}


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
    if value is None:
        return True
    text = value["env"] if isinstance(value, dict) and [*value] == ["env"] else value
    return isinstance(text, str) and text.strip() != "" and _fits_into_a_header(text)


def _fits_into_a_header(key: str) -> bool:
    return key.isascii() and key.isprintable()


def source_of_key(api_key: Any, provider: str) -> str:
    """Return where a key comes from, for messages."""
    if isinstance(api_key, dict):
        return f"the environment variable {api_key['env']}"
    return f"{provider.upper()}_API_KEY" if api_key is None else "api_key"


def refuse_missing_key(model: str, errors: Errors) -> None:
    """Check that there may be a key for a model, as far as that is known without importing LiteLLM.

    :raises KipuError: the environment has none.
    """
    provider, has_provider, _ = model.partition("/")
    names = _VARIABLES.get(provider, ())
    if has_provider and names and not any(map(os.environ.get, names)) and not _may_find_variables():
        raise _no_key(model, names, errors)


def _may_find_variables() -> bool:
    """Return whether LiteLLM may know of variables that are not set: it reads a file ``.env`` when it is imported."""
    if "litellm" in sys.modules:
        return True
    found = find_spec("litellm")
    return bool(found and found.origin and any((folder / ".env").exists() for folder in Path(found.origin).parents))


def find_key(api_key: Any, model: str, errors: Errors) -> str | None:
    """Return the key that the option ``api_key`` gives; None where LiteLLM has to find it.

    :raises KipuError: the environment variable is not set, or has something in it that is no key.
    """
    if not isinstance(api_key, dict):
        return api_key  # type: ignore[no-any-return] # the validator allows nothing else
    name = api_key["env"]
    key = os.environ.get(name)
    if not key:
        raise errors.failed(f"There is no key for {model}: api_key names the variable {name}, which is not set.")
    _check_variable(name, model, errors)
    return key


def check_provider(litellm: Any, provider: str, model: str, errors: Errors) -> None:
    """Check that LiteLLM finds a key for a model, which a header can hold.

    A program may have given a key to LiteLLM itself, and Azure has logins without one.

    :raises KipuError: it finds none, or one that cannot be sent.
    """
    for name in _VARIABLES.get(provider, (f"{provider.upper()}_API_KEY",)):
        _check_variable(name, model, errors)
    if provider == "azure" or litellm.api_key or getattr(litellm, f"{provider}_key", None):
        return
    known = litellm.validate_environment(model)
    missing = [name for name in known["missing_keys"] if name.endswith("_API_KEY") and not os.environ.get(name)]
    if missing and not known["keys_in_environment"]:
        raise _no_key(model, missing, errors)


def _check_variable(name: str, model: str, errors: Errors) -> None:
    if not _fits_into_a_header(os.environ.get(name, "")):
        raise errors.failed(
            f"The key for {model} cannot be sent: the environment variable {name} has a character that no key has, "
            "such as a line break or a letter with an accent."
        )


def _no_key(model: str, names: Sequence[str], errors: Errors) -> Exception:
    return errors.failed(
        f'There is no key for {model}. Set {" or ".join(names)}, or put api_key = {{ env = "NAME" }} beside model in '
        "kipu.toml."
    )
