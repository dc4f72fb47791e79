"""BERTScore: the numbers of bert-score, from tiny random encoders of four kinds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from candidates.common.errors import ModelError, UsageError
from mbr.metrics import get_metric
from tests.mbr.metrics.damage import assert_refused, change_config, drop_weight
from tests.support.random_metrics import write_random_encoder

ROWS = [
    ("", "Ein Hund läuft.", "Der Hund rennt."),
    ("", "Ein Hund läuft.", "Ein Hund läuft."),
    ("", "", "Der Hund."),
    ("", "Ein Hund.", "  "),
    ("", "  Sie kaufte Brot, zwei Eier\n", "Sie kaufte Brot und Milch."),
    ("", "天地玄黃，宇宙洪荒。", "いろはにほへと"),
    ("", "Tom sagte mir, dass er kommt. " * 60, "Tom told me that he wanted to meet my parents."),  # cut
]
IDF = "Der Hund rennt.\nEin Hund schläft.\nSie kaufte Brot.\nTom kommt.\n"
BASELINE = "LAYER,P,R,F\n0,0.1,0.1,0.1\n1,0.2,0.2,0.2\n2,0.3,0.31,0.32\n3,0.4,0.4,0.4\n"

# From bert-score 0.3.13 with transformers 4.57 (`python -m benchmarks.parity_libraries bertscore`):
# BERTScorer(num_layers=2) on encoders of `write_random_encoder`, pair by pair (batch_size=1), with idf_sents=IDF and
# baseline_path=BASELINE where the name says so.
LIBRARY: dict[tuple[str, str], dict[str, list[float]]] = {
    ("bert", "plain"): {
        "precision": [0.759154, 1.0, 0.0, 0.0, 0.908977, 0.703367, 0.847519],
        "recall": [0.75347, 1.0, 0.0, 0.0, 0.905323, 0.769888, 0.852962],
        "f1": [0.756301, 1.0, 0.0, 0.0, 0.907146, 0.735125, 0.850232],
    },
    ("bert", "idf"): {
        "precision": [0.766186, 1.0, 0.0, 0.0, 0.906206, 0.703367, 0.844557],
        "recall": [0.740031, 1.0, 0.0, 0.0, 0.896002, 0.769888, 0.839227],
        "f1": [0.752881, 1.0, 0.0, 0.0, 0.901075, 0.735125, 0.841884],
    },
    ("bert", "baseline"): {
        "precision": [0.655934, 1.0, -0.428571, -0.428571, 0.869967, 0.576238, 0.782171],
        "recall": [0.642711, 1.0, -0.449275, -0.449275, 0.862787, 0.666504, 0.786901],
        "f1": [0.64162, 1.0, -0.470588, -0.470588, 0.86345, 0.610479, 0.779753],
    },
    ("roberta", "plain"): {
        "precision": [0.929452, 1.0, 0.0, 0.0, 0.971981, 0.88052, 0.901105],
        "recall": [0.886622, 1.0, 0.0, 0.0, 0.963222, 0.881834, 0.922776],
        "f1": [0.907532, 1.0, 0.0, 0.0, 0.967581, 0.881176, 0.911812],
    },
    ("xlm-roberta", "plain"): {
        "precision": [0.800706, 1.0, 0.0, 0.0, 0.877149, 0.648031, 0.770808],
        "recall": [0.791838, 1.0, 0.0, 0.0, 0.877332, 0.681916, 0.897749],
        "f1": [0.796247, 1.0, 0.0, 0.0, 0.87724, 0.664542, 0.829449],
    },
    ("deberta-v2", "plain"): {
        "precision": [0.63985, 1.0, 0.0, 0.0, 0.675777, 0.601021, 0.737813],
        "recall": [0.766191, 1.0, 0.0, 0.0, 0.695065, 0.680141, 0.715738],
        "f1": [0.697344, 1.0, 0.0, 0.0, 0.685285, 0.638138, 0.726608],
    },
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    root = tmp_path_factory.mktemp("bertscore")
    (root / "idf.txt").write_text(IDF, encoding="utf-8")
    (root / "baseline.tsv").write_text(BASELINE, encoding="utf-8")

    def write(model_type: str) -> Path:
        folder = root / model_type
        return folder if folder.exists() else write_random_encoder(folder, model_type)

    return write


def load(folder: Path, **options: Any) -> Any:
    return get_metric("bertscore", model=folder, device="cpu", **{"layer": 2, **options})


@pytest.mark.parametrize(("model_type", "variant"), LIBRARY)
def test_scores_are_those_of_bert_score(written: Callable[[str], Path], model_type: str, variant: str) -> None:
    folder = written(model_type)
    extra = {"idf": {"idf": folder.parent / "idf.txt"}, "baseline": {"baseline": folder.parent / "baseline.tsv"}}
    for measure, expected in LIBRARY[model_type, variant].items():
        with load(folder, measure=measure, **extra.get(variant, {})) as metric:
            np.testing.assert_allclose(metric.score(ROWS), expected, atol=1e-4)
            assert metric.truncated(ROWS).tolist() == [False] * 6 + [True]


def test_the_layer_the_measure_and_the_files_are_in_the_settings_and_change_scores(
    written: Callable[[str], Path],
) -> None:
    folder = written("bert")
    files = {"idf": folder.parent / "idf.txt", "baseline": folder.parent / "baseline.tsv"}
    variants: list[dict[str, Any]] = [{}, {"layer": 1}, {"measure": "recall"}, *({key: files[key]} for key in files)]
    seen, scores, stamps = set(), set(), set()
    for variant in variants:
        with load(folder, **variant) as metric:
            seen.add(repr(metric.settings()))
            scores.add(float(metric.score(ROWS[:1])[0]))
            stamps.add(type(metric).stamp({"model": folder, "layer": 2, **variant}))
    assert len(seen) == len(scores) == len(stamps) == len(variants)


def test_all_pairs_are_the_single_pairs_and_each_text_is_encoded_once(written: Callable[[str], Path]) -> None:
    from mbr.utilities import get_utility

    texts = list(dict.fromkeys(text for row in ROWS[:6] for text in row[1:]))
    with load(written("bert")) as metric:
        plain = metric.score([("", h, r) for h in texts for r in texts]).reshape(len(texts), -1)
    opened: Any = get_utility("bertscore", model=written("bert"), layer=2, device="cpu")
    with opened as utility:
        seen: list[int] = []
        utility.metric._runner.network.register_forward_hook(lambda module, inputs, output: seen.append(len(inputs[0])))
        utility.prepare([("A dog.", texts)])
        np.testing.assert_allclose(utility.matrix("A dog.", texts, texts), plain, atol=1e-5)
        np.testing.assert_allclose(utility.matrix("A dog.", texts, texts[1:3]), plain[:, 1:3], atol=1e-5)
        assert sum(seen) == len(texts)
        assert not utility.truncates("", texts)
        assert utility.truncates("", [*texts, ROWS[-1][1]])
        assert utility.cost("", texts, texts)["tokens"] > 0


def test_weights_under_a_head_and_with_old_names_are_read(written: Callable[[str], Path], tmp_path: Path) -> None:
    import shutil

    import torch

    copy = shutil.copytree(written("bert"), tmp_path / "bert")
    state = torch.load(copy / "pytorch_model.bin", weights_only=True)
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    renamed = {}
    for key, value in state.items():
        ending = next((ending for ending in old if key.endswith(ending)), "")
        renamed[f"bert.{key.removesuffix(ending)}{old.get(ending, '')}"] = value
    torch.save({**renamed, "cls.predictions.bias": torch.zeros(3)}, copy / "pytorch_model.bin")
    with load(written("bert")) as metric, load(copy) as headed:
        np.testing.assert_array_equal(metric.score(ROWS), headed.score(ROWS))


def test_a_layer_is_needed_where_none_is_known(written: Callable[[str], Path]) -> None:
    folder = written("bert")
    with pytest.raises(UsageError, match=r"knows no layer for the encoder bert; give one from 1 to 3 \(layer=N\)"):
        load(folder, layer=None)
    for wrong in (0, 4, "2", True):
        with pytest.raises(UsageError, match="is none of this encoder's 1 to 3"):
            load(folder, layer=wrong)
    known = folder.with_name("roberta-large")
    if not known.exists():
        write_random_encoder(known, "roberta")
    with pytest.raises(UsageError, match="layer 17 is none of this encoder's 1 to 3"):
        load(known, layer=None)


def test_wrong_options_are_refused(written: Callable[[str], Path], tmp_path: Path) -> None:
    folder = written("bert")
    with pytest.raises(UsageError, match="measure 'f2' is unknown; expected one of precision, recall, f1"):
        load(folder, measure="f2")
    (tmp_path / "empty").write_text("")
    with pytest.raises(UsageError, match="empty is empty; expected sentences"):
        load(folder, idf=tmp_path / "empty")
    for content, message in (
        ("LAYER,P,R,F\n1,0.1,0.1,0.1\n", "has no baseline of layer 2; it has layers"),
        ("LAYER,P,R,F\n2,0.1,high,0.1\n", "is not a table of baselines"),
        ("LAYER,P,R,F\n2,1.0,0.1,0.1\n", "is not below 1"),
    ):
        (tmp_path / "baseline.tsv").write_text(content)
        with pytest.raises(UsageError, match=message):
            load(folder, baseline=tmp_path / "baseline.tsv")
    with load(folder) as metric, pytest.raises(UsageError, match=r"bertscore takes rows of \(source, hypothesis, ref"):
        metric.score([("A dog.", "Ein Hund.")])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda root: change_config(root, model_type="gpt2"), "a model of type gpt2; bertscore takes encoders: bert"),
        (lambda root: drop_weight(root, "encoder.layer.1.output.dense.weight"), "1 weight is missing, e.g. encoder"),
        (lambda root: (root / "pytorch_model.bin").unlink(), "holds no weights"),
        (lambda root: (root / "vocab.txt").unlink(), "tokenizer"),
    ],
    ids=["kind", "weight", "weights", "vocabulary"],
)
def test_a_broken_encoder_is_refused(written: Callable[[str], Path], tmp_path: Path, damage: Any, message: str) -> None:
    assert_refused(load, written("bert"), tmp_path / "bert", damage, message)


def test_a_name_that_cannot_be_found_is_refused() -> None:
    with pytest.raises(ModelError, match="google-bert/bert-base-multilingual-cased.* not in the local cache"):
        get_metric("bertscore", offline=True)
