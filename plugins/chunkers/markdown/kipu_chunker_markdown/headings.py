"""Sections with their headings, and the values of front matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from kipu.markdown import Block, Kind, heading_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kipu.markdown import FrontMatter

__all__ = ["ANNOUNCING", "Section", "sections", "title_and_values"]

ANNOUNCING = (Kind.HEADING, Kind.RULE)
"""The blocks without text of their own, which belong to the next block."""


_LONGEST_HEADING = 300


@attrs.define
class Section:
    """A heading and the blocks up to the next heading; ``level`` is 0 for the text before the first one."""

    level: int = 0
    title: str = ""
    blocks: list[Block] = attrs.field(factory=list)


def sections(lines: Sequence[str], blocks: Iterable[Block]) -> list[Section]:
    """Return the sections of a document in order, without those that have no blocks."""
    result = [Section()]
    inside = result[0].blocks
    for block in blocks:
        if block.kind is Kind.HEADING:
            # A rule that ends a section announces the next one.
            announced = [inside.pop()] if inside and inside[-1].kind is Kind.RULE else []
            result.append(Section(block.level, heading_text(lines[block.start]), announced))
            inside = announced
        inside.append(block)
    return [section for section in result if section.blocks]


def title_and_values(front_matter: FrontMatter) -> tuple[str, list[str]]:
    """Return the title in front matter, and the other values without their keys."""
    properties = front_matter.properties
    title = " ".join(", ".join(properties.pop("title", ())).split())[:_LONGEST_HEADING]
    return title, [" ".join(", ".join(values).split()) for values in properties.values() if values]
