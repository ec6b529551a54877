"""What repeats an earlier hit comes later, in any script, with vectors and without."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kipu.errors import ConfigurationError
from kipu.types import Hit, Query, StoredChunk
from kipu_postprocessor_mmr import LIMIT, Mmr, by_words, kipu_register_postprocessors, tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kipu.types import Vectors


def hit(text: str, score: float = 1.0, number: int = 1, vector: Sequence[float] | None = None) -> Hit:
    chunk = StoredChunk(number, f"chunk-{number}", "memory/notes.md", "memory", None, 1, 1, "", 0, text, "")
    return Hit(chunk, score, {"keyword": score}, vector=None if vector is None else unit(vector))


def unit(numbers: Sequence[float]) -> Vectors:
    vector = np.array(numbers, dtype=np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def process(mmr: Mmr, hits: list[Hit]) -> list[Hit]:
    return asyncio.run(mmr.process(Query("anything"), hits))


def order(mmr: Mmr, hits: list[Hit]) -> list[int]:
    """Return the numbers of the hits, after."""
    return [found.chunk.id for found in process(mmr, hits)]


# --- The order -----------------------------------------------------------------------------------------------------


def test_what_repeats_a_better_hit_comes_after_what_is_new():
    hits = [
        hit("the retry queue was never emptied", 1.0, 1),
        hit("the retry queue was never emptied", 0.99, 2),
        hit("valkey took the place of redis", 0.8, 3),
    ]
    assert order(Mmr(), hits) == [1, 3, 2]


def test_what_is_relevant_enough_stays_where_it_is():
    hits = [hit("retry queue emptied", 1.0, 1), hit("retry queue full", 0.95, 2), hit("a walk in the park", 0.1, 3)]
    assert order(Mmr(), hits) == [1, 2, 3]


def test_lambda_decides_between_relevance_and_diversity():
    hits = [hit("retry queue emptied", 1.0, 1), hit("retry queue full", 0.95, 2), hit("a walk in the park", 0.1, 3)]
    assert order(Mmr(0.1), hits) == [1, 3, 2]


def test_vectors_decide_where_there_are_some():
    hits = [
        hit("the cat sleeps", 1.0, 1, [1, 0, 0]),
        hit("a tired feline", 0.99, 2, [0.99, 0.1, 0]),
        hit("the cat sleeps", 0.9, 3, [0, 1, 0]),
    ]
    assert order(Mmr(), hits) == [1, 3, 2]


def test_a_hit_without_a_vector_is_compared_by_words():
    hits = [
        hit("the retry queue", 1.0, 1, [1, 0]),
        hit("the retry queue", 0.99, 2),
        hit("valkey", 0.98, 3, [1, 0.01]),
        hit("licences", 0.9, 4),
    ]
    assert order(Mmr(0.5), hits) == [1, 4, 2, 3]


def test_the_opposite_is_no_more_different_than_another_subject():
    hits = [hit("", 1.0, 1, [1, 0]), hit("", 0.9, 2, [0, 1]), hit("", 0.8, 3, [-1, 0])]
    assert order(Mmr(0.0), hits) == [1, 2, 3]


def test_scores_stay_as_they_are():
    hits = [hit("one", 0.9, 1), hit("one", 0.8, 2), hit("two", 0.7, 3)]
    assert [found.score for found in process(Mmr(), hits)] == [0.9, 0.7, 0.8]


def test_hits_that_all_score_nothing_are_only_made_diverse():
    hits = [hit("one", 0.0, 1), hit("one", 0.0, 2), hit("two", 0.0, 3)]
    assert order(Mmr(), hits) == [1, 3, 2]


def test_hits_beyond_the_limit_stay_where_they_are():
    many = [hit(f"text{number}", 0.5, number) for number in range(LIMIT)]
    rest = [hit("something else", score, LIMIT) for score in (0.1, 1.0, 0.2)]
    assert process(Mmr(), many + rest) == many + rest


# --- Which texts are alike -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "texts",
    [
        ["我们用缓存来加快查询", "我们用缓存来加快搜索", "下个月全家去海边度假"],
        ["キャッシュで検索を速くする", "キャッシュで検索が速くなる", "来月は家族と海に行きます"],
        ["캐시로 검색을 빠르게 합니다", "캐시로 검색이 빨라집니다", "다음 달에 가족과 바다에 갑니다"],
        ["เราใช้แคชเพื่อให้ค้นหาเร็วขึ้น", "เราใช้แคชเพื่อค้นหาให้เร็ว", "เดือนหน้าครอบครัวไปเที่ยวทะเล"],
        ["हम खोज के लिए कैश रखते हैं", "हम खोज में कैश रखते हैं", "अगले महीने परिवार समुद्र जाएगा"],
        ["мы держим кэш для поиска", "мы держим кэш поиска", "в июле семья едет к морю"],
        ["🎉🎉", "🎉🎉", "🌊"],
    ],
    ids=["Chinese", "Japanese", "Korean", "Thai", "Hindi", "Russian", "emoji"],
)
def test_texts_are_distinguished_in_any_script(texts):
    _, alike, different = by_words(texts)[0]
    assert alike > 0.2
    assert different < 0.1
    assert order(Mmr(0.5), [hit(text, 1 - number / 10, number) for number, text in enumerate(texts)]) == [0, 2, 1]


def test_the_vowel_signs_of_a_word_are_a_part_of_it():
    assert tokens("कैश हैं") == {"कैश", "हैं"}


def test_scripts_without_spaces_are_pairs_of_characters():
    assert tokens("用Redis做缓存。") == {"用", "redis", "做缓", "缓存"}
    assert tokens("แคช") == {"แค", "คช"}


def test_case_and_width_make_no_difference():
    assert tokens("ＲＥＤＩＳ Straße") == tokens("Redis STRASSE") == {"redis", "strasse"}


# --- What always holds ---------------------------------------------------------------------------------------------

TEXTS = st.sampled_from(["", "a b", "b c", "c d e", "用缓存", "แคชเร็ว", "🎉"]) | st.text(max_size=20)
WITHOUT_A_COMMON_TOKEN = ["a b", "c d e", "用缓存", "我们", "แคชเร็ว", "🎉", "", "हैं"]
VECTORS = st.none() | st.lists(st.integers(-5, 5), min_size=3, max_size=3).filter(any)
HITS = st.lists(st.tuples(TEXTS, st.floats(0, 1), VECTORS), max_size=12).map(
    lambda items: [hit(text, score, number, vector) for number, (text, score, vector) in enumerate(items)]
)


@settings(deadline=None, max_examples=60)
@given(HITS, st.floats(0, 1))
def test_no_hit_is_lost_or_changed(hits, lambda_param):
    after = process(Mmr(lambda_param), hits)
    assert sorted(map(id, after)) == sorted(map(id, hits))


@settings(deadline=None, max_examples=60)
@given(HITS)
def test_lambda_1_changes_nothing(hits):
    assert process(Mmr(1), hits) == hits


@settings(deadline=None, max_examples=60)
@given(HITS.filter(len), st.floats(0.01, 1, exclude_max=True))
def test_the_most_relevant_is_first(hits, lambda_param):
    # Not the smallest weights: what they leave of two scores that are almost the same is the same number.
    first = process(Mmr(lambda_param), hits)[0]
    assert first.score == pytest.approx(max(found.score for found in hits))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(WITHOUT_A_COMMON_TOKEN), min_size=1, unique=True), st.integers(1, 4))
def test_with_lambda_0_copies_of_the_first_come_last(texts, copies):
    hits = [hit(text, 1.0, number) for number, text in enumerate([texts[0]] * (copies + 1) + texts[1:])]
    assert order(Mmr(0), hits) == [0, *range(copies + 1, len(hits)), *range(1, copies + 1)]


@settings(deadline=None, max_examples=60)
@given(HITS, st.floats(0, 1, exclude_max=True))
def test_each_hit_is_the_best_one_at_its_turn(hits, lambda_param):
    """Compare with the definition, which looks at every pair at every turn."""
    best = max((found.score for found in hits), default=0) or 1

    def similarity(one: Hit, other: Hit) -> float:
        if one.vector is not None and other.vector is not None:
            return max(0.0, float(one.vector @ other.vector))
        mine, others = tokens(one.chunk.text), tokens(other.chunk.text)
        return len(mine & others) / len(mine | others)

    def value(candidate: Hit, chosen: list[Hit]) -> float:
        nearest = max((similarity(candidate, other) for other in chosen), default=0.0)
        return lambda_param * candidate.score / best - (1 - lambda_param) * nearest

    after = process(Mmr(lambda_param), hits)
    for turn, found in enumerate(after):
        values = [value(candidate, after[:turn]) for candidate in after[turn:]]
        assert value(found, after[:turn]) >= max(values) - 1e-4  # cosines are rounded


@settings(deadline=None, max_examples=60)
@given(st.lists(TEXTS, min_size=2, max_size=6))
def test_similarity_by_words_is_symmetric_and_1_for_the_same_text(texts):
    similarities = by_words([*texts, *texts])
    assert (similarities == similarities.T).all()
    assert ((similarities >= 0) & (similarities <= 1)).all()
    assert (similarities.diagonal(len(texts)) == 1).all()


def test_long_texts_are_compared_by_all_of_their_words():
    words = [f"word{number}" for number in range(5_000)]
    texts = [" ".join(words), " ".join(words[2_500:]), " ".join(words[:1_000]), "something else"]
    similarities = by_words(texts)
    assert similarities[np.triu_indices(4, 1)].tolist() == [0.5, 0.2, 0, 0, 0, 0]


# --- The plugin ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lambda_param", [-0.1, 1.1, float("nan")])
def test_lambda_is_between_0_and_1(lambda_param):
    with pytest.raises(ConfigurationError, match=r"^lambda_param must be a number from 0 to 1, not "):
        Mmr(lambda_param)


def test_it_needs_vectors():
    assert Mmr().needs_vectors


def test_it_is_registered_by_its_name():
    registered: dict[str, object] = {}
    kipu_register_postprocessors(registered.__setitem__)
    assert registered == {"mmr": Mmr}
