"""Load plugins, keep what they register, and explain what is wrong with those that cannot be used.

A plugin that fails is reported and skipped; the others load. A name that two plugins register is an error only where
that name is used.
"""

from __future__ import annotations

import inspect
import logging
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

import attrs
import pluggy

from .. import __version__, hookspecs
from ..errors import KipuError, PluginClashError, PluginNotFoundError
from .calls import Adapter, describe_error
from .discovery import entry_points, normalized
from .kinds import KINDS, Kind
from .records import PerCallOption, PluginInfo, Registration, blocked_by, options_of
from .suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import ModuleType

    from .discovery import EntryPoint

SEARCH_OPTIONS = (
    "max_results",
    "strategy",
    "source",
    "since",
    "until",
    "as_of",
    "tag",
    "path",
    "where",
    "sync",
    "explain",
    "explain_path",
    "on_progress",
    "on_embedding",
)
_SEARCH_FLAGS = ("query", "full", "scope", "no_sync", "workspace", "json", "quiet", "verbose", "help")
_OBSERVER = Kind("observer", "plugin", "", "", "", (), ())
_NAME = re.compile("[a-z0-9][a-z0-9-]*")
_OPTION = re.compile("[a-z][a-z0-9_]*")

_logger = logging.getLogger("kipu")


class Plugins:
    """The installed plugins and the components that they register.

    :param blocked: plugins to skip, by the name of their distribution or of their entry point, each with the place that
        blocks it, for `infos` and for messages.
    """

    def __init__(self, blocked: Mapping[str, str] | None = None) -> None:
        self._manager = pluggy.PluginManager("kipu")
        self._manager.add_hookspecs(hookspecs)
        self._registrations: dict[tuple[str, str], list[Registration]] = {}
        self._observers: dict[int, Adapter] = {}
        self.infos: list[PluginInfo] = []
        self.problems: list[str] = []
        self._load(blocked or {})

    # --- loading ---------------------------------------------------------------------------------------------------

    def _load(self, blocked: Mapping[str, str]) -> None:
        for point in entry_points("kipu"):
            info = self._add_info(point, blocked)
            if info.state == "blocked":
                continue
            try:
                self.add(import_module(point.value), info)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self._skip(info, error)
        for point in entry_points("kipu.commands"):  # which are imported only when they are called
            info = self._add_info(point, blocked)
            if info.state != "blocked":
                info.registers.append(f"command {point.name}")
        self.infos.sort(key=lambda info: (info.distribution, info.name))
        known = {name: None for info in self.infos for name in (info.distribution, normalized(info.name))}
        for name, place in blocked.items():
            if normalized(name) not in known:
                self._report(f'{place} blocks "{name}", which is not installed.{did_you_mean(name, known)}')

    def _report(self, problem: str) -> None:
        """Keep a problem for callers that ask, and log it for those that do not."""
        if problem not in self.problems:
            self.problems.append(problem)
            _logger.warning(problem)

    def _add_info(self, point: EntryPoint, blocked: Mapping[str, str]) -> PluginInfo:
        info = PluginInfo(point.name, point.distribution, point.version)
        if place := blocked_by(blocked, point.name, point.distribution):
            info.state, info.reason = "blocked", f"blocked by {place}"
        self.infos.append(info)
        return info

    def _skip(self, info: PluginInfo, error: BaseException) -> None:
        plugin = self._manager.get_plugin(info.key)
        if plugin is not None:
            self._manager.unregister(plugin)
        for registrations in self._registrations.values():
            registrations[:] = [entry for entry in registrations if entry.info is not info]
        info.registers.clear()
        info.state, info.reason = "broken", describe_error(error)
        self._report(
            f"Plugin {info.label} failed to load and was skipped: {info.reason}. "
            f"Upgrade it (pip install -U {info.distribution}) or disable it (-p no:{info.distribution})."
        )

    def add(self, module: ModuleType, info: PluginInfo) -> None:
        """Register a plugin's module and everything that its hooks register."""
        self._manager.register(module, info.key)
        unknown = []
        for hook in self._manager.get_hookcallers(module) or []:
            own = [hookimpl for hookimpl in hook.get_hookimpls() if hookimpl.plugin is module]
            if any(inspect.iscoroutinefunction(hookimpl.function) for hookimpl in own):
                raise TypeError(f"{hook.name} must be a plain function: hooks are not async (kipu.hookspecs)")
            if not hook.has_spec():
                unknown += [hook.name for hookimpl in own if not hookimpl.optionalhook]
                continue
            for kind in (kind for kind in KINDS.values() if kind.hook == hook.name):
                for hookimpl in own:
                    hookimpl.function(self._register(kind.name, info))
        if not self._manager.get_hookcallers(module):
            info.reason = "has no hook: is @hookimpl missing?"
            self._report(f"Plugin {info.label} {info.reason}")
        if unknown:
            known = [name for name in vars(hookspecs) if name.startswith("kipu_")]
            fix = did_you_mean(unknown[0], known) or (
                f" Try: pip install -U kipu-core, or an earlier {info.distribution}."
            )
            info.reason = f"uses {', '.join(sorted(unknown))}, which kipu-core {__version__} does not have.{fix}"
            self._report(f"Plugin {info.label} {info.reason} The rest of it is in use.")

    def _register(self, kind: str, info: PluginInfo) -> Callable[[str, Callable[..., Any]], None]:
        label, method = KINDS[kind].label, KINDS[kind].method

        def register(name: str, factory: Callable[..., Any], /) -> None:
            if not _NAME.fullmatch(str(name)):
                raise TypeError(
                    f"the name of a {label} is made of lower-case letters, digits and hyphens, unlike {name!r}"
                )
            if not isinstance(factory, type) or not attrs.has(factory):
                raise TypeError(f'{label} "{name}" must be registered as a class made with attrs, not as {factory!r}')
            if not callable(getattr(factory, method, None)):
                raise TypeError(f'{label} "{name}" has no method {method}(): see kipu.types.{KINDS[kind].protocol}')
            registration = Registration(kind, name, factory, info)
            self._check_per_call_options(registration)
            self._registrations.setdefault((kind, name), []).append(registration)
            info.registers.append(f"{label} {name}")

        return register

    def _check_per_call_options(self, registration: Registration) -> None:
        known, label = self.per_call_options(), KINDS[registration.kind].label
        for field in options_of(registration.factory):
            name = field.metadata.get("per_call")
            if name is None:
                continue
            if not _OPTION.fullmatch(str(name)):
                raise TypeError(f"a per-call option is made of lower-case letters, digits and _, unlike {name!r}")
            if name in SEARCH_OPTIONS or name in _SEARCH_FLAGS:
                raise TypeError(f'{label} "{registration.name}" has the option "{name}", which is reserved')
            if name in known:
                self._report(
                    f'Both {known[name].registration.plugin} and {registration.plugin} have an option "{name}" for a '
                    f"search; the one of {known[name].registration.plugin} is used."
                )

    # --- looking up ------------------------------------------------------------------------------------------------

    def names(self, kind: str) -> list[str]:
        """Return the names of the components of a kind, sorted."""
        return sorted(name for (other, name), entries in self._registrations.items() if other == kind and entries)

    def find(self, kind: str, name: str) -> Registration:
        """Return the component of that name.

        :raises PluginNotFoundError: no plugin registers it; the message says which one would, or what is wrong.
        :raises PluginClashError: two plugins register it.
        """
        label = KINDS[kind].label
        entries = self._registrations.get((kind, name), [])
        if len(entries) > 1:
            raise PluginClashError(
                f'Both {entries[0].plugin} and {entries[1].plugin} register a {label} "{name}". '
                f"Disable one of them, for example with: -p no:{entries[1].plugin.split()[0]}"
            )
        if entries:
            return entries[0]
        for info in self.infos:
            if info.state != "active" and normalized(info.name) == f"{kind}-{name}":
                raise PluginNotFoundError(
                    f'The {label} "{name}" comes with {info.label}, which is not in use: {info.reason}.'
                )
        if not self.names(kind):
            raise PluginNotFoundError(
                f'No plugin with {"an" if label[0] in "aeiou" else "a"} {label} is installed, so there is no "{name}". '
                "The standard ones come with: pip install kipu"
            )
        distribution = KINDS[kind].distribution(name)
        near = "" if distribution else did_you_mean(name, self.names(kind))
        source = f" It comes with: pip install {distribution}" if distribution else ""
        raise PluginNotFoundError(f'No {label} "{name}".{near} Installed: {", ".join(self.names(kind))}.{source}')

    def per_call_options(self) -> dict[str, PerCallOption]:
        """Return the options that can be given with one search, by name. Of two with one name, the first counts."""
        options: dict[str, PerCallOption] = {}
        for registration in self._first_of_each_name():
            for field in options_of(registration.factory):
                name = field.metadata.get("per_call")
                if name:
                    options.setdefault(name, PerCallOption(name, registration, field))
        return options

    def find_per_call_option(self, name: str) -> PerCallOption:
        """Return the per-call option of that name.

        :raises PluginNotFoundError: no installed plugin has it.
        """
        options = self.per_call_options()
        if name not in options:
            near = did_you_mean(name, [*options, *SEARCH_OPTIONS])
            offered = f" Installed plugins offer: {', '.join(sorted(options))}." if options else ""
            raise PluginNotFoundError(
                f'No installed plugin has an option "{name}" for a search.{near}{offered}{self.not_in_use()}'
            )
        return options[name]

    def broken(self, distribution: str | None) -> PluginInfo | None:
        """Return the plugin of a distribution that is installed but failed to load, None if there is none."""
        return next((info for info in self.infos if info.state == "broken" and info.distribution == distribution), None)

    def not_in_use(self) -> str:
        """Return a sentence about the plugins that are blocked or broken, for messages on what is missing."""
        skipped = [f"{info.label} ({info.reason})" for info in self.infos if info.state != "active"]
        return f" Not in use: {'; '.join(skipped)}." if skipped else ""

    def _first_of_each_name(self) -> Iterator[Registration]:
        for entries in self._registrations.values():
            yield from entries[:1]

    # --- observers -------------------------------------------------------------------------------------------------

    async def notify(self, hook: str, time_limit: float | None = None, **arguments: Any) -> None:
        """Call an observing hook in every plugin. An exception becomes a problem, and nothing else."""
        for hookimpl in getattr(self._manager.hook, hook).get_hookimpls():
            new = Adapter(_OBSERVER, hookimpl.plugin_name, hookimpl, time_limit=time_limit or _OBSERVER.time_limit)
            observer = self._observers.setdefault(id(hookimpl), new)
            values = [arguments[name] for name in hookimpl.argnames]
            try:
                await observer.call("function", *values, doing=f"in {hook}", check=lambda answer: None)
            except KipuError as error:
                self._report(str(error) if observer.label in str(error) else f"The {observer.label}: {error}")
