"""Distils conversations with the models of OpenAI, Anthropic, Gemini, Mistral, Ollama and all that LiteLLM knows.

A conversation is sent as one message of data, never as turns of a chat: what somebody once asked of an assistant must
not be asked of the model that reads it. LiteLLM takes seconds to import, so that happens with the first conversation,
and off the event loop; when to try again is for Kipu to say, and LiteLLM is kept from it.
"""

from __future__ import annotations

import logging
import os
import re
import warnings
from typing import TYPE_CHECKING, Any

import attrs
from attrs import validators

from kipu import hookimpl
from kipu.errors import ConversationTooLongError, FlusherError
from kipu.types import Distillation

from .keys import can_tell, missing_keys, no_key
from .redirects import no_redirects
from .transcript import transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kipu.types import Flusher, Message, Register

__all__ = ["LitellmFlusher"]

_USUAL_WINDOW = 32_000

# Loggers of libraries, each with the variable by which somebody asks for what they say.
_LOGS = {"LiteLLM": "LITELLM_LOG", "openai": "OPENAI_LOG"}

# What LiteLLM says of parts that it imports late: where warnings are errors, they would fail.
_WARNINGS_OF_ITSELF = (".*`ReadOnly` qualifier", "Pydantic serializer warnings")


def _must_be(rule: str, holds: Callable[[Any], bool]) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    """A validator that says the rule and not the value, for there may be a key in it."""

    def check(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is not None and not holds(value):
            raise ValueError(f"{attribute.name} must be {rule}")

    return check


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"https?://[^?#@\s]+", value) is not None


def _is_key(value: Any) -> bool:
    text = value["env"] if isinstance(value, dict) and [*value] == ["env"] else value
    return isinstance(text, str) and text.strip() != "" and _fits_into_a_header(text)


def _fits_into_a_header(key: str) -> bool:
    return key.isascii() and key.isprintable()


@attrs.frozen
class LitellmFlusher:
    """Distil with a model of a provider, through LiteLLM: one request for each conversation, or part of one.

    ``model`` is written as LiteLLM does: the provider, a slash, and the provider's name of it. The key is taken from
    the provider's own environment variable, such as ``OPENAI_API_KEY``, unless ``api_key`` says otherwise. ``api_base``
    and ``api_key`` belong to the provider of ``model``: where a call asks a model of another one, they are not used.
    """

    model: str = attrs.field(
        validator=[
            validators.instance_of(str),
            _must_be('provider/model, such as "openai/gpt-4o-mini"', lambda value: value.strip() != ""),
        ],
        metadata={"help": 'The model, as provider/model: "openai/gpt-4o-mini", "ollama/llama3.1".'},
    )
    api_base: str | None = attrs.field(
        default=None,
        validator=_must_be("an address such as https://host/v1, without a user or a query in it", _is_address),
        metadata={"help": "The address of the provider, where it is not the usual one."},
    )
    api_key: Any = attrs.field(
        default=None,
        validator=_must_be('a text in quotes, or { env = "NAME" } for that of an environment variable', _is_key),
        repr=False,
        eq=False,
        metadata={"help": 'The key, or { env = "NAME" }. By default the provider\'s own variable.', "secret": True},
    )
    timeout: float = attrs.field(
        default=60.0,
        converter=float,
        validator=validators.gt(0.0),
        metadata={"help": "How long to wait for the whole answer, in seconds."},
    )
    max_tokens: int = attrs.field(
        default=1024,
        validator=[validators.instance_of(int), validators.ge(1)],
        metadata={"help": "How long an answer may be, in tokens, those included in which a model thinks."},
    )
    temperature: float = attrs.field(
        default=0.0,
        converter=float,
        validator=validators.ge(0.0),
        metadata={"help": "How freely the model words its answer, from 0. Not sent to models that take none."},
    )
    window: int | None = attrs.field(
        default=None,
        validator=validators.optional([validators.instance_of(int), validators.ge(1)]),
        repr=False,
        eq=False,
        metadata={
            "help": "How many tokens go into one request. By default what LiteLLM knows of the model, less max_tokens, "
            "else 32,000."
        },
    )

    def __attrs_post_init__(self) -> None:
        if self.window is None:  # then `__getattr__` finds it out, but not before somebody asks: it takes LiteLLM
            object.__delattr__(self, "window")

    def __getattr__(self, name: str) -> int:
        if name != "window":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        try:
            self._check_key_at_once(self.model)
        except FlusherError:  # it cannot be asked; another model may be, whose window is not this one's
            return _USUAL_WINDOW
        known = _load().model_cost  # not get_model_info, which asks a server of Ollama
        entry = known.get(self.model) or known.get(self.model.partition("/")[2]) or {}
        tokens = entry.get("max_input_tokens")
        return max(tokens - self.max_tokens, tokens // 2) if tokens else _USUAL_WINDOW

    async def distill(
        self, messages: Sequence[Message], *, instructions: str, model: str | None = None
    ) -> Distillation:
        """Ask the model once, and return what it answered.

        :raises FlusherBusyError: a rate limit, or a fault of the provider's.
        :raises ConversationTooLongError: the model cannot take so much.
        :raises FlusherError: the key is missing or refused, the provider lacks the model, cannot be reached, does not
            answer in time, refuses, or answers with something that is no text.
        """
        import asyncio

        from .failures import failure

        name = model or self.model
        request = await asyncio.to_thread(self._request, name)
        request["messages"] = [
            {"role": "system", "content": instructions},
            {"role": "user", "content": transcript(messages)},
        ]
        litellm = _load()
        try:
            with no_redirects():
                async with asyncio.timeout(self.timeout):
                    response = await litellm.acompletion(**request)
        except Exception as error:  # noqa: BLE001 - whatever it is, `failure` says it
            failed = failure(error, name, self.timeout, request["api_key"])
        else:
            return _distillation(response, name, request.get("num_ctx", 0) - self.max_tokens)
        raise failed  # out here, so that no traceback shows what came before: it may have the key in it

    def _request(self, name: str) -> dict[str, Any]:
        """Everything that a request needs but its messages. It is refused here if there is no key to send with it."""
        self._check_key_at_once(name)
        litellm = _load()
        provider = _provider_of(litellm, name)
        at_home = name == self.model or provider == _provider_of(litellm, self.model)
        key = self._key() if at_home else None
        if key is None and not (litellm.api_key or getattr(litellm, f"{provider}_key", None)):
            needed = litellm.validate_environment(name)["missing_keys"]
            if missing := [each for each in needed if each.endswith("_API_KEY") and not os.environ.get(each)]:
                raise no_key(name, missing)
        request: dict[str, Any] = {
            "model": name,
            "api_base": self.api_base if at_home else None,
            "api_key": key,
            "timeout": self.timeout,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "drop_params": True,  # the temperature, for models that take none
            "max_retries": 0,
            "num_retries": 0,
        }
        if provider in {"ollama", "ollama_chat"}:
            # LiteLLM's "ollama" does not say when an answer was cut off. Ollama itself cuts what is longer than its
            # window without a word, and its usual one is small.
            request["model"] = f"ollama_chat/{name.partition('/')[2]}"
            request["num_ctx"] = (self.window or _USUAL_WINDOW) + self.max_tokens
        return request

    def _check_key_at_once(self, name: str) -> None:
        """Raise if it can be told without LiteLLM that there is no key."""
        if not can_tell():
            return
        provider, has_provider, _ = name.partition("/")
        own, own_is_known, _ = self.model.partition("/")
        if self.api_key is not None and provider == own:
            self._key()
        elif has_provider and (own_is_known or self.api_key is None) and (missing := missing_keys(provider)):
            raise no_key(name, missing)

    def _key(self) -> str | None:
        """The key; None where LiteLLM is to find it."""
        if not isinstance(self.api_key, dict):
            return self.api_key  # type: ignore[no-any-return] # the validator saw to it
        name = self.api_key["env"]
        if not (key := os.environ.get(name)):
            raise FlusherError(f"api_key says that the key is in the environment variable {name}, which is not set.")
        if not _fits_into_a_header(key):
            raise FlusherError(f"The key in the environment variable {name} has a character that no key has.")
        return key


@hookimpl
def kipu_register_flushers(register: Register[Flusher]) -> None:
    register("litellm", LitellmFlusher)


def _load() -> Any:
    """Import LiteLLM and keep it quiet, and from fetching prices."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_SUPPRESS_STARTUP_OUTPUT", "True")
    for name, variable in _LOGS.items():  # at DEBUG they print what is sent: nobody asks for that with Kipu's own log
        log = logging.getLogger(name)
        if log.level == logging.NOTSET and variable not in os.environ:
            log.setLevel(logging.WARNING)
    try:
        import litellm
    except ImportError as error:
        raise FlusherError(f"LiteLLM cannot be imported: {error}. pip install kipu-flusher-litellm") from error
    litellm.suppress_debug_info = True
    if "LITELLM_LOG" not in os.environ:  # nobody asked for its log, and a handler of its own prints it, on stdout
        log = logging.getLogger("LiteLLM")
        others = [handler for handler in log.handlers if not type(handler).__module__.startswith("litellm.")]
        log.handlers[:] = others or [logging.NullHandler()]
    for message in _WARNINGS_OF_ITSELF:
        warnings.filterwarnings("ignore", message, UserWarning)
    return litellm


def _provider_of(litellm: Any, model: str) -> str:
    try:
        return str(litellm.get_llm_provider(model)[1])
    except litellm.BadRequestError:
        raise FlusherError(
            f'LiteLLM knows no provider for the model "{model}". Write it as provider/model, such as '
            '"openai/gpt-4o-mini" or "ollama/llama3.1".'
        ) from None


def _distillation(response: Any, model: str, window: int) -> Distillation:
    """What a model answered.

    :param window: how many tokens Ollama took at the most; 0 or less for other providers, which refuse what is more.
    """
    from .failures import shortened

    choice = next(iter(response.choices), None)
    if choice is None:
        raise FlusherError(f"{model} answered without saying anything: its list of choices is empty.")
    if choice.finish_reason == "content_filter":
        raise FlusherError(f"{model} did not answer: the provider's content filter stopped it.")
    if refusal := getattr(choice.message, "refusal", None):
        raise FlusherError(f"{model} refused to answer: {shortened(refusal)}")
    if choice.message.tool_calls or getattr(choice.message, "function_call", None):
        raise FlusherError(f"{model} called a tool instead of answering, and it was given none.")
    usage = getattr(response, "usage", None)
    if 0 < window <= (getattr(usage, "prompt_tokens", None) or 0):
        raise ConversationTooLongError(f"{model} was given more than the {window} tokens of its window, and cut it.")
    text = choice.message.content or ""
    return Distillation(text, choice.finish_reason != "length", getattr(usage, "total_tokens", None) or 0)
