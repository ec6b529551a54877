"""Take back a change of memory files."""

from __future__ import annotations

import asyncio
import difflib
from datetime import datetime
from typing import TYPE_CHECKING

from ..types import Change, Listing
from ..workspace.text import NotTextError, decode
from .history import UNDONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..workspace.paths import Workspace
    from .history import History, Record
    from .step import FileChange
    from .writer import Writer


async def undo(writer: Writer, name: str | None, *, dry_run: bool) -> Change:
    """Take back a change. See `kipu.Memory.undo`."""
    history = writer.transactions.history
    async with writer.locked():
        record = await asyncio.to_thread(history.find, name)
        changes = await asyncio.to_thread(history.revert, record)
        diff = await asyncio.to_thread(_diff, writer.context.workspace, changes)
        undone_by = None
        if not dry_run:
            kind = record.kind.removeprefix(UNDONE) if record.kind.startswith(UNDONE) else UNDONE + record.kind
            undone_by = await writer.commit(*changes, kind=kind, undoes=record.name)
            await writer.index()
    return _change(history, record, diff, undone_by)


async def list_changes(writer: Writer) -> Listing[Change]:
    """Return the changes that can be taken back. See `kipu.Memory.changes`."""
    history = writer.transactions.history
    undoable = (each for each in history.records() if each.is_undoable)
    return await asyncio.to_thread(lambda: Listing(_change(history, each) for each in undoable))


def _change(history: History, record: Record, diff: str = "", undone_by: str | None = None) -> Change:
    paths = tuple(map(history.name_of, record.files))
    return Change(record.name, record.kind, datetime.fromisoformat(record.time), paths, diff, undone_by)


def _diff(workspace: Workspace, changes: Sequence[FileChange]) -> str:
    return "\n".join(line for change in changes for line in _diff_file(workspace.name_of(change.real), change))


def _diff_file(name: str, change: FileChange) -> Iterator[str]:
    old, new = ("/dev/null" if data is None else name for data in (change.before, change.after))
    return difflib.unified_diff(_lines(change.before), _lines(change.after), old, new, lineterm="")


def _lines(data: bytes | None) -> list[str]:
    try:
        text = decode(data or b"")
    except NotTextError:
        text = (data or b"").decode("utf-8", "replace")
    return text.removesuffix("\n").split("\n") if text else []
