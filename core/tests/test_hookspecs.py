"""The hooks: each is documented with its parameters and an example, and the example works."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from kipu import IndexReport, Memory, hookspecs
from kipu.plugins.kinds import KINDS
from kipu.plugins.manager import Plugins
from kipu.plugins.records import PluginInfo
from kipu.testing import HashingEmbedder, ParagraphChunker, WordStrategy
from kipu.types import Distillation, Filtered

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributions import Site

HOOKS = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("kipu_")}


@attrs.frozen
class OnePerFile:
    """Keep the best hit of each file."""

    async def process(self, query: Any, hits: list[Any]) -> list[Any]:
        return list({hit.chunk.path: hit for hit in reversed(hits)}.values())[::-1]


@attrs.frozen
class Names:
    """Say which words begin with a capital letter."""

    identity = "names"

    async def annotate(self, texts: Any) -> list[str]:
        return [json.dumps({"names": re.findall(r"[A-Z]\w+", text)}) for text in texts]


@attrs.frozen
class LastMessage:
    """Keep the last message."""

    async def distill(self, messages: Any, *, instructions: str, model: str | None = None) -> Distillation:
        return Distillation(messages[-1].text)


@attrs.frozen
class LowerCase:
    """Write everything in lower case."""

    def filter(self, text: str, path: str) -> Filtered:
        return Filtered(text.lower())


# What the examples leave to their reader.
READERS = {
    "HashingEmbedder": HashingEmbedder,
    "Paragraphs": ParagraphChunker,
    "Newest": WordStrategy,
    "OnePerFile": OnePerFile,
    "LocalModel": LastMessage,
    "Names": Names,
    "Redact": LowerCase,
}


def example(hook: Callable[..., None]) -> str:
    """Return the code at the end of a hook's documentation."""
    _, _, code = inspect.getdoc(hook).partition("The smallest example::")  # type: ignore[union-attr]
    return textwrap.dedent(code)


def plugin(source: str, **names: object) -> ModuleType:
    """Return a plugin's module, as if it had been imported from a file."""
    module = ModuleType("example")
    vars(module).update(names)
    exec(f"from kipu import hookimpl\n{source}", vars(module))
    return module


def info(name: str = "example") -> PluginInfo:
    return PluginInfo(name, f"kipu-{name}", "1.0")


@pytest.fixture
def plugins(site: Site) -> Plugins:
    return Plugins()


def test_the_hooks_are_these():
    assert sorted(HOOKS) == [
        "kipu_indexed",
        "kipu_register_annotators",
        "kipu_register_chunkers",
        "kipu_register_embedders",
        "kipu_register_flushers",
        "kipu_register_postprocessors",
        "kipu_register_strategies",
        "kipu_register_write_filters",
    ]


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_is_documented_with_its_parameters_its_version_and_an_example(name):
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
        ("kipu_register_annotators", "annotator", "names", Names),
        ("kipu_register_flushers", "flusher", "local", LastMessage),
        ("kipu_register_write_filters", "filter", "redact", LowerCase),
    ],
)
def test_the_example_of_a_registering_hook_registers(plugins, hook, kind, name, cls):
    example_info = info()
    plugins.add(plugin(example(HOOKS[hook]), **READERS), example_info)
    assert (plugins.problems, example_info.registers) == ([], [f"{KINDS[kind].label} {name}"])
    assert plugins.find(kind, name).factory is cls
    assert plugins.names(kind) == [name]
    assert all(plugins.names(other) == [] for other in KINDS if other != kind)


async def test_the_example_of_the_observing_hook_observes(plugins, capsys):
    plugins.add(plugin(example(HOOKS["kipu_indexed"])), info())
    await plugins.notify("kipu_indexed", report=IndexReport(added=3))
    assert (plugins.problems, capsys.readouterr().out) == ([], "3 new files\n")


def test_the_example_at_the_top_of_the_module_is_a_plugin(plugins):
    documentation = hookspecs.__doc__ or ""
    source = textwrap.dedent(documentation.partition("::\n")[2].partition("# pyproject.toml")[0])
    plugins.add(plugin(source), info())
    assert plugins.names("strategy") == ["newest"]
    assert plugins.find("strategy", "newest").factory(prefer_source="team").prefer_source == "team"


OBSERVER = """
seen = []

@hookimpl
def kipu_indexed(report):
    seen.append((report.added, report.changed, report.renamed, report.removed))
"""


async def test_observers_see_each_run_that_changed_something(plugins, workspace, write, config):
    module = plugin(OBSERVER)
    plugins.add(module, info())
    note = write("memory/a.md", "valkey")
    async with Memory(config(), plugins=plugins) as memory:
        await memory.index()
        await memory.index()  # nothing changed
        write("memory/b.md", "redis")
        note.unlink()
        await memory.search("redis", source="memory")
        await memory.search("redis", sync=False)
        write("outside.md", "redis")
        await memory.add("outside.md")
    assert module.seen == [
        (1, 0, 0, 0),
        (1, 0, 0, 1),
        (1, 0, 0, 0),
    ]


async def test_an_observer_that_raises_is_reported(plugins, write, config):
    broken = "@hookimpl\ndef kipu_indexed(report):\n    raise ValueError('no disk')\n"
    plugins.add(plugin(broken), info("broken"))
    observer = plugin(OBSERVER)
    plugins.add(observer, info("working"))
    async with Memory(config(), plugins=plugins) as memory:
        for number in range(3):
            write(f"memory/{number}.md", f"valkey {number}")
            assert len(await memory.search("valkey")) == number + 1
    assert len(observer.seen) == 3
    assert plugins.problems == ['The plugin "kipu-broken 1.0 (broken)" failed in kipu_indexed: ValueError: no disk.']


async def test_an_observer_that_never_returns_is_given_up(plugins):
    module = plugin(
        "import threading\nend = threading.Event()\n\n@hookimpl\ndef kipu_indexed(report):\n    end.wait()\n"
    )
    plugins.add(module, info("endless"))
    observer = plugin(OBSERVER)
    plugins.add(observer, info("working"))
    for _ in range(9):
        await plugins.notify("kipu_indexed", 0.02, report=IndexReport(added=1))
    module.end.set()
    assert len(observer.seen) == 9
    label = 'The plugin "kipu-endless 1.0 (endless)"'
    assert plugins.problems[0].startswith(f"{label} took more than 0.02 seconds in kipu_indexed and was abandoned.")
    assert plugins.problems[-1] == f"{label} is not called: 4 calls that were abandoned still run."


async def test_an_observer_may_raise_anything(plugins):
    own = "class Own(BaseException):\n    pass\n\n"
    plugins.add(plugin(f"{own}@hookimpl\ndef kipu_indexed(report):\n    raise Own('gone')\n"), info("own"))
    busy = "from kipu.errors import QueryError\n\n@hookimpl\ndef kipu_indexed():\n    raise QueryError('Not now.')\n"
    plugins.add(plugin(busy), info("busy"))
    await plugins.notify("kipu_indexed", report=IndexReport())
    assert sorted(plugins.problems) == [
        'The plugin "kipu-busy 1.0 (busy)": Not now.',
        'The plugin "kipu-own 1.0 (own)" failed in kipu_indexed: Own: gone.',
    ]


async def test_components_of_plugins_work_together(plugins, workspace, write):
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
