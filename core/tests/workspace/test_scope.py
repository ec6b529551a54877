"""A scoped memory writes to one source, and neither sees nor reveals anything of another."""

from __future__ import annotations

import asyncio
import os
import unicodedata
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import with_doubles

from kipu import Hit, IndexConfig, Memory, SearchConfig
from kipu.config import WritingConfig
from kipu.errors import (
    ChunkNotFoundError,
    ConfigurationError,
    KipuError,
    MemoryFileError,
    OutsideScopeError,
    OutsideWorkspaceError,
    QueryError,
)
from kipu.testing import CombinedStrategy, HashingEmbedder, ParagraphChunker, VectorStrategy, WordStrategy
from kipu.workspace.scope import label_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from pathlib import Path

    from kipu import MemoryConfig, Query
    from kipu.types import Index

COMPOSED = "jos\u00e9"
IDS = {
    "plain": "alice",
    "upper": "Alice",
    "all upper": "ALICE",
    "underscore": "team_a",
    "hyphen": "team-a",
    "dot": "team.a",
    "space": "team a",
    "e-mail": "alice@example.org",
    "e-mail with tag": "Alice+notes@example.org",
    "parent": "../x",
    "parents": "../../../../etc/passwd",
    "dots": "..",
    "one dot": ".",
    "slash": "a/b",
    "backslash": "a\\b",
    "absolute": "/etc",
    "home": "~",
    "hidden": ".hidden",
    "git": ".git",
    "kipu": ".kipu",
    "memory": "memory",
    "archive": "archive",
    "archive below": "archive/alice",
    "external": "external",
    "device": "con",
    "device with an ending": "nul.txt",
    "colon": "c:alice",
    "line end": "a\nb",
    "blanks around": " alice ",
    "emoji": "\U0001f9a6",
    "another emoji": "\U0001f9ab",
    "family": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "composed": unicodedata.normalize("NFC", COMPOSED),
    "decomposed": unicodedata.normalize("NFD", COMPOSED),
    "without the accent": "jose",
    "sharp s": "stra\u00dfe",
    "ss": "strasse",
    "long s": "\u017f",
    "dotless i": "\u0131",
    "capital dotted i": "\u0130",
    "kelvin": "\u212a",
    "k": "k",
    "full width": "\uff41",
    "chinese": "\u5c0f\u660e",
    "right to left": "\u202ealice",
    "zero width": "ali\u200bce",
    "half a surrogate pair": "\ud83e",
    "wildcards": "*?[a]",
    "pattern": "ali%",
    "trailing dot": "alice.",
    "long": "a" * 10_000,
    "longer": "a" * 10_001,
    "64": "a" * 64,
    "65": "a" * 65,
    "a file": "2026-11-29.md",
    "markdown": "notes.markdown",
    "a label": "alice~0123456789abcdef",
    "quote": "'; DROP TABLE files; --",
}


def configured(workspace: Path, **search: Any) -> MemoryConfig:
    return attrs.evolve(
        with_doubles(workspace),
        search=SearchConfig(**({"strategy": WordStrategy(), "postprocessors": []} | search)),
        writing=WritingConfig(filters=[]),
    )


# --- ids -----------------------------------------------------------------------------------------------------------


def test_ids_have_distinct_folders_on_every_file_system():
    labels = {name: label_of(id) for name, id in IDS.items()}
    as_seen = {unicodedata.normalize("NFKC", label).casefold().rstrip(". ") for label in labels.values()}
    assert len(as_seen) == len(IDS)
    for label in labels.values():
        assert len(label.encode()) <= 120
        assert label.isascii()
        assert not set(label) & set('/\\:*?"<>|\0\n ')
        assert not label.startswith((".", "~")), label
        assert label not in ("memory", "archive", "external")


TEXT_IDS = st.text(min_size=1, max_size=80).filter(lambda id: id.strip() and "\0" not in id)


@given(TEXT_IDS, TEXT_IDS)
def test_two_ids_never_share_a_folder(one, other):
    first, second = label_of(one), label_of(other)
    assert (first.casefold() == second.casefold()) == (one == other)
    assert label_of(one) == first


@pytest.mark.parametrize("label", sorted({label_of(id) for id in IDS.values()}))
def test_the_folder_of_a_scope_never_has_the_name_of_a_file(label):
    # "memory/2026-11-29.md" is where unscoped writes who has no scope.
    assert not label.endswith((".md", ".markdown"))


@pytest.mark.parametrize(
    "scope", ["", " ", "\t", "\n", "\u3000", "a\0b", "\0", 5, b"alice", ["alice"], True], ids=ascii
)
def test_an_id_is_a_text_that_is_not_blank(workspace, scope):
    with pytest.raises(ConfigurationError, match="scope must be the id of a scope"):
        Memory(workspace, scope=scope)


@pytest.mark.parametrize(
    "name",
    [
        "plain",
        "upper",
        "parents",
        "e-mail",
        "emoji",
        "decomposed",
        "long",
        "quote",
        "half a surrogate pair",
        "archive",
    ],
)
async def test_every_id_has_a_memory_of_its_own(workspace, name):
    config = configured(workspace)
    async with Memory(config, scope=IDS[name]) as one, Memory(config, scope=f"{IDS[name]} ") as other:
        note = await one.remember("alpha secret")
        assert note.path == f"memory/{label_of(IDS[name])}/{config.today()}.md"
        assert await one.read(note.path) == f"# {config.today()}\n\n- alpha secret"
        assert [result.path for result in await one.search("secret")] == [note.path]
        assert await other.search("secret") == []
        edited = await one.edit("- alpha changed", chunk=note.chunk) if note.chunk else None
        assert edited is not None
        assert (await one.forget(chunk=edited.chunk)).complete
    assert sorted(path.name for path in workspace.parent.iterdir()) == ["project"]


# --- one scope beside another --------------------------------------------------------------------------------------

SECRET = "The xylophone is under the stairs."
# What would reveal the other scope, in whatever is returned or raised.
REVEALING = ("bob", "xylophone", "stairs", "plans", "strangers")


@pytest.fixture
async def alice(workspace: Path, write: Any) -> AsyncIterator[Memory]:
    """Open the memory of alice, beside what bob has, and what belongs to no scope."""
    write("memory/bob/plans-for-summer.md", f"# Plans\n\n{SECRET}\n\nalpha of bob\n")
    write("memory/bob/2026-11-01.md", "alpha of strangers\n")
    write("memory/archive/bob/2025-11-01.md", "alpha old of bob\n")
    write("memory/strangers.md", "alpha of strangers\n")
    write("memory/alice/plan.md", "alpha of alice\n")
    write("memory/archive/alice/2025-11-01.md", "alpha old of alice\n")
    write("notes/strangers.md", "alpha of other strangers\n")
    async with Memory(configured(workspace)) as unscoped:
        await unscoped.index()
        await unscoped.add("notes/strangers.md")
    async with Memory(configured(workspace), scope="alice") as memory:
        yield memory


async def errors_of(*works: Coroutine[Any, Any, Any]) -> list[KipuError]:
    """Return what each of several calls raises; all of them must be refused."""
    outcomes = [(work.__qualname__, (await asyncio.gather(work, return_exceptions=True))[0]) for work in works]
    not_refused = [(name, outcome) for name, outcome in outcomes if not isinstance(outcome, KipuError)]
    assert not_refused == []
    return [outcome for _, outcome in outcomes]


def reveals(thing: Any, *given: str) -> list[str]:
    """Return the revealing words in what was returned or raised, except those that the caller passed."""
    shown = (f"{thing!r} {thing} {vars(thing) if hasattr(thing, '__dict__') else ''}").lower()
    for word in given:
        shown = shown.replace(word.lower(), "")
    return [word for word in REVEALING if word in shown]


async def test_a_search_finds_the_scope_and_its_archive_if_requested(alice):
    found = [result.path for result in await alice.search("alpha", explain=True)]
    assert found == ["memory/alice/plan.md"]
    assert [result.path for result in await alice.search("alpha", source="alice")] == found
    for source in ("archive", "archive/alice"):
        results = await alice.search("alpha", source=source)
        assert [result.path for result in results] == ["memory/archive/alice/2025-11-01.md"]
    results = await alice.search("xylophone stairs")
    assert (results, reveals(results)) == ([], [])
    assert (results.notices, results.pending, results.stale) == ([], [], False)


@pytest.mark.parametrize("source", ["bob", "memory", "external", "archive/bob", "al", "Alice", "", "%", "missing"])
async def test_another_source_is_refused_whether_it_exists_or_not(alice, source):
    errors = await errors_of(
        alice.search("alpha", source=source),
        alice.recall("alpha", source=source),
        alice.files(source),
        alice.remember("alpha", source=source),
    )
    for error in errors:
        assert isinstance(error, (OutsideScopeError, QueryError))
        assert reveals(error, source or "-") == []


OTHERS = [
    "memory/bob/plans-for-summer.md",
    "memory/bob/no-such-file.md",
    "memory/alice/../bob/plans-for-summer.md",
    "./memory//bob/plans-for-summer.md",
    "memory/strangers.md",
    "memory/new.md",
    "memory/archive/bob/2025-11-01.md",
    "memory/archive/bob.md",
    "notes/strangers.md",
    "../outside.md",
    "kipu.toml",
]


@pytest.mark.parametrize("path", OTHERS)
async def test_paths_of_other_scopes_are_refused(alice, workspace, path):
    before = {file: file.read_bytes() for file in workspace.rglob("*.md")}
    for name in (path, workspace / path):
        errors = await errors_of(
            alice.read(name),
            alice.edit("x", path=name, start=1),
            alice.forget(path=name),
            alice.move("mine.md", path=name),
            alice.move(workspace / path, path="memory/alice/plan.md"),
            alice.add(name),
            alice.remember("x", file=workspace / path),
            alice.remember("x", supersedes=f"{name}:1"),
        )
        for error in errors:
            assert isinstance(error, (OutsideScopeError, OutsideWorkspaceError, MemoryFileError, ChunkNotFoundError))
            assert reveals(error, path, "memory/bob/plans-for-summer.md") == []
    assert {file: file.read_bytes() for file in workspace.rglob("*.md")} == before


async def test_existing_and_missing_files_are_refused_alike(alice):
    shown = []
    for path in ("memory/bob/plans-for-summer.md", "memory/bob/no-such-file.md"):
        works = (alice.read(path), alice.forget(path=path), alice.add(path), alice.search("x", explain_path=path))
        shown += [str(error).replace(path, "PATH") for error in await errors_of(*works)]
    assert shown[:4] == shown[4:]


async def test_chunks_of_other_scopes_are_refused(alice, workspace):
    async with Memory(configured(workspace)) as unscoped:
        chunks = [
            result.chunk
            for result in await unscoped.search("alpha xylophone", max_results=50)
            if result.source != "alice"
        ]
    assert len(chunks) >= 4
    for chunk in chunks:
        errors = await errors_of(
            alice.edit("x", chunk=chunk),
            alice.forget(chunk=chunk),
            alice.move("mine.md", chunk=chunk),
            alice.remember("x", supersedes=chunk),
        )
        for error in errors:
            assert isinstance(error, ChunkNotFoundError)
            assert reveals(error) == []


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ("plan.md", "memory/alice/plan.md"),
        ("memory/alice/plan.md", "memory/alice/plan.md"),
        ("bob/x.md", "memory/alice/bob/x.md"),
    ],
)
async def test_what_is_remembered_goes_to_the_scope(alice, file, path):
    note = await alice.remember("xanadu", file=file)
    assert note.path == path
    moved = await alice.move("deep/other.md", chunk=note.chunk)
    assert moved.path == "memory/alice/deep/other.md"
    assert [result.path for result in await alice.search("xanadu")] == [moved.path]


async def test_texts_of_other_scopes_are_no_duplicates(alice):
    note = await alice.remember(SECRET)
    assert (note.duplicate_of, list(note.similar)) == (None, [])
    note = await alice.remember(f"{SECRET} Really.")
    assert [place.path for place in note.similar] == [note.path]


async def test_forgetting_reveals_no_duplicates_of_other_scopes(alice, workspace):
    note = await alice.remember(SECRET, file="mine.md")
    receipt = await alice.forget(chunk=note.chunk)
    assert reveals(receipt) == []
    assert list(receipt.elsewhere) == []
    assert receipt.complete
    assert SECRET in (workspace / "memory/bob/plans-for-summer.md").read_text("utf-8")
    async with Memory(configured(workspace), scope="bob") as bob:
        assert len(await bob.search("xylophone")) == 1


async def test_files_and_status_are_of_the_scope_alone(alice, workspace, write):
    write("memory/bob/new.md", "alpha")
    (workspace / "memory/bob/binary.md").write_bytes(b"\0")
    (workspace / "memory/bob/gone").symlink_to("missing folder")
    (workspace / "memory/bob/out.md").symlink_to("/etc/hostname")
    write("memory/alice/new.md", "beta")
    status = await alice.status()
    assert (status.files, status.chunks, dict(status.sources)) == (2, 2, {"alice": 1, "archive/alice": 1})
    assert status.pending == ["memory/alice/new.md"]
    assert reveals(status) == []
    files = await alice.files()
    assert [file.path for file in files] == [
        *("memory/alice/new.md", "memory/alice/plan.md", "memory/archive/alice/2025-11-01.md")
    ]
    assert [file.path for file in await alice.files("archive")] == ["memory/archive/alice/2025-11-01.md"]
    assert reveals(await alice.status()) == []


async def test_reports_are_of_the_scope_alone(alice, workspace, write):
    for number in range(30):
        write(f"memory/bob/{number}.md", "alpha\n\nbeta")
    (workspace / "memory/bob/binary.md").write_bytes(b"\0")
    report = await alice.index()
    assert reveals(report) == []
    assert (report.added, report.unchanged, report.chunks) == (0, 2, 2)
    write("memory/alice/new.md", "beta")
    report = await alice.add("memory/alice/new.md")
    assert (report.chunks, reveals(report)) == (3, [])


async def test_skipped_files_of_other_scopes_are_not_reported(alice, workspace, write):
    write("memory/bob/new.md", "alpha")
    results = await alice.search("alpha", sync=False)
    assert (results.pending, results.stale, results.notices) == ([], False, [])
    write("memory/alice/new.md", "alpha")
    results = await alice.search("alpha", sync=False)
    assert (results.pending, results.stale) == (["memory/alice/new.md"], True)


@pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="there are no symbolic links")
async def test_missing_folders_of_other_scopes_are_not_reported(workspace, write):
    write("vault/plans.md", SECRET)
    (workspace / "memory/bob").symlink_to("../vault")
    write("memory/alice/plan.md", "alpha")
    async with Memory(configured(workspace), scope="alice") as alice:
        await alice.index()
        (workspace / "vault").rename(workspace / "away")
        assert reveals(await alice.search("alpha")) == []
        assert reveals(await alice.index()) == []
        assert reveals(await alice.status()) == []


@pytest.mark.parametrize(
    "path",
    [
        "memory/alice/plans-for-summer.md",
        "memory/alice/../bob/plans-for-summer.md",
        "memory/alice/strangers.md",
        "memory/alice/plan.md",
    ],
)
async def test_an_absence_suggests_no_name_of_another_scope(alice, path):
    shown: Any = None
    try:
        shown = (await alice.search("xylophone", explain=True, explain_path=path)).absence
    except OutsideScopeError as error:
        shown = error
    assert shown is not None
    assert reveals(shown, path) == []


async def test_recall_is_of_the_scope_alone(alice, write):
    write("memory/alice/near.md", "# Plans\n\nalpha one\n\nalpha two\n")
    recalled = await alice.recall("alpha xylophone plans", max_tokens=5000)
    assert recalled
    assert {result.source for result in recalled.results} == {"alice"}
    assert reveals(recalled, "plans") == []
    assert not await alice.recall("xylophone")


async def test_a_successor_of_another_scope_is_not_shown(alice, write):
    write(
        "memory/alice/old.md", "quartz old\n[superseded_by: memory/bob/plans-for-summer.md; valid_until: 2001-01-01]\n"
    )
    results = await alice.search("quartz")
    assert [result.path for result in results] == ["memory/alice/old.md"]
    assert reveals(results, "memory/bob/plans-for-summer.md") == []


@attrs.frozen
class Careless(WordStrategy):
    """A strategy that looks at no filter, and finds what is of others first."""

    async def search(self, query: Query, index: Index) -> list[Hit]:
        rows = await index.connection.execute_fetchall("SELECT id FROM chunks ORDER BY id")
        chunks = await index.chunks(row[0] for row in rows)
        found = sorted(chunks.values(), key=lambda chunk: (chunk.source == "alice", chunk.id))
        return [Hit(chunk, 1 - place / 1000, {"careless": 1 - place / 1000}) for place, chunk in enumerate(found)]


async def test_a_strategy_that_ignores_the_filters_reveals_no_other_scope(alice, workspace):
    async with Memory(configured(workspace, strategy=Careless()), scope="alice") as memory:
        for options in ({}, {"source": "archive"}, {"explain": True, "explain_path": "memory/alice/plan.md"}):
            results = await memory.search("alpha", max_results=50, **options)
            assert {result.source for result in results} <= {"alice", "archive/alice"}
            assert reveals(results) == []
        assert {result.source for result in (await memory.recall("alpha")).results} <= {"alice", "archive/alice"}


async def test_a_strategy_that_ignores_the_filters_still_finds_what_is_in_the_scope(alice, workspace):
    async with Memory(configured(workspace, strategy=Careless()), scope="alice") as memory:
        results = await memory.search("alpha", max_results=1, explain=True)
        assert [result.source for result in results] == ["alice"]
        assert results[0].explanation is not None
        assert results[0].explanation.arms["careless"].rank == 1


class Watching:
    """A post-processor that remembers what it was shown."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    async def process(self, query: Query, hits: list[Hit]) -> list[Hit]:
        self.seen |= {hit.chunk.source for hit in hits}
        return hits


async def test_stages_see_no_hits_of_other_scopes(alice, workspace):
    watching = Watching()
    async with Memory(configured(workspace, strategy=Careless()), scope="alice") as memory:
        memory.register_postprocessor("watching", watching)
        await memory.search("alpha")
    assert watching.seen <= {"alice"}


async def test_the_number_of_vectors_of_other_scopes_is_not_shown(workspace, write):
    write("memory/bob/plans.md", "\n\n".join(f"{SECRET} {number}" for number in range(300)))
    write("memory/alice/plan.md", "alpha one")
    hashing = HashingEmbedder()
    config = attrs.evolve(
        configured(workspace, strategy=CombinedStrategy()),
        index=IndexConfig(chunker=ParagraphChunker(), embedder=hashing),
    )
    async with Memory(config, scope="alice", background=False) as alice:
        alice.register_strategy("near", VectorStrategy())
        alice.register_strategy("by-words", WordStrategy())
        results = await alice.search("alpha")
        assert [result.path for result in results] == ["memory/alice/plan.md"]
        assert not any("chunk" in note for note in results.notices), results.notices
        status = await alice.status()
        assert status.pending_vectors <= 1
        assert all(count <= 1 for count in status.vectors.values())


@pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="there are no symbolic links")
@pytest.mark.parametrize("target", ["../bob", "../bob/plans-for-summer.md", "../strangers.md", "..", "../../notes"])
async def test_a_symlink_into_another_scope_is_not_followed(alice, workspace, target):
    name = "link.md" if target.endswith(".md") else "link"
    (workspace / "memory/alice" / name).symlink_to(target)
    below = {"../bob": "link/plans-for-summer.md", "..": "link/strangers.md", "../../notes": "link/strangers.md"}
    file = f"memory/alice/{below.get(target, 'link.md')}"
    before = {path: path.read_bytes() for path in workspace.rglob("*.md")}
    assert [result.path for result in await alice.search("alpha xylophone")] == ["memory/alice/plan.md"]
    errors = await errors_of(
        alice.read(file),
        alice.edit("x", path=file, start=1),
        alice.forget(path=file),
        alice.move("mine.md", path=file),
        alice.move(file, path="memory/alice/plan.md"),
        alice.remember("x", file=file),
        alice.add(file),
    )
    assert [reveals(error, file) for error in errors] == [[]] * len(errors)
    assert {path: path.read_bytes() for path in workspace.rglob("*.md")} == before


async def test_the_scope_of_a_memory_without_one_is_everything(alice, workspace):
    async with Memory(configured(workspace)) as unscoped:
        results = await unscoped.search("alpha", max_results=50)
        assert len(results) + sum(len(result.also_in) for result in results) == 5
        assert len(await unscoped.files()) == 7
        assert "xylophone" in await unscoped.read("memory/bob/plans-for-summer.md")


# --- the archive ---------------------------------------------------------------------------------------------------


async def test_the_archive_is_searched_only_if_requested(workspace, write):
    write("memory/archive/team/2026-01-01.md", "xylophone old\n")
    write("memory/archive/2025-01-01.md", "xylophone older\n")
    write("memory/team/2026-02-01.md", "xylophone new\n")
    async with Memory(configured(workspace)) as memory:
        assert [result.path for result in await memory.search("xylophone")] == ["memory/team/2026-02-01.md"]
        assert len(await memory.search("xylophone", source="archive")) == 2
        assert [result.text for result in await memory.search("xylophone", source="archive/team")] == ["xylophone old"]
        note = await memory.remember("xylophone old", source="team")
        assert note.duplicate_of is None
        moved = await memory.move("memory/archive/team/2026-02-01.md", path="memory/team/2026-02-01.md")
        assert moved.path == "memory/archive/team/2026-02-01.md"
        assert [result.text for result in await memory.search("xylophone")] == ["- xylophone old"]
        (result,) = await memory.search("older", source="archive")
        assert (await memory.forget(chunk=result.chunk)).complete
