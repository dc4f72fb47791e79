"""Call-compatibility with pear-mt 1.1.1, against numbers that pear-mt itself computed.

tests/data/pear_mt_golden.json is written by `python -m benchmarks.parity_pear_mt --write-golden`.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pear
from tests.conftest import ROOT
from tests.support.random_pear import write_random_released

GOLDEN = json.loads((ROOT / "tests" / "data" / "pear_mt_golden.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", params=GOLDEN)
def pinned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, released: Path) -> tuple[Any, Any]:
    """A metric with the weights that pear-mt had, and pear-mt's answers."""
    root = released
    if request.param != "xlm-roberta":
        root = tmp_path_factory.mktemp("golden") / request.param
        write_random_released(root, model_type=request.param)
    return pear.load_metric(root / "checkpoints" / "model.ckpt"), GOLDEN[request.param]


def test_scores_are_those_of_pear_mt(pinned: tuple[Any, Any]) -> None:
    metric, golden = pinned
    columns = [list(column) for column in zip(*golden["triples"], strict=True)]
    scores = pear.score_pairwise(metric, *columns, gpus=0, progress_bar=False)
    assert isinstance(scores, list)
    np.testing.assert_allclose(scores, golden["scores"], atol=1e-4)


@pytest.mark.parametrize("mode", ["half", "full"])
def test_matrices_are_those_of_pear_mt_duplicates_included(pinned: tuple[Any, Any], mode: Any) -> None:
    metric, golden = pinned
    for (source, hypotheses), expected in zip(golden["lists"], golden[mode], strict=True):
        matrix = pear.pear_utility_matrix(metric, source, hypotheses, mode=mode, gpus=0, progress_bar=False)
        assert matrix.dtype == np.float32
        np.testing.assert_allclose(matrix, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        ("load_metric", "model cache_dir local_files_only strict revision encoder_revision"),
        ("score_pairwise", "model sources translations_a translations_b mode batch_size gpus progress_bar"),
        (
            "score_reference_anchored",
            "model sources translations references mode batch_size gpus progress_bar",
        ),
        ("build_pairwise_samples", "sources translations_a translations_b"),
        ("build_reference_anchored_samples", "sources translations references"),
        ("download_model", "model saving_directory local_files_only revision"),
        ("pear_utility_matrix", "model source hypotheses mode batch_size gpus progress_bar"),
        ("select_mbr_hypothesis", "utility_matrix"),
    ],
)
def test_functions_take_the_arguments_of_pear_mt(function: str, parameters: str) -> None:
    assert list(inspect.signature(getattr(pear, function)).parameters) == parameters.split()


def test_both_orders_and_the_reference_anchor(pinned: tuple[Any, Any]) -> None:
    metric, _ = pinned
    sources, a, b = ["A dog.", "A cat."], ["Ein Hund.", "Eine Katze."], ["Der Hund.", "Ein Kater."]
    options: dict[str, Any] = {"mode": "both", "gpus": 0, "progress_bar": False}
    both = pear.score_pairwise(metric, sources, a, b, **options)
    anchored = pear.score_reference_anchored(metric, sources, a, b, **options)
    assert isinstance(both, dict)
    assert both.keys() == {"forward", "reverse"}
    assert both == anchored
    swapped = pear.score_pairwise(metric, sources, b, a, gpus=0, progress_bar=False)
    np.testing.assert_allclose(both["reverse"], swapped, atol=1e-6)


def test_predict_answers_by_key_and_by_attribute(pinned: tuple[Any, Any]) -> None:
    metric, _ = pinned
    samples = pear.build_pairwise_samples(["A dog."], ["Ein Hund."], ["Eine Katze."])
    prediction = metric.eval().predict(samples, batch_size=4, gpus=0, progress_bar=False)
    assert prediction.scores == prediction["scores"]
    assert prediction.system_score == prediction.scores[0]


def test_selection_divides_by_the_others() -> None:
    assert pear.select_mbr_hypothesis(np.array([[0.0, 2.0, 4.0], [-2.0, 0.0, 1.0], [-4.0, -1.0, 0.0]])) == (
        0,
        3.0,
    )


def test_unequal_lengths_and_unknown_modes_are_value_errors(pinned: tuple[Any, Any]) -> None:
    metric, _ = pinned
    with pytest.raises(ValueError, match=r"equal lengths; got \[1, 2, 1\]"):
        pear.build_pairwise_samples(["a"], ["b", "c"], ["d"])
    with pytest.raises(ValueError, match="mode 'triple'"):
        pear.score_pairwise(metric, ["a"], ["b"], ["c"], mode="triple")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="gpus -1"):
        pear.score_pairwise(metric, ["a"], ["b"], ["c"], gpus=-1)
    with pytest.raises(FileNotFoundError):
        pear.load_from_checkpoint("/nowhere/model.ckpt")
