"""Names and places of memory files: which files count, what their source and date are, and what may be reached.

Nothing is reached outside the workspace and the folders that its configuration names.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ConfigurationError, MemoryFileError, OutsideWorkspaceError, WorkspaceNotFoundError
from .reader import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .reader import OpenFolder

MEMORY_FOLDER = "memory"
ARCHIVE = "archive"
EXTERNAL = "external"
HIDDEN_FOLDER = ".kipu"
_SUFFIXES = (".md", ".markdown")
# Dropbox and Nextcloud; ownCloud; Syncthing; iCloud.
_COPY = re.compile(
    r"(.+?)(?: \([^()/]*conflicted copy[^()/]*(?:\(\d+\))?\)|_conflict-\d{8}-\d{6}|\.sync-conflict-\d{8}-\d{6}-\w+"
    r"| [2-9])(\.[^./]+)",
    re.IGNORECASE | re.DOTALL,
)
_LINES = re.compile(r"(?P<path>.+):(?P<start>[0-9]+)(?:-(?P<end>[0-9]+))?", re.DOTALL)
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?!\d)", re.ASCII)


def folders_above(path: str) -> Iterator[str]:
    """Yield the path itself, and every folder above it."""
    yield path
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path or "/"


def is_memory_file_name(name: str) -> bool:
    """Return whether a file of that name is Markdown: ``.md`` or ``.markdown``, in any case, and not hidden."""
    return name.lower().endswith(_SUFFIXES) and not name.startswith(".")


def parse_place(place: str) -> dict[str, Any]:
    """Return what one text names, as arguments of `Memory.edit`: lines of a file, a file, or else an id or a chunk."""
    found = _LINES.fullmatch(place)
    path = found["path"] if found else place.rstrip(":")
    if not is_memory_file_name(re.split(r"[/\\]", path)[-1]):
        return {"id": place}
    if found is None:
        return {"path": path}
    return {"path": path, "start": int(found["start"]), "end": int(found["end"] or found["start"])}


def source_of(path: str) -> str:
    """Return the source label of a memory file.

    It is the first folder below ``memory/``, ``memory`` for files directly in it, and ``external`` elsewhere; see also
    `Workspace.source_of`. Files in ``memory/archive/team/`` came from the source ``team``, and have the label
    ``archive/team``.
    """
    parts = unicodedata.normalize("NFC", path).split("/")
    if parts[0] != MEMORY_FOLDER or len(parts) < 2:
        return EXTERNAL
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


def original_of(path: str) -> str | None:
    """Return the file, existing or not, of which a file is a conflict copy by its name; None if of none."""
    found = _COPY.fullmatch(path)
    return found and found[1] + found[2]


def find_conflicts(paths: Iterable[str]) -> dict[str, str]:
    """Return the conflict copies among some files, each with its original, if that is among them too.

    One is also a name with decomposed accents beside the composed one.
    """
    paths = {path: unicodedata.normalize("NFC", path) for path in paths}
    names = {name: path for path, name in paths.items()} | {path: path for path in paths}
    found = {path: names.get(original_of(name) or name, path) for path, name in paths.items()}
    return {path: original for path, original in found.items() if original != path}


def printable(name: str) -> str:
    """Return a file name that can be stored and shown, whatever bytes it has."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path is a folder, or in it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


class FoundFile(NamedTuple):  # not attrs: a scan makes one for every file, before every search
    """A memory file on disk: its name in Kipu, its real path, and what shows that it changed."""

    path: str
    real: str
    size: int
    mtime_ns: int
    ctime_ns: int
    source: str


def stat_file(name: str, real: str, status: os.stat_result, source: str) -> FoundFile:
    """Return a file with its stamp."""
    # A time stamp may be of any size (the year 1600, or 30000); SQLite's numbers have 64 bits.
    mtime, ctime = (max(-(2**63), min(time, 2**63 - 1)) for time in (status.st_mtime_ns, status.st_ctime_ns))
    return FoundFile(name, real, status.st_size, mtime, ctime, source)


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

    def _absolute(self, path: str) -> str:
        """Return a path that a person names as it is on disk, where a name may have its accents composed or not."""
        path = os.path.join(self._real_root, os.path.expanduser(path))
        if path.isascii() or os.path.lexists(path):
            return path
        found = ""
        for name in Path(path).parts:
            forms = (os.path.join(found, unicodedata.normalize(form, name)) for form in ("NFC", "NFD"))
            found = next(filter(os.path.lexists, (os.path.join(found, name), *forms)), os.path.join(found, name))
        return found

    def _real(self, path: str) -> str:
        try:
            return os.path.realpath(self._absolute(path))
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
        if is_inside(real, self._real_root):
            real = os.path.relpath(real, self._real_root)
        return real.replace(os.sep, "/") if os.sep != "/" else real

    def source_of(self, name: str) -> str:
        """Return the source label of a file by its name: ``external/projects`` in that folder of a further path.

        No scope has such a label: a folder elsewhere that is named after a scope does not belong to it.
        """
        label = source_of(name)
        if label != EXTERNAL or not self._further:
            return label
        path = os.path.normpath(os.path.join(self._real_root, name))
        base = min((base for base in self._further if is_inside(path, base)), key=len, default=path)
        folder, *below = os.path.relpath(path, base).split(os.sep)
        return f"{EXTERNAL}/{folder}" if below else EXTERNAL

    def locate(self, path: str | os.PathLike[str]) -> str:
        """Return the real path of a file that a caller names, relative to the workspace or absolute.

        :raises OutsideWorkspaceError: it leads out of the workspace and of the configured ``paths``.
        :raises MemoryFileError: it is not a valid path.
        """
        try:
            real = os.path.realpath(self._absolute(os.fspath(path)))
        except (TypeError, ValueError) as error:
            raise MemoryFileError(f"{str(path)!r} is not a valid path: {error}.") from None
        if not self.allows(real):
            if is_inside(real, self._real_root):
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
        return self.name_of(os.path.normpath(self._absolute(path)))

    def is_link(self, path: str) -> bool:
        """Return whether a file, by the path that Kipu names it by, is reached by a symlink."""
        plain = os.path.normpath(os.path.join(self._real_root, path))
        return os.path.realpath(plain) != plain

    def covers(self, path: str) -> bool:
        """Return whether a path, relative to the workspace or absolute, is in a place of memory files."""
        path = os.path.normpath(self._absolute(path))
        return any(is_inside(path, root) for root in self.roots)

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
        return stat_file(name, real, status, self.source_of(name)) if fits else None

    def read(self, real: str, folder: OpenFolder | None = None) -> bytes:
        """Return the bytes of a memory file, by the real path that was checked.

        :param folder: the folder of the last file that was read.
        :raises IrregularFileError: something else is there now, or it is larger than ``max_bytes``.
        :raises OSError: it does not exist, or cannot be read.
        """
        base = next((base for base in (self._real_root, *self._further) if is_inside(real, base)), real)
        return read_regular(real, self.max_bytes, base=base, folder=folder)

    def find_memory_file(self, path: str) -> FoundFile:
        """Return a file that a caller names, if it may be indexed.

        :raises MemoryFileError: it is missing, a folder, not Markdown, too large or excluded.
        :raises OutsideWorkspaceError: it leads out of the self.
        """
        real = self.locate(path)
        name = self.name_of(real)
        if os.path.isdir(real):
            raise MemoryFileError(f'{path} is a folder. Name folders in kipu.toml: [files] paths = ["..."].')
        if not is_memory_file_name(name.rpartition("/")[2]):
            raise MemoryFileError(f"{path} is not a Markdown file: its name must end in .md or .markdown.")
        if self.excluded(name):
            raise MemoryFileError(f"{path} is excluded by files.exclude in kipu.toml.")
        if os.path.isfile(real) and os.path.getsize(real) > self.max_bytes:
            raise MemoryFileError(f"{path} is larger than files.max_bytes in kipu.toml allows.")
        found = self.look(name)
        if found is None:
            raise MemoryFileError(f"{path} does not exist, or is not a file.")
        return found

    def allows(self, real: str) -> bool:
        """Return whether a real path is in the workspace or in a configured folder, and in no hidden folder there."""
        for base in (self._real_root, *self._further):
            if is_inside(real, base):
                below = os.path.relpath(real, base).split(os.sep)
                if not any(part.startswith(".") and part != "." for part in below):
                    return True
        return False


def _near(missing: Path) -> str:
    """Return a hint at a neighbour with a name similar to that of a missing folder."""
    from ..plugins.suggest import did_you_mean

    try:
        names: Iterable[str] = [entry.name for entry in missing.parent.iterdir() if entry.is_dir()]
    except OSError:
        return ""
    return did_you_mean(missing.name, names)
