"""Entry points are found as ``importlib.metadata`` finds them, in less time."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from kipu.plugins.discovery import EntryPoint, entry_points, normalized

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the only place in which distributions are looked for."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def declare(place: Path, folder: str, text: str) -> None:
    (place / folder).mkdir(parents=True)
    (place / folder / "entry_points.txt").write_text(text, "utf-8")


def test_an_entry_point_is_found_with_its_distribution(path):
    declare(path, "kipu_strategy_graph-1.2.3.dist-info", "[kipu]\nstrategy-graph = kipu_strategy_graph\n")
    assert entry_points("kipu") == [EntryPoint("strategy-graph", "kipu_strategy_graph", "kipu-strategy-graph", "1.2.3")]


def test_only_the_group_that_was_asked_for_counts(path):
    text = "[console_scripts]\nkipu = a:b\n\n[kipu.commands]\ngraph = c:d\n\n[kipu]\n# none = e\n; none = f\n\ng=h\n"
    declare(path, "some-1.0.dist-info", text)
    assert [(point.name, point.value) for point in entry_points("kipu")] == [("g", "h")]
    assert [(point.name, point.value) for point in entry_points("kipu.commands")] == [("graph", "c:d")]
    assert entry_points("kip") == []


def test_extras_and_spaces_are_no_part_of_the_value(path):
    declare(path, "some-1.0.dist-info", "[kipu]\n  one  =  module:attribute [extra, other]  \n")
    assert [(point.name, point.value) for point in entry_points("kipu")] == [("one", "module:attribute")]


def test_a_distribution_counts_where_it_is_first_on_the_path(tmp_path, monkeypatch):
    declare(tmp_path / "first", "Some.Plugin-2.0.dist-info", "[kipu]\none = new\n")
    declare(tmp_path / "second", "some_plugin-1.0.dist-info", "[kipu]\none = old\ntwo = old\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "second"), str(tmp_path / "first")])
    assert entry_points("kipu") == [EntryPoint("one", "new", "some-plugin", "2.0")]


def test_a_distribution_without_entry_points_hides_those_of_an_older_one(tmp_path, monkeypatch):
    (tmp_path / "first" / "some-2.0.dist-info").mkdir(parents=True)
    declare(tmp_path / "second", "some-1.0.dist-info", "[kipu]\none = old\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "second")])
    assert entry_points("kipu") == []


def test_they_are_sorted_by_distribution_and_name(path):
    declare(path, "zeta-1.0.dist-info", "[kipu]\na = m\n")
    declare(path, "alpha-1.0.dist-info", "[kipu]\nz = m\nb = m\n")
    assert [(point.distribution, point.name) for point in entry_points("kipu")] == [
        ("alpha", "b"),
        ("alpha", "z"),
        ("zeta", "a"),
    ]


@pytest.mark.parametrize(
    ("folder", "version"),
    [("some-1.0-py3.11.egg-info", "1.0"), ("some.egg-info", ""), ("some-1.0.dev3+local.dist-info", "1.0.dev3+local")],
)
def test_older_and_unusual_metadata_is_understood(path, folder, version):
    declare(path, folder, "[kipu]\none = module\n")
    assert entry_points("kipu") == [EntryPoint("one", "module", "some", version)]


def test_places_that_cannot_be_read_are_passed_over(tmp_path, monkeypatch):
    (tmp_path / "some.zip").write_bytes(b"PK")
    (tmp_path / "file-1.0.egg-info").write_text("Name: file", "utf-8")
    (tmp_path / "broken-1.0.dist-info").mkdir()
    (tmp_path / "broken-1.0.dist-info" / "entry_points.txt").write_bytes(b"[kipu]\n\xff = \xfe\n")
    declare(tmp_path, "some-1.0.dist-info", "[kipu]\none = module\n")
    places = [str(tmp_path / "some.zip"), str(tmp_path / "none"), str(tmp_path)]
    monkeypatch.setattr(sys, "path", places)
    assert [point.name for point in entry_points("kipu")] == ["one"]


def test_an_empty_place_is_the_current_folder(tmp_path, monkeypatch):
    declare(tmp_path, "some-1.0.dist-info", "[kipu]\none = module\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [""])
    assert [point.name for point in entry_points("kipu")] == ["one"]


@pytest.mark.parametrize("group", ["console_scripts", "pytest11", "kipu"])
def test_what_is_really_installed_is_what_the_standard_library_says(group):
    expected = {(point.name, point.value.partition("[")[0].strip()) for point in metadata.entry_points(group=group)}
    assert {(point.name, point.value) for point in entry_points(group)} == expected


@pytest.mark.parametrize("name", ["Kipu_Graph", "kipu.graph", "KIPU-graph", "kipu-graph"])
def test_names_are_compared_as_distributions_are(name):
    assert normalized(name) == "kipu-graph"
