"""How a command prints: data to stdout, messages to stderr."""

from __future__ import annotations

import sys
import unicodedata
from typing import TYPE_CHECKING, Any, TextIO

import attrs
import click

from ..cli import print_error, silence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..types import SkippedFile

__all__ = ["LINES", "Output", "conflict", "count", "escape", "figures", "missing_folder"]

LINES = "\n\t"  # the control characters that a text of several lines may have


@attrs.define
class Output:
    """Where a command prints: data to stdout, messages to stderr. With ``--json``, all data is one JSON document."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    _printed: set[str] = attrs.field(factory=set)
    _stdout: TextIO = attrs.field(factory=lambda: sys.stdout)

    def data(self, value: Any) -> None:
        """Print a value as one JSON document."""
        self.line(_json(value, indent=2))

    def data_line(self, value: Any) -> None:
        """Print a text, or a value as one line of JSON, and flush it.

        :raises BrokenPipeError: the reader has closed the pipe.
        """
        click.echo(value if isinstance(value, str) else _json(value), file=self._stdout)
        self._stdout.flush()

    def line(self, text: str = "") -> None:
        """Print a line of data. Pass what comes from files through `escape` first."""
        try:
            click.echo(text, file=self._stdout)
        except BrokenPipeError:
            silence(1)  # messages are printed all the same

    def note(self, text: str) -> None:
        """Print a message, once, unless the output is quiet."""
        if not self.quiet and text not in self._printed:
            self._printed.add(text)
            print_error(escape(text, keep="\n"))

    def notices(self, texts: Iterable[str]) -> None:
        """Print several messages."""
        for text in texts:
            self.note(text)

    def skipped(self, files: Sequence[SkippedFile]) -> None:
        """Name the files that could not be indexed: the first ten, or with ``--verbose`` all."""
        shown = files if self.verbose else files[:10]
        self.notices(f"skipped {escape(file.path)}: {file.reason}" for file in shown)
        if len(files) > len(shown):
            self.note(f"... and {len(files) - len(shown)} more; --verbose names all of them")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table: aligned on a terminal, tab-separated elsewhere. A terminal gets no empty columns."""
        rows = [[escape(cell) for cell in row] for row in rows]
        if not sys.stdout.isatty():
            for row in [columns, *rows]:
                self.line("\t".join(" ".join(cell.split()) for cell in row))
            return
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        shown = [index for index in range(len(columns)) if not rows or any(row[index] for row in rows)]
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for index in shown:
            is_number = bool(rows) and all(row[index].isdigit() for row in rows)
            table.add_column(columns[index], justify="right" if is_number else "left", no_wrap=True)
        for row in rows:
            table.add_row(*(Text(row[index]) for index in shown))
        Console(file=self._stdout, width=10_000).print(table)  # the terminal wraps lines; rich would cut them

    def waiting(self, what: str) -> None:
        """Say on a terminal what the command waits for."""
        if not self.quiet and sys.stderr.isatty():
            print_error(f"{what}...")

    def progress(self, what: str) -> Progress:
        """Return a progress bar, which is shown on a terminal only."""
        return Progress(what, shown=not self.quiet and sys.stderr.isatty())


def escape(text: str, keep: str = "") -> str:
    """Return text from files for a terminal, with control characters shown as escapes.

    A note could otherwise clear the screen, write to the clipboard, or pretend to be another file's result.

    :param keep: control characters to leave, such as line feeds.
    """
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode("ascii") if char not in keep and _is_control(char) else char
        for char in text
    )


def _is_control(char: str) -> bool:
    """Return whether a character controls a terminal or the direction of a text."""
    return (
        unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")
        or "\u202a" <= char <= "\u202e"
        or "\u2066" <= char <= "\u2069"
    )


class Progress:
    """A progress bar for long work, with counts, rate and time left; short work is done before it could be read."""

    _FEWEST = 20

    def __init__(self, what: str, *, shown: bool) -> None:
        self._what = what
        self._shown = shown
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Callable[[int, int], None]:
        return self._update

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _update(self, done: int, total: int) -> None:
        if not self._shown or total < self._FEWEST:
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
            from rich.progress import Progress as Bar
            from rich.text import Text

            class Figures(ProgressColumn):
                """What `figures` says. The bar is drawn ten times a second, also between two updates."""

                def render(self, task: Task) -> Text:
                    return Text(figures(int(task.completed), int(task.total or 0), task.elapsed or 0.0))

            columns = (TextColumn("{task.description}"), BarColumn(), Figures())
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._what, total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total)


def figures(done: int, total: int, seconds: float) -> str:
    """Return how far long work has come after some seconds: ``120 of 5,000, 40 a second, 2:02 left``."""
    if not done or seconds <= 0:
        return f"{done:,} of {total:,}, {seconds:.0f} s"
    rate = done / seconds
    minutes, left = divmod(round((total - done) / rate), 60)
    return f"{done:,} of {total:,}, {rate:,.{0 if rate >= 10 else 1}f} a second, {minutes}:{left:02} left"


def count(number: int, what: str) -> str:
    """Return a number of things in words: ``1 file``, ``2,000 files``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def missing_folder(folder: str) -> str:
    """Return the message for a folder that is missing although the index has files of it."""
    return f"{folder} is missing; what was indexed of it is kept. If it is gone for good: kipu index --prune"


def conflict(copy: str, original: str) -> str:
    """Return the message for a conflict copy of a tool for synchronisation."""
    if unicodedata.normalize("NFC", copy) == unicodedata.normalize("NFC", original):
        return f"{original} is there twice, with accents that are composed and decomposed"
    return f"{copy} is a conflict copy of {original}, and ranks below it"


def _json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON, with escapes for characters that control a terminal, or that it does not show."""
    import json

    text = json.dumps(value, ensure_ascii=False, indent=indent, default=_plain)
    if text.isascii() and "\x7f" not in text:
        return text
    shown = (char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)
    return "".join(shown).replace("\x7f", "\\u007f")  # which json leaves as it is


def _plain(value: Any) -> Any:
    """Return what JSON has no form for as something that it has one for."""
    if attrs.has(type(value)):
        return {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)
