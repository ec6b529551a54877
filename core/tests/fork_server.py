"""Processes that are forked, do a piece of work, and are killed: Python starts once for all of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked, and killed by a signal")


def serve(work: Callable[..., Coroutine[Any, Any, None]]) -> None:
    """Do the work once for each line of standard input, in a process of its own, which may be killed.

    Each is answered by a line: how many seconds the process ran, whether it was killed, and its status. Call it where
    no other thread runs.
    """
    for line in sys.stdin:
        order = json.loads(line)
        start = time.perf_counter()
        process = os.fork()
        if process == 0:
            try:
                asyncio.run(work(*order["arguments"]))
            except BaseException as error:  # noqa: BLE001 (it shows in the answer)
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        if order["seconds"] is not None:
            time.sleep(order["seconds"])
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        answer = {"seconds": time.perf_counter() - start, "killed": os.WIFSIGNALED(status), "status": status}
        print(json.dumps(answer), flush=True)


@contextmanager
def fork_server(program: str) -> Iterator[Callable[..., dict[str, Any]]]:
    """Start a program that calls `serve`; give what orders one piece of work, killed after so many seconds or never."""
    with subprocess.Popen(
        [sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None

        def run_and_kill(seconds: float | None, *arguments: str) -> dict[str, Any]:
            child.stdin.write(json.dumps({"arguments": arguments, "seconds": seconds}) + "\n")
            child.stdin.flush()
            answer: dict[str, Any] = json.loads(child.stdout.readline())
            return answer

        yield run_and_kill
        child.stdin.close()
        assert child.wait() == 0
