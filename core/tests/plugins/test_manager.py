"""Plugins are found, loaded, blocked and explained; a broken one does not affect the others."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from kipu import Hit, Memory, MemoryConfig, SearchConfig, __version__, hookimpl
from kipu.errors import ConfigurationError, PluginClashError, PluginFailedError, PluginNotFoundError, QueryError
from kipu.plugins.manager import Plugins
from kipu.plugins.records import PluginInfo, disabled_by_environment
from kipu.plugins.suggest import did_you_mean
from kipu.testing import WordStrategy

if TYPE_CHECKING:
    from decimal import Decimal  # noqa: TC004 (that is the mistake of one of the plugins)

    from distributions import Site

STRATEGY = """
import attrs
from kipu import hookimpl

@attrs.frozen
class {cls}:
    async def search(self, query, index):
        return []

@hookimpl
def kipu_register_strategies(register):
    register("{name}", {cls})
"""


def strategy(name: str) -> str:
    return STRATEGY.format(name=name, cls=name.title())


def states(plugins: Plugins) -> dict[str, tuple[str, str]]:
    return {info.distribution: (info.state, info.reason) for info in plugins.infos}


# --- what is found -------------------------------------------------------------------------------------------------


def test_a_plugin_is_listed_with_its_state_and_what_it_registers(site):
    site.plugin("kipu-strategy-graph", strategy("graph"), version="1.2")
    plugins = Plugins()
    assert plugins.infos == [
        PluginInfo("strategy-graph", "kipu-strategy-graph", "1.2", "active", "", ["strategy graph"])
    ]
    assert plugins.problems == []


def test_a_command_is_listed_and_not_imported(site):
    site.install("kipu-server", {"kipu.commands": {"serve": "kipu_server:serve"}}, kipu_server="raise SystemExit(3)")
    plugins = Plugins()
    assert plugins.infos == [PluginInfo("serve", "kipu-server", "1.0", "active", "", ["command serve"])]
    assert plugins.problems == []


def test_a_distribution_may_have_several_plugins(site):
    site.install(
        "kipu-bundle",
        {"kipu": {"one": "bundle_one", "two": "bundle_two", "three": "bundle_three"}},
        bundle_one=strategy("one"),
        bundle_two="raise RuntimeError('no disk')",
        bundle_three=strategy("three"),
    )
    plugins = Plugins()
    assert plugins.names("strategy") == ["one", "three"]
    assert [(info.name, info.state) for info in plugins.infos] == [
        ("one", "active"),
        ("three", "active"),
        ("two", "broken"),
    ]


def test_a_plugin_may_register_several_kinds_and_names(site):
    site.standard()
    plugins = Plugins()
    assert [plugins.names(kind) for kind in ("chunker", "strategy", "postprocessor")] == [
        ["markdown"],
        ["keyword"],
        ["threshold"],
    ]


# --- what is broken ------------------------------------------------------------------------------------------------

NO_CLASS = """
from kipu import hookimpl

class Plain:
    async def search(self, query, index):
        return []

@hookimpl
def kipu_register_strategies(register):
    register("first", {factory})
"""


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import not_there", "ModuleNotFoundError: No module named 'not_there'"),
        ("from kipu import not_there", "ImportError: cannot import name 'not_there' from 'kipu'"),
        ("raise SystemExit('bye')", "SystemExit: bye"),
        ("class Own(BaseException): pass\nraise Own('bye')", "Own: bye"),
        ("import asyncio\nraise asyncio.CancelledError", "CancelledError"),
        ("def (", "SyntaxError: "),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        (
            "from kipu import hookimpl\n"
            "@hookimpl\ndef kipu_register_strategies(register):\n    raise OSError('no disk')",
            "OSError: no disk",
        ),
        (
            "from kipu import hookimpl\n@hookimpl\ndef kipu_register_strategies(registry):\n    pass",
            "PluginValidationError: Plugin 'kipu-broken 1.0 (broken)' for hook 'kipu_register_strategies'",
        ),
        (
            NO_CLASS.format(factory="Plain"),
            'TypeError: strategy "first" must be registered as a class made with attrs, not as <class ',
        ),
        (
            NO_CLASS.format(factory="lambda: Plain()"),
            'TypeError: strategy "first" must be registered as a class made with attrs, not as <function ',
        ),
        (
            "import attrs\nfrom kipu import hookimpl\n@attrs.frozen\nclass Empty:\n    pass\n"
            "@hookimpl\ndef kipu_register_strategies(register):\n    register('first', Empty)",
            'TypeError: strategy "first" has no method search(): see kipu.types',
        ),
    ],
    ids=[
        "missing module",
        "missing name",
        "SystemExit",
        "an exception of its own",
        "CancelledError",
        "SyntaxError",
        "raises at import",
        "raises at registering",
        "wrong argument",
        "no attrs class",
        "a function",
        "no method",
    ],
)
def test_a_broken_plugin_is_reported_and_skipped(site, source, reason):
    site.plugin("kipu-broken", source)
    site.plugin("kipu-strategy-graph", strategy("graph"))
    plugins = Plugins()
    state, shown = states(plugins)["kipu-broken"]
    assert state == "broken"
    assert shown.startswith(reason)
    assert plugins.problems == [
        f"Plugin kipu-broken 1.0 failed to load and was skipped: {shown}. "
        "Upgrade it (pip install -U kipu-broken) or disable it (-p no:kipu-broken)."
    ]
    assert plugins.names("strategy") == ["graph"]


async def test_a_plugin_that_breaks_half_way_leaves_nothing_behind(site):
    half = strategy("half") + (
        "\n@hookimpl\ndef kipu_register_postprocessors(register):\n    raise OSError('no disk')\n"
        "\n@hookimpl\ndef kipu_indexed(report):\n    raise OSError('no disk')\n"
    )
    site.plugin("kipu-half", half)
    plugins = Plugins()
    assert (plugins.infos[0].state, plugins.infos[0].registers, plugins.names("strategy")) == ("broken", [], [])
    await plugins.notify("kipu_indexed", report=None)
    assert len(plugins.problems) == 1


def test_a_component_of_a_broken_plugin_is_explained(site):
    site.plugin("kipu-strategy-graph", "import networkx_that_is_not_there")
    with pytest.raises(PluginNotFoundError) as caught:
        Plugins().find("strategy", "graph")
    assert str(caught.value) == (
        'The strategy "graph" comes with kipu-strategy-graph 1.0, which is not in use: '
        "ModuleNotFoundError: No module named 'networkx_that_is_not_there'."
    )


NEWER = strategy("graph") + "\n@hookimpl\ndef kipu_from_the_future(something):\n    pass\n"


def test_of_a_plugin_for_a_newer_kipu_the_known_hooks_are_used(site):
    site.plugin("kipu-strategy-graph", NEWER)
    plugins = Plugins()
    reason = (
        f"uses kipu_from_the_future, which kipu-core {__version__} does not have. "
        "Try: pip install -U kipu-core, or an earlier kipu-strategy-graph."
    )
    assert states(plugins) == {"kipu-strategy-graph": ("active", reason)}
    assert plugins.problems == [f"Plugin kipu-strategy-graph 1.0 {reason} The rest of it is in use."]
    assert plugins.names("strategy") == ["graph"]


def test_an_optional_hook_of_a_newer_kipu_is_ignored(site):
    site.plugin(
        "kipu-strategy-graph",
        NEWER.replace("\n@hookimpl\ndef kipu_from", "\n@hookimpl(optionalhook=True)\ndef kipu_from"),
    )
    plugins = Plugins()
    assert (states(plugins), plugins.problems) == ({"kipu-strategy-graph": ("active", "")}, [])


# --- names ---------------------------------------------------------------------------------------------------------


def test_a_name_that_two_plugins_register_is_an_error_where_it_is_used(site):
    site.plugin("kipu-strategy-graph", strategy("graph"), version="1.0")
    site.plugin("other-graph", strategy("graph"), version="2.0")
    site.plugin("kipu-strategy-newest", strategy("newest"))
    plugins = Plugins()
    assert plugins.problems == []
    assert plugins.find("strategy", "newest").plugin == "kipu-strategy-newest 1.0"
    with pytest.raises(PluginClashError) as caught:
        plugins.find("strategy", "graph")
    assert str(caught.value) == (
        'Both kipu-strategy-graph 1.0 and other-graph 2.0 register a strategy "graph". '
        "Disable one of them, for example with: -p no:other-graph"
    )
    assert Plugins({"other-graph": "-p"}).find("strategy", "graph").plugin == "kipu-strategy-graph 1.0"


def test_an_unknown_name_is_explained(site):
    site.plugin("kipu-strategy-graph", strategy("graph"))
    site.plugin("kipu-strategy-newest", strategy("newest"))
    plugins = Plugins()
    with pytest.raises(PluginNotFoundError) as caught:
        plugins.find("strategy", "grpah")
    assert str(caught.value) == ('No strategy "grpah". Did you mean "graph"? Installed: graph, newest.')
    with pytest.raises(PluginNotFoundError) as caught:
        plugins.find("postprocessor", "mmr")
    assert str(caught.value) == (
        'No plugin with a post-processor is installed, so there is no "mmr". The standard ones come with: '
        "pip install kipu"
    )


def test_only_packages_of_kipu_itself_are_recommended(site):
    site.standard()
    for name, package in (("hybrid", " It comes with: pip install kipu-strategy-hybrid"), ("colour", "")):
        with pytest.raises(PluginNotFoundError) as caught:
            Plugins().find("strategy", name)
        assert str(caught.value) == f'No strategy "{name}". Installed: keyword.{package}'


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("grpah", ["graph", "newest"], ' Did you mean "graph"?'),
        ("GRAPH", ["graph"], ' Did you mean "graph"?'),
        ("notes", ["NOTES2"], ' Did you mean "NOTES2"?'),
        ("xyz", ["graph"], ""),
        ("graph", [], ""),
        ("", ["graph"], ""),
    ],
)
def test_a_similar_name_is_suggested(name, known, hint):
    assert did_you_mean(name, known) == hint


# --- blocking ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kipu-strategy-graph", "Kipu_Strategy.Graph", "strategy-graph", "STRATEGY_graph"])
def test_a_plugin_is_blocked_by_its_distribution_or_its_entry_point(site, name):
    site.plugin("kipu-strategy-graph", "raise RuntimeError('imported')")
    plugins = Plugins({name: "-p"})
    assert states(plugins) == {"kipu-strategy-graph": ("blocked", "blocked by -p")}
    assert plugins.problems == []
    with pytest.raises(PluginNotFoundError) as caught:
        plugins.find("strategy", "graph")
    assert str(caught.value) == (
        'The strategy "graph" comes with kipu-strategy-graph 1.0, which is not in use: blocked by -p.'
    )


def test_blocking_what_is_not_installed_is_reported(site):
    site.plugin("kipu-strategy-graph", strategy("graph"))
    site.install("kipu-server", {"kipu.commands": {"serve": "kipu_server:serve"}})
    assert Plugins({"kipu-strategy-grpah": "-p", "zzz": "KIPU_DISABLE_PLUGINS", "kipu-server": "-p"}).problems == [
        '-p blocks "kipu-strategy-grpah", which is not installed. Did you mean "kipu-strategy-graph"?',
        'KIPU_DISABLE_PLUGINS blocks "zzz", which is not installed.',
    ]


def test_the_environment_variable_holds_names_separated_by_commas(monkeypatch):
    monkeypatch.setenv("KIPU_DISABLE_PLUGINS", " kipu-one, two ,,")
    assert disabled_by_environment() == ["kipu-one", "two"]
    monkeypatch.delenv("KIPU_DISABLE_PLUGINS")
    assert disabled_by_environment() == []


async def test_plugins_are_blocked_by_the_environment_and_the_configuration(site, workspace, monkeypatch):
    site.standard()
    site.plugin("kipu-one", "raise RuntimeError('imported')")
    site.plugin("kipu-two", "raise RuntimeError('imported')")
    monkeypatch.setenv("KIPU_DISABLE_PLUGINS", "kipu-one")
    (workspace / "kipu.toml").write_text('[plugins]\ndisable = ["kipu-two"]\n', "utf-8")
    async with Memory(workspace) as memory:
        assert await memory.search("anything") == []
        assert memory.plugins.problems == []
        assert states(memory.plugins) == {
            "fake-standard": ("active", ""),
            "kipu-one": ("blocked", "blocked by KIPU_DISABLE_PLUGINS"),
            "kipu-two": ("blocked", "blocked by plugins.disable in the configuration"),
        }


# --- options of one search -----------------------------------------------------------------------------------------


@attrs.frozen
class First:
    """Keep the first hits only: a post-processor with a per-call option, and with a field that is no option."""

    count: int = attrs.field(
        default=2, validator=attrs.validators.ge(1), metadata={"help": "How many hits.", "per_call": "first"}
    )
    cache: dict[str, int] = attrs.field(factory=dict, init=False)

    async def process(self, query: Any, hits: list[Hit]) -> list[Hit]:
        return hits[: self.count]


@attrs.frozen
class Scored:
    """A strategy with a per-call option, which looks into the tables of another."""

    score: float = attrs.field(default=1.0, metadata={"per_call": "fixed_score"})

    async def search(self, query: Any, index: Any) -> list[Hit]:
        return [attrs.evolve(hit, score=self.score) for hit in await WordStrategy().search(query, index)]


@attrs.frozen
class Listed:
    """A post-processor with per-call options of other types."""

    words: list[str] = attrs.field(factory=list, metadata={"per_call": "listed_words"})
    first: int | None = attrs.field(default=None, metadata={"per_call": "listed_first"})

    async def process(self, query: Any, hits: list[Hit]) -> list[Hit]:
        return hits


@attrs.frozen
class Unresolved:
    """A post-processor with an option whose type is only imported for type checkers."""

    price: Decimal | None = attrs.field(default=None, metadata={"per_call": "price"})

    async def process(self, query: Any, hits: list[Hit]) -> list[Hit]:
        return hits


@pytest.fixture
def options(site: Site) -> Plugins:
    module = ModuleType("options")

    @hookimpl
    def kipu_register_postprocessors(register: Any) -> None:
        register("first", First)
        register("listed", Listed)
        register("unresolved", Unresolved)

    @hookimpl
    def kipu_register_strategies(register: Any) -> None:
        register("scored", Scored)

    module.kipu_register_postprocessors = kipu_register_postprocessors  # type: ignore[attr-defined]
    module.kipu_register_strategies = kipu_register_strategies  # type: ignore[attr-defined]
    plugins = Plugins()
    plugins.add(module, PluginInfo("options", "kipu-options", "1.0"))
    return plugins


async def test_an_option_switches_its_stage_on_for_one_search(options, config, write):
    write("memory/a.md", "valkey\n\nvalkey two\n")
    async with Memory(config(), plugins=options) as memory:
        assert len(await memory.search("valkey")) == 2
        assert len(await memory.search("valkey", first=1)) == 1
        assert len(await memory.search("valkey")) == 2


async def test_an_option_without_a_type_at_run_time_is_an_error_of_its_plugin(options, config):
    async with Memory(config(), plugins=options) as memory:
        await memory.search("valkey", listed_words=["apple"], listed_first=3)
        with pytest.raises(PluginFailedError, match=r"^price: the types of its options cannot be looked up \(name 'De"):
            await memory.search("valkey", price=3)


async def test_a_component_that_was_built_for_one_search_is_closed_after_it(options, config, monkeypatch):
    closed = []

    async def close(self):
        closed.append(self.count)

    monkeypatch.setattr(First, "close", close, raising=False)
    async with Memory(config(postprocessors=["first"]), plugins=options) as memory:
        await memory.search("valkey", first=1)
        await memory.search("valkey")
        assert closed == [1]
    assert closed == [1, 2]


async def test_a_per_call_option_replaces_the_configured_one(options, config, write):
    write("memory/a.md", "valkey\n\nvalkey two\n")
    async with Memory(config(postprocessors=[{"use": "first", "count": 1}]), plugins=options) as memory:
        assert len(await memory.search("valkey")) == 1
        assert len(await memory.search("valkey", first=2)) == 2
        assert len(await memory.search("valkey")) == 1


async def test_an_option_of_a_strategy_reaches_it_and_only_it(options, config, write):
    write("memory/a.md", "valkey")
    async with Memory(config(), plugins=options) as memory:
        results = await memory.search("valkey", strategy="scored", fixed_score=0.25)
        assert [result.score for result in results] == [0.25]
        assert [result.score for result in await memory.search("valkey", strategy="scored")] == [1.0]
        with pytest.raises(ConfigurationError) as caught:
            await memory.search("valkey", fixed_score=0.25)
    assert str(caught.value) == (
        'The option "fixed_score" is for the strategy "scored", but this search uses '
        '"kipu.testing.doubles.WordStrategy". Choose it too: strategy="scored".'
    )


async def test_an_unknown_option_is_refused(options, config):
    async with Memory(config(), plugins=options) as memory:
        with pytest.raises(PluginNotFoundError) as caught:
            await memory.search("valkey", frist=3)
    assert str(caught.value) == (
        'No installed plugin has an option "frist" for a search. Did you mean "first"? '
        "Installed plugins offer: first, fixed_score, listed_first, listed_words, price."
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"first": 0}, "'first' must be >= 1: 0."),
        ({"first": "1"}, "first must be a whole number, not '1'."),
        ({"first": True}, "first must be a whole number, not True."),
        ({"fixed_score": "0.5", "strategy": "scored"}, "fixed_score must be a number, not '0.5'."),
        ({"listed_words": "apple"}, "listed_words must be a list in brackets, not 'apple'."),
        ({"listed_words": ["apple", 1]}, "listed_words is invalid: 1: must be a text in quotes, not 1."),
    ],
)
async def test_an_invalid_per_call_option_is_refused_as_in_the_file(options, config, given, message):
    async with Memory(config(), plugins=options) as memory:
        with pytest.raises(QueryError) as caught:
            await memory.search("valkey", **given)
    assert str(caught.value) == message


def test_without_plugins_there_are_no_options(site):
    with pytest.raises(PluginNotFoundError) as caught:
        Plugins().find_per_call_option("min_score")
    assert str(caught.value) == 'No installed plugin has an option "min_score" for a search.'


# --- components that a program registers, and those that fail ------------------------------------------------------


class Failing:
    async def search(self, query: Any, index: Any) -> list[Hit]:
        raise ValueError("no disk")


class Dropping:
    async def process(self, query: Any, hits: list[Hit]) -> list[Hit]:
        return hits[1:]


async def test_a_strategy_that_raises_is_named(memory):
    memory.register_strategy("failing", Failing())
    with pytest.raises(PluginFailedError) as caught:
        await memory.search("anything", strategy="failing")
    assert str(caught.value) == 'The strategy "failing" failed in this search: ValueError: no disk.'
    assert isinstance(caught.value.__cause__, ValueError)


async def test_a_program_registers_components_without_a_plugin(memory, write):
    write("memory/a.md", "valkey\n\nvalkey two\n")
    memory.register_strategy("mine", Scored())
    assert len(await memory.search("valkey", strategy="mine")) == 2
    memory.register_postprocessor("dropping", Dropping())
    assert len(await memory.search("valkey", strategy="mine")) == 1


async def test_a_name_is_registered_once(memory):
    memory.register_strategy("mine", WordStrategy())
    with pytest.raises(ConfigurationError) as caught:
        memory.register_strategy("mine", WordStrategy())
    assert str(caught.value) == 'There is a strategy "mine" already; register yours under another name.'


async def test_only_components_can_be_registered(memory):
    with pytest.raises(ConfigurationError, match=r'^The strategy "x" must be an object with a method search\(\), not '):
        memory.register_strategy("x", Dropping())  # type: ignore[arg-type]
    with pytest.raises(
        ConfigurationError, match=r'^The post-processor "x" must be an object with a method process\(\)'
    ):
        memory.register_postprocessor("x", Dropping)  # type: ignore[arg-type]


@attrs.frozen
class Stateful:
    """A chunker with a field that is no option."""

    seen: list[str] = attrs.field(factory=list, init=False)

    def chunk(self, document: Any) -> list[Any]:
        from kipu.testing import ParagraphChunker

        self.seen.append(document.path)
        return ParagraphChunker().chunk(document)


async def test_the_state_of_a_chunker_does_not_outdate_the_index(workspace, write):
    from kipu import IndexConfig

    write("memory/a.md", "valkey")
    chunker = Stateful()
    config = MemoryConfig(workspace, index=IndexConfig(chunker), search=SearchConfig(WordStrategy(), []))
    async with Memory(config) as memory:
        assert (await memory.index()).added == 1
        assert (await memory.status()).pending == []


@attrs.frozen
class Counting:
    """A strategy with a table of its own, of the same version as that of `WordStrategy`."""

    schema_version: int = 1

    async def create(self, connection: Any) -> None:
        await connection.execute("CREATE TABLE counting (chunk_id INTEGER)")

    async def add(self, connection: Any, chunks: Any) -> None:
        await connection.executemany("INSERT INTO counting VALUES (?)", [(chunk.id,) for chunk in chunks])

    async def remove(self, connection: Any, chunk_ids: Any) -> None:
        await connection.executemany("DELETE FROM counting WHERE chunk_id = ?", [(id,) for id in chunk_ids])

    async def search(self, query: Any, index: Any) -> list[Hit]:
        rows = await index.connection.execute_fetchall("SELECT chunk_id FROM counting")
        return [Hit(chunk, 1.0) for chunk in (await index.chunks(row[0] for row in rows)).values()]


async def test_another_strategy_under_the_same_name_gets_tables_of_its_own(config, write):
    write("memory/a.md", "valkey")
    for strategy in (WordStrategy(), Counting()):
        async with Memory(config(strategy=Failing())) as memory:
            memory.register_strategy("mine", strategy)
            assert len(await memory.search("valkey", strategy="mine")) == 1


def test_an_option_with_a_reserved_name_breaks_the_plugin(site):
    site.plugin(
        "kipu-postprocessor-mine",
        """
import attrs
from kipu import hookimpl

@attrs.frozen
class Mine:
    source: str = attrs.field(default="", metadata={"per_call": "source"})

    async def process(self, query, hits):
        return hits

@hookimpl
def kipu_register_postprocessors(register):
    register("mine", Mine)
""",
    )
    (info,) = Plugins().infos
    assert (info.state, info.reason) == (
        "broken",
        'TypeError: post-processor "mine" has the option "source", which is reserved',
    )


def test_a_typo_in_the_name_of_a_hook_is_explained(site):
    site.plugin("kipu-strategy-graph", NEWER.replace("kipu_from_the_future", "kipu_register_strategie"))
    assert Plugins().infos[0].reason == (
        f"uses kipu_register_strategie, which kipu-core {__version__} does not have. "
        'Did you mean "kipu_register_strategies"?'
    )


def test_a_plugin_without_a_hook_is_reported(site):
    site.plugin("kipu-postprocessor-mine", "def kipu_register_postprocessors(register): ...")
    plugins = Plugins()
    assert plugins.infos[0].reason == "has no hook: is @hookimpl missing?"
    assert plugins.problems == ["Plugin kipu-postprocessor-mine 1.0 has no hook: is @hookimpl missing?"]
