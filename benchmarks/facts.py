"""Measures what an agent gets back from a memory of single facts that it remembered itself.

    python benchmarks/facts.py [--strategies keyword,hybrid]

facts.json has 64 facts in English, German, Chinese and Hindi, all made up; 40 questions that one fact answers, of which
half share no rare word with it; and 15 questions that nothing answers. The facts are remembered one after another in a
new workspace. A result is right if the fact stands in its lines.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quality import table

from kipu_strategy_keyword.tokens import STOP_WORDS, fold, words

if TYPE_CHECKING:
    from kipu.sync import Memory
    from kipu.types import SearchResult

SET: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
FACTS: list[str] = [fact for facts in SET["facts"].values() for fact in facts]
RARE = 3  # a word that more facts have tells little of one


def fact_of(opening: str) -> str:
    """Return the only fact that begins with a text."""
    (fact,) = (fact for fact in FACTS if fact.startswith(opening))
    return fact


def shared_rare_words(question: str, opening: str) -> set[str]:
    """Return the rare words that a question shares with the fact that answers it."""
    counts = Counter(word for fact in FACTS for word in set(words(fold(fact))))
    shared = set(words(fold(question))) & set(words(fold(fact_of(opening)))) - STOP_WORDS
    return {word for word in shared if counts[word] <= RARE}


def is_right(result: SearchResult, fact: str) -> bool:
    """Return whether a fact stands in the lines of a result."""
    return fact in result.text


def measure(memory: Memory, strategy: str) -> list[list[str]]:
    """Return a row for each kind of question: right first, within three, and what recall gives."""
    rows = []
    kinds = {**SET["answered"], "all answered": [each for pairs in SET["answered"].values() for each in pairs]}
    for kind, pairs in kinds.items():
        first = three = length = kept = lost = 0
        for question, opening in pairs:
            fact = fact_of(opening)
            results = memory.search(question, max_results=3)
            ranks = [is_right(result, fact) for result in results]
            first += ranks[:1] == [True]
            three += any(ranks)
            length += len(results[0].text) if results else 0
            has = [any(is_right(each, fact) for each in recall(memory, question, floor)) for floor in (None, 0.0)]
            kept += has[0]
            lost += has[1] and not has[0]
        count = len(pairs)
        shares = [f"{share / count:.3f}".lstrip("0") for share in (first, three, kept, lost)]
        rows.append([strategy, kind, str(count), *shares, f"{length / count:.0f}", "-"])
    unanswerable = SET["unanswerable"]
    empty = sum(not recall(memory, question, None) for question in unanswerable)
    share = f"{empty / len(unanswerable):.3f}".lstrip("0")
    rows.append([strategy, "unanswerable", str(len(unanswerable)), *"-----", share])
    return rows


def recall(memory: Memory, question: str, floor: float | None) -> list[SearchResult]:
    """Return the results that a recall hands over, with the lowest score that is the default or another one."""
    return list(memory.recall(question, **({} if floor is None else {"min_score": floor})).results)


def main() -> None:
    """Remember, ask and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategies", default="keyword,hybrid", help="some of keyword,vector,hybrid")
    from kipu import MemoryConfig, SearchConfig
    from kipu.sync import Memory

    rows = [["strategy", "questions", "", "first", "in 3", "recall", "lost", "characters", "empty"]]
    for strategy in parser.parse_args().strategies.split(","):
        with (
            tempfile.TemporaryDirectory() as folder,
            Memory(MemoryConfig(folder, search=SearchConfig(strategy=strategy))) as memory,
        ):
            for fact in FACTS:
                memory.remember(fact)
            memory.index()
            rows += measure(memory, strategy)
    print(table(rows))


if __name__ == "__main__":
    main()
