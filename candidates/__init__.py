"""Candidate lists: one source sentence, many translations, from files or (later) from a translation model.

>>> from candidates import read_lists
>>> for item in read_lists("lists.jsonl"):      # doctest: +SKIP
...     print(item.source, len(item))
"""

from candidates.errors import MbrError
from candidates.files import BadRecord, Record, read_lists
from candidates.lists import Candidate, CandidateList
from candidates.writing import write_lists

__all__ = ["BadRecord", "Candidate", "CandidateList", "MbrError", "Record", "read_lists", "write_lists"]
