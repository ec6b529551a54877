"""A folder with an ONNX model: which files it needs, and what those that Sentence Transformers writes say about it."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from kipu.errors import ConfigurationError

__all__ = ["ModelFolder"]

# Of a large file, this many blocks of this many bytes, spread evenly, stand for all of it: two models that differ
# differ everywhere, and a search on the command line must not read hundreds of megabytes first.
BLOCKS, BLOCK_BYTES = 32, 32_768

# XLM-RoBERTa and its kin count places from 2.
FIRST_PLACES = {"roberta": 2, "xlm-roberta": 2, "camembert": 2, "mpnet": 2}


@attrs.frozen
class ModelFolder:
    """What is known of a model without loading it.

    ``window`` is how many word pieces a text may have; ``pooling`` is "mean" or "cls"; ``prompts`` are by role.
    ``content`` stands for everything in the files that changes a vector, the same on every machine.
    """

    model: Path
    tokenizer: Path
    window: int
    pooling: str
    prompts: Mapping[str, str] = attrs.field(eq=False)
    content: str

    @classmethod
    @functools.cache  # a model stays loaded as well: what is said of it stays what it was when this was first asked
    def at(cls, folder: Path) -> ModelFolder:
        """Read the small files of a folder.

        :raises ConfigurationError: something is missing, or is not what it should be.
        """
        if not folder.is_dir():
            raise ConfigurationError(
                f"There is no folder {folder}: `model` is the path of a folder with model.onnx and tokenizer.json."
            )
        model = next((path for path in (folder / "model.onnx", folder / "onnx" / "model.onnx") if path.is_file()), None)
        tokenizer = folder / "tokenizer.json"
        if model is None or not tokenizer.is_file():
            missing = "model.onnx (or onnx/model.onnx)" if model is None else "tokenizer.json"
            raise ConfigurationError(f"The folder {folder} has no {missing}, which a model for embeddings needs.")
        window, pooling = _window(folder), _pooling(folder)
        content = hashlib.sha256(f"{window} {pooling}".encode())
        # A large model keeps its weights in files of their own, beside model.onnx.
        for path in sorted([*model.parent.glob(f"{model.name}*"), tokenizer]):
            content.update(_sample(path))
        return cls(model, tokenizer, window, pooling, _prompts(folder), content.hexdigest()[:32])


def _read(path: Path) -> dict[str, Any]:
    """A JSON file; nothing where there is none."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}.") from error
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} cannot be read: it is not a JSON object.")
    return content


def _window(folder: Path) -> int:
    """The smallest of the limits that the files name."""
    configuration = _read(folder / "config.json")
    places = configuration.get("max_position_embeddings")
    if isinstance(places, int):
        places -= FIRST_PLACES.get(str(configuration.get("model_type")), 0)
    limits = [
        _read(folder / "sentence_bert_config.json").get("max_seq_length"),
        places,
        _read(folder / "tokenizer_config.json").get("model_max_length"),
    ]
    known = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 1_000_000]
    if not known:
        raise ConfigurationError(
            f"Nothing in {folder} says how many word pieces the model takes. Put a file there, "
            'sentence_bert_config.json, with {"max_seq_length": 512}, or whatever the number is.'
        )
    return min(known)


def _pooling(folder: Path) -> str:
    """How the vectors of word pieces become that of a text."""
    path = folder / "1_Pooling" / "config.json"
    options = _read(path)
    modes = {key.removeprefix("pooling_mode_") for key, value in options.items() if value is True and "mode" in key}
    modes |= {options["pooling_mode"]} if isinstance(options.get("pooling_mode"), str) else set()
    names = {"mean_tokens": "mean", "mean": "mean", "cls_token": "cls", "cls": "cls"}
    chosen = modes or {"mean"}
    if len(chosen) > 1 or not chosen <= names.keys():
        asked = ", ".join(sorted(chosen))
        raise ConfigurationError(f"{path} asks for pooling by {asked}: only mean and cls are known.")
    return names[chosen.pop()]


def _prompts(folder: Path) -> dict[str, str]:
    """The prompts by role, under the names that Sentence Transformers knows them by."""
    given = _read(folder / "config_sentence_transformers.json").get("prompts") or {}
    found = {}
    for role, names in (("query", ("query",)), ("document", ("document", "passage", "corpus"))):
        found[role] = next((str(given[name]) for name in names if given.get(name)), "")
    return found


def _sample(path: Path) -> bytes:
    """A hash of the size of a file and of blocks from all over it; of all of it where it is small."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        if size <= BLOCKS * BLOCK_BYTES:
            digest.update(file.read())
        else:
            for block in range(BLOCKS):
                file.seek(block * (size - BLOCK_BYTES) // (BLOCKS - 1))
                digest.update(file.read(BLOCK_BYTES))
    return digest.digest()
