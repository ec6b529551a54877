"""What the tests of the command line share: a workspace to stand in, and two ways of calling ``kipu``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from kipu.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributions import Site


@attrs.frozen
class Done:
    """How a call of ``kipu`` ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on stdout; more than one, or anything else beside it, is an error here."""
        return json.loads(self.out)


@pytest.fixture
def here(workspace: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a workspace with the standard plugins the current folder."""
    site.standard()
    monkeypatch.chdir(workspace)
    return workspace


@pytest.fixture
def kipu(here: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Call ``kipu`` in this process."""

    def kipu(*arguments: str) -> Done:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        captured = capsys.readouterr()
        return Done(ended.value.code or 0, captured.out, captured.err)  # type: ignore[arg-type]

    return kipu


@pytest.fixture
def process(here: Path, site: Site) -> Callable[..., Any]:
    """Start ``kipu`` as a process of its own; what it writes is bytes."""

    def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
        places = os.pathsep.join([str(site.folder), str(Path(__file__).parent.parent)])
        return subprocess.run(
            [sys.executable, "-c", "from kipu.cli import main; main()", *arguments],
            capture_output=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": places, **environment},
        )

    return process
