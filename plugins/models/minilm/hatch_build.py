"""Has the model made before it is packed or installed, where that has not happened yet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ModelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs build_model.py, which does nothing where the model is there and has the right hashes."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a wheel, an editable install or a source distribution is made."""
        subprocess.run([sys.executable, Path(self.root, "build_model.py")], check=True)
