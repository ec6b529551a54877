"""Which secrets are replaced, what is kept, and the notices."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sample_keys

from kipu import Memory
from kipu.errors import ConfigurationError, PluginFailedError
from kipu.types import WriteFilter
from kipu_filter_redact import Redact, kipu_register_write_filters

TOKENS = sample_keys.tokens()
SURROUNDINGS = sample_keys.surroundings()
EXAMPLE = "AKIA" + "IOSFODNN7EXAMPLE"


def redacted(text: str) -> str:
    return Redact().filter(text, "memory/notes.md").text


# --- Secrets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize(
    "around", ["We deployed with §.", "`§`", "| key | § |", "- §\n", '{"x": "§"}', "x: §", "(§)", "§"]
)
def test_a_key_of_known_form_is_replaced_in_any_context(name, around):
    token, label = TOKENS[name]
    around = around.replace("§", "FlyV1 §") if name == "Fly.io" else around
    assert redacted(around.replace("§", token)) == around.replace("§", f"[redacted: {label}]")


@pytest.mark.parametrize("around", SURROUNDINGS)
def test_a_secret_is_recognized_by_its_context(around):
    secret, label = SURROUNDINGS[around]
    assert redacted(around.replace("§", secret)) == around.replace("§", f"[redacted: {label}]")


@pytest.mark.parametrize(
    "kind", ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY"]
)
@pytest.mark.parametrize("indent", ["", "    ", "> "])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_private_key_is_replaced_and_its_line_ends_are_kept(kind, indent, line_end):
    lines = ["before", *(indent + line for line in sample_keys.armored(kind).split("\n")), "after"]
    result = redacted(line_end.join(lines)).split(line_end)
    assert result == [*lines[:2], f"{indent}[redacted: private key]", *[""] * (len(lines) - 5), *lines[-2:]]


def test_a_private_key_is_replaced_within_a_json_text():
    body = sample_keys.armored().split("\n")
    text = '{"private_key": "' + "\\n".join(body) + '\\n"}'
    assert redacted(text) == f'{{"private_key": "{body[0]}\\n[redacted: private key]\\n{body[-1]}\\n"}}'


def test_a_truncated_private_key_is_replaced():
    text = "\n".join(sample_keys.armored().split("\n")[:4]) + "\n\nAnd then we went home."
    assert redacted(text).split("\n")[1:] == ["[redacted: private key]", "", "", "", "And then we went home."]


def test_keys_of_pgp_and_of_putty_are_replaced():
    line = sample_keys.draw(sample_keys.BASE64, 48)
    kind = "PGP PRIVATE KEY BLOCK"
    pgp = f"-----BEGIN {kind}-----\nVersion: 2\n\n{line}\n{line}\n=abcd\n-----END {kind}-----"
    putty = f"PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 2\n{line}\n{line}\nPrivate-MAC: 1"
    for text in (pgp, putty):
        assert line not in redacted(text)
        assert redacted(text).count("\n") == text.count("\n")


@pytest.mark.parametrize("name", TOKENS)
@pytest.mark.parametrize("around", ["_§_", "__§__", "**§**", "*§*", "~~§~~"])
def test_an_emphasized_key_is_replaced(name, around):
    token, label = TOKENS[name]
    around = around.replace("§", "FlyV1 §") if name == "Fly.io" else around
    result = redacted(around.replace("§", token))
    assert f"[redacted: {label}]" in result
    assert token[:-1] not in result


@pytest.mark.parametrize("name", TOKENS)
def test_a_key_with_the_backslashes_of_markdown_is_replaced(name):
    token, label = TOKENS[name]
    around = "FlyV1 §" if name == "Fly.io" else "a\\_b § a\\_b"
    escaped = "".join(f"\\{letter}" if letter in "_-." else letter for letter in token)
    assert redacted(around.replace("§", escaped)) == around.replace("§", f"[redacted: {label}]")
    assert Redact(allow=[token]).filter(escaped, "memory/notes.md").text == escaped or name == "Fly.io"


def test_keys_beside_each_other_are_all_replaced():
    key, token = TOKENS["AWS"][0], TOKENS["GitHub"][0]
    assert redacted(f"{key} {token},{key}") == (
        "[redacted: AWS access key] [redacted: GitHub token],[redacted: AWS access key]"
    )


def test_an_assigned_key_of_known_form_has_the_label_of_its_form():
    key, label = TOKENS["GitHub"]
    assert redacted(f"password: {key}") == f"password: [redacted: {label}]"
    assert redacted(f"https://ana:{key}@acme.example/x") == f"https://ana:[redacted: {label}]@acme.example/x"


README = Path(__file__).parents[1] / "README.md"
ROWS = [
    [re.findall("`([^`]+)`", cell) for cell in line.strip("|").split("|")[2:]]
    for line in README.read_text("utf-8").splitlines()
    if line.startswith("|") and line.count("|") == 5 and "---" not in line
][1:]


@pytest.mark.parametrize(("replaced", "kept"), ROWS)
def test_the_least_that_is_replaced_is_what_the_readme_says(replaced, kept):
    assert len(ROWS) == 11
    for text in replaced:
        name, value = re.fullmatch(r"(.*[ =])(\S+)", text).groups()
        assert re.fullmatch(rf"{re.escape(name)}\[redacted: [\w ]+\]", redacted(text)), value
    assert [redacted(text) for text in kept] == kept


@pytest.mark.parametrize(
    "around",
    [
        *(
            "token: §",
            "secret: §",
            "api_key=§",
            '"api_key": "§"',
            "auth_token=§",
            "--metadata token=§",
            "pw: §",
            "pass=§",
        ),
        *("Authorization: Bearer §", "Authorization: ApiKey §", "Cookie: JSESSIONID=§", "Cookie: a=b; session=§"),
        *("My login: max / §", "name,email,password\nann,a@x.de,§", "name;password\r\nann;§\r\nbob;§"),
    ],
)
def test_short_keys_are_replaced_after_names_that_nothing_else_has(around):
    secret = "q7" + sample_keys.draw(sample_keys.HEX, 6) + "w1e2"
    assert redacted(around.replace("§", secret)).count("[redacted: ") == around.count("§")
    assert secret not in redacted(around.replace("§", secret))


@pytest.mark.parametrize(
    "around", ["password\n§", "**Password**\n§\n", "name,email,password\nann,a@x.de,§", "name;password\nann;§\n"]
)
def test_a_word_with_a_number_and_a_sign_is_replaced_below_its_name(around):
    assert redacted(around.replace("§", "Sommer2026!")) == around.replace("§", "[redacted: password]")
    if "," in around:
        assert redacted(around.replace("§", "swordfish")) == around.replace("§", "[redacted: password]")


# --- Text that is kept ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The password is in 1Password.",
        "Password: 1Password, vault Team",
        "The password is SHA256-hashed; the token is base64-encoded and the secret is RS256-signed.",
        "The password: at least 12 characters, one of them a digit.",
        "We agreed that the password is rotated every 90 days.",
        "Das Passwort ist in 1Password. Kein Passwort: siehe Wiki.",
        "El token es válido durante 24 horas y la contraseña está en el gestor.",
        "密码在1Password里。パスワードは金庫にあります。",
        "Le mot de passe : voir le coffre",
        "password: Müller2 said no",
        "The password - SHA256-hashed - is kept for 90 days.",
        "password\tlength8\tmandatory",
        "Password:\n  Müller2 said no",
        "password:\n  rotated2026 by Ana",
        "password:\n  user1:\n    name: ana",
        "密码是SHA256加密的，密码是1Password管理的。パスワードはAES256です。",
        "The password “reset” and the token “bearer” and the password 'sha256-hash' are words.",
        "Das Passwort lautet anders. Le mot de passe est SHA256-hashed!",
        "x_AKIA_y and foo_" + "AKIA" + "Q" * 8 + "W3E4R5T6_bar",
        r"a\_b and password\_file: /run/secrets/db\_password\_2",
        "token limit = 4096, max_tokens: 8192, tokens: 128000",
        "password = <your password>",
        "password = your-password-123",
        "password: ${DB_PASSWORD_2}",
        "password: $DB_PASSWORD_2",
        "password: {{ vault.password2 }}",
        "password = os.environ['DB_PASSWORD_2']",
        "password = settings.database.password2",
        "password: Optional[str] = None",
        "if password == self.password2:",
        "password: bytes32, password: varchar255, password: uint256",
        "'password' => 'required|min:8', password: required|string|min:8|confirmed",
        "secret: arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-AbCdEf",
        "password: user2@acme.example",
        "password: _PasswordType | None",
        'f"client_secret={hashlib.sha256(client_secret).hexdigest()}"',
        "password_file: /run/secrets/db_password_2",
        "password: /run/secrets/db_password_2",
        "token: https://acme.example/docs/tokens/1234567890abcdef",
        "api_key=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx1",
        "API_KEY=**************1",
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx1",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "OPENAI_API_KEY=sk-...",
        "next_page_token: CAUQAAabcdef1234567890",
        "| user | password | role |\n|---|---|---|\n| ana | in the vault | admin |",
        "postgresql://user:password@localhost:5432/app",
        "postgresql://app:${DB_PASSWORD}@db:5432/app",
        "https://acme.example:8443/a/@ana/b?c=d@e",
        "Fixed in 3f2a9c4be1d07f5a6b8c9d0e1f2a3b4c5d6e7f80 by ana.",
        "chunk 9f86d081884c7d65 of 123e4567-e89b-12d3-a456-426614174000",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "2026-11-30T08:00:00+00:00 and 2026-W48 and v1.2.3-rc4",
        "public key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG7v1Xk2mJ9hQ4rT8wYz0bC3dE5fG6hI7jK8lM9nO0pQ ana@host",
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
        "A file begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----.",
        "token: 0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
        "https://acme.example/a/very/long/path/with-many-parts/2026/11/30/and-numbers-123456789/page.html",
        "nDCG@10 0.412 -> 0.437 (p = 0.03), recall@5 0.81, key finding: mmr lambda=0.7 wins",
        "The risk-adjusted disk-usage task-runner uses sk-learn-0123456789.",
        "Bearer tokens are sent in the header Authorization.",
        "keyword: security, secretary: Ana, tokenizer: cl100k_base, passage: 12a",
        "Stripe's pk_live_abcdefghijklmnop12345678 is public.",
    ],
)
def test_text_without_secrets_is_kept(text):
    filtered = Redact().filter(text, "memory/notes.md")
    assert (filtered.text, list(filtered.notices)) == (text, [])


@pytest.mark.parametrize(
    "text",
    [
        *("compass: N47E11x9", "bypass = route66b", "by-pass = route66b", "trespass: sect12b", "low-pass: 12kHz-x1"),
        *("password: OAuth2", "password: SHA256", "password: argon2id", "password: bcrypt12", "password - SHA256"),
        *("password: JIRA-12345", "password: 2FA-enabled", "password: see1Password", "password: 12characters"),
        "token: meta-llama/Llama-3.1-8B-Instruct",
        "token: mistralai/Mixtral-8x7B-Instruct-v0.1",
        "The password is hunter2",
        "The password is 20261130. The password is 2026-11-30. The password is swordfish.",
        "The password is AES-256-GCM-encrypted, and the other password is HMAC-SHA256.",
        "The password is 12characters long; the password is 2026-11-30T08:00:00Z.",
        "The password is “the same as last time 2024”.",
        'password: "Ticket INFRA-12345", password: "Room 12", password: "rotated 2026-11-30"',
        "'password': 'must be at least 8 characters', \"password\": \"Please enter your new password\"",
        "the password policy SHA256-based, the legacy password (SHA256), password (Optional[str]): x",
        '<label>Password Required:</label><input id="password">',
        "All tests pass: 42 of 42. They pass all42Tests. | pass | abc123Def |",
        "mysql -u root -p database1",
        "password: my_password_1, password: changeme123, password: example-password-1",
        "password: $password2 and password: $dbPassword2 and password: $2b$12$abcdefghijk",
        "password: /run/secrets/db_password_2 and password: /secrets2 and password: ~/x1y2z3",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "api_key: sk-abc123...wxyz, api_key: sk-1****cdef, api_key = ABCD…9876543",
        *(
            "token: llama3",
            '"ClientToken": "cachedvol112233"',
            "token: base64",
            "secret: db-credentials-2",
            "token=token123",
            "api_key=api_key_2",
        ),
        *("The user,password,email are stored.\nOne,two,three and four", "user,password\nana and bob,in the vault"),
        *("Authorization: required2", "Cookie: consent=yes2024", "Password\nSommer2026", "key = value123, key=lambda"),
        "token: 20261130T101010Z, Authorization: Bearer ya29.google-oauth...",
    ],
)
def test_words_names_dates_and_examples_are_kept(text):
    assert redacted(text) == text


def test_an_image_in_base_64_is_kept():
    image = f"![logo](data:image/png;base64,{sample_keys.draw(sample_keys.BASE64, 200_000)}==)"
    assert redacted(image) == image


# --- Notices -------------------------------------------------------------------------------------------------------


def test_a_notice_names_the_kind_of_secret_and_the_line():
    notices = Redact().filter(f"one\r\ntwo\r\nthe key {TOKENS['AWS'][0]}\r\n", "memory/notes.md").notices
    assert notices == ["An AWS access key in line 3 was replaced by [redacted: AWS access key]."]


def test_each_kind_of_secret_has_one_notice():
    text = f"password: {sample_keys.password()}\n{TOKENS['GitHub'][0]}\n\npassword: {sample_keys.password()}"
    assert Redact().filter(text, "memory/notes.md").notices == [
        "2 passwords in lines 1 and 4 were replaced by [redacted: password].",
        "A GitHub token in line 2 was replaced by [redacted: GitHub token].",
    ]


def test_a_notice_lists_ten_lines_and_counts_the_rest():
    text = "\n".join(f"password: {sample_keys.password()}" for _ in range(15))
    assert Redact().filter(text, "memory/notes.md").notices == [
        "15 passwords in lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 5 more were replaced by [redacted: password]."
    ]


# --- The option allow------------------------------------------------------------------------------------------------


def test_only_allowed_secrets_are_kept():
    replaced = TOKENS["AWS"][0]
    text = f"AWS_ACCESS_KEY={EXAMPLE} and {EXAMPLE} and {replaced}"
    assert Redact(allow=[EXAMPLE]).filter(text, "memory/notes.md").text == text.replace(
        replaced, "[redacted: AWS access key]"
    )


def test_a_part_of_a_secret_does_not_allow_it():
    token, label = TOKENS["GitHub"]
    assert Redact(allow=[token[:20]]).filter(token, "memory/notes.md").text == f"[redacted: {label}]"


@pytest.mark.parametrize("allow", ["AKIA", [""], ["AKIA", "  "], [7]])
def test_an_invalid_allow_list_is_refused_without_showing_it(allow):
    with pytest.raises(ConfigurationError, match=r"^allow must be a list of keys and passwords in full") as caught:
        Redact(allow=allow)
    assert "AKIA'" not in str(caught.value)


# --- The plugin ----------------------------------------------------------------------------------------------------


def test_the_plugin_registers_its_filter():
    registered: dict[str, Any] = {}
    kipu_register_write_filters(registered.__setitem__)
    assert registered == {"redact": Redact}
    assert isinstance(Redact(), WriteFilter)


def test_nothing_is_imported_before_a_text_is_filtered():
    code = (
        "import sys, kipu_filter_redact; "
        "print([name for name in sys.modules if name.startswith('kipu_filter_redact.')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_texts_can_be_filtered_in_many_threads(capfd):
    redact = Redact(allow=[EXAMPLE])
    texts = [
        f"{EXAMPLE} {number} {token} password: {sample_keys.password()}\n" * 20
        for number, (token, _) in enumerate(TOKENS.values())
    ]
    alone = [redact.filter(text, "memory/notes.md") for text in texts]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda text: redact.filter(text, "memory/notes.md"), texts * 4)) == alone * 4
    assert capfd.readouterr() == ("", "")


async def test_nothing_is_written_if_it_fails_to_load(tmp_path, monkeypatch):
    (tmp_path / "memory").mkdir()
    monkeypatch.setitem(sys.modules, "kipu_filter_redact", None)  # importing it fails
    async with Memory(tmp_path) as memory:
        with pytest.raises(PluginFailedError, match="failed to load, and nothing is written without it"):
            await memory.remember("The key is alpha.", file="notes.md")
        assert any("redact" in problem for problem in await memory.check())
    assert list((tmp_path / "memory").iterdir()) == []


def test_doctor_reports_the_broken_filter_as_a_problem_and_not_as_missing(tmp_path):
    code = "import sys; sys.modules['kipu_filter_redact'] = None; from kipu.cli import main; main(['doctor'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert 'problem  The write filter "redact"' in done.stdout
    assert "no write filter is in use" not in done.stdout
