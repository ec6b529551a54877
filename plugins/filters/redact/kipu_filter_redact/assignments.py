"""Secrets that only their surroundings give away: ``password = ...``, a header, a user and password in a URL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .found import Found
from .values import is_beside, is_key, is_likely, is_named_password, is_words, may_be_secret

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["find_assigned"]

_FOR_ONE_TO_KNOW = (
    r"pass(?:word|wd|phrase|code|wort)|pwd|(?<=[_-])(?<!by-)(?<!low-)(?<!high-)(?<!band-)pass|(?-i:(?<=[a-z])Pass)|"
    r"kennwort|contrase[nñ]a|mot de passe|senha|"
    r"wachtwoord|l[oö]senord|adgangskode|has[lł]o|heslo|salasana|парол[ья]|密[码碼]|口令|パスワード|비밀번호"
)
_FOR_A_SERVICE = (
    r"(?:api|access|secret|private|auth|account|encryption|signing|master)[ _-]?key(?:_base)?|secret|token|"
    r"credentials?|apikey"
)
# Words of other meanings as well, unless a sign such as : follows.
_SHORT = r"(?<![^\W_])pw(?![^\W_])|(?<![\w-])pass(?!\w)"
_NAME = re.compile(rf"(?P<word>{_FOR_ONE_TO_KNOW})|(?P<key>{_FOR_A_SERVICE})|(?P<short>{_SHORT})", re.IGNORECASE)

# One of these is in every name, in small letters: to look for them is many times faster than to look for the names.
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
# How far a name goes to both sides of its root.
_REACH = 16

# From the name to its value, in configuration, code, JSON, YAML, XML, Markdown and prose. Every repetition has an end,
# so that a name costs the same wherever it stands.
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
            (?:{_GAP}(?:{_IS})(?:{_GAP}(?:{_NOW}))?)?{_GAP}{{0,20}}(?P<assigned>:=|=>|={{1,3}}|→|:|：|＝)
            (?:[*_~]{{1,3}}(?={_GAP}))?{_GAP}{{0,20}}
            (?P<below>\r?\n{_GAP}{{0,20}})?
          | {_GAP}(?P<said>{_IS}){_GAP}(?:(?:{_NOW}){_GAP})?
        )
      | (?P<contracted>['’]s){_GAP}
      | (?P<joined>是|为|為|は|는|은){_GAP}?
      | (?P<beside>{_GAP}{{1,20}}(?:-|–|—|->){_GAP}{{1,20}}|\t)
      | {_GAP}{{0,20}}(?P<cell>\|){_GAP}{{0,20}}
      | (?P<element>>)
      | (?P<argument>{_GAP})
    )
    \*{{0,2}}@?(?:
        (?P<quote>\\?["'`]) (?P<quoted>(?:(?!(?P=quote))[^{_LINE_ENDS}]){{4,2000}}) (?P=quote)
      | [“„«‘‚「『] (?P<printed>[^“”„«»‘’‚「」『』{_LINE_ENDS}]{{4,200}}) [”“»’‘」』]
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

# By what they need to be there at all, in lower case.
_OTHERS = (
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

# Tokens of pages and of language models: they open nothing.
_HARMLESS = re.compile(
    r"(?:page|next|continuation|cursor|sync|csrf|eos|bos|pad|mask|unk|sep|cls)[_ -]?$", re.IGNORECASE
)
_IN_QUERY = re.compile(r"[?&][\w.-]{0,60}$")
_OPTION = re.compile(r"--[\w-]{0,40}$")
_TAG = re.compile(r"<[\w:.-]{0,40}$")
# The next setting of a connection string.
_NEXT = re.compile(r";(?=[A-Za-z]\w{0,30}=)")
_REST = re.compile(r"""[^\s"'`\[]+""")
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
                if may_be_secret(match["secret"]) and _fits(pattern, match["secret"]):
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


def _fits(pattern: re.Pattern[str], secret: str) -> bool:
    """Whether it is not a word of the sentence, where the pattern alone does not tell."""
    if pattern is _HEADER:
        return is_key(secret)
    return pattern is not _OPTION_P or is_named_password(secret, phrase=False)


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
    unsigned = value["argument"] and bare and not _OPTION.search(before)
    if (
        (unsigned and name["word"] is None)
        or (value["element"] and not _TAG.search(before))
        or (name["key"] and _HARMLESS.search(before))
        or (name["short"] and not value["assigned"])
    ):
        return None
    group = next(each for each in ("bare", "quoted", "printed") if value[each] is not None)
    start = value.start(group)
    secret = _bare(value, in_query=_IN_QUERY.search(before) is not None) if bare else value[group]
    end = start + len(secret)
    if name["key"] is not None:
        plausible = is_key(secret)
    else:
        plausible = _is_password(text, start, secret, value)
        if unsigned:
            plausible = plausible and is_beside(secret)
        elif name["short"]:
            plausible = plausible and is_likely(secret)
    if not plausible or not may_be_secret(secret) or (value["below"] and not _LINE_END.match(text, value.end())):
        return None
    # A long value goes on where the pattern had to end.
    if bare and end == value.end() and (rest := _REST.match(text, end)):
        end += len(_trimmed(rest[0]))
    return Found(start, end, _label(name, before))


def _is_password(text: str, start: int, secret: str, value: re.Match[str]) -> bool:
    """Whether a value that is called a password is one, by how sure the signs between the two are."""
    quoted = value["bare"] is None
    said = value["said"] or value["contracted"]
    sure = bool(value["assigned"] or said or value["joined"])
    if not is_named_password(secret, phrase=quoted and sure):
        return False
    if quoted:
        return value["printed"] is not None or not value["argument"] or not is_words(secret)
    if value["below"]:
        return not is_words(secret) or (is_likely(secret) and not secret.endswith(":"))
    if value["joined"]:
        return not is_words(secret) or is_likely(secret)
    if value["beside"]:
        return not is_words(secret)
    if said and not is_likely(secret):
        return False
    return not ((said or value["assigned"]) and secret[0].isupper() and _NAME_IN_PROSE.match(text, start))


def _bare(value: re.Match[str], *, in_query: bool) -> str:
    """A value without quotes, up to where something else begins."""
    secret = _CLOSING_SIGN.split(value["bare"].partition("[redacted:")[0], maxsplit=1)[0]
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
    if name["key"] is None:
        return "password"
    key = re.sub("[_-]", " ", name["key"].lower())
    if "aws" in before.lower()[-24:] and ("secret" in key or "access" in key):
        return "AWS secret access key"
    if key.startswith("api"):
        return "API key"
    return next((label for label in ("token", "secret") if key == label), "key" if "key" in key else "credential")
