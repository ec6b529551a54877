"""Hits below the lowest score are left out, and the others stay as they are."""

from __future__ import annotations

import asyncio

import pytest

from kipu.errors import ConfigurationError
from kipu.types import Hit, PostProcessor, Query, StoredChunk
from kipu_postprocessor_threshold import Threshold, kipu_register_postprocessors


def hit(score, number=1):
    return Hit(
        StoredChunk(number, f"chunk-{number}", "memory/notes.md", "memory", None, 1, 1, "", 0, "text", ""), score
    )


def process(threshold, hits):
    return asyncio.run(threshold.process(Query("anything"), list(hits)))


def test_hits_below_the_lowest_score_are_left_out():
    assert process(Threshold(0.3), [hit(0.9), hit(0.3), hit(0.2999), hit(0.0)]) == [hit(0.9), hit(0.3)]


def test_the_order_stays():
    hits = [hit(0.5, 3), hit(0.9, 1), hit(0.7, 2)]
    assert process(Threshold(0.5), hits) == hits


def test_the_default_keeps_everything():
    hits = [hit(1.0), hit(0.0)]
    assert process(Threshold(), hits) == hits
    assert process(Threshold(), []) == []


@pytest.mark.parametrize("min_score", [-0.1, 1.1, float("nan")])
def test_the_lowest_score_is_between_0_and_1(min_score):
    with pytest.raises(ConfigurationError, match=r"^min_score must be a number from 0 to 1, not "):
        Threshold(min_score)


def test_it_is_registered_by_its_name():
    registered = {}
    kipu_register_postprocessors(registered.__setitem__)
    assert registered == {"threshold": Threshold}
    assert isinstance(Threshold(), PostProcessor)
