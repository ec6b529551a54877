"""Checks that tell whether a value refers to a password or key that is elsewhere: a variable, a call, a path, a hash.

A generated password can have the signs of a reference, as in ``kT7{mQ2#vB9x``. Therefore the words between the signs of
a call or an attribute must be names as programs have them, and its brackets must be closed.
"""

from __future__ import annotations

import re

__all__ = ["is_reference"]

# A variable, a template, a URL, a hash, a version, a product, a ticket, a date.
_REFERENCE = re.compile(
    r"\$\{|\$\(|\{\{|%\(|%\w+%|ENC[\[(]|<[A-Za-z_/!?%=][^<>]{0,200}>|"
    r"(?-i:\$(?:[A-Z_][A-Z0-9_]*|[A-Za-z_]+\d?|[a-z]\w*_\w*|[a-z]+\d?[A-Z][A-Za-z]+\d?)$)|"
    r"\$(?:\d\w?|apr1|y|gy|argon2\w{1,2}|scrypt|bcrypt|md5|sha\d{1,3}|pbkdf2[\w-]{0,12})\$|"
    r"(?:~|\.{1,2})/|[A-Za-z]:\\|[a-z][a-z0-9+.-]{1,20}://|v?\d+(?:[.-]\d+)+\w{0,6}$|"
    r"(?:see|siehe|voir|in|im|via|use)?(?:1password|keepass|bitwarden|lastpass)|"
    r"(?-i:[A-Z][A-Z0-9]{1,9}-\d{1,6}$)|\d{4}-?\d\d-?\d\d[T_]\d\d|0x[0-9a-fA-F]{40}$",
    re.IGNORECASE | re.ASCII,
)
# Without quotation marks, a space ends the value: <your password>.
_CUT_TAG = re.compile(r"<[A-Za-z_/!?%=][\w.:/=-]*$", re.ASCII)
# A name of a program: db_password, getPassword, DB_PASSWORD, sha256Hex, S3_KEY2.
_NAME = re.compile(
    r"(?![A-Z][a-z]{1,40}\d{1,4}[a-z])_*+"
    r"(?:[A-Z]+(?:_+[A-Z]+)*+|[A-Z][a-z]|"
    r"[a-z]*+(?:_*+[A-Z]{1,6}[a-z]{2,}+|_++[a-z]++|(?<=[a-z]{2})[A-Z][a-z](?=[A-Z]))*+"
    r"(?:(?<=[a-z]{2})[A-Z]{1,4}|(?<=[a-z])[A-Z][a-z])?)"
    r"(?:\d{1,4}(?:[a-z_]++|_[A-Z_]++|[A-Z]?(?:[A-Z][a-z]++)++)?)?_*+",
    re.ASCII,
)
_CLASS_WITH_DIGITS = re.compile(r"_*+[A-Z]\w*[a-z]\w*\d", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}[a-z]{0,2}|0x[0-9a-fA-F]+", re.ASCII)
_SEPARATOR = re.compile(r"\??\.|::|->")
# The beginning of a call, of an index, of a block, or of a field of a template: get(, config[, {name}.
_CALL = re.compile(r"(?P<head>[A-Za-z_][\w.:>?-]{0,80}?)?[(\[{]", re.ASCII)
_CODE = re.compile(r"[\w.,:=&*$()\[\]{}<>!?|+/\"'^\\ -]*", re.ASCII)
_COLOR = re.compile(r"#[0-9a-fA-F]{3,8}(?!\w)", re.ASCII)
_WORD = re.compile(r"\w+", re.ASCII)
_FIELD = re.compile(r"\{(?P<name>[\w.-]{2,40})(?:![rsa])?\}", re.ASCII)
_CLOSING = {")": "(", "]": "[", "}": "{"}
_PATH = re.compile(r"/(?P<first>[\w.@+~%-]+)/", re.ASCII)
# A place in a store of secrets: vault:secret/data/db#password.
_STORE = re.compile(r"(?:vault|env|file|secrets?|ssm|sops|keyring|os\.environ)[:/][\w/#.-]*", re.ASCII)
# Longer values that begin like a call are programs.
_MAX_LENGTH = 64


def is_reference(value: str, *, bare: bool = False) -> bool:
    """Check that a value refers to a password or key.

    :param bare: the value is not in quotation marks, so that a space or quotation mark may have cut it.
    """
    if "[redacted" in value or _REFERENCE.match(value) or (bare and _CUT_TAG.match(value)):
        return True
    if (field := _FIELD.match(value)) and _has_names(field["name"]):
        return True
    return _is_attribute(value) or _is_call(value, bare=bare) or _is_place(value)


def _is_attribute(value: str) -> bool:
    """Check for names with dots between them, as in ``settings.db.password``, but not Winter.Tulip72."""
    parts = _SEPARATOR.split(value.rstrip("!?"))
    return len(parts) > 1 and all(_is_name(part) and not _CLASS_WITH_DIGITS.match(part) for part in parts)


def _is_call(value: str, *, bare: bool) -> bool:
    call = _CALL.match(value)
    if call is None or (call["head"] is None and not value.startswith(("(", "{"))):
        return False
    if bare and len(value) > _MAX_LENGTH:
        return True
    value = _COLOR.sub("", value)
    if not _CODE.fullmatch(value) or not _has_names(value):
        return False
    return bare or _is_balanced(value)


def _is_balanced(value: str) -> bool:
    opened: list[str] = []
    for sign in value:
        if sign in _CLOSING.values():
            opened.append(sign)
        elif sign in _CLOSING and (not opened or opened.pop() != _CLOSING[sign]):
            return False
    return not opened


def _is_place(value: str) -> bool:
    """Check for a path, or a place in a store of secrets."""
    if path := _PATH.match(value):
        return _has_names(path["first"])
    return _STORE.fullmatch(value) is not None and _has_names(value)


def _has_names(value: str) -> bool:
    """Check that all words of a value are names or numbers."""
    return all(_is_name(word) or _NUMBER.fullmatch(word) for word in _WORD.findall(value))


def _is_name(word: str) -> bool:
    return _NAME.fullmatch(word) is not None and word != ""
