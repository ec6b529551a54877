"""The components of one memory: made from its configuration when they are first needed, and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from .config import STANDARD_FILTERS, STANDARD_FLUSHER, STANDARD_POSTPROCESSORS
from .errors import ConfigurationError, KipuError, QueryError
from .index.strategy_tables import indexed_strategies, needs_vectors
from .plugins.build import build_component, with_options
from .plugins.manager import check_component

if TYPE_CHECKING:
    from .config import MemoryConfig
    from .plugins.manager import Plugins
    from .types import Chunker, Flusher, PostProcessor, Strategy, WriteFilter

__all__ = ["Components", "Pipeline", "name_of"]

STANDARD_EMBEDDER = "onnx"
STANDARD_STRATEGY = ("hybrid", "vector", "keyword")
STRATEGY_BY_WORDS = "keyword"
# The order of the stages that a search may switch on; those of the user come after them.
_ORDER_OF_STAGES = ("threshold", "decay", "mmr")


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


def name_of(choice: Any) -> str:
    """What a component is called in messages and in the index."""
    if isinstance(choice, str):
        return choice
    if isinstance(choice, dict):
        return str(choice["use"])
    return f"{type(choice).__module__}.{type(choice).__qualname__}"
