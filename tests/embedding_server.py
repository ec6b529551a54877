"""A server of embeddings on loopback that speaks OpenAI's protocol, and misbehaves on request.

It needs nothing but the standard library::

    with EmbeddingServer() as server:
        server.then(Status(429, retry_after="2"), Status(500))  # the next two requests
        ...                                                     # a client that uses server.url
        assert server.count == 3
        assert server.texts == ["what", "was", "embedded"]

A vector is made of the words of its text: texts that share words are near each other, and a text has the same vector
in every process. Once closed, the server refuses connections.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import struct
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

Item = dict[str, Any]
"""A vector as it is sent: ``{"object": "embedding", "index": 0, "embedding": [...]}``."""


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        """The texts to embed."""
        given = self.body.get("input", [])
        return [given] if isinstance(given, str) else list(given)


@dataclass(frozen=True)
class Status:
    """Refuse a request, with a status of HTTP and a message."""

    code: int
    message: str = "Something went wrong."
    retry_after: str | None = None


@dataclass(frozen=True)
class Slow:
    """Answer only after some seconds, or never, if the server is closed before."""

    seconds: float


@dataclass(frozen=True)
class Trickle:
    """Begin to answer, and go on with a byte now and then until the client hangs up or the server is closed."""


@dataclass(frozen=True)
class Raw:
    """Answer with status 200 and this text, whatever was asked."""

    text: str


@dataclass(frozen=True)
class Packed:
    """Answer in an encoding of HTTP: with these bytes, or with the usual answer."""

    encoding: str
    pack: Callable[[bytes], bytes] = bytes
    body: bytes | None = None
    code: int = 200


@dataclass(frozen=True)
class Redirect:
    """Send the client to another address."""

    address: str
    code: int = 307


@dataclass(frozen=True)
class Dropped:
    """Close the connection without an answer."""


@dataclass(frozen=True)
class Items:
    """Change the vectors before they are sent."""

    change: Callable[[list[Item]], list[Item]]


def each_number(number: Callable[[float], float]) -> Items:
    """Change every number of every vector."""
    return Items(lambda items: [item | {"embedding": [number(value) for value in item["embedding"]]} for item in items])


def cut_to(dimension: int) -> Items:
    """Send vectors of another dimension than usual."""
    return Items(lambda items: [item | {"embedding": item["embedding"][:dimension]} for item in items])


NOT_A_NUMBER = each_number(lambda _: math.nan)
INFINITE = each_number(lambda _: math.inf)
ZERO = each_number(lambda _: 0.0)
TOO_FEW = Items(lambda items: items[:-1])
TOO_MANY = Items(lambda items: [*items, items[-1] | {"index": len(items)}])
OUT_OF_ORDER = Items(lambda items: items[::-1])
NOT_JSON = Raw("<html>A page of a proxy</html>")

Fault = Status | Slow | Trickle | Raw | Packed | Redirect | Dropped | Items


def vector_of(text: str, *, model: str, dimension: int) -> list[float]:
    """Return the vector of a text: the sum of what its words hash to, of length 1."""
    total = [1e-3] * dimension
    for word in re.findall(r"\w+", text.lower()):
        digest = hashlib.shake_256(f"{model} {word}".encode()).digest(dimension)
        total = [value + byte - 127.5 for value, byte in zip(total, digest, strict=True)]
    norm = math.hypot(*total)
    return [value / norm for value in total]


class EmbeddingServer:
    """The server: a context manager, listening at ``url`` while it is open.

    :param dimension: of its vectors, where a request does not ask for another one.
    :param key: what a client has to send as its key; by default any will do.
    :param max_characters: longer texts are refused as OpenAI does: status 400, for the whole request.
    """

    def __init__(self, *, dimension: int = 64, key: str | None = None, max_characters: int | None = None) -> None:
        self.dimension = dimension
        self.key = key
        self.max_characters = max_characters
        self.requests: list[Request] = []
        self._next: list[Fault | None] = []
        self._always: Fault | None = None
        self._spoiled: dict[str, Items] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()

        class Handler(_Handler):
            embeddings = self

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The base of its addresses, as clients want it."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def count(self) -> int:
        """How many requests there were."""
        return len(self.requests)

    @property
    def texts(self) -> list[str]:
        """All texts of all requests, in order."""
        return [text for request in self.requests for text in request.texts]

    def then(self, *faults: Fault | None) -> None:
        """Misbehave in this way with the next requests, one each; None is a request that goes well."""
        self._next += faults

    def always(self, fault: Fault | None) -> None:
        """Misbehave in this way from now on; None ends it."""
        self._always = fault

    def spoil(self, word: str, fault: Items) -> None:
        """Misbehave with every text that contains ``word``, and with no other text of the same request."""
        self._spoiled[word] = fault

    def receive(self, request: Request) -> Fault | None:
        """Record a request, and return what is to go wrong with it."""
        with self._lock:
            self.requests.append(request)
            fault = self._next.pop(0) if self._next else self._always
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            return Status(401, f"Incorrect API key provided: {request.headers.get('authorization', '')[7:]}.")
        too_long = [text for text in request.texts if self.max_characters and len(text) > self.max_characters]
        if fault is None and too_long:
            return Status(
                400,
                f"This model's maximum context length is {self.max_characters} tokens, however you requested "
                f"{len(too_long[0])} tokens. Please reduce your prompt.",
            )
        return fault

    def answer(self, request: Request, change: Callable[[list[Item]], list[Item]]) -> dict[str, Any]:
        """Answer a request that goes well, but for the change."""
        model, dimension = request.body.get("model", ""), request.body.get("dimensions") or self.dimension
        items: list[Item] = []
        for index, text in enumerate(request.texts):
            item: Item = {"embedding": vector_of(text, model=model, dimension=dimension), "index": index}
            for word, fault in self._spoiled.items():
                if word in text:
                    [item] = fault.change([item])
            items.append(item | {"object": "embedding"})
        items = change(items)
        if request.body.get("encoding_format") == "base64":
            for item in items:
                packed = struct.pack(f"<{len(item['embedding'])}f", *item["embedding"])
                item["embedding"] = base64.b64encode(packed).decode()
        tokens = sum(len(text.split()) for text in request.texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": items, "model": model, "usage": usage}

    def wait(self, seconds: float) -> bool:
        """Wait for a slow answer; false if the server is closed meanwhile."""
        return not self._closing.wait(seconds)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that hung up."""


class _Handler(BaseHTTPRequestHandler):
    embeddings: EmbeddingServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, json.loads(body))
        fault = self.embeddings.receive(request)
        if isinstance(fault, Dropped) or (isinstance(fault, Slow) and not self.embeddings.wait(fault.seconds)):
            return
        if isinstance(fault, Status):
            error = {"message": fault.message, "type": "error", "param": None, "code": None}
            self._send(fault.code, json.dumps({"error": error}), fault.retry_after)
        elif isinstance(fault, Trickle):
            self._trickle()
        elif isinstance(fault, Raw):
            self._send(200, fault.text)
        elif isinstance(fault, Packed):
            answer = json.dumps(self.embeddings.answer(request, list)).encode() if fault.body is None else fault.body
            self._send(fault.code, fault.pack(answer), encoding=fault.encoding)
        elif isinstance(fault, Redirect):
            self._send(fault.code, "", location=fault.address)
        else:
            change = fault.change if isinstance(fault, Items) else list
            self._send(200, json.dumps(self.embeddings.answer(request, change)))

    def _trickle(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "100000")
        self.end_headers()
        while self.embeddings.wait(0.1):
            self.wfile.write(b" ")

    def _send(
        self,
        code: int,
        text: str | bytes,
        retry_after: str | None = None,
        location: str | None = None,
        encoding: str = "",
    ) -> None:
        data = text.encode() if isinstance(text, str) else text
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if encoding:
            self.send_header("Content-Encoding", encoding)
        if retry_after is not None:
            self.send_header("Retry-After", retry_after)
        if location is not None:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Print nothing."""
