from __future__ import annotations

import copy
import itertools
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from candidates.common.errors import EnvironmentProblem, ResourceError, UsageError
from pear.engine import Engine
from pear.model import PearNetwork
from pear.runtime.batches import BatchQueue, default_batch_tokens
from pear.runtime.int8 import has_int8
from pear.runtime.probes import PROBES, Triple
from pear.runtime.token_store import TokenStore
from pear.serialize import lay_out, share_budget
from tests.support.random_pear import CORPUS, random_checkpoint


def many(count: int = 200) -> list[Triple]:
    draw = random.Random(3)
    words = " ".join(CORPUS).split()

    def text() -> str:
        return " ".join(draw.choices(words, k=draw.choice([0, 1, 5, 12, 40])))

    return [(text(), text(), text()) for _ in range(count)]


def plain(checkpoint: Any, triples: list[Triple]) -> Any:
    """One triple at a time through the network: the oracle of every fast path."""
    engine = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu")
    store = TokenStore(checkpoint.tokenizer)
    scores = []
    for triple in triples:
        numbers = store.number(triple).reshape(1, 3)
        granted = share_budget(store.lengths[numbers], engine.layout.content_budget)
        batch = lay_out(engine.layout, store, numbers, granted)
        with torch.inference_mode():
            arrays = (torch.from_numpy(a) for a in (batch.ids, batch.attention.astype(np.int64), batch.spans))
            scores.append(float(checkpoint.network(*arrays)[0]))
    return np.array(scores)


def limit_memory(monkeypatch: pytest.MonkeyPatch, network: type, tokens: int, error: Exception) -> None:
    """Batches of more than these padded tokens fail with this error."""
    encode = network.encode  # type: ignore[attr-defined]

    def limited(self: Any, ids: Any, attention: Any) -> Any:
        if ids.numel() > tokens:
            raise error
        return encode(self, ids, attention)

    monkeypatch.setattr(network, "encode", limited)


def test_batches_give_the_scores_of_single_triples(checkpoint: Any) -> None:
    triples = many()
    expected = plain(checkpoint, triples)
    for batch_tokens in (1, 300, 5000):
        engine = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu", batch_tokens=batch_tokens)
        np.testing.assert_allclose(engine.score(triples), expected, atol=1e-5)


def test_scores_come_in_the_order_asked(engine: Any) -> None:
    triples = many()
    order = np.random.default_rng(1).permutation(len(triples))
    np.testing.assert_allclose(engine.score([triples[i] for i in order]), engine.score(triples)[order], atol=1e-5)


def test_equal_triples_are_scored_once_and_alike(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    encode = PearNetwork.encode

    def counted(self: Any, ids: Any, attention: Any) -> Any:
        rows.append(len(ids))
        return encode(self, ids, attention)

    monkeypatch.setattr(PearNetwork, "encode", counted)
    scores = engine.score([PROBES[0], PROBES[1], PROBES[0], PROBES[0]])
    assert sum(rows) == 2
    assert scores[0] == scores[2] == scores[3]


def test_what_went_before_does_not_change_a_single_bit(checkpoint: Any) -> None:
    triples = many(60)
    fresh = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu").score(triples)
    used = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu")
    used.score(many(100)[60:])
    assert np.array_equal(used.score(triples), fresh)


def test_nothing_asked_nothing_scored(engine: Any) -> None:
    assert engine.score([]).shape == (0,)


def test_several_devices_share_the_work_and_keep_the_order(checkpoint: Any) -> None:
    triples = many()
    one = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu", batch_tokens=400).score(triples)
    two = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu,cpu,cpu", batch_tokens=400).score(triples)
    np.testing.assert_allclose(two, one, atol=1e-5)


def test_an_error_on_one_of_several_devices_is_raised(checkpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu,cpu", batch_tokens=200)
    calls = itertools.count()
    encode = PearNetwork.encode

    def fail_at_the_third_batch(self: Any, ids: Any, attention: Any) -> Any:
        if next(calls) == 2:
            raise RuntimeError("device lost")
        return encode(self, ids, attention)

    monkeypatch.setattr(PearNetwork, "encode", fail_at_the_third_batch)
    with pytest.raises(RuntimeError, match="device lost"):
        engine.score(many())


@pytest.mark.parametrize("devices", ["cpu", "cpu,cpu"])
@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError()])
def test_out_of_memory_halves_the_batch_and_gives_the_same_scores(
    checkpoint: Any, monkeypatch: pytest.MonkeyPatch, devices: str, error: Exception
) -> None:
    triples = many()
    engine = Engine(checkpoint.network, checkpoint.tokenizer, device=devices, batch_tokens=4000)
    expected = engine.score(triples)
    limit_memory(monkeypatch, type(engine.runner.network), 600, error)
    np.testing.assert_allclose(engine.score(triples), expected, atol=1e-5)
    assert engine.batch_tokens <= 600


def test_memory_that_really_runs_out(ours: Path) -> None:
    """An address-space limit makes the allocator itself refuse; the engine must still finish."""
    program = f"""
import resource, numpy as np
from tests.pear.test_engine import many
from pear.checkpoint import load_checkpoint
from pear.engine import Engine
import torch
torch.set_num_threads(1)
checkpoint = load_checkpoint({str(ours)!r})
triples = many(1000)
expected = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu", batch_tokens=2000).score(triples)
engine = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu", batch_tokens=10_000_000)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 100_000_000, -1))
scores = engine.score(triples)
assert engine.batch_tokens < 10_000_000, "the limit never bit"
np.testing.assert_allclose(scores, expected, atol=1e-4)
"""
    root = Path(__file__).resolve().parents[2]
    # The limit counts addresses, so freed tensors must give theirs back instead of staying in the heap.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env=environment)
    assert result.returncode == 0, result.stderr[-2000:]


def test_a_single_pair_that_does_not_fit_is_a_resource_error(checkpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu")
    limit_memory(monkeypatch, PearNetwork, 0, torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(ResourceError, match="out of memory for a single row"):
        engine.score(PROBES)


def test_other_errors_of_a_model_are_not_mistaken_for_memory(checkpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu")
    limit_memory(monkeypatch, PearNetwork, 0, RuntimeError("index out of range"))
    with pytest.raises(RuntimeError, match="index out of range"):
        engine.score(PROBES)


@pytest.mark.parametrize(("dtype", "tolerance"), [("bf16", 0.2), ("fp16", 0.05)])
def test_half_precision_stays_near(tmp_path: Path, dtype: str, tolerance: float) -> None:
    checkpoint = random_checkpoint(tmp_path / "x")
    exact = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu").score(PROBES)
    rounded = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu", dtype=dtype).score(PROBES)
    assert rounded.dtype == np.float32
    assert 0 < np.abs(exact - rounded).max() < tolerance


def test_the_memory_estimate_counts_weights_in_their_precision_and_one_batch_per_replica(checkpoint: Any) -> None:
    def estimate(**options: Any) -> int:
        network = copy.deepcopy(checkpoint.network)
        return Engine(network, checkpoint.tokenizer, batch_tokens=100, **options).memory_bytes()

    encoder = sum(weight.numel() for weight in checkpoint.network.encoder.parameters())
    head = sum(weight.numel() for weight in checkpoint.network.head.parameters())
    activations = 100 * checkpoint.network.encoder.config.hidden_size * 12 * 4
    assert estimate(device="cpu") == 4 * (encoder + head) + activations
    assert estimate(device="cpu,cpu") == 2 * estimate(device="cpu")
    assert estimate(device="cpu", dtype="bf16") == 2 * encoder + 4 * head + activations
    if has_int8():
        layers = [part for part in checkpoint.network.encoder.modules() if isinstance(part, torch.nn.Linear)]
        saved = sum(3 * layer.weight.numel() - 4 * layer.out_features for layer in layers)  # a scale for each output
        assert estimate(device="cpu", dtype="int8") == 4 * (encoder + head) - saved + activations


@pytest.mark.parametrize("device", ["cpu", "cpu,cpu"])
def test_threads_limit_torch_in_every_thread_that_scores(
    checkpoint: Any, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    before = torch.get_num_threads()
    used = set()
    encode = PearNetwork.encode

    def counted(self: Any, ids: Any, attention: Any) -> Any:
        used.add(torch.get_num_threads())
        return encode(self, ids, attention)

    monkeypatch.setattr(PearNetwork, "encode", counted)
    try:
        engine = Engine(checkpoint.network, checkpoint.tokenizer, device=device, batch_tokens=200, threads=3)
        assert torch.get_num_threads() == 3
        torch.set_num_threads(2)  # as another model in the same process may do
        engine.score(many(20))
    finally:
        torch.set_num_threads(before)
    assert used == {3}


def test_an_encoder_gets_a_mask_only_where_a_batch_has_padding(
    checkpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    masks: list[Any] = []
    encode = PearNetwork.encode

    def seen(self: Any, ids: Any, attention: Any) -> Any:
        masks.append(attention)
        return encode(self, ids, attention)

    monkeypatch.setattr(PearNetwork, "encode", seen)
    engine = Engine(checkpoint.network, checkpoint.tokenizer, device="cpu")
    same_length = [tuple(CORPUS[:3]), tuple(CORPUS[2::-1])]
    scores = engine.score([*same_length])  # type: ignore[list-item]
    assert masks == [None]
    with_another = engine.score([*same_length, ("", "", "")])  # type: ignore[list-item]
    assert masks[1].shape[0] == 3
    np.testing.assert_allclose(with_another[:2], scores, atol=1e-5)


def test_truncation_is_known(engine: Any) -> None:
    long = " ".join(CORPUS) * 2
    assert engine.truncates("x", ["a", long])
    assert not engine.truncates("x", ["a", "b", "c"])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"device": "cuda:7"}, EnvironmentProblem),
        ({"device": "toaster"}, UsageError),
        ({"device": "meta"}, UsageError),
        ({"dtype": "float8"}, UsageError),
        ({"device": "cuda:7", "dtype": "int8"}, UsageError),
        ({"batch_tokens": 0}, UsageError),
        ({"threads": -1}, UsageError),
    ],
)
def test_settings_that_cannot_be_met(checkpoint: Any, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Engine(checkpoint.network, checkpoint.tokenizer, **options)


def test_a_closed_engine_says_so(checkpoint: Any) -> None:
    with Engine(checkpoint.network, checkpoint.tokenizer, device="cpu") as engine:
        pass
    with pytest.raises(UsageError, match="closed"):
        engine.score(PROBES)


def test_the_budget_never_grows_back_after_out_of_memory() -> None:
    queue = BatchQueue(np.full(64, 10), 320)
    first, second = queue.take(), queue.take()
    assert first is not None
    assert second is not None
    queue.put_back(first, MemoryError())
    smaller = queue.take()
    assert smaller is not None
    queue.put_back(smaller, MemoryError())
    assert queue.budget == 80
    queue.put_back(second, MemoryError())
    assert queue.budget == 80


def test_batches_on_a_gpu_follow_its_free_memory() -> None:
    sizes = [
        default_batch_tokens(1024, on_cpu=False, free_bytes=gigabytes * 2**30) for gigabytes in (1, 12, 15, 24, 80)
    ]
    assert sizes == [2048, 32768, 32768, 65536, 65536]  # about as much memory, the same batches
    assert default_batch_tokens(2560, on_cpu=False, free_bytes=0) == 1024
    assert default_batch_tokens(1024, on_cpu=False) == 16384
