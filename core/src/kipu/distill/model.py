"""Asks a model to distil: within a budget for each day, in parts that it can take, and never more often than said."""

from __future__ import annotations

import asyncio
import json
import os
import re
from typing import TYPE_CHECKING

import attrs

from ..errors import (
    BudgetExceededError,
    ConversationTooLongError,
    FlusherBusyError,
    FlusherError,
    KipuError,
    QueryError,
)
from ..index.file import make_hidden_folder
from ..keeping.files import read_regular, write_new
from ..search.recall import estimate_tokens
from .messages import in_parts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date
    from pathlib import Path

    from ..config import MemoryConfig
    from ..plugins.adapters import FlusherAdapter
    from ..types import Distillation, Message

__all__ = ["NOTHING", "Budget", "Distilling", "facts_of", "instructions_for"]

NOTHING = "NOTHING_TO_REMEMBER"
"""What a model answers where nothing is worth keeping: this, and nothing else."""

_DEFAULT_WINDOW = 32_000
# What is kept free of a model's window for its answer, and the smallest part that is still cut in two.
_ANSWER_TOKENS = 2_000
_SMALLEST_PART = 200
_TRIES = 3
BACKOFF_SECONDS = (1.0, 4.0)
_LONGEST_WAIT_SECONDS = 30.0
_DAYS_KEPT = 31
# More than any model takes or any day may cost; a number of thousands of digits could not be read again.
_MOST_TOKENS = 10**12


class Budget:
    """What the calls of a workspace's models may cost on one day, over all processes.

    It stands in a file beside the index, which is made anew at any time and would forget it.
    """

    def __init__(self, hidden: Path, config: MemoryConfig) -> None:
        self._path = hidden / "usage.json"
        self._config = config

    def check(self, calls: int) -> None:
        """Raise BudgetExceededError where so many calls are more than what is left of the day."""
        self._spend(calls, 0, check=True, book=False)

    def spend(self, calls: int, tokens: int, *, check: bool = True) -> None:
        """Write down what is about to be spent.

        :raises BudgetExceededError: it would be more than a day may cost.
        """
        self._spend(calls, tokens, check=check, book=True)

    def _spend(self, calls: int, tokens: int, *, check: bool, book: bool) -> None:
        from filelock import FileLock

        try:
            make_hidden_folder(self._path.parent)
            lock = FileLock(self._path.with_suffix(".lock"), thread_local=False)
            lock.acquire()
        except OSError as error:
            raise self._unusable(error) from error
        try:
            used = self._checked(calls, tokens if check else None)
            if book:
                day = used[self._today]
                day["calls"] += calls
                day["tokens"] = max(0, day["tokens"] + tokens)
                self._write({key: used[key] for key in sorted(used)[-_DAYS_KEPT:]})
        finally:
            lock.release()

    @property
    def _today(self) -> str:
        return self._config.today().isoformat()

    def _checked(self, calls: int, tokens: int | None) -> dict[str, dict[str, int]]:
        """What was spent, by day, if so many calls and tokens more may be; None is not asked about."""
        # A clock may have been wrong: days to come say nothing.
        used = {day: spent for day, spent in self._read().items() if day <= self._today}
        day = used.setdefault(self._today, {"calls": 0, "tokens": 0})
        limits = self._config.flush
        asked = {"calls": (calls, limits.calls_per_day), "tokens": (tokens or 0, limits.tokens_per_day)}
        for what, (more, most) in asked.items():
            if tokens is not None and day[what] + more > most:
                raise BudgetExceededError(
                    f"This would take {more:,} {what} of a model; {day[what]:,} of the {most:,} that a day may cost "
                    f"here are spent. Nothing was sent. To allow more: [flush] {what}_per_day in kipu.toml."
                )
        return used

    def _read(self) -> dict[str, dict[str, int]]:
        try:
            found = json.loads(read_regular(self._path))
            return {
                str(day): {what: max(0, int(spent[what])) for what in ("calls", "tokens")}
                for day, spent in found.items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise KipuError(
                f"{self._path}, which says what models cost so far, cannot be read: "
                f"{getattr(error, 'strerror', None) or error}. Mend or delete it."
            ) from None

    def _write(self, used: dict[str, dict[str, int]]) -> None:
        whole = self._path.with_suffix(f".{os.getpid()}.tmp")
        try:
            write_new(whole, (json.dumps(used, indent=1) + "\n").encode("utf-8"))
            os.replace(whole, self._path)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> KipuError:
        return KipuError(
            f"{self._path}, which says what models cost so far, cannot be written: {error.strerror or error}. Nothing "
            "was sent."
        )


@attrs.define
class Distilling:
    """One flush, or one compaction: a flusher, the model to ask, and what it may cost."""

    flusher: FlusherAdapter
    model: str | None
    budget: Budget
    notices: list[str] = attrs.field(factory=list)

    async def parts(self, messages: Sequence[Message], instructions: str) -> list[list[Message]]:
        """Messages in parts that the model can take together with the instructions.

        :raises BudgetExceededError: to ask about all of them would be more than is left of this day.
        """
        # Before the window is asked for: to know it, a flusher may take seconds to load what it asks its model with.
        await asyncio.to_thread(self.budget.check, 1)
        window = await self.flusher.window()
        # Tokens are estimated, and a flusher labels each message: a tenth is left for that.
        room = max(_SMALLEST_PART, int(window * 0.9) - estimate_tokens(instructions) - _ANSWER_TOKENS)
        parts = in_parts(messages, room)
        await asyncio.to_thread(self.budget.check, len(parts))
        return parts

    async def about(self, messages: Sequence[Message], instructions: str, depth: int = 0) -> str:
        """What a model answers about messages, asked in halves where they or the answer are too long."""
        try:
            answer = await self._ask(messages, instructions)
            if answer.complete and answer.text.strip():
                return answer.text
            if not answer.text.strip():
                cut = " before it had said anything: give it more max_tokens" if not answer.complete else ""
                raise FlusherError(
                    f"The model answered nothing{cut}. Where there is nothing to remember, it should have said so. "
                    "Nothing was written."
                )
            problem = "the answer of the model was cut off because it became too long"
        except ConversationTooLongError as error:
            if depth > 5:
                raise
            answer, problem = None, str(error)
        halves = _halves(messages) if depth <= 5 else []
        if halves:
            # Each has its own introduction, so that each is read by itself.
            said = [fact for half in halves for fact in facts_of(await self.about(half, instructions, depth + 1))]
            return "\n".join(f"- {fact}".replace("\n", "\n  ") for fact in said) or NOTHING
        if answer is None:
            raise ConversationTooLongError(problem)
        whole = answer.text.rpartition("\n")[0]
        if not whole.strip():
            raise FlusherError(f"There is nothing that could be kept: {problem}. Give it more max_tokens.")
        self.notices.append(f"For a part of it, {problem}; what it had said until then is kept, without the last line.")
        return whole

    async def _ask(self, messages: Sequence[Message], instructions: str) -> Distillation:
        expected = estimate_tokens(instructions) + sum(estimate_tokens(message.text) for message in messages)
        for attempt in range(_TRIES):
            await asyncio.to_thread(self.budget.spend, 1, expected)
            try:
                answer = await self.flusher.distill(messages, instructions=instructions, model=self.model)
            except FlusherBusyError as error:
                wait = error.retry_after if error.retry_after is not None else BACKOFF_SECONDS[min(attempt, 1)]
                if attempt == _TRIES - 1 or not wait <= _LONGEST_WAIT_SECONDS:  # which no number at all is either
                    raise
                await asyncio.sleep(wait)
                continue
            if answer.tokens > 0:
                await asyncio.to_thread(self.budget.spend, 0, answer.tokens - expected, check=False)
            return attrs.evolve(answer, text=_without_thoughts(answer))
        raise FlusherError("The model was busy.")  # not reached: the last attempt raises


def _halves(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages in two parts of about the same length; nothing where they are too short to be cut."""
    total = sum(estimate_tokens(message.text) + 5 for message in messages)
    if total < _SMALLEST_PART:
        return []
    parts = in_parts(messages, total // 2 + 1)
    return [parts[0], [message for part in parts[1:] for message in part]] if len(parts) > 1 else []


_THOUGHTS = re.compile(r"\s*+<(?P<mark>think|thinking)>.*?(?P<end></(?P=mark)>|\Z)", re.DOTALL | re.IGNORECASE)
# Some templates open the thoughts in the prompt, so that an answer has only their end. Thoughts begin in prose: what
# begins with an item is the list that was asked for, whatever marks stand in it.
_END_OF_THOUGHTS = re.compile(r"^[ \t]*+</(?:think|thinking)>[ \t]*+$", re.IGNORECASE | re.MULTILINE)


def _without_thoughts(answer: Distillation) -> str:
    """What a model answered after it had thought; where it was cut off while it thought, it answered nothing."""
    found = _THOUGHTS.match(answer.text)
    if found is None and (end := _END_OF_THOUGHTS.search(answer.text)) and not _ITEM.match(answer.text.lstrip()):
        return answer.text[end.end() :]
    return answer.text[found.end() :] if found and (found["end"] or not answer.complete) else answer.text


_ITEM = re.compile(r"(?:[-*+\u2022]|[0-9]{1,3}[.)])[ \t]+(?P<text>.*)")
# An item that speaks of the list itself; any other is a fact, though it leads to the next ones.
_ANNOUNCES = re.compile(r"(?:here|below|these|the following|hier|voici|aquí)\b[^.!?]*$", re.IGNORECASE)
_NO_FACT = re.compile(r"#{1,6}[ \t]|[`~]{3,}|---+$|\*\*\*+$")
# Without the end of a sentence: that would be a fact in bold letters.
_BOLD = re.compile(r"(?:\*\*[^*]*[^*.!?。]\*\*|__[^_]*[^_.!?。]__)[:：]?$")


def facts_of(answer: str) -> list[str]:
    """The facts in a model's answer: items of a list, or paragraphs; nothing where it found nothing.

    What models like to put around a list is no fact: headings, fences, rules, above its items a line in bold letters,
    above all of them one that ends with a colon, and below all of them one that asks or exclaims. In doubt it is a
    fact.
    """
    parts = _parts_of(answer)
    facts: list[str] = []
    in_list = False
    for (is_item, lines), (leads_to_item, _) in zip(parts, [*parts[1:], (False, [])], strict=False):
        *above, last = lines
        is_heading = not is_item and _BOLD.match(last) is not None
        introduces = (
            not in_list and last.rstrip("*_ ").endswith((":", "：")) and (not is_item or _ANNOUNCES.match(last))
        )
        if not (leads_to_item and (is_heading or introduces)):
            facts.append("\n".join(lines))
        elif above:
            facts.append("\n".join(above))
        in_list = in_list or is_item
    is_item, lines = parts[-1] if parts else (True, [])
    if in_list and not is_item and len(lines) == 1 and lines[0].endswith(("!", "?", "\uff01", "\uff1f")):
        facts.pop()
    return facts


def _parts_of(answer: str) -> list[tuple[bool, list[str]]]:
    """The items and the paragraphs of an answer: whether each is an item, and its lines."""
    parts: list[tuple[bool, list[str]]] = []
    new = True
    for line in answer.replace("\r\n", "\n").split("\n"):
        bare = line.strip()
        item = _ITEM.match(line)
        text = item["text"].strip() if item else bare
        if not text.strip("-`*. ") or text.strip("`*_.!\"' ") == NOTHING or _NO_FACT.match(bare):
            new = True
            continue
        if item or (new and not line[0].isspace()) or _BOLD.match(line) or not parts:
            parts.append((item is not None, [text]))
        else:
            parts[-1][1].append(bare)
        new = False
    return parts


def instructions_for(task: str, today: date, more: str | None) -> str:
    """What a model is told of its task: ``{today}`` and ``{nothing}`` stand in it for the day and for `NOTHING`.

    :param more: what the caller adds.
    :raises QueryError: that is no text.
    """
    if more is not None and not isinstance(more, str):
        raise QueryError(f"instructions must be a text, not {more!r}.")
    told = task.format(today=f"{today.isoformat()} ({today.strftime('%A')})", nothing=NOTHING)
    return f"{told}\n{more.strip()}\n" if more and more.strip() else told
