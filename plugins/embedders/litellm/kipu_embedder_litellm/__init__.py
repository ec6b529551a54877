"""Embeds texts with the models of OpenAI, Gemini, Voyage, Mistral, Cohere, Ollama and all that LiteLLM knows.

LiteLLM takes seconds to import and hundreds of megabytes, so it is imported with the first text, and off the event
loop. It is kept from retrying, printing and fetching prices: when to try again is for Kipu to say.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
from attrs import validators

from kipu import hookimpl
from kipu.errors import EmbedderError

if TYPE_CHECKING:
    from kipu.types import Embedder, Register, Role, Vectors

__all__ = ["LiteLLM"]

# What a provider is to know beside the texts: what they are for, and that it must refuse what is longer than its model
# takes. Each of them would cut it without a word.
_ROLES: dict[str, dict[str, dict[str, Any]]] = {
    "cohere": {"document": {"input_type": "search_document"}, "query": {"input_type": "search_query"}},
    "gemini": {"document": {"task_type": "RETRIEVAL_DOCUMENT"}, "query": {"task_type": "RETRIEVAL_QUERY"}},
    "voyage": {"document": {"input_type": "document"}, "query": {"input_type": "query"}},
}
_REFUSE_LONG_TEXTS: dict[str, dict[str, Any]] = {
    "cohere": {"truncate": "NONE"},
    "ollama": {"truncate": False},
    "voyage": {"truncation": False},
}

# Where the name of the model says all, whatever address it is asked at.
_KNOWN_BY_NAME = frozenset({"cohere", "gemini", "mistral", "ollama", "voyage"})

# The environment variables that LiteLLM takes an address from, beside PROVIDER_BASE_URL and PROVIDER_API_BASE.
_OPENAI = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
_FURTHER_ADDRESSES: dict[str, tuple[str, ...]] = {
    "": _OPENAI,  # a model without a provider is OpenAI's more often than not
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


def _check_model(instance: Any, attribute: attrs.Attribute[Any], value: str) -> None:
    if not value.strip("/ ") or any(character.isspace() for character in value):
        raise ValueError('model must be written as provider/model, such as "openai/text-embedding-3-small"')


def _check_address(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Refuse what has a key in it, without saying what it is: an address is written into the index, and shown."""
    if value is not None and not (isinstance(value, str) and re.fullmatch(r"https?://[^?#@\s]+", value)):
        raise ValueError(
            "api_base must be an address such as https://host/v1, without a user or a query: a key goes into api_key"
        )


def _check_key(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Refuse what is no key without saying what it is: it may be one all the same."""
    name = value.get("env") if isinstance(value, dict) and set(value) == {"env"} else value
    if value is not None and not (isinstance(name, str) and name.strip()):
        raise ValueError('api_key must be a text in quotes, or { env = "NAME" } for that of an environment variable')


def _languages(value: Sequence[str] | None) -> tuple[str, ...] | None:
    if isinstance(value, str):
        raise TypeError('languages must be a list of codes, such as ["en", "de"]')
    return None if value is None else tuple(value)


@attrs.frozen
class LiteLLM:
    """Embed with a model of a provider, through LiteLLM.

    ``model`` is written as LiteLLM does: the provider, a slash, and the provider's name of it. The key is taken from
    the provider's own environment variable, such as ``OPENAI_API_KEY``, unless ``api_key`` says otherwise.
    """

    model: str = attrs.field(
        validator=[validators.instance_of(str), _check_model],
        metadata={"help": 'The model, as provider/model: "openai/text-embedding-3-small", "ollama/nomic-embed-text".'},
    )
    api_base: str | None = attrs.field(
        default=None,
        validator=_check_address,
        metadata={"help": "The address of the provider, where it is not the usual one."},
    )
    api_key: Any = attrs.field(
        default=None,
        validator=_check_key,
        repr=False,
        eq=False,
        metadata={
            "help": 'The key, or { env = "NAME" }. By default that of the provider\'s own environment variable.',
            "secret": True,
        },
    )
    dimensions: int | None = attrs.field(
        default=None,
        validator=validators.optional([validators.instance_of(int), validators.ge(1)]),
        metadata={
            "help": "How many numbers a vector has, for models that leave the choice. By default the model's own."
        },
    )
    batch_size: int = attrs.field(
        default=64,
        validator=[validators.instance_of(int), validators.ge(1)],
        metadata={"help": "How many texts go into one request."},
    )
    timeout: float = attrs.field(
        default=30.0,
        converter=float,
        validator=validators.gt(0.0),
        metadata={"help": "How long to wait for an answer in all, in seconds."},
    )
    languages: Sequence[str] | None = attrs.field(
        default=None,
        converter=_languages,
        metadata={"help": 'The languages that the model knows, such as ["en", "de"]. By default that is not known.'},
    )

    @property
    def destination(self) -> str:
        """Where texts are sent: the address, or the provider; what is like nothing else where only LiteLLM knows it."""
        if self.api_base is None and not self._provider:
            return f"the provider that LiteLLM knows {self.model} of"
        return self._address or self._provider

    @property
    def _provider(self) -> str:
        """What the model's name begins with; empty where only LiteLLM knows it, which takes seconds to ask."""
        return self.model.partition("/")[0] if "/" in self.model else ""

    @property
    def _address(self) -> str | None:
        """The address that is configured, or that LiteLLM takes from the environment, without a user or a query."""
        if self.api_base is not None:
            return self.api_base.rstrip("/")
        prefix = re.sub(r"\W", "_", self._provider.upper())
        names = (f"{prefix}_BASE_URL", f"{prefix}_API_BASE") if prefix else ()
        for name in (*names, *_FURTHER_ADDRESSES.get(self._provider, ())):
            if address := os.environ.get(name, "").strip():
                return re.sub(r"//[^/@]*@", "//", re.split(r"[?#]", address)[0]).rstrip("/")
        return None

    @property
    def identity(self) -> str:
        """The model, and its address where that decides which model answers. The key does not."""
        parts = [f"litellm:{self.model}"]
        if self.dimensions is not None:
            parts.append(f"dimensions={self.dimensions}")
        if self._address is not None and self._provider not in _KNOWN_BY_NAME:
            parts.append(f"api_base={self._address}")
        return " ".join(parts)

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Embed texts, one request after the other, each with ``batch_size`` of them.

        :raises EmbedderBusyError: a rate limit, or a fault of the provider's.
        :raises TextTooLongError: the provider found one of the texts of a request too long.
        :raises EmbedderError: the key is missing or refused, the provider lacks the model, cannot be reached, does not
            answer in time, or answers with something that cannot be used.
        """
        import asyncio

        import numpy as np

        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        key = self._key()
        options = await asyncio.to_thread(self._options, role, key)
        batches = [texts[start : start + self.batch_size] for start in range(0, len(texts), self.batch_size)]
        rows = [row for batch in batches for row in await self._request(batch, options)]
        lengths = sorted({len(row) for row in rows})
        if len(lengths) > 1:
            raise EmbedderError(f"{self.model} answered with vectors of different lengths: {lengths}.")
        return np.array(rows, dtype=np.float32)

    def _key(self) -> str | None:
        """The key; None where LiteLLM is to find it."""
        if isinstance(self.api_key, dict):
            name = self.api_key["env"]
            key = os.environ.get(name)
            if not key:
                raise EmbedderError(
                    f"The environment variable {name} is not set, and the key for {self.model} should be in it, says "
                    "api_key."
                )
            self._check_sendable(key, f"the environment variable {name}")
            return key
        if self.api_key is None:
            return None
        self._check_sendable(str(self.api_key), "api_key")
        return str(self.api_key)

    def _check_sendable(self, key: str, place: str) -> None:
        """Raise where no header of HTTP can hold a key, which is not said."""
        if not (key.isascii() and key.isprintable()):
            raise EmbedderError(
                f"The key for {self.model} cannot be sent: {place} has a character in it that no key has, such as a "
                "line break or a letter with an accent."
            )

    def _place_of_key(self, provider: str) -> str:
        if isinstance(self.api_key, dict):
            return f"the environment variable {self.api_key['env']}"
        return f"{provider.upper()}_API_KEY" if self.api_key is None else "api_key"

    def _options(self, role: Role, key: str | None) -> dict[str, Any]:
        """Everything that a request needs but the texts; imports LiteLLM, which takes seconds the first time."""
        from .requests import load, missing_keys, missing_keys_at_once, provider_of, variables_of_keys

        if key is None:
            self._refuse_to_go_without(missing_keys_at_once(self._provider))
        litellm = load()
        provider = provider_of(litellm, self.model, self.api_base)
        if key is None:
            self._refuse_to_go_without(missing_keys(litellm, provider, self.model))
            for name in variables_of_keys(provider):
                self._check_sendable(os.environ.get(name, ""), f"the environment variable {name}")
        options: dict[str, Any] = {
            "model": self.model,
            "api_base": self.api_base,
            "api_key": key,
            "timeout": self.timeout,
            **_ROLES.get(provider, {}).get(role, {}),
            **_REFUSE_LONG_TEXTS.get(provider, {}),
        }
        if self.dimensions is not None:
            options["dimensions"] = self.dimensions
            if provider == "openai":  # LiteLLM knows OpenAI's own models; other servers speak its protocol too
                options["allowed_openai_params"] = ["dimensions"]
        return options

    def _refuse_to_go_without(self, keys: Sequence[str]) -> None:
        """Raise where one of these environment variables should be set."""
        if keys:
            raise EmbedderError(
                f"There is no key for {self.model}. Set {' or '.join(keys)}, or put "
                'api_key = { env = "NAME" } beside model in kipu.toml.'
            )

    async def _request(self, texts: Sequence[str], options: dict[str, Any]) -> list[Any]:
        import asyncio

        from .exchanges import EXCHANGE, Exchange
        from .failures import Sent, failure
        from .requests import load, provider_of, request

        exchange = Exchange()
        watched = EXCHANGE.set(exchange)
        try:
            # LiteLLM's own limit is for each part of the answer: a server that sends a byte now and then never ends.
            async with asyncio.timeout(self.timeout):
                return await request(texts, options)
        except Exception as error:  # noqa: BLE001 - whatever it is, `failure` says it
            place = self._place_of_key(provider_of(load(), self.model, self.api_base))
            sent = Sent(self.model, len(texts), self.timeout, options["api_key"], place)
            failed = failure(error, sent, exchange)
        finally:
            EXCHANGE.reset(watched)
        raise failed  # out here, so that no traceback shows what came before: it may have the key in it


@hookimpl
def kipu_register_embedders(register: Register[Embedder]) -> None:
    register("litellm", LiteLLM)
