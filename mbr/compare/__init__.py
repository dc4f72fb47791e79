"""Which utility, strategy and terms, and at what cost? Several settings on the same lists, judged and drawn.

    >>> from candidates.lists import CandidateList
    >>> from mbr.compare import compare, parse_settings
    >>> lists = [CandidateList.of("A dog.", ["Ein Hund.", "Der Hund.", "Ein Hund"])]
    >>> done = compare(lists, parse_settings(["chrf", "bleu"]), ["chrf"], references=[["Ein Hund."]])
    >>> [row.label for row in done.rows]
    ['first candidate', 'random candidate', 'chrf', 'bleu', 'oracle (chrf)']

| module | turns | into |
| --- | --- | --- |
| `settings` | `pear,strategy=half,add=logprob:6` | a `Setting`: a recipe with a label |
| `rows` | lists | choices without a utility: first, random, oracle |
| `deciding` | lists and settings | decisions and their cost |
| `agreement` | decisions of several settings | same choice, rank correlation, regret of one under another |
| `study` | a few lists | complete matrices in both orders, regret against passes |
| `comparison` | all of it | one `Comparison` |
| `summary`, `document`, `page` | a `Comparison` | sentences, JSON, one HTML page |
| `presets` | `pear-table2` | an experiment by name |
"""

from __future__ import annotations

from mbr.compare.comparison import Comparison, Row, compare
from mbr.compare.settings import Setting, parse_settings

__all__ = ["Comparison", "Row", "Setting", "compare", "parse_settings"]
