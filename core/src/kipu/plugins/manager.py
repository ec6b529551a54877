"""Finds plugins, loads them, keeps what they register, and explains what is wrong with those that cannot be used.

A plugin that fails is reported and left out; it never takes the rest with it. A name that two plugins register is
an error only where that name is used.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

import attrs
import pluggy

from .. import __version__, hookspecs
from ..errors import ConfigurationError, PluginClashError, PluginNotFoundError
from .discovery import entry_points, normalized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import ModuleType

    from .discovery import EntryPoint

__all__ = ["KINDS", "PerCallOption", "PluginInfo", "Plugins", "did_you_mean", "disabled_by_environment"]

OPTIONS_OF_SEARCH = (
    "max_results",
    "strategy",
    "source",
    "since",
    "until",
    "as_of",
    "sync",
    "explain",
    "explain_path",
    "on_progress",
    "on_embedding",
)
_NAME = re.compile("[a-z0-9][a-z0-9-]*")
_OPTION = re.compile("[a-z][a-z0-9_]*")
_FLAGS_OF_SEARCH = ("query", "full", "scope", "no_sync", "workspace", "json", "quiet", "verbose", "help")

_logger = logging.getLogger("kipu")

KINDS = ("embedder", "chunker", "strategy", "postprocessor", "flusher", "filter")
_HOOKS = {
    "embedder": "kipu_register_embedders",
    "chunker": "kipu_register_chunkers",
    "strategy": "kipu_register_strategies",
    "postprocessor": "kipu_register_postprocessors",
    "flusher": "kipu_register_flushers",
    "filter": "kipu_register_write_filters",
}
_METHODS = {
    "embedder": "embed",
    "chunker": "chunk",
    "strategy": "search",
    "postprocessor": "process",
    "flusher": "distill",
    "filter": "filter",
}


# Where a component comes from that is not installed. Nobody is told to install a package of any other name: it may be
# anybody's.
DISTRIBUTIONS = {
    ("chunker", "markdown"): "kipu-chunker-markdown",
    ("embedder", "litellm"): "kipu-embedder-litellm",
    ("embedder", "onnx"): "kipu-embedder-onnx",
    ("embedder", "sentence-transformers"): "kipu-embedder-sentence-transformers",
    ("flusher", "litellm"): "kipu-flusher-litellm",
    ("postprocessor", "decay"): "kipu-postprocessor-decay",
    ("postprocessor", "mmr"): "kipu-postprocessor-mmr",
    ("postprocessor", "threshold"): "kipu-postprocessor-threshold",
    ("filter", "redact"): "kipu-filter-redact",
    ("strategy", "hybrid"): "kipu-strategy-hybrid",
    ("strategy", "keyword"): "kipu-strategy-keyword",
    ("strategy", "vector"): "kipu-strategy-vector",
}


@attrs.define
class PluginInfo:
    """One plugin: where it comes from, what it registers, whether it is in use, and if not, why.

    ``state`` is ``active``, ``blocked`` or ``broken``; an active plugin has a ``reason`` when a part of it is not
    used, as when it was written for a newer Kipu.
    """

    name: str
    distribution: str
    version: str
    state: str = "active"
    reason: str = ""
    registers: list[str] = attrs.field(factory=list)


@attrs.frozen
class Registration:
    """A component that can be used by name: the attrs class that makes it, and the plugin that registered it."""

    kind: str
    name: str
    factory: Any
    info: PluginInfo

    @property
    def plugin(self) -> str:
        """What messages call the plugin: its distribution and version."""
        return _label(self.info)


@attrs.frozen
class PerCallOption:
    """An option of a component that can also be given with one search."""

    name: str
    registration: Registration
    field: attrs.Attribute[Any]


def disabled_by_environment() -> list[str]:
    """The plugins that ``KIPU_DISABLE_PLUGINS`` blocks: names separated by commas."""
    return [name.strip() for name in os.environ.get("KIPU_DISABLE_PLUGINS", "").split(",") if name.strip()]


def blocked_by(blocked: Mapping[str, str], name: str, distribution: str) -> str | None:
    """The place that blocks the plugin of that name or its whole distribution; None where it is not blocked."""
    places = {normalized(other): place for other, place in blocked.items()}
    return places.get(normalized(name)) or places.get(distribution)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` Did you mean "graph"?`` where a known name is near, else nothing."""
    from difflib import get_close_matches

    spelled = {other.lower(): other for other in known}
    near = get_close_matches(name.lower(), list(spelled), n=1, cutoff=0.6)
    near = near or [other for other in spelled if len(name) > 3 and name.lower() in other]
    return f' Did you mean "{spelled[near[0]]}"?' if near else ""


class Plugins:
    """The installed plugins and the components that they register.

    :param blocked: plugins to leave alone, by the name of their distribution or of their entry point, each with the
        place that blocks it, which `infos` and error messages name.
    """

    def __init__(self, blocked: Mapping[str, str] | None = None) -> None:
        self._manager = pluggy.PluginManager("kipu")
        self._manager.add_hookspecs(hookspecs)
        self._registrations: dict[tuple[str, str], list[Registration]] = {}
        self.infos: list[PluginInfo] = []
        self.problems: list[str] = []
        self._load(blocked or {})

    # --- loading ---------------------------------------------------------------------------------------------------

    def _load(self, blocked: Mapping[str, str]) -> None:
        for point in entry_points("kipu"):
            info = self._note(point, blocked)
            if info.state == "blocked":
                continue
            try:
                self.add(import_module(point.value), info)
            except (Exception, SystemExit) as error:
                self._set_aside(info, error)
        for point in entry_points("kipu.commands"):  # which are imported only when they are called
            info = self._note(point, blocked)
            if info.state != "blocked":
                info.registers.append(f"command {point.name}")
        self.infos.sort(key=lambda info: (info.distribution, info.name))
        known = {name: None for info in self.infos for name in (info.distribution, normalized(info.name))}
        for name, place in blocked.items():
            if normalized(name) not in known:
                self._report(f'{place} blocks "{name}", which is not installed.{did_you_mean(name, known)}')

    def _report(self, problem: str) -> None:
        """Keep a problem for those who ask, and log it for those who do not."""
        if problem not in self.problems:
            self.problems.append(problem)
            _logger.warning(problem)

    def _note(self, point: EntryPoint, blocked: Mapping[str, str]) -> PluginInfo:
        info = PluginInfo(point.name, point.distribution, point.version)
        if place := blocked_by(blocked, point.name, point.distribution):
            info.state, info.reason = "blocked", f"blocked by {place}"
        self.infos.append(info)
        return info

    def _set_aside(self, info: PluginInfo, error: BaseException) -> None:
        plugin = self._manager.get_plugin(_key(info))
        if plugin is not None:
            self._manager.unregister(plugin)
        for registrations in self._registrations.values():
            registrations[:] = [entry for entry in registrations if entry.info is not info]
        info.registers.clear()
        info.state, info.reason = "broken", f"{type(error).__name__}: {error}"
        self._report(
            f"The plugin {_label(info)} is broken and was left out: {info.reason}. "
            f"Mend or upgrade it (pip install -U {info.distribution}), or block it (-p no:{info.distribution})."
        )

    def add(self, module: ModuleType, info: PluginInfo) -> None:
        """Register a plugin's module and everything that its hooks register."""
        self._manager.register(module, _key(info))
        unknown = []
        for hook in self._manager.get_hookcallers(module) or []:
            own = [hookimpl for hookimpl in hook.get_hookimpls() if hookimpl.plugin is module]
            if any(inspect.iscoroutinefunction(hookimpl.function) for hookimpl in own):
                raise TypeError(f"{hook.name} must be a plain function: hooks are not async (kipu.hookspecs)")
            if not hook.has_spec():
                unknown += [hook.name for hookimpl in own if not hookimpl.optionalhook]
                continue
            for kind in (kind for kind in KINDS if _HOOKS[kind] == hook.name):
                for hookimpl in own:
                    hookimpl.function(self._register(kind, info))
        if not self._manager.get_hookcallers(module):
            info.reason = "has no hook: is @hookimpl missing?"
            self._report(f"The plugin {_label(info)} {info.reason}")
        if unknown:
            known = [name for name in vars(hookspecs) if name.startswith("kipu_")]
            mend = did_you_mean(unknown[0], known) or (
                f" Try: pip install -U kipu-core, or an earlier {info.distribution}"
            )
            info.reason = f"uses {', '.join(sorted(unknown))}, which kipu-core {__version__} does not have.{mend}"
            self._report(f"The plugin {_label(info)} {info.reason} The rest of it is in use.")

    def _register(self, kind: str, info: PluginInfo) -> Callable[[str, Callable[..., Any]], None]:
        def register(name: str, factory: Callable[..., Any], /) -> None:
            if not _NAME.fullmatch(str(name)):
                raise TypeError(
                    f"the name of a {kind} is made of lower-case letters, digits and hyphens, unlike {name!r}"
                )
            if not isinstance(factory, type) or not attrs.has(factory):
                raise TypeError(f'{kind} "{name}" must be registered as a class made with attrs, not as {factory!r}')
            if not callable(getattr(factory, _METHODS[kind], None)):
                raise TypeError(f'{kind} "{name}" has no method {_METHODS[kind]}(): see kipu.types')
            registration = Registration(kind, name, factory, info)
            self._check_per_call_options(registration)
            self._registrations.setdefault((kind, name), []).append(registration)
            info.registers.append(f"{kind} {name}")

        return register

    def _check_per_call_options(self, registration: Registration) -> None:
        known = self.per_call_options()
        for field in options_of(registration.factory):
            name = field.metadata.get("per_call")
            if name is None:
                continue
            if not _OPTION.fullmatch(str(name)):
                raise TypeError(f"a per-call option is made of lower-case letters, digits and _, unlike {name!r}")
            if name in OPTIONS_OF_SEARCH or name in _FLAGS_OF_SEARCH:
                raise TypeError(f'{registration.kind} "{registration.name}" wants the option "{name}", which is taken')
            if name in known:
                self._report(
                    f'Both {known[name].registration.plugin} and {registration.plugin} have an option "{name}" for a '
                    f"search; it is that of {known[name].registration.plugin}."
                )

    # --- looking up ------------------------------------------------------------------------------------------------

    def names(self, kind: str) -> list[str]:
        """The names that can be used for components of a kind, sorted."""
        return sorted(name for (own, name), entries in self._registrations.items() if own == kind and entries)

    def find(self, kind: str, name: str) -> Registration:
        """The component of that name.

        :raises PluginNotFoundError: no plugin registers it; the message says which one would, or what is wrong.
        :raises PluginClashError: two plugins register it.
        """
        entries = self._registrations.get((kind, name), [])
        if len(entries) > 1:
            raise PluginClashError(
                f'Both {entries[0].plugin} and {entries[1].plugin} register a {kind} "{name}". '
                f"Block one of them, for example with: -p no:{entries[1].plugin.split()[0]}"
            )
        if entries:
            return entries[0]
        for info in self.infos:
            if info.state != "active" and normalized(info.name) == f"{kind}-{name}":
                raise PluginNotFoundError(
                    f'The {kind} "{name}" comes with {_label(info)}, which is not in use: {info.reason}.'
                )
        if not self.names(kind):
            raise PluginNotFoundError(
                f'No plugin with {"an" if kind == "embedder" else "a"} {kind} is installed, so there is no "{name}". '
                "The standard ones come with: pip install kipu"
            )
        ours = DISTRIBUTIONS.get((kind, name))
        said = f" It comes with: pip install {ours}" if ours else ""
        near = "" if ours else did_you_mean(name, self.names(kind))
        raise PluginNotFoundError(f'No {kind} "{name}".{near} Installed: {", ".join(self.names(kind))}.{said}')

    def per_call_options(self) -> dict[str, PerCallOption]:
        """The options that can be given with one search, by name. Of two with one name, the first plugin's counts."""
        options: dict[str, PerCallOption] = {}
        for registration in self._each():
            for field in options_of(registration.factory):
                name = field.metadata.get("per_call")
                if name:
                    options.setdefault(name, PerCallOption(name, registration, field))
        return options

    def find_per_call_option(self, name: str) -> PerCallOption:
        """The per-call option of that name.

        :raises PluginNotFoundError: no installed plugin has it.
        """
        options = self.per_call_options()
        if name not in options:
            near = did_you_mean(name, [*options, *OPTIONS_OF_SEARCH])
            have = f" Installed plugins offer: {', '.join(sorted(options))}." if options else ""
            raise PluginNotFoundError(
                f'No installed plugin has an option "{name}" for a search.{near}{have}{self.not_in_use()}'
            )
        return options[name]

    def not_in_use(self) -> str:
        """A sentence about the plugins that are left out, for somebody who misses what they would bring."""
        left_out = [f"{_label(info)} ({info.reason})" for info in self.infos if info.state != "active"]
        return f" Not in use: {'; '.join(left_out)}." if left_out else ""

    def _each(self) -> Iterator[Registration]:
        for entries in self._registrations.values():
            yield from entries[:1]

    # --- observers -------------------------------------------------------------------------------------------------

    def notify(self, hook: str, **arguments: Any) -> None:
        """Call an observing hook in every plugin. What one of them raises becomes a problem, and nothing else."""
        for hookimpl in getattr(self._manager.hook, hook).get_hookimpls():
            try:
                hookimpl.function(*(arguments[name] for name in hookimpl.argnames))
            except (Exception, SystemExit) as error:
                self._report(f"The plugin {hookimpl.plugin_name} failed in {hook}: {type(error).__name__}: {error}")


def _label(info: PluginInfo) -> str:
    return f"{info.distribution} {info.version}".strip()


def _key(info: PluginInfo) -> str:
    """What pluggy knows a plugin by: its label does not tell apart two plugins of one distribution."""
    return f"{_label(info)} ({info.name})"


def options_of(factory: Any) -> list[attrs.Attribute[Any]]:
    """The fields of a component's class that are options: not those that it keeps for itself."""
    return [field for field in attrs.fields(factory) if field.init]


def check_component(kind: str, name: str, component: Any) -> None:
    """Raise ConfigurationError unless ``component`` is what its kind asks for."""
    if isinstance(component, type) or not callable(getattr(component, _METHODS[kind], None)):
        raise ConfigurationError(
            f'The {kind} "{name}" must be an object with a method {_METHODS[kind]}(), not {component!r}: see kipu.types'
        )
