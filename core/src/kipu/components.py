"""The components of one memory: made from its configuration when they are first needed, and kept."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from .config import STANDARD_FILTERS, STANDARD_FLUSHER, STANDARD_POSTPROCESSORS
from .errors import ConfigurationError, EmbedderError, KipuError, QueryError
from .index.strategy_tables import indexed_strategies, needs_vectors
from .plugins.build import build_component, with_options
from .plugins.manager import check_component, options_of

if TYPE_CHECKING:
    from .config import MemoryConfig
    from .plugins.manager import Plugins
    from .types import Chunker, Embedder, Flusher, PostProcessor, Strategy, WriteFilter

__all__ = ["ChosenEmbedder", "Components", "Pipeline", "name_of"]

STANDARD_EMBEDDER = "onnx"
STANDARD_STRATEGY = ("hybrid", "vector", "keyword")
STRATEGY_BY_WORDS = "keyword"
# The order of the stages that a search may switch on; those of the user come after them.
_ORDER_OF_STAGES = ("threshold", "decay", "mmr")


@attrs.frozen
class ChosenEmbedder:
    """An embedder, what messages call it, and the recipe to make it again in another process: JSON without secrets.

    ``destination`` is where it sends texts, None where they stay on this machine; ``secrets`` are the options that the
    recipe leaves out.
    """

    name: str
    embedder: Embedder
    identity: str
    recipe: str
    destination: str | None
    secrets: Mapping[str, Any] = attrs.field(repr=False)


@attrs.frozen
class Pipeline:
    """What a search runs through.

    ``strategies`` are the chosen one and those that it searches with, by name; ``stages`` are post-processors by name.
    """

    name: str
    strategies: Mapping[str, Any]
    stages: Sequence[tuple[str, PostProcessor]]

    @property
    def strategy(self) -> Strategy:
        """The chosen one."""
        chosen: Strategy = self.strategies[self.name]
        return chosen

    @property
    def needs_vectors(self) -> bool:
        """Whether the query is to be embedded."""
        return any(needs_vectors(strategy) for strategy in self.strategies.values())


class Components:
    """What the configuration names, and what was registered with this memory."""

    def __init__(self, plugins: Plugins, config: MemoryConfig) -> None:
        self._plugins = plugins
        self._config = config
        self._own: dict[str, Strategy] = {}
        self._registered: list[tuple[str, PostProcessor]] = []
        self._used: dict[str, Any] = {}
        self._chunker: Chunker | None = None
        self._stages: list[tuple[str, PostProcessor]] | None = None
        self._filters: list[tuple[str, WriteFilter]] | None = None
        self._flusher: tuple[Any, Flusher] | None = None
        self._embedder: ChosenEmbedder | None = None
        self._earlier: dict[str, ChosenEmbedder | None] = {}

    # --- what is configured ----------------------------------------------------------------------------------------

    @property
    def strategy_choice(self) -> Any:
        """The configured strategy, or else by meaning and words where that is installed, or else by words."""
        if self._config.search.strategy is not None:
            return self._config.search.strategy
        installed = self._plugins.names("strategy")
        return STANDARD_STRATEGY[0] if all(name in installed for name in STANDARD_STRATEGY) else STRATEGY_BY_WORDS

    @property
    def postprocessor_choices(self) -> Sequence[Any]:
        """The configured post-processors, or else the standard ones that are there to be used."""
        if self._config.search.postprocessors is not None:
            return self._config.search.postprocessors
        return [name for name in STANDARD_POSTPROCESSORS if name in self._plugins.names("postprocessor")]

    @property
    def embedder_choice(self) -> Any:
        """The configured embedder, or else the offline one where it is installed, or else None."""
        if self._config.index.embedder is not None:
            return self._config.index.embedder
        return STANDARD_EMBEDDER if STANDARD_EMBEDDER in self._plugins.names("embedder") else None

    def check(self) -> list[str]:
        """What is wrong with the configured components, a sentence each; nothing where all of them can be used."""
        choices = [("chunker", self._config.index.chunker, "index.chunker")]
        if self.embedder_choice is not None:
            choices.append(("embedder", self.embedder_choice, "index.embedder"))
        choices += [
            ("postprocessor", choice, f"search.postprocessors[{position}]")
            for position, choice in enumerate(self.postprocessor_choices)
        ]
        wrong = []
        for kind, choice, where in choices:
            try:
                build_component(self._plugins, kind, choice, where)
            except KipuError as error:
                wrong.append(str(error))
        try:
            self.strategies(None)
        except KipuError as error:
            wrong.append(str(error))
        return wrong

    # --- one of each -----------------------------------------------------------------------------------------------

    def chunker(self) -> Chunker:
        """The chunker."""
        if self._chunker is None:
            self._chunker = build_component(self._plugins, "chunker", self._config.index.chunker, "index.chunker")
        return self._chunker

    def strategies(self, name: str | None) -> tuple[str, dict[str, Any]]:
        """The strategy of that name, or the configured one: what it is called, and it and all that it searches with."""
        if name is not None and not isinstance(name, str):
            raise QueryError(f"strategy must be the name of a strategy, not {name!r}.")
        if name is None:
            choice, where = self.strategy_choice, "search.strategy"
        else:
            choice, where = name, "strategy"
        chosen = name_of(choice)
        found: dict[str, Any] = {}
        self._collect(chosen, choice, where, found, ())
        self._used |= found
        if any(map(needs_vectors, found.values())) and STRATEGY_BY_WORDS in self._plugins.names("strategy"):
            # What is indexed by meaning is indexed by words as well: an embedder may fail at any time.
            self._collect(STRATEGY_BY_WORDS, STRATEGY_BY_WORDS, "strategy", self._used, ())
        return chosen, found

    def by_words(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline with the strategy that needs no vectors, where it is installed."""
        if STRATEGY_BY_WORDS not in self._plugins.names("strategy"):
            return pipeline
        name, strategies = self.strategies(STRATEGY_BY_WORDS)
        return attrs.evolve(pipeline, name=name, strategies=strategies)

    def _collect(self, name: str, choice: Any, where: str, found: dict[str, Any], above: Sequence[str]) -> None:
        """Put a strategy and all that it searches with into ``found``; ``above`` are those that search with it."""
        if name in above:
            circle = " > ".join([*above[above.index(name) :], name])
            raise ConfigurationError(f"{where}: a strategy cannot search with itself ({circle}).")
        if name in found:
            return
        known = self._used | self._own
        component: Any = known.get(name)
        if name not in known:
            component = build_component(self._plugins, "strategy", choice, where)
            indexed_strategies(self._used | {name: component})
        found[name] = component
        arms = getattr(component, "strategies", ())
        if isinstance(arms, str) or not all(isinstance(arm, str) for arm in _listed(arms)):
            raise ConfigurationError(f'{where}: the strategies of "{name}" are a list of names, not {arms!r}.')
        for arm in arms:
            self._collect(arm, arm, f'{where}, strategy "{name}"', found, (*above, name))

    @property
    def used_strategies(self) -> Mapping[str, Any]:
        """All strategies that were used so far."""
        return self._used

    def pipeline(self, strategy: str | None, options: Mapping[str, Any]) -> Pipeline:
        """What a search runs through: the configured components, changed by the options given with it."""
        name, strategies = self.strategies(strategy)
        stages = list(self._configured_stages())
        asked: dict[tuple[str, str], list[Any]] = {}
        for option, value in options.items():
            found = self._plugins.find_per_call_option(option)
            asked.setdefault((found.registration.kind, found.registration.name), []).append((found, value))
        for (kind, component), values in asked.items():
            registration = values[0][0].registration
            if kind == "strategy":
                at = [arm for arm in strategies if type(strategies[arm]) is registration.factory]
                if not at:
                    raise ConfigurationError(
                        f'The option "{values[0][0].name}" is for the strategy "{component}", but this search uses '
                        f'"{name}". Ask for it too: strategy="{component}".'
                    )
                strategies = strategies | {at[0]: with_options(strategies[at[0]], registration, values)}
            elif kind == "postprocessor":
                _switch_on(stages, component, registration, values)
        return Pipeline(name, strategies, [*stages, *self._registered])

    def _configured_stages(self) -> Sequence[tuple[str, PostProcessor]]:
        if self._stages is None:
            self._stages = [
                (
                    name_of(choice),
                    build_component(self._plugins, "postprocessor", choice, f"search.postprocessors[{position}]"),
                )
                for position, choice in enumerate(self.postprocessor_choices)
            ]
        return self._stages

    def filters(self) -> Sequence[tuple[str, WriteFilter]]:
        """What sees each text before it is written, by name, in order: the configured ones, or the standard one."""
        if self._filters is None:
            choices = self._config.writing.filters
            if choices is None:
                choices = [name for name in STANDARD_FILTERS if name in self._plugins.names("filter")]
            self._filters = [
                (name_of(choice), build_component(self._plugins, "filter", choice, f"writing.filters[{position}]"))
                for position, choice in enumerate(choices)
            ]
        return self._filters

    def flusher(self, model: str | None) -> Flusher:
        """The configured flusher, or the standard one where the name of a model is all that it needs.

        :raises ConfigurationError: none is configured.
        """
        choice = self._config.flush.flusher
        if choice is None and model is not None and STANDARD_FLUSHER in self._plugins.names("flusher"):
            choice = {"use": STANDARD_FLUSHER, "model": model}
        if choice is None:
            is_there = STANDARD_FLUSHER in self._plugins.names("flusher")
            comes_with = "" if is_there else " The flusher comes with: pip install kipu-flusher-litellm"
            raise ConfigurationError(
                'Which model is to be asked? Say it in kipu.toml: [flush] flusher = { use = "litellm", model = '
                f'"openai/gpt-4o-mini" }}.{comes_with}'
            )
        if self._flusher is None or self._flusher[0] != choice:
            self._flusher = (choice, build_component(self._plugins, "flusher", choice, "flush.flusher"))
        return self._flusher[1]

    # --- the embedder ----------------------------------------------------------------------------------------------

    async def embedder(self, choice: Any = None) -> ChosenEmbedder | None:
        """The embedder that is used, or another by its choice; None where there is none.

        :raises PluginError: it is configured, and cannot be used: searches go by words.
        :raises ConfigurationError: it is configured with an option or a value that cannot be.
        """
        if choice is not None:
            try:
                return await self._made(choice, "embedder")
            except ConfigurationError as error:  # nothing but a name was given
                name = name_of(choice)
                raise ConfigurationError(
                    f"{error} Say it in kipu.toml, and then run kipu reindex: [index] "
                    f'embedder = {{ use = "{name}", ... }}'
                ) from None
        if self._embedder is None and self.embedder_choice is not None:
            self._embedder = await self._made(self.embedder_choice, "index.embedder")
        return self._embedder

    async def earlier_embedder(self, recipe: str, identity: str, chosen: ChosenEmbedder) -> ChosenEmbedder | None:
        """The embedder that made the vectors of an earlier time.

        None where it cannot be made any more, or would send the query to where the chosen one sends nothing: who has
        left a provider has left it. Its key, and all that is secret, is that of the chosen one, and no other.
        """
        if identity not in self._earlier:
            self._earlier[identity] = await self._made_by(recipe, identity, chosen)
        return self._earlier[identity]

    async def _made_by(self, recipe: str, identity: str, chosen: ChosenEmbedder) -> ChosenEmbedder | None:
        try:
            choice = json.loads(recipe)
            if not isinstance(choice, dict) or not isinstance(choice.get("use"), str):
                return None  # it was given as an object
            factory = self._plugins.find("embedder", choice["use"]).factory
            hidden, same = _secret_options(factory), type(chosen.embedder) is factory
            choice = {name: value for name, value in choice.items() if name not in hidden}
            made = await self._made(choice | (dict(chosen.secrets) if same else {}), "embedder")
        except (KipuError, ValueError):
            return None  # its plugin or its model is gone: what it embedded cannot be compared with anything new
        if made.identity != identity:
            return None
        # A key that it would find by itself was never meant for it.
        stays = made.destination is None
        return made if stays or (made.destination == chosen.destination and (same or not hidden)) else None

    async def _made(self, choice: Any, where: str) -> ChosenEmbedder:
        embedder = build_component(self._plugins, "embedder", choice, where)
        try:
            identity = await asyncio.to_thread(lambda: embedder.identity)
        except (Exception, SystemExit) as error:
            said = str(error) if isinstance(error, KipuError) else f"{type(error).__name__}: {error}."
            raise EmbedderError(f"{where}: {said}") from error
        _check_embedder(where, embedder, identity)
        destination = getattr(embedder, "destination", f"that of {identity}, which does not say")
        secrets = _secrets(choice, embedder)
        return ChosenEmbedder(name_of(choice), embedder, identity, _recipe(choice, secrets), destination, secrets)

    async def close_embedders(self) -> None:
        """Close the embedders; they are made again when they are needed again."""
        made = [self._embedder, *self._earlier.values()]
        self._embedder = None
        self._earlier.clear()
        for each in made:
            close = getattr(each.embedder, "close", None) if each else None
            closing = close() if callable(close) else None
            if inspect.isawaitable(closing):
                await closing

    # --- components of one's own -----------------------------------------------------------------------------------

    def register_strategy(self, name: str, strategy: Strategy) -> None:
        """Make a strategy available by name.

        :raises ConfigurationError: it has no method ``search``, or the name is taken.
        """
        check_component("strategy", name, strategy)
        if name in self._own or name in self._plugins.names("strategy"):
            raise ConfigurationError(f'There is a strategy "{name}" already; register yours under another name.')
        indexed_strategies(self._used | {name: strategy})
        self._own[name] = strategy

    def register_postprocessor(self, name: str, postprocessor: PostProcessor) -> None:
        """Put a post-processor at the end of the pipeline.

        :raises ConfigurationError: it has no method ``process``.
        """
        check_component("postprocessor", name, postprocessor)
        self._registered.append((name, postprocessor))


def _switch_on(stages: list[tuple[str, PostProcessor]], name: str, registration: Any, values: Sequence[Any]) -> None:
    """Give options to the last stage of that kind, or put a new one where it belongs among the standard ones."""
    at = [place for place, (_, stage) in enumerate(stages) if type(stage) is registration.factory]
    if at:
        stages[at[-1]] = (stages[at[-1]][0], with_options(stages[at[-1]][1], registration, values))
        return
    place = len(stages)
    if name in _ORDER_OF_STAGES:
        earlier = _ORDER_OF_STAGES[: _ORDER_OF_STAGES.index(name)]
        place = max((place + 1 for place, (own, _) in enumerate(stages) if own in earlier), default=0)
    stages.insert(place, (name, with_options(None, registration, values)))


def _listed(value: Any) -> list[Any]:
    """What can be gone through as a list; else a list with the value itself."""
    return list(value) if isinstance(value, (Sequence, Mapping)) else [value]


def _check_embedder(where: str, embedder: Any, identity: Any) -> None:
    """Raise EmbedderError unless what an embedder says of itself can be."""
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
    """The names of the options that are written nowhere."""
    return {field.name for field in options_of(kind) if field.metadata.get("secret")} if attrs.has(kind) else set()


def _secrets(choice: Any, embedder: Any) -> dict[str, Any]:
    """The secret options of an embedder, as they were chosen."""
    names = _secret_options(type(embedder))
    if isinstance(choice, (str, dict)):
        return {
            name: value for name, value in dict(choice if isinstance(choice, dict) else {}).items() if name in names
        }
    return {name: getattr(embedder, name) for name in names}


def _recipe(choice: Any, secrets: Mapping[str, Any]) -> str:
    """How to make an embedder again, without what must be written nowhere; ``null`` for one that was given as it is."""
    if isinstance(choice, str):
        return json.dumps({"use": choice})
    if not isinstance(choice, dict):
        return "null"
    return json.dumps({name: value for name, value in choice.items() if name not in secrets})


def name_of(choice: Any) -> str:
    """What a component is called in messages and in the index."""
    if isinstance(choice, str):
        return choice
    if isinstance(choice, dict):
        return str(choice["use"])
    return f"{type(choice).__module__}.{type(choice).__qualname__}"
