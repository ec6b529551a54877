"""Keys that look real and are not valid. Each test run generates them, so that no file contains one."""

from __future__ import annotations

import base64
import random
import string

CHOICE = random.Random(20261130)
LETTERS = string.ascii_letters + string.digits
DIGITS = string.digits
CAPITALS = string.ascii_uppercase + "234567"
HEX = "0123456789abcdef"
BASE64 = LETTERS + "+/"
URL_SAFE = LETTERS + "-_"


def draw(alphabet: str, length: int) -> str:
    """Return a random text."""
    return "".join(CHOICE.choices(alphabet, k=length))


def base64_url(text: str) -> str:
    """Encode a text in base 64 for URLs."""
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def uuid() -> str:
    """Return a random UUID."""
    return "-".join(draw(HEX, length) for length in (8, 4, 4, 4, 12))


def password() -> str:
    """Return a password like one that a person chooses."""
    return draw(LETTERS, 12) + "!x9"


def armored(kind: str = "PRIVATE KEY") -> str:
    """Return a private key in the format of a file."""
    lines = [draw(BASE64, 64) for _ in range(6)] + [draw(BASE64, 22) + "=="]
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])


def tokens() -> dict[str, tuple[str, str]]:
    """Return secrets with a known form and their labels, by name."""
    mark = "T3BlbkFJ"
    return {
        "AWS": ("AKIA" + draw(CAPITALS, 16), "AWS access key"),
        "AWS for a session": ("ASIA" + draw(CAPITALS, 16), "AWS access key"),
        "GitHub": ("ghp_" + draw(LETTERS, 36), "GitHub token"),
        "GitHub for an app": ("ghs_" + draw(LETTERS, 36), "GitHub token"),
        "GitHub fine-grained": (
            "github_pat_" + draw(LETTERS, 22) + "_" + draw(LETTERS, 59),
            "GitHub token",
        ),
        "GitLab": ("glpat-" + draw(URL_SAFE, 20), "GitLab token"),
        "GitLab routable": ("glpat-" + draw(LETTERS, 27) + ".01." + draw(LETTERS, 9), "GitLab token"),
        "GitLab runner": ("glrt-" + draw(URL_SAFE, 20), "GitLab token"),
        "Slack bot": (
            f"xoxb-{draw(DIGITS, 12)}-{draw(DIGITS, 13)}-{draw(LETTERS, 24)}",
            "Slack token",
        ),
        "Slack app": (
            f"xapp-1-A{draw(CAPITALS, 10)}-{draw(DIGITS, 13)}-{draw(HEX, 64)}",
            "Slack token",
        ),
        "Stripe": ("sk_live_" + draw(LETTERS, 24), "Stripe key"),
        "Stripe long": ("rk_live_51" + draw(LETTERS, 97), "Stripe key"),
        "Stripe webhook": ("whsec_" + draw(LETTERS, 32), "webhook secret"),
        "OpenAI": ("sk-" + draw(LETTERS, 20) + mark + draw(LETTERS, 20), "OpenAI key"),
        "OpenAI project": ("sk-proj-" + draw(LETTERS, 74) + mark + draw(LETTERS, 74), "OpenAI key"),
        "OpenAI service": ("sk-svcacct-" + draw(LETTERS, 74) + mark + draw(LETTERS, 74), "OpenAI key"),
        "Anthropic": ("sk-ant-api03-" + draw(URL_SAFE, 93) + "AA", "Anthropic key"),
        "OpenRouter": ("sk-or-v1-" + draw(HEX, 64), "OpenRouter key"),
        "DeepSeek": ("sk-4" + draw(HEX, 31), "API key"),
        "Groq": ("gsk_" + draw(LETTERS, 52), "Groq key"),
        "Hugging Face": ("hf_" + draw(string.ascii_letters, 34), "Hugging Face token"),
        "Replicate": ("r8_" + draw(LETTERS, 37), "Replicate token"),
        "Perplexity": ("pplx-" + draw(LETTERS, 48), "Perplexity key"),
        "xAI": ("xai-" + draw(LETTERS, 80), "xAI key"),
        "LangSmith": (f"lsv2_pt_{draw(HEX, 32)}_{draw(HEX, 10)}", "LangSmith key"),
        "Pinecone": (f"pcsk_{draw(LETTERS, 6)}_{draw(LETTERS, 63)}", "Pinecone key"),
        "Google": ("AIza" + draw(LETTERS, 35), "Google API key"),
        "Google OAuth secret": ("GOCSPX-" + draw(LETTERS, 28), "Google OAuth secret"),
        "Google OAuth": ("ya29." + draw(LETTERS, 120), "Google OAuth token"),
        "Twilio": ("SK" + draw(HEX, 32), "Twilio key"),
        "SendGrid": (f"SG.{draw(URL_SAFE, 22)}.{draw(URL_SAFE, 43)}", "SendGrid key"),
        "Mailgun": ("key-" + draw(HEX, 32), "Mailgun key"),
        "Mailchimp": (draw(HEX, 32) + "-us12", "Mailchimp key"),
        "Brevo": (f"xkeysib-{draw(HEX, 64)}-{draw(LETTERS, 16)}", "Brevo key"),
        "npm": ("npm_" + draw(LETTERS, 36), "npm token"),
        "PyPI": ("pypi-AgEIcHlwaS5vcmc" + draw(URL_SAFE, 120), "PyPI token"),
        "RubyGems": ("rubygems_" + draw(HEX, 48), "RubyGems key"),
        "Docker Hub": ("dckr_pat_" + draw(URL_SAFE, 27), "Docker Hub token"),
        "DigitalOcean": ("dop_v1_" + draw(HEX, 64), "DigitalOcean token"),
        "Cloudflare": ("cfut_" + draw(LETTERS, 48), "Cloudflare token"),
        "Shopify": ("shpat_" + draw(HEX, 32), "Shopify token"),
        "Square": ("sq0csp-" + draw(URL_SAFE, 43), "Square secret"),
        "Telegram": (draw("123456789", 10) + ":AA" + draw(LETTERS, 33), "Telegram bot token"),
        "Discord": (
            f"MT{draw(LETTERS, 23)}7.{draw(LETTERS, 6)}.{draw(LETTERS, 38)}",
            "Discord bot token",
        ),
        "Databricks": ("dapi" + draw(HEX, 32), "Databricks token"),
        "Vault": ("hvs." + draw(URL_SAFE, 95), "Vault token"),
        "Terraform": (f"{draw(LETTERS, 14)}.atlasv1.{draw(LETTERS, 67)}", "Terraform token"),
        "Linear": ("lin_api_" + draw(LETTERS, 40), "Linear key"),
        "Notion": ("ntn_" + draw(DIGITS, 11) + draw(LETTERS, 35), "Notion token"),
        "Airtable": (f"pat{draw(LETTERS, 14)}.{draw(HEX, 64)}", "Airtable token"),
        "Atlassian": (
            "ATATT3xFfGF0" + draw(LETTERS, 180) + "=" + draw("0123456789ABCDEF", 8),
            "Atlassian token",
        ),
        "Grafana": (f"glsa_{draw(LETTERS, 32)}_{draw(HEX, 8)}", "Grafana token"),
        "New Relic": ("NRAK-" + draw(CAPITALS, 27), "New Relic key"),
        "Sentry": ("sntrys_" + draw(LETTERS, 100) + "_" + draw(LETTERS, 43), "Sentry token"),
        "Figma": ("figd_" + draw(LETTERS, 40), "Figma token"),
        "Postman": (f"PMAK-{draw(HEX, 24)}-{draw(HEX, 34)}", "Postman key"),
        "Supabase": ("sbp_" + draw(HEX, 40), "Supabase key"),
        "PlanetScale": ("pscale_pw_" + draw(URL_SAFE, 43), "PlanetScale token"),
        "Doppler": ("dp.pt." + draw(LETTERS, 43), "Doppler token"),
        "Tailscale": (f"tskey-auth-{draw(LETTERS, 17)}-{draw(LETTERS, 32)}", "Tailscale key"),
        "Fly.io": ("fm2_" + draw(BASE64, 120), "Fly.io token"),
        "Artifactory": ("AKCp" + draw(LETTERS, 69), "Artifactory key"),
        "age": ("AGE-SECRET-KEY-1" + draw("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58), "age private key"),
        "JWT": (
            ".".join([base64_url('{"alg":"HS256"}'), base64_url('{"sub":"1234567"}'), draw(URL_SAFE, 43)]),
            "JSON web token",
        ),
    }


def surroundings() -> dict[str, tuple[str, str]]:
    """Return secrets without a known form and their labels, by the context that identifies them (§ is the secret)."""
    return {
        "AWS_SECRET_ACCESS_KEY=§": (draw(BASE64, 38) + "a1", "AWS secret access key"),
        "[default]\naws_secret_access_key = §\nregion = eu": (draw(BASE64, 38) + "a1", "AWS secret access key"),
        "The AWS secret access key is `§`.": (draw(BASE64, 38) + "a1", "AWS secret access key"),
        "DefaultEndpointsProtocol=https;AccountKey=§;Suffix=x": (draw(BASE64, 86) + "==", "Azure key"),
        "Endpoint=sb://acme.example/;SharedAccessKey=§": (draw(BASE64, 43) + "=", "Azure key"),
        "https://acme.blob.core.windows.net/c?se=2026-01-01&sr=b&sig=§": (draw(LETTERS, 43), "Azure signature"),
        "AZURE_CLIENT_SECRET=§": (draw(LETTERS, 3) + "8Q~" + draw(URL_SAFE, 34), "Azure client secret"),
        "https://hooks.slack.com/§": (
            f"services/T{draw(CAPITALS, 8)}/B{draw(CAPITALS, 8)}/{draw(LETTERS, 24)}",
            "Slack webhook",
        ),
        "https://discord.com/api/webhooks/§": (
            draw("123456789", 18) + "/" + draw(URL_SAFE, 68),
            "Discord webhook",
        ),
        "git clone https://ana:§@git.acme.example/x.git": (password(), "password"),
        "DATABASE_URL=postgresql://app:§@db.internal:5432/app": (password(), "password"),
        "redis://:§@cache:6379/0": (draw(LETTERS, 19) + "7", "password"),
        "Server=db;User Id=sa;Password=§;Encrypt=true": (password(), "password"),
        "host=db user=app password=§ dbname=app": (draw(LETTERS, 13) + "7", "password"),
        "password = §": (password(), "password"),
        "password = '§'": (password(), "password"),
        '{"user": "ana", "password": "§", "port": 5}': (password(), "password"),
        '"{\\"password\\": \\"§\\"}"': (draw(LETTERS, 15) + "7", "password"),
        "db:\n  password: §\n  port: 5432": (password(), "password"),
        "api_key: §": (draw(LETTERS, 31) + "7", "API key"),
        'api_key = "§"': (draw(HEX, 30) + "a7", "API key"),
        "export ACME_API_KEY=§": (draw(LETTERS, 39) + "7", "API key"),
        "SECRET_KEY='§'": ("(" + draw(LETTERS + "$%^&*(", 48) + "7", "key"),
        "ACME_TOKEN=§": (draw(HEX, 38) + "a7", "token"),
        "HEROKU_API_KEY=§": (uuid(), "API key"),
        "Authorization: Bearer §": (draw(LETTERS, 39) + "7", "bearer token"),
        "curl -H 'Authorization: Bearer §' https://acme.example": (draw(URL_SAFE, 46) + "7", "bearer token"),
        "Authorization: Basic §": (base64_url("ana:" + password()), "authorization header"),
        'curl -H "x-api-key: §" https://acme.example': (draw(LETTERS, 31) + "7", "API key"),
        "curl -u ana:§ https://acme.example": (password(), "password"),
        "The admin password is: §": (password(), "password"),
        "The password for the guest network is §": ("Tr0ub4dor&" + draw(DIGITS, 3), "password"),
        "The password is `§`.": ("hunter2" + draw(DIGITS, 1), "password"),
        "Password for the staging server: §": (password(), "password"),
        "**Password**: §": (password(), "password"),
        "- **password:** `§`": (password(), "password"),
        "| password | §  |": (password(), "password"),
        "| `DB_PASSWORD` | `§` | prod |": (password(), "password"),
        "```env\nDB_PASSWORD=§\n```": (password(), "password"),
        "machine acme.example login ana password §": (password(), "password"),
        "mysql -u root --password=§ db": (password(), "password"),
        "acme login --token § --verbose": (draw(LETTERS, 31) + "7", "token"),
        "https://acme.example/v1?access_token=§&x=1": (draw(LETTERS, 39) + "7", "token"),
        "//registry.acme.example/:_authToken=§": (uuid(), "token"),
        'connect(host="db", password="§")': (password(), "password"),
        "'password' => '§',": (password(), "password"),
        'password := "§"': (password(), "password"),
        "<password>§</password>": (password(), "password"),
        '{"auths":{"acme.example":{"auth":"§"}}}': (
            base64_url("ana:abc" + draw(LETTERS, 13)),
            "registry credential",
        ),
        "Das Passwort ist §": ("Xk7!" + draw(LETTERS, 8), "password"),
        "contraseña: §": (password(), "password"),
        "mot de passe : §": (password(), "password"),
        "пароль: §": (password(), "password"),
        "密码：§": (password(), "password"),
        "数据库的密码：§": (password(), "password"),
        "密码：§，请记住": (password(), "password"),
        "密码是§，请记住": ("Sommer2024!", "password"),
        "パスワードは§です。": ("Sommer2024!", "password"),
        "パスワードは「§」です。": ("Sommer2024!", "password"),
        "비밀번호는 §": ("Sommer2024!", "password"),
        "password “§”": ("Sommer2024!", "password"),
        "Das Passwort „§“ gilt.": ("Sommer2024!", "password"),
        "mot de passe : «§»": (password(), "password"),
        'The password "§" works.': ("Sommer2024!", "password"),
        "password - §": ("Sommer2024!", "password"),
        "Password – § (guest)": ("Sommer2024!", "password"),
        "password → §": ("Sommer2024!", "password"),
        "password -> §": ("Sommer2024!", "password"),
        "user\tana\npassword\t§\n": ("Sommer2024!", "password"),
        "password:\n  §\nport: 5": ("Sommer2024!", "password"),
        "password:\r\n  `§`\r\n": ("hunter2" + draw(DIGITS, 1), "password"),
        "api_key:\n    §": (draw(LETTERS, 31) + "7", "API key"),
        "Das Passwort lautet §": ("Sommer2024!", "password"),
        "Das Passwort lautet: §": ("Sommer2024!", "password"),
        "Le mot de passe est §": ("Sommer2024!", "password"),
        "La contraseña es §": ("Sommer2024!", "password"),
        "password: § said Ana": ("hunter2", "password"),
        "token: §": (uuid(), "token"),
        "api\\_key: §": (draw(LETTERS, 31) + "7", "API key"),
        "パスワード：§": (password(), "password"),
        **in_sentences(),
    }


def in_sentences() -> dict[str, tuple[str, str]]:
    """Return the same for passwords in sentences and commands."""
    word, mixed, phrase = "Sommer" + draw(DIGITS, 4), "hunter2" + "hunter2", "Sommer " + draw(DIGITS, 4)
    inside = {
        "The password is §": mixed,
        "My password is §.": mixed,
        "Our root password is §, do not tell": word,
        "The **password** is **§**.": word,
        "The password is now §": word,
        "The password is now: §": word,
        "The DB password is still = §": word,
        "From Monday on the password will be §": word,
        "The password was set to §": "Xy" + draw(DIGITS, 2) + mixed,
        "Passwort ist §": word,
        "Das Passwort lautet §, bitte": word,
        "Le mot de passe du wifi est §": "Croissant" + draw(DIGITS, 2),
        "La contraseña de la base de datos es §": "Gato_" + draw(DIGITS, 4),
        "The password for Ana's laptop is §": word,
        "my password's §": password(),
        "my password’s §": word,
        "密码是 §": "Panda" + draw(DIGITS, 4),
        "password:\n  §\nport: 5": word,
        'Password = "§"': "correct horse battery staple",
        'password: "§"': "two words" + draw(DIGITS, 1),
        "password: “§”": phrase,
        'The wifi password is "§".': phrase,
        "login with user bob and password §": "Sup3rS3" + "cret",
        "pw: §": "S3cret" + "Word",
        "DB_PW=§": "geheim" + draw(DIGITS, 4),
        "pass: §": password(),
        "userPass = §": mixed,
        "mysql -u root -p§ db": "MyS3cret" + "Pw",
        "mariadb-dump -p'§'": "MyS3cret" + "Pw",
        "sshpass -p § ssh ana@host": word,
        "curl -uadmin:§ https://acme.example": "s3cr3t" + "Pa55",
        "curl -sSu admin:§ https://acme.example": "s3cr3t" + "Pa55",
        "postgres://name:§@host/db": "p@55" + "word",
        "password:\xa0§": password(),
        "mot de passe\u202f: §": password(),
        "_password_: §": password(),
        "__password__: §": password(),
        "***password***: §": password(),
        "_password:_ §": password(),
        "password :\u3000§": password(),
        "password = §": "$ecret" + "12x",
        "password: § or so": "/" + password(),
        "password: § now": "my_" + "Secr3t!Pw",
        "password: § then": "Xy7" + "example9!",
        "password: § too": "Summer2024" + "...!",
        "aws_secret_access_key=§": "/" + draw(LETTERS, 38) + "7",
    }
    labels = {"aws_secret_access_key=§": "AWS secret access key"}
    return {around: (secret, labels.get(around, "password")) for around, secret in inside.items()}
