"""Load a model once per process and embed with it. All calls block: run them off the event loop."""

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

# Names of the prompts in models, by role; the first one that is set is used.
_PROMPTS = {"query": ("query",), "document": ("document", "passage", "corpus")}

_SECONDS_FOR_THE_HUB = 10.0

_loading = threading.Lock()


@attrs.frozen(eq=False)
class Model:
    """A loaded model. A lock serializes its use, since its tokenizer has mutable settings."""

    _transformer: Any
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    @property
    def window(self) -> int | None:
        """The most tokens of a text, or None without a limit."""
        window: int | None = self._transformer.max_seq_length
        return window

    def prompt(self, role: Role, given: str | None) -> str:
        """Return the prompt: the given one, else that of the model, else an empty text."""
        own: dict[str, str] = self._transformer.prompts
        return given if given is not None else next((own[name] for name in _PROMPTS[role] if own.get(name)), "")

    def too_long(self, texts: Sequence[str]) -> list[int]:
        """Return the positions of texts that the model would truncate."""
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
    """Return the model of a name or folder, loaded with the first call.

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
                with contextlib.suppress(OSError):  # use a cached model without asking the hub
                    return SentenceTransformer(name, local_files_only=True, **options)
                _ask_the_hub(name)
            return SentenceTransformer(name, **options)
        except EmbedderError:
            raise
        except Exception as error:
            raise EmbedderError(f"The model {name} cannot be loaded: {_first_line(error)}") from error


def _ask_the_hub(name: str) -> None:
    """Check that the hub is reachable, since the library would retry for more than a minute.

    :raises EmbedderError: it is not reachable, or offline mode is on.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    try:
        HfApi().model_info(name, timeout=_SECONDS_FOR_THE_HUB)
    except HfHubHTTPError:
        return  # the hub answers; the library reports errors in the name
    except OfflineModeIsEnabled:
        reason = "HF_HUB_OFFLINE forbids to download it. Unset it once"
    except Exception as error:  # noqa: BLE001 - the exception for a lost connection depends on the version
        reason = f"the Hugging Face hub cannot be reached ({type(error).__name__}). Connect once"
    else:
        return
    raise EmbedderError(
        f'The model "{name}" is not on this machine, and {reason}, or name a folder: model = "/path/of/the/model".'
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide the progress bars of loading and downloading a model."""
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
