"""What a hostile server can send: how much of it is read and parsed, and what it becomes, over real HTTP."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from completion_server import Answer
from embedding_server import Packed, Raw, Status

from kipu.types import Message
from kipu_litellm import LitellmEmbedder, LitellmFlusher

MEBIBYTE = 1024 * 1024
KEY = "sk-right-key"


class HostileServer:
    """A server whose responses have any status, headers and body, and that counts the bytes that a client takes."""

    def __init__(self, status: int, body: bytes, times: int = 1, **headers: str) -> None:
        self.taken = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body) * times), **headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                try:
                    for _ in range(times):
                        self.wfile.write(body)
                        server.taken += len(body)
                except OSError:  # the client hung up
                    self.close_connection = True
                server.done.set()

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self.done = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


async def failure(kind, *response, **headers):
    with closing(HostileServer(*response, **headers)) as server:
        return await kind.failure(kind.make(server))


# --- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [b"\\u0041", b"Aa1 ", b"sk-right ", b'"message":"\\', b"<p>x</p>"])
@pytest.mark.parametrize("code", [400, 500])
async def test_only_the_first_part_of_an_error_is_taken(kind, code, unit):
    block = b'{"error": {"message": "' + unit * (MEBIBYTE // len(unit))
    with closing(HostileServer(code, block, 64)) as server:
        error = await kind.failure(kind.make(server))
        assert await asyncio.to_thread(server.done.wait, 20)
    assert type(error) is (kind.failed if code == 400 else kind.busy)
    assert len(str(error)) < 300
    assert server.taken < 32 * MEBIBYTE  # buffers of sockets take some of it


async def test_an_error_that_is_cut_is_quoted_as_its_message(kind):
    body = json.dumps({"detail": "Too large: \u20ac.", "input": "a" * MEBIBYTE}).encode()
    error = await failure(kind, 500, body)
    assert str(error) == "openai/any cannot answer at the moment (500): Too large: \u20ac."
    body = b'{"message": "' + b"\\u0041 " * MEBIBYTE
    assert "(500): A A A A A" in str(await failure(kind, 500, body))


@pytest.mark.parametrize("space", [b" ", b"\\n", b"\\u0020"])
async def test_no_part_of_a_key_is_quoted_where_an_error_is_cut(kind, space):
    for shift in range(0, 12, 3):
        body = b'{"message": "'
        body += space * ((64 * 1024 - len(body) - shift) // len(space)) + b"sk-right-key" + b"." * 1000
        assert "sk-" not in str(await failure(kind, 400, body))


@pytest.mark.parametrize("code", [429, 500, 503])
@pytest.mark.parametrize("encoding", ["br", "gzip"])
async def test_an_error_that_cannot_be_unpacked_is_busy_where_its_status_is(kind, server, code, encoding):
    server.always(Packed(encoding, bytes, b"not packed", code))
    assert type(await kind.failure(kind.make(server))) is kind.busy


@pytest.mark.parametrize(
    "charset", ["punycode", "bz2", "idna", "undefined", "unicode_escape", "utf-16", "rot13", '"a\x01b"', "nowhere"]
)
@pytest.mark.parametrize("text", ["na\u00efve a-99999", "a" * 70, "\\ud800"])
async def test_the_server_does_not_choose_the_codec(kind, charset, text):
    error = await failure(kind, 500, text.encode(), Content_Type=f"text/plain; charset={charset}")
    assert type(error) is kind.busy
    assert str(error) == f"openai/any cannot answer at the moment (500): {text}."


@pytest.mark.parametrize("location", ["//[::bad", "http://a:99999999/", "http://[v1.x]/"])
async def test_a_redirect_to_an_address_that_cannot_be_read_is_refused(kind, location):
    error = await failure(kind, 307, b"", Location=location)
    assert type(error) is kind.failed
    assert "Nothing was sent there." in str(error)


@pytest.mark.parametrize("header", ["9" * 400, "9" * 400 + ".5", "Fri, 31 Dec 99999 23:59:59 GMT", "(" * 5000])
async def test_a_time_to_wait_that_is_no_time_is_ignored(kind, server, header):
    server.then(Status(429, "Later", retry_after=header))
    error = await kind.failure(kind.make(server))
    assert (type(error), error.retry_after) == (kind.busy, None)
    assert str(error) == "openai/any cannot answer at the moment (429): Later."


# --- responses with success ----------------------------------------------------------------------------------------

MANY = 100_000
TOO_MANY_VALUES = {
    "lists": '{"data": [%s[]]}' % ("[]," * MANY),
    "vectors": '{"data": [%s{}]}' % ('{"index": 0, "embedding": [1]}, ' * 10_000),
    "numbers": '{"data": [%s1]}' % ("1," * MANY),
    "keys": '{%s"": 1}' % ('"a": 1,' * (MANY // 2)),
    "choices": '{"choices": [%s{}]}' % ("{}," * MANY),
    "tools": '{"choices": [{"index": 0, "message": {"tool_calls": [%s{}]}}]}' % ("{}," * MANY),
    "parts": '{"choices": [{"index": 0, "message": {"content": [%s1]}}]}' % ("1," * MANY),
    "errors": '{"error": [%s[]]}' % ("[]," * MANY),
    "depth": "[" * MANY,
}


@pytest.mark.parametrize("body", TOO_MANY_VALUES.values(), ids=TOO_MANY_VALUES)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
async def test_a_response_with_more_values_than_asked_for_is_not_parsed(kind, server, body, packed):
    server.always(Packed("gzip", gzip.compress, body.encode()) if packed else Raw(body))
    error = await kind.failure(kind.make(server))
    assert type(error) is kind.failed
    assert str(error) == (
        "openai/any answered (200) with a body of more values than were asked for. It is not used. Check api_base."
    )


@pytest.mark.parametrize("depth", [250, 500, 990, 1020])
@pytest.mark.parametrize("form", ["{}", '{{"error": {}}}', '{{"data": {}}}', '{{"choices": {}}}'])
async def test_deep_json_is_an_error_of_the_component(kind, server, depth, form):
    server.always(Raw(form.format("[" * depth + "]" * depth)))
    assert type(await kind.failure(kind.make(server))) is kind.failed


# --- what is allowed -----------------------------------------------------------------------------------------------


async def test_long_vectors_are_read(embeddings):
    embeddings.dimension = 16_384
    assert (await LitellmEmbedder("openai/a", embeddings.url, KEY).embed(["tea", "cake"], role="document")).shape == (
        2,
        16_384,
    )


async def test_longer_vectors_are_read_where_dimensions_asks_for_them(embeddings):
    embedder = LitellmEmbedder("openai/a", embeddings.url, KEY, dimensions=40_000)
    assert (await embedder.embed(["tea"], role="document")).shape == (1, 40_000)


async def test_the_texts_may_be_repeated_beside_their_vectors(embeddings):
    embeddings.key = None
    texts = ["[{,\u20ac" * 50_000, "tea"]
    embeddings.always(Raw(json.dumps({"id": "1", "embeddings": {"float": [[1, 0], [0, 1]]}, "texts": texts})))
    assert (await LitellmEmbedder("cohere/a", embeddings.url, KEY).embed(texts, role="document")).shape == (2, 2)


@pytest.mark.parametrize("unit", ["- [x], {y}\n", "\u20ac", "\n" * 80])
@pytest.mark.parametrize("tokens", [1024, 50_000])
async def test_an_answer_as_long_as_max_tokens_is_read(completions, unit, tokens):
    text = "-" + unit * (tokens // 8)
    completions.then(Answer(text))
    flusher = LitellmFlusher("openai/a", completions.url, KEY, max_tokens=tokens)
    assert (await flusher.distill([Message("user", "a")], instructions="List.")).text == text
