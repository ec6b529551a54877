"""The daily budget of a workspace for model calls and tokens."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from ..errors import BudgetExceededError, KipuError
from ..index.file import make_hidden_folder
from ..keeping.files import write_new
from ..workspace.paths import HIDDEN_FOLDER
from ..workspace.reader import read_regular

if TYPE_CHECKING:
    from ..context import Context

_KEPT_DAYS = 31


class Budget:
    """What model calls may cost on one day, over all processes.

    It has a file of its own beside the index, because the index can be rebuilt at any time.
    """

    def __init__(self, context: Context) -> None:
        self._path = context.workspace.root / HIDDEN_FOLDER / "usage.json"
        self._config = context.config
        self._is_shared = context.scope.label is not None

    def check(self, calls: int) -> None:
        """Check that the rest of the day allows this number of calls.

        :raises BudgetExceededError: it does not.
        """
        self._update(calls, 0, is_checked=True, is_spent=False)

    def spend(self, calls: int, tokens: int, *, check: bool = True) -> None:
        """Record calls and tokens that are about to be used.

        :param check: False for a correction of what was used already.
        :raises BudgetExceededError: they exceed the budget. Nothing is recorded then.
        """
        self._update(calls, tokens, is_checked=check, is_spent=True)

    def _update(self, calls: int, tokens: int, *, is_checked: bool, is_spent: bool) -> None:
        from filelock import FileLock

        try:
            make_hidden_folder(self._path.parent)
            lock = FileLock(self._path.with_suffix(".lock"), thread_local=False)
            lock.acquire()
        except OSError as error:
            raise self._write_error(error) from error
        try:
            today = self._config.today().isoformat()
            usage = {day: used for day, used in self._read().items() if day <= today}  # later days: the clock was wrong
            used = usage.setdefault(today, {"calls": 0, "tokens": 0})
            if is_checked:
                self._check(used, {"calls": calls, "tokens": tokens})
            if is_spent:
                used["calls"] += calls
                used["tokens"] = max(0, used["tokens"] + tokens)
                self._write({day: usage[day] for day in sorted(usage)[-_KEPT_DAYS:]})
        finally:
            lock.release()

    def _check(self, used: dict[str, int], needed: dict[str, int]) -> None:
        limits = {"calls": self._config.flush.calls_per_day, "tokens": self._config.flush.tokens_per_day}
        for what, limit in limits.items():
            if used[what] + needed[what] > limit:
                reached = f"{used[what]:,} of {limit:,} model {what} used, {needed[what]:,} more needed"
                if self._is_shared:  # a scope learns nothing of what others use
                    reached = f"{limit:,} model {what} in the whole workspace"
                raise BudgetExceededError(
                    f"Daily budget reached: {reached}. Nothing was sent. Raise flush.{what}_per_day in kipu.toml."
                )

    def _read(self) -> dict[str, dict[str, int]]:
        try:
            usage = json.loads(read_regular(self._path))
            return {
                str(day): {what: max(0, int(used[what])) for what in ("calls", "tokens")} for day, used in usage.items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            reason = getattr(error, "strerror", None) or error
            raise KipuError(
                f"{self._path}, the record of model calls, cannot be read: {reason}. Fix or delete it."
            ) from None

    def _write(self, usage: dict[str, dict[str, int]]) -> None:
        temporary = self._path.with_suffix(f".{os.getpid()}.tmp")
        try:
            write_new(temporary, (json.dumps(usage, indent=1) + "\n").encode("utf-8"))
            os.replace(temporary, self._path)
        except OSError as error:
            raise self._write_error(error) from error

    def _write_error(self, error: OSError) -> KipuError:
        return KipuError(
            f"{self._path}, the record of model calls, cannot be written: {error.strerror or error}. Nothing was sent."
        )
