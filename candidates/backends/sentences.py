"""Sentences of a source line, and candidates of the whole line from those of its sentences.

Models that were trained on sentences leave out most of a line that holds several. So each sentence is translated by
itself, and the candidates of the line are combinations of theirs: the most likely ones of beams; samples one by one.

The rules of `split_sentences` need no language, and prefer no split to a doubtful one: a sentence goes on after an
abbreviation, an initial, an acronym, a German ordinal ("am 3. Oktober"), the number of a list item, and before a word
in lower case.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from itertools import accumulate

from candidates.lists import Candidate
from candidates.settings import Settings

_STOPS = ".!?…؟۔।॥։።។"
_WIDE_STOPS = "。！？｡"
_END = re.compile(rf"""(?<![{_STOPS}])[{_STOPS}]+["'”’“»«)\]}}›‹]*(?:\s»)?(?=\s)|[{_WIDE_STOPS}]+[」』”’）]*""")
_WORD = re.compile(r"\w")
_NEXT_WORD = re.compile(r"\W{0,20}(\w)")
_BRACKETS = {"「": 1, "『": 1, "（": 1, "」": -1, "』": -1, "）": -1}
_LOOK_BACK = 60
_ACRONYM = re.compile(r"(?!I$)(?:\w\.)*[^\W\d_]")  # without its last stop; one letter is an initial
_ORDINAL = re.compile(r"\b(?:am|der|die|das|den|dem|des|im|vom|zum|zur|beim|seit|ab)\s+\d{1,2}$", re.IGNORECASE)
# No sentence ends after these, whatever follows.
_ABBREVIATIONS = """
    mr mrs ms dr prof st sr jr mt ft gen col lt sgt capt cmdr adm maj rev hon gov sen rep pres messrs mme mlle
    vs cf ca approx eg ie viz al hr hrn fr frl dipl ing phil nat med bzw zb dh ua vgl evtl ggf inkl exkl sog geb gest
    bspw mio mrd sra srta dra dña ud uds vd dott sig sigg mgr ул пр тел гр св
"""
# Nor after these, where a number follows.
_BEFORE_NUMBERS = """
    no nos nr nrn num núm fig figs abb tab kap bd vol ch chap sec eq art arts abs pp pg par para ex op vv ver jan feb
    mar apr jun jul aug sep sept oct okt nov dec dez стр рис гл pág págs cap
"""
_NEVER_LAST = frozenset(_ABBREVIATIONS.split())
_NUMBERED = frozenset(_BEFORE_NUMBERS.split())


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without the white space between them; a text of one sentence is returned as it is.

    >>> split_sentences('Come in! "Sit down," said Dr. Smith at 3 p.m. sharp. He sat.')
    ['Come in!', '"Sit down," said Dr. Smith at 3 p.m. sharp.', 'He sat.']
    """
    sentences = []
    begin = seen = brackets = 0  # everything that grows with the text is counted once: lines may be megabytes long
    words = False
    for match in _END.finditer(text):
        words = words or _WORD.search(text, seen, match.start()) is not None
        brackets += sum(_BRACKETS.get(letter, 0) for letter in text[seen : match.end()])
        seen = match.end()
        if words and brackets <= 0 and _ends_sentence(text, begin, match):
            sentences.append(text[begin:seen].strip())
            begin, brackets, words = seen, 0, False
    return [*sentences, text[begin:].strip()] if sentences else [text]


def _ends_sentence(text: str, begin: int, match: re.Match[str]) -> bool:
    following = _NEXT_WORD.match(text, match.end())
    if following is None or following[1].islower():
        return False
    stop = match.group()
    if stop[0] in _WIDE_STOPS:
        return stop[-1] in _WIDE_STOPS  # a quotation is often part of a longer sentence
    before = text[max(begin, match.start() - _LOOK_BACK) : match.start()]
    return stop != "." or not _goes_on(before.lstrip(), following[1])


def _goes_on(before: str, following: str) -> bool:
    """Whether a single full stop belongs to the word before it rather than to the sentence."""
    *_, word = before.split() or [""]
    word = word.lstrip("\"'”’“„»«‚‘([{›‹¿¡")
    spelled = word.lower().replace(".", "")
    if spelled in _NEVER_LAST or _ACRONYM.fullmatch(word) or (spelled in _NUMBERED and following.isdigit()):
        return True
    return word.isdigit() and (before == word or _ORDINAL.search(before) is not None)


def join_candidates(lists: Sequence[Sequence[Candidate]], settings: Settings) -> list[Candidate]:
    """Candidates of a whole line from the lists of its sentences; log-probabilities add up.

    Beams: the `nbest` most likely combinations, the join of the first candidates first. Samples: the first of every
    sentence together, the second of every sentence, and so on, which are samples of the whole line; a sentence with
    fewer of them repeats its last one.
    """
    if len(lists) == 1:
        return list(lists[0])
    if settings.method == "beam":
        places = best_combinations([[entry.logprob or 0.0 for entry in entries] for entries in lists], settings.nbest)
    else:
        longest = max(map(len, lists))
        places = [[min(place, len(entries) - 1) for entries in lists] for place in range(longest)]
    return [_joined([entries[place] for entries, place in zip(lists, row, strict=True)]) for row in places]


def best_combinations(logprobs: Sequence[Sequence[float]], count: int) -> list[list[int]]:
    """The `count` combinations of one place per list with the largest sums, largest first.

    A place is worth the least log-probability up to it: a beam is ordered by its length-normalised score, and no
    combination comes before one that has better places throughout. Lists are added one by one, the best `count` sums
    are kept, which is exact; O(lists * count * log(count)).
    """
    sums = [0.0]
    steps: list[list[tuple[int, int]]] = []  # for each list: the combination so far, and the place added to it
    for values in logprobs:
        worth = list(accumulate(values, min))
        heap = [(-(sums[0] + worth[0]), 0, 0)]
        best: list[tuple[float, int, int]] = []
        while heap and len(best) < count:
            cost, before, place = heapq.heappop(heap)
            best.append((-cost, before, place))
            if place + 1 < len(worth):
                heapq.heappush(heap, (-(sums[before] + worth[place + 1]), before, place + 1))
            if place == 0 and before + 1 < len(sums):
                heapq.heappush(heap, (-(sums[before + 1] + worth[0]), before + 1, 0))
        sums = [total for total, _, _ in best]
        steps.append([(before, place) for _, before, place in best])
    combinations = []
    for row in range(len(sums)):
        combination = []
        for step in reversed(steps):
            row, place = step[row]
            combination.append(place)
        combinations.append(combination[::-1])
    return combinations


def _joined(parts: Sequence[Candidate]) -> Candidate:
    """Sentences with a space between them, but for scripts whose full stop is as wide as a letter."""
    text = ""
    for part in parts:
        text += " " * bool(text and part.text and text[-1] not in _WIDE_STOPS + "」』）") + part.text
    logprobs = [part.logprob for part in parts if part.logprob is not None]
    return Candidate(text, sum(logprobs) if len(logprobs) == len(parts) else None)
