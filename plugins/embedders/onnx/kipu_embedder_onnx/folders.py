"""A folder with an ONNX model, and the settings in the files of Sentence Transformers beside it."""

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

# Of a large file, this many blocks of this many bytes, spread evenly, are hashed: different models differ everywhere,
# and a search on the command line must not read hundreds of megabytes first.
BLOCKS, BLOCK_BYTES = 32, 32_768

# XLM-RoBERTa and related models count positions from 2.
FIRST_PLACES = {"roberta": 2, "xlm-roberta": 2, "camembert": 2, "mpnet": 2}


@attrs.frozen
class ModelFolder:
    """The properties of a model that are known without loading it.

    ``window`` is the most word pieces of a text; ``pooling`` is "mean" or "cls"; ``prompts`` are by role.
    ``content`` is a hash of everything in the files that changes a vector, the same on every machine.
    """

    model: Path
    tokenizer: Path
    window: int
    pooling: str
    prompts: Mapping[str, str] = attrs.field(eq=False)
    content: str

    @classmethod
    @functools.cache  # models stay loaded, so their properties must not change either
    def at(cls, folder: Path) -> ModelFolder:
        """Read the small files of a folder.

        :raises ConfigurationError: a file is missing or invalid.
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
    """Read a JSON file. Return an empty dictionary if it does not exist."""
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
    """Return the smallest of the limits in the files."""
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
    """Return how the vectors of word pieces are combined."""
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
    """Return the prompts by role, under the names of Sentence Transformers."""
    given = _read(folder / "config_sentence_transformers.json").get("prompts") or {}
    found = {}
    for role, names in (("query", ("query",)), ("document", ("document", "passage", "corpus"))):
        found[role] = next((str(given[name]) for name in names if given.get(name)), "")
    return found


def _sample(path: Path) -> bytes:
    """Hash the size of a file and blocks of it, or all of a small file."""
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
