"""BLEURT in Google's own format: the scores of the same weights as bleurt-pytorch has them.

That released weights give Google's own numbers is `python -m benchmarks.released_bleurt`, which fetches them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import ModelError
from pear.runtime.variables import unsnappy
from tests.mbr.metrics.damage import assert_refused, change_config
from tests.support.random_google_bleurt import snappy, write_google_bleurt
from tests.support.random_metrics import write_random_bleurt

ROWS = [
    ("", "Ein Hund läuft.", "Der HUND rennt."),
    ("", "", ""),
    ("", "Tom sagte mir, dass er meine Eltern treffen wollte.", "She bought some bread."),
]
LONG = ("", "Tom sagte mir. " * 40, "Der Hund.")


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random_bleurt(tmp_path_factory.mktemp("google") / "converted", embedding=None)


@pytest.fixture(scope="module")
def folder(converted: Path) -> Path:
    return write_google_bleurt(converted.with_name("google"), converted)


def load(folder: Path, **options: Any) -> Any:
    from mbr.metrics import get_metric

    return get_metric("bleurt", model=folder, device="cpu", **options)


@pytest.mark.parametrize("exact", [True, False])
def test_scores_are_those_of_the_same_weights_in_the_other_format(converted: Path, tmp_path: Path, exact: bool) -> None:
    """The graph tells which GELU the encoder has; the configuration of bleurt-pytorch names it."""
    google = write_google_bleurt(tmp_path / "google", converted, exact=exact)
    scores = {}
    for name, activation in (("exact", "gelu"), ("approximate", "gelu_new")):
        copy = shutil.copytree(converted, tmp_path / name)
        change_config(copy, hidden_act=activation)
        with load(copy) as metric:
            scores[name] = metric.score(ROWS)
    with load(google) as metric:
        np.testing.assert_allclose(metric.score(ROWS), scores["exact" if exact else "approximate"], atol=1e-6)
    assert np.abs(scores["exact"] - scores["approximate"]).max() > 1e-5


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("compressed", [True, False])
def test_tables_and_data_may_be_stored_in_several_ways(
    converted: Path, folder: Path, tmp_path: Path, compressed: bool, shards: int
) -> None:
    other = write_google_bleurt(tmp_path / "google", converted, compressed=compressed, shards=shards)
    with load(folder) as metric, load(other) as again:
        assert again.settings() == metric.settings()


def test_the_longest_input_is_that_of_the_checkpoint(folder: Path) -> None:
    with load(folder) as metric:
        assert metric.settings()["trunc"] == 128
        assert metric.truncated([*ROWS, LONG]).tolist() == [False] * 3 + [True]


def test_letter_case_is_that_of_the_checkpoint(folder: Path, tmp_path: Path) -> None:
    cased = shutil.copytree(folder, tmp_path / "cased")
    settings = json.loads((cased / "bleurt_config.json").read_text())
    (cased / "bleurt_config.json").write_text(json.dumps({**settings, "do_lower_case": False}))
    lower, upper = ("", "ein hund.", "der hund."), ("", "EIN HUND.", "DER HUND.")
    with load(folder) as metric, load(cased) as other:
        assert metric.score([lower]) == metric.score([upper])
        assert other.score([lower]) != other.score([upper])


def test_snappy_is_undone() -> None:
    text = b"An apple a day, an apple a day, an apple. " * 60 + bytes(range(256)) * 12
    assert len(snappy(text)) < len(text)
    assert unsnappy(snappy(text)) == text
    for broken in (b"\x05\x01\x00", b"\x08\x00a", b"\x04\x00a\x05\x00"):
        with pytest.raises((ValueError, IndexError)):
            unsnappy(broken)


def damage_index(root: Path) -> None:
    (root / "variables" / "variables.index").write_bytes(b"no table at all" * 10)


def damage_data(root: Path) -> None:
    file = root / "variables" / "variables.data-00000-of-00001"
    file.write_bytes(file.read_bytes()[:-4000])


def damage_missing(root: Path) -> None:
    (root / "variables" / "variables.data-00000-of-00001").unlink()


def damage_layers(root: Path) -> None:
    config = json.loads((root / "bert_config.json").read_text())
    (root / "bert_config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))


def damage_config(root: Path) -> None:
    (root / "bert_config.json").unlink()


def damage_vocabulary(root: Path) -> None:
    (root / "vocab.txt").unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_index, "are broken, fetch them again: it is not a table of variables"),
        (damage_data, r"the variable \S+ of shape .* is cut off"),
        (damage_missing, "variables.data-00000-of-00001 is missing; fetch the checkpoint again"),
        (damage_layers, "weights have no place in this network"),
        (damage_config, "has no bert_config.json; expected the folder of a BLEURT checkpoint as Google released it"),
        (damage_vocabulary, "has no tokenizer"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_checkpoint_is_an_error_that_says_why(folder: Path, tmp_path: Path, damage: Any, message: str) -> None:
    assert_refused(load, folder, tmp_path / "google", damage, message)


def test_a_tensorflow_model_that_is_no_bleurt_is_refused(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    (other / "bleurt_config.json").unlink()
    with pytest.raises(ModelError, match="has no config.json"):
        load(other)
