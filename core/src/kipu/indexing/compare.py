"""Compare the files on disk with the files that the index has."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from typing import TYPE_CHECKING

import attrs

from ..workspace.paths import folders_above
from ..workspace.scan import Scan, scan_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..index.queries import KnownFile
    from ..workspace.paths import FoundFile, Workspace
    from ..workspace.scope import Scope

# Clocks of file systems tick as slowly as every two seconds (FAT). A file that changed less than this before it was
# read may change again without its time stamp showing it, so its stamp is not trusted until later.
_TICK_NS = 2_000_000_000


@attrs.define
class Pending:
    """How the files on disk differ from the index.

    ``touched`` are files with the same content, whose time stamp the index does not have. ``missing`` are files whose
    folder does not exist or cannot be read: the index keeps them. ``tables`` is true if a strategy's tables must be
    rebuilt. ``index_id`` names the index.
    """

    scan: Scan
    known: dict[str, KnownFile]
    changed: list[FoundFile] = attrs.field(factory=list)
    touched: list[FoundFile] = attrs.field(factory=list)
    vanished: list[KnownFile] = attrs.field(factory=list)
    missing: list[KnownFile] = attrs.field(factory=list)
    unchanged: int = 0
    tables: bool = False
    index_id: str = ""

    @property
    def paths(self) -> list[str]:
        """The files that the index does not have as they are on disk, sorted."""
        return sorted({file.path for file in self.changed} | {file.path for file in self.vanished})

    def __bool__(self) -> bool:
        return bool(self.changed or self.vanished or self.tables or self.touched)


def compare(
    workspace: Workspace,
    known: dict[str, KnownFile],
    chunker: str | None,
    prune: bool,
    sees: Callable[[str], bool],
) -> Pending:
    """Compare the files on disk with those that the index has: by time stamp and size, then by SHA-256.

    :param chunker: the identity of the chunker; None to have every file chunked again.
    :param prune: whether files are removed whose folder is missing.
    :param sees: whether the scope sees a file, so that it is counted.
    """
    scan = scan_files(workspace)
    _add_named_files(workspace, scan, known)
    pending = Pending(scan, known)
    now = time.time_ns()
    for path, found in scan.files.items():
        file = known.get(path)
        if file is not None and file.chunker == chunker and file.source == found.source:
            if _stamp(file) == _stamp(found):
                pending.unchanged += sees(path)
                continue
            if file.size == found.size and _digest(workspace, found.real) == file.hash:
                pending.unchanged += sees(path)
                if is_settled(found, now):
                    pending.touched.append(found)
                continue
        if os.access(found.real, os.R_OK):
            pending.changed.append(found)
        else:
            scan.add_unreadable(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    for path, file in known.items():
        if path not in scan.files:
            is_gone = scan.covers(path) or (prune and scan.unreadable.keys().isdisjoint(folders_above(path)))
            (pending.vanished if is_gone else pending.missing).append(file)
    return pending


def _add_named_files(workspace: Workspace, scan: Scan, known: Mapping[str, KnownFile]) -> None:
    """Add to a scan the files that were added by name although no folder of the memory leads to them."""
    added = [path for path, file in known.items() if file.added and path not in scan.files]
    by_real_path = {file.real: file.path for file in scan.files.values()} if added else {}
    for path in added:
        found = workspace.look(path)
        if found is not None:
            # A link that leads there may be gone tomorrow: the name that a person gave comes first.
            other = scan.other_name_of(found.real)
            scan.files.pop(by_real_path.get(found.real, other.path if other else ""), None)
            scan.files[path] = found


def absent_paths(workspace: Workspace, pending: Pending, scope: Scope) -> list[str]:
    """Return sentences about configured paths of a scope that do not exist, and of which the index has nothing."""
    configured = [workspace.name_of(root) for root in workspace.roots[1:]]
    absent = set(pending.scan.missing) - set(missing_folders(pending))
    return [
        f"{path} does not exist, although files.paths names it."
        for path in configured
        if path in absent and scope.sees_folder(path)
    ]


def missing_folders(pending: Pending) -> list[str]:
    """Return the folders that do not exist although the index has files of theirs, which it keeps."""
    above = {folder for file in pending.missing for folder in folders_above(file.path)}
    return [folder for folder in (*pending.scan.missing, *pending.scan.dangling) if folder in above]


def _stamp(file: KnownFile | FoundFile) -> tuple[int, int, int]:
    return file.mtime_ns, file.ctime_ns, file.size


def is_settled(file: FoundFile, now: int) -> bool:
    """Return whether a change after ``now`` would show in the file's time stamp."""
    return now - max(file.mtime_ns, file.ctime_ns) > _TICK_NS


def _digest(workspace: Workspace, real: str) -> str | None:
    """Return the SHA-256 of a file; None if it cannot be read."""
    try:
        return hashlib.sha256(workspace.read(real)).hexdigest()
    except OSError:
        return None
