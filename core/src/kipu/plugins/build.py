"""Build components from what a configuration says, strictly: no value is converted or ignored."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import ConfigurationError, KipuError, PluginFailedError, PluginNotFoundError, QueryError
from ..options import describe
from .adapters import ADAPTERS
from .calls import Adapter, describe_error, text_of
from .kinds import KINDS
from .records import options_of
from .suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import cattrs

    from .manager import Plugins
    from .records import PerCallOption, Registration


def name_of(choice: Any) -> str:
    """Return what messages and the index call a component that was chosen by name, by table or as an object."""
    if isinstance(choice, str):
        return choice
    if isinstance(choice, dict):
        return str(choice["use"])
    return f"{type(choice).__module__}.{type(choice).__qualname__}"


def build_component(plugins: Plugins, kind: str, choice: Any, where: str, time_limit: float | None = None) -> Any:
    """Build the component that a configuration names: by name, by a table with ``use`` and options, or as an object.

    :param where: where the choice stands, for messages, such as ``search.strategy``.
    :param time_limit: how many seconds one of its calls may take.
    :return: its adapter: one of `ADAPTERS`.
    :raises PluginNotFoundError: no plugin registers that name.
    :raises ConfigurationError: an option that the component does not have, or an invalid value.
    """
    limit = KINDS[kind].time_limit if time_limit is None else time_limit
    if isinstance(choice, str):
        choice = {"use": choice}
    if not isinstance(choice, dict):
        check_component(kind, where, choice)
        return ADAPTERS[kind](KINDS[kind], name_of(choice), choice, time_limit=limit)
    options = {name: value for name, value in choice.items() if name != "use"}
    try:
        registration = plugins.find(kind, choice["use"])
    except PluginNotFoundError as error:
        if where == kind or not plugins.names(kind):  # it was requested with a search, or none is installed
            raise
        raise PluginNotFoundError(f"{where}: {error}") from None
    factory = registration.factory
    place = f'{where}, {KINDS[kind].label} "{choice["use"]}"'
    required = [field.name for field in options_of(factory) if field.default is attrs.NOTHING]
    if missing := [f'"{name}"' for name in required if name not in options]:
        raise ConfigurationError(f"{place}: it needs {' and '.join(missing)}.")
    component = structure(options, factory, place) if options else _construct(factory, {}, place)
    return ADAPTERS[kind](KINDS[kind], choice["use"], component, registration.plugin, limit)


def check_component(kind: str, name: str, component: Any) -> None:
    """Raise ConfigurationError unless an object has the method that its kind must have."""
    method = KINDS[kind].method
    if isinstance(component, type) or not callable(getattr(component, method, None)):
        raise ConfigurationError(
            f'The {KINDS[kind].label} "{name}" must be an object with a method {method}(), not {component!r}: see '
            f"kipu.types.{KINDS[kind].protocol}"
        )


def with_options(
    adapter: Adapter | None,
    registration: Registration,
    options: Sequence[tuple[PerCallOption, Any]],
    time_limit: float | None = None,
) -> Any:
    """Return a component with per-call options in place of its own; a new one if ``adapter`` is of another class.

    :param time_limit: how many seconds a call of a new one may take.
    :raises QueryError: a value has another type than in a file, or is invalid.
    """
    values = {option.field.name: _typed(option, value) for option, value in options}
    if adapter is not None and type(adapter.component) is registration.factory:
        fields = options_of(registration.factory)
        values = {field.name: getattr(adapter.component, field.name) for field in fields} | values
    names = ", ".join(option.name for option, _ in options)
    try:
        component = _construct(registration.factory, values, names)
    except ConfigurationError as error:
        text = str(error).removeprefix(f"{names}: ")
        for option, _ in options:  # the field has another name than the option
            text = re.sub(rf"\b{re.escape(option.field.name)}\b", option.name, text)
        raise QueryError(text if any(option.name in text for option, _ in options) else str(error)) from error
    kind = KINDS[registration.kind]
    limit = kind.time_limit if time_limit is None else time_limit
    name, limit = (registration.name, limit) if adapter is None else (adapter.name, adapter.time_limit)
    return ADAPTERS[kind.name](kind, name, component, registration.plugin, limit)


def _typed(option: PerCallOption, value: Any) -> Any:
    """Return the value of a per-call option if it has a type that a file could give it.

    :raises QueryError: it has another type.
    """
    try:
        fields = attrs.fields(attrs.resolve_types(option.registration.factory))
    except NameError as error:
        raise PluginFailedError(f"{option.name}: {_UNRESOLVED.format(error)}") from error
    kind = getattr(fields, option.field.name).type
    try:
        return _strict(value, kind) if kind in _SPOKEN else _structured(value, Any if kind is None else kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise QueryError(f"{option.name} {_first_line(error)}.") from error


def _structured(value: Any, kind: Any) -> Any:
    import cattrs

    try:
        return _strict_converter().structure(value, kind)
    except cattrs.StructureHandlerNotFoundError:
        return value
    except cattrs.BaseValidationError as error:
        raise TypeError(f"is invalid: {'; '.join(_explain(error, ()))}") from error


_UNRESOLVED = (
    "the types of its options cannot be looked up ({}). Its author must import them outside of `if TYPE_CHECKING`."
)


def _construct(factory: Any, values: Mapping[str, Any], where: str) -> Any:
    arguments = {field.alias or field.name: values[field.name] for field in options_of(factory) if field.name in values}
    try:
        return factory(**arguments)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from error
    except KipuError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{where}: {_first_line(error)}.") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PluginFailedError(f"{where}: it cannot be made: {describe_error(error)}.") from error


def structure(tables: Mapping[str, Any], target: Any, where: str) -> Any:
    """Build an attrs class from tables, strictly.

    :raises ConfigurationError: an option does not exist, or a value is invalid; the message has a line for each.
    """
    import cattrs

    try:
        return _strict_converter().structure(tables, target)
    except (cattrs.ClassValidationError, cattrs.ForbiddenExtraKeysError) as error:
        raise ConfigurationError("\n".join(f"{where}: {line}" for line in _explain(error, ()))) from None
    except NameError as error:
        raise PluginFailedError(f"{where}: {_UNRESOLVED.format(error)}") from error
    except cattrs.StructureHandlerNotFoundError as error:
        raise PluginFailedError(
            f"{where}: an option has a type that no file can give ({error.type_}). Its author must annotate it as a "
            "type that TOML has, or as Any."
        ) from error


@functools.cache
def _strict_converter() -> cattrs.Converter:
    """Return a converter that converts nothing: by default, cattrs turns "false" into True and drops typos."""
    import cattrs
    from cattrs.cols import is_mapping, is_sequence, list_structure_factory, mapping_structure_factory
    from cattrs.gen import make_dict_structure_fn
    from cattrs.strategies import configure_union_passthrough

    converter = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)

    for kind in _SPOKEN:
        converter.register_structure_hook(kind, _strict)

    @converter.register_structure_hook_factory(is_sequence)
    def strict_list(kind: Any, converter: cattrs.Converter) -> Any:
        return _only(list, "a list in brackets", list_structure_factory(kind, converter))

    @converter.register_structure_hook_factory(is_mapping)
    def strict_mapping(kind: Any, converter: cattrs.Converter) -> Any:
        return _only(dict, "a table, such as { name = value }", mapping_structure_factory(kind, converter))

    @converter.register_structure_hook_factory(attrs.has)
    def strict_table(kind: Any, converter: cattrs.Converter) -> Any:
        return _only(dict, "a table", make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True))

    configure_union_passthrough(str | int | float | bool | None, converter)
    return converter


def _strict(value: Any, kind: Any) -> Any:
    allowed = (int, float) if kind is float else kind
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"must be {_SPOKEN[kind]}, not {describe(value)}")
    return kind(value)


def _only(kind: type, spoken: str, structure: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a hook that accepts one kind of value."""

    def hook(value: Any, target: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"must be {spoken}, not {describe(value)}")
        return structure(value, target)

    return hook


_SPOKEN = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}


def _explain(error: BaseException, path: tuple[str, ...]) -> list[str]:
    """Return one line for each thing that is wrong, with the path of its key."""
    import cattrs

    if isinstance(error, cattrs.ForbiddenExtraKeysError):
        known = [field.name for field in options_of(error.cl) if field.name != "workspace"]
        return [
            f'no option "{".".join((*path, key))}".{_table_of(key, error.cl) or did_you_mean(key, known)} '
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


def _table_of(key: str, target: Any) -> str:
    """Return a sentence on the table that has an option, which stands above all tables; empty if none has."""
    tables = [
        field.name
        for field in options_of(target)
        if isinstance(field.type, type) and attrs.has(field.type) and key in attrs.fields_dict(field.type)
    ]
    return f" It belongs below [{tables[0]}]." if tables else ""


def _first_line(error: BaseException) -> str:
    """Return the message of a validator; attrs appends the attribute, the class and the value as further arguments."""
    text = text_of(error.args[0] if error.args else error) or ""
    return text.split("\n")[0] or type(error).__name__[:100]
