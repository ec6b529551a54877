"""Run the docs: what they show is what happens.

Every ``python`` block of README.md and of docs/ is executed, and so is every ``$ kipu ...`` line of a ``console``
block, which must print what is below it. The blocks of a page share a folder; a how-to page begins with the two lines
of ``BEGINNING``, which make its workspace there. Python blocks share their names and may use ``await``; console
blocks know ``$ cd``, and skip other commands. What differs from run to run is written as ``...``: it stands for any
text within a line, and on a line of its own for any number of lines. A score, such as ``0.27``, stands for one within
.05, because processors differ. What a Python block prints is in it as comments ``#> ...``.

A block with a title is a file: ``markdown title="memory/notes.md"`` is written, and not run; one below ``examples/``
must be equal to that file of this repository.

A block that cannot be run says why, in a comment in front of it: ``<!-- not run: it needs a key -->``.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if path.parent.name != "reference"  # generated from docstrings, whose examples are parts of programs
]

HOW_TO = [path for path in PAGES if path.parent.name == "how-to"]
BEGINNING = "$ kipu demo\n...\n$ cd kipu-demo\n"


@attrs.frozen
class Block:
    """A fenced block of a page: its language, its title, its text, the line of its fence, and why it is not run."""

    language: str
    title: str | None
    text: str
    line: int
    excuse: str | None


FENCE = re.compile(
    r"(?:^[ ]*<!-- not run: (?P<excuse>.+?) -->\n+)?"
    r"^(?P<indent>[ ]*)```(?P<language>\w+)(?: title=\"(?P<title>[^\"\n]+)\")?\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("text"))
        yield Block(match["language"], match["title"], textwrap.dedent(match["text"]), line, match["excuse"])


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an indexed demo, so that `kipu demo` on a page embeds nothing."""
    folder: Path = tmp_path_factory.mktemp("demo") / "kipu-demo"
    assert "56 memory files" in run_kipu(["demo", str(folder)])
    return folder


@pytest.fixture
def workspace(tmp_path: Path, demo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(demo, tmp_path / "kipu-demo")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", sysconfig.get_path("scripts"), prepend=os.pathsep)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
@pytest.mark.usefixtures("workspace")
def test_what_a_page_shows_is_what_happens(page, capsys):
    names: dict[str, Any] = {"__name__": "page"}
    with asyncio.Runner() as runner:
        for block in blocks_of(page):
            if block.excuse is not None:
                continue
            if block.title is not None:
                check_file(page, block, block.title)
            elif block.language == "python":
                run_python(page, block, names, runner)
                check_printed(page, block, capsys.readouterr().out)
            elif block.language == "console":
                check_console(page, block)


def check_file(page: Path, block: Block, title: str) -> None:
    """Write the file that a block shows, or compare one below ``examples/``."""
    if title.startswith("examples/"):
        assert block.text == (ROOT / title).read_text("utf-8"), f"{page}:{block.line} is not {title}"
        return
    path = Path(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text, "utf-8")


def run_python(page: Path, block: Block, names: dict[str, Any], runner: asyncio.Runner) -> None:
    source = "\n" * block.line + block.text  # a traceback then names the line of the page
    code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    result = eval(code, names)
    if inspect.iscoroutine(result):
        runner.run(result)


def check_printed(page: Path, block: Block, printed: str) -> None:
    expected = "\n".join(re.findall(r"^ *#> ?(.*)$", block.text, re.MULTILINE))
    assert matches(expected, printed), f"{page}:{block.line} prints\n{printed}"


def check_console(page: Path, block: Block) -> None:
    for command, expected in sessions(block.text):
        if command[0] == "cd":
            os.chdir(command[1])
        elif command[0] == "kipu":
            shown = run_kipu(command[1:])
            assert matches(expected, shown), f"{page}:{block.line}: {shlex.join(command)} prints\n{shown}"


def run_kipu(arguments: list[str]) -> str:
    """Return what the command prints, on both streams, as on a terminal that keeps them in order."""
    kipu = shutil.which("kipu", path=sysconfig.get_path("scripts"))
    assert kipu is not None
    done = subprocess.run(
        [kipu, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8", check=False
    )
    return done.stdout


def sessions(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield the commands of a console block, each with the output below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield shlex.split(command, comments=True), output


SCORE = re.compile(r"(?<=  )[01]\.\d\d(?=  |$)", re.MULTILINE)


def matches(expected: str, shown: str) -> bool:
    expected = clean(expected)
    pattern = re.escape(SCORE.sub("SCORE", expected)).replace("\\\n", "\n")
    pattern = re.sub(r"^(?:\\ )*\\\.\\\.\\\.$", "(?s:.*?)", pattern, flags=re.MULTILINE).replace(r"\.\.\.", ".*")
    found = re.fullmatch(pattern.replace("SCORE", r"([01]\.\d\d)"), clean(shown))
    if found is None:
        return False
    scores = zip(SCORE.findall(expected), found.groups(), strict=True)
    return all(abs(float(one) - float(other)) < 0.05 for one, other in scores)


def clean(text: str) -> str:
    """Normalize white space: where a program gets a tab between columns, a page has spaces that align them."""
    return "\n".join(re.sub(r"(?<=\S)(?:\t| {2,})\s*", "  ", line.rstrip()) for line in text.strip().split("\n"))


LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!https?:|mailto:|#)([^)\s#]+)[^)]*\)")
READMES = [
    page
    for pattern in ("*.md", "benchmarks/*.md", "examples/**/*.md", "plugins/*/*/*.md")
    for page in ROOT.glob(pattern)
]


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files(page):
    assert [link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()] == []


def test_every_how_to_page_begins_with_the_command_that_makes_its_workspace():
    assert [page.name for page in HOW_TO if not first_block(page).startswith(BEGINNING)] == []


def test_decisions_are_numbered_in_order_and_dated():
    text = (ROOT / "docs/explanation/decisions.md").read_text("utf-8")
    titles = re.findall(r"^## (.*)\n\n(\S+)", text, re.MULTILINE)
    assert [title.split(".")[0] for title, _ in titles] == [str(number) for number in range(1, len(titles) + 1)]
    assert [title for title, start in titles if not re.match(r"\d{4}-\d\d-\d\d", start)] == []


PROMISE = re.compile(r"^- .*?(?=^- |^\S|\Z)", re.MULTILINE | re.DOTALL)
PROOF = re.compile(r"<!-- (?P<path>\S+)::(?P<test>\w+) -->")


def test_every_promise_of_the_page_on_security_names_tests_of_it():
    page = (ROOT / "docs/explanation/security.md").read_text("utf-8")
    promises = [
        promise
        for part in re.findall(r"^Promised.*?:\n\n(.*?)(?=^Not promised|^## |\Z)", page, re.MULTILINE | re.DOTALL)
        for promise in PROMISE.findall(part)
    ]
    assert len(promises) >= 15
    assert [promise for promise in promises if PROOF.search(promise) is None] == []
    proofs = [(ROOT / proof["path"], proof["test"]) for proof in PROOF.finditer(page)]
    assert [test for path, test in proofs if f"def {test}(" not in path.read_text("utf-8")] == []


def first_block(page: Path) -> str:
    runs = [block for block in blocks_of(page) if block.language in ("console", "python") and not block.excuse]
    return runs[0].text if runs else BEGINNING


# --- The checker itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "shown", "same"),
    [
        ("one\ntwo", "one  \ntwo\n", True),
        ("one\ntwo", "one\nthree", False),
        ("took ... s", "took 0.12 s", True),
        ("took ... s", "took\n0.12 s", False),
        ("first\n...\nlast", "first\n1\n2\nlast", True),
        ("first\n  ...\nlast", "first\n1\n\n2\nlast", True),
        ("first\n...\nlast", "first\n1\n2\n", False),
        ("a+b (c)", "a+b (c)", True),
        ("1. one.md:3  0.27  One", "1. one.md:3  0.29  One", True),
        ("1. one.md:3  0.27  One", "1. one.md:3  0.37  One", False),
        ("version  0.27.1", "version  0.31.1", False),
        ("path     source\none.md   team", "path\tsource\none.md\tteam", True),
    ],
)
def test_dots_stand_for_what_differs(expected, shown, same):
    assert matches(expected, shown) is same


def test_a_block_can_be_left_out_with_a_reason(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run: needs a key -->\n\n```python\nraise ValueError\n```\n\n```python\nx = 1\n```\n", "utf-8"
    )
    assert [block.excuse for block in blocks_of(page)] == ["needs a key", None]


def test_a_console_block_is_commands_and_their_output():
    text = '$ kipu search "why redis"  # a comment\nfound\nit\n$ kipu files\n'
    assert list(sessions(text)) == [(["kipu", "search", "why redis"], "found\nit\n"), (["kipu", "files"], "")]


def test_a_block_with_a_title_is_a_file(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text('```toml title="made/kipu.toml"\n[search]\n```\n', "utf-8")
    monkeypatch.chdir(tmp_path)
    for block in blocks_of(page):
        check_file(page, block, block.title or "")
    assert (tmp_path / "made/kipu.toml").read_text("utf-8") == "[search]\n"


def test_what_a_block_prints_is_compared_with_its_comments(tmp_path):
    block = Block("python", None, "print(1)\nprint(2)\n#> 1\n#> 2\n", 1, None)
    check_printed(tmp_path, block, "1\n2\n")
    with pytest.raises(AssertionError):
        check_printed(tmp_path, block, "1\n3\n")
