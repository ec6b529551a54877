"""Secrets in the columns of a table in Markdown or of comma-separated values, by the heading of the column."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .secret import Secret
from .values import is_key, is_likely_password, is_named_password, is_plain_password, is_words, may_be_secret

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["find_in_tables"]

_HINTS = ("pass", "pwd", "kennwort", "contrase", "парол", "密码", "密碼", "パスワード", "secret", "token", "key")
_AROUND = r"[ \t>*_`\"']{0,6}"
_HEADING = re.compile(
    rf"(?:^|[|,;\t]){_AROUND}(?:[\w.-]{{1,20}}[ _.-]){{0,2}}"
    r"(?:(?P<word>pass(?:word|wd|wort|phrase)?|pwd|kennwort|contrase[nñ]a|mot de passe|пароль|密[码碼]|パスワード)"
    r"|secret|token|(?:api|access|secret)[ _-]?key)"
    rf"{_AROUND}(?=[|,;\t\r\n]|$)",
    re.IGNORECASE | re.MULTILINE,
)
_VERSION = re.compile(r"(?:^|[,;\t])[ \t]*+\d")  # a cell that begins with a digit is in a row, not in the headings
_RULE = re.compile(r"[ \t>|:-]++")
_CELL = re.compile(r"[ \t>]*+(?P<open>[*_`\"']{0,3})(?P<secret>.{0,200}?)(?P=open)[ \t]*+")
# The headings of a file of data, and what is in its rows seldom, but in sentences.
_NAMES = re.compile(r"[\w.,;\t-]++")
_SPACE = re.compile(r"\s")
# A row of a table: longer lines are text.
_MAX_LINE = 2000


def find_in_tables(text: str, lower: str) -> Iterator[Secret]:
    """Find passwords and keys below the heading of a column.

    :param lower: the text in lower case, with every character at the same position.
    """
    if not any(hint in lower for hint in _HINTS):
        return
    end = 0
    for heading in _HEADING.finditer(text):
        if heading.start() < end:
            continue
        start = text.rfind("\n", 0, heading.end()) + 1
        line, end = _line(text, start)
        sign = next(
            (mark for mark in text[heading.end() : heading.end() + 1] + heading[0][:1] if mark in "|,;\t"), "\n"
        )
        columns = {
            line.count(sign, 0, one.end() - start): one["word"] is not None
            for one in _HEADING.finditer(text, start, start + len(line))
        }
        is_marked = sign == "|"
        is_data = is_marked or _NAMES.fullmatch(line) is not None
        is_table = _RULE.fullmatch(_line(text, end)[0]) if is_marked else all(map(str.strip, line.split(sign)))
        is_row = not is_marked and (_is_row_above(text, start, sign, line) or _VERSION.search(line))
        if sign not in line or not is_table or is_row:
            continue
        while end < len(text):
            start = end
            row, end = _line(text, start)
            cells = row.split(sign)
            if len(cells) != line.count(sign) + 1:
                end = start
                break
            has_letters = is_data and (is_marked or _SPACE.search(row.replace(sign, "")) is None)
            yield from _find_in_row(cells, start, columns, has_letters=has_letters)
            if start == end:
                break


def _is_row_above(text: str, start: int, sign: str, line: str) -> bool:
    """Check whether the line above has as many cells: then this one is a row, and names something like a heading."""
    above, _ = _line(text, text.rfind("\n", 0, max(0, start - 1)) + 1) if start else ("", 0)
    return above.count(sign) == line.count(sign)


def _line(text: str, start: int) -> tuple[str, int]:
    """Return the line that begins here, and where the next begins; nothing of a line that is no row."""
    end = text.find("\n", start)
    end = len(text) if end < 0 else end
    return (text[start:end].rstrip("\r") if end - start <= _MAX_LINE else ""), min(end + 1, len(text))


def _find_in_row(cells: list[str], start: int, columns: dict[int, bool], *, has_letters: bool) -> Iterator[Secret]:
    """Find the secrets of a row. With ``has_letters``, passwords may have letters only."""
    if _RULE.fullmatch("|".join(cells)):
        return
    for number, text in enumerate(cells):
        cell = _CELL.fullmatch(text) if number in columns else None
        if cell is not None and may_be_secret(cell["secret"]) and " " not in cell["secret"]:
            secret, place = cell["secret"], start + cell.start("secret")
            if columns[number]:
                is_word = has_letters and is_plain_password(secret, strict=True) and not any(map(str.isdigit, secret))
                found = is_word or _is_likely(secret)
            else:
                found = is_key(secret)
            if found:
                yield Secret(place, place + len(secret), "password" if columns[number] else "key")
        start += len(text) + 1


def _is_likely(value: str) -> bool:
    return is_named_password(value, phrase=False) and (not is_words(value) or is_likely_password(value))
