"""Training data for pairwise metrics: judgments in, pairs out, and damaged translations with known grades.

`judgments` reads what annotation campaigns publish, `pairs` groups, splits and samples, `statistics` describes the
result for a model card, `corruptions` damages good translations by degrees, to train on and to diagnose a metric.
"""

from pear.data.corruptions import GRADES, KINDS, Corruption, corrupt, corrupted, diagnose
from pear.data.judgments import FORMATS, Judgment, average_raters, guess_format, read_judgments
from pear.data.mqm import gemba_score, mqm_weight
from pear.data.pairs import Group, Pair, group, sample_pairs, split
from pear.data.record import Words
from pear.data.statistics import describe, summary

__all__ = [
    "FORMATS",
    "GRADES",
    "KINDS",
    "Corruption",
    "Group",
    "Judgment",
    "Pair",
    "Words",
    "average_raters",
    "corrupt",
    "corrupted",
    "describe",
    "diagnose",
    "gemba_score",
    "group",
    "guess_format",
    "mqm_weight",
    "read_judgments",
    "sample_pairs",
    "split",
    "summary",
]
