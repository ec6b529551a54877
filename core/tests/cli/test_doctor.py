"""``kipu doctor``."""

from __future__ import annotations

from contextlib import closing

import pytest

from kipu.sqlite import choose_driver


def test_doctor_is_satisfied_with_a_healthy_workspace(kipu, write):
    write("memory/a.md", "one")
    kipu("index")
    done = kipu("doctor")
    assert done.code == 0
    assert "problem" not in done.out
    assert ": 1 file, 1 chunk" in done.out


def test_doctor_finds_problems(kipu, site, here, write):
    site.plugin("kipu-broken", "import not_there")
    write("memory/bad.md", "\0")
    kipu("index")
    write("memory/new.md", "new")
    done = kipu("doctor", "--json")
    assert done.code == 1
    found = {finding["what"]: finding["state"] for finding in done.json}
    assert found["1 file new or changed"] == "hint"
    assert found["skipped memory/bad.md"] == "hint"
    assert any(what.startswith("kipu-broken 1.0") and state == "problem" for what, state in found.items())


def test_doctor_reports_an_invalid_configuration(kipu, here, write):
    write("kipu.toml", "max = [")
    done = kipu("doctor")
    assert done.code == 1
    assert f"problem  the workspace {here} cannot be used\nproblem  {here / 'kipu.toml'} is not valid TOML" in done.out


def test_doctor_reports_a_damaged_index_and_leaves_it_alone(kipu, here, write):
    write("memory/a.md", "one")
    index = here / ".kipu" / "index.sqlite"
    index.parent.mkdir()
    index.write_bytes(b"x" * 5000)
    assert "problem  the index is damaged" in kipu("doctor").out
    assert index.read_bytes() == b"x" * 5000


def test_doctor_reports_missing_kinds_of_plugins(kipu):
    done = kipu("-p", "no:fake-standard", "doctor")
    assert done.code == 1
    assert "problem  no plugin with a chunker: nothing can be indexed\n         pip install kipu" in done.out
    assert "problem  no plugin with a strategy: nothing can be searched\n         pip install kipu" in done.out


FILTER = """\
import attrs
from kipu import hookimpl
from kipu.types import Filtered

@attrs.frozen
class Redact:
    def filter(self, text, path):
        return Filtered(text)

@hookimpl
def kipu_register_write_filters(register):
    register("redact", Redact)
"""


def test_status_and_doctor_say_whether_secrets_are_replaced(kipu, site, write):
    site.install("fake-redact", {"kipu": {"filter-redact": "fake_redact"}}, fake_redact=FILTER)
    hint = "hint     no write filter is in use: secrets are written as they are\n"
    assert hint not in kipu("doctor").out
    assert "write filters   redact\n" in kipu("status").out
    assert kipu("status", "--json").json["filters"] == ["redact"]
    block = ("-p", "no:fake-redact")
    assert "write filters   none: secrets are written as they are\n" in kipu(*block, "status").out
    assert hint in (done := kipu(*block, "doctor")).out
    assert "comes with fake-redact 1.0, which is not in use: blocked by -p" in done.out
    write("kipu.toml", "[writing]\nfilters = []\n")
    assert kipu("status", "--json").json["filters"] == []
    assert f"{hint}         To replace keys and passwords, remove filters = [] below [writing]" in kipu("doctor").out


EMBEDDER = """\
from kipu.testing import HashingEmbedder, VectorStrategy
from kipu import hookimpl

@hookimpl
def kipu_register_embedders(register):
    register("hashing", HashingEmbedder)

@hookimpl
def kipu_register_strategies(register):
    register("nearest", VectorStrategy)
"""


@pytest.mark.parametrize(
    ("options", "configured", "message"),
    [
        ((), '"hashng"', 'index.embedder: No embedder "hashng". Did you mean "hashing"?'),
        (("-p", "no:kipu-embedder-other"), '"other"', "which is not in use: blocked by -p."),
        (
            (),
            '{ use = "hashing", dimension = -1 }',
            'The embedder "hashing" (kipu-embedder-hashing 1.0) failed to embed: ValueError',
        ),
    ],
    ids=["mistyped", "blocked", "failing"],
)
def test_doctor_reports_an_embedder_that_cannot_be_used(kipu, site, write, options, configured, message):
    site.plugin("kipu-embedder-hashing", EMBEDDER)
    site.plugin("kipu-embedder-other", "")
    write("memory/a.md", "one")
    write("kipu.toml", f'[index]\nembedder = {configured}\n[search]\nstrategy = "nearest"\n')
    done = kipu(*options, "doctor", "--json")
    assert done.code == 1
    (problem,) = [finding["what"] for finding in done.json if finding["state"] == "problem"]
    assert message in problem
    assert not any(problem in finding["what"] for finding in done.json if finding["state"] != "problem")
    assert not any(finding["what"].startswith("embedder ") for finding in done.json)
    assert kipu(*options, "search", "one").code == 0


def test_doctor_counts_damaged_vectors_until_they_are_replaced(kipu, here, site, write):
    site.plugin("kipu-embedder-hashing", EMBEDDER)
    write("memory/a.md", "one")
    write("kipu.toml", '[index]\nembedder = "hashing"\n[search]\nstrategy = "nearest"\n')
    assert kipu("index").code == 0
    with closing(choose_driver().connect(here / ".kipu/index.sqlite", isolation_level=None)) as connection:
        connection.execute("UPDATE embeddings SET vector = zeroblob(length(vector))")
    done = kipu("doctor")
    assert (done.code, "1 vector in the index damaged, and ignored" in done.out) == (1, True)
    assert kipu("index", "--force").code == 0
    assert kipu("doctor").code == 0


@pytest.mark.parametrize("block", [["-p", "no:embedder-onnx"], []], ids=["for-one-call", "configured"])
def test_without_an_embedder_search_matches_words_and_status_and_doctor_say_so(kipu, site, write, block):
    only_embedder, _, _ = EMBEDDER.rpartition("@hookimpl")
    onnx, other = (only_embedder.replace('"hashing"', f'"{name}"') for name in ("onnx", "other"))
    site.install("fake-onnx", {"kipu": {"embedder-onnx": "fake_onnx"}}, fake_onnx=onnx)
    site.plugin("kipu-embedder-other", other)
    write("memory/a.md", "valkey")
    assert 'ok       strategy "keyword", which uses no embedder\n' in kipu("doctor").out
    if not block:
        write("kipu.toml", '[plugins]\ndisable = ["fake-onnx"]\n')
    done = kipu(*block, "search", "valkey", "--json")
    assert (done.json["degraded"], done.json["notices"], done.err) == (False, [], "")
    assert "embedder        none: search by keywords\n" in kipu(*block, "status").out
    done = kipu(*block, "doctor")
    place = block[0] if block else "plugins.disable in kipu.toml"
    assert done.code == 0
    assert (
        "hint     no embedder is in use: searches match words only, not meaning\n"
        f'         The embedder "onnx" comes with fake-onnx 1.0, which is not in use: blocked by {place}.\n'
    ) in done.out


FLUSHER = """\
import attrs
from kipu import hookimpl

@attrs.frozen
class Offline:
    async def distill(self, messages, *, instructions, model=None):
        raise AssertionError

    async def check(self):
        return "The model server does not answer. Start it."

@hookimpl
def kipu_register_flushers(register):
    register("offline", Offline)
"""


def test_doctor_asks_a_component_for_its_own_check(kipu, site, write):
    site.plugin("kipu-flusher-offline", FLUSHER)
    write("memory/a.md", "one")
    write("kipu.toml", '[flush]\nflusher = "offline"\n')
    done = kipu("doctor")
    assert done.code == 1
    assert "The model server does not answer. Start it." in done.out
