"""``kipu demo``."""

from __future__ import annotations


def test_demo_creates_indexes_and_searches_a_folder(kipu, here):
    done = kipu("demo")
    assert done.code == 0
    assert done.out.count("$ kipu search ") == 7
    assert len(list((here / "kipu-demo" / "memory").rglob("*.md"))) >= 40
    assert kipu("demo").code == 0
    assert kipu("search", "ferry", "-w", "kipu-demo", "--json").json["results"]


def test_demo_refuses_a_folder_with_other_files(kipu, here, write):
    write("mine/note.txt", "text")
    done = kipu("demo", "mine")
    assert done.code == 2
    assert "mine is not empty and is not an earlier demo. Name another folder: kipu demo FOLDER" in done.err
    assert [path.name for path in (here / "mine").iterdir()] == ["note.txt"]
