"""The kernel runs without its services: indexing, plugins, configuration and searches by words need none of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_budget import KERNEL, SERVICES

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parents[1] / "core/tests"
# The tests of the kernel proper.
KERNEL_TESTS = (
    "index",
    "indexing",
    "plugins",
    "search/test_pipeline.py",
    "search/test_reader.py",
    "search/test_service.py",
    "search/test_snippets.py",
    "test_config.py",
    "test_memory.py",
    "workspace/test_scan.py",
    "workspace/test_text.py",
)


def test_the_tests_of_the_kernel_pass_where_there_is_nothing_else(tmp_path):
    shutil.copytree(KERNEL, tmp_path / "kipu", ignore=shutil.ignore_patterns("__pycache__"))
    for name in SERVICES:
        path = tmp_path / "kipu" / name
        shutil.rmtree(path) if name.endswith("/") else path.unlink()
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", "import kipu.keeping"], env=environment, check=False).returncode
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow and not services", "-p", "no:cacheprovider"]
        + [str(TESTS / name) for name in KERNEL_TESTS],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-10_000:]
