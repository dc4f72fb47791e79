"""What does meta-evaluation cost at the size of WMT24, compared with the plain definitions?

    python -m benchmarks.speed_metaeval
    python -m benchmarks.speed_metaeval --no-spa                # without the significance of SPA, which takes minutes

Proves that all statistics and their significance at this size take seconds, those of SPA minutes, with the numbers of
the definitions. Synthetic scores of 26 systems x 998 segments by 25 metrics; human scores are like MQM's: few values,
40 % perfect. CPU seconds of one process on one thread (SPA's significance: on all cores, CPU seconds of all of them),
median of repeats:

- all statistics of all metrics;
- the full significance matrices: 300 pairs of metrics, 1,000 draws each.

Beside them the same numbers from their definitions: scipy's Pearson for each segment, the explicit vector of
differences, a sweep over sorted pairs in Python, one hybrid metric after another. Plain significance is timed on a draw
of one pair and multiplied, and is marked as such. Both must give the same values. The official toolkit
(mt-metrics-eval) is on no package index (the package of that name on PyPI is another one), so it was not run;
docs/mbr-metaeval.md quotes its figures.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from benchmarks.support.headlines import headline, spread
from benchmarks.support.quotes import add_keep_option, keep
from mbr.metaeval import Gold, Scores, compare_metrics, measure
from mbr.metaeval.spa import pair_p_values

Floats = NDArray[np.float64]

SYSTEMS, SEGMENTS, METRICS, DRAWS = 26, 998, 25, 1000
PAIRS = METRICS * (METRICS - 1) // 2
SIGNIFICANCE = ("global_pearson", "pdp", "segment_pearson", "acc_eq")
LIMITS = {"all statistics": 2.0, "significance": 30.0, "spa": 600.0}


def made(seed: int = 1) -> tuple[Floats, list[Scores]]:
    random = np.random.default_rng(seed)
    quality = random.normal(0, 0.6, (SYSTEMS, 1)) + random.normal(0, 1, (1, SEGMENTS))
    errors = np.round(np.exp(quality + random.normal(0, 1, (SYSTEMS, SEGMENTS))))
    gold = -np.where(random.random(errors.shape) < 0.4, 0.0, errors)
    metrics = [
        Scores(f"metric{number}", gold + random.normal(0, 2 + number / 4, gold.shape)) for number in range(METRICS)
    ]
    return gold, metrics


def plain_acc_eq(gold: Floats, metric: Floats) -> float:
    """A sweep of the threshold over all pairs in order of their differences."""
    rows = []
    for segment in range(gold.shape[1]):
        g, m = gold[:, segment].tolist(), metric[:, segment].tolist()
        for i in range(len(g)):
            for j in range(i):
                human, predicted = g[i] - g[j], m[i] - m[j]
                rows.append((abs(predicted), human == 0, human * predicted > 0))
    rows.sort()
    right = best = sum(ordered for _, _, ordered in rows)
    for place, (size, tied, ordered) in enumerate(rows):
        right += tied - ordered
        if place + 1 == len(rows) or rows[place + 1][0] > size:
            best = max(best, right)
    return float(best / len(rows))


def plain_pdp(gold: Floats, metric: Floats) -> float:
    i, j = np.nonzero(~np.eye(len(gold), dtype=bool))
    return float(scipy.stats.pearsonr((metric[i] - metric[j]).ravel(), (gold[i] - gold[j]).ravel())[0])


def plain_segment_pearson(gold: Floats, metric: Floats) -> float:
    columns = [(gold[:, s], metric[:, s]) for s in range(gold.shape[1]) if np.ptp(gold[:, s]) and np.ptp(metric[:, s])]
    return float(np.mean([scipy.stats.pearsonr(g, m)[0] for g, m in columns]))


def plain_global_pearson(gold: Floats, metric: Floats) -> float:
    return float(scipy.stats.pearsonr(metric.ravel(), gold.ravel())[0])


def plain_spa(gold: Floats, metric: Floats) -> float:
    return float(1 - np.abs(pair_p_values(gold) - pair_p_values(metric)).mean())


PLAIN: dict[str, Callable[[Floats, Floats], float]] = {
    "acc_eq": plain_acc_eq,
    "pdp": plain_pdp,
    "segment_pearson": plain_segment_pearson,
    "global_pearson": plain_global_pearson,
}


def cpu(work: Callable[[], object], repeats: int) -> list[float]:
    times = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return times


def hybrid_draw(gold: Floats, first: Floats, second: Floats, statistic: Callable[[Floats, Floats], float]) -> float:
    """One draw of a permutation test, by its definition."""
    mask = np.random.default_rng(1).integers(2, size=gold.shape, dtype=np.bool_)
    return statistic(gold, np.where(mask, first, second)) - statistic(gold, np.where(mask, second, first))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-spa", action="store_true", help="without the significance of SPA")
    add_keep_option(parser)
    options = parser.parse_args()
    gold, metrics = made()
    print(f"{platform.machine()}, {os.cpu_count()} cores, numpy {np.__version__}, Python {platform.python_version()}")
    print(f"{SYSTEMS} systems x {SEGMENTS} segments x {METRICS} metrics, CPU seconds, median of {options.repeats}\n")
    within = []

    def everything() -> None:
        human = Gold(gold)
        for metric in metrics:
            measure(human, metric)

    seconds = statistics.median(cpu(everything, options.repeats))
    quoted = {"all": seconds}
    within.append(_within_limit("all statistics, all metrics", seconds, LIMITS["all statistics"]))
    print(f"\n{'one metric':<28}{'plain':>10}{'here':>10}  ratio")
    human = Gold(gold)
    measure(human, metrics[0])  # computes what depends on human scores only
    values, others = (metric.segments for metric in metrics[:2])
    assert values is not None
    assert others is not None
    lines = []
    for name, plain in PLAIN.items():
        theirs = cpu(partial(plain, gold, values), options.repeats)
        ours = [spent / 20 for spent in cpu(partial(_twenty_times, human, metrics[0], name), options.repeats)]
        same = measure(human, metrics[0], [name])[name]
        assert same is not None
        assert abs(same - plain(gold, values)) < 1e-9, name
        ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
        quoted |= _quoted(f"one.{name}", statistics.median(theirs), statistics.median(ours), statistics.median(ratios))
        ratio = spread(ratios)
        lines.append(f"{name} {ratio}")
        print(f"{name:<28}{statistics.median(theirs):>10.4f}{statistics.median(ours):>10.5f}  {ratio}")
    headline(f"a statistic of one metric, its definition over ours: {', '.join(lines)}")
    print(f"\n{'significance, 300 pairs':<28}{'plain':>10}{'here':>10}  ratio   (plain: one draw, multiplied)")
    lines, total = [], 0.0
    for name in SIGNIFICANCE if options.no_spa else (*SIGNIFICANCE, "spa"):
        draws = cpu(partial(hybrid_draw, gold, values, others, PLAIN.get(name, plain_spa)), options.repeats)
        began = time.perf_counter()
        times = 1 if name == "spa" else max(options.repeats // 2, 1)
        spent = statistics.median(cpu(partial(compare_metrics, Gold(gold), metrics, name, draws=DRAWS), times))
        wall = time.perf_counter() - began
        plainly = DRAWS * PAIRS * statistics.median(draws)
        quoted |= {**_quoted(f"pairs.{name}", plainly, spent, plainly / spent), f"pairs.{name}.wall": wall}
        ratio = spread([DRAWS * PAIRS * seconds / spent for seconds in draws])
        lines.append(f"{name} {ratio}")
        print(f"{name:<28}{plainly:>10.0f}{spent:>10.2f}  {ratio}", flush=True)
        if name == "spa":
            within.append(_within_limit(f"SPA ({wall:.0f} s of wall clock)", spent, LIMITS["spa"]))
        else:
            total += spent
    within.append(_within_limit("all but SPA together", total, LIMITS["significance"]))
    headline(f"significance of {PAIRS} pairs, one plain draw multiplied over ours: {', '.join(lines)}")
    if options.keep:
        keep("speed_metaeval", quoted)
    return 0 if all(within) else 1


def _quoted(key: str, plain: float, here: float, ratio: float) -> dict[str, float]:
    """The cells of a row in docs/mbr-metaeval.md."""
    return {f"{key}.plain": plain, f"{key}.here": here, f"{key}.ratio": ratio}


def _twenty_times(gold: Gold, metric: Scores, statistic: str) -> None:
    for _ in range(20):
        measure(gold, metric, [statistic])


def _within_limit(what: str, seconds: float, limit: float) -> bool:
    print(f"{what}: {seconds:.2f} CPU s (limit {limit:g}){'' if seconds < limit else '  MISSED'}", flush=True)
    return seconds < limit


if __name__ == "__main__":
    raise SystemExit(main())
