"""How well do metrics agree with people? Meta-evaluation as WMT does it, in seconds.

    >>> from mbr.metaeval import read_folder, meta_evaluate
    >>> scores = read_folder("mt-metrics-eval-v2/wmt23", "en-de", "mqm")        # doctest: +SKIP
    >>> meta_evaluate([scores]).row("COMET").values["pdp"]                      # doctest: +SKIP
    0.4488

| module | turns | into |
| --- | --- | --- |
| `download` | the name of a test set | its official files |
| `folders`, `tables` | mt-metrics-eval's files, TSV, JSON lines | a `ScoreSet`: human and metric scores |
| `scoring` | a judge or utility by name, and outputs | scores of its own |
| `documents`, `clipping` | a score set | that of domains, of whole documents, without extreme scores |
| `statistics`, `spa` | human scores and a metric's | SPA, acc_eq*, PDP, Pearson variants, Kendall, accuracy |
| `permutations`, `significance` | all metrics | p-values of all pairs, and rank clusters |
| `agreement` | score sets | one `Table`, with the rows of `sanity` |
| `choice`, `reranking` | metrics, or utilities over systems' outputs | what people think of their choices |
| `parity`, `raters`, `ratings` | several human columns, or raters | people among the metrics, on disjoint raters |
| `noise`, `oracle`, `correlation`, `anchors`, `postedits` | scores, errors, edits | the papers' other studies |
| `resume_sweep` | a metric and RESUME | the weight of RESUME, chosen on one part and measured on the rest |
"""

from __future__ import annotations

from mbr.metaeval.agreement import Row, Table, meta_evaluate
from mbr.metaeval.choice import choice_study
from mbr.metaeval.folders import find_test_set, read_folder
from mbr.metaeval.parity import human_parity
from mbr.metaeval.significance import Comparison, compare_metrics
from mbr.metaeval.statistics import STATISTICS, Gold, measure
from mbr.metaeval.tables import read_own, read_study
from mbr.metaeval.values import Scores, ScoreSet, Texts

__all__ = [
    "STATISTICS",
    "Comparison",
    "Gold",
    "Row",
    "ScoreSet",
    "Scores",
    "Table",
    "Texts",
    "choice_study",
    "compare_metrics",
    "find_test_set",
    "human_parity",
    "measure",
    "meta_evaluate",
    "read_folder",
    "read_own",
    "read_study",
]
