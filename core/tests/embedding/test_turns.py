"""Turns of several who embed: who waits, for how long, and who is next."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kipu.embedding.turns import Turns

if TYPE_CHECKING:
    from pathlib import Path


async def nothing_new() -> int:
    return 0


async def test_one_waits_as_long_as_something_comes_of_the_others_turns(tmp_path: Path) -> None:
    path, steps = tmp_path / "turns.lock", iter([0, 1, 2, 3, 3])

    async def progress() -> int:
        return next(steps)

    async with Turns(path).next(1.0, nothing_new) as first:
        async with Turns(path).next(0.001, progress) as own:
            assert (first, own) == (True, False)
        assert list(steps) == []  # it was asked until it said the same twice


async def test_who_does_not_wait_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "turns.lock"

    async def progress() -> int:
        raise AssertionError("it is not asked for")

    async with Turns(path).next(0.0, progress) as first, Turns(path).next(0.0, progress) as own:
        assert (first, own) == (True, False)


async def test_who_waits_comes_before_who_has_just_had_a_turn(tmp_path: Path) -> None:
    order: list[str] = []
    left = {"a": 3, "b": 3}
    turns = {name: Turns(tmp_path / "turns.lock") for name in left}

    async def work(name: str, other: str) -> None:
        while left[name]:
            async with turns[name].next(60.0, nothing_new) as own:
                assert own
                order.append(name)
                left[name] -= 1
                while left[other] and not turns[other]._held:  # noqa: ASYNC110 (until it waits, which it does not say)
                    await asyncio.sleep(0)

    await asyncio.gather(work("a", "b"), work("b", "a"))
    assert order in (["a", "b"] * 3, ["b", "a"] * 3)


async def test_what_is_held_by_a_task_that_never_goes_on_can_be_given_up(tmp_path: Path) -> None:
    path = tmp_path / "turns.lock"
    left = Turns(path)
    await left.next(0.0, nothing_new).__aenter__()
    left.give_up()
    async with Turns(path).next(0.0, nothing_new) as own:
        assert own
