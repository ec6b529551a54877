"""A hook of mkdocs: links to the code lead somewhere in the repository, and become plain text on the site."""

from __future__ import annotations

import re
from typing import Any


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace each link to a file outside docs/ by its text."""
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+(?!how-to|explanation|reference|index|tutorial)[^)]*\)", r"\1", markdown)
