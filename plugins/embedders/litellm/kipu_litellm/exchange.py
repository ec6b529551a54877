"""Records the response to a request of ours, limits its body, and refuses redirects.

Most of LiteLLM's HTTP clients follow redirects, with every text, to wherever they lead, and no setting of LiteLLM
reaches all of them. It does keep them in a cache, ``litellm.in_memory_llm_clients_cache``. `watch_clients` puts a cache
of the same class in its place, which gives each client event hooks. They act only while an `Exchange` is open in the
context of the request, so that other requests of the program are sent as before.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import httpx
from litellm.caching.llm_caching_handler import LLMClientCache

from .body import ENCODING, Allowance, LimitedBody

__all__ = ["UNWATCHED", "Exchange", "watch_clients"]

# These providers have clients that LiteLLM does not keep in its cache.
UNWATCHED = frozenset(
    {"aiohttp_openai", "amazon_nova", "maritalk", "text-completion-inception", "text-completion-openai"}
)

_open: ContextVar[Exchange | None] = ContextVar("kipu_litellm_exchange", default=None)


class RedirectError(Exception):
    """A server redirects a request. LiteLLM wraps it; `Exchange.new_address` says where it leads."""


class Exchange:
    """One request, as a context manager, and the response to it: ``response`` is None until there is one.

    ``allowance`` is what its body may have in it, and ``problem`` what its body was, if it was not read for that.
    ``is_cut`` is whether only the first part of it was read.
    """

    def __init__(self, allowance: Allowance) -> None:
        self.allowance = allowance
        self.response: Any = None
        self.problem = ""
        self.is_cut = False

    def __enter__(self) -> Exchange:
        self._token = _open.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _open.reset(self._token)

    @property
    def status(self) -> int:
        """The HTTP status of the response; 0 where there is none."""
        return self.response.status_code if self.response is not None else 0

    @property
    def body(self) -> str | None:
        """The text of the response; None where there is none, or it was not read to its end."""
        try:
            return str(self.response.text)
        except (AttributeError, RuntimeError):
            return None

    @property
    def new_address(self) -> str | None:
        """Where a redirect leads, without user, query and fragment; None where the response is none."""
        if self.response is None or not self.response.has_redirect_location:
            return None
        try:
            address = self.response.request.url.join(self.response.headers["location"])
        except (ValueError, httpx.InvalidURL) as error:
            return f"one that cannot be read ({type(error).__name__})"
        return str(address.copy_with(userinfo=b"", query=None, fragment=None))

    @property
    def error(self) -> str | None:
        """The error in a response that claims success; None where there is none."""
        if self.response is None or not self.response.is_success or self.body is None:
            return None
        try:
            error = self.response.json()["error"]
            if isinstance(error, dict):
                error = error.get("message") or error
            return str(error) if error else None
        except (LookupError, RecursionError, TypeError, ValueError):
            return None


def watch_clients(litellm: Any) -> None:
    """Give the hooks to all clients that LiteLLM has, and will have."""
    cache = litellm.in_memory_llm_clients_cache
    if not isinstance(cache, _WatchedClients):
        watched = _WatchedClients()
        watched.__dict__.update(cache.__dict__)  # clients that the program already uses stay in use
        litellm.in_memory_llm_clients_cache = watched
        for owner in cache.cache_dict.values():
            _watch(owner)
    for owner in (litellm.module_level_client, litellm.module_level_aclient):
        _watch(owner)


class _WatchedClients(LLMClientCache):  # type: ignore[misc] # LiteLLM's types are not read
    """LiteLLM's cache of clients, which gives the hooks to each."""

    def set_cache(self, key: str, value: Any, *arguments: Any, **options: Any) -> Any:
        _watch(value)
        return super().set_cache(key, value, *arguments, **options)


def _watch(owner: Any) -> None:
    """Give the hooks to the client of ``owner``: a handler of LiteLLM's, or a client of OpenAI's library."""
    client = getattr(owner, "client", None) or getattr(owner, "_client", None)
    hooks = getattr(client, "event_hooks", None)
    if client is None or hooks is None:
        return
    ask, record = (_ask_async, _record_async) if hasattr(client, "aclose") else (_ask, _record)
    if record not in hooks["response"]:
        client.event_hooks = {"request": [*hooks["request"], ask], "response": [*hooks["response"], record]}
    if hasattr(owner, "event_hooks"):  # for the client that LiteLLM makes when a connection fails
        owner.event_hooks = client.event_hooks


def _ask(request: Any) -> None:
    if _open.get() is not None:
        request.headers["accept-encoding"] = ENCODING


async def _ask_async(request: Any) -> None:
    _ask(request)


def _record(response: Any) -> None:
    exchange = _open.get()
    if exchange is not None:
        exchange.response = response
        response.encoding = "utf-8"  # the server would choose among all codecs of Python, of which some are quadratic
        response.stream = LimitedBody(response, exchange)
        if response.has_redirect_location:
            raise RedirectError


async def _record_async(response: Any) -> None:
    _record(response)
