"""What a choice may lose because one order of each pair was never scored: the estimate of `half` and `balanced`.

A pairwise model is only nearly antisymmetric. Half the sum of both orders of a pair is its order bias
b_ij = (u(i, j) + u(j, i)) / 2, and the exact score of candidate i is that of one order less the bias
sum_j s_ij w_ij b_ij, where w_ij is the share of j in the expected utility of i, and s_ij is 1 where i came first and
-1 where it came second. 2 % of the pairs are scored in the other order too, which shows b_ij of these. The model

    b_ij = c + f_i + f_j + e_ij        (a constant, effects of candidates, effects of pairs; f and e normal)

predicts the biases [N] of all candidates from them, as one linear prediction with its covariance. The variances of f
and e are means over eight possible ratios, each weighted by its restricted likelihood. The scores of one order are
evidence too: a candidate at the top is likely to be there by its bias. So qualities are taken for normal, with the
variance that the biases leave of the scores, and the biases are predicted again given the scores. The loss is the mean
over 256 samples of what the best candidate then gains on the choice, as in `mbr.strategies.additive`.

Work: O(N^3), a few systems of N equations. With fewer than `LEAST_CHECKS` pairs in both orders (lists below 29
candidates) the ratio of the variances is a guess: no pair is scored twice, and nothing is estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mbr.decide import Certainty
from mbr.strategies.additive import DRAWS, LEAST_SPREAD
from mbr.strategies.base import LEAST_CHECKS, Floats, Pairs, Segment, checks_of
from mbr.strategies.standing import REACH

CANDIDATES_SHARE = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)  # of the variance of b that may belong to candidates
WIDE = 1e4  # variance of the constant before any pair is seen, in mean squares of the biases
ROUNDING = 1e-9  # keeps matrices invertible where nothing varies


def pairs_to_check(size: int) -> Pairs:
    """Places of these pairs in a list, [checks, 2], the same for every list of this size.

    Neighbours in random permutations: pairs that share a candidate tell its effect from those of pairs.
    """
    wanted, draw = checks_of(size), np.random.default_rng(size)
    chosen: dict[tuple[int, int], None] = {}
    while len(chosen) < wanted:
        path = draw.permutation(size)
        for pair in zip(path[:-1].tolist(), path[1:].tolist(), strict=True):
            chosen[min(pair), max(pair)] = None
    return np.array(list(chosen)[:wanted], np.intp).reshape(-1, 2)


def certainty_of_one_order(scores: Floats, signs: Floats, checked: Pairs, bias: Floats, segment: Segment) -> Certainty:
    """How certain the choice is.

    Args:
        scores: expected utilities [N] from one order of every pair, without terms.
        signs: [N, N], 1 where the row's candidate came first, -1 where second.
        checked: the pairs scored in both orders, [checks, 2]; `bias` [checks] are their order biases.
    """
    if len(checked) < LEAST_CHECKS:
        return Certainty(None, None)
    if not bias.any():
        return Certainty()
    shares = signs * segment.shares()
    biases = _given_scores(_predicted(shares, checked, bias), scores)
    exact = segment.with_terms(scores - biases.mean)
    choice = int(segment.with_terms(scores).argmax())
    draw = np.random.default_rng(int(segment.draws.min() * 2**52))
    samples = exact + biases.sample(draw, freedom=len(bias) - 1)
    best = samples.max(axis=1)
    stake = float(best.mean() - exact.mean())
    regret = float((best - samples[:, choice]).mean()) / stake if stake > 0 else 0.0
    reach = REACH * np.sqrt(np.maximum(biases.covariance.diagonal(), 0))
    leader = int(exact.argmax())
    contenders = int((exact + reach >= exact[leader] - reach[leader]).sum())
    return Certainty(regret, contenders)


@dataclass(frozen=True)
class _Biases:
    """A normal distribution of what the order of pairs adds to each candidate's score: mean [N], covariance [N, N]."""

    mean: Floats
    covariance: Floats

    def sample(self, draw: np.random.Generator, freedom: int) -> Floats:
        """Deviations from the mean, [DRAWS, N]; Student's t, because the variance is itself estimated."""
        variances, basis = np.linalg.eigh(self.covariance)
        normal = draw.standard_normal((DRAWS, len(variances))) * np.sqrt(np.maximum(variances, 0))
        return np.asarray(normal @ basis.T * np.sqrt(freedom / draw.chisquare(freedom, size=(DRAWS, 1))))


def _predicted(shares: Floats, checked: Pairs, bias: Floats) -> _Biases:
    """The candidates' biases, given those of the checked pairs. `shares` [N, N] have the signs."""
    size, checks = len(shares), len(checked)
    first, second = checked.T
    places = np.arange(checks)
    takes_part = np.zeros((checks, size))  # 1 for both candidates of a pair
    takes_part[places, first] = takes_part[places, second] = 1
    in_pairs = np.zeros((size, checks))  # how a pair's own effect enters the biases of its candidates
    in_pairs[first, places], in_pairs[second, places] = shares[first, second], shares[second, first]
    of_candidates, of_pairs = _variances(takes_part, bias)
    constant = WIDE * float((bias**2).mean())
    slots = shares.sum(axis=1)  # how the constant enters
    effects = np.diag(slots) + shares  # how the candidates' effects enter
    seen = constant + of_candidates * takes_part @ takes_part.T + of_pairs * np.eye(checks)
    shared = constant * slots[:, None] + of_candidates * effects @ takes_part.T + of_pairs * in_pairs
    own = np.diag((shares**2).sum(axis=1)) + shares * shares.T
    whole = constant * np.outer(slots, slots) + of_candidates * effects @ effects.T + of_pairs * own
    gain = np.linalg.solve(seen, shared.T).T
    return _Biases(gain @ bias, _symmetric(whole - gain @ shared.T))


def _variances(takes_part: Floats, bias: Floats) -> tuple[float, float]:
    """The variances of effects of candidates and of pairs: means over the ratios, by their restricted likelihood."""
    checks = len(bias)
    logs, scales = [], []
    for share in CANDIDATES_SHARE:
        shape = share / 2 * takes_part @ takes_part.T + (1 - share + 1e-6) * np.eye(checks)
        inverse = np.linalg.inv(shape)
        rest = bias - inverse.sum(axis=0) @ bias / inverse.sum()
        scale = max(float(rest @ inverse @ rest) / (checks - 1), ROUNDING * float((bias**2).mean()))
        _, determinant = np.linalg.slogdet(shape)
        logs.append(-(determinant + np.log(inverse.sum()) + (checks - 1) * np.log(scale)) / 2)
        scales.append(scale)
    weights = np.exp(np.array(logs) - max(logs))
    weights *= np.array(scales) / weights.sum()
    ratios = np.array(CANDIDATES_SHARE)
    return float(weights @ ratios) / 2, float(weights @ (1 - ratios)) + ROUNDING * float((bias**2).mean())


def _given_scores(biases: _Biases, scores: Floats) -> _Biases:
    """The same, given also the scores of one order, each a quality plus a bias."""
    rest = scores - biases.mean
    rest = rest - rest.mean()
    covariance = biases.covariance
    spread = max(float(rest.var() - covariance.diagonal().mean()), LEAST_SPREAD * float(rest.var()))
    if spread <= 0:
        return biases
    gain = np.linalg.solve(covariance + spread * np.eye(len(rest)), covariance).T
    return _Biases(biases.mean + gain @ rest, _symmetric(covariance - gain @ covariance))


def _symmetric(matrix: Floats) -> Floats:
    """Without the rounding errors of a product."""
    return np.asarray((matrix + matrix.T) / 2)
