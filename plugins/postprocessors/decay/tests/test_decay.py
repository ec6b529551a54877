"""Age lowers scores, and changes nothing else."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kipu.errors import ConfigurationError
from kipu.types import Hit, Query, StoredChunk
from kipu_postprocessor_decay import Decay, kipu_register_postprocessors

TODAY = date(2026, 11, 30)


def hit(score: float, when: date | None, number: int = 1) -> Hit:
    path = f"memory/{when or 'notes'}.md"
    chunk = StoredChunk(number, f"chunk-{number}", path, "memory", when, 1, 1, "", 0, "text", "")
    return Hit(chunk, score, {"keyword": score})


def days_ago(days: int) -> date:
    return TODAY - timedelta(days=days)


def process(decay: Decay, *hits: Hit, today: date | None = TODAY) -> list[Hit]:
    return asyncio.run(decay.process(Query("anything", today=today), list(hits)))


@pytest.mark.parametrize(
    ("half_life_days", "age", "factor"),
    [(30, 0, 1.0), (30, 30, 0.5), (30, 60, 0.25), (7, 7, 0.5), (7, 21, 0.125), (0.5, 1, 0.25)],
)
def test_a_half_life_halves_the_score(half_life_days, age, factor):
    (aged,) = process(Decay(half_life_days), hit(0.8, days_ago(age)))
    assert aged.score == pytest.approx(0.8 * factor)


def test_the_younger_of_two_hits_that_match_alike_comes_first():
    old, young = hit(0.8, days_ago(90), 1), hit(0.79, days_ago(1), 2)
    assert [aged.chunk.id for aged in process(Decay(), old, young)] == [2, 1]


def test_an_evergreen_hit_does_not_fade():
    evergreen, dated = hit(0.5, None, 1), hit(0.9, days_ago(365), 2)
    first, second = process(Decay(), dated, evergreen)
    assert first == evergreen
    assert second.score < 0.001


def test_a_date_in_the_future_has_no_age():
    assert process(Decay(), hit(0.8, days_ago(-10))) == [hit(0.8, days_ago(-10))]


def test_hits_with_equal_scores_keep_their_order():
    hits = [hit(0.8, None, number) for number in (3, 1, 2)]
    assert process(Decay(), *hits) == hits


def test_only_the_score_of_a_hit_changes():
    before = hit(0.8, days_ago(30))
    (after,) = process(Decay(), before)
    assert after.chunk is before.chunk
    assert after.scores == before.scores


def test_nothing_changes_without_the_day_of_the_search():
    hits = [hit(0.1, days_ago(1), 1), hit(0.8, days_ago(90), 2)]
    assert process(Decay(), *hits, today=None) == hits


@pytest.mark.parametrize("half_life_days", [0, -1, float("nan")])
def test_a_half_life_is_above_0(half_life_days):
    with pytest.raises(ConfigurationError, match=r"^half_life_days must be a number above 0, not "):
        Decay(half_life_days)


def test_the_plugin_registers_decay():
    registered: dict[str, object] = {}
    kipu_register_postprocessors(registered.__setitem__)
    assert registered == {"decay": Decay}


SCORES = st.floats(0, 1)
DATES = st.none() | st.dates()


@settings(deadline=None, max_examples=60)
@given(
    hits=st.lists(st.tuples(SCORES, DATES), max_size=20),
    half_life_days=st.floats(min_value=0, exclude_min=True, allow_infinity=False),
    today=st.dates(),
)
def test_scores_only_fall_and_the_best_is_first_for_any_dates(hits, half_life_days, today):
    before = [hit(score, when, number) for number, (score, when) in enumerate(hits)]
    after = process(Decay(half_life_days), *before, today=today)
    assert sorted(aged.chunk.id for aged in after) == list(range(len(hits)))
    assert all(0 <= aged.score <= before[aged.chunk.id].score for aged in after)
    assert [aged.score for aged in after] == sorted((aged.score for aged in after), reverse=True)
