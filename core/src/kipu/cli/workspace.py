"""Find the workspace of a command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..config import CONFIG_FILE
from ..errors import WorkspaceNotFoundError
from ..index.file import INDEX_FILE
from ..search.service import no_memory
from ..workspace.paths import HIDDEN_FOLDER, MEMORY_FOLDER, Workspace, is_memory_file_name
from . import ALIASES, COMMANDS

if TYPE_CHECKING:
    from ..memory import Memory

__all__ = ["WORKSPACE_VARIABLE", "find_workspace", "folder_to_make", "is_named", "require_memory"]

WORKSPACE_VARIABLE = "KIPU_WORKSPACE"

_MARKS = (CONFIG_FILE, HIDDEN_FOLDER, MEMORY_FOLDER)
_READING = {"search", "recall"}
_ADDING = {"remember", "flush", "add", "move"}


def find_workspace(name: str | None) -> Path:
    """Return the named workspace, else the nearest folder that is one, else the current folder."""
    if name is not None:
        if not name:
            raise click.UsageError("--workspace is empty. Give the path of a folder.")
        return Path(name)
    try:
        current = Path.cwd()
    except FileNotFoundError:
        raise WorkspaceNotFoundError("The current folder no longer exists. Change to another one: cd") from None
    nearest = None
    for folder in (current, *current.parents):
        if (folder / CONFIG_FILE).is_file() or (folder / HIDDEN_FOLDER).is_dir():
            if _is_trusted(folder, current):  # a source below memory/ may be called memory too
                return folder if nearest is None or folder / MEMORY_FOLDER in (nearest, *nearest.parents) else nearest
        elif nearest is None and _has_memory(folder) and _is_trusted(folder, current):
            nearest = folder
    return nearest or current


def _has_memory(folder: Path) -> bool:
    """Return whether a folder has a memory folder. One with files, and no Markdown among them, is a package of code."""
    try:
        with os.scandir(folder / MEMORY_FOLDER) as entries:
            files = [each.name for each in entries if not each.name.startswith(".") and not each.is_dir()]
    except OSError:
        return False
    return not files or any(map(is_memory_file_name, files))


def _is_trusted(folder: Path, current: Path) -> bool:
    """Return whether what makes a folder above the current one a workspace belongs to the user, as git asks it.

    Otherwise another user could choose, in /tmp for one, what is written where, and which servers get it.
    """
    owners = {0, current.stat().st_uid, *([os.geteuid()] if hasattr(os, "geteuid") else [])}
    places = [folder / name for name in _MARKS]
    return folder == current or {place.stat().st_uid for place in places if place.exists()} <= owners


def is_named() -> bool:
    """Return whether --workspace or the environment names the workspace."""
    source = click.get_current_context().get_parameter_source("workspace")
    return source in (click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT)


def require_memory(memory: Memory) -> None:
    """Raise WorkspaceNotFoundError if a command looks for a memory, or adds to one, where there is none."""
    root, files = memory.workspace, memory.config.files
    command = click.get_current_context().command_path.partition(" ")[2]  # of a plugin, perhaps with a group before it
    if command in _READING or command not in (*COMMANDS, *ALIASES):
        is_there = Workspace(root, files.paths).has_memory or (root / HIDDEN_FOLDER / INDEX_FILE).exists()
    else:
        is_there = command not in _ADDING or is_named() or any((root / name).exists() for name in _MARKS)
        is_there = is_there and not _is_memory_folder(root)
    if not is_there:
        raise WorkspaceNotFoundError(f"{no_memory(root)}{'' if is_named() else _foreign(root)}")


def _is_memory_folder(folder: Path) -> bool:
    """Return whether a folder is that of the memories of a workspace, and no workspace itself."""
    is_workspace = any((folder / name).exists() for name in _MARKS)
    return (
        folder.name == MEMORY_FOLDER
        and not is_workspace
        and any((folder.parent / name).exists() for name in _MARKS[:2])
    )


def _foreign(current: Path) -> str:
    """Return a hint at a folder above that would be the workspace if it belonged to the user."""
    for folder in current.parents:
        if any((folder / name).exists() for name in _MARKS) and not _is_trusted(folder, current):
            return f" {folder} belongs to another user. To use it all the same: -w {folder}"
    return ""


def folder_to_make(folder: Path | None, workspace: Path, default: Path) -> Path:
    """Return the folder in which a command makes something: its argument, or --workspace."""
    source = click.get_current_context().get_parameter_source("workspace")
    is_given = source is click.core.ParameterSource.COMMANDLINE
    if folder is not None and is_given:
        raise click.UsageError("The folder is named twice: give FOLDER or --workspace.")
    return folder or (workspace if is_given else default)
