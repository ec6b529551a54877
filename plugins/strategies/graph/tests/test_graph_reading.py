"""`Graph`: what notes say about a name, now and on other days, and the paths between names."""

from __future__ import annotations

from datetime import date

import pytest

from kipu import Memory
from kipu.errors import QueryError
from kipu.sync import Memory as SyncMemory
from kipu_strategy_graph import Graph


@pytest.fixture
async def open_memory(kipu_config):
    """Open memories whose chunks are those of the standard chunker, and close them."""
    opened = []

    def open_memory(**options):
        opened.append(Memory(kipu_config(index={"chunker": "markdown"}, **options.pop("search", {})), **options))
        return opened[-1]

    yield open_memory
    for memory in opened:
        await memory.close()


@pytest.fixture
def graph(open_memory, kipu_write):
    """Write notes, by path, and return the graph of them."""

    def graph(notes, **options):
        for path, text in notes.items():
            kipu_write(f"memory/{path}", text)
        return Graph(open_memory(), **options)

    return graph


def shown(facts):
    return [str(fact) for fact in facts]


def places(facts):
    return [(str(fact), fact.path, fact.start_line, fact.end_line) for fact in facts]


def ended(facts):
    return {str(fact): fact.outdated for fact in facts}


# --- Facts ---------------------------------------------------------------------------------------------------------


async def test_facts_have_the_lines_that_state_them(graph):
    reader = graph({"team.md": "# Team\n\nAll of us.\nRavi uses FastAPI.\n", "stack.md": "FastAPI runs on Uvicorn.\n"})
    assert places(await reader.facts("Ravi")) == [("Ravi -uses-> FastAPI", "memory/team.md", 4, 4)]
    assert set(shown(await reader.facts("fastapi"))) == {"Ravi -uses-> FastAPI", "FastAPI -runs on-> Uvicorn"}


async def test_what_is_denied_or_only_asked_or_supposed_is_no_fact(graph):
    reader = graph(
        {"a.md": "Ravi does not use Flask. Does Ravi use Django? Ravi might use Quart. Ravi uses FastAPI.\n"}
    )
    assert shown(await reader.facts("Ravi")) == ["Ravi -uses-> FastAPI"]
    history = await reader.history("Ravi")
    assert len(history) == 4
    assert {(fact.target, fact.denied) for fact in history if fact.denied} == {("Flask", True)}
    assert {fact.target for fact in history if fact.modality} == {"Django", "Quart"}


async def test_a_change_on_disk_is_seen_and_what_is_deleted_is_gone(graph, kipu_workspace):
    reader = graph({"a.md": "Ravi uses FastAPI.\n"})
    assert shown(await reader.facts("Ravi")) == ["Ravi -uses-> FastAPI"]
    (kipu_workspace / "memory/a.md").write_text("Ravi uses Flask.\n")
    assert shown(await reader.facts("Ravi")) == ["Ravi -uses-> Flask"]
    (kipu_workspace / "memory/a.md").unlink()
    with pytest.raises(QueryError, match='names no "Ravi"'):
        await reader.facts("Ravi")


async def test_an_unknown_name_is_an_error_that_names_a_similar_one(graph):
    reader = graph({"a.md": "FastAPI runs on Uvicorn.\n"})
    for method in (reader.facts, reader.history, reader.neighbours, reader.entities, reader.network):
        with pytest.raises(QueryError, match=r'^The memory names no "Uvicron"\. Did you mean "Uvicorn"\?$'):
            await method("Uvicron")
    with pytest.raises(QueryError, match=r'^The memory names no "Zzz"\.$'):
        await reader.path("FastAPI", "Zzz")
    with pytest.raises(QueryError, match=r'^The memory names no "x{100}\.\.\."\.$'):
        await reader.facts("x" * 10_000)


async def test_what_is_no_memory_and_no_name_is_refused(graph, kipu_workspace):
    with pytest.raises(QueryError, match=r"^A name must be a text, not None\.$"):
        await graph({"a.md": "Ravi uses FastAPI.\n"}).facts(None)
    with (
        SyncMemory(kipu_workspace) as memory,
        pytest.raises(QueryError, match=r"needs a kipu\.Memory, not a kipu\.sync"),
    ):
        Graph(memory)
    with pytest.raises(QueryError, match=r"needs a kipu\.Memory, not a builtins\.str"):
        Graph("project")


async def test_no_fact_crosses_a_scope(open_memory, kipu_write):
    kipu_write("memory/ann/a.md", "Ravi uses FastAPI.\n")
    kipu_write("memory/ben/b.md", "FastAPI runs on Uvicorn.\n---\naliases: x\n---\n")
    kipu_write("memory/ben/ravi.md", "---\naliases: [Kumar]\n---\nRavi lives in Rome.\n")
    reader = Graph(open_memory(scope="ann"))
    assert shown(await reader.facts("Ravi")) == ["Ravi -uses-> FastAPI"]
    assert [entity.aliases for entity in await reader.entities("Ravi")] == [[]]
    assert shown(await reader.facts("FastAPI")) == ["Ravi -uses-> FastAPI"]
    for hidden in ("Uvicorn", "Kumar", "Rome"):
        with pytest.raises(QueryError, match=f'names no "{hidden}"'):
            await reader.facts(hidden)
    assert (await reader.network())[0] == ["FastAPI", "Ravi"]


# --- Names ---------------------------------------------------------------------------------------------------------


async def test_names_are_one_where_the_files_say_so_and_nowhere_else(graph):
    reader = graph(
        {
            "ravi.md": "---\naliases: [Ravi Kumar]\n---\n# Ravi\n\n- uses [[FastAPI]]\n- same as [[rkumar]]\n",
            "2026-11-01.md": "Ravi Kumar lives in Rome.\n\nrkumar owns `billing`. Ravi Kapoor lives in Paris.\n",
            "other.md": "[[Ravi|our lead]] wrote `deploy.py`.\n",
        }
    )
    facts = {"Ravi -uses-> FastAPI", "Ravi -lives in-> Rome"}
    for name in ("Ravi", "RAVI kumar", "rkumar", "our lead"):
        assert facts <= set(shown(await reader.facts(name)))
        (entity,) = await reader.entities(name)
        assert (entity.name, entity.page) == ("Ravi", "memory/ravi.md")
    assert [entity.aliases for entity in await reader.entities("Ravi Kapoor")] == [[]]


@pytest.mark.parametrize("aliases", ["[Nordlys AS, NH]", "Nordlys AS, NH", "\n- Nordlys AS\n- NH"])
async def test_a_page_has_its_title_the_name_of_its_file_and_its_aliases(graph, aliases):
    reader = graph(
        {
            "suppliers/nordlys.md": f"---\naliases: {aliases}\n---\n\n# Nordlys Hosting\n\n## Contacts\n\n"
            "- uses [[Xen]]\n",
            "2026-01-10.md": "Nordlys AS owns Quay. Ravi knows NH. Ann likes nordlys.\n",
        }
    )
    facts = {"Nordlys Hosting -uses-> Xen", "Nordlys Hosting -owns-> Quay", "Ravi -knows-> Nordlys Hosting"}
    for name in ("Nordlys", "nordlys hosting", "Nordlys AS", "nh"):
        assert facts <= set(shown(await reader.facts(name)))
        (entity,) = await reader.entities(name)
        assert (entity.name, entity.page) == ("Nordlys Hosting", "memory/suppliers/nordlys.md")
        assert list(entity.aliases) == ["NH", "Nordlys", "Nordlys AS"]


async def test_a_title_that_several_pages_have_makes_them_no_entity(graph):
    reader = graph({"billing.md": "# Acme\n\n- uses [[Xen]]\n", "payments.md": "# Acme\n\n- port:: 1\n"})
    assert [entity.name for entity in await reader.entities("billing")] == ["billing"]


async def test_a_page_keeps_its_name_and_aliases_are_shown_as_files_write_them(graph):
    reader = graph({"terraform.md": "---\naliases: [TF, Hashi-TF]\n---\n# Terraform\n\n- same as [[OpenTofu]]\n"})
    (entity,) = await reader.entities("opentofu")
    assert (entity.name, list(entity.aliases)) == ("Terraform", ["Hashi-TF", "OpenTofu", "TF"])


async def test_a_name_that_files_give_to_several_is_each_of_them(graph):
    reader = graph(
        {
            "samuel.md": "---\naliases: [Sam]\n---\n# Samuel\n\n- lives in [[Rome]]\n",
            "samantha.md": "---\naliases: [Sam]\n---\n# Samantha\n\n- lives in [[Oslo]]\n",
            "a.md": "Sam likes tea.\n",
        }
    )
    assert {"Samuel", "Samantha"} <= {entity.name for entity in await reader.entities("Sam")}
    assert {"Samuel -lives in-> Rome", "Samantha -lives in-> Oslo"} <= set(shown(await reader.facts("Sam")))
    assert shown(await reader.facts("Samuel")) == ["Samuel -lives in-> Rome"]


async def test_a_circle_of_names_ends(graph):
    circle = {f"p{each}.md": f"- same as [[p{(each + 1) % 5}]]\n- uses [[Tool{each}]]\n" for each in range(5)}
    reader = graph(circle)
    assert len(await reader.entities("p3")) == 1
    assert {fact.target for fact in await reader.facts("p3")} == {f"Tool{each}" for each in range(5)}


async def test_ten_thousand_names_of_one_page_are_read(graph):
    names = ", ".join(f"[[Ravi|Name {each}]]" for each in range(10_000))
    reader = graph({"ravi.md": "# Ravi\n\n- uses [[FastAPI]]\n", "names.md": names})
    for name in ("Name 17", "Ravi"):
        assert "Ravi -uses-> FastAPI" in shown(await reader.facts(name))


async def test_a_link_resolves_to_no_page_but_its_own_when_that_appears(graph, kipu_write):
    reader = graph({"a.md": "# Ravi\n\n- uses [[Fast API]]\n", "fastapi.md": "A web framework.\n"})
    (entity,) = await reader.entities("Fast API")
    assert entity.page is None
    kipu_write("memory/fast-api.md", "Another one.\n")
    (entity,) = await reader.entities("fast api")
    assert entity.page == "memory/fast-api.md"


# --- Time ----------------------------------------------------------------------------------------------------------


async def test_a_newer_value_of_a_functional_predicate_supersedes_the_older_one_of_the_same_subject(graph):
    reader = graph(
        {
            "2026-01-10.md": "Ravi lives in Rome. Ravi likes tea. Ann lives in Rome.\n",
            "2026-02-10.md": "Ravi lives in Oslo. Ravi likes coffee.\n",
        }
    )
    assert set(shown(await reader.facts("Ravi"))) >= {
        "Ravi -lives in-> Oslo",
        "Ravi -likes-> tea",
        "Ravi -likes-> coffee",
    }
    assert ended(await reader.history("Ravi"))["Ravi -lives in-> Rome"] == "superseded by memory/2026-02-10.md:1"
    assert shown(await reader.facts("Rome")) == ["Ann -lives in-> Rome"]


async def test_of_two_values_in_one_file_the_later_line_holds(graph):
    reader = graph({"server.md": "# Atlas\n\n- port:: 8000\n- version:: 1.2\n- port:: 9000\n"})
    assert set(shown(await reader.facts("Atlas"))) == {"Atlas -port-> 9000", "Atlas -version-> 1.2"}


async def test_what_is_owned_has_one_owner_and_an_owner_many_things(graph):
    reader = graph({"2026-01-10.md": "Ravi owns Atlas. Ravi owns Borg.\n", "2026-02-10.md": "Ann owns Atlas.\n"})
    assert shown(await reader.facts("Atlas")) == ["Ann -owns-> Atlas"]
    assert shown(await reader.facts("Ravi")) == ["Ravi -owns-> Borg"]


async def test_functional_predicates_are_an_option(graph, open_memory):
    notes = {"2026-01-10.md": "Ravi uses Flask.\n", "2026-02-10.md": "Ravi uses FastAPI.\n"}
    assert len(await graph(notes).facts("Ravi")) == 2
    assert shown(await graph(notes, functional=["Uses"]).facts("Ravi")) == ["Ravi -uses-> FastAPI"]
    memory = open_memory(search={"relation": {"use": "graph", "functional": ["uses"]}})
    assert shown(await Graph(memory).facts("Ravi")) == ["Ravi -uses-> FastAPI"]


async def test_predicates_of_one_group_supersede_each_other_and_agree(graph):
    notes = {"2026-01-10.md": "Ravi works at Acme. Ann works at Acme.\n"}
    reader = graph(notes | {"2026-02-10.md": "Ravi works for Borg. Ann works for Acme.\n"})
    assert shown(await reader.facts("Ravi")) == ["Ravi -works for-> Borg"]
    assert len(await reader.facts("Ann")) == 2
    assert await reader.conflicts() == []


async def test_a_denial_closes_the_same_edge_only_until_it_is_stated_anew(graph, kipu_write):
    reader = graph(
        {
            "2026-01-10.md": "Ravi uses Flask. Ravi uses Redis. Ann uses Flask.\n",
            "2026-02-10.md": "Ravi does not use Flask.\n",
        }
    )
    assert shown(await reader.facts("Ravi")) == ["Ravi -uses-> Redis"]
    assert shown(await reader.facts("Flask")) == ["Ann -uses-> Flask"]
    assert ended(await reader.history("Ravi"))["Ravi -uses-> Flask"] == "denied by memory/2026-02-10.md:1"
    kipu_write("memory/2026-03-10.md", "Ravi uses Flask.\n")
    assert "Ravi -uses-> Flask" in shown(await reader.facts("Ravi"))


async def test_metadata_of_an_entry_ends_what_it_says(graph, open_memory):
    reader = graph(
        {
            "a.md": "- Ravi likes Rust.\n  [valid_until: 2020-01-01]\n- Ravi likes Zig.\n  [valid_until: 2999-01-01]\n",
            "b.md": "- Ravi likes Perl.\n  [superseded_by: 12345678]\n",
        }
    )
    assert shown(await reader.facts("Ravi")) == ["Ravi -likes-> Zig"]
    assert ended(await reader.history("Ravi")) == {
        "Ravi -likes-> Rust": "valid until 2020-01-01",
        "Ravi -likes-> Zig": "",
        "Ravi -likes-> Perl": "superseded by 12345678",
    }


async def test_what_remember_supersedes_is_no_fact_and_was_one_before(open_memory, graph, kipu_write):
    memory = open_memory()
    kipu_write("memory/2026-01-10.md", "- Ravi likes Perl.\n  [id: aaaaaaaa; superseded_by: bbbbbbbb]\n")
    kipu_write("memory/2026-03-10.md", "- Ravi likes Rust.\n  [id: bbbbbbbb]\n")
    assert shown(await Graph(memory).facts("Ravi")) == ["Ravi -likes-> Rust"]
    assert shown(await Graph(memory, as_of="2026-02-01").facts("Ravi")) == ["Ravi -likes-> Perl"]
    assert shown(await Graph(memory, as_of=date(2026, 4, 1)).facts("Ravi")) == ["Ravi -likes-> Rust"]


async def test_what_another_scope_calls_its_entries_ends_and_revives_no_fact(open_memory, kipu_write):
    kipu_write("memory/ann/2026-01-10.md", "- Ravi likes Perl.\n  [superseded_by: bbbbbbbb]\n")
    kipu_write("memory/ben/2026-03-10.md", "- Ravi likes Rust.\n  [id: bbbbbbbb]\n")
    assert await Graph(open_memory(scope="ann"), as_of="2026-02-01").facts("Ravi") == []


async def test_as_of_shows_what_was_believed_on_that_day(graph):
    notes = {
        "2026-01-10.md": "Ravi lives in Rome.\n",
        "2026-02-10.md": "Ravi lives in Oslo.\n",
        "x.md": "Ann knows Ravi.\n",
    }
    assert "Ravi -lives in-> Rome" in shown(await graph(notes, as_of="2026-01-31").facts("Ravi"))
    assert "Ravi -lives in-> Oslo" in shown(await graph(notes, as_of="2026-02-10").facts("Ravi"))
    assert shown(await graph(notes, as_of="2025-12-31").facts("Ravi")) == ["Ann -knows-> Ravi"]
    with pytest.raises(QueryError, match="as_of must be a date"):
        graph(notes, as_of="yesterday")


async def test_values_without_an_order_are_conflicts(graph):
    reader = graph(
        {
            "a.md": "Ravi lives in Rome.\n",
            "b.md": "Ravi lives in Oslo.\n",
            "2026-01-10.md": "Atlas runs on Debian. Ann lives in Oslo.\n",
            "2026-02-10.md": "Ann lives in Rome.\n",
            "c.md": "Borg uses Redis.\n",
            "d.md": "Borg does not use Redis.\n",
        }
    )
    found = [(each.subject, each.predicate, shown(each.facts)) for each in await reader.conflicts()]
    assert found == [
        ("Borg", "uses", ["Borg -uses-> Redis", "Borg -not uses-> Redis"]),
        ("Ravi", "lives in", ["Ravi -lives in-> Rome", "Ravi -lives in-> Oslo"]),
    ]


# --- Paths ---------------------------------------------------------------------------------------------------------

STACK = {
    "team.md": "Ravi uses FastAPI for the billing API.\n",
    "stack.md": "FastAPI runs on Uvicorn here.\n",
    "other.md": "Ann likes tea.\n",
}


async def test_the_paths_of_a_question_are_those_that_a_search_finds(graph, open_memory, kipu_write):
    graph(STACK | {"stack.md": "FastAPI runs on Uvicorn, our web server.\n"})
    options = {"relation": {"use": "graph", "strategy": "keyword"}}
    (steps,) = await Graph(open_memory(search=options)).paths("What server does Ravi use?")
    assert [(step.source, step.predicate, step.target, step.path) for step in steps] == [
        ("Ravi", "uses", "FastAPI", "memory/team.md"),
        ("FastAPI", "runs on", "Uvicorn", "memory/stack.md"),
    ]


async def test_a_path_is_the_shortest_chain_of_facts_in_either_direction(graph):
    reader = graph(STACK)
    assert shown(await reader.path("Ravi", "Uvicorn")) == ["Ravi -uses-> FastAPI", "FastAPI -runs on-> Uvicorn"]
    assert shown(await reader.path("uvicorn", "ravi")) == ["FastAPI -runs on-> Uvicorn", "Ravi -uses-> FastAPI"]
    assert await reader.path("Ravi", "Ann") == await reader.path("Ravi", "Ravi") == []


async def test_without_facts_a_path_leads_along_passages_that_name_both(graph):
    reader = graph({"a.md": "Today: Ravi with FastAPI.\n", "b.md": "Slow: FastAPI under Uvicorn.\n"})
    assert [(step.predicate, step.path) for step in await reader.path("Ravi", "Uvicorn")] == [
        ("", "memory/a.md"),
        ("", "memory/b.md"),
    ]


async def test_what_does_not_hold_leads_nowhere(graph):
    reader = graph({"2026-01-10.md": "Ravi uses FastAPI.\n", "2026-02-10.md": "Ravi does not use FastAPI.\n"})
    assert await reader.path("Ravi", "FastAPI") == []


@pytest.mark.parametrize("text", ["Ravi does not use FastAPI.", "Does Ravi use FastAPI?", "Ravi might use FastAPI."])
async def test_what_a_passage_denies_or_supposes_leads_nowhere_unless_another_names_both(graph, kipu_write, text):
    reader = graph({"a.md": text + "\n"})
    assert await reader.path("Ravi", "FastAPI") == []
    kipu_write("memory/b.md", "Today: Ravi with FastAPI.\n")
    assert [(step.predicate, step.path) for step in await reader.path("Ravi", "FastAPI")] == [("", "memory/b.md")]


async def test_facts_come_before_a_shorter_way_along_passages(graph):
    reader = graph(STACK | {"x.md": "Today: Ravi with Uvicorn.\n"})
    assert shown(await reader.path("Ravi", "Uvicorn")) == ["Ravi -uses-> FastAPI", "FastAPI -runs on-> Uvicorn"]


async def test_neighbours_are_what_facts_relate_to_a_name(graph):
    reader = graph(STACK | {"more.md": "Ravi maintains FastAPI. Ann knows Ravi.\n"})
    found = [(each.name, sorted(fact.predicate for fact in each.facts)) for each in await reader.neighbours("Ravi")]
    assert found == [("FastAPI", ["maintains", "uses"]), ("Ann", ["knows"])]


async def test_the_network_of_a_name_grows_with_its_depth_and_is_always_in_the_same_order(graph):
    reader = graph(STACK)
    assert (await reader.network("Ravi"))[0] == ["FastAPI", "Ravi"]
    assert (await reader.network("Ravi", depth=2))[0] == ["FastAPI", "Ravi", "Uvicorn"]
    names, facts = await reader.network()
    assert {"FastAPI", "Ravi", "Uvicorn"} <= set(names)
    assert (names, facts) == await reader.network()


# --- Suggestions ---------------------------------------------------------------------------------------------------


async def test_names_that_are_written_alike_are_suggested_and_not_merged(graph):
    reader = graph(
        {
            "a.md": "Ravi Kumar uses FastAPI. Ravi likes PostgreSQL. Node 1 runs `redis`.\n",
            "b.md": "Zoë uses Fast-API. Zoe likes Postgresql, PostgresSQL and Ravi. Node 2 is off.\n",
        }
    )
    pairs = {frozenset((each.name, each.other)) for each in await reader.suggest()}
    assert {frozenset(("FastAPI", "Fast-API")), frozenset(("Zoë", "Zoe")), frozenset(("Ravi", "Ravi Kumar"))} <= pairs
    assert not any({"Node 1", "Node 2"} == pair for pair in pairs)
    assert len(await reader.entities("Ravi")) == 1


async def test_what_the_files_call_one_is_not_suggested(graph):
    reader = graph({"fastapi.md": "---\naliases: [Fast-API]\n---\nRavi uses Fast-API, and FastAPI is fast.\n"})
    assert await reader.suggest() == []
