"""How much do fewer comparisons lose? Every strategy and its peers, replayed on complete matrices at equal passes.

    python -m benchmarks.strategies                              # all sets; needs benchmarks.matrices
    python -m benchmarks.strategies --quick                      # synthetic matrices, few seeds; keeps nothing
    python -m benchmarks.strategies --sets synthetic --seeds 5
    python -m benchmarks.strategies --draw docs/regret.svg       # the picture, from the numbers of the last run

Proves that `race`, the default, keeps its tolerance for a fraction of the passes of half a matrix, and loses less than
the rules of mbrs do at equal passes. Prints for every strategy: regret as a share of best minus mean under the exact
matrix (mean, 95th percentile, share of lists above 5 %), the same choice as the exact one, the share of its best five
among ours, the estimate that comes with the choice, passes, and milliseconds of the strategy itself. Sets: synthetic
matrices with a known rho and tau; the bundled PEAR on the bundled translation model's 100-best lists for test sources
(alone, with cheap evidence as hints, with terms in the score, and after a first stage), and on the outputs of the WMT23
systems; chrF, and a stand-in with the shape of COMET's matrices (similarity of sentence embeddings with the
pseudo-reference and with the source), for utilities that are not differences.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.matrices import complete_matrices
from benchmarks.support import peer_strategies as peers
from benchmarks.support.headlines import headline
from benchmarks.support.places import WORK
from benchmarks.support.quotes import add_keep_option, keep, slug
from benchmarks.support.regret_figure import draw
from benchmarks.support.replay import regret, replay, segment_of, structured, truth
from benchmarks.support.shipped_terms import recipe_values, recipe_weights
from mbr.decide import ReferenceWeights
from mbr.matrix import Relation
from mbr.strategies import get_strategy
from mbr.terms.hints import hints_of

Floats = NDArray[np.float64]
RESULTS = WORK / "strategies.json"
SYNTHETIC = {"rho 0.1": (0.1, 0.15), "rho 0.5": (0.5, 0.15), "rho 0.5, tau 0.5": (0.5, 0.5), "rho 2": (2.0, 0.15)}
MATRICES = 40  # of each synthetic kind
TOLERANCE = 0.01  # the default of `race`
QUICK_SEEDS = 2
DRAWN = ["bundled PEAR, terms as hints, test", "bundled PEAR with the shipped recipe, test"]
PREFILTER = 50  # candidates that a first stage keeps


@dataclass(frozen=True)
class Case:
    """A set of matrices with the budgets to try on it, and the evidence about each: terms [N] in the score, hints
    [N, kinds], and the places that a first stage keeps (what it loses by that counts)."""

    name: str
    relation: Relation
    matrices: list[Floats]
    budgets: tuple[int, ...]
    terms: list[Floats] | None = None
    hints: list[Floats | None] | None = None
    kept: list[NDArray[np.intp]] | None = None

    def evidence(self, place: int) -> dict[str, Floats | None]:
        """What a segment knows beside the utility."""
        return {
            "terms": None if self.terms is None else self.terms[place],
            "hints": None if self.hints is None else self.hints[place],
        }


@dataclass(frozen=True)
class Method:
    """A way to choose at a budget (None: it ends by itself)."""

    name: str
    choose: Callable[..., tuple[NDArray[np.intp], int, float | None]]
    own_end: bool = False
    only: Relation | None = None


def ours(
    name: str,
    values: Floats,
    budget: int | None,
    seed: int,
    relation: Relation,
    evidence: dict[str, Floats | None],
    **settings: Any,
) -> tuple[NDArray[np.intp], int, float | None]:
    segment = segment_of(values, seed, relation, **evidence)
    played = replay(values, get_strategy(name, budget=budget, **settings), segment)
    return played.ranking, played.passes, played.outcome.certainty.estimated_regret


def theirs(
    rule: Callable[..., peers.Replay],
    values: Floats,
    budget: int | None,
    seed: int,
    relation: Relation,
    evidence: dict[str, Floats | None],
    **settings: Any,
) -> tuple[NDArray[np.intp], int, float | None]:
    if (terms := evidence["terms"]) is not None:
        values = values + terms[:, None] - terms
    if relation != "antisymmetric":  # a candidate's likeness with itself should neither help nor harm it
        values = values.copy()
        np.fill_diagonal(values, truth(values, relation))
    antisymmetric = relation == "antisymmetric"
    limit = len(values) ** 2 if budget is None else budget
    played = rule(values, limit, np.random.default_rng(seed), antisymmetric=antisymmetric, **settings)
    return played.ranking, played.passes, None


METHODS = [
    *(
        Method(f"race, tolerance {share:g}", partial(ours, "race", tolerance=share), True, "antisymmetric")
        for share in (0.1, 0.05, 0.02, 0.01, 0.005, 0.002)
    ),
    Method("race to the budget", partial(ours, "race", tolerance=0.0), only="antisymmetric"),
    Method("halving", partial(ours, "halving")),
    Method("prune", partial(ours, "prune"), True),
    Method("half", partial(ours, "half"), True, "antisymmetric"),
    Method("balanced", partial(ours, "balanced"), True, "antisymmetric"),
    Method("random anchors", partial(theirs, peers.random_anchors)),
    Method("random pairs", partial(theirs, peers.plain_random_pairs), only="antisymmetric"),
    Method("low rank (mbrs)", partial(theirs, peers.low_rank)),
    Method("low rank, tuned", partial(theirs, peers.low_rank, rank=2, regularisation=3.0)),
    Method("pruning (mbrs)", partial(theirs, peers.confidence_pruning)),
    Method("pruning (mbrs), to its end", partial(theirs, peers.confidence_pruning), True),
]


def cases(names: Sequence[str]) -> Iterator[Case]:
    if "synthetic" in names:
        for name, (rho, tau) in SYNTHETIC.items():
            matrices = [structured(seed, rho=rho, tau=tau) for seed in range(MATRICES)]
            yield Case(name, "antisymmetric", matrices, (200, 300, 500, 1000, 2000))
    if "test" in names:
        complete = list(complete_matrices("test"))
        alone = [matrix.values.astype(np.float64) for matrix in complete]
        yield Case("bundled PEAR, test", "antisymmetric", alone, (200, 300, 500, 1000))
        evidence = [recipe_values(matrix.item) for matrix in complete]
        hints = [
            hints_of(matrix.item, known.values(), ReferenceWeights("uniform"))
            for matrix, known in zip(complete, evidence, strict=True)
        ]
        yield Case("bundled PEAR, terms as hints, test", "antisymmetric", alone, (200, 300, 500, 1000), hints=hints)
        for words, weights in (("logprob 6", {"logprob": 6.0}), ("the shipped recipe", recipe_weights())):
            added = [np.asarray(sum(w * known[name] for name, w in weights.items())) for known in evidence]
            yield Case(f"bundled PEAR with {words}, test", "antisymmetric", alone, (200,), added, hints)
        kept = [np.sort(np.argsort(-h[:, -1], kind="stable")[:PREFILTER]) for h in hints if h is not None]
        yield Case(f"bundled PEAR, prefilter chrF:{PREFILTER}, test", "antisymmetric", alone, (200,), kept=kept)
    if "wmt23" in names:
        matrices = [matrix.values.astype(np.float64) for matrix in complete_matrices("wmt23") if len(matrix.item) > 6]
        yield Case("bundled PEAR, WMT23 systems", "antisymmetric", matrices, (24, 33, 44))
    if "reference-based" in names:
        some = [matrix.item for matrix in complete_matrices("test")][:60]
        yield Case("chrF, test", "none", [_chrf(item.texts) for item in some], (1000, 2000, 4000))
        shaped = _comet_shaped([(item.source, item.texts) for item in some])
        yield Case("COMET-shaped, test", "none", shaped, (1000, 2000, 4000))


def _chrf(texts: Sequence[str]) -> Floats:
    from mbr.utilities.chrf import ChrF

    return ChrF().matrix("", texts, texts).astype(np.float64)


def _comet_shaped(lists: Sequence[tuple[str, Sequence[str]]]) -> list[Floats]:
    from benchmarks.support.teacher import Embedder

    embed = Embedder()
    matrices = []
    for source, texts in lists:
        vectors = embed(texts).astype(np.float64)
        faithful = vectors @ embed([source])[0]
        matrices.append(vectors @ vectors.T + faithful[:, None])
    return matrices


def measure(case: Case, seeds: int, workers: int, begins: tuple[str, ...]) -> list[dict[str, Any]]:
    """A row for every budget of every method whose name starts with one of `begins`."""
    tasks = [
        (case, number, budget)
        for number, method in enumerate(METHODS)
        if method.only in (None, case.relation) and method.name.startswith(begins)
        for budget in ((None,) if method.own_end else case.budgets)
    ]
    rows = []
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        for row in pool.imap(partial(_row, seeds=seeds), tasks):
            rows.append(row)
            print(_line(row), flush=True)
    return rows


def _row(task: tuple[Case, int, int | None], seeds: int) -> dict[str, Any]:
    case, number, budget = task
    method = METHODS[number]
    runs = []
    for place, values in enumerate(case.matrices):
        evidence = case.evidence(place)
        exact = truth(values, case.relation) + (0.0 if evidence["terms"] is None else evidence["terms"])
        best = set(np.argsort(-exact, kind="stable")[:5].tolist())
        places = np.arange(len(values)) if case.kept is None else case.kept[place]
        seen = values[np.ix_(places, places)]
        for seed in range(seeds):
            began = time.process_time()
            ranking, passes, estimate = method.choose(seen, budget, 1000 * place + seed, case.relation, evidence)
            spent = time.process_time() - began
            ranking = places[ranking]
            loss = regret(exact, int(ranking[0]))
            five = len(best & set(ranking[:5].tolist())) / len(best)
            guess = np.nan if estimate is None else estimate
            runs.append((loss, passes, exact[ranking[0]] == exact.max(), five, guess, 1000 * spent))
    table = np.array(runs, np.float64)
    losses = table[:, 0]
    # The result should hold for other lists, so the bootstrap draws lists (their means), not single runs.
    by_list = losses.reshape(len(case.matrices), seeds).mean(axis=1)
    draw = np.random.default_rng(1)
    means = by_list[draw.integers(0, len(by_list), (2000, len(by_list)))].mean(axis=1)
    return {
        "set": case.name,
        "method": method.name,
        "budget": budget,
        "passes": float(table[:, 1].mean()),
        "regret": float(losses.mean()),
        "interval": [float(value) for value in np.quantile(means, [0.025, 0.975])],
        "p95": float(np.quantile(losses, 0.95)),
        "above 5 %": float((losses > 0.05).mean()),
        "same choice": float(table[:, 2].mean()),
        "best five": float(table[:, 3].mean()),
        "estimate": None if np.isnan(table[:, 4]).all() else float(np.nanmean(table[:, 4])),
        "milliseconds": float(table[:, 5].mean()),
    }


HEADER = (
    f"{'method':28} {'budget':>6} {'passes':>7} {'regret':>8} {'estimate':>8} {'p95':>7} {'above 5 %':>9} "
    f"{'same':>6} {'best 5':>6} {'ms':>6}"
)


def _line(row: dict[str, Any]) -> str:
    estimate = "" if row["estimate"] is None else f"{row['estimate']:.2%}"
    return (
        f"{row['method']:28} {row['budget'] or '':>6} {row['passes']:7.0f} {row['regret']:8.2%} {estimate:>8} "
        f"{row['p95']:7.1%} {row['above 5 %']:9.1%} {row['same choice']:6.1%} {row['best five']:6.1%} "
        f"{row['milliseconds']:6.1f}"
    )


FIELDS = {
    "regret": "regret",
    "estimate": "estimate",
    "p95": "p95",
    "above": "above 5 %",
    "same": "same choice",
    "five": "best five",
}


def quoted_values(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """What docs/strategies.md quotes: passes, milliseconds, and shares in per cent, by set, method and budget."""
    values: dict[str, float] = {}
    for row in rows:
        key = ".".join([slug(row["set"]), slug(row["method"]), *([str(row["budget"])] if row["budget"] else [])])
        values |= {f"{key}.passes": row["passes"], f"{key}.ms": row["milliseconds"]}
        values |= {f"{key}.{name}": 100 * row[field] for name, field in FIELDS.items() if row[field] is not None}
    return values


def promise_kept(rows: list[dict[str, Any]]) -> bool:
    """Print regret and passes of the default, of half a matrix and of pruning as in mbrs."""
    named = {row["method"]: row for row in rows if row["budget"] is None}
    race, half, pruning = (
        named.get(name) for name in (f"race, tolerance {TOLERANCE:g}", "half", "pruning (mbrs), to its end")
    )
    if not (race and half and pruning):
        return True
    costs = [f"{row['passes']:.0f} passes lose {row['regret']:.2%} [{_percent(row)}]" for row in (race, half, pruning)]
    more = " and ".join(f"{row['passes'] / race['passes']:.1f}" for row in (half, pruning))
    headline(
        f"{race['set']}: race {costs[0]}; half {costs[1]}, pruning as in mbrs {costs[2]}: {more} times as many passes"
    )
    return bool(race["regret"] <= TOLERANCE)


def _percent(row: dict[str, Any]) -> str:
    low, high = row["interval"]
    return f"{low:.2%}, {high:.2%}"


def ratios(case: Case) -> dict[str, list[float]]:
    """Quartiles of rho and tau over the matrices, exactly."""
    played = [replay(values, get_strategy("full"), segment_of(values, 0, case.relation)) for values in case.matrices]
    numbers: dict[str, list[float]] = {}
    for name in ("rho", "tau"):
        values = [value for run in played if (value := getattr(run.outcome.certainty, name)) is not None]
        if values:
            numbers[name] = [float(value) for value in np.quantile(values, [0.25, 0.5, 0.75])]
    if case.relation == "antisymmetric":
        parts = np.array([order_parts(values) for values in case.matrices])
        for number, name in enumerate(("constant", "of candidates", "of pairs")):
            numbers[f"order bias: {name}"] = [
                float(value) for value in np.quantile(parts[:, number], [0.25, 0.5, 0.75])
            ]
    return numbers


def order_parts(values: Floats) -> tuple[float, float, float]:
    """Shares of the order bias, in squares: the same for all pairs, a sum of effects of two candidates, the rest."""
    size = len(values)
    off = ~np.eye(size, dtype=np.bool_)
    bias = (values + values.T) / 2
    whole = float((bias[off] ** 2).sum())
    constant = float(bias[off].mean())
    rest = np.where(off, bias - constant, 0)
    effects = rest.sum(axis=1) / (size - 2)
    left = float(((rest - effects[:, None] - effects)[off] ** 2).sum())
    by_candidates = float((rest[off] ** 2).sum()) - left
    return constant**2 * off.sum() / whole, by_candidates / whole, left / whole


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = ("synthetic", "test", "wmt23", "reference-based")
    parser.add_argument("--quick", action="store_true", help=f"the synthetic set, {QUICK_SEEDS} seeds; nothing is kept")
    parser.add_argument("--sets", nargs="+", choices=every, default=every)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cases", nargs="+", metavar="NAME", help="only the matrices of these names, as printed")
    parser.add_argument("--methods", nargs="+", default=[""], metavar="NAME", help="only methods whose names start so")
    parser.add_argument("--ratios", action="store_true", help="only rho, tau and the parts of the order bias")
    parser.add_argument("--draw", type=Path, metavar="FILE.svg", help="only draw what was kept (docs/regret.svg)")
    add_keep_option(parser)
    options = parser.parse_args()
    result: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"ratios": {}, "rows": []}
    if options.draw:
        options.draw.write_text(draw(result["rows"], DRAWN), encoding="utf-8")
        return 0
    if options.quick:
        options.sets, options.seeds = ["synthetic"], QUICK_SEEDS
    kept_promises = True
    for case in cases(options.sets):
        if options.cases and case.name not in options.cases:
            continue
        sizes = sorted({len(values) for values in case.matrices})
        quartiles = ratios(case)
        print(
            f"\n{case.name}: {len(case.matrices)} matrices of {sizes[0]} to {sizes[-1]}, {options.seeds} seeds; ",
            end="",
        )
        print("; ".join(f"{name} {q[1]:.2f} ({q[0]:.2f} to {q[2]:.2f})" for name, q in quartiles.items()))
        if options.ratios:
            continue
        print(HEADER)
        rows = measure(case, options.seeds, options.workers, tuple(options.methods))
        kept_promises &= promise_kept(rows)
        if options.quick:
            continue
        result["ratios"][case.name] = quartiles
        renewed = {(row["set"], row["method"], row["budget"]) for row in rows}
        kept = [row for row in result["rows"] if (row["set"], row["method"], row["budget"]) not in renewed]
        result["rows"] = kept + rows
        RESULTS.write_text(json.dumps(result, indent=1), encoding="utf-8")
    if options.keep and not options.quick:
        keep("strategies", quoted_values(result["rows"]))
    return 0 if kept_promises else 1


if __name__ == "__main__":
    sys.exit(main())
