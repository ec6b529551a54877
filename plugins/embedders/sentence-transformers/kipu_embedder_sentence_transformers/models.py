"""Loads a model, once in a process, and embeds with it. All of it takes time: call it off the event loop."""

from __future__ import annotations

import contextlib
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from kipu.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kipu.types import Role, Vectors

__all__ = ["Model", "loaded"]

# What models call the prompt of a query and that of a document; the first that says something is the one.
_PROMPTS = {"query": ("query",), "document": ("document", "passage", "corpus")}

_SECONDS_FOR_THE_HUB = 10.0

_loading = threading.Lock()


@attrs.frozen(eq=False)
class Model:
    """A model in memory. One thread at a time may use it: its tokenizer keeps settings between two calls."""

    _transformer: Any
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    @property
    def window(self) -> int | None:
        """How many tokens the model takes; None where there is no limit."""
        window: int | None = self._transformer.max_seq_length
        return window

    def prompt(self, role: Role, given: str | None) -> str:
        """What to put in front of a text: what was given, or else the model's own prompt, or else nothing."""
        own: dict[str, str] = self._transformer.prompts
        return given if given is not None else next((own[name] for name in _PROMPTS[role] if own.get(name)), "")

    def too_long(self, texts: Sequence[str]) -> list[int]:
        """The positions of texts that the model would cut."""
        if self.window is None:
            return []
        with self._lock:
            tokens = self._transformer.tokenizer(texts, truncation=False, padding=False, verbose=False)["input_ids"]
        return [position for position, ids in enumerate(tokens) if len(ids) > self.window]

    def embed(self, texts: Sequence[str], role: Role, prompt: str, batch_size: int) -> Vectors:
        """Embed texts with a prompt."""
        encode = self._transformer.encode_query if role == "query" else self._transformer.encode_document
        with self._lock:
            vectors: Vectors = encode(texts, prompt=prompt, batch_size=batch_size, show_progress_bar=False)
        return vectors


_models: dict[tuple[str, str], Model] = {}


def loaded(name: str, device: str) -> Model:
    """The model of that name or folder, loaded with the first call.

    :raises EmbedderError: the library cannot be imported, or the model cannot be loaded.
    """
    with _loading:
        if (name, device) not in _models:
            _models[name, device] = Model(_load(name, device))
        return _models[name, device]


def _load(name: str, device: str) -> Any:
    try:
        with warnings.catch_warnings(action="ignore"):
            from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise EmbedderError(
            f"sentence-transformers cannot be imported: {error}. pip install kipu-embedder-sentence-transformers"
        ) from error
    options = {"device": device or None, "trust_remote_code": False}
    with _quiet():
        try:
            if not Path(name).is_dir():
                with contextlib.suppress(OSError):  # what is on this machine already is used without asking the hub
                    return SentenceTransformer(name, local_files_only=True, **options)
                _ask_the_hub(name)
            return SentenceTransformer(name, **options)
        except EmbedderError:
            raise
        except Exception as error:
            raise EmbedderError(f"The model {name} cannot be loaded: {_first_line(error)}") from error


def _ask_the_hub(name: str) -> None:
    """Make sure that the hub can be reached: the library itself would try for more than a minute.

    :raises EmbedderError: it cannot, or must not.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        HfApi().model_info(name, timeout=_SECONDS_FOR_THE_HUB)
    except HfHubHTTPError:
        return  # it answers; what is wrong with the name, the library says
    except OfflineModeIsEnabled:
        reason = "HF_HUB_OFFLINE forbids to download it. Unset it once"
    except Exception as error:  # noqa: BLE001 - what the lack of a connection is called depends on the version
        reason = f"the Hugging Face hub cannot be reached ({type(error).__name__}). Connect once"
    else:
        return
    raise EmbedderError(
        f'The model "{name}" is not on this machine, and {reason}, or name a folder: model = "/path/of/the/model".'
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the progress bars of a model that is loaded or downloaded, for as long as that takes."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    from transformers.utils import logging

    shown, shown_for_downloads = logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
    logging.disable_progress_bar()
    disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
        if shown_for_downloads:
            enable_progress_bars()


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
