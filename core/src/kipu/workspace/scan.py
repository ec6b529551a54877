"""Find memory files, and what is known of them without reading them.

All rules about paths are here: which files count, what their source and date are, and that nothing is reached outside
the workspace and the folders that its configuration names.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections import deque
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import attrs

from ..errors import ConfigurationError, MemoryFileError, OutsideWorkspaceError, WorkspaceNotFoundError
from ..types import SkippedFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "ARCHIVE",
    "HIDDEN_FOLDER",
    "MEMORY_FOLDER",
    "FoundFile",
    "Scan",
    "Workspace",
    "date_of",
    "is_memory_file_name",
    "source_of",
]

MEMORY_FOLDER = "memory"
ARCHIVE = "archive"
HIDDEN_FOLDER = ".kipu"
_SUFFIXES = (".md", ".markdown")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?!\d)", re.ASCII)


class FoundFile(NamedTuple):  # not attrs: a scan makes one for every file, before every search
    """A memory file on disk: its name in Kipu, its real path, and what shows that it changed."""

    path: str
    real: str
    size: int
    mtime_ns: int
    ctime_ns: int


@attrs.define
class Scan:
    """The files on disk.

    ``missing`` are configured places that do not exist or cannot be read. ``dangling`` are symbolic links to nothing:
    perhaps to a folder of a disk that is not mounted.
    """

    files: dict[str, FoundFile] = attrs.field(factory=dict)
    skipped: list[SkippedFile] = attrs.field(factory=list)
    missing: list[str] = attrs.field(factory=list)
    dangling: list[str] = attrs.field(factory=list)

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
        self.missing.append(name)
        self.skipped.append(SkippedFile(printable(name) + ending, f"cannot be read: {error.strerror or error}"))

    def covers(self, path: str) -> bool:
        """Return whether the scan could have seen ``path``: not if its folder was missing or could not be read."""
        if not self.missing and not self.dangling:
            return True
        return {*self.missing, *self.dangling}.isdisjoint(folders_above(path))


def folders_above(path: str) -> Iterator[str]:
    """Yield the path itself, and every folder above it."""
    yield path
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path or "/"


def is_memory_file_name(name: str) -> bool:
    """Return whether a file of that name is Markdown: ``.md`` or ``.markdown``, in any case, and not hidden."""
    return name.lower().endswith(_SUFFIXES) and not name.startswith(".")


def source_of(path: str) -> str:
    """Return the source label of a memory file.

    It is the first folder below ``memory/``, ``memory`` for files directly in it, and ``external`` elsewhere. Files in
    ``memory/archive/team/`` came from the source ``team``, and have the label ``archive/team``.
    """
    parts = path.split("/")
    if parts[0] != MEMORY_FOLDER or len(parts) < 2:
        return "external"
    if parts[1] == ARCHIVE and len(parts) > 3:
        return f"{ARCHIVE}/{parts[2]}"
    return parts[1] if len(parts) > 2 else MEMORY_FOLDER


def date_of(path: str) -> date | None:
    """Return the date at the start of the file's name, which makes it a dated file; None for an evergreen one."""
    match = _DATE.match(path.rpartition("/")[2])
    if match is None:
        return None
    try:
        return date(*map(int, match.groups()))
    except ValueError:
        return None


class Workspace:
    """A directory with memory files, as far as its files go.

    :param root: the directory.
    :param paths: further files and folders, relative to ``root`` or absolute.
    :param exclude: patterns in the syntax of ``.gitignore``, relative to ``root``.
    :param max_bytes: the size of the largest file that is indexed.
    :raises WorkspaceNotFoundError: ``root`` does not exist, or is not a directory.
    """

    def __init__(
        self, root: Path, paths: Sequence[str] = (), exclude: Sequence[str] = (), max_bytes: int = 20_000_000
    ) -> None:
        self.max_bytes = max_bytes
        self.root = Path(os.path.abspath(root))
        if not os.path.isdir(self.root):
            what = "is not a folder" if os.path.lexists(self.root) else "does not exist"
            raise WorkspaceNotFoundError(f"The workspace {root} {what}.{_near(self.root)}")
        self._real_root = os.path.realpath(self.root)
        # Follow symlinks that the configuration names, not those met during the scan.
        self._further = [self._real(path) for path in paths]
        self._spec = None
        if exclude:
            import pathspec

            try:
                self._spec = pathspec.GitIgnoreSpec.from_lines(exclude)
            except (ValueError, re.error) as error:
                raise ConfigurationError(f"files.exclude contains an invalid pattern: {error}.") from None

    def _real(self, path: str) -> str:
        try:
            return os.path.realpath(os.path.join(self._real_root, os.path.expanduser(path)))
        except ValueError as error:
            raise ConfigurationError(f"files.paths contains an invalid path, {path!r}: {error}.") from None

    @property
    def roots(self) -> list[str]:
        """The places of memory files: absolute paths, ``memory/`` first."""
        return [os.path.join(self._real_root, MEMORY_FOLDER), *self._further]

    @property
    def has_memory(self) -> bool:
        """Whether a place for memory files exists."""
        return any(os.path.exists(root) for root in self.roots)

    def name_of(self, real: str) -> str:
        """Return the name of a file in Kipu: its path relative to the workspace, or absolute outside of it, with /."""
        if _inside(real, self._real_root):
            real = os.path.relpath(real, self._real_root)
        return real.replace(os.sep, "/") if os.sep != "/" else real

    def locate(self, path: str | os.PathLike[str]) -> str:
        """Return the real path of a file that a caller names, relative to the workspace or absolute.

        :raises OutsideWorkspaceError: it leads out of the workspace and of the configured ``paths``.
        :raises MemoryFileError: it is not a valid path.
        """
        try:
            real = os.path.realpath(os.path.join(self._real_root, os.path.expanduser(os.fspath(path))))
        except ValueError as error:
            raise MemoryFileError(f"{os.fspath(path)!r} is not a valid path: {error}.") from None
        if not self.allows(real):
            if _inside(real, self._real_root):
                raise OutsideWorkspaceError(
                    f"{os.fspath(path)} is hidden, or in a hidden folder, where Kipu keeps no memories."
                )
            raise OutsideWorkspaceError(
                f"{os.fspath(path)} leads out of the workspace {self.root}. Move it into the workspace, or name its "
                'folder in kipu.toml: [files] paths = ["..."].'
            )
        return real

    def plain_name_of(self, path: str) -> str:
        """Return the path by which Kipu names what a caller names, without following symbolic links."""
        return self.name_of(os.path.normpath(os.path.join(self._real_root, os.path.expanduser(path))))

    def covers(self, path: str) -> bool:
        """Return whether a path, relative to the workspace or absolute, is in a place of memory files."""
        path = os.path.normpath(os.path.join(self._real_root, os.path.expanduser(path)))
        return any(_inside(path, root) for root in self.roots)

    def excludes_entry(self, folder: str, entry: os.DirEntry[str]) -> bool:
        """Return whether the configuration excludes an entry of a folder."""
        if self._spec is None:
            return False
        return self.excluded(f"{folder}/{entry.name}" + ("/" if entry.is_dir() else ""))

    def excluded(self, name: str) -> bool:
        """Return whether the configuration excludes the file (or, with a slash at its end, the folder) of that name."""
        return self._spec is not None and self._spec.match_file(name)

    def look(self, name: str) -> FoundFile | None:
        """Return a single file by its name, if it exists and may be indexed."""
        if self.excluded(name):
            return None
        real = os.path.realpath(os.path.join(self._real_root, name))
        try:
            status = os.stat(real)
        except (OSError, ValueError):
            return None
        fits = stat.S_ISREG(status.st_mode) and status.st_size <= self.max_bytes and self.allows(real)
        return _found(name, real, status) if fits else None

    def scan(self) -> Scan:
        """List every folder and stat every file; read none.

        Folders are walked before symbolic links, and each file is listed under one name.
        """
        scan, walk = Scan(), _Walk(self)
        for root in self.roots:
            if not os.path.exists(root):
                scan.missing.append(self.name_of(root))
            elif os.path.islink(root):
                walk.links.append((self.name_of(root), root))
            elif os.path.isdir(root):
                walk.folders.append((self.name_of(root), root))
            else:
                walk.named(self.name_of(root), root, scan)
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

    def allows(self, real: str) -> bool:
        """Return whether a real path is in the workspace or in a configured folder, and in no hidden folder there."""
        for base in (self._real_root, *self._further):
            if _inside(real, base):
                below = os.path.relpath(real, base).split(os.sep)
                if not any(part.startswith(".") and part != "." for part in below):
                    return True
        return False


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
        elif is_memory_file_name(entry.name) and entry.is_file():
            # On Windows, the cheaper entry.stat() may be out of date for files that are open elsewhere.
            self.file(name, entry.path, os.stat(entry.path) if sys.platform == "win32" else entry.stat(), scan)

    def link(self, name: str, path: str, scan: Scan) -> None:
        real = os.path.realpath(path)
        ending = "/" if os.path.isdir(real) else ""
        if self.workspace.excluded(name + ending) or self.workspace.excluded(self.workspace.name_of(real) + ending):
            return
        is_folder, named_as_file = os.path.isdir(real), is_memory_file_name(name.rpartition("/")[2])
        if not os.path.exists(real):
            if named_as_file:
                scan.skipped.append(SkippedFile(printable(name), "is a symbolic link to a file that does not exist"))
            else:
                scan.dangling.append(name)
            return
        if not is_folder and not (named_as_file and os.path.isfile(real)):
            return
        if not self.workspace.allows(real):
            inside = not os.path.isabs(self.workspace.name_of(real))
            where = "into a hidden folder" if inside else "out of the workspace"
            scan.skipped.append(SkippedFile(printable(name), f"is a symbolic link that leads {where}"))
        elif is_folder:
            if not self._contains(real, path):
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

    @staticmethod
    def _contains(real: str, path: str) -> bool:
        """Return whether a link leads to a folder that contains it: following it would not end."""
        return _inside(os.path.realpath(os.path.dirname(path)), real)

    def file(self, name: str, real: str, status: os.stat_result, scan: Scan) -> None:
        if self.workspace.excluded(name):
            return
        if real in self._files:
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
        scan.files[name] = _found(name, real, status)


def printable(name: str) -> str:
    """Return a file name that can be stored and shown, whatever bytes it has."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _found(name: str, real: str, status: os.stat_result) -> FoundFile:
    # A time stamp may be of any size (the year 1600, or 30000); SQLite's numbers have 64 bits.
    stamps = (max(-(2**63), min(time, 2**63 - 1)) for time in (status.st_mtime_ns, status.st_ctime_ns))
    return FoundFile(name, real, status.st_size, *stamps)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _near(missing: Path) -> str:
    """Return a hint at a neighbour with a name similar to that of a missing folder."""
    from ..plugins.suggest import did_you_mean

    try:
        names: Iterable[str] = [entry.name for entry in missing.parent.iterdir() if entry.is_dir()]
    except OSError:
        return ""
    return did_you_mean(missing.name, names)
