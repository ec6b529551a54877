"""Secrets that only their surroundings give away: ``password = ...``, a header, a user and password in a URL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .found import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["find_assigned"]

_FOR_ONE_TO_KNOW = (
    r"pass(?:word|wd|phrase|code|wort)|pwd|(?<=[_-])pass|(?<=[a-z])Pass|kennwort|contrase[nñ]a|mot de passe|senha|"
    r"wachtwoord|l[oö]senord|adgangskode|has[lł]o|heslo|salasana|парол[ья]|密[码碼]|口令|パスワード|비밀번호"
)
_FOR_A_SERVICE = (
    r"(?:api|access|secret|private|auth|account|encryption|signing|master)[ _-]?key(?:_base)?|secret|token|"
    r"credentials?|apikey"
)
_NAME = re.compile(rf"(?P<word>{_FOR_ONE_TO_KNOW})|(?P<key>{_FOR_A_SERVICE})", re.IGNORECASE)

# One of these is in every name, in small letters: to look for them is many times faster than to look for the names.
_ROOTS = (
    "pass",
    "pwd",
    "kennwort",
    "contrase",
    "senha",
    "wachtwoord",
    "senord",
    "adgangskode",
    "hasło",
    "haslo",
    "heslo",
    "salasana",
    "парол",
    "密码",
    "密碼",
    "口令",
    "パスワード",
    "비밀번호",
    "key",
    "secret",
    "token",
    "credential",
)
# How far a name goes to both sides of its root.
_REACH = 16

# From the name to its value, in configuration, code, JSON, YAML, XML, Markdown and prose. Every repetition has an end,
# so that a name costs the same wherever it stands.
_VALUE = re.compile(
    r"""
    (?:[_-]?(?:\d{1,2}|prod|dev|test|staging|old|new))?
    (?:\*{1,2}|\\?["'`]\]?)?
    (?:
        (?:[ ]\([^()\n]{1,40}\) | [ ](?:for|of|für|de|del|pour|para)[ ][^\n:=|"'`]{1,40}?)?
        (?:
            (?:[ ](?:is|ist|est|es|lautet))?[ \t]{0,20}(?P<assigned>:=|=>|={1,3}|→|:|：|＝)(?:\*{1,2})?[ \t]{0,20}
            (?P<below>\r?\n[ \t]{0,20})?
          | [ ](?P<said>is|ist|est|es|è|é|är|jest|lautet|war|was)[ ](?:now[ ])?
        )
      | (?P<joined>是|为|為|は|는|은)[ ]?
      | (?P<beside>[ \t]{1,20}(?:-|–|—|->)[ \t]{1,20}|\t)
      | [ \t]{0,20}(?P<cell>\|)[ \t]{0,20}
      | (?P<element>>)
      | (?P<argument>[ ])
    )
    @?(?:
        (?P<quote>\\?["'`]) (?P<quoted>(?:(?!(?P=quote))[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]){4,2000}) (?P=quote)
      | [“„«‘‚「『] (?P<printed>[^\s“”„«»‘’‚「」『』]{4,200}) [”“»’‘」』]
      | (?P<bare>[^\s"'`“”„«»「」『』]{4,200})
    )
    """,
    re.VERBOSE,
)

_URL = re.compile(
    r"""://[^\s:/?#@"'`<>()\[\]]{0,80}:(?P<secret>(?!\[redacted:)[^\s@/"'`<>]{3,200})@(?=[\w\[])""", re.ASCII
)
_HEADER = re.compile(
    r"""
    (?:authorization\\?["']?[ ]?[:=][ ]?\\?["']?(?:(?:bearer|basic|token)[ ])? | bearer[ ])
    (?P<secret>[A-Za-z0-9_.~+/-]{16,2000}={0,2})
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_CURL_USER = re.compile(r"""\s(?:-u|--user)[ =]["']?[^\s:"']{1,60}:(?P<secret>[^\s"'`]{4,100})""", re.ASCII)
_NETRC = re.compile(r"\blogin[ \t]\S{1,80}\s{1,4}password[ \t](?P<secret>\S{4,100})", re.ASCII)
_DOCKER = re.compile(r'"auth"[ ]?:[ ]?"(?P<secret>[A-Za-z0-9+/]{12,400}={0,2})"')

# By what they need to be there at all, in lower case.
_OTHERS = (
    ("://", _URL, "password"),
    ("bearer", _HEADER, "bearer token"),
    ("authorization", _HEADER, "authorization header"),
    ("curl", _CURL_USER, "password"),
    ("login", _NETRC, "password"),
    ('"auth"', _DOCKER, "registry credential"),
)

# Tokens of pages and of language models: they open nothing.
_HARMLESS = re.compile(
    r"(?:page|next|continuation|cursor|sync|csrf|eos|bos|pad|mask|unk|sep|cls)[_ -]?$", re.IGNORECASE
)
_IN_QUERY = re.compile(r"[?&][\w.-]{0,60}$")
_OPTION = re.compile(r"--[\w-]{0,40}$")
_TAG = re.compile(r"<[\w:.-]{0,40}$")
_EXAMPLE = re.compile(
    r"example|placeholder|change[_-]?me|\byour|\bmy[_-]|redacted|dummy|xxx|\*\*\*|\.\.\.|…|"
    r"^(?:pass(?:word|wd)?|pwd?|secret|token|user(?:name)?)$",
    re.IGNORECASE,
)
# What stands for the value: a variable, a template, a call, an attribute, a path, a URL, a hash, a version, a product.
_REFERENCE = re.compile(
    r"\$\{|\$\(|\$[A-Za-z_]\w*$|\$\w{1,10}\$|\{\{|\{[A-Za-z_]|<|%\(|%\w+%|\[redacted:|"
    r"[A-Za-z_][\w.:>-]*[(\[{]|[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+$|"
    r"~?\.{0,2}/|[A-Za-z]:\\|[a-z][a-z0-9+.-]{1,20}:/|v?\d+(?:[.-]\d+)+\w{0,6}$|"
    r"(?:1password|keepass|bitwarden|lastpass)"
    r"|0x[0-9a-fA-F]{40}$",
    re.IGNORECASE | re.ASCII,
)
# The next setting of a connection string.
_NEXT = re.compile(r";(?=[A-Za-z]\w{0,30}=)")
_REST = re.compile(r"""[^\s"'`\[]+""")
_DIGIT = re.compile(r"\d")
_SPACE = re.compile(r"\s")
_SIGN = re.compile(r"[\W_]")
_WORDS = re.compile(r"(?:(?:[^\W\d_]+\d{0,4}|\d{1,8})(?:[-_./:]|$))+")
# A word that only a year or the like makes a password, which people do not write into a sentence with such an end.
_WORD_AND_NUMBER = re.compile(r"[^\W\d_]+\d{2,4}!+")
# A name of somebody or something, and more of the sentence.
_NAME_IN_PROSE = re.compile(r"[^\W\d_]+\d(?: [^\W\d_]+){2}(?=[\s,.;!?]|$)")
_LINE_END = re.compile(r"[ \t]*(?=[\r\n]|$)")
_PRINTABLE = re.compile("[!-~]*")
_CLOSING_SIGN = re.compile("[，。、；！？）】]")


def find_assigned(text: str) -> Iterator[Found]:
    """Find passwords and keys by the names and the signs that stand before them."""
    lower = _lower(text)
    for hint, pattern, label in _OTHERS:
        if hint in lower:
            for match in pattern.finditer(text):
                if _may_be_secret(match["secret"]) and (pattern is not _HEADER or _is_key(match["secret"])):
                    yield Found(*match.span("secret"), label)
    found = 0
    for start, end in _near_roots(lower):
        for name in _NAME.finditer(text, start, end):
            if name.start() < found:
                continue
            value = _VALUE.match(text, name.end())
            secret = _named(text, name, value) if value is not None else None
            if secret is not None:
                yield secret
                found = secret.end


def _lower(text: str) -> str:
    """The text in small letters, each at its place."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)


def _near_roots(lower: str) -> Iterator[tuple[int, int]]:
    """Where names may stand: the surroundings of each root, those that touch as one."""
    places: list[int] = []
    for root in _ROOTS:
        place = lower.find(root)
        while place >= 0:
            places.append(place)
            place = lower.find(root, place + 1)
    start = end = -1
    for place in sorted(places):
        if place - _REACH > end:
            if end > 0:
                yield start, end
            start = max(0, place - _REACH)
        end = place + _REACH
    if end > 0:
        yield start, end


def _named(text: str, name: re.Match[str], value: re.Match[str]) -> Found | None:
    """The secret that a name has for its value, if it is one."""
    before = text[max(0, name.start() - 64) : name.start()]
    bare = value["bare"] is not None
    if (
        (value["argument"] and bare and not _OPTION.search(before))
        or (value["element"] and not _TAG.search(before))
        or (name["key"] and _HARMLESS.search(before))
    ):
        return None
    group = next(each for each in ("bare", "quoted", "printed") if value[each] is not None)
    start = value.start(group)
    secret = _bare(value, in_query=_IN_QUERY.search(before) is not None) if bare else value[group]
    end = start + len(secret)
    plausible = _is_key(secret) if name["key"] is not None else _is_named_password(text, start, secret, value)
    if not plausible or not _may_be_secret(secret) or (value["below"] and not _LINE_END.match(text, value.end())):
        return None
    # A long value goes on where the pattern had to end.
    if bare and end == value.end() and (rest := _REST.match(text, end)):
        end += len(_trimmed(rest[0]))
    return Found(start, end, _label(name, before))


def _is_named_password(text: str, start: int, secret: str, value: re.Match[str]) -> bool:
    """Whether a value that is called a password is one, by how sure the signs between the two are."""
    if not _is_password(secret):
        return False
    if value["bare"] is None:
        return value["printed"] is not None or not value["argument"] or not _WORDS.fullmatch(secret)
    if value["said"]:
        return _is_strong(secret)
    if value["joined"] or value["beside"] or value["below"]:
        return not _WORDS.fullmatch(secret)
    return not (value["assigned"] and secret[0].isupper() and _NAME_IN_PROSE.match(text, start))


def _bare(value: re.Match[str], *, in_query: bool) -> str:
    """A value without quotes, up to where something else begins."""
    secret = _CLOSING_SIGN.split(value["bare"].partition("[redacted: ")[0], maxsplit=1)[0]
    if value["joined"] and (printable := _PRINTABLE.match(secret)):  # the sentence goes on in its own script
        secret = printable[0]
    if value["element"]:
        secret = secret.partition("<")[0]
    elif in_query:
        secret = re.split("[&#)>]", secret, maxsplit=1)[0]
    elif value["cell"]:
        secret = secret.rstrip("|")
    else:
        secret = _NEXT.split(secret, maxsplit=1)[0]
    return _trimmed(secret)


def _trimmed(secret: str) -> str:
    """Without the punctuation of what stands around it."""
    secret = secret.rstrip(",;.*")
    for opening, closing in ("()", "[]", "{}"):
        if secret.endswith(closing) and opening not in secret:
            secret = secret.rstrip(closing)
    return secret.rstrip(",;.*")


def _label(name: re.Match[str], before: str) -> str:
    if name["word"] is not None:
        return "password"
    key = re.sub("[_-]", " ", name["key"].lower())
    if "aws" in before.lower()[-24:] and ("secret" in key or "access" in key):
        return "AWS secret access key"
    if key.startswith("api"):
        return "API key"
    return next((label for label in ("token", "secret") if key == label), "key" if "key" in key else "credential")


def _may_be_secret(value: str) -> bool:
    return not (_EXAMPLE.search(value) or _REFERENCE.match(value) or len(set(value)) < 4)


def _is_password(value: str) -> bool:
    """Whether a value that is called a password is one: in prose, a word that follows is none."""
    if len(value) < 6 or " " in value:
        return False
    if _DIGIT.search(value) and (value.isdigit() or value.upper() != value.lower()):
        return True
    # Without a digit it may be a name of a program, which has no other sign.
    return len(value) >= 8 and _classes(value) >= 3 and not value.isidentifier()


def _is_strong(value: str) -> bool:
    """Whether a value that follows a word such as "is" could hardly be a word of the sentence."""
    if len(value) < 8 or _classes(value) < 3:
        return False
    if _WORD_AND_NUMBER.fullmatch(value):
        return _classes(value) == 4
    return not _WORDS.fullmatch(value.strip("!?:"))


def _is_key(value: str) -> bool:
    """Whether a value that is called a key or a token is one: long, mixed, and not made of words."""
    if not _DIGIT.search(value) or _SPACE.search(value) or value.upper() == value.lower():
        return False
    enough = len(value) >= 16 or (len(value) >= 12 and _classes(value) >= 3)
    return enough and len(set(value)) >= 8 and not _WORDS.fullmatch(value)


def _classes(value: str) -> int:
    """How many of these four it has: small letters, capital letters, digits, anything else."""
    small, capital = value.upper() != value, value.lower() != value
    return small + capital + (_DIGIT.search(value) is not None) + (_SIGN.search(value) is not None)
