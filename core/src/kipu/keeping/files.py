"""Read and write single files without waiting for a pipe and without following a symlink.

A folder ``.kipu`` may come with a cloned workspace: anything may stand in it where Kipu keeps a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING

from ..errors import MemoryFileError
from ..workspace.paths import is_memory_file_name
from ..workspace.reader import IrregularFileError, read_regular
from ..workspace.text import NotTextError, TextFile

if TYPE_CHECKING:
    from ..workspace.paths import Workspace

_MAX_BYTES = 64_000_000

OTHER = "other"
"""What `digest_of` returns for anything but a regular file of up to 64 MB."""


def read_file(workspace: Workspace, real: str, path: str) -> tuple[bytes | None, TextFile]:
    """Return the bytes and the text of a memory file; None and no lines if it does not exist.

    :param path: what messages call it.
    :raises MemoryFileError: it cannot be read, or is not a text that could be written back.
    """
    try:
        data = workspace.read(real)
    except (FileNotFoundError, NotADirectoryError):
        return None, TextFile([])
    except OSError as error:
        raise MemoryFileError(f"{path} cannot be read: {error.strerror or error}.") from error
    try:
        return data, TextFile.parse(data)
    except NotTextError as error:
        raise MemoryFileError(f"{path} {error}. Nothing was changed.") from None


def is_memory_file(workspace: Workspace, real: str) -> bool:
    """Return whether a path that Kipu wrote down is that of a memory file, with no symlink on the way to it."""
    folder, name = os.path.split(real)
    return (
        b"\0" not in os.fsencode(real)
        and workspace.allows(real)
        and is_memory_file_name(name)
        and os.path.realpath(folder) == folder
        and os.path.join(folder, name) == real  # no second slash
    )


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file; "" where there is none, `OTHER` for a symlink and for what is no regular file.

    :raises OSError: it cannot be read.
    """
    if os.path.islink(path):
        return OTHER
    try:
        return hashlib.sha256(read_regular(path, _MAX_BYTES)).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except IrregularFileError:
        return OTHER


def write_new(
    path: str | os.PathLike[str], data: bytes, mode: int = 0o666, *, durable: bool = True, name: str | None = None
) -> None:
    """Create a file. Remove what is in its way; never write to it or follow it.

    :param durable: whether to wait until the file is on the disk.
    :param name: the file that an error names instead of this one.
    :raises OSError: it cannot be written, or a folder is in its way.
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
    except OSError as error:  # of a full disk, the system does not name the file
        raise OSError(error.errno, error.strerror, name or os.fspath(path)) from error


def put_new(temporary: str, real: str) -> bool:
    """Rename a file to a name that no file has. Return False, and do nothing, if one has it."""
    try:
        os.link(temporary, real)
    except FileExistsError:
        return False
    except OSError:  # the file system has no hard links
        if os.path.lexists(real):
            return False
        os.replace(temporary, real)
    else:
        with contextlib.suppress(OSError):  # a leftover, to be removed later
            os.remove(temporary)
    return True


def sync_folder(folder: str) -> None:
    """Write the names in a folder to the disk, where the system can do that for a folder.

    Windows and some network file systems cannot; nor can a user who may write to the folder but not read it.
    """
    if os.name == "nt":
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
