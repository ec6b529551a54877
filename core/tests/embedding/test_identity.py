"""Who embeds: members that are checked, recipes, secrets, and earlier embedders."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import pytest
from embedders import OtherEmbedder, fill, named

from kipu.errors import (
    ConfigurationError,
)
from kipu.testing import HashingEmbedder


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch_size": 0}, "invalid batch_size: it must be a whole number of at least 1, not 0."),
        ({"batch_size": "64"}, "invalid batch_size: it must be a whole number of at least 1, not '64'."),
        ({"languages": "en"}, "invalid languages: it must be a list of texts, not 'en'."),
        ({"languages": [1]}, "invalid languages: it must be a list of texts, not [1]."),
    ],
)
async def test_the_members_of_an_embedder_are_checked(meaning, write, wrong, message):
    fill(write, 3)
    async with meaning(HashingEmbedder(**wrong)) as memory:
        report = await memory.index()
        assert (report.pending_vectors, len(report.notices)) == (3, 1)
        assert message in report.notices[0]
        results = await memory.search("note1")
        assert results.degraded
        assert message in results.notices[0]


async def test_an_embedder_with_required_options_says_where_to_give_them(meaning, write):
    @attrs.define(kw_only=True)
    class Demanding(HashingEmbedder):
        model: str

    write("memory/a.md", "one\n")
    async with named(meaning("hashing"), hashing=HashingEmbedder, demanding=Demanding) as memory:
        with pytest.raises(ConfigurationError) as caught:
            await memory.reindex("demanding")
    assert str(caught.value) == (
        'embedder, embedder "demanding": it needs "model". Configure it in kipu.toml, then run kipu reindex: [index] '
        'embedder = { use = "demanding", ... }'
    )


async def test_a_recipe_follows_the_configuration(meaning, write):
    @attrs.define
    class Moved(HashingEmbedder):
        address: str = "a"

    fill(write, 3)
    for address in ("a", "b"):
        write("memory/new.md", f"new {address}\n")
        async with named(meaning({"use": "moved", "address": address}), moved=Moved) as memory:
            await memory.index()
            async with memory._context.database.reader() as connection:
                (row,) = await connection.execute_fetchall("SELECT recipe FROM spaces")
            assert f'"address": "{address}"' in row[0]


@pytest.mark.parametrize("recipe", ["{", "5", '"hashing"', '{"use": 5}', "[]"])
async def test_an_invalid_recipe_is_ignored(meaning, write, recipe):
    fill(write, 3)
    async with named(meaning("hashing"), hashing=HashingEmbedder) as memory:
        await memory.index()
        async with memory._context.database.transaction() as connection:
            await connection.execute("UPDATE spaces SET recipe = ?", (recipe,))
    async with named(meaning("other"), other=OtherEmbedder) as memory:
        assert (await memory.search("note1"))[0].path == "memory/001.md"


async def test_a_secret_is_not_written_into_the_index(meaning, write):
    @attrs.define
    class WithKey(HashingEmbedder):
        key: Any = attrs.field(default="", metadata={"secret": True})

    fill(write, 3)
    choice = {"use": "keyed", "dimension": 16, "key": "sk-secret"}
    async with named(meaning(choice), keyed=WithKey) as memory:
        assert (await memory.index()).notices == []
        async with memory._context.database.reader() as connection:
            (row,) = await connection.execute_fetchall("SELECT recipe FROM spaces")
    assert row[0] == '{"use": "keyed", "dimension": 16}'


@attrs.define
class Elsewhere(OtherEmbedder):
    destination: ClassVar[str | None] = "https://elsewhere.example"


async def test_no_query_is_sent_to_a_provider_that_is_no_longer_configured(meaning, write):
    sent: list[str] = []

    @attrs.define
    class Remote(HashingEmbedder):
        destination: ClassVar[str | None] = "https://provider.example"

        async def embed(self, texts: Any, *, role: Any) -> Any:
            sent.extend(texts)
            return await HashingEmbedder.embed(self, texts, role=role)

    fill(write, 3)
    known = {"remote": Remote, "other": OtherEmbedder, "elsewhere": Elsewhere}
    async with named(meaning("remote"), **known) as memory:
        await memory.index()
    sent.clear()
    for name in ("other", "elsewhere"):
        async with named(meaning(name), **known) as memory:
            results = await memory.search("note1", sync=False)
            assert results.degraded
            assert results.notices == ["This search used keywords only. Nothing is embedded yet: kipu index"]
    assert sent == []


async def test_an_earlier_model_of_the_same_provider_answers(meaning, write):
    @attrs.define
    class Sibling(Elsewhere):
        salt: str = "sibling"

    fill(write, 3)
    known = {"elsewhere": Elsewhere, "sibling": Sibling}
    async with named(meaning("elsewhere"), **known) as memory:
        await memory.index()
    async with named(meaning("sibling"), **known) as memory:
        results = await memory.search("note1", sync=False)
        assert (results[0].path, results.degraded) == ("memory/001.md", False)


@pytest.mark.parametrize("key", ["sk-configured", None])
async def test_an_earlier_embedder_gets_the_key_of_the_configured_one_and_no_other(meaning, write, key):
    used: list[tuple[str, str]] = []

    @attrs.define
    class Keyed(HashingEmbedder):
        destination: ClassVar[str | None] = "https://provider.example"

        key: Any = attrs.field(default="sk-of-the-environment", metadata={"secret": True})

        async def embed(self, texts: Any, *, role: Any) -> Any:
            used.append((self.salt, self.key))
            return await HashingEmbedder.embed(self, texts, role=role)

    @attrs.define
    class Stranger(Keyed):
        salt: str = "stranger"

    fill(write, 3)
    known = {"keyed": Keyed, "stranger": Stranger}
    options = {} if key is None else {"key": key}
    async with named(meaning({"use": "keyed", "salt": "a", "key": "sk-earlier"}), **known) as memory:
        await memory.index()
    used.clear()
    async with named(meaning({"use": "keyed", "salt": "b", **options}), **known) as memory:
        results = await memory.search("note1", sync=False)
        assert (results[0].path, results.degraded) == ("memory/001.md", False)
    assert used == [("a", key or "sk-of-the-environment")]
    async with named(meaning({"use": "stranger", **options}), **known) as memory:
        assert (await memory.search("note1", sync=False)).degraded
    assert len(used) == 1
