from kipu.sync import Memory


def test_each_file_gives_its_best_hit(tmp_path):
    folder = tmp_path / "memory"
    folder.mkdir()
    (folder / "people.md").write_text("# People\n\nAlice steers the ferry.\n")
    (folder / "timetable.md").write_text("# Out\n\nThe ferry leaves at six.\n\n# Back\n\nThe ferry is back at ten.\n")
    with Memory(tmp_path) as memory:
        assert len(memory.search("ferry")) == 3
        best = memory.search("ferry", hits_per_file=1)
    assert sorted(result.path for result in best) == ["memory/people.md", "memory/timetable.md"]
