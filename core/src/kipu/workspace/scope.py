"""Scopes: a memory that writes to, and sees, one source only.

A scope has an id, any text that is not blank: a user's number, an e-mail address, an emoji. Its source is a folder
below ``memory/`` that belongs to no other id, however the file system treats upper case and Unicode.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import ConfigurationError, OutsideScopeError, QueryError
from .paths import ARCHIVE, EXTERNAL, MEMORY_FOLDER, folders_above, is_memory_file_name, source_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_SAFE = re.compile(r"[a-z0-9](?:[a-z0-9_.@+-]{0,62}[a-z0-9_])?")
_RESERVED = {ARCHIVE, MEMORY_FOLDER, EXTERNAL}
# Windows has no files of these names, with any ending. https://learn.microsoft.com/windows/win32/fileio/naming-a-file
_DEVICES = {"con", "prn", "aux", "nul", *(f"{name}{digit}" for name in ("com", "lpt") for digit in range(10))}
_NO_FOLDER = re.compile(r'[/\\\0-\x1f\x7f<>:"|?*\ud800-\udfff]')


def label_of(scope: Any) -> str:
    """Return the source of a scope: its id if that is a safe folder name, else a readable part of it and a hash.

    :raises ConfigurationError: the id is no text, blank, or has a NUL character.
    """
    if not isinstance(scope, str) or not scope.strip() or "\0" in scope:
        raise ConfigurationError(
            f"scope must be the id of a scope, a text that is not blank and has no NUL character, not {scope!r}."
        )
    is_free = scope not in _RESERVED and scope.split(".", maxsplit=1)[0] not in _DEVICES
    # A folder with the name of a memory file would take the place of that file.
    if _SAFE.fullmatch(scope) and is_free and not is_memory_file_name(scope):
        return scope
    # 64 bits: an attacker who chooses ids would need about 2^64 tries for one with the folder of another.
    digest = hashlib.sha256(scope.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    plain = unicodedata.normalize("NFKD", scope).encode("ascii", "ignore").decode("ascii").lower()
    readable = re.sub("[^a-z0-9]+", "-", plain).strip("-")[:32].strip("-")
    return f"{readable or 'scope'}~{digest}"


def check_source(source: Any) -> str:
    """Return a source that may be written to: the name of a folder below ``memory/``, or ``memory`` itself.

    :raises QueryError: no folder can have that name, or it is reserved.
    """
    if not isinstance(source, str):
        raise QueryError(f"source must be the label of a source, not {source!r}.")
    if source == MEMORY_FOLDER:
        return source
    if not source or source != source.strip() or source.startswith(".") or source.endswith(".") or len(source) > 120:
        raise QueryError(f"{source!r} is no valid source: it must be the name of a folder below memory/.")
    if _NO_FOLDER.search(source) or source.split(".", maxsplit=1)[0].lower() in _DEVICES:
        raise QueryError(f"{source!r} is no valid source: it must be the name of a folder below memory/.")
    if source in _RESERVED:
        raise QueryError(f'The source "{source}" is reserved: choose another name.')
    return unicodedata.normalize("NFC", source)


@attrs.frozen
class Scope:
    """What one memory sees: everything if ``label`` is None, else one source and its archive.

    ``id`` is what the label was made from.
    """

    label: str | None = None
    id: str = ""

    @classmethod
    def of(cls, id: Any) -> Scope:
        """Return the scope with that id; None is everything.

        :raises ConfigurationError: the id is no text, blank, or has a NUL character.
        """
        return cls() if id is None else cls(label_of(id), id)

    @property
    def archive(self) -> str:
        """The label of its archive."""
        return ARCHIVE if self.label is None else f"{ARCHIVE}/{self.label}"

    def source(self, asked: str | None) -> str | None:
        """Return the source to search if ``asked`` was requested.

        :raises OutsideScopeError: it belongs to another scope.
        """
        if self.label is None or asked is None:
            plain = unicodedata.normalize("NFC", asked) if isinstance(asked, str) else asked
            return plain if self.label is None else self.label
        if asked == self.label:
            return asked
        if asked in (ARCHIVE, self.archive):
            return self.archive
        raise OutsideScopeError(
            f'This memory has the scope "{self.label}", and sees no other source. Open another memory for "{asked}".'
        )

    def sees(self, path: str) -> bool:
        """Return whether a file, by its path in Kipu, belongs to the scope."""
        return self.label is None or source_of(path) in (self.label, self.archive)

    def sees_source(self, source: str) -> bool:
        """Return whether a source belongs to the scope."""
        return self.label is None or source in (self.label, self.archive)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that belong to it; none if it is everything."""
        return () if self.label is None else (self.label, self.archive)

    def sees_folder(self, folder: str) -> bool:
        """Return whether a folder may contain files of the scope."""
        if self.label is None or self.sees(folder) or self.sees(f"{folder}/any.md"):
            return True
        own = f"{MEMORY_FOLDER}/{self.label}", f"{MEMORY_FOLDER}/{self.archive}"
        return any(folder in folders_above(path) for path in own)

    def check(self, path: str, named: object = None) -> None:
        """Raise OutsideScopeError unless the file of that path belongs to the scope.

        :param named: what the caller called it, for the message: it must not reveal where a link leads.
        """
        if not self.sees(path):
            name = path if named is None else str(named)
            raise OutsideScopeError(f'This memory has the scope "{self.label}", and {name} does not belong to it.')

    def seen(self, paths: Iterable[str]) -> list[str]:
        """Return those of the paths that belong to the scope."""
        return [path for path in paths if self.sees(path)]
