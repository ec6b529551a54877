"""What every part of one memory works with."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import attrs

from .errors import OutsideWorkspaceError
from .notices import Notices

if TYPE_CHECKING:
    from .components import Components
    from .config import MemoryConfig
    from .index.database import Database
    from .plugins.manager import Plugins
    from .workspace.paths import Workspace
    from .workspace.scope import Scope


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

    def locate(self, path: str | os.PathLike[str]) -> tuple[str, str]:
        """Return the path and the real path of a file that a caller names.

        :raises OutsideScopeError: it belongs to another scope. A link of that scope does not show where it leads.
        :raises OutsideWorkspaceError: it leads out of the workspace.
        """
        plain = self.workspace.plain_name_of(str(path))
        try:
            real = self.workspace.locate(path)
        except OutsideWorkspaceError:
            self.scope.check(plain, path)
            raise
        name = self.workspace.name_of(real)
        self.scope.check(name if os.path.isabs(plain) else plain, path)
        self.scope.check(name, path)
        return name, real
