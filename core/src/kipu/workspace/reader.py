"""Read regular files. Wait for no pipe, and follow no symlink that took the place of what was checked."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import closing, nullcontext

_FILE = sum(getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "NONBLOCK", "NOCTTY", "CLOEXEC", "BINARY"))
_FOLDER = sum(getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "DIRECTORY", "PATH", "CLOEXEC"))
_READ_BYTES = 4096


class IrregularFileError(OSError):
    """A path leads to a folder, a pipe or a device, through a symlink, or to a file that is too large."""


class OpenFolder:
    """The folder of the last file that was opened: the next one is mostly in the same."""

    def __init__(self) -> None:
        self._path, self._descriptor = "", -1

    def open(self, path: str, base: str) -> int:
        """Return a descriptor of a file. Neither it nor a folder between it and ``base`` may be a symlink."""
        folder, name = os.path.split(path)
        if os.open not in os.supports_dir_fd and _is_linked(path, base):  # Windows
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if base in ("", path) or os.open not in os.supports_dir_fd:
            return os.open(path, _FILE)
        if folder != self._path:
            self.close()
            self._descriptor = os.open(base, _FOLDER & ~getattr(os, "O_NOFOLLOW", 0))
            for below in filter(None, folder[len(base) :].split(os.sep)):
                above, self._descriptor = self._descriptor, os.open(below, _FOLDER, dir_fd=self._descriptor)
                os.close(above)
            self._path = folder
        return os.open(name, _FILE, dir_fd=self._descriptor)

    def close(self) -> None:
        """Close the folder, if there is one."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._path, self._descriptor = "", -1


def read_regular(
    path: str | os.PathLike[str], max_bytes: int | None = None, *, base: str = "", folder: OpenFolder | None = None
) -> bytes:
    """Read a regular file that is not a symlink.

    :param base: a folder above it, below which no folder may be a symlink either; the path is absolute then.
    :param folder: the folder of the last file.
    :raises IrregularFileError: it is not such a file, or is larger than ``max_bytes``.
    :raises OSError: it does not exist, or cannot be read.
    """
    path = os.fspath(path)
    try:
        with nullcontext(folder) if folder else closing(OpenFolder()) as opened:
            descriptor = opened.open(path, base)
    except OSError as error:
        if _is_linked(path, base):
            raise IrregularFileError(errno.ELOOP, "a symbolic link is in its place", path) from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise IrregularFileError(errno.EINVAL, f"it is {kind}", path)
        parts: list[bytes] = []
        size = 0
        while max_bytes is None or max(size, status.st_size) <= max_bytes:  # a file may grow while it is read
            part = os.read(descriptor, max(status.st_size - size, 0) + _READ_BYTES)
            if not part:
                return b"".join(parts)
            parts.append(part)
            size += len(part)
        raise IrregularFileError(errno.EFBIG, f"it is larger than {max_bytes:,} bytes", path)
    finally:
        os.close(descriptor)


def _is_linked(path: str, base: str) -> bool:
    """Return whether a file, or a folder between it and ``base``, is a symlink."""
    while not os.path.islink(path) and base not in ("", path, os.path.dirname(path)):
        path = os.path.dirname(path)
    return os.path.islink(path) and path != base
