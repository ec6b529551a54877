"""Secrets that are recognized by the name before them, as in ``password = ...``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .places import place_of
from .secret import Secret
from .values import (
    is_code,
    is_key,
    is_key_in_prose,
    is_likely_password,
    is_named_password,
    is_password_in_prose,
    is_plain_password,
    is_short_key,
    is_signed_word,
    is_unmistakable,
    is_words,
    may_be_secret,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["find_assigned"]

_LOGIN_NAMES = (
    r"pass[_-]?(?:word|wd|phrase|code|wort)|pwd|(?<![^\W_])psk(?![^\W_])|(?<=[_-])(?<!by-)(?<!low-)(?<!high-)(?<!band-)pass|(?-i:(?<=[a-z])Pass)|"
    r"kennwort|contrase[nñ]a|mot de passe|senha|"
    r"wachtwoord|l[oö]senord|adgangskode|has[lł]o|heslo|salasana|парол[ья]|密[码碼]|口令|パスワード|비밀번호"
)
_KEY_NAMES = (
    r"(?:api|access|secret|private|auth|account|encryption|signing|master|subscription|functions?|license|admin|deploy|"
    r"storage|service|shared|session|app|application|client|server|root|webhook)[ _-]?key(?:_base)?|secret|token|"
    r"credentials?|apikey"
)
# Ambiguous words: they count only before a sign such as a colon.
_SHORT_NAMES = r"(?<![^\W_])pw(?![^\W_])|(?<![\w-])pass(?!\w)"
_NAME = re.compile(rf"(?P<word>{_LOGIN_NAMES})|(?P<key>{_KEY_NAMES})|(?P<short>{_SHORT_NAMES})", re.IGNORECASE)

# Every name contains one of these, in lower case. Searching for them is many times faster than for the names.
_ROOTS = (
    "pass",
    "psk",
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
# What belongs to a name after it.
_SUFFIX = (
    r"(?i:[_-]?(?:\d{1,2}|v\d|prod|dev|test|staging|stage|qa|old|new|bak|backup|copy|live|local|root|admin|main|"
    r"default|primary|secondary|prev|previous|current|legacy|temp|tmp))?"
)

# From the name to its value, in configuration, code, JSON, YAML, XML, Markdown and prose. All repetitions are bounded,
# so that the cost of a name does not depend on the length of the text.
_GAP = r"[ \t\xa0\u2000-\u200b\u202f\u2060\u3000\ufeff]"
_LINE_ENDS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_FOR = "for|of|to|on|at|in|für|fürs|zum|zur|vom|von|des|der|im|de|del|du|pour|para|do|da|per|di"
_IS = "is|ist|est|es|è|é|är|jest|lautet|war|was|wird|will[ ]be"
_RESOURCE = re.compile(r"\barn:aws[a-z-]{0,12}:[^\s\"']{0,64}$")  # the name of a resource of AWS goes on
_NOW = "now|still|currently|jetzt|nun|set[ ]to|changed[ ]to"
_TYPE = r":[ ]?&?(?:'\w{1,10}[ ])?[A-Za-z]\w{0,20}[ ]=(?=[ ])"  # the type of a variable, before the sign
# Between a name and a value that can only be a password.
_LOOSE_WORDS = "changed|set|updated|reset|rotated|now|to|as|new|is|was|be|should|auf|zu|ist"
_VALUE = re.compile(
    rf"""
    {_SUFFIX}
    (?:[*_~]{{1,3}}|(?P<closing>\\?["'`]|&quot;|%22)\]?|(?:\[\d{{0,4}})?\](?=[ ]?=))?
    (?:
        (?:{_GAP}\([^()\n]{{1,40}}\) | {_GAP}(?:{_FOR}){_GAP}[^\n:=|"`]{{1,40}}?)?
        (?:
            (?:{_GAP}(?:{_IS})(?:{_GAP}(?:{_NOW}))?)?{_GAP}{{0,20}}(?P<sign>{_TYPE}|:=|:-|=>|={{1,3}}|→|:(?!:)|：|＝|%3[AaDd])
            (?:%20|\+)?(?:[*_~]{{1,3}}(?={_GAP}))?{_GAP}{{0,20}}
            (?P<newline>(?:[|>\\(][+-]?)?\r?\n{_GAP}{{0,20}})?
          | {_GAP}(?P<verb>{_IS}){_GAP}(?:(?:{_NOW}){_GAP})?
        )
      | (?P<contraction>['’]s){_GAP}
      | (?P<particle>是|为|為|は|는|은){_GAP}?
      | (?P<dash>{_GAP}{{1,20}}(?:-|–|—|->){_GAP}{{1,20}}|\t)
      | {_GAP}{{0,20}}(?P<cell>\|){_GAP}{{0,20}}
      | (?P<below>(?:\r?\n[ \t>]{{0,20}}){{1,2}})
      | (?P<comma>,)[ \t]{{0,4}}(?=\\?["'])
      | (?P<fallback>[ ](?:\|\||\?\?|\?:)[ ])(?=\\?["'])
      | (?P<call>\()[ \t]{{0,4}}(?=\\?["'])
      | (?P<element>>)
      | (?P<space>{_GAP})(?=[^\s;,~.])
      | (?P<loose>(?:[ ](?:{_LOOSE_WORDS})){{0,3}}
          (?:[^\w/]{{0,3}}[\r\n]{{1,4}}[ \t>A:=-]{{0,24}}[\r\n]{{0,4}}[ \t]{{0,8}} | [^\w/]{{1,6}}))
    )
    \*{{0,2}}@?(?:[uUbBrRfFN]{{1,2}}(?=["']))?(?:
        (?P<quote>\\?["'`]|&quot;|%22) (?P<quoted>(?:(?!(?P=quote))[^{_LINE_ENDS}]){{4,2000}}) (?P=quote)
      | [“„«‘‚「『] (?P<typographic>[^“”„«»‘’‚「」『』{_LINE_ENDS}]{{4,200}}) [”“»’‘」』]
      | (?P<bare>[^\s"'`“”„«»「」『』]{{4,200}})
    )
    """,
    re.VERBOSE,
)

# Tokens of pages and of language models, which are not secret.
_HARMLESS = re.compile(
    r"(?:page|next|continuation|cursor|sync|csrf|eos|bos|pad|mask|unk|sep|cls)[_ -]?$", re.IGNORECASE
)
_IN_QUERY = re.compile(r"[?&][\w.-]{0,60}$")
_OPTION = re.compile(r"--[\w-]{0,40}$")
# A code of digits only, which after another name can be a date or a count.
_PASSCODE = re.compile(r"pass[_-]?code", re.IGNORECASE)
_NUMBER = re.compile(r"\d{5,12}")
# Keys without a digit, where only a key can stand.
_MIN_KEY_LENGTH = 8
_SET_VARIABLE = re.compile(r"(?<!\w)(?:setenv|setx|ENV)[ ]{1,4}[A-Z][A-Z0-9_]{0,40}$")
_TAG = re.compile(r"""<[\w:.-]{0,40}(?:[ ][\w:.-]{1,20}=["'][\w.-]{0,40})?$""")
# The next setting of a connection string.
_NEXT = re.compile(r"[;&,](?=[A-Za-z][\w.]{0,30}=)")
_REST = re.compile(r"""[^\s"'`\[]++""")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,60}=")
# A line of few words before a name that the value is below of.
_LABEL = re.compile(r"(?:^|\n)[^\n:=.,;(){}\[\]<>|]{0,40}$")
# The name is that of a function to set it, or the first of its arguments.
_SETTER = re.compile(r"(?<![a-z])(?:set|with|use|add)\w{0,30}$|(?<=[.>])\w{0,30}$", re.IGNORECASE)
_ARGUMENT = re.compile(r"""[\w\]]\[?\((?:\\?["'][\w.-]{0,40}\\?["'],[ ]?){0,2}\\?["'][\w.:-]{0,60}$""")
_OWN = re.compile(r"(?<!\w)(?:self|this)(?:\.|->)\w{0,30}$")
_USER = re.compile(r"(?:user(?:_?name)?|login|account|e-?mail|host)\\?[\"']?[ ]?[:=]", re.IGNORECASE)
# The value is read from elsewhere, and this is used if it is not there.
_DEFAULT = re.compile(
    r"""
    (?:
        [A-Za-z_$][\w.$]{0,80}[\[(]["'][^"'\n]{0,60}["'](?:[\])]{1,2}[ ](?:or|\|\||\?\?|\?:)|,)
      | [A-Za-z_$][\w.$]{0,80}[ ](?:or|\|\||\?\?|\?:)
    )
    [ ]{0,4}(?P<quote>["'])(?P<default>[^\s"'\\]{4,200})(?P=quote)
    | \$\{\w{1,60}:?[-=](?P<variable>[^\s{}$]{4,200})\}
    """,
    re.VERBOSE | re.ASCII,
)
# A name with a number, and more of the sentence.
_NAME_IN_PROSE = re.compile(r"[^\W\d_]{1,40}\d(?: [^\W\d_]{1,40}){2}(?=[\s,.;!?]|$)")
_LINE_END = re.compile(r"[ \t]*+(?=[\r\n]|$)")
_PRINTABLE = re.compile("[!-~]*+")
_CLOSING_SIGN = re.compile("[，。、；！？）】]")


def find_assigned(text: str, lower: str) -> Iterator[Secret]:
    """Find passwords and keys by the names and signs before them.

    :param lower: the text in lower case, with every character at the same position.
    """
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
    unsigned = value["space"] and bare and not _OPTION.search(before) and not _SET_VARIABLE.search(before)
    if (
        (value["element"] and not _TAG.search(before))
        or (name["key"] and _HARMLESS.search(before))
        or (name["short"] and not (value["sign"] or value["loose"] or value["space"] or value["verb"]))
        or (value["below"] and not _LABEL.search(before))
        or _RESOURCE.search(before)
        or (value["call"] and not _SETTER.search(before))
        or (value["comma"] and not (value["closing"] and _ARGUMENT.search(before)))
    ):
        return None
    if bare and _OWN.search(before) and _trim(value["bare"]).isidentifier():  # self.password = password1
        return None
    if bare and value["sign"] and (default := _DEFAULT.match(text, value.start("bare"))):
        secret = default["default"] or default["variable"]
        start = default.start("default" if default["default"] else "variable")
        found = is_plain_password(secret) if name["word"] else is_key(secret)
        return Secret(start, start + len(secret), _label(name, before)) if found and may_be_secret(secret) else None
    group = next(group for group in ("bare", "quoted", "typographic") if value[group] is not None)
    start = value.start(group)
    secret = _cut_bare_value(value, in_query=_IN_QUERY.search(before) is not None) if bare else value[group]
    end = start + len(secret)
    looks_secret = _looks_secret(text, name, value, (start, end), unsigned=bool(unsigned))
    if not (looks_secret or _is_setting(text, name, value, (start, end))):
        return None
    if not may_be_secret(secret, bare=bare) or (bare and is_code(secret)):
        return None
    if (value["newline"] or value["below"]) and not _is_line(text, secret, value):
        return None
    # The pattern is bounded: include the rest of a longer value.
    if bare and end == value.end() and (rest := _REST.match(text, end)):
        end += len(_trim(rest[0]))
    return Secret(start, end, _label(name, before))


def _looks_secret(
    text: str, name: re.Match[str], value: re.Match[str], span: tuple[int, int], *, unsigned: bool
) -> bool:
    """Check that a value looks like a key, or a password, for what is before it."""
    secret = text[slice(*span)]
    if name["key"] is not None:
        is_token = name["key"].lower() == "token"
        is_request = is_token and text.startswith(
            ("client", "Client"), max(0, name.start() - 6)
        )  # AWS: what a retry repeats
        if value["sign"] and not (value["newline"] or is_request) and is_short_key(secret, is_token=is_token):
            return True
        return is_key_in_prose(secret) if unsigned else is_key(secret) and not value["loose"]
    if value["loose"] or (name["short"] and not value["sign"]):
        return is_unmistakable(secret)
    if (value["verb"] or value["sign"]) and _PASSCODE.fullmatch(name[0]) and _NUMBER.fullmatch(secret):
        return True
    if not _is_password(text, span[0], secret, value):
        return False
    if unsigned or value["below"]:
        return is_password_in_prose(secret) or (value["below"] is not None and is_signed_word(secret))
    return not name["short"] or is_likely_password(secret) or (secret[0].isalpha() and is_short_key(secret))


def _is_setting(text: str, name: re.Match[str], value: re.Match[str], span: tuple[int, int]) -> bool:
    """Check that a value is where only a password can stand, so that it may have letters only."""
    secret = text[slice(*span)]
    if name["short"] and not _is_beside_sign(text, name, value):
        return False
    if value["loose"] or not is_plain_password(secret):
        return False
    if name["key"] and (len(secret) < _MIN_KEY_LENGTH or "/" in secret):
        return False
    certainty = place_of(text, name, value, span)
    if name["word"] and certainty == 2:
        return True
    return certainty >= (2 if name["key"] else 1) and is_plain_password(secret, strict=True)


def _is_beside_sign(text: str, name: re.Match[str], value: re.Match[str]) -> bool:
    """Check that an ambiguous word is a name: before a sign, and `pass: "..."` beside a user, not block: and warn:."""
    if not value["sign"] or " " in text[name.end() : value.start("sign")].strip():
        return False
    is_state = value["sign"] == ":" and value["bare"] is None and name[0].lower() == "pass"
    return not is_state or _USER.search(text, max(0, name.start() - 64), name.start()) is not None


def _is_line(text: str, secret: str, value: re.Match[str]) -> bool:
    """Check that a value on a line below its name is all of that line, and neither a path nor another setting."""
    is_path = value["below"] and "/" in secret and "." in secret
    return _LINE_END.match(text, value.end()) is not None and not is_path and not _VARIABLE.match(secret)


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

    The caller adds three rules: after only a space and without quotes, `is_password_in_prose`; on the line below,
    also `is_signed_word`; after a short name such as "pw", a sign and `is_likely_password` or `is_short_key`.
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
