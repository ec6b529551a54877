"""A change that Kipu made of memory files is taken back whole, or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import stat
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redaction import KEY, configured

from kipu import FilesConfig, Memory
from kipu.errors import FileChangedError, MemoryFileError, QueryError
from kipu.testing import ScriptedFlusher

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POSIX = pytest.mark.skipif(os.name == "nt", reason="permissions and links are those of POSIX")
BEFORE = {
    "memory/a.md": "# A\r\n\r\n- one\r\n- two\r\n  [id: t]\r\n",
    "memory/b.md": "beta\n\ngamma",
    "memory/old/2024-05-01.md": "- kappa\n",
}
MESSAGES = [{"role": "user", "content": "eta"}]

# What makes each kind of change, and of how many files.
CHANGES: dict[str, tuple[Callable[[Memory], Any], int]] = {
    "edit": (lambda memory: memory.edit("- zwei", path="memory/a.md", start=4), 1),
    "remember": (lambda memory: memory.remember("delta", file="a.md"), 1),
    "remember in a new file": (lambda memory: memory.remember("delta"), 1),
    "remember that supersedes": (lambda memory: memory.remember("delta", file="b.md", supersedes="memory/a.md:3"), 2),
    "remember what is there": (lambda memory: memory.remember("beta", file="b.md", supersedes="memory/a.md:3"), 2),
    "move": (lambda memory: memory.move("b.md", path="memory/a.md", start=3), 2),
    "move a file": (lambda memory: memory.move("deep/c.md", path="memory/a.md"), 2),
    "move all lines": (lambda memory: memory.move("a.md", path="memory/b.md", start=1, end=3), 2),
    "flush": (lambda memory: memory.flush(MESSAGES, file="2024-06-01.md"), 1),
    "compact": (lambda memory: memory.compact("old"), 3),
}


def texts(workspace: Path) -> dict[str, bytes]:
    return {str(file.relative_to(workspace)): file.read_bytes() for file in sorted(workspace.glob("memory/**/*.md"))}


def records(workspace: Path) -> list[Path]:
    return sorted((workspace / ".kipu/undo").glob("*"))


@pytest.fixture
def files(workspace: Path) -> dict[str, bytes]:
    for path, text in BEFORE.items():
        (workspace / path).parent.mkdir(exist_ok=True)
        (workspace / path).write_bytes(text.encode())
    return texts(workspace)


@pytest.fixture
async def memory(workspace: Path, files: Any) -> Any:
    async with Memory(configured(workspace, ScriptedFlusher(["- in short"] * 9))) as memory:
        yield memory


@pytest.mark.parametrize("kind", CHANGES)
async def test_a_change_is_taken_back_in_all_its_files_and_made_again(memory, workspace, files, kind):
    make, count = CHANGES[kind]
    change = (await make(memory)).change
    after = texts(workspace)
    assert after != files
    assert re.fullmatch("[a-z0-9]{4,12}", change)
    shown = await memory.undo(dry_run=True)
    assert (shown.name, shown.kind, len(shown.paths)) == (change, kind.split()[0], count)
    assert texts(workspace) == after
    undone = await memory.undo()
    assert undone.diff == shown.diff
    assert texts(workspace) == files
    assert [file.path for file in await memory.files()] == sorted(files)
    assert (await memory.undo(undone.undone_by)).kind == f"undo {shown.kind}"
    assert texts(workspace) == after
    assert (await memory.undo()).kind == shown.kind  # what was made again is a change like any other
    assert texts(workspace) == files


async def test_undone_again_and_again_the_last_changes_go_one_by_one(memory, workspace, files):
    states, names = [texts(workspace)], []
    for kind in ("edit", "remember", "move"):
        names.append((await CHANGES[kind][0](memory)).change)
        states.append(texts(workspace))
    assert [change.name for change in await memory.changes()] == names[::-1]
    for name, state in zip(reversed(names), states[-2::-1], strict=True):
        assert (await memory.undo()).name == name
        assert texts(workspace) == state
    with pytest.raises(QueryError, match="There is no change to undo"):
        await memory.undo()
    with pytest.raises(QueryError, match=f'There is no change "{names[0]}"'):
        await memory.undo(names[0])
    assert [change.kind for change in await memory.changes()] == ["undo edit", "undo remember", "undo move"]


async def test_an_earlier_change_of_another_file_can_be_taken_back_by_its_name(memory, workspace):
    first = await memory.edit("BETA", path="memory/b.md", start=1)
    await memory.edit("- eins", path="memory/a.md", start=3)
    undone = await memory.undo(first.change)
    assert undone.diff == "--- memory/b.md\n+++ memory/b.md\n@@ -1,3 +1,3 @@\n-BETA\n+beta\n \n gamma"
    assert (workspace / "memory/a.md").read_bytes().startswith(b"# A\r\n\r\n- eins\r\n")


async def test_a_file_that_has_changed_since_stays_as_it_is(memory, workspace):
    await memory.move("b.md", path="memory/a.md", start=3)
    (workspace / "memory/b.md").write_text("theirs\n", "utf-8")
    before = texts(workspace)
    with pytest.raises(FileChangedError, match=r"memory/b.md has changed since change \w+ \(move\)"):
        await memory.undo()
    assert texts(workspace) == before


async def test_a_file_that_was_made_since_stays_as_it_is(memory, workspace):
    await memory.move("c.md", path="memory/a.md")
    (workspace / "memory/a.md").write_text("theirs\n", "utf-8")
    with pytest.raises(FileChangedError):
        await memory.undo()
    assert (workspace / "memory/a.md").read_text("utf-8") == "theirs\n"


@POSIX
async def test_permissions_and_bytes_of_a_removed_file_come_back(memory, workspace):
    file = workspace / "memory/latin.md"
    file.write_bytes("Größe zwölf\n\nähnlich wie früher\n".encode("latin-1"))
    file.chmod(0o640)
    before = texts(workspace)
    await memory.edit("Größe elf", path="memory/latin.md", start=1)
    await memory.move("deep/latin.md", path="memory/latin.md")
    (workspace / "memory/deep/latin.md").chmod(0o600)
    for _ in range(2):
        await memory.undo()
    assert texts(workspace) == before
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.slow
@given(st.lists(st.sampled_from([*CHANGES][:8]), min_size=1, max_size=6))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_was_changed_comes_back(tmp_path_factory, kinds):
    workspace = tmp_path_factory.mktemp("undone") / "project"
    (workspace / "memory/old").mkdir(parents=True)
    for path, text in BEFORE.items():
        (workspace / path).write_bytes(text.encode())

    async def work() -> None:
        async with Memory(configured(workspace)) as memory:
            states = []
            for kind in kinds:
                before = texts(workspace)
                try:
                    change = (await CHANGES[kind][0](memory)).change
                except (QueryError, MemoryFileError, FileChangedError):
                    continue
                states += [before] if change else []
            while states:
                await memory.undo()
                assert texts(workspace) == states.pop()

    asyncio.run(work())


# --- the records ---------------------------------------------------------------------------------------------------


@POSIX
async def test_records_are_private_and_hold_what_was_removed_only(memory, workspace):
    (workspace / "memory/long.md").write_text("".join(f"- line {number}\n" for number in range(5000)), "utf-8")
    await memory.edit("- xylophonequartz", path="memory/long.md", start=2500)
    await memory.remember(f"the key is {KEY}", file="long.md")
    assert [stat.S_IMODE(file.stat().st_mode) for file in records(workspace)] == [0o600, 0o600]
    data = b"".join(file.read_bytes() for file in records(workspace))
    assert b"line 2499" in data
    assert not any(word in data for word in (b"xylophonequartz", b"line 2498", b"line 2500", KEY.encode()))


async def test_the_last_hundred_changes_are_kept(memory, workspace, monkeypatch):
    monkeypatch.setattr("kipu.keeping.history._KEPT", 3)
    names = [(await memory.edit(f"- {number}", path="memory/a.md", start=3)).change for number in range(5)]
    assert [change.name for change in await memory.changes()] == names[:1:-1]


@pytest.mark.parametrize("made", [True, False])
async def test_the_next_process_keeps_or_drops_the_record_of_a_killed_one(memory, workspace, files, monkeypatch, made):
    note = await memory.edit("- eins", path="memory/a.md", start=3)
    after = texts(workspace)
    with monkeypatch.context() as killed:
        killed.setattr("kipu.keeping.history.History.keep", lambda self, record: None)
        await memory.undo()
    if not made:
        (workspace / "memory/a.md").write_bytes(after["memory/a.md"])
    async with Memory(configured(workspace)) as next_one:
        assert [change.kind for change in await next_one.changes()] == (["undo edit"] if made else ["edit"])
        if not made:
            assert (await next_one.undo()).name == note.change
        assert texts(workspace) == files


async def test_a_change_that_was_not_made_leaves_no_record(memory, workspace, monkeypatch):
    monkeypatch.setattr("kipu.keeping.transaction.replace", lambda step: False)
    with pytest.raises(FileChangedError):
        await memory.edit("- eins", path="memory/a.md", start=3)
    assert records(workspace) == []


async def test_a_scope_takes_back_its_own_changes_only(memory, workspace):
    async with Memory(configured(workspace), scope="anna") as anna, Memory(configured(workspace), scope="bob") as bob:
        own = await anna.remember("tea", file="likes.md")
        other = await bob.remember("coffee", file="likes.md")
        mixed = await memory.move("anna/moved.md", path="memory/b.md", start=1)
        assert [change.name for change in await anna.changes()] == [own.change]
        for name in (other.change, mixed.change):
            with pytest.raises(QueryError, match="There is no change"):
                await anna.undo(name)
        assert (await anna.undo()).name == own.change
        with pytest.raises(QueryError, match="There is no change to undo"):
            await anna.undo()
    assert (await memory.undo()).name == mixed.change
    assert [change.name for change in await memory.changes()][-1] == other.change


# --- what a cloned workspace may bring -----------------------------------------------------------------------------


@pytest.fixture
def bring(workspace: Path) -> Callable[..., None]:
    """Put a record into the workspace that brings a file "evil"."""
    digest = hashlib.sha256(b"evil").hexdigest()

    def bring(path: str, name: str = "0123abcd", *, place: str = "undo/00000009-0123abcd.json", **more: Any) -> None:
        row = {"path": path, "before": digest, "after": "", "head": 0, "tail": 0, "removed": "evil"}
        row |= {"mode": None} | more
        record = [name, "edit", "2026-01-01T00:00:00+00:00", "", [list(row.values())]]
        (workspace / ".kipu" / place).parent.mkdir(parents=True, exist_ok=True)
        (workspace / ".kipu" / place).write_text(json.dumps(record), "utf-8")

    return bring


@pytest.mark.parametrize(
    "path",
    [
        "memory//a.md",
        "../out.md",
        "/OUTSIDE/out.md",
        "kipu.toml",
        "memory/a.py",
        ".git/a.md",
        "memory/.hidden.md",
        "memory/link/a.md",
        "",
    ],
)
async def test_a_record_writes_no_file_that_is_no_memory_file(workspace, tmp_path, bring, path):
    if path.startswith("memory/link"):
        (tmp_path / "out").mkdir()
        (workspace / "memory/link").symlink_to(tmp_path / "out")
    bring(path.replace("/OUTSIDE", str(tmp_path)))
    before = sorted(tmp_path.rglob("*.md"))
    async with Memory(configured(workspace)) as memory:
        assert await memory.changes() == []
        with pytest.raises(QueryError, match="There is no change"):
            await memory.undo("0123abcd")
    assert sorted(tmp_path.rglob("*.md")) == before


async def test_a_record_writes_nothing_outside_the_workspace_although_the_configuration_allows_it(
    workspace, tmp_path, bring
):
    (tmp_path / "vault").mkdir()
    bring(str(tmp_path / "vault/a.md"))
    config = attrs.evolve(configured(workspace), files=FilesConfig(paths=[str(tmp_path / "vault")]))
    async with Memory(config) as memory:
        for name in (None, "0123abcd"):
            with pytest.raises(QueryError, match="There is no change"):
                await memory.undo(name)
    assert not (tmp_path / "vault/a.md").exists()


async def test_an_unnamed_undo_never_takes_a_change_before_one_outside_the_workspace(workspace, tmp_path):
    vault = tmp_path / "vault/a.md"
    vault.parent.mkdir()
    vault.write_text("- one\n- two\n", "utf-8")
    (workspace / "memory").mkdir(exist_ok=True)
    (workspace / "memory/link.md").symlink_to(vault)
    config = attrs.evolve(configured(workspace), files=FilesConfig(paths=["memory", str(vault.parent)]))
    async with Memory(config) as memory:
        inside = await memory.remember("tea")
        for call in (
            memory.edit("- zwei", path=str(vault), start=2),
            memory.edit("- eins", path="memory/link.md", start=1),
            memory.move("b.md", path=str(vault), start=1),
            memory.remember("coffee", file=str(vault)),
        ):
            note = await call
            assert note.change is None
            assert f"This change cannot be undone, because it is outside the workspace: {vault}" in note.notices
        assert [change.name for change in await memory.changes()] == [inside.change]
        last = await memory.remember("milk", file="c.md")
        assert (await memory.undo()).name == last.change
        wanted = f"remember in {re.escape(str(vault))}, cannot be undone. .*: kipu undo {inside.change} \\(remember in "
        for dry_run in (True, False):
            with pytest.raises(QueryError, match=wanted):
                await memory.undo(dry_run=dry_run)
        assert (await memory.undo(inside.change)).name == inside.change
        with pytest.raises(QueryError, match=r"There is no change to undo: remember in .*a.md cannot be undone\."):
            await memory.undo()
        assert "zwei" in vault.read_text("utf-8")
        assert not any(b"zwei" in record.read_bytes() for record in records(workspace))
        await memory.forget(path=str(vault), all=True)
        assert not any(b"vault/a.md" in record.read_bytes() for record in records(workspace))


@pytest.mark.parametrize(
    "more",
    [{"removed": "other"}, {"tail": 5, "before": "0" * 64}, {"removed": 5}, {"removed": "\udc00"},
     {"head": -1}, {"before": 7}, {"mode": "x"}],
)  # fmt: skip
async def test_a_record_that_kipu_did_not_write_is_never_followed(workspace, bring, more):
    bring("memory/a.md", **more)
    async with Memory(configured(workspace)) as memory:
        with pytest.raises((QueryError, MemoryFileError), match=r"There is no change|is damaged"):
            await memory.undo()
    assert texts(workspace) == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '["0123abcd", "edit", "0001-01-01T00:00:00+14:00", "", [["memory/a.md", "", "", 0, 0, "", null]]]',
        '["0123abcd", "edit", "today", "", []]',
        "[" * 100_000,
        "\xff",
    ],
)
async def test_what_is_no_record_is_left_out(workspace, files, text):
    (workspace / ".kipu/undo").mkdir(parents=True)
    (workspace / ".kipu/undo/00000009-0123abcd.json").write_text(text, "latin-1")
    async with Memory(configured(workspace)) as memory:
        note = await memory.edit("- eins", path="memory/a.md", start=3)
        assert (await memory.undo()).name == note.change


@pytest.mark.parametrize("number", ["00000009", "99999999", "9" * 200])
async def test_the_last_change_is_the_last_one_whatever_numbers_records_have(workspace, files, bring, number):
    bring("memory/c.md", place=f"undo/{number}-0123abcd.json")
    async with Memory(configured(workspace)) as memory:
        names = [(await memory.remember(f"tea {name}")).change for name in "ab"]
        assert [change.name for change in await memory.changes()] == [*reversed(names), "0123abcd"]


async def test_a_record_of_a_change_that_is_being_made_cannot_lead_out(workspace, files, tmp_path, bring):
    after = hashlib.sha256(files["memory/b.md"]).hexdigest()
    bring("memory/b.md", "../../../x", place="writing/record.json", before="", after=after)
    async with Memory(configured(workspace)) as memory:
        await memory.remember("tea")
    assert not list(tmp_path.rglob("*x.json"))
    assert len(records(workspace)) == 1


@POSIX
async def test_a_folder_of_records_that_is_a_symlink_is_not_followed(workspace, files, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/00000001-0123abcd.json").write_text("theirs", "utf-8")
    (workspace / ".kipu").mkdir()
    (workspace / ".kipu/undo").symlink_to(tmp_path / "out")
    async with Memory(configured(workspace)) as memory:
        with pytest.raises(MemoryFileError, match="is a symbolic link"):
            await memory.remember("tea")
        await memory.forget(path="memory/b.md", start=1)
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["00000001-0123abcd.json"]


# --- forgetting ----------------------------------------------------------------------------------------------------

SECRET = "The passphrase is xylophonequartz."


def with_secret(workspace: Path) -> list[str]:
    files = (path for path in workspace.rglob("*") if path.is_file())
    return sorted(path.name for path in files if b"xylophonequartz" in path.read_bytes())


@pytest.mark.parametrize("how", ["edited", "moved away", "moved as a file", "copied by hand", "reworded", "in Latin-1"])
async def test_what_is_forgotten_is_in_no_record(memory, workspace, how):
    text, path = SECRET, "memory/c.md"
    if how == "in Latin-1":
        (workspace / path).write_bytes(f"- {SECRET} é\n- und\n".encode("latin-1"))
        await memory.edit("- tea", path=path, start=1)
        await memory.remember(SECRET, file="d.md")
        path = "memory/d.md"
    else:
        await memory.remember(SECRET, file="c.md")
        await memory.remember("tea", file="c.md")
    if how == "edited":
        text = "The passphrase is xylophonequartz now."
        await memory.edit(f"- {text}", path=path, start=1)
    elif how.startswith("moved"):
        await memory.move("d.md", path=path, **({"start": 1} if how == "moved away" else {}))
        path = "memory/d.md"
    elif how == "copied by hand":
        (workspace / "memory/d.md").write_text(f"* {SECRET}\n* more\n", "utf-8")
        await memory.edit("* nothing", path="memory/d.md", start=1)
    elif how == "reworded":
        (workspace / "memory/d.md").write_text("xylophonequartz it was\n", "utf-8")
        await memory.edit("nothing", path="memory/d.md", start=1)
    kept = await memory.edit("BETA", path="memory/b.md", start=1)
    receipt = await memory.forget(path=path, start=1)
    assert receipt.complete
    assert with_secret(workspace) == []
    ((before, after),) = [(trace.before, trace.after) for trace in receipt.traces if trace.place == "undo: changes"]
    assert before >= 1
    assert after == 0
    assert (await memory.changes())[0].name == kept.change


async def test_common_metadata_and_marks_make_no_record_hold_a_text(memory, workspace):
    flushed = await memory.flush(MESSAGES, file="2024-06-01.md")
    await memory.move("2024-06-02.md", path="memory/2024-06-01.md")
    (workspace / "memory/d.md").write_text("# D\n\n---\n\n- plums\n  [origin: flush]\n", "utf-8")
    await memory.forget(path="memory/d.md")
    assert flushed.change in [change.name for change in await memory.changes()]


async def test_forgetting_in_a_scope_leaves_the_records_of_others(workspace):
    async with Memory(configured(workspace), scope="anna") as anna, Memory(configured(workspace), scope="bob") as bob:
        for memory in (anna, bob):
            await memory.remember(SECRET, file="c.md")
            await memory.edit("- tea", path=f"memory/{'anna' if memory is anna else 'bob'}/c.md", start=1)
            await memory.remember(SECRET, file="c.md")
        receipt = await anna.forget(path="memory/anna/c.md", start=2)
        assert [(trace.before, trace.after) for trace in receipt.traces if trace.place == "undo: changes"] == [(3, 0)]
        assert await anna.changes() == []
        assert len(await bob.changes()) == 3


async def test_an_unnamed_undo_never_takes_a_change_before_what_was_forgotten(memory):
    await memory.forget(path="memory/b.md", start=1)
    with pytest.raises(QueryError, match=r"There is no change to undo: forget in memory cannot be undone\."):
        await memory.undo()
    earlier = await memory.remember("delta", file="d.md")
    for start in (3, 1):  # the record of the first holds no text, so the second leaves it
        await memory.forget(path="memory/b.md", start=1) if start == 1 else await memory.forget(id="t")
    with pytest.raises(QueryError, match=f"forget in memory, .*: kipu undo {earlier.change} .remember in memory/d.md"):
        await memory.undo()
    assert [change.name for change in await memory.changes()] == [earlier.change]
    await memory.undo(earlier.change)


async def test_what_a_scope_forgets_is_no_change_to_another(workspace):
    async with Memory(configured(workspace), scope="anna") as anna, Memory(configured(workspace), scope="bob") as bob:
        note = await bob.remember("coffee", file="c.md")
        await anna.remember("tea", file="c.md")
        await anna.forget(path="memory/anna/c.md", start=1)
        assert (await bob.undo()).name == note.change
