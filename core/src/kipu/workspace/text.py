"""Decode the bytes of a memory file, and encode its text again."""

from __future__ import annotations

import re
from typing import NamedTuple


class NotTextError(ValueError):
    """The bytes of a file are not text in any known encoding."""


def decode(data: bytes) -> str:
    """Return the text of a file: by its byte order mark, as UTF-8, or in what charset-normalizer finds.

    Line ends become ``\\n``.

    :raises NotTextError: the bytes are not text.
    """
    _, text, _ = _decoded(data)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


class TextFile(NamedTuple):
    """A text with all that is needed to write it back unchanged.

    ``lines`` include their line ends; the last one has none if the file does not end with one. Counted from 1, they are
    the lines of `decode`. ``mark`` is the byte order mark.
    """

    lines: list[str]
    encoding: str = "utf-8"
    mark: bytes = b""

    @classmethod
    def parse(cls, data: bytes) -> TextFile:
        """Return the text of a file.

        :raises NotTextError: the bytes are not text, or would change when they are written back.
        """
        mark, text, encoding = _decoded(data)
        parsed = cls(_LINES.findall(text), encoding, mark)
        if parsed.data() != data:
            raise NotTextError(f"is in {encoding} in a way that cannot be written back; save it as UTF-8")
        return parsed

    @property
    def line_end(self) -> str:
        """The line end of the first line, for new lines."""
        first = self.lines[0] if self.lines else ""
        return first[len(first.rstrip("\r\n")) :] or "\n"

    @property
    def plain_lines(self) -> list[str]:
        """The lines without their line ends."""
        return [line.rstrip("\r\n") for line in self.lines]

    def data(self) -> bytes:
        """Return the bytes of the file.

        :raises UnicodeEncodeError: its encoding has no form for a character.
        """
        return self.mark + "".join(self.lines).encode(self.encoding)


def _decoded(data: bytes) -> tuple[bytes, str, str]:
    """Return the byte order mark, the text after it, and its encoding."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return mark, data[len(mark) :].decode(encoding), encoding
            except UnicodeDecodeError as error:
                raise NotTextError(f"starts as {_SPOKEN[mark]} but is not: {error.reason}") from None
    if b"\0" in data:
        raise NotTextError("is not text: it has NUL bytes and no byte order mark")
    try:
        return b"", data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        encoding = _guessed(data)
        return b"", data.decode(encoding), encoding


def _guessed(data: bytes) -> str:
    """Return the encoding of bytes that are not Unicode."""
    # A few accented letters in an English note give statistics nothing to work with ("na\u00efve" comes out as Urdu);
    # Windows-1252 is what such bytes mostly are. https://encoding.spec.whatwg.org/ makes it the default likewise.
    foreign = bytes(byte for byte in data if byte >= 0x80)
    if len(foreign) < 16 and len(foreign) * 3 < len(data) + 3:
        western = foreign.decode("cp1252", "ignore")
        if len(western) == len(foreign) and all(char.isalpha() or char in _WESTERN_MARKS for char in western):
            return "cp1252"
    from charset_normalizer import from_bytes

    best = from_bytes(data[:_SAMPLE], cp_exclusion=_ONLY_BY_MARK).best()
    if best is None:
        raise NotTextError("is not text in a known encoding; save it as UTF-8")
    try:
        data.decode(best.encoding)
    except UnicodeDecodeError:
        raise NotTextError(f"begins as {best.encoding} and goes on otherwise; save it as UTF-8") from None
    return best.encoding


_SAMPLE = 256_000
_WESTERN_MARKS = "\u201c\u201d\u2018\u2019\u2013\u2014\u2026\u2022\u20ac\u00a3\u00a7\u00a9\u00b0\u00ab\u00bb\u00a0"
_ONLY_BY_MARK = ["utf_16", "utf_16_le", "utf_16_be", "utf_32", "utf_32_le", "utf_32_be", "utf_7"]


_LINES = re.compile(r"[^\r\n]*+(?:\r\n|\n|\r)|[^\r\n]++")

# UTF-32 first: its little-endian mark starts with the one of UTF-16.
_MARKS = (
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_SPOKEN = {mark: encoding.upper().removesuffix("-LE").removesuffix("-BE") for mark, encoding in _MARKS}
