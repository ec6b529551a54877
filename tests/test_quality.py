"""Retrieval does not get worse: a part of two evaluation sets, with floors. All of it: ``benchmarks/quality.py``.

The sets are not part of the project; without them, this is skipped.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

# What has to be reached on the whole set, plus what the part is easier (or harder) than the whole, less one question:
# LoCoMo R@1 .74, any@10 .968, turn_R@1000t .83, the part by -.035, +.001, +.009; XQuAD R@1 .92, any@10 .98, the part
# by +.041, +.008.
CONVERSATION, CONVERSATION_FLOORS = "conv-26", {"R@1": 0.7, "any@10": 0.964, "turn_R@1000t": 0.833}
CHINESE_QUESTIONS, CHINESE_FLOORS = 200, {"R@1": 0.956, "any@10": 0.983}

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
TOOL = ROOT.parent / "shared" / "tools" / "retrieval_eval.py"

pytestmark = [
    pytest.mark.skipif(
        not (DATA.is_dir() and TOOL.is_file()),
        reason="the evaluation sets (../shared/data, ../shared/tools) are not part of the project and not here",
    ),
    # The program that builds the sets leaves it to the interpreter to close a file.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def quality() -> Any:
    """``benchmarks/quality.py`` as a module."""
    specification = importlib.util.spec_from_file_location("quality", ROOT / "benchmarks" / "quality.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["quality"] = module
    specification.loader.exec_module(module)
    yield module
    del sys.modules["quality"]


@pytest.fixture(scope="module")
def figures_of(quality: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Kipu's figures by words on the questions of a set that ``chosen`` chooses."""

    def measure(name: str, chosen: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> dict[str, Any]:
        folder = quality.build(name, DATA, tmp_path_factory.mktemp("evaluation"))
        questions = folder / "questions.json"
        questions.write_text(json.dumps(chosen(json.loads(questions.read_text("utf-8")))), "utf-8")
        figures: dict[str, Any] = quality.evaluate(folder, quality.SYSTEMS["words"])
        return figures

    return measure


def assert_reaches(figures: dict[str, Any], floors: dict[str, float]) -> None:
    missed = {figure: (figures[figure], floor) for figure, floor in floors.items() if figures[figure] < floor}
    assert not missed, f"(measured, floor): {missed}"


def test_a_conversation_is_found_again_by_words(figures_of):
    figures = figures_of("locomo", lambda questions: [item for item in questions if item["workspace"] == CONVERSATION])
    assert_reaches(figures, CONVERSATION_FLOORS)


def test_chinese_is_found_by_words(figures_of):
    figures = figures_of("xquad-zh", lambda questions: questions[:CHINESE_QUESTIONS])
    assert_reaches(figures, CHINESE_FLOORS)
