from kipu.sync import Memory


def test_each_file_gives_its_best_hit(kipu_workspace, kipu_write):
    kipu_write("memory/people.md", "# People\n\nAlice steers the ferry.\n")
    kipu_write("memory/timetable.md", "# Out\n\nThe ferry leaves at six.\n\n# Back\n\nThe ferry is back at ten.\n")
    with Memory(kipu_workspace) as memory:
        assert len(memory.search("ferry")) == 3
        best = memory.search("ferry", hits_per_file=1)
    assert sorted(result.path for result in best) == ["memory/people.md", "memory/timetable.md"]
