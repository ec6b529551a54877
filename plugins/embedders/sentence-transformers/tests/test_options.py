"""Tests without a model: options, identity, and messages about missing parts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kipu import Memory
from kipu.errors import ConfigurationError, EmbedderError
from kipu_embedder_sentence_transformers import SentenceTransformers

NAME = "intfloat/multilingual-e5-small"


def make_model(folder: Path, weights: bytes = b"weights") -> Path:
    """Create a folder that looks like that of a model."""
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"hidden_size": 8}), "utf-8")
    (folder / "1_Pooling/config.json").write_text("{}", "utf-8")
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def identity(folder: Path) -> str:
    return SentenceTransformers(str(folder)).identity


def write(workspace: Path, options: str) -> None:
    (workspace / "memory").mkdir()
    (workspace / "memory/notes.md").write_text("We chose Redis for sessions.\n", "utf-8")
    (workspace / "kipu.toml").write_text(f'[index.embedder]\nuse = "sentence-transformers"\n{options}\n', "utf-8")


# --- identity ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "sentence-transformers:sentence-transformers/all-MiniLM-L6-v2"),
        ({"model": NAME}, f"sentence-transformers:{NAME}"),
        ({"model": NAME, "document_prompt": "passage: "}, f"sentence-transformers:{NAME} document_prompt='passage: '"),
        ({"model": NAME, "document_prompt": ""}, f"sentence-transformers:{NAME} document_prompt=''"),
        ({"model": NAME, "query_prompt": "query: ", "device": "cpu", "batch_size": 4}, f"sentence-transformers:{NAME}"),
        ({"model": NAME, "languages": ["en", "zh"]}, f"sentence-transformers:{NAME}"),
    ],
)
def test_the_identity_is_what_decides_the_vectors_that_are_kept(options, expected):
    assert SentenceTransformers(**options).identity == expected


def test_a_folder_is_known_by_what_is_in_it_wherever_it_is(tmp_path):
    here, there = make_model(tmp_path / "here"), make_model(tmp_path / "there/deeper")
    assert identity(here) == identity(there)
    assert str(tmp_path) not in identity(here)


def test_what_changes_no_vector_does_not_change_the_identity_of_a_folder(tmp_path):
    folder = make_model(tmp_path / "model")
    before = identity(folder)
    (folder / "README.md").write_text("A model.", "utf-8")
    (folder / ".git").mkdir()
    (folder / ".git/config.json").write_text("{}", "utf-8")
    (folder / "onnx").mkdir()
    (folder / "onnx/config.json").write_text("{}", "utf-8")
    assert identity(folder) == before


@pytest.mark.parametrize("name", ["config.json", "1_Pooling/config.json", "model.safetensors"])
def test_what_may_change_vectors_changes_the_identity_of_a_folder(tmp_path, name):
    folder = make_model(tmp_path / "model")
    before = identity(folder)
    (folder / name).write_bytes(b'{"other": true}')
    assert identity(folder) != before


@pytest.mark.parametrize("position", [0, 1_500_000, 2_999_999])
def test_other_weights_of_the_same_size_change_the_identity_of_a_folder(tmp_path, position):
    weights = bytes(3_000_000)
    trained = weights[:position] + b"\x01" * 100_000 + weights[position + 100_000 :]
    one = make_model(tmp_path / "one", weights)
    other = make_model(tmp_path / "other", trained[: len(weights)])
    assert identity(one) != identity(other)


def test_a_folder_without_a_model_is_reported(tmp_path):
    with pytest.raises(EmbedderError, match="has no model in it: neither"):
        _ = identity(tmp_path)


@pytest.mark.parametrize("path", ["/nowhere/model", "./nowhere/model", "~/nowhere/model", "no such model", "a/b/c"])
def test_a_path_without_a_folder_is_reported(path):
    with pytest.raises(EmbedderError, match=f"There is no folder .*{Path(path).name}, and a name on the Hugging Face"):
        _ = SentenceTransformers(path).identity


# --- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ('model = ""', "model must be a name on the hub"),
        ("model = 5", "model"),
        ("batch_size = 0", "batch_size"),
        ('languages = "en"', "languages: must be a list"),
        ("query_prompt = 1", "query_prompt"),
        ("trust_remote_code = true", 'no option "trust_remote_code"'),
    ],
)
async def test_an_invalid_option_in_kipu_toml_is_reported(tmp_path, options, message):
    write(tmp_path, options)
    async with Memory(tmp_path) as memory:
        with pytest.raises(ConfigurationError, match=message):
            await memory.reindex()


def test_a_missing_library_is_one_sentence_that_says_what_to_install():
    program = """
import asyncio, sys
from kipu.errors import EmbedderError
from kipu_embedder_sentence_transformers import SentenceTransformers
assert not {"torch", "transformers", "sentence_transformers", "numpy"} & set(sys.modules)
sys.modules["sentence_transformers"] = None
try:
    asyncio.run(SentenceTransformers().embed(["text"], role="query"))
except EmbedderError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("sentence-transformers cannot be imported: ")
    assert done.stdout.endswith(" pip install kipu-embedder-sentence-transformers\n")
    assert not done.stderr
