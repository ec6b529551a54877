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

from .errors import ConfigurationError, KipuError, PluginFailedError, PluginNotFoundError, QueryError
from .plugins import check_component, did_you_mean, options_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    import cattrs

    from .plugins import PerCallOption, Plugins, Registration

__all__ = [
    "CONFIG_FILE",
    "MOST_RESULTS",
    "STANDARD_POSTPROCESSORS",
    "FilesConfig",
    "IndexConfig",
    "MemoryConfig",
    "PluginsConfig",
    "SearchConfig",
    "build_component",
    "load_config",
    "with_options",
]

CONFIG_FILE = "kipu.toml"

MOST_RESULTS = 10_000
STANDARD_POSTPROCESSORS = ("threshold",)

_LARGEST_FILE = 1_000_000

Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def _shown(value: Any) -> str:
    """What is said of a value that cannot be: a table of options may have a key in it."""
    return f"a {type(value).__name__}" if isinstance(value, (dict, list, tuple)) else repr(value)


def _must(be: str, holds: Callable[[Any], bool]) -> Validator:
    """A validator whose message is a sentence; those of attrs put a page of details behind it."""

    def check(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not holds(value):
            raise ConfigurationError(f"{attribute.name} must be {be}, not {_shown(value)}")

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
        validator=_must("a whole number of at least 0", lambda value: type(value) is int and value >= 0),
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
    config: MemoryConfig = _structure(tables, MemoryConfig, str(path))
    return attrs.evolve(config, workspace=workspace)


def build_component(plugins: Plugins, kind: str, choice: Any, where: str) -> Any:
    """The component that a configuration names: by name, by a table with ``use`` and options, or as an object.

    :param where: where the choice stands, for the message of an error, such as ``search.strategy``.
    :raises PluginNotFoundError: no plugin registers that name.
    :raises ConfigurationError: an option that the component does not have, or a value that it refuses.
    """
    if isinstance(choice, str):
        choice = {"use": choice}
    if not isinstance(choice, dict):
        check_component(kind, where, choice)
        return choice
    options = {name: value for name, value in choice.items() if name != "use"}
    try:
        factory = plugins.find(kind, choice["use"]).factory
    except PluginNotFoundError as error:
        if where == kind or not plugins.names(kind):  # it was asked for with a search, or there is nothing to ask for
            raise
        raise PluginNotFoundError(f"{where}: {error}") from None
    place = f'{where}, {kind} "{choice["use"]}"'
    required = [field.name for field in options_of(factory) if field.default is attrs.NOTHING]
    if missing := [f'"{name}"' for name in required if name not in options]:
        raise ConfigurationError(f"{place}: it needs {' and '.join(missing)}.")
    return _structure(options, factory, place) if options else _call(factory, {}, place)


def with_options(component: Any, registration: Registration, options: Sequence[tuple[PerCallOption, Any]]) -> Any:
    """``component`` with per-call options in place of its own; made anew where it is another class or None."""
    values = {option.field.name: value for option, value in options}
    names = ", ".join(option.name for option, _ in options)
    if type(component) is registration.factory:
        values = {field.name: getattr(component, field.name) for field in options_of(type(component))} | values
    try:
        return _call(registration.factory, values, names)
    except ConfigurationError as error:
        raise QueryError(str(error)) from error


def _call(factory: Any, values: Mapping[str, Any], where: str) -> Any:
    arguments = {field.alias or field.name: values[field.name] for field in options_of(factory) if field.name in values}
    try:
        return factory(**arguments)
    except KipuError:
        raise
    except (TypeError, ValueError) as error:
        said = _first_line(error)
        raise ConfigurationError(f"{said}." if said.startswith(f"'{where}'") else f"{where}: {said}.") from error


def _structure(tables: Mapping[str, Any], target: Any, where: str) -> Any:
    """Build an attrs class from tables, strictly, or say what is wrong with them."""
    import cattrs

    try:
        return _strict_converter().structure(tables, target)
    except (cattrs.ClassValidationError, cattrs.ForbiddenExtraKeysError) as error:
        raise ConfigurationError("\n".join(f"{where}: {line}" for line in _explain(error, ()))) from None
    except NameError as error:
        raise PluginFailedError(
            f"{where}: the types of its options cannot be looked up ({error}). Its author must import them outside of "
            "`if TYPE_CHECKING`."
        ) from error
    except cattrs.StructureHandlerNotFoundError as error:
        raise PluginFailedError(
            f"{where}: an option has a type that no file can give ({error.type_}). Its author must annotate it as what "
            "TOML has, or as Any."
        ) from error


def _strict_converter() -> cattrs.Converter:
    """A converter that takes nothing for something else: left to itself, it turns "false" into True and drops typos."""
    import cattrs
    from cattrs.cols import is_sequence, list_structure_factory
    from cattrs.gen import make_dict_structure_fn
    from cattrs.strategies import configure_union_passthrough

    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)

    def strict(value: Any, kind: Any) -> Any:
        allowed = (int, float) if kind is float else kind
        if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
            raise TypeError(f"must be {_SPOKEN[kind]}, not {value!r}")
        return kind(value)

    for kind in _SPOKEN:
        converter.register_structure_hook(kind, strict)

    @converter.register_structure_hook_factory(is_sequence)
    def strict_list(kind: Any, converter: cattrs.Converter) -> Any:
        structure = list_structure_factory(kind, converter)

        def hook(value: Any, kind: Any) -> Any:
            if not isinstance(value, list):
                raise TypeError(f"must be a list in brackets, not {value!r}")
            return structure(value, kind)

        return hook

    @converter.register_structure_hook_factory(attrs.has)
    def strict_table(kind: Any, converter: cattrs.Converter) -> Any:
        structure = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True)

        def hook(value: Any, kind: Any) -> Any:
            if not isinstance(value, dict):
                raise TypeError(f"must be a table, not {_shown(value)}")
            return structure(value, kind)

        return hook

    configure_union_passthrough(str | int | float | bool | None, converter)
    return converter


_SPOKEN = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}


def _explain(error: BaseException, path: tuple[str, ...]) -> list[str]:
    """One line for each thing that is wrong, with the path of its key."""
    import cattrs

    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        known = [field.name for field in options_of(error.cl) if field.name != "workspace"]
        return [
            f'no option "{".".join((*path, key))}".{did_you_mean(key, known)} '
            + (f"It has: {', '.join(known)}." if known else "It has none.")
            for key in sorted(error.extra_fields)
        ]
    if isinstance(error, BaseExceptionGroup):
        lines = []
        for part in error.exceptions:
            step = [
                str(note.name if hasattr(note, "name") else note.index)
                for note in getattr(part, "__notes__", [])
                if hasattr(note, "name") or hasattr(note, "index")
            ]
            lines += _explain(part, (*path, *step))
        return lines
    message = _first_line(error)
    return [f"{'.'.join(path)}: {message}" if path and not message.startswith(f"{path[-1]}:") else message]


def _first_line(error: BaseException) -> str:
    """What a validator said; attrs puts the attribute, the class and the value behind it as further arguments."""
    text = str(error.args[0]) if error.args else str(error)
    return text.strip().split("\n")[0] or type(error).__name__
