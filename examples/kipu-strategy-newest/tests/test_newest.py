from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kipu.sync import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def memory(kipu_workspace: Path, kipu_write: Callable[[str, str], Path]) -> Iterator[Memory]:
    kipu_write("memory/2026-10-01.md", "# Thursday\n\nThe seat lock came back.\n")
    kipu_write("memory/2026-10-31.md", "# Saturday\n\nThe seat lock is gone for good.\n")
    kipu_write("memory/juno/2026-10-15.md", "# Thursday\n\nA seat, but no word of the other thing.\n")
    kipu_write("memory/glossary.md", "# Glossary\n\nSeat lock: a row that waits.\n")
    with Memory(kipu_workspace) as memory:
        yield memory


def found(memory: Memory, query: str, **options: str) -> list[str]:
    return [result.path for result in memory.search(query, strategy="newest", **options)]


def test_the_newest_note_with_all_words_comes_first(memory: Memory) -> None:
    assert found(memory, "seat lock") == ["memory/2026-10-31.md", "memory/2026-10-01.md"]


def test_a_score_is_halved_after_thirty_days(memory: Memory) -> None:
    assert [result.score for result in memory.search("seat lock", strategy="newest")] == [1.0, 0.5]


def test_filters_apply(memory: Memory) -> None:
    assert found(memory, "seat", source="juno") == ["memory/juno/2026-10-15.md"]
    assert found(memory, "seat", until="2026-10-14") == ["memory/2026-10-01.md"]


@pytest.mark.parametrize("query", ["", "nowhere", "seat nowhere", "'; --"])
def test_what_is_nowhere_is_not_found(memory: Memory, query: str) -> None:
    assert found(memory, query) == []


def test_its_table_follows_the_files(memory: Memory, kipu_workspace: Path) -> None:
    folder = kipu_workspace / "memory"
    assert found(memory, "gone") == ["memory/2026-10-31.md"]
    (folder / "2026-10-31.md").write_text("# Saturday\n\nA quiet day.\n", "utf-8")
    (folder / "2026-10-01.md").rename(folder / "2026-11-01.md")
    assert found(memory, "gone") == []
    assert found(memory, "quiet") == ["memory/2026-10-31.md"]
    assert found(memory, "lock") == ["memory/2026-11-01.md"]
