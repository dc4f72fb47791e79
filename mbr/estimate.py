"""The cost of a run before it runs: pairs, tokens, time and memory.

All lists are read and counted; a random sample of them is scored, and the time and tokens of its pairs are scaled up.
The number of pairs that an adaptive strategy takes is estimated by decoding a few lists of the sample. Memory is what
this process took at its peak to load the models and score the sample, and what a longer run holds beside that.
"""

from __future__ import annotations

import math
import random
import resource
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from candidates.formats import Record
from candidates.lists import CandidateList
from mbr.pipeline import WINDOW_LISTS, Decoder
from mbr.utilities import MatrixUtility, PairUtility, QualityUtility

SAMPLED_LISTS = 8
SAMPLED_CANDIDATES = 24
DECODED_LISTS = 4  # of the sample, with an adaptive strategy
CACHED_TEXTS = 2**16  # texts that tokenizers remember, at most
BYTES_PER_TEXT = 400  # of objects and entries of tables, beside its letters
BYTES_PER_PAIR = 16  # of a matrix, its mask and the weights of a row


@dataclass(frozen=True)
class Estimate:
    """Counts are exact; seconds and tokens are scaled up from a sample.

    `seconds` is None where a server scores the pairs: no request is sent to find out. `pairs_at_most` differs from
    `pairs` where the strategy is adaptive. `memory_bytes` is the peak of the process, `device_bytes` what models take
    on a device of their own, None without one.
    """

    segments: int
    bad_segments: int
    candidates: int
    unique: int
    pairs: int
    pairs_at_most: int
    tokens: int | None
    seconds: float | None
    memory_bytes: int
    device_bytes: int | None = None

    def __str__(self) -> str:
        tokens = "no model tokens" if self.tokens is None else f"about {self.tokens:,} tokens"
        device = "" if self.device_bytes is None else f", and {_size(self.device_bytes)} on the device"
        adaptive = self.pairs < self.pairs_at_most
        pairs = f"about {self.pairs:,}, at most {self.pairs_at_most:,}" if adaptive else f"{self.pairs:,}"
        bad = f" ({self.bad_segments} unusable)" if self.bad_segments else ""
        return (
            f"segments    {self.segments:,}{bad}\n"
            f"candidates  {self.candidates:,} ({self.unique:,} distinct)\n"
            f"pairs       {pairs} ({tokens})\n"
            f"time        {_time(self.seconds)}\n"
            f"memory      {_size(self.memory_bytes)}{device}"
        )


def estimate(decoder: Decoder, records: Iterable[Record]) -> Estimate:
    draw = random.Random(1)
    segments = bad = scored = candidates = unique = letters = pairs = 0
    sample: list[CandidateList] = []
    for record in records:
        segments += 1
        if not isinstance(record, CandidateList):
            bad += 1
            continue
        candidates += sum(record.counts)
        unique += len(record)
        letters += sum(map(len, record.texts))
        pairs += decoder.passes(record)
        if not decoder.passes(record):
            continue
        scored += 1
        if len(sample) < SAMPLED_LISTS:
            sample.append(record)
        elif (place := draw.randrange(scored)) < SAMPLED_LISTS:
            sample[place] = record
    possible = pairs
    total = decoder.recipe.budget_total
    at_most = possible if total is None else min(possible, total)
    pairs = min(_likely(decoder, sample, possible), at_most)
    seconds, tokens, models = _measure(decoder, sample, pairs, possible)
    compared = [item for item in sample if len(item) > 1]
    share = scored / max(len(compared), 1)
    for score, cost in _single_candidate_work(decoder):
        began = time.perf_counter()
        score(compared)
        seconds += (time.perf_counter() - began) * share
        costs = cost(compared)
        if "tokens" in costs:
            tokens = (tokens or 0) + round(costs["tokens"] * share)
        if "memory_bytes" in costs:
            models = (models or 0) + costs["memory_bytes"]
    memory = _peak_bytes() + _held_bytes(decoder, sample, scored, unique, letters)
    on_device = models if decoder.utility.on_gpu and not decoder.utility.remote else None
    spent = None if decoder.utility.remote else seconds
    return Estimate(segments, bad, candidates, unique, pairs, at_most, tokens, spent, memory, on_device)


def _peak_bytes() -> int:
    """The most memory that this process had so far, shared libraries included."""
    try:
        # Unlike getrusage this does not count the process that started ours.
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return 1024 * int(status.partition("VmHWM:")[2].split(maxsplit=1)[0])
    except (OSError, ValueError, IndexError):  # no Linux
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else 1024 * peak


def _held_bytes(decoder: Decoder, sample: list[CandidateList], lists: int, texts: int, letters: int) -> int:
    """What a run holds beside its models: the lists of a window with their matrices, and texts in caches."""
    if not sample:
        return 0
    per_text = BYTES_PER_TEXT + 2 * letters // texts
    sizes = [decoder.kept(item) for item in sample]
    per_round = [
        decoder.passes(item) / max(decoder.strategy.rounds(size), 1) for item, size in zip(sample, sizes, strict=True)
    ]
    window = min(lists, WINDOW_LISTS, math.ceil(decoder.utility.window_passes * len(sample) / max(sum(per_round), 1)))
    if decoder.recipe.budget_total is not None:
        window = lists  # all are read first
    per_list = sum(BYTES_PER_PAIR * size**2 + per_text * len(item) for item, size in zip(sample, sizes, strict=True))
    return window * per_list // len(sample) + per_text * min(texts, CACHED_TEXTS)


def _single_candidate_work(decoder: Decoder) -> list[tuple[Callable[[list[CandidateList]], Any], Any]]:
    """Functions that score single candidates, each with one that returns its cost: the prefilter and the terms."""
    stages: list[tuple[Callable[[list[CandidateList]], Any], Any]] = []
    if decoder.prefilter is not None:
        stages.append((decoder.prefilter.score, decoder.prefilter.cost))
    for weighted in decoder.terms:
        stages.append((partial(weighted.term.values, references=decoder.recipe.references), weighted.term.cost))
    return stages


def _likely(decoder: Decoder, sample: list[CandidateList], at_most: int) -> int:
    """Pairs in total, if the other lists take the same share of their largest number as those of the sample."""
    some = [item for item in sample if decoder.passes(item)][:DECODED_LISTS]
    if not (decoder.strategy.adaptive and some) or decoder.utility.remote:
        return at_most
    some_decoder = _without_total(decoder)
    spent = sum(decision.passes for window in some_decoder.windows(some) for decision in window)
    return min(round(at_most * spent / sum(map(some_decoder.passes, some))), at_most)


def _measure(
    decoder: Decoder, sample: list[CandidateList], pairs: int, possible: int
) -> tuple[float, int | None, int | None]:
    """Seconds, tokens and memory for `pairs` pairs; a utility that computes matrices scores all `possible` ones."""
    if not pairs:
        return 0.0, None, None
    sample = [item.take(range(decoder.kept(item))) for item in sample]
    if decoder.strategy.asks != "pairs":
        return _measure_each(decoder, sample, pairs)
    if isinstance(decoder.utility, MatrixUtility):
        began = time.perf_counter()
        for item in sample:
            decoder.utility.matrix(item.source, item.texts, item.texts)
        share = possible / max(sum(decoder.passes(item) for item in sample), 1)
        seconds = (time.perf_counter() - began) * share
        costs = [decoder.utility.cost(item.source, item.texts, item.texts) for item in sample]
        tokens = round(sum(cost["tokens"] for cost in costs) * share) if "tokens" in costs[0] else None
        return seconds, tokens, costs[0].get("memory_bytes")
    assert isinstance(decoder.utility, PairUtility)
    triples = []
    for item in sample:
        step = max(len(item) // SAMPLED_CANDIDATES, 1)
        texts = item.texts[::step]
        triples += [(item.source, a, b) for place, a in enumerate(texts) for b in texts[place + 1 :]]
    began = time.perf_counter()
    if not decoder.utility.remote:
        decoder.utility.score_pairs(triples)
    seconds = (time.perf_counter() - began) * pairs / max(len(triples), 1)
    cost = decoder.utility.cost(triples)
    tokens = round(cost["tokens"] * pairs / max(len(triples), 1)) if "tokens" in cost else None
    return seconds, tokens, cost.get("memory_bytes")


def _measure_each(decoder: Decoder, sample: list[CandidateList], passes: int) -> tuple[float, int | None, int | None]:
    """The same where each candidate is scored once, by decoding the sample."""
    some = [item for item in sample if len(item) > 1]
    began = time.perf_counter()
    for _ in replace(_without_total(decoder), prefilter=None).windows(some):
        pass
    seconds = time.perf_counter() - began
    share = passes / max(sum(map(len, some)), 1)
    if isinstance(decoder.utility, QualityUtility):
        cost = decoder.utility.cost([(item.source, text) for item in some for text in item.texts])
    else:
        assert isinstance(decoder.utility, MatrixUtility)
        costs = [decoder.utility.cost(item.source, item.texts, item.texts) for item in some]
        cost = {key: sum(each[key] for each in costs) if key == "tokens" else costs[0][key] for key in costs[0]}
    tokens = round(cost["tokens"] * share) if "tokens" in cost else None
    return seconds * share, tokens, cost.get("memory_bytes")


def _without_total(decoder: Decoder) -> Decoder:
    """The same decoder without a budget for all lists, to decode some of them."""
    return replace(decoder, recipe=replace(decoder.recipe, budget_total=None), on_error="skip", models=None)


def _size(memory: int) -> str:
    return f"about {memory / 2**30:.1f} GiB" if memory >= 2**30 else f"about {math.ceil(memory / 2**20)} MiB"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "that of a request to the server for each pair, which was not tried"
    return f"about {_duration(seconds)} on this machine, loading not counted"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
