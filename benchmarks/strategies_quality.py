"""Are cheap choices worse translations? Strategies on real matrices, judged against the references.

    python -m benchmarks.strategies_quality      # needs the set `test` of benchmarks.matrices

Proves that fewer comparisons cost little quality, a few tenths of chrF at most. chrF and the similarity of sentence
embeddings (each with the nearest reference, a mean over sources) of what each strategy chooses, as a difference from
`both`, which scores every pair in both orders, with a 95 % interval of the paired bootstrap over sources. A strategy
that draws is run with several seeds, and the means over them are compared.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.matrices import complete_matrices
from benchmarks.support.choosing import interval
from benchmarks.support.places import TATOEBA, WORK
from benchmarks.support.quotes import add_keep_option, keep, slug
from benchmarks.support.replay import replay, segment_of
from benchmarks.support.shipped_terms import term_values, weight_of
from benchmarks.support.tatoeba import references
from benchmarks.support.teacher import Embedder, agreement
from mbr.decide import ReferenceWeights
from mbr.strategies import Strategy, get_strategy
from mbr.terms.hints import hints_of

STRATEGIES: dict[str, Strategy] = {
    "both": get_strategy("both"),
    "full (as in the paper)": get_strategy("full"),
    "half (as in the paper)": get_strategy("half"),
    "balanced": get_strategy("balanced"),
    "halving, 500 passes": get_strategy("halving", budget=500),
    "halving, 200 passes": get_strategy("halving", budget=200),
    "race, tolerance 0.01": get_strategy("race"),
    "race, tolerance 0.05": get_strategy("race", tolerance=0.05),
}
JUDGES = {"chrF": 2, "cosine": 4}  # digits to print


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    add_keep_option(parser)
    options = parser.parse_args()
    complete = list(complete_matrices("test"))
    embed, golden = Embedder(), references(TATOEBA, "test")
    judged = [agreement(matrix.item.texts, golden[matrix.item.source], embed) for matrix in complete]
    scores = {"chrF": [scores.chrf for scores in judged], "cosine": [scores.cosine for scores in judged]}
    result: dict[str, dict[str, Any]] = {}
    for weight in (0.0, weight_of("logprob")):
        matrices = [matrix.values.astype(np.float64) for matrix in complete]
        evidence: list[dict[str, Any]] = [
            {
                "terms": weight * term_values(matrix.item),
                "hints": hints_of(matrix.item, (), ReferenceWeights("uniform")),
            }
            for matrix in complete
        ]
        print(f"\n{len(complete)} lists, {f'with logprob {weight:g}' if weight else 'PEAR alone'}")
        reached: dict[str, dict[str, NDArray[np.float64]]] = {}
        for name, strategy in STRATEGIES.items():
            seeds = options.seeds if strategy.uses_seed else 1
            runs = [
                [
                    replay(values, strategy, segment_of(values, 1000 * place + seed, **evidence[place]))
                    for seed in range(seeds)
                ]
                for place, values in enumerate(matrices)
            ]
            reached[name] = {
                judge: np.array(
                    [np.mean([of[run.ranking[0]] for run in some]) for of, some in zip(by_list, runs, strict=True)]
                )
                for judge, by_list in scores.items()
            }
            passes = float(np.mean([run.passes for some in runs for run in some]))
            row: dict[str, Any] = {"passes": passes}
            words = []
            for judge, digits in JUDGES.items():
                values_of = reached[name][judge]
                difference = interval(values_of - reached["both"][judge])
                row[judge] = [float(values_of.mean()), *difference]
                mean, low, high = (f"{value:+.{digits}f}" for value in difference)
                words.append(f"{judge} {values_of.mean():.{digits}f} ({mean} [{low}, {high}])")
            print(f"  {name:24} {passes:6.0f} passes  " + "  ".join(words), flush=True)
            result[f"{name}, logprob {weight:g}"] = row
    (WORK / "strategies_quality.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    if options.keep:
        keep("strategies_quality", quoted_values(result))


def quoted_values(result: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """What docs/strategies.md quotes: passes, and of each judge the mean and the difference with its interval."""
    values: dict[str, float] = {}
    for name, row in result.items():
        strategy, _, weight = name.rpartition(", logprob ")
        key = f"{'alone' if float(weight) == 0 else 'logprob'}.{slug(strategy)}"
        values[f"{key}.passes"] = row["passes"]
        for judge in JUDGES:
            parts = zip(("", ".gain", ".low", ".high"), row[judge], strict=True)
            values |= {f"{key}.{slug(judge)}{part}": value for part, value in parts}
    return values


if __name__ == "__main__":
    main()
