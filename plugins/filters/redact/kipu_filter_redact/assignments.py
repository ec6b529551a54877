"""Secrets that are recognized by their context: ``password = ...``, a header, a user and password in a URL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .secret import Secret
from .values import is_key, is_likely_password, is_named_password, is_password_in_prose, is_words, may_be_secret

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["find_assigned"]

_LOGIN_NAMES = (
    r"pass(?:word|wd|phrase|code|wort)|pwd|(?<=[_-])(?<!by-)(?<!low-)(?<!high-)(?<!band-)pass|(?-i:(?<=[a-z])Pass)|"
    r"kennwort|contrase[nñ]a|mot de passe|senha|"
    r"wachtwoord|l[oö]senord|adgangskode|has[lł]o|heslo|salasana|парол[ья]|密[码碼]|口令|パスワード|비밀번호"
)
_KEY_NAMES = (
    r"(?:api|access|secret|private|auth|account|encryption|signing|master)[ _-]?key(?:_base)?|secret|token|"
    r"credentials?|apikey"
)
# Ambiguous words: they count only before a sign such as a colon.
_SHORT_NAMES = r"(?<![^\W_])pw(?![^\W_])|(?<![\w-])pass(?!\w)"
_NAME = re.compile(rf"(?P<word>{_LOGIN_NAMES})|(?P<key>{_KEY_NAMES})|(?P<short>{_SHORT_NAMES})", re.IGNORECASE)

# Every name contains one of these, in lower case. Searching for them is many times faster than for the names.
_ROOTS = (
    "pass",
    "pw",
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
# The most characters of a name before and after its root.
_REACH = 16

# From the name to its value, in configuration, code, JSON, YAML, XML, Markdown and prose. All repetitions are bounded,
# so that the cost of a name does not depend on the length of the text.
_GAP = r"[ \t\xa0\u2000-\u200b\u202f\u2060\u3000\ufeff]"
_LINE_ENDS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_FOR = "for|of|to|on|at|in|für|fürs|zum|zur|vom|von|des|der|im|de|del|du|pour|para|do|da|per|di"
_IS = "is|ist|est|es|è|é|är|jest|lautet|war|was|wird|will[ ]be"
_NOW = "now|still|currently|jetzt|nun|set[ ]to|changed[ ]to"
_VALUE = re.compile(
    rf"""
    (?:[_-]?(?:\d{{1,2}}|prod|dev|test|staging|old|new))?
    (?:[*_~]{{1,3}}|\\?["'`]\]?)?
    (?:
        (?:{_GAP}\([^()\n]{{1,40}}\) | {_GAP}(?:{_FOR}){_GAP}[^\n:=|"`]{{1,40}}?)?
        (?:
            (?:{_GAP}(?:{_IS})(?:{_GAP}(?:{_NOW}))?)?{_GAP}{{0,20}}(?P<sign>:=|=>|={{1,3}}|→|:|：|＝)
            (?:[*_~]{{1,3}}(?={_GAP}))?{_GAP}{{0,20}}
            (?P<newline>\r?\n{_GAP}{{0,20}})?
          | {_GAP}(?P<verb>{_IS}){_GAP}(?:(?:{_NOW}){_GAP})?
        )
      | (?P<contraction>['’]s){_GAP}
      | (?P<particle>是|为|為|は|는|은){_GAP}?
      | (?P<dash>{_GAP}{{1,20}}(?:-|–|—|->){_GAP}{{1,20}}|\t)
      | {_GAP}{{0,20}}(?P<cell>\|){_GAP}{{0,20}}
      | (?P<element>>)
      | (?P<space>{_GAP})
    )
    \*{{0,2}}@?(?:
        (?P<quote>\\?["'`]) (?P<quoted>(?:(?!(?P=quote))[^{_LINE_ENDS}]){{4,2000}}) (?P=quote)
      | [“„«‘‚「『] (?P<typographic>[^“”„«»‘’‚「」『』{_LINE_ENDS}]{{4,200}}) [”“»’‘」』]
      | (?P<bare>[^\s"'`“”„«»「」『』]{{4,200}})
    )
    """,
    re.VERBOSE,
)

_URL = re.compile(
    r"""://[^\s:/?#@"'`<>()\[\]]{0,80}:(?P<secret>(?!\[redacted:)[^\s/"'`<>]{3,200})@(?=[\w\[])""", re.ASCII
)
_HEADER = re.compile(
    r"""
    (?:authorization\\?["']?[ ]?[:=][ ]?\\?["']?(?:(?:bearer|basic|token)[ ])? | bearer[ ])
    (?P<secret>[A-Za-z0-9_.~+/-]{16,2000}={0,2})
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_CURL_USER = re.compile(
    r"""\s(?:-[A-Za-z]{0,6}u[ ]?|--user[ =])["']?[^\s:"']{1,60}:(?P<secret>[^\s"'`]{4,100})""", re.ASCII
)
_OPTION_P = re.compile(
    r"""(?:(?:mysql|mariadb)[a-z_-]{0,12}\s(?:[^\n|;]{0,200}?\s)??-p["']?|sshpass\s{1,4}-p\s{0,4}["']?)"""
    r"""(?P<secret>[^\s"'`]{6,100})""",
    re.ASCII,
)
_NETRC = re.compile(r"\blogin[ \t]\S{1,80}\s{1,4}password[ \t](?P<secret>\S{4,100})", re.ASCII)
_DOCKER = re.compile(r'"auth"[ ]?:[ ]?"(?P<secret>[A-Za-z0-9+/]{12,400}={0,2})"')

# Forms with their own pattern, by a hint that the text must contain in lower case.
_FORMS = (
    ("://", _URL, "password"),
    ("bearer", _HEADER, "bearer token"),
    ("authorization", _HEADER, "authorization header"),
    ("curl", _CURL_USER, "password"),
    ("mysql", _OPTION_P, "password"),
    ("mariadb", _OPTION_P, "password"),
    ("sshpass", _OPTION_P, "password"),
    ("login", _NETRC, "password"),
    ('"auth"', _DOCKER, "registry credential"),
)

# Tokens of pages and of language models, which are not secret.
_HARMLESS = re.compile(
    r"(?:page|next|continuation|cursor|sync|csrf|eos|bos|pad|mask|unk|sep|cls)[_ -]?$", re.IGNORECASE
)
_IN_QUERY = re.compile(r"[?&][\w.-]{0,60}$")
_OPTION = re.compile(r"--[\w-]{0,40}$")
_TAG = re.compile(r"<[\w:.-]{0,40}$")
# The next setting of a connection string.
_NEXT = re.compile(r";(?=[A-Za-z]\w{0,30}=)")
_REST = re.compile(r"""[^\s"'`\[]+""")
# A name with a number, and more of the sentence.
_NAME_IN_PROSE = re.compile(r"[^\W\d_]+\d(?: [^\W\d_]+){2}(?=[\s,.;!?]|$)")
_LINE_END = re.compile(r"[ \t]*(?=[\r\n]|$)")
_PRINTABLE = re.compile("[!-~]*")
_CLOSING_SIGN = re.compile("[，。、；！？）】]")


def find_assigned(text: str) -> Iterator[Secret]:
    """Find passwords and keys by the names and signs before them."""
    lower = _lower_in_place(text)
    for hint, pattern, label in _FORMS:
        if hint in lower:
            for match in pattern.finditer(text):
                if may_be_secret(match["secret"]) and _is_plausible(pattern, match["secret"]):
                    yield Secret(*match.span("secret"), label)
    position = 0
    for start, end in _near_roots(lower):
        for name in _NAME.finditer(text, start, end):
            if name.start() < position:
                continue
            value = _VALUE.match(text, name.end())
            secret = _secret_of(text, name, value) if value is not None else None
            if secret is not None:
                yield secret
                position = secret.end


def _is_plausible(pattern: re.Pattern[str], secret: str) -> bool:
    """Check that a match is not a word of the sentence, for patterns that would accept one."""
    if pattern is _HEADER:
        return is_key(secret)
    return pattern is not _OPTION_P or is_named_password(secret, phrase=False)


def _lower_in_place(text: str) -> str:
    """Return the text in lower case, with every character at the same position."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)


def _near_roots(lower: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges around each root, where names can be. Ranges that touch are joined."""
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


def _secret_of(text: str, name: re.Match[str], value: re.Match[str]) -> Secret | None:
    """Return the value of a name if it is a secret."""
    before = text[max(0, name.start() - 64) : name.start()]
    bare = value["bare"] is not None
    unsigned = value["space"] and bare and not _OPTION.search(before)
    if (
        (unsigned and name["word"] is None)
        or (value["element"] and not _TAG.search(before))
        or (name["key"] and _HARMLESS.search(before))
        or (name["short"] and not value["sign"])
    ):
        return None
    group = next(group for group in ("bare", "quoted", "typographic") if value[group] is not None)
    start = value.start(group)
    secret = _cut_bare_value(value, in_query=_IN_QUERY.search(before) is not None) if bare else value[group]
    end = start + len(secret)
    if name["key"] is not None:
        plausible = is_key(secret)
    else:
        plausible = _is_password(text, start, secret, value)
        if unsigned:
            plausible = plausible and is_password_in_prose(secret)
        elif name["short"]:
            plausible = plausible and is_likely_password(secret)
    if not plausible or not may_be_secret(secret) or (value["newline"] and not _LINE_END.match(text, value.end())):
        return None
    # The pattern is bounded: include the rest of a longer value.
    if bare and end == value.end() and (rest := _REST.match(text, end)):
        end += len(_trim(rest[0]))
    return Secret(start, end, _label(name, before))


def _is_password(text: str, start: int, secret: str, value: re.Match[str]) -> bool:
    """Check that a value after a name for a password is one. The less certain the context, the stronger it must be.

    It must look like a password (`is_named_password`). Then the first row that matches decides, where "words" means
    `is_words` and "likely" `is_likely_password`:

    ============================  ======================================================
    between name and value        the value must be
    ============================  ======================================================
    a space, then " ' or `         not words
    other, then quotes            anything; after a sign or verb also a pass phrase
    a line end                    not words, or likely and without a colon at its end
    是, は, 는 and the like        not words, or likely
    a dash or a tab               not words
    "is", "'s" and the like       likely, and not a name at the start of a sentence
    a colon, ``=``, an arrow      not a name at the start of a sentence
    a table cell, tag or option   anything
    ============================  ======================================================

    The caller adds two rules: after only a space and without quotes, `is_password_in_prose`; after a short name such as
    "pw", a sign and `is_likely_password`.
    """
    quoted = value["bare"] is None
    verb = value["verb"] or value["contraction"]
    allow_phrase = bool(value["sign"] or verb or value["particle"])
    if not is_named_password(secret, phrase=quoted and allow_phrase):
        return False
    if quoted:
        return value["typographic"] is not None or not value["space"] or not is_words(secret)
    if value["newline"]:
        return not is_words(secret) or (is_likely_password(secret) and not secret.endswith(":"))
    if value["particle"]:
        return not is_words(secret) or is_likely_password(secret)
    if value["dash"]:
        return not is_words(secret)
    if verb and not is_likely_password(secret):
        return False
    return not ((verb or value["sign"]) and secret[0].isupper() and _NAME_IN_PROSE.match(text, start))


def _cut_bare_value(value: re.Match[str], *, in_query: bool) -> str:
    """Return an unquoted value up to the sign that ends it."""
    secret = _CLOSING_SIGN.split(value["bare"].partition("[redacted:")[0], maxsplit=1)[0]
    if value["particle"] and (printable := _PRINTABLE.match(secret)):  # the sentence continues in its own script
        secret = printable[0]
    if value["element"]:
        secret = secret.partition("<")[0]
    elif in_query:
        secret = re.split("[&#)>]", secret, maxsplit=1)[0]
    elif value["cell"]:
        secret = secret.rstrip("|")
    else:
        secret = _NEXT.split(secret, maxsplit=1)[0]
    return _trim(secret)


def _trim(secret: str) -> str:
    """Remove the punctuation that follows a value."""
    secret = secret.rstrip(",;.*")
    for opening, closing in ("()", "[]", "{}"):
        if secret.endswith(closing) and opening not in secret:
            secret = secret.rstrip(closing)
    return secret.rstrip(",;.*")


def _label(name: re.Match[str], before: str) -> str:
    if name["key"] is None:
        return "password"
    key = re.sub("[_-]", " ", name["key"].lower())
    if "aws" in before.lower()[-24:] and ("secret" in key or "access" in key):
        return "AWS secret access key"
    if key.startswith("api"):
        return "API key"
    return next((label for label in ("token", "secret") if key == label), "key" if "key" in key else "credential")
