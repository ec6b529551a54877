"""``kipu init``."""

from __future__ import annotations

from pathlib import Path

import click

from ..config import CONFIG_FILE
from ..database import make_hidden_folder
from ..files import HIDDEN_FOLDER, MEMORY_FOLDER
from .common import Output, folder_to_make, shared_options

__all__ = ["init_command"]

_CONFIG = """\
# The configuration of Kipu. Everything here has a default; what is commented out shows it.

# timezone = "Europe/Berlin"  # when a day begins; by default as on this machine

# [files]
# paths = []                  # further files and folders with memories, besides memory/
# exclude = []                # what to leave out, in the syntax of .gitignore

# [index]
# chunker = "markdown"        # or with options: { use = "markdown", tokens = 200 }
# embedder = "onnx"           # or { use = "litellm", model = "openai/text-embedding-3-small" }

# [search]
# strategy = "hybrid"         # by meaning and by words; "keyword" is by words alone
# postprocessors = ["threshold"]   # or with options: [{ use = "threshold", min_score = 0.1 }]
# max_results = 6
# sync = true                 # a search first takes in what changed on disk

# [plugins]
# disable = []                # plugins to leave alone; "kipu plugins" lists them
"""


@click.command("init")
@click.argument("folder", required=False, type=click.Path(file_okay=False, path_type=Path))
@shared_options
def init_command(output: Output, workspace: Path, folder: Path | None) -> None:
    """Make a workspace in FOLDER, by default here: a memory folder and a configuration.

    What is there already is left as it is.
    """
    root = folder_to_make(folder, workspace, Path.cwd())
    made = []
    memory = root / MEMORY_FOLDER
    try:
        if not memory.exists():
            memory.mkdir(parents=True)
            made.append(f"{MEMORY_FOLDER}/")
        config = root / CONFIG_FILE
        if not config.exists():
            config.write_text(_CONFIG, "utf-8")
            made.append(CONFIG_FILE)
        make_hidden_folder(root / HIDDEN_FOLDER)
    except OSError as error:
        raise click.ClickException(f"{root} cannot be made a workspace: {error.strerror}: {error.filename}") from error
    if output.json:
        output.data({"workspace": str(root.resolve()), "made": made})
        return
    output.line(f"{root.resolve()}: {'made ' + ', '.join(made) if made else 'is a workspace already'}")
    if not made:
        return
    output.note(
        f"Write Markdown files in {MEMORY_FOLDER}/. One that is named by a date, such as 2026-11-29.md, is what "
        "happened that day;\nany other is what holds until somebody changes it. A folder, such as "
        f'{MEMORY_FOLDER}/team/, is a source.\nThen: kipu search "a question"'
    )
