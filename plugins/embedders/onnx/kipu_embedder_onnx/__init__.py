"""An embedder that runs the packaged model or any ONNX model in a folder with onnxruntime, on this machine.

Heavy libraries (numpy, onnxruntime, tokenizers) are imported with the first text, and run off the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from kipu import hookimpl
from kipu.errors import ConfigurationError, TextTooLongError
from kipu.options import languages, option, optional, text, whole_number
from kipu.types import EmbedderBase

if TYPE_CHECKING:
    from kipu.types import Embedder, Register, Role, Vectors

    from .folders import ModelFolder
    from .models import Model

__all__ = ["Onnx"]

PACKAGED = "minilm"
PACKAGED_LANGUAGES = ("en",)


@attrs.frozen
class Onnx(EmbedderBase):
    """Embed with an ONNX model on this machine, on the processor, without network.

    ``model`` is ``minilm``, the packaged all-MiniLM-L6-v2, or the path of a folder with ``model.onnx`` (or
    ``onnx/model.onnx``) and ``tokenizer.json``; the files of Sentence Transformers beside them (pooling, prompts,
    window) are used. ``query_prompt`` and ``document_prompt`` are prefixes for texts; ``languages`` are those that the
    model knows. ``threads`` is how many texts are embedded concurrently; each takes the memory of one run of the model.
    """

    destination = None  # texts stay on this machine
    timeout = 3600.0  # a slow processor may need minutes for one call

    model: str = option(
        PACKAGED,
        text,
        "The model: `minilm`, which is packaged, or the path of a folder with an ONNX model.",
        converter=lambda name: name or PACKAGED,
    )
    query_prompt: str | None = option(
        None, optional(text), "What to put in front of a query. By default the model's own prompt, where it has one."
    )
    document_prompt: str | None = option(
        None, optional(text), "What to put in front of a document. By default the model's own prompt, where it has one."
    )
    languages: Sequence[str] | None = option(
        rule=languages, help='The languages that the model knows, such as ["en", "de"]; `minilm` knows English.'
    )
    threads: int = option(
        0, whole_number(), "How many texts to embed at once, 0 being as many as there are processors, at most 8."
    )

    @languages.default
    def _languages_of_the_model(self) -> tuple[str, ...] | None:
        return PACKAGED_LANGUAGES if self.model == PACKAGED else None

    @property
    def identity(self) -> str:
        """The content of the model's files and the document prompt. The query prompt changes no stored vector.

        :raises ConfigurationError: the folder or a file in it is missing or invalid.
        """
        folder = self._folder()
        prompt = self._prompt(folder, "document")
        name = f"{PACKAGED}:" if self.model == PACKAGED else ""
        return f"onnx:{name}{folder.content}" + (f" document_prompt={prompt!r}" if prompt else "")

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Embed texts. The vector of a text does not depend on the other texts.

        :raises TextTooLongError: texts with their prompt exceed the window of the model.
        :raises ConfigurationError: the model is missing, or is not an embedding model.
        :raises EmbedderError: onnxruntime cannot be loaded or fails.
        """
        import asyncio
        import threading

        stop = threading.Event()
        try:
            return await asyncio.to_thread(self._embed, list(texts), role, stop)
        finally:
            stop.set()  # a thread cannot be cancelled: it checks this before each text

    def unknown_share(self, text: str) -> float:
        """Return the share of the word pieces of a text that the model does not know, from 0 to 1.

        An English model has tokens for letters of many scripts, but did not learn their words: they count as unknown.

        :raises ConfigurationError: the model is missing.
        """
        only_english = tuple(self.languages or ()) == PACKAGED_LANGUAGES
        return self._loaded(self._folder()).unknown_share(text, only_english=only_english)

    def _folder(self) -> ModelFolder:
        from .folders import ModelFolder

        if self.model != PACKAGED:
            return ModelFolder.at(Path(self.model).expanduser())
        try:
            import kipu_model_minilm
        except ImportError as error:
            raise ConfigurationError(
                f"The packaged model cannot be imported ({error}): pip install kipu-model-minilm, or set `model` to a "
                "folder with an ONNX model."
            ) from error
        return ModelFolder.at(kipu_model_minilm.path())

    def _loaded(self, folder: ModelFolder) -> Model:
        from .models import load

        return load(folder)

    def _prompt(self, folder: ModelFolder, role: Role) -> str:
        own = self.query_prompt if role == "query" else self.document_prompt
        return folder.prompts.get(role, "") if own is None else own

    def _embed(self, texts: list[str], role: Role, stop: Any) -> Vectors:
        folder = self._folder()
        model = self._loaded(folder)
        prompt = self._prompt(folder, role)
        pieces = [model.pieces(prompt + text) for text in texts]
        too_long = [position for position, each in enumerate(pieces) if len(each) > folder.window]
        if too_long:
            which = "1 text has" if len(too_long) == 1 else f"{len(too_long)} texts have"
            raise TextTooLongError(f"{which} more than the {folder.window} word pieces that the model takes.", too_long)
        return model.embed(pieces, self.threads, stop)


@hookimpl
def kipu_register_embedders(register: Register[Embedder]) -> None:
    register("onnx", Onnx)
