"""``kipu init``."""

from __future__ import annotations

import re
import tomllib

import attrs

from kipu import MemoryConfig
from kipu.config import load_config


def test_init_creates_a_workspace_and_keeps_existing_files(kipu, here, tmp_path):
    new = tmp_path / "new"
    done = kipu("init", str(new), "--json")
    assert (done.code, done.json) == (0, {"workspace": str(new), "made": ["memory/", "kipu.toml"]})
    assert (new / ".kipu" / ".gitignore").exists()
    (new / "kipu.toml").write_text("# mine\n", "utf-8")
    assert kipu("init", "-w", str(new)).out == f"{new}: is already a workspace\n"
    assert (new / "kipu.toml").read_text("utf-8") == "# mine\n"
    assert kipu("search", "remembering", "-w", str(new)).code == 0


def test_init_shows_every_option_with_its_default(kipu, here):
    kipu("init")
    text = (here / "kipu.toml").read_text("utf-8")
    assert load_config(here) == MemoryConfig(here)
    assert max(map(len, text.splitlines())) <= 120
    shown = re.sub("^# ?", "", re.sub("^##.*\n", "", text.partition("\n\n")[2], flags=re.MULTILINE), flags=re.MULTILINE)
    tables = tomllib.loads(shown)
    (here / "kipu.toml").write_text(shown, "utf-8")
    config = load_config(here)
    for table in attrs.fields(MemoryConfig):
        if attrs.has(getattr(table.default, "factory", object)):
            defaults = getattr(MemoryConfig(), table.name)
            assert list(tables[table.name]) == [option.name for option in attrs.fields(type(defaults))]
            for name, default in attrs.asdict(defaults).items():
                assert default is None or getattr(getattr(config, table.name), name) == default
    assert "timezone" in tables


def test_init_on_a_file_is_an_error(kipu, write):
    write("file", "text")
    for folder in ("file", "file/below"):
        done = kipu("init", folder)
        assert done.code in {1, 2}
        assert "Error: " in done.err
        assert "Traceback" not in done.err
