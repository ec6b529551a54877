"""``kipu index`` and ``kipu add``."""

from __future__ import annotations


def test_index_prints_what_it_did(kipu, write):
    write("memory/a.md", "one\n\ntwo\n")
    write("memory/b.md", "three")
    done = kipu("index")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("2 added; 3 chunks in the index (")
    assert kipu("index").out.startswith("2 unchanged; 3 chunks in the index (")
    write("memory/a.md", "four")
    (write("memory/b.md", "three")).unlink()
    assert kipu("index").out.startswith("1 changed, 1 removed; 1 chunk in the index (")


def test_index_as_json_has_the_names_of_python(kipu, write):
    write("memory/a.md", "one")
    write("memory/bad.md", "\0")
    done = kipu("index", "--json")
    assert done.code == 4
    report = done.json
    assert report.pop("seconds") >= 0
    assert report == {
        "added": 2,
        "changed": 0,
        "renamed": 0,
        "removed": 0,
        "unchanged": 0,
        "chunks": 1,
        "skipped": [
            {
                "path": "memory/bad.md",
                "reason": "is not text: it has NUL bytes and no byte order mark",
                "outside": False,
            }
        ],
        "pending": [],
        "missing": [],
        "notices": [],
        "embedded": 0,
        "pending_vectors": 0,
        "annotated": 0,
        "pending_annotations": 0,
    }


def test_index_ends_with_4_when_a_file_was_skipped_and_names_it(kipu, write):
    write("memory/a.md", "one")
    write("memory/bad.md", "\0")
    done = kipu("index")
    assert done.code == 4
    assert done.err == "skipped memory/bad.md: is not text: it has NUL bytes and no byte order mark\n"


def test_a_link_that_leads_outside_is_named_and_nothing_failed(kipu, here, write, tmp_path):
    write("memory/a.md", "one")
    (tmp_path / "outside.md").write_text("two", "utf-8")
    (here / "memory/link.md").symlink_to(tmp_path / "outside.md")
    done = kipu("index")
    assert (done.code, done.err) == (0, "skipped memory/link.md: is a symbolic link that leads out of the workspace\n")
    (here / "memory/broken.md").symlink_to("nowhere.md")
    assert kipu("index").code == 4


def test_many_skipped_files_are_counted_unless_verbose(kipu, write):
    for number in range(13):
        write(f"memory/{number:02}.md", "\0")
    assert kipu("index").err.split("\n")[10:] == ["... and 3 more; --verbose names all of them", ""]
    assert kipu("index", "--verbose").err.count("skipped ") == 13


def test_index_ends_with_4_and_advice_when_there_is_nothing(kipu, here):
    (here / "memory").rmdir()
    done = kipu("index")
    assert done.code == 4
    assert done.err == (
        f"Nothing to index: {here} has no Markdown file in memory/. "
        "Create a workspace with: kipu init. Or try the demo: kipu demo\n"
    )


def test_a_missing_folder_is_kept_until_it_is_pruned(kipu, here, write):
    write("memory/a.md", "valkey")
    kipu("index")
    (here / "memory").rename(here / "away")
    note = "memory is missing; what was indexed of it is kept. If it is gone for good: kipu index --prune\n"
    assert note in kipu("index").err
    done = kipu("search", "valkey")
    assert (done.code, done.out.partition("  ")[0], note in done.err) == (0, "1. memory/a.md:1", True)
    assert kipu("search", "valkey", "--json").json["stale"]
    assert "1 removed" in kipu("index", "--prune").out
    assert kipu("search", "valkey").out == ""


def test_add_takes_paths_relative_to_the_current_folder(kipu, here, write, monkeypatch):
    write("docs/guide.md", "valkey")
    kipu("init")
    monkeypatch.chdir(here / "docs")
    done = kipu("add", "guide.md")
    assert (done.code, done.out, done.err) == (0, "1 added; 1 chunk in the index\n", "")
    assert kipu("search", "valkey", "--json").json["results"][0]["path"] == "docs/guide.md"


def test_add_continues_after_a_file_that_it_cannot_add(kipu, here, write):
    write("a.md", "one")
    write("b.md", "two")
    done = kipu("add", "a.md", "none.md", "../out.md", "b.md", "--json")
    assert done.code == 4
    assert done.json["added"] == 2
    assert [failed["path"] for failed in done.json["failed"]] == ["none.md", "../out.md"]
    assert done.err.count("Error: ") == 2
