"""Whatever is remembered, changed, moved and forgotten, in whatever order: files and index say that and nothing else.

One machine of hypothesis does it to a workspace and, beside it, to a simple model: for each file the list of what is
written in it. The other properties are about single changes of files of any kind.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from entry_chunks import with_entries
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from markdown_texts import files, parsed, texts
from rows import is_sound, rows, select

from kipu.errors import MemoryFileError, QueryError
from kipu.markdown import canonical, entries, format_entry
from kipu.sync import Memory
from kipu.workspace.paths import source_of
from kipu.workspace.text import TextFile

# --- everything in any order -----------------------------------------------------------------------------------------

FACTS = [
    *("alpha", "alpha  beta", "gamma delta", "```\nopen", "# Heading\n\ntext", "1. a\n2. b", "[tags: a]", "caf\u00e9"),
    *("cafe\u0301", "\u6771\u4eac", "one\n\n\ntwo", "alpha beta", "    code", "---"),
]
PLACES = ["a.md", "team/b.md", "team/c.md", "2026-11-29.md", "utf16.md", "crlf.md"]
ENDS = {"utf16.md": ("\ufeff# UTF-16\n\n".encode("utf-16-le")), "crlf.md": b"# CRLF\r\n\r\nalways\r\n"}
pick = st.integers(min_value=0)


class Keeping(RuleBasedStateMachine):
    """A workspace, and what should be in it: for each file the entries, as they are compared."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(os.path.realpath(tempfile.mkdtemp()))
        self.workspace = self.folder / "project"
        (self.workspace / "memory").mkdir(parents=True)
        self.model: dict[str, list[str]] = {}
        self.compared = 0

    @initialize()
    def open(self) -> None:
        for name, data in ENDS.items():
            (self.workspace / "memory" / name).write_bytes(data)
        self.model = {"memory/utf16.md": [], "memory/crlf.md": ["always"]}
        self.memories = [Memory(with_entries(self.workspace)) for _ in range(2)]

    def teardown(self) -> None:
        try:
            if self.model:
                self.index(0)
                self._compare()
        finally:
            for memory in getattr(self, "memories", []):
                memory.close()
            shutil.rmtree(self.folder)

    @rule(
        which=pick, fact=st.sampled_from(FACTS), place=st.sampled_from(PLACES), heading=st.sampled_from([None, "New"])
    )
    def remember(self, which: int, fact: str, place: str, heading: str | None) -> None:
        path = f"memory/{place}"
        note = self._memory(which).remember(fact, file=place, heading=heading)
        said = canonical(entries(format_entry(fact, {}))[0].text)
        same = [other for other in self.model if source_of(other) == source_of(path) and said in self.model[other]]
        assert (note.duplicate_of is not None) == bool(same), (fact, self.model)
        if same:
            assert note.path in same
        else:
            self.model.setdefault(path, []).append(said)
            assert note.path == path
        assert canonical(self._entry_at(note.path, note.start_line, note.end_line)) == said

    @precondition(lambda self: any(self.model.values()))
    @rule(which=pick, entry=pick, by_chunk=st.booleans())
    def forget(self, which: int, entry: int, by_chunk: bool) -> None:
        path, place, found = self._pick(entry)
        memory = self._memory(which)
        if by_chunk:
            receipt = memory.forget(chunk=self._chunk(memory, path, found))
        else:
            receipt = memory.forget(path=path, start=found.start_line, end=found.end_line)
        said = self.model[path].pop(place)
        if not (self.workspace / path).exists():
            assert self.model.pop(path) == []
        others = [other for entries in self.model.values() for other in entries]
        if not any(said in other for other in others):
            assert receipt.complete, (said, others, receipt)

    @precondition(lambda self: any(self.model.values()))
    @rule(which=pick, entry=pick, place=st.sampled_from(PLACES))
    def move(self, which: int, entry: int, place: str) -> None:
        path, at, found = self._pick(entry)
        to = f"memory/{place}"
        if to == path:
            return
        memory = self._memory(which)
        note = memory.move(place, chunk=self._chunk(memory, path, found))
        said = self.model[path].pop(at)
        self.model.setdefault(to, []).append(said)
        if not (self.workspace / path).exists():
            assert self.model.pop(path) == []
        assert (note.path, canonical(self._entry_at(to, note.start_line, note.end_line))) == (to, said)

    @rule(which=pick, file=pick, place=st.sampled_from(PLACES))
    def move_a_file(self, which: int, file: int, place: str) -> None:
        path, to = sorted(self.model)[file % len(self.model)] if self.model else "", f"memory/{place}"
        if not path or to in self.model or (self.workspace / to).exists() or not (self.workspace / path).exists():
            return
        data = (self.workspace / path).read_bytes()
        self._memory(which).move(place, path=path)
        self.model[to] = self.model.pop(path)
        assert (self.workspace / to).read_bytes() == data

    @precondition(lambda self: any(self.model.values()))
    @rule(which=pick, entry=pick, number=st.integers(0, 3))
    def edit(self, which: int, entry: int, number: int) -> None:
        path, at, found = self._pick(entry)
        memory = self._memory(which)
        note = memory.edit(f"- edited {number}\n  more", chunk=self._chunk(memory, path, found))
        self.model[path][at] = f"edited {number} more"
        assert canonical(self._entry_at(path, note.start_line, note.end_line)) == f"edited {number} more"

    @rule(which=pick)
    def index(self, which: int) -> None:
        self._memory(which).index()
        self.compared += 1
        copy = self.folder / f"copy {self.compared}"
        assert rows(self.workspace) == _made_afresh(self.workspace, copy)

    @rule(which=pick, word=st.sampled_from(["alpha", "edited", "open", "\u6771\u4eac", "always"]))
    def search(self, which: int, word: str) -> None:
        results = self._memory(which).search(word, max_results=50)
        found = {place.path for result in results for place in (result, *result.also_in)}
        expected = {path for path, entries in self.model.items() for said in entries if word in said.lower().split()}
        assert found >= expected
        assert found <= {path for path, entries in self.model.items() if any(word in said.lower() for said in entries)}

    @rule(which=pick, said=st.sampled_from(["alpha", "by hand", "gamma"]))
    def an_editor_writes(self, which: int, said: str) -> None:
        file = self.workspace / "memory/hand.md"
        with file.open("a", encoding="utf-8") as opened:
            opened.write(f"\n{said}\n")
        self.model.setdefault("memory/hand.md", []).append(said)

    @rule(which=pick)
    def restart(self, which: int) -> None:
        self.memories[which % 2].close()
        self.memories[which % 2] = Memory(with_entries(self.workspace))

    @rule(which=pick)
    def lose_the_index(self, which: int) -> None:
        shutil.rmtree(self.workspace / ".kipu", ignore_errors=True)

    @invariant()
    def files_are_as_they_should_be(self) -> None:
        self._compare()

    # --- within ----------------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        found = {}
        for file in (self.workspace / "memory").rglob("*.md"):
            parsed = TextFile.parse(file.read_bytes())
            found[file.relative_to(self.workspace).as_posix()] = sorted(
                canonical(entry.text) for entry in entries(parsed.plain_lines)
            )
            if file.name == "crlf.md" and b"CRLF" in file.read_bytes():
                assert file.read_bytes().count(b"\n") == file.read_bytes().count(b"\r\n")
        assert found == {path: sorted(entries) for path, entries in self.model.items()}
        if (self.workspace / ".kipu/writing").exists():
            assert os.listdir(self.workspace / ".kipu/writing") == []

    def _memory(self, which: int) -> Memory:
        return self.memories[which % 2]

    def _pick(self, which: int) -> tuple[str, int, Any]:
        """An entry of the files: its path, its place in the model, and its lines."""
        every = []
        for path in sorted(self.model):
            parsed = TextFile.parse((self.workspace / path).read_bytes())
            every += [(path, entry) for entry in entries(parsed.plain_lines)]
        path, entry = every[which % len(every)]
        return path, self.model[path].index(canonical(entry.text)), entry

    def _entry_at(self, path: str, start: int, end: int) -> str:
        parsed = TextFile.parse((self.workspace / path).read_bytes())
        (entry,) = [each for each in entries(parsed.plain_lines) if each.start_line == start]
        assert entry.end_line == end
        return entry.text

    def _chunk(self, memory: Memory, path: str, entry: Any) -> str:
        """The name of the chunk of an entry, as a search gives it."""
        memory.files()
        ((chunk,),) = select(
            self.workspace,
            "SELECT chunk FROM chunks JOIN files ON files.id = file_id "
            f"WHERE path = '{path}' AND start_line = {entry.start_line}",
        )
        return str(chunk)


def _made_afresh(workspace: Path, copy: Path) -> dict[str, list[tuple[Any, ...]]]:
    shutil.copytree(workspace, copy, ignore=shutil.ignore_patterns(".kipu"))
    try:
        with Memory(with_entries(copy)) as memory:
            memory.index()
        assert is_sound(copy)
        return rows(copy)
    finally:
        shutil.rmtree(copy)


@pytest.mark.slow
class TestKeeping(Keeping.TestCase):
    settings = settings(
        max_examples=12,
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )


# --- through the front door ----------------------------------------------------------------------------------------


@pytest.mark.slow
@given(files(), texts)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_what_is_remembered_in_any_file_and_forgotten_again_leaves_it_as_it_was(tmp_path_factory, data, text):
    file = parsed(data)
    assume(not any("xylophone" in line for line in file.lines))
    workspace = tmp_path_factory.mktemp("any") / "project"
    (workspace / "memory").mkdir(parents=True)
    path = workspace / "memory/a.md"
    path.write_bytes(data)
    with Memory(with_entries(workspace)) as memory:
        try:
            note = memory.remember(f"xylophone {text}", file="a.md")
        except QueryError:
            assume(False)
        except MemoryFileError:  # the encoding of the file lacks a character
            assert path.read_bytes() == data
            return
        assert len(memory.search("xylophone")) == 1
        memory.forget(path="memory/a.md", start=note.start_line, end=note.end_line)
        assert memory.search("xylophone") == []
    left = TextFile.parse(path.read_bytes()).plain_lines if path.exists() else []
    assert [line for line in left if line.strip()] == [line for line in file.plain_lines if line.strip()] or (
        # A heading that has nothing below it goes.
        all(line.startswith("#") for line in file.plain_lines if line.strip() and line not in left)
    )
