"""The embedder with the packaged model."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from kipu.errors import TextTooLongError
from kipu_embedder_onnx import Onnx

TEXTS = [
    "We moved the session cache from Redis to Valkey.",
    "Ana is allergic to peanuts.",
    "The board meets on Thursday at half past nine, in the large room, and everybody brings the figures.",
    "ok",
    "",
    "Il pleut sur la ville depuis trois jours.",
    "记忆是人可以阅读的纯文本文件。",
    "a name of a file: \udcff",
]


def embed_in_a_fork(texts: list[str]) -> list[list[float]]:
    vectors: list[list[float]] = asyncio.run(Onnx().embed(texts, role="document")).tolist()
    return vectors


def test_onnxruntime_neither_keeps_an_id_of_the_machine_nor_queues_events(tmp_path):
    program = (
        "import asyncio; from kipu_embedder_onnx import Onnx; asyncio.run(Onnx().embed(['a text'], role='document'))"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "XDG_"))}
    subprocess.run([sys.executable, "-c", program], env=environment | {"HOME": str(tmp_path)}, check=True)
    assert list(tmp_path.rglob("*")) == []


async def test_what_means_the_same_is_nearer_than_what_shares_words():
    query = (await Onnx().embed(["Which foods make her ill?"], role="query"))[0]
    documents = [
        "Ana is allergic to peanuts and cannot eat them.",
        "Which of the foods we sell make the most money?",
        "Her train to Lima leaves at nine.",
    ]
    scores = await Onnx().embed(documents, role="document") @ query
    assert scores[0] > scores[2] + 0.1
    pairs = [
        ("How do I get my money back?", "Refunds take five days.", "The bank of the river is steep."),
        ("the car would not start", "our vehicle broke down", "the concert started late"),
    ]
    for one, same, other in pairs:
        vectors = await Onnx().embed([one, same, other], role="document")
        assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2], one


async def test_vectors_are_float32_of_length_1_one_for_each_text():
    vectors = await Onnx().embed(TEXTS, role="document")
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


async def test_a_text_has_the_same_vector_whatever_it_is_embedded_with():
    together = await Onnx().embed(TEXTS, role="document")
    backwards = await Onnx(threads=1).embed(TEXTS[::-1], role="document")
    alone = [(await Onnx(threads=3).embed([text], role="query"))[0] for text in TEXTS]
    assert np.array_equal(together, backwards[::-1])
    assert np.array_equal(together, alone)


async def test_no_texts_give_no_vectors():
    assert (await Onnx().embed([], role="document")).shape[0] == 0


async def test_texts_beyond_the_window_are_refused_by_position():
    fits, too_long = "kitten " * 254, "kitten " * 255
    assert (await Onnx().embed([fits], role="document")).shape == (1, 384)
    with pytest.raises(TextTooLongError) as caught:
        await Onnx().embed(["short", too_long, fits, too_long], role="document")
    assert caught.value.positions == [1, 3]
    assert str(caught.value) == "2 texts have more than the 256 word pieces that the model takes."


async def test_the_end_of_a_text_that_fits_counts():
    start = "The weather was fine. " * 40
    vectors = await Onnx().embed([start, start + "Ana is allergic to peanuts."], role="document")
    assert vectors[0] @ vectors[1] < 0.999


async def test_many_calls_at_once_share_one_model():
    expected = await Onnx().embed(TEXTS, role="document")
    answers = await asyncio.gather(*(Onnx().embed(TEXTS, role="document") for _ in range(4)))
    assert all(np.array_equal(expected, answer) for answer in answers)


async def test_a_call_that_is_cancelled_ends_soon():
    running = asyncio.create_task(Onnx().embed(["The knots of a kipu held numbers. " * 20] * 1_000, role="document"))
    await Onnx().embed(["something that is embedded meanwhile"], role="query")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    # That this comes to an end soon shows that the rest was not embedded.
    await asyncio.get_running_loop().shutdown_default_executor()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_forked_process_embeds_too():
    expected = await Onnx().embed(TEXTS[:3], role="document")
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        answer = await asyncio.get_running_loop().run_in_executor(pool, embed_in_a_fork, TEXTS[:3])
    assert np.allclose(expected, answer)


def test_the_model_knows_english_and_says_what_it_does_not_know():
    embedder = Onnx()
    assert embedder.languages == ("en",)
    assert embedder.unknown_share("Where do we keep the session cache?") == 0
    assert embedder.unknown_share("a naïve café") == 0
    assert embedder.unknown_share("记忆是文件") == 1
    assert embedder.unknown_share("Где мы храним кеш?") > 0.9
    assert 0 < embedder.unknown_share("Redis 缓存") < 1
    assert embedder.unknown_share("") == 0


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("Where do we keep the session cache of Kubernetes?", 0, 0),
        ("kubernetes", 0, 0.3),
        ("Wo steht, wer sich um die Reisekosten kümmert?", 0.1, 0.5),
        ("Yolculuk masraflarıyla kimin ilgilendiği nerede yazıyor?", 0.5, 1),
    ],
)
def test_words_that_the_model_cuts_into_pieces_are_a_sign_of_another_language(text, least, most):
    assert least <= Onnx().unknown_share(text) <= most


def test_the_identity_is_known_without_loading_anything_heavy_and_nothing_is_printed():
    program = """
import asyncio, sys
from kipu_embedder_onnx import Onnx
assert Onnx().identity.startswith("onnx:minilm:"), Onnx().identity
assert not {"numpy", "onnxruntime", "tokenizers"} & set(sys.modules)
asyncio.run(Onnx().embed(["quiet", "please"], role="document"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_identity_is_that_of_the_vectors():
    assert Onnx().identity == Onnx("minilm", threads=1, query_prompt="query: ").identity == Onnx("").identity
    assert Onnx(document_prompt="passage: ").identity != Onnx().identity
