"""The embedder with models in folders: small ones, made here of the packaged one's files."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import kipu_model_minilm
from kipu.errors import ConfigurationError, EmbedderError, TextTooLongError
from kipu_embedder_onnx import Onnx
from kipu_embedder_onnx.folders import ModelFolder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Copy the packaged model to a folder, in the layout of the hub."""
    made = tmp_path / "model"
    (made / "onnx").mkdir(parents=True)
    shutil.copy(kipu_model_minilm.path() / "model.onnx", made / "onnx" / "model.onnx")
    tokenizer = json.loads((kipu_model_minilm.path() / "tokenizer.json").read_text("utf-8"))
    tokenizer["truncation"] = {"max_length": 128, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    (made / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    write(made / "config.json", model_type="bert", max_position_embeddings=512)
    return made


def write(path: Path, **content: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content), "utf-8")


def said(folder: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        _ = Onnx(str(folder)).identity
    return str(caught.value)


async def test_a_folder_gives_the_vectors_of_its_model(folder):
    texts = ["Ana is allergic to peanuts.", "kitten " * 200]
    own, packaged = await Onnx(str(folder)).embed(texts, role="document"), await Onnx().embed(texts, role="document")
    assert np.allclose(own, packaged, atol=1e-6)


def test_the_identity_changes_with_the_files_and_not_with_the_place(folder, tmp_path):
    moved, other = tmp_path / "moved", tmp_path / "other"
    shutil.copytree(folder, moved)
    shutil.copytree(folder, other)
    write(other / "sentence_bert_config.json", max_seq_length=100)
    assert Onnx(str(moved)).identity == Onnx(str(folder)).identity
    assert Onnx(str(other)).identity != Onnx(str(folder)).identity
    assert Onnx(str(folder)).languages is None
    assert Onnx(str(folder), languages=["de", "en"]).languages == ["de", "en"]


async def test_prompts_come_from_the_files_or_from_the_options(folder):
    write(folder / "config_sentence_transformers.json", prompts={"query": "query: ", "passage": "passage: "})
    plain, texts = Onnx(), ["a cat"]
    for embedder, role, prompted in (
        (Onnx(str(folder)), "query", "query: a cat"),
        (Onnx(str(folder)), "document", "passage: a cat"),
        (Onnx(str(folder), query_prompt="find "), "query", "find a cat"),
        (Onnx(str(folder), document_prompt=""), "document", "a cat"),
    ):
        vectors = await embedder.embed(texts, role=role)  # type: ignore[arg-type]
        assert np.allclose(vectors, await plain.embed([prompted], role="document"), atol=1e-6)
    assert Onnx(str(folder)).identity != Onnx(str(folder), document_prompt="").identity


async def test_the_window_is_the_smallest_that_the_files_name_and_holds_the_prompt_too(folder):
    write(folder / "sentence_bert_config.json", max_seq_length=10)
    embedder = Onnx(str(folder), query_prompt="find ")
    await embedder.embed(["cat " * 8], role="document")
    with pytest.raises(TextTooLongError, match="1 text has more than the 10 word pieces"):
        await embedder.embed(["cat " * 8], role="query")


@pytest.mark.parametrize(
    ("options", "pooling"),
    [
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode": "cls"}, "cls"),
    ],
)
def test_pooling_is_what_the_files_say(folder, options, pooling):
    write(folder / "1_Pooling" / "config.json", **options)
    assert ModelFolder.at(folder).pooling == pooling


def test_pooling_that_is_not_known_is_refused(folder):
    write(folder / "1_Pooling" / "config.json", pooling_mode_lasttoken=True)
    assert said(folder).endswith("asks for pooling by lasttoken: only mean and cls are known.")


def test_a_folder_that_lacks_something_is_refused(folder, tmp_path):
    (folder / "config.json").unlink()
    assert "says how many word pieces the model takes" in said(folder)
    (folder / "tokenizer.json").unlink()
    assert said(folder) == f"The folder {folder} has no tokenizer.json, which a model for embeddings needs."
    shutil.rmtree(folder / "onnx")
    assert "has no model.onnx (or onnx/model.onnx)" in said(folder)
    assert said(tmp_path / "none").startswith(f"There is no folder {tmp_path / 'none'}: ")


def test_a_file_that_is_not_json_is_refused_by_name(folder):
    (folder / "config.json").write_text("{", "utf-8")
    assert said(folder).startswith(f"{folder / 'config.json'} cannot be read: ")


async def test_a_file_that_is_no_model_is_refused_by_name(folder):
    (folder / "onnx" / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(EmbedderError, match=r"onnxruntime cannot load .*model\.onnx"):
        await Onnx(str(folder)).embed(["a cat"], role="document")


async def test_a_file_that_is_no_tokenizer_is_refused_by_name(folder):
    (folder / "tokenizer.json").write_text("{}", "utf-8")
    with pytest.raises(ConfigurationError, match=r"tokenizer\.json is not a tokenizer"):
        await Onnx(str(folder)).embed(["a cat"], role="document")


def test_invalid_options_are_refused():
    for option, value in {"threads": -1, "languages": "en", "model": 3}.items():
        with pytest.raises(ConfigurationError, match=f"^{option} must be"):
            Onnx(**{option: value})
