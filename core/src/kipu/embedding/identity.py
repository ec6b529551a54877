"""Who embeds: the configured embedder, and earlier ones whose vectors are still in the index.

The index knows an embedder by its identity. With it goes a recipe that builds it again: its options, as JSON, without
those that are secret.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ..components import name_of
from ..errors import ConfigurationError, EmbedderError, KipuError
from ..plugins.build import build_component
from ..plugins.manager import options_of

if TYPE_CHECKING:
    from ..context import Context
    from ..types import Embedder

__all__ = ["ConfiguredEmbedder", "Embedders"]


@attrs.frozen
class ConfiguredEmbedder:
    """An embedder, its name in messages, and the recipe that builds it again: JSON without secrets.

    ``destination`` is where it sends texts, None if they stay on this machine; ``secrets`` are the options that the
    recipe leaves out.
    """

    name: str
    embedder: Embedder
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

    async def configured(self) -> ConfiguredEmbedder | None:
        """Return the embedder of the configuration, None if there is none.

        :raises PluginError: it cannot be used; searches go by words.
        :raises ConfigurationError: it is configured with an invalid option or value.
        """
        choice = self._components.embedder_choice
        if self._configured is None and choice is not None:
            self._configured = await self._build(choice, "index.embedder")
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

    async def close(self) -> None:
        """Close the embedders."""
        built = [self._configured, *self._earlier.values()]
        self._configured = None
        self._earlier.clear()
        for each in built:
            close = getattr(each.embedder, "close", None) if each else None
            closing = close() if callable(close) else None
            if inspect.isawaitable(closing):
                await closing

    async def _build_again(
        self, recipe: str, identity: str, configured: ConfiguredEmbedder
    ) -> ConfiguredEmbedder | None:
        try:
            choice = json.loads(recipe)
            if not isinstance(choice, dict) or not isinstance(choice.get("use"), str):
                return None  # it was given as an object
            factory = self._plugins.find("embedder", choice["use"]).factory
            secret, same = _secret_options(factory), type(configured.embedder) is factory
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
        embedder = build_component(self._plugins, "embedder", choice, where)
        try:
            identity = await asyncio.to_thread(lambda: embedder.identity)
        except (Exception, SystemExit) as error:
            reason = str(error) if isinstance(error, KipuError) else f"{type(error).__name__}: {error}."
            raise EmbedderError(f"{where}: {reason}") from error
        _check(where, embedder, identity)
        destination = getattr(embedder, "destination", f"that of {identity}, which does not say")
        secrets = _secrets_of(choice, embedder)
        return ConfiguredEmbedder(name_of(choice), embedder, identity, _recipe(choice, secrets), destination, secrets)


def _check(where: str, embedder: Any, identity: Any) -> None:
    """Raise EmbedderError if an attribute of an embedder has the wrong type."""
    if not isinstance(identity, str) or not identity:
        raise EmbedderError(f"{where}: the identity of an embedder is a text, not {identity!r}.")
    batch_size = getattr(embedder, "batch_size", 1)
    if type(batch_size) is not int or batch_size < 1:
        raise EmbedderError(f"{where}: batch_size is a whole number of at least 1, not {batch_size!r}.")
    destination = getattr(embedder, "destination", None)
    if destination is not None and not isinstance(destination, str):
        raise EmbedderError(f"{where}: destination is None or a text, not {destination!r}.")
    languages = getattr(embedder, "languages", None)
    if languages is not None and not (
        isinstance(languages, Sequence)
        and not isinstance(languages, str)
        and all(isinstance(language, str) for language in languages)
    ):
        raise EmbedderError(f"{where}: languages is None or a list of codes, not {languages!r}.")


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
