"""memweave 0.2.1 for quality.py: with vectors of the model that Kipu uses, in an environment and a process of its own.

    python benchmarks/peer.py WORKSPACE "a question"      # to see what it finds

It is installed from PyPI (about 480 MB) and needs Python 3.12 or newer.
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
CHILD = Path(__file__).with_name("memweave_child.py")


class PeerMissingError(Exception):
    """What memweave needs is not there."""


class Memweave:
    """memweave with its defaults. A new index is built for each workspace, and outside of it.

    :param min_score: the lowest score of a result; None is memweave's default, 0.35.
    :param model: a folder with ``model.onnx`` and ``tokenizer.json``; that of kipu-model-minilm if it is not given.
    :param work: where the environment and the vectors are kept.
    :raises PeerMissingError: there is no Python of at least 3.12, or no model.
    """

    def __init__(
        self, workspace: Path, min_score: float | None = None, *, model: Path | None = None, work: Path = WORK
    ) -> None:
        self._min_score = min_score
        self.seconds = 0.0
        """CPU time of all searches, without indexing."""
        self._child = subprocess.Popen(
            [install(work), CHILD, model or find_model(), work / "memweave-vectors.sqlite"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=ENVIRONMENT | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        )
        self.chunks: int = self._ask(workspace=str(workspace))["chunks"]

    def __call__(self, question: str, limit: int) -> list[tuple[str, int, int, float]]:
        """Return what is found: paths relative to the workspace, first and last lines, and scores, best first."""
        answer = self._ask(question=question, limit=limit, min_score=self._min_score)
        self.seconds += answer["seconds"]
        return [(path, start, end, score) for path, start, end, score in answer["found"]]

    def close(self) -> None:
        """End the process."""
        self._child.communicate()

    def _ask(self, **asked: Any) -> dict[str, Any]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, and answers nothing
            self._child.stdin.write(json.dumps(asked) + "\n")
            self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"memweave ended with exit code {self._child.wait()}; what it printed stands above.")
        answer: dict[str, Any] = json.loads(line)
        return answer


@cache
def install(work: Path) -> Path:
    """Make an environment for memweave with vectors, unless it is there. Its Python.

    It is another one than that of speed.py, which has no vectors.
    """
    folder = work / "memweave-vectors"
    own, stamp = folder / "bin" / "python", folder / PEER
    if stamp.exists():
        return own
    python = find_python(None)
    if python is None:
        raise PeerMissingError("memweave needs Python 3.12 or newer, and there is none here")
    print(f"Installing {PEER} into {folder}", file=sys.stderr)
    subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
    pip: list[str | Path] = [own, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run([*pip, PEER, "onnxruntime", "tokenizers"], check=True)
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
    memweave = Memweave(Path(sys.argv[1]).resolve())
    print(memweave.chunks, "chunks")
    for hit in memweave(sys.argv[2], 6):
        print(*hit)
    memweave.close()
