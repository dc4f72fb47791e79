"""Exact epsilon sampling on a small language model written out as a table."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from candidates.backends.epsilon import Path, Prefix, sample, truncated

END = 0
VOCABULARY = 6


def logits_after(prefix: Prefix) -> NDArray[np.float32]:
    """Next-token logits that depend on the whole prefix, and end more likely the longer it is."""
    draw = np.random.default_rng([7, *prefix])
    logits = draw.normal(scale=1.5, size=VOCABULARY).astype(np.float32)
    logits[END] += len(prefix) - 1
    return logits


def paths(prefixes: list[Prefix], look_ahead: int = 3) -> list[Path]:
    found = []
    for prefix in prefixes:
        tokens: list[int] = []
        rows = []
        while len(tokens) < look_ahead and (not tokens or tokens[-1] != END):
            rows.append(logits_after((*prefix, *tokens)))
            tokens.append(int(rows[-1].argmax()))
        found.append(Path(tokens, np.stack(rows)))
    return found


def draw(count: int, seed: int = 1, epsilon: float = 0.05, temperature: float = 1.0, max_length: int = 12) -> dict:
    drawn = sample(
        paths,
        draws=count,
        epsilon=epsilon,
        temperature=temperature,
        max_length=max_length,
        end=END,
        random=np.random.default_rng(seed),
    )
    assert sum(entry.count for entry in drawn) == count
    assert len({(entry.tokens, entry.finished) for entry in drawn}) == len(drawn), "equal sequences are one entry"
    return {entry.tokens: entry for entry in drawn}


def probability(tokens: Prefix, epsilon: float, temperature: float) -> float:
    """Of a finished sequence under the truncated distribution, step by step and without any trick."""
    result = 1.0
    for place in range(len(tokens) + 1):
        scaled = logits_after(tokens[:place]).astype(np.float64) / temperature
        p = np.exp(scaled) / np.exp(scaled).sum()
        p = np.where(p >= epsilon, p, 0)
        result *= (p / p.sum())[(*tokens, END)[place]]
    return float(result)


@pytest.mark.parametrize(("epsilon", "temperature"), [(0.05, 1.0), (0.15, 1.0), (0.05, 0.7)])
def test_frequencies_match_the_truncated_distribution(epsilon: float, temperature: float) -> None:
    """A chi-square test over whole sequences, with a fixed seed: about 1 in 1,000 seeds would fail."""
    count = 20_000
    drawn = draw(count, epsilon=epsilon, temperature=temperature)
    expected = {tokens: count * probability(tokens, epsilon, temperature) for tokens in drawn}
    large = [tokens for tokens, value in expected.items() if value >= 10]
    rest_expected = count - sum(expected[tokens] for tokens in large)
    rest_drawn = count - sum(drawn[tokens].count for tokens in large)
    statistic = sum((drawn[tokens].count - expected[tokens]) ** 2 / expected[tokens] for tokens in large)
    statistic += (rest_drawn - rest_expected) ** 2 / max(rest_expected, 1)
    freedom = len(large)
    assert freedom > 10
    # Wilson and Hilferty's approximation of the 99.9 % point.
    limit = freedom * (1 - 2 / (9 * freedom) + 3.09 * math.sqrt(2 / (9 * freedom))) ** 3
    assert statistic < limit


def test_no_token_below_epsilon_is_drawn() -> None:
    epsilon = 0.1
    for tokens in draw(5_000, epsilon=epsilon):
        for place, token in enumerate((*tokens, END)):
            logits = logits_after(tokens[:place]).astype(np.float64)
            assert np.exp(logits[token]) / np.exp(logits).sum() >= epsilon


def test_log_probabilities_are_the_model_s_own() -> None:
    """At temperature one and over all tokens, whatever the draws were restricted to."""
    for tokens, entry in draw(200, epsilon=0.1, temperature=0.5).items():
        total = 0.0
        for place, token in enumerate((*tokens, END)):
            logits = logits_after(tokens[:place]).astype(np.float64)
            total += logits[token] - math.log(np.exp(logits).sum())
        assert entry.logprob == pytest.approx(total, abs=1e-9)


def test_the_likeliest_token_stands_in_when_none_reaches_epsilon() -> None:
    tokens, shares = truncated(np.array([0.0, 0.1, 0.0], np.float32), 0.9, 1.0)
    assert (tokens.tolist(), shares.tolist()) == ([1], [1.0])


def test_a_limit_on_the_length_is_kept_and_shows() -> None:
    drawn = draw(500, max_length=2)
    assert max(map(len, drawn)) == 2
    assert {entry.finished for entry in drawn.values()} == {True, False}
    assert all(entry.finished for tokens, entry in drawn.items() if len(tokens) < 2)


def test_the_model_is_not_asked_beyond_the_limit() -> None:
    """It may have no positions there."""

    def limited(prefixes: list[Prefix]) -> list[Path]:
        assert max(map(len, prefixes)) < 3
        return paths(prefixes)

    random = np.random.default_rng(1)
    sample(limited, draws=500, epsilon=0.01, temperature=5.0, max_length=3, end=END, random=random)


def test_the_same_seed_gives_the_same_draws() -> None:
    assert draw(100, seed=3) == draw(100, seed=3)
    assert draw(100, seed=3) != draw(100, seed=4)


def test_how_far_a_call_looks_ahead_changes_nothing_in_distribution() -> None:
    """Looking one token ahead is the plain way of drawing; both must have the same shares, up to noise."""
    count = 20_000
    settings = {"draws": count, "epsilon": 0.05, "temperature": 1.0, "max_length": 12, "end": END}
    shares = []
    for look_ahead in (1, 8):
        random = np.random.default_rng(5)
        drawn = sample(lambda prefixes, ahead=look_ahead: paths(prefixes, ahead), **settings, random=random)
        shares.append({entry.tokens: entry.count / count for entry in drawn})
    for tokens in [tokens for tokens, share in shares[0].items() if share > 0.01]:
        share = shares[0][tokens]
        assert shares[1].get(tokens, 0) == pytest.approx(share, abs=5 * math.sqrt(2 * share / count))
