"""The hooks that plugins implement.

A plugin is a module with an entry point in the group ``kipu``. This is a whole one::

    # kipu_strategy_newest.py
    import attrs
    from kipu import hookimpl

    @attrs.frozen
    class Newest:
        prefer_source: str = ""

        async def search(self, query, index):
            ...

    @hookimpl
    def kipu_register_strategies(register):
        register("newest", Newest)

    # pyproject.toml
    [project.entry-points.kipu]
    strategy-newest = "kipu_strategy_newest"

What is registered is a class made with attrs, and **its fields are its options**: ``strategy = { use = "newest",
prefer_source = "team" }`` in ``kipu.toml`` and ``Newest(prefer_source="team")`` in Python are the same thing, checked
by the same validators. A field with the metadata ``per_call="newest_source"`` can also be given with one search, as
``memory.search(..., newest_source="team")`` and as ``kipu search --newest-source team``.

Hooks are called once, when plugins are loaded, and are not async; what they register does the asynchronous work.
Import heavy libraries inside methods: ``kipu --help`` must stay fast whatever is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from .types import (
        Annotator,
        Chunker,
        Embedder,
        Flusher,
        IndexReport,
        PostProcessor,
        Register,
        Strategy,
        WriteFilter,
    )

__all__ = ["hookimpl", "hookspec"]

hookspec = pluggy.HookspecMarker("kipu")
hookimpl = pluggy.HookimplMarker("kipu")


@hookspec
def kipu_register_chunkers(register: Register[Chunker]) -> None:
    """Register classes that cut a document into chunks.

    :param register: call it as ``register(name, cls)``; instances of ``cls`` are a `kipu.types.Chunker`.

    New in version 0.1.0. The smallest example::

        @hookimpl
        def kipu_register_chunkers(register):
            register("paragraphs", Paragraphs)
    """


@hookspec
def kipu_register_embedders(register: Register[Embedder]) -> None:
    """Register classes that turn texts into vectors.

    :param register: call it as ``register(name, cls)``; instances of ``cls`` are a `kipu.types.Embedder`.

    New in version 0.1.0. The smallest example::

        @hookimpl
        def kipu_register_embedders(register):
            register("hashing", HashingEmbedder)
    """


@hookspec
def kipu_register_annotators(register: Register[Annotator]) -> None:
    """Register classes that say what is in texts, for strategies with ``needs_annotations``.

    :param register: call it as ``register(name, cls)``; instances of ``cls`` are a `kipu.types.Annotator`.

    New in version 0.1.0. The smallest example::

        @hookimpl
        def kipu_register_annotators(register):
            register("names", Names)
    """


@hookspec
def kipu_register_strategies(register: Register[Strategy]) -> None:
    """Register classes that turn a query into hits.

    :param register: call it as ``register(name, cls)``; instances of ``cls`` are a `kipu.types.Strategy`, or a
        `kipu.types.IndexedStrategy` if they keep tables of their own in the index.

    New in version 0.1.0. The smallest example::

        @hookimpl
        def kipu_register_strategies(register):
            register("newest", Newest)
    """


@hookspec
def kipu_register_postprocessors(register: Register[PostProcessor]) -> None:
    """Register classes that change the hits of a strategy.

    :param register: call it as ``register(name, cls)``; instances of ``cls`` are a `kipu.types.PostProcessor`.

    New in version 0.1.0. The smallest example::

        @hookimpl
        def kipu_register_postprocessors(register):
            register("one-per-file", OnePerFile)
    """


@hookspec
def kipu_register_flushers(register: Register[Flusher]) -> None:
    """Register classes that distil what is worth keeping from conversations.

    :param register: call it as ``register(name, cls)``; instances of ``cls`` are a `kipu.types.Flusher`.

    New in version 0.1.0. The smallest example::

        @hookimpl
        def kipu_register_flushers(register):
            register("local", LocalModel)
    """


@hookspec
def kipu_register_write_filters(register: Register[WriteFilter]) -> None:
    """Register classes that see each text before it is written, and may change it, for example to redact keys.

    :param register: call it as ``register(name, cls)``; instances of ``cls`` are a `kipu.types.WriteFilter`.

    New in version 0.1.0. The smallest example::

        @hookimpl
        def kipu_register_write_filters(register):
            register("redact", Redact)
    """


@hookspec
def kipu_indexed(report: IndexReport) -> None:
    """Observe each run of indexing that changed something. What the hook raises is reported, and nothing else.

    :param report: what was done.

    New in version 0.1.0. The smallest example::

        @hookimpl
        def kipu_indexed(report):
            print(report.added, "new files")
    """
