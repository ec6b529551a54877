"""Check the arguments of public methods for what no path, no name and no number can be, before any work begins."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PATHS = {"path", "file", "to", "explain_path"}
_NAMES = {
    "change": "the name of a change",
    "chunk": "the name of a chunk, as a search returns it",
    "embedder": "the name of an embedder",
    "strategy": "the name of a strategy",
    "id": "the id of an entry",
    "supersedes": "an id, a chunk, or a path and lines such as memory/a.md:3-4",
}


def check_arguments(values: Mapping[str, Any]) -> None:
    """Check arguments by their names; None stands for one that is not given.

    :raises QueryError: a path is none, a name is not valid Unicode, or a number has more than 64 bits.
    """
    for name, value in values.items():
        if isinstance(value, int) and value.bit_length() > 64:
            raise QueryError(f"{name} is too large: a number of {value.bit_length():,} bits.")
        if name in _PATHS and not isinstance(os.fspath(value) if isinstance(value, os.PathLike) else value, str | None):
            raise QueryError(f"{name} must be a path, not {type(value).__name__}.")
        if name in _NAMES and value is not None and not isinstance(value, str):
            raise QueryError(f"{name} must be {_NAMES[name]}, not {value!r}.")
        if name in _NAMES and value and value.encode("utf-8", "replace").decode("utf-8") != value:
            raise QueryError(f"{name} must be {_NAMES[name]} in valid Unicode, not {value!r}.")
