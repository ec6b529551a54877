"""The Markdown of memory files: blocks, front matter, entries, and metadata that people can read and edit.

An entry that Kipu writes is an item of a list. Whatever its text is, headings and fences included, it stays inside of
the item, because its lines are indented. Its metadata is the last line::

    - We moved to Valkey, because Redis changed its licence.
      [tags: infrastructure, cache; session: 2026-11-29-a; valid_until: 2027-01-31]

People may write such a line below any paragraph or item. An entry is an item of a list that is not indented, or else a
paragraph, a fence or a table.
"""

from .entry import (
    Entry,
    canonical,
    check_metadata,
    derive_id,
    entries,
    format_entry,
    format_metadata,
    is_entry,
    normalize_text,
    read_metadata,
)
from .front_matter import FrontMatter, front_matter, page_properties
from .headings import heading_level, heading_text, heading_title, leading_headings
from .scanner import (
    Block,
    Kind,
    group_items,
    item_mark,
    scan,
)

__all__ = [
    "Block",
    "Entry",
    "FrontMatter",
    "Kind",
    "canonical",
    "check_metadata",
    "derive_id",
    "entries",
    "format_entry",
    "format_metadata",
    "front_matter",
    "group_items",
    "heading_level",
    "heading_text",
    "heading_title",
    "is_entry",
    "item_mark",
    "leading_headings",
    "normalize_text",
    "page_properties",
    "read_metadata",
    "scan",
]
