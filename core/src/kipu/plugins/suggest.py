"""Suggest the name that was probably meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` Did you mean "graph"?`` if a known name is similar, else nothing."""
    from difflib import get_close_matches

    spelled = {other.lower(): other for other in known}
    near = get_close_matches(name.lower(), list(spelled), n=1, cutoff=0.6)
    near = near or [other for other in spelled if len(name) > 3 and name.lower() in other]
    return f' Did you mean "{spelled[near[0]]}"?' if near else ""
