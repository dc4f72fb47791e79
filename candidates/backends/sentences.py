"""Splitting a long source into sentences, and joining their candidates again.

The rule is short on purpose: a sentence ends at `.`, `!`, `?`, `…` (closing quotes and brackets included) before white
space and something that is not one of a to z, or right after `。`, `！`, `？`. It knows no abbreviations; "Dr. Smith" is
split, which costs the model some context and loses no text.
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Sequence

from candidates.lists import Candidate

_END = re.compile(r"""(?<=[.!?…])["'”’»)\]]*\s+(?=[^\sa-z])|(?<=[。！？])""")


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without the white space between them.

    >>> split_sentences('Come in! "Sit down." He sat.')
    ['Come in!', '"Sit down."', 'He sat.']
    """
    sentences = []
    begin = 0
    for match in _END.finditer(text):
        end = match.start() + len(match.group().rstrip())
        sentences.append(text[begin:end])
        begin = match.end()
    sentences.append(text[begin:])
    return [sentence.strip() for sentence in sentences if sentence.strip()] or [text]


def join_candidates(lists: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """Candidates of a whole text: the first of every sentence together, the second of every sentence, and so on.

    A sentence with fewer candidates repeats its last one. Log-probabilities add up.
    """
    if len(lists) == 1:
        return list(lists[0])
    joined = []
    for place in range(max(map(len, lists))):
        parts = [candidates[min(place, len(candidates) - 1)] for candidates in lists]
        logprobs = [part.logprob for part in parts if part.logprob is not None]
        total = sum(logprobs) if len(logprobs) == len(parts) else None
        joined.append(Candidate(" ".join(part.text for part in parts if part.text), total))
    return joined
