from __future__ import annotations

import pytest

from kipu_chunker_markdown.tokens import estimate_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("four", 1),
        ("fives", 2),
        ("Größe", 2),
        ("数据库", 3),
        ("データベース", 6),
        ("데이터베이스", 6),
        ("ฐานข้อมูล", 9),
        ("база данных", 6),
        ("قاعدة البيانات", 7),
        ("😀🎉", 2),
        ("“quoted”", 2),
        ("\ud800", 1),
    ],
)
def test_tokens_are_estimated_by_script(text, tokens):
    assert estimate_tokens(text) == tokens
