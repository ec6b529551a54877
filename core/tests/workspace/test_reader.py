"""The file that is read is the one that was checked: no pipe is waited for, and no new symlink is followed."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from kipu.errors import MemoryFileError
from kipu.indexing.contents import read_contents
from kipu.keeping.files import read_file
from kipu.workspace.paths import Workspace
from kipu.workspace.reader import IrregularFileError, OpenFolder, read_regular
from kipu.workspace.scan import scan_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kipu import Memory

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes and symlinks are those of POSIX")

LINKED = "cannot be read: a symbolic link is in its place"
IRREGULAR = "cannot be read: it is not a regular file"


def become_pipe(path: Path, outside: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def become_link(path: Path, outside: Path) -> None:
    path.unlink()
    path.symlink_to(outside / path.name)


def become_dangling(path: Path, outside: Path) -> None:
    path.unlink()
    path.symlink_to(outside / "nothing")


def get_into_linked_folder(path: Path, outside: Path) -> None:
    path.parent.rename(path.parent.with_name("before"))
    path.parent.symlink_to(outside)


def become_folder(path: Path, outside: Path) -> None:
    path.unlink()
    path.mkdir()


SWAPS = [
    (become_pipe, IRREGULAR),
    (become_link, LINKED),
    (become_dangling, LINKED),
    (get_into_linked_folder, LINKED),
    (become_folder, "cannot be read: it is a folder"),
]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "swapped.md").write_text("Outside apples.")
    return folder


def after_walk(change: Callable[[], None]) -> Callable[[int, int], None]:
    """Return an ``on_progress`` that changes the disk once, after the files were found and before one is read."""
    left = [change]

    def on_progress(done: int, total: int) -> None:
        if left:
            left.pop()()

    return on_progress


async def index_while(memory: Memory, change: Callable[[], None]) -> dict[str, str]:
    report = await memory.index(on_progress=after_walk(change))
    return {file.path: file.reason for file in report.skipped}


@pytest.mark.parametrize(("swap", "reason"), SWAPS, ids=[swap.__name__ for swap, _ in SWAPS])
async def test_what_takes_the_place_of_a_file_during_indexing_is_skipped(memory, write, outside, swap, reason):
    path = write("memory/team/swapped.md", "Inside apples.")
    write("memory/other.md", "Other apples.")
    assert await index_while(memory, lambda: swap(path, outside)) == {"memory/team/swapped.md": reason}
    assert [result.text for result in await memory.search("apples", sync=False)] == ["Other apples."]


@pytest.mark.parametrize(("swap", "reason"), SWAPS, ids=[swap.__name__ for swap, _ in SWAPS])
def test_what_takes_the_place_of_a_file_that_was_named_is_an_error(workspace, write, outside, swap, reason):
    path = write("memory/team/swapped.md", "Inside apples.")
    files = Workspace(workspace)
    real = files.locate("memory/team/swapped.md")
    swap(path, outside)
    with pytest.raises(MemoryFileError, match=rf"^memory/team/swapped\.md {reason}\.$"):
        read_file(files, real, "memory/team/swapped.md")


async def test_a_file_that_an_editor_replaces_during_indexing_is_indexed(memory, write):
    path = write("memory/a.md", "Old apples.")

    def replace() -> None:
        new = write("memory/new", "New apples.")
        new.replace(path)

    assert await index_while(memory, replace) == {}
    assert [result.text for result in await memory.search("apples", sync=False)] == ["New apples."]


async def test_a_file_that_outgrows_the_limit_during_indexing_is_skipped(write, config):
    from kipu import Memory

    path = write("memory/a.md", "apples")
    async with Memory(config(files={"max_bytes": 5000})) as memory:
        assert await index_while(memory, lambda: path.write_text("apples " * 1000) and None) == {
            "memory/a.md": "cannot be read: it is larger than 5,000 bytes"
        }


async def test_symlinks_inside_the_workspace_and_to_configured_folders_are_read(workspace, write, outside, config):
    from kipu import Memory

    write("notes/a.md", "Linked apples.")
    (workspace / "memory/a.md").symlink_to("../notes/a.md")
    (workspace / "memory/notes").symlink_to("../notes")
    (workspace / "vault").symlink_to(outside)
    (workspace / "single.md").symlink_to(write("deep/b.md", "Single apples."))
    async with Memory(config(files={"paths": ["vault", "single.md"]})) as memory:
        found = {result.text for result in await memory.search("apples", max_results=9)}
        assert found == {"Linked apples.", "Outside apples.", "Single apples."}
        assert await memory.read("memory/a.md") == "Linked apples."


def test_a_workspace_that_was_moved_and_linked_is_read(workspace, write):
    write("memory/team/a.md", "apples")
    files = Workspace(workspace)
    real = files.locate("memory/team/a.md")
    workspace.rename(workspace.with_name("moved"))
    workspace.symlink_to("moved")
    assert files.read(real) == b"apples"


def test_the_files_of_a_folder_open_it_once(workspace, write):
    def opens(count: int) -> int:
        for number in range(count):
            write(f"memory/team/deep/{number}.md", "apples")
        files, calls = Workspace(workspace), 0
        found = list(scan_files(files).files.values())

        def count_opens(frame: object, event: str, function: object) -> None:
            nonlocal calls
            calls += event == "c_call" and function is os.open

        sys.setprofile(count_opens)
        try:
            contents, _ = read_contents(files, found)
        finally:
            sys.setprofile(None)
        assert len(contents) == count
        return calls

    few = opens(10)
    assert opens(20) - few == 10


def test_no_descriptor_stays_open(workspace, write, outside):
    path = write("memory/team/swapped.md", "apples")
    files = Workspace(workspace)
    real = files.locate("memory/team/swapped.md")
    first = os.dup(0)
    os.close(first)
    with closing(OpenFolder()) as folder:
        files.read(real, folder)
        get_into_linked_folder(path, outside)
    for _ in range(2):
        with pytest.raises(IrregularFileError):
            files.read(real)
    second = os.dup(0)
    os.close(second)
    assert first == second


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 100_000])
def test_a_file_is_read_whole(tmp_path, size):
    path = tmp_path / "file"
    path.write_bytes(b"x" * size)
    assert read_regular(path) == read_regular(path, size) == b"x" * size
    if size:
        with pytest.raises(IrregularFileError, match=f"it is larger than {size - 1:,} bytes"):
            read_regular(path, size - 1)
