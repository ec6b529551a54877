"""Puts a file in the place of another one without losing what somebody else saves there at the same moment.

Only the moves themselves stand here, one file at a time; what is checked before and after them is the business of
`kipu.steps`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from contextlib import suppress
from functools import cache
from typing import Any

from .files import is_there

__all__ = ["put_in_place_of", "put_new", "sync_folder"]

_FROM_HERE = -100  # AT_FDCWD: relative paths would be taken from the working directory; ours are absolute
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS
# What a system, a file system or a sandbox says that has no exchange.
_NOT_SUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM})


def put_new(temporary: str, real: str) -> bool:
    """Give a file its place, unless somebody made another one there: then nothing is done, and this is False."""
    os.makedirs(os.path.dirname(real), exist_ok=True)
    try:
        os.link(temporary, real)
    except FileExistsError:
        return False
    except OSError:  # there are no hard links here, or none of what this is
        if is_there(real):
            return False
        os.replace(temporary, real)
    else:
        os.remove(temporary)
    return True


def put_in_place_of(temporary: str, real: str, kept: str) -> str | None:
    """Put a file in the place of another one, at once.

    :param kept: where the other one may be kept; nothing stands there.
    :return: where what stood there is now: it is what was replaced for sure, whoever saved it a moment before. None
        where the system can do no such thing.
    :raises FileNotFoundError: one of the two is not there any more, or something else is. Nothing was done.
    """
    if _exchange(temporary, real):
        return temporary
    try:
        os.link(real, kept)
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError:  # there are no hard links here
        kept = ""
    # The last moment to see that somebody removed it, or put something else there.
    status = os.lstat(real)
    if not stat.S_ISREG(status.st_mode) or (kept and not os.path.samestat(status, os.lstat(kept))):
        if kept:
            os.remove(kept)
        raise FileNotFoundError(errno.ENOENT, "somebody put something else there", real)
    os.replace(temporary, real)
    return kept or None


def sync_folder(folder: str) -> None:
    """Have the names in a folder written to the disk, where the system can do it for a folder.

    It cannot where the folder may be written to and not be read, where somebody removed it, on Windows, and on some
    file systems of networks. The names reach the disk then when the system writes them by itself.
    """
    if os.name == "nt":
        return
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _exchange(first: str, second: str) -> bool:
    """Have two files change places; False where the system, or the file system, cannot.

    :raises FileNotFoundError: one of them is not there.
    """
    rename = _rename()
    if rename is None:
        return False
    if rename(os.fsencode(first), os.fsencode(second)) == 0:
        return True
    problem = ctypes.get_errno()
    if problem in _NOT_SUPPORTED:
        return False
    raise OSError(problem, os.strerror(problem), second)


@cache
def _rename() -> Any:
    """The call of the system that has two files change places, which Python does not have."""
    with suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            swap = library.renamex_np
            return lambda first, second: swap(first, second, _EXCHANGE)
        if sys.platform.startswith("linux"):
            exchange = library.renameat2
            return lambda first, second: exchange(_FROM_HERE, first, _FROM_HERE, second, _EXCHANGE)
    return None
