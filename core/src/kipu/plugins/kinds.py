"""The kinds of components that plugins register, and the standard choice of each.

This is the only module of the kernel that names plugins.
"""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):  # not attrs, whose import `kipu --help` can do without
    """A kind of component.

    ``name`` stands in entry points and distributions, ``label`` in messages. ``hook`` registers its classes, whose
    instances implement the protocol ``protocol`` of `kipu.types`; all of them have its method ``method``. ``standard``
    are the names that are used where nothing is configured, and ``ours`` those whose distribution is recommended if
    they are missing: no other is, since its name may be anyone's. ``time_limit`` is how many seconds a call may take
    if neither the component nor ``[plugins] time_limit`` says otherwise.
    """

    name: str
    label: str
    hook: str
    protocol: str
    method: str
    standard: tuple[str, ...]
    ours: tuple[str, ...]
    time_limit: float = 30.0

    def distribution(self, component: str) -> str | None:
        """Return what to install for a component of ours, None for any other."""
        if component not in self.ours:
            return None
        return "kipu-litellm" if component == "litellm" else f"kipu-{self.name}-{component}"


FALLBACK_STRATEGY = "keyword"
"""The strategy that answers where one that needs vectors cannot."""

RELATION_STRATEGY = "graph"
"""The strategy that completes what another one finds, if it is installed."""

_STRATEGIES = ("hybrid", "vector", FALLBACK_STRATEGY)  # the first, if all of them are installed
_EMBEDDERS = ("onnx", "litellm", "sentence-transformers")
_STAGES = ("threshold", "decay", "mmr")
_KINDS = (
    Kind("embedder", "embedder", "kipu_register_embedders", "Embedder", "embed", ("onnx",), _EMBEDDERS),
    Kind("chunker", "chunker", "kipu_register_chunkers", "Chunker", "chunk", ("markdown",), ("markdown",)),
    Kind(
        "strategy",
        "strategy",
        "kipu_register_strategies",
        "Strategy",
        "search",
        _STRATEGIES,
        (*_STRATEGIES, RELATION_STRATEGY),
    ),
    Kind(
        "postprocessor",
        "post-processor",
        "kipu_register_postprocessors",
        "PostProcessor",
        "process",
        ("threshold",),
        _STAGES,
    ),
    Kind("annotator", "annotator", "kipu_register_annotators", "Annotator", "annotate", (), ("litellm",), 300.0),
    Kind("flusher", "flusher", "kipu_register_flushers", "Flusher", "distill", ("litellm",), ("litellm",), 300.0),
    Kind("filter", "write filter", "kipu_register_write_filters", "WriteFilter", "filter", ("redact",), ("redact",)),
)
KINDS = {kind.name: kind for kind in _KINDS}
"""All kinds, by name."""
