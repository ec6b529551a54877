"""Configuration: from ``kipu.toml`` and from Python, strictly, with errors that say where and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from kipu import FilesConfig, IndexConfig, Memory, MemoryConfig, SearchConfig
from kipu.config import load_config
from kipu.errors import ConfigurationError, PluginNotFoundError
from kipu.testing import ParagraphChunker

if TYPE_CHECKING:
    from pathlib import Path


def loaded(workspace: Path, text: str | bytes) -> MemoryConfig:
    (workspace / "kipu.toml").write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return load_config(workspace)


def problems(workspace: Path, text: str | bytes) -> list[str]:
    """Return what is wrong with a configuration, without the path of the file that each line begins with."""
    with pytest.raises(ConfigurationError) as caught:
        loaded(workspace, text)
    prefix = f"{workspace / 'kipu.toml'}"
    lines = str(caught.value).split("\n")
    assert all(line.startswith(prefix) for line in lines)
    return [line.removeprefix(prefix).removeprefix(": ") for line in lines]


# --- valid files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "# only a comment\n", "[search]\n", "\n[files]\n[index]\n[search]\n[plugins]\n"])
def test_options_have_defaults(workspace, text):
    assert loaded(workspace, text) == MemoryConfig(workspace)


def test_a_workspace_without_a_file_has_the_defaults(workspace):
    config = load_config(workspace)
    assert config == MemoryConfig(workspace)
    assert (config.index.chunker, config.search.strategy) == ("markdown", None)
    assert (config.search.postprocessors, config.search.max_results, config.search.sync) == (None, 6, True)


def test_every_option_can_be_set_in_the_file(workspace):
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


def test_a_byte_order_mark_is_ignored(workspace):
    assert loaded(workspace, b"\xef\xbb\xbf[search]\r\nmax_results = 3\r\n").search.max_results == 3


def test_every_option_has_a_help_text():
    for section in attrs.fields(MemoryConfig):
        if attrs.has(section.type):
            assert all(field.metadata["help"].endswith(".") for field in attrs.fields(section.type))


# --- invalid files -------------------------------------------------------------------------------------------------

COMPONENT = 'must be a name such as "example", or a table such as { use = "example", ... }, not '
COMPONENTS = 'must be a list of names such as "example", or of tables such as { use = "example", ... }, not '


@pytest.mark.parametrize(
    ("text", "problem"),
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
            "It has: strategy, postprocessors, max_results, sync, relation.",
        ),
        (
            "max_results = 3",
            'no option "max_results". It belongs below [search]. It has: files, index, search, writing, flush, sync, '
            "plugins, timezone.",
        ),
        ("[search]\nzzz = 3", 'no option "search.zzz". It has: strategy, postprocessors, max_results, sync, relation.'),
        ("max = [", " is not valid TOML: Invalid value (at end of document)."),
    ],
)
def test_an_error_says_what_is_wrong_and_where(workspace, text, problem):
    assert problems(workspace, text) == [problem]


def test_all_errors_are_reported_at_once(workspace):
    text = "[serch]\n[files]\npaths = 'docs'\n[search]\nsync = 'false'\nmax_result = 3\nmax_results = '3'"
    assert sorted(line.partition(":")[0].partition(".")[0] for line in problems(workspace, text)) == [
        "files",
        'no option "search',
        'no option "serch"',
        "search",
        "search",
    ]


def test_a_file_in_another_encoding_is_an_error(workspace):
    (problem,) = problems(workspace, "[search]".encode("utf-16"))
    assert problem.startswith(" cannot be read: ")
    assert problem.endswith(". It must be a TOML file in UTF-8.")


def test_a_folder_in_place_of_the_file_is_an_error(workspace):
    (workspace / "kipu.toml").mkdir()
    with pytest.raises(ConfigurationError, match=r"kipu\.toml must be a file of at most 1,000,000 bytes\."):
        load_config(workspace)


def test_a_memory_reads_the_file_of_its_workspace(workspace):
    (workspace / "kipu.toml").write_text("[search]\nmax_results = 'many'\n", "utf-8")
    with pytest.raises(ConfigurationError, match=r"search\.max_results: must be a whole number, not 'many'"):
        Memory(workspace)


# --- components ----------------------------------------------------------------------------------------------------


async def test_the_file_and_python_mean_the_same(workspace, write, site):
    site.standard()
    write("memory/a.md", "one two\n\none\n")
    write("kipu.toml", '[search]\npostprocessors = [{ use = "threshold", min_score = 0.9 }]\n')
    async with Memory(workspace) as from_file:
        found = await from_file.search("one two")
        assert [result.text for result in found] == ["one two"]
    threshold = {"use": "threshold", "min_score": 0.9}
    async with Memory(MemoryConfig(workspace, search=SearchConfig(postprocessors=[threshold]))) as from_python:
        assert await from_python.search("one two") == found


async def test_an_unknown_component_is_named_when_it_is_needed(workspace, site):
    site.standard()
    config = MemoryConfig(workspace, search=SearchConfig(strategy="keywrd"))
    async with Memory(config) as memory:
        with pytest.raises(PluginNotFoundError) as caught:
            await memory.search("anything")
    assert str(caught.value) == ('search.strategy: No strategy "keywrd". Did you mean "keyword"? Installed: keyword.')


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
def test_invalid_values_in_python_are_errors_at_once(wrong):
    with pytest.raises((ConfigurationError, TypeError)):
        wrong()


@pytest.mark.parametrize("workspace", [None, 3, ["project"]])
def test_a_workspace_that_is_not_a_path_is_refused(workspace):
    with pytest.raises(ConfigurationError, match="must be a path"):
        MemoryConfig(workspace)
    with pytest.raises(ConfigurationError, match="must be a path or a MemoryConfig"):
        Memory(workspace)


def test_a_configuration_is_frozen():
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        MemoryConfig().search.max_results = 3  # type: ignore[misc]


def test_a_chunker_may_be_an_object():
    assert IndexConfig(chunker=ParagraphChunker()).chunker == ParagraphChunker()
