"""Describes what went wrong with a request, as an error that tells the kernel what to do next.

LiteLLM has an exception for each HTTP status, and raises the same ones where there was no response: a refused
connection is an "internal server error". So the status comes from the response itself, see `exchange`.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote as percent_encoded
from urllib.parse import quote_plus

import attrs

from kipu.errors import KipuError

if TYPE_CHECKING:
    from .exchange import Exchange

__all__ = ["Errors", "Request", "failure", "quoted"]

_LONGEST_QUOTE = 200
# A shorter part of a key gives nothing away, and may be a common word.
_SHORTEST_KEY = 8
# A key in a longer form than this is not recognized at the end of a body that was cut.
_LONGEST_KEY = 4096
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")

_MESSAGE = re.compile(r'"(?:message|error|detail)":\s*("(?:[^"\\]|\\u[\da-fA-F]{4}|\\[^u])*)("?)')
# What LiteLLM puts around a message: names of classes, a whole traceback, and the response.
_NOISE = re.compile(r"\b(litellm\.)?\w+Error: |\b\w+Exception - |Traceback \(.*|Got=.*", re.DOTALL)
# What looks like a rate limit, and does not pass by itself.
_NO_CREDIT = re.compile(r"insufficient_quota|current quota|billing|credit balance", re.IGNORECASE)


@attrs.frozen
class Errors:
    """The errors of one kind of component: for a final failure, a passing one, and for input that is too long.

    ``content`` is what a good response has in it, ``example`` a model for messages, ``path`` what LiteLLM appends to an
    address, and ``is_too_long(status, text)`` recognizes a response to input that is too long.
    """

    failed: Callable[[str], KipuError]
    busy: Callable[[str, float | None], KipuError]
    too_long: Callable[[str], KipuError]
    content: str
    example: str
    path: str
    is_too_long: Callable[[int, str], bool]


@attrs.frozen
class Request:
    """A request: the model, the time limit in seconds, the key and where it came from, and what its failures become."""

    model: str
    timeout: float
    key: str | None = attrs.field(repr=False)
    source_of_key: str
    errors: Errors


def failure(error: Exception, request: Request, exchange: Exchange) -> KipuError:
    """Return the error to raise instead of ``error``. The key is not in it."""
    model, failed, status = request.model, request.errors.failed, exchange.status
    if address := exchange.new_address:
        return failed(
            f"{model} redirects to another address ({status}): {quoted(address, request.key)} Nothing was sent there. "
            f"If it is right, set it as api_base, without what LiteLLM appends, such as {request.errors.path}."
        )
    if exchange.problem:
        return failed(f"{model} answered ({status}) with a body {exchange.problem}. It is not used. Check api_base.")
    if message := exchange.error:
        return failed(f"{model} answered with an error ({status}): {quoted(message, request.key)}")
    if isinstance(error, KipuError):
        return error
    if status >= 400 and exchange.body is not None:
        return _refusal(error, request, exchange, exchange.body)
    return _no_answer(error, request, answered=exchange.response is not None)


def _no_answer(error: Exception, request: Request, *, answered: bool) -> KipuError:
    import httpx
    import litellm

    model, failed = request.model, request.errors.failed
    causes = list(_causes(error))
    if any(isinstance(cause, (TimeoutError, litellm.Timeout, httpx.TimeoutException)) for cause in causes):
        late = failed(f"{model} did not answer within {request.timeout:g} seconds.")
        late.__cause__ = TimeoutError()  # the kernel sends no further texts, not even in halves
        return late
    if any(isinstance(cause, (httpx.TransportError, ConnectionError)) for cause in causes):
        return failed(f"{model} cannot be reached: there is no connection, or api_base is wrong.")
    if answered and any(isinstance(cause, (AttributeError, LookupError, TypeError, ValueError)) for cause in causes):
        # Python's words for a response of the wrong form explain nothing.
        return failed(f"{model} answered with something that has no {request.errors.content} in it. Check api_base.")
    doing = "answered with something that cannot be used" if answered else "was not asked, because LiteLLM refused"
    return failed(f"{model} {doing}: {quoted(_NOISE.sub('', str(error)), request.key)}")


def _refusal(error: Exception, request: Request, exchange: Exchange, body: str) -> KipuError:
    import litellm

    model, errors, status = request.model, request.errors, exchange.status
    quote = quoted(_message_in(body, status, is_cut=exchange.is_cut), request.key)
    if status in {401, 403} or isinstance(error, litellm.AuthenticationError):
        reason = f": {quote}" if status == 403 else "."  # the message about a wrong key often has a part of it
        return errors.failed(f"{model} refused the key ({status}){reason} It came from {request.source_of_key}.")
    if status == 404:
        return errors.failed(f"There is no {model} at that provider or address (404): {quote}")
    if status == 413 or isinstance(error, litellm.ContextWindowExceededError) or errors.is_too_long(status, body):
        return errors.too_long(f"{model} found its input too long ({status}): {quote}")
    wait = _seconds_to_wait(exchange.response.headers.get("retry-after", ""))
    if status == 429 and wait is None and _NO_CREDIT.search(body):
        return errors.failed(f"There is no credit left for {model} (429): {quote}")
    if status in {408, 429} or status >= 500:
        pause = f" It asks to wait {wait:,.0f} seconds." if wait else ""
        return errors.busy(f"{model} cannot answer at the moment ({status}): {quote}{pause}", wait)
    return errors.failed(f"{model} refused the request ({status}): {quote}")


def _message_in(body: str, status: int, *, is_cut: bool) -> str:
    """Return the message in a response, without the status that some repeat in it.

    :param is_cut: the body has no end. A message without an end loses what may be the first part of a key.
    """
    found = _MESSAGE.search(body)
    if found:
        is_cut = is_cut and not found[2]
        try:
            body = str(json.loads(f'{found[1]}"', strict=False))
        except ValueError:
            body = found[1]
    if is_cut:
        body = body[:-_LONGEST_KEY]
    return re.sub(rf"\A\s*(?:Error code: )?{status}\s*[-:]\s*", "", body)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, and those that led to it."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        yield cause
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__


def _seconds_to_wait(text: str) -> float | None:
    """Return the seconds of a header Retry-After: a number of them, or a date (RFC 9110, section 10.2.3)."""
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    if re.fullmatch(r"\d{1,9}(\.\d+)?", text.strip(), re.ASCII):
        return float(text)
    try:
        date = parsedate_to_datetime(text).replace(tzinfo=UTC)  # all dates of HTTP are in UTC
    except ValueError:
        return None
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def quoted(text: str, key: str | None = None) -> str:
    """Return a text as one short sentence, without the key and any other key in the environment."""
    line = " ".join(_without_keys(text, key).split())
    if len(line) > _LONGEST_QUOTE:
        return f"{line[:_LONGEST_QUOTE].rstrip()}..."
    return line if line.endswith((".", "!", "?", "。")) else f"{line}."


def _without_keys(text: str, key: str | None) -> str:
    """Replace keys by "...", however they are encoded."""
    variables = {value.strip() for name, value in os.environ.items() if name.endswith(("_KEY", "_TOKEN"))}
    keys = [key.strip()] if key else []
    keys += [value for value in variables if len(value) >= _SHORTEST_KEY]
    for each in sorted(keys, key=len, reverse=True):
        forms = (each, percent_encoded(each, safe=""), percent_encoded(each), quote_plus(each))
        for form in (*forms, repr(each)[1:-1], json.dumps(each)[1:-1]):
            text = re.sub(r"\s+".join(map(re.escape, form.split())), "...", text)
        for part in each.split():
            text = text.replace(part, "...") if len(part) >= _SHORTEST_KEY else text
    encoded = [each.encode("utf-8", "surrogateescape") for each in keys if len(each) >= _SHORTEST_KEY]
    return _BASE64.sub(lambda found: "..." if any(each in _decoded(found[0]) for each in encoded) else found[0], text)


def _decoded(text: str) -> bytes:
    """Decode base64, as far as the text is base64."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(plain[: len(plain) - (len(plain) % 4 == 1)] + "=" * (-len(plain) % 4))
