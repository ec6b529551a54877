"""Find memory files, without reading them."""

from __future__ import annotations

import os
import sys
from collections import deque
from typing import TYPE_CHECKING

import attrs

from ..types import SkippedFile
from .paths import FoundFile, folders_above, is_inside, is_memory_file_name, printable, stat_file

if TYPE_CHECKING:
    from .paths import Workspace


@attrs.define
class Scan:
    """The files on disk.

    ``missing`` are configured places that do not exist. ``dangling`` are symbolic links to nothing: perhaps to a folder
    of a disk that is not mounted. ``unreadable`` has the files and folders that cannot be read, and why.
    """

    files: dict[str, FoundFile] = attrs.field(factory=dict)
    skipped: list[SkippedFile] = attrs.field(factory=list)
    missing: list[str] = attrs.field(factory=list)
    dangling: list[str] = attrs.field(factory=list)
    unreadable: dict[str, SkippedFile] = attrs.field(factory=dict)

    def other_name_of(self, real: str) -> FoundFile | None:
        """Return the file that is the same by another hard link, if there is one."""
        try:
            if os.stat(real).st_nlink > 1:
                return next((file for file in self.files.values() if os.path.samefile(file.real, real)), None)
        except OSError:
            return None  # removed since
        return None

    def add_unreadable(self, name: str, error: OSError, ending: str = "") -> None:
        """Add a place that cannot be read: what the index has of it is kept."""
        file = SkippedFile(printable(name) + ending, f"cannot be read: {error.strerror or error}")
        self.unreadable[name] = file
        self.skipped.append(file)

    def covers(self, path: str) -> bool:
        """Return whether the scan could have seen ``path``: not if its folder was missing or could not be read."""
        if not self.missing and not self.dangling and not self.unreadable:
            return True
        return {*self.missing, *self.dangling, *self.unreadable}.isdisjoint(folders_above(path))


def scan_files(workspace: Workspace) -> Scan:
    """List every folder and stat every file; read none.

    Folders are walked before symbolic links, and each file is listed under one name.
    """
    scan, walk = Scan(), _Walk(workspace)
    for root in workspace.roots:
        try:
            is_there = _exists(root)
        except PermissionError as error:
            scan.add_unreadable(workspace.name_of(root), error)
            continue
        if not is_there:
            scan.missing.append(workspace.name_of(root))
        elif os.path.islink(root):
            walk.links.append((workspace.name_of(root), root))
        elif os.path.isdir(root):
            walk.folders.append((workspace.name_of(root), root))
        else:
            walk.named(workspace.name_of(root), root, scan)
        walk.finish_folders(scan)
    while walk.links:
        name, path = walk.links.popleft()
        try:
            walk.link(name, path, scan)
        except FileNotFoundError:
            continue  # removed since
        except OSError as error:
            scan.add_unreadable(name, error)
        walk.finish_folders(scan)
    return scan


def _exists(path: str) -> bool:
    """Return whether something is there; raise PermissionError if a folder above keeps that from being known."""
    try:
        os.stat(path)
    except PermissionError:
        raise
    except OSError:
        return False
    return True


class _Walk:
    """The state of one scan: what was reached, and the symbolic links that must still be followed."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.folders: list[tuple[str, str]] = []
        self.links: deque[tuple[str, str]] = deque()
        self._folders: set[str] = set()
        self._files: set[str] = set()
        self._hard_links: set[tuple[int, int]] = set()

    def finish_folders(self, scan: Scan) -> None:
        """Walk the folders that were found. Not by recursion: folders can be nested more deeply than Python calls."""
        while self.folders:
            self._folder(*self.folders.pop(), scan)

    def _folder(self, name: str, real: str, scan: Scan) -> None:
        if real in self._folders:
            return
        self._folders.add(real)
        try:
            with os.scandir(real) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except FileNotFoundError:
            return  # removed since
        except OSError as error:
            scan.add_unreadable(name, error, ending="/")
            return
        # A folder reached by a link has a second name, by which the configuration may exclude its content.
        own_name = self.workspace.name_of(real)
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if own_name != name and self.workspace.excludes_entry(own_name, entry):
                continue
            child = entry.name if name == "." else f"{name}/{entry.name}"
            try:
                self._entry(child, entry, scan)
            except FileNotFoundError:
                continue  # removed since
            except OSError as error:
                scan.add_unreadable(child, error)

    def _entry(self, name: str, entry: os.DirEntry[str], scan: Scan) -> None:
        if entry.is_symlink():
            self.links.append((name, entry.path))
        elif entry.is_dir():
            if not self.workspace.excluded(name + "/"):
                self.folders.append((name, entry.path))
        elif is_memory_file_name(entry.name) and not entry.is_file():
            scan.skipped.append(SkippedFile(printable(name), "is not a regular file"))
        elif is_memory_file_name(entry.name):
            # On Windows, the cheaper entry.stat() may be out of date for files that are open elsewhere.
            self.file(name, entry.path, os.stat(entry.path) if sys.platform == "win32" else entry.stat(), scan)

    def link(self, name: str, path: str, scan: Scan) -> None:
        real = os.path.realpath(path)
        ending = "/" if os.path.isdir(real) else ""
        if self.workspace.excluded(name + ending) or self.workspace.excluded(self.workspace.name_of(real) + ending):
            return
        is_folder, named_as_file = os.path.isdir(real), is_memory_file_name(name.rpartition("/")[2])
        if not _exists(real):
            if named_as_file or "." not in name:  # the link of a folder that is gone, or to itself
                what = "file" if named_as_file else "folder"
                scan.skipped.append(SkippedFile(printable(name), f"is a symbolic link to a {what} that does not exist"))
            if not named_as_file:
                scan.dangling.append(name)
            return
        if not is_folder and not (named_as_file and os.path.isfile(real)):
            return
        if not self.workspace.allows(real):
            inside = not os.path.isabs(self.workspace.name_of(real))
            where = "into a hidden folder" if inside else "out of the workspace"
            scan.skipped.append(SkippedFile(printable(name), f"is a symbolic link that leads {where}", outside=True))
        elif is_folder:
            if not is_inside(os.path.realpath(os.path.dirname(path)), real):  # following it would not end
                self.folders.append((name, real))
        else:
            self.file(name, real, os.stat(real), scan)

    def named(self, name: str, real: str, scan: Scan) -> None:
        """Add a file in the place of a folder: one of the configured ``paths``, or ``memory`` itself."""
        if is_memory_file_name(name.rpartition("/")[2]) and os.path.isfile(real):
            self.file(name, real, os.stat(real), scan)
        else:
            reason = "is neither a folder nor a Markdown file: its name must end in .md or .markdown"
            scan.skipped.append(SkippedFile(printable(name), reason))

    def file(self, name: str, real: str, status: os.stat_result, scan: Scan) -> None:
        if self.workspace.excluded(name) or real in self._files:
            return
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            reason = "has a name that is not valid UTF-8; rename it"
            scan.skipped.append(SkippedFile(printable(name), reason))
            return
        self._files.add(real)
        if status.st_nlink > 1:
            identity = (status.st_dev, status.st_ino)
            if identity in self._hard_links:
                return
            self._hard_links.add(identity)
        if status.st_size > self.workspace.max_bytes:
            reason = f"is larger than files.max_bytes allows: {status.st_size:,} bytes"
            scan.skipped.append(SkippedFile(name, reason))
            return
        scan.files[name] = stat_file(name, real, status, self.workspace.source_of(name))
