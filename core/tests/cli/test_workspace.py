"""Which workspace a command uses, and what it says where there is none."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def project(here, monkeypatch):
    """Stand two folders below a workspace of which only its memory folder tells."""
    deep = here / "src/app"
    deep.mkdir(parents=True)
    (here / "memory/a.md").write_text("valkey\n", "utf-8")
    monkeypatch.chdir(deep)
    return here


def test_a_folder_with_a_memory_is_the_workspace_of_every_folder_below_it(kipu, project):
    assert kipu("search", "valkey").out.startswith("1. memory/a.md:1")
    done = kipu("remember", "Redis was replaced.", "--file", "a.md")
    assert (done.code, done.out.split()[:2]) == (0, ["Remembered:", f"{project}/memory/a.md:3"])
    assert [path.name for path in (project / "src").rglob("*")] == ["app"]


def test_a_package_of_code_called_memory_is_none(kipu, project):
    package = project / "src/memory"
    package.mkdir()
    (package / "__init__.py").write_text("", "utf-8")
    assert kipu("status", "--json").json["workspace"] == str(project)


@pytest.mark.parametrize("mark", ["kipu.toml", ".kipu", None])
def test_the_nearest_workspace_is_used(kipu, project, mark):
    assert kipu("index").code == 0
    (project / "src/memory").mkdir()
    if mark == "kipu.toml":
        (project / "src/kipu.toml").touch()
    elif mark:
        (project / "src" / mark).mkdir()
    assert kipu("status", "--json").json["workspace"] == str(project / "src")


def test_a_source_called_memory_is_no_workspace(kipu, project, monkeypatch):
    assert kipu("index").code == 0
    (project / "memory/memory").mkdir()
    (project / "memory/agent/memory").mkdir(parents=True)
    monkeypatch.chdir(project / "memory/agent")
    assert kipu("status", "--json").json["workspace"] == str(project)
    monkeypatch.chdir(project / "memory")
    assert kipu("status", "--json").json["workspace"] == str(project)


@pytest.mark.parametrize("arguments", [["search", "tea"], ["recall", "tea"], ["remember", "tea"], ["add", "a.md"]])
def test_without_a_workspace_a_command_asks_for_one(kipu, here, arguments):
    (here / "memory").rmdir()
    done = kipu(*arguments)
    assert (done.code, done.out) == (3, "")
    assert done.err == f"Error: There is no memory here yet: {here} has no folder memory/. Create one with: kipu init\n"
    assert list(here.iterdir()) == []
    assert kipu("init").code == 0
    assert kipu("search", "tea").code == 0


def test_a_folder_that_is_named_is_enough_to_remember_in(kipu, here, tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    assert kipu("search", "tea", "-w", str(folder)).code == 3
    assert kipu("remember", "Alice likes tea.", "-w", str(folder)).out.startswith(f"Remembered: {folder}/memory/")
    assert kipu("search", "tea", "-w", str(folder)).code == 0


@pytest.mark.parametrize("arguments", [["search", "tea"], ["status"], ["index"], ["remember", "tea"]])
def test_the_folder_of_the_memories_is_not_taken_for_a_workspace(kipu, project, arguments):
    (project / "kipu.toml").touch()
    done = kipu(*arguments, "-w", str(project / "memory"))
    assert done.code == 3
    assert f"the workspace is the folder above: {project}\n" in done.err
    assert "kipu init" not in done.err
    assert not (project / "memory/memory").exists()


def test_the_environment_names_a_workspace_unless_the_command_line_does(kipu, here, tmp_path, monkeypatch):
    folder = tmp_path / "named"
    folder.mkdir()
    monkeypatch.setenv("KIPU_WORKSPACE", str(folder))
    assert kipu("init").code == 0
    assert (folder / "memory").is_dir()
    assert kipu("status", "--json").json["workspace"] == str(folder)
    (folder / "kipu.toml").write_text('[plugins]\ndisable = ["fake-standard"]\n', "utf-8")
    done = kipu("search", "tea", "--min-score", "0.1")  # an option of the plugin that it disables
    assert (done.code, "--min-score" in done.err) == (2, True)
    assert kipu("status", "--json", "-w", ".").json["workspace"] == str(here)
    monkeypatch.setenv("KIPU_WORKSPACE", "")
    assert kipu("status", "--json").json["workspace"] == str(here)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("name", ["kipu.toml", ".kipu", "memory"])
def test_a_workspace_of_another_user_is_used_only_if_it_is_named(kipu, project, name):
    (project / ".kipu").mkdir()
    (project / "kipu.toml").touch()
    os.chown(project / name, 12345, 12345)
    done = kipu("search", "valkey")
    assert done.code == 3
    assert done.err.endswith(f" {project} belongs to another user. To use it all the same: -w {project}\n")
    assert kipu("search", "valkey", "-w", str(project)).code == 0
