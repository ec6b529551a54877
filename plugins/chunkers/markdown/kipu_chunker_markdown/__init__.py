"""A chunker for Markdown that splits at headings, then between blocks, lines and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from kipu import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable

    from kipu.types import Chunk, Chunker, Document, Register

__all__ = ["MarkdownChunker"]

_MIN_TOKENS = 16


def _at_least(smallest: int) -> Callable[[object, attrs.Attribute[int], Any], None]:
    def check(_: object, option: attrs.Attribute[int], value: Any) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
            must = f"{option.name}: must be a whole number, {smallest} or more, not {value!r}"
            raise ValueError(f"{must}; the default is {option.default}")

    return check


def _at_most_half(chunker: MarkdownChunker, _: object, value: int) -> None:
    if value > chunker.tokens // 2:
        raise ValueError(
            f"overlap: must be at most half of tokens, not {value} of {chunker.tokens}; "
            f"give {chunker.tokens // 2} or less, or more tokens"
        )


@attrs.frozen
class MarkdownChunker:
    """Cuts a Markdown document into chunks that never exceed a number of tokens, in the order of the document.

    A heading begins a new chunk and stays with the text below it. Below a heading, as many blocks (paragraphs, list
    items, fences, tables) as fit share a chunk. Fences and tables are split only if they are longer than a chunk,
    paragraphs between lines, and a line at the end of a sentence, else at a space, else anywhere.

    ``tokens`` is the limit, as `kipu_chunker_markdown.tokens.estimate_tokens` counts. ``overlap`` is how many tokens at
    the end of a chunk are repeated at the start of the next one of the same section: whole lines, and words of a line
    that was cut.
    ``context_before`` and ``context_after`` are how many lines of the surroundings are indexed with a chunk.

    :raises ValueError: an option is not a whole number, or is out of its range.
    """

    schema_version: ClassVar[int] = 3

    tokens: int = attrs.field(
        default=100,
        validator=_at_least(_MIN_TOKENS),
        metadata={"help": "The most tokens that a chunk may have."},
    )
    overlap: int = attrs.field(
        default=0,
        validator=[_at_least(0), _at_most_half],
        metadata={"help": "How many tokens of a chunk the next one repeats, at most half of `tokens`."},
    )
    context_before: int = attrs.field(
        default=2,
        validator=_at_least(0),
        metadata={"help": "How many lines before a chunk are indexed with it."},
    )
    context_after: int = attrs.field(
        default=1,
        validator=_at_least(0),
        metadata={"help": "How many lines after a chunk are indexed with it."},
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
