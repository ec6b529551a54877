"""After whatever happened to the files, the index is the one that would be made of them afresh.

A machine of hypothesis does to a workspace what people, editors and git do, in any order, and lets Kipu look at any
moment. Each time that Kipu looked, the index is compared, row for row, with one that is made in a copy.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from rows import is_sound, rows, rows_made_afresh, select, with_doubles

import kipu.indexing.compare
import kipu.indexing.indexer
from kipu.sync import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDERS = ["memory", "memory/team", "memory/team/deep", "memory/other", "memory/.hidden", "notes"]
NAMES = ["a.md", "b.md", "2026-11-29.md", "2026-02-30 no date.md", "UPPER.MD", "\u65e5\u8a18.markdown", "no memory.txt"]
# Few and small, so that equal paragraphs, equal files and edits that keep the size are frequent.
PARAGRAPHS = ["alpha", "gamma", "alpha\nbeta", "# Heading", "# Header!", "na\u00efve caf\u00e9", "\u6771\u4eac", " "]
ENCODINGS = ["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252"]

paths = st.builds("{}/{}".format, st.sampled_from(FOLDERS), st.sampled_from(NAMES))
texts = st.lists(st.sampled_from(PARAGRAPHS), max_size=5).map("\n\n".join)
line_ends = st.sampled_from(["\n", "\n", "\r\n", "\r"])
what_to_change = st.integers(min_value=0)


class Files(RuleBasedStateMachine):
    """A workspace, what happens to its files, and the memories that are open on it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(os.path.realpath(tempfile.mkdtemp()))
        self.workspace = self.folder / "project"
        (self.workspace / "memory").mkdir(parents=True)
        self.memories: list[Memory] = []
        self.looks = 0

    @initialize(texts=st.dictionaries(paths, texts, min_size=2, max_size=6))
    def open(self, texts: dict[str, str]) -> None:
        for path, text in texts.items():
            self._put(path, text.encode())
        self.memories.append(Memory(with_doubles(self.workspace)))

    def teardown(self) -> None:
        try:
            if self.memories:
                self._look(self.memories[0].index)
        finally:
            for memory in self.memories:
                memory.close()
            shutil.rmtree(self.folder)

    # --- what happens to one file ----------------------------------------------------------------------------------

    @rule(path=paths, text=texts, encoding=st.sampled_from(ENCODINGS), line_end=line_ends)
    def write(self, path: str, text: str, encoding: str, line_end: str) -> None:
        self._put(path, text.replace("\n", line_end).encode(encoding, "replace"))

    @rule(path=paths, data=st.sampled_from([b"", b"\0\1\2", b"\xff\xfea", b"\xef\xbb\xbf", b"\xff\xfe\0\xd8"]))
    def write_what_may_be_no_text(self, path: str, data: bytes) -> None:
        self._put(path, data)

    @rule(pick=what_to_change, text=st.sampled_from(PARAGRAPHS))
    def append(self, pick: int, text: str) -> None:
        if file := self._pick(pick):
            with file.open("ab") as opened:
                opened.write(f"\n\n{text}".encode())

    @rule(pick=what_to_change, text=st.sampled_from(PARAGRAPHS))
    def insert_a_line_at_the_top(self, pick: int, text: str) -> None:
        if file := self._pick(pick):
            file.write_bytes(f"{text}\n".encode() + file.read_bytes())

    @rule(pick=what_to_change, restore=st.booleans())
    def edit_and_keep_the_size(self, pick: int, restore: bool) -> None:
        if file := self._pick(pick):
            before = file.stat()
            file.write_bytes(file.read_bytes().translate(bytes.maketrans(b"aegH", b"eagh")))
            if restore and sys.platform != "win32":  # where nothing else than the time of the change would tell
                os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    @rule(pick=what_to_change, text=texts, seconds=st.sampled_from([-1e9, -3600, -3, 0, 3600]))
    def edit_and_set_the_time(self, pick: int, text: str, seconds: float) -> None:
        if file := self._pick(pick):
            time = file.stat().st_mtime + seconds
            file.write_text(text, "utf-8")
            os.utime(file, (time, time))

    @rule(pick=what_to_change, seconds=st.sampled_from([-1e9, -3600, -3, 0, 3600]))
    def touch(self, pick: int, seconds: float) -> None:
        if file := self._pick(pick):
            time = file.stat().st_mtime + seconds
            os.utime(file, (time, time))

    @rule(pick=what_to_change, encoding=st.sampled_from(ENCODINGS))
    def save_in_another_encoding(self, pick: int, encoding: str) -> None:
        if file := self._pick(pick):
            file.write_bytes(file.read_bytes().decode("utf-8", "replace").encode(encoding, "replace"))

    @rule(pick=what_to_change)
    def delete(self, pick: int) -> None:
        if file := self._pick(pick, links=True):
            file.unlink()

    @rule(pick=what_to_change)
    def delete_and_make_again(self, pick: int) -> None:
        if file := self._pick(pick):
            data = file.read_bytes()
            file.unlink()
            file.write_bytes(data)

    @rule(pick=what_to_change, path=paths, edit=st.booleans())
    def rename(self, pick: int, path: str, edit: bool) -> None:
        if (file := self._pick(pick, links=True)) and (target := self._free(path)):
            os.replace(file, target)
            if edit and target.is_file():
                target.write_bytes(target.read_bytes() + b"\n\nedited")

    @rule(pick=what_to_change)
    def save_as_editors_do(self, pick: int) -> None:
        if file := self._pick(pick):
            new = file.with_name("new~")
            new.write_bytes(file.read_bytes() + b"\n\nsaved")
            os.replace(new, file)

    # --- what happens to several -----------------------------------------------------------------------------------

    @rule(pick=what_to_change, path=paths)
    def copy(self, pick: int, path: str) -> None:
        if (file := self._pick(pick)) and (target := self._free(path)) and file != target:
            target.unlink(missing_ok=True)
            shutil.copyfile(file, target)

    @rule(one=what_to_change, other=what_to_change)
    def swap_names(self, one: int, other: int) -> None:
        first, second = self._pick(one, links=True), self._pick(other, links=True)
        if first and second and first != second:
            aside = self.workspace / "aside"
            os.replace(first, aside)
            os.replace(second, first)
            os.replace(aside, second)

    @rule(name=st.sampled_from(FOLDERS[1:]), new=st.sampled_from(FOLDERS[1:]))
    def move_folder(self, name: str, new: str) -> None:
        folder, target = self.workspace / name, self.workspace / new
        if folder.is_dir() and not os.path.lexists(target) and target.parent.is_dir() and folder not in target.parents:
            os.replace(folder, target)

    @rule(name=st.sampled_from(FOLDERS[1:]))
    def delete_folder(self, name: str) -> None:
        folder = self.workspace / name
        if folder.is_symlink():
            folder.unlink()
        elif folder.is_dir():
            shutil.rmtree(folder)

    @rule(path=paths)
    def make_a_folder_of_a_file(self, path: str) -> None:
        file = self.workspace / path
        if file.is_file() and not file.is_symlink():
            data = file.read_bytes()
            file.unlink()
            file.mkdir()
            (file / "a.md").write_bytes(data)

    @precondition(lambda self: hasattr(os, "symlink") and sys.platform != "win32")
    @rule(path=paths, to=st.one_of(paths, st.sampled_from([*FOLDERS, "..", "../outside.md", "missing.md"])))
    def link_symbolically(self, path: str, to: str) -> None:
        link, target = self.workspace / path, self.workspace / to
        if self._free(path) and not os.path.lexists(link):
            link.symlink_to(os.path.relpath(target, link.parent))

    @rule(pick=what_to_change, path=paths)
    def link_hard(self, pick: int, path: str) -> None:
        if (file := self._pick(pick)) and (link := self._free(path)) and not os.path.lexists(link):
            os.link(file, link)

    # --- when Kipu looks -------------------------------------------------------------------------------------------

    @rule(which=what_to_change, force=st.sampled_from([False, False, True]))
    def index(self, which: int, force: bool) -> None:
        self._look(lambda: self._memory(which).index(force=force), keeps_rows=not force)

    @rule(which=what_to_change, word=st.sampled_from(["alpha", "heading", "\u6771\u4eac", "nothing"]))
    def search(self, which: int, word: str) -> None:
        def search() -> None:
            results = self._memory(which).search(word)
            # A search without results names what it could not look at.
            notices = [notice for notice in results.notices if results or not notice.startswith("skipped ")]
            assert (results.stale, results.pending, notices) == (False, [], [])

        self._look(search)

    @rule(which=what_to_change)
    def ask_for_files(self, which: int) -> None:
        self._look(lambda: self._memory(which).files())

    @precondition(lambda self: len(self.memories) < 3)
    @rule()
    def open_another_memory(self) -> None:
        self.memories.append(Memory(with_doubles(self.workspace)))

    @rule(which=what_to_change)
    def close_and_go_on(self, which: int) -> None:
        self.memories.pop(which % len(self.memories)).close()
        self.memories.append(Memory(with_doubles(self.workspace)))

    @precondition(lambda self: self.looks)
    @rule(which=what_to_change)
    def search_while_the_folder_is_away(self, which: int) -> None:
        before = rows(self.workspace)
        os.replace(self.workspace / "memory", self.workspace / "away")
        try:
            results = self._memory(which).search("alpha")
            assert results.stale == bool(before["files"])
            kept = rows(self.workspace)
        finally:
            os.replace(self.workspace / "away", self.workspace / "memory")
        assert kept == before

    # --- within ----------------------------------------------------------------------------------------------------

    def _memory(self, which: int) -> Memory:
        return self.memories[which % len(self.memories)]

    def _look(self, work: Callable[[], Any], *, keeps_rows: bool = True) -> None:
        """Let Kipu look at the files, and compare what it makes of them. Force writes every row again."""
        before = _ids(self.workspace) if self.looks else _Ids()
        work()
        self.looks += 1
        assert rows(self.workspace) == rows_made_afresh(self.workspace, self.folder / f"copy {self.looks}")
        assert is_sound(self.workspace)
        after = _ids(self.workspace)
        if keeps_rows:
            before.were_kept_by(after)

    def _put(self, path: str, data: bytes) -> None:
        if target := self._free(path):
            target.write_bytes(data)

    def _free(self, path: str) -> Path | None:
        """Where a file of that path can be put: not where a folder has the name, nor outside of the workspace."""
        target = self.workspace / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            return None
        real = Path(os.path.realpath(target))
        if target.is_dir() or self.workspace not in real.parents or not real.parent.is_dir():
            return None
        return target

    def _pick(self, pick: int, *, links: bool = False) -> Path | None:
        """One of the files that are there; with ``links``, one of the symbolic links too."""
        found = sorted(
            Path(folder, name)
            for folder, _, names in os.walk(self.workspace)
            for name in names
            if ".kipu" not in Path(folder).relative_to(self.workspace).parts
        )
        found = [file for file in found if links or not file.is_symlink()]
        return found[pick % len(found)] if found else None


class _Ids:
    """Which rows stand for what."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[int, str]] = {}
        self.chunks: dict[str, dict[str, set[int]]] = {}

    def were_kept_by(self, after: _Ids) -> None:
        """Check that what stayed kept its rows, also in a file that was renamed."""
        for path in self.files.keys() & after.files.keys():
            assert self.files[path][0] == after.files[path][0]
            _same_rows(self.chunks[path], after.chunks[path])
        old = {id: path for path, (id, _) in self.files.items() if path not in after.files}
        new = {id: path for path, (id, _) in after.files.items() if path not in self.files}
        vanished = Counter(self.files[path][1] for path in old.values())
        appeared = Counter(after.files[path][1] for path in new.values())
        renamed = old.keys() & new.keys()
        assert Counter(after.files[new[id]][1] for id in renamed) == vanished & appeared
        for id in renamed:
            _same_rows(self.chunks[old[id]], after.chunks[new[id]])


def _same_rows(before: dict[str, set[int]], after: dict[str, set[int]]) -> None:
    for hash in before.keys() & after.keys():
        assert len(before[hash] & after[hash]) == min(len(before[hash]), len(after[hash]))


def _ids(workspace: Path) -> _Ids:
    ids = _Ids()
    for path, id, hash in select(workspace, "SELECT path, id, hash FROM files"):
        ids.files[path], ids.chunks[path] = (id, hash), {}
    for path, id, hash in select(
        workspace, "SELECT path, chunks.id, chunks.hash FROM chunks JOIN files ON files.id = file_id"
    ):
        ids.chunks[path].setdefault(hash, set()).add(id)
    return ids


@pytest.fixture(scope="module", autouse=True)
def file_systems_tick_fast() -> Iterator[None]:
    """Let files settle within the test: else no time stamp would ever be trusted, as none is two seconds old.

    The clocks of the file systems on which this runs tick at least every hundredth of a second.
    """
    with pytest.MonkeyPatch.context() as patch:
        if sys.platform != "win32":
            patch.setattr(kipu.indexing.compare, "_TICK_NS", 20_000_000)
        yield


@pytest.mark.slow
class TestFiles(Files.TestCase):
    settings = settings(
        max_examples=30,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
