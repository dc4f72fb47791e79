"""BLEURT against bleurt-pytorch, which runs in the world of transformers 4 only, and by its own properties."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import ModelError, UsageError
from tests.mbr.metrics.damage import assert_refused, change_config, drop_weight

ROWS = [
    ("A dog.", "Ein Hund.", "Der Hund."),
    ("", "", ""),
    ("A dog.", "Ein Hund.", ""),
    ("A dog.", "", "Der Hund."),
    ("The sky.", "天地玄黃，宇宙洪荒。日月盈昃", "いろはにほへと ちりぬるを"),
    ("Bread.", "Sie  kaufte\tBrot 🙂, zwei Eier ", " Sie kaufte Brot\nund Milch."),
    ("Long.", "Съешь же ещё этих мягких булок. " * 60, "Tom sagte mir, dass er kommt."),
    ("Long.", "Tom sagte mir, dass er kommt.", "Zwölf Boxkämpfer jagen Viktor. " * 60),
    ("Long.", "天地玄黃，宇宙洪荒。" * 90, "Portez ce vieux whisky au juge blond. " * 50),
    ("Long.", "Portez ce vieux whisky au juge blond. " * 50, "天地玄黃，宇宙洪荒。" * 90),
    ("Tom.", "Tom told me that he wanted to meet my parents.", "Tom said he would like to see my parents."),
]
CUT = [False] * 6 + [True] * 4 + [False]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.random_metrics import write_random_bleurt

    return write_random_bleurt(tmp_path_factory.mktemp("bleurt") / "bleurt")


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.random_metrics import write_random_bleurt

    return write_random_bleurt(tmp_path_factory.mktemp("bleurt") / "older", embedding=None)


@pytest.fixture(scope="module")
def bleurt(folder: Path) -> Any:
    return load(folder)


def load(folder: Path, **options: Any) -> Any:
    from mbr.metrics import get_metric

    return get_metric("bleurt", model=folder, device="cpu", **options)


def plain(folder: Path, rows: list[tuple[str, str, str]]) -> np.ndarray:
    """As bleurt-pytorch scores them, row by row."""
    reason = "bleurt-pytorch runs with transformers 4 only"
    if __import__("transformers").__version__.startswith("5"):
        pytest.skip(reason)
    package = pytest.importorskip("bleurt_pytorch", reason=reason)
    import torch

    model = package.BleurtForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = package.BleurtTokenizer.from_pretrained(folder)
    with torch.no_grad():
        return np.array(
            [
                # Lists, as its authors call it: with single texts some tokenizers leave out an empty one.
                model(
                    **tokenizer([reference], [hypothesis], truncation=True, max_length=512, return_tensors="pt")
                ).logits
                for _, hypothesis, reference in rows
            ]
        ).ravel()


def test_scores_are_those_of_bleurt_pytorch(folder: Path, bleurt: Any) -> None:
    expected = plain(folder, ROWS)
    assert np.ptp(expected) > 0.5
    np.testing.assert_allclose(bleurt.score(ROWS), expected, atol=1e-4)


def test_the_older_versions_score_as_in_bleurt_pytorch(older: Path) -> None:
    rows = [row for row, cut in zip(ROWS, CUT, strict=True) if not cut]
    np.testing.assert_allclose(load(older).score(rows), plain(older, rows), atol=1e-4)


def test_scores_are_known_numbers(bleurt: Any) -> None:
    """From bleurt-pytorch 0.0.1 with transformers 4.57."""
    np.testing.assert_allclose(bleurt.score(ROWS)[[0, 1, 4, 8]], PINNED, atol=1e-4)


PINNED = [-0.523847, -1.241830, 0.190202, -0.163271]


@pytest.mark.parametrize("budget", [8, 9])
def test_tokens_are_dropped_one_by_one_from_the_longer_text(budget: int) -> None:
    from mbr.metrics.bleurt import fit

    lengths = np.array([(a, b) for a in range(14) for b in range(14)])
    expected = []
    for a, b in lengths.tolist():
        while a + b > budget:
            a, b = (a - 1, b) if a > b else (a, b - 1)
        expected.append((a, b))
    np.testing.assert_array_equal(fit(lengths, budget), expected)


def test_order_and_batch_size_change_nothing(folder: Path, bleurt: Any) -> None:
    order = np.random.default_rng(0).permutation(len(ROWS))
    expected = bleurt.score(ROWS)[order]
    with load(folder, batch_tokens=600) as other:
        np.testing.assert_allclose(other.score([ROWS[i] for i in order]), expected, atol=1e-5)


def test_each_pair_is_computed_once_whatever_the_source(folder: Path) -> None:
    with load(folder) as metric:
        seen: list[int] = []
        metric._runner.network.register_forward_hook(lambda module, inputs, output: seen.append(len(inputs[0])))
        rows = [("A.", "x", "y"), ("B.", "x", "y"), ("A.", "y", "x"), ("A.", "x", "y")]
        scores = metric.score(rows)
        assert sum(seen) == 2
        assert scores[0] == scores[1] == scores[3] != scores[2]
        assert metric.tokens(rows) == metric.tokens(rows[1:3])
        assert metric.score([]).shape == metric.truncated([]).shape == (0,)


def test_texts_that_do_not_fit_are_told_before_any_is_scored(folder: Path) -> None:
    with load(folder) as metric:
        assert metric.truncated(ROWS).tolist() == CUT


def test_bf16_is_near_float32(folder: Path, bleurt: Any) -> None:
    with load(folder, dtype="bf16") as metric:
        assert metric.settings()["dtype"] == "bf16"
        np.testing.assert_allclose(metric.score(ROWS), bleurt.score(ROWS), atol=0.05)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("safetensors", [False, True])
def test_all_formats_of_weights_give_the_same_model(
    tmp_path: Path, bleurt: Any, shards: int, safetensors: bool
) -> None:
    from tests.support.random_metrics import write_random_bleurt

    root = write_random_bleurt(tmp_path / "bleurt", shards=shards, safetensors=safetensors)
    with load(root) as metric:
        assert metric.settings() == bleurt.settings()


def test_the_tokenizer_may_be_elsewhere(folder: Path, bleurt: Any, tmp_path: Path) -> None:
    model, vocabulary = tmp_path / "bleurt", tmp_path / "vocabulary"
    shutil.copytree(folder, model)
    vocabulary.mkdir()
    (model / "spm.model").rename(vocabulary / "sentencepiece.model")
    with pytest.raises(ModelError, match="no tokenizer: expected spm.model .*--encoder"):
        load(model)
    assert load(model, encoder=vocabulary).settings() == bleurt.settings()


def damage_nothing_left(root: Path) -> None:
    (root / "pytorch_model.bin").unlink()


def damage_one_weight(root: Path) -> None:
    drop_weight(root, "bleurt.encoder.embedding_projection.weight")


def damage_layers(root: Path) -> None:
    change_config(root, num_hidden_layers=1)


def damage_shape(root: Path) -> None:
    change_config(root, hidden_size=64)


def damage_kind(root: Path) -> None:
    change_config(root, model_type="rembert")


def damage_heads(root: Path) -> None:
    change_config(root, num_attention_heads=5)


def damage_file(root: Path) -> None:
    (root / "pytorch_model.bin").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")


def damage_by_program(root: Path) -> None:
    import torch

    torch.save({"weights": Path("x")}, root / "pytorch_model.bin")


def damage_vocabulary(root: Path) -> None:
    (root / "spm.model").write_bytes(b"nothing")


def damage_config(root: Path) -> None:
    (root / "config.json").unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_nothing_left, "holds no weights; expected model.safetensors or pytorch_model.bin"),
        (damage_one_weight, "1 weight is missing, e.g. encoder.encoder.embedding_hidden_mapping_in.weight"),
        (damage_layers, "16 weights have no place in this network"),
        (damage_shape, "do not fit the configuration"),
        (damage_kind, "a model of type rembert, not bleurt"),
        (damage_heads, "cannot build BLEURT"),
        (damage_file, "pytorch_model.bin"),
        (damage_by_program, "refused, it is not a plain file of weights"),
        (damage_vocabulary, "not a sentencepiece vocabulary"),
        (damage_config, "has no config.json; expected the folder of a transformers model"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_broken_checkpoint_is_an_error_that_says_why(folder: Path, tmp_path: Path, damage: Any, message: str) -> None:
    assert_refused(load, folder, tmp_path / "bleurt", damage, message)


def test_rows_need_a_reference(bleurt: Any) -> None:
    with pytest.raises(UsageError, match="bleurt takes rows of"):
        bleurt.score([("A dog.", "Ein Hund.")])


def test_a_closed_model_says_so(folder: Path) -> None:
    with load(folder) as metric:
        pass
    with pytest.raises(UsageError, match="closed"):
        metric.score(ROWS[:1])
