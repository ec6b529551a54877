"""Sentences for people that come up during a call: collected while it runs, returned once."""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator


class Notices:
    """The collector of one memory.

    Calls do not see each other's notices: what is added goes to the innermost `collect` of the task that adds it, and
    becomes a note of the error if that fails. What a background task adds, outside of any call, waits for the next one.
    """

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._collected: ContextVar[list[str] | None] = ContextVar("kipu_notices", default=None)

    def add(self, *sentences: str) -> None:
        """Add sentences, each of them once."""
        collected = self._collected.get()
        into = self._waiting if collected is None else collected
        into.extend(sentence for sentence in dict.fromkeys(sentences) if sentence not in into)

    @contextlib.contextmanager
    def collect(self) -> Iterator[list[str]]:
        """Collect what is added until the end of the block, after what was waiting."""
        waiting, self._waiting = self._waiting, []
        collected = [*waiting]
        token = self._collected.set(collected)
        try:
            yield collected
        except BaseException as error:
            self._waiting = [*waiting, *self._waiting]
            for sentence in collected[len(waiting) :]:
                error.add_note(sentence)
            raise
        finally:
            self._collected.reset(token)


def with_notices(answer: Any, notices: list[str]) -> Any:
    """Return an answer with notices, if it has a place for them, before those that it has."""
    holder = getattr(answer, "results", answer)
    if not notices or not hasattr(holder, "notices"):
        return answer
    merged = list(dict.fromkeys([*notices, *holder.notices]))
    if isinstance(holder.notices, list):
        holder.notices[:] = merged
        return answer
    return attrs.evolve(answer, notices=merged)
