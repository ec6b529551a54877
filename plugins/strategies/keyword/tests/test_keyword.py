"""What is found, in which order, and with which scores."""

from __future__ import annotations

from datetime import date
from typing import Any

import attrs
import pytest

from kipu.errors import ConfigurationError
from kipu.types import IndexedStrategy
from kipu_strategy_keyword import Keyword, kipu_register_strategies
from kipu_strategy_keyword.terms import read_terms

FILLER = [f"Filler {number}: the weather was fine and the team went out for lunch." for number in range(30)]


# --- Words ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("connecting caches", "The cache is connected."),
        ("CAFE", "We met in the café."),
        ("Straße", "Hauptstrasse und strasse"),
        ("kipu", "ＫＩＰＵ in full width"),
        ("データベース", "この章はデータベースの設計を述べる。"),
        ("データベース", "ﾃﾞｰﾀﾍﾞｰｽを選ぶ"),
        ("数据库", "我们选择了数据库。"),
        ("데이터베이스", "우리는 데이터베이스를 선택했다."),
        ("東京", "来週は東京へ行く。"),
        ("猫", "黒猫"),
        ("猫", "猫が好きだ"),
        ("都", "東京都庁へ行く"),
        ("ภาษา", "เรียนภาษาไทย"),
        ("ษ", "เรียนภาษาไทย"),
        ("हिन्दी", "यह हिन्दी है"),
        ("مرحبا", "مَرْحَبًا بكم"),
        ("lodzi", "Spotkanie w Łodzi."),
        ("smorrebrod oeuvre aether", "Smørrebrød, œuvre, æther"),
        ("thor dai hamrun", "Þór, ðai, Ħamrun"),
        ("duong day nong", "Đường dây nóng"),
        ("Hawaii", "Hawaiʻi"),
        ("қазақ", "казак"),
        ("کتابی", "كتابي"),
        ("ışık", "Işık salonunda"),
        ("KAPI", "kapı"),
        ("kapi", "KAPI"),
        ("istanbul", "İSTANBUL"),
        *(("passphrase", f"a pass{mark}phrase") for mark in "\u200b\u200c\u200d\u00ad\u2060\ufeff"),
        ("pass\u00adphrase", "a passphrase"),
        ("میخواهم", "می\u200cخواهم"),
    ],
)
async def test_a_word_is_found_however_it_is_written(workspace, query, text):
    await workspace.add(*FILLER, text)
    [hit, *_] = await workspace.search(query)
    assert (hit.chunk.text, hit.score) == (text, pytest.approx(1))


@pytest.mark.parametrize(
    ("plain", "written"),
    [("resume", "résumé"), ("lodz", "Łódź"), ("expose", "exposé"), ("ma", "mã"), ("resumes", "résumés")],
)
async def test_a_word_with_the_accents_of_the_query_comes_first(workspace, plain, written):
    await workspace.add(*(f"The {form} is on the desk." for form in (plain, written)))
    for asked, other in (plain, written), (written, plain):
        for query in (asked, asked.upper()):
            first, second = await workspace.search(query)
            assert [first.chunk.text, second.chunk.text] == [f"The {form} is on the desk." for form in (asked, other)]
            assert first.score == pytest.approx(1)
            assert second.score < 0.9


@pytest.mark.parametrize(
    ("asked", "other"), [("nın", "nin"), ("nin", "nın"), ("résumé", "resume"), ("resume", "résumé")]
)
async def test_accents_count_in_the_context_too(workspace, asked, other):
    await workspace.add(f"The {asked} is on the desk.")
    for form in (other, asked):
        await workspace.add("It was there.", path=f"memory/{form == asked}.md", context=f"The {form} is on the desk.")
    _, first, second = await workspace.search(asked)
    assert [first.chunk.path, second.chunk.path] == ["memory/True.md", "memory/False.md"]
    assert second.score < first.score


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("Sky'ın", ["Uydu Sky'ın.", "Sky"]),
        ("thé vert", ["Un thé vert.", "Le thé.", "Tout est vert ici, ou presque."]),
        ("in ın", ["Uydu Sky'ın.", "Filler in a tin"]),
        ("thé", ["Le thé.", "Un thé vert.", "over the sea"]),
    ],
)
async def test_a_word_that_only_folding_makes_a_stop_word_is_searched_as_written(workspace, query, texts):
    await workspace.add("over the sea", "Filler in a tin", "Sky", "Uydu Sky'ın.", "Un thé vert.", "Le thé.")
    await workspace.add("Tout est vert ici, ou presque.")
    assert await workspace.texts(query) == texts


async def test_accents_that_no_chunk_lacks_cost_nothing(workspace):
    await workspace.add(*FILLER, "Die Küche in München", "redis", "redis in the kitchen")
    assert (await workspace.texts("munchen redis"))[0] == "Die Küche in München"


async def test_a_rare_form_of_a_common_word_is_found(workspace):
    await workspace.add(*("ma ma ma" for _ in range(1_000)), "mã, in a longer sentence, beside many other words")
    assert (await workspace.texts("mã"))[0].startswith("mã")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("🔥", "Deploy failed 🔥 today."),
        ("✅", "- ✅ 2026-11-29 done"),
        ("📅 2026", "- call the bank 📅 2026-12-01"),
        ("⏫", "- ⏫ call the bank"),
        ("❤", "with ❤\ufe0f"),
        ("❤\ufe0f", "with ❤"),
        ("👩\u200d💻", "a 👩\u200d💻 at work"),
        ("💻", "a 👩\u200d💻 at work"),
        ("👍🏽", "fine 👍"),
        ("🇩🇪", "from 🇫🇷🇩🇪"),
        ("1\ufe0f\u20e3", "1\u20e3 first"),
        ("→", "a → b"),
        ("≠", "a ≠ b"),
        ("20 €", "for 20€"),
    ],
)
async def test_emoji_and_symbols_are_found(workspace, query, text):
    await workspace.add(*FILLER, "🇪🇺 🇫🇷 🎉 ✔ 1 20 2026", text)
    assert (await workspace.texts(query))[0] == text


async def test_any_word_of_the_question_is_enough_and_more_are_better(workspace):
    await workspace.add("We chose Redis.", "We chose Redis for the session cache.", "Lunch was good.")
    assert await workspace.texts("why is redis our cache") == [
        "We chose Redis for the session cache.",
        "We chose Redis.",
    ]


async def test_stop_words_find_nothing_unless_there_is_nothing_else(workspace):
    await workspace.add("to be or not to be", "an apple")
    assert await workspace.texts("is the apple not here") == ["an apple"]
    assert await workspace.texts("to be or not") == ["to be or not to be"]


async def test_heading_path_and_context_are_searched_and_count_less_than_text(workspace):
    [by_text] = await workspace.add("Valkey is fast.")
    [by_context] = await workspace.add("It is fast.", path="memory/other.md", context="Valkey")
    [by_path] = await workspace.add("Nothing more.", path="memory/team/valkey.md")
    [by_heading] = await workspace.add("Chosen.", path="memory/third.md", heading="Decisions > Valkey")
    found = [hit.chunk.id for hit in await workspace.search("valkey")]
    assert set(found) == {by_text, by_context, by_path, by_heading}
    assert found.index(by_text) < found.index(by_context)


async def test_a_file_that_is_about_the_question_lifts_its_chunks(workspace):
    await workspace.add("The deploy failed again.", *FILLER[:3], path="memory/lone.md")
    await workspace.add(
        "The deploy failed again.", "Kubernetes upgrade", "Kubernetes nodes", path="memory/kubernetes.md"
    )
    hits = await workspace.search("kubernetes deploy failed")
    deploys = [hit.chunk.path for hit in hits if "deploy" in hit.chunk.text]
    assert deploys == ["memory/kubernetes.md", "memory/lone.md"]


@pytest.mark.parametrize(("sections", "others"), [(5, 3), (20, 20), (120, 50), (5, 1_000)])
@pytest.mark.parametrize(
    ("path", "heading"), [("memory/postgres.md", ""), ("memory/db.md", ""), ("memory/db.md", "Postgres")]
)
async def test_a_long_file_on_the_subject_is_found_by_the_chunk_that_has_all_words(
    workspace, path, heading, sections, others
):
    words = "alder basin cobalt drift ember fjord grove hazel inlet jetty kelp lumen mango nectar oasis pebble".split()
    best = "Postgres backup runs at two."
    await workspace.add(best, *(" ".join(words * 3) for _ in range(sections)), path=path, heading=heading)
    await workspace.add("Backup of the phone is weekly.", path="memory/phone.md")
    for number in range(others):
        await workspace.add(f"{' '.join(words[number % 7 :])} {number}", path=f"memory/note{number}.md")
    assert (await workspace.texts("postgres backup"))[0] == best


# --- Identifiers and phrases ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("identifier", "pieces"),
    [
        ("ZX-99817", "ZX 99817 zx zx 99817 99817, ZX-12345"),
        ("foo_bar", "foo bar foo, the bar of foo"),
        ("C++", "C is a language; C, C and C."),
        ("C#", "C is a language; C, C and C."),
        ("v2.1.0", "v2 1 0, v2.1.1 and v2.0"),
        ("src/app/main.py", "src app main py; src/lib/main.py and app"),
        ("ana@example.org", "ana at example org, ana example"),
        (".gitignore", "gitignore and again gitignore"),
        ("E1234", "E 1234, error 1234"),
        ("--dry-run_now", "dry run now: dry run now"),
    ],
)
async def test_an_identifier_is_found_exactly_and_first(workspace, identifier, pieces):
    exact = f"A long note, on many things, which says a lot before it names ({identifier}) at last, and then goes on."
    await workspace.add(pieces, pieces + " again", exact, *FILLER)
    for query in (identifier, f"what about {identifier}?", f"error in {identifier} again"):
        assert (await workspace.texts(query))[0] == exact


@pytest.mark.parametrize(
    "query", ["हिन्दी भाषा कहाँ है", "ภาษาไทยอยู่ที่ไหน", "தமிழ் மொழி எங்கே", "ភាសាខ្មែរនៅឯណា", "မြန်မာဘာသာ ဘယ်မှာလဲ", "café ☕"]
)
def test_words_with_combining_marks_are_no_identifiers(query):
    assert read_terms(query).required == []


async def test_a_file_is_found_by_its_name(workspace):
    await workspace.add("Redis it is.", path="memory/team/2026-11-29.md")
    await workspace.add("2026 was a year, 11 months and 29 days", *FILLER)
    assert (await workspace.texts("2026-11-29.md"))[0] == "Redis it is."
    assert (await workspace.texts("memory/team/2026-11-29.md"))[0] == "Redis it is."


@pytest.mark.parametrize(
    ("phrase", "with_it", "without"),
    [
        (
            "lean startup",
            "He once read the lean startup, among many others.",
            "lean culture, startup culture; a startup is lean",
        ),
        ("to be or not to be", "as he says: to be or not to be", "not to be or to be; be not"),
        ("東京都", "昨日は東京都庁へ行った。", "京都と東京、東京と京都。"),
    ],
)
async def test_a_quoted_phrase_comes_first(workspace, phrase, with_it, without):
    await workspace.add(without, with_it, *FILLER)
    for query in (f'"{phrase}"', f"“{phrase}” culture"):
        hits = await workspace.search(query)
        assert hits[0].chunk.text == with_it
        assert all(hit.score < hits[0].score for hit in hits[1:])


async def test_the_words_of_a_phrase_that_is_nowhere_still_find(workspace):
    await workspace.add("startups are lean", *FILLER)
    [hit] = await workspace.search('"lean startup"')
    assert 0 < hit.score <= 0.5


# --- Scores --------------------------------------------------------------------------------------------------------


async def test_scores_mean_something_in_a_corpus_of_one_chunk(workspace):
    await workspace.add("The cache of the login service is Redis.")
    [everything] = await workspace.search("redis login cache")
    [little] = await workspace.search("redis mountain violin harvest giraffe")
    assert everything.score == pytest.approx(1)
    assert little.score < 0.25


async def test_one_common_word_of_five_scores_low_even_if_nothing_is_better(workspace):
    await workspace.add(*FILLER)
    hits = await workspace.search("team mountain violin harvest giraffe")
    assert hits
    assert hits[0].score < 0.1


async def test_scores_are_those_of_the_arm_and_fall_with_the_rank(workspace):
    await workspace.add("redis", "redis cache", "cache login redis", *FILLER)
    hits = await workspace.search("redis login cache team")
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert all(dict(hit.scores) == {"keyword": hit.score} for hit in hits)


# --- The scores of chunks that a search did not return -------------------------------------------------------------


async def test_a_chunk_has_the_same_score_whether_it_is_found_or_asked_for(workspace):
    await workspace.add("redis", "redis cache", "cache login redis", *FILLER)
    found = {hit.chunk.id: hit.score for hit in await workspace.search("redis login team")}
    assert await workspace.score("redis login team", list(found), limit=1) == found


async def test_a_chunk_beyond_the_limit_is_scored_below_those_that_are_found(workspace):
    ids = await workspace.add("redis login cache", *("redis " + "and so on " * number for number in range(1_500)))
    hits = await workspace.search("redis login", limit=2)
    scores = await workspace.score("redis login", ids, limit=2)
    assert list(scores) == ids
    assert {hit.chunk.id: scores[hit.chunk.id] for hit in hits} == {hit.chunk.id: hit.score for hit in hits}
    assert all(0 < scores[id] <= hits[-1].score for id in ids if id not in {hit.chunk.id for hit in hits})


async def test_a_chunk_without_a_word_of_the_query_has_the_score_0(workspace):
    [redis, other] = await workspace.add("redis", "valkey")
    assert await workspace.score("redis cluster", [other]) == {other: 0.0}
    assert await workspace.score("redis cluster", [other, redis]) == {
        other: 0.0,
        redis: (await workspace.search("redis cluster"))[0].score,
    }
    assert await workspace.score("nothing like that", [other, redis]) == {other: 0.0, redis: 0.0}


async def test_a_chunk_with_an_identifier_is_asked_for_with_the_same_score(workspace):
    await workspace.add("error ZX-99817 again", "error ZX-12345 again", *FILLER)
    found = {hit.chunk.id: hit.score for hit in await workspace.search("what about ZX-99817?")}
    assert await workspace.score("what about ZX-99817?", list(found)) == found


async def test_unindexed_chunks_and_queries_without_words_get_no_score(workspace):
    [redis] = await workspace.add("redis")
    assert await workspace.score("redis", [redis + 1]) == {}
    assert await workspace.score("?!", [redis]) == {}
    assert await workspace.score("redis", []) == {}


async def test_a_file_has_the_words_of_all_its_chunks(workspace):
    await workspace.add("redis runs the cache", "the login is slow", path="memory/both.md")
    await workspace.add("redis and redis again", path="memory/one.md")
    await workspace.add(*FILLER, path="memory/filler.md")
    paths = ["memory/filler.md", "memory/one.md", "memory/both.md", "memory/missing.md"]
    scores = await workspace.score_files("redis login", paths)
    assert scores == {"memory/both.md": 1.0, "memory/one.md": scores["memory/one.md"], "memory/filler.md": 0.0}
    assert 0 < scores["memory/one.md"] < 0.5  # redis is in two files, and login in one
    assert (await workspace.score_files("redis login elsewhere", paths))["memory/both.md"] < 1.0


async def test_files_get_no_score_for_a_query_without_words(workspace):
    await workspace.add("redis")
    assert await workspace.score_files("?!", ["memory/notes.md"]) == {}
    assert await workspace.score_files("redis", []) == {}
    assert await workspace.score_files("nothing like that", ["memory/notes.md"]) == {"memory/notes.md": 0.0}


async def test_very_many_files_can_be_scored_at_once(workspace):
    paths = [f"memory/{number}.md" for number in range(1_000)]
    for number, path in enumerate(paths):
        await workspace.add("redis" if number % 2 else "valkey", path=path)
    scores = await workspace.score_files("valkey", paths)
    assert scores == {path: 0.0 if number % 2 else 1.0 for number, path in enumerate(paths)}


# --- Filters and limits --------------------------------------------------------------------------------------------


async def test_filters_apply_before_the_limit(workspace):
    for day in range(1, 21):
        await workspace.add(f"redis note {day}", path=f"memory/agent/2026-03-{day:02}.md", date=date(2026, 3, day))
    await workspace.add("redis for the team", path="memory/team/evergreen.md")
    assert await workspace.texts("redis", sources=["team"]) == ["redis for the team"]
    assert await workspace.texts("redis", since=date(2026, 3, 20), limit=5) == ["redis note 20"]
    assert await workspace.texts("redis", since=date(2026, 3, 7), until=date(2026, 3, 7)) == ["redis note 7"]
    assert await workspace.texts("redis", path="agent/*-07.md", limit=1) == ["redis note 7"]
    assert len(await workspace.search("redis", limit=4)) == 4
    assert await workspace.search("redis", limit=0) == []


async def test_in_a_large_workspace_the_rarest_words_still_find(workspace):
    await workspace.add(*(f"standup notes of the team, day {day}" for day in range(2_000)))
    await workspace.add("notes of the team on redis", path="memory/redis.md")
    assert (await workspace.texts("team standup notes day redis"))[0] == "notes of the team on redis"
    assert len(await workspace.search("team standup notes")) == 60


# --- The index -----------------------------------------------------------------------------------------------------


async def test_a_removed_chunk_is_not_found_even_if_its_file_was_renamed(workspace):
    ids = await workspace.add("redis alpha", "redis beta", path="memory/old.md")
    await workspace.rename("memory/old.md", "memory/new.md")
    await workspace.remove(ids[:1])
    assert await workspace.texts("redis") == ["redis beta"]
    assert await workspace.texts("alpha") == []


async def test_chunks_that_are_added_again_are_replaced(workspace):
    ids = await workspace.add("redis alpha", path="memory/old.md")
    await workspace.rename("memory/old.md", "memory/new.md")
    await workspace.strategy.add(workspace.connection, list((await workspace.chunks(ids)).values()))
    assert await workspace.texts("old") == []
    assert await workspace.texts("new") == ["redis alpha"]


async def test_creating_again_empties_the_index(workspace):
    await workspace.add("redis")
    await workspace.strategy.create(workspace.connection)
    assert await workspace.texts("redis") == []


async def test_removing_what_is_not_there_changes_nothing(workspace):
    await workspace.add("redis")
    await workspace.strategy.remove(workspace.connection, [99])
    await workspace.strategy.remove(workspace.connection, [])
    await workspace.strategy.add(workspace.connection, [])
    assert await workspace.texts("redis") == ["redis"]


# --- The plugin ----------------------------------------------------------------------------------------------------


def test_the_plugin_registers_its_strategy():
    registered: dict[str, Any] = {}
    kipu_register_strategies(registered.__setitem__)
    assert registered == {"keyword": Keyword}
    assert isinstance(Keyword(), IndexedStrategy)


@pytest.mark.parametrize("option", [field.name for field in attrs.fields(Keyword)])
def test_an_invalid_option_is_refused(option):
    for value in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigurationError, match=f"^{option} must be"):
            Keyword(**{option: value})


async def test_a_weight_of_zero_ignores_a_field(new_workspace):
    async with new_workspace(Keyword(heading_weight=0, context_weight=0, path_weight=0, file_share=0)) as workspace:
        await workspace.add("nothing", path="memory/redis.md", heading="Redis", context="redis")
        assert await workspace.texts("redis") == []


@pytest.mark.parametrize(
    ("note", "question", "stranger"),
    [
        (
            "Der Schlüssel hängt hinter der Tür.",
            "Wo hängt denn der Schlüssel?",
            "Wer hat das Klavier gestimmt, und wann?",
        ),
        ("एक चाबी सुरेश के पास है।", "चाबी किसके पास है?", "समुद्र का पानी खारा क्यों है?"),
        ("例会在二号会议室，下午的三点。", "例会在哪里？", "谁是月球的主人？"),
        ("Где лежит ключ, знает он.", "где ключ", "кто и где играл на виолончели"),
        ("I saw the man in the red hat die.", "what did the man with the red hat do", "zeppelin"),
    ],
)
async def test_words_that_only_grammar_needs_say_little_of_the_subject(workspace, note, question, stranger):
    await workspace.add(note, "Something else.", "And more.")
    [known] = await workspace.search(question)
    assert known.score > 0.5
    assert all(hit.score < 0.2 for hit in await workspace.search(stranger))


async def test_the_order_does_not_depend_on_what_only_grammar_needs(workspace):
    ids = await workspace.add("der die das wer hat", "Klavier", "something")
    hits = await workspace.search("Wer hat das Klavier und die Geige?")
    assert {hit.chunk.id for hit in hits} == set(ids[:2])
