"""``kipu doctor``: what this Python, this SQLite, these plugins and this index can and cannot do."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs
import click

from .. import __version__
from ..config import load_config
from ..errors import KipuError, PluginError
from ..index.damage import find_damaged
from ..index.database import Database
from ..index.file import INDEX_FILE
from ..notices import Notices
from ..plugins.kinds import KINDS
from ..sqlite import choose_driver
from ..workspace.paths import HIDDEN_FOLDER, MEMORY_FOLDER
from ..workspace.worktrees import main_worktree
from .common import load_plugins, open_memory, run, shared_options
from .output import Output, conflict, count, escape

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ..memory import Memory
    from ..types import Status

__all__ = ["doctor_command"]

_PENDING = "The next search indexes them. To see why one is not indexed: kipu index"


@attrs.frozen
class Finding:
    """One thing that was checked. ``state`` is ``ok``, ``hint`` or ``problem``; ``fix`` says what to do."""

    state: str
    what: str
    fix: str = ""


@click.command("doctor")
@shared_options
def doctor_command(output: Output, workspace: Path) -> int:
    """Explain what works here, what does not, and how to fix it. Changes nothing.

    The embedder is asked to embed one word.
    """
    findings = [*_python(), *_sqlite(), *_plugins(workspace), *_workspace(workspace, output)]
    if output.json:
        output.data(findings)
    else:
        for finding in findings:
            color = {"ok": "green", "hint": "yellow", "problem": "red"}[finding.state]
            output.line(f"{click.style(f'{finding.state:8}', fg=color)} {escape(finding.what)}")
            if finding.fix:
                output.line(f"         {escape(finding.fix)}")
    return 1 if any(finding.state == "problem" for finding in findings) else 0


def _python() -> Iterator[Finding]:
    yield Finding("ok", f"kipu-core {__version__}, Python {platform.python_version()} on {platform.system()}")
    encoding = sys.getfilesystemencoding().lower()
    if encoding != "utf-8":
        yield Finding("hint", f"file names are in {encoding}", "Set PYTHONUTF8=1 for names in every script.")


def _sqlite() -> Iterator[Finding]:
    driver = choose_driver()
    connection = driver.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE test USING fts5(text)")
        fts5 = True
    except driver.OperationalError:
        fts5 = False
    finally:
        connection.close()
    name = f"SQLite {driver.sqlite_version} by {driver.__name__}"
    if fts5:
        yield Finding("ok", f"{name}, with FTS5: search by keywords")
    else:
        yield Finding("problem", f"{name}, without FTS5: no search by keywords", "pip install pysqlite3")
    if not hasattr(driver.Connection, "enable_load_extension"):
        yield Finding(
            "hint",
            f"{driver.__name__} cannot load extensions: vectors are compared without sqlite-vec, which is slower",
            "pip install pysqlite3, or use a Python whose sqlite3 can load extensions",
        )


def _plugins(workspace: Path) -> Iterator[Finding]:
    plugins = load_plugins(workspace)
    for info in plugins.infos:
        name = f"{info.distribution} {info.version}: {', '.join(info.registers) or 'registers nothing'}"
        if info.state == "active" and not info.reason:
            yield Finding("ok", name)
        else:
            yield Finding("problem" if info.state == "broken" else "hint", f"{name}; {info.reason}")
    for kind, what in (("chunker", "nothing can be indexed"), ("strategy", "nothing can be searched")):
        if not plugins.names(kind):
            yield Finding("problem", f"no plugin with a {kind}: {what}", "pip install kipu")
    reasons = [info.reason for info in plugins.infos if info.reason]
    for problem in plugins.problems:
        if not any(reason in problem for reason in reasons):
            yield Finding("hint", problem)


def _workspace(workspace: Path, output: Output) -> Iterator[Finding]:
    async def work() -> tuple[Status, list[str], str | None, str, str, int]:
        async with database.reader() as connection:
            damaged = len(await find_damaged(connection))
        await database.close()
        async with open_memory(workspace, attrs.evolve(output, quiet=True)) as memory:
            status, wrong = await memory.status(), await memory.check()
            unusable = await memory.check_embedder() if status.embedder is not None else None
            return status, wrong, unusable, _no_embedder(memory), _no_filter(memory, status), damaged

    root = workspace.absolute()
    with suppress(KipuError):  # opening the memory reports it
        if load_config(root).files.worktrees == "shared":
            root = main_worktree(root)
    database = Database(root / HIDDEN_FOLDER / INDEX_FILE, Notices())
    try:
        if database.exists and (damage := database.file.damage()):
            yield Finding("problem", f"the index is damaged: {damage}", "kipu index --force")
            return
        status, wrong, unusable, no_embedder, no_filter, damaged = run(work())
    except KipuError as error:
        yield Finding("problem", f"the workspace {workspace} cannot be used")
        for line in str(error).split("\n"):
            yield Finding("problem", line)
        return
    for sentence in dict.fromkeys([*wrong, *([unusable] if unusable else [])]):
        yield Finding("problem", sentence)
    yield Finding("ok", f"workspace {status.workspace}: {count(status.files, 'file')}, {count(status.chunks, 'chunk')}")
    yield from _embedder(status, wrong, unusable, no_embedder)
    if no_filter:
        yield Finding("hint", "no write filter is in use: secrets are written as they are", no_filter)
    yield from _index(status, unusable)
    yield from (Finding("ok", sentence) for sentence in status.described)
    if damaged:
        yield Finding("problem", f"{count(damaged, 'vector')} in the index damaged, and ignored", "kipu index --force")


def _embedder(status: Status, wrong: list[str], unusable: str | None, no_embedder: str) -> Iterator[Finding]:
    if status.embedder is not None:
        if unusable is None:
            yield Finding("ok", f'embedder "{status.embedder}", strategy "{status.strategy}"')
        if status.pending_vectors:
            yield Finding("hint", f"{count(status.pending_vectors, 'chunk')} not embedded yet", "kipu index")
    elif no_embedder:
        yield Finding("hint", "no embedder is in use: searches match words only, not meaning", no_embedder)
    elif not wrong:
        yield Finding("ok", f'strategy "{status.strategy}", which uses no embedder')


def _no_embedder(memory: Memory) -> str:
    """Return why there is no embedder, if none is configured and the standard one is not available."""
    if memory.config.index.embedder is None:
        try:
            memory.plugins.find("embedder", KINDS["embedder"].standard[0])
        except PluginError as error:
            return str(error)
    return ""


def _no_filter(memory: Memory, status: Status) -> str:
    """Return how to use the standard write filter again, if none is in use. A broken one is a problem of its own."""
    if status.filters:
        return ""
    if memory.config.writing.filters is not None:
        return "To replace keys and passwords, remove filters = [] below [writing] from kipu.toml."
    name = KINDS["filter"].standard[0]
    try:
        memory.plugins.find("filter", name)
    except PluginError as error:
        return "" if memory.plugins.broken(KINDS["filter"].distribution(name)) else str(error)
    return ""


def _index(status: Status, unusable: str | None) -> Iterator[Finding]:
    if not os.path.exists(status.index_path):
        yield Finding("hint", "there is no index yet", "The first search creates it, or: kipu index")
    else:
        yield Finding("ok", f"the index {status.index_path}: {(status.index_bytes or 0) / 1e6:.1f} MB")
    folder = os.path.dirname(status.index_path)
    if not os.access(folder if os.path.isdir(folder) else status.workspace, os.W_OK):
        yield Finding("problem", f"{folder} cannot be written: changes are not indexed", "Make the folder writable.")
    if status.pending:
        yield Finding("hint", f"{count(len(status.pending), 'file')} new or changed", _PENDING)
    for file in status.skipped:
        is_folder = file.path == MEMORY_FOLDER or file.path.endswith("/")  # all that is in it is not found
        yield Finding("problem" if is_folder else "hint", f"skipped {file.path}", file.reason)
    for names in status.conflicts.items():
        yield Finding("hint", conflict(*names), "Merge them, and delete the copy.")
    for note in status.notices:
        if unusable is None or unusable not in note:
            yield Finding("hint", note)
    for missing in status.missing:
        yield Finding("hint", f"{missing} is missing", "Restore it, or remove it from the index: kipu index --prune")
