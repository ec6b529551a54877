"""The components of one memory: built from its configuration when they are first needed, and closed with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import ConfigurationError, KipuError, PluginFailedError
from .index.strategy_tables import indexed_strategies
from .plugins.build import build_component, name_of
from .plugins.kinds import FALLBACK_STRATEGY, KINDS, RELATION_STRATEGY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .config import MemoryConfig
    from .plugins.adapters import (
        AnnotatorAdapter,
        ChunkerAdapter,
        EmbedderAdapter,
        FlusherAdapter,
        PostProcessorAdapter,
        StrategyAdapter,
        WriteFilterAdapter,
    )
    from .plugins.calls import Adapter
    from .plugins.manager import Plugins
    from .types import PostProcessor, Strategy


class Components:
    """The components that the configuration names, and those that were registered with this memory."""

    def __init__(self, plugins: Plugins, config: MemoryConfig) -> None:
        self._plugins = plugins
        self._config = config
        self._built: dict[tuple[str, str], Any] = {}  # by the place in the configuration that names it, and its name
        self._open: dict[int, Adapter] = {}  # one for each component, by its id
        self._used: dict[str, StrategyAdapter] = {}
        self._registered_strategies: dict[str, StrategyAdapter] = {}
        self._registered_stages: list[PostProcessorAdapter] = []
        self.generation = 0  # grows when other strategies or stages are used than before

    def build(self, kind: str, choice: Any, where: str) -> Any:
        """Build a component, which is closed with the memory.

        :param choice: its name, a table with ``use`` and options, or an object.
        :param where: where the choice stands, for messages.
        :raises PluginNotFoundError: no plugin registers that name.
        :raises ConfigurationError: an option that the component does not have, or an invalid value.
        """
        adapter: Adapter = build_component(self._plugins, kind, choice, where, self._config.plugins.time_limit)
        self._open.setdefault(id(adapter.component), adapter)
        return adapter

    def _build_once(self, kind: str, choice: Any, where: str) -> Any:
        key = where, name_of(choice)
        if key not in self._built:
            self._built[key] = self.build(kind, choice, where)
        return self._built[key]

    def _standard(self, kind: str) -> list[str]:
        installed = self._plugins.names(kind)
        return [name for name in KINDS[kind].standard if name in installed]

    # --- what is configured ----------------------------------------------------------------------------------------

    @property
    def strategy_choice(self) -> Any:
        """The configured strategy, or else the standard one if all that it searches with is installed."""
        if self._config.search.strategy is not None:
            return self._config.search.strategy
        standard = self._standard("strategy")
        return standard[0] if len(standard) == len(KINDS["strategy"].standard) else FALLBACK_STRATEGY

    @property
    def relation_choice(self) -> Any:
        """The strategy that completes the hits of the configured one, None if none does."""
        choice = self._config.search.relation
        if choice is None and RELATION_STRATEGY not in self._plugins.names("strategy"):
            return None
        choice = RELATION_STRATEGY if choice in (None, True) else choice
        return choice if choice and name_of(choice) != name_of(self.strategy_choice) else None

    @property
    def postprocessor_choices(self) -> Sequence[Any]:
        """The configured post-processors, or else the standard ones that are installed."""
        choices = self._config.search.postprocessors
        return self._standard("postprocessor") if choices is None else choices

    @property
    def filter_choices(self) -> Sequence[Any]:
        """The configured write filters, or else the standard ones that are installed."""
        choices = self._config.writing.filters
        return self._standard("filter") if choices is None else choices

    @property
    def embedder_choice(self) -> Any:
        """The configured embedder, or else the standard one if it is installed, or else None."""
        if self._config.index.embedder is not None:
            return self._config.index.embedder
        return next(iter(self._standard("embedder")), None)

    async def check(self) -> list[str]:
        """Return what is wrong with the configured components, a sentence each. Each is asked for its own check."""
        problems: list[str] = []
        builds: list[Callable[[], object]] = [self.chunker, self.stages, self.filters, self.embedder, self.annotator]
        builds.append(lambda: self.strategies(None))
        if self._config.flush.flusher is not None:
            builds.append(lambda: self.flusher(None))
        for build in builds:
            try:
                build()
            except KipuError as error:
                problems.append(str(error))
        return problems + [problem for adapter in list(self._open.values()) if (problem := await adapter.check())]

    async def close(self) -> None:
        """Close all components, each once."""
        built = list(self._open.values())
        self._built.clear()
        self._open.clear()
        for adapter in built:
            await adapter.close()

    # --- one of each -----------------------------------------------------------------------------------------------

    def chunker(self) -> ChunkerAdapter:
        """Return the chunker."""
        chunker: ChunkerAdapter = self._build_once("chunker", self._config.index.chunker, "index.chunker")
        return chunker

    def embedder(self) -> EmbedderAdapter | None:
        """Return the embedder, None if none is configured or installed."""
        choice = self.embedder_choice
        return None if choice is None else self._build_once("embedder", choice, "index.embedder")

    def annotator(self) -> AnnotatorAdapter | None:
        """Return the annotator, None if none is configured."""
        choice = self._config.index.annotator
        return None if choice is None else self._build_once("annotator", choice, "index.annotator")

    def stages(self) -> list[PostProcessorAdapter]:
        """Return the configured post-processors, in order."""
        choices = enumerate(self.postprocessor_choices)
        return [
            self._build_once("postprocessor", choice, f"search.postprocessors[{place}]") for place, choice in choices
        ]

    @property
    def registered_stages(self) -> Sequence[PostProcessorAdapter]:
        """The post-processors that were registered with this memory: they come last."""
        return self._registered_stages

    def filters(self) -> list[WriteFilterAdapter]:
        """Return the write filters, in order: the configured ones, or the standard ones that are installed.

        :raises PluginFailedError: a standard one is installed, but failed to load: secrets must not pass it by.
        """
        if self._config.writing.filters is None:
            for name in KINDS["filter"].standard:
                if broken := self._plugins.broken(KINDS["filter"].distribution(name)):
                    raise PluginFailedError(
                        f'The write filter "{name}" ({broken.label}) failed to load, and nothing is written without '
                        f"it: {broken.reason}. Upgrade it: pip install -U {broken.distribution}. To write without it, "
                        "set this in kipu.toml: [writing] filters = []"
                    )
        return [self._build_once("filter", one, f"writing.filters[{n}]") for n, one in enumerate(self.filter_choices)]

    def flusher(self, model: str | None) -> FlusherAdapter:
        """Return the configured flusher, or the standard one if the name of a model is all that it needs.

        :raises ConfigurationError: none is configured.
        """
        choice = self._config.flush.flusher
        (standard,) = KINDS["flusher"].standard
        is_installed = standard in self._plugins.names("flusher")
        if choice is None and model is not None and is_installed:
            choice = {"use": standard, "model": model}
        if choice is None:
            source = "" if is_installed else f" Install it with: pip install {KINDS['flusher'].distribution(standard)}"
            raise ConfigurationError(
                f'No model is configured. Set one in kipu.toml: [flush] flusher = {{ use = "{standard}", model = '
                f'"openai/gpt-4o-mini" }}.{source}'
            )
        flusher: FlusherAdapter = self._build_once("flusher", choice, f"flush.flusher{model or ''}"[:200])
        return flusher

    # --- strategies ------------------------------------------------------------------------------------------------

    def strategies(self, name: str | None) -> tuple[str, dict[str, StrategyAdapter]]:
        """Return the name of a strategy, and by name itself and all strategies that it searches with.

        All of them are kept indexed from then on.

        :param name: None for the configured one.
        """
        choice, where = (self.strategy_choice, "search.strategy") if name is None else (name, "strategy")
        is_configured = name is None
        if not is_configured and self.relation_choice is not None and name == name_of(self.relation_choice):
            choice, where = self.relation_choice, "search.relation"
        name = name_of(choice)
        found: dict[str, StrategyAdapter] = {}
        self._collect(name, choice, where, found, ())
        self.generation += not found.keys() <= self._used.keys()
        self._used |= found
        if is_configured:
            self.relation()
        if self.has_fallback:  # an embedder, and any other strategy, may be unavailable at any time
            self._collect(FALLBACK_STRATEGY, FALLBACK_STRATEGY, "strategy", self._used, ())
        return name, found

    def relation(self) -> StrategyAdapter | None:
        """Return the strategy that completes the hits of the configured one, which is kept indexed from then on.

        :raises ConfigurationError: it has no method for that.
        """
        choice = self.relation_choice
        if choice is None:
            return None
        name = name_of(choice)
        if not self._strategy(name, choice, "search.relation").has("complete"):
            raise ConfigurationError(
                f'search.relation: the strategy "{name}" has no method "complete", so it cannot complete the hits of '
                "another one (kipu.types.StrategyBase)."
            )
        return self._use(name, choice, "search.relation")

    def strategy_alone(self, name: str) -> StrategyAdapter:
        """Return a strategy without those that it searches with. It is kept indexed from then on."""
        for choice, where in ((self.relation_choice, "search.relation"), (self.strategy_choice, "search.strategy")):
            if choice is not None and name == name_of(choice):
                return self._use(name, choice, where)
        return self._use(name, name, "strategy")

    def _use(self, name: str, choice: Any, where: str) -> StrategyAdapter:
        strategy = self._strategy(name, choice, where)
        self.generation += name not in self._used
        self._used[name] = strategy
        return strategy

    @property
    def has_fallback(self) -> bool:
        """Whether the strategy is installed that needs no vectors."""
        return FALLBACK_STRATEGY in self._plugins.names("strategy")

    def _collect(
        self, name: str, choice: Any, where: str, found: dict[str, StrategyAdapter], above: Sequence[str]
    ) -> None:
        """Add a strategy and all that it searches with to ``found``; ``above`` are those that search with it."""
        if name in above:
            circle = " > ".join([*above[above.index(name) :], name])
            raise ConfigurationError(f"{where}: a strategy cannot search with itself ({circle}).")
        if name in found:
            return
        strategy = found[name] = self._strategy(name, choice, where)
        for other in strategy.strategies:
            self._collect(other, other, f'{where}, strategy "{name}"', found, (*above, name))

    def _strategy(self, name: str, choice: Any, where: str) -> StrategyAdapter:
        """Return the strategy of a name, which is built if it was neither used nor registered before."""
        strategy = (self._used | self._registered_strategies).get(name)
        if strategy is None:
            strategy = self._build_once("strategy", choice, where)
            indexed_strategies(self._used | {name: strategy})
        return strategy

    @property
    def indexed(self) -> Mapping[str, StrategyAdapter]:
        """The strategies with an index of their own that were used so far, by the name of their class."""
        return indexed_strategies(self._used)

    @property
    def needs_vectors(self) -> bool:
        """Whether a strategy that was used so far needs vectors."""
        return any(strategy.needs_vectors for strategy in self._used.values())

    @property
    def needs_annotations(self) -> bool:
        """Whether a strategy that was used so far needs annotations."""
        return any(strategy.needs_annotations for strategy in self._used.values())

    # --- components of the program ---------------------------------------------------------------------------------

    def register_strategy(self, name: str, strategy: Strategy) -> None:
        """Make a strategy available by name.

        :raises ConfigurationError: it has no method ``search``, or the name is taken.
        """
        adapter = self._adapter("strategy", name, strategy)
        if name in self._registered_strategies or name in self._plugins.names("strategy"):
            raise ConfigurationError(f'There is a strategy "{name}" already; register yours under another name.')
        indexed_strategies(self._used | {name: adapter})
        self._registered_strategies[name] = adapter
        self.generation += 1

    def register_postprocessor(self, name: str, postprocessor: PostProcessor) -> None:
        """Put a post-processor at the end of the pipeline.

        :raises ConfigurationError: it has no method ``process``.
        """
        self._registered_stages.append(self._adapter("postprocessor", name, postprocessor))
        self.generation += 1

    def _adapter(self, kind: str, name: str, component: Any) -> Any:
        adapter = self.build(kind, component, name)
        adapter.name = name
        return adapter
