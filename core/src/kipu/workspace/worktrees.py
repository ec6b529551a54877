"""Find the main worktree of a linked one, by the files that git keeps of it: ``gitrepository-layout(5)``."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import ConfigurationError
from .reader import read_regular

_MOST_BYTES = 10_000


def main_worktree(folder: Path) -> Path:
    """Return the same folder in the main worktree of its git repository; ``folder`` itself if that is not a linked one.

    :raises ConfigurationError: the repository does not know the worktree, or has no main one.
    """
    root = Path(os.path.realpath(folder))
    top = next((above for above in (root, *root.parents) if os.path.lexists(above / ".git")), root)
    try:
        git = _follow(top, ".git", "gitdir: ")
        common, back = _follow(git, "commondir"), _follow(git, "gitdir")
    except (OSError, ValueError):  # a repository or a submodule of its own, or none
        return folder
    # An archive may come with a file .git: only what the repository itself has on record counts.
    if common.name != ".git" or git.parent != common / "worktrees" or back != top / ".git":
        raise ConfigurationError(
            f'files.worktrees is "shared", but the repository {common} has no main worktree, or none at {top}. If that '
            "was moved: git worktree repair"
        )
    return common.parent / root.relative_to(top)


def _follow(folder: Path, name: str, prefix: str = "") -> Path:
    """Return the real path that a file of git has, relative to its folder."""
    text = os.fsdecode(read_regular(folder / name, _MOST_BYTES)).rstrip("\n")
    return Path(os.path.realpath(folder / text.removeprefix(prefix)))
