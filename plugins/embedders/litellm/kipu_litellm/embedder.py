"""The embedder: OpenAI, Gemini, Voyage, Mistral, Cohere, Ollama and all other providers that LiteLLM knows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from kipu import hookimpl
from kipu.errors import EmbedderBusyError, EmbedderError, TextTooLongError
from kipu.options import languages, option, optional, whole_number
from kipu.types import EmbedderBase

from .failures import Errors
from .options import IMPORT_SECONDS, address_option, key_option, model_option, timeout_option
from .target import Target, address_of, destination_of, provider_in

if TYPE_CHECKING:
    from kipu.types import Embedder, Register, Role, Vectors

    from .body import Allowance
    from .failures import Request

__all__ = ["LitellmEmbedder"]

# What a response may have in it. The models in use have 4,096 numbers at most; JSON takes some 22 bytes for each.
_MOST_NUMBERS = 16_384
_BYTES_A_NUMBER = 32
_SLACK_BYTES = 64 * 1024
_SLACK_VALUES = 1024

# Options of providers beside the texts: what the texts are for, and to refuse texts that are longer than the model
# takes. Each of these providers would cut them silently.
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

# The name of a model of these providers decides its vectors, at any address.
_KNOWN_BY_NAME = frozenset({"cohere", "gemini", "mistral", "ollama", "voyage"})

# How providers report a text that their model cannot take, or a request with too many tokens in all.
_TOO_LONG = re.compile(
    r"context (length|window)|(maximum|max|input|sequence|token|text)s? (length|size|request size)"
    r"|too (long|many tokens)|token limit|number of tokens",
    re.IGNORECASE,
)


def _is_too_long(status: int, text: str) -> bool:
    return status in {400, 422, 500} and _TOO_LONG.search(text) is not None  # 500 is Ollama's


_ERRORS = Errors(
    failed=EmbedderError,
    busy=EmbedderBusyError,
    too_long=TextTooLongError,
    content="vectors",
    example='"openai/text-embedding-3-small" or "ollama/nomic-embed-text"',
    path="/embeddings",
    is_too_long=_is_too_long,
)


@attrs.frozen
class LitellmEmbedder(EmbedderBase):
    """Embed with a model of a provider, through LiteLLM.

    ``model`` is written as LiteLLM does: the provider, a slash, and the provider's name of it. The key is taken from
    the provider's own environment variable, such as ``OPENAI_API_KEY``, unless ``api_key`` gives another.
    """

    model: str = model_option('"openai/text-embedding-3-small", "ollama/nomic-embed-text"')
    api_base: str | None = address_option()
    api_key: Any = key_option()  # noqa: RUF009 - it makes a field
    dimensions: int | None = option(
        None,
        optional(whole_number(1)),
        "How many numbers a vector has, for models that leave the choice. By default the model's own.",
    )
    batch_size: int = option(64, whole_number(1), "How many texts go into one request.")
    request_timeout: float = timeout_option(30.0)
    languages: Sequence[str] | None = option(
        None, languages, 'The languages that the model knows, such as ["en", "de"]. By default that is not known.'
    )

    @property
    def timeout(self) -> float:  # type: ignore[override] # computed
        """The seconds that one call may take: the first one imports LiteLLM."""
        return self.request_timeout + IMPORT_SECONDS

    @property
    def destination(self) -> str:  # type: ignore[override] # computed
        """The address that texts are sent to, or the provider; a name of its own where only LiteLLM knows it."""
        return destination_of(self.model, self.api_base)

    @property
    def identity(self) -> str:
        """The model, and its address where that decides which model answers. The key is no part of it."""
        parts = [f"litellm:{self.model}"]
        if self.dimensions is not None:
            parts.append(f"dimensions={self.dimensions}")
        address = address_of(self.model, self.api_base)
        if address is not None and provider_in(self.model) not in _KNOWN_BY_NAME:
            parts.append(f"api_base={address}")
        return " ".join(parts)

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Embed texts, one request after the other, each with ``batch_size`` of them.

        :raises EmbedderBusyError: a rate limit, or a fault of the provider's.
        :raises TextTooLongError: the provider found one of the texts of a request too long.
        :raises EmbedderError: the key is missing or refused, the provider lacks the model, cannot be reached, does not
            answer in time, or answers with something that is no list of vectors.
        """
        import asyncio

        import numpy as np

        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        request, options = await asyncio.to_thread(self._prepare, role)
        rows: list[Any] = []
        for start in range(0, len(texts), self.batch_size):
            rows += await self._embed(texts[start : start + self.batch_size], request, options)
        lengths = sorted({len(row) for row in rows})
        if len(lengths) > 1:
            raise EmbedderError(f"{self.model} answered with vectors of different lengths: {lengths}.")
        return np.array(rows, dtype=np.float32)

    def _prepare(self, role: Role) -> tuple[Request, dict[str, Any]]:
        """Return all that a request needs but its texts."""
        target = Target(self.model, self.api_base, self.api_key, _ERRORS)
        request, provider, options = target.prepare(self.request_timeout)
        options |= _ROLES.get(provider, {}).get(role, {}) | _REFUSE_LONG_TEXTS.get(provider, {})
        if self.dimensions is not None:
            options["dimensions"] = self.dimensions
            if provider == "openai":  # LiteLLM knows OpenAI's own models; other servers speak its protocol too
                options["allowed_openai_params"] = ["dimensions"]
        return request, options

    def _allowance(self, texts: Sequence[str]) -> Allowance:
        """Return what a response may have in it: a vector for each text, and the texts, which Cohere repeats."""
        from .body import Allowance

        numbers = len(texts) * max(_MOST_NUMBERS, self.dimensions or 0)
        return Allowance(
            size=_SLACK_BYTES + numbers * _BYTES_A_NUMBER + sum(6 * len(text) for text in texts),  # 6: "\u20ac"
            commas=_SLACK_VALUES + numbers + sum(text.count(",") for text in texts),
            brackets=_SLACK_VALUES + 4 * len(texts) + sum(text.count("[") + text.count("{") for text in texts),
        )

    async def _embed(self, texts: Sequence[str], request: Request, options: dict[str, Any]) -> list[Any]:
        from .library import send

        try:
            return await send(request, _rows(texts, options), self._allowance(texts))
        except TextTooLongError as error:
            if len(texts) == 1:
                error.positions = [0]
            raise


async def _rows(texts: Sequence[str], options: dict[str, Any]) -> list[Any]:
    """Send one request, and return a row of numbers for each text, in the order of the texts.

    :raises EmbedderError: there are not as many vectors as texts, or it is unclear which belongs to which.
    """
    import litellm

    response = await litellm.aembedding(input=list(texts), **options)
    items = sorted(response.data, key=lambda item: item["index"])
    model = options["model"]
    if len(items) != len(texts):
        count = f"{len(texts)} text{'' if len(texts) == 1 else 's'}"
        raise EmbedderError(f"{model} answered with {len(items)} vectors for {count}.")
    if [item["index"] for item in items] != list(range(len(texts))):
        raise EmbedderError(f"{model} answered with vectors that are not numbered from 0 to {len(texts) - 1}.")
    return [_row(item["embedding"]) for item in items]


def _row(embedding: Any) -> Any:
    """Return a vector, which some servers send as base64 of little-endian float32."""
    import numpy as np

    if isinstance(embedding, str):
        import base64

        embedding = np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
    with np.errstate(over="ignore"):  # a number beyond float32 becomes infinite, and the kernel refuses it
        row = np.asarray(embedding, dtype=np.float32)
    if row.ndim != 1:
        raise ValueError(f"a vector of the shape {row.shape}")
    return row


@hookimpl
def kipu_register_embedders(register: Register[Embedder]) -> None:
    register("litellm", LitellmEmbedder)
