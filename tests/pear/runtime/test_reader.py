"""An encoder over two translation models, as it scores; tests/pear/training/test_reader.py has what it computes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from pear.checkpoint import load_checkpoint
from pear.models.base import MetricModel
from pear.runtime.reader import distinct_rows

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
