"""The SQLite file of the index: how it is created, and what to do when it cannot be used.

The index is derived from the memory files. One that is damaged, or that another version of Kipu made, is set aside and
rebuilt. A file of another program is moved aside and kept.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import time
from typing import TYPE_CHECKING

import attrs

from ..errors import IndexBusyError, IndexUnavailableError
from ..sqlite import is_damage, uri_path
from . import schema

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from ..notices import Notices

INDEX_FILE = "index.sqlite"
PLUGIN_FOLDERS = "plugins"
"""The folder beside the index that has a folder for each strategy that keeps files of its own."""


@attrs.frozen
class IndexFile:
    """The file of an index.

    ``driver`` is the module that opens it; ``notices`` takes a sentence when it was set aside.
    """

    path: Path
    driver: ModuleType
    notices: Notices

    def identity(self) -> tuple[int, int] | None:
        """Return what tells one file at the path of the index from the next; None if there is none."""
        try:
            status = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_dev, status.st_ino

    def uri(self) -> str:
        """Return where the index is and how to open it: read-only if its folder cannot be written.

        Even a reader of a WAL database writes a small file beside it. Where it cannot, no other process writes either.
        """
        writable = os.access(self.path.parent, os.W_OK) and os.access(self.path, os.W_OK)
        return f"file:{uri_path(self.path)}?{'mode=rw' if writable else 'mode=ro&immutable=1'}"

    def check_regular(self) -> None:
        """Raise IndexUnavailableError if anything but a file is in the place of one of the index.

        A clone may bring it: a link may lead to any file, and a pipe is waited for.
        """
        files = [f"{self.path}{ending}" for ending in ("", "-wal", "-shm", "-journal")]
        for path in (str(self.path.parent), *files):
            if os.path.islink(path) or (path in files and os.path.exists(path) and not os.path.isfile(path)):
                kind = "a symbolic link" if os.path.islink(path) else "not a regular file"
                raise IndexUnavailableError(
                    f"{path} is {kind}. Kipu keeps its index in the workspace itself: remove it."
                )

    def damage(self) -> str | None:
        """Return what a check of all pages of the index finds wrong, or None.

        :raises IndexUnavailableError: its files cannot be opened.
        """
        self.check_regular()
        try:
            with contextlib.closing(self.driver.connect(self.uri(), uri=True)) as connection:
                found: str = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        except Exception as error:
            if is_damage(error):
                return str(error)
            if isinstance(error, self.driver.Error):
                return None  # it is locked, perhaps
            raise
        return None if found == "ok" else found.rsplit("\n", maxsplit=1)[-1]  # below the name of the database

    def prepare(self, wait: float) -> None:
        """Create the folder, the file and the tables if they do not exist; set an unusable file aside."""
        make_hidden_folder(self.path.parent)
        seen = self.identity()
        try:
            self._create_tables(wait)
        except Exception as error:
            is_foreign = isinstance(error, schema.ForeignDatabaseError)
            if not (is_foreign or isinstance(error, schema.OtherSchemaError) or is_damage(error)):
                raise
            self.set_aside(wait, str(error), seen, foreign=is_foreign)
            self._create_tables(wait)

    def _create_tables(self, wait: float) -> None:
        """Create the tables if they do not exist, and wait for another process that is creating them.

        SQLite's own waiting does not cover the moment in which a file becomes a WAL database: it fails at once then.
        """
        end = time.monotonic() + wait
        while True:
            try:
                return self._create_tables_now(wait)
            except self.driver.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
            time.sleep(0.01)

    def _create_tables_now(self, wait: float) -> None:
        connection = self.driver.connect(self.path, timeout=wait, isolation_level=None)
        try:
            if schema.is_current(connection):
                return
            # In one transaction each: another process may be creating the very tables that are looked at.
            connection.execute("BEGIN")
            schema.check_ownership(connection)
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            if schema.check_ownership(connection):
                schema.create(connection)
            else:
                schema.check_current(connection)
            connection.execute("COMMIT")
        finally:
            connection.close()

    def set_aside(self, wait: float, reason: str, seen: tuple[int, int] | None, *, foreign: bool = False) -> None:
        """Move an unusable index out of the way, unless another process did it already and created a new one."""
        from filelock import FileLock, Timeout

        try:
            with FileLock(self.path.with_suffix(".lock"), timeout=wait):
                if self.identity() != seen:
                    return
                aside = self._free_name() if foreign else self.path.with_suffix(".damaged.sqlite")
                for ending in ("-wal", "-shm", ""):
                    with contextlib.suppress(FileNotFoundError):
                        os.remove(f"{aside}{ending}")
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(f"{self.path}{ending}", f"{aside}{ending}")
        except Timeout:
            raise IndexBusyError(
                f"Another process is setting the index {self.path} aside. Try again in a moment."
            ) from None
        except OSError as error:
            raise IndexUnavailableError(
                f"The index {self.path} cannot be used ({reason}) nor moved away: {error.strerror or error}. "
                "Close the programs that use it, then try again."
            ) from None
        self.notices.add(
            f"The index could not be used ({reason}). It was set aside as {aside.parent.name}/{aside.name}, and "
            "the memory files are indexed again."
        )

    def remove_damaged(self) -> list[str]:
        """Delete an index that was set aside as damaged, which has old texts. Return what of it cannot be deleted."""
        aside = self.path.with_suffix(".damaged.sqlite")
        files = [f"{aside}{ending}" for ending in ("", "-wal", "-shm") if os.path.lexists(f"{aside}{ending}")]
        for file in files:
            with contextlib.suppress(OSError):
                os.remove(file)
        left = [f"{aside.parent.name}/{os.path.basename(file)}" for file in files if os.path.lexists(file)]
        if files and not left:
            self.notices.add(
                f"{aside.parent.name}/{aside.name}, a damaged index that was set aside, was deleted: it had old texts."
            )
        return left

    def _free_name(self) -> Path:
        """Return a name beside the index that is not in use: a file of another program is never overwritten."""
        names = (self.path.with_suffix(f".foreign-{number}.sqlite") for number in itertools.count(1))
        return next(path for path in names if not os.path.lexists(path))


def make_hidden_folder(folder: Path) -> None:
    """Create ``.kipu/``, for its owner alone: it has texts of private files. Let git ignore its content."""
    if folder.is_symlink():
        raise FileExistsError(errno.EEXIST, "it is a symbolic link", str(folder))
    folder.mkdir(mode=0o700, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        from tempfile import mkstemp

        descriptor, whole = mkstemp(prefix=".gitignore.", dir=folder)  # so that no other process reads a part of it
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write("# Kipu's index: derived from the memory files, and rebuilt when it is deleted.\n*\n")
        os.replace(whole, ignore)


def make_plugin_folder(hidden: Path, name: str) -> Path:
    """Create and return the folder of a strategy's own in ``.kipu/``.

    :raises IndexUnavailableError: a symlink is in its place, which may lead out of the workspace.
    """
    folder = hidden / PLUGIN_FOLDERS / re.sub(r"[^A-Za-z0-9_-]", "_", name)
    for path in (hidden, folder.parent, folder):
        if path.is_symlink():
            raise IndexUnavailableError(f"{path} is a symbolic link. Kipu follows no link there: remove it.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
