"""A chunker for Markdown that splits at headings, then between blocks, lines and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from kipu import hookimpl
from kipu.errors import ConfigurationError
from kipu.options import option, whole_number
from kipu.types import ChunkerBase

if TYPE_CHECKING:
    from kipu.types import Chunk, Chunker, Document, Register

__all__ = ["MarkdownChunker"]

_MIN_TOKENS = 16


@attrs.frozen
class MarkdownChunker(ChunkerBase):
    """Cuts a Markdown document into chunks that never exceed a number of tokens, in the order of the document.

    A heading begins a new chunk and stays with the text below it. An entry (an item of a list that is not indented, or
    a block with a line of metadata) is a chunk of its own. Of all else, as many blocks (paragraphs, fences, tables) as
    fit share a chunk. Fences and tables are split only if they are longer than a chunk, paragraphs and items between
    lines, and a line at the end of a sentence, else at a space, else anywhere. Data, such as an image in the text, is
    replaced by a label such as ``[60 KB of image/png]``.

    ``tokens`` is the limit, as `kipu_chunker_markdown.tokens.estimate_tokens` counts. ``overlap`` is how many tokens at
    the end of a chunk are repeated at the start of the next one of the same section: whole lines, and words of a line
    that was cut.
    ``context_before`` and ``context_after`` are how many lines of the surroundings are indexed with a chunk.

    :raises ConfigurationError: an option is not a whole number, or is out of its range.
    """

    schema_version: ClassVar[int] = 4

    tokens: int = option(100, whole_number(_MIN_TOKENS), "The most tokens that a chunk may have.")
    overlap: int = option(
        0, whole_number(), "How many tokens of a chunk the next one repeats, at most half of `tokens`."
    )
    context_before: int = option(2, whole_number(), "How many lines before a chunk are indexed with it.")
    context_after: int = option(1, whole_number(), "How many lines after a chunk are indexed with it.")

    def __attrs_post_init__(self) -> None:
        if self.overlap > self.tokens // 2:
            raise ConfigurationError(
                f"overlap must be at most half of tokens, {self.tokens // 2}, not {self.overlap}. Reduce it, or "
                "increase tokens"
            )

    def chunk(self, document: Document) -> list[Chunk]:
        """Cut ``document`` into chunks. A blank document has none."""
        from .cutting import cut  # lazy: a search without changed files does not need it

        return cut(
            document,
            tokens=self.tokens,
            overlap=self.overlap,
            context_before=self.context_before,
            context_after=self.context_after,
        )


@hookimpl
def kipu_register_chunkers(register: Register[Chunker]) -> None:
    """Register the chunker "markdown"."""
    register("markdown", MarkdownChunker)
