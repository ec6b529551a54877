"""Asking a model to distil: without secrets, in parts that fit its window, within the budget, with retries."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING

import attrs

from ..errors import ConversationTooLongError, FlusherBusyError, FlusherError
from ..search.tokens import count_tokens
from ..types import Message
from .budget import Budget
from .facts import ITEM, NOTHING, parse_facts, sentence_of
from .messages import split_messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..keeping.writer import Writer
    from ..types import Distillation

_ANSWER_TOKENS = 2_000  # kept free of the model's window for its answer
_MIN_PART_TOKENS = 200
_MAX_DEPTH = 5  # of parts that are cut in halves
_ATTEMPTS = 3
BACKOFF_SECONDS = (1.0, 4.0)
_MAX_WAIT_SECONDS = 30.0


class Distiller:
    """Asks the flusher of a memory about messages. It is sent nothing that the write filters would not let be written.

    :param model: the name of the model; None for the one that the flusher is configured with.
    :param path: the file that the answer is for.
    :raises ConfigurationError: no flusher is configured.
    """

    def __init__(self, writer: Writer, model: str | None, path: str) -> None:
        context = writer.context
        self._filter = partial(writer.filter, path=path, where="In what is sent to the model: ")
        self._flusher = context.components.flusher(model)
        self._model = model
        self._budget = Budget(context)
        self._notices = context.notices

    async def split(self, messages: Sequence[Message], instructions: str) -> list[list[Message]]:
        """Split filtered messages into parts that fit the model's window together with the instructions.

        :raises BudgetExceededError: the rest of the day does not allow a call for each part.
        :raises PluginError: a write filter failed or is not installed. Nothing was sent.
        """
        # Whole messages are filtered: a secret on the border of two parts would pass.
        messages = [Message(await self._filter(sent.role), await self._filter(sent.text)) for sent in messages]
        # Before the window is read: for that, a flusher may load its libraries for seconds.
        await asyncio.to_thread(self._budget.check, 1)
        window = await self._flusher.window()
        # A model may count otherwise, and a flusher labels each message: a tenth is left for that.
        room = max(_MIN_PART_TOKENS, int(window * 0.9) - count_tokens(instructions) - _ANSWER_TOKENS)
        parts = split_messages(messages, room)
        await asyncio.to_thread(self._budget.check, len(parts))
        return parts

    async def find_facts(self, messages: Sequence[Message], instructions: str, depth: int = 0) -> list[str]:
        """Return the facts that the model finds in messages. A notice has what it says instead of a list.

        :raises FlusherError: the model gave no usable answer.
        """
        answer = await self._distill(messages, instructions, depth)
        if sentence := sentence_of(answer):
            self._notices.add(f'The model wrote no list but a sentence, and it was not stored: "{sentence}"')
        return parse_facts(answer)

    async def _distill(self, messages: Sequence[Message], instructions: str, depth: int) -> str:
        """Return the model's answer about messages, in two halves if the messages or the answer are too long.

        :raises FlusherError: the model gave no usable answer.
        """
        try:
            answer = await self._ask(messages, instructions)
            if not answer.text.strip():
                cut = " before its answer began: give it more max_tokens" if not answer.complete else ""
                raise FlusherError(
                    f"The model returned no text{cut}. If nothing is worth keeping, it should say so. Nothing was "
                    "written."
                )
            if answer.complete:
                return answer.text
        except ConversationTooLongError:
            halves = _halve(messages) if depth <= _MAX_DEPTH else []
            if not halves:
                raise
        else:
            halves = _halve(messages) if depth <= _MAX_DEPTH else []
            if not halves:
                return self._without_last_line(answer.text)
        # Each half may have an introduction of its own, so each is parsed by itself.
        facts = [fact for half in halves for fact in await self.find_facts(half, instructions, depth + 1)]
        return "\n".join(f"- {fact}".replace("\n", "\n  ") for fact in facts) or NOTHING

    def _without_last_line(self, text: str) -> str:
        complete = text.rpartition("\n")[0]
        if not complete.strip():
            raise FlusherError("The model's answer was cut off in its first line. Give it more max_tokens.")
        self._notices.add("The model's answer was cut off. It was kept without its last line.")
        return complete

    async def _ask(self, messages: Sequence[Message], instructions: str) -> Distillation:
        instructions = await self._filter(instructions)
        expected = count_tokens(instructions) + sum(count_tokens(message.text) for message in messages)
        for attempt in range(_ATTEMPTS):
            await asyncio.to_thread(self._budget.spend, 1, expected)
            try:
                answer = await self._flusher.distill(messages, instructions=instructions, model=self._model)
            except FlusherBusyError as error:
                wait = error.retry_after if error.retry_after is not None else BACKOFF_SECONDS[min(attempt, 1)]
                if attempt == _ATTEMPTS - 1 or not wait <= _MAX_WAIT_SECONDS:  # NaN is not less either
                    raise
                await asyncio.sleep(wait)
                continue
            if answer.tokens > 0:
                await asyncio.to_thread(self._budget.spend, 0, answer.tokens - expected, check=False)
            return attrs.evolve(answer, text=_without_thoughts(answer))
        raise AssertionError  # the last attempt raises


def _halve(messages: Sequence[Message]) -> list[list[Message]]:
    """Return messages in two parts of about the same length, or no parts if they are too short."""
    total = sum(count_tokens(message.text) + 5 for message in messages)
    if total < _MIN_PART_TOKENS:
        return []
    parts = split_messages(messages, total // 2 + 1)
    return [parts[0], [message for part in parts[1:] for message in part]] if len(parts) > 1 else []


_THOUGHTS = re.compile(r"\s*+<(?P<mark>think|thinking)>.*?(?P<end></(?P=mark)>|\Z)", re.DOTALL | re.IGNORECASE)
# Some templates open the thoughts in the prompt, so that an answer has only their end. Thoughts begin in prose: what
# begins with an item is the list that was asked for, whatever tags stand in it.
_END_OF_THOUGHTS = re.compile(r"^[ \t]*+</(?:think|thinking)>[ \t]*+$", re.IGNORECASE | re.MULTILINE)


def _without_thoughts(answer: Distillation) -> str:
    """Return the text of an answer after the model's thoughts; nothing if it was cut off in them."""
    found = _THOUGHTS.match(answer.text)
    if found is None and (end := _END_OF_THOUGHTS.search(answer.text)) and not ITEM.match(answer.text.lstrip()):
        return answer.text[end.end() :]
    return answer.text[found.end() :] if found and (found["end"] or not answer.complete) else answer.text
