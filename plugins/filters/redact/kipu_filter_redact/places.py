"""Places of settings, where only a password can stand: there it may have letters only.

An example is ``DB_PASSWORD=swordfish``. In prose, as in ``password: swordfish``, such a value is a word.
"""

from __future__ import annotations

import re

__all__ = ["place_of"]

# Names of messages, switches and functions.
_OTHER_NAME = re.compile(
    r"(?:(?<![^\W_])|(?-i:(?<=[a-z])(?=[A-Z])))"
    r"(?:(?:forg[eo]t(?:ten)?|reset|changed?|updated?|confirm|enter|invalid|wrong|incorrect|bad|missing|empty|weak|strong|"
    r"show|hide|has|is|use|required?|toggle|validate|errors?|err|fields?|labels?|msg|messages?|placeholder|grant|"
    r"no(?![_-]?reply))(?:[ _-](?:\w{1,12}[_-])?)?|"
    # Before a further word, these belong to names of services and databases: HASH_DB_PASSWORD.
    r"(?:requires|need|mask|hash|encrypt|verify|check|types?|max|min)[ _-]?)$",
    re.IGNORECASE,
)
# The beginning of the line of a setting, before its name.
_LINE = re.compile(
    r"(?:^|[\r\n])(?P<indent>[ \t>]{0,40}(?:-[ ])?)(?:(?:export|set|setx|env)[ ])?(?P<name>[\w.-]{0,60})$",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"(?<![\w.$/-])[A-Z][A-Z0-9_]{0,60}$")
_SET_VARIABLE = re.compile(r"(?<!\w)(?:setenv|setx|ENV)[ ]{1,4}[A-Z][A-Z0-9_]{0,40}$")
# An argument of a command: the body of a request, or one with a longer name in a line without signs of a program.
_ARGUMENT = re.compile(
    r"(?:[ ](?:-d|-F|--data[\w-]{0,20}|--form)[ =][\"']?[\w.-]{0,40}|"
    r"(?:^|\n)[^\s(){}=,][^\n(){},]{0,80}[ ][a-z]\w{1,30}_)$"
)
# An option after another one that has a value, and what precedes a text in quotation marks.
_AFTER_OPTION = re.compile(r"-[\w-]{1,30}[ =][^\s-]\S{0,60}[ ]--?$")
_QUOTED = re.compile(r"(?:\#define[ ]\w{0,40}|[ ]--?[A-Za-z-]{0,30})$")
# Settings that follow an option: -e 'db_password=...', --set auth.password=..., -o username=ana,password=...
_AFTER_EQUAL = re.compile(r"[ ]-{1,2}[\w-]{1,30}[ =][\"']?(?:[\w.\[\]-]{1,60}=[^\s,=]{0,60},)?[\w.-]{0,60}$")
_OPTION = re.compile(r"(?:--[\w-]{0,40}|(?<!\S)-D[\w.-]{0,60})$")
_QUERY = re.compile(r"[?&][\w.-]{0,60}$")
# The setting before it in a connection string.
_SETTING = re.compile(
    r"(?:;[ ]?|(?<![\w-])(?:host|hostname|user|username|uid|user[ ]id|dbname|server|port|login|db)=[^\s=,()]{1,60}[ ])"
    r"\w{0,20}$",
    re.IGNORECASE,
)
_REST_OF_LINE = re.compile(r"[*_`]{0,3}[ \t]*+(?:(?<=[ ])\#[^\r\n]*+)?(?=[\r\n]|$)")
# A line beside it, of the same login.
_LOGIN = re.compile(
    r"[ \t>]*+(?:-[ ])?[\"']?(?:\w{1,30}[._-])?"
    r"(?:user(?:[_-]?name)?|login|host(?:name)?|port|database|db(?:[_-]?name)?|e-?mail|server|account|benutzer(?:name)?)"
    r"[\"']?[ \t]*+[:=][ \t]*+[^\s,;]++[ \t]*+$",
    re.IGNORECASE,
)
# The same in one line: `user: ana, password: ...`.
_BESIDE_LOGIN = re.compile(
    r"(?<![\w-])(?:user(?:name)?|login|account|e-?mail|host)[ ]?[:=][ ]?[^\s,;:=(){}]{1,60}[,;]?[ ]\w{0,20}$",
    re.IGNORECASE,
)
_SECTION = re.compile(r"^\[[^\[\]\n]{1,60}\][ \t]*+$", re.MULTILINE)
_REACH = 300


def place_of(text: str, name: re.Match[str], value: re.Match[str], span: tuple[int, int]) -> int:
    """Return how certain it is that a value is the password: 0 in prose, 1 in a program, 2 for a variable or option.

    :param span: the position of the value.
    """
    certainty = _certainty(text, name, value, span)
    return 0 if certainty and _OTHER_NAME.search(text, max(0, name.start() - 40), name.start()) else certainty


def _certainty(text: str, name: re.Match[str], value: re.Match[str], span: tuple[int, int]) -> int:
    before = text[max(0, name.start() - 128) : name.start()]
    start, end = span
    if value["call"] or value["comma"] or value["fallback"]:
        return 1
    if value["element"]:
        return int(text.startswith("</", end))
    if value["space"]:
        if value["bare"]:
            return 2 if _SET_VARIABLE.search(before) else int(_AFTER_OPTION.search(before) is not None)
        return int(value["quote"] is not None and _QUOTED.search(before) is not None)
    if not (value["sign"] or value["verb"]) or value["newline"]:
        return 0
    between = text[name.end() : start].rstrip("\"'")
    is_tight = value["sign"] == "=" and between.endswith("=") and not between.rstrip("=").endswith((" ", "\t"))
    if is_tight and _is_setting(before, name, text[end : end + 1]):
        return 2
    return 1 if value["bare"] is None else int(_is_line(text, before, name, value["sign"], span, is_tight=is_tight))


def _is_line(text: str, before: str, name: re.Match[str], sign: str, span: tuple[int, int], *, is_tight: bool) -> bool:
    """Check that a name and a value are one line of a file of settings."""
    start, end = span
    if sign in (":", "=") and _BESIDE_LOGIN.search(before) and text[end : end + 1] in ("", "\n", "\r", ",", ";", ")"):
        return True
    line = _LINE.search(before)
    if line is None or not _REST_OF_LINE.match(text, end):
        return False
    if is_tight:  # an argument of a function is indented
        return len(line["indent"]) <= 2 and "\t" not in line["indent"]
    if sign == "=":
        in_section = _SECTION.search(text, max(0, start - _REACH), start) is not None
        return in_section or _VARIABLE.search(before + name[0]) is not None
    if sign != ":":
        return False
    is_compound = line["name"] != "" and (line["name"][-1] in "_-." or name[0][0].isupper())
    above = text[max(0, start - _REACH) : name.start() - len(before) + line.start()].rstrip()
    is_nested = len(line["indent"]) >= 2 and above.endswith(":")
    return is_compound or is_nested or _is_beside_login(text, start, end)


def _is_setting(before: str, name: re.Match[str], after: str) -> bool:
    """Check that ``name=value`` is a variable, an option, or a part of a URL or of a connection string."""
    if name[0].isupper() and _VARIABLE.search(before + name[0]):
        return True
    if after in ("", " ", "\n", "\r", '"', "'", ",") and (_ARGUMENT.search(before) or _AFTER_EQUAL.search(before)):
        return True
    return after in (";", "&") or any(kind.search(before) for kind in (_OPTION, _QUERY, _SETTING))


def _is_beside_login(text: str, start: int, end: int) -> bool:
    """Check that the line before or after a value is a user, host or port."""
    first = text.rfind("\n", max(0, start - _REACH), start)
    last = text.find("\n", end, end + _REACH)
    above = text[text.rfind("\n", max(0, first - _REACH), max(0, first)) + 1 : first] if first > 0 else ""
    below = text[last + 1 : last + 1 + _REACH].partition("\n")[0] if last > 0 else ""
    return any(_LOGIN.match(line.rstrip("\r")) for line in (above, below))
