"""Searches, recall and lists of files are restricted by sources, tags, paths, properties and days."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from entry_chunks import EntryChunker

from kipu import Memory
from kipu.errors import OutsideScopeError, QueryError
from kipu.testing import CombinedStrategy, WordStrategy

FILES = {
    "plain.md": "red plain\n",
    "projects/alpha/plan.md": "---\ntitle: Plan\ntags: [work, Home/Garden]\nstatus: Done\ndraft: True\n---\nred plan\n",
    "projects/b.md": "---\ntags: '#work, cold'\ndate: 2026-11-20T10:00:00\nstatus: open\n---\nred b\n",
    "team/entries.md": (
        "- red one\n  [tags: work, prompt cache; status: done; id: a1]\n- red two\n  [tag: #Straße; rating: 3]\n"
    ),
    "team/inline.md": "red inline #CAFÉ #urgent/now, x#no `#include` #हिन्दी\n",
    "logseq.md": "tags:: [[work]], #late\nstatus:: done\n\nred logseq\n",
    "archive/old.md": "---\ntags: work\n---\nred old\n",
    "2026-11-25.md": "red dated\n",
}
PLAN, B, ENTRIES, INLINE, LOGSEQ = (
    f"memory/{name}.md" for name in ("projects/alpha/plan", "projects/b", "team/entries", "team/inline", "logseq")
)


class AnswersAll:
    """A stage, and a strategy, that ignores every filter."""

    async def search(self, query, index):
        return await WordStrategy().search(attrs.evolve(query, sources=(), tags=(), path=None, where=()), index)

    async def process(self, query, hits):
        return hits


@pytest.fixture
def memory_with(config, write):
    for path, text in FILES.items():
        write(f"memory/{path}", text)
    return lambda scope=None, **search: Memory(config(index={"chunker": EntryChunker()}, **search), scope=scope)


async def found(memory: Memory, **filters: Any) -> list[str]:
    return sorted({result.path for result in await memory.search("red", max_results=50, **filters)})


CASES = [
    ({"tag": "work"}, [LOGSEQ, PLAN, B, ENTRIES]),
    ({"tag": "#WORK"}, [LOGSEQ, PLAN, B, ENTRIES]),
    ({"tag": ["work", "cold"]}, [B]),
    ({"tag": "home"}, [PLAN]),
    ({"tag": "home/garden"}, [PLAN]),
    ({"tag": "gard"}, []),
    ({"tag": "strasse"}, [ENTRIES]),
    ({"tag": "हिन्दी"}, [INLINE]),
    ({"tag": "हिन्द"}, []),
    ({"tag": "prompt cache"}, [ENTRIES]),
    ({"tag": "late"}, [LOGSEQ]),
    ({"tag": "urgent"}, [INLINE]),
    ({"tag": "cafe\u0301"}, [INLINE]),
    ({"tag": "no"}, []),
    ({"tag": "include"}, []),
    ({"tag": "work", "source": ["archive", "team"]}, ["memory/archive/old.md", ENTRIES]),
    ({"source": ["team", "memory"]}, ["memory/2026-11-25.md", LOGSEQ, "memory/plain.md", ENTRIES, INLINE]),
    ({"where": {"status": "done"}}, [LOGSEQ, PLAN, ENTRIES]),
    ({"where": {"Status": "DONE", "draft": True}}, [PLAN]),
    ({"where": {"rating": 3}}, [ENTRIES]),
    ({"where": {"title": "plan"}}, [PLAN]),
    ({"where": {"tags": ["work", "cold"]}}, [B]),
    ({"path": "projects/**"}, [PLAN, B]),
    ({"path": "memory/projects"}, [PLAN, B]),
    ({"path": "projects/*.md"}, [B]),
    ({"path": "p*n.md"}, ["memory/plain.md", PLAN]),
    ({"path": "./memory/plain.md"}, ["memory/plain.md"]),
    ({"path": "projects", "tag": "cold", "where": {"status": "open"}}, [B]),
    ({"since": "2026-11-20", "until": "2026-11-24"}, [B]),
    ({"since": "2026-11-01"}, ["memory/2026-11-25.md", B]),
]


@pytest.mark.parametrize(("filters", "paths"), CASES, ids=str)
async def test_a_search_finds_what_passes_its_filters(memory_with, filters, paths):
    async with memory_with(strategy=WordStrategy()) as memory:
        assert await found(memory, **filters) == sorted(paths)
        assert sorted(file.path for file in await memory.files(**filters)) == sorted(
            paths
            if "source" in filters or "memory/archive/old.md" in paths
            else {*paths, *(["memory/archive/old.md"] if filters.get("tag") in ("work", "#WORK") else [])}
        )


@pytest.mark.parametrize(
    ("text", "tag", "is_tag"),
    [
        ("red #fff", "fff", True),
        ("red #123", "123", False),
        ("red #1/2", "1", False),
        ("red #1984/film", "1984", True),
        ("red #1984/film", "1984/film", True),
        ("red #a1", "a1", True),
        ("```c\n#include <red.h>\n```", "include", False),
        ("- red\n\n  ~~~\n  #include\n  ~~~", "include", False),
        ("~~~\nred\n~~~\n\nred #include", "include", True),
        ("red `a #include b`", "include", False),
        ("red ``a ` #include\nb``", "include", False),
        ("red ` #include\n\nan ` alone", "include", True),
        ("red `a` #include `b`", "include", True),
        (f"red {'` `` ``` ' * 2000} #include", "include", True),
    ],
)
async def test_code_and_numbers_are_no_tags(config, write, text, tag, is_tag):
    write("memory/a.md", f"{text}\n")
    async with Memory(config(strategy=WordStrategy())) as memory:
        assert bool(await memory.files(tag=tag)) == is_tag


async def test_a_tag_is_that_of_an_entry_and_not_of_its_neighbours(memory_with):
    async with memory_with(strategy=WordStrategy()) as memory:
        (result,) = await memory.search("red", tag="prompt cache")
        assert "two" not in result.text
        assert "two" not in (await memory.recall("red one", tag="prompt cache", max_tokens=600)).text


@pytest.mark.parametrize(
    "filters", [{"tag": "cold"}, {"path": "projects/b.md"}, {"where": {"status": "open"}}], ids=str
)
async def test_no_component_returns_what_the_filters_exclude(memory_with, filters):
    for search in ({"strategy": AnswersAll()}, {"strategy": CombinedStrategy(["all"])}):
        async with memory_with(**search) as memory:
            memory.register_strategy("words", WordStrategy())
            memory.register_strategy("all", AnswersAll())
            await memory.search("red", strategy="words")
            assert await found(memory, **filters) == [B]


async def test_a_property_that_changed_is_found_as_it_is_now(memory_with, write):
    async with memory_with(strategy=WordStrategy()) as memory:
        await memory.index()
        write("memory/projects/b.md", "---\ntags: warm\n---\nred b\n")
        write("memory/team/entries.md", "- red one\n  [tags: rest]\n")
        (memory.workspace / "memory/logseq.md").unlink()
        assert (await found(memory, tag="cold"), await found(memory, tag="warm")) == ([], [B])
        assert (await found(memory, tag="rest"), await found(memory, tag="late")) == ([ENTRIES], [])
        assert await found(memory, tag="prompt cache") == []


@pytest.mark.parametrize(
    ("filters", "notice"),
    [
        ({"tag": "wrok"}, 'No memory has the tag "wrok". Did you mean "work"?'),
        ({"tag": "work/x"}, 'No memory has the tag "work/x". Did you mean "work"?'),
        ({"where": {"status": "doone"}}, 'No memory has the property "status=doone". Did you mean "status=done"?'),
        ({"where": {"statsu": "done"}}, 'No memory has the property "statsu=done". Did you mean "status=done"?'),
        ({"path": "nowhere/**"}, 'No memory has the path "nowhere/**".'),
        ({"tag": "work", "source": "nosuch"}, 'No memory file has the source "nosuch".'),
        ({"source": ["team", "taem"], "tag": "urgent"}, 'No memory file has the source "taem". Did you mean "team"?'),
    ],
    ids=str,
)
async def test_what_no_memory_has_is_named(memory_with, filters, notice):
    async with memory_with(strategy=WordStrategy()) as memory:
        (named,) = (await memory.search("red", **filters)).notices
        assert named.startswith(notice)


async def test_the_date_of_front_matter_makes_no_file_a_dated_one(memory_with):
    async with memory_with() as memory:
        (file,) = await memory.files(since="2026-11-20", until="2026-11-20")
        assert (file.path, file.date, file.evergreen) == (B, None, True)


async def test_a_filter_that_matches_without_the_query_is_not_named(memory_with):
    async with memory_with(strategy=WordStrategy()) as memory:
        assert (await memory.search("absent", tag="work", path="projects", where={"draft": True})).notices == []


async def test_a_scope_has_properties_of_its_own_source_only(memory_with):
    async with memory_with() as memory:
        await memory.index()
    async with memory_with(scope="team", strategy=WordStrategy()) as memory:
        assert await found(memory, tag="work") == [ENTRIES]
        assert (await memory.search("red", tag="cold")).notices == ['No memory has the tag "cold".']
        assert await found(memory, source=["team", "archive"]) == [ENTRIES, INLINE]
        with pytest.raises(OutsideScopeError):
            await memory.search("red", source=["team", "memory"])


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"tag": "#"}, "A tag or a path to search for is empty"),
        ({"tag": 1}, "tag must be a tag"),
        ({"source": [1]}, "source must be the label"),
        ({"path": "/"}, "A tag or a path to search for is empty"),
        ({"path": "a/[z-a]"}, "path must be a pattern"),
        ({"where": "status=done"}, "where must be a dictionary"),
        ({"where": {"status": ""}}, "where must be keys with their values"),
        ({"where": {1: "a"}}, "where must be keys with their values"),
        ({"where": {"a": {"b": "c"}}}, "A value of metadata is"),
        ({"tag": [f"t{n}" for n in range(101)]}, "A query has at most 100 sources, tags and properties, not 101"),
    ],
)
async def test_a_filter_that_cannot_be_one_is_refused(memory, filters, message):
    with pytest.raises(QueryError, match=message.replace("(", r"\(")):
        await memory.search("red", **filters)
