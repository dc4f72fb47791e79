"""How good are these translations, and is one system really better than another?

Outputs of systems go in; scores by several judges come out, with intervals, tests against a baseline and checks.

    >>> from mbr.evaluate import evaluate
    >>> evaluation = evaluate({"a": ["Ein Hund."]}, ["chrf"], references=[["Der Hund."]])
    >>> round(evaluation.judges[0].scores["a"].score, 2)
    57.51

| module | turns | into |
| --- | --- | --- |
| `base` | | what a judge is: statistics per segment, and scores of summed statistics |
| `judges` | `chrf`, `xcomet=FOLDER` | a judge |
| `lexical`, `neural` | texts | those statistics, through sacrebleu and `mbr.metrics` |
| `pairwise` | texts and an anchor | the same of a comparison: PEAR against the baseline or the reference |
| `residual` | a judge and RESUME | a judge: metric + weight * RESUME |
| `judging` | judge and rows | statistics, of which `mbr.cache.judgements` keeps each |
| `statistics` | statistics of systems | intervals and p-values |
| `checks` | sources and outputs | empty, copied, cut off; numbers, length |
| `evaluation` | systems and judges | one `Evaluation` |
"""

from __future__ import annotations

from mbr.evaluate.base import Judge
from mbr.evaluate.evaluation import Evaluation, JudgeResult, SystemScore, evaluate
from mbr.evaluate.judges import JudgeSpec, judge_names, parse_judges

__all__ = [
    "Evaluation",
    "Judge",
    "JudgeResult",
    "JudgeSpec",
    "SystemScore",
    "evaluate",
    "judge_names",
    "parse_judges",
]
