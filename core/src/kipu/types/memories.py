"""What is written, and what comes of it: messages and what is distilled of them, notes, places and receipts.

All of it is public in `kipu.types`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import attrs

__all__ = [
    "Change",
    "Compacted",
    "Distillation",
    "Filtered",
    "Flushed",
    "Message",
    "Note",
    "Place",
    "Receipt",
    "Trace",
]


@attrs.frozen
class Filtered:
    """A text as a `kipu.types.WriteFilter` lets it be written, and sentences for people about what it changed.

    The sentences say what was changed and where, and never the text that was there. ``secret`` is true where
    something was taken out that must be written nowhere: the name of a file with such a thing in it is refused.
    """

    text: str
    notices: Sequence[str] = ()
    secret: bool = False


@attrs.frozen
class Message:
    """What one side said in a conversation. ``role`` is ``user``, ``assistant``, ``system`` or ``tool``."""

    role: str
    text: str


@attrs.frozen
class Distillation:
    """What a model answered when it was asked for what is worth keeping.

    ``complete`` is false where the answer was cut off because it became too long. ``tokens`` is how many the call cost,
    in and out; 0 where the provider does not say.
    """

    text: str
    complete: bool = True
    tokens: int = 0


@attrs.frozen
class Place:
    """Some lines of a memory file, from ``start_line`` to ``end_line``, both included.

    ``similarity`` is how much they have in common with another text, from 0 to 1, where that was asked.
    """

    path: str
    start_line: int
    end_line: int
    similarity: float = 1.0

    def __str__(self) -> str:
        lines = f"{self.start_line}-{self.end_line}" if self.end_line > self.start_line else f"{self.start_line}"
        return f"{self.path}:{lines}"


@attrs.frozen
class Note:
    """What was written, and where; ``text`` is what the file has there now.

    ``chunk`` is the name of its chunk, and None where that has its neighbours too: then it is named by its lines,
    ``str(note.place)``. ``duplicate_of`` is where the same was written before: then `Memory.remember` writes nothing,
    and the lines are those of that place, while `Memory.edit` makes a copy. ``similar`` are places that say nearly the
    same, which are kept. ``id`` is the entry's where it has one. ``replaced`` is what an edit replaced, empty if that
    was the same. ``change`` names the change for `Memory.undo`, and is None if a file of it is outside the workspace.
    ``notices`` are sentences for people, such as what was redacted.
    """

    path: str
    start_line: int
    end_line: int
    text: str
    chunk: str | None = None
    duplicate_of: Place | None = None
    similar: Sequence[Place] = ()
    id: str | None = None
    replaced: str = ""
    change: str | None = None
    notices: Sequence[str] = ()

    @property
    def place(self) -> Place:
        """Where it stands."""
        return Place(self.path, self.start_line, self.end_line)


@attrs.frozen
class Trace:
    """How often a forgotten text was in one place, such as an index, before and after."""

    place: str
    before: int
    after: int


@attrs.frozen
class Receipt:
    """Where a forgotten text was, and evidence that it is not there any more.

    ``sha256`` is that of the text, in UTF-8, so that the receipt proves what it is about without saying it.
    ``elsewhere`` are other places of the memory that say the same, which were left: forget them too, or keep them.
    """

    path: str
    start_line: int
    end_line: int
    sha256: str
    traces: Sequence[Trace]
    elsewhere: Sequence[Place] = ()
    notices: Sequence[str] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing holds the text any more."""
        return not self.elsewhere and not any(trace.after for trace in self.traces)


@attrs.frozen
class Change:
    """A change that Kipu made of memory files, and that `Memory.undo` can take back, or has.

    ``kind`` is ``edit``, ``move``, ``remember``, ``flush`` or ``compact``, after ``undo`` for a change that took back
    such a change. ``diff`` is what taking it back does to the files. ``undone_by`` is the name of the change that took
    it back; None if it was not taken back.
    """

    name: str
    kind: str
    time: datetime
    paths: Sequence[str]
    diff: str = ""
    undone_by: str | None = None
    notices: Sequence[str] = ()


@attrs.frozen
class Flushed:
    """What was distilled of a conversation and remembered: a list in Markdown, the file, and a note for each item.

    ``change`` names the change for `Memory.undo`. Of a dry run, ``entries`` is empty: nothing was written.
    """

    text: str
    path: str
    entries: Sequence[Note] = ()
    change: str | None = None
    notices: Sequence[str] = ()

    def __str__(self) -> str:
        return self.text


@attrs.frozen
class Compacted:
    """What became of dated files: the summary that took their place, and where the originals are now, by their path.

    ``change`` names the change for `Memory.undo`. Of a dry run, nothing was written and moved: this is what would be.
    """

    path: str
    text: str
    archived: Mapping[str, str]
    change: str | None = None
    notices: Sequence[str] = ()

    def __str__(self) -> str:
        return self.text
