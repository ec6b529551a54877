"""Everything that Kipu raises on purpose.

Each class is one kind of mistake; each message says what happened, where, and what to do next::

    KipuError
    ├── ConfigurationError       an option that does not exist, or a value that cannot be
    ├── PluginError
    │   ├── PluginNotFoundError  a component or an option that no installed plugin provides
    │   ├── PluginClashError     two plugins that register one name
    │   ├── PluginFailedError    a plugin that raised while it was working
    │   ├── EmbedderError        an embedder that cannot embed: no key, refused, no answer
    │   │   ├── EmbedderBusyError    one that may be able to in a moment
    │   │   └── TextTooLongError     texts that are longer than its model takes
    │   └── FlusherError         a flusher that cannot distil: no key, refused, no answer
    │       ├── FlusherBusyError     one that may be able to in a moment
    │       └── ConversationTooLongError     messages that are longer than its model takes
    ├── WorkspaceError
    │   ├── WorkspaceNotFoundError   a workspace that is not there
    │   ├── OutsideWorkspaceError    a path that leads out of the workspace
    │   └── OutsideScopeError        what belongs to another scope
    ├── MemoryFileError          a single file that cannot be indexed, read or written
    │   ├── EvergreenFileError       one that is not dated, where only dated ones are written
    │   └── FileChangedError         one that does not say any more what it said
    ├── QueryError               a search, or a change, that cannot be carried out as asked
    │   └── ChunkNotFoundError       a chunk that the index does not have
    ├── NotWrittenError          what was distilled and could not be written; it carries the text
    ├── WritingBusyError         memory files that another process is changing
    ├── BudgetExceededError      more calls or tokens of a model than a day may cost
    ├── MemoryClosedError        a memory that was used after it was closed
    └── IndexUnavailableError    an index that can be neither read nor made
        └── IndexBusyError       an index that another process holds
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BudgetExceededError",
    "ChunkNotFoundError",
    "ConfigurationError",
    "ConversationTooLongError",
    "EmbedderBusyError",
    "EmbedderError",
    "EvergreenFileError",
    "FileChangedError",
    "FlusherBusyError",
    "FlusherError",
    "IndexBusyError",
    "IndexUnavailableError",
    "KipuError",
    "MemoryClosedError",
    "MemoryFileError",
    "NotWrittenError",
    "OutsideScopeError",
    "OutsideWorkspaceError",
    "PluginClashError",
    "PluginError",
    "PluginFailedError",
    "PluginNotFoundError",
    "QueryError",
    "TextTooLongError",
    "WorkspaceError",
    "WorkspaceNotFoundError",
    "WritingBusyError",
]


class KipuError(Exception):
    """The base of all errors that Kipu raises on purpose. ``str(error)`` is meant for people."""

    exit_code = 1


class ConfigurationError(KipuError):
    """An option that does not exist, or whose value cannot be: in ``kipu.toml``, in the environment or in Python."""

    exit_code = 3


class PluginError(KipuError):
    """A plugin is missing, ambiguous or at fault."""

    exit_code = 3


class PluginNotFoundError(PluginError):
    """No installed plugin provides the component or the option that was asked for."""


class PluginClashError(PluginError):
    """Two plugins register the same name, and that name was asked for."""


class PluginFailedError(PluginError):
    """A plugin raised while it was working. The plugin's own exception is the ``__cause__``."""

    exit_code = 1


class EmbedderError(PluginError):
    """An embedder cannot embed: a missing or wrong key, a refused connection, no answer in time, a model it lacks.

    Embedders raise it with a sentence that says what to do. Indexing and searching go on by words.
    """

    exit_code = 1


class EmbedderBusyError(EmbedderError):
    """An embedder cannot embed at the moment: a rate limit, or a fault of the server's.

    :param retry_after: how many seconds the provider asks to wait; None where it does not say.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TextTooLongError(EmbedderError):
    """Texts are longer than the model takes. The kernel splits them and goes on.

    :param positions: which of the texts of this call; None where the embedder cannot tell.
    """

    def __init__(self, message: str, positions: Sequence[int] | None = None) -> None:
        super().__init__(message)
        self.positions = positions


class FlusherError(PluginError):
    """A flusher cannot distil: a missing or wrong key, a refused connection, no answer in time, a model it lacks.

    Flushers raise it with a sentence that says what to do. Nothing is written, and the conversation is as it was.
    """

    exit_code = 1


class FlusherBusyError(FlusherError):
    """A flusher cannot distil at the moment: a rate limit, or a fault of the server's.

    :param retry_after: how many seconds the provider asks to wait; None where it does not say.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ConversationTooLongError(FlusherError):
    """The messages of one call are longer than the model takes. The kernel cuts them into parts and goes on."""


class WorkspaceError(KipuError):
    """Something is wrong with the workspace or with a path given for it."""

    exit_code = 2


class WorkspaceNotFoundError(WorkspaceError):
    """The workspace is not there, or is not a directory. Kipu never makes one by reading it."""


class OutsideWorkspaceError(WorkspaceError):
    """A path leads out of the workspace and out of the further ``paths`` of its configuration."""


class OutsideScopeError(WorkspaceError):
    """A memory with a scope was asked for what belongs to another one: a source, a file or a chunk."""


class MemoryFileError(KipuError):
    """A single file that was named cannot be indexed, read or written: missing, a folder, not Markdown, or not text."""

    exit_code = 4


class EvergreenFileError(MemoryFileError):
    """A file is not dated, and what was to be written goes into dated files only."""


class FileChangedError(MemoryFileError):
    """A file does not say any more what it said when the change was asked for. Nothing was changed."""


class QueryError(KipuError):
    """A search or a change was asked for in a way that cannot be carried out, such as a negative number of results."""

    exit_code = 2


class ChunkNotFoundError(QueryError):
    """The index has no chunk of that name: its text was changed, moved or forgotten meanwhile, or it never was."""


class NotWrittenError(KipuError):
    """What was distilled from a conversation could not be written.

    :param text: the text, so that it is not lost with what it cost.
    """

    def __init__(self, message: str, text: str = "") -> None:
        super().__init__(message, text)  # both: so the text is also there in another process
        self.text = text

    def __str__(self) -> str:
        return str(self.args[0])


class WritingBusyError(KipuError):
    """Another process has been changing memory files for longer than we wait. Nothing was changed."""

    exit_code = 5


class BudgetExceededError(KipuError):
    """The calls or tokens that models may cost on one day are used up. Nothing was sent."""


class MemoryClosedError(KipuError):
    """A memory was used after it was closed."""

    exit_code = 2


class IndexUnavailableError(KipuError):
    """The index can be neither read nor made: the disk is full, or the folder is read-only."""


class IndexBusyError(IndexUnavailableError):
    """Another process has been writing to the index for longer than we wait."""

    exit_code = 5
