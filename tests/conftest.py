"""What the tests of this folder share: the wheels, built once, and environments to install them into."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).resolve().parents[1]
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


@attrs.frozen
class Environment:
    """A virtual environment with some of the wheels in it."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Environment:
        """Make an empty one. pip of this environment installs into that one."""
        venv.create(folder, with_pip=False, symlinks=os.name != "nt")
        return cls(folder)

    @property
    def scripts(self) -> Path:
        return self.folder / ("Scripts" if os.name == "nt" else "bin")

    def install(self, wheels: Path, *names: str) -> None:
        python = self.scripts / "python"
        subprocess.run([*PIP, "--python", str(python), "install", "--find-links", str(wheels), *names], check=True)

    def run(self, command: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run an installed command, away from this repository and from its configuration."""
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("KIPU_", "PYTHON", "PYTEST"))
        }
        installed = shutil.which(command, path=self.scripts)
        assert installed is not None
        return subprocess.run(
            [installed, *arguments],
            cwd=cwd,
            env=clean,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )

    def kipu(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return self.run("kipu", *arguments, cwd=cwd)


def build_wheels(projects: list[Path], folder: Path) -> None:
    """Build the wheels of projects into a folder, with the build back ends that are installed here."""
    names = [str(project) for project in projects]
    subprocess.run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, *names], check=True)


@pytest.fixture(scope="session")
def projects() -> list[Path]:
    """Return the folders of all distributions of this repository."""
    return [ROOT, ROOT / "core", *sorted(path.parent for path in ROOT.glob("plugins/*/*/pyproject.toml"))]


@pytest.fixture(scope="session")
def wheels(projects: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a folder with the wheels of all distributions of this repository."""
    folder = tmp_path_factory.mktemp("wheels")
    build_wheels(projects, folder)
    return folder


@pytest.fixture(scope="session")
def example_projects() -> list[Path]:
    """Return the folders of the plugins in ``examples/``."""
    return sorted(path.parent for path in ROOT.glob("examples/*/pyproject.toml"))


@pytest.fixture(scope="session")
def everything(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Install what ``pip install kipu`` gives."""
    made = Environment.make(tmp_path_factory.mktemp("everything"))
    made.install(wheels, "kipu")
    return made


@pytest.fixture(scope="session")
def kernel_alone(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Install what ``pip install kipu-core`` gives."""
    made = Environment.make(tmp_path_factory.mktemp("kernel"))
    made.install(wheels, "kipu-core")
    return made


@pytest.fixture(scope="session")
def with_examples(wheels: Path, example_projects: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Install what ``pip install kipu`` gives, the plugins of ``examples/``, and pytest to run their tests."""
    folder = tmp_path_factory.mktemp("example-wheels")
    build_wheels(example_projects, folder)
    made = Environment.make(tmp_path_factory.mktemp("with-examples"))
    made.install(wheels, "kipu", "pytest", *(str(wheel) for wheel in sorted(folder.glob("*.whl"))))
    return made
