"""Configuration, from ``kipu.toml`` or from Python.

Both use the same attrs classes with the same rules: an option that does not exist, or an invalid value, is an error
that says where it stands.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from .errors import ConfigurationError
from .options import Rule, boolean, number, one_of, option, optional, texts, whole_number
from .plugins.build import structure

if TYPE_CHECKING:
    from datetime import date

__all__ = [
    "CONFIG_FILE",
    "MOST_RESULTS",
    "FilesConfig",
    "FlushConfig",
    "IndexConfig",
    "MemoryConfig",
    "PluginsConfig",
    "SearchConfig",
    "SyncConfig",
    "WritingConfig",
    "load_config",
]

CONFIG_FILE = "kipu.toml"

MOST_RESULTS = 10_000
_LARGEST_FILE = 1_000_000


def are_simple(patterns: Sequence[str]) -> bool:
    """Return whether no pattern takes exponential time: in ``*a*a*a*a*a*b``, each star multiplies the attempts."""
    return all(max(part.count("*") for part in each.split("/")) <= 4 and each.count("**/") <= 2 for each in patterns)


def _is_component(value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(value.get("use"), str)
    return isinstance(value, str) or not isinstance(value, (list, tuple, int, float, type(None)))


def _without_options(choice: Any) -> str:
    """Return how a component is shown whose options may include a key."""
    return repr(choice) if not isinstance(choice, dict) else f"{{'use': {choice.get('use')!r}, ...}}"


def _is_timezone(value: Any) -> bool:
    if value == "":
        return True
    from zoneinfo import ZoneInfo

    try:
        return isinstance(value, str) and ZoneInfo(value) is not None
    except (ValueError, OSError, LookupError):
        return False


def _to_path(value: Any) -> Path:
    try:
        return Path(value)
    except TypeError:
        raise ConfigurationError(f"The workspace must be a path, not {value!r}.") from None


_component = Rule('a name such as "example", or a table such as { use = "example", ... }', _is_component)
_component_or_flag = Rule(
    f"{_component.expected}, or true or false", lambda value: isinstance(value, bool) or _is_component(value)
)
_components = Rule(
    'a list of names such as "example", or of tables such as { use = "example", ... }',
    lambda value: isinstance(value, (list, tuple)) and all(map(_is_component, value)),
)
_timezone = Rule('the name of a time zone such as "Europe/Berlin"', _is_timezone)


def _table(cls: type) -> Any:
    """Make a field for a table of options."""
    return option(cls, Rule(f"a {cls.__name__}", lambda value: isinstance(value, cls)))


@attrs.frozen
class FilesConfig:
    """Which files are memory files: those below ``memory/`` and below the further ``paths``."""

    paths: Sequence[str] = option(list, texts, "Further files and folders, relative to the workspace or absolute.")
    exclude: Sequence[str] = option(
        list,
        [texts, Rule("without more than four stars between two slashes, or two **/", are_simple)],
        "What to leave out, in the syntax of .gitignore, relative to the workspace.",
    )
    max_bytes: int = option(
        20_000_000, whole_number(1), "Larger files are skipped, in bytes: one of them would delay every search."
    )
    worktrees: str = option(
        "own",
        one_of("own", "shared"),
        'Whether a linked worktree of git has a memory of its "own", or is "shared": the memory of the main worktree.',
    )


@attrs.frozen
class IndexConfig:
    """How memory files become chunks, and chunks become vectors."""

    chunker: Any = option("markdown", _component, "The chunker: a name, or a table with `use` and its options.")
    embedder: Any = option(
        None,
        optional(_component),
        "The embedder: a name, or a table with `use` and its options. By default `onnx`, which needs no network, if it "
        "is installed; if it is not, searches use keywords only.",
        repr=_without_options,
    )
    annotator: Any = option(
        None,
        optional(_component),
        "The annotator: a name, or a table with `use` and its options. By default there is none. It is used by "
        "strategies that need annotations, within the daily budget of [flush].",
        repr=_without_options,
    )
    cache_bytes: int = option(
        200_000_000,
        whole_number(),
        "How many bytes of vectors to keep that no chunk needs now: those of deleted texts and of other embedders. The "
        "least recently used are evicted first. Annotations of deleted texts may take as much again.",
    )


@attrs.frozen
class SearchConfig:
    """How queries become results."""

    strategy: Any = option(
        None,
        optional(_component),
        "The strategy: a name, or a table with `use` and its options. By default `hybrid` if it and the two that it "
        "uses are installed, else `keyword`.",
    )
    postprocessors: Sequence[Any] | None = option(
        None,
        optional(_components),
        "The post-processors, in order: names, or tables with `use` and options. By default the standard ones that are "
        "installed: threshold.",
    )
    max_results: int = option(6, whole_number(1, MOST_RESULTS), "How many results a search returns at most.")
    sync: bool = option(True, boolean, "Whether a search first indexes what has changed on disk.")
    relation: Any = option(
        None,
        optional(_component_or_flag),
        "The strategy that completes what the configured one finds with what is related to it: a name, or a table with "
        "`use` and its options; false for none. By default `graph`, if it is installed.",
    )


@attrs.frozen
class PluginsConfig:
    """Which plugins to use, and how long they may take."""

    disable: Sequence[str] = option(list, texts, "Plugins to skip, by the name of their distribution or entry point.")
    time_limit: float | None = option(
        None,
        optional(number(above=0)),
        "How many seconds one call of a component may take. By default 30, and 300 for a flusher or an "
        "annotator; a component's own `timeout` wins.",
    )


@attrs.frozen
class WritingConfig:
    """How texts are written to memory files."""

    filters: Sequence[Any] | None = option(
        None,
        optional(_components),
        "The write filters, in order, which see each text before it is written: names, or tables with `use` and "
        "options. By default `redact` if it is installed; `[]` for none.",
    )


@attrs.frozen
class FlushConfig:
    """How conversations are distilled, and what that may cost."""

    flusher: Any = option(
        None,
        optional(_component),
        "The flusher: a name, or a table with `use` and its options. By default there is none; a call that names a "
        "model uses `litellm`, if it is installed.",
        repr=_without_options,
    )
    calls_per_day: int = option(200, whole_number(), "How many calls of a model one day may cost, in this workspace.")
    tokens_per_day: int = option(
        2_000_000, whole_number(), "How many tokens, in and out, one day may cost, in this workspace."
    )


@attrs.frozen
class SyncConfig:
    """How a memory that is watched notices changes on disk."""

    debounce_ms: int = option(
        1500, whole_number(), "How long to collect changes that follow each other, at most, in milliseconds."
    )
    interval: float = option(
        30.0,
        number(at_least=0),
        "How often to check all files, in seconds, for what the file system does not report: changes on a network "
        "drive, or behind a symlink. 0 is never.",
    )


@attrs.frozen
class MemoryConfig:
    """Everything that can be configured of a memory.

    In Python, a component may also be an object: ``SearchConfig(strategy=Newest())``.
    """

    workspace: Path = attrs.field(default=Path(), converter=_to_path)
    files: FilesConfig = _table(FilesConfig)
    index: IndexConfig = _table(IndexConfig)
    search: SearchConfig = _table(SearchConfig)
    writing: WritingConfig = _table(WritingConfig)
    flush: FlushConfig = _table(FlushConfig)
    sync: SyncConfig = _table(SyncConfig)
    plugins: PluginsConfig = _table(PluginsConfig)
    timezone: str = option(
        "", _timezone, "The time zone in which a day begins and ends. By default that of this machine."
    )

    def today(self) -> date:
        """Return the current day in the time zone of the workspace."""
        from datetime import date, datetime

        if not self.timezone:
            return date(*time.localtime()[:3])
        from zoneinfo import ZoneInfo

        return datetime.now(ZoneInfo(self.timezone)).date()


def load_config(workspace: Path) -> MemoryConfig:
    """Return the configuration of a workspace: its ``kipu.toml`` if it has one, else the defaults.

    :raises ConfigurationError: the file is not TOML, or has an unknown option or an invalid value.
    """
    path = workspace / CONFIG_FILE
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_FILE:
            raise ConfigurationError(f"{path} must be a file of at most {_LARGEST_FILE:,} bytes.")
        text = path.read_text("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return MemoryConfig(workspace)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}. It must be a TOML file in UTF-8.") from None
    if not any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines()):
        return MemoryConfig(workspace)  # only comments, as `kipu init` writes it: the parser need not be loaded
    import tomllib

    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # no TOML, or a number of 5,000 digits
        raise ConfigurationError(f"{path} is not valid TOML: {error}.") from None
    if "workspace" in tables:
        raise ConfigurationError(f'{path}: no option "workspace". The workspace is the folder of this file.')
    if not tables:
        return MemoryConfig(workspace)
    config: MemoryConfig = structure(tables, MemoryConfig, str(path))
    return attrs.evolve(config, workspace=workspace)
