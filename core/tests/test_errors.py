"""The errors: one tree, drawn in the docstring, each with the exit code that the command line gives for it."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from kipu import errors

CLASSES = [getattr(errors, name) for name in errors.__all__]


def test_the_tree_in_the_docstring_is_the_tree():
    drawn: dict[str, str] = {}
    above: dict[int, str] = {}
    for line in inspect.cleandoc(errors.__doc__ or "").split("\n"):
        if found := re.match(r"([\s│├└─]*)([A-Z]\w+(?:Error))\b", line):
            depth = len(found[1])
            above[depth] = found[2]
            parents = [place for place in above if place < depth]
            drawn[found[2]] = above[max(parents)] if parents else "Exception"
            above = {place: name for place, name in above.items() if place <= depth}
    public = [Exception, *CLASSES]
    assert drawn == {cls.__name__: next(base for base in cls.__mro__[1:] if base in public).__name__ for cls in CLASSES}


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_is_documented_and_has_its_exit_code(cls):
    assert cls.__doc__
    assert cls.exit_code in {1, 2, 3, 4, 5}


@pytest.mark.parametrize("cls", CLASSES)
def test_an_error_keeps_its_message_when_it_is_pickled(cls):
    error = cls("What happened. What to do next.")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (cls, "What happened. What to do next.")


@pytest.mark.parametrize(
    ("name", "exit_code"),
    [
        ("KipuError", 1),
        ("ConfigurationError", 3),
        ("PluginNotFoundError", 3),
        ("PluginClashError", 3),
        ("PluginFailedError", 1),
        ("WorkspaceNotFoundError", 3),
        ("OutsideWorkspaceError", 2),
        ("MemoryFileError", 4),
        ("QueryError", 2),
        ("IndexUnavailableError", 1),
        ("IndexBusyError", 5),
    ],
)
def test_exit_codes_are_stable(name, exit_code):
    assert getattr(errors, name).exit_code == exit_code


@pytest.mark.parametrize("kind", [errors.AnnotatorBusyError, errors.EmbedderBusyError, errors.FlusherBusyError])
@pytest.mark.parametrize(
    ("given", "known"),
    [(30, 30.0), (0.5, 0.5), (0, 0.0), ("30", None), (b"30", None), (-1, None), (float("nan"), None), (10**400, None)],
)
def test_the_seconds_to_wait_are_a_number_or_unknown(kind, given, known):
    assert kind("Busy.", given).retry_after == known
    assert kind("Busy.", retry_after=float("inf")).retry_after is None
