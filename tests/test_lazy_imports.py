"""What starts fast stays fast: the heavy modules that neither importing Kipu nor asking it for help may load."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Each costs tens of milliseconds or more, and is imported where it is needed.
HEAVY = {"numpy", "litellm", "torch", "onnxruntime", "sqlite_vec", "fastapi", "rich", "cattrs", "pathspec", "yaml"}

# What `import kipu` does not load either: an agent's program may never use it.
HEAVY_FOR_IMPORT = HEAVY | {"asyncio", "aiosqlite", "attrs", "click", "pluggy", "sqlite3"}


def loaded_by(code: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after running ``code``."""
    return {name.partition(".")[0] for name in modules_loaded_by(code)}


def modules_loaded_by(code: str) -> set[str]:
    program = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint('loaded:', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, encoding="utf-8")
    return set(done.stdout.rpartition("loaded:")[2].split())


def test_importing_kipu_loads_nothing_heavy():
    assert not loaded_by("import kipu") & HEAVY_FOR_IMPORT


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["search", "--help"]], ids=" ".join)
def test_asking_for_help_loads_nothing_heavy(arguments):
    code = f"from kipu.cli import main; main({arguments!r})"
    assert not loaded_by(code) & HEAVY


def test_the_mark_of_a_plugin_loads_nothing_heavy():
    assert not loaded_by("from kipu import hookimpl") & HEAVY


def test_the_plugin_for_pytest_loads_nothing_before_a_fixture_is_used():
    loaded = modules_loaded_by("import kipu.testing.fixtures")
    assert {name for name in loaded if name.startswith("kipu")} == {"kipu", "kipu.testing", "kipu.testing.fixtures"}
    assert not loaded & {"aiosqlite", "attrs", "numpy"}
