"""Says what went wrong with a request, in the terms that Kipu goes by.

LiteLLM has an exception for each status of HTTP, and uses the same ones where there was no answer at all: a refused
connection is an "internal server error". So the answer itself is looked for among the causes.
"""

from __future__ import annotations

import base64
import json
import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

import attrs

from kipu.errors import EmbedderBusyError, EmbedderError, TextTooLongError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .exchanges import Exchange

__all__ = ["Sent", "failure", "seconds_to_wait"]

_LONGEST_QUOTE = 200
# A part of a key that is shorter gives nothing away, and may be a word like any other.
_SHORTEST_KEY = 8
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")

# What providers say of a text that their model cannot take, and of requests that have too many tokens in all.
_TOO_LONG = re.compile(
    r"context (length|window)|(maximum|max|input|sequence|token|text)s? (length|size|request size)"
    r"|too (long|many tokens)|token limit|number of tokens",
    re.IGNORECASE,
)
_STATUS_OF_LONG_TEXTS = frozenset({400, 413, 422, 500})  # 500 is what Ollama answered for long

# What looks like a rate limit, and does not pass by itself.
_NO_CREDIT = re.compile(r"insufficient_quota|exceeded your current quota|billing|credit balance", re.IGNORECASE)


@attrs.frozen
class Sent:
    """A request that failed: the model, how many texts, its time limit in seconds, its key and where that came from."""

    model: str
    texts: int
    timeout: float
    key: str | None = attrs.field(repr=False)
    place_of_key: str


def failure(error: Exception, sent: Sent, exchange: Exchange) -> EmbedderError:
    """What to raise in place of an exception of LiteLLM's. The key is not in it.

    What the answer itself says comes first: LiteLLM leaves out some of it.
    """
    model = sent.model
    if address := exchange.new_address:
        return EmbedderError(
            f"{model} is at another address, says the one that was asked ({exchange.status}): "
            f"{_without_keys(address, sent.key)}. Texts are sent to no address that is not configured: if this one is "
            "right, put it into api_base, without what LiteLLM adds, such as /embeddings."
        )
    if said := exchange.error:
        quote = _short(said, sent.key)
        return EmbedderError(f"{model} answered with an error instead of vectors ({exchange.status}): {quote}")
    return error if isinstance(error, EmbedderError) else _failure(error, sent, answered=exchange.answer is not None)


def _failure(error: Exception, sent: Sent, *, answered: bool) -> EmbedderError:
    import httpx
    import litellm

    model = sent.model
    causes = list(_causes(error))
    quote = _quote(error, sent.key)
    answer = next((each.response for each in causes if isinstance(each, httpx.HTTPStatusError)), None)
    if answer is None:
        if any(isinstance(each, (litellm.Timeout, httpx.TimeoutException, TimeoutError)) for each in causes):
            return EmbedderError(f"{model} did not answer within {sent.timeout:g} seconds.")
        if any(isinstance(each, (httpx.TransportError, ConnectionError)) for each in causes):
            return EmbedderError(f"{model} cannot be reached: there is no connection, or the address is wrong.")
        if isinstance(error, litellm.BadRequestError) and not answered:
            return EmbedderError(f"{model} was not asked, for LiteLLM says: {quote}")
        # What Python says of an answer that it cannot make sense of says nothing to people.
        senseless = any(isinstance(each, (AttributeError, LookupError, TypeError, ValueError)) for each in causes)
        said = ". Is the address the right one?" if senseless else f": {quote}"
        return EmbedderError(f"{model} answered with something that has no vectors in it{said}")
    status = answer.status_code
    if status in {401, 403} or isinstance(error, litellm.AuthenticationError):
        said = f": {quote}" if status == 403 else "."  # what is said of a wrong key often has a part of it
        return EmbedderError(f"The key for {model} was refused ({status}){said} It came from {sent.place_of_key}.")
    if status == 404:
        return EmbedderError(f"There is no {model} at that provider or address (404): {quote}")
    too_long = isinstance(error, litellm.ContextWindowExceededError) or _TOO_LONG.search(quote)
    if status in _STATUS_OF_LONG_TEXTS and too_long:
        return TextTooLongError(f"{model} found a text too long ({status}): {quote}", [0] if sent.texts == 1 else None)
    if status == 429 and _NO_CREDIT.search(quote):
        return EmbedderError(f"There is no credit left for {model} ({status}): {quote}")
    if status in {408, 429} or status >= 500:
        what = "has had too many requests" if status == 429 else "has a fault of its own"
        seconds = seconds_to_wait(answer.headers)
        asks = f" It asks to wait {seconds:,.0f} seconds." if seconds else ""
        return EmbedderBusyError(f"{model} {what} ({status}): {quote}{asks}", seconds)
    return EmbedderError(f"{model} refused the request ({status}): {quote}")


def seconds_to_wait(headers: Any) -> float | None:
    """How long an answer asks to wait, in seconds; RFC 9110, section 10.2.3: a number of seconds, or a date."""
    text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        return float(text)
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    if date.tzinfo is None:  # "-0000": the time is UTC, and nothing is known of where it was said
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An exception, and those that led to it."""
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        yield following
        seen.add(id(following))
        following = following.__cause__ or following.__context__


def _without_keys(said: str, key: str | None) -> str:
    """What was said, without the key, and without any that the environment has, however they are written."""
    known = {value.strip() for name, value in os.environ.items() if name.endswith("_API_KEY")}
    keys = [key.strip()] if key else []
    keys += [each for each in known if len(each) >= _SHORTEST_KEY]
    for each in sorted(keys, key=len, reverse=True):
        for form in (
            each,
            quote(each, safe=""),
            quote(each),
            quote_plus(each),
            repr(each)[1:-1],
            json.dumps(each)[1:-1],
        ):
            said = re.sub(r"\s+".join(map(re.escape, form.split())), "...", said)
        for part in each.split():
            said = said.replace(part, "...") if len(part) >= _SHORTEST_KEY else said
    encoded = [each.encode("utf-8", "surrogateescape") for each in keys if len(each) >= _SHORTEST_KEY]
    return _BASE64.sub(lambda found: "..." if any(each in _decoded(found[0]) for each in encoded) else found[0], said)


def _decoded(text: str) -> bytes:
    """What a text means as base64, as far as it is base64."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(plain[: len(plain) - (len(plain) % 4 == 1)] + "=" * (-len(plain) % 4))


def _quote(error: Exception, key: str | None) -> str:
    """What the provider said, as one short sentence; a key that it repeats is left out."""
    said = str(error).split("\nTraceback", maxsplit=1)[0]
    said = said.rpartition("Exception - ")[2].removeprefix("Error code: ")
    inner = re.search(r'"message":\s*"((?:[^"\\]|\\.)*)"', said)
    return _short(inner[1] if inner else said, key)


def _short(said: str, key: str | None) -> str:
    line = " ".join(_without_keys(said, key).split())
    if len(line) > _LONGEST_QUOTE:
        return line[:_LONGEST_QUOTE].rstrip() + "..."
    return line if line.endswith((".", "!", "?", "。")) else f"{line}."
