"""Every call of a component goes through one door: it is awaited, limited in time, checked, and blamed by name."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from typing import Any

import pytest

from kipu.errors import ConfigurationError, PluginFailedError, UnavailableError
from kipu.plugins.calls import Adapter, describe_error
from kipu.plugins.checks import items
from kipu.plugins.kinds import KINDS

LIMIT = 0.02  # seconds that no call of these tests needs


def adapted(component: object, **options: Any) -> Adapter:
    return Adapter(KINDS["strategy"], "mine", component, **options)


def component(**members: Any) -> object:
    """Return an object of a class with these members."""
    return type("Component", (), members)()


async def call(adapter: Adapter, *arguments: Any) -> Any:
    return await adapter.call("search", *arguments, doing="in this search", check=lambda answer: answer)


async def ended(adapter: Adapter) -> None:
    while adapter.abandoned:  # noqa: ASYNC110 - the end of a call that nothing waits for signals nothing
        await asyncio.sleep(0)


async def error_of(adapter: Adapter, kind: type[Exception] = PluginFailedError) -> Exception:
    with pytest.raises(kind) as caught:
        await call(adapter)
    return caught.value


# --- how it is called ----------------------------------------------------------------------------------------------


async def test_a_plain_method_runs_in_a_thread_with_the_context_of_the_caller():
    variable = contextvars.ContextVar("variable", default="")
    variable.set("of the caller")
    adapter = adapted(component(search=lambda self, word: (word, variable.get(), threading.get_ident())))
    word, value, thread = await call(adapter, "alpha")
    assert (word, value) == ("alpha", "of the caller")
    assert thread != threading.get_ident()


async def test_an_async_method_runs_in_the_event_loop():
    async def search(self):
        return threading.get_ident()

    assert await call(adapted(component(search=search))) == threading.get_ident()


async def test_a_plain_method_may_return_an_awaitable():
    async def search():
        return "found"

    assert await call(adapted(component(search=lambda self: search()))) == "found"


async def test_a_missing_optional_method_has_its_default():
    adapter = adapted(component())
    assert not adapter.has("check")
    assert await adapter.check() is None
    await adapter.close()


# --- time limits ---------------------------------------------------------------------------------------------------


async def test_a_call_that_takes_too_long_is_abandoned():
    async def search(self):
        await asyncio.Event().wait()

    assert str(await error_of(adapted(component(search=search), time_limit=LIMIT))) == (
        'The strategy "mine" took more than 0.02 seconds in this search and was abandoned. To allow more: [plugins] '
        "time_limit in kipu.toml."
    )


async def test_a_thread_that_does_not_return_is_abandoned_and_counted():
    end = threading.Event()

    def search(self):
        end.wait()

    adapter = adapted(component(search=search), time_limit=LIMIT)
    for abandoned in (1, 2):
        assert f" {abandoned} of its calls still run. " in str(await error_of(adapter))
    assert adapter.abandoned == 2
    end.set()
    for thread in threading.enumerate():
        if thread.name == "kipu-strategy":
            await asyncio.to_thread(thread.join)
    await asyncio.sleep(0)  # what the threads reported is handled in the next turn of the event loop
    assert adapter.abandoned == 0


async def test_a_coroutine_that_ignores_its_cancellation_is_abandoned_and_counted():
    end = asyncio.Event()

    async def search(self):
        while not end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await end.wait()

    adapter = adapted(component(search=search), time_limit=LIMIT)
    assert str(await error_of(adapter)) == (
        'The strategy "mine" took more than 0.02 seconds in this search and was abandoned. 1 of its calls still run. '
        "To allow more: [plugins] time_limit in kipu.toml."
    )
    end.set()
    await ended(adapter)


async def test_a_component_that_never_returns_is_not_called_without_end():
    end = threading.Event()
    calls = []

    def search(self, *items):
        calls.append(items)
        end.wait()

    adapter = adapted(component(search=search), time_limit=LIMIT)
    for _ in range(4):
        assert "took more than 0.02 seconds" in str(await error_of(adapter))
    stuck = 'The strategy "mine" is not called: 4 calls that were abandoned still run.'
    assert str(await error_of(adapter)) == stuck
    found = await adapter.call_each("search", [1, 2], doing=str, check=lambda answer, _: answer)
    assert [str(error) for error in found] == [stuck, stuck]
    assert len(calls) == 4
    end.set()
    await ended(adapter)
    assert await call(adapter) is None


async def test_of_many_items_that_never_end_a_few_are_tried():
    end = threading.Event()
    tried = []

    def chunk(self, item):
        tried.append(item)
        end.wait()

    adapter = adapted(component(chunk=chunk), time_limit=LIMIT)
    found = await adapter.call_each("chunk", range(1000), doing=lambda item: f"on {item}", check=lambda a, _: a)
    end.set()
    assert len(found) == 1000
    assert tried == [0, 1, 2, 3]
    assert "took more than 0.02 seconds on 3" in str(found[3])
    assert str(found[999]) == 'The strategy "mine" is not called: 4 calls that were abandoned still run.'


async def test_a_timeout_of_the_component_wins():
    assert adapted(component(timeout=60), time_limit=1).time_limit > 60
    assert adapted(component(timeout=None), time_limit=1).time_limit == 1
    with pytest.raises(PluginFailedError) as caught:
        adapted(component(timeout="1 min"))
    assert str(caught.value) == (
        "The strategy \"mine\" has an invalid timeout: it must be a number above 0, not '1 min'."
    )


async def test_a_timeout_error_of_the_component_is_its_own():
    async def search(self):
        raise TimeoutError("no answer")

    error = await error_of(adapted(component(search=search)))
    assert str(error) == 'The strategy "mine" failed in this search: TimeoutError: no answer.'


# --- where an answer is read ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [[1], (1,), {1: 2}, "text", None, 0.5], ids=repr)
async def test_an_async_answer_of_a_builtin_class_is_read_without_a_thread(answer):
    async def search(self):
        return answer

    adapter = adapted(component(search=search))
    reader = await adapter.call("search", doing="in this search", check=lambda _: threading.get_ident())
    assert reader == threading.get_ident()


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_answer_that_may_run_code_is_read_in_a_thread(is_async):
    async def search():
        return iter([1])

    adapter = adapted(component(search=lambda self: search() if is_async else iter([1])))
    reader = await adapter.call("search", doing="in this search", check=lambda _: threading.get_ident())
    assert reader != threading.get_ident()


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_answer_without_end_is_abandoned_and_read_no_further(is_async):
    def endless():
        while True:
            yield 1

    async def search():
        return endless()

    adapter = adapted(component(search=lambda self: search() if is_async else endless()), time_limit=LIMIT)
    with pytest.raises(PluginFailedError, match=r"took more than 0\.02 seconds in this search and was abandoned"):
        await adapter.call("search", doing="in this search", check=lambda answer: [*items(answer, 10**12)])
    await ended(adapter)


async def test_an_abandoned_thread_does_not_go_on_with_the_next_item():
    end = threading.Event()
    tried = []

    def chunk(self, item):
        tried.append(item)
        if item == 0:
            end.wait()

    adapter = adapted(component(chunk=chunk), time_limit=LIMIT)
    await adapter.call_each("chunk", [0, 1, 2], doing=str, check=lambda a, _: a)
    end.set()
    await ended(adapter)
    assert tried == [0, 1, 2]


# --- errors --------------------------------------------------------------------------------------------------------


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ValueError


class EvasiveError(Exception):
    def __str__(self) -> str:
        raise SystemExit("no text")


class TextlessError(Exception):
    def __str__(self) -> str:
        return 5  # noqa: PLE0307


class OwnError(BaseException):
    pass


class UnprintableUnavailableError(UnavailableError):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (EvasiveError(), "EvasiveError"),
        (TextlessError(), "TextlessError"),
        (UnprintableUnavailableError(), "UnprintableUnavailableError"),
        (OwnError("mine"), "OwnError: mine"),
        (GeneratorExit("gone"), "GeneratorExit: gone"),
        (BaseExceptionGroup("two", [OwnError()]), "BaseExceptionGroup: two (1 sub-exception)"),
        (ValueError("\ud800 bad"), "ValueError: ? bad"),
        (ValueError("x" * 1_000_000), f"ValueError: {'x' * 2000}"),
        (type("E" * 1_000_000, (Exception,), {})("no disk"), f"{'E' * 100}: no disk"),
        (ValueError("no disk"), "ValueError: no disk"),
        (ValueError("no disk."), "ValueError: no disk"),
        (ValueError(), "ValueError"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError"),
        (UnprintableError(), "UnprintableError"),
    ],
    ids=lambda value: repr(value)[:50],
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_what_a_component_raises_is_an_error_that_names_it(raised, message, is_async):
    def search(self):
        raise raised

    async def search_async(self):
        raise raised

    adapter = adapted(component(search=search_async if is_async else search), plugin="kipu-mine 1.0")
    error = await error_of(adapter)
    assert str(error) == f'The strategy "mine" (kipu-mine 1.0) failed in this search: {message}.'
    assert error.__cause__ is raised


async def test_a_component_that_cancels_its_task_does_not_cancel_the_caller():
    async def search(self):
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    assert str(await error_of(adapted(component(search=search)))) == (
        'The strategy "mine" failed in this search: CancelledError.'
    )


async def test_a_member_that_raises_when_it_is_read_is_an_error_that_names_the_component():
    class Component:
        def __getattr__(self, name):
            raise OwnError("not " + name)

    adapter = adapted(component())
    adapter.component = Component()
    assert str(await error_of(adapter)) == 'The strategy "mine" failed when asked for search: OwnError: not search.'
    with pytest.raises(PluginFailedError):
        adapter.has("check")
    with pytest.raises(PluginFailedError):
        await adapter.read("model", str)


async def test_the_cancellation_of_the_caller_is_not_an_error_of_the_component():
    started = asyncio.Event()

    async def search(self):
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(call(adapted(component(search=search))))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("error", [UnavailableError("No server."), ConfigurationError("No key.")], ids=repr)
async def test_an_error_of_kipu_passes_as_it_is(error):
    async def search(self):
        raise error

    assert await error_of(adapted(component(search=search)), type(error)) is error


async def test_an_answer_that_fails_its_check_is_an_error_of_the_component():
    def check(answer):
        raise TypeError(f"it returned {answer!r}")

    with pytest.raises(PluginFailedError) as caught:
        await adapted(component(search=lambda self: 5)).call("search", doing="in this search", check=check)
    assert str(caught.value) == 'The strategy "mine" failed in this search: TypeError: it returned 5.'


async def test_a_property_that_raises_is_an_error_of_the_component():
    adapter = adapted(component(model=property(lambda self: 1 / 0)))
    for read in (lambda: adapter.read("model", str), lambda: asyncio.to_thread(adapter.optional, "model")):
        with pytest.raises(PluginFailedError) as caught:
            await read()
        assert str(caught.value) == (
            'The strategy "mine" failed when asked for model: ZeroDivisionError: division by zero.'
        )


def test_an_error_without_a_text_is_described_by_its_class():
    assert [describe_error(error) for error in (ValueError("  "), UnprintableError())] == [
        "ValueError",
        "UnprintableError",
    ]


# --- close and check -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, None),
        ("", None),
        ("The server is down. Start it.", 'The strategy "mine": The server is down. Start it.'),
        (5, 'The strategy "mine" failed in its own check: TypeError: check() returned 5, which is neither a sentence'),
        (OSError("no disk"), 'The strategy "mine" failed in its own check: OSError: no disk.'),
        (UnavailableError("The server is down."), 'The strategy "mine": The server is down.'),
    ],
    ids=repr,
)
async def test_a_check_returns_what_is_wrong(answer, problem):
    async def check(self):
        if isinstance(answer, Exception):
            raise answer
        return answer

    found = await adapted(component(check=check)).check()
    assert found == problem or found.startswith(problem)


async def test_a_failure_while_closing_is_ignored():
    closed = []

    async def close(self):
        closed.append(self)
        raise OSError("no disk")

    await adapted(component(close=close)).close()
    assert len(closed) == 1


# --- many calls at once --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_failed_item_does_not_affect_the_others(is_async):
    def chunk(self, item):
        return 6 // item

    async def chunk_async(self, item):
        return 6 // item

    adapter = adapted(component(chunk=chunk_async if is_async else chunk))
    found = await adapter.call_each("chunk", [1, 0, 3], doing=lambda item: f"on {item}", check=lambda a, _: a)
    assert (found[0], found[2]) == (6, 2)
    assert str(found[1]).startswith('The strategy "mine" failed on 0: ZeroDivisionError')


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, KeyboardInterrupt])
async def test_whatever_an_item_raises_does_not_affect_the_others(error):
    def chunk(self, item):
        if item == 0:
            raise error("not now")
        return item

    adapter = adapted(component(chunk=chunk))
    found = await adapter.call_each("chunk", [1, 0, 3], doing=lambda item: f"on {item}", check=lambda a, _: a)
    assert (found[0], found[2]) == (1, 3)
    assert str(found[1]) == f'The strategy "mine" failed on 0: {error.__name__}: not now.'


async def test_an_item_that_takes_too_long_does_not_affect_the_others():
    end = threading.Event()

    def chunk(self, item):
        if item == 0:
            end.wait()
        return item

    adapter = adapted(component(chunk=chunk), time_limit=LIMIT)
    found = await adapter.call_each("chunk", [1, 0, 3], doing=lambda item: f"on {item}", check=lambda a, _: a)
    end.set()
    assert (found[0], found[2]) == (1, 3)
    assert "took more than 0.02 seconds on 0 and was abandoned" in str(found[1])
