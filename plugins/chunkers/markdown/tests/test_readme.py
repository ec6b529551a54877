from __future__ import annotations

import re
from pathlib import Path

import attrs

from kipu_chunker_markdown import MarkdownChunker

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")


def test_the_example_prints_the_output_in_the_readme(capsys):
    code, output = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL).groups()
    exec(code, {})
    assert capsys.readouterr().out == output


def test_the_readme_lists_every_option_with_its_default():
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", README, re.MULTILINE)
    assert rows == [(option.name, str(option.default)) for option in attrs.fields(MarkdownChunker)]
