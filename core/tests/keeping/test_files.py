"""Single files are read and created without following symlinks or waiting for pipes."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from kipu.keeping.files import write_new
from kipu.workspace.reader import read_regular

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and pipes are those of POSIX")


def a_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def a_link_to_nothing(path: Path, outside: Path) -> None:
    path.symlink_to(outside.with_name("nothing"))


def a_pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("size", [0, 3, 100_000])
@pytest.mark.parametrize("put", [a_link, a_link_to_nothing, a_pipe, None])
def test_a_file_is_created_whatever_is_in_its_place(tmp_path, put, size):
    outside, path = tmp_path / "outside", tmp_path / "path"
    outside.write_bytes(b"precious")
    if put is not None:
        put(path, outside)
    write_new(path, b"x" * size)
    assert not path.is_symlink()
    assert read_regular(path) == b"x" * size
    assert outside.read_bytes() == b"precious"
    assert not (tmp_path / "nothing").exists()


def test_a_pipe_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is not a regular file"):
        read_regular(tmp_path / "pipe")


def test_a_full_disk_is_reported_with_the_name_of_the_file(tmp_path, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_new(tmp_path / "path", b"x", name="memory/a.md")
    assert caught.value.filename == "memory/a.md"
