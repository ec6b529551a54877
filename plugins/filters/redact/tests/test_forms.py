"""Secrets in settings, programs, commands and headers, or with line ends and unseen characters; and what is kept."""

from __future__ import annotations

import base64
import re
import sys
from typing import Any

import pytest
import sample_keys
from sample_keys import BASE64, HEX, LETTERS, draw

from kipu_filter_redact import Redact, assignments, forms, places, secret, tables, tokens


def redacted(text: str) -> str:
    return Redact().filter(text, "memory/notes.md").text


def is_replaced(around: str, secret: str) -> bool:
    """Check that a placeholder replaces the secret and nothing else."""
    expected = re.escape(around).replace("§", r"\[redacted: [^\]\n]+\]")
    return re.fullmatch(expected, redacted(around.replace("§", secret))) is not None


# Where only a password can stand, so that it may have letters only.
PLACES = [
    "DB_PASSWORD=§",
    "export DB_PASSWORD=§",
    "PGPASSWORD=§ psql -h db",
    "docker run -e POSTGRES_PASSWORD=§ postgres",
    "      - POSTGRES_PASSWORD=§",
    "ENV MYSQL_ROOT_PASSWORD=§",
    "DB_PASSWORD=§ # old one",
    "DB_PASSWORD_OLD=§",
    'DB_PASSWORD="§"',
    "DB_PASSWORD='§'",
    '$env:DB_PASSWORD="§"',
    '{"user": "ana", "password": "§"}',
    '{"password":"§"}',
    '{"db_password" : "§", "x": 1}',
    "{'password': '§'}",
    '"{\\"password\\": \\"§\\"}"',
    "&quot;password&quot;: &quot;§&quot;",
    "%22password%22%3A%22§%22",
    "POSTGRES_PASSWORD: §",
    "db_password: §",
    "  user: ana\n  password: §\n",
    "  password: §\n  host: db\n",
    "- password: §\n  username: ana",
    "spring.datasource.password=§",
    "spring:\n  datasource:\n    username: app\n    password: §",
    "Server=h;Database=d;User Id=u;Password=§;",
    "Server=h;User Id=u;Pwd=§",
    "host=db user=app password=§ dbname=app",
    "jdbc:mysql://db/x?user=app&password=§",
    "https://acme.example/?user=a&password=§&x=1",
    "postgresql://app:§@db/x",
    "mongodb://root:§@mongo:27017",
    'password = "§"',
    "password: '§'",
    'password="§"',
    'passwd := "§"',
    "'password' => '§',",
    "<password>§</password>",
    "mysql --password=§ db",
    "tool --password=§",
    "[client]\nuser = root\npassword = §\n",
    "[db]\nPassword=§",
    'setPassword("§")',
    'conn.setPassword("§");',
    '.password("§")',
    '.withPassword("§")',
    'user.set_password("§")',
    'config.set("db.password", "§")',
    'props.put("password", "§");',
    'os.environ["DB_PASSWORD"] = "§"',
    'os.environ.setdefault("DB_PASSWORD", "§")',
    'setenv("DB_PASSWORD", "§", 1)',
    'System.setProperty("javax.net.ssl.keyStorePassword", "§");',
    'password = os.getenv("DB_PASSWORD", "§")',
    'password = os.environ.get("DB_PASSWORD") or "§"',
    'password: process.env.DB_PASSWORD || "§"',
    "password: process.env.DB_PASSWORD ?? '§'",
    'const p = process.env.DB_PASSWORD || "§"',
    "DB_PASSWORD=${DB_PASSWORD:-§}",
    'auth=("ana", "§")',
    "HTTPBasicAuth('ana', '§')",
    'new NetworkCredential("ana", "§")',
    'new PasswordAuthentication("ana", "§".toCharArray())',
    'smtp.login("ana@x.org", "§")',
    'new UsernamePasswordCredentials("ana", "§")',
    "CREATE USER ana IDENTIFIED BY '§';",
    "ALTER USER ana WITH PASSWORD '§';",
    "CREATE ROLE ana LOGIN PASSWORD '§';",
    "ALTER USER 'a'@'%' IDENTIFIED WITH mysql_native_password BY '§';",
    "docker login -u u -p §",
    "echo x; docker login registry.x.org -u u -p §",
    "podman login -p § -u u quay.io",
    "helm registry login x -u u -p §",
    "az acr login -n x -u u -p §",
    "oc login -u u -p § https://x",
    "mysql -uroot -p§ db",
    "mysqldump -h db -u root -p§ x > y",
    "mongosh -u root -p § --authenticationDatabase admin",
    "redis-cli -h db -a § ping",
    "ldapsearch -x -D cn=admin -w § -b dc=x",
    "sqlcmd -S db -U sa -P § -Q x",
    "keytool -list -keystore x -storepass §",
    "openssl rsa -in k.pem -passin pass:§",
    "htpasswd -b .htpasswd ana §",
    "htpasswd -cbB .htpasswd ana §",
    "smbclient //h/s -U ana%§",
    "sshpass -p § ssh a@b",
    "sshpass -p'§' ssh a@b",
    "7z a -p§ x.7z y",
    "zip -P § x.zip y",
    "unzip -P § x.zip",
    "http -a ana:§ x.org",
    "curl -u ana:§ https://x.org",
    "curl --user ana:§ https://x.org",
    'echo "ana:§" | sudo chpasswd',
    "mosquitto_sub -u ana -P § -t x",
    "xfreerdp /u:ana /p:§ /v:h",
    "evil-winrm -i h -u a -p §",
    "nxc smb h -u a -p §",
    "mongodump --host h -u a -p=§",
    "DB_PASSWORD = §",
    "- name: DB_PASSWORD\n  value: §",
    '        - name: POSTGRES_PASSWORD\n          value: "§"',
    '{"name": "DB_PASSWORD", "value": "§"}',
    '{"key": "password", "value": "§"}',
    'name = "DB_PASSWORD"\nvalue = "§"',
    '<property name="password" value="§"/>',
    '<add key="Password" value="§" />',
    '<input name="password" value="§">',
    "db:5432:app:ana:§",
    "*:*:*:ana:§\n",
    "h ansible_ssh_pass=§ ansible_user=x",
    "password=§&user=a",
    "user=a&password=§",
    'curl -d "password=§" x',
    "curl -d 'user=ana&password=§' x",
    "curl -F password=§ x",
    "curl --data-urlencode 'password=§' x",
    "setenv DB_PASSWORD §",
    "ENV DB_PASSWORD §",
    "setx DB_PASSWORD §",
    'ConvertTo-SecureString "§" -AsPlainText -Force',
    "CREATE USER ana PASSWORD '§'",
    "database:\n  password: §\n",
    'The password is "§".',
    "Password: `§`",
    "The password is `§`",
    'network={\n ssid="x"\n psk="§"\n}',
    "wpa_passphrase=§",
    "| user | password |\n|---|---|\n| ana | § |\n",
    "password: “§”",
    "`DB_PASSWORD=§`",
    "> DB_PASSWORD=§",
    "* DB_PASSWORD=§",
    "1. DB_PASSWORD=§",
    "set DB_PASSWORD=§",
    "DB_PASSWORD=§;",
    "DB_PASSWORD=§ NODE_ENV=prod npm start",
    "env DB_PASSWORD=§ ./run",
    "DB_PASSWORD='§' ./x",
    'declare -x DB_PASSWORD="§"',
    "db.password=§",
    "db.password: §",
    "password=§\nuser=ana",
    "username=ana\npassword=§",
    "user: ana\npass: §",
    "username: ana, password: §",
    "user=ana, password=§",
    '{"Password":"§"}',
    '{"credentials":{"username":"ana","password":"§"}}',
    "{password:'§'}",
    '{ password: "§" }',
    "new Client({ user: 'ana', password: '§' })",
    "Client(user='ana', password='§')",
    "password = u'§'",
    'password = b"§"',
    "password = r'§'",
    'password = f"§"',
    "password := `§`",
    "const PASSWORD = '§';",
    "let password: string = '§';",
    'password: str = "§"',
    'let password: &str = "§";',
    'const PASSWORD: &\'static str = "§";',
    'char pass[] = "§";',
    'static const char password[32] = "§";',
    'pw="§"',
    "auth: { user: 'ana@x.org', pass: '§' }",
    "ALTER LOGIN ana WITH PASSWORD = N'§';",
    "SET PASSWORD FOR 'ana'@'%' = PASSWORD('§');",
    "mvn -Ddb.password=§ test",
    "requirepass §",
    "redis-server --requirepass §",
    "echo § | sudo -S apt update",
    "echo '§' | sudo -kS apt update",
    "echo § | docker login -u ana --password-stdin",
    'private static final String PASSWORD = "§";',
    'String dbPassword = "§";',
    "var passwd = '§'",
    '#define PASSWORD "§"',
    "define('DB_PASSWORD', '§');",
    "$config['password'] = '§';",
    "$db_password = '§';",
    'config.password = "§"',
    'self.password = "§"',
    "options[:password] = '§'",
    'password: "§" # x',
    "spring.datasource.password=§",
    'POSTGRES_PASSWORD: "§"',
    "      POSTGRES_PASSWORD: '§'",
    "MYSQL_PWD=§",
    "RABBITMQ_DEFAULT_PASS=§",
    "SMTP_PASS=§",
    "ADMIN_PW=§",
    "password => '§'",
    "CREATE USER ana WITH ENCRYPTED PASSWORD '§'",
    "mysql -h db -u ana --password='§'",
    'psql "postgresql://ana:§@db/x"',
    "ftp://ana:§@h",
    "amqp://ana:§@h",
    "wget --user=ana --password=§ x",
    "wget --http-password=§ x",
    "svn co x --username ana --password §",
    "curl -u 'ana:§' x",
    'curl --user "ana:§" x',
    "curl -uana:§ x",
    "curl x -u ana:§",
    "curl --proxy-user ana:§ x",
    "docker login -u=ana -p=§ x",
    "docker login --username ana --password § x",
    "az login -u ana -p '§'",
    "echo ana:§ | chpasswd",
    "openssl enc -k § -in x",
    "openssl enc -aes-256-cbc -pass pass:§",
    "gpg --passphrase=§ x",
    "ansible-playbook x -e ansible_password=§",
    "ansible-playbook x -e 'db_password=§'",
    "kubectl create secret generic x --from-literal=password=§",
    "helm install x --set postgresql.auth.password=§",
    "helm install --set auth.rootPassword=§,x=y z",
    "terraform apply -var 'db_password=§'",
    "export TF_VAR_db_password=§",
    "docker run -e DB_PASSWORD='§' x",
    "docker run --env DB_PASSWORD=§ x",
    "mount -t cifs -o username=ana,password=§ x y",
    "mount -o user=ana,pass=§ x",
    "xfreerdp /u:ana /p:§",
    "rdesktop -u ana -p § h",
    "Login: ana\nPassword: §\n",
    "- user: `ana`\n- password: `§`\n",
    "**Password:** `§`",
    "Password: **§**\nUser: ana",
    "<Password>§</Password>",
    "<password>§</password>",
    '<db password="§"/>',
    '<entry key="password">§</entry>',
    '<string name="password">§</string>',
    '<param name="password">§</param>',
    'My password: "§"',
    "password is '§'",
    "the wifi password is “§”",
    "Passwort: „§“",
    'Das Passwort ist "§".',
]


@pytest.mark.parametrize("around", PLACES)
@pytest.mark.parametrize(
    "word", ["swordfish", "correcthorsebatterystaple", "Swordfish", "correct-horse-battery-staple"]
)
def test_a_password_of_letters_is_replaced_where_only_a_password_can_stand(around, word):
    assert is_replaced(around, word)


# Names that begin with the letters of a word such as "use", "no" or "min".
NAMES = (
    "USER NODE NODE_DB NOTION HASURA MINIO_ROOT MINIO MAXMIND NOMAD ISSUER USERS_DB SHOWCASE ERP NEXTCLOUD_ADMIN MYSQL "
    "MINECRAFT_RCON NODERED NOVA HASHICORP CHECKMK EMPTYDB TYPESENSE TYPEORM FIELDGLASS MAXSCALE VERIFY_DB ISCSI "
    "RESETTER BADGER WEAKLY USENET ERRBIT NOREPLY_MAIL NORDVPN ISPCONFIG INPUT REDIS HASH_DB APP_USER DB_USER "
    "MASTER_USER LABELSTUDIO MSGRAPH GRANTS_DB MYSQL_USER NO_REPLY MAX_MIND CHECK_MK"
).split()


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_begins_like_a_word_is_a_name(name):
    upper, lower = f"{name}_PASSWORD", f"{name}_password".lower()
    for around in (f"{upper}=§", f"export {upper}=§", f"{upper}: §", f'{upper}="§"', f"{lower}: '§'"):
        assert is_replaced(around, "swordfishmonger")
    assert is_replaced(f"tool --{lower.replace('_', '-')}=§", "swordfishmonger")


@pytest.mark.parametrize(
    "text",
    [
        *('use_password: "sometimes"', "NO_PASSWORD=swordfish", '"invalid_user_password": "Falsch"'),
        *('"isPassword": "sometimes"', '"errors_password": "Falsch"', "verify_password: 'sometimes'"),
    ],
)
def test_the_name_of_a_message_or_switch_has_no_password(text):
    assert redacted(text) == text


# Passwords with the signs of a call, an index, an attribute, a path or a URL.
LIKE_REFERENCES = [
    *("Sommer.Regen2026", "Winter.Tulip.Sonne72", "kT7{mQ2#vB9x", "y7(zne6=XV:}~Cv", "b8[m9H=/.g:?bV2m"),
    *("f9OgXluCZz8x.BfZ", "kT7(mQ2#vB9x", "Passw0rd[1]x!", "abc:/Tr0ub!x9", "/Mg7wukPu9Of/TBosN9x", "{kT7}mQ2#vB9x"),
]


@pytest.mark.parametrize("password", LIKE_REFERENCES)
@pytest.mark.parametrize("around", ["DB_PASSWORD=§", 'DB_PASSWORD="§"', '{"password": "§"}', "password: '§'"])
def test_a_strong_password_is_no_reference(around, password):
    assert is_replaced(around, password)


@pytest.mark.parametrize(
    "around", ['{"password": "§",', 'DB_PASSWORD="§"', "db_password: '§'", "postgresql://ana:§@db/x"]
)
def test_generated_passwords_are_replaced_with_all_their_signs(around):
    signs = "!#$%&()*+,-.:;=?[]^_{|}~"
    draws = [draw(BASE64.replace("/", "") + signs, 16) for _ in range(1000)]
    assert sum("[redacted" not in redacted(around.replace("§", password)) for password in draws) <= 10


def test_a_key_with_dots_is_no_attribute():
    part = draw(LETTERS, 20) + "aB3dE5"
    assert is_replaced("X-Vault-Token: §", f"s.{part}")
    assert is_replaced('token = "§"', f"{part}.atlasv1.{part[::-1]}")


def test_a_telegram_token_is_replaced_in_its_url():
    token = sample_keys.tokens()["Telegram"][0]
    assert is_replaced("https://api.telegram.org/bot§/sendMessage", token)


# Values in the next line, in encoded text, after a suffix, beside a user.
PASSWORDS = [
    "password\n§",
    "Password\n\n§\n",
    "**Password**\n§",
    "Username\nana\nPassword\n§\nURL",
    "## Wifi password\n\n`§`",
    "password%3A%20§",
    "password%3D§",
    "credentials: ana / §",
    "login: ana:§",
    "creds ana:§",
    "pass\u200bword: §",
    "password: §",
    "password: |\n  §\n",
    "password: >-\n    §",
    "DB_PASSWORD_OLD=§",
    "DB_PASSWORD_BAK: §",
    "db-password-prod: §",
    "password = os.environ.get('X', '§')",
    "pass-word: §",
    "passwordOld = '§'",
    '"password":\n    "§"',
    "ana:§@10.0.0.1",
    "ssh ana:§@db.acme.example",
    "| user | password |\n|---|---|\n| ana | § |\n| bob | x |",
    "Name;Passwort\nana;§\n",
    "user\tpassword\nana\t§",
    "user, password\nana, §\n",
    "| Host | DB password | Note |\n|:--|--:|---|\n| a | `§` | b |\n",
    "ｐａｓｓｗｏｒｄ：§",
    "password §",
    "pwd: §",
    "pw=§",
    "pass=§",
    "login ana, password §",
    "ana's password: §",
    "password?\n§",
    "Q: password?\nA: §",
    "Password:\n\n§",
    "Password:\n\n    §",
    "password:\t§",
    "password  §",
    "user ana pass §",
    "use § as password",
    "§ is the password",
    "with password §",
    "new password: §",
    "I set the password to §",
    "changed password to §",
    "passcode §",
    "password(§)",
    "password[§]",
    "pass\xadword: §",
    "password\\: §",
    '"password\\":\\"§"',
    "password：§",
    "password﹕§",
    "password꞉ §",
    "password ∶ §",
    "password ⇒ §",
    "password»§",
    "password ~ §",
    "password ; §",
    "password, §",
    "password . §",
    "password | §",
    "password... §",
    "password—§",
    "password\xa0§",
]


@pytest.mark.parametrize("around", PASSWORDS)
def test_a_password_is_replaced_wherever_its_name_is(around):
    assert is_replaced(around, "Tr0ub4dor&" + draw(LETTERS, 3))


# Headers, cookies, calls and names of keys.
KEYS = [
    "Authorization: ApiKey §",
    "authorization: ApiKey §",
    "Authorization: Token token=§",
    'Authorization: Token token="§"',
    "Authorization: GenieKey §",
    "Authorization: Splunk §",
    "'Authorization': 'SSWS §'",
    '"Authorization": "Bot §"',
    "-H 'Authorization: Key §'",
    "Proxy-Authorization: Custom §",
    'headers["Authorization"] = "ApiKey §"',
    'setHeader("Authorization", "ApiKey §")',
    "Cookie: session=§",
    "Cookie: theme=dark; session=§; lang=en",
    "Set-Cookie: sid=§; Path=/; HttpOnly",
    "curl -b 'session=§' x",
    "curl --cookie session=§ x",
    "PHPSESSID=§",
    "JSESSIONID=§",
    "'Cookie': 'session=§'",
    "Ocp-Apim-Subscription-Key: §",
    "token §",
    "The token § is old",
    "API key\n§",
    "api_key:\n  §",
    'setApiKey("§")',
    "client.token('§')",
    'os.environ["ACME_TOKEN"] = "§"',
    'config.set("api_key", "§")',
    "API_KEY_OLD=§",
    "api-key-2: §",
    'token = os.getenv("X", "§")',
    "- name: API_TOKEN\n  value: §",
    "| service | token |\n|---|---|\n| a | § |",
    "api key is §",
    "API-Key: §",
    "apikey=§",
    "x-api-key: §",
    "X-Auth-Token: §",
    "X-Vault-Token: §",
    "PRIVATE-TOKEN: §",
    "access_token=§",
    "refresh_token: §",
    "id_token=§",
    "client_secret=§",
    "client-secret: §",
    "consumer_secret: §",
    "app_secret: §",
    "webhook_secret: §",
    "signing_secret: §",
    "SECRET=§",
    "TOKEN: §",
    "token=§",
    "auth_token: §",
    "bearer §",
    "Bearer: §",
    "session_token=§",
    "sessionid=§",
    "DSN: https://§@sentry.io/1",
    "https://x.org/?key=§",
    "https://x.org/?apikey=§&a=b",
    "https://x.org/?token=§",
    "https://x.org/?access_key=§",
    "secret key §",
    "the secret is §",
    "license key: §",
    "encryption key: §",
    "Authorization: §",
    "authorization=§",
    "Authorization Bearer §",
    '-H "Authorization: token §"',
    "headers={'Authorization': f'Bearer §'}",
    'headers = {"X-Api-Key": "§"}',
    'req.Header.Set("Authorization", "Bearer §")',
    "req.setRequestHeader('X-Api-Key', '§')",
    "axios.defaults.headers.common['Authorization'] = 'Token §'",
    'openai.api_key = "§"',
    "stripe.api_key='§'",
    "new OpenAI({apiKey: '§'})",
    "OpenAI(api_key='§')",
    'Client.builder().apiKey("§").build()',
    "boto3.client('s3', aws_secret_access_key='§')",
    "AccountKey=§",
    "SharedAccessKey=§",
]


@pytest.mark.parametrize("around", KEYS)
def test_a_key_is_replaced_in_headers_calls_and_settings(around):
    assert is_replaced(around, draw(HEX, 30) + "a7")


ID = "AKIA" + draw(sample_keys.CAPITALS, 16)
PAIRS = [
    *("{id}:§", "{id} §", "{id}\n§", "| {id} | § |", "key id {id} and secret §", "Access key ID,Secret key\n{id},§"),
    *('new BasicAWSCredentials("{id}", "§")', 'AwsBasicCredentials.create("{id}", "§")', "{id} / `§`"),
]


@pytest.mark.parametrize("around", PAIRS)
def test_a_key_beside_its_id_is_replaced(around):
    key = draw(BASE64, 37) + "aB1"
    placeholder = "[redacted: AWS secret access key]"
    assert redacted(around.format(id=ID).replace("§", key)) == around.format(id="[redacted: AWS access key]").replace(
        "§", placeholder
    )
    # In a text whose id was replaced before.
    assert key not in redacted(around.format(id="[redacted: AWS access key]").replace("§", key))
    assert is_replaced("0oa" + draw(HEX, 16) + "7:§", draw(LETTERS, 30) + "aB1")


def test_a_hash_beside_an_id_is_kept():
    commit = draw(HEX, 40)
    assert redacted(f"{ID} {commit}") == f"[redacted: AWS access key] {commit}"


@pytest.mark.parametrize("mark", ["old", "OLD", "new", "bak", "backup", "prod", "test", "revoked"])
@pytest.mark.parametrize("sign", "_-")
def test_a_key_with_a_mark_of_its_state_is_replaced(mark, sign):
    for key in (ID, sample_keys.tokens()["Groq"][0]):
        assert is_replaced(f"§{sign}{mark}", key)
        assert is_replaced(f"the {mark}{sign}§.", key)
        assert redacted(f"x{sign}{ID}{sign}{mark}y") == f"x{sign}{ID}{sign}{mark}y"
    assert is_replaced("§+", sample_keys.tokens()["OpenAI project"][0])
    assert is_replaced(f"DB_PASSWORD_{mark.upper()}=§", "swordfish") or mark == "revoked"


GITHUB = sample_keys.tokens()["GitHub"][0]
UNSEEN = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u061c\u180e\u202e\u2066\ufe0f\u3164\U000e0061"


@pytest.mark.parametrize("sign", UNSEEN)
def test_unseen_characters_hide_no_secret(sign):
    assert is_replaced("a § b", GITHUB[:9] + sign + GITHUB[9:])
    assert is_replaced("a § b", sign.join(GITHUB))
    assert is_replaced(f"pass{sign}word = §", "hunter" + sign + "2hunter2")
    assert redacted(f"a{sign}b") == f"a{sign}b"


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\n  ", "\n> ", "\\\n"])
@pytest.mark.parametrize("before", ["", "token ", "- deployed with ", "Deployed\n", "0123456789\n"])
@pytest.mark.parametrize("after", ["", " and more", "\nAnd then", "\nand\nmore"])
def test_a_line_end_hides_no_key(line_end, before, after):
    for key in (ID, GITHUB):
        ends = "".join(letter for letter in line_end if letter in "\r\n")
        text = f"{before}{key[:12]}{line_end}{key[12:]}{after}"
        label = "AWS access key" if key is ID else "GitHub token"
        assert redacted(text) == f"{before}[redacted: {label}]{ends}{after}"
    web_token = sample_keys.tokens()["JWT"][0]
    assert redacted("\n".join(web_token[i : i + 20] for i in range(0, len(web_token), 20))).count("\n") >= 3
    assert redacted(f"{GITHUB}\nAnd then") == "[redacted: GitHub token]\nAnd then"


def test_a_login_in_base_64_is_replaced():
    assert is_replaced("Basic §", base64.b64encode(b"ana:swordfish").decode())
    assert redacted("Basic authentication, basic functionality") == "Basic authentication, basic functionality"


def test_wide_letters_hide_no_secret():
    wide = {code: 0xFEE0 + code for code in range(0x21, 0x7F)}
    assert is_replaced("password: §", "hunter2hunter2".translate(wide))
    assert is_replaced("§", GITHUB.translate(wide))
    assert redacted("ＡＢＣ：１２３") == "ＡＢＣ：１２３"


def test_a_key_in_base_64_is_replaced():
    encoded = base64.b64encode(f"token={GITHUB}\n".encode()).decode()
    assert is_replaced("data:\n  file: §\n", encoded)
    image = draw(BASE64, 4000)
    assert redacted(image) == image


# One in each line, and all of them as one text.
KEPT = r"""
The password is in the vault. password: see the vault
Password: see the vault
password=os.environ["X"]
password = os.environ["DB_PASSWORD"]
password = os.environ.get("DB_PASSWORD")
password = os.getenv("DB_PASSWORD", "")
self.password = password1
this.dbPassword = password1;
password: process.env.DB_PASSWORD2!
password: os.environ/REDIS_PASSWORD
password: vault:secret/data/db#password2
password = settings.db.password
password = settings.db2.password2
password = config["password"]
{block:"error",pass:"success",logged:"warning"}
pass in the model, completion(model="together_computer/replit_code_3b")
"text": "var password = document.getElementById(\"password2\");"
"output_token": "Shards[-1].ShardId2",
"output_token": "Jobs[-1].JobId",
token: ReadOnly[_CP4DTokenBody]
password = get_secret("x")
"password": "settings.db.password2"
"password": "get_secret(name2)"
password: z.string().min(8).max(64)
password: Joi.string().regex(/^[a-z0-9]{3,30}$/)
password = random_password.db2.result
password = generate_password(length=24)
password = hashlib.sha256(b"x").hexdigest()
password = decrypt(data[2:], key)
logger.info(f"password={pw1!r} {password2}")
password: ${VAR}
DB_PASSWORD=${DB_PASSWORD}
DB_PASSWORD=${DB_PASSWORD:-changeme}
DB_PASSWORD=$DB_PASSWORD
DB_PASSWORD=<your-token>
DB_PASSWORD=your-password
DB_PASSWORD=changeme
DB_PASSWORD=
DB_PASSWORD=xxxxxxxx
DB_PASSWORD=********
DB_PASSWORD="$(pass show db)"
DB_PASSWORD=$(cat /run/secrets/db)
DB_PASSWORD_FILE=/run/secrets/db
PASSWORD_RESET_URL=https://acme.example/reset
token = get_token()
token = get_token(user)
token: <your-token>
password = getpass.getpass()
password = getpass("Password: ")
password = input("Enter the password: ")
password = user.password
self.password = password
self.password = new_password
user = User(username=username, password=password)
user = User(
    username=username,
    password=password,
    host=host
)
username: str
password: str
  username: string;
  password: string;
  username: string
  password: string
username: String
password: String
username: required
password: required
type: password
"type": "password"
<input type="password" name="password" placeholder="Password" autocomplete="current-password">
<label for="password">Password</label>
<PasswordField source="password" label="Password" />
input[type="password"]:focus { color: #3f2a9c; }
.password-field { background: url(data:image/png;base64,iVBORw0KGgo=); }
.token.keyword { color: #07a; } .token.string { color: #690; } .token.operator{background:hsla(0,0%,100%,.5)}
#password:hover{border-color:#1a2b3c}
commit 3f2a9c4be1d07f5a6b8c9d0e1f2a3b4c5d6e7f80
Fixed in 3f2a9c4, see 3f2a9c4be1d07f5a6b8c9d0e1f2a3b4c5d6e7f80.
id: 123e4567-e89b-12d3-a456-426614174000
request 123e4567-e89b-12d3-a456-426614174000:9f86d081884c7d659a2feaa0c55ad015
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
image: acme/app:1.2.3@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
"integrity": "sha512-Xk2fQ9vLm3Rt8Yb1Nc6Zw4Hs7Jd5Xk2fQ9vLm3Rt8Yb1Nc6Zw4Hs7Jd5=="
2001:0db8:85a3:0000:0000:8a2e:0370:7334 and 00:1B:44:11:3A:B7
Passwords need twelve characters. We chose passphrases over passwords.
Password rules: at least 12 characters
Password policy: rotate every 90 days
Password manager: Bitwarden
Password hashing: argon2id with 3 iterations
Password reset: broken since Tuesday
The password field is required.
The password was rotated on Monday.
The password is stored hashed.
The password is swordfish
password: swordfish
Password: swordfish, says the joke
Das Passwort ist im Tresor. Passwort: siehe Tresor
Le mot de passe est dans le coffre. Mot de passe : voir le coffre
La contraseña está en el gestor. Contraseña: ver gestor
пароль в хранилище. Пароль: смотри хранилище
密码在保险箱里。密码：见保险箱
パスワードは金庫にあります。パスワード：金庫を見る
비밀번호는 금고에 있습니다
हम पासवर्ड तिजोरी में रखते हैं
"password": "string"
"password": "Password"
"password": "Passwort"
"password": "Wachtwoord"
"password": "Mot de passe"
"password": "required|min:8"
"password": "hidden"
"password": "********"
"password": "<redacted>"
"password": "${DB_PASSWORD}"
"password": "{{ password }}"
"password": "%s"
"password": null
"password": true
"password": ["too short"]
"forgotPassword": "Forgotten"
"resetPassword": "Resetting"
"invalid_password": "Falsch"
"passwordRequired": "Pflichtfeld"
"change_password": "Kennwortwechsel"
INVALID_PASSWORD = "invalid_password"
GRANT_PASSWORD = "password"
CONF_PASSWORD = "password"
SHOW_PASSWORD="never"
PASSWORD_FIELD = "password_field"
fields = ["username", "password", "email"]
for field in ("user", "password", "address", "remember"):
re.sub("password", "secret", text)
getattr(user, "password", None)
assert "password" in errors
if password == other:
if (password !== confirmation) {
password_hash = hash_password(password)
hash_password("whatever")
verify_password(password, hashed)
set_password(request.POST["password"])
user.setPassword(password)
setPassword(newPassword)
.setPassword("new-password")
validate_password(value)
def login(username: str, password: str) -> Token:
function login(username, password) { return fetch("/login", {method: "POST"}) }
password => bcrypt(password)
'password' => Hash::make($request->password),
'password' => bcrypt($data['password']),
password: Yup.string().required("Required"),
password: z.string().min(8),
password: faker.internet.password(),
docker run -p 8080:80 nginx
docker login -u u --password-stdin
docker login
docker login -u u -p $TOKEN ghcr.io
docker login -u u -p "$CR_PAT"
mysql -u root -p database
mysql -u root -p < dump.sql
mysql -P 3306 -h db
mongosh --port 27017
ssh -p 2222 ana@host
mkdir -p some/folder/deep
cp -p one two
unzip archive.zip -d target
zip -r archive.zip folder
redis-cli -h db -p 6379 ping
ldapsearch -x -b dc=acme
curl -u ana https://acme.example
curl -u "$USER:$PASSWORD" https://acme.example
http GET acme.example Authorization:"Bearer $TOKEN"
Authorization: Bearer <token>
Authorization: Bearer $TOKEN
Authorization: ApiKey <your key>
Authorization: Bearer {token}
Authorization: the server checks each request.
Authorization is a header. Authorization and authentication differ.
Set-Cookie: theme=dark; Path=/
Cookie: consent=yes; lang=en-GB; theme=solarized-dark
The cookie expires at midnight. Cookie settings: strict
cookie = request.cookies.get("session")
document.cookie = "name=" + value
Add a cookie recipe: butter=100g; sugar=50g
session=requests.Session()
We bake cookies: 3 cups of flour
credentials: see the vault
credentials: include
login: ana/team
credentials=same-origin
auth=("user", "password")
auth=("user", "pass")
HTTPBasicAuth(user, password)
login("ana", password)
CREATE USER ana IDENTIFIED BY 'password';
GRANT ALL ON x TO ana;
Server=h;Database=d;User Id=u;Password=<password>;
Server=h;Database=d;Trusted_Connection=True;
jdbc:postgresql://db/x?user=app&password=${PASSWORD}
https://acme.example/reset?token=<token>
https://acme.example/login?next=/password/change
Passwords and tokens are removed.
The token limit is 4096. tokens: 128000
token count 12345678901234567890
the secret sauce of the secretary
next token probabilities, token ids [1, 2, 3]
API key: ask Ana
API keys are in 1Password.
api_key: str | None = None
api_key=api_key
api_key = config.api_key
keyboard: layout-de-2024
primary key: customer_id_2024_11
public key: 3f2a9c4be1d07f5a6b8c9d0e1f2a3b4c5d6e7f80
session key: see RFC 8446
host: localhost
user: root
database: app
Password

Forgot-Password?
Password
Show password
Token
https://acme.example/token
## Password

We rotate it.
# Secret
Ana told me.
Username
ana
Password
in the vault
A SHA 3f2a9c4be1d07f5a6b8c9d0e1f2a3b4c5d6e7f80 near ASIA and AKIA.
This word ghp_ is a prefix.
The prefix `sk-proj-` is that of OpenAI keys
and ghp_ or github_pat_ that of GitHub.
[link to the password page](https://acme.example/password)
password_policy: strict-2024
passwordPolicy: "strong"
token_type: bearer
"token_type": "bearer"
grant_type=password&client_id=app
pass: 42, fail: 3
Bypass: enabled
passport: D1234567
compass: north
AUTH_TOKEN_TTL=3600
SECRET_NAME=prod/db
KEY_VAULT=acme-vault
TOKEN=$(gh auth token)
GITHUB_TOKEN=${{ secrets.GITHUB_TOKEN }}
secrets: inherit
secret: db-credentials
secretKeyRef: {name: db-credentials, key: password}
existingSecret: db-credentials
imagePullSecrets: [regcred]
password: !vault |
password: !secret db_password
password: ENC[AES256_GCM,data:abc]
password: { get_param: db_password }
password: *default_password
password: &default_password
password_encryption: scram-sha-256
ansible_password: "{{ vault_password }}"
db_password: "{{ lookup('env', 'DB_PASSWORD') }}"
REDIS_PASSWORD: ${REDIS_PASSWORD:?required}
POSTGRES_PASSWORD: ${POSTGRES_PASSWORD}
POSTGRES_PASSWORD: required
POSTGRES_PASSWORD_FILE: /run/secrets/db-password
--password=PASSWORD
--password <password>
--password TEXT  The password of the database.
-p, --password  The password
Use --password instead of -p.
--token TOKEN  Token to use
x = password or "default"
const password = process.env.PASSWORD || "";
const password = process.env.PASSWORD ?? undefined;
password = config.get("password", "")
os.environ.setdefault("PASSWORD", "required")
environ.get("TOKEN", "missing")
props.put("password", password);
translate("password", "Passwort")
t("login.password", "Kennwort")
label(for="password", class="form-label")
register("password", Password)
path("password/", PasswordView.as_view(), name="password")
path("reset-password", "reset-password-view")
switch (field) { case "password": return "lock-icon"; }
"password": "fa-lock-open"
icon_for = {"password": "lock-outline", "email": "envelope"}
<string name="password">Kennwort</string>
<password>required</password>
<xs:element name="password" type="xs:string"/>
msgid "Password"
msgstr "Passwort"
password=password password=Password
kubectl create secret generic db --from-literal=password=$PW
gcloud auth print-access-token
the key ring, the key finding: recall rose from 0.41 to 0.47
""".strip().split("\n")
KEPT_LINES = [
    "username: str\npassword: str\n",
    "host: string\npassword: string\n",
    "user: required\npassword: optional\n",
    "user:\n  type: string\npassword:\n  type: string\n",
    "Password\n\nForgot-Password?\n",
    "# Password\n\nrotated2026 by Ana\n",
    "Token\nhttps://acme.example/token\n",
    "email: email,\npassword: password,\n",
    "email: this.email,\npassword: this.password,\n",
    "user: input\npassword: values\n",
    "  - username\n  - password\n  - hostname-2\n",
    "Account: ana\nPassword: in 1Password\n",
    "Login: ana\nPassword: ask Ana\n",
    "user: User\npassword: SecretStr\n",
    "user: str = Field()\npassword: SecretStr = Field()\n",
    "Server: db1\nPassword: unchanged\n",
    "The prefix ghp_\nis that of GitHub tokens and sk-\nthat of OpenAI.",
    "export const a = 'sk-'\nconst b = 1234567890\n",
]

# A text of tables and settings.
KEPT_TABLES = r"""
| user | password | role |
|---|---|---|
| ana | in the vault | admin |
| bob | unchanged | admin |
| eve | required | x |
| tom | hashed | x |
| max | - | x |

| field | type |
|---|---|
| password | string |
| token | string |

| Endpoint | Token | Notes |
|---|---|---|
| /v1 | bearer | SHA256 |
| /v2 | JWT | see RFC 7519 |

user,password,token
The users, passwords, and tokens are stored elsewhere.
name, password, and more
The name, the password, the token
The password is "required".
The password is `None`. The password is `str`. The password is `hashed`.
Password: `string`
password: `nullable`
The password is `password_hash`.
name: password
value: string
- name: password
  type: string
- name: DB_PASSWORD
  valueFrom:
    secretKeyRef: x
- name: DB_PASSWORD
  value: $(DB_PASSWORD)
- name: DB_PASSWORD
  value: "{{ .Values.password }}"
{"name": "password", "value": ""}
<input name="password" value="">
<input name="password" value="{{ password }}">
<option name="password" value="password">
properties:
  password: string
  password: required
Fields:
  password: optional
image: acme:1.2@sha256:abc
mail ana:Ana.Smith@x.org or email:ana2024@x.org
git@github.com:acme/app.git
Basic authentication and basic functionality are described.
Basic ABCDEFGHIJKL
main.py:12:5:E501:Line
setenv PASSWORD $X
ENV PASSWORD
The psk is in the vault. psk=WPA2
TIMEOUT = retry
PASSWORD = None
PASSWORD = settings
PASSWORD = getpass
psql postgres password prompt
"""


@pytest.mark.parametrize("text", [*KEPT, *KEPT_LINES, "\n".join(KEPT), KEPT_TABLES])
def test_what_is_no_secret_is_kept(text):
    filtered = Redact().filter(text, "memory/notes.md")
    assert (filtered.text, list(filtered.notices)) == (text, [])


# --- The cost --------------------------------------------------------------------------------------------------------


def patterns() -> list[str]:
    """Return all patterns that are searched for in a whole text, or from a place in it."""
    found = [kind.pattern for kind in tokens._KINDS]
    found += [pattern for form in forms._FORMS for pattern in (form.pattern, form.parts, form.before)]
    for module in (assignments, places, secret, tables, tokens):
        found += [value.pattern for value in vars(module).values() if isinstance(value, re.Pattern)]
    return found


def unbounded(parsed: Any) -> list[Any]:
    """Return the repetitions of a parsed pattern that have no limit, and can give back what they matched."""
    found = []
    for operator, argument in parsed:
        if str(operator) in ("MAX_REPEAT", "MIN_REPEAT") and argument[1] == re._parser.MAXREPEAT:  # type: ignore[attr-defined]
            found.append(argument)
        for part in argument if isinstance(argument, (list, tuple)) else ():
            for inner in part if isinstance(part, list) else [part]:
                if isinstance(inner, re._parser.SubPattern):  # type: ignore[attr-defined]
                    found += unbounded(inner)
    return found


def test_no_pattern_repeats_without_limit():
    # The work within a pattern cannot be counted. With limits, it does not depend on the length of the text.
    assert [p for p in patterns() if unbounded(re._parser.parse(p, re.VERBOSE if "\n" in p else 0))] == []  # type: ignore[attr-defined]


def calls_to_filter(text: str) -> int:
    """Return how many functions are called to filter a text, those of Python and of C."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        Redact().filter(text, "memory/notes.md")
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "a=",
            '"',
            ":",
            "a1B2",
            "\u200b",
            "\\_",
            "\n",
            "a\n",
            "ghp_a\n",
            "password\n",
            "password: |\n",
            "a|password|b\n",
            "|password|",
            "user,password\n",
            "DB_PASSWORD=swordfish ",
        ),
        *(
            "user: a\npassword: swordfish\n",
            '{"password": "swordfish"}',
            'setPassword("',
            'set("password", "',
            "${PASSWORD:-",
        ),
        *(
            'password = os.getenv("X", "',
            'auth=("a", "',
            "cookie: a=b1c2d3e4b1c2d3e4; ",
            "docker login -p ",
            "curl -b ",
        ),
        *(
            "credentials a/",
            "authorization: a ",
            f"{ID} ",
            f"{ID}:",
            "a1a1a1a1a1a1a1a1:",
            "identified by '",
            "%22password%22%3A",
        ),
        base64.b64encode(f"{GITHUB}..".encode()).decode(),
    ],
)
def test_the_work_does_not_grow_faster_than_the_text(unit):
    calls_to_filter(unit * 10)  # patterns are compiled once
    length = 20_000 // len(unit)
    assert calls_to_filter(unit * length * 2) <= 2.1 * calls_to_filter(unit * length) + 100


@pytest.mark.parametrize(
    "text",
    [
        "apt\tbase-passwd\t3.6.1\napt\tbinutils\t2.40-2\napt\tgoogletest\t1.12.1\n",
        "apt,libc6,2.36\napt,libpam-passwd,1.2\napt,iproute2,6.1.0\n",
        "name\tpackage\napt\tpasswd\napt\te2fsprogs1\n",
        "arn:aws:secretsmanager:us-west-2:123456789123:secret:prod/db-a1B2c3",
        '"SecretArn": "arn:aws:secretsmanager:us-west-2:123456789123:secret:proxysecret1-Abcd1e"',
        "Token::Number(1.5)",
        "Password::min(8)->letters()",
        "SecretKey::from_slice(&buf[0..32])?",
        "ApiKey::parse_v2(raw)?",
    ],
)
def test_a_row_a_resource_and_a_path_with_two_colons_stay(text):
    assert Redact().filter(text, "memory/a.md").text == text
