"""The contract with plugins: the data that flows through Kipu, and the protocols that plugins implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import bases, documents, memories, protocols, reports, results
from .bases import *  # noqa: F403 (each module lists its public names once)
from .documents import *  # noqa: F403
from .memories import *  # noqa: F403
from .protocols import *  # noqa: F403
from .reports import *  # noqa: F403
from .results import *  # noqa: F403

if TYPE_CHECKING:
    from types import ModuleType

    from .results import Vectors as Vectors

__all__ = bases.__all__ + documents.__all__ + memories.__all__ + protocols.__all__
__all__ += reports.__all__ + results.__all__ + ["sqlite_driver"]


def sqlite_driver() -> ModuleType:
    """Return the module that connections come from: ``sqlite3`` if it can load extensions, else ``pysqlite3``.

    Without ``pysqlite3``, it is ``sqlite3`` in any case. For a strategy that loads an extension, or catches errors of
    SQLite: each module has exceptions of its own.
    """
    from ..sqlite import choose_driver

    return choose_driver()
