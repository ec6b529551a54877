"""Everything that Kipu raises on purpose.

Each class is one kind of mistake; each message says what happened, where, and what to do next. The notices of the call
that failed are in ``__notes__``::

    KipuError
    ├── ConfigurationError       an option that does not exist, or an invalid value
    ├── PluginError
    │   ├── PluginNotFoundError  a component or an option that no installed plugin provides
    │   ├── PluginClashError     two plugins that register one name
    │   ├── PluginFailedError    a plugin that raised, or broke the contract
    │   ├── UnavailableError     a component that cannot answer now
    │   ├── EmbedderError        an embedder that cannot embed: no key, refused, no answer
    │   │   ├── EmbedderBusyError    a failure that may pass by itself
    │   │   └── TextTooLongError     texts that are longer than the model takes
    │   ├── AnnotatorError       an annotator that cannot annotate: no key, refused, no answer
    │   │   └── AnnotatorBusyError   a failure that may pass by itself
    │   └── FlusherError         a flusher that cannot distil: no key, refused, no answer
    │       ├── FlusherBusyError     a failure that may pass by itself
    │       └── ConversationTooLongError     messages that are longer than the model takes
    ├── WorkspaceError
    │   ├── WorkspaceNotFoundError   a workspace that does not exist
    │   ├── OutsideWorkspaceError    a path that leads out of the workspace
    │   └── OutsideScopeError        a file, a source or a chunk of another scope
    ├── MemoryFileError          a single file that cannot be indexed, read or written
    │   ├── EvergreenFileError       a file without a date, where only dated ones are written
    │   └── FileChangedError         a file that has changed since it was read
    ├── QueryError               a search, or a change, that is invalid as requested
    │   └── ChunkNotFoundError       a chunk that the index does not have
    ├── NotWrittenError          a distilled text that could not be written; it carries the text
    ├── WritingBusyError         memory files that another process is changing
    ├── BudgetExceededError      the daily budget of model calls or tokens is used up
    ├── MemoryClosedError        a memory that was used after it was closed
    ├── OtherEventLoopError      a memory that another event loop is using
    └── IndexUnavailableError    an index that can be neither read nor written
        └── IndexBusyError       an index that another process is writing to
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "AnnotatorBusyError",
    "AnnotatorError",
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
    "OtherEventLoopError",
    "OutsideScopeError",
    "OutsideWorkspaceError",
    "PluginClashError",
    "PluginError",
    "PluginFailedError",
    "PluginNotFoundError",
    "QueryError",
    "TextTooLongError",
    "UnavailableError",
    "WorkspaceError",
    "WorkspaceNotFoundError",
    "WritingBusyError",
]


class KipuError(Exception):
    """The base of all errors that Kipu raises on purpose. ``str(error)`` is meant for people."""

    exit_code = 1

    def __str__(self) -> str:
        return super().__str__().encode("utf-8", "backslashreplace").decode("utf-8")  # it may name any file


class ConfigurationError(KipuError):
    """An option that does not exist, or an invalid value: in ``kipu.toml``, in the environment or in Python."""

    exit_code = 3


# --- Plugins -------------------------------------------------------------------------------------------------------


class PluginError(KipuError):
    """A plugin is missing, ambiguous or at fault."""

    exit_code = 3


class PluginNotFoundError(PluginError):
    """No installed plugin provides the component or the option that was requested."""


class PluginClashError(PluginError):
    """Two plugins register the same name, and that name was requested."""


class PluginFailedError(PluginError):
    """A plugin raised, or broke the contract. The plugin's own exception is the ``__cause__``."""

    exit_code = 1


class UnavailableError(PluginError):
    """A component cannot answer now: its server is down, or its data is not ready.

    Components raise it with a sentence that says what to do. A search leaves the component out, sets ``degraded`` and
    passes the sentence on; the next search calls it again.
    """

    exit_code = 1


class _BusyError(Exception):
    """What errors have in common that may pass by themselves."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        seconds = float(min(retry_after, 1e9)) if isinstance(retry_after, (int, float)) else -1.0
        self.retry_after = seconds if 0 <= seconds < 1e9 else None


class EmbedderError(PluginError):
    """An embedder cannot embed: a missing or wrong key, a refused connection, no answer in time, a missing model.

    Embedders raise it with a sentence that says what to do. Indexing goes on, and searches use keywords only.
    """

    exit_code = 1


class EmbedderBusyError(_BusyError, EmbedderError):
    """An embedder cannot embed at the moment: a rate limit, or a fault of the server.

    :param retry_after: how many seconds the provider asks to wait; None if it does not say.
    """


class TextTooLongError(EmbedderError):
    """Texts are longer than the model takes. The kernel splits them and goes on.

    :param positions: which of the texts of this call; None if the embedder cannot tell.
    """

    def __init__(self, message: str, positions: Sequence[int] | None = None) -> None:
        super().__init__(message)
        self.positions = positions


class AnnotatorError(PluginError):
    """An annotator cannot annotate: a missing or wrong key, a refused connection, no answer in time, a missing model.

    Annotators raise it with a sentence that says what to do. The texts stay pending until the next indexing.
    """

    exit_code = 1


class AnnotatorBusyError(_BusyError, AnnotatorError):
    """An annotator cannot annotate at the moment: a rate limit, or a fault of the server.

    :param retry_after: how many seconds the provider asks to wait; None if it does not say.
    """


class FlusherError(PluginError):
    """A flusher cannot distil: a missing or wrong key, a refused connection, no answer in time, a missing model.

    Flushers raise it with a sentence that says what to do. Nothing is written.
    """

    exit_code = 1


class FlusherBusyError(_BusyError, FlusherError):
    """A flusher cannot distil at the moment: a rate limit, or a fault of the server.

    :param retry_after: how many seconds the provider asks to wait; None if it does not say.
    """


class ConversationTooLongError(FlusherError):
    """The messages of one call are longer than the model takes. The kernel splits them and goes on."""


# --- Workspaces and files ------------------------------------------------------------------------------------------


class WorkspaceError(KipuError):
    """Something is wrong with the workspace, or with a path in it."""

    exit_code = 2


class WorkspaceNotFoundError(WorkspaceError):
    """The workspace does not exist, or a command found no memory. Kipu never creates one by reading it."""

    exit_code = 3


class OutsideWorkspaceError(WorkspaceError):
    """A path leads out of the workspace and of the further ``paths`` of its configuration."""


class OutsideScopeError(WorkspaceError):
    """A memory with a scope was asked for a source, a file or a chunk of another scope."""


class MemoryFileError(KipuError):
    """A single file that was named cannot be indexed, read or written: missing, a folder, not Markdown, or not text."""

    exit_code = 4


class EvergreenFileError(MemoryFileError):
    """A file has no date in its name, and only dated files are written to here."""


class FileChangedError(MemoryFileError):
    """A file has changed since it was read. Nothing was changed."""


# --- Requests ------------------------------------------------------------------------------------------------------


class QueryError(KipuError):
    """A search or a change is invalid as requested, such as a negative number of results."""

    exit_code = 2


class ChunkNotFoundError(QueryError):
    """The index has no chunk of that name: its text was changed, moved or forgotten, or it never existed."""


class NotWrittenError(KipuError):
    """A text that was distilled from a conversation could not be written.

    :param text: the text, so that it is not lost with what it cost.
    """

    def __init__(self, message: str, text: str = "") -> None:
        super().__init__(message, text)  # both: so that the text survives pickling
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


class OtherEventLoopError(KipuError):
    """The memory is in use in another event loop, which is still running."""


class IndexUnavailableError(KipuError):
    """The index can be neither read nor written: the disk is full, or the folder is read-only."""


class IndexBusyError(IndexUnavailableError):
    """Another process has been writing to the index for longer than we wait."""

    exit_code = 5
