"""The set of remembered facts in ``benchmarks`` is what its description says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def facts() -> Any:
    """``benchmarks/facts.py`` as a module."""
    folder = str(Path(__file__).resolve().parents[1] / "benchmarks")
    sys.path.insert(0, folder)
    import facts

    yield facts
    sys.path.remove(folder)
    for name in ("facts", "quality"):
        del sys.modules[name]


def test_half_of_the_questions_share_no_rare_word_with_their_fact(facts):
    kinds = facts.SET["answered"]
    assert [len(pairs) for pairs in kinds.values()] == [20, 20]
    assert (len(facts.FACTS), len(facts.SET["unanswerable"])) == (64, 15)
    assert not any(facts.shared_rare_words(*pair) for pair in kinds["in other words"])
    assert all(facts.shared_rare_words(*pair) for pair in kinds["in its words"])
