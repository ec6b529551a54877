"""memweave and memsearch for quality.py, with the model that Kipu uses, in environments and processes of their own.

    python benchmarks/peer.py memsearch WORKSPACE "a question"      # to see what it finds

They are installed from PyPI (about 500 MB each) and need Python 3.12 or newer.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from speed import ENVIRONMENT, PEER, find_python

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "benchmarks"
PEERS = {"memweave": PEER, "memsearch": "memsearch==0.4.23"}


class PeerMissingError(Exception):
    """What a peer needs is missing."""


class Peer:
    """A peer with its defaults, which indexes a workspace, outside of it.

    :param name: one of ``PEERS``.
    :param options: what every search is called with, besides the question and the number of results.
    :param model: a folder with ``model.onnx`` and ``tokenizer.json``; that of kipu-model-minilm by default.
    :param work: where the environment and the vectors are kept.
    :raises PeerMissingError: there is no Python of at least 3.12, or no model.
    """

    def __init__(
        self, name: str, workspace: Path, *, model: Path | None = None, work: Path = WORK, **options: Any
    ) -> None:
        self._name = name
        self._options = options
        self.seconds = 0.0
        """CPU time of all searches, without indexing."""
        child = Path(__file__).with_name(f"{name}_child.py")
        self._child = subprocess.Popen(
            [install(name, work), child, model or find_model(), work / f"{name}-vectors.sqlite"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=ENVIRONMENT | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        )
        self.chunks: int = self._ask(workspace=str(workspace))["chunks"]

    def __call__(self, question: str, limit: int) -> list[tuple[str, int, int, float]]:
        """Return paths relative to the workspace, first and last lines, and scores, best first."""
        answer = self._ask(question=question, limit=limit, **self._options)
        self.seconds += answer["seconds"]
        return [(path, start, end, score) for path, start, end, score in answer["found"]]

    def close(self) -> None:
        """End the process."""
        self._child.communicate()

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and answers nothing
            self._child.stdin.write(json.dumps(request) + "\n")
            self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._name} ended with exit code {self._child.wait()}; its output is above.")
        answer: dict[str, Any] = json.loads(line)
        return answer


@cache
def install(name: str, work: Path) -> Path:
    """Make an environment for a peer with vectors, unless it is there, and return its Python.

    That of memweave is another one than that of speed.py, which has no vectors.
    """
    folder = work / f"{name}-vectors"
    own, stamp = folder / "bin" / "python", folder / PEERS[name]
    if stamp.exists():
        return own
    python = find_python(None)
    if python is None:
        raise PeerMissingError(f"{name} needs Python 3.12 or newer, and there is none here")
    print(f"Installing {PEERS[name]} into {folder}", file=sys.stderr)
    subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    pip: list[str | Path] = [own, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, PEERS[name], "onnxruntime", "tokenizers"], check=True)
    can_load = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)"
    if subprocess.run([own, "-c", can_load], check=False, stderr=subprocess.DEVNULL).returncode:
        subprocess.run([*pip, "pysqlite3"], check=True)
    stamp.touch()
    return own


def find_model() -> Path:
    """Return the folder of the model that Kipu uses by default."""
    found = importlib.util.find_spec("kipu_model_minilm")
    for folder in found.submodule_search_locations or [] if found else []:
        for model in sorted(Path(folder).rglob("model.onnx")):
            return model.parent
    raise PeerMissingError("the model is not there: kipu-model-minilm is not installed")


if __name__ == "__main__":
    peer = Peer(sys.argv[1], Path(sys.argv[2]).resolve())
    print(peer.chunks, "chunks")
    for hit in peer(sys.argv[3], 6):
        print(*hit)
    peer.close()
