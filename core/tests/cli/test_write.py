"""``kipu remember``, ``read``, ``edit``, ``move``, ``forget``, ``undo``, ``recall`` and ``compact``."""

from __future__ import annotations

import io
import json
import re
import sys
from datetime import date
from typing import TYPE_CHECKING

import pytest

from kipu.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]


ID = "[a-z2-7]{8}"


def today() -> str:
    return date.today().isoformat()  # noqa: DTZ011 (the day of this machine, as the workspace has it)


@pytest.fixture
def run(workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in a workspace: its exit code, and what it printed on both streams."""
    (workspace / "kipu.toml").write_text('[search]\nstrategy = "keyword"\n', "utf-8")
    monkeypatch.chdir(workspace)

    def run(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def test_a_remembered_text_is_recalled(run):
    code, out, err = run(
        "remember", "Ada", "keeps the", "cache.", "--source", "team", "--tag", "people", "--tag", "cache"
    )
    assert (code, err) == (0, "")
    assert re.fullmatch(rf"Remembered: memory/team/{today()}\.md:3-4  {ID}\n", out)
    code, out, err = run("remember", "Ada keeps  the cache.", "--source", "team")
    assert re.fullmatch(rf"Already remembered: memory/team/{today()}\.md:3-4  {ID}\n", out)
    code, out, err = run("recall", "who keeps the cache?", "--source", "team")
    assert code == 0
    assert out.startswith("<kipu-memories>\n")
    assert "- Ada keeps the cache.\n  [tags: people, cache]" in out
    code, out, err = run("recall", "zebra")
    assert (code, out) == (0, "")


def test_recall_has_the_options_of_plugins(run):
    run("remember", "Ada keeps the cache.", "--file", "ada.md")
    run("remember", "Bob keeps the cluster, and a cache of his own.", "--file", "bob.md")
    _, out, _ = run("recall", "cluster", "cache", "his", "--min-score", "0.9")
    assert "Bob" in out
    assert "Ada" not in out
    assert "Ada" in run("recall", "cluster", "cache", "his")[1]
    assert "--min-score FLOAT" in run("recall", "--help")[1]
    code, _, err = run("-p", "no:kipu-postprocessor-threshold", "recall", "cache", "--min-score", "0.9")
    assert code == 2
    assert "Not in use: kipu-postprocessor-threshold" in err


def test_json_has_the_names_of_python(run):
    _, out, _ = run("remember", "Ada keeps the cache.", "--metadata", "session=42", "--json")
    note = json.loads(out)
    assert (note["path"], note["start_line"], note["end_line"]) == (f"memory/{today()}.md", 3, 4)
    assert (note["duplicate_of"], note["similar"], note["notices"]) == (None, [], [])
    _, out, _ = run("remember", "Ada keeps the cache.", "--json")
    assert json.loads(out)["duplicate_of"]["path"] == f"memory/{today()}.md"
    _, out, _ = run("recall", "cache", "--json")
    recalled = json.loads(out)
    place = {"path": f"memory/{today()}.md", "start_line": 1, "end_line": 4}
    assert recalled["results"] == [place | {"id": note["id"], "score": recalled["results"][0]["score"], "outdated": ""}]
    assert recalled["tokens"] > 0
    _, out, _ = run("read", f"memory/{today()}.md:3", "--json")
    assert json.loads(out)["text"] == "- Ada keeps the cache."
    _, out, _ = run("forget", f"memory/{today()}.md:3-4", "--yes", "--json")
    (receipt,) = json.loads(out)
    assert receipt["complete"] is True
    assert "Ada" not in out


def test_a_text_may_come_from_standard_input(run, workspace):
    text = "Line one.\r\n\r\n```\ncode: é\n"
    code, out, _ = run("remember", stdin=b"\xef\xbb\xbf" + text.encode())
    assert re.fullmatch(rf"Remembered: memory/{today()}\.md:3-6  {ID}\n", out)
    assert (workspace / f"memory/{today()}.md").read_text("utf-8").endswith("- Line one.\n\n  ```\n  code: é\n")
    code, out, err = run("remember", stdin=b"  \n")
    assert (code, out, err) == (2, "", "Error: There is nothing to remember: the text is empty.\n")


@pytest.mark.parametrize("command", [["search"], ["recall"], ["edit", "memory/a.md:1"], ["remember"]])
def test_a_dash_stands_for_standard_input(run, workspace, command):
    (workspace / "memory/a.md").write_text("The cache is full.\n", "utf-8")
    code, out, _ = run(*command, "-", "--json", stdin=b"cache \xc3\xa9\n")
    assert code == 0
    assert "cache" in out
    assert '"query": "-"' not in out


def test_a_superseded_text_is_labelled(run):
    run("remember", "The cache is Redis.")
    code, _, err = run("remember", "The cache is Valkey now.", "--supersedes", f"memory/{today()}.md:3")
    assert (code, err) == (0, f"It supersedes memory/{today()}.md:3: - The cache is Redis.\n")
    _, out, _ = run("search", "what is the cache")
    assert out.index("Valkey now") < out.index("outdated: superseded by") < out.index("is Redis")


def test_lines_are_read_changed_and_moved(run, workspace):
    (workspace / "memory/a.md").write_text("one\ntwo\nthree\n", "utf-8")
    assert run("read", "memory/a.md")[1] == "one\ntwo\nthree\n"
    assert run("read", "memory/a.md:2-3")[1] == "two\nthree\n"
    assert run("edit", "memory/a.md:2", "2")[1] == "Changed: memory/a.md:2\nReplaced: two\n"
    assert run("move", "memory/a.md:3", "b.md")[1] == "Moved to: memory/b.md:1\n"
    assert (workspace / "memory/a.md").read_text("utf-8") == "one\n2\n"
    assert run("move", "memory/a.md", "team/c.md")[1] == "Moved to: memory/team/c.md:1-2\n"
    assert (workspace / "memory/team/c.md").read_text("utf-8") == "one\n2\n"
    assert not (workspace / "memory/a.md").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["read", "memory/none.md"], 4, "memory/none.md does not exist, or is not a file."),
        (["read", "../x.md"], 2, "../x.md leads out of the workspace"),
        (["read", "memory/a.md:0"], 2, "Lines count from 1, and the last is not before the first, unlike 0 to 0."),
        (["edit", "memory/a.md:3-2", "x"], 2, "Lines count from 1"),
        (["read", "memory/a.md:9"], 2, "memory/a.md has 1 line, so there is no line 9."),
        (["edit", "0123456789abcdef", "x"], 2, 'There is no entry with the id "0123456789abcdef", and no such chunk.'),
        (["forget"], 2, "Give either a PLACE or a --query."),
        (["remember", "x", "--metadata", "session"], 2, "--metadata takes KEY=VALUE, not 'session'."),
        (["remember", "x", "--metadata", "valid_until=soon"], 2, "valid_until must be a date such as 2027-01-31"),
        (["remember", "x", "--source", "../x"], 2, "is no valid source"),
        (["remember", "x", "--file", "x.txt"], 4, "its name must end in .md or .markdown."),
        (["flush", "none.json"], 2, "none.json cannot be read"),
        (["compact", "--older-than", "soon"], 2, "--older-than must be a date or a number of days, not 'soon'."),
    ],
)
def test_an_invalid_argument_is_explained_in_a_sentence(run, workspace, arguments, code, message):
    (workspace / "memory/a.md").write_text("one", "utf-8")
    ended, out, err = run(*arguments)
    assert (ended, out) == (code, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(("more", "count"), [([], 2), (["--json"], 2), (["--quiet"], 1)])
def test_a_command_that_fails_prints_the_notices_of_its_call(run, workspace, more, count):
    (workspace / ".kipu").mkdir()
    (workspace / ".kipu/index.sqlite").write_bytes(b"x" * 5000)
    code, out, err = run("read", "nope1234", *more)
    assert (code, out, len(err.splitlines())) == (2, "", count)
    assert ("It was set aside as .kipu/index.damaged.sqlite" in err) == (count > 1)


def test_an_edit_says_that_nothing_changed_or_that_there_is_a_copy(run, workspace):
    (workspace / "memory/a.md").write_text("- one\n- two\n", "utf-8")
    code, out, err = run("edit", "memory/a.md:2", "two")
    assert (code, out[:25], err) == (0, "Unchanged: memory/a.md:2 ", "Nothing was changed: that is what is there.\n")
    code, out, err = run("edit", "memory/a.md:2", "one")
    assert (code, out[:18], err) == (0, "Changed: memory/a.", "memory/a.md:1 says the same.\n")


def test_forget_asks_and_prints_a_receipt(run, workspace):
    (workspace / "memory/a.md").write_text("keep this\n\nforget the platypus\n", "utf-8")
    code, out, err = run("forget", "memory/a.md:3", stdin=b"n\n")
    assert (code, out) == (0, "")
    assert "forget the platypus" in err
    assert err.endswith("Nothing was forgotten.\n")
    code, out, err = run("forget", "memory/a.md:3")
    assert (code, out) == (2, "")
    assert "No answer, so nothing was forgotten." in err
    code, out, err = run("forget", "memory/a.md:3", stdin=b"y\n")
    assert code == 0
    assert out.startswith("Forgotten: memory/a.md:3 (SHA-256 ")
    assert "memory/a.md\t1\t0\n" in out
    assert (workspace / "memory/a.md").read_text("utf-8") == "keep this\n"
    assert all(b"platypus" not in path.read_bytes() for path in (workspace / ".kipu").rglob("*") if path.is_file())


def test_forget_names_copies_and_is_done_all_the_same(run, workspace):
    for name in "ab":
        (workspace / f"memory/{name}.md").write_text("- forget the platypus\n", "utf-8")
    code, _, err = run("forget", "memory/a.md:1", "--yes")
    assert code == 0
    assert "The same text is also in memory/b.md:1, and was not deleted.\n" in err


def test_forget_query_asks_for_each_result(run, workspace):
    for name in "ab":
        (workspace / f"memory/{name}.md").write_text(f"platypus {name}\n", "utf-8")
    code, out, _ = run("forget", "--query", "platypus", stdin=b"y\nn\n")
    assert code == 0
    assert out.count("Forgotten: ") == 1
    assert sum((workspace / f"memory/{name}.md").exists() for name in "ab") == 1
    for option in ("--json", "--yes"):
        code, _, err = run("forget", "--query", "platypus", option)
        assert code == 2
        assert "--query asks for each result" in err
    assert sum((workspace / f"memory/{name}.md").exists() for name in "ab") == 1


def test_a_text_may_begin_as_an_item_does(run, workspace):
    (workspace / "memory/a.md").write_text("- one\n- two\n", "utf-8")
    out = run("edit", "memory/a.md:2", "- 2")[1]
    assert re.fullmatch(rf"Changed: memory/a\.md:2-3  {ID}\nReplaced: - two\n", out)
    code, _, err = run("edit", "memory/a.md", "whole?")
    assert code == 2
    assert "A whole file cannot be replaced" in err
    assert (workspace / "memory/a.md").read_text("utf-8").startswith("- one\n- 2\n  [id: ")


def test_compacting_an_unknown_source_is_reported(run, workspace):
    (workspace / "memory/team").mkdir(parents=True)
    (workspace / "memory/team/2020-01-01.md").write_text("- one\n", "utf-8")
    code, _, err = run("compact", "--source", "taem")
    assert code == 0
    assert 'No memory file has the source "taem". Did you mean "team"?' in err
    assert "Nothing to compact." in err


@pytest.mark.parametrize("command", ["remember", "search", "recall", "status"])
def test_an_empty_scope_is_an_error(run, command):
    code, out, err = run(command, *([] if command == "status" else ["tea"]), "--scope", "")
    assert (code, out) == (2, "")
    assert "--scope is empty." in err


def test_a_scope_sees_its_own_source(run, workspace):
    code, out, _ = run("remember", "Alice likes tea.", "--scope", "alice@example.com")
    assert re.fullmatch(rf"Remembered: memory/alice@example.com/{today()}\.md:3  {ID}\n", out)
    run("remember", "Bob likes tea.", "--scope", "bob")
    _, out, _ = run("search", "tea", "--scope", "alice@example.com", "--json")
    assert [result["text"].split("\n")[-1] for result in json.loads(out)["results"]] == ["- Alice likes tea."]
    _, out, _ = run("files", "--scope", "bob", "--json")
    assert [file["path"] for file in json.loads(out)] == [f"memory/bob/{today()}.md"]
    _, out, _ = run("status", "--scope", "bob", "--json")
    assert json.loads(out)["sources"] == {"bob": 1}
    code, out, err = run("read", f"memory/bob/{today()}.md", "--scope", "alice@example.com")
    assert (code, out) == (2, "")
    assert "does not belong to it" in err


def test_a_text_that_is_not_utf8_is_refused(run, workspace):
    code, _, err = run("remember", "--source", "g", stdin=b"one \xff\xfe")
    assert code == 2
    assert "The text is not valid UTF-8: its byte 5 is 0xff." in err
    assert not (workspace / "memory/g").exists()


def test_undo_shows_what_it_does_and_asks(run, workspace):
    file = workspace / "memory/a.md"
    file.write_text("keep this\n\nthe platypus\n", "utf-8")
    assert run("edit", "memory/a.md:3", "the heron")[0] == 0
    diff = "--- memory/a.md\n+++ memory/a.md\n@@ -1,3 +1,3 @@\n keep this\n \n-the heron\n+the platypus\n"
    code, out, err = run("undo", stdin=b"n\n")
    assert (code, out) == (0, "")
    assert err == f"{diff}\nUndo this edit? [y/N]: Nothing was undone. Earlier changes: kipu undo --list\n"
    code, out, err = run("undo")
    assert (code, out) == (2, "")
    assert "No answer, so nothing was undone. To skip the prompt: kipu undo --yes" in err
    assert "heron" in file.read_text("utf-8")
    code, out, err = run("undo", stdin=b"y\n")
    assert code == 0
    assert re.fullmatch(r"Undone: edit [0-9a-f]{8} \(memory/a.md\)\n", out)
    assert file.read_text("utf-8") == "keep this\n\nthe platypus\n"
    again = err.rpartition("To take that back: kipu undo ")[2].strip()
    code, out, _ = run("undo", again, "--yes", "--json")
    assert json.loads(out)["paths"] == ["memory/a.md"]
    assert "heron" in file.read_text("utf-8")
    code, out, _ = run("undo", "--list")
    assert re.fullmatch(r"change\tkind\ttime\tfiles\n[0-9a-f]{8}\tedit\t[-0-9: ]{16}\tmemory/a.md\n", out)
    assert json.loads(run("undo", "--list", "--json")[1])[0]["kind"] == "edit"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["undo"], "There is no change to undo."),
        (["undo", "0123abcd", "--yes"], 'There is no change "0123abcd". It may have been taken back'),
        (["undo", "--json"], "--json prints no prompt. Add --yes."),
    ],
)
def test_undo_refuses_what_it_cannot_do(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
