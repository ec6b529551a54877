"""Which keys are missing, as far as that can be told before LiteLLM is imported, which takes seconds."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kipu.errors import FlusherError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["can_tell", "missing_keys", "no_key"]

# The variables of which a provider needs one. Those of others only LiteLLM knows, once it is imported.
_KEYS = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "mistral": ("MISTRAL_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
}


def can_tell() -> bool:
    """Whether a variable that is not set is not set either once LiteLLM is imported: it may find a file ``.env``."""
    if "litellm" in sys.modules:
        return False
    found = find_spec("litellm")
    return not (found and found.origin and any((folder / ".env").exists() for folder in Path(found.origin).parents))


def missing_keys(provider: str) -> Sequence[str]:
    """The environment variables of which a provider needs one, where none of them is set."""
    names = _KEYS.get(provider, ())
    return () if any(map(os.environ.get, names)) else names


def no_key(model: str, names: Sequence[str]) -> FlusherError:
    """What to raise where none of these environment variables is set."""
    return FlusherError(
        f'There is no key for {model}. Set {" or ".join(names)}, or put api_key = {{ env = "NAME" }} beside model in '
        "kipu.toml."
    )
