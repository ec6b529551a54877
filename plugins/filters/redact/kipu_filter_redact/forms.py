"""Secrets that are recognized by a form of their own: headers, cookies, URLs, commands, calls, and pairs with an id.

Each form has a label, a pattern whose group ``secret`` is the secret, a check of it, and hints: a text without any of
the hints, in lower case, cannot contain the form. All repetitions in patterns are bounded, so that the cost of a hint
does not depend on the length of the text. A pattern is only compiled for a text that has a hint of it.
"""

from __future__ import annotations

import base64
import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from .secret import Secret
from .values import (
    is_key,
    is_key_in_header,
    is_likely_password,
    is_password_in_prose,
    is_plain_password,
    is_unmistakable,
    may_be_secret,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["find_forms"]


@attrs.frozen
class _Form:
    label: str
    pattern: str
    check: Callable[[str], bool]
    hints: tuple[str, ...]
    parts: str = ""  # the pattern of the secrets within the group, if it may have several
    before: str = ""  # the pattern of what must be before a match, up to it


def _form(
    label: str, pattern: str, check: Callable[[str], bool], *hints: str, parts: str = "", before: str = ""
) -> _Form:
    return _Form(label, pattern, check, hints, parts, before)


def _is_anything(value: str) -> bool:
    """Accept a value: the form alone says what it is."""
    return True


def _is_strict(value: str) -> bool:
    return is_plain_password(value, strict=True)


def _is_login(value: str) -> bool:
    """Check that a value is a user and a password in base 64."""
    letters = value.rstrip("=")
    if len(letters) % 4 == 1:
        return False
    plain = base64.b64decode(letters + "=" * (-len(letters) % 4)).decode("latin-1")
    return plain.isprintable() and plain.isascii() and ":" in plain


def _is_key_and_no_hash(value: str) -> bool:
    return is_key(value) and _HASH.fullmatch(value) is None


def _is_mixed_key(value: str) -> bool:
    """Check that a value is a key of small and capital letters, and so no hash."""
    return is_key(value) and value.lower() != value and value.upper() != value


_HASH = re.compile(r"[a-fA-F0-9-]++")
_COOKIES = (
    r"""(?:(?<![\w-])(?:set-)?cookies?\\?["']?[ ]?[:=,][ ]?\\?["'`]?|--cookie[ =]["']?|"""
    r"""curl[^\n|;]{0,200}?[ ](?-i:-b)[ ]?["']?)"""
    r"(?P<secret>[^\r\n\"'`]{8,4000})"
)
# A word of a command line, in quotation marks or not.
_OPEN = r"""(?:\\?["'`])?"""
_WORD = rf"""{_OPEN}(?P<secret>[^\s"'`]{{6,100}})"""
# What stands between a command and the option for its password, in the same command.
_BETWEEN = r"[ \t](?:[^\n|;&]{0,200}?[ \t])??"
_STRING = r"""\\?["'](?P<secret>[^\s"'\\]{4,200})\\?["']"""
_NAMED = r"""(?:name|key|id)\\?["']?[ ]?[:=][ ]?\\?["']?[\w.-]{0,40}"""
_BESIDE = r"""\\?["']?[\s,;]{1,40}\\?["']?"""
_VALUE = r"""\\?["']?[ ]?[:=][ ]?\\?["']?(?P<secret>[^\s"'\\<>]{4,200})"""
_NAME = r"""\\?["'][^"'\n\\]{0,80}\\?["']"""


def _command(names: str, option: str, check: Callable[[str], bool], *hints: str) -> _Form:
    """Return the form of a password that follows an option of a command; ``docker login -u ana -p ...``."""
    return _form("password", rf"(?<![\w-])(?:{names})(?:\.exe)?{_BETWEEN}(?-i:{option}){_WORD}", check, *hints)


_FORMS = (
    # RFC 3986: a user and a password before the host.
    _form(
        "password",
        r"""://[^\s:/?#@"'`<>()\[\]]{0,80}:(?P<secret>(?!\[redacted:)[^\s/"'`<>]{3,200})@(?=[\w\[])""",
        _is_anything,
        "://",
    ),
    # The same without a scheme, before a host with a dot.
    _form(
        "password",
        r""":(?P<secret>[^\s/:@"'`<>]{6,100})@(?=[\w-]{1,60}\.[\w.-]|localhost)""",
        is_password_in_prose,
        "@",
        before=r"(?<![\w/.@:-])(?!(?:mailto|sips?|xmpp|acct|e-?mail|from|to|cc|bcc|by|contact|reply-to|\w?id|message-id|"
        r"news)$)[a-z][\w.-]{1,40}$",
    ),
    _form("key", r"https?://(?P<secret>[A-Za-z0-9_-]{20,200})@(?=[\w\[])", is_key, "http://", "https://"),
    _form("key", r"[?&](?:api_?)?key=(?P<secret>[\w-]{20,200})", is_key, "key="),
    _form("key", r"(?<![\w./-])key=(?P<secret>[\w-]{16,200})(?![\w.(\[-])", _is_key_and_no_hash, "key="),
    _form("bearer token", r"bearer:?[ ](?P<secret>[A-Za-z0-9_.~+/-]{16,2000}={0,2})", is_key, "bearer"),
    # RFC 9110 11.6.2: any scheme, and a token, or parameters one of which may be a token.
    _form(
        "authorization header",
        r"""authorization\\?["']?[ ]?[:=,][ ]?\\?["'`]?(?:[a-z][\w-]{1,30}[ :=]{1,2}(?:\w{1,20}=)?"?){0,2}"""
        r"(?P<secret>[A-Za-z0-9_.~+/-]{8,2000}={0,2})",
        is_key_in_header,
        "authorization",
    ),
    # RFC 7617: a user and a password in base 64.
    _form("authorization header", r"(?<!\w)basic[ ](?P<secret>[A-Za-z0-9+/]{10,400}={0,2})", _is_login, "basic "),
    # RFC 6265: the values of all cookies of a header, each by itself.
    _form(
        "cookie",
        _COOKIES,
        is_key,
        "cookie",
        "curl",
        parts=r"""=(?P<secret>[^\s;,"'`\\]{8,2000})""",
    ),
    _form(
        "cookie",
        _COOKIES,
        is_key_in_header,
        "cookie",
        "curl",
        parts=r"""(?:sess(?:ion)?(?:[_-]?(?:id|token|key))?|sid|token|auth)=(?P<secret>[^\s;,"'`\\]{8,2000})""",
    ),
    _form(
        "cookie",
        r"(?<![\w-])(?:phpsessid|jsessionid|asp\.net_sessionid|aspsessionid\w{0,8}|connect\.sid|sessionid|laravel_session)"
        r"""\\?["']?[=:][ ]?\\?["'`]?(?P<secret>[^\s"'`;,&]{8,1000})""",
        is_key_in_header,
        "sessid",
        "sessionid",
        "connect.sid",
        "laravel_session",
    ),
    # --- Pairs
    # An AWS key beside its id, as in `id:secret`, a table, a call or two lines.
    _form(
        "AWS secret access key",
        r"(?:(?:akia|asia)[a-z0-9]{16}|aws access key\])(?=[^a-z0-9])"
        r"(?:/|[\s\S]{1,80}?(?<![a-z0-9/+=_.-]))(?P<secret>[a-z0-9/+]{40})(?![a-z0-9/+=_-])",
        _is_mixed_key,
        "akia",
        "asia",
        "aws access key]",
    ),
    # An id and a key of mixed letters: `0oa3f2...:Xk2f...`.
    _form(
        "secret",
        r":(?P<secret>[a-z0-9_~+/-]{24,100}={0,2})(?![\w/+:.-])",
        _is_mixed_key,
        ":",
        before=r"(?<![\w./+:-])(?=[a-z-]{0,40}\d)[a-z0-9-]{16,64}$",
    ),
    _form(
        "password",
        r"(?<![\w-])(?:credentials?|creds|logins?|zugangsdaten)(?:[ ](?:is|are|ist|sind|with|as))?[ ]?[:=]?[ ]?[`\"']?"
        r"(?!https?:)[\w.@+-]{1,60}[ ]?[:/][ ]?(?P<secret>[^\s\"'`]{8,100})",
        is_password_in_prose,
        "cred",
        "login",
        "zugangsdaten",
    ),
    _form(
        "password",
        r"(?<![\w-])(?:credentials?|creds|logins?|zugangsdaten):[ ][\w.@+-]{1,60}[ ]/[ ](?P<secret>[^\s\"'`]{6,100})"
        r"(?=[ \t]{0,20}(?:[\r\n]|$))",
        is_likely_password,
        "cred",
        "login",
        "zugangsdaten",
    ),
    # A password before its name: "... is the password", "use ... as password".
    _form(
        "password",
        r"[ ](?:is|as|was|ist|als)[ ](?:(?:the|my|our|your|a|das|dein|mein)[ ])?(?:[a-z]{1,12}[ ])?"
        r"pass(?:word|wort|code)",
        is_unmistakable,
        "passw",
        "passc",
        before=r"(?<!\S)[*_`\"']{0,3}(?P<secret>[^\s*`\"']{8,100})[*_`\"']{0,3}$",
    ),
    # --- Settings in two parts
    # A name and a value, as in manifests of Kubernetes, in XML and in forms.
    _form(
        "password",
        rf"{_NAMED}(?:pass(?:word|wd|phrase)|pwd|_pass)(?:_\w{{1,10}})?{_BESIDE}value{_VALUE}",
        _is_strict,
        "pass",
        "pwd",
    ),
    _form(
        "key",
        rf"{_NAMED}(?:secret|token|(?:api|access)[_-]?key)(?:_\w{{1,10}})?{_BESIDE}value{_VALUE}",
        is_key,
        "secret",
        "token",
        "key",
    ),
    # PostgreSQL: the password file.
    _form(
        "password",
        r"(?:^|\n)[\w.*-]{1,80}:(?:\d{4,5}|\*):[\w*-]{1,60}:[\w*-]{1,60}:(?P<secret>[^\s:]{4,100})(?=[\r\n]|$)",
        is_plain_password,
        ":5432:",
        ":*:",
        ":6543:",
        ":6432:",
    ),
    # --- Commands
    _form(
        "password",
        r"""\s(?:(?-i:-[A-Za-z]{0,6}u)[ ]?|--(?:proxy-)?user[ =])["']?[^\s:"']{1,60}:(?P<secret>[^\s"'`]{4,100})""",
        _is_anything,
        "curl",
    ),
    _form(
        "password",
        r"""(?<![\w-])(?:https?|xh)[ ][^\n|;]{0,200}?(?:(?-i:-a)|--auth)[ =]["']?[^\s:"']{1,60}:"""
        r"""(?P<secret>[^\s"'`]{4,100})""",
        is_plain_password,
        " -a",
        "--auth",
    ),
    _command(r"(?:mysql|mariadb)[a-z_-]{0,12}", "-p", is_plain_password, "mysql", "mariadb"),
    _command("sshpass", r"-p[ ]{0,4}", is_plain_password, "sshpass"),
    _command(
        r"(?:docker|podman|nerdctl|buildah|skopeo|crane|oras|cf|oc|ibmcloud|(?:helm|az)(?:[ ]\w{1,12})?)[ ]login|"
        r"helm[ ]registry[ ]login|"
        r"mongo(?:sh|dump|restore|export|import)?|evil-winrm|xfreerdp\d?|rdesktop|netexec|nxc|crackmapexec|"
        r"twine[ ]upload",
        "(?:-p[ =]{1,4}|/p:)",
        is_plain_password,
        "login",
        "mongo",
        "winrm",
        "xfreerdp",
        "rdesktop",
        "netexec",
        "nxc",
        "crackmapexec",
        "twine",
    ),
    _command(r"redis-cli", r"(?:-a|--pass)[ =]{1,4}", is_plain_password, "redis-cli"),
    _command(r"ldap(?:search|modify|add|delete|passwd|whoami)", r"-w[ ]?", is_plain_password, "ldap"),
    _command(
        r"sqlcmd|bcp|mosquitto_(?:pub|sub|rr)|zip|unzip",
        r"-P[ ]?",
        is_plain_password,
        "sqlcmd",
        "bcp",
        "mosquitto",
        "zip",
    ),
    _command(r"7z[arz]{0,2}|rar|unrar", r"-h?p", is_plain_password, "7z", "rar"),
    _command(r"keytool|jarsigner", r"-(?:src|dest)?(?:store|key)pass[ ]", is_plain_password, "keytool", "jarsigner"),
    _command("openssl", r"(?:-pass(?:in|out)?[ ]{1,4}pass:|-k[ ])", is_plain_password, "openssl"),
    _command("htpasswd", r"-[a-zA-Z]{0,6}b[a-zA-Z]{0,6}[ ]\S{1,100}[ ]\S{1,60}[ ]", is_plain_password, "htpasswd"),
    _command(
        r"smbclient|rpcclient|smbmap|net|mount", r"-U[ ]?[\"']?[^\s%]{1,60}%", is_plain_password, "smb", "rpcclient"
    ),
    _form(
        "password",
        r"""(?<![\w-])(?:echo|printf)[ ]["']?[\w.@-]{1,60}:(?P<secret>[^\s"'`|]{4,100})["']?[ ]?\|"""
        r"[^\n]{0,40}chpasswd",
        _is_anything,
        "chpasswd",
    ),
    _form(
        "password",
        r"""(?<![\w-])(?:echo|printf)[ ](?:-\w[ ])?["']?(?P<secret>[^\s"'`|]{4,100})["']?[ ]?\|[ ]?"""
        r"(?:sudo[ ](?-i:-\w{0,6}S)|[^\n|]{1,100}[ ]--password-stdin)(?!\w)",
        is_plain_password,
        "sudo",
        "--password-stdin",
    ),
    _form(
        "password",
        rf"(?:^|\n|--|config[ ]set[ ])(?:requirepass|masterauth)[ =]{_WORD}",
        is_plain_password,
        "requirepass",
        "masterauth",
    ),
    _form("password", r"\blogin[ \t]\S{1,80}\s{1,4}password[ \t](?P<secret>\S{4,100})", _is_anything, "login"),
    # --- Calls and statements
    _form(
        "password",
        r"(?:auth(?:entication)?|networkcredential|passwordcredentials?|passwordtoken|[.>]login|with_?credentials|"
        r"set_?credentials)"
        rf"\\?[\"']?[ ]?[:=]?[ ]?[(\[][ ]?{_NAME}[ ]?,[ ]?{_STRING}",
        is_plain_password,
        "auth",
        "credential",
        "login",
        "passwordtoken",
    ),
    _form(
        "password",
        r"(?:(?:user|grant)[ ][^\n;]{1,120}?identified(?:[ ]with[ ]\w{1,40})?[ ]by|"
        r"(?:with|login|encrypted|(?:user|role)[ ]\S{1,60})[ ]password)"
        r"[ ]{1,4}(?P<quote>['\"])"
        r"(?P<secret>[^'\"\n]{4,200})(?P=quote)",
        is_plain_password,
        "identified",
        "password",
    ),
    _form(
        "password",
        rf"password(?:[ ]for[ ][^\n;=]{{1,80}})?[ ]?=[ ]?password\({_STRING}\)",
        is_plain_password,
        "password(",
    ),
    _form(
        "password",
        rf"convertto-securestring[ ](?:-string[ ])?{_STRING}",
        is_plain_password,
        "securestring",
    ),
    _form("registry credential", r'"auth"[ ]?:[ ]?"(?P<secret>[A-Za-z0-9+/]{12,400}={0,2})"', _is_anything, '"auth"'),
)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.ASCII)


def find_forms(text: str, lower: str) -> Iterator[Secret]:
    """Find passwords and keys in forms of their own.

    :param lower: the text in lower case, with every character at the same position.
    """
    for form in _FORMS:
        if not any(hint in lower for hint in form.hints):
            continue
        for match in _compiled(form.pattern).finditer(text):
            parts = _compiled(form.parts).finditer(text, *match.span("secret")) if form.parts else [match]
            before = _before(form, text, match.start())
            if form.before and before is None:
                continue
            for part in [before] if before is not None and "secret" in before.re.groupindex else parts:
                secret = part["secret"].splitlines()[0].rstrip(",;")  # at any line end of Unicode
                if may_be_secret(secret) and form.check(secret):
                    yield Secret(part.start("secret"), part.start("secret") + len(secret), form.label)


def _before(form: _Form, text: str, start: int) -> re.Match[str] | None:
    """Return what is before a match, if the form says what it must be."""
    return _compiled(form.before).search(text, max(0, start - 110), start) if form.before else None
