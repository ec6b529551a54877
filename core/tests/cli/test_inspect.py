"""``kipu files``, ``kipu status`` and ``kipu plugins``."""

from __future__ import annotations

import pytest


def test_files_are_listed_with_tabs_for_programs(kipu, write):
    write("memory/2026-11-29.md", "one\n\ntwo")
    write("memory/team/note.md", "three")
    assert kipu("files").out == (
        "path\tsource\tdate\tchunks\tbytes\tproblem\n"
        "memory/2026-11-29.md\tmemory\t2026-11-29\t2\t8\t\n"
        "memory/team/note.md\tteam\tevergreen\t1\t5\t\n"
    )
    assert [file["path"] for file in kipu("files", "--source", "team", "--json").json] == ["memory/team/note.md"]
    assert kipu("files", "--json").json[0] == {
        "path": "memory/2026-11-29.md",
        "source": "memory",
        "date": "2026-11-29",
        "evergreen": False,
        "size": 8,
        "chunks": 2,
        "problem": None,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "No memory files.\n"),
        (["--scope", "zoe"], 'No memory file belongs to the scope "zoe".\n'),
        (["--source", "zoe"], 'No memory file has the source "zoe".\n'),
    ],
)
def test_an_empty_list_of_files_is_explained(kipu, arguments, message):
    done = kipu("files", *arguments)
    assert (done.code, done.out, done.err) == (0, "path\tsource\tdate\tchunks\tbytes\tproblem\n", message)
    assert kipu("files", *arguments, "--quiet").err == ""


@pytest.mark.parametrize("command", ["list", "files"])
@pytest.mark.parametrize(
    ("options", "notice"),
    [
        (["--tag", "infr"], 'No memory has the tag "infr". Did you mean "infra"?\n'),
        (["--where", "status=dne"], 'No memory has the property "status=dne". Did you mean "status=done"?\n'),
        (["--path", "memry/**"], 'No memory has the path "memry/**".\n'),
        (["--source", "zoe"], 'No memory file has the source "zoe". There are: memory.\n'),
    ],
    ids=["tag", "property", "path", "source"],
)
def test_filters_that_nothing_passes_are_named(kipu, write, command, options, notice):
    write("memory/a.md", "---\ntags: [infra]\nstatus: done\n---\n- one\n")
    done = kipu(command, *options)
    assert done.code == 0
    assert done.err.startswith(notice)


@pytest.mark.parametrize("name", ["status", "stats"])
def test_status_changes_nothing(kipu, here, write, name):
    write("memory/a.md", "one")
    status = kipu(name, "--json").json
    assert (status["workspace"], status["files"], status["pending"]) == (str(here), 0, ["memory/a.md"])
    assert not (here / ".kipu").exists()
    kipu("index")
    lines = kipu(name).out.split("\n")
    assert lines[1:5] == [
        "files           1",
        "chunks          1",
        "sources         memory (1)",
        "pending         0",
    ]


def test_plugins_are_listed_with_state_and_reason(kipu, site):
    site.plugin("kipu-broken", "import not_there")
    site.install("kipu-server", {"kipu.commands": {"serve": "kipu_server:serve"}})
    done = kipu("-p", "no:kipu-server", "plugins")
    assert done.code == 0
    assert done.out == (
        "distribution\tversion\tplugin\tregisters\tstate\treason\n"
        "fake-standard\t1.0\tstandard\tchunker markdown, post-processor threshold, strategy keyword\tactive\t\n"
        "kipu-broken\t1.0\tbroken\t\tbroken\tModuleNotFoundError: No module named 'not_there'\n"
        "kipu-server\t1.0\tserve\t\tblocked\tblocked by -p\n"
    )
    assert done.err == (
        "Plugin kipu-broken 1.0 failed to load and was skipped: ModuleNotFoundError: No module named 'not_there'. "
        "Upgrade it (pip install -U kipu-broken) or disable it (-p no:kipu-broken).\n"
    )


@pytest.mark.parametrize("command", ["status", "doctor"])
def test_conflict_copies_are_named(kipu, write, command):
    write("memory/x.md", "valkey")
    write("memory/x (conflicted copy).md", "redis")
    done = kipu(command)
    assert "memory/x (conflicted copy).md is a conflict copy of memory/x.md, and ranks below it" in done.out + done.err
