"""The bound of tokens is never below what o200k makes of a text, and not far above it where people write."""

from __future__ import annotations

import base64
import json
import random
import uuid
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kipu.search.tokens import LONGEST_TOKEN, _ranks, count_tokens

# With o200k's own counts, so that they hold where its vocabulary is not installed.
PROSE = {
    "The ferry to the island leaves at seven, and we do not want to be late for it twice in a week.": 24,
    "Die Fähre zur Insel fährt um sieben Uhr ab, und wir wollen sie nicht zweimal in einer Woche verpassen.": 23,
    "Паром на остров отходит в семь утра, и мы не хотим опоздать на него дважды за неделю.": 25,
    "去岛上的渡轮七点出发，我们不想一周之内两次迟到。": 21,
    "島へのフェリーは七時に出ます。一週間に二度も遅れたくありません。": 23,
    "เรือข้ามฟากไปเกาะออกเวลาเจ็ดโมง และเราไม่อยากไปสายสองครั้งในหนึ่งสัปดาห์": 29,
    "تغادر العبارة إلى الجزيرة في السابعة صباحا ولا نريد أن نتأخر عنها مرتين في أسبوع واحد.": 26,
    "द्वीप के लिए नौका सात बजे निकलती है, और हम एक हफ़्ते में दो बार देर नहीं करना चाहते।": 28,
    "섬으로 가는 배는 일곱 시에 떠나고, 우리는 일주일에 두 번이나 늦고 싶지 않습니다.": 31,
    "Το πλοίο για το νησί φεύγει στις επτά και δεν θέλουμε να αργήσουμε δύο φορές σε μία εβδομάδα.": 33,
    "המעבורת לאי יוצאת בשבע ואנחנו לא רוצים לאחר אליה פעמיים בשבוע.": 23,
}
SEEDED = random.Random(7)
DENSE = {
    "hex": " ".join(SEEDED.randbytes(16).hex() for _ in range(60)),
    "identifiers": "\n".join(str(uuid.UUID(bytes=SEEDED.randbytes(16))) for _ in range(60)),
    "log": "\n".join(json.dumps({"ts": SEEDED.random(), "id": number, "level": "info"}) for number in range(60)),
    "table": "\n".join(f"| part-{number:03} | {SEEDED.random() * 90:.2f} |" for number in range(60)),
    "minified": "".join(f"function(a,b){{return a[{number}]!==b?.c&&(d=-~e)}}," for number in range(60)),
    "base64": base64.b64encode(SEEDED.randbytes(1500)).decode(),
    "punctuation": "".join(SEEDED.choices("!@#$%^&*()_+-=[]{};:,.<>/?", k=1500)),
    "emoji": "".join(chr(SEEDED.randint(0x1F300, 0x1F6FF)) for _ in range(400)),
    "letters": " ".join("".join(SEEDED.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(200)),
    "one word": "".join(SEEDED.choices("abcdefghijklmnopqrstuvwxyz", k=3000)),
    "marks": "".join(SEEDED.choices("e\u0301\u0327\u200d\u0e33\u0e49* ", k=1500)),
}
MIXED = st.lists(
    st.text(max_size=12)
    | st.text(st.characters(max_codepoint=0x2FF), max_size=20)
    | st.text("Aa'sStTlL \n\r\t/\u00a0\u0301\u01c5\u0e33\u0660\u200b\x1c\x85", max_size=20)
    | st.sampled_from([*PROSE, *DENSE.values()]).flatmap(
        lambda text: st.integers(0, 90).map(lambda at: text[at:][:60])
    ),
    max_size=8,
).map("".join)


@pytest.fixture(scope="module")
def o200k() -> Any:
    reason = "the vocabulary of o200k is not installed: pip install bpe-openai"
    return pytest.importorskip("bpe_openai", reason=reason).get_encoding("o200k_base")


@pytest.mark.parametrize("text", PROSE)
def test_prose_of_any_language_is_counted_with_little_to_spare(text):
    assert PROSE[text] <= count_tokens(text) <= 1.4 * PROSE[text]


@pytest.mark.parametrize("text", [*PROSE, *DENSE.values()], ids=[*map(str, range(len(PROSE))), *DENSE])
def test_the_bound_holds_for_prose_and_for_data(o200k, text):
    assert len(o200k.encode_ordinary(text)) <= count_tokens(text) <= 1.5 * len(o200k.encode_ordinary(text))


@given(text=MIXED)
@example("$*\u0e48\u0e37\u0e49\u0e07   ")
def test_the_bound_holds_for_any_mix(o200k, text):
    assert len(o200k.encode_ordinary(text)) <= count_tokens(text)


def test_the_vocabulary_is_the_beginning_of_that_of_o200k(o200k):
    known = [token for token in o200k.token_byte_values()[:64_000] if len(token) > 1]
    assert known == list(_ranks())
    assert max(map(len, known)) == LONGEST_TOKEN


@pytest.mark.parametrize("unit", ["a", "=", " ", "\n", "ก", "\u0301"])
def test_a_long_run_is_counted_in_parts(unit):
    assert 1000 <= count_tokens(unit * 100_000) <= 400_000
