"""Read memory files."""

from __future__ import annotations

import hashlib
import time
from contextlib import closing
from typing import TYPE_CHECKING

import attrs

from ..types import SkippedFile
from ..workspace.reader import OpenFolder
from ..workspace.text import NotTextError, decode
from .compare import is_settled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..workspace.paths import FoundFile, Workspace


@attrs.frozen
class Content:
    """What a file contains: its SHA-256, and its text or why it has none. ``found`` has a stamp that can be trusted."""

    found: FoundFile
    hash: str
    text: str
    problem: str | None = None


def read_contents(workspace: Workspace, files: Sequence[FoundFile]) -> tuple[list[Content], list[SkippedFile]]:
    """Read files; of those that cannot be read, return why."""
    contents: list[Content] = []
    skipped: list[SkippedFile] = []
    with closing(OpenFolder()) as folder:
        for found in files:
            now = time.time_ns()
            try:
                data = workspace.read(found.real, folder)
            except FileNotFoundError:
                continue  # removed since the scan: the next run sees that
            except OSError as error:
                skipped.append(SkippedFile(found.path, f"cannot be read: {error.strerror or error}"))
                continue
            text, problem = "", None
            try:
                text = decode(data)
            except NotTextError as error:
                problem = str(error)
            stamped = found if is_settled(found, now) else found._replace(mtime_ns=0, ctime_ns=0)
            contents.append(Content(stamped, hashlib.sha256(data).hexdigest(), text, problem))
    return contents, skipped
