"""Configuration: from ``kipu.toml`` and from Python, strictly, with errors that say where and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from attrs import validators

from kipu import FilesConfig, IndexConfig, Memory, MemoryConfig, SearchConfig, hookimpl
from kipu.config import load_config
from kipu.errors import ConfigurationError, PluginFailedError, PluginNotFoundError
from kipu.plugins.build import build_component
from kipu.plugins.manager import Plugins
from kipu.plugins.records import PluginInfo
from kipu.testing import ParagraphChunker, WordStrategy

if TYPE_CHECKING:
    from collections.abc import Callable

    from distributions import Site


@attrs.frozen
class Everything:
    """A post-processor with an option of every kind."""

    count: int = attrs.field(default=1, validator=validators.ge(1))
    share: float = 0.5
    enabled: bool = True
    label: str = "none"
    words: Sequence[str] = attrs.field(factory=list)
    weights: Mapping[str, float] = attrs.field(factory=dict)
    path: Path = Path()
    limit: int | None = None
    mode: str = attrs.field(default="fast", validator=validators.in_(("fast", "slow")))
    cache: dict[str, int] = attrs.field(factory=dict, init=False)

    async def process(self, query: Any, hits: Any) -> Any:
        return hits


@attrs.frozen
class Nothing:
    """A post-processor without options."""

    async def process(self, query: Any, hits: Any) -> Any:
        return hits


if TYPE_CHECKING:
    from decimal import Decimal  # noqa: TC004 (that is the mistake)


@attrs.frozen
class Unreadable:
    """A post-processor whose author hid the type of an option from everybody but the type checker."""

    price: Decimal | None = None

    async def process(self, query: Any, hits: Any) -> Any:
        return hits


@pytest.fixture
def plugins(site: Site) -> Plugins:
    module = ModuleType("everything")

    @hookimpl
    def kipu_register_postprocessors(register: Any) -> None:
        register("everything", Everything)
        register("nothing", Nothing)
        register("unreadable", Unreadable)

    module.kipu_register_postprocessors = kipu_register_postprocessors  # type: ignore[attr-defined]
    plugins = Plugins()
    plugins.add(module, PluginInfo("everything", "kipu-everything", "1.0"))
    return plugins


def loaded(workspace: Path, text: str | bytes) -> MemoryConfig:
    (workspace / "kipu.toml").write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return load_config(workspace)


def complaints(workspace: Path, text: str | bytes) -> list[str]:
    """What is wrong with a configuration, without the path of the file that each line begins with."""
    with pytest.raises(ConfigurationError) as caught:
        loaded(workspace, text)
    prefix = f"{workspace / 'kipu.toml'}"
    lines = str(caught.value).split("\n")
    assert all(line.startswith(prefix) for line in lines)
    return [line.removeprefix(prefix).removeprefix(": ") for line in lines]


# --- what is right -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "# only a comment\n", "[search]\n", "\n[files]\n[index]\n[search]\n[plugins]\n"])
def test_what_is_not_configured_has_its_default(workspace: Path, text: str) -> None:
    assert loaded(workspace, text) == MemoryConfig(workspace)


def test_a_workspace_without_a_file_has_the_defaults(workspace: Path) -> None:
    config = load_config(workspace)
    assert config == MemoryConfig(workspace)
    assert (config.index.chunker, config.search.strategy) == ("markdown", None)
    assert (config.search.postprocessors, config.search.max_results, config.search.sync) == (None, 6, True)


def test_every_option_can_be_set_in_the_file(workspace: Path) -> None:
    text = """
        [files]
        paths = ["docs", "~/notes"]
        exclude = ["drafts/"]
        [index]
        chunker = { use = "markdown", tokens = 200 }
        [search]
        strategy = "graph"
        postprocessors = ["threshold", { use = "decay", half_life_days = 14 }]
        max_results = 3
        sync = false
        [plugins]
        disable = ["kipu-old"]
    """
    assert loaded(workspace, text) == attrs.evolve(
        MemoryConfig(workspace),
        files=FilesConfig(["docs", "~/notes"], ["drafts/"]),
        index=IndexConfig({"use": "markdown", "tokens": 200}),
        search=SearchConfig("graph", ["threshold", {"use": "decay", "half_life_days": 14}], 3, False),
        plugins=attrs.evolve(MemoryConfig().plugins, disable=["kipu-old"]),
    )


def test_a_byte_order_mark_is_no_part_of_the_configuration(workspace: Path) -> None:
    assert loaded(workspace, b"\xef\xbb\xbf[search]\r\nmax_results = 3\r\n").search.max_results == 3


def test_every_option_says_what_it_is() -> None:
    for section in attrs.fields(MemoryConfig):
        if attrs.has(section.type):
            assert all(field.metadata["help"].endswith(".") for field in attrs.fields(section.type))


# --- what is wrong with the file -----------------------------------------------------------------------------------

COMPONENT = 'must be a name such as "example", or a table such as { use = "example", ... }, not '
COMPONENTS = 'must be a list of names such as "example", or of tables such as { use = "example", ... }, not '


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[search]\nsync = 'false'", "search.sync: must be true or false, not 'false'"),
        ("[search]\nsync = 1", "search.sync: must be true or false, not 1"),
        ("[search]\nmax_results = '3'", "search.max_results: must be a whole number, not '3'"),
        ("[search]\nmax_results = 3.0", "search.max_results: must be a whole number, not 3.0"),
        ("[search]\nmax_results = true", "search.max_results: must be a whole number, not True"),
        ("[search]\nmax_results = 0", "search: max_results must be a whole number from 1 to 10,000, not 0"),
        ("[files]\npaths = 'docs'", "files.paths: must be a list in brackets, not 'docs'"),
        ("[files]\nexclude = ['a', 1]", "files.exclude.1: must be a text in quotes, not 1"),
        ("[plugins]\ndisable = 'kipu-old'", "plugins.disable: must be a list in brackets, not 'kipu-old'"),
        ("search = 'keyword'", "search: must be a table, not 'keyword'"),
        ("[[files]]\npaths = []", "files: must be a table, not a list"),
        ("[search]\nstrategy = 1", f"search: strategy {COMPONENT}1"),
        ("[search]\nstrategy = { name = 'a' }", f"search: strategy {COMPONENT}a dict"),
        ("[search]\npostprocessors = 'mmr'", "search.postprocessors: must be a list in brackets, not 'mmr'"),
        ("[search]\npostprocessors = ['mmr', 2]", f"search: postprocessors {COMPONENTS}a list"),
        ("[index]\nchunker = []", f"index: chunker {COMPONENT}a list"),
        ("[index]\nembedder = { api_key = 'sk-secret' }", f"index: embedder {COMPONENT}a dict"),
        ("[[index]]\nembedder = { api_key = 'sk-secret' }", "index: must be a table, not a list"),
        ("workspace = 'x'", 'no option "workspace". The workspace is the folder of this file.'),
        (
            "[serch]\nmax_results = 3",
            'no option "serch". Did you mean "search"? It has: files, index, search, writing, flush, sync, plugins, '
            "timezone.",
        ),
        (
            "[search]\nmax_result = 3",
            'no option "search.max_result". Did you mean "max_results"? '
            "It has: strategy, postprocessors, max_results, sync.",
        ),
        ("[search]\nzzz = 3", 'no option "search.zzz". It has: strategy, postprocessors, max_results, sync.'),
        ("max = [", " is not valid TOML: Invalid value (at end of document)."),
    ],
)
def test_what_cannot_be_is_an_error_that_says_where(workspace: Path, text: str, complaint: str) -> None:
    assert complaints(workspace, text) == [complaint]


def test_all_that_is_wrong_is_said_at_once(workspace: Path) -> None:
    text = "[serch]\n[files]\npaths = 'docs'\n[search]\nsync = 'false'\nmax_result = 3\nmax_results = '3'"
    assert sorted(line.partition(":")[0].partition(".")[0] for line in complaints(workspace, text)) == [
        "files",
        'no option "search',
        'no option "serch"',
        "search",
        "search",
    ]


def test_a_file_in_another_encoding_is_an_error(workspace: Path) -> None:
    (complaint,) = complaints(workspace, "[search]".encode("utf-16"))
    assert complaint.startswith(" cannot be read: ")
    assert complaint.endswith(". It must be a TOML file in UTF-8.")


def test_a_folder_in_the_place_of_the_file_is_an_error(workspace: Path) -> None:
    (workspace / "kipu.toml").mkdir()
    with pytest.raises(ConfigurationError, match=r"kipu\.toml must be a file of at most 1,000,000 bytes\."):
        load_config(workspace)


def test_a_memory_reads_the_file_of_its_workspace(workspace: Path) -> None:
    (workspace / "kipu.toml").write_text("[search]\nmax_results = 'many'\n", "utf-8")
    with pytest.raises(ConfigurationError, match=r"search\.max_results: must be a whole number, not 'many'"):
        Memory(workspace)


# --- components ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("everything", Everything()),
        ({"use": "everything"}, Everything()),
        ({"use": "everything", "share": 1}, Everything(share=1.0)),
        ({"use": "everything", "weights": {"a": 1}}, Everything(weights={"a": 1.0})),
        ({"use": "everything", "limit": 3, "words": ["a"]}, Everything(limit=3, words=["a"])),
        ({"use": "everything", "path": "notes", "enabled": False}, Everything(path=Path("notes"), enabled=False)),
        (Everything(count=7), Everything(count=7)),
    ],
    ids=str,
)
def test_a_component_is_named_or_described_or_handed_over(plugins: Plugins, choice: Any, expected: Any) -> None:
    assert build_component(plugins, "postprocessor", choice, "search.postprocessors[0]") == expected


KNOWN = "It has: count, share, enabled, label, words, weights, path, limit, mode."


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"count": "3"}, "count: must be a whole number, not '3'"),
        ({"count": True}, "count: must be a whole number, not True"),
        ({"count": 0}, "'count' must be >= 1: 0"),
        ({"share": "half"}, "share: must be a number, not 'half'"),
        ({"share": True}, "share: must be a number, not True"),
        ({"enabled": "false"}, "enabled: must be true or false, not 'false'"),
        ({"label": 1}, "label: must be a text in quotes, not 1"),
        ({"words": "abc"}, "words: must be a list in brackets, not 'abc'"),
        ({"weights": 0.4}, "weights: must be a table, such as { name = value }, not 0.4"),
        ({"weights": ["a"]}, "weights: must be a table, such as { name = value }, not a list"),
        ({"weights": {"a": "b"}}, "weights.a: must be a number, not 'b'"),
        ({"words": ["a", 1]}, "words.1: must be a text in quotes, not 1"),
        ({"limit": "x"}, "limit: must be a whole number, not 'x'"),
        ({"mode": "quick"}, "'mode' must be in ('fast', 'slow') (got 'quick')"),
        ({"cout": 3}, f'no option "cout". Did you mean "count"? {KNOWN}'),
        ({"cache": {}}, f'no option "cache". {KNOWN}'),
    ],
    ids=str,
)
def test_the_options_of_a_component_are_as_strict(plugins: Plugins, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build_component(plugins, "postprocessor", {"use": "everything", **options}, "search.postprocessors[2]")
    assert str(caught.value) == f'search.postprocessors[2], postprocessor "everything": {complaint}'


def test_a_component_without_options_says_so(plugins: Plugins) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build_component(plugins, "postprocessor", {"use": "nothing", "count": 1}, "search.postprocessors[0]")
    assert str(caught.value) == ('search.postprocessors[0], postprocessor "nothing": no option "count". It has none.')


def test_an_option_whose_type_cannot_be_known_is_the_fault_of_its_plugin(plugins: Plugins) -> None:
    assert build_component(plugins, "postprocessor", "unreadable", "search.postprocessors[0]") == Unreadable()
    with pytest.raises(PluginFailedError) as caught:
        build_component(plugins, "postprocessor", {"use": "unreadable", "price": 1}, "search.postprocessors[0]")
    assert str(caught.value) == (
        'search.postprocessors[0], postprocessor "unreadable": the types of its options cannot be looked up '
        "(name 'Decimal' is not defined). Its author must import them outside of `if TYPE_CHECKING`."
    )


@pytest.mark.parametrize(
    "choice", [WordStrategy, WordStrategy(), 3.5, object()], ids=["class", "other kind", "number", "object"]
)
def test_an_object_that_is_no_such_component_is_refused(plugins: Plugins, choice: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build_component(plugins, "postprocessor", choice, "search.postprocessors[0]")
    assert str(caught.value) == (
        'The postprocessor "search.postprocessors[0]" must be an object with a method process(), '
        f"not {choice!r}: see kipu.types"
    )


async def test_the_file_and_python_mean_the_same(
    workspace: Path, write: Callable[[str, str], Path], site: Site
) -> None:
    site.standard()
    write("memory/a.md", "one two\n\none\n")
    write("kipu.toml", '[search]\npostprocessors = [{ use = "threshold", min_score = 0.9 }]\n')
    async with Memory(workspace) as from_file:
        found = await from_file.search("one two")
        assert [result.text for result in found] == ["one two"]
    threshold = {"use": "threshold", "min_score": 0.9}
    async with Memory(MemoryConfig(workspace, search=SearchConfig(postprocessors=[threshold]))) as from_python:
        assert await from_python.search("one two") == found


async def test_a_component_that_no_plugin_provides_is_named_when_it_is_needed(workspace: Path, site: Site) -> None:
    site.standard()
    config = MemoryConfig(workspace, search=SearchConfig(strategy="keywrd"))
    async with Memory(config) as memory:
        with pytest.raises(PluginNotFoundError) as caught:
            await memory.search("anything")
    assert str(caught.value) == ('search.strategy: No strategy "keywrd". Did you mean "keyword"? Installed: keyword.')


async def test_an_option_that_must_be_given_is_named(site: Site, workspace: Path) -> None:
    site.standard()
    site.plugin(
        "kipu-strategy-picky",
        """
import attrs
from kipu import hookimpl

@attrs.frozen
class Picky:
    model: str
    size: int = 1

    async def search(self, query, index):
        return []

@hookimpl
def kipu_register_strategies(register):
    register("picky", Picky)
""",
    )
    for choice in ("picky", {"use": "picky", "size": 2}):
        with pytest.raises(ConfigurationError) as caught:
            await Memory(MemoryConfig(workspace, search=SearchConfig(strategy=choice))).search("anything")
        assert str(caught.value) == 'search.strategy, strategy "picky": it needs "model".'


# --- Python --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: SearchConfig(max_results="3"),  # type: ignore[arg-type]
        lambda: SearchConfig(max_results=0),
        lambda: SearchConfig(sync="no"),  # type: ignore[arg-type]
        lambda: SearchConfig(strategy=3),
        lambda: IndexConfig(cache_bytes=-1),
        lambda: MemoryConfig(timezone="Europe/Atlantis"),
        lambda: SearchConfig(postprocessors="threshold"),
        lambda: FilesConfig(paths="docs"),
        lambda: FilesConfig(exclude=[1]),  # type: ignore[list-item]
        lambda: IndexConfig(chunker={"tokens": 3}),
        lambda: MemoryConfig(files={"paths": []}),  # type: ignore[arg-type]
        lambda: SearchConfig(max_result=3),  # type: ignore[call-arg]
    ],
)
def test_python_is_told_at_once_what_cannot_be(wrong: Callable[[], object]) -> None:
    with pytest.raises((ConfigurationError, TypeError)):
        wrong()


@pytest.mark.parametrize("workspace", [None, 3, ["project"]])
def test_a_workspace_that_is_no_path_is_refused(workspace: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be a path"):
        MemoryConfig(workspace)
    with pytest.raises(ConfigurationError, match="must be a path or a MemoryConfig"):
        Memory(workspace)


def test_a_configuration_cannot_change_behind_the_back_of_a_memory() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        MemoryConfig().search.max_results = 3  # type: ignore[misc]


def test_a_chunker_can_be_handed_over_as_an_object() -> None:
    assert IndexConfig(chunker=ParagraphChunker()).chunker == ParagraphChunker()
