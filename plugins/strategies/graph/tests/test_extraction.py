"""What is read out of a chunk: names, what the markup says, and what sentences say."""

from __future__ import annotations

import pytest

from kipu.types import StoredChunk
from kipu_strategy_graph.extraction import Alias, Extraction, extract, key, names_in, phrase


def read(text: str, *, heading: str = "", path: str = "memory/2026-11-29.md", **metadata: str) -> Extraction:
    return extract(StoredChunk(1, "c", path, "memory", None, 1, 9, heading, 1 if heading else 0, text, "", metadata))


def said(text: str, **page: str) -> list[str]:
    """Return the relations of a text: negated ones with "not", and others with their modality in front."""
    found = []
    for each in read(text, **page).relations:
        marks = "not " * (each.polarity < 0) + f"{each.modality} " * bool(each.modality)
        found.append(f"{marks}{each.source} -{each.predicate}-> {each.target}")
    return found


def names(text: str) -> list[str]:
    return [f"{via}: {name}" for name, _, _, via in names_in(text)]


def test_a_key_has_no_case_no_width_and_single_spaces():
    assert key("  Ｎew \n York ") == key("new york") == "new york"
    assert key("classes") != key("class")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Łódź's Cafés", ("lodz", "cafe")),
        ("The classes, the class", ("the", "classe", "the", "class")),
        ("FastAPI/Uvicorn 2.0 snake_case", ("fastapi", "uvicorn", "2", "0", "snake_case")),
        ("小明住上海", ("小", "明", "住", "上", "海")),
        ("हिन्दी में", ("हिन्दी", "में")),
        ("", ()),
    ],
)
def test_a_phrase_has_the_words_that_a_lookup_compares(text, words):
    assert phrase(text) == words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Ravi's team met Marta Lopes.", ["name: Ravi", "name: Marta Lopes"]),
        ("The University of Porto", ["name: University of Porto", "part: University", "part: Porto"]),
        ("A book by J. K. Rowling on St. Mary's", ["name: J. K. Rowling", "name: St. Mary"]),
        ("We met Ålesund, Łódź, then Москва", ["name: Ålesund", "name: Łódź", "name: Москва"]),
        ("`uv sync` and [[Billing API#Keys|billing]]", ["code: uv sync", "link: Billing API"]),
        ("see #infra/db, not C# or x#y", ["tag: infra/db"]),
        ("use libxml2 in src/app.py", ["identifier: libxml2", "identifier: src/app.py"]),
        ("set max_size or camelCase", ["identifier: max_size", "identifier: camelCase"]),
        ("on 8443 since 2021-11-02, 4 of 12", ["number: 8443", "number: 2021-11-02"]),
        ("It rained. May we? Nothing. A well-known day.", []),
        (
            "On Friday 3 May 2019 June Carter used Python 3.13.",
            ["name: Friday 3 May 2019 June Carter", "name: Python 3.13"],
        ),
        ("On Friday, in May 2019, on Sunday 3. Until 2019-05-03 Jun left.", ["name: Jun"]),
        ("n" * 10_000 + " " + "N" * 10_000, []),
    ],
)
def test_names_are_found_as_they_are_written(text, found):
    assert names(text) == found


def test_names_of_headings_and_of_the_file_have_no_place_in_the_text():
    found = read("Hello [[Ewa]]", heading="People > Ravi Kumar", path="memory/billing-api.md").mentions
    places = {each.name: (each.start, each.via) for each in found}
    assert places["Ewa"] == (8, "link")
    assert places["Ravi Kumar"] == (-1, "heading")
    assert places["billing api"] == (-1, "title")


def test_a_line_of_metadata_names_nothing():
    text = "- We moved.\n  [tags: infra; valid_until: 2027-01-31]"
    assert [each.name for each in read(text, valid_until="2027-01-31").mentions] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("- uses [[FastAPI]], [[Uvicorn|the server]] (since May)", ["uses", "uses"]),
        ('- "reports to" [[Ingrid]]', ["reports to"]),
        ("- depends_on [[libxml2]]", ["depends on"]),
        ("role:: lead\nteam:: [[Data]]", ["role", "team"]),
        ("(role:: lead) since May", ["role"]),
        ("**Role**: lead", ["role"]),
        ("- **Role:** lead", ["role"]),
        ("- Role: lead", ["role"]),
        ("- [preference] tea over coffee #drink (2026)", ["preference"]),
        ("- met at the [[Lisbon Office]] on a day in May", ["links to"]),
        ("---\nowner: Marta\n---\nText", []),
        ("- [ ] call the bank\n- [link](page.md)\n- Note: later\n- TODO: this", []),
        ("```\nRavi uses FastAPI.\n```\n| Ravi uses FastAPI. | b |", []),
    ],
)
def test_markup_says_something_of_the_page(text, found):
    relations = read(text, heading="Ravi").relations
    assert [each.predicate for each in relations] == found
    assert all(each.source == "Ravi" for each in relations)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("- does not use [[X]]", "not Billing -uses-> X"),
        ("- doesn't use [[X]]", "not Billing -uses-> X"),
        ("- no longer uses [[X]]", "not Billing -uses-> X"),
        ("- rarely uses [[X]]", "not Billing -uses-> X"),
        ("- never uses [[X]]", "not Billing -uses-> X"),
        ("- stopped using [[X]]", "not Billing -uses-> X"),
        ("- has no [[X]]", "not Billing -has-> X"),
        ("- is not owned by [[X]]", "not Billing -owned by-> X"),
        ("- is owned by [[X]]", "Billing -owned by-> X"),
        ("- not_used_by [[X]]", "not Billing -used by-> X"),
        ("- not [[X]]", "not Billing -not-> X"),
        ("- might use [[X]]", "possible Billing -uses-> X"),
        ("- plans to use [[X]]", "possible Billing -uses-> X"),
        ("- used to use [[X]]", "past Billing -uses-> X"),
        ("- maybe part of [[X]]", "possible Billing -part of-> X"),
        ("- benutzt nicht [[X]]", "not Billing -benutzt-> X"),
        ("- hat keinen [[X]]", "not Billing -hat-> X"),
        ("- n'utilise pas [[X]]", "not Billing -utilise-> X"),
        ("- ne dépend jamais de [[X]]", "not Billing -dépend de-> X"),
        ("- non usa [[X]]", "not Billing -usa-> X"),
        ("- no usa [[X]]", "not Billing -usa-> X"),
        ("- não usa [[X]]", "not Billing -usa-> X"),
        ("- nie używa [[X]]", "not Billing -używa-> X"),
        ("- не использует [[X]]", "not Billing -использует-> X"),
        ("- 不使用 [[X]]", "not Billing -使用-> X"),
        ("- 没有使用 [[X]]", "not Billing -使用-> X"),
        ("- 使用しない [[X]]", "not Billing -使用し-> X"),
        ("- is a [[X]]", "Billing -is a-> X"),
        ("- is not a [[X]]", "not Billing -is a-> X"),
        ("- wants [[X]]", "Billing -wants-> X"),
        ("- knows [[X]]", "Billing -knows-> X"),
        ("- notifies [[X]]", "Billing -notifies-> X"),
    ],
)
def test_a_relation_that_is_denied_or_only_possible_is_not_believed(text, found):
    assert said(text, heading="Billing") == [found]


def test_the_targets_of_markup_are_names_or_texts():
    text = "- uses [[FastAPI#x|the framework]]\n- [preference] tea over coffee #drink (2026)\n- **Owner**: Marta"
    found = {each.target: each.is_entity for each in read(text, heading="Ravi").relations}
    assert found == {"FastAPI": True, "tea over coffee": False, "Marta": True}


@pytest.mark.parametrize(
    ("heading", "path", "source"),
    [
        ("Ravi", "memory/people.md", "Ravi"),
        ("Ravi > Work", "memory/people.md", "Ravi"),
        ("[[Ravi Kumar|Ravi]] > Observations", "memory/people.md", "Ravi"),
        ("What we decided", "memory/billing-api.md", "billing api"),
        ("", "memory/projects/heron.md", "heron"),
        ("Billing service", "memory/2026-11-29.md", "Billing"),
        ("2026-11-29 > The Billing API service > Notes", "memory/2026-11-29.md", "Billing API"),
        ("Ravi > What we decided", "memory/2026-11-29.md", "Ravi"),
        ("What we decided", "memory/2026-11-29.md", "What we decided"),
        ("Billing service", "memory/zz.md", "Billing"),
        ("Billing service", "memory/billing.md", "billing"),
        ("Heron > Staging cluster", "memory/zz.md", "Heron"),
        ("Notes", "memory/2026-11-29.md", None),
        ("", "memory/index.md", None),
    ],
)
def test_the_page_is_the_innermost_name_of_headings_and_file(heading, path, source):
    found = [each.source for each in read("owner:: Marta", heading=heading, path=path).relations]
    assert found == ([source] if source else [])


def test_a_heading_that_is_no_name_is_the_subject_of_markup_alone():
    text = "- uses [[Redis]]\n- lives in Porto\n- He met [[Ravi]]"
    assert said(text, heading="What we decided") == ["What we decided -uses-> Redis"]


def test_what_is_nested_in_an_item_that_is_only_a_name_is_said_of_that_name():
    text = (
        "- [[Redis|cache]]\n  - version:: 7\n    1. uses [[Jemalloc]]\n- owner:: Marta\n- Uvicorn:\n\t- runs on Linux"
    )
    assert [each for each in said(text, heading="Billing") if "links" not in each] == [
        "Redis -version-> 7",
        "Redis -uses-> Jemalloc",
        "Billing -owner-> Marta",
        "Uvicorn -runs on-> Linux",
    ]


def test_a_section_that_is_no_name_is_not_what_a_file_is_about():
    chunk = StoredChunk(1, "c", "memory/heron.md", "memory", None, 1, 9, "Staging cluster", 2, "owner:: Marta", "", {})
    assert [each.source for each in extract(chunk).relations] == ["heron"]


def test_a_label_and_same_as_are_aliases_and_nothing_else_is():
    text = "[[Billing API|billing]] and [[Ravi|ravi]]\n- same_as [[Ravi Kumar]]\n- like [[R. Kumar]]"
    assert read(text, heading="Ravi").aliases == [Alias("billing", "Billing API"), Alias("Ravi", "Ravi Kumar")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Ravi uses FastAPI for the billing API.", ["Ravi -uses-> FastAPI"]),
        ("The billing API runs on Uvicorn here.", ["billing API -runs on-> Uvicorn"]),
        ("Jun works at Norwind and lives in Bergen.", ["Jun -works at-> Norwind", "Jun -lives in-> Bergen"]),
        ("Leo and Mia founded Kestrel.", ["Leo -founded-> Kestrel", "Mia -founded-> Kestrel"]),
        ("The sensor supports Zigbee and Thread.", ["sensor -supports-> Zigbee", "sensor -supports-> Thread"]),
        ("The report was sent to Acme by Lucy.", ["report -sent to-> Acme", "report -sent by-> Lucy"]),
        ("Hanna, who leads the data team, prefers Rust.", ["Hanna -leads-> data team", "Hanna -prefers-> Rust"]),
        ("Greta, a nurse, lives in Ghent.", ["Greta -is-> nurse", "Greta -lives in-> Ghent"]),
        ("Ingrid's manager is Paul.", ["Ingrid -manager-> Paul"]),
        ("The manager of Ingrid is Paul.", ["Ingrid -manager-> Paul"]),
        ("The data of Heron is kept in Oslo.", ["data of Heron -kept in-> Oslo"]),
        ("The project Heron uses the database Valkey.", ["Heron -uses-> Valkey"]),
        ("Birgit is Anders's sister.", ["Birgit -sister of-> Anders"]),
        ("Noor is the mother of Zayd.", ["Noor -mother of-> Zayd"]),
        ("The gate is open to the public.", ["gate -open to-> public"]),
        ("Dr. Osei moved from Java to Go.", ["Dr. Osei -moved from-> Java", "Dr. Osei -moved to-> Go"]),
        ("We left because Redis changed its licence.", ["Redis -changed-> licence"]),
        ("Ravi uses [[FastAPI|it]] with `uv`.", ["Ravi -uses-> FastAPI"]),
        ("Petra does not use Docker.", ["not Petra -uses-> Docker"]),
        ("Petra does not use Docker any more.", ["not Petra -uses-> Docker"]),
        ("Petra does not use Docker anymore.", ["not Petra -uses-> Docker"]),
        ("Hugo no longer works at Plover.", ["not Hugo -works at-> Plover"]),
        ("Ravi stopped using Redis.", ["not Ravi -uses-> Redis"]),
        ("The house has no garden.", ["not house -has-> garden"]),
        ("Ravi uses neither Redis nor Kafka.", ["not Ravi -uses-> Redis", "not Ravi -uses-> Kafka"]),
        ("Zara hardly ever uses Excel.", ["not Zara -uses-> Excel"]),
        ("Zara rarely uses Excel.", ["not Zara -uses-> Excel"]),
        ("Zara seldom uses Excel. She barely likes Word.", ["not Zara -uses-> Excel", "not Zara -likes-> Word"]),
        ("Zara is no owner of Billing.", ["not Zara -owner of-> Billing"]),
        ("Zara was the owner of Billing.", ["Zara -was owner of-> Billing"]),
        ("Zara was Paul's manager.", ["Zara -was manager of-> Paul"]),
        ("Zara was in Porto until May.", ["past Zara -in-> Porto"]),
        ("Zara was the owner of Billing until May.", ["past Zara -was owner of-> Billing"]),
        ("Ann was using Subversion.", ["Ann -was using-> Subversion"]),
        ("Heron was owned by Zara until May.", ["past Heron -owned by-> Zara"]),
        ("Ann uses Git until May.", ["Ann -uses-> Git"]),
        ("Does Kofi use Terraform?", ["question Kofi -uses-> Terraform"]),
        ("Lena might move to Basel.", ["possible Lena -moves to-> Basel"]),
        ("If Mei joins Orbit, we leave.", ["condition Mei -joins-> Orbit"]),
        ("Perhaps Theo teaches yoga.", ["possible Theo -teaches-> yoga"]),
        ("Ada used to live in Oslo.", ["past Ada -lives in-> Oslo"]),
        ("She lives in Porto. It was hard to see why.", []),
        ("We live in Porto. I think Emil likes Vim. Nothing beats Vim. Wow, that sounds great!", []),
        ("Magda returned it in 1999. The house was built in 1931.", []),
    ],
)
def test_sentences_say_something_of_their_subjects(text, found):
    assert said(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("quay-11 is located in Antwerp.", ["quay-11 -located in-> Antwerp"]),
        ("quay-11 depends on quay-12.", ["quay-11 -depends on-> quay-12"]),
        ("libxml2 uses Zlib.", ["libxml2 -uses-> Zlib"]),
        ("libxml2 and max_size depend on Zlib.", ["libxml2 -depends on-> Zlib", "max_size -depends on-> Zlib"]),
        ("Since 2020 eBay owns app.py.", ["eBay -owns-> app.py"]),
        ("npm uses Node.", ["npm -uses-> Node"]),
        ("npm doesn't use the Deno runtime.", ["not npm -uses-> Deno runtime"]),
        ("hiro works at Acme. He lives in Porto.", ["hiro -works at-> Acme", "hiro -lives in-> Porto"]),
        ("web-server is maintained by Marta.", ["web-server -maintained by-> Marta"]),
        ("people use Slack. guests visited Rome. apparently uses Redis. yet runs on Linux.", []),
        ("npm uses packages. code is great. got moved to Porto. e.g. uses Redis. npm and uv use Node.", []),
        ("[[Billing]] uses [[Redis]].", ["Billing -uses-> Redis"]),
        ("`Billing` is a service.", ["Billing -is-> service"]),
        ("**Billing** was approved by **Ravi**.", ["Billing -approved by-> Ravi"]),
        ("Billing uses Redis", ["Billing -uses-> Redis"]),
        ("Billing is owned by Marta.", ["Billing -owned by-> Marta"]),
        ("Working at Acme beats Porto. Running is fun. Looking forward to Rome.", []),
    ],
)
def test_a_subject_may_be_an_identifier_or_a_word_that_a_verb_and_a_name_follow(text, found):
    assert said(text) == found


def test_pronouns_are_the_page_the_last_subject_or_the_speaker():
    assert said("He lives in Porto. He owns a boat.", heading="Ravi") == ["Ravi -lives in-> Porto", "Ravi -owns-> boat"]
    assert said("- lives in Porto\n- He owns a boat\n- Doesn't use Docker. Likes tea.", heading="Ravi") == [
        "Ravi -lives in-> Porto",
        "Ravi -owns-> boat",
        "not Ravi -uses-> Docker",
    ]
    assert said("- lives in Porto") == []
    assert said("Marta works at Norwind. She lives in Bergen.")[1:] == ["Marta -lives in-> Bergen"]
    assert said("**Melanie**: I bought a boat. I'm the owner of Biscuit!", heading="Chat") == [
        "Melanie -bought-> boat",
        "Melanie -owner of-> Biscuit",
    ]
    assert said("Caroline: Thanks! I have a dog.") == ["Caroline -has-> dog"]


def test_relations_have_the_dates_that_the_text_or_its_metadata_gives():
    (lived,) = read("Mona has lived in Cusco since 2019-03.").relations
    assert (lived.predicate, lived.valid_from, lived.valid_until) == ("lives in", "2019-03", None)
    (owned,) = read("Until 2026-09-30 Jonas owned the holds module.").relations
    assert (owned.valid_from, owned.valid_until) == (None, "2026-09-30")
    (used,) = read("Ann was using Subversion until 2024.").relations
    assert (used.valid_until, used.modality) == ("2024-12-31", "")
    (used,) = read("Ann used Subversion until 2024-02.").relations
    assert used.valid_until == "2024-02-29"
    (lives,) = read("Mona lives in Cusco.", valid_until="2026-12-31").relations
    assert lives.valid_until == "2026-12-31"


def test_a_relation_that_markup_states_is_surer_than_one_of_a_sentence():
    relations = read("- uses [[FastAPI]]\n\nRavi likes tea. He owns a boat.", heading="Ravi").relations
    assert [(each.via, each.confidence) for each in relations] == [("relation", 1), ("sentence", 0.8), ("pronoun", 0.6)]
