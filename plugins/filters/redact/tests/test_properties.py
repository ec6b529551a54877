"""Properties that hold for every text."""

from __future__ import annotations

import re

import pytest
import sample_keys
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kipu_filter_redact import Redact

SECRETS = [token for token, _ in sample_keys.tokens().values()]
ASSIGNED = [around.replace("§", secret) for around, (secret, _) in sample_keys.surroundings().items()]
ARMORED = sample_keys.armored()
PIECES = [
    *SECRETS,
    *ASSIGNED,
    ARMORED,
    *(
        "password",
        "token",
        "api key",
        "secret",
        " = ",
        ": ",
        "=",
        "|",
        "`",
        '"',
        "'",
        "\\n",
        "\n",
        "\r\n",
        " ",
        "<",
        ">",
    ),
    *("&", "?", "://", ":", "@", "[redacted: ", "]", "\0", "\ufeff", "\ud800", "İ", "eyJ", "sk-", "hunter2", "is"),
    *(
        "“",
        "”",
        "„",
        "「",
        "」",
        "→",
        " - ",
        " -> ",
        "\t",
        "是",
        "は",
        "，",
        "_",
        "\\_",
        "\\",
        "Sommer2024!",
        "Müller2 said no",
    ),
    *("\u2028", "\x85", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"),
    *("Cookie: ", "session=", "docker login -p ", "curl -b ", 'auth=("x", "', "Authorization: ApiKey ", "\\\n", "\n> "),
    *(
        "(",
        ")",
        ",",
        ";",
        "${",
        "}",
        ":-",
        "%3A",
        "&quot;",
        "DB_PASSWORD=",
        "\u200b",
        "\u00ad",
        "：",
        "||",
        "credentials ",
    ),
    *(
        "user: ana\n",
        "password,a\n",
        "| password | a |\n|---|---|\n",
        "| a",
        "swordfish",
        "Tr0ub4dor&3",
        "_old",
        "ｐａｓｓ",
    ),
    *("a1B2c3D4e5F6a1B2", "- name: DB_PASSWORD\n  value: ", "ENV PASSWORD ", "psk=", " is the password", "[section]\n"),
]
ANY_TEXT = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=80),
    st.lists(st.sampled_from(PIECES), max_size=14).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=14).map(" ".join),
)
PLACEHOLDER = re.compile(r"\[redacted: [^\]\n]*\]")


def redacted(text: str) -> str:
    return Redact().filter(text, "memory/notes.md").text


ORDINARY_LINES = """
Tomorrow we meet Anna.
DATABASE_NAME=app
SMTP_HOST=mail.acme.example
database_name: app
anna
Friday
WINDOWS
2026-11-30 we begin
20261130
3f2a9c4be1d07f5a6b8c9d0e1f2a3b4c5d6e7f80 fixes it
123e4567-e89b-12d3-a456-426614174000
sha256sum, base64url and utf8mb4_unicode_ci
base64url
utf8mb4_unicode_ci
x86_64-unknown-linux-gnu
Q1-Q2-Q3-Q4
EC2Instance
MyClassName2 is new
Donaudampfschifffahrtsgesellschaft is a word
configuration/settings/of/the/program
a1b2c3d4E5F6=x
a1B2c3D4E5f6: y
--verbose
_old
- Anna
> quoted
...
""".strip().split("\n")


@given(
    st.sampled_from([*SECRETS, ARMORED]),
    st.integers(18, 400),
    st.lists(st.sampled_from(ORDINARY_LINES), min_size=1, max_size=3),
    st.sampled_from(["", "The key is ", "OPENAI_API_KEY=", "Deployed\n"]),
)
@settings(deadline=None, max_examples=1500)
def test_no_line_after_a_key_of_any_length_changes(key, length, lines, before):
    after = "\n".join(lines)
    written = redacted(f"{before}{key[:length]}\n{after}")
    assert written.endswith(f"\n{after}")
    assert written.startswith(before)


@pytest.mark.parametrize(
    "prefix",
    ["sk-proj-", "sk-svcacct-", "sk-ant-api03-", "ghp_", "gho_", "github_pat_", "npm_", "pypi-", "hvs.", "SG."],
)
@pytest.mark.parametrize(
    "after", ["", " and more", "\n", "\nDATABASE_NAME=app", "\nTomorrow we meet.", ".", ", then", "`", '"']
)
def test_a_key_without_its_end_is_replaced(prefix, after):
    for length in range(20, 36 if prefix == "npm_" else 60):
        key = prefix + ("a1B2c3D4e5F6" + sample_keys.draw(sample_keys.LETTERS, 48))[:length]
        if prefix == "SG.":
            key = f"{key[:25]}.{key[25:]}"
        assert redacted(f"the key {key}{after}").startswith("the key [redacted: ")
        assert redacted(f"the key {key}{after}").endswith(f"]{after}")


@given(text=ANY_TEXT)
@settings(deadline=None, max_examples=400)
@example("password = " + SECRETS[0] + SECRETS[2])
@example("İ" * 50 + "password = hunter2hunter2")
def test_redacting_twice_changes_nothing(text):
    once = Redact().filter(text, "memory/notes.md")
    twice = Redact().filter(once.text, "memory/notes.md")
    assert (twice.text, list(twice.notices)) == (once.text, [])
    assert bool(once.notices) == (once.text != text)


@given(text=ANY_TEXT)
@example("PASSWORT=$a0glsa_" + "0" * 32 + "_00123456")  # the start of a placeholder was mistaken for a password
@settings(deadline=None, max_examples=400)
def test_line_ends_and_the_text_between_secrets_do_not_change(text):
    once = redacted(text)
    assert len(f"{once}.".splitlines()) == len(f"{text}.".splitlines())  # the last line may be a part of a key
    assert [once.count(end) for end in ("\r\n", "\n", "\r")] == [text.count(end) for end in ("\r\n", "\n", "\r")]
    # The text between the placeholders occurs in the original, in that order.
    place = 0
    for piece in PLACEHOLDER.split(once):
        for part in piece.split("\n") if piece not in text else [piece]:
            place = text.index(part.strip("\r"), place)


@given(
    before=st.text(st.characters(exclude_categories=()), max_size=30),
    secret=st.sampled_from(SECRETS[:-4]),
    after=st.text(st.characters(exclude_categories=()), max_size=30),
)
@settings(deadline=None, max_examples=200)
def test_a_key_between_spaces_is_replaced_in_any_context(before, secret, after):
    if not secret.startswith("fm2_"):
        assert secret not in redacted(f"{before} {secret} {after}")


@pytest.mark.parametrize(
    "unit",
    [
        *("eyJ", "eyJ-", "eyJa.", "\\neyJ", "sk-", "sk-proj-", "ghp_", "xoxb-", "dp.pt.", "MT", "pat", "AKIA"),
        *("://a:", "://", "curl -u a:", "login a password ", "bearer ", "authorization: ", "密码：", "token "),
        *("password", "password=", 'password="', "password = '", "key:", "key|", "hooks.slack.com/services/"),
        *(" ", "\n", "|", "`", "x", "0", "=", '"', "İ", "\0", "a1B2", "password" + " " * 50, "password|" + " " * 20),
        *("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----\nA-b: "),
        *(
            "Private-Lines: 1\n",
            "password “",
            "password - ",
            "password\t",
            "password:\n",
            "密码是",
            "\\_",
            "password\\_",
            "_",
        ),
        *("password: M2 ", "password is a1!", "password:" + " " * 20 + "\n" + " " * 20, "-us1", "12345678:AA", "_AKIA"),
        *("mysql ", "mysql -p", "mysql x ", "sshpass -p ", "curl -u", "://a:a@", "pw: ", "pass:", "password's ", "/a"),
        *(
            "password for ",
            "password for a is ",
            "_password_: ",
            "password:\xa0",
            'password: "a1 b ',
            "password “a b1 ",
        ),
        *("password = '" + "a1-" * 500, "password is a1_", "password: my-", 'password: "' + "x" * 1500 + '" '),
    ],
)
def test_long_repetitive_texts_take_linear_time(unit):
    text = unit * (200_000 // len(unit))
    assert redacted(text).count("\n") == text.count("\n")
