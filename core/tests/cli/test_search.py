"""``kipu search``."""

from __future__ import annotations

import pytest


def test_search_shows_file_lines_score_heading_and_text(kipu, write):
    write("memory/2026-11-29.md", "# Cache\n\nWe moved from Redis\nto Valkey.\n")
    done = kipu("search", "why", "valkey")
    assert (done.code, done.err) == (0, "")
    assert done.out == "1. memory/2026-11-29.md:3-4  0.50  Cache\n   We moved from Redis\n   to Valkey.\n\n"


def test_search_as_json_has_the_names_of_python(kipu, write):
    write("memory/team/a.md", "# Cache\n\nvalkey\n")
    document = kipu("search", "valkey", "--json").json
    (result,) = document.pop("results")
    assert document == {
        "query": "valkey",
        "stale": False,
        "degraded": False,
        "pending": [],
        "pending_vectors": 0,
        "notices": [],
    }
    assert len(result.pop("chunk")) == 16
    assert result == {
        "path": "memory/team/a.md",
        "start_line": 3,
        "end_line": 3,
        "score": 1.0,
        "scores": {"words": 1.0},
        "snippet": "valkey",
        "text": "valkey",
        "source": "team",
        "heading": "Cache",
        "heading_level": 1,
        "id": None,
        "metadata": {},
        "outdated": "",
        "also_in": [],
        "why": "",
        "chain": [],
    }


def test_no_results_are_not_an_error(kipu, write):
    write("memory/a.md", "valkey")
    done = kipu("search", "xylophone")
    assert (done.code, done.out, done.err) == (0, "", "No results.\n")
    assert kipu("search", "xylophone", "--quiet").err == ""


def test_a_search_indexes_changes_unless_no_sync(kipu, write):
    write("memory/a.md", "valkey")
    done = kipu("search", "valkey", "--no-sync")
    assert (done.code, done.out) == (0, "")
    assert done.err.endswith("No results.\nNot searched, because not indexed yet: 1 file. Try: kipu index\n")
    assert kipu("search", "valkey", "--no-sync", "--json").json["pending"] == ["memory/a.md"]
    assert kipu("search", "valkey").out.startswith("1. memory/a.md:1")


def test_filters_and_limits_reach_the_search(kipu, write):
    write("memory/2026-11-01.md", "valkey redis")
    write("memory/2026-11-02.md", "valkey")
    write("memory/team/2026-11-03.md", "valkey and redis")

    def found(*arguments: str) -> list[str]:
        return [result["path"] for result in kipu("search", "valkey redis", *arguments, "--json").json["results"]]

    assert len(found()) == 3
    assert len(found("-n", "1")) == 1
    assert found("--source", "team") == ["memory/team/2026-11-03.md"]
    assert found("--since", "2026-11-02", "--until", "2026-11-02") == ["memory/2026-11-02.md"]
    assert sorted(found("--min-score", "0.9")) == ["memory/2026-11-01.md", "memory/team/2026-11-03.md"]
    assert len(found("--strategy", "keyword")) == 3


def test_full_shows_whole_chunks(kipu, write):
    text = "a sentence about nothing at all. " * 30 + "valkey " + "and more of the same. " * 30
    write("memory/a.md", text)
    assert len(kipu("search", "valkey").out) < 600
    assert text.strip() in kipu("search", "valkey", "--full").out


def test_an_unknown_source_is_reported(kipu, write):
    write("memory/team/a.md", "valkey")
    assert kipu("search", "valkey", "--source", "taem").err == (
        'No memory file has the source "taem". Did you mean "team"? There are: team.\nNo results.\n'
    )


def test_per_call_options_of_plugins_are_options_with_their_help(kipu):
    help_text = " ".join(kipu("search", "--help").out.split())
    assert "--min-score FLOAT The lowest score to keep. [postprocessor threshold]" in help_text


@pytest.mark.parametrize("command", ["search", "recall", "files"])
def test_filters_are_options_of_every_command_that_looks(kipu, write, command):
    write("memory/team/a.md", "---\ntags: [work, now]\nstatus: done\nrank: 1\n---\nred a\n")
    for name in ("b", "c", "d"):
        write(f"memory/team/{name}.md", "---\ntags: work\nstatus: done\n---\nred\n")
    words = [] if command == "files" else ["red"]
    options = "--tag work --tag #now --where status=done --where rank=1 --path team/** --source team --source zoe"
    done = kipu(command, *words, *options.split(), "--json").json
    found = done if command == "files" else done["results"]
    assert [each["path"] for each in found] == ["memory/team/a.md"]
    assert kipu(command, *words, "--where", "status=done", "--where", "status=open").out.count("team") == 0
    failed = kipu(command, *words, "--where", "status")
    assert (failed.code, "--where takes KEY=VALUE" in failed.err) == (2, True)
