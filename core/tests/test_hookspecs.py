"""The hooks: each is documented with its parameters and an example, and the example works."""

from __future__ import annotations

import inspect
import re
import textwrap
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from kipu import IndexReport, Memory, Query, SearchResults, hookspecs
from kipu.plugins.kinds import KINDS
from kipu.plugins.manager import Plugins
from kipu.plugins.records import PluginInfo
from kipu.testing import HashingEmbedder, ParagraphChunker, WordStrategy
from kipu.types import Distillation, Filtered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from distributions import Site

HOOKS = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("kipu_")}


@attrs.frozen
class OnePerFile:
    """Keep the best hit of each file."""

    async def process(self, query: Any, hits: list[Any]) -> list[Any]:
        return list({hit.chunk.path: hit for hit in reversed(hits)}.values())[::-1]


@attrs.frozen
class LastWord:
    """Keep what was said last."""

    async def distill(self, messages: Any, *, instructions: str, model: str | None = None) -> Distillation:
        return Distillation(messages[-1].text)


@attrs.frozen
class Hushed:
    """Write everything in small letters."""

    def filter(self, text: str, path: str) -> Filtered:
        return Filtered(text.lower())


# What the examples leave to their reader to write.
READERS = {
    "HashingEmbedder": HashingEmbedder,
    "Paragraphs": ParagraphChunker,
    "Newest": WordStrategy,
    "OnePerFile": OnePerFile,
    "LocalModel": LastWord,
    "Redact": Hushed,
}


def example(hook: Callable[..., None]) -> str:
    """The code at the end of a hook's documentation."""
    _, _, code = inspect.getdoc(hook).partition("The smallest example::")  # type: ignore[union-attr]
    return textwrap.dedent(code)


def plugin(source: str, **names: object) -> ModuleType:
    """A plugin's module, as if it had been imported from a file."""
    module = ModuleType("example")
    vars(module).update(names)
    exec(f"from kipu import hookimpl\n{source}", vars(module))
    return module


def info(name: str = "example") -> PluginInfo:
    return PluginInfo(name, f"kipu-{name}", "1.0")


@pytest.fixture
def plugins(site: Site) -> Plugins:
    return Plugins()


def test_the_hooks_are_these() -> None:
    assert sorted(HOOKS) == [
        "kipu_indexed",
        "kipu_register_chunkers",
        "kipu_register_embedders",
        "kipu_register_flushers",
        "kipu_register_postprocessors",
        "kipu_register_strategies",
        "kipu_register_write_filters",
        "kipu_searched",
    ]


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_is_documented_with_its_parameters_its_version_and_an_example(name: str) -> None:
    documentation = inspect.getdoc(HOOKS[name]) or ""
    assert re.findall(r":param (\w+):", documentation) == list(inspect.signature(HOOKS[name]).parameters)
    assert re.search(r"^New in version \d+\.\d+\.\d+\. ", documentation, re.MULTILINE)
    assert f"def {name}({', '.join(inspect.signature(HOOKS[name]).parameters)}):" in example(HOOKS[name])


@pytest.mark.parametrize(
    ("hook", "kind", "name", "cls"),
    [
        ("kipu_register_embedders", "embedder", "hashing", HashingEmbedder),
        ("kipu_register_chunkers", "chunker", "paragraphs", ParagraphChunker),
        ("kipu_register_strategies", "strategy", "newest", WordStrategy),
        ("kipu_register_postprocessors", "postprocessor", "one-per-file", OnePerFile),
        ("kipu_register_flushers", "flusher", "local", LastWord),
        ("kipu_register_write_filters", "filter", "redact", Hushed),
    ],
)
def test_the_example_of_a_registering_hook_registers(
    plugins: Plugins, hook: str, kind: str, name: str, cls: type
) -> None:
    example_info = info()
    plugins.add(plugin(example(HOOKS[hook]), **READERS), example_info)
    assert (plugins.problems, example_info.registers) == ([], [f"{kind} {name}"])
    assert plugins.find(kind, name).factory is cls
    assert plugins.names(kind) == [name]
    assert all(plugins.names(other) == [] for other in KINDS if other != kind)


@pytest.mark.parametrize(
    ("hook", "arguments", "printed"),
    [
        ("kipu_indexed", {"report": IndexReport(added=3)}, "3 new files\n"),
        ("kipu_searched", {"query": Query("x"), "results": SearchResults()}, "0 results\n"),
    ],
)
def test_the_example_of_an_observing_hook_observes(
    plugins: Plugins, capsys: pytest.CaptureFixture[str], hook: str, arguments: dict[str, Any], printed: str
) -> None:
    plugins.add(plugin(example(HOOKS[hook])), info())
    plugins.notify(hook, **arguments)
    assert (plugins.problems, capsys.readouterr().out) == ([], printed)


def test_the_example_at_the_top_of_the_module_is_a_plugin(plugins: Plugins) -> None:
    documentation = hookspecs.__doc__ or ""
    source = textwrap.dedent(documentation.partition("::\n")[2].partition("# pyproject.toml")[0])
    plugins.add(plugin(source), info())
    assert plugins.names("strategy") == ["newest"]
    assert plugins.find("strategy", "newest").factory(prefer_source="team").prefer_source == "team"


OBSERVER = """
seen = []

@hookimpl
def kipu_indexed(report):
    seen.append(("indexed", report.added, report.changed, report.renamed, report.removed))

@hookimpl
def kipu_searched(query, results):
    seen.append(("searched", query.text, query.source, [result.path for result in results]))
"""


async def test_observers_see_what_a_memory_does(
    plugins: Plugins, workspace: Path, write: Callable[[str, str], Path], config: Callable[..., Any]
) -> None:
    module = plugin(OBSERVER)
    plugins.add(module, info())
    note = write("memory/a.md", "valkey")
    async with Memory(config(), plugins=plugins) as memory:
        await memory.index()
        await memory.index()  # nothing changed: nothing to tell
        write("memory/b.md", "redis")
        note.unlink()
        await memory.search("redis", source="memory")
        await memory.search("redis", sync=False)
        write("outside.md", "redis")
        await memory.add("outside.md")
    assert module.seen == [
        ("indexed", 1, 0, 0, 0),
        ("indexed", 1, 0, 0, 1),
        ("searched", "redis", "memory", ["memory/b.md"]),
        ("searched", "redis", None, ["memory/b.md"]),
        ("indexed", 1, 0, 0, 0),
    ]


async def test_an_observer_that_raises_is_reported_and_dropped(
    plugins: Plugins, write: Callable[[str, str], Path], config: Callable[..., Any]
) -> None:
    broken = "@hookimpl\ndef kipu_searched(results):\n    raise ValueError('no disk')\n"
    plugins.add(plugin(broken), info("broken"))
    observer = plugin(OBSERVER)
    plugins.add(observer, info("working"))
    write("memory/a.md", "valkey")
    async with Memory(config(), plugins=plugins) as memory:
        for _ in range(3):
            assert len(await memory.search("valkey")) == 1
    assert [what for what, *_ in observer.seen] == ["indexed", "searched", "searched", "searched"]
    assert plugins.problems == ["The plugin kipu-broken 1.0 (broken) failed in kipu_searched: ValueError: no disk"]


async def test_a_chunker_and_a_post_processor_from_a_plugin_do_their_work(
    plugins: Plugins, workspace: Path, write: Callable[[str, str], Path]
) -> None:
    for name, hook in HOOKS.items():
        if name.startswith("kipu_register"):
            plugins.add(plugin(example(hook), **READERS), info(name))
    write("memory/a.md", "valkey one\n\nvalkey two\n")
    write("memory/b.md", "valkey\n")
    write(
        "kipu.toml",
        '[index]\nchunker = "paragraphs"\n[search]\nstrategy = "newest"\npostprocessors = ["one-per-file"]\n',
    )
    async with Memory(workspace, plugins=plugins) as memory:
        assert [(result.path, result.text) for result in await memory.search("valkey")] == [
            ("memory/a.md", "valkey one"),
            ("memory/b.md", "valkey"),
        ]
