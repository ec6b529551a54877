"""Measure how many of the statements of 200 sentences kipu-strategy-graph extracts, by its rules and with spaCy.

Usage: python benchmarks/extraction.py [--nlp PIPELINE] [--failures]

Prints precision, recall and F1 for the sentences with odd numbers, on which rules may be developed, and for those with
even numbers, which are held out. ``--failures`` lists the failures of the former. A statement is found if subject and
object are the same words, apart from articles, case and endings, the first word of the predicate that says something
is the same verb, and it is denied in both or in neither. Statements with a modality are not believed, and not counted.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from kipu.types import StoredChunk
from kipu_strategy_graph.extraction import extract, phrase
from kipu_strategy_graph.extraction.nlp import Parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kipu_strategy_graph.extraction import Relation

SENTENCES = Path(__file__).with_name("extraction.txt")
ARTICLES = {"the", "a", "an", "our", "my", "his", "her", "it", "their", "this"}  # phrase() folds "its"
LIGHT = {"is", "are", "was", "were", "be", "been", "being", "a", "an", "the", "not", "now", "do", "does"}
LIGHT |= {"did"}
IRREGULAR = dict(
    pair.split(":")
    for pair in """written:write wrote:write bought:buy built:build led:lead made:make sent:send sold:sell spoke:speak
    taught:teach left:leave lent:lend chose:choose chosen:choose broke:break broken:break forgot:forget
    taken:take took:take has:have had:have born:bear does:do did:do drew:draw drove:drive saw:see held:hold
    met:meet""".split()
)
Statement = tuple[bool, tuple[str, ...], str, tuple[str, ...]]


def stem(word: str) -> str:
    """Return what the forms of a verb share."""
    word = IRREGULAR.get(word, word)
    word = re.sub(r"ies$|ied$", "y", word)
    word = re.sub(r"(?<=..)(?:es|(?<!e)ed|ing|s|e)$", "", word)
    return re.sub(r"([b-df-hj-np-tv-z])\1$", r"\1", word)


def predicate(text: str) -> str:
    """Return the first word of a predicate that says something."""
    words = re.findall(r"[\w'-]+", text.casefold())
    says = [word for word in words if word not in LIGHT]
    return stem(says[0]) if says else stem(words[0]) if words[0] in {"do", "does", "did"} else "be"


def name(text: str) -> tuple[str, ...]:
    """Return the words of a name without its article."""
    words = phrase(text)
    return words[1:] if words and words[0] in ARTICLES and len(words) > 1 else words


def gold(line: str) -> tuple[str, set[Statement]]:
    """Return a sentence and what it states."""
    sentence, *statements = (part.strip() for part in line.split(" | "))
    found: set[Statement] = set()
    for statement in statements:
        if statement != "-":
            source, middle, target = statement.split(" ; ")
            found.add((source.startswith("not "), name(source.removeprefix("not ")), predicate(middle), name(target)))
    return sentence, found


def believed(relations: Iterable[Relation]) -> set[Statement]:
    """Return the statements that have no modality."""
    return {
        (each.polarity < 0, name(each.source), predicate(each.predicate), name(each.target))
        for each in relations
        if not each.modality
    }


def rules(sentence: str, parser: Parser | None = None) -> Iterable[Relation]:
    """Return what is extracted from a chunk that is a sentence, in a file that is no page of anything."""
    chunk = StoredChunk(1, "", "memory/2026-11-29.md", "memory", None, 1, 1, "", 0, sentence, "")
    return extract(chunk, parser).relations


def measure(kind: str, extractor: Callable[[str], Iterable[Relation]], *, failures: bool = False) -> list[float]:
    """Print the figures of an extractor for both halves, and return those of the half that is held out."""
    figures: list[float] = []
    lines = [line for line in SENTENCES.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    for half, first in (("odd", 0), ("even", 1)):
        right = said = wanted = 0
        for line in lines[first::2]:
            sentence, expected = gold(line)
            found = believed(extractor(sentence))
            right += len(found & expected)
            said += len(found)
            wanted += len(expected)
            if failures and half == "odd" and found != expected:
                print(f"  {sentence}\n    missed {expected - found or ''} wrong {found - expected or ''}")
        precision, recall = right / max(1, said), right / max(1, wanted)
        f1 = 2 * precision * recall / max(1e-9, precision + recall)
        figures = [precision, recall, f1]
        print(f"{kind:32} {half:5} precision {precision:.2f}  recall {recall:.2f}  F1 {f1:.2f}")
    return figures


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nlp", metavar="PIPELINE", help="also measure with a spaCy pipeline that is installed")
    parser.add_argument("--failures", action="store_true", help="list the failures of the half for development")
    arguments = parser.parse_args()
    measure("rules", rules, failures=arguments.failures)
    if arguments.nlp:
        pipeline = Parser(arguments.nlp)
        measure("rules and " + arguments.nlp, lambda text: rules(text, pipeline), failures=arguments.failures)
        measure(arguments.nlp, lambda text: pipeline.relations(text, ""), failures=arguments.failures)


if __name__ == "__main__":
    main()
