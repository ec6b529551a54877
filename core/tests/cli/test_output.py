"""Output for programs: one JSON document on stdout, messages on stderr."""

from __future__ import annotations

import pytest

from kipu.cli.output import Progress, escape, figures

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
def test_json_is_one_document_on_stdout_and_nothing_else(kipu, site, write, arguments):
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
        (("search", "x", "-w", "none"), 3),
        (("index", "-w", "none"), 3),
        (("files", "-w", "none"), 3),
        (("status", "-w", "none"), 3),
        (("plugins", "-w", "none"), 3),
        (("demo", "memory"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_with_json_errors_are_on_stderr_and_stdout_is_empty(kipu, write, arguments, code):
    write("memory/a.md", "valkey")
    done = kipu(*arguments, "--json")
    assert (done.code, done.out) == (code, "")
    assert "Error: " in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, grüße, 日本, \u200d\U0001f469", "plain, grüße, 日本, \u200d\U0001f469"),
        ("\x1b]52;c;eA==\x07", "\\x1b]52;c;eA==\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("a\nb\tc\x7f", "a\\nb\\tc\\x7f"),
        ("abc\u202egnp", "abc\\u202egnp"),
    ],
)
def test_control_characters_are_escaped(text, shown):
    assert escape(text) == shown


@pytest.mark.parametrize(
    ("done", "total", "seconds", "shown"),
    [
        (0, 5000, 0.4, "0 of 5,000, 0 s"),
        (0, 5000, 3.2, "0 of 5,000, 3 s"),
        (120, 5000, 3.0, "120 of 5,000, 40 a second, 2:02 left"),
        (3, 25, 2.0, "3 of 25, 1.5 a second, 0:15 left"),
        (5000, 5000, 60.0, "5,000 of 5,000, 83 a second, 0:00 left"),
    ],
)
def test_progress_has_counts_rate_and_time_left(done, total, seconds, shown):
    assert figures(done, total, seconds) == shown


def test_progress_is_shown_on_a_terminal_only(capsys, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    for shown in (False, True):
        with Progress("Embedding", shown=shown) as update:
            update(0, 5000)
            update(2500, 5000)
        assert ("2,500 of 5,000" in capsys.readouterr().err) is shown


def test_line_feeds_can_be_kept():
    assert escape("a\nb\x1b", keep="\n") == "a\nb\\x1b"


CONTROLS = "\x7f\x85\x9b\u061c\u200b\u200e\u2028\u202e\u2066\u2069\ufeff\U000e0041"


@pytest.mark.parametrize("command", ["search", "recall"])
def test_json_shows_no_character_that_controls_a_terminal(kipu, write, command):
    write("memory/a.md", f"valkey caf\u00e9 \u65e5\u672c {CONTROLS}end\n")
    done = kipu(command, "valkey", "--json")
    assert not set(CONTROLS) & set(done.out)
    assert "caf\u00e9 \u65e5\u672c" in done.out
    found = done.json
    texts = (
        found["text"] if command == "recall" else (found["results"] if isinstance(found, dict) else found)[0]["text"]
    )
    assert f"\u65e5\u672c {CONTROLS}end" in texts or command == "recall"


@pytest.mark.parametrize(
    "arguments", [("\x9b31m",), ("search", "x", "--a\x9b31m"), ("demo", "\x9b31m", "x"), ("-p", "\x9b31m", "plugins")]
)
def test_a_wrong_argument_is_quoted_with_escapes(kipu, arguments):
    done = kipu(*arguments)
    assert (done.code, "\x9b" in done.err) == (2, False)
    assert "\\x9b31m" in done.err or "unexpected" in done.err


def test_a_folder_is_named_with_escapes(kipu):
    for command in ("init", "demo"):
        done = kipu(command, f"{command}\x9b31m")
        assert (done.code, "\x9b" in done.out + done.err, "\\x9b31m" in done.out) == (0, False, True)


@pytest.mark.parametrize("days", ["9" * 5000, "\u0664\u0662" * 9])
def test_a_number_of_days_that_is_too_long_is_an_error(kipu, days):
    done = kipu("compact", "--older-than", days)
    assert (done.code, "Traceback" in done.err) == (2, False)
    assert "--older-than must be a date or a number of days" in done.err
