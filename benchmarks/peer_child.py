"""What runs in the environment of a peer, for memweave_child.py and memsearch_child.py: the model, and the protocol.

The arguments of such a program are the folder of a model (``model.onnx`` and ``tokenizer.json``), and a file in which
vectors are kept, so that no text is embedded twice. It reads lines of JSON and answers each with one:

    {"workspace": path}                                    {"chunks": number}
    {"question": text, "limit": number, ...}
                                     {"found": [[path, first line, last line, score], ...], "seconds": CPU time}

The workspace is indexed in a folder that is removed at the end; nothing is written into the workspace.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sqlite3
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    import numpy as np
    from numpy.typing import NDArray

WINDOW = 256  # what all-MiniLM-L6-v2 sees of a text, in tokens


class Model:
    """all-MiniLM-L6-v2, or another model that is averaged over its tokens."""

    def __init__(self, model: Path, cache: Path) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        self._tokenizer.enable_truncation(WINDOW)
        self._tokenizer.no_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # several texts at once instead, each by itself
        self._session = onnxruntime.InferenceSession(str(model / "model.onnx"), options)
        self._inputs = [node.name for node in self._session.get_inputs()]
        self._threads = ThreadPoolExecutor(os.cpu_count())
        self._identity = hashlib.sha256((model / "model.onnx").read_bytes()).hexdigest()
        self._cache = loadable_sqlite().connect(cache, timeout=60)
        self._cache.execute("CREATE TABLE IF NOT EXISTS vectors(hash TEXT PRIMARY KEY, vector BLOB)")

    def embed_query(self, text: str) -> list[float]:
        """Embed one text, without the cache."""
        return list(self._embed(text).tolist())

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Embed texts, or return what the cache has of them."""
        import numpy as np

        hashes = [hashlib.sha256(f"{self._identity}\0{text}".encode()).hexdigest() for text in texts]
        missing = {name: text for name, text in zip(hashes, texts, strict=True) if self._look_up(name) is None}
        vectors = self._threads.map(self._embed, missing.values())
        rows = [(name, vector.astype(np.float32).tobytes()) for name, vector in zip(missing, vectors, strict=True)]
        self._cache.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
        self._cache.commit()
        return [np.frombuffer(self._look_up(name) or b"", dtype=np.float32).tolist() for name in hashes]

    def _look_up(self, name: str) -> bytes | None:
        row = self._cache.execute("SELECT vector FROM vectors WHERE hash = ?", (name,)).fetchone()
        return row and bytes(row[0])

    def _embed(self, text: str) -> NDArray[np.float64]:
        import numpy as np

        encoding = self._tokenizer.encode(text)
        given = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        rows = {name: np.array([given[name]], dtype=np.int64) for name in self._inputs}
        vector = self._session.run(None, rows)[0][0].astype(np.float64)
        if vector.ndim == 2:  # one for each token
            vector = vector.mean(axis=0)
        return np.asarray(vector / np.linalg.norm(vector))


def loadable_sqlite() -> Any:
    """Return an SQLite that can load extensions, which that of many builds of Python cannot; the peer gets the same."""
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return sqlite3
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3
    return pysqlite3


class Search(Protocol):
    """A peer that has indexed a workspace: its number of chunks, and what it finds."""

    chunks: int

    async def __call__(self, question: str, limit: int, **options: Any) -> list[tuple[str, int, int, float]]: ...


def run(open_peer: Callable[[Path, Model, Path], AbstractAsyncContextManager[Search]]) -> None:
    """Serve a peer on stdin and stdout, which gets a workspace, the model and a temporary folder."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the libraries print goes to stderr

    def answer(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    async def serve(folder: Path) -> None:
        model = Model(Path(sys.argv[1]), Path(sys.argv[2]))
        workspace = Path(json.loads(sys.stdin.readline())["workspace"])
        async with open_peer(workspace, model, folder) as search:
            answer({"chunks": search.chunks})
            for line in sys.stdin:
                start = time.process_time()
                found = await search(**json.loads(line))
                answer({"found": found, "seconds": time.process_time() - start})

    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(serve(Path(temporary)))
