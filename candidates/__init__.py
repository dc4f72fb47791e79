"""Candidate lists: one source sentence, many translations, from a translation model or from files.

>>> from candidates import Settings, open_generator
>>> with open_generator(Settings(nbest=100)) as generator:      # doctest: +SKIP
...     for item in generator.generate(["A dog runs."]):
...         print(item.source, len(item))
"""

from candidates.common.errors import MbrError
from candidates.formats import BadRecord, Record, read_lists, write_lists
from candidates.generation import Generator, Settings, open_generator
from candidates.lists import Candidate, CandidateList, Origin

__all__ = [
    "BadRecord",
    "Candidate",
    "CandidateList",
    "Generator",
    "MbrError",
    "Origin",
    "Record",
    "Settings",
    "open_generator",
    "read_lists",
    "write_lists",
]
