"""Reads and writes single files so that nobody is waited for, and that no link is followed to what is not ours.

A folder ``.kipu`` may come with a workspace that somebody else made: anything may stand in it where Kipu keeps a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

__all__ = ["is_there", "read_regular", "write_new"]


def is_there(path: str | os.PathLike[str]) -> bool:
    """Whether something stands there, a link that leads nowhere included.

    :raises OSError: that cannot be told; `os.path.lexists` would say no.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def read_regular(path: str | os.PathLike[str], largest: int | None = None) -> bytes:
    """What a file says. A pipe is never opened: that would be to wait for somebody who writes to it.

    :param largest: how many bytes it may have.
    :raises OSError: there is none, it cannot be read, it is no regular file, or it is too large.
    """
    _check(os.stat(path), path, largest)
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(path, flags), "rb") as file:
        _check(os.fstat(file.fileno()), path, largest)  # once more: it may be another one by now
        return file.read()


def _check(status: os.stat_result, path: str | os.PathLike[str], largest: int | None) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
    if largest is not None and status.st_size > largest:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), os.fspath(path))


def write_new(
    path: str | os.PathLike[str], data: bytes, mode: int = 0o666, *, durable: bool = True, name: str | None = None
) -> None:
    """Make a file anew. What is in its way is removed, and never written to or followed.

    :param durable: whether to wait until it is on the disk.
    :param name: the file that an error names, instead of this one.
    :raises OSError: it cannot be written; or a folder is in its way.
    """
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:  # where the disk is full, the system does not say for which file
        raise OSError(error.errno, error.strerror, name or os.fspath(path)) from error
