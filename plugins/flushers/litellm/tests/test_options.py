"""The options, from Python and as plugins are found, and what starts no import of LiteLLM."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import attrs
import pytest

from kipu.types import Flusher
from kipu_flusher_litellm import LitellmFlusher, kipu_register_flushers

MODEL = "openai/gpt-4o-mini"


def test_it_is_found_by_its_name() -> None:
    registered: dict[str, type] = {}
    kipu_register_flushers(registered.__setitem__)
    assert registered == {"litellm": LitellmFlusher}
    assert isinstance(LitellmFlusher(MODEL), Flusher)


def test_every_option_has_its_default() -> None:
    flusher = LitellmFlusher(MODEL)
    assert (flusher.api_base, flusher.api_key, flusher.timeout) == (None, None, 60.0)
    assert (flusher.max_tokens, flusher.temperature) == (1024, 0.0)


def test_the_key_is_not_shown() -> None:
    assert "sk-secret" not in repr(LitellmFlusher(MODEL, api_key="sk-secret"))
    assert attrs.fields(LitellmFlusher).api_key.metadata["secret"] is True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": " "}, 'model must be provider/model, such as "openai/gpt-4o-mini"'),
        ({"api_base": "host"}, "api_base must be"),
        ({"api_base": "https://host/v1?key=sk-secret"}, "api_base must be an address such as https://host/v1"),
        ({"api_base": "https://user:sk-secret@host"}, "without a user or a query in it"),
        ({"api_base": 3}, "api_base"),
        ({"api_key": ""}, 'api_key must be a text in quotes, or { env = "NAME" }'),
        ({"api_key": {"env": ""}}, "api_key must be"),
        ({"api_key": {"file": "sk-secret"}}, "api_key must be"),
        ({"api_key": ["sk-secret"]}, "api_key must be"),
        ({"timeout": 0}, "timeout"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"window": 0}, "window"),
    ],
)
def test_what_cannot_be_is_refused_without_showing_a_key(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        LitellmFlusher(**{"model": MODEL} | options)
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "window"),
    [
        ({"window": 77}, 77),
        ({}, 128_000 - 1024),
        ({"max_tokens": 100_000}, 64_000),
        ({"model": "anthropic/claude-sonnet-4-5"}, 200_000 - 1024),
        ({"model": "openai/our-own-model"}, 32_000),
        ({"model": "ollama/our-own-model", "api_base": "http://127.0.0.1:9"}, 32_000),
        ({"model": "nowhere/nothing"}, 32_000),
    ],
)
def test_the_window_is_what_is_given_or_known_or_usual(options: dict[str, Any], window: int) -> None:
    assert LitellmFlusher(**{"model": MODEL} | options).window == window


def test_there_is_no_other_attribute_that_is_found_out() -> None:
    assert not hasattr(LitellmFlusher(MODEL), "destiny")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_making_one_imports_nothing_heavy() -> None:
    printed = run(
        f"import sys; from kipu_flusher_litellm import LitellmFlusher; made = LitellmFlusher({MODEL!r}); "
        f"made == LitellmFlusher({MODEL!r}); repr(made); "
        "print({'litellm', 'httpx', 'asyncio', 'email', 'numpy'} & {name.partition('.')[0] for name in sys.modules})"
    )
    assert printed == "set()\n"


def test_without_litellm_it_says_what_to_install() -> None:
    printed = run(
        "import asyncio, sys; sys.modules['litellm'] = None\n"
        "from kipu.errors import FlusherError; from kipu_flusher_litellm import LitellmFlusher\n"
        f"made = LitellmFlusher({MODEL!r})\n"
        "try: asyncio.run(made.distill([], instructions='List.'))\n"
        "except FlusherError as error: print(error)\n"
        "try: made.window\n"
        "except FlusherError as error: print(error)"
    )
    first, second = printed.splitlines()
    assert first == second
    assert first.startswith("LiteLLM cannot be imported: ")
    assert first.endswith("pip install kipu-flusher-litellm")
