"""Memory files are changed whole or not at all, whatever happens in the middle."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import itertools
import json
import os
import shutil
import stat
import time
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import with_doubles

from kipu import FilesConfig, Memory
from kipu.config import WritingConfig
from kipu.errors import FileChangedError, KipuError, MemoryFileError
from kipu.keeping import step as one_step
from kipu.keeping import transaction
from kipu.keeping.step import FileChange

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kipu.keeping.writer import Writer

POSIX = pytest.mark.skipif(os.name == "nt", reason="permissions, links and pipes are those of POSIX")
OLD, NEW, THEIRS = b"old\n", b"new\n", b"theirs\n"


def configured(workspace: Path) -> Any:
    return attrs.evolve(with_doubles(workspace), writing=WritingConfig(filters=[]))


def writer_of(workspace: Path) -> Writer:
    return Memory(configured(workspace))._writer


@pytest.fixture
def writer(workspace: Path) -> Writer:
    return writer_of(workspace)


@pytest.fixture
def folder(workspace: Path) -> Path:
    folder = workspace / ".kipu/writing"
    folder.mkdir(parents=True)
    return folder


def change(file: Path, after: bytes | None) -> FileChange:
    return FileChange(str(file), file.read_bytes() if file.exists() else None, after)


def files_in(workspace: Path, count: int, data: bytes | None = OLD) -> list[Path]:
    files = [workspace / f"memory/{name}.md" for name in "abc"[:count]]
    for file in files:
        if data is not None:
            file.write_bytes(data)
    return files


def texts(workspace: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((workspace / "memory").iterdir())}


# --- all or none ---------------------------------------------------------------------------------------------------


async def test_files_are_made_changed_and_removed_together(workspace, writer, remains):
    one, two, three = (workspace / f"memory/{name}.md" for name in ("one", "two", "deep/three"))
    one.write_bytes(b"one")
    two.write_bytes(b"two")
    async with writer.locked():
        await writer.commit(change(one, b"ONE"), change(two, None), change(three, b"THREE"))
    assert (one.read_bytes(), two.exists(), three.read_bytes()) == (b"ONE", False, b"THREE")
    assert remains(workspace) == []


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_if_one_file_has_changed_none_is_changed(workspace, writer, which, remains):
    files = files_in(workspace, 3)
    changes = [change(file, NEW) for file in files]
    files[which].write_bytes(THEIRS)
    async with writer.locked():
        with pytest.raises(FileChangedError, match="Nothing was changed"):
            await writer.commit(*changes)
    assert [file.read_bytes() for file in files] == [THEIRS if at == which else OLD for at in range(3)]
    assert remains(workspace) == []


async def test_if_one_file_cannot_be_written_none_is_changed(workspace, writer, remains):
    (one,) = files_in(workspace, 1)
    async with writer.locked():
        with pytest.raises(MemoryFileError, match="Nothing was changed"):
            await writer.commit(change(one, NEW), FileChange(str(one / "two.md"), None, NEW))
    assert one.read_bytes() == OLD
    assert remains(workspace) == []


async def test_a_commit_that_has_begun_is_finished_although_its_task_is_cancelled(workspace, writer, remains):
    files = [workspace / f"memory/{number}.md" for number in range(20)]

    async def work() -> None:
        async with writer.locked():
            await writer.commit(*[FileChange(str(file), None, NEW) for file in files])

    for turns in range(1, 12):
        task = asyncio.create_task(work())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        async with writer.locked():
            there = {file.exists() for file in files}
        assert len(there) == 1
        assert remains(workspace) == []
        for file in files:
            file.unlink(missing_ok=True)


@pytest.mark.parametrize("count", [1, 2])
async def test_only_several_files_have_a_journal(workspace, writer, monkeypatch, count):
    journals = []
    replace = transaction.replace
    monkeypatch.setattr(
        transaction,
        "replace",
        lambda step: journals.append(os.path.exists(writer.transactions._journal)) or replace(step),
    )
    async with writer.locked():
        await writer.commit(*[change(file, NEW) for file in files_in(workspace, count)])
    assert journals == [count > 1] * count


async def test_a_full_disk_is_reported_with_the_name_of_the_memory_file(workspace, memory, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MemoryFileError, match=r"memory/a\.md cannot be written: No space left.*Nothing was changed"):
        await memory.remember("alpha", file="a.md")
    assert texts(workspace) == {}


@POSIX
async def test_a_private_file_is_at_no_moment_readable_by_others(workspace, writer, monkeypatch):
    (file,) = files_in(workspace, 1)
    file.chmod(0o600)
    modes = []
    fsync = os.fsync

    def look(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    async with writer.locked():
        await writer.commit(change(file, NEW))
    assert modes == [0o600]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


# --- other programs that write at the same time ----------------------------------------------------------------------


def writes(file: Path) -> None:
    with open(file, "wb") as opened:
        opened.write(THEIRS)


def replaces(file: Path, rename: Any = os.rename) -> None:
    file.with_suffix(".swp").write_bytes(THEIRS)
    rename(file.with_suffix(".swp"), file)


@pytest.mark.parametrize("save", [writes, replaces])
@pytest.mark.parametrize(("before", "after"), [(OLD, NEW), (OLD, None), (None, NEW)])
@pytest.mark.parametrize("count", [1, 2])
async def test_if_the_first_file_is_saved_after_the_last_check_nothing_is_changed(
    workspace, writer, monkeypatch, save, before, after, count, remains
):
    files = files_in(workspace, count, before)
    replace = transaction.replace

    def late(step: Any) -> bool:
        save(files[0])
        return replace(step)

    monkeypatch.setattr(transaction, "replace", late)
    async with writer.locked():
        with pytest.raises(FileChangedError, match="Nothing was written"):
            await writer.commit(*[FileChange(str(file), before, after) for file in files])
    rest = {file.name: before for file in files[1:] if before}
    assert texts(workspace) == {"a.md": THEIRS} | rest
    assert remains(workspace) == []


@pytest.mark.parametrize(("before", "after"), [(OLD, NEW), (OLD, None), (None, NEW)])
async def test_if_a_later_file_is_saved_it_stays_and_the_new_text_is_kept_beside_it(
    workspace, writer, monkeypatch, before, after, remains
):
    files = files_in(workspace, 2, before)
    replace = transaction.replace

    def late(step: Any) -> bool:
        if step.real == str(files[1]):
            files[1].write_bytes(THEIRS)
        return replace(step)

    monkeypatch.setattr(transaction, "replace", late)
    with writer.context.notices.collect() as notices:
        async with writer.locked():
            await writer.commit(*[FileChange(str(file), before, after) for file in files])
    expected = {"a.md": after, "b.md": THEIRS, "b.recovered.md": after}
    assert texts(workspace) == {name: data for name, data in expected.items() if data is not None}
    assert any("b.recovered.md" in notice for notice in notices) == (after is not None)
    assert remains(workspace) == []


@pytest.mark.parametrize("after", [NEW, None])
async def test_what_is_saved_during_the_rename_is_kept_beside_the_file(workspace, writer, monkeypatch, after, remains):
    (file,) = files_in(workspace, 1)
    (workspace / "memory/a.recovered.md").write_bytes(b"taken\n")
    link = one_step._link_old

    def late(step: Any) -> bool:
        linked = link(step)
        file.write_bytes(THEIRS)
        return linked

    monkeypatch.setattr(one_step, "_link_old", late)
    with writer.context.notices.collect() as notices:
        async with writer.locked():
            await writer.commit(FileChange(str(file), OLD, after))
    assert (workspace / "memory/a.recovered-2.md").read_bytes() == THEIRS
    assert (file.read_bytes() if file.exists() else None) == after
    (notice,) = notices
    assert notice.startswith(f"{file} was changed by another program at the same time. One version is kept in")
    assert remains(workspace) == []


@pytest.mark.parametrize("after", [NEW, None])
@pytest.mark.parametrize("which", [0, 1])
async def test_what_is_saved_by_a_rename_while_the_old_file_is_compared_stays(
    workspace, writer, monkeypatch, after, which, remains
):
    files = files_in(workspace, 2)
    link = one_step._link_old

    def late(step: Any) -> bool:
        linked = link(step)
        if step.real == str(files[which]):
            replaces(files[which], os.replace)
        return linked

    monkeypatch.setattr(one_step, "_link_old", late)
    with writer.context.notices.collect() as notices:
        async with writer.locked():
            with pytest.raises(FileChangedError) if which == 0 else contextlib.nullcontext():
                await writer.commit(*[FileChange(str(file), OLD, after) for file in files])
    expected = {"a.md": THEIRS, "b.md": OLD} if which == 0 else {"a.md": after, "b.md": THEIRS, "b.recovered.md": after}
    assert texts(workspace) == {name: data for name, data in expected.items() if data is not None}
    assert any("b.recovered.md" in notice for notice in notices) == ("b.recovered.md" in texts(workspace))
    assert remains(workspace) == []


async def test_a_file_of_another_scope_is_not_named_in_a_notice(workspace, monkeypatch):
    async with Memory(configured(workspace), scope="bob") as memory:
        await memory.remember("beta", file="private.md")
    (workspace / "memory/bob/private.md").write_bytes(OLD)
    writer = Memory(configured(workspace), scope="anna")._writer
    link = one_step._link_old
    monkeypatch.setattr(
        one_step,
        "_link_old",
        lambda step: link(step) and bool((workspace / "memory/bob/private.md").write_bytes(b"x")),
    )
    with writer.context.notices.collect() as notices:
        async with writer.locked():
            await writer.commit(FileChange(str(workspace / "memory/bob/private.md"), OLD, NEW))
    assert len(notices) == 1
    assert "private" not in notices[0]


async def test_without_hard_links_files_are_changed_all_the_same(workspace, writer, monkeypatch):
    def no_links(old: str, new: str) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(os, "link", no_links)
    one, two = files_in(workspace, 2)
    async with writer.locked():
        await writer.commit(change(one, NEW), change(two, None), FileChange(f"{two}.md", None, NEW))
        with pytest.raises(FileChangedError):
            await writer.commit(FileChange(str(one), None, NEW))
    assert texts(workspace) == {"a.md": NEW, "b.md.md": NEW}


# --- killed --------------------------------------------------------------------------------------------------------

CALLS = ("rename", "replace", "link", "remove", "unlink")


class Killed(BaseException):
    """The process is killed at this point."""


def commit_and_be_killed(workspace: Path, changes: list[FileChange], save: Callable[[], None] | None, at: int) -> None:
    """Commit, with another program that saves the last file at that moment; be killed at one of the calls."""
    calls = itertools.count()
    replace = transaction.replace

    def killing(method: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if next(calls) >= at:  # from then on nothing is done, also in what would run at the end
                raise Killed
            result = method(*arguments)
            if next(calls) >= at:
                raise Killed
            return result

        return call

    def late(step: Any) -> bool:
        if save is not None and step.real == changes[-1].real:
            save()
        return replace(step)

    (workspace / ".kipu/writing").mkdir(parents=True, exist_ok=True)
    writer = writer_of(workspace)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transaction, "replace", late)
        for name in CALLS:
            patch.setattr(os, name, killing(getattr(os, name)))
        with contextlib.suppress(Killed, KipuError):
            writer.transactions.commit(changes, "edit")


@pytest.mark.slow
@given(
    count=st.sampled_from([1, 2, 3]),
    before=st.sampled_from([OLD, OLD, None]),
    after=st.sampled_from([NEW, None]),
    saves=st.booleans(),
    at=st.integers(0, 40),
)
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_kill_at_any_moment_leaves_all_or_nothing_and_loses_nothing(
    tmp_path_factory, count, before, after, saves, at, remains
):
    workspace = tmp_path_factory.mktemp("killed") / "project"
    (workspace / "memory").mkdir(parents=True)
    files = files_in(workspace, count, before)
    changes = [FileChange(str(file), before, after) for file in files]
    commit_and_be_killed(workspace, changes, (lambda: replaces(files[-1])) if saves else None, at)
    saved = THEIRS in texts(workspace).values()
    writer_of(workspace).transactions.recover()
    assert remains(workspace) == []
    left = texts(workspace)
    recovered = {name for name in left if "recovered" in name}
    if saved:
        assert left[files[-1].name] == THEIRS
        files = files[:-1]
    else:
        assert not recovered
    assert len({left.get(file.name) for file in files}) <= 1
    assert {left.get(file.name) for file in files} <= {before, after}
    history = writer_of(workspace).transactions.history
    if not saved and before != after:  # what was made can be undone, and nothing else
        made = left.get(files[-1].name) == after
        assert [[each.after for each in history.revert(record)] for record in history.records()] == (
            [[before] * count] if made else []
        )
    assert set(left) - recovered <= {"a.md", "b.md", "c.md"}


@pytest.fixture
def left(workspace: Path, folder: Path) -> Callable[[int], list[Path]]:
    """Leave what a process leaves that is killed after ``done`` of two changes."""

    def left(done: int) -> list[Path]:
        files = files_in(workspace, 2)
        rows = []
        for number, file in enumerate(files):
            temporary = folder / f"{number:016x}.tmp"
            if number < done:
                file.write_bytes(NEW)
            else:
                temporary.write_bytes(NEW)
            rows.append([f"memory/{file.name}", f".kipu/writing/{temporary.name}", digest(OLD), digest(NEW)])
        (folder / "journal.json").write_text(json.dumps(rows), "utf-8")
        return files

    return left


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("done", [0, 1, 2])
@pytest.mark.parametrize("what", ["index", "search", "remember", "read"])
async def test_what_was_begun_is_finished_before_anything_else(workspace, memory, left, done, what, remains):
    left(done)
    if what == "remember":
        await memory.remember("something else", file="c.md")
    elif what == "read":
        assert await memory.read("memory/b.md") == "new"
    elif what == "search":
        (result,) = await memory.search("new")
        assert [place.path for place in result.also_in] == ["memory/b.md"]
    else:
        await memory.index()
    assert [texts(workspace)[name] for name in ("a.md", "b.md")] == [NEW, NEW]
    assert remains(workspace) == []


async def test_a_file_of_another_scope_that_cannot_be_finished_is_not_named(workspace, folder):
    (workspace / "memory/bob").mkdir()
    (workspace / "memory/bob/private").write_bytes(b"a file in the place of a folder")
    (folder / "0123456789abcdef.tmp").write_bytes(NEW)
    row = ["memory/bob/private/plans.md", ".kipu/writing/0123456789abcdef.tmp", "", digest(NEW)]
    (folder / "journal.json").write_text(json.dumps([row, row]), "utf-8")
    for scope, names in ((None, True), ("anna", False)):
        async with Memory(configured(workspace), scope=scope) as memory:
            with pytest.raises(MemoryFileError, match="A killed process left a change half done") as caught:
                await memory.remember("alpha")
            assert ("private" in str(caught.value)) is names


async def test_a_file_saved_since_the_kill_stays_and_the_new_text_is_kept_beside_it(workspace, memory, left, remains):
    left(1)[1].write_bytes(THEIRS)
    results = await memory.search("theirs new")
    assert texts(workspace) == {"a.md": NEW, "b.md": THEIRS, "b.recovered.md": NEW}
    places = [place for result in results for place in (result, *result.also_in)]
    assert {place.path for place in places} == {f"memory/{name}" for name in texts(workspace)}
    assert any("b.recovered.md" in notice for notice in results.notices)
    assert remains(workspace) == []


async def test_a_file_that_was_changed_and_then_saved_stays(workspace, memory, left):
    left(2)[1].write_bytes(THEIRS)
    await memory.index()
    assert texts(workspace) == {"a.md": NEW, "b.md": THEIRS}


@pytest.mark.parametrize("is_moved", [False, True])
async def test_a_change_that_was_taken_back_since_the_kill_is_not_finished(
    workspace, folder, memory, left, is_moved, remains
):
    one, _ = left(1)
    one.write_bytes(OLD)  # by git checkout
    if is_moved:  # to a.md, which git removes
        one.unlink()
        row = ["memory/a.md", ".kipu/writing/0000000000000000.tmp", "", digest(OLD)]
        old = ["memory/b.md", ".kipu/writing/0000000000000001.tmp", digest(OLD), ""]
        (folder / "0000000000000001.tmp").unlink()
        (folder / "journal.json").write_text(json.dumps([row, old]), "utf-8")
    await memory.index()
    assert texts(workspace) == {"b.md": OLD} | ({} if is_moved else {"a.md": OLD})
    assert remains(workspace) == []


async def test_a_change_with_a_file_that_it_leaves_as_it_was_is_finished(workspace, folder, memory, left):
    left(1)
    rows = json.loads((folder / "journal.json").read_text("utf-8"))
    rows[0][2] = digest(NEW)  # an edit of two entries, one of which says that already
    (folder / "journal.json").write_text(json.dumps(rows), "utf-8")
    await memory.index()
    assert texts(workspace) == {"a.md": NEW, "b.md": NEW}


async def test_a_journal_that_was_not_written_to_the_end_is_nothing(workspace, memory, left, remains):
    left(0)
    (workspace / ".kipu/writing/journal.json").rename(workspace / ".kipu/writing/journal.json.new")
    await memory.index()
    assert texts(workspace) == {"a.md": OLD, "b.md": OLD}
    assert remains(workspace) == []


async def test_a_copy_of_a_workspace_finishes_what_was_begun_in_itself(workspace, left, tmp_path):
    left(1)
    shutil.copytree(workspace, tmp_path / "copy")
    async with Memory(configured(tmp_path / "copy")) as memory:
        await memory.index()
    assert texts(tmp_path / "copy") == {"a.md": NEW, "b.md": NEW}
    assert texts(workspace) == {"a.md": NEW, "b.md": OLD}


# --- a journal that Kipu did not write -------------------------------------------------------------------------------

ROW = ["memory/a.md", f".kipu/writing/{0:016x}.tmp", digest(OLD), digest(THEIRS)]


@pytest.mark.parametrize(
    "journal",
    [
        "[" * 200_000,
        "\udcff",
        "{}x",
        "[[]]",
        "[5]",
        '{"real": 1}',
        json.dumps([["memory/a\0.md", *ROW[1:]]]),
        json.dumps([["memory/\ud800.md", *ROW[1:]]]),
        json.dumps([["memory/a.txt", *ROW[1:]]]),
        json.dumps([["kipu.md/../../outside.md", *ROW[1:]]]),
        json.dumps([["/etc/motd.md", *ROW[1:]]]),
        json.dumps([["memory/link/outside.md", *ROW[1:]]]),
        json.dumps([[5, *ROW[1:]]]),
        json.dumps([[ROW[0], ".kipu/index.sqlite", *ROW[2:]]]),
        json.dumps([[ROW[0], "memory/b.md", *ROW[2:]]]),
        json.dumps([[ROW[0], f"memory/deep/.kipu-{0:016x}.tmp", *ROW[2:]]]),
        json.dumps([[*ROW[:2], "x", ROW[3]]]),
        json.dumps([[*ROW[:3]]]),
    ],
    ids=range(18),
)
async def test_a_journal_that_kipu_did_not_write_is_renamed_and_changes_nothing(
    tmp_path, workspace, folder, memory, journal
):
    (tmp_path / "outside.md").write_bytes(OLD)
    (workspace / "memory/link").symlink_to(tmp_path, target_is_directory=True)
    (workspace / "memory/deep").mkdir()
    files_in(workspace, 2)
    (folder / f"{0:016x}.tmp").write_bytes(THEIRS)
    (folder / "journal.json").write_bytes(journal.encode("utf-8", "surrogateescape"))
    (notice,) = (await memory.remember("gamma", file="c.md")).notices
    assert notice.endswith(f"It was ignored, and renamed to {folder.resolve() / 'journal.ignored.json'}.")
    assert (folder / "journal.ignored.json").exists()
    assert (tmp_path / "outside.md").read_bytes() == OLD
    assert [(workspace / f"memory/{name}.md").read_bytes() for name in "ab"] == [OLD, OLD]
    assert os.listdir(folder) == ["journal.ignored.json"]


@pytest.fixture
def shared(workspace: Path, tmp_path: Path) -> Path:
    """Configure a folder outside the workspace, with a file."""
    (workspace / "kipu.toml").write_text('[files]\npaths = ["../shared"]\n', "utf-8")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/a.md").write_bytes(OLD)
    return tmp_path / "shared"


async def test_a_journal_that_leads_out_of_the_workspace_changes_nothing_and_loses_nothing(workspace, folder, shared):
    (inside,) = files_in(workspace, 1)
    (folder / f"{0:016x}.tmp").write_bytes(NEW)
    (folder / f"{1:016x}.tmp").write_bytes(THEIRS)
    rows = [
        [str(shared / "new.md"), f".kipu/writing/{0:016x}.tmp", "", digest(NEW)],
        ["memory/a.md", f".kipu/writing/{1:016x}.tmp", digest(OLD), digest(THEIRS)],
        [str(shared / "a.md"), f".kipu/writing/{2:016x}.tmp", digest(OLD), ""],
    ]
    (folder / "journal.json").write_text(json.dumps(rows), "utf-8")
    async with Memory(workspace) as memory:
        (notice,) = (await memory.index()).notices
    assert {path.name: path.read_bytes() for path in shared.iterdir()} == {"a.md": OLD}
    assert inside.read_bytes() == OLD
    kept = {f"{0:016x}.tmp.md": NEW, f"{1:016x}.tmp.md": THEIRS}
    assert {name: (folder / name).read_bytes() for name in kept} == kept
    assert os.name == "nt" or {stat.S_IMODE((folder / name).stat().st_mode) for name in kept} == {0o600}
    assert sorted(os.listdir(folder)) == sorted([*kept, "journal.ignored.json"])
    assert "changes files outside the workspace. It was ignored" in notice
    assert all(name in notice for name in kept)


@pytest.mark.parametrize("after", [digest(THEIRS), ""])
async def test_temporary_files_outside_the_workspace_are_neither_moved_nor_removed(workspace, folder, shared, after):
    (inside,) = files_in(workspace, 1)
    temporary = workspace.parent / f".kipu-{0:016x}.tmp"
    temporary.write_bytes(THEIRS)
    (folder / "journal.json").write_text(json.dumps([["memory/a.md", str(temporary), digest(OLD), after]]), "utf-8")
    async with Memory(workspace) as memory:
        await memory.index()
    assert (temporary.read_bytes(), inside.read_bytes()) == (THEIRS, OLD)


async def test_a_change_outside_the_workspace_that_fails_half_way_says_where_the_rest_will_be(
    workspace, shared, monkeypatch
):
    files = [*files_in(workspace, 1), shared / "a.md"]
    replace = transaction.replace

    def failing(step: Any) -> bool:
        if step.real == str(files[1]):
            raise OSError(errno.EIO, os.strerror(errno.EIO), step.real)
        return replace(step)

    async with Memory(workspace) as memory:
        with monkeypatch.context() as patch:
            patch.setattr(transaction, "replace", failing)
            async with memory._writer.locked():
                with pytest.raises(MemoryFileError, match=r"writes keeps the rest in .*writing\."):
                    await memory._writer.commit(*[change(file, NEW) for file in files])
        (notice,) = (await memory.index()).notices
    kept = notice.rpartition("kept in ")[2].removesuffix(".")
    assert [file.read_bytes() for file in files] == [NEW, OLD]
    assert (workspace / kept).read_bytes() == NEW


def a_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def a_link_to_nothing(path: Path, outside: Path) -> None:
    path.symlink_to(outside.with_name("nothing"))


def a_pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def a_folder(path: Path, outside: Path) -> None:
    path.mkdir()


def a_large_file(path: Path, outside: Path) -> None:
    path.touch()
    os.truncate(path, 3_000_000_000)


@POSIX
@pytest.mark.parametrize("put", [a_link, a_link_to_nothing, a_pipe, a_folder, a_large_file])
@pytest.mark.parametrize("name", ["journal.json", "journal.json.new", f"{0:016x}.tmp", "letter.odt"])
async def test_what_stands_where_kipu_writes_is_not_followed(tmp_path, workspace, folder, memory, put, name):
    outside = tmp_path / "outside"
    outside.write_bytes(b"[]")
    put(folder / name, outside)
    files_in(workspace, 1)
    if put is a_folder and name == "journal.json.new":
        with pytest.raises(MemoryFileError, match="Nothing was changed"):
            await memory.move("b.md", path="memory/a.md")
        return
    await memory.move("b.md", path="memory/a.md")
    assert texts(workspace) == {"b.md": OLD}
    assert outside.read_bytes() == b"[]"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "project"]
    kept = {"journal.json": "journal.ignored.json", "letter.odt": "letter.odt"}.get(name, name)
    assert os.listdir(folder) == ([kept] if kept != name or name == "letter.odt" or put is a_folder else [])


@POSIX
async def test_no_memory_file_is_replaced_by_a_symlink(workspace, folder, memory, tmp_path):
    (tmp_path / "theirs.md").write_bytes(THEIRS)
    files_in(workspace, 1)
    (folder / f"{0:016x}.tmp").symlink_to(tmp_path / "theirs.md")
    (folder / "journal.json").write_text(json.dumps([ROW]), "utf-8")
    await memory.remember("beta", file="b.md")
    assert not (workspace / "memory/a.md").is_symlink()
    assert (workspace / "memory/a.md").read_bytes() == OLD


@POSIX
@pytest.mark.parametrize("what", [".kipu", ".kipu/writing"])
async def test_a_symlink_in_the_place_of_kipus_folder_is_not_followed(workspace, memory, tmp_path, what):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/journal.json").write_text("[]", "utf-8")
    (workspace / what).parent.mkdir(exist_ok=True)
    (workspace / what).symlink_to(tmp_path / "theirs", target_is_directory=True)
    with pytest.raises(MemoryFileError, match="symbolic link"):
        await memory.remember("something")
    assert os.listdir(tmp_path / "theirs") == ["journal.json"]


async def test_a_file_in_the_place_of_kipus_folder_is_named(workspace, memory):
    (workspace / ".kipu").mkdir()
    (workspace / ".kipu/writing").write_text("mine", "utf-8")
    with pytest.raises(MemoryFileError, match=r"\.kipu/writing cannot be written: File exists"):
        await memory.remember("alpha", file="a.md")
    assert (workspace / ".kipu/writing").read_text("utf-8") == "mine"


# --- errors of the system ------------------------------------------------------------------------------------------

FAILING = (*CALLS, "open", "fsync", "chmod", "stat", "lstat", "scandir")


class Erring:
    """Calls of the system, some of which in a row end in an error instead of doing anything."""

    def __init__(self, at: int, errors: int, problem: int) -> None:
        self.calls, self.bad, self.problem = itertools.count(), range(at, at + errors), problem

    def erring(self, method: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            if next(self.calls) in self.bad:
                raise OSError(self.problem, os.strerror(self.problem), str(arguments[0]))
            return method(*arguments, **options)

        return call


@pytest.mark.slow
@given(
    count=st.sampled_from([1, 2, 3]),
    change=st.sampled_from([(OLD, NEW), (OLD, None), (None, NEW)]),
    at=st.integers(0, 80),
    errors=st.sampled_from([1, 1, 2, 3, 5, 1000]),
    problem=st.sampled_from([errno.EIO, errno.EACCES, errno.ENOSPC, errno.EROFS]),
)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_the_system_refuses_the_outcome_is_reported_truly_and_recovery_completes_it(
    tmp_path_factory, count, change, at, errors, problem, remains
):
    before, after = change
    workspace = tmp_path_factory.mktemp("refused") / "project"
    (workspace / "memory").mkdir(parents=True)
    (workspace / ".kipu/writing").mkdir(parents=True)
    files = files_in(workspace, count, before)
    system, writer = Erring(at, errors, problem), writer_of(workspace)
    with pytest.MonkeyPatch.context() as patch:
        for name in FAILING:
            patch.setattr(os, name, system.erring(getattr(os, name)))
        try:
            writer.transactions.commit([FileChange(str(file), before, after) for file in files])
            outcome = "made"
        except KipuError as error:
            outcome = str(error)

    def states() -> list[bytes | None]:
        return [file.read_bytes() if file.exists() else None for file in files]

    if outcome == "made":
        assert states() == [after] * count
    elif "Nothing was changed" in outcome:
        assert states() == [before] * count
    expected = states() if outcome == "made" or "Nothing was changed" in outcome else None
    writer_of(workspace).transactions.recover()
    assert states() == expected or (expected is None and states() in ([before] * count, [after] * count))
    assert remains(workspace) == []
    assert set(os.listdir(workspace / "memory")) <= {file.name for file in files}


# --- another disk ----------------------------------------------------------------------------------------------------


async def test_on_another_disk_temporary_files_lie_beside_the_target(workspace, tmp_path, monkeypatch):
    vault = tmp_path / "vault"
    vault.mkdir()
    stale, fresh = vault / f".kipu-{1:016x}.tmp", vault / f".kipu-{2:016x}.tmp"
    for path in (stale, fresh, vault / ".kipu-notes.md"):
        path.write_bytes(OLD)
    real = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **options: OtherDisk(real(path, **options), str(path) == str(vault)))
    later = time.time() + 90_000
    monkeypatch.setattr(time, "time", lambda: later)
    os.utime(fresh, (later, later))
    config = attrs.evolve(configured(workspace), files=FilesConfig(paths=[str(vault)]))
    writer, seen = Memory(config)._writer, []
    prepare = transaction.prepare
    monkeypatch.setattr(
        transaction, "prepare", lambda change, temporary: (seen.append(temporary), prepare(change, temporary))
    )
    async with writer.locked():
        await writer.commit(FileChange(str(vault / "a.md"), None, NEW))
    assert [os.path.dirname(path) for path in seen] == [str(vault)]
    assert sorted(os.listdir(vault)) == sorted([".kipu-notes.md", fresh.name, "a.md"])


class OtherDisk:
    """The status of a file that lies on another disk, perhaps."""

    def __init__(self, status: os.stat_result, elsewhere: bool) -> None:
        self._status = status
        self.st_dev = -1 if elsewhere else status.st_dev

    def __getattr__(self, name: str) -> Any:
        return getattr(self._status, name)


async def test_what_was_begun_on_another_disk_is_finished(workspace, folder, memory, remains):
    files_in(workspace, 1)
    (workspace / f"memory/.kipu-{0:016x}.tmp").write_bytes(THEIRS)
    (folder / "journal.json").write_text(json.dumps([[ROW[0], f"memory/.kipu-{0:016x}.tmp", *ROW[2:]]]), "utf-8")
    await memory.index()
    assert texts(workspace) == {"a.md": THEIRS}
    assert remains(workspace) == []
