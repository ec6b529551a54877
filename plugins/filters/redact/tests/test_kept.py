"""What looks like a secret and is none stays as it is: prose, code, logs, tables and paths."""

from __future__ import annotations

import pytest

from kipu_filter_redact import Redact

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
