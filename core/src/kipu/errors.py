"""Everything that Kipu raises on purpose.

Each class is one kind of mistake; each message says what happened, where, and what to do next::

    KipuError
    ├── ConfigurationError       an option that does not exist, or a value that cannot be
    ├── PluginError
    │   ├── PluginNotFoundError  a component or an option that no installed plugin provides
    │   ├── PluginClashError     two plugins that register one name
    │   ├── PluginFailedError    a plugin that raised while it was working
    │   └── EmbedderError        an embedder that cannot embed: no key, refused, no answer
    │       ├── EmbedderBusyError    one that may be able to in a moment
    │       └── TextTooLongError     texts that are longer than its model takes
    ├── WorkspaceError
    │   ├── WorkspaceNotFoundError   a workspace that is not there
    │   └── OutsideWorkspaceError    a path that leads out of the workspace
    ├── MemoryFileError          a single file that cannot be indexed
    ├── QueryError               a search that cannot be carried out as asked
    └── IndexUnavailableError    an index that can be neither read nor made
        └── IndexBusyError       an index that another process holds
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ConfigurationError",
    "EmbedderBusyError",
    "EmbedderError",
    "IndexBusyError",
    "IndexUnavailableError",
    "KipuError",
    "MemoryFileError",
    "OutsideWorkspaceError",
    "PluginClashError",
    "PluginError",
    "PluginFailedError",
    "PluginNotFoundError",
    "QueryError",
    "TextTooLongError",
    "WorkspaceError",
    "WorkspaceNotFoundError",
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


class WorkspaceError(KipuError):
    """Something is wrong with the workspace or with a path given for it."""

    exit_code = 2


class WorkspaceNotFoundError(WorkspaceError):
    """The workspace is not there, or is not a directory. Kipu never makes one by reading it."""


class OutsideWorkspaceError(WorkspaceError):
    """A path leads out of the workspace and out of the further ``paths`` of its configuration."""


class MemoryFileError(KipuError):
    """A single file that was named cannot be indexed: missing, a folder, not Markdown, or not text."""

    exit_code = 4


class QueryError(KipuError):
    """A search was asked for in a way that cannot be carried out, such as a negative number of results."""

    exit_code = 2


class IndexUnavailableError(KipuError):
    """The index can be neither read nor made: the disk is full, or the folder is read-only."""


class IndexBusyError(IndexUnavailableError):
    """Another process has been writing to the index for longer than we wait."""

    exit_code = 5
