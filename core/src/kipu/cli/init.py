"""``kipu init``."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from ..config import CONFIG_FILE, MemoryConfig
from ..index.file import make_hidden_folder
from ..plugins.kinds import KINDS, RELATION_STRATEGY
from ..workspace.paths import HIDDEN_FOLDER, MEMORY_FOLDER
from .common import shared_options
from .output import escape
from .workspace import folder_to_make, is_named

if TYPE_CHECKING:
    from .output import Output

__all__ = ["init_command"]

_HEAD = """\
# The configuration of Kipu. Every option has a default: a line that begins with # shows it, or an
# example where the default depends on what is installed. A line that begins with ## explains it.
"""
# For options whose default is no TOML value, or says nothing.
_EXAMPLES = {
    "timezone": "Europe/Berlin",
    "embedder": KINDS["embedder"].standard[0],
    "annotator": {"use": "litellm", "model": "openai/gpt-4o-mini"},
    "strategy": KINDS["strategy"].standard[0],
    "postprocessors": list(KINDS["postprocessor"].standard),
    "filters": list(KINDS["filter"].standard),
    "relation": RELATION_STRATEGY,
    "time_limit": 30.0,
    "flusher": {"use": KINDS["flusher"].standard[0], "model": "openai/gpt-4o-mini"},
}
_WIDTH = 100


def configuration() -> str:
    """Return a ``kipu.toml`` with every option as a comment."""
    fields = attrs.fields(MemoryConfig)
    parts = [_HEAD, *(_option(field) for field in fields if "help" in field.metadata)]
    for field in fields:
        table = getattr(field.default, "factory", None)
        if table is not None and attrs.has(table):
            parts.append(f"{_explanation((table.__doc__ or '').strip())}# [{field.name}]\n")
            parts += [_option(option) for option in attrs.fields(table)]
    return "\n".join(parts)


def _option(field: attrs.Attribute[Any]) -> str:
    default: Any = field.default
    value = default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]
    return f"{_explanation(field.metadata['help'])}# {field.name} = {_toml(_EXAMPLES.get(field.name, value))}\n"


def _explanation(text: str) -> str:
    text = " ".join(text.replace("``", "`").split())
    return textwrap.fill(text, _WIDTH, initial_indent="## ", subsequent_indent="## ") + "\n"


def _toml(value: Any) -> str:
    """Return a value in TOML, tables on one line."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(item)}' for key, item in value.items())} }}"
    return json.dumps(value)


@click.command("init")
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
@shared_options
def init_command(output: Output, workspace: Path, folder: Path | None) -> None:
    """Create a workspace in FOLDER, by default here: a memory folder and a configuration.

    Existing files stay as they are.
    """
    root = folder_to_make(folder, workspace, workspace if is_named() else Path.cwd())
    made = []
    memory = root / MEMORY_FOLDER
    try:
        if not memory.exists():
            memory.mkdir(parents=True)
            made.append(f"{MEMORY_FOLDER}/")
        config = root / CONFIG_FILE
        if not config.exists():
            config.write_text(configuration(), "utf-8")
            made.append(CONFIG_FILE)
        make_hidden_folder(root / HIDDEN_FOLDER)
    except OSError as error:
        raise click.ClickException(
            f"Cannot create a workspace in {root}: {error.strerror}: {error.filename}"
        ) from error
    if output.json:
        output.data({"workspace": str(root.resolve()), "made": made})
        return
    output.line(f"{escape(str(root.resolve()))}: {'created ' + ', '.join(made) if made else 'is already a workspace'}")
    if not made:
        return
    output.note(
        f"Write Markdown files in {MEMORY_FOLDER}/. A file named by a date, such as 2026-11-29.md, has what happened "
        "that day;\nany other has what holds until it is changed. A folder, such as "
        f"{MEMORY_FOLDER}/team/, is a source.\n"
        'Then: kipu search "a question"'
    )
