"""Load a model and run it with one text per thread.

Texts are not batched. On a processor a batch is not faster, computes padding, takes more memory, and lets other texts
change the rounding of an 8 bit model (benchmarks/README.md has the figures). So a text always has the same vector, and
one thread for each processor keeps all processors busy.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

# Official builds send events about the process to Microsoft, and keep an id of the machine, unless this is set first.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import onnxruntime
from tokenizers import Tokenizer

from kipu.errors import ConfigurationError, EmbedderError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kipu.types import Vectors

    from .folders import ModelFolder

__all__ = ["Model", "load"]

MOST_THREADS = 8
POOLED = "sentence_embedding"  # the output that has a vector for each text, in exports of Sentence Transformers
CONTINUATION = "##"  # begins a piece that is not the first of its word
# The most words that the tokenizer of an English model cuts of an English question, where two whole words are added for
# names and short texts: a fifth in 19 of 20 of them. Of XQuAD's in German it cuts half, in Turkish two thirds.
CUT_IN_ENGLISH = 0.3
LATIN = "\u024f"  # the last letter in English texts, including names from other languages

_models: dict[ModelFolder, Model] = {}
_loading = threading.Lock()


def _forget_after_fork() -> None:
    """Replace the lock in a forked process: a thread of the parent may have held it."""
    global _loading  # noqa: PLW0603 - there is one in each process
    _loading = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def load(folder: ModelFolder) -> Model:
    """Return the model in a folder, loaded once in this process.

    :raises ConfigurationError: it is not an embedding model.
    :raises EmbedderError: onnxruntime cannot load it.
    """
    with _loading:
        if folder not in _models:
            _models[folder] = Model.load(folder)
        return _models[folder]


@attrs.frozen(eq=False)
class Model:
    """A model that is ready to run. It is thread-safe."""

    session: Any
    tokenizer: Any
    output: str
    pooling: str
    unknown: int | None

    @classmethod
    def load(cls, folder: ModelFolder) -> Model:
        """Load tokenizer and model, and check the inputs and outputs of the model."""
        try:
            tokenizer = Tokenizer.from_file(str(folder.tokenizer))
        except Exception as error:
            raise ConfigurationError(f"{folder.tokenizer} is not a tokenizer: {error}.") from error
        # Tokenizer files may enable both; a text must not be cut silently, nor be padded.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # errors are raised, not printed
        # Run in the calling thread, since a thread pool would not survive a fork.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            session = onnxruntime.InferenceSession(folder.model, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise EmbedderError(f"onnxruntime cannot load {folder.model}: {error}") from error
        unknown = getattr(tokenizer.model, "unk_token", None)
        unknown_id = tokenizer.token_to_id(unknown) if unknown else _unknown_of_unigrams(tokenizer)
        return cls(session, tokenizer, _output(session, folder), folder.pooling, unknown_id)

    def pieces(self, text: str) -> list[int]:
        """Return the ids of the word pieces of a text, with those for its start and end."""
        # The tokenizer does not accept lone surrogates, which occur in file names.
        readable = text.encode("utf-8", "replace").decode("utf-8")
        return self.tokenizer.encode(readable).ids or [0]

    def embed(self, pieces: Sequence[Sequence[int]], threads: int, stop: threading.Event) -> Vectors:
        """Return a vector of length 1 for each text.

        :param stop: when it is set, the remaining texts are skipped, because the caller was cancelled.
        """
        # Longest first, so that the threads finish at about the same time.
        order = sorted(range(len(pieces)), key=lambda position: -len(pieces[position]))
        vectors: dict[int, Any] = {}

        def embed_one(position: int) -> None:
            if not stop.is_set():
                vectors[position] = self._run(pieces[position])

        try:
            if len(pieces) == 1:
                embed_one(0)
            else:
                with ThreadPoolExecutor(threads or _processors()) as pool:
                    for _ in pool.map(embed_one, order):
                        pass
        except Exception as error:
            stop.set()
            raise EmbedderError(f"onnxruntime failed: {error}") from error
        if not vectors:
            return np.empty((0, 0), np.float32)
        return np.stack([vectors[position] for position in sorted(vectors)])

    def unknown_share(self, text: str, *, only_english: bool) -> float:
        """Return the share of the word pieces that the model does not know.

        Of a model for English, that is also how many more words than in English texts it has to cut into pieces.
        """
        readable = text.encode("utf-8", "replace").decode("utf-8")
        encoding = self.tokenizer.encode(readable, add_special_tokens=False)
        if not encoding.ids:
            return 0.0
        unknown: int = sum(
            piece == self.unknown or (only_english and any(letter > LATIN and letter.isalpha() for letter in token))
            for piece, token in zip(encoding.ids, encoding.tokens, strict=True)
        )
        share = unknown / len(encoding.ids)
        return max(share, self._uncommon_share(encoding)) if only_english else share

    def _uncommon_share(self, encoding: Any) -> float:
        """Return from 0 to 1 how many more words than in English the tokenizer cuts into pieces."""
        pieces = Counter(
            word
            for word, token in zip(encoding.word_ids, encoding.tokens, strict=True)
            if token.startswith(CONTINUATION) or token.isalpha()
        )
        cut = sum(count > 1 for count in pieces.values()) / (len(pieces) + 2)
        return max(0.0, (cut - CUT_IN_ENGLISH) / (1.0 - CUT_IN_ENGLISH))

    def _run(self, pieces: Sequence[int]) -> Any:
        given = np.array([pieces], np.int64)
        everything = {
            "input_ids": given,
            "attention_mask": np.ones_like(given),
            "token_type_ids": np.zeros_like(given),
        }
        inputs = {each.name: everything[each.name] for each in self.session.get_inputs()}
        (result,) = self.session.run([self.output], inputs)
        vector = result[0]
        if vector.ndim == 2:
            vector = vector[0] if self.pooling == "cls" else vector.mean(axis=0)
        vector = vector.astype(np.float32)
        return vector / max(float(np.linalg.norm(vector)), 1e-12)


def _output(session: Any, folder: ModelFolder) -> str:
    """Return the output to use: vectors of texts if there is one, else vectors of word pieces."""
    unknown = {each.name for each in session.get_inputs()} - {"input_ids", "attention_mask", "token_type_ids"}
    if unknown:
        raise ConfigurationError(
            f"{folder.model} is not a model that embeds texts: it also wants {', '.join(sorted(unknown))}."
        )
    ranks: dict[str, int] = {each.name: len(each.shape) for each in session.get_outputs()}
    if ranks.get(POOLED) == 2:
        return POOLED
    of_pieces = [name for name in ("last_hidden_state", "token_embeddings", *ranks) if ranks.get(name) == 3]
    if not of_pieces:
        raise ConfigurationError(
            f"{folder.model} is not a model that embeds texts: it has neither sentence_embedding nor last_hidden_state "
            f"among its outputs ({', '.join(ranks)})."
        )
    return of_pieces[0]


def _unknown_of_unigrams(tokenizer: Any) -> int | None:
    """Return the id of the unknown token if the tokenizer does not name it, such as that of XLM-RoBERTa."""
    ids = [tokenizer.token_to_id(name) for name in ("<unk>", "[UNK]")]
    found: int | None = next((each for each in ids if each is not None), None)
    return found


def _processors() -> int:
    """Return how many processors this process may use, at most `MOST_THREADS`."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, MOST_THREADS)
