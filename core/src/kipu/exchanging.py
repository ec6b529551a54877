"""Puts a file in the place of another one without losing what somebody else saves there at the same moment.

Only the moves themselves stand here, one file at a time; what is checked before and after them, and that several files
change together, is the business of `kipu.writing`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from functools import cache
from typing import Any

__all__ = ["put_in_place_of", "put_new", "sync_folder"]

_FROM_HERE = -100  # AT_FDCWD: relative paths would be taken from the working directory; ours are absolute
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS


def put_new(temporary: str, real: str) -> bool:
    """Give a file its place, unless somebody made another one there: then nothing is done, and this is False."""
    os.makedirs(os.path.dirname(real), exist_ok=True)
    try:
        os.link(temporary, real)
    except FileExistsError:
        return False
    except OSError:  # there are no hard links here
        os.replace(temporary, real)
    else:
        os.remove(temporary)
    return True


def put_in_place_of(temporary: str, real: str, kept: str) -> str | None:
    """Put a file in the place of another one, at once.

    :param kept: where the other one may be kept.
    :return: where what stood there is now: it is what was replaced for sure, whoever saved it a moment before. None
        where the system can do no such thing.
    """
    if _exchange(temporary, real):
        return temporary
    with suppress(OSError):  # there are no hard links here
        os.link(real, kept)
    os.replace(temporary, real)
    return kept if os.path.exists(kept) else None


def sync_folder(folder: str) -> None:
    """Have the names in a folder written to the disk, where the system can do it for a folder."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # some file systems of networks cannot
        return
    finally:
        os.close(descriptor)


def _exchange(first: str, second: str) -> bool:
    """Have two files change places; False where the system, or the file system, cannot."""
    rename = _rename()
    return rename is not None and rename(os.fsencode(first), os.fsencode(second)) == 0


@cache
def _rename() -> Any:
    """The call of the system that has two files change places, which Python does not have."""
    with suppress(AttributeError, OSError, TypeError):
        if sys.platform == "darwin":
            swap = ctypes.CDLL(None).renamex_np
            return lambda first, second: swap(first, second, _EXCHANGE)
        if sys.platform.startswith("linux"):
            exchange = ctypes.CDLL(None).renameat2
            return lambda first, second: exchange(_FROM_HERE, first, _FROM_HERE, second, _EXCHANGE)
    return None
