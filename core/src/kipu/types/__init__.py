"""The contract with plugins: the data that flows through Kipu, and the protocols that plugins implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import bases, documents, memories, protocols, results
from .bases import *  # noqa: F403 (each module lists its public names once)
from .documents import *  # noqa: F403
from .memories import *  # noqa: F403
from .protocols import *  # noqa: F403
from .results import *  # noqa: F403

if TYPE_CHECKING:
    from .results import Vectors as Vectors

__all__ = bases.__all__ + documents.__all__ + memories.__all__ + protocols.__all__ + results.__all__
