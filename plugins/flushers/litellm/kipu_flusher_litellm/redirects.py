"""Keeps a conversation from being sent on to an address that nobody configured.

Most of LiteLLM's clients follow a redirect, and no setting reaches all of them. So redirects are refused at the one
place that every request passes, the method ``send`` of the clients of ``httpx``: while a model is asked, not otherwise.
"""

from __future__ import annotations

import functools
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["address_in", "no_redirects"]

_REFUSED = ContextVar("kipu_flusher_litellm_redirects", default=False)


@contextmanager
def no_redirects() -> Iterator[None]:
    """Have redirects refused, of what is sent from here; LiteLLM's clients must have been imported."""
    _change_clients()
    token = _REFUSED.set(True)
    try:
        yield
    finally:
        _REFUSED.reset(token)


def address_in(answer: Any) -> str | None:
    """Where a redirect leads, without a user, a query or a fragment; None where the answer is none."""
    if not answer.has_redirect_location:
        return None
    try:
        address = answer.request.url.join(answer.headers["location"])
    except ValueError as error:
        return f"one that cannot be read ({type(error).__name__})"
    return str(address.copy_with(userinfo=b"", query=None, fragment=None))


@functools.cache
def _change_clients() -> None:
    for name in ("httpx", "httpx2"):  # OpenAI's library brings a copy under the other name
        if module := sys.modules.get(name):
            module.AsyncClient.send = _staying_async(module.AsyncClient.send)
            module.Client.send = _staying(module.Client.send)


def _staying(send: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(send)
    def send_without_redirects(client: Any, request: Any, **options: Any) -> Any:
        return send(client, request, **_staying_options(options))

    return send_without_redirects


def _staying_async(send: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(send)
    async def send_without_redirects(client: Any, request: Any, **options: Any) -> Any:
        return await send(client, request, **_staying_options(options))

    return send_without_redirects


def _staying_options(options: dict[str, Any]) -> dict[str, Any]:
    return options | {"follow_redirects": False} if _REFUSED.get() else options
