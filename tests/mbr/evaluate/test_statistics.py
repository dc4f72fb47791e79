"""Intervals and tests against slow plain computations, against sacrebleu, and against closed forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mbr.evaluate import statistics as ours
from mbr.evaluate.judges import JudgeSpec
from mbr.evaluate.statistics import bootstrap_p, bootstrap_scores, compare, interval, randomisation_ps
from tests.mbr.evaluate.made import read

pytestmark = pytest.mark.one_world

Floats = NDArray[np.float64]


def mean(sums: Floats) -> Floats:
    return np.asarray(sums[:, 0] / sums[:, 1])


def scored(values: Floats) -> Floats:
    return np.stack([values, np.ones(len(values))], axis=1)


def two_systems(segments: int = 60, shift: float = 0.3) -> dict[str, Floats]:
    random = np.random.default_rng(5)
    base = random.normal(size=segments)
    return {"base": scored(base), "new": scored(base + random.normal(shift, 1, segments))}


@pytest.fixture(scope="module")
def lexical(wmt23: Path) -> dict[str, dict[str, Floats]]:
    """Statistics of two systems on 150 segments, by judge."""
    references = [read(wmt23 / "references/en-de.refA.txt")[:150]]
    found: dict[str, dict[str, Floats]] = {}
    for name in ("bleu", "chrf"):
        judge = JudgeSpec(name).open(references=1)
        for system in ("ONLINE-B", "ONLINE-Y"):
            outputs = read(wmt23 / f"system-outputs/en-de/{system}.txt")[:150]
            found.setdefault(name, {})[system] = judge.judge(judge.rows(None, outputs, references)).statistics
    return found


@pytest.mark.parametrize("name", ["bleu", "chrf"])
def test_p_values_are_those_of_sacrebleu(name: str, lexical: dict[str, dict[str, Floats]], wmt23: Path) -> None:
    from sacrebleu.metrics import BLEU, CHRF
    from sacrebleu.significance import Result, _paired_ar_test, _paired_bs_test

    judge = JudgeSpec(name).open(references=1)
    statistics = lexical[name]
    scores = {system: judge.system_score(values) for system, values in statistics.items()}
    drawn = bootstrap_scores(judge.scores, statistics, draws=300, seed=7)
    found = compare(judge.scores, statistics, scores, "ONLINE-B", drawn, trials=300, seed=7)["ONLINE-Y"]

    metric = {"bleu": BLEU, "chrf": CHRF}[name]()
    outputs, references = (
        read(wmt23 / "system-outputs/en-de/ONLINE-Y.txt")[:150],
        [read(wmt23 / "references/en-de.refA.txt")[:150]],
    )
    base = {"m": (statistics["ONLINE-B"].astype(int).tolist(), Result(scores["ONLINE-B"]))}
    _, theirs = _paired_ar_test(base, "x", outputs, references, {"m": metric}, n_samples=300, seed=7)
    assert found.p_randomisation == pytest.approx(theirs["m"].p_value, abs=1e-12)
    _, theirs = _paired_bs_test(base, "x", outputs, references, {"m": metric}, n_samples=300, seed=7)
    assert found.p_bootstrap == pytest.approx(theirs["m"].p_value, abs=1e-12)
    bounds = interval(drawn["ONLINE-Y"])
    assert (bounds.high - bounds.low) / 2 == pytest.approx(theirs["m"].ci, rel=1e-4)  # they count in float32


def test_tests_agree_with_a_slow_plain_computation() -> None:
    systems = two_systems()
    base, new = systems["base"][:, 0], systems["new"][:, 0]
    difference = new.mean() - base.mean()
    n = len(base)

    random = np.random.default_rng(3)
    bigger = 0
    for swap in random.integers(2, size=(500, n), dtype=np.bool_):
        one = [b if s else a for a, b, s in zip(new, base, swap, strict=True)]
        two = [a if s else b for a, b, s in zip(new, base, swap, strict=True)]
        bigger += abs(np.mean(one) - np.mean(two)) >= abs(difference)
    found = randomisation_ps(mean, systems, "base", {"base": 0, "new": difference}, trials=500, seed=3)
    assert found == {"base": 1.0, "new": pytest.approx((bigger + 1) / 501)}

    places = np.random.default_rng(3).choice(n, size=(500, n), replace=True)
    shifts = np.array([abs(new[row].mean() - base[row].mean()) for row in places])
    drawn = bootstrap_scores(mean, systems, draws=500, seed=3)
    assert drawn["new"] == pytest.approx([new[row].mean() for row in places])
    expected = (sum(shifts - shifts.mean() >= abs(difference)) + 1) / 501
    assert bootstrap_p(drawn["new"], drawn["base"], difference) == pytest.approx(expected)


def test_the_interval_of_a_mean_is_the_normal_one() -> None:
    values = np.random.default_rng(2).normal(10, 2, 2000)
    bounds = interval(bootstrap_scores(mean, {"x": scored(values)}, draws=4000, seed=1)["x"])
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert bounds.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert bounds.high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_randomisation_of_a_mean_is_the_normal_test() -> None:
    from statistics import NormalDist

    systems = two_systems(400, 0.1)
    shifts = systems["new"][:, 0] - systems["base"][:, 0]
    z = abs(shifts.sum()) / np.sqrt((shifts**2).sum())
    expected = 2 * (1 - NormalDist().cdf(z))
    found = randomisation_ps(mean, systems, "base", {"base": 0.0, "new": shifts.mean()}, trials=20_000, seed=1)
    assert found["new"] == pytest.approx(expected, abs=0.01)


def test_of_equal_systems_the_bootstrap_finds_too_many_different_and_randomisation_one_in_twenty() -> None:
    """The paired bootstrap in sacrebleu's form is no test of the level 5 %: it gives no mark alone."""
    random = np.random.default_rng(1)
    pairs, found = 600, []
    for seed in range(pairs):
        systems = {name: scored(random.normal(size=60)) for name in ("base", "new")}
        scores = {name: float(values[:, 0].mean()) for name, values in systems.items()}
        drawn = bootstrap_scores(mean, systems, draws=400, seed=seed)
        one = compare(mean, systems, scores, "base", drawn, trials=400, seed=seed)["new"]
        found.append((one.p_bootstrap, one.p_randomisation))
    below = np.array(found, float) < 0.05
    bootstrap, randomisation = below.mean(axis=0)
    assert 0.09 < bootstrap < 0.15
    assert 0.03 < randomisation < 0.07
    assert 0.03 < below.all(axis=1).mean() < 0.07


def test_a_system_is_never_significantly_different_from_itself() -> None:
    values = two_systems()["base"]
    systems = {"base": values, "twin": values.copy()}
    drawn = bootstrap_scores(mean, systems, draws=100, seed=1)
    for found in compare(mean, systems, {"base": 1.5, "twin": 1.5}, "base", drawn, trials=100, seed=1).values():
        assert (found.difference, found.p_bootstrap, found.p_randomisation) == (0, 1, 1)


def test_one_differing_segment_is_no_evidence() -> None:
    """Every trial gives the same |difference| but for rounding, which must not decide."""
    base = np.random.default_rng(4).normal(size=50)
    new = base.copy()
    new[7] += 0.1
    systems = {"base": scored(base), "new": scored(new)}
    found = randomisation_ps(mean, systems, "base", {"base": 0, "new": new.mean() - base.mean()}, trials=200, seed=1)
    assert found["new"] == 1.0


def test_another_system_changes_no_number(lexical: dict[str, dict[str, Floats]]) -> None:
    judge = JudgeSpec("chrf").open(references=1)
    both = lexical["chrf"]
    alone = {"ONLINE-B": both["ONLINE-B"]}
    ours_alone, ours_both = (bootstrap_scores(judge.scores, one, draws=50, seed=1) for one in (alone, both))
    assert (ours_alone["ONLINE-B"] == ours_both["ONLINE-B"]).all()


def test_blocks_change_no_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    systems = two_systems(70)
    differences = {"base": 0.0, "new": 0.05}

    def numbers() -> tuple[list[float], float]:
        drawn = bootstrap_scores(mean, systems, draws=333, seed=1)["new"].tolist()
        return drawn, randomisation_ps(mean, systems, "base", differences, trials=333, seed=1)["new"]

    whole = numbers()
    monkeypatch.setattr(ours, "BLOCK_CELLS", 70 * 40)
    assert numbers() == (pytest.approx(whole[0], rel=1e-12), whole[1])


def test_the_seed_decides() -> None:
    systems = two_systems()
    one, same, other = (bootstrap_scores(mean, systems, draws=20, seed=seed)["new"].tolist() for seed in (1, 1, 2))
    assert one == same != other
