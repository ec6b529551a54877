"""Components are built from what a configuration says, strictly, with errors that say where and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from attrs import validators

from kipu import hookimpl
from kipu.errors import ConfigurationError, PluginFailedError
from kipu.plugins.build import build_component
from kipu.plugins.manager import Plugins
from kipu.plugins.records import PluginInfo
from kipu.testing import WordStrategy

if TYPE_CHECKING:
    from decimal import Decimal  # noqa: TC004 (that is the mistake of one of the plugins)

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


@attrs.frozen
class Unreadable:
    """A post-processor with an option whose type is only imported for type checkers."""

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
        register("demanding", Demanding)

    module.kipu_register_postprocessors = kipu_register_postprocessors  # type: ignore[attr-defined]
    plugins = Plugins()
    plugins.add(module, PluginInfo("everything", "kipu-everything", "1.0"))
    return plugins


def built(plugins: Plugins, choice: Any) -> Any:
    return build_component(plugins, "postprocessor", choice, "search.postprocessors[0]").component


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
def test_a_component_is_chosen_by_name_by_table_or_as_an_object(plugins, choice, expected):
    assert built(plugins, choice) == expected


KNOWN = "It has: count, share, enabled, label, words, weights, path, limit, mode."


@pytest.mark.parametrize(
    ("options", "problem"),
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
def test_the_options_of_a_component_are_strict(plugins, options, problem):
    with pytest.raises(ConfigurationError) as caught:
        built(plugins, {"use": "everything", **options})
    assert str(caught.value) == f'search.postprocessors[0], post-processor "everything": {problem}'


def test_a_component_without_options_has_none(plugins):
    with pytest.raises(ConfigurationError) as caught:
        built(plugins, {"use": "nothing", "count": 1})
    assert str(caught.value) == 'search.postprocessors[0], post-processor "nothing": no option "count". It has none.'


def test_an_option_without_a_type_at_run_time_is_an_error_of_its_plugin(plugins):
    assert built(plugins, "unreadable") == Unreadable()
    with pytest.raises(PluginFailedError) as caught:
        built(plugins, {"use": "unreadable", "price": 1})
    assert str(caught.value) == (
        'search.postprocessors[0], post-processor "unreadable": the types of its options cannot be looked up '
        "(name 'Decimal' is not defined). Its author must import them outside of `if TYPE_CHECKING`."
    )


@pytest.mark.parametrize(
    "choice", [WordStrategy, WordStrategy(), 3.5, object()], ids=["class", "other kind", "number", "object"]
)
def test_an_object_of_another_kind_is_refused(plugins, choice):
    with pytest.raises(ConfigurationError) as caught:
        built(plugins, choice)
    assert str(caught.value) == (
        'The post-processor "search.postprocessors[0]" must be an object with a method process(), '
        f"not {choice!r}: see kipu.types.PostProcessor"
    )


@attrs.frozen
class Demanding(Nothing):
    """A post-processor with an option that has no default."""

    model: str
    size: int = 1


@pytest.mark.parametrize("choice", ["demanding", {"use": "demanding", "size": 2}], ids=str)
def test_a_missing_option_is_named(plugins, choice):
    with pytest.raises(ConfigurationError) as caught:
        built(plugins, choice)
    assert str(caught.value) == 'search.postprocessors[0], post-processor "demanding": it needs "model".'
