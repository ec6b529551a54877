"""Turns the bytes of a memory file into text."""

from __future__ import annotations

__all__ = ["NotTextError", "decode"]


class NotTextError(ValueError):
    """The bytes of a file are not text in any encoding that we can tell."""


def decode(data: bytes) -> str:
    """The text of a file: UTF-8, UTF-16 or UTF-32 by its byte order mark, UTF-8, or what charset-normalizer finds.

    Line ends become ``\\n``.

    :raises NotTextError: the bytes are no text.
    """
    text = _decode(data)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _decode(data: bytes) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError as error:
                raise NotTextError(f"starts as {encoding.upper()} but is not: {error.reason}") from None
    if b"\0" in data:
        raise NotTextError("is not text: it has NUL bytes and no byte order mark")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _guess(data)


def _guess(data: bytes) -> str:
    """The text of bytes that are in some older encoding."""
    # A few accented letters in an English note give statistics nothing to work with ("na\u00efve" comes out as Urdu);
    # Windows-1252 is what such bytes mostly are. https://encoding.spec.whatwg.org/ makes it the default likewise.
    foreign = bytes(byte for byte in data if byte >= 0x80)
    if len(foreign) < 16 and len(foreign) * 3 < len(data) + 3:
        western = foreign.decode("cp1252", "ignore")
        if len(western) == len(foreign) and all(char.isalpha() or char in _WESTERN_MARKS for char in western):
            return data.decode("cp1252")
    from charset_normalizer import from_bytes

    best = from_bytes(data[:_SAMPLE], cp_exclusion=_ONLY_BY_MARK).best()
    if best is None:
        raise NotTextError("is not text in any encoding that could be told; save it as UTF-8")
    try:
        return data.decode(best.encoding)
    except UnicodeDecodeError:
        raise NotTextError(f"begins as {best.encoding} and goes on otherwise; save it as UTF-8") from None


_SAMPLE = 256_000
_WESTERN_MARKS = "\u201c\u201d\u2018\u2019\u2013\u2014\u2026\u2022\u20ac\u00a3\u00a7\u00a9\u00b0\u00ab\u00bb\u00a0"
_ONLY_BY_MARK = ["utf_16", "utf_16_le", "utf_16_be", "utf_32", "utf_32_le", "utf_32_be", "utf_7"]


# UTF-32 first: its little-endian mark starts with the one of UTF-16.
_MARKS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
