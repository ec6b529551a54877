"""Writes the reference pages from the code: ``make reference``.

Each page holds a block for cog, which prints what one of the functions below returns. They read what the code says of
itself, its docstrings and the help of its options, so that a page says nothing that the code does not do. ``make
check`` fails where a page is older than its code.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import attrs
import click

import kipu
from kipu import config, errors, hookspecs, markdown, types
from kipu.cli import kipu as kipu_command
from kipu.plugins.kinds import KINDS
from kipu.plugins.manager import Plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

WIDTH = 100  # of help texts, in columns

SYNC_CLASS = """\
class Memory:
    def __enter__(self) -> Memory: ...
    def __exit__(self, *exception: object) -> None: ...
    @property
    def config(self) -> MemoryConfig: ...
    @property
    def plugins(self) -> Plugins: ...
    @property
    def workspace(self) -> Path: ...
"""

KIND_TITLES = {
    "embedder": "Embedder",
    "chunker": "Chunker",
    "strategy": "Strategy",
    "postprocessor": "Post-processor",
    "annotator": "Annotator",
    "flusher": "Flusher",
    "filter": "Write filter",
}


# --- The pages -----------------------------------------------------------------------------------------------------


def commands() -> str:
    """Return every command with its help, as it looks on a terminal."""
    settings = {**kipu_command.context_settings, "terminal_width": WIDTH}
    return _page(
        f"## {context.command_path}\n\n```text\n{context.get_help().rstrip()}\n```"
        for context in _contexts(click.Context(kipu_command, info_name="kipu", **settings))
    )


def configuration() -> str:
    """Return the tables of ``kipu.toml``, and the options of every component that the installed plugins register."""
    own = [field for field in attrs.fields(config.MemoryConfig) if "help" in field.metadata]
    parts = ["## Before the first table", _rows(own)]
    for field in attrs.fields(config.MemoryConfig):
        table = getattr(field.default, "factory", None)
        if table is not None and attrs.has(table):
            parts.append(f"## [{field.name}]\n\n{_docstring(table)}\n\n{_options(table)}")
    plugins = Plugins()
    for kind in KINDS:
        for name in plugins.names(kind):
            component = plugins.find(kind, name)
            parts += [f"## {KIND_TITLES[kind]} {name}", _docstring(component.factory), _options(component.factory)]
            parts.append(f"It comes with `{component.plugin.split()[0]}`.")
    return _page(parts)


def python() -> str:
    """Return the public names of ``kipu``, then those that only ``kipu.types`` has."""
    public = [name for name in kipu.__all__ if not name.startswith("_") and name != "hookimpl"]
    contract = [name for name in types.__all__ if name not in public]
    return _page(
        [_class(f"kipu.{name}", getattr(kipu, name)) for name in public]
        + [_class(f"kipu.types.{name}", getattr(types, name)) for name in contract]
    )


def markdown_names() -> str:
    """Return the names of ``kipu.markdown``."""
    members = [(f"kipu.markdown.{name}", getattr(markdown, name)) for name in markdown.__all__]
    return _page(
        [_docstring(markdown)]
        + [_class(name, member) for name, member in members if inspect.isclass(member)]
        + [
            f"## {name}\n\n{_signature(member)}\n\n{_docstring(member)}"
            for name, member in members
            if inspect.isfunction(member)
        ]
    )


def hooks() -> str:
    """Return every hook with its signature, in the order of the module."""
    return _page(
        f"## {name}\n\n{_signature(hook)}\n\n{_docstring(hook)}"
        for name, hook in vars(hookspecs).items()
        if hasattr(hook, "kipu_spec")
    )


def sync_stub() -> str:
    """Return the types of ``kipu.sync``: the signatures of `kipu.Memory` without ``async``, and their imports."""
    methods = inspect.getmembers(kipu.Memory, inspect.isfunction)
    heads = [_head(method) for name, method in methods if name == "__init__" or not name.startswith("_")]
    signatures = "\n".join(f"{textwrap.indent(head, '    ').replace('async def', 'def')} ..." for head in heads)
    body = f"{SYNC_CLASS}{signatures}\n"
    names = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    imports = set()
    for module in {sys.modules[cls.__module__] for cls in kipu.Memory.__mro__[:-1]}:
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                node.names = [alias for alias in node.names if alias.name in names]
                if node.names:
                    imports.add(ast.unparse(node))
    text = "\n".join([*sorted(imports), "", "", body])
    return text.replace("AbstractAsyncContextManager", "AbstractContextManager").replace("[Index]", "[Any]")


def error_tree() -> str:
    """Return the tree of errors, and what each of them means."""
    rows = ["| error | exit code | meaning |", "|---|---|---|"]
    for name in errors.__all__:
        error = getattr(errors, name)
        rows.append(f"| `{name}` | {error.exit_code} | {' '.join(_docstring(error).split())} |")
    return _page([_docstring(errors), "\n".join(rows)])


# --- Their parts ---------------------------------------------------------------------------------------------------


def _page(parts: Iterable[str]) -> str:
    return "\n" + "\n\n".join(parts) + "\n\n"


def _contexts(context: click.Context) -> Iterator[click.Context]:
    """Return the context of a command and those of the commands below it."""
    yield context
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if command is not None and not command.hidden:
                yield from _contexts(click.Context(command, parent=context, info_name=name))


def _options(factory: type) -> str:
    """Return a table of the options of an attrs class."""
    fields = [field for field in attrs.fields(factory) if field.init]
    return _rows(fields) if fields else "It has no options."


def _rows(fields: Iterable[attrs.Attribute[Any]]) -> str:
    rows = ["| option | type | default | meaning |", "|---|---|---|---|"]
    for field in fields:
        meaning = field.metadata.get("help", "")
        if per_call := field.metadata.get("per_call"):
            meaning += f" For one search: `{per_call}` or `--{per_call.replace('_', '-')}`."
        rows.append(f"| `{field.name}` | `{_type(field)}` | {_default(field)} | {meaning.strip()} |")
    return "\n".join(rows)


def _class(name: str, cls: type) -> str:
    """Return a class with its fields, its properties and its methods."""
    parts = [f"## {name}", _docstring(cls)]
    if attrs.has(cls):
        parts.append(_fields(cls))
    elif "__init__" in vars(cls) and not getattr(cls, "_is_protocol", False):
        parts.append(_signature(vars(cls)["__init__"]))
    # What it inherits from a class that is not public itself is its own, to a reader.
    above = getattr(cls, "__mro__", (cls,))  # a union of types has none
    bases = [base for base in reversed(above) if base is cls or base.__name__ == "SearchableMemory"]
    members = {name: member for base in bases for name, member in vars(base).items()}
    for member_name, member in members.items():
        if member_name.startswith("_") or not (isinstance(member, property) or inspect.isfunction(member)):
            continue
        parts.append(f"### {name.rpartition('.')[2]}.{member_name}")
        if inspect.isfunction(member):
            parts.append(_signature(member))
        parts.append(_docstring(member))
    return "\n\n".join(parts)


def _fields(cls: type) -> str:
    rows = ["| field | type | default |", "|---|---|---|"]
    rows += [f"| `{field.name}` | `{_type(field)}` | {_default(field)} |" for field in attrs.fields(cls)]
    return "\n".join(rows)


def _type(field: attrs.Attribute[Any]) -> str:
    annotation: Any = field.type
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return text.replace(" | ", " or ")  # a bar would end the cell of the table


def _default(field: attrs.Attribute[Any]) -> str:
    value: Any = field.default
    if value is attrs.NOTHING:
        return "required"
    if isinstance(value, attrs.Factory):  # type: ignore[arg-type]
        if value.takes_self:
            return "as the others say"
        value = value.factory()
    if attrs.has(type(value)):
        return f"`{type(value).__name__}()`"
    return "none" if value is None else f"`{json.dumps(value, ensure_ascii=False, default=str)}`"


def _signature(function: Callable[..., Any]) -> str:
    """Return the head of a function in a block of code."""
    return f"```python\n{_head(function).rstrip(':')}\n```"


def _head(function: Callable[..., Any]) -> str:
    """Return the head of a function, as it is written in the source."""
    source = textwrap.dedent(inspect.getsource(function))
    definition: Any = ast.parse(source).body[0]
    return "\n".join(source.split("\n")[definition.lineno - 1 : definition.body[0].lineno - 1])


# --- From the markup of docstrings to that of the pages ------------------------------------------------------------


def _docstring(thing: Any) -> str:
    """Return a docstring in Markdown."""
    text = (inspect.getdoc(thing) or "").replace("``", "`")
    text = re.sub(r"::\n\n((?:(?: {4}.*)?\n?)+)", _block, text)
    text = re.sub(r"^:(?:param|parameter) (\w+): ", r"- `\1`: ", text, flags=re.MULTILINE)
    text = re.sub(r"^:raises (\w+): ", r"- raises `\1`: ", text, flags=re.MULTILINE)
    text = re.sub(r"^:returns?: ", "- returns ", text, flags=re.MULTILINE)
    return text.strip()


def _block(match: re.Match[str]) -> str:
    """Return the indented block after ``::``, which is Python unless it is a drawing or an item of a list."""
    code = textwrap.dedent(match[1]).strip("\n")
    language = "text" if "─" in code or code.startswith("- ") else "python"
    return f":\n\n```{language}\n{code}\n```\n\n"
