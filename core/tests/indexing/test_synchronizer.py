"""What a memory keeps in step with its files, whatever its plugins do."""

from __future__ import annotations

import pytest

from kipu import Memory
from kipu.errors import IndexUnavailableError, PluginNotFoundError
from kipu.testing import VectorStrategy, WordStrategy


class Filing(WordStrategy):
    """A strategy that keeps a file of its own."""

    async def search(self, query, index):
        (index.folder / "seen.txt").write_text(query.text)
        return await WordStrategy.search(self, query, index)


@pytest.fixture
def file(workspace):
    return workspace / ".kipu/plugins" / f"{__name__}.Filing".replace(".", "_") / "seen.txt"


async def test_the_folder_of_a_strategy_is_kept_until_everything_is_indexed_again(config, write, file):
    write("memory/a.md", "apple\n")
    async with Memory(config(strategy=Filing())) as memory:
        await memory.search("apple")
        assert file.read_text() == "apple"
        await memory.index()
        assert file.exists()
        await memory.index(force=True)
        assert not file.parent.exists()


@pytest.mark.services
async def test_forgetting_clears_the_folder_of_a_strategy(config, write, file):
    write("memory/a.md", "apple\n\npear\n")
    async with Memory(config(strategy=Filing())) as memory:
        (result,) = await memory.search("apple")
        assert file.exists()
        assert (await memory.forget(chunk=result.chunk)).complete
        assert not file.parent.exists()


async def test_the_folder_of_a_strategy_is_not_reached_by_a_symlink(config, write, workspace, tmp_path):
    write("memory/a.md", "apple\n")
    (tmp_path / "elsewhere").mkdir()
    async with Memory(config(strategy=Filing())) as memory:
        await memory.index()
        (workspace / ".kipu/plugins").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(IndexUnavailableError, match="is a symbolic link"):
            await memory.search("apple")
        await memory.index(force=True)
    assert list((tmp_path / "elsewhere").iterdir()) == []


class Raising(WordStrategy):
    async def add(self, connection, chunks):
        raise ValueError("no disk")


@pytest.mark.services
@pytest.mark.parametrize(
    ("parts", "notice"),
    [
        ({"strategy": Raising()}, "failed while indexing: ValueError: no disk"),
        ({"strategy": "nonesuch"}, None),
        ({"index": {"chunker": "nonesuch"}}, 'No chunker "nonesuch"'),
        ({"index": {"embedder": "nonesuch"}, "strategy": VectorStrategy()}, None),
    ],
    ids=["strategy raises", "no strategy", "no chunker", "no embedder"],
)
async def test_files_and_writes_do_not_depend_on_what_searches(config, write, workspace, parts, notice):
    write("memory/a.md", "apple\n")
    async with Memory(config(**parts)) as memory:
        files = [file.path for file in await memory.files()]
        note = await memory.remember("The cache is Valkey.", file="memory/b.md")
        assert "The cache is Valkey." in (workspace / "memory/b.md").read_text("utf-8")
        await memory.forget(path="memory/b.md", start=note.start_line, end=note.end_line)
        assert not (workspace / "memory/b.md").exists()  # nothing else was in it
    assert files == ([] if notice and "chunker" in notice else ["memory/a.md"])
    assert any(notice in sentence for sentence in note.notices) if notice else not note.notices
    async with Memory(config()) as memory:
        assert [result.path for result in await memory.search("apple")] == ["memory/a.md"]
        assert await memory.search("Valkey") == []


async def test_an_unknown_strategy_is_an_error_of_searching_and_indexing(config, write):
    write("memory/a.md", "apple\n")
    async with Memory(config(strategy="nonesuch")) as memory:
        await memory.files()
        for work in (memory.index, lambda: memory.search("apple")):
            with pytest.raises(PluginNotFoundError):
                await work()
