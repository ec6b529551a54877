"""The journal of changes that were begun: who finds one finishes them, or undoes them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from typing import TYPE_CHECKING

import attrs

from ..errors import MemoryFileError
from .exchanging import sync_folder
from .files import read_regular, write_new
from .steps import Step

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["NAME", "end", "read", "write"]

NAME = "journal.json"
"""What it is called in its folder."""

_LARGEST = 16_000_000
"""In bytes. One of ours has some hundred for each file that is changed."""

_DIGEST = re.compile("(?:[0-9a-f]{64})?")


def write(folder: Path, steps: Sequence[Step], *, durable: bool) -> None:
    """Write down what is about to be done, whole or not at all.

    :param durable: whether to wait until it is on the disk.
    :raises OSError: it cannot be written, or does not say then what it should. There is none in this case.
    """
    path, whole = folder / NAME, folder / f"{NAME}.new"
    write_new(whole, json.dumps([attrs.asdict(step) for step in steps]).encode("ascii"), durable=durable)
    said: object = None
    try:
        os.replace(whole, path)
        if durable:
            sync_folder(str(folder))
        with contextlib.suppress(ValueError):
            said = read(folder)
    finally:
        if said != list(steps):
            path.unlink(missing_ok=True)  # nobody may do what is said not to be done
    if said != list(steps):
        raise OSError(errno.EIO, "it does not say what was written to it", str(path))


def end(folder: Path) -> None:
    """Have a journal say nothing any more: all that it says was done, or undone. What is left then is of no use.

    :raises MemoryFileError: it goes on saying it, and whoever writes next would do it once more.
    """
    path = folder / NAME
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        try:
            os.truncate(path, 0)
        except OSError:
            raise MemoryFileError(
                f"{path} cannot be removed: {error.strerror or error}. Remove it before anything else is written: what "
                "it says was done or undone, and would be begun once more."
            ) from error


def read(folder: Path) -> list[Step]:
    """The steps that were written down, with their paths as they are.

    :raises OSError: there is no journal, or it cannot be read.
    :raises ValueError: it is none of ours.
    """
    data = read_regular(folder / NAME, _LARGEST)
    if not data:  # it was ended, or the machine stopped before it was on the disk and before anything was done
        return []
    try:
        found = json.loads(data)
        steps = [Step(**step) for step in found]
        if isinstance(found, list) and all(map(_is_possible, steps)):
            return steps
    except (ValueError, TypeError, AttributeError, RecursionError):
        pass
    raise ValueError(f"{folder / NAME} is no journal of Kipu")


def _is_possible(step: Step) -> bool:
    """Whether what a journal says could be paths and digests at all."""
    paths = (step.real, step.temporary)
    return not any("\0" in os.fsdecode(os.fsencode(path)) for path in paths) and all(
        _DIGEST.fullmatch(each) for each in (step.before, step.after)
    )
