"""dtype `auto`: what it takes, what it refuses, what it remembers, and when it lets the float32 weights go."""

from __future__ import annotations

import copy
import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from candidates.common.cache import cache_folder
from pear.engine import Engine
from pear.runtime import choice as choice_module
from pear.runtime import precision
from pear.runtime.choice import PrecisionChoice, fastest
from pear.runtime.precision import Agreement, Verdict, Verdicts, cpu_abilities, faster_precisions, regret
from pear.runtime.probes import PROBES, scattered_pairs
from tests.support.random_pear import random_checkpoint

TIME = PrecisionChoice._time


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return random_checkpoint(tmp_path_factory.mktemp("x"), layers=1, hidden=32, heads=2, attention_gain=0.1)


@pytest.fixture
def checkpoint(made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A small PEAR, an empty cache, and a processor that has bf16 and nothing faster."""
    monkeypatch.setenv("MBR_CACHE", str(tmp_path / "cache"))
    offer(monkeypatch, "bf16")
    return made


def offer(monkeypatch: pytest.MonkeyPatch, *dtypes: str) -> None:
    """Precisions that the processor has, the fastest first."""
    monkeypatch.setattr(choice_module, "faster_precisions", lambda device: dtypes)
    monkeypatch.setattr(PrecisionChoice, "_time", lambda self: 1.0 + dtypes.index(self._runner.precision))


def auto(checkpoint: Any, name: str = "random@1") -> Engine:
    return Engine(copy.deepcopy(checkpoint.network), checkpoint.tokenizer, device="cpu", dtype="auto", name=name)


def allow(monkeypatch: pytest.MonkeyPatch, error: float, loss: float = 0.01) -> None:
    monkeypatch.setattr(precision, "MOST_ERROR", error)
    monkeypatch.setattr(choice_module, "MOST_REGRET", loss)


@pytest.mark.parametrize(("error", "chosen"), [(0.5, "bf16"), (0.0, "float32")])
def test_the_fastest_precision_that_agrees_is_taken(
    checkpoint: Any, monkeypatch: pytest.MonkeyPatch, error: float, chosen: str
) -> None:
    allow(monkeypatch, error)
    engine = auto(checkpoint)
    assert engine.precision == chosen
    (note,) = engine.runner.choice.notes()  # type: ignore[union-attr]
    assert note.startswith("bf16 against float32 on 16 probe pairs: error")
    assert note.endswith("; agrees") == (chosen == "bf16")
    named = Engine(copy.deepcopy(checkpoint.network), checkpoint.tokenizer, device="cpu", dtype=chosen)
    np.testing.assert_array_equal(engine.score(PROBES), named.score(PROBES))


@pytest.mark.parametrize("error", [0.5, 0.0])
def test_the_verdict_is_remembered_and_the_probes_are_not_scored_again(
    checkpoint: Any, monkeypatch: pytest.MonkeyPatch, error: float
) -> None:
    allow(monkeypatch, error)
    first = auto(checkpoint).precision
    monkeypatch.setattr(Engine, "_preferences", lambda self, pairs: pytest.fail("the probes were scored again"))
    again = auto(checkpoint)
    assert again.precision == first
    assert again.runner.choice.notes() == []  # type: ignore[union-attr]
    with pytest.raises(BaseException, match="scored again"):
        auto(checkpoint, name="random@2")


@pytest.mark.parametrize("order", [("fp16", "bf16"), ("bf16", "fp16")])
def test_of_precisions_that_agree_the_faster_one_is_taken(
    checkpoint: Any, monkeypatch: pytest.MonkeyPatch, order: tuple[str, ...]
) -> None:
    offer(monkeypatch, *order)
    monkeypatch.setattr(choice_module, "faster_precisions", lambda device: ("bf16", "fp16"))
    allow(monkeypatch, 0.5)
    engine = auto(checkpoint)
    assert engine.precision == order[0]
    *agreements, last = engine.runner.choice.notes()  # type: ignore[union-attr]
    assert [note.split()[0] for note in agreements] == ["bf16", "fp16"]
    assert last.startswith(f"{order[0]} is taken; CPU time of the same pairs: bf16 ")
    assert auto(checkpoint).precision == order[0]  # remembered


@pytest.mark.parametrize(
    ("seconds", "chosen"), [((1.0, 2.0), "int8"), ((2.0, 1.0), "bf16"), ((1.0, 1.04), "bf16"), ((1.0, 1.1), "int8")]
)
def test_of_precisions_that_take_as_long_the_one_nearer_to_float32_is_taken(
    seconds: tuple[float, float], chosen: str
) -> None:
    times = dict(zip(("int8", "bf16"), seconds, strict=True))
    assert fastest(times, {"int8": 0.02, "bf16": 0.01}) == chosen


@pytest.mark.parametrize(("long", "rounds"), [(1e9, choice_module.ROUNDS), (0.0, 0)])
def test_timing_is_bounded(checkpoint: Any, monkeypatch: pytest.MonkeyPatch, long: float, rounds: int) -> None:
    """A model that takes long for the probes is timed by them."""
    monkeypatch.setattr(choice_module, "faster_precisions", lambda device: ("bf16", "fp16"))
    monkeypatch.setattr(PrecisionChoice, "_time", TIME)
    monkeypatch.setattr(choice_module, "LONG", long)
    monkeypatch.setattr(choice_module, "ENOUGH", 1e9)
    allow(monkeypatch, 0.5)
    asked: list[int] = []
    preferences = Engine._preferences
    monkeypatch.setattr(
        Engine, "_preferences", lambda self, pairs: asked.append(len(pairs)) or preferences(self, pairs)
    )
    engine = auto(checkpoint)
    assert set(engine.runner.choice.seconds) == {"bf16", "fp16"}  # type: ignore[union-attr]
    assert sorted(asked) == [len(PROBES)] * 3 + [len(scattered_pairs())] * 2 * rounds
    assert engine.runner.tokens == 0


def test_pairs_that_are_timed_are_of_distinct_candidates() -> None:
    pairs = scattered_pairs()
    assert len({a for _, a, _ in pairs}) == len({b for _, _, b in pairs}) == len(pairs)
    assert all(a != b for _, a, b in pairs)


def test_a_damaged_verdict_is_made_again_and_a_cache_that_cannot_be_written_stops_nothing(
    checkpoint: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    allow(monkeypatch, 0.5)
    auto(checkpoint)
    (file,) = (cache_folder() / "precision").iterdir()
    whole = file.read_bytes()
    for damage in (b"", b"[]", b'{"dtype": "int4"}', whole.replace(b"bf16", b"bf17")):
        file.write_bytes(damage)
        assert auto(checkpoint).precision == "bf16"
        assert file.read_bytes() == whole
    (tmp_path / "blocked").write_text("a file where a folder should be")
    monkeypatch.setenv("MBR_CACHE", str(tmp_path / "blocked"))
    assert auto(checkpoint).precision == "bf16"


def test_a_verdict_is_for_one_processor_and_one_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MBR_CACHE", str(tmp_path))
    Verdicts("m@1", "cpu").remember(Verdict("bf16", listed=True))
    assert Verdicts("m@1", "cpu").recall() == Verdict("bf16", listed=True)
    monkeypatch.setattr(precision, "cpu_abilities", lambda: ("of another processor",))
    assert Verdicts("m@1", "cpu").recall() is None
    monkeypatch.undo()
    monkeypatch.setenv("MBR_CACHE", str(tmp_path))
    monkeypatch.setattr(torch, "__version__", "3.0")
    assert Verdicts("m@1", "cpu").recall() is None


def test_a_list_that_would_be_decided_otherwise_leads_to_the_next_precision(
    checkpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, "fp16", "bf16")
    allow(monkeypatch, 0.5)
    engine = auto(checkpoint)
    assert engine.precision == "fp16"
    expected = {"float32": [1.0, 0.0], "fp16": [0.0, 1.0], "bf16": [1.0, 0.1]}
    choice: Any = engine.runner.choice
    assert choice.wants_list
    choice.check_list(lambda: np.array(expected[engine.precision]))
    assert engine.precision == "bf16"
    assert not choice.wants_list
    later = auto(checkpoint)
    assert later.precision == "bf16"
    assert not later.runner.choice.wants_list  # type: ignore[union-attr]


@pytest.mark.parametrize(("bf16", "kept"), [([0.999, 1.0, 0.0], "bf16"), ([0.98, 0.5, 1.0], "float32")])
def test_a_list_allows_a_loss_of_one_hundredth(
    checkpoint: Any, monkeypatch: pytest.MonkeyPatch, bf16: list[float], kept: str
) -> None:
    allow(monkeypatch, 0.5)
    engine = auto(checkpoint)
    expected = {"float32": [1.0, 0.995, 0.0], "bf16": bf16}
    engine.runner.choice.check_list(lambda: np.array(expected[engine.precision]))  # type: ignore[union-attr]
    assert engine.precision == kept


def test_the_first_score_lets_the_float32_weights_go(checkpoint: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch, 0.5)
    engine = auto(checkpoint)
    choice: Any = engine.runner.choice
    exact = weakref.ref(choice._exact)
    assert engine.runner.tokens == 0  # a check is no work
    assert choice.wants_list
    engine.score(PROBES[:1])
    gc.collect()
    assert exact() is None
    assert not choice.wants_list
    choice.check_list(lambda: pytest.fail("nothing is checked any more"))
    assert engine.runner.tokens > 0
    assert {weight.dtype for weight in engine.runner.network.encoder.parameters()} == {torch.bfloat16}


def test_scores_that_are_no_numbers_do_not_agree() -> None:
    exact = np.array([1.0, -2.0, 0.5])
    assert Agreement.between(exact, exact, "bf16").fine
    assert not Agreement.between(exact, np.array([1.0, np.nan, 0.5]), "fp16").fine
    assert not Agreement.between(exact, exact + np.inf, "fp16").fine
    assert regret(exact, np.array([1.0, np.nan, 0.5])) == float("inf")
    assert regret(exact, -exact) == 1.0
    assert regret(np.zeros(3), exact) == 0.0
    wrong_way = Agreement.between(exact, -exact, "int8")
    assert (wrong_way.error, wrong_way.same_sign) == (2.0, 0.0)


def test_what_is_faster_follows_from_the_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_int8", lambda: True)
    for can, expected in (
        (("avx2",), ()),
        (("avx512_vnni",), ("int8",)),
        (("amx_bf16", "amx_int8"), ("int8", "bf16")),
        (("avx512_bf16",), ("bf16",)),
    ):
        monkeypatch.setattr(precision, "cpu_abilities", lambda can=can: can)
        assert faster_precisions("cpu") == expected
    assert faster_precisions("mps") == ()
    monkeypatch.undo()
    assert set(cpu_abilities()) <= set(torch.cpu.get_capabilities())


def test_a_copy_shares_its_weights_until_it_changes_them() -> None:
    from pear.runtime.devices import sharing_weights

    plain = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    plain[1].weight = plain[0].weight  # tied
    other = sharing_weights(plain)
    assert other[0].weight.data_ptr() == plain[0].weight.data_ptr()
    assert other[1].weight is other[0].weight
    other.to(torch.bfloat16)
    assert (plain[0].weight.dtype, other[0].weight.dtype) == (torch.float32, torch.bfloat16)
