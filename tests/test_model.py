"""The offline model: its wheel, its files, and its vectors beside those of the original."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import subprocess
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

import kipu_model_minilm
from kipu_embedder_onnx import Onnx

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ROOT / "plugins" / "models" / "minilm"
FILES = {"LICENSE", "NOTICE", "SHA256SUMS", "__init__.py", "model.onnx", "py.typed", "sentence_bert_config.json"}


def test_the_wheel_of_the_model_is_small_and_has_everything_that_it_needs(wheels):
    (wheel,) = wheels.glob("kipu_model_minilm-*.whl")
    assert wheel.stat().st_size <= 30_000_000
    names = {Path(name).name for name in ZipFile(wheel).namelist() if name.startswith("kipu_model_minilm/")}
    assert names == FILES | {"tokenizer.json"}


def test_the_files_of_the_model_have_the_hashes_that_were_recorded():
    folder = kipu_model_minilm.path()
    for line in (folder / "SHA256SUMS").read_text("ascii").splitlines():
        digest, name = line.split("  ")
        # Git may give texts the line ends of the system.
        content = (folder / name).read_bytes()
        content = content if name in {"model.onnx", "tokenizer.json"} else content.replace(b"\r\n", b"\n")
        assert hashlib.sha256(content).hexdigest() == digest, name


def test_the_vectors_are_those_of_the_original():
    rows = json.loads((PROJECT / "making" / "reference.json").read_text("utf-8"))
    expected = np.array([np.frombuffer(base64.b64decode(row["vector"]), "<f2") for row in rows], np.float32)
    vectors = asyncio.run(Onnx().embed([row["text"] for row in rows], role="document"))
    assert (vectors * expected).sum(axis=1).min() >= 0.99


def test_the_model_is_not_in_git():
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a git repository")
    done = subprocess.run(["git", "ls-files", str(PROJECT)], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ".onnx" not in done.stdout
