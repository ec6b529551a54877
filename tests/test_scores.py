"""What scores say in every script and in the smallest memory, with the default plugins and model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kipu import Memory

if TYPE_CHECKING:
    from pathlib import Path

# A note, and a question that has nothing to do with it.
STRANGERS = {
    "en": ("The bakery opens at six.", "parliament election results"),
    "zh": ("面包店六点开门。", "议会选举结果"),
    "zh-Hant": ("ร้านขนมปังเปิดหกโมง", "機房"),
    "ja": ("パン屋は六時に開きます。", "議会選挙の結果"),
    "ko": ("빵집은 여섯 시에 문을 연다.", "국회 선거 결과"),
    "th": ("ร้านขนมปังเปิดหกโมง", "ผลการเลือกตั้งรัฐสภา"),
    "ar": ("المخبز يفتح في السادسة.", "نتائج انتخابات البرلمان"),
    "hi": ("बेकरी छह बजे खुलती है।", "संसद चुनाव परिणाम"),
    "ru": ("Булочная открывается в шесть.", "результаты выборов парламента"),
    "el": ("Ο φούρνος ανοίγει στις έξι.", "αποτελέσματα βουλευτικών εκλογών"),
    "he": ("המאפייה נפתחת בשש.", "תוצאות הבחירות לכנסת"),
}


def write(workspace: Path, *notes: str) -> Path:
    (workspace / "memory").mkdir()
    for number, note in enumerate(notes):
        (workspace / "memory" / f"{number}.md").write_text(f"{note}\n", "utf-8")
    return workspace


@pytest.mark.parametrize("strategy", ["hybrid", "vector", "keyword"])
@pytest.mark.parametrize(("note", "question"), STRANGERS.values(), ids=STRANGERS)
async def test_a_question_that_nothing_answers_scores_low_in_every_script(tmp_path, note, question, strategy):
    async with Memory(write(tmp_path, note)) as memory:
        assert all(result.score <= 0.2 for result in await memory.search(question, strategy=strategy))
        recalled = await memory.recall(question, strategy=strategy)
        assert (recalled.text, list(recalled.results)) == ("", [])


@pytest.mark.parametrize(("note", "_"), STRANGERS.values(), ids=STRANGERS)
async def test_a_note_that_says_what_is_asked_scores_high_in_every_script(tmp_path, note, _):
    async with Memory(write(tmp_path, note, "Unrelated.")) as memory:
        (best, *_) = await memory.search(note)
        assert best.score > 0.9
        assert note in (await memory.recall(note)).text


@pytest.mark.parametrize("strategy", ["hybrid", "keyword"])
async def test_in_a_small_memory_each_relevant_note_scores_clearly_above_an_unrelated_one(tmp_path, strategy):
    notes = ("Postgres backup runs at two.", "The Postgres backup is kept for a year.", "Mia plays the cello.")
    for number, question in enumerate(("postgres backup", "which postgres backup is the oldest")):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with Memory(write(folder, *notes)) as memory:
            scores = {result.text: result.score for result in await memory.search(question, strategy=strategy)}
            relevant = [scores[note] for note in notes[:2]]
            assert min(relevant) > 0.4
            assert min(relevant) > 2 * scores.get(notes[2], 0.0)


async def test_a_result_has_a_score_that_is_shown_and_the_rest_is_none(tmp_path):
    notes = [f"The report of week {number} is done." for number in range(40)]
    async with Memory(write(tmp_path, *notes, "Otters live in the report.")) as memory:
        for strategy in ("hybrid", "keyword", "vector"):
            results = await memory.search("otters of the report", strategy=strategy, max_results=100)
            assert results
            assert all(result.score >= 0.005 for result in results)
        assert list(await memory.search("議会選挙", strategy="keyword")) == []


async def test_recall_returns_nothing_for_what_nothing_answers_unless_it_is_asked_to(tmp_path):
    facts = (
        "Ana is allergic to peanuts.",
        "Production deploys happen on Tuesdays.",
        "The backup bucket is in Frankfurt.",
    )
    async with Memory(write(tmp_path, *facts)) as memory:
        nothing = await memory.recall("zebra astronomy mango")
        assert (nothing.text, list(nothing.results)) == ("", [])
        assert "Nothing is recalled: the best result has a score of" in nothing.results.notices[-1]
        assert await memory.search("zebra astronomy mango")
        assert len((await memory.recall("zebra astronomy mango", min_score=0)).results) > 0
        assert facts[0] in (await memory.recall("Who must not eat nuts?")).text
        assert list((await memory.recall("Who must not eat nuts?", min_score=0.9)).results) == []
