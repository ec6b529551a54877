"""Each command: what it prints for people, what it prints for programs, and how it ends."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import attrs
import pytest

from kipu import MemoryConfig
from kipu.config import load_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from distributions import Site

    from conftest import Done

    Kipu = Callable[..., Done]
    Write = Callable[[str, str], Path]

WITH_JSON = [
    ("index",),
    ("index", "--force", "--prune"),
    ("add", "memory/a.md"),
    ("search", "valkey"),
    ("search", "nothing-like-it"),
    ("search", "valkey", "--full", "-n", "1", "--min-score", "0.5", "--source", "memory", "--no-sync"),
    ("files",),
    ("files", "--source", "team"),
    ("status",),
    ("stats",),
    ("plugins",),
    ("doctor",),
    ("init",),
    ("demo", "showing"),
]


@pytest.mark.parametrize("arguments", WITH_JSON, ids=" ".join)
def test_json_is_one_document_on_stdout_and_nothing_else(
    kipu: Kipu, site: Site, write: Write, arguments: tuple[str, ...]
) -> None:
    noise = "from kipu import hookimpl\nprint('HELLO')\n"
    noise += (
        "@hookimpl\ndef kipu_searched():\n    print('SEARCHED')\n@hookimpl\ndef kipu_indexed():\n    print('INDEXED')\n"
    )
    site.plugin("kipu-noisy", noise)
    site.plugin("kipu-broken", "import not_there")
    write("memory/a.md", "valkey")
    write("memory/bad.md", "\0")
    done = kipu(*arguments, "--json")
    assert isinstance(done.json, (dict, list))
    assert done.out.startswith(("{", "["))
    assert "HELLO" in done.err or arguments[0] == "init"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("search", "x", "--none"), 2),
        (("search", "x", "-n", "0"), 2),
        (("search", "x", "--strategy", "none"), 3),
        (("search", "x", "-w", "none"), 2),
        (("index", "-w", "none"), 2),
        (("files", "-w", "none"), 2),
        (("status", "-w", "none"), 2),
        (("plugins", "-w", "none"), 2),
        (("demo", "memory"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_with_json_errors_are_on_stderr_and_stdout_is_empty(
    kipu: Kipu, write: Write, arguments: tuple[str, ...], code: int
) -> None:
    write("memory/a.md", "valkey")
    done = kipu(*arguments, "--json")
    assert (done.code, done.out) == (code, "")
    assert "Error: " in done.err
    assert "Traceback" not in done.err


# --- index and add -------------------------------------------------------------------------------------------------


def test_index_says_what_it_did(kipu: Kipu, write: Write) -> None:
    write("memory/a.md", "one\n\ntwo\n")
    write("memory/b.md", "three")
    done = kipu("index")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("2 added; 3 chunks in the index (")
    assert kipu("index").out.startswith("2 unchanged; 3 chunks in the index (")
    write("memory/a.md", "four")
    (write("memory/b.md", "three")).unlink()
    assert kipu("index").out.startswith("1 changed, 1 removed; 1 chunk in the index (")


def test_index_as_json_has_the_names_of_python(kipu: Kipu, write: Write) -> None:
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
        "skipped": [{"path": "memory/bad.md", "reason": "is not text: it has NUL bytes and no byte order mark"}],
        "pending": [],
        "missing": [],
        "notices": [],
        "embedded": 0,
        "pending_vectors": 0,
    }


def test_index_ends_with_4_when_a_file_was_skipped_and_names_it(kipu: Kipu, write: Write) -> None:
    write("memory/a.md", "one")
    write("memory/bad.md", "\0")
    done = kipu("index")
    assert done.code == 4
    assert done.err == "skipped memory/bad.md: is not text: it has NUL bytes and no byte order mark\n"


def test_many_skipped_files_are_counted_unless_all_are_wanted(kipu: Kipu, write: Write) -> None:
    for number in range(13):
        write(f"memory/{number:02}.md", "\0")
    assert kipu("index").err.split("\n")[10:] == ["... and 3 more; --verbose names all of them", ""]
    assert kipu("index", "--verbose").err.count("skipped ") == 13


def test_index_ends_with_4_and_advice_when_there_is_nothing(kipu: Kipu, here: Path) -> None:
    (here / "memory").rmdir()
    done = kipu("index")
    assert done.code == 4
    assert done.err == (
        f"Nothing to index: {here} has no Markdown file in memory/. "
        "Make a workspace with: kipu init. Or see one first: kipu demo\n"
    )


def test_a_missing_folder_is_kept_until_it_is_pruned(kipu: Kipu, here: Path, write: Write) -> None:
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


def test_add_takes_files_relative_to_where_one_stands(
    kipu: Kipu, here: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("docs/guide.md", "valkey")
    kipu("init")
    monkeypatch.chdir(here / "docs")
    done = kipu("add", "guide.md")
    assert (done.code, done.out, done.err) == (0, "1 added; 1 chunk in the index\n", "")
    assert kipu("search", "valkey", "--json").json["results"][0]["path"] == "docs/guide.md"


def test_add_goes_on_after_a_file_that_cannot_be_added(kipu: Kipu, here: Path, write: Write) -> None:
    write("a.md", "one")
    write("b.md", "two")
    done = kipu("add", "a.md", "none.md", "../out.md", "b.md", "--json")
    assert done.code == 4
    assert done.json["added"] == 2
    assert [failed["path"] for failed in done.json["failed"]] == ["none.md", "../out.md"]
    assert done.err.count("Error: ") == 2


# --- search --------------------------------------------------------------------------------------------------------


def test_search_shows_file_lines_score_heading_and_text(kipu: Kipu, write: Write) -> None:
    write("memory/2026-11-29.md", "# Cache\n\nWe moved from Redis\nto Valkey.\n")
    done = kipu("search", "why", "valkey")
    assert (done.code, done.err) == (0, "")
    assert done.out == "1. memory/2026-11-29.md:3-4  0.50  Cache\n   We moved from Redis\n   to Valkey.\n\n"


def test_search_as_json_has_the_names_of_python(kipu: Kipu, write: Write) -> None:
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
        "metadata": {},
        "outdated": "",
    }


def test_nothing_found_is_no_failure(kipu: Kipu, write: Write) -> None:
    write("memory/a.md", "valkey")
    done = kipu("search", "xylophone")
    assert (done.code, done.out, done.err) == (0, "", "No results.\n")
    assert kipu("search", "xylophone", "--quiet").err == ""


def test_a_search_without_memory_says_what_to_do(kipu: Kipu, here: Path) -> None:
    (here / "memory").rmdir()
    done = kipu("search", "anything")
    assert (done.code, done.out) == (0, "")
    assert done.err == (
        f"There is no memory here yet: {here} has no folder memory/. Make one with: kipu init\nNo results.\n"
    )
    assert list(here.iterdir()) == []


def test_a_search_takes_in_what_changed_unless_it_is_told_not_to(kipu: Kipu, write: Write) -> None:
    write("memory/a.md", "valkey")
    done = kipu("search", "valkey", "--no-sync")
    assert (done.code, done.out) == (0, "")
    assert done.err.endswith("No results.\nNot searched, because not indexed yet: 1 file. Try: kipu index\n")
    assert kipu("search", "valkey", "--no-sync", "--json").json["pending"] == ["memory/a.md"]
    assert kipu("search", "valkey").out.startswith("1. memory/a.md:1")


def test_filters_and_limits_reach_the_search(kipu: Kipu, write: Write) -> None:
    write("memory/2026-11-01.md", "valkey redis")
    write("memory/2026-11-02.md", "valkey")
    write("memory/team/2026-11-03.md", "valkey redis")

    def found(*arguments: str) -> list[str]:
        return [result["path"] for result in kipu("search", "valkey redis", *arguments, "--json").json["results"]]

    assert len(found()) == 3
    assert len(found("-n", "1")) == 1
    assert found("--source", "team") == ["memory/team/2026-11-03.md"]
    assert found("--since", "2026-11-02", "--until", "2026-11-02") == ["memory/2026-11-02.md"]
    assert sorted(found("--min-score", "0.9")) == ["memory/2026-11-01.md", "memory/team/2026-11-03.md"]
    assert len(found("--strategy", "keyword")) == 3


def test_full_shows_whole_chunks(kipu: Kipu, write: Write) -> None:
    text = "a sentence about nothing at all. " * 30 + "valkey " + "and more of the same. " * 30
    write("memory/a.md", text)
    assert len(kipu("search", "valkey").out) < 600
    assert text.strip() in kipu("search", "valkey", "--full").out


def test_a_source_that_no_file_has_is_told(kipu: Kipu, write: Write) -> None:
    write("memory/team/a.md", "valkey")
    assert kipu("search", "valkey", "--source", "taem").err == (
        'No memory file has the source "taem". Did you mean "team"? There are: team.\nNo results.\n'
    )


def test_options_of_plugins_are_flags_with_their_help(kipu: Kipu) -> None:
    help_text = " ".join(kipu("search", "--help").out.split())
    assert "--min-score FLOAT The lowest score to keep. [postprocessor threshold]" in help_text


# --- files, status, plugins, doctor --------------------------------------------------------------------------------


def test_files_are_listed_with_tabs_for_programs(kipu: Kipu, write: Write) -> None:
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
    ("arguments", "said"),
    [
        ([], "No memory files.\n"),
        (["--scope", "nobody"], 'No memory file belongs to the scope "nobody".\n'),
        (["--source", "nobody"], 'No memory file has the source "nobody".\n'),
    ],
)
def test_that_there_are_no_files_is_told(kipu: Kipu, arguments: list[str], said: str) -> None:
    done = kipu("files", *arguments)
    assert (done.code, done.out, done.err) == (0, "path\tsource\tdate\tchunks\tbytes\tproblem\n", said)
    assert kipu("files", *arguments, "--quiet").err == ""


@pytest.mark.parametrize("name", ["status", "stats"])
def test_status_says_what_is_there_and_changes_nothing(kipu: Kipu, here: Path, write: Write, name: str) -> None:
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


def test_plugins_are_listed_with_state_and_reason(kipu: Kipu, site: Site) -> None:
    site.plugin("kipu-broken", "import not_there")
    site.install("kipu-server", {"kipu.commands": {"serve": "kipu_server:serve"}})
    done = kipu("-p", "no:kipu-server", "plugins")
    assert done.code == 0
    assert done.out == (
        "distribution\tversion\tplugin\tregisters\tstate\treason\n"
        "fake-standard\t1.0\tstandard\tchunker markdown, postprocessor threshold, strategy keyword\tactive\t\n"
        "kipu-broken\t1.0\tbroken\t\tbroken\tModuleNotFoundError: No module named 'not_there'\n"
        "kipu-server\t1.0\tserve\t\tblocked\tblocked by -p\n"
    )
    assert done.err == (
        "The plugin kipu-broken 1.0 is broken and was left out: ModuleNotFoundError: No module named 'not_there'. "
        "Mend or upgrade it (pip install -U kipu-broken), or block it (-p no:kipu-broken).\n"
    )


def test_doctor_is_content_with_a_sound_workspace(kipu: Kipu, write: Write) -> None:
    write("memory/a.md", "one")
    kipu("index")
    done = kipu("doctor")
    assert done.code == 0
    assert "problem" not in done.out
    assert ": 1 file, 1 chunk" in done.out


def test_doctor_finds_what_is_wrong_and_says_how_to_mend_it(kipu: Kipu, site: Site, here: Path, write: Write) -> None:
    site.plugin("kipu-broken", "import not_there")
    write("memory/bad.md", "\0")
    kipu("index")
    write("memory/new.md", "new")
    done = kipu("doctor", "--json")
    assert done.code == 1
    found = {finding["what"]: finding["state"] for finding in done.json}
    assert found["1 file not indexed as on disk"] == "hint"
    assert found["skipped memory/bad.md"] == "hint"
    assert any(what.startswith("kipu-broken 1.0") and state == "problem" for what, state in found.items())


def test_doctor_survives_a_configuration_that_cannot_be_read(kipu: Kipu, here: Path, write: Write) -> None:
    write("kipu.toml", "max = [")
    done = kipu("doctor")
    assert done.code == 1
    assert f"problem  the workspace {here} cannot be used\nproblem  {here / 'kipu.toml'} is not valid TOML" in done.out


def test_doctor_sees_a_damaged_index_and_leaves_it_alone(kipu: Kipu, here: Path, write: Write) -> None:
    write("memory/a.md", "one")
    index = here / ".kipu" / "index.sqlite"
    index.parent.mkdir()
    index.write_bytes(b"x" * 5000)
    assert "problem  the index is damaged" in kipu("doctor").out
    assert index.read_bytes() == b"x" * 5000


def test_doctor_says_that_nothing_can_be_searched_without_plugins(kipu: Kipu) -> None:
    done = kipu("-p", "no:fake-standard", "doctor")
    assert done.code == 1
    assert "problem  no plugin with a chunker: nothing can be indexed\n         pip install kipu" in done.out
    assert "problem  no plugin with a strategy: nothing can be searched\n         pip install kipu" in done.out


EMBEDDER = """\
from doubles import Hashing, Nearest
from kipu import hookimpl

@hookimpl
def kipu_register_embedders(register):
    register("hashing", Hashing)

@hookimpl
def kipu_register_strategies(register):
    register("nearest", Nearest)
"""


@pytest.mark.parametrize(
    ("options", "configured", "said"),
    [
        ((), '"hashng"', 'index.embedder: No embedder "hashng". Did you mean "hashing"?'),
        (("-p", "no:kipu-embedder-other"), '"other"', "which is not in use: blocked by -p."),
        ((), '{ use = "hashing", misbehave = 0 }', 'The embedder "hashing" failed: TypeError'),
    ],
    ids=["mistyped", "blocked", "failing"],
)
def test_doctor_finds_a_configured_embedder_that_cannot_be_used(
    kipu: Kipu, site: Site, write: Write, options: tuple[str, ...], configured: str, said: str
) -> None:
    site.plugin("kipu-embedder-hashing", EMBEDDER)
    site.plugin("kipu-embedder-other", "")
    write("memory/a.md", "one")
    write("kipu.toml", f'[index]\nembedder = {configured}\n[search]\nstrategy = "nearest"\n')
    done = kipu(*options, "doctor", "--json")
    assert done.code == 1
    (problem,) = [finding["what"] for finding in done.json if finding["state"] == "problem"]
    assert said in problem
    assert not any(problem in finding["what"] for finding in done.json if finding["state"] != "problem")
    assert not any(finding["what"].startswith("embedder ") for finding in done.json)
    assert kipu(*options, "search", "one").code == 0


@pytest.mark.parametrize("block", [["-p", "no:embedder-onnx"], []], ids=["for-one-call", "configured"])
def test_without_an_embedder_a_search_goes_by_words_and_status_and_doctor_say_so(
    kipu: Kipu, site: Site, write: Write, block: list[str]
) -> None:
    only_embedder, _, _ = EMBEDDER.rpartition("@hookimpl")
    onnx, other = (only_embedder.replace('"hashing"', f'"{name}"') for name in ("onnx", "other"))
    site.install("fake-onnx", {"kipu": {"embedder-onnx": "fake_onnx"}}, fake_onnx=onnx)
    site.plugin("kipu-embedder-other", other)
    write("memory/a.md", "valkey")
    assert 'ok       strategy "keyword", which uses no embedder\n' in kipu("doctor").out
    if not block:
        write("kipu.toml", '[plugins]\ndisable = ["fake-onnx"]\n')
    done = kipu(*block, "search", "valkey", "--json")
    assert (done.json["degraded"], done.json["notices"], done.err) == (False, [], "")
    assert "embedder        none: search by words\n" in kipu(*block, "status").out
    done = kipu(*block, "doctor")
    place = block[0] if block else "plugins.disable in kipu.toml"
    assert done.code == 0
    assert (
        "hint     no embedder is in use: searches go by words alone, and none by meaning\n"
        f'         The embedder "onnx" comes with fake-onnx 1.0, which is not in use: blocked by {place}.\n'
    ) in done.out


# --- init and demo -------------------------------------------------------------------------------------------------


def test_init_makes_a_workspace_and_leaves_what_is_there(kipu: Kipu, here: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    done = kipu("init", str(new), "--json")
    assert (done.code, done.json) == (0, {"workspace": str(new), "made": ["memory/", "kipu.toml"]})
    assert (new / ".kipu" / ".gitignore").exists()
    (new / "kipu.toml").write_text("# mine\n", "utf-8")
    assert kipu("init", "-w", str(new)).out == f"{new}: is a workspace already\n"
    assert (new / "kipu.toml").read_text("utf-8") == "# mine\n"
    assert kipu("search", "remembering", "-w", str(new)).code == 0


def test_init_shows_every_option_with_its_default(kipu: Kipu, here: Path) -> None:
    kipu("init")
    text = (here / "kipu.toml").read_text("utf-8")
    assert load_config(here) == MemoryConfig(here)
    assert max(map(len, text.splitlines())) <= 120
    shown = re.sub("^# ?", "", re.sub("^##.*\n", "", text.partition("\n\n")[2], flags=re.MULTILINE), flags=re.MULTILINE)
    tables = tomllib.loads(shown)
    (here / "kipu.toml").write_text(shown, "utf-8")
    config = load_config(here)  # with nothing that cannot be
    for table in attrs.fields(MemoryConfig):
        if attrs.has(getattr(table.default, "factory", object)):
            defaults = getattr(MemoryConfig(), table.name)
            assert list(tables[table.name]) == [option.name for option in attrs.fields(type(defaults))]
            for name, default in attrs.asdict(defaults).items():
                assert default is None or getattr(getattr(config, table.name), name) == default
    assert "timezone" in tables


def test_init_in_the_place_of_a_file_is_an_error(kipu: Kipu, write: Write) -> None:
    write("file", "text")
    for folder in ("file", "file/below"):
        done = kipu("init", folder)
        assert done.code in {1, 2}
        assert "Error: " in done.err
        assert "Traceback" not in done.err


def test_demo_makes_indexes_and_searches_a_folder(kipu: Kipu, here: Path) -> None:
    done = kipu("demo")
    assert done.code == 0
    assert done.out.count("$ kipu search ") == 7
    assert len(list((here / "kipu-demo" / "memory").rglob("*.md"))) >= 40
    assert kipu("demo").code == 0
    assert kipu("search", "ferry", "-w", "kipu-demo", "--json").json["results"]


def test_demo_writes_into_no_folder_of_others(kipu: Kipu, here: Path, write: Write) -> None:
    write("mine/note.txt", "text")
    done = kipu("demo", "mine")
    assert done.code == 2
    assert "mine is not empty and is not an earlier demo. Name another folder: kipu demo FOLDER" in done.err
    assert [path.name for path in (here / "mine").iterdir()] == ["note.txt"]
