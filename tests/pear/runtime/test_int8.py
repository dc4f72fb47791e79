"""Linear layers in int8 against their definition in exact integers, and inside encoders."""

from __future__ import annotations

import copy
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from candidates.common.errors import UsageError
from pear.engine import Engine
from pear.runtime import precision
from pear.runtime.int8 import ROWS, Int8Linear, Share, has_int8, quantise
from pear.runtime.probes import PROBES
from tests.support.random_pear import random_checkpoint

needs_int8 = pytest.mark.skipif(not has_int8(), reason="this processor does not multiply int8 exactly")


def layer(inputs: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    torch.manual_seed(inputs + outputs)
    return nn.Linear(inputs, outputs, bias=bias)


def by_definition(plain: nn.Linear, rows: Tensor) -> Tensor:
    """Levels from -127 to 127 by the largest of each row, of the input and of the weights; products in float64."""

    def levels(matrix: Tensor) -> tuple[Tensor, Tensor]:
        scales = matrix.abs().amax(dim=1, keepdim=True) / 127
        return torch.round(matrix * scales.reciprocal()).double(), scales.double()

    with torch.no_grad():
        (weight, of_output), (values, of_row) = levels(plain.weight), levels(rows)
        result = (values @ weight.T) * of_row * of_output[:, 0]
        return (result if plain.bias is None else result + plain.bias.double()).float()


@needs_int8
@pytest.mark.parametrize(
    ("inputs", "outputs", "rows"), [(64, 64, 7), (64, 256, ROWS + 88), (256, 64, 2 * ROWS), (17, 3, 5), (1024, 96, 1)]
)
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_is_its_definition(inputs: int, outputs: int, rows: int, bias: bool) -> None:
    plain = layer(inputs, outputs, bias=bias)
    values = torch.randn(rows, inputs) * torch.rand(rows, 1) * 10
    with torch.inference_mode():
        np.testing.assert_allclose(Int8Linear(plain)(values), by_definition(plain, values), atol=1e-4, rtol=1e-4)
        exact = plain(values)
        assert (Int8Linear(plain)(values) - exact).std() < 0.02 * exact.std()


@needs_int8
def test_a_token_has_the_same_bits_in_every_batch() -> None:
    quantised = Int8Linear(layer(64, 48))
    values = torch.randn(3, ROWS, 64)
    values[1] *= 100  # neighbours of another size
    with torch.inference_mode():
        together = quantised(values)
        assert together.shape == (3, ROWS, 48)
        for row, place in ((0, 0), (1, 5), (2, ROWS - 1)):
            assert torch.equal(quantised(values[row, place]), together[row, place])


@needs_int8
def test_zeros_give_the_bias_and_what_is_no_number_stays_in_its_row() -> None:
    plain = layer(8, 4)
    values = torch.zeros(3, 8)
    values[1, 2] = float("nan")
    with torch.inference_mode():
        result = Int8Linear(plain)(values)
        assert torch.equal(result[0], plain.bias)
        assert torch.equal(result[2], plain.bias)
        assert result[1].isnan().all()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.other = (layer(16, size) for size in (16, 24, 8, 16))

    def forward(self, values: Tensor, others: Tensor) -> list[Tensor]:
        return [self.query(values), self.key(others), self.value(others), self.other(values)]


@needs_int8
def test_query_key_and_value_are_computed_together_with_the_same_bits() -> None:
    plain = Attention()
    joint = copy.deepcopy(plain)
    quantise(joint)
    assert [type(part) for part in joint.children()] == [Share, Share, Share, Int8Linear]
    values, others = torch.randn(5, 7, 16), torch.randn(5, 7, 16)
    with torch.inference_mode():
        for second in (values, others):  # attention to itself, and to something else
            alone = [
                Int8Linear(part)(x) for part, x in zip(plain.children(), (values, second, second, values), strict=True)
            ]
            for result, expected in zip(joint(values, second), alone, strict=True):
                assert torch.equal(result, expected)


@needs_int8
def test_threads_share_an_attention_without_mixing_their_inputs() -> None:
    joint = Attention()
    quantise(joint)
    inputs = [torch.randn(20, 16) for _ in range(4)]
    with torch.inference_mode():
        expected = [joint(values, values) for values in inputs]
    wrong: list[int] = []

    def work(number: int) -> None:
        with torch.inference_mode():
            for _ in range(30):
                results = joint(inputs[number], inputs[number])
                if not all(map(torch.equal, results, expected[number])):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@needs_int8
@pytest.mark.parametrize(
    ("model_type", "kind"),
    [("xlm-roberta", "pear"), ("xlm-roberta-xl", "pear"), ("bert", "pear"), ("xlm-roberta", "resume")],
)
def test_every_linear_layer_of_an_encoder_is_int8_and_scores_stay_near(
    tmp_path: Path, model_type: str, kind: str
) -> None:
    shape: Any = {"layers": 2, "hidden": 64, "heads": 4, "attention_gain": 0.1}
    checkpoint = random_checkpoint(tmp_path / "x", model_type=model_type, kind=kind, **shape)
    exact = Engine(copy.deepcopy(checkpoint.network), checkpoint.tokenizer, device="cpu").score(PROBES)
    engine = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu", dtype="int8")
    scores = engine.score(PROBES)
    assert not any(isinstance(part, nn.Linear) for part in engine.runner.network.encoder.modules())
    assert any(isinstance(part, nn.Linear) for part in engine.runner.network.head.modules())
    assert engine.precision == "int8"
    assert 0 < np.abs(scores - exact).max() < 0.1 * np.abs(exact).max()
    one_by_one = np.concatenate([engine.score([triple]) for triple in PROBES])
    np.testing.assert_allclose(one_by_one, scores, atol=0.02 * np.abs(exact).max())


def test_int8_is_refused_where_it_would_be_wrong_or_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = random_checkpoint(tmp_path / "x")
    with pytest.raises(UsageError, match="int8 runs on the CPU, not on cuda; use dtype bf16"):
        Engine(checkpoint.network, checkpoint.tokenizer, device="cuda", dtype="int8")
    monkeypatch.setattr(precision, "has_int8", lambda: False)
    with pytest.raises(UsageError, match=r"no int8 instructions \(VNNI\); use dtype float32"):
        Engine(checkpoint.network, checkpoint.tokenizer, device="cpu", dtype="int8")
