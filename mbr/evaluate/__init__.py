"""How good are these translations, and is one system really better than another?

Texts go in, scores by several judges come out: with intervals, tests against a baseline, and checks of the outputs.

    >>> from mbr.evaluate import evaluate
    >>> done = evaluate({"a": ["Ein Hund."]}, ["chrf"], references=[["Der Hund."]])
    >>> round(done.judges[0].scores["a"].score, 2)
    57.51

| module | turns | into |
| --- | --- | --- |
| `judges` | `chrf`, `xcomet=FOLDER` | a judge: statistics per segment, and scores of summed statistics |
| `lexical`, `neural` | texts | those statistics, through sacrebleu and `mbr.metrics` |
| `cache` | judge and texts | statistics that were computed before |
| `statistics` | statistics of systems | intervals and p-values |
| `checks` | sources and outputs | empty, copied, cut off; numbers, length |
| `evaluation` | systems and judges | one `Evaluation` |
"""

from __future__ import annotations

from mbr.evaluate.evaluation import Evaluation, JudgeResult, SystemScore, evaluate
from mbr.evaluate.judges import Judge, JudgeSpec, judge_names, parse_judges

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
