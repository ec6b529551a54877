"""A server of a language model on loopback that speaks OpenAI's protocol, answers from a script, and can misbehave.

It needs nothing but the standard library, and is the server of embeddings with other answers: ``url``, ``count``,
``requests``, ``then`` and ``always`` are the same, and so are the faults ``Status``, ``Slow``, ``Raw`` and
``Dropped``::

    with CompletionServer() as server:
        server.then("- They chose Redis.", Status(429, retry_after="2"), Answer("- They ch", finish_reason="length"))
        server.always(lambda request: prompt(request, "user").upper())  # when the script is at its end
        ...                                                             # a client that uses server.url
        assert server.count == 4
        assert server.requests[0].headers["authorization"] == "Bearer sk-right"
        assert server.requests[0].body["model"] == "gpt-4o-mini"
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from embedding_server import NOT_JSON, Dropped, EmbeddingServer, Fault, Raw, Request, Slow, Status

if TYPE_CHECKING:
    import threading

__all__ = [
    "BROKEN_JSON",
    "NOTHING_NEW",
    "NOT_JSON",
    "NO_CHOICES",
    "Answer",
    "CompletionServer",
    "Dropped",
    "Held",
    "Raw",
    "Request",
    "Slow",
    "Status",
    "prompt",
]

NOTHING_NEW = "- Nothing new."
"""What the model answers as long as no script says otherwise."""

NO_CHOICES = Raw(json.dumps({"id": "1", "object": "chat.completion", "created": 0, "model": "any", "choices": []}))
BROKEN_JSON = Raw('{"id": "1", "object": "chat.completion", "choices": [{"index": 0, "mess')


@dataclass(frozen=True)
class Answer:
    """What the model says, and how.

    ``message`` has further parts of its message, such as ``refusal`` or ``tool_calls``. ``usage`` is what the call
    cost; by default a token is a word, and None leaves it out.
    """

    text: str | None
    finish_reason: str | None = "stop"
    message: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, int] | None = field(default_factory=dict)


@dataclass(frozen=True)
class Held:
    """Answer as soon as an event is set, or not at all, if the server is closed before.

    ``arrived``, where it is given, is set when the request is there.
    """

    released: threading.Event
    answer: Script = NOTHING_NEW
    arrived: threading.Event | None = None


Script = str | Answer | Held | Fault | Callable[[Request], "str | Answer"]
"""How a request is answered: with a text, a fault, or what a function makes of the request."""


def prompt(request: Request, role: str) -> str:
    """Return what a client sent as ``system``, ``user`` or ``assistant``."""
    return "\n".join(message["content"] for message in request.body["messages"] if message["role"] == role)


class CompletionServer(EmbeddingServer):
    """The server: a context manager, listening at ``url`` while it is open.

    :param key: what a client has to send as its key; by default any will do.
    :param max_characters: longer prompts are refused as OpenAI does: status 400.
    """

    def __init__(self, *, key: str | None = None, max_characters: int | None = None) -> None:
        super().__init__(key=key)
        self.max_characters = max_characters

    def then(self, *script: Script) -> None:
        """Answer the next requests in this way, one each."""
        self._next += script

    def always(self, script: Script | None) -> None:
        """Answer in this way when the script is at its end; None is ``NOTHING_NEW``."""
        self._always = script

    def receive(self, request: Request) -> Fault:
        """Record a request, and return the answer to it, whole, as the handler of requests sends it."""
        script = super().receive(request)
        if isinstance(script, Status):  # also where the key is wrong
            return script
        length = sum(len(message["content"]) for message in request.body.get("messages", []))
        if self.max_characters is not None and length > self.max_characters:
            message = f"This model's maximum context length is {self.max_characters} tokens, and you sent {length}."
            return Status(400, message)
        return self._play(NOTHING_NEW if script is None else script, request)

    def _play(self, script: Script, request: Request) -> Fault:
        if isinstance(script, Held):
            if script.arrived is not None:
                script.arrived.set()
            while not script.released.wait(0.02):
                if self._closing.is_set():
                    return Dropped()
            return self._play(script.answer, request)
        if callable(script):
            script = script(request)
        if isinstance(script, str):
            script = Answer(script)
        return Raw(json.dumps(_completion(script, request))) if isinstance(script, Answer) else script


def _completion(answer: Answer, request: Request) -> dict[str, Any]:
    """Return an answer in OpenAI's form."""
    message = {"role": "assistant", "content": answer.text, **answer.message}
    completion: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": request.body.get("model", ""),
        "choices": [{"index": 0, "message": message, "finish_reason": answer.finish_reason}],
    }
    if answer.usage is not None:
        asked = sum(len(str(message["content"]).split()) for message in request.body.get("messages", []))
        said = len((answer.text or "").split())
        counted = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
        completion["usage"] = answer.usage or counted
    return completion
