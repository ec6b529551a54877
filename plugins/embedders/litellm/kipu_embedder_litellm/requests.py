"""Talks to LiteLLM: imports it quietly, asks it what it knows of a provider, and sends one request at a time."""

from __future__ import annotations

import base64
import logging
import os
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kipu.errors import EmbedderError

from .exchanges import watch_clients

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["load", "missing_keys", "missing_keys_at_once", "provider_of", "request", "variables_of_keys"]

# The variables of which a provider needs one. Those of others only LiteLLM knows, once it is imported.
_KEYS = {
    "cohere": ("COHERE_API_KEY",),
    "gemini": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "mistral": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "voyage": ("VOYAGE_API_KEY",),
}

# What LiteLLM says of itself: of parts that it imports late, and of the base64 that it can be told to ask for. It
# silences the first with its import; where warnings are errors, as in tests, that is undone after a while.
_WARNINGS_OF_ITSELF = (".*`ReadOnly` qualifier", "Pydantic serializer warnings")

# What logs each request with all of its texts, at the level DEBUG, and what asks for that.
_LOGS_OF_TEXTS = {"LiteLLM": "LITELLM_LOG", "openai": "OPENAI_LOG"}


def load() -> Any:
    """Import LiteLLM and keep it quiet.

    :raises EmbedderError: it cannot be imported.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it fetches prices while it is imported
    os.environ.setdefault("LITELLM_SUPPRESS_STARTUP_OUTPUT", "True")
    for name, variable in _LOGS_OF_TEXTS.items():
        # A program that logs everything means its own doings, and not what its users remember.
        if logging.getLogger(name).level == logging.NOTSET and variable not in os.environ:
            logging.getLogger(name).setLevel(logging.WARNING)
    try:
        import litellm
    except ImportError as error:
        raise EmbedderError(f"LiteLLM cannot be imported: {error}. pip install kipu-embedder-litellm") from error
    for message in _WARNINGS_OF_ITSELF:
        warnings.filterwarnings("ignore", message=message, category=UserWarning)
    watch_clients()
    litellm.suppress_debug_info = True  # else it prints advertisements on stdout
    # Several providers are asked without the `max_retries` of the request: this is what they get instead. LiteLLM
    # takes it for embeddings only.
    litellm.DEFAULT_MAX_RETRIES = 0
    return litellm


def provider_of(litellm: Any, model: str, api_base: str | None) -> str:
    """The provider of a model, as LiteLLM calls it.

    :raises EmbedderError: it knows none.
    """
    try:
        provider: str = litellm.get_llm_provider(model, api_base=api_base)[1]
    except litellm.BadRequestError:
        raise EmbedderError(
            f'LiteLLM knows no provider for the model "{model}". Write it as provider/model, such as '
            '"openai/text-embedding-3-small" or "ollama/nomic-embed-text".'
        ) from None
    return provider


def missing_keys(litellm: Any, provider: str, model: str) -> list[str]:
    """The environment variables of which a provider needs one, where none of them is set.

    Empty where there may be another way: a key that the program gave to LiteLLM itself, or a login that is no key.
    """
    if provider == "azure" or litellm.api_key or getattr(litellm, f"{provider}_key", None):
        return []
    known = litellm.validate_environment(model)
    return [
        name
        for name in known["missing_keys"]
        if name.endswith("_API_KEY") and not known["keys_in_environment"] and not os.environ.get(name)
    ]


def missing_keys_at_once(provider: str) -> Sequence[str]:
    """Those of `missing_keys` that can be told without importing LiteLLM, which takes seconds."""
    names = _KEYS.get(provider, ())
    if "litellm" in sys.modules or any(map(os.environ.get, names)) or _reads_variables_from_a_file():
        return ()
    return names


def variables_of_keys(provider: str) -> Sequence[str]:
    """The environment variables in which LiteLLM looks for the key of a provider, as far as they are known."""
    return _KEYS.get(provider, (f"{provider.upper()}_API_KEY",))


def _reads_variables_from_a_file() -> bool:
    """Whether LiteLLM will find a file ``.env`` with variables when it is imported."""
    found = find_spec("litellm")
    return bool(found and found.origin and any((folder / ".env").exists() for folder in Path(found.origin).parents))


async def request(texts: Sequence[str], options: dict[str, Any]) -> list[Any]:
    """Send one request, and return a row of numbers for each text, in the order of the texts.

    :raises EmbedderError: there are not as many vectors as texts, or it cannot be told which belongs to which.
    """
    import litellm

    response = await litellm.aembedding(input=list(texts), max_retries=0, **options)
    items = sorted(response.data, key=lambda item: item["index"])
    model = options["model"]
    if len(items) != len(texts):
        asked = f"{len(texts)} text{'' if len(texts) == 1 else 's'}"
        raise EmbedderError(f"{model} answered with {len(items)} vectors for {asked}.")
    if [item["index"] for item in items] != list(range(len(texts))):
        raise EmbedderError(f"{model} answered with vectors that are not numbered from 0 to {len(texts) - 1}.")
    return [_row(item["embedding"]) for item in items]


def _row(embedding: Any) -> Any:
    """A vector, which some servers send as base64 of little-endian float32."""
    import numpy as np

    if isinstance(embedding, str):
        embedding = np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused as such
        row = np.asarray(embedding, dtype=np.float32)
    if row.ndim != 1:
        raise ValueError(f"a vector of the shape {row.shape}")
    return row
