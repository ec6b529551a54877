"""What users get: the wheels, built here, installed into environments that have nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "memory"
    folder.mkdir()
    (folder / "decisions.md").write_text("# Decisions\n\nWe use Redis as a cache.\n", "utf-8")
    return tmp_path


def test_every_distribution_has_its_wheel(wheels, projects):
    assert len(list(wheels.glob("kipu*.whl"))) == len(projects)


def test_the_wheel_of_the_kernel_has_its_data_and_says_that_it_is_typed(wheels):
    (wheel,) = wheels.glob("kipu_core-*.whl")
    packed = {name for name in ZipFile(wheel).namelist() if name.startswith("kipu/")}
    source = ROOT / "core/src"
    files = [path for path in source.rglob("*") if path.suffix in {".py", ".pyi", ".md", ".typed", ".zlib", ".LICENSE"}]
    assert packed == {path.relative_to(source).as_posix() for path in files}
    assert "kipu/py.typed" in packed


def test_the_wheel_of_the_root_has_no_code(wheels):
    (wheel,) = wheels.glob("kipu-[0-9]*.whl")
    assert all(".dist-info/" in name for name in ZipFile(wheel).namelist())


def test_the_installed_command_tells_its_version(everything, tmp_path):
    done = everything.kipu("--version", cwd=tmp_path)
    assert done.returncode == 0
    assert "0.1.0" in done.stdout


def test_the_installed_demo_answers_questions(everything, tmp_path):
    done = everything.kipu("demo", "demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "memory/" in done.stdout + done.stderr


def test_the_installed_command_searches(everything, workspace):
    done = everything.kipu("search", "why redis", "--json", cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert "memory/decisions.md" in json.dumps(json.loads(done.stdout))


def test_the_kernel_alone_says_what_to_install(kernel_alone, workspace):
    done = kernel_alone.kipu("search", "why redis", cwd=workspace)
    assert done.returncode == 3
    assert "pip install kipu" in done.stderr
    assert "Traceback" not in done.stderr
