from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from kipu.errors import QueryError
from kipu.sync import Memory

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Write a long file in which every section speaks of ferries, and a short one."""
    memory = tmp_path / "memory"
    memory.mkdir()
    sections = [f"## Harbour {number}\n\nThe ferry leaves at {number}:00.\n" for number in range(1, 6)]
    (memory / "timetable.md").write_text("# Timetable\n\n" + "\n".join(sections), "utf-8")
    (memory / "people.md").write_text("# People\n\nAlice steers the ferry.\n", "utf-8")
    return tmp_path


def test_what_is_kept_are_the_best_hits_in_their_order(workspace: Path) -> None:
    with Memory(workspace) as memory:
        every = memory.search("ferry", max_results=20)
        kept = memory.search("ferry", hits_per_file=1)
    assert [next(hit for hit in every if hit.path == result.path) for result in kept] == list(kept)


def test_the_option_can_stand_in_the_configuration(workspace: Path) -> None:
    (workspace / "kipu.toml").write_text(
        '[search]\npostprocessors = [{ use = "one-per-file", hits_per_file = 2 }]\n', "utf-8"
    )
    with Memory(workspace) as memory:
        paths = Counter(result.path for result in memory.search("ferry"))
    assert paths == {"memory/timetable.md": 2, "memory/people.md": 1}


def test_fewer_than_one_hit_is_refused(workspace: Path) -> None:
    with Memory(workspace) as memory, pytest.raises(QueryError, match="hits_per_file"):
        memory.search("ferry", hits_per_file=0)
