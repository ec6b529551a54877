"""Who embeds: the configured embedder, and earlier ones whose vectors are still in the index.

The index knows an embedder by its identity. With it goes a recipe that builds it again: its options, as JSON, without
those that are secret.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from ..errors import ConfigurationError, EmbedderError, KipuError
from ..plugins.build import name_of
from ..plugins.records import options_of
from .client import is_away

if TYPE_CHECKING:
    from ..context import Context
    from ..plugins.adapters import EmbedderAdapter

_RETRY_SECONDS = 60.0


@attrs.frozen
class ConfiguredEmbedder:
    """An embedder, its name in messages, and the recipe that builds it again: JSON without secrets.

    ``destination`` is where it sends texts, None if they stay on this machine; ``secrets`` are the options that the
    recipe leaves out.
    """

    name: str
    embedder: EmbedderAdapter
    identity: str
    recipe: str
    destination: str | None
    secrets: Mapping[str, Any] = attrs.field(repr=False)


class Embedders:
    """The embedders of one memory, each built when it is first needed."""

    def __init__(self, context: Context) -> None:
        self._plugins = context.plugins
        self._components = context.components
        self._configured: ConfiguredEmbedder | None = None
        self._earlier: dict[str, ConfiguredEmbedder | None] = {}
        self._retry_at, self._failure = 0.0, EmbedderError("")

    async def configured(self) -> ConfiguredEmbedder | None:
        """Return the embedder of the configuration, None if there is none.

        :raises PluginError: it cannot be used; searches use keywords only.
        :raises ConfigurationError: it is configured with an invalid option or value.
        """
        choice = self._components.embedder_choice
        if self._configured is None and (embedder := self._components.embedder()) is not None:
            if time.monotonic() < self._retry_at:
                raise self._failure
            try:
                self._configured = await self._described(choice, embedder, "index.embedder")
            except EmbedderError as error:
                if is_away(error):  # else each step of a search would wait as long
                    self._retry_at, self._failure = time.monotonic() + _RETRY_SECONDS, error
                raise
        return self._configured

    async def named(self, name: str) -> ConfiguredEmbedder:
        """Return the embedder of that name: the configured one, or another with its default options.

        :raises PluginError: it cannot be used.
        :raises ConfigurationError: it has an option without a default, which only the configuration can give.
        """
        choice = self._components.embedder_choice
        if choice is not None and name == name_of(choice) and (configured := await self.configured()):
            return configured
        try:
            return await self._build(name, "embedder")
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{error} Configure it in kipu.toml, then run kipu reindex: [index] "
                f'embedder = {{ use = "{name}", ... }}'
            ) from None

    async def earlier(self, recipe: str, identity: str, configured: ConfiguredEmbedder) -> ConfiguredEmbedder | None:
        """Return the embedder that made the vectors of a space, built again from its recipe.

        None if it cannot be built any more, or if it would send the query where the configured one sends nothing. It
        gets the secrets of the configured embedder if it is of the same class, and no others.
        """
        if identity not in self._earlier:
            self._earlier[identity] = await self._build_again(recipe, identity, configured)
        return self._earlier[identity]

    async def _build_again(
        self, recipe: str, identity: str, configured: ConfiguredEmbedder
    ) -> ConfiguredEmbedder | None:
        try:
            choice = json.loads(recipe)
            if not isinstance(choice, dict) or not isinstance(choice.get("use"), str):
                return None  # it was given as an object
            factory = self._plugins.find("embedder", choice["use"]).factory
            secret, same = _secret_options(factory), type(configured.embedder.component) is factory
            choice = {option: value for option, value in choice.items() if option not in secret}
            built = await self._build(choice | (dict(configured.secrets) if same else {}), "embedder")
        except (KipuError, ValueError):
            return None  # its plugin or its model is gone
        if built.identity != identity:
            return None
        if built.destination is None:
            return built
        # A secret that it finds by itself, as in the environment, was not given for this.
        is_allowed = built.destination == configured.destination and (same or not secret)
        return built if is_allowed else None

    async def _build(self, choice: Any, where: str) -> ConfiguredEmbedder:
        return await self._described(choice, self._components.build("embedder", choice, where), where)

    async def _described(self, choice: Any, embedder: EmbedderAdapter, where: str) -> ConfiguredEmbedder:
        try:
            identity = await embedder.identity()
        except EmbedderError as error:
            raise EmbedderError(f"{where}: {error}") from error
        destination = embedder.destination if embedder.says_destination else f"that of {identity}, which does not say"
        secrets = _secrets_of(choice, embedder.component)
        return ConfiguredEmbedder(name_of(choice), embedder, identity, _recipe(choice, secrets), destination, secrets)


def _secret_options(kind: type) -> set[str]:
    """Return the names of the options that are written nowhere."""
    return {field.name for field in options_of(kind) if field.metadata.get("secret")} if attrs.has(kind) else set()


def _secrets_of(choice: Any, embedder: Any) -> dict[str, Any]:
    """Return the secret options of an embedder, as they were given."""
    names = _secret_options(type(embedder))
    if isinstance(choice, str):
        return {}
    given = choice if isinstance(choice, dict) else {name: getattr(embedder, name) for name in names}
    return {name: value for name, value in given.items() if name in names}


def _recipe(choice: Any, secrets: Mapping[str, Any]) -> str:
    """Return the options of an embedder without its secrets, as JSON; ``null`` for one that was given as an object."""
    if isinstance(choice, str):
        return json.dumps({"use": choice})
    if not isinstance(choice, dict):
        return "null"
    return json.dumps({name: value for name, value in choice.items() if name not in secrets})
