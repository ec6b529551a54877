"""What the command of a plugin needs: options, output and an open memory, as the commands of Kipu have them.

This is a whole command, with ``--workspace``, ``--json``, ``--scope`` and the exit codes of all others::

    # kipu_count.py
    import click
    from kipu.commands import memory_options, scope_option

    @click.command()
    @click.argument("word")
    @scope_option
    @memory_options
    async def count(output, memory, word):
        \"\"\"Count the files that mention WORD.\"\"\"
        paths = {result.path for result in await memory.search(word)}
        if output.json:
            output.data({"word": word, "files": len(paths)})
        else:
            output.line(f"{len(paths)} files mention {word}.")

    # pyproject.toml
    [project.entry-points."kipu.commands"]
    count = "kipu_count:count"

A command may be a group. It returns its exit code, or None for 0; a `kipu.KipuError` ends it with a message and a code
of its own. A test calls ``main(["count", "valkey"])``, which ends with `SystemExit`.
"""

from __future__ import annotations

from .cli import main
from .cli.common import TextCommand, filter_options, memory_options, run, scope_option, shared_options
from .cli.output import Output, escape
from .plugins.suggest import did_you_mean

__all__ = [
    "Output",
    "TextCommand",
    "did_you_mean",
    "escape",
    "filter_options",
    "main",
    "memory_options",
    "run",
    "scope_option",
    "shared_options",
]
