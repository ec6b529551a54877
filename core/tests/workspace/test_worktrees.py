"""One memory for all worktrees of a repository."""

from __future__ import annotations

import shutil
import subprocess

import attrs
import pytest

from kipu import FilesConfig, Memory
from kipu.errors import ConfigurationError

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def git(workspace):
    """Make the workspace a repository with a linked worktree beside it."""

    def git(*arguments):
        identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
        subprocess.run(["git", *identity, "-C", str(workspace), *arguments], check=True, capture_output=True)

    git("init")
    git("commit", "--allow-empty", "-m", "Begin")
    git("worktree", "add", "../linked")
    return git


def of(config, folder, worktrees="shared"):
    return Memory(attrs.evolve(config(), workspace=folder, files=FilesConfig(worktrees=worktrees)))


async def test_a_linked_worktree_uses_the_memory_of_the_main_one(config, workspace, git):
    linked = workspace.with_name("linked")
    async with of(config, linked) as memory:
        assert memory.workspace == workspace
        note = await memory.remember("Valkey replaced Redis.", file="a.md")
        assert (workspace / note.path).is_file()
    assert [path.name for path in linked.iterdir()] == [".git"]
    (linked / "app").mkdir()
    (workspace / "app").mkdir()
    async with of(config, linked / "app") as memory:
        assert memory.workspace == workspace / "app"
    for folder, worktrees in ((linked, "own"), (workspace, "shared")):
        async with of(config, folder, worktrees) as memory:
            assert memory.workspace == folder


async def test_outside_a_repository_the_memory_is_its_own(config, workspace, tmp_path):
    (tmp_path / "linked").mkdir()
    for content in (None, "gitdir: ../project", "gitdir: \0", "x"):
        if content is not None:
            (tmp_path / "linked/.git").write_text(content, "utf-8")
        async with of(config, tmp_path / "linked") as memory:
            assert memory.workspace == tmp_path / "linked"


@pytest.mark.parametrize("kind", ["copied", "made", "bare"])
async def test_a_worktree_that_the_repository_does_not_know_is_refused(config, workspace, git, tmp_path, kind):
    folder = tmp_path / "unpacked"
    if kind == "copied":
        shutil.copytree(tmp_path / "linked", folder)
    elif kind == "made":
        for name, text in ((".git", "gitdir: x"), ("x/commondir", str(workspace / ".git")), ("x/gitdir", "../.git")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"{text}\n", "utf-8")
    else:
        git("clone", "--bare", ".", str(tmp_path / "bare.git"))
        git("-C", str(tmp_path / "bare.git"), "worktree", "add", str(folder))
    with pytest.raises(ConfigurationError, match=r"has no main worktree, or none at .*unpacked"):
        of(config, folder)
