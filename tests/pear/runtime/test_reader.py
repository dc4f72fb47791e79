"""An encoder over two translation models, as it scores; tests/pear/training/test_reader.py has what it computes."""

from __future__ import annotations

import copy
import gc
import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pear.checkpoint import load_checkpoint, save_checkpoint
from pear.engine import Engine
from pear.models.base import MetricModel
from pear.runtime.devices import in_place
from pear.runtime.int8 import Int8Linear, has_int8
from pear.runtime.reader import Texts, distinct_rows
from tests.conftest import ROOT

SAMPLES = [{"src": "A dog.", "mt_0": "Ein Hund.", "mt_1": "Hund </s> Hund"}, {"src": "", "mt_0": "", "mt_1": "Hund."}]


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_weights_are_released_with_the_last_name_for_them(no_collector: None) -> None:
    reader: Any = load_checkpoint("en-de").network.encoder
    weight = weakref.ref(reader.types.weight)
    del reader
    assert weight() is None


def test_scripts_for_pear_mt_see_its_states_and_scores() -> None:
    metric = MetricModel(load_checkpoint("en-de"))
    sample = metric.prepare_sample(SAMPLES)
    with torch.no_grad():
        states = metric.encoder(sample["input_ids"], sample["attention_mask"])
        score = metric(**sample).score
    assert len(states) == metric.encoder.num_layers
    last = metric.encoder.model(sample["input_ids"], sample["attention_mask"])
    assert last.hidden_states is None
    torch.testing.assert_close(states[-1], last.last_hidden_state, atol=1e-5, rtol=1e-4)
    assert score.tolist() == pytest.approx(metric.predict(SAMPLES, gpus=0, progress_bar=False).scores, abs=1e-4)


def test_distinct_rows_are_found_with_their_places() -> None:
    rows = torch.tensor([[2, 1], [0, 3], [2, 1], [0, 1]])
    found, numbers = distinct_rows(rows)
    assert len(found) == 3
    assert torch.equal(found[numbers], rows)


def test_with_the_texts_found_before_no_value_on_the_device_is_waited_for() -> None:
    """Tensors on the device `meta` have no values: reading one, as `bool` or `torch.unique` would, is an error."""
    checkpoint = load_checkpoint("en-de")
    reader: Any = checkpoint.network.encoder
    sample = MetricModel(checkpoint).prepare_sample(SAMPLES)
    ids, present = sample["input_ids"], sample["attention_mask"].bool()
    texts = Texts.of(ids, present, reader.config)
    with torch.inference_mode():
        expected = reader(ids, present).last_hidden_state
        assert torch.equal(reader(ids, present, texts=texts).last_hidden_state, expected)
        reader.to("meta")
        moved = texts.moved(lambda tensor: tensor.to("meta"))
        assert {tensor.device.type for tensor in vars(moved).values() if isinstance(tensor, torch.Tensor)} == {"meta"}
        states = reader(ids.to("meta"), present.to("meta"), texts=moved).last_hidden_state
    assert states.shape == expected.shape


@pytest.fixture(scope="module")
def listed() -> list[tuple[str, str, str]]:
    """Pairs of candidates of two real lists, in both orders."""
    lines = (ROOT / "benchmarks" / "sample" / "en-de.jsonl").read_text(encoding="utf-8").splitlines()
    lists = [json.loads(line) for line in lines[:2]]
    texts = [(item["source"], list(dict.fromkeys(item["candidates"]))[:8]) for item in lists]
    return [(source, a, b) for source, some in texts for a in some for b in some if a != b]


# Of bf16 1.5 % and of int8 2 to 3 % of a standard deviation are measured, by processor.
@pytest.mark.parametrize(
    ("dtype", "error"),
    [
        ("bf16", 0.04),
        pytest.param(
            "int8", 0.06, marks=pytest.mark.skipif(not has_int8(), reason="this processor does not multiply int8")
        ),
    ],
)
def test_scores_of_fewer_bits_are_near_those_of_float32(
    listed: list[tuple[str, str, str]], dtype: str, error: float
) -> None:
    checkpoint = load_checkpoint("en-de")
    exact = Engine(copy.deepcopy(checkpoint.network), checkpoint.tokenizer, device="cpu").score(listed)
    scores = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu", dtype=dtype).score(listed)
    assert 0 < (scores - exact).std() < error * exact.std()
    clear = np.abs(exact) > 0.2 * exact.std()
    assert np.array_equal(np.sign(scores[clear]), np.sign(exact[clear]))


@pytest.mark.skipif(not has_int8(), reason="this processor does not multiply int8")
def test_in_int8_the_words_logits_are_too_and_the_embeddings_stay_for_look_ups() -> None:
    network: Any = load_checkpoint("en-de").network
    plain = copy.deepcopy(network.encoder.forward_model)
    model = in_place(network, "cpu", "int8").encoder.forward_model
    assert isinstance(model.vocabulary, Int8Linear)
    assert torch.equal(model.embeddings.weight, plain.embeddings.weight)
    states = torch.randn(5, plain.embeddings.weight.shape[1])
    with torch.inference_mode():
        logits, exact = model._logits(states), plain._logits(states)
    words = plain.output_bias > -1e4  # all but padding
    assert (logits - exact)[:, words].std() < 0.02 * exact[:, words].std()


def test_a_checkpoint_is_written_as_it_was_read(tmp_path: Path) -> None:
    checkpoint = load_checkpoint("en-de", strict=True)
    save_checkpoint(checkpoint, tmp_path / "written", half=True)
    bundled = ROOT / "pear" / "bundled" / "en-de" / "model.safetensors"
    assert (tmp_path / "written" / "model.safetensors").read_bytes() == bundled.read_bytes()
