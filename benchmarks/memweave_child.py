"""What peer.py runs with the Python of memweave's own environment: memweave with the model that Kipu uses.

Its arguments: the folder of the model (``model.onnx`` and ``tokenizer.json``), and a file in which vectors are kept, so
that no text is embedded twice. It reads a line of JSON after the other, and answers each with one:

    {"workspace": path}                                    {"chunks": number}
    {"question": text, "limit": number, "min_score": null or number}
                                     {"found": [[path, first line, last line, score], ...], "seconds": CPU time}

The workspace is indexed from scratch, in a folder that is removed at the end; nothing is written into the workspace.
All is left at memweave's defaults but for what it is handed: the embedding provider, and the number of results.
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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WINDOW = 256  # what all-MiniLM-L6-v2 sees of a text, in tokens


class Provider:
    """What memweave asks for vectors: all-MiniLM-L6-v2, or another model that is averaged over its tokens."""

    def __init__(self, model: Path, kept: Path) -> None:
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
        self._kept = _sqlite3().connect(kept, timeout=60)
        self._kept.execute("CREATE TABLE IF NOT EXISTS vectors(hash TEXT PRIMARY KEY, vector BLOB)")

    async def embed_query(self, text: str) -> list[float]:
        return list(self._embed(text).tolist())

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        import numpy as np

        hashes = [hashlib.sha256(f"{self._identity}\0{text}".encode()).hexdigest() for text in texts]
        missing = {name: text for name, text in zip(hashes, texts, strict=True) if self._look_up(name) is None}
        vectors = self._threads.map(self._embed, missing.values())
        rows = [(name, vector.astype(np.float32).tobytes()) for name, vector in zip(missing, vectors, strict=True)]
        self._kept.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
        self._kept.commit()
        return [np.frombuffer(self._look_up(name) or b"", dtype=np.float32).tolist() for name in hashes]

    def _look_up(self, name: str) -> bytes | None:
        row = self._kept.execute("SELECT vector FROM vectors WHERE hash = ?", (name,)).fetchone()
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


def _sqlite3() -> Any:
    """SQLite, in a build that can load sqlite-vec: many builds of Python have one that cannot."""
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return sqlite3
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3  # for memweave
    return pysqlite3


def leave_out_what_is_slow_and_changes_nothing() -> None:
    """Add to its index of words without looking all through it first for what is added: the index is new."""
    from memweave.storage.sqlite_store import SQLiteStore  # type: ignore[import-not-found]

    async def insert(self: Any, *, chunk_id: str, **columns: Any) -> None:
        columns["id"] = chunk_id
        marks = ", ".join("?" * len(columns))
        await self._db.execute(
            f"INSERT INTO chunks_fts ({', '.join(columns)}) VALUES ({marks})", list(columns.values())
        )

    async def nothing(self: Any, path: str) -> None:
        """Nothing to delete."""

    SQLiteStore.upsert_fts = insert
    SQLiteStore.delete_fts_by_path = nothing


async def serve(model: Path, kept: Path, folder: Path) -> None:
    """Answer one line after the other, until there are no more."""
    provider = Provider(model, kept)  # first: it chooses the SQLite that memweave gets
    from memweave import MemWeave  # type: ignore[import-not-found]
    from memweave.config import MemoryConfig  # type: ignore[import-not-found]

    leave_out_what_is_slow_and_changes_nothing()
    workspace = json.loads(sys.stdin.readline())["workspace"]
    config = MemoryConfig(workspace_dir=Path(workspace), db_path=folder / "index.sqlite", progress=False)
    async with MemWeave(config, embedding_provider=provider) as memory:
        await memory.index()
        status = await memory.status()
        if not status.vector_available:
            raise SystemExit("memweave cannot load sqlite-vec here, and would search by words alone.")
        answer({"chunks": status.chunks})
        for line in sys.stdin:
            asked = json.loads(line)
            start = time.process_time()
            results = await memory.search(
                asked["question"], max_results=asked["limit"], min_score=asked.get("min_score")
            )
            seconds = time.process_time() - start
            found = [[result.path, result.start_line, result.end_line, result.score] for result in results]
            answer({"found": found, "seconds": seconds})


def answer(said: dict[str, Any]) -> None:
    """Write a line, to where nothing else is written."""
    ANSWERS.write(json.dumps(said) + "\n")
    ANSWERS.flush()


if __name__ == "__main__":
    # What the libraries print goes to stderr.
    ANSWERS = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2]), Path(temporary)))
