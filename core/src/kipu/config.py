"""Configuration, from ``kipu.toml`` or from Python, and the components that it names.

Both roads end in the same attrs classes with the same validators: an option that does not exist, or a value that
cannot be, is an error that says where it stands.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from .errors import ConfigurationError
from .plugins.build import shown, structure

if TYPE_CHECKING:
    from datetime import date

__all__ = [
    "CONFIG_FILE",
    "MOST_RESULTS",
    "STANDARD_FILTERS",
    "STANDARD_FLUSHER",
    "STANDARD_POSTPROCESSORS",
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
STANDARD_POSTPROCESSORS = ("threshold",)
STANDARD_FILTERS = ("redact",)
STANDARD_FLUSHER = "litellm"

_LARGEST_FILE = 1_000_000

Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def _must(be: str, holds: Callable[[Any], bool]) -> Validator:
    """A validator whose message is a sentence; those of attrs put a page of details behind it."""

    def check(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not holds(value):
            raise ConfigurationError(f"{attribute.name} must be {be}, not {shown(value)}")

    return check


def _is_strings(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value)


def _is_simple(patterns: Sequence[str]) -> bool:
    """Whether no pattern can take for ever: of ``*a*a*a*a*a*b``, each star doubles what has to be tried."""
    return all(part.count("*") <= 4 for pattern in patterns for part in pattern.split("/"))


def _is_component(value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(value.get("use"), str)
    return isinstance(value, str) or not isinstance(value, (list, tuple, int, float, type(None)))


def _without_options(choice: Any) -> str:
    """What is shown of a component among whose options may be a key."""
    return repr(choice) if not isinstance(choice, dict) else f"{{'use': {choice.get('use')!r}, ...}}"


def _is_table(kind: type) -> Validator:
    return _must(f"a {kind.__name__}", lambda value: isinstance(value, kind))


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_interval(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")


_strings = _must("a list of texts", _is_strings)
_component = _must('a name such as "example", or a table such as { use = "example", ... }', _is_component)
_component_or_none = _must(
    'a name such as "example", or a table such as { use = "example", ... }',
    lambda value: value is None or _is_component(value),
)
_components = _must(
    'a list of names such as "example", or of tables such as { use = "example", ... }',
    lambda value: value is None or (isinstance(value, (list, tuple)) and all(map(_is_component, value))),
)


@attrs.frozen
class FilesConfig:
    """Which files are memory files: those below ``memory/`` and below the further ``paths``."""

    paths: Sequence[str] = attrs.field(
        factory=list,
        validator=_strings,
        metadata={"help": "Further files and folders, relative to the workspace or absolute."},
    )
    exclude: Sequence[str] = attrs.field(
        factory=list,
        validator=[_strings, _must("without more than four stars between two slashes", _is_simple)],
        metadata={"help": "What to leave out, in the syntax of .gitignore, relative to the workspace."},
    )
    max_bytes: int = attrs.field(
        default=20_000_000,
        validator=_must("a whole number of at least 1", lambda value: type(value) is int and value >= 1),
        metadata={"help": "Larger files are skipped, in bytes: one of them would hold up every search."},
    )


@attrs.frozen
class IndexConfig:
    """How memory files become chunks, and chunks become vectors."""

    chunker: Any = attrs.field(
        default="markdown",
        validator=_component,
        metadata={"help": "The chunker: a name, or a table with `use` and its options."},
    )
    embedder: Any = attrs.field(
        default=None,
        repr=_without_options,
        validator=_component_or_none,
        metadata={
            "help": "The embedder: a name, or a table with `use` and its options. By default `onnx`, which needs no "
            "network, where it is installed; where it is not, searches go by words."
        },
    )
    cache_bytes: int = attrs.field(
        default=200_000_000,
        validator=_must("a whole number of at least 0", _is_count),
        metadata={
            "help": "How much of the vectors to keep that no chunk needs now, in bytes: those of texts that are gone, "
            "and of other embedders. Those that were used longest ago go first."
        },
    )


@attrs.frozen
class SearchConfig:
    """How queries become results."""

    strategy: Any = attrs.field(
        default=None,
        validator=_component_or_none,
        metadata={
            "help": "The strategy: a name, or a table with `use` and its options. By default `hybrid` where it and the "
            "two that it uses are installed, else `keyword`."
        },
    )
    postprocessors: Sequence[Any] | None = attrs.field(
        default=None,
        validator=_components,
        metadata={
            "help": "The post-processors, in order: names, or tables with `use` and options. "
            "By default the standard ones that are installed: threshold."
        },
    )
    max_results: int = attrs.field(
        default=6,
        validator=_must(
            f"a whole number from 1 to {MOST_RESULTS:,}",
            lambda value: type(value) is int and 1 <= value <= MOST_RESULTS,
        ),
        metadata={"help": "How many results a search returns at most."},
    )
    sync: bool = attrs.field(
        default=True,
        validator=_must("true or false", lambda value: isinstance(value, bool)),
        metadata={"help": "Whether a search first takes in what changed on disk."},
    )


@attrs.frozen
class PluginsConfig:
    """Which plugins to use."""

    disable: Sequence[str] = attrs.field(
        factory=list,
        validator=_strings,
        metadata={"help": "Plugins to leave alone, by the name of their distribution or entry point."},
    )


@attrs.frozen
class WritingConfig:
    """How texts are written to memory files."""

    filters: Sequence[Any] | None = attrs.field(
        default=None,
        validator=_components,
        metadata={
            "help": "What sees each text before it is written, in order: names, or tables with `use` and options. "
            "By default `redact` where it is installed; `[]` is nothing."
        },
    )


@attrs.frozen
class FlushConfig:
    """How conversations are distilled, and what that may cost."""

    flusher: Any = attrs.field(
        default=None,
        repr=_without_options,
        validator=_component_or_none,
        metadata={
            "help": "The flusher: a name, or a table with `use` and its options. By default there is none; "
            "a call that names a model asks it with `litellm`, where that is installed."
        },
    )
    calls_per_day: int = attrs.field(
        default=200,
        validator=_must("a whole number of at least 0", _is_count),
        metadata={"help": "How many calls of a model one day may cost, in this workspace."},
    )
    tokens_per_day: int = attrs.field(
        default=2_000_000,
        validator=_must("a whole number of at least 0", _is_count),
        metadata={"help": "How many tokens, in and out, one day may cost, in this workspace."},
    )


@attrs.frozen
class SyncConfig:
    """How a memory that is watched notices changes on disk."""

    debounce_ms: int = attrs.field(
        default=1500,
        validator=_must("a whole number of at least 0", _is_count),
        metadata={"help": "How long to collect changes that follow each other, at most, in milliseconds."},
    )
    interval: float = attrs.field(
        default=30.0,
        validator=_must("a number of seconds of at least 0", _is_interval),
        metadata={
            "help": "How often to check all files, in seconds, for what the file system does not report: changes on a "
            "network drive, or behind a symlink. 0 is never."
        },
    )


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


@attrs.frozen
class MemoryConfig:
    """Everything that can be configured of a memory.

    In Python, a component may also be an object: ``SearchConfig(strategy=Newest())``.
    """

    workspace: Path = attrs.field(default=Path(), converter=_to_path)
    files: FilesConfig = attrs.field(factory=FilesConfig, validator=_is_table(FilesConfig))
    index: IndexConfig = attrs.field(factory=IndexConfig, validator=_is_table(IndexConfig))
    search: SearchConfig = attrs.field(factory=SearchConfig, validator=_is_table(SearchConfig))
    writing: WritingConfig = attrs.field(factory=WritingConfig, validator=_is_table(WritingConfig))
    flush: FlushConfig = attrs.field(factory=FlushConfig, validator=_is_table(FlushConfig))
    sync: SyncConfig = attrs.field(factory=SyncConfig, validator=_is_table(SyncConfig))
    plugins: PluginsConfig = attrs.field(factory=PluginsConfig, validator=_is_table(PluginsConfig))
    timezone: str = attrs.field(
        default="",
        validator=_must('the name of a time zone such as "Europe/Berlin"', _is_timezone),
        metadata={"help": "The time zone in which a day begins and ends. By default that of this machine."},
    )

    def today(self) -> date:
        """The day that it is now, in the time zone of the workspace."""
        from datetime import datetime

        if not self.timezone:
            return datetime.now().astimezone().date()
        from zoneinfo import ZoneInfo

        return datetime.now(ZoneInfo(self.timezone)).date()


def load_config(workspace: Path) -> MemoryConfig:
    """The configuration of a workspace: its ``kipu.toml`` where it has one, else the defaults.

    :raises ConfigurationError: the file is not TOML, or has an option or a value that cannot be.
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
        return MemoryConfig(workspace)  # nothing but comments, as `kipu init` writes it: the parser can stay unloaded
    import tomllib

    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # what is no TOML, and a number of 5,000 digits
        raise ConfigurationError(f"{path} is not valid TOML: {error}.") from None
    if "workspace" in tables:
        raise ConfigurationError(f'{path}: no option "workspace". The workspace is the folder of this file.')
    if not tables:
        return MemoryConfig(workspace)
    config: MemoryConfig = structure(tables, MemoryConfig, str(path))
    return attrs.evolve(config, workspace=workspace)
