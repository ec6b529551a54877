"""Makes components of what a configuration says, strictly: nothing is taken for something else, and nothing ignored."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import ConfigurationError, KipuError, PluginFailedError, PluginNotFoundError, QueryError
from .manager import check_component, did_you_mean, options_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import cattrs

    from .manager import PerCallOption, Plugins, Registration

__all__ = ["build_component", "shown", "structure", "with_options"]


def shown(value: Any) -> str:
    """What is said of a value that cannot be: a table of options may have a key in it."""
    return f"a {type(value).__name__}" if isinstance(value, (dict, list, tuple)) else repr(value)


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
    return structure(options, factory, place) if options else _call(factory, {}, place)


def with_options(component: Any, registration: Registration, options: Sequence[tuple[PerCallOption, Any]]) -> Any:
    """``component`` with per-call options in place of its own; made anew where it is another class or None."""
    values = {option.field.name: value for option, value in options}
    names = ", ".join(option.name for option, _ in options)
    if type(component) is registration.factory:
        values = {field.name: getattr(component, field.name) for field in options_of(type(component))} | values
    try:
        return _call(registration.factory, values, names)
    except ConfigurationError as error:
        said = str(error).removeprefix(f"{names}: ")
        for option, _ in options:  # the field has another name than what was asked for
            said = re.sub(rf"\b{re.escape(option.field.name)}\b", option.name, said)
        raise QueryError(said if any(option.name in said for option, _ in options) else str(error)) from error


def _call(factory: Any, values: Mapping[str, Any], where: str) -> Any:
    arguments = {field.alias or field.name: values[field.name] for field in options_of(factory) if field.name in values}
    try:
        return factory(**arguments)
    except KipuError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{where}: {_first_line(error)}.") from error


def structure(tables: Mapping[str, Any], target: Any, where: str) -> Any:
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
    from cattrs.cols import is_mapping, is_sequence, list_structure_factory, mapping_structure_factory
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
        return _only(list, "a list in brackets", list_structure_factory(kind, converter))

    @converter.register_structure_hook_factory(is_mapping)
    def strict_mapping(kind: Any, converter: cattrs.Converter) -> Any:
        return _only(dict, "a table, such as { name = value }", mapping_structure_factory(kind, converter))

    @converter.register_structure_hook_factory(attrs.has)
    def strict_table(kind: Any, converter: cattrs.Converter) -> Any:
        return _only(dict, "a table", make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True))

    configure_union_passthrough(str | int | float | bool | None, converter)
    return converter


def _only(kind: type, spoken: str, structure: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A hook that takes nothing but one kind of value."""

    def hook(value: Any, target: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"must be {spoken}, not {shown(value)}")
        return structure(value, target)

    return hook


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
