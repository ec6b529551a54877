"""The one door to plugins: every call of a component goes through `Adapter.call`.

It awaits what is async and runs what is not in a thread, limits how long a call may take, checks the answer, and turns
whatever a plugin does wrong into an error that names it. What each kind of component is asked is in `adapters`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from .. import options
from ..errors import KipuError, PluginError, PluginFailedError
from ..sqlite import is_database_failure
from ..types.bases import ComponentBase
from . import checks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Sized

    from .kinds import Kind

Answer = TypeVar("Answer")
Item = TypeVar("Item")
_Outcome = tuple[Any, BaseException | None]  # an answer, or what was raised

_PLAIN = (list, tuple, dict, str, int, float, bool, type(None))  # read without any code of the component
_GRACE_SECONDS = 5.0  # a component with a timeout of its own says best what it was waiting for
_MOST_ABANDONED = 4  # calls that still run: each is a thread, or a task that ignores its cancellation
_LONGEST_TEXT = 2_000


class Adapter:
    """A component as the kernel uses it.

    :param kind: what kind of component it is.
    :param name: what the configuration calls it.
    :param component: the object.
    :param plugin: the distribution that it comes with, and its version; empty for an object that was passed in.
    :param time_limit: how many seconds one call may take; a ``timeout`` of the component wins.
    """

    base: ClassVar[type[ComponentBase]] = ComponentBase
    """The class with the defaults of the optional members."""

    error: ClassVar[type[PluginError]] = PluginFailedError
    """The class of the errors that are raised for what it does wrong."""

    passes: ClassVar[tuple[type[KipuError], ...]] = (KipuError,)
    """The errors that the component may raise itself."""

    def __init__(self, kind: Kind, name: str, component: Any, plugin: str = "", time_limit: float = 30.0) -> None:
        self.kind = kind
        self.name = name
        self.component = component
        self.plugin = plugin
        self.abandoned = 0
        timeout = self.optional("timeout", options.optional(options.number(above=0)))
        self.time_limit = time_limit if timeout is None else timeout + _GRACE_SECONDS

    @property
    def label(self) -> str:
        """What messages call it."""
        label = f'{self.kind.label} "{self.name}"'
        return f"{label} ({self.plugin})" if self.plugin else label

    def optional(self, member: str, rule: options.Rule | None = None) -> Any:
        """Return an optional member, or its default.

        :param rule: what it must be.
        :raises PluginFailedError: it is something else, or a property that raised.
        """
        with self._blamed(f"when asked for {member}"):
            value = getattr(self.component, member, getattr(self.base, member, None))
            return value if rule is None else self.checked(member, value, rule)

    @contextlib.contextmanager
    def _blamed(self, doing: str) -> Iterator[None]:
        """Turn what the component raises into an error that names it, except for the errors that it may raise."""
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if is_database_failure(error):
                raise
            if not isinstance(error, KipuError) or text_of(error) is None:
                raise self._failed(doing, error) from error
            if isinstance(error, self.passes):
                raise
            raise self.error(str(error)) from error

    def checked(self, member: str, value: Any, rule: options.Rule) -> Any:
        """Return the value of a member if it is what a rule says."""
        if not rule.holds(value):
            raise self.error(f"The {self.label} has an invalid {member}: it must be {rule.expected}, not {value!r}.")
        return value

    def has(self, method: str) -> bool:
        """Return whether the component has an optional method of its own."""
        own = getattr(type(self.component), method, None) or self.optional(method)
        return callable(own) and own is not getattr(self.base, method, None)

    async def read(self, member: str, check: Callable[[Any], Answer]) -> Answer:
        """Read a member that may take a moment to tell, such as a property that loads a file."""
        default = getattr(self.base, member, None)
        return await self._guarded(partial(getattr, self.component, member, default), f"when asked for {member}", check)

    async def call(
        self, method: str, *arguments: Any, doing: str, check: Callable[[Any], Answer], **options: Any
    ) -> Answer:
        """Call a method of the component and return its checked answer.

        :param doing: what it was called for, for the message of an error, such as "in this search".
        :param check: returns the answer as the kernel uses it; raises if it breaks the contract.
        :raises PluginFailedError: it raised, took too long, or its answer broke the contract.
        :raises KipuError: it raised that itself.
        """
        function = self.optional(method)
        is_default = function is getattr(self.base, method, None)
        arguments = (self.component, *arguments) if is_default else arguments
        return await self._guarded(partial(function, *arguments, **options), doing, check)

    async def call_each(
        self, method: str, items: Sequence[Item], *, doing: Callable[[Item], str], check: Callable[[Any, Item], Answer]
    ) -> list[Answer | PluginError]:
        """Call a method once for each item, and return its answers, or what went wrong with an item.

        A plain method is called in one thread for all items, since a thread for each would cost more than most calls;
        the time limit is that of each call.
        """
        function = self.optional(method)
        if self.abandoned >= _MOST_ABANDONED:
            return [self._stuck() for _ in items]
        outcomes: list[Answer | PluginError] = []
        if inspect.iscoroutinefunction(function):
            for item in items:
                try:
                    read = partial(lambda item, answer: check(answer, item), item)
                    outcomes.append(await self.call(method, item, doing=doing(item), check=read))
                except KipuError as error:
                    outcomes.append(error if isinstance(error, PluginError) else self._failed(doing(item), error))
            return outcomes

        def run() -> None:
            for item in checks.items(items):
                try:
                    outcomes.append(check(function(item), item))
                except BaseException as error:  # noqa: BLE001 (it is returned; nothing cancels a thread)
                    outcomes.append(self._failed(doing(item), error))

        if (count := await self._late_after(asyncio.ensure_future(self._in_thread(run, bool)), outcomes)) is None:
            return outcomes
        late, *rest = items[count:]
        others = await self.call_each(method, rest, doing=doing, check=check)
        return [*outcomes[:count], self.error(self._late(doing(late))), *others]

    async def close(self) -> None:
        """Let the component release what it holds. Failures are ignored: nothing could be done about them."""
        with contextlib.suppress(KipuError):
            if self.has("close"):
                await self.call("close", doing="while closing", check=lambda answer: None)

    async def check(self) -> str | None:
        """Return what is wrong with the component, in a sentence that names it, or None."""
        try:
            if not self.has("check"):
                return None
            problem = await self.call("check", doing="in its own check", check=_sentence)
        except KipuError as error:
            problem = str(error)
        return problem if problem is None or self.label in problem else f"The {self.label}: {problem}"

    async def _guarded(self, work: Callable[[], Any], doing: str, check: Callable[[Any], Answer]) -> Answer:
        if self.abandoned >= _MOST_ABANDONED:
            raise self._stuck()
        # In a task of its own: one that ignores its cancellation, or cancels itself, does not hold up the caller.
        task = asyncio.ensure_future(self._outcome_of(work, check))
        if await self._late_after(task) is not None:
            raise self.error(self._late(doing)) from TimeoutError()
        with self._blamed(doing):
            answer, error = task.result()
            if error is not None:
                raise error
            checked: Answer = answer
            return checked

    async def _outcome_of(self, work: Callable[[], Any], check: Callable[[Any], Any]) -> _Outcome:
        """Return the checked answer of a call, or what it raised: a task would raise some exceptions in the loop.

        Only an answer of a builtin class is read in the event loop: to read another may run code of the plugin.
        """
        try:
            outcome = (work(), None) if inspect.iscoroutinefunction(work) else await self._in_thread(work, check)
            if not inspect.isawaitable(outcome[0]):
                return outcome
            answer = await outcome[0]
            is_plain = type(answer) in _PLAIN or (type(answer).__name__ == "ndarray" and answer.dtype.kind == "f")
            return (check(answer), None) if is_plain else await self._in_thread(lambda: answer, check)
        except BaseException as error:  # noqa: BLE001 (it is raised again by the caller)
            return None, error

    def _failed(self, doing: str, error: BaseException) -> PluginError:
        return self.error(f"The {self.label} failed {doing}: {describe_error(error)}.")

    def _late(self, doing: str) -> str:
        running = f" {self.abandoned} of its calls still run." if self.abandoned else ""
        return (
            f"The {self.label} took more than {self.time_limit:g} seconds {doing} and was abandoned.{running} To allow "
            "more: [plugins] time_limit in kipu.toml."
        )

    def _stuck(self) -> PluginError:
        return self.error(f"The {self.label} is not called: {self.abandoned} calls that were abandoned still run.")

    async def _late_after(self, task: asyncio.Future[Any], outcomes: Sized = ()) -> int | None:
        """Wait for a call, and return None if it ends in time.

        Otherwise cancel it, count it if it does not end, and return how many outcomes it had: each has the time limit.
        """
        try:
            while True:
                count = len(outcomes)
                await asyncio.wait([task], timeout=self.time_limit)
                if task.done() or len(outcomes) == count:
                    return None if task.done() else count
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=min(self.time_limit, _GRACE_SECONDS))
                if not task.done():
                    self.abandoned += 1
                    task.add_done_callback(lambda _: setattr(self, "abandoned", self.abandoned - 1))

    async def _in_thread(self, work: Callable[[], Any], check: Callable[[Any], Any]) -> _Outcome:
        """Run what is not async in a thread of its own, which is abandoned if it does not return in time.

        Threads of a pool would be used up by calls that never return, and keep the program from ending.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Outcome] = loop.create_future()
        context = contextvars.copy_context()
        context.run(checks.is_abandoned.set, future.cancelled)

        def run() -> None:
            outcome: _Outcome
            try:
                answer = context.run(work)
                outcome = answer if inspect.isawaitable(answer) else context.run(check, answer), None
            except BaseException as error:  # noqa: BLE001 (it is raised again where it is awaited)
                outcome = None, error
            with contextlib.suppress(RuntimeError):  # the event loop was closed meanwhile
                loop.call_soon_threadsafe(self._deliver, future, outcome)

        threading.Thread(target=run, name=f"kipu-{self.kind.name}", daemon=True).start()
        try:
            return await future
        except asyncio.CancelledError:
            self.abandoned += 1
            raise

    def _deliver(self, future: asyncio.Future[Any], outcome: tuple[Any, BaseException | None]) -> None:
        if future.cancelled():
            self.abandoned -= 1
        else:
            future.set_result(outcome)


def _sentence(answer: Any) -> str | None:
    if answer is not None and not isinstance(answer, str):
        raise TypeError(f"check() returned {answer!r}, which is neither a sentence nor None")
    return answer or None


def describe_error(error: BaseException) -> str:
    """Return the class and the text of an error; the class alone if the text cannot be made."""
    name, text = type(error).__name__[:100], (text_of(error) or "").removesuffix(".")
    return f"{name}: {text}" if text else name


def text_of(error: Any) -> str | None:
    """Return the text of an error, or of its argument, as it can be stored and shown; None if it cannot be made."""
    try:
        text = str.strip(str(error))[:_LONGEST_TEXT]
    except BaseException:  # noqa: BLE001 (the class of a plugin may do anything)
        return None
    return text.encode("utf-8", "replace").decode("utf-8")
