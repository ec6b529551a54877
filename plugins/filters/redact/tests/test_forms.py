"""Secrets in settings, programs, commands and headers, or with line ends and unseen characters."""

from __future__ import annotations

import base64
import re

import pytest
import sample_keys
from sample_keys import BASE64, HEX, LETTERS, draw

from kipu_filter_redact import Redact


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
