"""Cuts Markdown into chunks: at headings, then between blocks, lines and sentences, with true line numbers."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from kipu import hookimpl
from kipu.types import Chunk

from .blocks import ANNOUNCING, Section, scan
from .context import Surroundings
from .headings import FrontMatter, read_front_matter
from .packing import Packer, Span
from .tokens import QUARTERS, estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kipu.types import Chunker, Document, Register

__all__ = ["MarkdownChunker", "estimate_tokens"]

_SMALLEST_LIMIT = 16


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

    A heading begins a new chunk and stays with what follows it. Below a heading, as many blocks (paragraphs, list
    items, fences, tables) as fit share a chunk. Fences and tables are split only where they are longer than a chunk,
    paragraphs between lines, and a line at a sentence's end, else at a space, else anywhere.

    ``tokens`` is the limit, as `estimate_tokens` counts. ``overlap`` is how many tokens at the end of a chunk are
    repeated at the start of the next one of the same section: whole lines, and words of a line that was cut.
    ``context_before`` and ``context_after`` are how many lines of the surroundings are indexed with a chunk.

    :raises ValueError: an option is not a whole number, or is out of its range.
    """

    schema_version: ClassVar[int] = 1

    tokens: int = attrs.field(
        default=100,
        validator=_at_least(_SMALLEST_LIMIT),
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
        """Cut ``document`` into chunks; an empty or blank one has none."""
        lines = document.text.split("\n")
        front_matter = read_front_matter(lines)
        sections = scan(lines, front_matter.end)
        if not sections and front_matter.end:  # nothing but front matter: then it is the text
            lines = lines[: front_matter.end]
            lines[0] = lines[-1] = ""
            sections, front_matter = scan(lines), FrontMatter()
        packer = Packer(lines, self.tokens * QUARTERS, self.overlap * QUARTERS)
        surroundings = Surroundings(packer, sections, before=self.context_before, after=self.context_after)
        chunks: list[Chunk] = []
        for section, heading, level in _with_paths(sections, front_matter.title):
            for span in packer.pack(section.blocks):
                context = surroundings.of(span)
                if not chunks:
                    context = [*front_matter.values, *context]
                text = _text(lines, span)
                chunks.append(Chunk(text, span.start + 1, span.end, heading, level, "\n".join(context)))
        return chunks


def _text(lines: Sequence[str], span: Span) -> str:
    if span.right is None:
        return "\n".join(lines[span.start : span.end])
    last = lines[span.end - 1][span.left : span.right]
    return "\n".join([*lines[span.start : span.end - 1], last])


def _with_paths(sections: Sequence[Section], title: str) -> Iterator[tuple[Section, str, int]]:
    """The sections with the path of their headings and the level of the innermost one.

    A section without a text joins the section below it: its heading stays with what follows. A title in the front
    matter stands above all headings, unless the first heading of level 1 says the same.
    """
    first_title = next((section.title for section in sections if section.level == 1), "")
    root = [] if not title or title == first_title else [(0, title)]
    path: list[tuple[int, str]] = []
    for section, following in zip_longest(sections, sections[1:]):
        path = [parent for parent in path if parent[0] < section.level]
        if section.title:
            path.append((section.level, section.title))
        is_bare = all(block.kind in ANNOUNCING for block in section.blocks)
        if is_bare and following and following.level > section.level:
            following.blocks[:0] = section.blocks
            continue
        names = [name for _, name in root + path]
        yield section, " > ".join(names), path[-1][0] if path else min(len(root), 1)


@hookimpl
def kipu_register_chunkers(register: Register[Chunker]) -> None:
    """Register the chunker "markdown"."""
    register("markdown", MarkdownChunker)
