"""`kipu.Memory`: what a program sees."""

from __future__ import annotations


async def test_a_search_finds_the_lines_of_a_file(memory, write):
    write("memory/2026-11-29.md", "# Cache\n\nWe moved from Redis to Valkey.\nIt was cheaper.\n")
    results = await memory.search("why valkey")
    assert [(result.path, result.start_line, result.end_line) for result in results] == [
        ("memory/2026-11-29.md", 3, 4)
    ]
    assert results[0].text == "We moved from Redis to Valkey.\nIt was cheaper."
    assert (results[0].source, results[0].heading, results[0].scores) == ("memory", "Cache", {"words": 0.5})
    assert not results.stale
    assert results.pending == []
