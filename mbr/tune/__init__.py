"""Weights of a recipe, learnt from candidate lists with references."""

from mbr.tune.gains import Gain, Row
from mbr.tune.tuning import Work, tune
from mbr.tune.values import Tuned, Weight

__all__ = ["Gain", "Row", "Tuned", "Weight", "Work", "tune"]
