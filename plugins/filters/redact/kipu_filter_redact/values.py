"""Checks that tell whether a value named as a password, key or token is a secret or a reference, word or example."""

from __future__ import annotations

import re

from .references import is_reference

__all__ = [
    "is_code",
    "is_key",
    "is_key_in_header",
    "is_key_in_prose",
    "is_likely_password",
    "is_named_password",
    "is_password_in_prose",
    "is_plain_password",
    "is_short_key",
    "is_signed_word",
    "is_unmistakable",
    "is_words",
    "may_be_secret",
]

_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_SPACE = re.compile(r"\s")
_SIGN = re.compile(r"[\W_]")
_WORDS = re.compile(r"(?:(?:[^\W\d_]+\d{0,4}|(?:\d{1,2}x)?\d{1,8}[^\W\d_]{0,2})(?:[-_./:]|$))+")
_PLAIN = re.compile(r"[^\W\d_]+|\d{1,5}")
_SEPARATORS = re.compile(r"[ _.:/+-]")
# Letters and digits, or a word and a number with _ between them.
_WORD_WITH_DIGITS = re.compile(r"[^\W_]+|[^\W\d_]+_\d{2,8}")
# A key that may be as short as a password.
_SHORT_KEY = re.compile(r"(?=.{0,200}[0-9])(?=.{0,200}[A-Za-z])[A-Za-z0-9]{6,200}")
# A key after its name and a space, without the signs of links and calls.
_KEY_IN_SENTENCE = re.compile(r"[\w+/.~-]{20,}={0,2}", re.ASCII)
# A password after its name and a space must not have the signs of code, tags and brackets.
_IN_SENTENCE = re.compile(r"[^\s<>(){}\[\]/\\=:;|]+")
# Signs that are in passwords and seldom in names, and an e-mail address.
_KEYBOARD_SIGN = re.compile(r"[!#$%^&*@]")
_ADDRESS = re.compile(r"\w@[\w-]{1,60}\.\w")
_ALL_CLASSES = 4
# Signs around a word: emphasis, and the end of a sentence.
_PUNCTUATION = "*_~!?:;,."

# Validation rules, AWS resource names, and e-mail addresses.
_DESCRIPTION = re.compile(
    r"(?:required|nullable|sometimes|string|confirmed|min|max)(?:[|:][a-z_]+|:\d{1,4}){1,12}|arn:aws[a-z-]{0,12}:.*|"
    r"[a-z0-9._+-]{1,64}@(?:[a-z0-9-]{1,63}\.){1,5}[a-z]{2,24}",
    re.DOTALL,
)
# Names of methods and formats with a digit, and quantities.
_TERM = re.compile(
    r"(?:sha|md|aes|rsa|hmac|[hrep]s|oauth|pbkdf|base|utf|ntlmv?|tlsv?|ipv|http|pkcs|secp|ed|crc|poly|chacha|curve|des|"
    r"u?int|float|bytes|varchar|char|"
    r"s?crypt|bcrypt|yescrypt|srp|saml|ldapv?|smb|cp|iso)\d{1,5}(?:url|crypt|sum|[kr]\d)?|"
    r"[23]fa|3des|u2f|fido2|argon2(?:id|i|d)?|blake[23][bs]?|x509(?:v3)?|s3|ec2|k8s|i18n|l10n|"
    r"\d{1,6}(?:(?:char(?:acter)?|letter|digit|symbol|sign|word|bit|byte|sec(?:ond)?|min(?:ute)?|hour|day|week|month|"
    r"year|time|user|round|iteration|zeichen|stellen|stunden?|tagen?|jahren?|caracter[ee]|d[ií]a|jour)s?|"
    r"ms|[smhdwykx]|st|nd|rd|th|[kmgt]i?b|px)",
    re.IGNORECASE,
)
_EXAMPLE_PART = re.compile(
    r"(?:your|example|placeholder|changeme|dummy|redacted)[a-z]*\d{0,4}|(?:change|replace)(?:me|this)", re.IGNORECASE
)
_NAMED_MY = re.compile(
    r"my[ _-].*(?:pass|pw|secret|token|key|credential)|(?:change|replace)[ _-](?:me|this)\b", re.IGNORECASE | re.DOTALL
)
_NAME_ITSELF = re.compile(r"(?:pass(?:word|wd)?|pwd?|secret|token|user(?:name)?)", re.IGNORECASE)
# Ends the example keys in the documentation of AWS.
_EXAMPLE_END = re.compile(r"EXAMPLE(?:KEY)?$")
_MASK = re.compile(r"[xX]{3,}|[*•.…]{3,}")
_CUT = re.compile(r"[\w-]{0,4}(?:\.{3,}|…)[\w-]{0,4}")
_CUT_KEY = re.compile(r"[\w-]{0,12}(?:\.{3,}|…|\*{3,})[\w-]{0,8}")

# A part of a program in one line: `e,userId:n`, `(0,x.f)({...})`, `=>{...`.
_CODE = re.compile(r"[!\w$.]*,[A-Za-z_$][\w$]*:|.{0,60}?(?:=>|\(0,|\)\{|\}\)|,\w{1,40}:\w{1,40}[,}(])")
# Values without a digit that are no passwords, although they follow the name of one in a file of settings: types,
# states, labels, where the password is, and names of variables that have one.
_SETTINGS = frozenset(
    "string settings options arguments select checkbox varchar nvarchar secretstr boolean integer number object array "
    "nullable optional required mandatory default defaults undefined hidden visible shown enabled disabled unset "
    "unknown masked removed deleted encrypted hashed salted plain plaintext cleartext text bcrypt scrypt argon crypt "
    "pbkdf kerberos ldap oauth oidc saml totp webauthn passkey vault keychain keyring keyvault keepass bitwarden "
    "lastpass onepassword environment environ config configured prompt prompted stdin getpass value values input "
    "output placeholder example sample changeme changeit replaceme dummy redacted same different match matched "
    "mismatch latest workspace identifier username login label locked unlocked expired invalid correct incorrect "
    "wrong strong weak medium expires rotated reset forgot forgotten change changed unchanged update updated create "
    "created delete show generate generated random auto automatic manual manually interactive always never inherit "
    "internal external public private local global sensitive confidential passord kodeord lozinka geslo sandi parola "
    "parole parool sifre jelszo pasahitza contrasenya slaptazodis matkhau wachtwoord kennwort senha haslo heslo "
    "salasana losenord adgangskode".split()
)
_SETTING_PARTS = re.compile(r"pass|pwd|secret|token|key|cred|auth|hash|user|param|field|label", re.IGNORECASE)
_TEMPLATE = re.compile(r"\$[({]|\{\{|%\(")
_ASCII_WORD = re.compile(r"[!-~]*[A-Za-z]{3}[!-~]*")

# Names of methods and examples are no longer than this.
_MAX_NAME_LENGTH = 64

# A pass phrase without a digit has at least so many words.
_MIN_WORDS = 4

# Words of sentences, messages and labels: quoted words with one of them are not a pass phrase.
_SENTENCE_WORDS = frozenset(
    "a an and any are as at be been by can cannot contain could did do does for from had has have here i if in into is "
    "it its long may min max minimum maximum must my need needs new no none not of old on only or our please same "
    "should since so than that the their then there this to too unless until use used uses using via was we were when "
    "which will with without you your at least most enter type choose confirm forgot forgotten repeat reset change "
    "changed set hide show sign log login required optional missing invalid incorrect wrong expired empty failed error "
    "character characters chars digits letters string value field password passwords passphrase passcode username user "
    "email key token secret hash hashed encrypted example placeholder "
    "passwort ein eine der die das den dem des und oder ist im in mit nicht kein bitte ihr dein für von zu muss "
    "mindestens le la les un une du de et ou est dans avec pas pour votre el los las y o es en con para su mot passe "
    "contraseña".split()
)


def may_be_secret(value: str, *, bare: bool = False) -> bool:
    """Check that a value is not a reference, a description, an example or a path.

    :param bare: the value is not in quotation marks, so that a space or quotation mark may have cut it.
    """
    if is_reference(value, bare=bare) or is_reference(value.rstrip(":"), bare=bare) or _DESCRIPTION.fullmatch(value):
        return False
    return not (len(set(value)) < 4 or _is_example(value) or _is_path(value))


def is_code(value: str) -> bool:
    """Check that a value without quotation marks is a part of a program in one line, as in scripts of pages."""
    return _CODE.match(value) is not None


def is_words(value: str) -> bool:
    """Check that a value consists of words and numbers, like names of models, files and hosts."""
    return _WORDS.fullmatch(value) is not None


def is_named_password(value: str, *, phrase: bool) -> bool:
    """Check that a value after a name for a password can be one. ``phrase`` also accepts several words."""
    if " " in value:
        return phrase and _is_phrase(value)
    if len(value) < 6 or _is_term(value.strip(_PUNCTUATION)):
        return False
    if _DIGIT.search(value) and (value.isdigit() or value.upper() != value.lower()):
        return True
    # Without a digit it can be an identifier of a program.
    return len(value) >= 8 and _classes(value) >= 3 and not value.isidentifier()


def is_plain_password(value: str, *, strict: bool = False) -> bool:
    """Check that a value can be a password where only a password stands. It may have letters only.

    ``strict`` leaves out names of variables, such as newPassword, where one may stand as well.
    """
    if is_named_password(value, phrase=False):
        return True
    word = value.strip(_PUNCTUATION)
    if len(word) < 6 or not _ASCII_WORD.fullmatch(value) or _is_term(word) or _TEMPLATE.search(value):
        return False
    if word.lower() in _SETTINGS or word.lower() in _SENTENCE_WORDS:
        return False
    is_name = not word.isalpha() and is_words(word) and len(_SEPARATORS.split(word)) < _MIN_WORDS
    return not (strict and (is_name or _SETTING_PARTS.search(word)))


def is_password_in_prose(value: str) -> bool:
    """Check that a value is a password although only a space precedes it."""
    return _IN_SENTENCE.fullmatch(value) is not None and _is_strong(value)


def _is_strong(value: str) -> bool:
    """Check that a value is too mixed to be a word or a name."""
    return len(value) >= 8 and _classes(value) >= 3 and not is_words(value.strip(_PUNCTUATION))


def is_likely_password(value: str) -> bool:
    """Check that a value after a word such as "is" looks more like a password than like a word of the sentence."""
    if _is_strong(value):
        return True
    word = value.strip(_PUNCTUATION)
    if not (_WORD_WITH_DIGITS.fullmatch(word) and _DIGIT.search(word) and _LETTER.search(word)):
        return False
    return len(word) >= 8 or (len(word) >= 6 and word.lower() != word)


def is_key(value: str) -> bool:
    """Check that a value after a name for a key or token is one: long, mixed, and not made of words."""
    if not _DIGIT.search(value) or _SPACE.search(value) or value.upper() == value.lower():
        return False
    enough = len(value) >= 16 or (len(value) >= 12 and _classes(value) >= 3)
    return enough and len(set(value)) >= 8 and not is_words(value.strip(_PUNCTUATION)) and not _CUT_KEY.fullmatch(value)


def is_key_in_header(value: str) -> bool:
    """Check that a value in a header is a key: eight letters and digits or more that are no words and numbers."""
    is_mixed = _DIGIT.search(value) is not None and value.upper() != value.lower()
    return is_key(value) or (is_mixed and len(value) >= 8 and not is_words(value.strip(_PUNCTUATION)))


def is_signed_word(value: str) -> bool:
    """Check that a value is a likely password and has a sign of the keyboard, which may be its last: Sommer2026!"""
    return is_likely_password(value) and _classes(value) == _ALL_CLASSES and _KEYBOARD_SIGN.search(value) is not None


def is_short_key(value: str, *, is_token: bool = False) -> bool:
    """Check that a value can be a key after a name and a sign: six letters and digits or more, and no more than that.

    ``is_token`` is for a name that is a word of other fields too: it asks for three digits.
    """
    if not _SHORT_KEY.fullmatch(value) or _is_term(value) or _SETTING_PARTS.search(value):
        return False
    return len(_DIGIT.findall(value)) >= (3 if is_token else 1)


def is_unmistakable(value: str) -> bool:
    """Check that a value is a password whatever is between it and its name: long, with letters, digits and signs."""
    if _classes(value) < _ALL_CLASSES or not _IN_SENTENCE.fullmatch(value):
        return False
    if _ADDRESS.search(value) or _SETTING_PARTS.match(value):
        return False
    return len(value) >= 8 and _KEYBOARD_SIGN.search(value[1:-1]) is not None and not is_words(value)


def is_key_in_prose(value: str) -> bool:
    """Check that a value is a key although only a space precedes it."""
    return _KEY_IN_SENTENCE.fullmatch(value) is not None and is_key(value)


def _is_example(value: str) -> bool:
    """Check that a whole value is an example: made of words such as "your", masked, or shortened."""
    if _NAME_ITSELF.fullmatch(value) or _CUT.fullmatch(value) or _EXAMPLE_END.search(value):
        return True
    if any(2 * len(mask[0]) >= len(value) for mask in _MASK.finditer(value)):
        return True
    if len(value) > _MAX_NAME_LENGTH:
        return False
    parts = [part for part in _SEPARATORS.split(value.rstrip("!.")) if part]
    named = _NAMED_MY.match(value) is not None or any(_EXAMPLE_PART.fullmatch(part) for part in parts)
    return named and all(_PLAIN.fullmatch(part) or _EXAMPLE_PART.fullmatch(part) for part in parts)


def _is_path(value: str) -> bool:
    """Check that a value is a path of one part. Longer paths match as references."""
    return value.startswith("/") and is_words(value.removeprefix("/"))


def _is_term(value: str) -> bool:
    """Check that a value is a method or a quantity, with plain words at most: SHA256-hashed, 2FA, 12chars."""
    if len(value) > _MAX_NAME_LENGTH:
        return False
    parts = _SEPARATORS.split(value)
    terms = [_TERM.fullmatch(part) is not None for part in parts]
    return any(terms) and all(term or _PLAIN.fullmatch(part) for term, part in zip(terms, parts, strict=True))


def _is_phrase(value: str) -> bool:
    """Check that quoted words are a pass phrase and not a message or label."""
    words = [word.strip(_PUNCTUATION) for word in value.split()]
    if not 2 <= len(words) <= 10 or len(value) < 8 or any(word.lower() in _SENTENCE_WORDS for word in words):
        return False
    if not _LETTER.search(value) or "[redacted:" in value:
        return False
    if any(_DIGIT.search(word) and len(word) >= 3 and not (_is_term(word) or is_reference(word)) for word in words):
        return True
    return len(words) >= _MIN_WORDS and all(len(word) >= 3 and word.isalpha() for word in words)


def _classes(value: str) -> int:
    """Count which of these occur: small letters, capital letters, digits, other characters."""
    small, capital = value.upper() != value, value.lower() != value
    return small + capital + (_DIGIT.search(value) is not None) + (_SIGN.search(value) is not None)
