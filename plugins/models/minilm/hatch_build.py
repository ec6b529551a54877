"""A build hook that builds the model before the package is built or installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ModelHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs build_model.py, which does nothing if the model exists and has the right hashes."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the model before a wheel, an editable install or a source distribution."""
        subprocess.run([sys.executable, Path(self.root, "build_model.py")], check=True)
