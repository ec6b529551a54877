"""Limits the body of a response: to 64 MiB as it is decoded, whatever it was compressed to."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from .exchange import Exchange

__all__ = ["ENCODING", "LimitedBody"]

ENCODING = "gzip"
"""The only compression that is accepted: its output can be bounded without further libraries."""

MAX_BYTES = 64 * 1024 * 1024


class RefusedBodyError(Exception):
    """A body is not read to its end. LiteLLM wraps it; `Exchange.problem` says why."""


class LimitedBody(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The decoded body of a response, which takes the place of its ``stream``."""

    def __init__(self, response: Any, exchange: Exchange) -> None:
        self._stream = response.stream
        self._exchange = exchange
        self._left = MAX_BYTES
        # Without the header, httpx decodes nothing.
        self._encoding = response.headers.pop("content-encoding", "").strip().lower()
        self._gzip = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            yield self._decoded(part)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield self._decoded(part)

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    def _decoded(self, part: bytes) -> bytes:
        if self._encoding in {ENCODING, "x-gzip"}:
            try:
                part = self._gzip.decompress(part, self._left + 1)
            except zlib.error as error:
                raise ValueError("the body is not what its header says") from error
        elif self._encoding not in {"", "identity"}:
            raise self._refused(f"in the encoding {self._encoding[:40]}, which was not asked for")
        self._left -= len(part)
        if self._left < 0:
            raise self._refused(f"of more than {MAX_BYTES // 1024 // 1024} MiB")
        return part

    def _refused(self, problem: str) -> RefusedBodyError:
        self._exchange.problem = problem
        return RefusedBodyError(problem)
