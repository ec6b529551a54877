"""What a request is sent to, and with which key."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from .failures import Errors, Request
from .options import fits_into_a_header

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Target", "address_of", "destination_of", "provider_in"]

# The variables of which a provider needs one. Those of other providers only LiteLLM knows, once it is imported.
_VARIABLES = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "cohere": ("COHERE_API_KEY",),
    "gemini": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "mistral": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "voyage": ("VOYAGE_API_KEY",),
}

# The environment variables that LiteLLM takes an address from, beside PROVIDER_BASE_URL and PROVIDER_API_BASE.
_OPENAI = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
_FURTHER_ADDRESSES: dict[str, tuple[str, ...]] = {
    "": _OPENAI,  # a model without a provider is most often OpenAI's
    "bedrock": ("AWS_BEDROCK_RUNTIME_ENDPOINT",),
    "huggingface": ("HF_API_BASE",),
    "litellm_proxy": _OPENAI,
    "llamafile": ("OPENAI_LIKE_API_BASE",),
    "lm_studio": ("OPENAI_LIKE_API_BASE",),
    "nvidia_nim": _OPENAI,
    "together_ai": _OPENAI,
    "vertex_ai": ("VERTEXAI_API_BASE", "VERTEX_API_BASE"),
    "volcengine": ("ARK_API_BASE",),
}


def provider_in(model: str) -> str:
    """Return the provider in a model's name; empty where only LiteLLM knows it, which takes seconds to import."""
    return model.partition("/")[0] if "/" in model else ""


def address_of(model: str, api_base: str | None) -> str | None:
    """Return the address that is configured, or that LiteLLM takes from the environment, without a user or a query."""
    if api_base is not None:
        return api_base.rstrip("/")
    provider = provider_in(model)
    prefix = re.sub(r"\W", "_", provider.upper())
    names = (f"{prefix}_BASE_URL", f"{prefix}_API_BASE") if prefix else ()
    for name in (*names, *_FURTHER_ADDRESSES.get(provider, ())):
        if address := os.environ.get(name, "").strip():
            return re.sub(r"//[^/@]*@", "//", re.split(r"[?#]", address)[0]).rstrip("/")
    return None


def destination_of(model: str, api_base: str | None) -> str:
    """Return where texts are sent: an address or a provider; a name of its own where only LiteLLM knows it."""
    if api_base is None and not provider_in(model):
        return f"the provider that LiteLLM knows {model} of"
    return address_of(model, api_base) or provider_in(model)


@attrs.frozen
class Target:
    """A model with its options ``api_base`` and ``api_key``, and the errors of the component that asks it."""

    model: str
    api_base: str | None
    api_key: Any = attrs.field(repr=False)
    errors: Errors

    def prepare(self, timeout: float) -> tuple[Request, str, dict[str, Any]]:
        """Return a request, its provider, and the options of LiteLLM that all requests have.

        Imports LiteLLM, which takes seconds the first time.

        :raises KipuError: there is no key, or LiteLLM cannot be used for this model.
        """
        from .library import load, provider_of

        self.check_key()
        litellm = load(self.errors)
        provider = provider_of(litellm, self.model, self.api_base, self.errors)
        key = self._given_key()
        if key is None:
            self._check_variables(litellm, provider)
        options = {
            "model": self.model,
            "api_base": self.api_base,
            "api_key": key,
            "timeout": timeout,
            "max_retries": 0,
            "caching": False,
        }
        source = f"{provider.upper()}_API_KEY" if self.api_key is None else "api_key"
        if isinstance(self.api_key, dict):
            source = f"the environment variable {self.api_key['env']}"
        return Request(self.model, timeout, key, source, self.errors), provider, options

    def check_key(self) -> None:
        """Check that there may be a key, as far as that is known without importing LiteLLM.

        :raises KipuError: there is none, or one that cannot be sent.
        """
        if self.api_key is not None:
            self._given_key()
            return
        provider, has_provider, _ = self.model.partition("/")
        names = _VARIABLES.get(provider, ())
        if has_provider and names and not any(map(os.environ.get, names)) and not _may_find_variables():
            raise self._no_key(names)

    def _given_key(self) -> str | None:
        """Return the key that the option gives; None where LiteLLM has to find it."""
        if not isinstance(self.api_key, dict):
            return self.api_key  # type: ignore[no-any-return] # the rule of the option allows nothing else
        name = self.api_key["env"]
        key = os.environ.get(name)
        if not key:
            raise self.errors.failed(
                f"There is no key for {self.model}: api_key names the variable {name}, which is not set."
            )
        self._check_variable(name)
        return key

    def _check_variables(self, litellm: Any, provider: str) -> None:
        """Check that LiteLLM finds a key.

        A program may have given a key to LiteLLM itself, and Azure has logins without one.
        """
        for name in _VARIABLES.get(provider, (f"{provider.upper()}_API_KEY",)):
            self._check_variable(name)
        if provider == "azure" or litellm.api_key or getattr(litellm, f"{provider}_key", None):
            return
        known = litellm.validate_environment(self.model)
        missing = [name for name in known["missing_keys"] if name.endswith("_API_KEY") and not os.environ.get(name)]
        if missing and not known["keys_in_environment"]:
            raise self._no_key(missing)

    def _check_variable(self, name: str) -> None:
        if not fits_into_a_header(os.environ.get(name, "")):
            raise self.errors.failed(
                f"The key for {self.model} cannot be sent: the environment variable {name} has a character that no key "
                "has, such as a line break or a letter with an accent."
            )

    def _no_key(self, names: Sequence[str]) -> Exception:
        return self.errors.failed(
            f'There is no key for {self.model}. Set {" or ".join(names)}, or put api_key = {{ env = "NAME" }} beside '
            "model in kipu.toml."
        )


def _may_find_variables() -> bool:
    """Return whether LiteLLM may know of variables that are not set: it reads a file ``.env`` when it is imported."""
    if "litellm" in sys.modules:
        return True
    found = find_spec("litellm")
    return bool(found and found.origin and any((folder / ".env").exists() for folder in Path(found.origin).parents))
