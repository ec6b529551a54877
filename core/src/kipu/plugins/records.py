"""What is known of plugins and of what they register, and which of them are blocked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import attrs

from .discovery import normalized

if TYPE_CHECKING:
    from collections.abc import Mapping


@attrs.define
class PluginInfo:
    """One plugin: where it comes from, what it registers, whether it is in use, and if not, why.

    ``state`` is ``active``, ``blocked`` or ``broken``. An active plugin has a ``reason`` if a part of it is not used,
    such as a hook of a newer Kipu.
    """

    name: str
    distribution: str
    version: str
    state: str = "active"
    reason: str = ""
    registers: list[str] = attrs.field(factory=list)

    @property
    def label(self) -> str:
        """The distribution and its version: what messages call the plugin."""
        return f"{self.distribution} {self.version}".strip()

    @property
    def key(self) -> str:
        """What pluggy knows the plugin by: a distribution may have several."""
        return f"{self.label} ({self.name})"


@attrs.frozen
class Registration:
    """A component that can be used by name: the attrs class that makes it, and the plugin that registered it."""

    kind: str
    name: str
    factory: Any
    info: PluginInfo

    @property
    def plugin(self) -> str:
        """What messages call the plugin."""
        return self.info.label


@attrs.frozen
class PerCallOption:
    """An option of a component that can also be given with one search."""

    name: str
    registration: Registration
    field: attrs.Attribute[Any]


def disabled_by_environment() -> list[str]:
    """Return the plugins that ``KIPU_DISABLE_PLUGINS`` blocks: names separated by commas."""
    return [name.strip() for name in os.environ.get("KIPU_DISABLE_PLUGINS", "").split(",") if name.strip()]


def blocked_by(blocked: Mapping[str, str], name: str, distribution: str) -> str | None:
    """Return the place that blocks a plugin or its whole distribution, or None."""
    places = {normalized(other): place for other, place in blocked.items()}
    return places.get(normalized(name)) or places.get(distribution)


def options_of(factory: Any) -> list[attrs.Attribute[Any]]:
    """Return the fields of a component's class that are options: those that its constructor takes."""
    return [field for field in attrs.fields(factory) if field.init]
