"""Measures what relations between notes find: made notes, and questions that two or three of them answer together.

    python benchmarks/relation.py                       # everything; embedding takes some minutes
    python benchmarks/relation.py --parts example,pairs
    python benchmarks/relation.py --parts en,de --json figures.json

- **example**: "What server does Ravi use?" of two notes among 0, 50, 200 and 1,000 others, nine of them about Ravi.
- **pairs**: 60 questions on 120 notes; each needs two of them.
- **en**, **de**, **es**: 1,000 facts in English, German and Spanish, in several phrasings each, and 100 questions for
  each number of hops from one to three; then all of it without capitals.

``hit@5`` is the share of the questions for which the last note is among the first five results. ``off`` is a search
with ``relation=False``. The seconds and milliseconds are of CPU time, of all threads.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kipu.sync import Memory

SEED = 7
EXAMPLE = ("What server does Ravi use?", "Ravi uses FastAPI for the billing API.", "FastAPI runs on Uvicorn here.")


class Question(NamedTuple):
    """A question, the note that has the answer, and how many notes lead to it."""

    text: str
    note: str
    hops: int


# --- Made notes ----------------------------------------------------------------------------------------------------

_ABOUT_RAVI = (
    "Ravi prefers tea to coffee in the morning.",
    "Ravi is on holiday in the second week of May.",
    "Ravi asked for a standing desk.",
    "Ravi reviews pull requests before lunch.",
    "The birthday of Ravi is in October.",
    "Ravi gave a talk about testing in Lisbon.",
    "Ravi moved to the second floor.",
    "Ravi wants shorter meetings.",
    "Ravi plays chess with Lena on Fridays.",
)
_PEOPLE = ("Lena", "Tomas", "Yuki", "Amara", "Diego", "Ingrid", "Farid", "Noor", "Pavel", "Chloe")
_DID = (
    "{} wrote the minutes of the planning meeting, number {}.",
    "{} fixed the flaky test of ticket {}.",
    "The invoice {1} was approved by {0}.",
    "{} ordered new chairs for room {}.",
    "Customer {1} called, and {0} answered.",
    "{} moved the retrospective to slot {}.",
)


def example_notes(others: int) -> list[str]:
    """Return the notes of the example: the two that answer first."""
    made = [_DID[number % 6].format(_PEOPLE[number % 10], number) for number in range(max(0, others - 9))]
    return [*EXAMPLE[1:], *(_ABOUT_RAVI[:others]), *made]


def _make_names(chooser: random.Random, count: int, endings: Sequence[str]) -> list[str]:
    names: dict[str, None] = {}
    while len(names) < count:
        syllables = [chooser.choice("bdfgklmnprstvz") + chooser.choice("aeiou") for _ in range(2)]
        names["".join(syllables).capitalize() + chooser.choice(endings)] = None
    return [*names]


def pair_notes() -> tuple[list[str], list[Question]]:
    """Return 120 notes and 60 questions, each of which two of the notes answer."""
    chooser = random.Random(SEED)
    people = _make_names(chooser, 60, ("n", "ra", "l", "sh"))
    tools = _make_names(chooser, 60, ("Base", "Flow", "Kit", "DB", "Cast"))
    places = _make_names(chooser, 60, ("burg", "ville", "ton", "heim"))
    first = ("{} uses {} for the reports.", "{} wrote the tool {}.", "{} is responsible for {}.", "{} maintains {}.")
    second = (
        ("{} is hosted in {}.", "Where is the tool of {} hosted?"),
        ("{} needs a licence from {}.", "Who licenses what {} works with?"),
        ("The backups of {} go to {}.", "Where do the backups of the tool of {} go?"),
    )
    notes, questions = [], []
    for number, (person, tool, place) in enumerate(zip(people, tools, places, strict=True)):
        statement, question = second[number % 3]
        notes += [first[number % 4].format(person, tool), statement.format(tool, place)]
        questions.append(Question(question.format(person), notes[-1], 2))
    return notes, questions


class Language(NamedTuple):
    """How facts are said, in several ways for each predicate, and how they are asked for, by the predicates in turn."""

    facts: Mapping[str, Sequence[str]]
    questions: Mapping[tuple[str, ...], Sequence[str]]


LANGUAGES = {
    "en": Language(
        {
            "project": ("{} works on {}.", "{} joined the project {} in spring.", "The project of {} is {}."),
            "lives": ("{} lives in {}.", "{} has moved to {}.", "{} bought a flat in {}."),
            "pet": ("{} has a {}.", "{} takes a {} for walks.", "The pet of {} is a {}."),
            "database": ("{} uses the database {}.", "{} stores its data in {}.", "The data of {} is kept in {}."),
            "cluster": ("{} runs on the cluster {}.", "{} is deployed to {}.", "We deploy {} to the cluster {}."),
            "host": ("{} is hosted by {}.", "The company that hosts {} is {}.", "We rent {} from {}."),
            "seat": ("{} has its headquarters in {}.", "The offices of {} are in {}.", "{} is based in {}."),
            "lead": ("{} is led by {}.", "The lead of {} is {}.", "{} reports to {}."),
        },
        {
            ("lives",): ("Where does {} live?", "In which city is the flat of {}?"),
            ("project",): ("What does {} work on?", "Which project is {} in?"),
            ("database",): ("Which database does {} use?", "Where does {} store its data?"),
            ("project", "database"): (
                "Which database does the project of {} use?",
                "Where does the project that {} works on store its data?",
            ),
            ("project", "cluster"): (
                "Which cluster does the project of {} run on?",
                "Where is what {} works on deployed?",
            ),
            ("cluster", "host"): ("Which company hosts the cluster of {}?", "From whom do we rent what {} runs on?"),
            ("project", "cluster", "host"): (
                "Which company hosts the cluster that the project of {} runs on?",
                "Who is the hosting company of what {} works on?",
            ),
            ("cluster", "host", "seat"): (
                "Where are the headquarters of the company that hosts the cluster of {}?",
                "In which city is the hosting company of {}?",
            ),
        },
    ),
    "de": Language(
        {
            "project": (
                "{} arbeitet an {}.",
                "{} ist im Frühjahr zum Projekt {} gestoßen.",
                "Das Projekt von {} ist {}.",
            ),
            "lives": ("{} wohnt in {}.", "{} ist nach {} gezogen.", "{} hat eine Wohnung in {} gekauft."),
            "pet": ("{} hat einen {}.", "{} geht mit einem {} spazieren.", "Das Haustier von {} ist ein {}."),
            "database": (
                "{} nutzt die Datenbank {}.",
                "{} speichert seine Daten in {}.",
                "Die Daten von {} liegen in {}.",
            ),
            "cluster": (
                "{} läuft auf dem Cluster {}.",
                "{} wird auf {} ausgerollt.",
                "Wir betreiben {} im Cluster {}.",
            ),
            "host": ("{} wird von {} gehostet.", "Die Firma, die {} hostet, ist {}.", "Wir mieten {} bei {}."),
            "seat": ("{} hat seinen Sitz in {}.", "Die Büros von {} sind in {}.", "{} sitzt in {}."),
            "lead": ("{} wird von {} geleitet.", "Die Leitung von {} hat {}.", "{} berichtet an {}."),
        },
        {
            ("lives",): ("Wo wohnt {}?", "In welcher Stadt ist die Wohnung von {}?"),
            ("project",): ("Woran arbeitet {}?", "In welchem Projekt ist {}?"),
            ("database",): ("Welche Datenbank nutzt {}?", "Wo speichert {} seine Daten?"),
            ("project", "database"): (
                "Welche Datenbank nutzt das Projekt von {}?",
                "Wo speichert das Projekt, an dem {} arbeitet, seine Daten?",
            ),
            ("project", "cluster"): (
                "Auf welchem Cluster läuft das Projekt von {}?",
                "Wohin wird ausgerollt, woran {} arbeitet?",
            ),
            ("cluster", "host"): ("Welche Firma hostet den Cluster von {}?", "Bei wem mieten wir, worauf {} läuft?"),
            ("project", "cluster", "host"): (
                "Welche Firma hostet den Cluster, auf dem das Projekt von {} läuft?",
                "Von wem wird gehostet, woran {} arbeitet?",
            ),
            ("cluster", "host", "seat"): (
                "Wo ist der Sitz der Firma, die den Cluster von {} hostet?",
                "In welcher Stadt sind die Büros der Firma, die {} hostet?",
            ),
        },
    ),
    "es": Language(
        {
            "project": ("{} trabaja en {}.", "{} se unió al proyecto {} en primavera.", "El proyecto de {} es {}."),
            "lives": ("{} vive en {}.", "{} se ha mudado a {}.", "{} compró un piso en {}."),
            "pet": ("{} tiene un {}.", "{} pasea con un {}.", "La mascota de {} es un {}."),
            "database": ("{} usa la base de datos {}.", "{} guarda sus datos en {}.", "Los datos de {} están en {}."),
            "cluster": ("{} corre en el clúster {}.", "{} se despliega en {}.", "Desplegamos {} en el clúster {}."),
            "host": ("{} está alojado por {}.", "La empresa que aloja {} es {}.", "Alquilamos {} a {}."),
            "seat": ("{} tiene su sede en {}.", "Las oficinas de {} están en {}.", "La sede de {} es {}."),
            "lead": ("{} está dirigido por {}.", "La dirección de {} la lleva {}.", "{} depende de {}."),
        },
        {
            ("lives",): ("¿Dónde vive {}?", "¿En qué ciudad está el piso de {}?"),
            ("project",): ("¿En qué trabaja {}?", "¿En qué proyecto está {}?"),
            ("database",): ("¿Qué base de datos usa {}?", "¿Dónde guarda {} sus datos?"),
            ("project", "database"): (
                "¿Qué base de datos usa el proyecto de {}?",
                "¿Dónde guarda sus datos el proyecto en que trabaja {}?",
            ),
            ("project", "cluster"): (
                "¿En qué clúster corre el proyecto de {}?",
                "¿Dónde se despliega aquello en que trabaja {}?",
            ),
            ("cluster", "host"): (
                "¿Qué empresa aloja el clúster de {}?",
                "¿A quién alquilamos aquello en que corre {}?",
            ),
            ("project", "cluster", "host"): (
                "¿Qué empresa aloja el clúster en que corre el proyecto de {}?",
                "¿Quién aloja aquello en que trabaja {}?",
            ),
            ("cluster", "host", "seat"): (
                "¿Dónde tiene su sede la empresa que aloja el clúster de {}?",
                "¿En qué ciudad están las oficinas de la empresa que aloja {}?",
            ),
        },
    ),
}

_CITIES = """Bergen Porto Lyon Graz Turku Ghent Malmo Brno Split Kosice Leeds Cork Bari Nice Gdansk Tartu Plovdiv Bilbao
    Aarhus Utrecht Linz Vigo Kaunas Cluj""".split()
_PETS = "beagle parrot tortoise hamster pony ferret rabbit canary gecko spaniel".split()
_LAST_NAMES = """
    Okafor Lindqvist Marchetti Novak Haddad Sorensen Fujita Kowalska Duarte Brennan Petrov Castellanos Weiss
    Achterberg Nakamura Oduya Ferrari Holm Iqbal Jansen""".split()
_FIRST_NAMES = "Mira Jonas Aisha Pedro Wren Kofi Elsa Bruno Tala Igor".split()


def made_facts(language: Language) -> tuple[list[str], list[Question]]:
    """Return 1,000 facts and 300 questions: 100 each for one, two and three hops."""
    chooser = random.Random(SEED)
    people = [f"{first} {last}" for first, last in itertools.product(_FIRST_NAMES, _LAST_NAMES)]
    projects = _make_names(chooser, 100, ("x", "ron", "lis", "ka"))
    databases = _make_names(chooser, 40, ("DB", "Store", "Base"))
    clusters = _make_names(chooser, 50, ("-1", "-2", " East", " West"))
    companies = _make_names(chooser, 25, ("Hosting", " Cloud", "tec", "net"))
    values = {
        "project": (people, projects),
        "lives": (people, _CITIES),
        "pet": (people, _PETS),
        "database": (projects, databases),
        "cluster": (projects, clusters),
        "host": (clusters, companies),
        "seat": (companies, _CITIES),
        "lead": ([*projects, *clusters, *companies], people),
    }
    said: dict[tuple[str, str], tuple[str, str]] = {}
    for predicate, (subjects, objects) in values.items():
        for subject in subjects:
            target = chooser.choice(objects)
            said[predicate, subject] = target, chooser.choice(language.facts[predicate]).format(subject, target)
    notes = [note for _, note in said.values()]
    questions: list[Question] = []
    for hops in (1, 2, 3):
        asked = [path for path in language.questions if len(path) == hops]
        for number in range(100):
            path = asked[number % len(asked)]
            start = target = chooser.choice(values[path[0]][0])
            for predicate in path:
                target, note = said[predicate, target]
            questions.append(Question(chooser.choice(language.questions[path]).format(start), note, hops))
    chooser.shuffle(notes)
    return notes, questions


# --- Measuring -----------------------------------------------------------------------------------------------------


def open_memory(folder: Path, notes: Iterable[str]) -> tuple[Memory, float]:
    """Write each note to a file of its own, and return a memory of them with the seconds that indexing took."""
    from kipu import MemoryConfig
    from kipu.sync import Memory

    (folder / "memory").mkdir(parents=True, exist_ok=True)
    for number, note in enumerate(notes):
        (folder / "memory" / f"note-{number:04}.md").write_text(note + "\n", "utf-8")
    memory = Memory(MemoryConfig(folder))
    memory.index()  # with vectors, which are kept
    start = time.process_time()
    memory.index(force=True)
    return memory, time.process_time() - start


def ask(memory: Memory, questions: Sequence[Question], *, relation: bool) -> dict[str, float]:
    """Return the shares of questions whose note is found, by the number of hops, and the milliseconds for each."""
    hits: dict[str, list[bool]] = {}
    start = time.process_time()
    for question in questions:
        found = [result.text for result in memory.search(question.text, max_results=10, relation=relation)]
        place = found.index(question.note) if question.note in found else len(found) + 10
        hits.setdefault(f"{question.hops}-hop hit@5", []).append(place < 5)
        hits.setdefault(f"{question.hops}-hop hit@10", []).append(place < 10)
    figures = {name: round(sum(each) / len(each), 3) for name, each in hits.items()}
    return figures | {"ms": round((time.process_time() - start) / len(questions) * 1e3, 1)}


def measure_example(folder: Path) -> dict[str, Any]:
    """Return where Uvicorn is found among so many other notes, with and without relations, and its path."""
    figures: dict[str, Any] = {}
    for others in (0, 50, 200, 1000):
        memory, _ = open_memory(folder / str(others), example_notes(others))
        with memory:
            for relation in (True, False):
                results = memory.search(EXAMPLE[0], max_results=10, relation=relation)
                places = [number for number, result in enumerate(results, 1) if result.text == EXAMPLE[2]]
                why = results[places[0] - 1].why if places else ""
                figures[f"{others} others, {'on' if relation else 'off'}"] = [places[0] if places else None, why]
    return figures


def measure(folder: Path, notes: Sequence[str], questions: Sequence[Question]) -> dict[str, Any]:
    """Return the figures of notes and questions, with and without relations."""
    memory, seconds = open_memory(folder, notes)
    with memory:
        memory.search(questions[0].text)  # loads the model
        figures: dict[str, Any] = {
            name: ask(memory, questions, relation=relation) for name, relation in (("off", False), ("on", True))
        }
    return figures | {"index s": round(seconds, 2)}


def lowered(notes: Sequence[str], questions: Sequence[Question]) -> tuple[list[str], list[Question]]:
    """Return notes and questions without capitals."""
    asked = [Question(each.text.lower(), each.note.lower(), each.hops) for each in questions]
    return [note.lower() for note in notes], asked


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ["example", "pairs", *LANGUAGES]
    parser.add_argument("--parts", default=",".join(parts), help=f"some of {','.join(parts)}")
    parser.add_argument("--work", type=Path, help="where workspaces are built, instead of a temporary folder")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp(prefix="kipu-relation-"))
    measured: dict[str, Any] = {}
    try:
        for part in options.parts.split(","):
            print(f"{part} ...", file=sys.stderr)
            if part == "example":
                measured[part] = measure_example(work / part)
            else:
                made = pair_notes() if part == "pairs" else made_facts(LANGUAGES[part])
                measured[part] = measure(work / part, *made)
                measured[f"{part}, lower case"] = measure(work / f"{part}-lower", *lowered(*made))
    finally:
        if options.work is None:
            shutil.rmtree(work)
    for part, figures in measured.items():
        for name, each in figures.items():
            print(f"{part:16} {name:18} {each}")
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
