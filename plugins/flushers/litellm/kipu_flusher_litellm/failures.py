"""Says what went wrong with a request, in the terms that Kipu goes by."""

from __future__ import annotations

import json
import os
import re

from kipu.errors import ConversationTooLongError, FlusherBusyError, FlusherError

from .redirects import address_in

__all__ = ["failure", "shortened"]

_LONGEST_QUOTE = 200
_SHORTEST_KEY = 8

# What providers say of a conversation that their model cannot take, now or ever.
_TOO_LONG = re.compile(
    r"context.?(length|window|size|limit)|(prompt|input|request)\b.{0,60}\btoo (long|large)|input token count"
    r"|reduce the length|tokens must be reduced",
    re.IGNORECASE | re.DOTALL,
)
# What LiteLLM puts around what went wrong: names of classes, a whole traceback, and the answer.
_NOISE = re.compile(r"\b(litellm\.)?\w+Error: |\b\w+Exception - |Traceback \(.*|Got=.*", re.DOTALL)
# What looks like a rate limit, and does not pass by itself.
_NO_CREDIT = re.compile(r"insufficient_quota|current quota|billing", re.IGNORECASE)


def failure(error: Exception, model: str, timeout: float, key: str | None) -> FlusherError:
    """What to raise in place of an exception of LiteLLM's.

    LiteLLM gives a status of HTTP even to what was never answered: so the answer itself is looked for in the causes.
    """
    import httpx
    import litellm

    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) and cause not in causes:
        causes.append(cause)
    answer = next((each.response for each in causes if isinstance(each, httpx.HTTPStatusError)), None)
    if answer is None:
        if any(isinstance(each, (TimeoutError, litellm.Timeout, httpx.TimeoutException)) for each in causes):
            return FlusherError(f"{model} did not answer within {timeout:g} seconds.")
        if any(isinstance(each, (httpx.TransportError, ConnectionError)) for each in causes):
            return FlusherError(f"{model} cannot be reached: there is no connection, or api_base is wrong.")
        if any(isinstance(each, json.JSONDecodeError) for each in causes):
            return FlusherError(f"{model} answered with something that is no JSON: api_base may be wrong.")
        return FlusherError(f"{model} gave no answer that can be used: {shortened(_NOISE.sub('', str(error)), key)}")
    status, body = answer.status_code, answer.text
    if address := address_in(answer):
        return FlusherError(
            f"{model} is at another address, says the one that was asked ({status}): {shortened(address, key)}. "
            "Nothing was sent there; if it is right, write it as api_base, without what LiteLLM adds, such as "
            "/chat/completions."
        )
    found = re.search(r'"(?:message|error|detail)":\s*"((?:[^"\\]|\\.)*)"', body)
    # Some say the status once more.
    said = re.sub(rf"\A\s*(?:Error code: )?{status}\s*[-:]\s*", "", found[1] if found else body)
    quote = shortened(said, key)
    wait = _seconds_to_wait(answer.headers.get("retry-after", ""))
    if status in {401, 403}:
        said = f": {quote}" if status == 403 else "."  # what is said of a wrong key often has a part of it
        return FlusherError(f"{model} refused the key ({status}){said} See api_key, or the provider's own variable.")
    if status == 404:
        return FlusherError(f"There is no {model} at that provider or address (404): {quote}")
    if status == 413 or isinstance(error, litellm.ContextWindowExceededError) or _TOO_LONG.search(body):
        return ConversationTooLongError(f"{model} found the conversation too long ({status}): {quote}")
    if status == 429 and wait is None and _NO_CREDIT.search(body):
        return FlusherError(f"There is no credit left for {model} (429): {quote}")
    if status in {408, 429} or status >= 500:
        return FlusherBusyError(f"{model} cannot answer at the moment ({status}): {quote}", wait)
    return FlusherError(f"{model} refused the request ({status}): {quote}")


def shortened(said: str, key: str | None = None) -> str:
    """What somebody said, on one short line, without the keys that are known here."""
    for secret in [key, *(value for name, value in os.environ.items() if name.endswith(("_KEY", "_TOKEN")))]:
        if secret and len(secret) >= _SHORTEST_KEY:
            said = said.replace(secret, "...")
    line = " ".join(said.split())
    return line if len(line) <= _LONGEST_QUOTE else f"{line[:_LONGEST_QUOTE].rstrip()}..."


def _seconds_to_wait(said: str) -> float | None:
    """What a header Retry-After means, in seconds; RFC 9110, section 10.2.3: it is a number of them, or a date."""
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    if re.fullmatch(r"\d+(\.\d+)?", said.strip(), re.ASCII):
        return float(said)
    try:
        date = parsedate_to_datetime(said).replace(tzinfo=UTC)  # all dates of HTTP are in UTC
    except ValueError:
        return None
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
