"""Watches what LiteLLM sends while it embeds: where it goes, and what comes back.

LiteLLM makes its clients of HTTP in many places, and most of them follow a redirect, with all texts, to wherever it
leads. None of its settings reaches all of them. So it is at the one place that every request passes, the method
``send`` of the clients of ``httpx``, that redirects are refused: while something is embedded, and not otherwise.
"""

from __future__ import annotations

import functools
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EXCHANGE", "Exchange", "watch_clients"]


@attrs.define
class Exchange:
    """One request, and what came of it.

    ``answer`` is the last answer of HTTP: an ``httpx.Response``, None where nothing was answered.
    """

    answer: Any = None

    @property
    def status(self) -> int:
        """The status of the answer; 0 where there is none."""
        return self.answer.status_code if self.answer is not None else 0

    @property
    def new_address(self) -> str | None:
        """Where a redirect leads, without a user, a query or a fragment; None where the answer is none."""
        if self.answer is None or not self.answer.has_redirect_location:
            return None
        try:
            leads_to = self.answer.request.url.join(self.answer.headers["location"])
        except ValueError as error:
            return f"one that cannot be read ({type(error).__name__})"
        return str(leads_to.copy_with(userinfo=b"", query=None, fragment=None))

    @property
    def error(self) -> str | None:
        """What an answer that should have vectors in it says of an error instead; None where it says nothing of one."""
        if self.answer is None or not self.answer.is_success:
            return None
        try:
            said = self.answer.json()["error"]
        except (LookupError, RuntimeError, TypeError, ValueError):  # nothing of that kind, or not read to the end
            return None
        if isinstance(said, dict):
            said = said.get("message") or said
        return str(said) if said else None


EXCHANGE: ContextVar[Exchange | None] = ContextVar("kipu_embedder_litellm_exchange", default=None)
"""The request that is being made in this context. LiteLLM's threads inherit it."""


@functools.cache
def watch_clients() -> None:
    """See to it that what is sent is watched. To be called once LiteLLM has imported its clients.

    OpenAI's library brings a copy of ``httpx`` under another name.
    """
    for name in ("httpx", "httpx2"):
        if module := sys.modules.get(name):
            module.AsyncClient.send = _watched_async(module.AsyncClient.send)
            module.Client.send = _watched(module.Client.send)


def _watched(send: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(send)
    def watched(client: Any, request: Any, **options: Any) -> Any:
        exchange = EXCHANGE.get()
        if exchange is None:
            return send(client, request, **options)
        exchange.answer = send(client, request, **options | {"follow_redirects": False})
        return exchange.answer

    return watched


def _watched_async(send: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(send)
    async def watched(client: Any, request: Any, **options: Any) -> Any:
        exchange = EXCHANGE.get()
        if exchange is None:
            return await send(client, request, **options)
        exchange.answer = await send(client, request, **options | {"follow_redirects": False})
        return exchange.answer

    return watched
