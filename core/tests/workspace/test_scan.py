"""Which files are memory files, what is known of them by their names, and how their bytes become text."""

from __future__ import annotations

import inspect
import os
import socket
import sys
from datetime import date
from typing import TYPE_CHECKING

import pytest

from kipu import Memory
from kipu.errors import ConfigurationError, MemoryFileError, OutsideWorkspaceError, WorkspaceNotFoundError
from kipu.workspace.paths import Workspace, date_of, is_memory_file_name, source_of
from kipu.workspace.scan import scan_files
from kipu.workspace.text import NotTextError, decode

if TYPE_CHECKING:
    from pathlib import Path


posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files, or needs a right to make them")


def names(root: Path, paths: list[str] | None = None, exclude: list[str] | None = None) -> list[str]:
    return sorted(scan_files(Workspace(root, paths or (), exclude or ())).files)


def skipped(root: Path, paths: list[str] | None = None) -> dict[str, str]:
    return {file.path: file.reason for file in scan_files(Workspace(root, paths or ())).skipped}


# --- which files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.md", "a.MD", "a.markdown", "a.Markdown", "a b.Md", "メモ.md"])
def test_a_markdown_file_is_a_memory_file_in_any_case(workspace, write, name):
    write(f"memory/{name}", "text")
    assert names(workspace) == [f"memory/{name}"]


@pytest.mark.parametrize("name", ["a.txt", "a.md.bak", "md", "a.mdx", "a.md~", ".md", ".hidden.md"])
def test_other_files_and_hidden_files_are_not_memory_files(workspace, write, name):
    write(f"memory/{name}", "text")
    assert not is_memory_file_name(name)
    assert names(workspace) == []


def test_files_outside_the_memory_folder_are_not_memory_files(workspace, write):
    write("README.md", "text")
    write("docs/guide.md", "text")
    assert names(workspace) == []


def test_a_folder_with_the_name_of_a_file_is_a_folder(workspace, write):
    write("memory/notes.md/inner.md", "text")
    assert names(workspace) == ["memory/notes.md/inner.md"]


def test_hidden_folders_are_skipped_below_the_root(workspace, write):
    write("memory/.obsidian/plugin.md", "text")
    write("memory/team/.trash/old.md", "text")
    write("memory/team/kept.md", "text")
    assert names(workspace) == ["memory/team/kept.md"]


def test_the_workspace_itself_may_be_in_a_hidden_folder(tmp_path):
    root = tmp_path / ".agent" / "store"
    (root / "memory").mkdir(parents=True)
    (root / "memory" / "note.md").write_text("text", "utf-8")
    assert names(root) == ["memory/note.md"]


def test_a_hidden_folder_that_is_configured_is_not_skipped(workspace, write):
    write(".notes/note.md", "text")
    assert names(workspace, [".notes"]) == [".notes/note.md"]


def test_folders_may_be_nested_more_deeply_than_python_can_call(workspace):
    deepest = "memory/" + "d/" * 150
    (workspace / deepest).mkdir(parents=True)
    (workspace / deepest / "note.md").write_text("text", "utf-8")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 100)
    try:
        found = names(workspace)
    finally:
        sys.setrecursionlimit(limit)
    assert found == [f"{deepest}note.md"]


# --- exclusion -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        (["drafts/"], ["memory/a.md", "memory/team/b.md"]),
        (["*.md", "!a.md"], ["memory/a.md"]),
        (["/memory/team"], ["memory/a.md", "memory/drafts/c.md"]),
        (["memory/**/b.md"], ["memory/a.md", "memory/drafts/c.md"]),
        (["/a.md"], ["memory/a.md", "memory/drafts/c.md", "memory/team/b.md"]),
        (["# a comment", ""], ["memory/a.md", "memory/drafts/c.md", "memory/team/b.md"]),
    ],
    ids=str,
)
def test_exclusion_is_in_the_syntax_of_gitignore(workspace, write, exclude, left):
    for path in ("memory/a.md", "memory/team/b.md", "memory/drafts/c.md"):
        write(path, "text")
    assert names(workspace, exclude=exclude) == left


def test_exclusion_holds_for_further_paths_too(workspace, write):
    write("docs/a.md", "text")
    write("docs/old/b.md", "text")
    assert names(workspace, ["docs"], ["docs/old/"]) == ["docs/a.md"]
    assert names(workspace, ["docs/old/b.md"], ["docs/old/"]) == []


def test_an_excluded_folder_is_not_scanned(workspace, write):
    write("memory/private/a.md", "text")
    (workspace / "memory" / "private" / "broken.md").symlink_to("nowhere.md")
    scan = scan_files(Workspace(workspace, exclude=["private/"]))
    assert (scan.files, scan.skipped) == ({}, [])


# --- further paths -------------------------------------------------------------------------------------------------


def test_further_paths_are_folders_and_files_inside_and_outside(workspace, write, tmp_path):
    write("docs/guide.md", "text")
    write("README.md", "text")
    (tmp_path / "elsewhere").mkdir()
    outside = tmp_path / "elsewhere" / "note.md"
    outside.write_text("text", "utf-8")
    further = ["docs", "README.md", str(tmp_path / "elsewhere")]
    assert names(workspace, further) == sorted(["README.md", "docs/guide.md", outside.resolve().as_posix()])
    assert names(workspace, ["../elsewhere"]) == [outside.resolve().as_posix()]


def test_a_further_path_may_start_at_the_home_of_the_user(workspace, tmp_path, monkeypatch):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("text", "utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert names(workspace, ["~/notes"]) == [(tmp_path / "notes" / "a.md").resolve().as_posix()]


def test_the_whole_workspace_can_be_a_further_path(workspace, write):
    write("README.md", "text")
    write("docs/guide.md", "text")
    write("memory/a.md", "text")
    write(".git/description.md", "text")
    assert names(workspace, ["."]) == ["README.md", "docs/guide.md", "memory/a.md"]
    assert names(workspace, ["."], ["/docs/"]) == ["README.md", "memory/a.md"]


def test_overlapping_paths_give_each_file_once(workspace, write):
    write("memory/team/a.md", "text")
    write("docs/deep/b.md", "text")
    overlapping = ["docs", "docs/deep", "docs/deep/b.md", "memory/team", "./docs/", "docs/../docs"]
    assert names(workspace, overlapping) == ["docs/deep/b.md", "memory/team/a.md"]


def test_a_further_path_that_is_missing_is_named(workspace):
    assert scan_files(Workspace(workspace, ["docs"])).missing == ["docs"]


def test_a_further_path_that_is_another_kind_of_file_is_skipped_with_its_reason(workspace, write):
    write("notes.txt", "text")
    assert names(workspace, ["notes.txt"]) == []
    assert skipped(workspace, ["notes.txt"]) == {
        "notes.txt": "is neither a folder nor a Markdown file: its name must end in .md or .markdown"
    }


def test_a_file_in_place_of_the_memory_folder_is_not_a_memory_file(workspace):
    (workspace / "memory").rmdir()
    (workspace / "memory").write_text("text", "utf-8")
    assert names(workspace) == []
    assert list(skipped(workspace)) == ["memory"]


def test_an_invalid_path_is_an_error(workspace):
    with pytest.raises(ConfigurationError, match=r"^files\.paths contains an invalid path, 'a\\x00b': "):
        Workspace(workspace, ["a\0b"])


# --- links ---------------------------------------------------------------------------------------------------------


@posix
def test_a_link_is_followed_inside_of_the_workspace(workspace, write):
    write("docs/guide.md", "text")
    (workspace / "memory" / "guide.md").symlink_to("../docs/guide.md")
    (workspace / "memory" / "all").symlink_to("../docs")
    assert names(workspace) == ["memory/all/guide.md"]
    write("docs/second.md", "text")
    assert names(workspace) == ["memory/all/guide.md", "memory/all/second.md"]


@posix
def test_a_file_is_listed_once_and_by_its_own_name_however_it_is_reached(workspace, write):
    write("memory/team/note.md", "text")
    (workspace / "memory" / "a-link.md").symlink_to("team/note.md")
    (workspace / "memory" / "b-link").symlink_to("team")
    os.link(workspace / "memory" / "team" / "note.md", workspace / "memory" / "team" / "z-hard.md")
    assert names(workspace) == ["memory/team/note.md"]


@posix
def test_a_link_is_never_followed_out_of_the_workspace(workspace, tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.md").write_text("text", "utf-8")
    (workspace / "memory" / "key.md").symlink_to(tmp_path / "secret" / "key.md")
    (workspace / "memory" / "folder").symlink_to("../../secret")
    (workspace / "memory" / "hop.md").symlink_to("key.md")
    assert names(workspace) == []
    reason = "is a symbolic link that leads out of the workspace"
    assert skipped(workspace) == {f"memory/{name}": reason for name in ("folder", "hop.md", "key.md")}


@posix
def test_a_folder_beside_the_workspace_whose_name_begins_alike_is_outside(workspace):
    beside = workspace.with_name(workspace.name + "-old")
    beside.mkdir()
    (beside / "note.md").write_text("text", "utf-8")
    (workspace / "memory" / "note.md").symlink_to(beside / "note.md")
    assert names(workspace) == []
    with pytest.raises(OutsideWorkspaceError):
        Workspace(workspace).locate(beside / "note.md")


@posix
def test_a_link_into_a_hidden_folder_is_not_followed(workspace, write):
    write(".private/note.md", "text")
    (workspace / "memory" / "note.md").symlink_to("../.private/note.md")
    assert names(workspace) == []
    assert skipped(workspace) == {"memory/note.md": "is a symbolic link that leads into a hidden folder"}


@posix
def test_a_link_that_the_configuration_names_is_followed(workspace, tmp_path):
    (tmp_path / "real" / "sub").mkdir(parents=True)
    note = tmp_path / "real" / "sub" / "note.md"
    note.write_text("text", "utf-8")
    (tmp_path / "link").symlink_to("real")
    for path in ("../link", "../link/sub", str(tmp_path / "link" / "sub" / "note.md")):
        assert names(workspace, [path]) == [note.resolve().as_posix()]
        assert Workspace(workspace, [path]).locate(note) == str(note.resolve())
    (workspace / "memory" / "again").symlink_to(tmp_path / "link")
    assert names(workspace, ["../link"]) == [note.resolve().as_posix()]


@posix
def test_the_workspace_may_be_a_link(workspace, write, tmp_path):
    write("memory/note.md", "text")
    (tmp_path / "shortcut").symlink_to(workspace)
    assert names(tmp_path / "shortcut") == ["memory/note.md"]
    assert Workspace(tmp_path / "shortcut").locate(tmp_path / "shortcut" / "memory" / "note.md")


@posix
def test_links_in_a_circle_end(workspace, write):
    write("memory/team/note.md", "text")
    (workspace / "memory" / "team" / "up").symlink_to("..")
    (workspace / "memory" / "here").symlink_to(".")
    (workspace / "memory" / "one.md").symlink_to("two.md")
    (workspace / "memory" / "two.md").symlink_to("one.md")
    (workspace / "memory" / "itself").symlink_to("itself")
    assert names(workspace) == ["memory/team/note.md"]


@posix
def test_a_dangling_symlink_is_skipped_and_reported(workspace, write):
    write("memory/note.md", "text")
    (workspace / "memory" / "gone.md").symlink_to("nowhere.md")
    (workspace / "memory" / "gone.txt").symlink_to("nowhere.txt")
    (workspace / "memory" / "loop").symlink_to("loop")
    assert names(workspace) == ["memory/note.md"]
    assert skipped(workspace) == {
        "memory/gone.md": "is a symbolic link to a file that does not exist",
        "memory/loop": "is a symbolic link to a folder that does not exist",
    }


@posix
@pytest.mark.parametrize("scope", [None, "alice"])
async def test_a_search_without_results_says_what_it_could_not_look_at(config, workspace, tmp_path, scope):
    (workspace / "memory").rmdir()
    (tmp_path / "vault").mkdir()
    (workspace / "memory").symlink_to(tmp_path / "vault")
    sentence = "skipped memory: is a symbolic link that leads out of the workspace"
    async with Memory(config(), scope=scope) as memory:
        assert sentence in (await memory.search("orca")).notices
    (workspace / "memory").unlink()
    for number in range(5):
        path = workspace / f"memory/alice/{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\0")
    (workspace / "memory/bob").mkdir()
    (workspace / "memory/bob/gone.md").symlink_to("nowhere.md")
    async with Memory(config(), scope="alice") as memory:
        notices = (await memory.search("orca")).notices
    first = "skipped memory/alice/0.md: is not text: it has NUL bytes and no byte order mark"
    assert (notices[0], notices[3:]) == (first, ["... and 2 more: kipu status --verbose"])


# --- files that cannot be read -------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is unreadable to root")
@pytest.mark.parametrize(
    ("locked", "named"),
    [
        ("memory/team", "memory/team/"),
        ("memory", "memory/"),
        ("docs", "docs/"),
        ("disk", "disk/deep"),  # a configured path below it
        ("linked", "memory/link"),  # to a folder below it
        ("memory/team/a.md", "memory/team/a.md"),
    ],
)
async def test_what_cannot_be_read_is_kept_and_not_called_missing(workspace, write, config, locked, named):
    for path in ("memory/team/a.md", "docs/a.md", "disk/deep/a.md", "linked/deep/a.md"):
        write(path, f"valkey in {path}")
    (workspace / "memory/link").symlink_to("../linked/deep")
    async with Memory(config(files={"paths": ["docs", "disk/deep"]})) as memory:
        await memory.index()
        mode = (workspace / locked).stat().st_mode
        (workspace / locked).chmod(0)
        try:
            results = await memory.search("valkey")
            report, status = await memory.index(prune=True), await memory.status()
        finally:
            (workspace / locked).chmod(mode)
    assert (len(results), results.stale, results.pending) == (4, True, [])
    assert results.notices == [f"{named} cannot be read: Permission denied."]
    assert (report.removed, report.missing, report.pending) == (0, [], [])
    assert (status.missing, status.pending, status.notices) == ([], [], [])
    for found in (report.skipped, status.skipped):
        assert [(file.path, file.reason) for file in found] == [(named, "cannot be read: Permission denied")]


@posix
def test_pipes_and_sockets_are_not_memory_files(workspace, write, monkeypatch):
    write("memory/note.md", "text")
    os.mkfifo(workspace / "memory" / "pipe.md")
    (workspace / "memory" / "link.md").symlink_to("pipe.md")
    monkeypatch.chdir(workspace / "memory")  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.md")
        assert names(workspace) == ["memory/note.md"]
        assert skipped(workspace) == dict.fromkeys(["memory/pipe.md", "memory/socket.md"], "is not a regular file")
    assert Workspace(workspace).look("memory/pipe.md") is None


@posix
async def test_a_name_that_is_not_unicode_is_skipped_with_its_reason(memory, workspace, write):
    write("memory/note.md", "valkey")
    try:
        write(os.fsdecode(b"memory/caf\xe9.md"), "valkey")
    except OSError:
        pytest.skip("this file system takes only names that are text")
    report = await memory.index()
    assert [(file.path, file.reason) for file in report.skipped] == [
        ("memory/caf\ufffd.md", "has a name that is not valid UTF-8; rename it")
    ]
    assert [result.path for result in await memory.search("valkey")] == ["memory/note.md"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is not text: it has NUL bytes and no byte order mark"),
        (b"\xff\xfea", "starts as UTF-16 but is not: truncated data"),
        (b"\xef\xbb\xbf\xff", "starts as UTF-8 but is not: invalid start byte"),
    ],
    ids=["binary", "UTF-16 cut short", "mark of UTF-8"],
)
async def test_a_file_that_cannot_be_read_does_not_stop_the_others(memory, workspace, write, data, reason):
    (workspace / "memory" / "broken.md").write_bytes(data)
    write("memory/a.md", "valkey")
    write("memory/z.md", "valkey at last")
    report = await memory.index()
    assert [(file.path, file.reason) for file in report.skipped] == [("memory/broken.md", reason)]
    assert [result.path for result in await memory.search("valkey")] == ["memory/a.md", "memory/z.md"]
    (workspace / "memory" / "broken.md").write_bytes(b"valkey too")
    assert (await memory.index()).skipped == []
    assert len(await memory.search("valkey")) == 3


# --- what a name tells ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("memory/note.md", "memory"),
        ("memory/team/note.md", "team"),
        ("memory/team/deep/note.md", "team"),
        ("memory/2026/2026-11-29.md", "2026"),
        ("docs/note.md", "external"),
        ("docs/memory/note.md", "external"),
        ("note.md", "external"),
        ("memory", "external"),
        ("memory.md", "external"),
        ("memory-old/team/note.md", "external"),
        ("/home/ann/memory/team/note.md", "external"),
    ],
)
def test_the_source_is_the_first_folder_below_memory(path, source):
    assert source_of(path) == source


async def test_folders_below_a_further_path_are_sources_of_which_no_scope_sees_any(config, write, tmp_path):
    vault = tmp_path / "vault"
    for name in ("top.md", "alice/a.md", "alice/deep/b.md", "work/c.md"):
        write(vault / name, f"valkey {name}")
    write("memory/alice/own.md", "valkey own")

    def open_memory(*paths, **options):
        return Memory(config(files={"paths": [str(path) for path in paths]}), **options)

    def names(found):
        return sorted((result.path.removeprefix(f"{vault.as_posix()}/"), result.source) for result in found)

    below = [("alice/a.md", "external/alice"), ("alice/deep/b.md", "external/alice"), ("work/c.md", "external/work")]
    async with open_memory(vault, vault / "alice") as memory:
        found = await memory.search("valkey", source="external")
        assert (names(found), found.notices) == (sorted([*below, ("top.md", "external")]), [])
        assert names(await memory.search("valkey", source="external/alice")) == below[:2]
        assert names(await memory.files("alice")) == [("memory/alice/own.md", "alice")]
    async with open_memory(vault, scope="alice") as alice:
        assert names(await alice.search("valkey")) == names(await alice.files()) == [("memory/alice/own.md", "alice")]
    async with open_memory(vault / "alice", vault / "work") as memory:  # the same files below other paths
        found = await memory.search("valkey", source="external")
        assert names(found) == [
            ("alice/a.md", "external"),
            ("alice/deep/b.md", "external/deep"),
            ("work/c.md", "external"),
        ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("2026-11-29.md", date(2026, 11, 29)),
        ("2026-11-29-standup.md", date(2026, 11, 29)),
        ("2026-11-29 standup.md", date(2026, 11, 29)),
        ("2026-11-29T1430.md", date(2026, 11, 29)),
        ("2028-02-29.md", date(2028, 2, 29)),
        ("2026-02-29.md", None),
        ("2026-13-01.md", None),
        ("2026-11-31.md", None),
        ("0000-01-01.md", None),
        ("2026-11-299.md", None),
        ("2026-1-2.md", None),
        ("20261129.md", None),
        ("notes-2026-11-29.md", None),
        ("12026-11-29.md", None),
        ("２０２６-11-29.md", None),
        ("MEMORY.md", None),
    ],
)
def test_a_file_is_dated_by_the_start_of_its_name_and_else_evergreen(name, expected):
    assert date_of(f"memory/2020-01-01/{name}") == expected


async def test_the_index_says_which_files_are_dated(memory, write):
    write("memory/2026-11-29.md", "text")
    write("memory/team/2026-02-30.md", "text")
    assert [(file.path, file.source, file.date, file.evergreen) for file in await memory.files()] == [
        ("memory/2026-11-29.md", "memory", date(2026, 11, 29), False),
        ("memory/team/2026-02-30.md", "team", None, True),
    ]


# --- encodings -----------------------------------------------------------------------------------------------------

ENGLISH = "Naïve café: the façade über alles, déjà vu.\n"
JAPANESE = "データベースはバルキーに移行しました。東京の会議で決めたことです。\n費用が半分になりました。\n"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (ENGLISH, "utf-8"),
        (ENGLISH, "utf-8-sig"),
        (ENGLISH, "utf-16"),
        (JAPANESE, "utf-16"),
        (ENGLISH, "utf-32"),
        (ENGLISH, "latin-1"),
        ("“Smart quotes” – and dashes… in an English note.\n", "cp1252"),
        (JAPANESE * 3, "shift_jis"),
        (JAPANESE * 3, "euc_jp"),
        ("Мы перешли на новую базу данных, потому что старая была медленной.\n" * 3, "cp1251"),
    ],
    ids=lambda value: value if len(value) < 10 else "",
)
def test_text_is_read_in_the_encoding_that_it_has(text, encoding):
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"], ids=["little-endian", "big-endian"])
def test_utf_16_is_recognized_by_its_mark_in_both_orders(mark):
    encoding = "utf-16-le" if mark == b"\xff\xfe" else "utf-16-be"
    assert decode(mark + JAPANESE.encode(encoding)) == JAPANESE


def test_an_empty_file_or_a_mark_alone_is_empty_text():
    assert [decode(data) for data in (b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")] == [""] * 4


def test_all_line_ends_become_newlines():
    assert decode(b"one\r\ntwo\rthree\nfour") == "one\ntwo\nthree\nfour"


@pytest.mark.parametrize("data", [bytes(range(256)), b"text\0text", b"\0"], ids=["all bytes", "NUL", "NUL alone"])
def test_bytes_that_are_not_text_are_refused(data):
    with pytest.raises(NotTextError):
        decode(data)


async def test_a_file_in_an_older_encoding_is_found_by_its_words(memory, workspace):
    (workspace / "memory" / "old.md").write_bytes("Das Café schließt über Mittag.".encode("latin-1"))
    (workspace / "memory" / "windows.md").write_bytes("\r\nDer Café-Plan\r\n".encode("utf-16"))
    assert [(result.path, result.start_line) for result in await memory.search("café")] == [
        ("memory/old.md", 1),
        ("memory/windows.md", 2),
    ]


# --- the workspace -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("projct", 'does not exist. Did you mean "project"?'),
        ("PROJECT2", 'does not exist. Did you mean "project"?'),
        ("nothing-like-it", "does not exist."),
        ("project/memory/note.md", "is not a folder."),
    ],
)
async def test_a_missing_workspace_is_an_error_and_is_not_created(workspace, write, name, message):
    write("memory/note.md", "text")
    root = workspace.parent / name
    with pytest.raises(WorkspaceNotFoundError) as caught:
        Memory(root)
    assert str(caught.value) == f"The workspace {root} {message}"
    assert [path.name for path in workspace.parent.iterdir()] == ["project"]


def test_a_hint_keeps_the_case_of_the_name(tmp_path):
    (tmp_path / "NOTES").mkdir()
    with pytest.raises(WorkspaceNotFoundError, match=r'Did you mean "NOTES"\?$'):
        Workspace(tmp_path / "NOTE")


async def test_reading_creates_no_folder(workspace, config):
    (workspace / "memory").rmdir()
    async with Memory(config()) as memory:
        results = await memory.search("anything")
        assert await memory.files() == []
        await memory.status()
    assert results.notices == [
        f"There is no memory here yet: {workspace} has no folder memory/. Create one with: kipu init"
    ]
    assert os.listdir(workspace) == []


async def test_the_hidden_folder_keeps_itself_out_of_git(memory, workspace, write):
    write("memory/note.md", "text")
    await memory.index()
    lines = (workspace / ".kipu" / ".gitignore").read_text("utf-8").split("\n")
    assert "*" in lines


async def test_the_gitignore_of_the_user_is_kept(memory, workspace, write):
    write("memory/note.md", "text")
    write(".kipu/.gitignore", "index.sqlite*\n")
    await memory.index()
    assert (workspace / ".kipu" / ".gitignore").read_text("utf-8") == "index.sqlite*\n"


# --- folders that are missing for a moment -------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["memory", "docs"])
async def test_a_missing_folder_keeps_its_part_of_the_index(workspace, write, config, folder):
    write("memory/a.md", "valkey")
    write("docs/b.md", "valkey too")
    async with Memory(config(files={"paths": ["docs"]})) as memory:
        await memory.index()
        (workspace / folder).rename(workspace / "away")
        report = await memory.index()
        assert (report.missing, report.removed) == ([folder], 0)
        results = await memory.search("valkey")
        assert sorted(result.path for result in results) == ["docs/b.md", "memory/a.md"]
        assert results.stale
        assert results.notices == [
            f"{folder} is missing; what was indexed of it is kept. If it is gone for good: kipu index --prune"
        ]
        (workspace / "away").rename(workspace / folder)
        results = await memory.search("valkey")
        assert (len(results), results.stale, results.notices) == (2, False, [])
        (workspace / folder).rename(workspace / "away")
        assert (await memory.index(prune=True)).removed == 1
        assert len(await memory.search("valkey")) == 1


@posix
async def test_a_linked_folder_that_is_missing_keeps_its_part_of_the_index(workspace, write, config):
    write("disk/b.md", "valkey")
    (workspace / "memory" / "mounted").symlink_to("../disk")
    async with Memory(config()) as memory:
        await memory.index()
        (workspace / "disk").rename(workspace / "away")
        report = await memory.index()
        assert report.removed == 0
        assert [result.path for result in await memory.search("valkey")] == ["memory/mounted/b.md"]
        assert report.missing == ["memory/mounted"]


@posix
async def test_a_memory_folder_that_is_a_link_to_a_missing_disk_keeps_the_index(workspace, write, config):
    write("disk/b.md", "valkey")
    (workspace / "memory").rmdir()
    (workspace / "memory").symlink_to("disk")
    async with Memory(config()) as memory:
        await memory.index()
        (workspace / "disk").rename(workspace / "away")
        assert (await memory.index()).missing == ["memory"]
        assert [result.path for result in await memory.search("valkey")] == ["memory/b.md"]


# --- files that are added by name -----------------------------------------------------------------------------------


async def test_an_added_file_must_be_in_the_workspace(memory, workspace, tmp_path):
    (tmp_path / "outside.md").write_text("text", "utf-8")
    for path in ("../outside.md", str(tmp_path / "outside.md"), "memory/../../outside.md"):
        with pytest.raises(OutsideWorkspaceError) as caught:
            await memory.add(path)
        assert str(caught.value) == (
            f"{path} leads out of the workspace {workspace}. Move it into the workspace, or name its folder in "
            'kipu.toml: [files] paths = ["..."].'
        )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("memory/none.md", "memory/none.md does not exist, or is not a file."),
        ("memory", 'memory is a folder. Name folders in kipu.toml: [files] paths = ["..."].'),
        ("notes.txt", "notes.txt is not a Markdown file: its name must end in .md or .markdown."),
        ("picture.md", "picture.md is not text: it has NUL bytes and no byte order mark."),
        ("left/out.md", "left/out.md is excluded by files.exclude in kipu.toml."),
        ("a\0b.md", "'a\\x00b.md' is not a valid path: embedded null byte."),
    ],
)
async def test_a_file_that_cannot_be_added_is_an_error(workspace, write, config, path, message):
    write("notes.txt", "text")
    write("picture.md", "\0\0")
    write("left/out.md", "text")
    async with Memory(config(files={"exclude": ["left/"]})) as memory:
        with pytest.raises(MemoryFileError) as caught:
            await memory.add(path)
        assert str(caught.value) == message


async def test_files_in_the_hidden_folder_are_not_memory_files(memory, write):
    write(".kipu/note.md", "text")
    with pytest.raises(OutsideWorkspaceError) as caught:
        await memory.add(".kipu/note.md")
    assert str(caught.value) == (".kipu/note.md is hidden, or in a hidden folder, where Kipu keeps no memories.")
