"""What scripts for pear-mt 1.1.1 do beyond calling functions: imports, other models, the metric as a torch module."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pear
from candidates.common.errors import ModelError, UsageError
from pear.models.base import DEFAULT_ENCODER_REVISIONS, MetricModel, resolve_encoder_revision

SAMPLES = pear.build_pairwise_samples(
    ["A dog.", "A cat.", "long " * 600], ["Ein Hund.", "Eine Katze.", "lang " * 600], ["Der Hund.", "", "Katze " * 600]
)


@pytest.fixture
def metric(released: Path) -> MetricModel:
    return pear.load_metric(released / "checkpoints" / "model.ckpt")


def scores(metric: MetricModel) -> Any:
    return np.array(metric.predict(SAMPLES, gpus=0, progress_bar=False).scores)


class Favourite:
    """A model of a script's own, with nothing but `predict`."""

    def __init__(self) -> None:
        self.options: list[dict[str, Any]] = []
        self.samples: list[list[dict[str, str]]] = []

    def predict(self, samples: list[dict[str, str]], **options: Any) -> dict[str, Any]:
        self.samples.append(samples)
        self.options.append(options)
        return {"scores": torch.tensor([float(len(row["mt_0"]) - len(row["mt_1"])) for row in samples])}


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("pear", "build_pairwise_samples download_model load_from_checkpoint load_metric score_pairwise __version__"),
        ("pear.inference", "load_metric score_pairwise score_reference_anchored build_reference_anchored_samples"),
        ("pear.mbr", "pear_utility_matrix select_mbr_hypothesis"),
        ("pear.models", "download_model load_from_checkpoint str2model DEFAULT_HF_MODELS DEFAULT_HF_REVISIONS"),
        ("pear.models", "MetricModel PairwiseMetric"),
        ("pear.models.base", "MetricModel DEFAULT_ENCODER_REVISIONS resolve_encoder_revision"),
        ("pear.models.utils", "Prediction"),
        ("pear.encoders", "str2encoder"),
        ("pear.encoders.base", "Encoder"),
        ("pear.encoders.xlmr", "XLMREncoder"),
        ("pear.encoders.xlmr_xl", "XLMRXLEncoder"),
        ("pear.commands.main", "main"),
    ],
)
def test_scripts_find_the_names_of_pear_mt(module: str, names: str) -> None:
    for name in names.split():
        assert getattr(importlib.import_module(module), name) is not None


@pytest.mark.parametrize("name", ["encoders", "inference", "mbr", "models"])
def test_the_parts_are_there_after_import_pear(name: str) -> None:
    assert getattr(pear, name) is importlib.import_module(f"pear.{name}")


def test_a_model_with_predict_alone_is_enough() -> None:
    model = Favourite()
    both = pear.score_pairwise(model, ["s", "s"], ["abc", "a"], ["a", "abcd"], mode="both", batch_size=3, gpus=0)
    assert both == {"forward": [2.0, -3.0], "reverse": [-2.0, 3.0]}
    assert model.samples[1] == pear.build_pairwise_samples(["s", "s"], ["a", "abcd"], ["abc", "a"])
    assert model.options[0] == {"batch_size": 3, "gpus": 0, "progress_bar": True, "output_field": "scores"}
    assert pear.score_reference_anchored(model, ["s"], ["ab"], ["a"]) == [1.0]


@pytest.mark.parametrize(("mode", "pairs"), [("half", 3), ("full", 6)])
def test_a_matrix_by_a_model_with_predict_alone(mode: Any, pairs: int) -> None:
    model = Favourite()
    matrix = pear.pear_utility_matrix(model, "s", ["abcd", "ab", "a"], mode=mode)
    assert matrix.tolist() == [[0, 2, 3], [-2, 0, 1], [-3, -1, 0]]
    assert [len(samples) for samples in model.samples] == [pairs]
    assert pear.pear_utility_matrix(model, "s", ["a"]).tolist() == [[0]]
    assert len(model.samples) == 1


def test_state_keys_are_those_of_the_released_checkpoint(metric: MetricModel, released: Path) -> None:
    content = torch.load(released / "checkpoints" / "model.ckpt", weights_only=True)
    state = metric.state_dict()
    assert state.keys() == content["state_dict"].keys()
    assert all(torch.equal(state[key], value) for key, value in content["state_dict"].items())
    assert {name for name, _ in metric.named_parameters()} == state.keys()


def test_weights_that_a_script_loads_are_those_that_score(metric: MetricModel, released: Path) -> None:
    before = scores(metric)
    state = metric.state_dict()
    other = pear.load_metric(released)
    for changed in ("_alpha_raw", "span_proj.0.weight", "encoder.model.encoder.layer.0.attention.self.value.weight"):
        copied = {key: value.clone() for key, value in state.items()}
        other.load_state_dict({**copied, changed: state[changed] * 1.5}, assign=changed == "_alpha_raw")
        assert np.abs(scores(other) - before).max() > 1e-3, changed
    other.load_state_dict(state)
    np.testing.assert_array_equal(scores(other), before)
    with torch.no_grad():
        other.get_parameter("pair_head.ff.9.weight").zero_()
    assert not scores(other).any()


def test_moving_and_modes_leave_scores_as_they_are(metric: MetricModel) -> None:
    before = scores(metric)
    assert metric.to("cpu") is metric
    assert metric.device == torch.device("cpu")
    assert not metric.eval().training
    assert metric.train().training
    np.testing.assert_array_equal(scores(metric), before)  # no dropout
    assert sum(weight.numel() for weight in metric.parameters()) == sum(
        weight.numel() for weight in metric.checkpoint.network.parameters()
    )


@pytest.mark.parametrize(("method", "dtype"), [("half", torch.float16), ("bfloat16", torch.bfloat16)])
def test_lower_precision_is_that_of_the_encoder(metric: MetricModel, method: str, dtype: torch.dtype) -> None:
    before = scores(metric)
    assert getattr(metric, method)().dtype == dtype
    lower = scores(metric)
    assert metric.dtype == dtype
    assert metric.get_parameter("pair_head.ff.0.weight").dtype == torch.float32
    assert 0 < np.abs(lower - before).max() < 0.2 * np.abs(before).max()
    assert scores(metric.float()) == pytest.approx(before, abs=0.2)


def test_forward_gives_what_predict_gives(metric: MetricModel) -> None:
    batch = metric.prepare_sample(SAMPLES)
    assert batch.keys() == {"input_ids", "attention_mask", "src_mask", "mt0_mask", "mt1_mask"}
    output = metric(**batch)
    np.testing.assert_allclose(output.score.detach().numpy(), scores(metric), atol=1e-5)
    np.testing.assert_allclose((output.z * metric.checkpoint.network.head.scale).detach(), output.score.detach())  # type: ignore[operator]
    output.score.sum().backward()
    assert metric.get_parameter("_alpha_raw").grad is not None


def test_the_encoder_answers_as_that_of_pear_mt(metric: MetricModel) -> None:
    encoder = metric.encoder
    batch = metric.prepare_sample(SAMPLES[:1])
    states = encoder(batch["input_ids"], batch["attention_mask"])
    assert len(states) == encoder.num_layers
    assert states[-1].shape == (*batch["input_ids"].shape, encoder.output_units)
    assert (encoder.max_positions, encoder.size_separator) == (512, 2)


def test_an_encoder_loads_by_itself(released: Path) -> None:
    encoder = pear.encoders.str2encoder["XLM-RoBERTa"].from_pretrained(
        str(released / "encoder"), load_pretrained_weights=False, local_files_only=True
    )
    assert isinstance(encoder, pear.encoders.XLMREncoder)
    assert encoder.tokenizer("A dog.")["input_ids"][0] == encoder.tokenizer.cls_token_id
    assert encoder.output_units == encoder.model.config.hidden_size


def test_pinned_revisions() -> None:
    for name, revision in DEFAULT_ENCODER_REVISIONS.items():
        assert resolve_encoder_revision(name, None) == revision
        assert resolve_encoder_revision(name, "other") == "other"
    assert resolve_encoder_revision("someone/else", None) is None
    assert pear.models.DEFAULT_HF_REVISIONS["pear"] == pear.models.DEFAULT_HF_REVISIONS["Prosho/pear"]


def test_a_model_that_cannot_be_fetched_is_a_key_error_too() -> None:
    with pytest.raises(KeyError) as caught:
        pear.download_model("someone/nothing", local_files_only=True)
    assert isinstance(caught.value, ModelError)
    assert str(caught.value).startswith("someone/nothing: no such folder; taken for the name of a model on the hub")


def test_requests_that_make_no_sense(metric: MetricModel, released: Path) -> None:
    with pytest.raises(ValueError, match="only valid for a model on the Hugging Face hub"):
        pear.load_metric(released / "checkpoints" / "model.ckpt", revision="main")
    with pytest.raises(UsageError, match="output_field 'embeddings'"):
        metric.predict(SAMPLES, output_field="embeddings")
    with pytest.raises(UsageError, match="stage 'train'"):
        metric.prepare_sample(SAMPLES, stage="train")
    with pytest.raises(ModelError, match="class_identifier 'other'"):
        pear.load_from_checkpoint(released / "checkpoints" / "model.ckpt", class_identifier="other")
    with pytest.raises(ValueError, match="mode must be"):
        pear.pear_utility_matrix(metric, "s", ["a", "b"], mode="third")  # type: ignore[arg-type]
