r"""Secrets with a known form: most services begin their keys with a fixed prefix.

Each kind has a label, a pattern, and hints: a text without any of the hints cannot contain it. Searching for hints is
cheap, and a pattern is only compiled for a text that has one. The group ``secret`` marks the secret if the pattern
matches more than that. To keep the time linear, repetitions in patterns are bounded, except those that cannot match
again within their own match, and patterns with a lookbehind check the end as well.

A comment names the title of the page on which a service documents the format; other patterns follow issued keys.
"""

from __future__ import annotations

import base64
import functools
import itertools
import re
from bisect import bisect_right
from typing import TYPE_CHECKING

import attrs

from .secret import Secret, without
from .values import is_words

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["find_encoded", "find_tokens"]


@attrs.frozen
class _Kind:
    label: str
    pattern: str
    hints: tuple[str, ...]
    is_short: bool = False  # shorter than issued: the text after the prefix must look like a part of a key


def _pattern(label: str, pattern: str, *hints: str) -> _Kind:
    """Return a kind whose pattern is unambiguous anywhere in a text."""
    return _Kind(label, pattern, hints)


# What is written behind a key or before it, to tell it from another one.
_MARKS = "old|new|bak|backup|prev|prod|dev|test|staging|live|copy|revoked|expired|leaked|key|id"
_END = rf"(?:(?![A-Za-z0-9+-]|_[A-Za-z0-9])|(?=[_-](?i:{_MARKS})(?![A-Za-z0-9])))"
# No encoding has both + and one of the signs - and _, so that a key with these is no part of an image.
_END_BEFORE_PLUS = _END.replace("+-", "-", 1)


def _word(label: str, first: str, rest: str) -> _Kind:
    r"""Return a kind that must be a whole word, since it could be a part of something else, such as an encoded image.

    An escaped line end (in JSON within a string) and the _ of emphasis (in Markdown) may precede it. The lookbehind
    follows the first letters, because a pattern that begins with letters is found many times faster.
    """
    letters = re.escape(first)
    marks = "|".join(rf"(?<=\b(?i:{mark})[_-]{letters})" for mark in _MARKS.split("|"))
    before = rf"(?:(?<![A-Za-z0-9+-]{letters})(?<![A-Za-z0-9]_{letters})|(?<=\\[nrt]{letters})|{marks})"
    end = _END_BEFORE_PLUS if "-" in first or "_" in first else _END
    return _Kind(label, rf"{letters}{before}(?:{rest}){end}", (first,))


def _short(label: str, prefix: str, rest: str, *hints: str) -> _Kind:
    """Return a kind of keys without their end, by a prefix that nothing else has. The group ``part`` is the rest."""
    return _Kind(
        label, rf"(?<![A-Za-z0-9]){prefix}(?P<part>{rest})(?![A-Za-z0-9_-]|[.][A-Za-z0-9])", hints, is_short=True
    )


# Between the lines of a key: indentation, Markdown's quotation marks, and line ends, escaped or not.
_GAP = r"(?:\\[rnt]|[ \t\r\n>])*+"
_PRIVATE_KEY = (
    # RFC 7468 (PKCS 8, and the older labels), RFC 4880 6.2 (PGP), and the format of ssh-keygen.
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:{_GAP}[A-Z][A-Za-z-]{{1,20}}: [^\r\n\\]{{0,200}}){{0,8}}+{_GAP}"
    rf"(?P<secret>[A-Za-z0-9+/=]{{16,}}+(?:"
    # All lines up to the end. Without an end, those that are no words or identifiers of a sentence.
    rf"(?:{_GAP}[A-Za-z0-9+/]++={{0,2}}+)*+(?={_GAP}(?:=[A-Za-z0-9+/]{{4}}{_GAP})?-----END)"
    rf"|(?:{_GAP}(?=[A-Za-z+/]{{0,80}}[0-9])(?:[A-Za-z0-9+/=]{{48,}}+|[A-Za-z0-9+/=]{{16,}}+(?![ \t]++\w)))*+))"
)
_PUTTY_KEY = (
    r"Private-Lines: \d{1,3}[ \t]{0,20}\r?\n"
    r"(?P<secret>[A-Za-z0-9+/=]{16,}+(?:\r?\n[A-Za-z0-9+/=]{4,}+(?=[ \t]*+(?:[\r\n]|$)))*+)"
)

_KINDS = (
    _pattern("private key", _PRIVATE_KEY, "PRIVATE KEY"),
    _pattern("private key", _PUTTY_KEY, "Private-Lines"),
    # age-encryption.org/v1
    _word("age private key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),
    # --- Clouds
    # AWS, IAM user guide: "IAM identifiers", unique ID prefixes.
    _word("AWS access key", "AKIA", r"[A-Z0-9]{16}"),
    _word("AWS access key", "ASIA", r"[A-Z0-9]{16}"),
    _word("AWS access key", "ABIA", r"[A-Z0-9]{16}"),
    _word("AWS access key", "ACCA", r"[A-Z0-9]{16}"),
    # Google Cloud: "API keys", "OAuth 2.0", and their shapes in GitHub's "Supported secret scanning patterns".
    _word("Google API key", "AIza", r"[A-Za-z0-9_-]{35}"),
    _word("Google API key", "AQ.Ab8RN6", r"[A-Za-z0-9_-]{44}"),
    _word("Google OAuth secret", "GOCSPX-", r"[A-Za-z0-9_-]{28}"),
    _word("Google OAuth token", "ya29.", r"[A-Za-z0-9_-]{30,1000}"),
    # Azure: "Configure Azure Storage connection strings", "Service Bus access control with SAS", "Create a SAS".
    _pattern(
        "Azure key", r"(?:Account|SharedAccess)Key=(?P<secret>[A-Za-z0-9+/]{40,90}={0,2})", "AccessKey=", "AccountKey="
    ),
    _pattern("Azure signature", r"[?&;]sig=(?P<secret>[A-Za-z0-9%+/]{40,120}={0,2})", "sig="),
    # Microsoft Entra ID: "App registrations, client secrets", as issued.
    _pattern(
        "Azure client secret",
        r"(?<![A-Za-z0-9_~.+-])[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~.+-])",
        *(f"{digit}Q~" for digit in range(10)),
    ),
    _pattern("DigitalOcean token", r"do[opr]_v1_[a-f0-9]{64}", "dop_v1_", "doo_v1_", "dor_v1_"),
    _pattern("Cloudflare token", r"cf[ua]t_[A-Za-z0-9]{48}", "cfut_", "cfat_"),
    _pattern("Fly.io token", r"FlyV1 (?P<secret>fm\d_[A-Za-z0-9+/=,_-]{60,2000})", "FlyV1"),
    _word("Render key", "rnd_", r"[A-Za-z0-9]{28}"),
    _word("Heroku key", "HRKU-", r"[A-Za-z0-9_-]{36,60}"),
    _word("Alibaba Cloud access key", "LTAI", r"[A-Za-z0-9]{17,21}"),
    # --- Code and packages
    # GitHub docs: "About authentication to GitHub", token formats.
    _pattern(
        "GitHub token",
        r"gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{70,255}",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
    ),
    # GitLab docs: "GitLab token overview", token prefixes.
    _pattern(
        "GitLab token",
        r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|oas|soat|ffct)-[A-Za-z0-9_-]{20,300}(?:\.[A-Za-z0-9_-]{2,20}){0,2}",
        "gl",
    ),
    _pattern("npm token", r"npm_[A-Za-z0-9]{36}", "npm_"),  # GitHub blog: "npm's new access token format"
    _pattern(
        "PyPI token", r"pypi-[A-Za-z0-9_-]{50,1000}", "pypi-"
    ),  # a macaroon: PyPI help, "How can I use API tokens"
    _pattern("RubyGems key", r"rubygems_[a-f0-9]{48}", "rubygems_"),
    _pattern("Docker Hub token", r"dckr_[po]at_[A-Za-z0-9_-]{27,40}", "dckr_"),
    _word("Artifactory key", "AKCp", r"[A-Za-z0-9]{69}"),
    _word("Artifactory key", "cmVmd", r"[A-Za-z0-9]{59}"),
    _pattern("Terraform token", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}", ".atlasv1."),
    _pattern("Vault token", r"hv[sbr]\.[A-Za-z0-9_-]{24,300}", "hvs.", "hvb.", "hvr."),  # Vault docs: "Tokens"
    _word("Doppler token", "dp.", r"(?:pt|st|sa|ct|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    _pattern("CircleCI token", r"CCI(?:PAT|PRJ)_[A-Za-z0-9]{22}_[a-f0-9]{40}", "CCIPAT_", "CCIPRJ_"),
    # --- Language models
    _pattern("Anthropic key", r"sk-ant-[A-Za-z0-9_-]{40,300}", "sk-ant-"),  # Claude API docs, as issued
    _pattern("OpenRouter key", r"sk-or-v\d-[a-f0-9]{64}", "sk-or-v"),
    # OpenAI docs: "Production best practices", keys of projects and of service accounts; the older ones have a mark.
    _word(
        "OpenAI key", "sk-", r"(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{40,300}|[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"
    ),
    # DeepSeek, Moonshot and more
    _word("API key", "sk-", r"(?=[a-zA-Z]{0,40}[0-9])[A-Za-z0-9]{32,100}"),
    _word("Hugging Face token", "hf_", r"[A-Za-z]{34}"),
    _word("Hugging Face token", "api_org_", r"[A-Za-z]{34}"),
    _word("Groq key", "gsk_", r"[A-Za-z0-9]{52}"),
    _word("Replicate token", "r8_", r"[A-Za-z0-9]{37}"),
    _word("Perplexity key", "pplx-", r"[A-Za-z0-9]{48}"),
    _word("xAI key", "xai-", r"[A-Za-z0-9_-]{70,120}"),
    _pattern("LangSmith key", r"lsv2_[ps][tk]_[a-f0-9]{32}_[a-f0-9]{10}", "lsv2_"),
    _word("Pinecone key", "pcsk_", r"[A-Za-z0-9]{5,6}_[A-Za-z0-9]{63}"),
    # --- Messages
    # Slack docs: "Tokens", and "Sending messages using incoming webhooks".
    _pattern(
        "Slack token", r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{20,300}|xapp-\d-[A-Za-z0-9-]{40,300}", "xox", "xapp-"
    ),
    _pattern(
        "Slack webhook",
        r"hooks\.slack\.com/(?P<secret>(?:services|workflows|triggers)/[A-Za-z0-9/_-]{30,120})",
        "hooks.slack.com/",
    ),
    # Discord docs: "Reference, authentication", and "Webhook resource".
    # The first part is the bot's number in base 64, which begins with one of these.
    *(
        _word(
            "Discord bot token",
            first,
            r"(?=[A-Za-z.]{0,80}[0-9])[A-Za-z0-9_-]{22,26}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,45}",
        )
        for first in ("MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT")
    ),
    _pattern(
        "Discord webhook",
        r"discord(?:app)?\.com/api/webhooks/(?P<secret>\d{17,20}/[A-Za-z0-9_-]{60,80})",
        "/api/webhooks/",
    ),
    _pattern(
        "Teams webhook", r"\.webhook\.office\.com/(?P<secret>webhookb2/[A-Za-z0-9@/-]{60,300})", ".webhook.office.com/"
    ),
    # Telegram Bot API: "Authorizing your bot".
    _pattern("Telegram bot token", rf"(?:(?<![A-Za-z0-9+-])|(?<=/bot))\d{{8,10}}:AA[A-Za-z0-9_-]{{33}}{_END}", ":AA"),
    # Twilio docs: "API keys". The account's SID (AC...) is no secret.
    _word("Twilio key", "SK", r"[a-f0-9]{32}"),
    _pattern("SendGrid key", r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}", "SG."),
    _word("Mailgun key", "key-", r"[a-f0-9]{32}"),
    _pattern(
        "Mailchimp key",
        rf"(?<![A-Za-z0-9+-])[a-f0-9]{{32}}-us\d{{1,2}}{_END}",
        *(f"-us{digit}" for digit in range(1, 10)),
    ),
    _pattern("Brevo key", r"x(?:keysib|smtpsib)-[a-f0-9]{64}-[A-Za-z0-9]{16}", "xkeysib-", "xsmtpsib-"),
    # --- Payments and shops
    # Stripe docs: "API keys", and "Verify webhook signatures". Keys that begin with pk_ are public.
    _pattern("Stripe key", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,250}", "k_live_", "k_test_"),
    _word("webhook secret", "whsec_", r"[A-Za-z0-9+/]{24,64}={0,2}"),
    _pattern("Square secret", r"sq0(?:csp|atp)-[A-Za-z0-9_-]{22,60}", "sq0"),
    _pattern("Shopify token", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}", "shp"),
    # --- Tools of teams
    _pattern("Atlassian token", r"AT(?:ATT|CTT|BB)3xFf[A-Za-z0-9_-]{100,300}(?:=[A-F0-9]{8})?", "3xFf"),
    _pattern("Linear key", r"lin_(?:api|oauth)_[A-Za-z0-9]{40,64}", "lin_"),
    _word("Notion token", "ntn_", r"\d{11}[A-Za-z0-9]{35}"),
    _word("Notion token", "secret_", r"[A-Za-z0-9]{43}"),
    _word("Airtable token", "pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    _word("Figma token", "figd_", r"[A-Za-z0-9_-]{38,60}"),
    _word("Figma token", "figo_", r"[A-Za-z0-9_-]{38,60}"),
    _word("Figma token", "figu_", r"[A-Za-z0-9_-]{38,60}"),
    _pattern("Postman key", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}", "PMAK-"),
    _pattern("Databricks token", r"dapi[a-f0-9]{32}(?:-\d)?", "dapi"),
    _pattern("Supabase key", r"sbp_[a-f0-9]{40}", "sbp_"),
    _pattern("Supabase key", r"sb_secret_[A-Za-z0-9_-]{31}", "sb_secret_"),
    _pattern("PlanetScale token", r"pscale_(?:pw|tkn|oauth)_[A-Za-z0-9_=-]{32,64}", "pscale_"),
    _pattern("Grafana token", r"glsa_[A-Za-z0-9]{32}_[a-fA-F0-9]{8}|glc_[A-Za-z0-9+/]{40,400}={0,2}", "glsa_", "glc_"),
    _pattern("New Relic key", r"NRAK-[A-Za-z0-9]{27}|NRII-[A-Za-z0-9_-]{32}", "NRAK-", "NRII-"),
    _pattern("Sentry token", r"sntrys_[A-Za-z0-9+/=_-]{40,600}", "sntrys"),
    _pattern("Sentry token", r"sntryu_[a-f0-9]{64}", "sntryu"),
    _pattern("Tailscale key", r"tskey-[a-z]{2,10}-[A-Za-z0-9-]{20,80}", "tskey-"),
    _word("1Password service account token", "ops_eyJ", r"[A-Za-z0-9+/]{200,2000}={0,3}"),
    # --- Keys without their end
    _short("GitHub token", "gh[pousr]_", "[A-Za-z0-9]{20,35}", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    _short("GitHub token", "github_pat_", "[A-Za-z0-9_]{20,69}", "github_pat_"),
    _short("npm token", "npm_", "[A-Za-z0-9]{20,35}", "npm_"),
    _short("PyPI token", "pypi-", "[A-Za-z0-9_-]{20,49}", "pypi-"),
    _short("Vault token", r"hv[sbr]\.", "[A-Za-z0-9_-]{20,23}", "hvs.", "hvb.", "hvr."),
    _short("Anthropic key", r"sk-ant-(?:[a-z]{3,5}\d\d-)?", "[A-Za-z0-9_-]{20,80}", "sk-ant-"),
    _short("OpenAI key", "sk-(?:proj|svcacct|admin)-", "[A-Za-z0-9_-]{20,39}", "sk-"),
    _short("SendGrid key", r"SG\.", r"[A-Za-z0-9_-]{20,22}(?:\.[A-Za-z0-9_-]{0,42})?", "SG."),
    # --- Standards
    # RFC 7519. A header and a payload are JSON objects, which begin with the letters eyJ when they are encoded.
    _word("JSON web token", "eyJ", r"[A-Za-z0-9_-]{10,}+\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{16,}+"),
)

_MIN_DISTINCT_CHARACTERS = 8
_IS_MIXED = re.compile(r"(?=.{0,20}[a-z])(?=.{0,20}[A-Z]).{0,20}\d", re.DOTALL)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def find_tokens(text: str) -> Iterator[Secret]:
    """Find keys by their form. Skip examples, such as those of x's or dots."""
    kinds = [kind for kind in _KINDS if any(hint in text for hint in kind.hints)]
    for kind in kinds:
        for match in _compiled(kind.pattern).finditer(text):
            if (span := _span(match)) is not None and (not kind.is_short or _is_key_part(match["part"])):
                yield Secret(*span, kind.label)
    if kinds := [kind for kind in kinds if not kind.is_short]:
        yield from _find_broken(text, kinds)


def _span(match: re.Match[str]) -> tuple[int, int] | None:
    """Return the position of the key in a match, unless it is an example."""
    group = "secret" if "secret" in match.re.groupindex else 0
    end = match[group][-20:]
    return match.span(group) if len(set(end)) >= _MIN_DISTINCT_CHARACTERS or _IS_MIXED.match(end) else None


# A line end within a word, escaped or not, with the indentation or the quotation mark of the next line. It begins with
# the line end, and not with a lookbehind, because that is found many times faster.
_BREAK = re.compile(
    "(?:"
    + "|".join(rf"{end}(?<=[A-Za-z0-9_./+=-]{end})" for end in (r"\n", r"\r\n", r"\\\n", r"\\\r\n"))
    + r")[ \t>]{0,16}(?=[A-Za-z0-9_./+=-])"
)


# What follows the name of a setting, or continues a word.
_NO_KEY_END = re.compile(r"\w|[ \t]{0,4}[:=]|[-.]\w")
_HEX = re.compile(r"[a-f0-9-]++")
_MIN_PART_LENGTH = 8
# Between letters and digits and before a capital letter: random letters and digits have more of these than words have.
_SWITCH = re.compile(r"(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])|(?<=[a-z])(?=[A-Z])")
_MIN_SWITCHES = 3


def _is_key_part(part: str) -> bool:
    """Check that a text looks like a part of a key, and not like a word, a name, a date or an option."""
    if len(part) < _MIN_PART_LENGTH or "=" in part.rstrip("=") or is_words(part.strip("_-.=")):
        return False
    switches = len(_SWITCH.findall(part))
    return switches >= _MIN_SWITCHES and 5 * switches >= len(part)


def _find_broken(text: str, kinds: list[_Kind]) -> Iterator[Secret]:
    """Find keys that are broken by line ends.

    A key at the beginning of a line is only found if the line end before it stays. Therefore every other line end is
    removed in turn, and then all of them, for keys that have several.
    """
    breaks = list(_BREAK.finditer(text))
    for removed in (breaks[::2], breaks[1::2], breaks) if breaks else ():
        joined = without(text, removed)
        places = [place for place, _ in itertools.groupby(joined.removed)]
        for kind in kinds:
            for match in _compiled(kind.pattern).finditer(joined.text):
                inner = places[bisect_right(places, match.start()) : bisect_right(places, match.end() - 1)]
                whole = _whole(kind, joined.text, match, inner) if inner else None
                if whole is not None and (span := _span(whole)) is not None:
                    yield joined.locate(Secret(*span, kind.label))


def _whole(kind: _Kind, text: str, match: re.Match[str], breaks: list[int]) -> re.Match[str] | None:
    """Return the match of a broken key with as few lines as complete it. Return None if a line may be no part of it.

    A key that is complete in its first line is not broken. A part of a key fills a line, or the beginning of the last
    one up to a space or the end of the sentence.
    """
    pattern = _compiled(kind.pattern)
    first = text[match.start() : breaks[0]]
    if not (any(hint in first for hint in kind.hints) or _is_key_part(first)):
        return None
    if pattern.match(text, match.start(), breaks[0]):
        return None
    for start, end in itertools.pairwise([*breaks, match.end()]):
        part = text[start:end]
        is_hash = _HEX.fullmatch(part) is not None and "a-f0-9]" not in kind.pattern
        if is_hash or not _is_key_part(part):
            return None
        if end == match.end() and _NO_KEY_END.match(text, end):
            return None
        if whole := pattern.match(text, match.start(), end):
            return whole
    return None


_ENCODED = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{32,4000}(?:={1,2}|(?![A-Za-z0-9+/_-]))")


def find_encoded(text: str) -> Iterator[Secret]:
    """Find texts in base 64 that contain a key of known form, as in a secret of Kubernetes."""
    for match in _ENCODED.finditer(text):
        letters = match[0].rstrip("=").replace("-", "+").replace("_", "/")
        if len(letters) % 4 != 1:
            plain = base64.b64decode(letters + "=" * (-len(letters) % 4))
            if plain.isascii() and (found := next(find_tokens(plain.decode("ascii")), None)) is not None:
                yield Secret(*match.span(), found.label)
