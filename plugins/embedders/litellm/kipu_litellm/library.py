"""Imports LiteLLM, keeps it quiet, and sends requests through it."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from .body import Allowance
    from .failures import Errors, Request

__all__ = ["load", "provider_of", "send"]

T = TypeVar("T")

# Loggers that write each request with all of its texts at the level DEBUG, and the variables that ask for that.
_LOGGERS = {"LiteLLM": "LITELLM_LOG", "openai": "OPENAI_LOG"}

# Warnings of modules that LiteLLM imports late. It silences the first with its import, which tests undo.
_WARNINGS = (".*`ReadOnly` qualifier", "Pydantic serializer warnings")


_loading = threading.Lock()  # requests are prepared in threads, side by side


def load(errors: Errors) -> Any:
    """Import LiteLLM, and keep it from printing, from logging texts, and from fetching prices.

    :raises KipuError: it cannot be imported.
    """
    with _loading:
        return _load(errors)


def _load(errors: Errors) -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_SUPPRESS_STARTUP_OUTPUT", "True")
    for name, variable in _LOGGERS.items():
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET and variable not in os.environ:
            logger.setLevel(logging.WARNING)
    try:
        import litellm
    except ImportError as error:
        raise errors.failed(f"LiteLLM cannot be imported: {error}. Install it: pip install kipu-litellm") from error
    from .exchange import watch_clients

    watch_clients(litellm)
    litellm.suppress_debug_info = True  # advertisements on stdout
    # Embeddings of several providers are retried so often, whatever `max_retries` the request has.
    litellm.DEFAULT_MAX_RETRIES = 0
    if "LITELLM_LOG" not in os.environ:  # its own handler prints to stdout
        logger = logging.getLogger("LiteLLM")
        others = [handler for handler in logger.handlers if not type(handler).__module__.startswith("litellm.")]
        logger.handlers[:] = others or [logging.NullHandler()]
    for message in _WARNINGS:
        warnings.filterwarnings("ignore", message, UserWarning)
    return litellm


def provider_of(litellm: Any, model: str, api_base: str | None, errors: Errors) -> str:
    """Return the provider of a model, as LiteLLM names it.

    :raises KipuError: LiteLLM knows none, or has clients for it that cannot be kept from following redirects.
    """
    from .exchange import UNWATCHED

    try:
        provider = str(litellm.get_llm_provider(model, api_base=api_base)[1])
    except litellm.BadRequestError:
        raise errors.failed(
            f'LiteLLM knows no provider for the model "{model}". Write it as provider/model, such as {errors.example}.'
        ) from None
    if provider in UNWATCHED:
        raise errors.failed(
            f"{model} cannot be used: LiteLLM follows redirects of {provider}, to any address. If its server speaks "
            "OpenAI's protocol, write openai/ in front of the model, and set api_base."
        )
    return provider


async def send(request: Request, response: Awaitable[T], allowance: Allowance) -> T:
    """Await the response to one request, for as long as the request allows, with a body within ``allowance``.

    :raises KipuError: what `failure` makes of an error. It has no context: tracebacks of LiteLLM may show the key.
    """
    import asyncio

    from .exchange import Exchange
    from .failures import failure

    with Exchange(allowance) as exchange:
        try:
            # LiteLLM's own limit is for each part of a response: a server that sends a byte now and then never ends.
            async with asyncio.timeout(request.timeout):
                result = await response
        except Exception as error:  # noqa: BLE001 - `failure` describes it, whatever it is
            failed = failure(error, request, exchange)
        else:
            if exchange.response is not None:
                return result
            failed = request.errors.failed(
                f"The response of {request.model} is not used: LiteLLM sent the request with a client that may follow "
                "redirects to any address. Please report the provider to the authors of Kipu."
            )
    raise failed
