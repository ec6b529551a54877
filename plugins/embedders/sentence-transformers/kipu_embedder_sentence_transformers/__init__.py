"""An embedder for models of Sentence Transformers, from the Hugging Face hub or from a folder.

The library and torch take seconds to import, so they are imported with the first text. All slow work runs off the event
loop.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from kipu import hookimpl
from kipu.errors import EmbedderError, TextTooLongError
from kipu.options import Rule, languages, option, optional, text, whole_number
from kipu.types import EmbedderBase

from .folders import content_of

if TYPE_CHECKING:
    from kipu.types import Embedder, Register, Role, Vectors

__all__ = ["SentenceTransformers"]


_model = Rule(
    'a name on the hub, such as "intfloat/multilingual-e5-small", or a folder',
    lambda value: isinstance(value, str) and value.strip() != "",
)


@attrs.frozen
class SentenceTransformers(EmbedderBase):
    """Embed with a model of Sentence Transformers.

    ``model`` is a name on the Hugging Face hub, or a folder. The library downloads a model from the hub with the
    first text and caches it; the hub is not asked again. Code in a model is never run.
    """

    destination = None  # texts stay on this machine
    timeout = 3600.0  # the first call may download a model

    model: str = option(
        "sentence-transformers/all-MiniLM-L6-v2",
        _model,
        "The model: its name on the Hugging Face hub, or the path of a folder.",
    )
    device: str = option("", text, 'Where to compute, such as "cpu" or "cuda:0". By default the fastest that is there.')
    batch_size: int = option(32, whole_number(1), "How many texts are embedded at once: more of them take more memory.")
    query_prompt: str | None = option(
        None, optional(text), "What to put in front of a query. By default the model's own prompt, where it has one."
    )
    document_prompt: str | None = option(
        None, optional(text), "What to put in front of a document. By default the model's own prompt, where it has one."
    )
    languages: Sequence[str] | None = option(
        None, languages, 'The languages that the model knows, such as ["en", "de"]. By default that is not known.'
    )

    @property
    def identity(self) -> str:
        """The name of the model or the content of its folder, and the document prompt.

        The query prompt changes no stored vector.

        :raises EmbedderError: the model is a path to a missing folder.
        """
        folder = self._folder()
        parts = [f"sentence-transformers:{self.model}"]
        if folder is not None:
            parts = [f"sentence-transformers:sha256={content_of(folder)}"]
        if self.document_prompt is not None:
            parts.append(f"document_prompt={self.document_prompt!r}")
        return " ".join(parts)

    async def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Embed texts, ``batch_size`` of them at once.

        :raises TextTooLongError: texts with their prompt exceed the window of the model.
        :raises EmbedderError: the library cannot be imported, or the model cannot be loaded.
        """
        import asyncio

        return await asyncio.to_thread(self._embed, list(texts), role)

    def _folder(self) -> Path | None:
        """Return the folder of the model, or None for a name on the hub."""
        path = Path(self.model).expanduser()
        if path.is_dir():
            return path.resolve()
        if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", self.model):
            raise EmbedderError(
                f"There is no folder {path}, and a name on the Hugging Face hub is written otherwise, such as "
                "intfloat/multilingual-e5-small."
            )
        return None

    def _embed(self, texts: list[str], role: Role) -> Vectors:
        import numpy as np

        from .models import loaded

        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        folder = self._folder()
        model = loaded(self.model if folder is None else str(folder), self.device)
        prompt = model.prompt(role, self.query_prompt if role == "query" else self.document_prompt)
        too_long = model.too_long([prompt + text for text in texts])
        if too_long:
            which = "1 text has" if len(too_long) == 1 else f"{len(too_long)} texts have"
            raise TextTooLongError(f"{which} more than the {model.window} tokens that {self.model} takes.", too_long)
        return model.embed(texts, role, prompt, self.batch_size)


@hookimpl
def kipu_register_embedders(register: Register[Embedder]) -> None:
    register("sentence-transformers", SentenceTransformers)
