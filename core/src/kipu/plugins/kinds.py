"""The kinds of components that plugins register, and the standard choice of each.

This is the only module of the kernel that names plugins.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FALLBACK_STRATEGY", "KINDS", "Kind"]


class Kind(NamedTuple):  # not attrs, whose import `kipu --help` can do without
    """A kind of component.

    ``name`` stands in entry points and distributions, ``label`` in messages. ``hook`` registers its classes, whose
    instances implement the protocol ``protocol`` of `kipu.types`, of which ``method`` is the one that all of them have.
    ``time_limit`` is how many seconds a call may take if neither the component nor ``[plugins] time_limit`` says
    otherwise. ``standard`` are the names that are used where nothing is configured.
    ``distributions`` says what to install for a component of ours. No other distribution is ever recommended: its name
    may be anyone's.
    """

    name: str
    label: str
    hook: str
    protocol: str
    method: str
    standard: tuple[str, ...]
    distributions: dict[str, str]
    time_limit: float = 30.0


FALLBACK_STRATEGY = "keyword"
"""The strategy that answers where one that needs vectors cannot."""

KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "embedder",
            "embedder",
            "kipu_register_embedders",
            "Embedder",
            "embed",
            ("onnx",),
            {
                "litellm": "kipu-embedder-litellm",
                "onnx": "kipu-embedder-onnx",
                "sentence-transformers": "kipu-embedder-sentence-transformers",
            },
        ),
        Kind(
            "chunker",
            "chunker",
            "kipu_register_chunkers",
            "Chunker",
            "chunk",
            ("markdown",),
            {"markdown": "kipu-chunker-markdown"},
        ),
        Kind(
            "strategy",
            "strategy",
            "kipu_register_strategies",
            "Strategy",
            "search",
            ("hybrid", "vector", FALLBACK_STRATEGY),  # the first of them that has all that it searches with
            {
                "hybrid": "kipu-strategy-hybrid",
                "keyword": "kipu-strategy-keyword",
                "vector": "kipu-strategy-vector",
            },
        ),
        Kind(
            "postprocessor",
            "post-processor",
            "kipu_register_postprocessors",
            "PostProcessor",
            "process",
            ("threshold",),
            {
                "decay": "kipu-postprocessor-decay",
                "mmr": "kipu-postprocessor-mmr",
                "threshold": "kipu-postprocessor-threshold",
            },
        ),
        Kind(
            "flusher",
            "flusher",
            "kipu_register_flushers",
            "Flusher",
            "distill",
            ("litellm",),
            {"litellm": "kipu-flusher-litellm"},
            time_limit=300.0,
        ),
        Kind(
            "filter",
            "write filter",
            "kipu_register_write_filters",
            "WriteFilter",
            "filter",
            ("redact",),
            {"redact": "kipu-filter-redact"},
        ),
    )
}
