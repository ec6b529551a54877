"""What stands where Kipu keeps its files, and what a killed process leaves: nothing is followed, awaited or lost."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rows import with_doubles

from kipu import Memory
from kipu.config import WritingConfig
from kipu.errors import FileChangedError, KipuError, MemoryFileError
from kipu.keeping import exchanging, steps
from kipu.keeping.files import read_regular, write_new
from kipu.keeping.transaction import FileChange, Writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links, pipes and exchanges are those of POSIX")
NOT_ROOT = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="this user may read everything")

OLD, NEW, THEIRS = b"old\n", b"new\n", b"somebody's\n"


RENAME = os.replace  # also where another one stands in for it


class Killed(BaseException):
    """The process is killed at this point."""


def configured(workspace: Path) -> Any:
    return attrs.evolve(with_doubles(workspace), writing=WritingConfig(filters=[]))


@pytest.fixture
def folder(workspace: Path) -> Path:
    folder = workspace / ".kipu/writing"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def write_both(workspace: Path) -> Callable[[], Any]:
    """Change two files together, and search for what was written."""
    (workspace / "memory/a.md").write_text("- alpha\n", "utf-8")
    (workspace / "memory/b.md").write_text("- beta\n", "utf-8")

    async def write_both() -> None:
        async with Memory(configured(workspace)) as memory:
            await memory.remember("gamma", file="b.md", metadata={"id": "c"}, supersedes="memory/a.md:1")
        assert (workspace / "memory/b.md").read_text("utf-8") == "- beta\n- gamma\n  [id: c]\n"
        assert "superseded_by: c" in (workspace / "memory/a.md").read_text("utf-8")

    return write_both


# --- what stands in the way ----------------------------------------------------------------------------------------


def a_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def a_link_to_nothing(path: Path, outside: Path) -> None:
    path.symlink_to(outside.with_name("nothing"))


def a_pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def a_folder(path: Path, outside: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("put", [a_link, a_link_to_nothing, a_pipe, a_folder])
@pytest.mark.parametrize("name", ["journal.json", "journal.json.new", "PID-0.tmp", f"{0:016x}.elsewhere"])
async def test_what_stands_where_we_write_is_not_followed_and_does_not_keep_us(tmp_path, folder, write_both, put, name):
    outside = tmp_path / "outside"
    outside.write_text("precious", "utf-8")
    put(folder / name.replace("PID", str(os.getpid())), outside)
    if put is a_folder and name.endswith(".tmp"):
        with pytest.raises(MemoryFileError, match="Nothing was changed"):
            await write_both()
    else:
        await write_both()
    assert outside.read_text("utf-8") == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "project"]


@pytest.mark.parametrize("name", ["journal.json", "journal.json.new"])
async def test_what_was_in_the_way_of_a_journal_is_set_aside_and_told(workspace, folder, name):
    (folder / name).mkdir()
    (folder / name / "letter").write_text("mine", "utf-8")
    async with Memory(configured(workspace)) as memory:
        (note,) = (await memory.remember("gamma", file="b.md")).notices
    assert (workspace / ".kipu/unusable-1" / name / "letter").read_text("utf-8") == "mine"
    assert str(workspace / ".kipu/unusable-1") in note


@pytest.mark.parametrize("size", [0, 3, 100_000])
@pytest.mark.parametrize("put", [a_link, a_link_to_nothing, a_pipe, None])
def test_a_file_is_made_anew_whatever_stands_there(tmp_path, put, size):
    outside, path = tmp_path / "outside", tmp_path / "path"
    outside.write_bytes(b"precious")
    if put is not None:
        put(path, outside)
    write_new(path, b"x" * size)
    assert not path.is_symlink()
    assert read_regular(path) == b"x" * size
    assert outside.read_bytes() == b"precious"
    assert not (tmp_path / "nothing").exists()


def test_a_pipe_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is no regular file"):
        read_regular(tmp_path / "pipe")


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_new(tmp_path / "path", b"x", name="memory/a.md")
    assert caught.value.filename == "memory/a.md"


async def test_a_memory_file_for_which_there_is_no_room_is_named(workspace, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with Memory(configured(workspace)) as memory:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(MemoryFileError, match=r"memory/a\.md cannot be written: No space left"):
            await memory.remember("alpha", file="a.md")
    assert not (workspace / "memory/a.md").exists()


async def test_a_journal_that_does_not_say_what_was_written_is_an_error_and_nothing_is_done(workspace, folder):
    files = [workspace / f"memory/{name}.md" for name in "ab"]
    for file in files:
        file.write_bytes(OLD)
    writer = Writer(workspace / ".kipu", lambda path: True, wait=0)
    replace = os.replace
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", lambda old, new: replace(old, f"{new}.gone"))
        async with writer.locked():
            with pytest.raises(MemoryFileError, match="cannot be written"):
                await writer.apply([FileChange(str(file), OLD, NEW) for file in files])
    assert [file.read_bytes() for file in files] == [OLD, OLD]


# --- a journal, or a note, that cannot be used ---------------------------------------------------------------------

STEP = {"real": "memory/a.md", "temporary": ".kipu/writing/1-0.tmp", "before": "0" * 64, "after": "1" * 64}


def too_long(workspace: Path) -> dict[str, str]:
    return STEP | {"real": f"memory/{'a' * 300}.md"}


def in_a_circle(workspace: Path) -> dict[str, str]:
    (workspace / "memory/circle.md").symlink_to("circle.md")
    return STEP | {"real": "memory/circle.md"}


def of_a_pipe(workspace: Path) -> dict[str, str]:
    os.mkfifo(workspace / "memory/pipe.md")
    return STEP | {"real": "memory/pipe.md"}


def of_a_folder(workspace: Path) -> dict[str, str]:
    (workspace / "memory/folder.md").mkdir()
    return STEP | {"real": "memory/folder.md"}


def of_a_large_file(workspace: Path) -> dict[str, str]:
    with open(workspace / "memory/large.md", "wb") as file:
        file.truncate(65_000_000)
    return STEP | {"real": "memory/large.md"}


def of_somebody_elses(workspace: Path) -> dict[str, str]:
    return STEP | {"real": "/etc/motd.md"}


@pytest.mark.parametrize("first", ["search", "remember"])
@pytest.mark.parametrize("make", [too_long, in_a_circle, of_a_pipe, of_a_folder, of_a_large_file, of_somebody_elses])
async def test_a_journal_that_cannot_be_used_blocks_nobody(workspace, folder, make, first):
    (folder / "journal.json").write_text(json.dumps([make(workspace)]), "utf-8")
    (folder / "1-0.tmp.saved").write_bytes(b"what a file said")
    (workspace / "memory/b.md").write_text("- beta\n", "utf-8")
    async with Memory(configured(workspace)) as memory:
        if first == "search":
            await memory.search("beta")
        await memory.remember("gamma", file="b.md")
    assert (workspace / "memory/b.md").read_text("utf-8") == "- beta\n- gamma\n"
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    "data", [b"[" * 9000, b"{}", b'[{"real": 1}]', b"\xff\xfe", json.dumps([STEP | {"before": "x"}]).encode()]
)
async def test_a_journal_that_is_none_is_set_aside_with_what_may_belong_to_it(workspace, folder, data):
    (folder / "journal.json").write_bytes(data)
    (folder / "1-0.tmp.saved").write_bytes(b"what a file said")
    async with Memory(configured(workspace)) as memory:
        notices = (await memory.remember("gamma", file="b.md")).notices
    aside = workspace / ".kipu/unusable-1"
    assert (aside / "1-0.tmp.saved").read_bytes() == b"what a file said"
    assert [str(aside) in note for note in notices] == [True]
    assert os.listdir(folder) == []


@NOT_ROOT
@pytest.mark.parametrize("which", [".kipu/writing/journal.json", "memory/a.md"])
async def test_a_journal_or_a_file_that_may_not_be_read_blocks_nobody(workspace, folder, which):
    (workspace / "memory/a.md").write_text("- alpha\n", "utf-8")
    (folder / "journal.json").write_text(json.dumps([STEP]), "utf-8")
    (workspace / which).chmod(0)
    async with Memory(configured(workspace)) as memory:
        await memory.remember("gamma", file="b.md")
    assert (workspace / ".kipu/unusable-1/journal.json").exists()


@pytest.mark.parametrize(
    "path", ["{}/x\0y/.kipu-1-1.tmp", "{}/link/.kipu-1-1.tmp", "{}/../../mine/.kipu-1-1.tmp", "\xff"]
)
async def test_a_note_of_what_is_elsewhere_removes_nothing_outside(workspace, tmp_path, folder, path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/.kipu-1-1.tmp").write_text("precious", "utf-8")
    (workspace / "memory/link").symlink_to(tmp_path / "mine", target_is_directory=True)
    said = path.format(workspace / "memory").encode("latin-1")
    (folder / f"{0:016x}.elsewhere").write_bytes(said)
    async with Memory(configured(workspace)) as memory:
        await memory.remember("gamma", file="b.md")
    assert (tmp_path / "mine/.kipu-1-1.tmp").read_text("utf-8") == "precious"
    assert (workspace / f".kipu/unusable-1/{0:016x}.elsewhere").read_bytes() == said


async def test_a_folder_where_a_mark_is_to_stand_is_an_error_of_one_sentence(workspace):
    (workspace / "memory/a.md").write_text("- alpha\n", "utf-8")
    (workspace / ".kipu/forgetting").mkdir(parents=True)
    async with Memory(configured(workspace)) as memory:
        assert len(await memory.search("alpha")) == 1
        with pytest.raises(MemoryFileError, match="forgetting cannot be written"):
            await memory.forget(path="memory/a.md", start=1)
    assert (workspace / "memory/a.md").read_text("utf-8") == "- alpha\n"


# --- at the moment of a change -------------------------------------------------------------------------------------


def saves(real: Path) -> None:
    real.with_suffix(".swp").write_bytes(THEIRS)
    RENAME(real.with_suffix(".swp"), real)


def saves_the_same(real: Path) -> None:
    real.with_suffix(".swp").write_bytes(OLD)
    RENAME(real.with_suffix(".swp"), real)


def saves_much(real: Path) -> None:
    with open(real, "wb") as file:
        file.truncate(65_000_000)


def removes(real: Path) -> None:
    real.unlink()


def links(real: Path) -> None:
    """Puts a link there to a file that says the same."""
    real.with_name("target").write_bytes(OLD)
    real.unlink()
    real.symlink_to("target")


def makes_a_pipe(real: Path) -> None:
    real.unlink()
    os.mkfifo(real)


def makes_a_folder(real: Path) -> None:
    real.unlink()
    real.mkdir()
    (real / "inner").write_bytes(THEIRS)


def seen(path: Path) -> object:
    """What stands at a path, as far as somebody could lose it."""
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    if path.is_dir():
        return {inner.name: inner.read_bytes() for inner in path.iterdir()}
    if not path.exists():
        return None
    return "pipe" if path.is_fifo() else hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    "act", [saves, saves_much, removes, links, makes_a_pipe, makes_a_folder], ids=lambda act: act.__name__
)
@pytest.mark.parametrize("after", [NEW, None])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("can_exchange", [True, False])
async def test_what_somebody_does_at_the_moment_of_a_change_stays(
    workspace, monkeypatch, act, after, count, can_exchange
):
    if after is None and act in (removes, links):
        pytest.skip("what is removed is what said the same, or is gone as it was to be")
    files = [workspace / f"memory/{name}.md" for name in "ab"[:count]]
    for file in files:
        file.write_bytes(OLD)
    if not can_exchange:
        monkeypatch.setattr(exchanging, "_rename", lambda: None)
    replaced, moments = steps._replaced, [None]
    meant: list[object] = []

    def at_this_moment(step: Any) -> bool:
        if step.real == str(files[-1]) and moments:
            moments.pop()
            act(files[-1])
            meant.append(seen(files[-1]))
        return replaced(step)

    monkeypatch.setattr(steps, "_replaced", at_this_moment)
    writer = Writer(workspace / ".kipu", lambda path: True, wait=0)
    async with writer.locked():
        with pytest.raises(FileChangedError, match="Nothing was changed"):
            await writer.apply([FileChange(str(file), OLD, after) for file in files])
    assert [seen(files[-1])] == meant
    assert all(file.read_bytes() == OLD for file in files[:-1])
    assert os.listdir(workspace / ".kipu/writing") == []


@pytest.mark.parametrize("problem", [errno.ENOSYS, errno.EINVAL, errno.ENOTSUP])
def test_where_an_exchange_is_not_supported_a_file_is_replaced_all_the_same(tmp_path, monkeypatch, problem):
    def refuse(first: bytes, second: bytes) -> int:
        exchanging.ctypes.set_errno(problem)
        return -1

    monkeypatch.setattr(exchanging, "_rename", lambda: refuse)
    (tmp_path / "new").write_bytes(NEW)
    (tmp_path / "real").write_bytes(OLD)
    kept = exchanging.put_in_place_of(*(str(tmp_path / name) for name in ("new", "real", "kept")))
    assert ((tmp_path / "real").read_bytes(), read_regular(str(kept))) == (NEW, OLD)


# --- killed --------------------------------------------------------------------------------------------------------

CALLS = ("rename", "replace", "link", "remove", "unlink")


def change_and_be_killed(
    workspace: Path, count: int, after: bytes | None, act: Any, can_exchange: bool, at: int
) -> bool:
    """Change files, with somebody who acts right before; be killed before or after one of the calls that move files.

    :return: whether it came that far.
    """
    files = [workspace / f"memory/{name}.md" for name in "ab"[:count]]
    calls, moments = itertools.count(), [None]
    replaced, exchange = steps._replaced, exchanging._exchange

    def killing(method: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if next(calls) >= at:  # from then on it does nothing, whatever it would do at the end
                raise Killed
            result = method(*arguments)
            if next(calls) >= at:  # from then on it does nothing, whatever it would do at the end
                raise Killed
            return result

        return call

    def at_this_moment(step: Any) -> bool:
        if step.real == str(files[-1]) and moments:
            moments.pop()
            act(files[-1])
        return replaced(step)

    writer = Writer(workspace / ".kipu", lambda path: True, wait=0)
    (workspace / ".kipu/writing").mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "_replaced", at_this_moment)
        patch.setattr(exchanging, "_exchange", killing(exchange if can_exchange else lambda first, second: False))
        for name in CALLS:
            patch.setattr(os, name, killing(getattr(os, name)))
        try:
            writer._apply([FileChange(str(file), OLD, after) for file in files])
        except Killed:
            return True
        except KipuError:
            return False
    return False


@given(
    count=st.sampled_from([1, 2]),
    after=st.sampled_from([NEW, None]),
    act=st.sampled_from([saves, saves_the_same, lambda real: None]),
    can_exchange=st.booleans(),
    at=st.integers(0, 60),
)
@example(count=2, after=None, act=saves, can_exchange=False, at=18)  # while it takes back
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_whenever_a_process_is_killed_nothing_that_somebody_saved_is_lost(
    tmp_path_factory, count, after, act, can_exchange, at
):
    workspace = tmp_path_factory.mktemp("killed") / "project"
    (workspace / "memory").mkdir(parents=True)
    files = [workspace / f"memory/{name}.md" for name in "ab"[:count]]
    for file in files:
        file.write_bytes(OLD)
    change_and_be_killed(workspace, count, after, act, can_exchange, at)
    acted = any(THEIRS in path.read_bytes() for path in workspace.rglob("*") if path.is_file())
    notices: list[str] = []
    writer = Writer(workspace / ".kipu", lambda path: True, notices=notices, wait=0)
    writer._recover_others()
    assert os.listdir(workspace / ".kipu/writing") == []
    assert not list((workspace / ".kipu").glob("unusable-*"))
    left = {path.name: path.read_bytes() for path in (workspace / "memory").iterdir() if path.suffix == ".md"}
    if acted:
        assert THEIRS in left.values()
        assert any("recovered" in note for note in notices) == any("recovered" in name for name in left)
    if act is not saves:
        states = {left.get(file.name) for file in files}
        assert len(states) == 1
        assert states <= {OLD, after}
        assert set(left) <= {file.name for file in files}


@pytest.mark.parametrize("after", [NEW, None])
@pytest.mark.parametrize("said", [OLD, b"saved once more\n"])
async def test_what_was_saved_before_and_after_a_process_was_killed_is_both_kept(workspace, folder, after, said):
    file = workspace / "memory/a.md"
    file.write_bytes(said)
    step = steps.Step.of(FileChange("memory/a.md", OLD, after), ".kipu/writing/1-0.tmp")
    (folder / "journal.json").write_text(json.dumps([attrs.asdict(step)]), "utf-8")
    (folder / "1-0.tmp.replaced").write_bytes(THEIRS)
    async with Memory(configured(workspace)) as memory:
        results = await memory.search("somebody's")
    assert [result.path for result in results] == ["memory/a.recovered.md"]
    assert file.read_bytes() == said
    assert (workspace / "memory/a.recovered.md").read_bytes() == THEIRS
    assert any(str(workspace / "memory/a.recovered.md") in note for note in results.notices)
    assert os.listdir(folder) == []


async def test_a_journal_that_is_too_large_is_set_aside_unread(workspace, folder, write_both):
    (folder / "journal.json").touch()
    os.truncate(folder / "journal.json", 3_000_000_000)
    await write_both()
    (aside,) = (workspace / ".kipu").glob("unusable-*")
    assert (aside / "journal.json").stat().st_size == 3_000_000_000
    assert os.listdir(folder) == []


async def test_a_note_that_names_a_folder_keeps_nobody_from_writing(workspace, folder, write_both):
    (workspace / "memory" / ".kipu-1-0.tmp").mkdir(parents=True)
    (folder / f"{0:016x}.elsewhere").write_bytes(os.fsencode(workspace.resolve() / "memory" / ".kipu-1-0.tmp"))
    await write_both()
    assert (workspace / "memory" / ".kipu-1-0.tmp").is_dir()


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


@given(
    count=st.sampled_from([1, 2, 3]),
    change=st.sampled_from([(OLD, NEW), (OLD, None), (None, NEW)]),
    can_exchange=st.booleans(),
    edited=st.booleans(),
    at=st.integers(0, 80),
    errors=st.sampled_from([1, 1, 2, 3, 5, 1000]),
    problem=st.sampled_from([errno.EIO, errno.EACCES, errno.ENOSPC, errno.EROFS]),
)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_whatever_the_system_refuses_what_is_said_of_a_change_is_true_and_stays_so(
    tmp_path_factory, count, change, can_exchange, edited, at, errors, problem
):
    before, after = change
    workspace = tmp_path_factory.mktemp("refused") / "project"
    (workspace / "memory").mkdir(parents=True)
    (workspace / ".kipu/writing").mkdir(parents=True)
    files = [workspace / f"memory/{name}.md" for name in "abc"[:count]]
    for file in files:
        if before is not None:
            file.write_bytes(before)
    system, exchange = Erring(at, errors, problem), exchanging._exchange
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchanging, "_exchange", system.erring(exchange) if can_exchange else lambda first, second: False)
        for name in FAILING:
            patch.setattr(os, name, system.erring(getattr(os, name)))
        try:
            Writer(workspace / ".kipu", lambda path: True, wait=0)._apply(
                [FileChange(str(file), before, after) for file in files]
            )
            said = "made"
        except KipuError as error:
            said = str(error)

    def states() -> set[bytes | None]:
        return {file.read_bytes() if file.exists() else None for file in files}

    seen_at_once = states()
    if edited and (said == "made" or "Nothing was changed" in said):
        files[0].write_bytes(THEIRS)
    writer = Writer(workspace / ".kipu", lambda path: True, wait=0)
    writer._recover_others()
    if said == "made" or "Nothing was changed" in said:
        wanted = after if said == "made" else before
        assert seen_at_once == {wanted}
        assert [file.read_bytes() if file.exists() else None for file in files] == [
            THEIRS if edited else wanted,
            *[wanted] * (count - 1),
        ]
    elif "by whoever writes next" in said or "begun once more" in said:
        assert states() in ({before}, {after})
    else:
        assert "set aside in" in said
        assert errors > 1  # one of them may be of the moment only
        assert states() <= {before, after}
    assert os.listdir(workspace / ".kipu/writing") == []
    assert set(os.listdir(workspace / "memory")) <= {file.name for file in files}


@NOT_ROOT
async def test_a_folder_that_may_not_be_read_may_be_written_to(workspace):
    (workspace / "memory/team").mkdir()
    (workspace / "memory/team/a.md").write_text("- alpha\n", "utf-8")
    (workspace / "memory/team").chmod(0o300)
    try:
        async with Memory(configured(workspace)) as memory:
            await memory.edit(path="memory/team/a.md", old="alpha", new="beta")
        assert (workspace / "memory/team/a.md").read_text("utf-8") == "- beta\n"
    finally:
        (workspace / "memory/team").chmod(0o700)


async def test_what_cannot_be_removed_is_told_and_in_nobodys_way(workspace, folder, monkeypatch):
    def kept(path: Any) -> None:
        if str(path).startswith(str(folder)) and os.path.exists(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        os.unlink(path)

    (workspace / "memory/a.md").write_text("- alpha\n", "utf-8")
    (folder / "7-0.tmp").write_bytes(NEW)
    async with Memory(configured(workspace)) as memory:
        with monkeypatch.context() as patch:
            patch.setattr(os, "remove", kept)
            note = await memory.remember("beta", file="a.md")
        assert any("7-0.tmp cannot be removed: Input/output error" in each for each in note.notices)
        assert (workspace / "memory/a.md").read_text("utf-8") == "- alpha\n- beta\n"
        await memory.remember("gamma", file="a.md")
    assert (workspace / "memory/a.md").read_text("utf-8") == "- alpha\n- beta\n- gamma\n"
    assert os.listdir(folder) == []


async def test_what_lies_on_another_disk_is_removed_before_the_note_of_it(workspace, folder, monkeypatch):
    def kept(path: Any) -> None:
        if ".kipu-7-0.tmp" in str(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        os.unlink(path)

    left = [workspace / f"memory/.kipu-7-0.tmp{ending}" for ending in ("", ".saved")]
    for path in left:
        path.write_bytes(OLD)
    note = folder / f"{0:016x}.elsewhere"
    note.write_bytes(os.fsencode(f"{left[0]}\0{workspace / 'memory/a.md'}"))
    async with Memory(configured(workspace)) as memory:
        with monkeypatch.context() as patch:
            patch.setattr(os, "remove", kept)
            await memory.search("alpha")
        assert note.exists()
        await memory.remember("alpha", file="b.md")
    assert os.listdir(folder) == []
    assert os.listdir(workspace / "memory") == ["b.md"]


async def test_what_was_set_aside_is_told_to_who_forgets(workspace):
    (workspace / ".kipu/unusable-1").mkdir(parents=True)
    async with Memory(configured(workspace)) as memory:
        note = await memory.remember("alpha", file="a.md")
        receipt = await memory.forget(path=note.path, start=1)
    assert any("unusable-1 has what was set aside after an error" in each for each in receipt.notices)


# --- what is told --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scope", "told"), [(None, True), ("anna", False), ("bob", True)])
async def test_what_was_saved_in_another_scope_is_not_named(workspace, folder, scope, told):
    async with Memory(configured(workspace), scope="bob") as memory:
        path = (await memory.remember("beta", file="private.md")).path
    step = steps.Step.of(FileChange(path, OLD, NEW), ".kipu/writing/1-0.tmp")
    (folder / "journal.json").write_text(json.dumps([attrs.asdict(step)]), "utf-8")
    (folder / "1-0.tmp.replaced").write_bytes(THEIRS)
    async with Memory(configured(workspace), scope=scope) as memory:
        results = await memory.search("somebody's")
    assert any("private" in note for note in results.notices) == told
    assert any("kept" in note for note in results.notices)
    assert len(results) == told


async def test_who_searches_is_told_of_what_somebody_else_had_begun(workspace, folder):
    (workspace / "memory/a.md").write_text("- alpha\n", "utf-8")
    step = steps.Step.of(FileChange("memory/a.md/b.md", None, NEW), ".kipu/writing/1-0.tmp")
    (folder / "journal.json").write_text(json.dumps([attrs.asdict(step)]), "utf-8")
    (folder / "1-0.tmp").write_bytes(NEW)
    async with Memory(configured(workspace)) as memory:
        (note,) = (await memory.search("alpha")).notices
    assert note.startswith("What a process that was killed had begun could not be finished. ")


async def test_a_journal_that_names_a_file_twice_is_none_of_ours(workspace, folder, write_both):
    asked = [{**STEP, "temporary": f".kipu/writing/1-{number}.tmp"} for number in range(2)]
    (folder / "journal.json").write_text(json.dumps(asked), "utf-8")
    await write_both()
    assert (workspace / ".kipu/unusable-1/journal.json").exists()


async def test_a_file_in_the_place_of_our_folder_is_named(workspace):
    (workspace / ".kipu").mkdir(exist_ok=True)
    (workspace / ".kipu/writing").write_text("mine", "utf-8")
    async with Memory(configured(workspace)) as memory:
        with pytest.raises(MemoryFileError, match=r"\.kipu/writing cannot be written: File exists"):
            await memory.remember("alpha", file="a.md")
    assert (workspace / ".kipu/writing").read_text("utf-8") == "mine"
