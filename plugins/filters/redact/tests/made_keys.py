"""Keys that look real and open nothing: generated in each run of the tests, so that none is stored."""

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


def some(alphabet: str, length: int) -> str:
    """Make a text of letters drawn by chance."""
    return "".join(CHOICE.choices(alphabet, k=length))


def encoded(text: str) -> str:
    """Return the text in base 64 for URLs."""
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def uuid() -> str:
    """Make a UUID drawn by chance."""
    return "-".join(some(HEX, length) for length in (8, 4, 4, 4, 12))


def password() -> str:
    """Make a password as people make them."""
    return some(LETTERS, 12) + "!x9"


def armored(kind: str = "PRIVATE KEY") -> str:
    """Make a private key as it is kept in a file."""
    lines = [some(BASE64, 64) for _ in range(6)] + [some(BASE64, 22) + "=="]
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])


def tokens() -> dict[str, tuple[str, str]]:
    """By its name, what shows by itself that it is secret, and the label it gets."""
    mark = "T3BlbkFJ"
    return {
        "AWS": ("AKIA" + some(CAPITALS, 16), "AWS access key"),
        "AWS for a session": ("ASIA" + some(CAPITALS, 16), "AWS access key"),
        "GitHub": ("ghp_" + some(LETTERS, 36), "GitHub token"),
        "GitHub for an app": ("ghs_" + some(LETTERS, 36), "GitHub token"),
        "GitHub fine-grained": ("github_pat_" + some(LETTERS, 22) + "_" + some(LETTERS, 59), "GitHub token"),
        "GitLab": ("glpat-" + some(URL_SAFE, 20), "GitLab token"),
        "GitLab routable": ("glpat-" + some(LETTERS, 27) + ".01." + some(LETTERS, 9), "GitLab token"),
        "GitLab runner": ("glrt-" + some(URL_SAFE, 20), "GitLab token"),
        "Slack bot": (f"xoxb-{some(DIGITS, 12)}-{some(DIGITS, 13)}-{some(LETTERS, 24)}", "Slack token"),
        "Slack app": (f"xapp-1-A{some(CAPITALS, 10)}-{some(DIGITS, 13)}-{some(HEX, 64)}", "Slack token"),
        "Stripe": ("sk_live_" + some(LETTERS, 24), "Stripe key"),
        "Stripe long": ("rk_live_51" + some(LETTERS, 97), "Stripe key"),
        "Stripe webhook": ("whsec_" + some(LETTERS, 32), "webhook secret"),
        "OpenAI": ("sk-" + some(LETTERS, 20) + mark + some(LETTERS, 20), "OpenAI key"),
        "OpenAI project": ("sk-proj-" + some(LETTERS, 74) + mark + some(LETTERS, 74), "OpenAI key"),
        "OpenAI service": ("sk-svcacct-" + some(LETTERS, 74) + mark + some(LETTERS, 74), "OpenAI key"),
        "Anthropic": ("sk-ant-api03-" + some(URL_SAFE, 93) + "AA", "Anthropic key"),
        "OpenRouter": ("sk-or-v1-" + some(HEX, 64), "OpenRouter key"),
        "DeepSeek": ("sk-4" + some(HEX, 31), "API key"),
        "Groq": ("gsk_" + some(LETTERS, 52), "Groq key"),
        "Hugging Face": ("hf_" + some(string.ascii_letters, 34), "Hugging Face token"),
        "Replicate": ("r8_" + some(LETTERS, 37), "Replicate token"),
        "Perplexity": ("pplx-" + some(LETTERS, 48), "Perplexity key"),
        "xAI": ("xai-" + some(LETTERS, 80), "xAI key"),
        "LangSmith": (f"lsv2_pt_{some(HEX, 32)}_{some(HEX, 10)}", "LangSmith key"),
        "Pinecone": (f"pcsk_{some(LETTERS, 6)}_{some(LETTERS, 63)}", "Pinecone key"),
        "Google": ("AIza" + some(LETTERS, 35), "Google API key"),
        "Google OAuth secret": ("GOCSPX-" + some(LETTERS, 28), "Google OAuth secret"),
        "Google OAuth": ("ya29." + some(LETTERS, 120), "Google OAuth token"),
        "Twilio": ("SK" + some(HEX, 32), "Twilio key"),
        "SendGrid": (f"SG.{some(URL_SAFE, 22)}.{some(URL_SAFE, 43)}", "SendGrid key"),
        "Mailgun": ("key-" + some(HEX, 32), "Mailgun key"),
        "Mailchimp": (some(HEX, 32) + "-us12", "Mailchimp key"),
        "Brevo": (f"xkeysib-{some(HEX, 64)}-{some(LETTERS, 16)}", "Brevo key"),
        "npm": ("npm_" + some(LETTERS, 36), "npm token"),
        "PyPI": ("pypi-AgEIcHlwaS5vcmc" + some(URL_SAFE, 120), "PyPI token"),
        "RubyGems": ("rubygems_" + some(HEX, 48), "RubyGems key"),
        "Docker Hub": ("dckr_pat_" + some(URL_SAFE, 27), "Docker Hub token"),
        "DigitalOcean": ("dop_v1_" + some(HEX, 64), "DigitalOcean token"),
        "Cloudflare": ("cfut_" + some(LETTERS, 48), "Cloudflare token"),
        "Shopify": ("shpat_" + some(HEX, 32), "Shopify token"),
        "Square": ("sq0csp-" + some(URL_SAFE, 43), "Square secret"),
        "Telegram": (some("123456789", 10) + ":AA" + some(LETTERS, 33), "Telegram bot token"),
        "Discord": (f"MT{some(LETTERS, 23)}7.{some(LETTERS, 6)}.{some(LETTERS, 38)}", "Discord bot token"),
        "Databricks": ("dapi" + some(HEX, 32), "Databricks token"),
        "Vault": ("hvs." + some(URL_SAFE, 95), "Vault token"),
        "Terraform": (f"{some(LETTERS, 14)}.atlasv1.{some(LETTERS, 67)}", "Terraform token"),
        "Linear": ("lin_api_" + some(LETTERS, 40), "Linear key"),
        "Notion": ("ntn_" + some(DIGITS, 11) + some(LETTERS, 35), "Notion token"),
        "Airtable": (f"pat{some(LETTERS, 14)}.{some(HEX, 64)}", "Airtable token"),
        "Atlassian": ("ATATT3xFfGF0" + some(LETTERS, 180) + "=" + some("0123456789ABCDEF", 8), "Atlassian token"),
        "Grafana": (f"glsa_{some(LETTERS, 32)}_{some(HEX, 8)}", "Grafana token"),
        "New Relic": ("NRAK-" + some(CAPITALS, 27), "New Relic key"),
        "Sentry": ("sntrys_" + some(LETTERS, 100) + "_" + some(LETTERS, 43), "Sentry token"),
        "Figma": ("figd_" + some(LETTERS, 40), "Figma token"),
        "Postman": (f"PMAK-{some(HEX, 24)}-{some(HEX, 34)}", "Postman key"),
        "Supabase": ("sbp_" + some(HEX, 40), "Supabase key"),
        "PlanetScale": ("pscale_pw_" + some(URL_SAFE, 43), "PlanetScale token"),
        "Doppler": ("dp.pt." + some(LETTERS, 43), "Doppler token"),
        "Tailscale": (f"tskey-auth-{some(LETTERS, 17)}-{some(LETTERS, 32)}", "Tailscale key"),
        "Fly.io": ("fm2_" + some(BASE64, 120), "Fly.io token"),
        "Artifactory": ("AKCp" + some(LETTERS, 69), "Artifactory key"),
        "age": ("AGE-SECRET-KEY-1" + some("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58), "age private key"),
        "JWT": (
            ".".join([encoded('{"alg":"HS256"}'), encoded('{"sub":"1234567"}'), some(URL_SAFE, 43)]),
            "JSON web token",
        ),
    }


def surroundings() -> dict[str, tuple[str, str]]:
    """By the text around it, with § in its place, what only that text shows to be secret, and the label it gets."""
    return {
        "AWS_SECRET_ACCESS_KEY=§": (some(BASE64, 38) + "a1", "AWS secret access key"),
        "[default]\naws_secret_access_key = §\nregion = eu": (some(BASE64, 38) + "a1", "AWS secret access key"),
        "The AWS secret access key is `§`.": (some(BASE64, 38) + "a1", "AWS secret access key"),
        "DefaultEndpointsProtocol=https;AccountKey=§;Suffix=x": (some(BASE64, 86) + "==", "Azure key"),
        "Endpoint=sb://acme.example/;SharedAccessKey=§": (some(BASE64, 43) + "=", "Azure key"),
        "https://acme.blob.core.windows.net/c?se=2026-01-01&sr=b&sig=§": (some(LETTERS, 43), "Azure signature"),
        "AZURE_CLIENT_SECRET=§": (some(LETTERS, 3) + "8Q~" + some(URL_SAFE, 34), "Azure client secret"),
        "https://hooks.slack.com/§": (
            f"services/T{some(CAPITALS, 8)}/B{some(CAPITALS, 8)}/{some(LETTERS, 24)}",
            "Slack webhook",
        ),
        "https://discord.com/api/webhooks/§": (some("123456789", 18) + "/" + some(URL_SAFE, 68), "Discord webhook"),
        "git clone https://ana:§@git.acme.example/x.git": (password(), "password"),
        "DATABASE_URL=postgresql://app:§@db.internal:5432/app": (password(), "password"),
        "redis://:§@cache:6379/0": (some(LETTERS, 19) + "7", "password"),
        "Server=db;User Id=sa;Password=§;Encrypt=true": (password(), "password"),
        "host=db user=app password=§ dbname=app": (some(LETTERS, 13) + "7", "password"),
        "password = §": (password(), "password"),
        "password = '§'": (password(), "password"),
        '{"user": "ana", "password": "§", "port": 5}': (password(), "password"),
        '"{\\"password\\": \\"§\\"}"': (some(LETTERS, 15) + "7", "password"),
        "db:\n  password: §\n  port: 5432": (password(), "password"),
        "api_key: §": (some(LETTERS, 31) + "7", "API key"),
        'api_key = "§"': (some(HEX, 30) + "a7", "API key"),
        "export ACME_API_KEY=§": (some(LETTERS, 39) + "7", "API key"),
        "SECRET_KEY='§'": ("(" + some(LETTERS + "$%^&*(", 48) + "7", "key"),
        "ACME_TOKEN=§": (some(HEX, 38) + "a7", "token"),
        "HEROKU_API_KEY=§": (uuid(), "API key"),
        "Authorization: Bearer §": (some(LETTERS, 39) + "7", "bearer token"),
        "curl -H 'Authorization: Bearer §' https://acme.example": (some(URL_SAFE, 46) + "7", "bearer token"),
        "Authorization: Basic §": (encoded("ana:" + password()), "authorization header"),
        'curl -H "x-api-key: §" https://acme.example': (some(LETTERS, 31) + "7", "API key"),
        "curl -u ana:§ https://acme.example": (password(), "password"),
        "The admin password is: §": (password(), "password"),
        "The password for the guest network is §": ("Tr0ub4dor&" + some(DIGITS, 3), "password"),
        "The password is `§`.": ("hunter2" + some(DIGITS, 1), "password"),
        "Password for the staging server: §": (password(), "password"),
        "**Password**: §": (password(), "password"),
        "- **password:** `§`": (password(), "password"),
        "| password | §  |": (password(), "password"),
        "| `DB_PASSWORD` | `§` | prod |": (password(), "password"),
        "```env\nDB_PASSWORD=§\n```": (password(), "password"),
        "machine acme.example login ana password §": (password(), "password"),
        "mysql -u root --password=§ db": (password(), "password"),
        "acme login --token § --verbose": (some(LETTERS, 31) + "7", "token"),
        "https://acme.example/v1?access_token=§&x=1": (some(LETTERS, 39) + "7", "token"),
        "//registry.acme.example/:_authToken=§": (uuid(), "token"),
        'connect(host="db", password="§")': (password(), "password"),
        "'password' => '§',": (password(), "password"),
        'password := "§"': (password(), "password"),
        "<password>§</password>": (password(), "password"),
        '{"auths":{"acme.example":{"auth":"§"}}}': (encoded("ana:abc" + some(LETTERS, 13)), "registry credential"),
        "Das Passwort ist §": ("Xk7!" + some(LETTERS, 8), "password"),
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
        "password:\r\n  `§`\r\n": ("hunter2" + some(DIGITS, 1), "password"),
        "api_key:\n    §": (some(LETTERS, 31) + "7", "API key"),
        "Das Passwort lautet §": ("Sommer2024!", "password"),
        "Das Passwort lautet: §": ("Sommer2024!", "password"),
        "Le mot de passe est §": ("Sommer2024!", "password"),
        "La contraseña es §": ("Sommer2024!", "password"),
        "password: § said the log": ("hunter2", "password"),
        "token: §": (uuid(), "token"),
        "api\\_key: §": (some(LETTERS, 31) + "7", "API key"),
        "パスワード：§": (password(), "password"),
        **in_sentences(),
    }


def in_sentences() -> dict[str, tuple[str, str]]:
    """Do the same for passwords as people write them into sentences and commands."""
    word, mixed, phrase = "Sommer" + some(DIGITS, 4), "hunter2" + "hunter2", "Sommer " + some(DIGITS, 4)
    inside = {
        "The password is §": mixed,
        "My password is §.": mixed,
        "Our root password is §, do not tell": word,
        "The **password** is **§**.": word,
        "The password is now §": word,
        "The password is now: §": word,
        "The DB password is still = §": word,
        "From Monday on the password will be §": word,
        "The password was set to §": "Xy" + some(DIGITS, 2) + mixed,
        "Passwort ist §": word,
        "Das Passwort lautet §, bitte": word,
        "Le mot de passe du wifi est §": "Croissant" + some(DIGITS, 2),
        "La contraseña de la base de datos es §": "Gato_" + some(DIGITS, 4),
        "The password for Ana's laptop is §": word,
        "my password's §": password(),
        "my password’s §": word,
        "密码是 §": "Panda" + some(DIGITS, 4),
        "password:\n  §\nport: 5": word,
        'Password = "§"': "correct horse battery staple",
        'password: "§"': "two words" + some(DIGITS, 1),
        "password: “§”": phrase,
        'The wifi password is "§".': phrase,
        "login with user bob and password §": "Sup3rS3" + "cret",
        "pw: §": "S3cret" + "Word",
        "DB_PW=§": "geheim" + some(DIGITS, 4),
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
        "aws_secret_access_key=§": "/" + some(LETTERS, 38) + "7",
    }
    labels = {"aws_secret_access_key=§": "AWS secret access key"}
    return {around: (secret, labels.get(around, "password")) for around, secret in inside.items()}
