"""The flusher: OpenAI, Anthropic, Gemini, Mistral, Ollama and all other providers that LiteLLM knows.

A conversation is sent as one message of data, never as turns of a chat: a model must not take what its speakers asked
of an assistant for requests to itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import attrs

from kipu import hookimpl
from kipu.errors import ConversationTooLongError, FlusherBusyError, FlusherError
from kipu.options import number, option, optional, whole_number
from kipu.types import Distillation, FlusherBase

from .failures import Errors, quoted
from .options import IMPORT_SECONDS, address_option, key_option, model_option, timeout_option
from .target import Target
from .transcript import transcript

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kipu.types import Annotator, Flusher, Message, Register

    from .failures import Request

__all__ = ["LitellmFlusher", "NoAnswerError"]

_USUAL_WINDOW = 32_000

# What a response may have in it beside the answer, such as thoughts that count as no tokens, and lists of sources.
_SLACK_BYTES = 1024 * 1024
_SLACK_VALUES = 8192

# How providers report a conversation that their model cannot take, now or ever.
_TOO_LONG = re.compile(
    r"context.?(length|window|size|limit)|(prompt|input|request)\b.{0,60}\btoo (long|large)|input token count"
    r"|reduce the length|tokens must be reduced",
    re.IGNORECASE | re.DOTALL,
)

_ERRORS = Errors(
    failed=FlusherError,
    busy=FlusherBusyError,
    too_long=ConversationTooLongError,
    content="text",
    example='"openai/gpt-4o-mini" or "ollama/llama3.1"',
    path="/chat/completions",
    is_too_long=lambda _, text: _TOO_LONG.search(text) is not None,
)


class NoAnswerError(FlusherError):
    """A model answered with something else than a text: with a refusal, for example."""


@attrs.frozen
class LitellmFlusher(FlusherBase):
    """Distil with a model of a provider, through LiteLLM: one request for each conversation, or part of one.

    ``model`` is written as LiteLLM does: the provider, a slash, and the provider's name of it. The key is taken from
    the provider's own environment variable, such as ``OPENAI_API_KEY``, unless ``api_key`` gives another. ``api_base``
    and ``api_key`` belong to the provider of ``model``: a call for a model of another provider does not use them.
    """

    model: str = model_option('"openai/gpt-4o-mini", "ollama/llama3.1"')
    api_base: str | None = address_option()
    api_key: Any = key_option()  # noqa: RUF009 - it makes a field
    request_timeout: float = timeout_option(60.0)
    max_tokens: int = option(
        1024, whole_number(1), "How long an answer may be, in tokens, those included in which a model thinks."
    )
    temperature: float = option(
        0.0,
        number(0),
        "How freely the model words its answer, from 0. Not sent to models that take none.",
        converter=float,
    )
    window: int | None = option(
        None,
        optional(whole_number(1)),
        "How many tokens go into one request. By default what LiteLLM knows of the model, less max_tokens, or 32,000.",
        repr=False,
        eq=False,
    )

    def __attrs_post_init__(self) -> None:
        if self.window is None:  # `__getattr__` finds it when it is first read: that imports LiteLLM
            object.__delattr__(self, "window")

    def __getattr__(self, name: str) -> int:
        if name != "window":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        from .library import load

        try:
            self._check_key(self.model)
        except FlusherError:  # there is no key: no request will be sent, and LiteLLM need not be imported
            return _USUAL_WINDOW
        models = load(_ERRORS).model_cost  # get_model_info would ask a server of Ollama
        entry = models.get(self.model) or models.get(self.model.partition("/")[2]) or {}
        tokens = entry.get("max_input_tokens")
        return max(tokens - self.max_tokens, tokens // 2) if tokens else _USUAL_WINDOW

    @property
    def timeout(self) -> float:  # type: ignore[override] # computed
        """The seconds that one call may take: the first one imports LiteLLM."""
        return self.request_timeout + IMPORT_SECONDS

    async def distill(
        self, messages: Sequence[Message], *, instructions: str, model: str | None = None
    ) -> Distillation:
        """Ask the model once, and return its answer.

        :raises FlusherBusyError: a rate limit, or a fault of the provider's.
        :raises ConversationTooLongError: the model cannot take so much.
        :raises FlusherError: the key is missing or refused, the provider lacks the model, cannot be reached, does not
            answer in time, refuses, or answers with something that is no text.
        """
        import asyncio

        from .body import Allowance
        from .library import send

        request, options = await asyncio.to_thread(self._prepare, model or self.model)
        options["messages"] = [
            {"role": "system", "content": instructions},
            {"role": "user", "content": transcript(messages)},
        ]
        import litellm

        allowance = Allowance(
            size=_SLACK_BYTES + 64 * self.max_tokens,
            commas=_SLACK_VALUES + self.max_tokens,
            brackets=_SLACK_VALUES + self.max_tokens // 4,
        )
        response = await send(request, litellm.acompletion(**options), allowance)
        return _distillation(response, request.model, options.get("num_ctx", 0) - self.max_tokens)

    def _prepare(self, model: str) -> tuple[Request, dict[str, Any]]:
        """Return all that a request needs but its messages."""
        self._check_key(model)
        is_configured = model == self.model or self._provider_of(model) == self._provider_of(self.model)
        target = Target(model, self.api_base, self.api_key, _ERRORS) if is_configured else _elsewhere(model)
        request, provider, options = target.prepare(self.request_timeout)
        options |= {
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "drop_params": True,  # the temperature, for models that take none
            "num_retries": 0,
        }
        if provider in {"ollama", "ollama_chat"}:
            # LiteLLM's "ollama" does not report an answer that was cut off. Ollama itself cuts what is longer than its
            # window silently, and its usual window is small.
            options["model"] = f"ollama_chat/{model.partition('/')[2]}"
            options["num_ctx"] = (self.window or _USUAL_WINDOW) + self.max_tokens
        return request, options

    def _provider_of(self, model: str) -> str:
        from .library import load, provider_of

        return provider_of(load(_ERRORS), model, None, _ERRORS)

    def _check_key(self, model: str) -> None:
        """Check that there may be a key, as far as that is known without importing LiteLLM.

        :raises FlusherError: there is none.
        """
        provider, configured = model.partition("/")[0], self.model.partition("/")
        if self.api_key is not None and provider == configured[0]:
            Target(model, None, self.api_key, _ERRORS).check_key()
        elif self.api_key is None or configured[1]:
            _elsewhere(model).check_key()


def _elsewhere(model: str) -> Target:
    """Return a target that does not use the configured address and key."""
    return Target(model, None, None, _ERRORS)


@hookimpl
def kipu_register_flushers(register: Register[Flusher]) -> None:
    register("litellm", LitellmFlusher)


@hookimpl
def kipu_register_annotators(register: Register[Annotator]) -> None:
    from .annotator import LitellmAnnotator  # which sends its requests with the flusher

    register("litellm", LitellmAnnotator)


def _distillation(response: Any, model: str, window: int) -> Distillation:
    """Return the answer of a model.

    :param window: how many tokens Ollama took at most; 0 or less for other providers, which refuse more than they take.
    :raises NoAnswerError: it is no answer.
    """
    choice = next(iter(response.choices), None)
    if choice is None:
        raise NoAnswerError(f"{model} gave no answer: its list of choices is empty.")
    if choice.finish_reason == "content_filter":
        raise NoAnswerError(f"{model} did not answer: the provider's content filter stopped it.")
    if refusal := getattr(choice.message, "refusal", None):
        raise NoAnswerError(f"{model} refused to answer: {quoted(refusal)}")
    if choice.message.tool_calls or getattr(choice.message, "function_call", None):
        raise NoAnswerError(f"{model} called a tool instead of answering, and it was given none.")
    usage = getattr(response, "usage", None)
    if 0 < window <= (getattr(usage, "prompt_tokens", None) or 0):
        raise ConversationTooLongError(f"{model} was given more than the {window} tokens of its window, and cut it.")
    text = choice.message.content or ""
    return Distillation(text, choice.finish_reason != "length", getattr(usage, "total_tokens", None) or 0)
