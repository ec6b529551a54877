"""Limits the body of a response, as it is decoded: to what was asked for, or to the first part of an error.

LiteLLM parses a body in the event loop, so that no time limit acts meanwhile. A small body may hold a million empty
lists, of which each becomes an object: values are counted, and not only bytes.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import attrs
import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from .exchange import Exchange

__all__ = ["ENCODING", "Allowance", "LimitedBody"]

ENCODING = "gzip"
"""The only compression that is accepted: its output can be bounded without further libraries."""

MAX_BYTES = 64 * 1024 * 1024
MAX_COMMAS = MAX_BYTES // 20
"""How many numbers of a usual length fit into MAX_BYTES."""

MAX_ERROR_BYTES = 64 * 1024
"""How much is read of a response that is an error: its message is quoted with 200 characters."""


class RefusedBodyError(Exception):
    """A body is not read to its end. LiteLLM wraps it; `Exchange.problem` says why."""


@attrs.frozen
class Allowance:
    """What the body of a response may have in it: bytes, commas, and brackets that open a list or an object.

    Each value of JSON has a comma or a bracket. Those inside of strings count too.
    """

    size: int
    commas: int
    brackets: int


class LimitedBody(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The decoded body of a response, which takes the place of its ``stream``.

    More than ``exchange.allowance`` is refused, and what is no gzip likewise. The body of an error is cut instead: what
    it becomes depends on the status.
    """

    def __init__(self, response: Any, exchange: Exchange) -> None:
        self._stream = response.stream
        self._exchange = exchange
        self._is_error = not response.is_success
        allowance = exchange.allowance
        self._size = MAX_ERROR_BYTES if self._is_error else min(allowance.size, MAX_BYTES)
        self._left = self._size
        self._commas = min(allowance.commas, MAX_COMMAS)
        self._brackets = allowance.brackets
        # Without the header, httpx decodes nothing.
        self._encoding = response.headers.pop("content-encoding", "").strip().lower()
        self._gzip = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            yield self._limited(part)
            if self._exchange.is_cut:
                break

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield self._limited(part)
            if self._exchange.is_cut:
                break

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    def _limited(self, part: bytes) -> bytes:
        if self._is_error:
            return self._cut(part)
        part = self._decoded(part)
        self._left -= len(part)
        self._commas -= part.count(b",")
        self._brackets -= part.count(b"[") + part.count(b"{")
        if self._left < 0:
            raise self._refused(f"of more than {self._size // 1024:,} KiB")
        if self._commas < 0 or self._brackets < 0:
            raise self._refused("of more values than were asked for")
        return part

    def _cut(self, part: bytes) -> bytes:
        try:
            part = self._decoded(part)[: self._left]
        except (RefusedBodyError, ValueError):
            self._exchange.problem, self._left, part = "", 0, b""
        self._left -= len(part)
        self._exchange.is_cut = self._left <= 0
        return part

    def _decoded(self, part: bytes) -> bytes:
        if self._encoding in {ENCODING, "x-gzip"}:
            try:
                return self._gzip.decompress(part, self._left + 1)
            except zlib.error as error:
                raise ValueError("the body is not what its header says") from error
        if self._encoding not in {"", "identity"}:
            raise self._refused(f"in the encoding {self._encoding[:40]}, which was not asked for")
        return part

    def _refused(self, problem: str) -> RefusedBodyError:
        self._exchange.problem = problem
        return RefusedBodyError(problem)
