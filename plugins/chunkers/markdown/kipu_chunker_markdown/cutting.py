"""Cut a document into chunks: sections, then spans, each with its context."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

import attrs

from kipu.markdown import FrontMatter, front_matter, group_items, read_metadata, scan
from kipu.types import Chunk

from .context import Surroundings
from .data import without_data
from .headings import ANNOUNCING, sections, title_and_values
from .packing import Packer, Span
from .tokens import QUARTERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kipu.markdown import Block
    from kipu.types import Document

    from .headings import Section

__all__ = ["cut"]


def cut(document: Document, *, tokens: int, overlap: int, context_before: int, context_after: int) -> list[Chunk]:
    """Cut ``document`` with the options of `kipu_chunker_markdown.MarkdownChunker`."""
    lines, ends = map(list, zip(*without_data(document.text.split("\n")), strict=True))
    starts = [0, *ends]
    above = front_matter(lines)
    blocks = scan(lines, above.end)
    if not blocks and above.end:  # only front matter: index it as text
        lines = lines[: above.end]
        lines[0] = lines[-1] = ""
        blocks, above = scan(lines), FrontMatter()
    title, values = title_and_values(above)
    parts = sections(lines, blocks)
    packer = Packer(lines, tokens * QUARTERS, overlap * QUARTERS)
    surroundings = Surroundings(packer, parts, before=context_before, after=context_after)
    chunks: list[Chunk] = []
    for section, heading, level in _with_paths(parts, title):
        for blocks, metadata, opening in _apart(packer, section.blocks):
            for span in packer.pack(blocks):
                context = surroundings.of(span if span.opening is not None else attrs.evolve(span, opening=opening))
                if not chunks:
                    context = [*values, *context]
                first, last = starts[span.start] + 1, ends[span.end - 1]
                text = _text(lines, span)
                chunks.append(Chunk(text, first, last, heading, level, "\n".join(context), metadata))
    return chunks


def _apart(packer: Packer, blocks: Sequence[Block]) -> Iterator[tuple[list[Block], dict[str, str], int | None]]:
    """Yield the blocks of a section with their metadata. An entry is separate from the others.

    The third value is the line that announces the list of an entry, such as "Servers:", None without one.
    """
    lines = packer.lines
    together: list[Block] = []
    opening: int | None = None
    for group in group_items(lines, blocks):
        start, end = group[0].start, group[-1].end
        metadata = read_metadata(lines[end - 1]) if end - start > 1 else {}
        is_item = group[0].is_item and lines[start][0] not in " \t>"
        if not metadata and not is_item:
            together += group
            opening = end - 1 if lines[end - 1].rstrip().endswith((":", "：")) else None
            continue
        # Headings and rules before an entry stay with it, unless it would have to be split for them.
        first = next((index for index in range(len(together), 0, -1) if together[index - 1].kind not in ANNOUNCING), 0)
        if first < len(together) and packer.size(start, end) <= packer.limit < packer.size(together[first].start, end):
            first = len(together)
        if first:
            yield together[:first], {}, None
        yield together[first:] + group, metadata, opening
        together = []
    if together:
        yield together, {}, None


def _text(lines: Sequence[str], span: Span) -> str:
    if span.right is None:
        return "\n".join(lines[span.start : span.end])
    last = lines[span.end - 1][span.left : span.right]
    return "\n".join([*lines[span.start : span.end - 1], last])


def _with_paths(sections: Sequence[Section], title: str) -> Iterator[tuple[Section, str, int]]:
    """Yield the sections with the path of their headings and the level of the innermost one.

    A section without text joins the section below it, so that its heading stays with text. A title in the front matter
    is the root of all paths, unless it equals the first heading of level 1.
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
