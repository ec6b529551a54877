"""What every part of one memory works with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from .notices import Notices

if TYPE_CHECKING:
    from .components import Components
    from .config import MemoryConfig
    from .index.database import Database
    from .plugins.manager import Plugins
    from .workspace.paths import Workspace
    from .workspace.scope import Scope

__all__ = ["Context"]


@attrs.frozen
class Context:
    """The configuration of a memory, its files, its index, its plugins and the components that it uses.

    ``scope`` is the part of the workspace that the memory sees. ``notices`` collects sentences for people.
    """

    config: MemoryConfig
    workspace: Workspace
    database: Database
    plugins: Plugins
    components: Components
    scope: Scope
    notices: Notices = attrs.field(factory=Notices)
